//! A process that is killed while it writes, and what is found afterwards.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::doc;
use cairndb::{Client, Contract};

use crate::WRITER;
use crate::numbering::{DATABASE, numbered, numbers};
use crate::outcome::Outcome;
use crate::program;
use crate::screen::{Screen, duration, grouped, line};

const COLLECTION: &str = "receipts";
const THREADS: i32 = 4;
/// How long the process writes, from its first acknowledged write on.
const LIFE: Duration = Duration::from_millis(700);

/// Has the process killed, and looks. Returns the client that is open afterwards.
pub(crate) fn show(screen: &mut Screen, folder: &Path) -> Outcome<Client> {
    screen.step("A process that is killed with SIGKILL in the middle of writing")?;
    let acknowledged = acknowledged(folder)?;
    let started = Instant::now();
    let client = Client::open(folder)?;
    let opened = started.elapsed();
    let receipts = client.database(DATABASE).collection(COLLECTION);
    let (found, kept) = numbers(&receipts)?;
    let lost = acknowledged.iter().filter(|number| !kept.contains(number)).count();
    let is_gapless = kept.iter().copied().eq(1..=found);
    line(&format!(
        "acknowledged before: {}; opened again in {}: {} lost, {} more were stored and not yet acknowledged",
        grouped(acknowledged.len() as u64),
        duration(opened),
        lost,
        kept.len() + lost - acknowledged.len()
    ))?;
    if lost > 0 || !is_gapless {
        return Err(format!("{lost} acknowledged documents are lost, gapless: {is_gapless}").into());
    }
    let next = receipts.insert_one(doc! { "after": "the kill" }).run()?.generated.get("number");
    if next != Some(found + 1) {
        return Err(format!("the sequence goes on with {next:?} after {found}").into());
    }
    let report = client.verify()?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("the store does not verify: {}: {}", finding.place, finding.problem).into());
    }
    line(&format!(
        "the gapless numbers go on with {}; verify read {} documents and {} index entries: nothing is wrong",
        grouped((found + 1).unsigned_abs()),
        grouped(report.documents),
        grouped(report.entries)
    ))?;
    Ok(client)
}

/// Starts the process, kills it, and returns the numbers of the documents that were acknowledged to it.
fn acknowledged(folder: &Path) -> Outcome<Vec<i64>> {
    let mut acknowledged = Vec::new();
    let mut command = program(WRITER, folder)?;
    let mut writer = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(writer.stdout.take().ok_or("the writer has no output")?);
    let mut started = None;
    let mut text = String::new();
    let mut is_killed = false;
    // What it has acknowledged before it died is in the pipe, and is read to the end.
    while lines.read_line(&mut text)? > 0 {
        // The last line may be cut.
        if let Some(number) = text.strip_suffix('\n') {
            acknowledged.push(number.parse::<i64>().map_err(|_| format!("the writer says {number:?}"))?);
        }
        text.clear();
        if started.get_or_insert_with(Instant::now).elapsed() > LIFE && !is_killed {
            writer.kill()?;
            is_killed = true;
        }
    }
    let ended = writer.wait_with_output()?;
    if !is_killed {
        let reason = String::from_utf8_lossy(&ended.stderr);
        let reason = reason.trim().trim_start_matches("demo: ");
        return Err(format!("the writer ended before it was killed: {reason}").into());
    }
    Ok(acknowledged)
}

/// The process: it inserts until it is killed, and prints the number of each document that was acknowledged.
pub(crate) fn write(folder: &Path) -> Outcome<()> {
    let client = Client::open(folder)?;
    let receipts = numbered(&client, COLLECTION, Contract::Gapless)?;
    let written = thread::scope(|scope| {
        let insert = |thread: i32| {
            let receipts = receipts.clone();
            move || -> Result<(), String> {
                loop {
                    let inserted = receipts.insert_one(doc! { "thread": thread }).run();
                    let inserted = inserted.map_err(|error| error.to_string())?;
                    let number = inserted.generated.get("number").unwrap_or_default();
                    // Its reader is gone: so is this process, then.
                    writeln!(io::stdout().lock(), "{number}").map_err(|error| error.to_string())?;
                }
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(insert(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    });
    written.map_err(Into::into)
}
