//! The end of the log is torn off, at every byte: what survives is numbered below what comes next, without a value
//! twice, and without a gap where that is promised.
//!
//! `CAIRNDB_TEAR_STEP` says by how many bytes one cut lies before the next.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairndb::bson::doc;
use cairndb::{Client, Durability};
use cairndb_tests::choices::number_from_environment;
use cairndb_tests::numbered::Course;
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Scratch, small};

use crate::crash::say;

/// Courses that share a log. Few, because every cut opens the folder once; together they have every size with every
/// direction, and every contract with each of both.
const LOGS: [[&str; 3]; 3] = [
    ["fast-Up-1-1", "ordered-Down-10-3", "gapless-Cycled-1000-1000"],
    ["fast-Down-1000-1000", "ordered-Cycled-1-1", "gapless-Up-10-3"],
    ["fast-Cycled-10-3", "ordered-Up-1000-1000", "gapless-Down-1-1"],
];

fn courses(names: [&str; 3]) -> Vec<Course> {
    let courses: Vec<Course> =
        Course::all().into_iter().filter(|course| names.contains(&course.name().as_str())).collect();
    assert_eq!(courses.len(), names.len());
    courses
}

/// The log that is written to.
fn newest_log(scratch: &Scratch) -> PathBuf {
    let entries = fs::read_dir(scratch.path()).expect("the database is a folder");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.max().expect("the database has a log")
}

fn log_bytes(scratch: &Scratch) -> u64 {
    fs::metadata(newest_log(scratch)).expect("the log is a file").len()
}

/// Single documents, batches, and values ahead, so that reserves and documents of all courses lie mixed in the log.
fn work(client: &Client, courses: &[Course]) {
    for round in 0..3_i64 {
        for course in courses {
            let things = course.collection(client);
            let last = things.insert_one(doc! {}).run().expect("stored").last_generate_id.expect("a value");
            if round == 1 && course.takes_values() {
                things
                    .insert_one(doc! { "n": course.behind(last) + 8 * course.direction() })
                    .run()
                    .expect("stored");
            }
            if round > 1 {
                things.insert_many(vec![doc! {}; 2]).run().expect("stored");
            }
        }
    }
}

/// Opens the folder as it would be with `bytes` bytes of its log; how many documents survived.
fn cut(killed: &Scratch, courses: &[Course], bytes: u64) -> usize {
    let scratch = killed.killed();
    let log = fs::OpenOptions::new().write(true).open(newest_log(&scratch)).expect("the log is a file");
    log.set_len(bytes).expect("the log is cut");
    let client = scratch.open();
    let mut survived = 0;
    for course in courses {
        let fault = |fault: String| panic!("cut at byte {bytes}: {fault}");
        let stored = course.stored(&client).expect("documents are read");
        course.check(&client, &stored).unwrap_or_else(fault);
        survived += stored.len();
        let things = course.collection(&client);
        things.insert_many(vec![doc! {}; 4]).run().expect("writes go on");
        let more = course.stored(&client).expect("documents are read");
        course.check(&client, &more).unwrap_or_else(fault);
        assert_eq!(more.len(), stored.len() + 4);
        let furthest = stored.last().map_or(i64::MIN, |(value, _)| value * course.direction());
        let beyond = more.iter().filter(|(value, _)| value * course.direction() > furthest).count();
        assert_eq!(beyond, 4, "cut at byte {bytes}: {} numbers on behind {furthest}", course.name());
    }
    let report = client.verify().expect("a report");
    assert!(report.is_clean(), "cut at byte {bytes}: {:?}", report.findings);
    survived
}

#[test]
fn a_torn_log_gives_no_value_twice() {
    let started = Instant::now();
    let cuts: usize = LOGS.into_iter().map(|names| tear(&courses(names))).sum();
    say(&format!("torn: {cuts} cuts in {:.0} s", started.elapsed().as_secs_f64()));
}

/// Cuts the log of these courses everywhere; how often.
fn tear(courses: &[Course]) -> usize {
    let scratch = Scratch::new();
    let buffered = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    // Nothing remembers how far the log went: what is torn off is a write that was never synced.
    let client = scratch.open_with(small().durability(buffered).witness(false));
    for course in courses {
        course.create(&client).expect("made");
    }
    let before = log_bytes(&scratch);
    work(&client, courses);
    let killed = scratch.killed();
    let after = log_bytes(&killed);
    let stored: usize =
        courses.iter().map(|course| course.stored(&client).expect("documents are read").len()).sum();
    drop(client);
    let step = number_from_environment("CAIRNDB_TEAR_STEP", 1);
    let cuts: Vec<u64> = (before..=after).rev().step_by(usize::try_from(step).expect("small")).collect();
    let survived = on_lanes(cuts.len() as u64, |number| {
        let bytes = *cuts.get(usize::try_from(number).expect("small")).expect("a cut of the list");
        (bytes, cut(&killed, courses, bytes))
    });
    let at = |wanted: u64| survived.iter().find(|(bytes, _)| *bytes == wanted).map(|(_, survived)| *survived);
    assert_eq!(at(after), Some(stored), "nothing is lost with the whole log");
    let least = survived.iter().map(|(_, survived)| *survived).min();
    assert_eq!(least, Some(0), "everything is lost with nothing of it");
    cuts.len()
}

/// The number of bytes of the log that a power failure leaves, if the writes up to this number were synced: up to the
/// end of the record with that write. Records are cut into fragments, which lie in blocks.
fn synced_bytes(log: &[u8], durable: u64) -> u64 {
    const BLOCK_BYTES: usize = 32 << 10;
    const HEADER_BYTES: usize = 7;
    const FULL: u8 = 1;
    const FIRST: u8 = 2;
    const LAST: u8 = 4;
    let (mut at, mut end, mut is_covered) = (0, 0, false);
    loop {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
            continue;
        }
        let Some(header) = log.get(at..at + HEADER_BYTES) else { return end };
        let length = header.get(4..6).and_then(|length| length.first_chunk()).expect("a length");
        let kind = *header.last().expect("a kind");
        let payload = at + HEADER_BYTES;
        at = payload + usize::from(u16::from_le_bytes(*length));
        if [FULL, FIRST].contains(&kind) {
            let Some(batch) = log.get(payload..payload + 12) else { return end };
            let (first, count) = batch.split_at(8);
            let first = u64::from_le_bytes(first.try_into().expect("a number"));
            let count = u32::from_le_bytes(count.try_into().expect("a count"));
            is_covered = first + u64::from(count) <= durable + 1;
        }
        if is_covered && [FULL, LAST].contains(&kind) {
            end = at as u64;
        }
    }
}

/// The folder as a power failure would leave it now: of its log only what was synced.
fn power_failure(scratch: &Scratch, client: &Client) -> Scratch {
    let begin = Instant::now();
    let (durable, left) = loop {
        let (durable, left) = (client.durable_seq(), scratch.killed());
        // A sync in the background may have come between: the files tell of it, and its writes would be cut off all the same.
        if client.durable_seq() == durable {
            break (durable, left);
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "a sync always comes between");
    };
    let log = newest_log(&left);
    let bytes = synced_bytes(&fs::read(&log).expect("the log is a file"), durable);
    let file = fs::OpenOptions::new().write(true).open(log).expect("the log is a file");
    file.set_len(bytes).expect("the log is cut");
    left
}

/// Numbers documents and draws values, none of which asks for a sync; after some of them the power fails. How many
/// values that had left came again.
fn values_that_come_again(course: Course) -> usize {
    let scratch = Scratch::new();
    let buffered = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    let client = scratch.open_with(small().durability(buffered));
    course.create(&client).expect("made");
    let (things, sequence) = (course.collection(&client), course.sequence(&client));
    let (mut numbered, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut again = 0;
    for round in 0..40 {
        for _ in 0..=round % 7 {
            numbered.extend(things.insert_one(doc! {}).run().expect("stored").last_generate_id);
            taken.insert(sequence.next_value().run().expect("a value"));
        }
        let many = things.insert_many(vec![doc! {}; 5]).run().expect("stored");
        numbered.extend(many.generated.values().filter_map(|values| values.get("n")));
        taken.extend(sequence.fetch(5).run().expect("values").values());
        if round % 9 == 4 {
            let last = *numbered.iter().max_by_key(|value| *value * course.direction()).expect("numbered");
            things
                .insert_one(doc! { "n": course.behind(last) + 20 * course.direction() })
                .run()
                .expect("stored");
        }
        if round % 3 != 0 {
            continue;
        }
        let left = power_failure(&scratch, &client);
        let after = left.open();
        assert!(after.verify().expect("a report").is_clean(), "{}: round {round}", course.name());
        let next = course.collection(&after).insert_one(doc! {}).run().expect("stored").last_generate_id;
        again += usize::from(numbered.contains(&next.expect("a value")));
        again += usize::from(taken.contains(&course.sequence(&after).next_value().run().expect("a value")));
    }
    again
}

#[test]
fn after_a_power_failure_no_value_comes_again() {
    for contract in ["fast", "ordered"] {
        for rest in ["Up-10-3", "Down-1000-1000", "Down-10-3", "Up-1000-1000"] {
            let name = format!("{contract}-{rest}");
            let course = Course::all().into_iter().find(|course| course.name() == name).expect("a course");
            assert_eq!(values_that_come_again(course), 0, "{name}");
        }
    }
}

/// If each value is a reserve of its own, it is as durable as the call that drew it.
#[test]
fn a_power_failure_takes_back_what_nobody_asked_to_sync() {
    for name in ["fast-Up-1-1", "gapless-Up-10-3"] {
        let course = Course::all().into_iter().find(|course| course.name() == name).expect("a course");
        assert!(values_that_come_again(course) > 0, "{name}: the cut takes nothing");
    }
}

/// The place where the record of the log ends that holds the format's stamp.
fn stamp_end(log: &[u8]) -> u64 {
    const HEADER_BYTES: usize = 7;
    // Length and text of the key, length of the value, the value.
    let stamp = [&[1, b'f', 4][..], &cairndb::FORMAT_VERSION.to_be_bytes()].concat();
    let mut at = 0;
    loop {
        let header = log.get(at..at + HEADER_BYTES).expect("a record holds the stamp");
        let length = header.get(4..6).and_then(|length| length.first_chunk()).expect("a length");
        let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes(*length));
        if log.get(at..end).expect("a whole record").windows(stamp.len()).any(|window| window == stamp) {
            return end as u64;
        }
        at = end;
    }
}

/// The part that was synced before cannot be torn off by a power failure. If it is gone all the same and there is no
/// witness, the folder opens in an older state; without the stamp it is rejected, because nothing says what the bytes
/// mean.
#[test]
fn a_log_that_is_torn_further_opens_unless_the_stamp_is_gone() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().witness(false));
    let courses = courses(LOGS[0]);
    for course in &courses {
        course.create(&client).expect("made");
    }
    work(&client, &courses);
    let killed = scratch.killed();
    drop(client);
    let log = fs::read(newest_log(&killed)).expect("the log is a file");
    let stamp = stamp_end(&log);
    let early = (0..stamp + 20).collect::<Vec<_>>();
    let cuts = early.into_iter().chain((stamp + 20..log.len() as u64).step_by(97));
    for bytes in cuts {
        let scratch = killed.killed();
        let log = fs::OpenOptions::new().write(true).open(newest_log(&scratch)).expect("the log is a file");
        log.set_len(bytes).expect("the log is cut");
        match small().open(scratch.path()) {
            Ok(client) => {
                assert!(bytes >= stamp, "cut at byte {bytes} of {stamp}: opened");
                assert!(client.verify().expect("a report").is_clean(), "cut at byte {bytes}");
            }
            Err(error) => {
                assert!(bytes < stamp && error.is_corruption(), "cut at byte {bytes} of {stamp}: {error:?}");
            }
        }
    }
}
