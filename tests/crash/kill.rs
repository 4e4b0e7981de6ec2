//! Starting children, killing them at a random moment, and reading what they journaled until then.

use std::io::{self, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb_tests::choices::Choices;
use cairndb_tests::journal::Record;

/// No child takes so long to open a folder, busy machine or not.
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);

/// Starts a child and kills it; gives its journal, and whether it got as far as opening the folder.
pub(crate) fn kill_one(arguments: &[&str], choices: &mut Choices) -> Result<(Vec<Record>, bool), String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_child"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the child does not start: {error}"))?;
    let (journal, opened) = read_journal(&mut child);
    // Some die while they open the folder, which is to say while they recover from the death before.
    let early = choices.one_in(4);
    let delay = Duration::from_micros(choices.below(if early { 40_000 } else { 120_000 }));
    if early || opened.recv_timeout(OPEN_TIME_MAX).is_ok() {
        wait(&opened, delay);
    }
    let ended = child.try_wait().map_err(|error| error.to_string())?;
    child
        .kill()
        .and_then(|()| child.wait())
        .map_err(|error| format!("the child cannot be killed: {error}"))?;
    let records = journal.join().expect("the reader does not panic").map_err(|error| error.to_string())?;
    if let Some(status) = ended {
        return Err(format!("the child ended by itself: {status}"));
    }
    let opened = records.contains(&Record::Opened);
    Ok((records, opened))
}

type Journal = JoinHandle<io::Result<Vec<Record>>>;

/// Reads to the end, which comes with the child's; the channel tells when the folder is open.
fn read_journal(child: &mut Child) -> (Journal, Receiver<()>) {
    let mut pipe = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let (opened, is_open) = channel();
    let thread = std::thread::spawn(move || {
        let mut records = Vec::new();
        while let Some(record) = Record::read_from(&mut pipe)? {
            if record == Record::Opened {
                // No process listens any more when the child is to die while opening.
                let _ = opened.send(());
            }
            records.push(record);
        }
        Ok(records)
    });
    (thread, is_open)
}

/// Lets the child work for a while, or until it ends by itself.
fn wait(child: &Receiver<()>, time: Duration) {
    let end = Instant::now() + time;
    while child.recv_timeout(end.saturating_duration_since(Instant::now())) == Ok(()) {}
}
