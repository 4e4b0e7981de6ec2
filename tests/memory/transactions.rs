//! The memory of open transactions: thousands that do nothing, and one that stays open beside many plain writes.
//!
//! `CAIRNDB_BESIDE_WRITES` says how many writes those are.

use std::io::{self, Write};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{Client, ClientSession, Collection, ErrorKind};
use cairndb_tests::choices::{mix, number_from_environment};
use cairndb_tests::scratch::{Scratch, small};

use crate::held;

const OPEN_MAX: usize = 10_000;
/// The bytes that an open transaction may use that has staged one small document.
const IDLE_BYTES_MAX: usize = 8 << 10;
/// The bytes that all notes of written keys may use.
const NOTES_BYTES_MAX: usize = 24 << 20;
/// More keys than are noted, so that the notes are full.
const KEYS: u64 = 700_000;
const WRITES_DEFAULT: u64 = 800_000;
const BATCH: u64 = 1000;

fn begin(client: &Client) -> ClientSession {
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    session
}

/// Each has read a document and staged one of its own, and then does nothing.
#[test]
fn ten_thousand_idle_transactions_hold_little() {
    let client = Client::builder().in_memory(true).open("").expect("made");
    let things = client.database("app").collection::<Document>("things");
    things.insert_one(doc! { "_id": -1 }).run().expect("stored");
    let open = |id: i64| {
        let mut session = begin(&client);
        things.find_one(doc! { "_id": -1 }).session(&mut session).run()?;
        things.insert_one(doc! { "_id": id }).session(&mut session).run()?;
        cairndb::Result::Ok(session)
    };
    let (bytes, mut sessions) = held(|| {
        let ids = 0..i64::try_from(OPEN_MAX).expect("small");
        ids.map(|id| open(id).expect("one of so many")).collect::<Vec<_>>()
    });
    let _ = writeln!(io::stderr(), "memory: {} bytes for an idle transaction", bytes / OPEN_MAX);
    assert!(bytes < OPEN_MAX * IDLE_BYTES_MAX, "{} bytes each", bytes / OPEN_MAX);
    let refused = open(1_000_000).expect_err("one more");
    assert!(matches!(refused.kind(), ErrorKind::Transaction { .. }), "{refused:?}");
    assert!(refused.to_string().contains("10000 transactions are open"), "{refused}");
    // Plain callers are not held up, and one that has ended makes room.
    things.insert_one(doc! { "_id": -2 }).run().expect("stored");
    let mut one = sessions.pop().expect("one of them");
    one.commit_transaction().run().expect("committed");
    drop(open(1_000_001).expect("there is room"));
    let (left, ()) = held(|| drop(sessions));
    assert_eq!(left, 0, "what they held is free");
    assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 3);
}

/// Writes documents of their own, and changes them again and again once there are as many keys as there are to be.
fn write(things: &Collection<Document>, writes: u64) {
    // In no order: numbers in a row would have notes in some of the stripes only.
    let id = |number: u64| (mix(number) >> 2).cast_signed();
    for first in (0..writes.min(KEYS)).step_by(usize::try_from(BATCH).expect("small")) {
        let documents = (first..first + BATCH).map(|number| doc! { "_id": id(number), "n": 0 });
        things.insert_many(documents).run().expect("stored");
    }
    for number in KEYS..writes.max(KEYS) {
        let add = doc! { "$inc": { "n": 1 } };
        things.update_one(doc! { "_id": id(number * 7919 % KEYS) }, add).run().expect("written");
    }
}

#[test]
fn a_transaction_beside_many_plain_writes_holds_little_and_reads_its_state() {
    let writes = number_from_environment("CAIRNDB_BESIDE_WRITES", WRITES_DEFAULT);
    let scratch = Scratch::new();
    // As long as the writes last.
    let lifetime = Duration::from_secs(3600);
    let client = scratch.open_with(small().transaction_lifetime(lifetime));
    let things = client.database("app").collection::<Document>("things");
    let before = doc! { "_id": -1, "n": 1 };
    things.insert_one(&before).run().expect("stored");
    // Made once, and no note.
    things.insert_many((1..=100).map(|id| doc! { "_id": -1 - id })).run().expect("stored");
    let (mut reader, mut late) = (begin(&client), begin(&client));
    for session in [&mut reader, &mut late] {
        let found = things.find_one(doc! { "_id": -1 }).session(session).run().expect("read");
        assert_eq!(found.as_ref(), Some(&before));
    }
    let (bytes, ()) = held(|| {
        things.update_one(doc! { "_id": -1 }, doc! { "$inc": { "n": 1 } }).run().expect("written");
        write(&things, writes);
    });
    let _ = writeln!(io::stderr(), "memory: {bytes} bytes of notes after {writes} writes");
    assert!(bytes < NOTES_BYTES_MAX, "{bytes} bytes");
    let found = things.find_one(doc! { "_id": -1 }).session(&mut reader).run().expect("read");
    assert_eq!(found, Some(before));
    let counted = things.count_documents(doc! {}).session(&mut reader).run();
    assert_eq!(counted.expect("counted"), 101, "nothing that was written since");
    reader.commit_transaction().run().expect("it has written nothing");
    let touch = things.update_one(doc! { "_id": -1 }, doc! { "$inc": { "n": 1 } }).session(&mut late).run();
    assert!(touch.expect_err("it was written since").is_write_conflict());
    assert_eq!(late.commit_transaction().run().expect_err("it was aborted").code(), Some(251));
    // A new one is not disturbed by what was noted for the old one.
    let mut next = begin(&client);
    let touch = things.update_one(doc! { "_id": -1 }, doc! { "$inc": { "n": 1 } });
    touch.session(&mut next).run().expect("staged");
    next.commit_transaction().run().expect("committed");
    assert_eq!(things.find_one(doc! { "_id": -1 }).run().expect("read"), Some(doc! { "_id": -1, "n": 3 }));
    assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 101 + writes.min(KEYS));
}
