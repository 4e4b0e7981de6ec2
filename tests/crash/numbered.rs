//! Processes that number documents are killed: no value is ever given twice, and a gapless sequence has no gap.

use std::collections::HashSet;
use std::time::Instant;

use cairndb::Client;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, mix, number_from_environment, seed};
use cairndb_tests::journal::Record;
use cairndb_tests::numbered::Course;
use cairndb_tests::scratch::{Place, Scratch};
use cairndb_tests::workload;

use crate::kill::{kill_one, on_lanes};
use crate::say;

const KILLS_DEFAULT: u64 = 60;
/// A folder is left after so many kills, because a proof of everything takes longer the more there is.
const KILLS_PER_FOLDER: u64 = 15;
/// Courses are counted from here where the sequence beside the collection is meant.
const SEQUENCES: u64 = 1000;

/// Every value that was acknowledged, by course.
#[derive(Default)]
struct Given {
    values: HashSet<(u64, i64)>,
}

impl Given {
    /// Takes a record in; an error if it alone is proof of a fault.
    fn hear(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Opened => Ok(()),
            Record::Taken { course, value } => {
                if self.values.insert((course, value)) {
                    return Ok(());
                }
                Err(format!("{value} of course {course} was given twice"))
            }
            Record::Fault => Err("the writing process met a fault".to_owned()),
            Record::Begun { .. }
            | Record::Done { .. }
            | Record::ManyBegun { .. }
            | Record::ManyDone { .. }
            | Record::Won { .. }
            | Record::IndexBegun { .. }
            | Record::IndexDone { .. } => Err(format!("{record:?} is no record of this suite")),
        }
    }

    fn audit(&self, client: &Client) -> Result<(), String> {
        let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
        if !report.is_clean() {
            return Err(format!("verify found: {:?}", report.findings));
        }
        let sequences = client.database("numbered").list_sequences().run();
        let sequences = sequences.map_err(|error| format!("{error:?}"))?;
        for (number, course) in (0..).zip(Course::all()) {
            // A child that died early had not made all.
            if !sequences.contains(&course.name()) {
                continue;
            }
            let stored = course.stored(client).map_err(|error| format!("{error:?}"))?;
            course.check(client, &stored)?;
            let stored: HashSet<i64> = stored.into_iter().map(|(value, _)| value).collect();
            let own = self.values.iter().filter(|(course, _)| *course == number);
            if let Some((_, value)) = own.into_iter().find(|(_, value)| !stored.contains(value)) {
                return Err(format!("{}: {value} was acknowledged and is not stored", course.name()));
            }
            self.audit_sequence(client, number, course)?;
        }
        Ok(())
    }

    /// What comes next of the sequence beside a collection is no value that was given before.
    fn audit_sequence(&self, client: &Client, number: u64, course: Course) -> Result<(), String> {
        let snapshot = course.sequence(client).snapshot().run().map_err(|error| format!("{error:?}"))?;
        let given = self.values.iter().filter(|(course, _)| *course == SEQUENCES + number);
        let furthest = given.map(|(_, value)| *value).max_by_key(|value| value * course.direction());
        match furthest {
            Some(value) if (snapshot.current_value - value) * course.direction() < 0 => {
                Err(format!("{}: {value} was given, and it stands at {snapshot:?}", course.name()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[test]
fn no_value_comes_twice_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let folders = kills.div_ceil(KILLS_PER_FOLDER);
    let given = on_lanes(folders, |folder| {
        let kills = KILLS_PER_FOLDER.min(kills - folder * KILLS_PER_FOLDER);
        kill_repeatedly(mix(!seed ^ folder), kills)
            .unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    });
    let given: u64 = given.into_iter().sum();
    say(&format!(
        "numbered: {kills} kills; {given} values checked in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
    assert!(given > kills, "the children hardly numbered");
}

/// Kills children that number in one folder, and audits it after each; how many values they were given.
fn kill_repeatedly(seed: u64, kills: u64) -> Result<u64, String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Place::Disk } else { Place::Memory });
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
    Ok(given.values.len() as u64)
}
