//! The findings of opening about the files: damage, loss, and parts that a crash had cut short.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cairndb::bson::doc;
use cairndb::{Client, ClientBuilder, Durability, Error, ErrorKind, WriteConcern};
use cairndb_tests::files::{TYPE_AT, change, contents, is_table, manifest, newest_log, records};
use cairndb_tests::scratch::{Scratch, small, things};

fn journaled() -> ClientBuilder {
    small().durability(Durability::Journaled)
}

/// Options of a store of whose writes nothing says that they were synced.
fn unsynced() -> ClientBuilder {
    small().durability(Durability::Buffered { sync_interval: Duration::from_secs(1) }).witness(false)
}

fn insert(client: &Client, ids: std::ops::Range<i32>) {
    for id in ids {
        things(client).insert_one(doc! { "_id": id }).run().expect("stored");
    }
}

fn count(client: &Client) -> u64 {
    things(client).count_documents(doc! {}).run().expect("counted")
}

/// The folder as it would be if the process died with twenty buffered writes that were not synced.
fn killed_with_unsynced_writes() -> Scratch {
    killed_with_unsynced_writes_after(|_| ())
}

/// The same, if this was done after the first write, which was synced.
fn killed_with_unsynced_writes_after(done: impl Fn(&Client)) -> Scratch {
    let begin = Instant::now();
    loop {
        let scratch = Scratch::new();
        let client = scratch.open_with(unsynced());
        insert(&client, 0..1);
        done(&client);
        client.sync().expect("synced");
        let synced = client.durable_seq();
        insert(&client, 1..21);
        let killed = scratch.killed();
        // On a slow machine the sync in the background may have come between.
        if client.durable_seq() == synced {
            return killed;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "a sync always comes between");
    }
}

/// Opening fails, names the file, and leaves the folder as it is.
#[track_caller]
fn refused(scratch: &Scratch, options: ClientBuilder, file: &str) -> Error {
    let before = contents(&scratch.path());
    let error = options.open(scratch.path()).expect_err("refused");
    assert!(error.is_corruption(), "{error:?}");
    assert!(error.to_string().contains(file), "{error}");
    assert_eq!(contents(&scratch.path()), before);
    error
}

/// RocksDB opens such a log without a word, and everything from the damaged record on is gone.
#[test]
fn one_flipped_bit_in_the_middle_of_a_log_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open_with(journaled());
    insert(&client, 0..2000);
    let killed = scratch.killed();
    let log = newest_log(&killed.path());
    let offsets = records(&fs::read(killed.path().join(&log)).expect("the log"));
    let middle = offsets[offsets.len() / 2];
    change(&killed.path(), &log, |bytes| bytes[middle + 20] ^= 1);
    for options in [small(), small().witness(false), small().read_only(true)] {
        let error = refused(&killed, options, &log);
        let ErrorKind::DamagedFile { path, offset, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!((path, *offset), (&killed.path().join(&log), middle as u64));
    }
}

#[test]
fn half_a_log_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..100);
    client.close().expect("closed");
    let log = newest_log(&scratch.path());
    let offsets = records(&fs::read(scratch.path().join(&log)).expect("the log"));
    change(&scratch.path(), &log, |bytes| bytes.truncate(offsets[offsets.len() / 2]));
    refused(&scratch, small(), &log);
    refused(&scratch, small().read_only(true), &log);
}

#[test]
fn a_manifest_that_is_cut_short_costs_no_table() {
    let scratch = Scratch::new();
    let client = scratch.open();
    for round in 0..3 {
        insert(&client, round * 10..round * 10 + 10);
        client.flush().expect("flushed");
    }
    client.close().expect("closed");
    let manifest = manifest(&scratch.path());
    let length = fs::metadata(scratch.path().join(&manifest)).expect("the MANIFEST").len();
    for bytes in (0..length).step_by(17) {
        let copy = scratch.killed();
        change(&copy.path(), &manifest, |content| content.truncate(usize::try_from(bytes).expect("small")));
        refused(&copy, small(), &manifest);
    }
}

/// RocksDB writes several edits before it syncs them. A power failure may keep a later one and not an earlier one, and such
/// a folder was rejected as damaged, though nothing durable was missing.
#[test]
fn edits_of_a_manifest_that_were_not_synced_may_come_in_any_order() {
    let scratch = Scratch::new();
    let client = scratch.open_with(journaled());
    insert(&client, 0..10);
    let killed = scratch.killed();
    let manifest = manifest(&killed.path());
    let before = contents(&killed.path())[&manifest].clone();
    client.flush().expect("flushed");
    let after = contents(&scratch.path())[&manifest].clone();
    let ends = records(&after);
    let (first, second) = (before.len(), ends[ends.partition_point(|end| *end <= before.len())]);
    assert!(second < after.len(), "a flush of several families makes several edits");
    for lost in [first..second, first..first + 1, second - 1..second] {
        let copy = killed.killed();
        change(&copy.path(), &manifest, |bytes| {
            bytes.clone_from(&after);
            bytes[lost].fill(0);
        });
        refused(&copy, small().read_only(true), &manifest);
        let client = copy.open();
        assert_eq!(count(&client), 10);
        let report = client.recovery_report();
        let torn = report.torn.first().expect("the end of the MANIFEST");
        assert_eq!((torn.offset, torn.bytes), (first as u64, (after.len() - first) as u64));
        let aside = fs::read(torn.set_aside.as_ref().expect("it is set aside")).expect("the copy");
        assert_eq!(aside.len(), after.len() - first);
        assert!(client.verify().expect("a report").is_clean());
    }
    // Damage below the witness is damage.
    let copy = killed.killed();
    change(&copy.path(), &manifest, |bytes| bytes[first - 1] ^= 1);
    refused(&copy, small(), &manifest);
}

#[test]
fn tables_that_are_missing_or_cut_are_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..10);
    client.flush().expect("flushed");
    client.close().expect("closed");
    let table = contents(&scratch.path())
        .into_keys()
        .find(|name| name.strip_suffix(".sst").is_some())
        .expect("a table");
    let copy = scratch.killed();
    change(&copy.path(), &table, |bytes| bytes.truncate(100));
    refused(&copy, small(), &table);
    fs::remove_file(copy.path().join(&table)).expect("removed");
    refused(&copy, small(), &table);
}

/// RocksDB counts on from the highest number in the folder: it wrote over its own files, or crashed.
#[test]
fn a_file_with_a_number_that_no_file_has_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..10);
    client.close().expect("closed");
    for name in [
        "18446744073709551615.log",
        "9223372036854775807.log",
        "4611686018427387903.sst",
        "MANIFEST-72057594037927936",
    ] {
        let file = scratch.path().join(name);
        fs::write(&file, []).expect("made");
        refused(&scratch, small(), name);
        refused(&scratch, small().read_only(true), name);
        fs::remove_file(&file).expect("removed");
    }
    assert_eq!(count(&scratch.open()), 10);
}

#[test]
fn a_write_that_was_cut_short_is_left_out_and_reported() {
    let killed = killed_with_unsynced_writes();
    let log = newest_log(&killed.path());
    let bytes = fs::read(killed.path().join(&log)).expect("the log").len();
    change(&killed.path(), &log, |content| content.truncate(bytes - 3));
    for options in [small().read_only(true), small()] {
        let client = killed.open_with(options);
        assert_eq!(count(&client), 20);
        let report = client.recovery_report();
        assert!(!report.is_clean() && report.log_bytes > 0, "{report:?}");
        let [torn] = report.torn.as_slice() else { panic!("{report:?}") };
        assert_eq!((&torn.file, torn.set_aside.as_ref()), (&killed.path().join(&log), None));
        assert_eq!(torn.offset + torn.bytes, bytes as u64 - 3);
        assert_eq!(torn.reason, "the file ends inside of a record");
    }
    let client = killed.open();
    assert!(client.recovery_report().is_clean());
    assert_eq!(count(&client), 20);
}

/// Pages of a log may reach the disk in any order. RocksDB passes zeros by in silence, and goes on with the next block:
/// a later write would be there and an earlier one not.
#[test]
fn writes_after_one_that_is_lost_are_set_aside() {
    let killed = killed_with_unsynced_writes();
    let log = newest_log(&killed.path());
    let content = fs::read(killed.path().join(&log)).expect("the log");
    let offsets = records(&content);
    let lost = offsets.len() - 11;
    change(&killed.path(), &log, |bytes| bytes[offsets[lost]..offsets[lost + 1]].fill(0));
    let damaged = fs::read(killed.path().join(&log)).expect("the log");
    refused(&killed, small().read_only(true), &log);
    let client = killed.open();
    assert_eq!(count(&client), 11, "a prefix of the writes");
    let [torn] = client.recovery_report().torn.as_slice() else { panic!("{:?}", client.recovery_report()) };
    assert_eq!(torn.offset, offsets[lost] as u64);
    let aside: &PathBuf = torn.set_aside.as_ref().expect("a copy");
    assert_eq!(fs::read(aside).expect("the copy"), damaged[offsets[lost]..]);
    assert!(client.verify().expect("a report").is_clean());
    client.close().expect("closed");
    assert_eq!(count(&killed.open()), 11);
}

/// A part that is set aside is cut off, and a folder that is rejected after all must be what it was.
#[test]
fn a_log_is_not_cut_where_a_table_is_refused() {
    let killed = killed_with_unsynced_writes_after(|client| client.flush().expect("a table"));
    let log = newest_log(&killed.path());
    let offsets = records(&fs::read(killed.path().join(&log)).expect("the log"));
    let last = offsets[offsets.len() - 2];
    change(&killed.path(), &log, |bytes| bytes[last + TYPE_AT] = 5);
    let copy = killed.killed();
    let table = contents(&killed.path()).into_keys().find(|name| is_table(name)).expect("a table");
    // The footer is at the end.
    change(&killed.path(), &table, |bytes| *bytes.last_mut().expect("a footer") ^= 1);
    refused(&killed, small(), &table);
    assert!(copy.open().recovery_report().torn[0].set_aside.is_some(), "the log alone is cut");
}

/// One flipped bit turns the type of a record into one that RocksDB's reader returns to for ever.
#[test]
fn a_record_type_that_rocksdb_never_gets_past_is_set_aside() {
    for kind in [5, 6, 7, 8, 11, 131] {
        let killed = killed_with_unsynced_writes();
        let log = newest_log(&killed.path());
        let offsets = records(&fs::read(killed.path().join(&log)).expect("the log"));
        let last = offsets[offsets.len() - 2];
        change(&killed.path(), &log, |bytes| bytes[last + TYPE_AT] = kind);
        refused(&killed, small().read_only(true), &log);
        let client = killed.open();
        assert_eq!(count(&client), 20);
        assert!(client.recovery_report().torn[0].set_aside.is_some());
    }
}

/// The journaled write came after the others in the log and was synced with them, so they cannot have been lost by a crash.
#[test]
fn a_later_commit_tells_that_what_is_damaged_had_been_synced() {
    let scratch = Scratch::new();
    let client = scratch.open_with(unsynced());
    insert(&client, 0..20);
    let stored = things(&client);
    for id in 20..23 {
        let insert = stored.insert_one(doc! { "_id": id });
        insert.write_concern(WriteConcern::journaled()).run().expect("stored");
    }
    let killed = scratch.killed();
    let log = newest_log(&killed.path());
    let offsets = records(&fs::read(killed.path().join(&log)).expect("the log"));
    let damaged = offsets[offsets.len() - 15];
    change(&killed.path(), &log, |bytes| bytes[damaged + 20] ^= 1);
    let error = refused(&killed, small(), &log);
    assert!(error.to_string().contains("are lost"), "{error}");
}

#[test]
fn an_older_state_of_the_files_is_refused_unless_the_loss_is_accepted() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..5);
    client.close().expect("closed");
    let older = scratch.killed();
    let client = scratch.open();
    insert(&client, 5..10);
    client.close().expect("closed");
    fs::copy(scratch.path().join("CAIRNDB.witness"), older.path().join("CAIRNDB.witness")).expect("copied");
    refused(&older, small(), "CURRENT");
    let client = older.open_with(small().witness(false));
    assert_eq!(count(&client), 5);
    client.close().expect("closed");
    // From here on what is there is all there is.
    assert_eq!(count(&older.open()), 5);
    older.open().close().expect("closed");
}

#[test]
fn a_witness_that_is_gone_is_refused_and_made_anew_on_demand() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..5);
    client.close().expect("closed");
    for damage in [|path: PathBuf| fs::remove_file(path), |path: PathBuf| fs::write(path, "gone")] {
        damage(scratch.path().join("CAIRNDB.witness")).expect("damaged");
        refused(&scratch, small(), "CAIRNDB.witness");
        refused(&scratch, small().read_only(true), "CAIRNDB.witness");
        let client = scratch.open_with(small().witness(false).read_only(true));
        assert_eq!(count(&client), 5);
        drop(client);
        scratch.open_with(small().witness(false)).close().expect("closed");
        assert_eq!(count(&scratch.open()), 5);
    }
}

#[test]
fn a_log_of_another_database_is_refused() {
    let folders = [Scratch::new(), Scratch::new()];
    for scratch in &folders {
        let client = scratch.open_with(journaled());
        insert(&client, 0..50);
        client.close().expect("closed");
    }
    let [ours, others] = &folders;
    let (log, other) = (newest_log(&ours.path()), newest_log(&others.path()));
    fs::copy(others.path().join(other), ours.path().join(&log)).expect("copied");
    let error = refused(ours, small(), &log);
    assert!(error.to_string().contains("another database"), "{error}");
}

#[test]
fn a_backup_has_a_witness_of_its_own() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..50);
    let target = Scratch::new();
    client.backup(target.path()).expect("a backup");
    let copy = target.killed();
    assert_eq!(count(&copy.open()), 50);
    let manifest = manifest(&target.path());
    let length = fs::metadata(target.path().join(&manifest)).expect("the MANIFEST").len();
    change(&target.path(), &manifest, |bytes| bytes.truncate(usize::try_from(length).expect("small") - 20));
    refused(&target, small(), &manifest);
}

/// Files come and go under a reader. RocksDB reads the MANIFEST, then the logs: one that was flushed and deleted in between
/// was missed in silence, up to a database that seemed empty.
#[test]
fn reading_beside_a_writer_that_flushes_is_never_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert(&client, 0..10);
    client.sync().expect("synced");
    let begin = Instant::now();
    drop(small().read_only(true).open(scratch.path()).expect("opened"));
    // A reader that finds no moment between two flushes in ten seconds is rejected: a busy machine needs longer ones.
    let pause = (4 * begin.elapsed()).max(Duration::from_millis(50));
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let writer = scope.spawn({
            let client = &client;
            move || {
                let mut id = 10;
                while stopped.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    insert(client, id..id + 200);
                    client.flush().expect("flushed");
                    id += 200;
                }
            }
        });
        for _ in 0..25 {
            let synced = client.durable_seq();
            let reader = small().read_only(true).open(scratch.path()).expect("opened");
            assert!(reader.written_seq().expect("open") >= synced);
            let ids = things(&reader)
                .find(doc! {})
                .run()
                .expect("opened")
                .map(|thing| thing.expect("read").get_i32("_id").expect("an _id"));
            assert!(
                ids.eq(0..i32::try_from(count(&reader)).expect("few")),
                "none is missing before the newest"
            );
        }
        drop(stop);
        writer.join().expect("the writer");
    });
}

/// The writer was killed after one more write, which is whole. If that write was not journaled it did not say that the
/// one before it had been synced, and a document that was acknowledged as such was gone without a word.
#[test]
fn whatever_follows_a_journaled_write_tells_that_it_had_been_synced() {
    for is_last_journaled in [true, false] {
        let scratch = Scratch::new();
        let client = scratch.open_with(unsynced());
        insert(&client, 0..5);
        let stored = things(&client);
        let journaled = |id| {
            let insert = stored.insert_one(doc! { "_id": id });
            insert.write_concern(WriteConcern::journaled()).run().expect("stored");
        };
        journaled(5);
        if is_last_journaled {
            journaled(6);
        } else {
            insert(&client, 6..7);
        }
        let killed = scratch.killed();
        let log = newest_log(&killed.path());
        let offsets = records(&fs::read(killed.path().join(&log)).expect("the log"));
        // The type of the last record but one; the last offset is the log's end.
        let damaged = offsets[offsets.len() - 3];
        change(&killed.path(), &log, |bytes| bytes[damaged + TYPE_AT] = 0x20);
        let error = refused(&killed, small().witness(false), &log);
        assert!(error.to_string().contains("are lost"), "{error}");
    }
}
