//! Creating, listing, renaming and dropping sequences; clients that are closed or only read.

use cairndb::bson::doc;
use cairndb::{Error, ErrorKind, Sequence};

use super::{Numbers, sequence_refuses};

/// Every verb of the handle answers that no such sequence exists.
#[track_caller]
fn is_gone(sequence: &Sequence) {
    let words = format!("there is no sequence {}", sequence.name());
    sequence_refuses(sequence.next_value().run(), -324, &words);
    sequence_refuses(sequence.fetch(3).run(), -324, &words);
    sequence_refuses(sequence.current_value().run(), -324, &words);
    sequence_refuses(sequence.set_current_value(9).run(), -324, &words);
    sequence_refuses(sequence.restart(9).run(), -324, &words);
    sequence_refuses(sequence.alter(cairndb::SequenceOptions::default()).run(), -324, &words);
    sequence_refuses(sequence.snapshot().run(), -324, &words);
    sequence_refuses(sequence.gaps().run(), -324, &words);
    sequence_refuses(sequence.safe_watermark().run(), -324, &words);
}

#[test]
fn a_name_is_given_once_in_a_database() {
    let numbers = Numbers::with(doc! {});
    sequence_refuses(numbers.db.create_sequence("numbers").run(), -323, "the sequence numbers exists");
    numbers.client.database("other").create_sequence("numbers").run().unwrap();
    assert_eq!(numbers.take(2), [1, 2]);
    assert_eq!(numbers.client.database("other").sequence("numbers").next_value().run().unwrap(), 1);
}

#[test]
fn an_unknown_sequence_is_named() {
    let numbers = Numbers::with(doc! {});
    is_gone(&numbers.db.sequence("others"));
    sequence_refuses(numbers.db.drop_sequence("others").run(), -324, "there is no sequence others");
    sequence_refuses(numbers.db.rename_sequence("others", "more").run(), -324, "there is no sequence others");
}

#[test]
fn a_handle_finds_a_sequence_that_is_made_later() {
    let numbers = Numbers::with(doc! {});
    let later = numbers.db.sequence("later");
    is_gone(&later);
    numbers.db.create_sequence("later").start_value(5).increment(2).run().unwrap();
    assert_eq!(later.next_value().run().unwrap(), 5);
    assert_eq!(later.next_value().run().unwrap(), 7);
}

#[test]
fn a_dropped_sequence_is_gone_for_every_handle() {
    let numbers = Numbers::with(doc! {});
    let [acquirer] = numbers.acquirers();
    numbers.take(3);
    acquirer.next_value().run().unwrap();
    numbers.db.drop_sequence("numbers").run().unwrap();
    is_gone(&numbers.sequence);
    is_gone(&acquirer);
    assert_eq!(numbers.db.list_sequences().run().unwrap(), [""; 0]);
    numbers.db.create_sequence("numbers").start_value(100).run().unwrap();
    assert_eq!(numbers.next(), 100);
    assert_eq!(acquirer.next_value().run().unwrap(), 1100);
    numbers.shows(doc! { "ID": 2_i64 });
    let numbers = numbers.reopened();
    numbers.shows(doc! { "ID": 2_i64 });
    crate::verify_clean(&numbers.client);
}

#[test]
fn a_renamed_sequence_keeps_all_but_its_name_and_blocks() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10, "CacheSize": 100 });
    let [acquirer] = numbers.acquirers();
    numbers.take(3);
    acquirer.next_value().run().unwrap();
    let before = numbers.snapshot();
    numbers.db.rename_sequence("numbers", "others").run().unwrap();
    is_gone(&numbers.sequence);
    is_gone(&acquirer);
    let others = numbers.db.sequence("others");
    let after = others.snapshot().run().unwrap();
    assert_eq!((after.id, after.object_id, after.version), (before.id, before.object_id, before.version + 1));
    assert_eq!(others.current_value().run().unwrap(), 100, "the reserve is what the new name knows");
    assert_eq!(others.next_value().run().unwrap(), 21);
    assert_eq!(numbers.db.list_sequences().run().unwrap(), ["others"]);
    let numbers = numbers.reopened();
    assert_eq!(numbers.db.sequence("others").next_value().run().unwrap(), 22);
    crate::verify_clean(&numbers.client);
}

#[test]
fn a_new_name_must_be_free() {
    let numbers = Numbers::with(doc! {});
    numbers.db.create_sequence("others").run().unwrap();
    let rename = |from, to| numbers.db.rename_sequence(from, to).run();
    sequence_refuses(rename("numbers", "others"), -323, "the sequence others exists");
    sequence_refuses(rename("numbers", "numbers"), -323, "the sequence numbers exists");
    assert_eq!(numbers.next(), 1);
}

#[test]
fn an_unused_sequence_is_renamed_unused() {
    let numbers = Numbers::with(doc! { "StartValue": 5 });
    numbers.db.rename_sequence("numbers", "others").run().unwrap();
    let others = numbers.db.sequence("others");
    sequence_refuses(others.current_value().run(), -362, "has not been used yet");
    assert_eq!(others.next_value().run().unwrap(), 5);
}

#[test]
fn lists_and_snapshots_ascend_by_name() {
    let numbers = Numbers::with(doc! {});
    for name in ["z", "a", "序列"] {
        numbers.db.create_sequence(name).run().unwrap();
    }
    numbers.client.database("other").create_sequence("b").run().unwrap();
    assert_eq!(numbers.db.list_sequences().run().unwrap(), ["a", "numbers", "z", "序列"]);
    let snapshots = numbers.db.snapshot_sequences().run().unwrap();
    let shown: Vec<(&str, i64)> = snapshots.iter().map(|shown| (shown.name.as_str(), shown.id)).collect();
    assert_eq!(shown, [("a", 3), ("numbers", 1), ("z", 2), ("序列", 4)]);
    assert_eq!(numbers.client.database("none").list_sequences().run().unwrap(), [""; 0]);
}

#[test]
fn ids_are_never_given_twice() {
    let numbers = Numbers::with(doc! {});
    numbers.db.drop_sequence("numbers").run().unwrap();
    let numbers = numbers.reopened();
    numbers.db.create_sequence("numbers").run().unwrap();
    numbers.shows(doc! { "ID": 2_i64 });
}

#[test]
fn dropping_a_database_drops_its_sequences() {
    let numbers = Numbers::with(doc! {});
    numbers.client.database("other").create_sequence("numbers").run().unwrap();
    numbers.next();
    numbers.db.drop().run().unwrap();
    is_gone(&numbers.sequence);
    assert_eq!(numbers.client.database("other").sequence("numbers").next_value().run().unwrap(), 1);
    let numbers = numbers.reopened();
    is_gone(&numbers.sequence);
    crate::verify_clean(&numbers.client);
}

#[track_caller]
fn closed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the client is closed");
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
}

#[test]
fn every_sequence_of_a_closed_client_fails() {
    let Numbers { sequence: numbers, db, client, scratch: _scratch } = Numbers::with(doc! {});
    let acquirer = client.acquirer().database("test").sequence("numbers");
    numbers.next_value().run().unwrap();
    acquirer.next_value().run().unwrap();
    client.close().unwrap();
    for sequence in [&numbers, &acquirer, &db.sequence("numbers")] {
        closed(sequence.next_value().run());
        closed(sequence.fetch(3).run());
        closed(sequence.current_value().run());
        closed(sequence.set_current_value(9).run());
        closed(sequence.restart(9).run());
        closed(sequence.snapshot().run());
        closed(sequence.gaps().run());
        closed(sequence.safe_watermark().run());
    }
    closed(db.create_sequence("others").run());
    closed(db.drop_sequence("numbers").run());
    closed(db.rename_sequence("numbers", "others").run());
    closed(db.list_sequences().run());
    closed(db.snapshot_sequences().run());
}

#[test]
fn a_client_that_only_reads_takes_no_value() {
    let numbers = Numbers::with(doc! {});
    numbers.take(3);
    let reader = cairndb_tests::scratch::small().read_only(true).open(numbers.scratch.path()).unwrap();
    let sequence = reader.database("test").sequence("numbers");
    let refused = |error: Error| assert!(matches!(error.kind(), ErrorKind::ReadOnly), "{error:?}");
    refused(sequence.next_value().run().unwrap_err());
    refused(sequence.fetch(3).run().unwrap_err());
    refused(sequence.set_current_value(9).run().unwrap_err());
    refused(sequence.restart(9).run().unwrap_err());
    refused(sequence.alter(cairndb::SequenceOptions::default()).run().unwrap_err());
    refused(reader.database("test").create_sequence("others").run().unwrap_err());
    refused(reader.database("test").drop_sequence("numbers").run().unwrap_err());
    refused(reader.database("test").rename_sequence("numbers", "others").run().unwrap_err());
    assert_eq!(sequence.snapshot().run().unwrap().current_value, 1000);
    assert_eq!(reader.database("test").list_sequences().run().unwrap(), ["numbers"]);
    drop((sequence, reader));
    assert_eq!(numbers.next(), 4);
}

#[test]
fn a_backup_goes_on_behind_the_reserve() {
    let numbers = Numbers::with(doc! {});
    numbers.take(3);
    let copy = numbers.scratch.folder().join("copy");
    assert_eq!(numbers.client.backup(&copy).unwrap().verified.sequences, 1);
    let client = cairndb_tests::scratch::small().open(&copy).unwrap();
    assert_eq!(client.database("test").sequence("numbers").next_value().run().unwrap(), 1001);
}
