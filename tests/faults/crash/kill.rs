//! Starting children, killing them at a random moment, reading what they journaled until then, and comparing it with what
//! the folder has.

use std::io::{self, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, part};
use cairndb_tests::journal::Record;
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Medium, Scratch};
use cairndb_tests::workload;

/// No child needs so long to open a folder, busy machine or not.
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);
/// A child that needs longer until its folder is open is on a busy machine, where it lives longer too: once more for each such time.
const OPEN_TIME_USUAL: Duration = Duration::from_millis(200);
/// The number of times by which a child lives longer, at most.
const LONGER_MAX: u32 = 9;
/// Kills of one folder, before the next one begins.
const KILLS_PER_FOLDER: u64 = 8;

/// The work of children, and the content that must be there after it.
pub(crate) trait Audited: Default {
    /// The work of the child.
    const WORK: &'static str;

    /// Hears what the child has journaled.
    fn hear(&mut self, record: Record) -> Result<(), String>;

    /// Compares what was heard with what is there.
    fn audit(&mut self, client: &Client) -> Result<(), String>;
}

/// Kills processes that work on folders, several folders at a time, and gives what is known of each folder. A fault ends the
/// test. `turn` distinguishes suites of one seed.
pub(crate) fn kill_in_folders<O: Audited + Send>(seed: u64, turn: u32, kills: u64) -> Vec<O> {
    on_lanes(kills.div_ceil(KILLS_PER_FOLDER), |folder| {
        let kills = KILLS_PER_FOLDER.min(kills - folder * KILLS_PER_FOLDER);
        kill_repeatedly(part(seed.rotate_left(turn), folder), kills, "none")
            .unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    })
}

/// The fault that is found of processes that acknowledge what they have not done, in one of a few folders.
pub(crate) fn fault_of_early_answers<O: Audited>(seed: u64) -> Option<String> {
    fault_of_flaw::<O>(seed, "acknowledge-first")
}

/// The fault that is found of processes with a flaw, in one of a few folders.
pub(crate) fn fault_of_flaw<O: Audited>(seed: u64, flaw: &str) -> Option<String> {
    (0..8).find_map(|folder| kill_repeatedly::<O>(part(seed, folder), KILLS_PER_FOLDER, flaw).err())
}

/// Kills children that work in one folder, and audits it after each.
fn kill_repeatedly<O: Audited>(seed: u64, kills: u64, flaw: &str) -> Result<O, String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Medium::Disk } else { Medium::Memory });
    let mut oracle = O::default();
    for life in 1..=kills {
        let in_life = |fault: String| format!("life {life}: {fault}");
        let (folder, seed) = (scratch.path(), choices.number().to_string());
        let arguments = [O::WORK, &folder.to_string_lossy(), &seed, &life.to_string(), flaw];
        let (records, _) = kill_one(&arguments, &mut choices).map_err(in_life)?;
        for record in records {
            oracle.hear(record).map_err(in_life)?;
        }
        let opened = workload::options(&mut choices).open(&folder);
        let client = opened.map_err(|error| in_life(format!("the folder does not open: {error:?}")))?;
        oracle.audit(&client).map_err(in_life)?;
        if choices.one_in(2) {
            client.close().map_err(|error| in_life(format!("{error:?}")))?;
        }
    }
    Ok(oracle)
}

/// Starts a child and kills it; gives its journal, and whether it got as far as opening the folder.
pub(crate) fn kill_one(arguments: &[&str], choices: &mut Choices) -> Result<(Vec<Record>, bool), String> {
    let started = Instant::now();
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
    if early {
        wait(&opened, delay);
    } else if opened.recv_timeout(OPEN_TIME_MAX).is_ok() {
        let times = started.elapsed().as_millis() / OPEN_TIME_USUAL.as_millis();
        wait(&opened, delay * (1 + u32::try_from(times).unwrap_or(LONGER_MAX).min(LONGER_MAX)));
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

/// Reads to the end, which comes with the child's; the channel says when the folder is open.
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
