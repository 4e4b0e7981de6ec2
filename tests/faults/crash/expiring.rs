//! Processes that make TTL passes and build and drop indexes are killed: nothing is lost that had not expired, what a pass
//! was acknowledged to have deleted stays gone, and an index is there as a whole or not at all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::time::Instant;

use cairndb::Client;
use cairndb::bson::doc;
use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::expiring::{self, FIXED_COUNT, FIXED_TAGS, INSERTED, is_expiring};
use cairndb_tests::journal::Record;
use cairndb_tests::race::on_lanes;
use cairndb_tests::scratch::{Medium, Scratch, small};
use cairndb_tests::workload;

use crate::crash::kill::kill_one;
use crate::crash::oracle::compare_versions;
use crate::crash::say;

const KILLS_DEFAULT: u64 = 60;
/// A folder is left after this number of kills, because a proof of everything lasts longer the more there is.
const KILLS_PER_FOLDER: u64 = 15;
/// What an index build writes outside of the database's own files.
const BUILD_FOLDER: &str = "CAIRNDB.build-";

/// What must be in the database.
struct Oracle {
    /// The versions that a document may have. 0 is absent, which one that expires may be at any time.
    versions: HashMap<u64, BTreeSet<u64>>,
    /// Calls of `insert_many` that were under way: first tag and count.
    batches: HashSet<(u64, u64)>,
    /// The documents that the next pass has to delete.
    due: BTreeSet<u64>,
    /// Those of them that were there when the present pass began, and were not written since.
    in_pass: BTreeSet<u64>,
    /// Whether the index may be there, and whether it may be absent.
    toggled: Vec<bool>,
    tally: Tally,
}

/// What killing came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acknowledged: u64,
    passes: u64,
    kills_in_passes: u64,
    kills_in_builds: u64,
    kills_in_drops: u64,
}

impl Oracle {
    /// Makes the collection with its TTL index and the fixed documents.
    fn prepare(scratch: &Scratch) -> Self {
        let client = scratch.open_with(small().ttl_interval(None));
        let (events, fixed) = (expiring::events(&client), FIXED_TAGS..FIXED_TAGS + FIXED_COUNT);
        events.create_index(expiring::ttl_index()).run().expect("made");
        let documents = fixed.clone().map(|tag| expiring::document(tag, INSERTED));
        events.insert_many(documents).run().expect("stored");
        client.close().expect("closed");
        Self {
            versions: fixed.map(|tag| (tag, BTreeSet::from([INSERTED]))).collect(),
            batches: HashSet::new(),
            due: BTreeSet::new(),
            in_pass: BTreeSet::new(),
            toggled: vec![false],
            tally: Tally::default(),
        }
    }

    /// Adds what a process journaled until it was killed.
    fn hear(&mut self, records: &[Record]) -> Result<(), String> {
        for record in records {
            self.hear_one(*record)?;
        }
        let last = |is_one: fn(&Record) -> bool| records.iter().rev().find(|record| is_one(record));
        let index = last(|record| matches!(record, Record::IndexBegun { .. } | Record::IndexDone { .. }));
        let pass = last(|record| matches!(record, Record::PassBegun | Record::PassDone));
        self.tally.kills_in_builds += u64::from(index == Some(&Record::IndexBegun { exists: true }));
        self.tally.kills_in_drops += u64::from(index == Some(&Record::IndexBegun { exists: false }));
        self.tally.kills_in_passes += u64::from(pass == Some(&Record::PassBegun));
        Ok(())
    }

    fn hear_one(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Opened => {}
            Record::Begun { tag, version } => self.begin(tag, version),
            Record::Done { tag, version } => self.settle(tag, version),
            Record::ManyBegun { first, count } => {
                self.batches.insert((first, count));
                (first..first + count).for_each(|tag| self.begin(tag, INSERTED));
            }
            Record::ManyDone { first, count } => {
                self.batches.remove(&(first, count));
                (first..first + count).for_each(|tag| self.settle(tag, INSERTED));
            }
            Record::PassBegun => self.in_pass.clone_from(&self.due),
            Record::PassDone => {
                self.tally.passes += 1;
                for tag in std::mem::take(&mut self.in_pass) {
                    self.settle(tag, 0);
                }
            }
            Record::IndexBegun { exists } => self.toggled.push(exists),
            Record::IndexDone { exists } => {
                self.tally.acknowledged += 1;
                self.toggled = vec![exists];
            }
            Record::Fault => return Err("the writing process met a fault".to_owned()),
            Record::Won { .. }
            | Record::Taken { .. }
            | Record::Closed
            | Record::SyncBegun { .. }
            | Record::SyncDone { .. }
            | Record::Shown { .. } => {
                return Err(format!("{record:?} is no record of this suite"));
            }
        }
        Ok(())
    }

    /// A document is about to become a version.
    fn begin(&mut self, tag: u64, version: u64) {
        let versions = self.versions.entry(tag).or_insert_with(|| BTreeSet::from([0]));
        versions.insert(version);
        if is_expiring(tag, version) {
            versions.insert(0);
        }
        // From now on the pass may come before the write or after it.
        self.due.remove(&tag);
        self.in_pass.remove(&tag);
    }

    /// A document is a version.
    fn settle(&mut self, tag: u64, version: u64) {
        self.tally.acknowledged += 1;
        self.take_over(tag, version);
    }

    fn take_over(&mut self, tag: u64, version: u64) {
        let mut versions = BTreeSet::from([version]);
        if is_expiring(tag, version) {
            versions.insert(0);
            self.due.insert(tag);
        } else {
            self.due.remove(&tag);
        }
        self.versions.insert(tag, versions);
    }

    /// Compares the database with what it must hold, and adopts what was decided for it. Then it makes a pass, or
    /// leaves that to the next process.
    fn audit(&mut self, client: &Client, choices: &mut Choices) -> Result<(), String> {
        verify(client)?;
        let stored = stored(client)?;
        self.compare(&stored)?;
        self.audit_indexes(client)?;
        self.batches.clear();
        self.in_pass.clear();
        let tags: Vec<u64> = self.versions.keys().copied().collect();
        for tag in tags {
            self.take_over(tag, stored.get(&tag).copied().unwrap_or(0));
        }
        if choices.one_in(2) {
            let deleted = client.expire_documents().run().map_err(text)?.deleted_count;
            if deleted != self.due.len() as u64 {
                return Err(format!("a pass deleted {deleted} documents, {} had expired", self.due.len()));
            }
            for tag in std::mem::take(&mut self.due) {
                self.take_over(tag, 0);
            }
            self.compare(&self::stored(client)?)?;
            verify(client)?;
        }
        Ok(())
    }

    fn compare(&self, stored: &HashMap<u64, u64>) -> Result<(), String> {
        compare_versions(&self.versions, stored)?;
        for (first, count) in &self.batches {
            // A pass may have come between the insert and the kill.
            let (expiring, lasting): (Vec<u64>, Vec<u64>) =
                (*first..first + count).partition(|tag| is_expiring(*tag, INSERTED));
            let there = |tags: &[u64]| tags.iter().filter(|tag| stored.contains_key(tag)).count();
            let lasting_there = there(&lasting);
            if lasting_there != lasting.len() && lasting_there + there(&expiring) > 0 {
                return Err(format!("a part of the {count} documents of one insert_many is there"));
            }
        }
        Ok(())
    }

    fn audit_indexes(&mut self, client: &Client) -> Result<(), String> {
        let names = expiring::events(client).list_index_names().run().map_err(text)?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let exists = has(expiring::TOGGLED_INDEX);
        if !self.toggled.contains(&exists) {
            return Err(format!("the index exists: {exists}; acknowledged: {:?}", self.toggled));
        }
        self.toggled = vec![exists];
        if has(expiring::TTL_INDEX) { Ok(()) } else { Err(format!("the TTL index is gone: {names:?}")) }
    }
}

fn verify(client: &Client) -> Result<(), String> {
    let report = client.verify().map_err(|error| format!("verify failed: {error:?}"))?;
    if report.is_clean() { Ok(()) } else { Err(format!("verify found: {:?}", report.findings)) }
}

/// The version of each document that is stored.
fn stored(client: &Client) -> Result<HashMap<u64, u64>, String> {
    let events = expiring::events(client);
    let mut stored = HashMap::new();
    for document in events.find(doc! {}).run().map_err(text)? {
        let (tag, version) = expiring::recognize(&document.map_err(text)?)?;
        if stored.insert(tag, version).is_some() {
            return Err(format!("tag {tag} is stored twice"));
        }
    }
    let counted = events.estimated_document_count().run().map_err(text)?;
    if counted == stored.len() as u64 {
        Ok(stored)
    } else {
        Err(format!("the counter says {counted}, there are {} documents", stored.len()))
    }
}

#[test]
fn passes_and_builds_are_whole_when_the_process_is_killed() {
    let kills = number_from_environment("CAIRNDB_KILLS", KILLS_DEFAULT);
    let seed = seed();
    let started = Instant::now();
    let folders = kills.div_ceil(KILLS_PER_FOLDER);
    let tallies = on_lanes(folders, |folder| {
        let kills = KILLS_PER_FOLDER.min(kills - folder * KILLS_PER_FOLDER);
        kill_repeatedly(part(seed.rotate_left(32), folder), kills, "none")
            .unwrap_or_else(|fault| panic!("{SEED_VARIABLE}={seed}, folder {folder}: {fault}"))
    });
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    let (passes, builds) = (sum(|tally| tally.kills_in_passes), sum(|tally| tally.kills_in_builds));
    say(&format!(
        "expiring: {kills} kills, {passes} within a pass, {builds} within a build, {} within a drop; {} passes and {} acknowledged operations checked in {:.0} s; {SEED_VARIABLE}={seed}",
        sum(|tally| tally.kills_in_drops),
        sum(|tally| tally.passes),
        sum(|tally| tally.acknowledged),
        started.elapsed().as_secs_f64()
    ));
    assert!(passes * 4 > kills, "few kills fell within a pass");
    assert!(builds * 4 > kills, "few kills fell within a build");
}

#[test]
fn a_pass_that_is_acknowledged_before_it_runs_is_found_out() {
    let fault = first_fault("acknowledge-pass-first");
    // A write that was under way when the process was killed may have put another version beside the absence.
    assert!(fault.contains("one of {0} was acknowledged") || fault.contains("one of {0, "), "{fault}");
}

#[test]
fn a_build_that_is_acknowledged_before_it_runs_is_found_out() {
    let fault = first_fault("acknowledge-index-first");
    assert!(fault.contains("the index exists: "), "{fault}");
}

/// What is found of children with a flaw. A kill must fall between the word and the deed.
#[track_caller]
fn first_fault(flaw: &str) -> String {
    let seed = seed();
    let work_on = |folder: u64| kill_repeatedly(part(seed, folder), KILLS_PER_FOLDER, flaw);
    (0..8).find_map(|folder| work_on(folder).err()).expect("it is found")
}

/// Kills children that work on one folder, and audits it after each.
fn kill_repeatedly(seed: u64, kills: u64, flaw: &str) -> Result<Tally, String> {
    let mut choices = Choices::seeded(seed);
    let scratch = Scratch::on(if choices.one_in(2) { Medium::Disk } else { Medium::Memory });
    let mut oracle = Oracle::prepare(&scratch);
    for life in 1..=kills {
        let in_life = |fault: String| format!("life {life}: {fault}");
        let (folder, seed) = (scratch.path(), choices.number().to_string());
        let arguments = ["expire", &folder.to_string_lossy(), &seed, &life.to_string(), flaw];
        let (records, _) = kill_one(&arguments, &mut choices).map_err(in_life)?;
        oracle.hear(&records).map_err(in_life)?;
        let client = workload::options(&mut choices)
            .ttl_interval(None)
            .open(&folder)
            .map_err(|error| in_life(format!("the folder does not open: {error:?}")))?;
        let names = fs::read_dir(&folder).map_err(|error| in_life(error.to_string()))?.flatten();
        if names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(BUILD_FOLDER)) {
            return Err(in_life("a folder of a build is left".to_owned()));
        }
        oracle.audit(&client, &mut choices).map_err(in_life)?;
        if choices.one_in(2) {
            client.close().map_err(|error| in_life(format!("{error:?}")))?;
        }
    }
    Ok(oracle.tally)
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn text(error: cairndb::Error) -> String {
    format!("{error:?}")
}
