//! Disks that are full: a small one in memory, and one with ext4. Reads go on, nothing acknowledged is lost, the folder can
//! be read and closed while the disk is full, and writes go on once there is room. A gapless field whose commit failed stops
//! until the folder is opened again, because the failed commit may have left its number on the disk.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    AutoIncrement, Client, ClientBuilder, Collection, Compression, Contract, Durability, Error, ErrorKind,
    StoreState, WriteConcern,
};
use cairndb_tests::choices::{Choices, SEED_VARIABLE, mix, number_from_environment, seed};
use cairndb_tests::race::{race, wait_until};
use cairndb_tests::scratch::{Scratch, things};

use crate::power::say;

const MEBIBYTE: usize = 1 << 20;
/// A file that is removed to make room: about half of the disk, because a compaction writes all again before it deletes.
const BALLAST: usize = 26 * MEBIBYTE;
/// Whatever the store does on a full disk is done within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const THREADS: i64 = 3;
const IDS_PER_THREAD: i64 = 1_000_000;
/// Writes that must be acknowledged once there is room.
const WRITES_AFTER: usize = 300;

/// A mounted file system of few mebibytes.
pub(super) struct Small {
    scratch: Scratch,
}

impl Small {
    /// In memory.
    pub(super) fn memory(mebibytes: usize) -> Option<Self> {
        let small = Self { scratch: Scratch::new() };
        run("mount", &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"], small.folder())?;
        Some(small)
    }

    /// A file with ext4 in it. The file lies outside of the folder, and has no name any more.
    fn ext4(mebibytes: usize) -> Option<Self> {
        let files = Scratch::new();
        let image = files.folder().join("image");
        let file = fs::File::create(&image).expect("made");
        file.set_len((mebibytes * MEBIBYTE) as u64).expect("lengthened");
        run("mkfs.ext4", &["-q", "-F"], &image)?;
        let small = Self { scratch: Scratch::new() };
        run("mount", &["-o", "loop", &image.to_string_lossy()], small.folder())?;
        Some(small)
    }

    fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.scratch.path()
    }

    /// What a kill would leave, on another disk.
    pub(super) fn killed(&self) -> Scratch {
        self.scratch.killed()
    }

    pub(super) fn ballast(&self) -> PathBuf {
        self.folder().join("ballast")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run("umount", &["-l"], self.folder());
    }
}

/// Runs a command on a path; `None` if it fails.
fn run(command: &str, arguments: &[&str], path: &Path) -> Option<()> {
    let status = Command::new(command).args(arguments).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(())
}

/// The observations of the writers of a full disk.
#[derive(Default)]
pub(super) struct Filled {
    pub(super) acknowledged: Vec<i64>,
    /// Writes that failed. Each may be there.
    pub(super) refused: u64,
}

/// The observations of the writer of a gapless field.
#[derive(Default)]
struct Numbered {
    acknowledged: Vec<i64>,
    /// Inserts that failed. Each may be there.
    refused: u64,
    /// Whether the field stopped.
    is_stopped: bool,
}

pub(super) fn options(is_journaled: bool) -> ClientBuilder {
    let buffered = Durability::Buffered { sync_interval: Duration::from_millis(10) };
    let durability = if is_journaled { Durability::Journaled } else { buffered };
    // Text that repeats itself must fill the disk all the same.
    Client::builder().memory_budget(8 << 20).compression(Compression::None).durability(durability)
}

/// Two kilobytes that follow from the id.
pub(super) fn padding(id: i64) -> String {
    format!("{:016x}", mix(id.cast_unsigned())).repeat(128)
}

/// A full disk is one that may get room again: writes are rejected as such, and the store is never given up for it.
#[track_caller]
pub(super) fn is_full(error: &Error) {
    let is_told = error.is_no_space() || matches!(error.kind(), ErrorKind::CommitUnknown { .. });
    assert!(is_told, "a full disk was told as {error:?}");
}

/// Writes from several threads until the disk rejects, and goes on trying until it has rejected for a while.
fn fill(client: &Client, patience: Duration) -> Filled {
    let is_refused = AtomicBool::new(false);
    let fillings = race(0..THREADS, |thread| {
        let mut filled = Filled::default();
        let (mut full_since, from) = (None, thread * IDS_PER_THREAD);
        for id in from..from + IDS_PER_THREAD {
            match things(client).insert_one(doc! { "_id": id, "padding": padding(id) }).run() {
                Ok(_) => {
                    full_since = None;
                    filled.acknowledged.push(id);
                }
                Err(error) => {
                    is_full(&error);
                    is_refused.store(true, Ordering::Relaxed);
                    filled.refused += 1;
                    let since: &mut Instant = full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > patience {
                        break;
                    }
                }
            }
        }
        filled
    });
    assert!(is_refused.into_inner(), "the disk was never full");
    fillings.into_iter().fold(Filled::default(), |mut all, filled| {
        all.acknowledged.extend(filled.acknowledged);
        all.refused += filled.refused;
        all
    })
}

fn numbered(client: &Client) -> Collection<Document> {
    client.database("test").collection("numbered")
}

/// Numbers documents until the field stops, or the disk has rejected for a while.
fn number(client: &Client, patience: Duration) -> Numbered {
    let mut seen = Numbered::default();
    let mut full_since = None;
    loop {
        match numbered(client).insert_one(doc! { "padding": padding(seen.refused.cast_signed()) }).run() {
            Ok(inserted) => {
                full_since = None;
                seen.acknowledged.push(inserted.last_generate_id.expect("a number"));
            }
            Err(error) if is_stopped(&error) => {
                // Some commit of it must have failed: a full disk alone stops nothing.
                assert!(seen.refused > 0, "the field stopped by itself: {error:?}");
                seen.is_stopped = true;
                return seen;
            }
            Err(error) => {
                is_full(&error);
                seen.refused += 1;
                let since: &mut Instant = full_since.get_or_insert_with(Instant::now);
                if since.elapsed() > patience {
                    return seen;
                }
            }
        }
    }
}

fn is_stopped(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Poisoned { .. })
}

/// Each number is there once, from 1 on without a gap, and each that was acknowledged is. Returns the last one.
#[track_caller]
fn audit_numbers(client: &Client, seen: &Numbered) -> i64 {
    let documents = numbered(client).find(doc! {}).run().expect("reads go on");
    let numbers = documents.map(|document| document.expect("reads go on").get_i64("n").expect("a number"));
    let mut numbers: Vec<i64> = numbers.collect();
    numbers.sort_unstable();
    let last = i64::try_from(numbers.len()).expect("few");
    assert!(numbers.iter().copied().eq(1..=last), "of {last} numbers one is there twice, or is missing");
    let missing = seen.acknowledged.iter().find(|number| numbers.binary_search(number).is_err());
    assert_eq!(missing, None, "of {} acknowledged numbers", seen.acknowledged.len());
    let more = numbers.len() - seen.acknowledged.len();
    assert!(more as u64 <= seen.refused, "{more} numbers more than were acknowledged");
    last
}

/// Everything acknowledged is there, and nothing that was never written.
#[track_caller]
pub(super) fn audit(client: &Client, filled: &Filled) {
    let stored = things(client).find(doc! {}).run().expect("reads go on");
    let mut ids: Vec<i64> = Vec::new();
    for document in stored {
        let document: Document = document.expect("reads go on");
        let id = document.get_i64("_id").expect("an id");
        assert_eq!(document.get_str("padding").expect("text"), padding(id), "document {id} is not whole");
        ids.push(id);
    }
    ids.sort_unstable();
    let missing = filled.acknowledged.iter().find(|id| ids.binary_search(id).is_err());
    assert_eq!(missing, None, "of {} acknowledged documents", filled.acknowledged.len());
    let more = ids.len() - filled.acknowledged.len();
    assert!(more as u64 <= filled.refused, "{more} documents more than were acknowledged");
}

/// Does something that must not last for ever.
#[track_caller]
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Fills the disk, closes on it or not, makes room and goes on. Returns how many documents were acknowledged.
fn survive(small: &Small, choices: &mut Choices) -> usize {
    let (is_journaled, closes_full) = (choices.one_in(2), choices.one_in(2));
    fs::write(small.ballast(), vec![1; BALLAST]).expect("there is room");
    let path = small.path();
    let client = options(is_journaled).open(&path).expect("made");
    let gapless = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
    client.database("test").create_collection("numbered").auto_increment(gapless).run().expect("made");
    // RocksDB tries to recover from time to time, and is closed in the middle of it or not.
    let patience = Duration::from_millis(100 + choices.below(3000));
    let writers = client.clone();
    let (mut filled, mut numbers) = in_time("filling", move || {
        std::thread::scope(|scope| {
            let numbers = scope.spawn(|| number(&writers, patience));
            (fill(&writers, patience), numbers.join().expect("it does not panic"))
        })
    });
    audit(&client, &filled);
    audit_numbers(&client, &numbers);
    // A second look from beside, which writes nothing.
    let reader = options(is_journaled).read_only(true).open(&path).expect("a full disk can be read");
    audit(&reader, &filled);
    drop(reader);
    let client = if closes_full {
        match in_time("closing on a full disk", move || client.close()) {
            Ok(()) => {}
            Err(error) => is_full(&error),
        }
        let reader = options(is_journaled).read_only(true).open(&path).expect("a full disk can be read");
        audit(&reader, &filled);
        drop(reader);
        // It may open or not, but it neither waits for ever nor mistakes a full disk for a damaged one.
        let again = path.clone();
        match in_time("opening on a full disk", move || options(is_journaled).open(again)) {
            Ok(client) => drop(in_time("closing again", move || client.close())),
            Err(error) => is_full_at_open(&error),
        }
        // It can be read then, if that is asked for.
        let again = path.clone();
        let open = move || options(is_journaled).read_only_if_full(true).open(again);
        match in_time("opening on a full disk for reading", open) {
            Ok(client) => {
                audit(&client, &filled);
                drop(in_time("closing again", move || client.close()));
            }
            // RocksDB may say of the second write that fails no more than that one has failed.
            Err(error) => assert!(!error.is_no_space(), "a full disk cannot be read: {error:?}"),
        }
        fs::remove_file(small.ballast()).expect("removed");
        options(is_journaled).open(&path).expect("there is room again")
    } else {
        fs::remove_file(small.ballast()).expect("removed");
        client
    };
    go_on(&client, &mut filled);
    audit(&client, &filled);
    // Other writes go on, and this field only after the folder was opened again.
    match numbered(&client).insert_one(doc! {}).run() {
        Ok(inserted) => {
            assert!(closes_full || !numbers.is_stopped, "a field that had stopped went on");
            numbers.acknowledged.push(inserted.last_generate_id.expect("a number"));
        }
        Err(error) => assert!(!closes_full && numbers.is_stopped && is_stopped(&error), "{error:?}"),
    }
    let report = client.verify().expect("a report");
    assert!(report.is_clean(), "{:?}", report.findings);
    in_time("closing", move || client.close()).expect("closed");
    let client = options(is_journaled).open(&path).expect("opened");
    audit(&client, &filled);
    let last = audit_numbers(&client, &numbers);
    let inserted = numbered(&client).insert_one(doc! {}).run().expect("it goes on");
    assert_eq!(inserted.last_generate_id, Some(last + 1));
    client.close().expect("closed");
    filled.acknowledged.len()
}

/// RocksDB gives up a log that it has in memory and cannot write. So puts are rejected before the disk is full.
#[test]
fn a_store_of_delayed_durability_goes_on_once_there_is_room() {
    let Some(small) = Small::memory(52) else { return say("skipped: no mount (delayed durability)") };
    fs::write(small.ballast(), vec![1; BALLAST]).expect("there is room");
    let path = small.path();
    let second = Duration::from_secs(1);
    let delayed = || {
        let durability = Durability::Delayed { write_interval: second, sync_interval: second };
        options(false).durability(durability)
    };
    let client = delayed().open(&path).expect("made");
    let mut filled = Filled::default();
    for id in 0..IDS_PER_THREAD {
        // Of what was only in memory nothing is promised.
        let concern = if id % 2 == 0 { WriteConcern::buffered() } else { WriteConcern::journaled() };
        let document = doc! { "_id": id, "padding": padding(id) };
        match things(&client).insert_one(document).write_concern(concern).run() {
            Ok(_) => filled.acknowledged.push(id),
            Err(error) => {
                assert!(error.is_no_space() && !error.is_commit_unknown(), "{error:?}");
                break;
            }
        }
    }
    assert!(filled.acknowledged.len() > 1000, "{}", filled.acknowledged.len());
    audit(&client, &filled);
    fs::remove_file(small.ballast()).expect("removed");
    go_on(&client, &mut filled);
    audit(&client, &filled);
    in_time("closing after a full disk", move || client.close()).expect("closed");
    let client = delayed().open(&path).expect("there is room again");
    audit(&client, &filled);
    assert!(client.verify().expect("a report").is_clean());
    client.close().expect("closed");
}

fn is_full_at_open(error: &Error) {
    let is_told = error.is_no_space() || matches!(error.kind(), ErrorKind::Io { .. });
    assert!(is_told, "a full disk was told as {error:?}");
}

/// Writes are accepted again soon.
pub(super) fn go_on(client: &Client, filled: &mut Filled) {
    let started = Instant::now();
    let enough = filled.acknowledged.len() + WRITES_AFTER;
    for id in THREADS * IDS_PER_THREAD.. {
        if filled.acknowledged.len() == enough {
            return;
        }
        match things(client).insert_one(doc! { "_id": id, "padding": padding(id) }).run() {
            Ok(_) => filled.acknowledged.push(id),
            Err(error) => {
                is_full(&error);
                filled.refused += 1;
                assert!(started.elapsed() < PATIENCE, "there is room, and still: {error}");
            }
        }
    }
}

#[track_caller]
fn check(what: &str, small: Option<Small>) {
    let Some(small) = small else { return say(&format!("skipped: no mount ({what})")) };
    let (seed, started) = (seed(), Instant::now());
    say(&format!("power: full: {what}, {SEED_VARIABLE}={seed}"));
    let mut choices = Choices::seeded(seed);
    let mut acknowledged = 0;
    for _ in 0..number_from_environment("CAIRNDB_FILLINGS", 1) {
        acknowledged += survive(&small, &mut choices);
        fs::remove_dir_all(small.path()).expect("removed");
    }
    say(&format!(
        "power: full: {what}: {acknowledged} documents acknowledged and there in {:.0} s; {SEED_VARIABLE}={seed}",
        started.elapsed().as_secs_f64()
    ));
}

#[test]
fn a_full_disk_in_memory_loses_nothing() {
    check("tmpfs of 52 MiB", Small::memory(52));
}

#[test]
fn a_full_disk_with_ext4_loses_nothing() {
    check("ext4 of 58 MiB", Small::ext4(58));
}

/// A sort, a group or a join whose temporary files find no space ends as on a full disk, gives all of it back, and other writes
/// never notice.
#[test]
fn a_sort_that_fills_the_disk_gives_it_back() {
    // Enough for documents, log, a compaction and the sort at once.
    let Some(small) = Small::memory(112) else { return say("skipped: no mount (a sort on a full disk)") };
    let client = options(false).stage_memory(1 << 20).open(small.path()).expect("made");
    for first in (0..8000).step_by(500) {
        let documents = (first..first + 500).map(|id| doc! { "_id": id, "padding": padding(id) });
        things(&client).insert_many(documents).run().expect("there is room");
    }
    // The space for deletes follows from it, and no compaction runs afterwards: one would need the room for writes meanwhile.
    // RocksDB goes on when a later state has been read.
    client.compact().run().expect("there is room");
    things(&client).insert_one(doc! { "padding": "small" }).run().expect("there is room");
    assert_eq!(things(&client).find(doc! {}).run().expect("read").count(), 8001);
    wait_for_quiet(&client);
    // The rest has room for some of its runs, beside the space for deletes.
    let free = small_free(&small).saturating_sub(stored_bytes(&small) + 12 * MEBIBYTE as u64);
    fs::write(small.ballast(), vec![1; usize::try_from(free).expect("small")]).expect("there is room");
    let sorted = || things(&client).find(doc! {}).sort(doc! { "padding": 1 }).run();
    let grouped = || {
        let group = doc! { "$group": { "_id": "$_id", "all": { "$push": "$padding" } } };
        things(&client).aggregate([group]).run()?.advance().map(drop)
    };
    let joined = || {
        // All of them are found by a field that none of them has.
        let all = doc! { "from": "things", "localField": "none", "foreignField": "none", "as": "found" };
        things(&client).aggregate([doc! { "$lookup": all }]).run()?.advance().map(drop)
    };
    for refused in [sorted().map(drop), grouped(), joined()] {
        let refused = refused.expect_err("there is no room");
        assert!(refused.is_no_space() && !refused.to_string().contains("temporary_space"), "{refused}");
        let storage = client.metrics().expect("open").storage;
        assert!(
            storage.temporary_bytes == 0 && storage.temporary_bytes_written > MEBIBYTE as u64,
            "{storage:?}"
        );
        let left = fs::read_dir(small.path().join("CAIRNDB.spill")).expect("made").count();
        assert_eq!(left, 0);
        things(&client).insert_one(doc! { "padding": "small" }).run().expect("the space is there again");
    }
    fs::remove_file(small.ballast()).expect("removed");
    assert_eq!(sorted().expect("there is room").count(), 8004);
    assert!(client.verify().expect("a report").is_clean());
    client.close().expect("closed");
}

/// Waits until RocksDB compacts no more.
fn wait_for_quiet(client: &Client) {
    let (seen, looks) = (Cell::new(u64::MAX), Cell::new(0));
    wait_until(|| {
        let storage = client.metrics().expect("open").storage;
        let is_quiet = storage.running == 0
            && seen.replace(storage.flushes_and_compactions) == storage.flushes_and_compactions;
        looks.set(if is_quiet { looks.get() + 1 } else { 0 });
        looks.get() == 200
    });
}

/// The bytes that are free on the file system.
fn small_free(small: &Small) -> u64 {
    let stated = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(small.folder()).output();
    let text = String::from_utf8(stated.expect("stat runs").stdout).expect("numbers");
    text.split_whitespace().map(|number| number.parse::<u64>().expect("a number")).product()
}

/// The bytes of the store's logs and tables.
fn stored_bytes(small: &Small) -> u64 {
    let files = fs::read_dir(small.path()).expect("a folder").map(|file| file.expect("a file"));
    let is_stored =
        |path: &Path| path.extension().is_some_and(|extension| extension == "log" || extension == "sst");
    let stored = files.filter(|file| is_stored(&file.path()));
    stored.map(|file| file.metadata().map_or(0, |file| file.len())).sum()
}

/// Uses all that is free, as another program does.
pub(super) fn fill_from_outside(small: &Small) {
    let mut file = fs::File::create(small.ballast()).expect("made");
    let block = vec![1; 64 << 10];
    while file.write_all(&block).is_ok() {}
}

/// Deletes all documents whose ids end in other digits, compacts, and returns how many are left.
fn delete_most(client: &Client, filled: &mut Filled) {
    let deleted = things(client).delete_many(doc! { "_id": { "$not": { "$mod": [4, 0] } } }).run();
    let deleted = deleted.expect("deletes have room").deleted_count;
    let before = filled.acknowledged.len();
    filled.acknowledged.retain(|id| id % 4 == 0);
    // Rejected documents may have been stored and deleted too.
    let gone = (before - filled.acknowledged.len()) as u64;
    assert!((gone..=gone + filled.refused).contains(&deleted), "{deleted} of {gone} deleted");
    client.compact().run().expect("compactions have room");
}

/// Deletes failed as all writes did, until something else made room.
#[track_caller]
fn delete_where_inserts_have_filled_the_disk(small: &Small, is_journaled: bool) {
    let path = small.path();
    let client = options(is_journaled).open(&path).expect("made");
    let writers = client.clone();
    let mut filled = in_time("filling", move || fill(&writers, Duration::from_millis(300)));
    audit(&client, &filled);
    // A compaction may have made room meanwhile. What is rejected was not written.
    let mut id = THREADS * IDS_PER_THREAD;
    let refused = loop {
        id -= 1;
        match things(&client).insert_one(doc! { "_id": id, "padding": padding(id) }).run() {
            Ok(_) => filled.acknowledged.push(id),
            Err(error) => break error,
        }
    };
    assert!(refused.is_no_space() && !refused.is_commit_unknown(), "{refused}");
    // It is as full once it was opened again.
    client.close().expect("closed");
    let client = options(is_journaled).open(&path).expect("a full disk can be opened");
    delete_most(&client, &mut filled);
    go_on(&client, &mut filled);
    assert_eq!(client.metrics().expect("open").state, StoreState::Open);
    audit(&client, &filled);
    assert!(client.verify().expect("a report").is_clean());
    client.close().expect("closed");
    fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn a_disk_that_inserts_have_filled_has_room_for_deletes() {
    let Some(small) = Small::memory(64) else { return say("skipped: no mount (deletes on a full disk)") };
    delete_where_inserts_have_filled_the_disk(&small, true);
    delete_where_inserts_have_filled_the_disk(&small, false);
}

/// Whether the store has seen it or meets it with the delete.
#[track_caller]
fn delete_where_another_program_has_filled_the_disk(small: &Small, is_seen: bool) {
    let path = small.path();
    let client = options(false).open(&path).expect("made");
    let mut filled = Filled::default();
    for id in 0..5000 {
        things(&client).insert_one(doc! { "_id": id, "padding": padding(id) }).run().expect("there is room");
        filled.acknowledged.push(id);
    }
    // The space for deletes is used now at the latest.
    client.compact().run().expect("there is room");
    fill_from_outside(small);
    if is_seen {
        wait_until(|| client.metrics().expect("open").state == StoreState::Full);
        let refused = things(&client).insert_one(doc! {}).run().expect_err("it is full");
        assert!(refused.is_no_space() && !refused.is_commit_unknown(), "{refused}");
    }
    delete_most(&client, &mut filled);
    audit(&client, &filled);
    fs::remove_file(small.ballast()).expect("removed");
    go_on(&client, &mut filled);
    audit(&client, &filled);
    assert!(client.verify().expect("a report").is_clean());
    client.close().expect("closed");
    fs::remove_dir_all(&path).expect("removed");
}

#[test]
fn a_disk_that_another_program_has_filled_has_room_for_deletes() {
    let Some(small) = Small::memory(64) else { return say("skipped: no mount (deletes on a full disk)") };
    delete_where_another_program_has_filled_the_disk(&small, true);
    delete_where_another_program_has_filled_the_disk(&small, false);
}

/// RocksDB tries to recover from a full disk every five seconds. Closing failed until then, though there was room.
#[test]
fn closing_waits_for_rocksdb_once_a_full_disk_has_room_again() {
    let Some(small) = Small::memory(64) else { return say("skipped: no mount (closing after a full disk)") };
    let client = options(false).open(small.path()).expect("made");
    fill_from_outside(&small);
    let mut filled = Filled::default();
    for id in 0.. {
        match things(&client).insert_one(doc! { "_id": id, "padding": padding(id) }).run() {
            Ok(_) => filled.acknowledged.push(id),
            Err(error) => {
                is_full(&error);
                filled.refused += 1;
                break;
            }
        }
    }
    assert_eq!(client.metrics().expect("open").state, StoreState::Full);
    fs::remove_file(small.ballast()).expect("removed");
    in_time("closing", move || client.close()).expect("there is room");
    let client = options(false).open(small.path()).expect("closed");
    audit(&client, &filled);
    client.close().expect("closed");
}
