//! Processes that number documents are killed: no value is given twice but by starting over, and a gapless sequence
//! has no gap.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use cairndb::Client;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::journal::Record;
use cairndb_tests::numbered::Course;
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Medium, Scratch};
use cairndb_tests::workload;

use crate::crash::kill::kill_one;
use crate::crash::say;

const KILLS_DEFAULT: u64 = 60;
/// A folder is left after this number of kills, because a proof of everything lasts longer the more there is.
const KILLS_PER_FOLDER: u64 = 15;
/// Courses are counted from here where the sequence beside the collection is meant.
const SEQUENCES: u64 = 1000;

/// How often each value was acknowledged, by course.
#[derive(Default)]
struct Given {
    values: HashMap<u64, BTreeMap<i64, u64>>,
    total: u64,
    /// How often sequences started over.
    cycles: u64,
}

impl Given {
    /// Adds a record; an error if it alone is proof of a fault.
    fn hear(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Opened | Record::Closed => Ok(()),
            Record::Taken { course, value } => {
                self.total += 1;
                *self.values.entry(course).or_default().entry(value).or_default() += 1;
                Ok(())
            }
            Record::Fault => Err("the writing process met a fault".to_owned()),
            Record::Begun { .. }
            | Record::Done { .. }
            | Record::ManyBegun { .. }
            | Record::ManyDone { .. }
            | Record::Won { .. }
            | Record::IndexBegun { .. }
            | Record::IndexDone { .. }
            | Record::PassBegun
            | Record::PassDone
            | Record::SyncBegun { .. }
            | Record::SyncDone { .. }
            | Record::Shown { .. } => Err(format!("{record:?} is no record of this suite")),
        }
    }

    fn audit(&mut self, client: &Client) -> Result<(), String> {
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("verify found: {:?}", report.findings));
        }
        let sequences = client.database("numbered").list_sequences().run();
        let sequences = sequences.map_err(|error| format!("{error:?}"))?;
        self.cycles = 0;
        for (number, course) in (0..).zip(Course::all()) {
            // A child that died early had not made all.
            if !sequences.contains(&course.name()) {
                continue;
            }
            let stored = course.stored(client).map_err(|error| format!("{error:?}"))?;
            course.check(client, &stored)?;
            let mut times: HashMap<i64, u64> = HashMap::new();
            for (value, _) in stored {
                *times.entry(value).or_default() += 1;
            }
            let mut acknowledged = self.values.get(&number).into_iter().flatten();
            let is_lost =
                |(value, given): &(&i64, &u64)| times.get(*value).is_none_or(|times| times < *given);
            if let Some((value, given)) = acknowledged.find(is_lost) {
                let name = course.name();
                return Err(format!(
                    "{name}: {value} was acknowledged {given} times, and is stored less often"
                ));
            }
            self.cycles += self.audit_sequence(client, number, course)?;
        }
        Ok(())
    }

    /// The sequence beside a collection gave no value more often than it went around, and none of what comes next in this
    /// cycle; how often it started over.
    fn audit_sequence(&self, client: &Client, number: u64, course: Course) -> Result<u64, String> {
        let snapshot = course.sequence(client).snapshot().run().map_err(|error| format!("{error:?}"))?;
        let given = self.values.get(&(SEQUENCES + number)).into_iter().flatten();
        course.check_given(&snapshot, given.map(|(value, times)| (*value, *times)))?;
        Ok(u64::from(snapshot.cycled_count.unsigned_abs()))
    }
}

#[test]
fn no_value_comes_twice_in_a_cycle_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let folders = kills.div_ceil(KILLS_PER_FOLDER);
    let given = on_lanes(folders, |folder| {
        let kills = KILLS_PER_FOLDER.min(kills - folder * KILLS_PER_FOLDER);
        kill_repeatedly(part(!seed, folder), kills)
            .unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    });
    let cycles: u64 = given.iter().map(|(_, cycles)| cycles).sum();
    let given: u64 = given.iter().map(|(given, _)| given).sum();
    say(&format!(
        "numbered: {kills} kills; {given} values of {cycles} cycles checked in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(given > kills, "the children hardly numbered");
    assert!(cycles > 0, "no sequence started over");
}

/// Kills children that number in one folder, and audits it after each; how many values they were given, and how
/// often the sequences beside the collections started over.
fn kill_repeatedly(seed: u64, kills: u64) -> Result<(u64, u64), String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Medium::Disk } else { Medium::Memory });
    let mut given = Given::default();
    for life in 1..=kills {
        let in_life = |fault: String| format!("life {life}: {fault}");
        let (folder, seed) = (scratch.path(), choices.number().to_string());
        let (records, _) =
            kill_one(&["number", &folder.to_string_lossy(), &seed], &mut choices).map_err(in_life)?;
        for record in records {
            given.hear(record).map_err(in_life)?;
        }
        let client = workload::options(&mut choices)
            .open(scratch.path())
            .map_err(|error| in_life(format!("the folder does not open: {error:?}")))?;
        given.audit(&client).map_err(in_life)?;
        if choices.one_in(2) {
            client.close().map_err(|error| in_life(format!("{error:?}")))?;
        }
    }
    Ok((given.total, given.cycles))
}
