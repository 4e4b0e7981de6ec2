//! A process that writes is killed at a random moment, again and again; whatever the database acknowledged
//! before must be there after, and nothing half done.
//!
//! `CAIRNDB_KILLS` says how often, `CAIRNDB_SEED` replays the decisions (though not the moment of a kill in the
//! stream of writes, which is the scheduler's).

mod oracle;

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairndb_tests::choices::{Choices, SEED_VARIABLE, mix, number_from_environment, seed};
use cairndb_tests::journal::Record;
use cairndb_tests::scratch::{Place, Scratch};
use cairndb_tests::workload;

use crate::oracle::Oracle;

const KILLS_DEFAULT: u64 = 200;
/// A folder is left after so many kills, because a proof of everything takes longer the more there is.
const KILLS_PER_FOLDER: u64 = 25;
/// Folders that are worked on side by side.
const LANES: u64 = 2;
/// No child takes so long to open a folder, busy machine or not.
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);

/// What killing came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    kills: u64,
    /// Kills before the database was open.
    kills_while_opening: u64,
    acknowledged: u64,
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let folders = kills.div_ceil(KILLS_PER_FOLDER);
    let work_on = |folder: u64| {
        let kills = KILLS_PER_FOLDER.min(kills - folder * KILLS_PER_FOLDER);
        let outcome = kill_repeatedly(mix(seed ^ folder), kills, "none");
        outcome.unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    };
    let work_on_lane =
        |lane| -> Vec<Tally> { (0..folders).filter(|folder| folder % LANES == lane).map(work_on).collect() };
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || work_on_lane(lane))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("the lane found no fault")).collect()
    });
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    say(&format!(
        "crash: {} kills, {} of them while opening; {} acknowledged operations checked in {:.0} s; {SEED_VARIABLE}={seed}",
        sum(|tally| tally.kills),
        sum(|tally| tally.kills_while_opening),
        sum(|tally| tally.acknowledged),
        started.elapsed().as_secs_f64()
    ));
    assert_eq!(sum(|tally| tally.kills), kills);
    assert!(sum(|tally| tally.acknowledged) > kills, "the children hardly wrote");
}

#[test]
fn a_writer_that_acknowledges_before_it_writes_is_found_out() {
    let fault =
        kill_repeatedly(seed(), KILLS_PER_FOLDER, "acknowledge-first").expect_err("inserts were lost");
    assert!(fault.contains("is version 0, one of [1] was acknowledged"), "{fault}");
}

/// Kills children that write into one folder, and audits it after each.
fn kill_repeatedly(seed: u64, kills: u64, flaw: &str) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Place::Disk } else { Place::Memory });
    let mut oracle = Oracle::new();
    let mut tally = Tally::default();
    for life in 1..=kills {
        let (records, opened) = kill_one(&scratch.path(), (choices.number(), life), flaw, &mut choices)?;
        tally.kills += 1;
        tally.kills_while_opening += u64::from(!opened);
        for record in records {
            oracle.hear(record)?;
        }
        let client = workload::options(&mut choices)
            .open(scratch.path())
            .map_err(|error| format!("life {life}: the folder does not open: {error:?}"))?;
        oracle.audit(&client).map_err(|fault| format!("life {life}: {fault}"))?;
        if choices.one_in(2) {
            client.close().map_err(|error| format!("life {life}: {error:?}"))?;
        }
    }
    tally.acknowledged = oracle.acknowledged;
    Ok(tally)
}

/// Starts a child and kills it; gives its journal, and whether it got as far as opening the folder.
fn kill_one(
    folder: &Path,
    (seed, life): (u64, u64),
    flaw: &str,
    choices: &mut Choices,
) -> Result<(Vec<Record>, bool), String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_child"))
        .args(["write", &folder.to_string_lossy(), &seed.to_string(), &life.to_string(), flaw])
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
        return Err(format!("life {life}: the child ended by itself: {status}"));
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
                // Nobody listens any more when the child is to die while opening.
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

/// Past the test harness, which keeps what passing tests print to itself.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
