//! A process that writes is killed at a random moment, again and again; whatever the database acknowledged
//! before must be there after, and nothing half done.
//!
//! `CAIRNDB_KILLS` says how often, `CAIRNDB_SEED` replays the decisions (though not the moment of a kill in the
//! stream of writes, which is the scheduler's).

mod capping;
mod damage;
mod expiring;
mod kill;
mod numbered;
mod oracle;
mod replacing;
mod rows;
mod spending;
mod torn;
mod transacting;
mod uploading;

use std::io::{self, Write};
use std::time::Instant;

use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Medium, Scratch};
use cairndb_tests::workload;

use crate::crash::kill::kill_one;
use crate::crash::oracle::Oracle;

const KILLS_DEFAULT: u64 = 200;
/// A folder is left after this number of kills, because a proof of everything lasts longer the more there is.
const KILLS_PER_FOLDER: u64 = 25;

/// The result of killing.
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
        let outcome = kill_repeatedly(part(seed, folder), kills, "none");
        outcome.unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    };
    let tallies: Vec<Tally> = on_lanes(folders, work_on);
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
    let seed = seed();
    // A kill must fall between the word and the deed: one in some ten does, so a folder of kills may see none.
    let work_on = |folder: u64| kill_repeatedly(part(seed, folder), KILLS_PER_FOLDER, "acknowledge-first");
    let fault = (0..8).find_map(|folder| work_on(folder).err()).expect("inserts were lost");
    let is_lost = |versions: &str| fault.contains(&format!("is version 0, one of {versions}"));
    // An update may have been under way besides.
    assert!(is_lost("[1] was acknowledged") || is_lost("[1, "), "{fault}");
}

/// Kills children that write into one folder, and audits it after each.
fn kill_repeatedly(seed: u64, kills: u64, flaw: &str) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Medium::Disk } else { Medium::Memory });
    let mut oracle = Oracle::new();
    let mut tally = Tally::default();
    for life in 1..=kills {
        let (folder, seed) = (scratch.path(), choices.number().to_string());
        let arguments = ["write", &folder.to_string_lossy(), &seed, &life.to_string(), flaw];
        let killed = kill_one(&arguments, &mut choices);
        let (records, opened) = killed.map_err(|fault| format!("life {life}: {fault}"))?;
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

/// Past the test harness, which keeps what passing tests print to itself.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
