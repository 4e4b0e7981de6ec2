//! Tailable cursors: what they see, once and in order; when they end, and what ends those that wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{CancellationToken, Client, Collection, Cursor, CursorType, ErrorKind, Hint};
use cairndb_tests::race::race;

use crate::{Fixture, all, refused};

/// Longer than anything lasts that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn log_of(client: &Client, size: u64, max: u64) -> Collection<Document> {
    let db = client.database("test");
    db.create_collection("log").capped(true).size(size).max(max).run().expect("made");
    db.collection("log")
}

fn tail(log: &Collection<Document>) -> Cursor<Document> {
    log.find(doc! {}).cursor_type(CursorType::TailableAwait).run().expect("opened")
}

fn id(document: &Document) -> i32 {
    document.get_i32("_id").expect("a number")
}

fn insert(log: &Collection<Document>, ids: impl IntoIterator<Item = i32>) {
    log.insert_many(ids.into_iter().map(|id| doc! { "_id": id })).run().expect("stored");
}

/// The documents that are there now.
fn rest(cursor: &mut Cursor<Document>) -> Vec<i32> {
    let mut found = Vec::new();
    while cursor.advance_within(Duration::ZERO).expect("read") {
        found.push(cursor.current().get_i32("_id").expect("a number"));
    }
    found
}

#[test]
fn it_goes_on_with_what_is_inserted_later() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [5, 3]);
    let mut cursor = tail(&log);
    assert_eq!(rest(&mut cursor), [5, 3]);
    assert!(cursor.is_alive() && cursor.is_tailing());
    insert(&log, [9, 1]);
    log.delete_one(doc! { "_id": 9 }).run().expect("deleted");
    insert(&log, [2]);
    assert_eq!(rest(&mut cursor), [1, 2]);
    // Changes of documents that were read do not come again, and removals by hand lose nothing.
    log.update_many(doc! {}, doc! { "$set": { "x": 1 } }).run().expect("updated");
    log.delete_many(doc! {}).run().expect("deleted");
    assert_eq!(rest(&mut cursor), [0; 0]);
    insert(&log, [7]);
    assert_eq!(rest(&mut cursor), [7]);
}

#[test]
fn filters_projections_skips_and_limits_hold_for_later_documents_too() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [1, 2]);
    let find = log.find(doc! { "_id": { "$mod": [2, 0] } }).projection(doc! { "n": { "$add": ["$_id", 1] } });
    let mut cursor = find.skip(1).limit(2).cursor_type(CursorType::Tailable).run().expect("opened");
    assert_eq!(cursor.next_if_any().expect("read"), None);
    insert(&log, 3..20);
    assert_eq!(cursor.next_if_any().expect("read"), Some(doc! { "_id": 4, "n": 5 }));
    assert!(cursor.is_alive());
    assert_eq!(cursor.next().transpose().expect("read"), Some(doc! { "_id": 6, "n": 7 }));
    assert!(!cursor.is_alive() && cursor.next().is_none());
    // A filter that fixes the `_id` waits for its document like any other.
    let find = log.find(doc! { "_id": 77 }).cursor_type(CursorType::Tailable);
    let mut cursor = find.run().expect("opened");
    assert_eq!(cursor.next_if_any().expect("read"), None);
    insert(&log, [76, 77, 78]);
    assert_eq!(cursor.next_if_any().expect("read"), Some(doc! { "_id": 77 }));
}

#[test]
fn a_cursor_with_nothing_to_follow_is_at_its_end() {
    let fixture = Fixture::new();
    let missing = tail(&fixture.things).next();
    assert!(missing.is_none());
    let log = log_of(&fixture.client, 1 << 20, 0);
    let mut cursor = tail(&log);
    assert!(!cursor.is_alive());
    assert!(cursor.next().is_none());
    insert(&log, [1]);
    assert!(cursor.next().is_none());
    log.delete_one(doc! {}).run().expect("deleted");
    assert!(!tail(&log).is_alive());
}

#[test]
fn what_cannot_be_tailed_is_refused() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [1]);
    let open = |find: cairndb::action::Find<'_, Document>| find.cursor_type(CursorType::Tailable).run();
    refused(open(fixture.things.find(doc! {})), 2, "non capped");
    refused(open(log.find(doc! {}).sort(doc! { "_id": 1 })), 2, "sort");
    refused(open(log.find(doc! {}).sort(doc! { "$natural": -1 })), 2, "sort");
    refused(open(log.find(doc! {}).hint(Hint::Keys(doc! { "_id": 1 }))), 2, "hint");
    refused(open(log.find(doc! {}).hint(Hint::Keys(doc! { "$natural": -1 }))), 2, "hint");
    refused(open(log.find(doc! {}).return_key(true)), 2, "returnKey");
    open(log.find(doc! {}).sort(doc! { "$natural": 1 }).hint(Hint::Keys(doc! { "$natural": 1 })))
        .expect("natural");
    fixture.client.database("test").create_collection("view").view_on("log").run().expect("made");
    refused(open(fixture.client.database("test").collection("view").find(doc! {})), 168, "view");
    let run = |command: Document| fixture.client.database("test").run_cursor_command(command).run();
    refused(run(doc! { "find": "log", "awaitData": true }), 9, "tailable");
    refused(run(doc! { "find": "log", "tailable": true, "singleBatch": true }), 2, "singleBatch");
    let mut cursor = run(doc! { "find": "log", "tailable": true, "awaitData": true }).expect("opened");
    assert_eq!(cursor.next().transpose().expect("read"), Some(doc! { "_id": 1 }));
    // One reply has what there is, and does not wait.
    let reply = fixture.client.database("test").run_command(doc! { "find": "log", "tailable": true }).run();
    assert_eq!(reply.expect("read").get_document("cursor").expect("one").get_i64("id").ok(), Some(0));
}

#[test]
fn a_reader_that_is_overtaken_learns_of_it() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 3);
    insert(&log, [1, 2]);
    let (mut slow, mut fast) = (tail(&log), tail(&log));
    assert_eq!((rest(&mut slow), rest(&mut fast)), (vec![1, 2], vec![1, 2]));
    // Documents that were read may go.
    insert(&log, [3, 4, 5]);
    assert_eq!(rest(&mut fast), [3, 4, 5]);
    insert(&log, [6]);
    assert_eq!(rest(&mut fast), [6]);
    refused(slow.advance_within(Duration::ZERO), 136, "overtaken");
    assert!(!slow.is_alive() && slow.next().is_none());
    log.truncate().run().expect("truncated");
    insert(&log, [7]);
    assert_eq!(rest(&mut fast), [7]);
    insert(&log, [8]);
    log.truncate().run().expect("truncated");
    refused(fast.advance_within(Duration::ZERO), 136, "overtaken");
}

/// A reader that waits on a thread of its own, and what it came to.
fn waiting(mut cursor: Cursor<Document>) -> thread::JoinHandle<(Option<i32>, Duration)> {
    let (told, is_told) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        while cursor.advance_within(Duration::ZERO).expect("read") {}
        told.send(()).expect("it is waited for");
        let begin = Instant::now();
        let code = cursor.advance().err().map(|error| error.code().unwrap_or(-1));
        (code, begin.elapsed())
    });
    is_told.recv_timeout(PATIENCE).expect("it waits now");
    reader
}

#[test]
fn whatever_ends_the_collection_or_the_reader_wakes_it() {
    let fixture = Fixture::new();
    let end = |how: &dyn Fn(&Collection<Document>), expected: Option<i32>| {
        let log = log_of(&fixture.client, 1 << 20, 0);
        insert(&log, [1]);
        let reader = waiting(tail(&log));
        how(&log);
        let (code, waited) = reader.join().expect("no panic");
        assert_eq!(code, expected);
        assert!(waited < PATIENCE);
        log.drop().run().expect("dropped");
    };
    end(&|log| drop(log.insert_one(doc! {}).run().expect("stored")), None);
    end(&|log| log.drop().run().expect("dropped"), Some(175));
    end(&|log| log.rename("other").run().expect("renamed"), Some(175));
    end(&|_| fixture.client.database("test").drop().run().expect("dropped"), Some(175));
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [1]);
    let token = CancellationToken::new();
    let reader = waiting(tail(&log.with_cancellation(&token)));
    token.cancel();
    assert_eq!(reader.join().expect("no panic").0, Some(11_601));
}

#[test]
fn closing_the_client_ends_a_reader_that_waits() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [1]);
    let cursor = tail(&log);
    let reader = thread::spawn(move || {
        let mut cursor = cursor;
        assert!(cursor.advance().expect("read"));
        cursor.advance().err().map(|error| error.to_string())
    });
    let Fixture { client, scratch, things } = fixture;
    drop((things, log));
    // A reader that looks for a document holds a snapshot for a moment; one that waits holds none.
    let closed = loop {
        match client.clone().close() {
            Err(error) if matches!(error.kind(), ErrorKind::CursorsOpen { .. }) => thread::yield_now(),
            closed => break closed,
        }
    };
    closed.expect("no snapshot is held");
    let error = reader.join().expect("no panic").expect("it is ended");
    assert!(error.contains("closed"), "{error}");
    drop(scratch);
}

#[test]
fn it_waits_as_long_as_it_was_asked_to() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, [1]);
    let find = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    let mut cursor = find
        .max_await_time(Duration::from_millis(50))
        .max_time(Duration::from_millis(20))
        .run()
        .expect("opened");
    assert_eq!(cursor.next_if_any().expect("read"), Some(doc! { "_id": 1 }));
    let begin = Instant::now();
    // Waiting is not work: it does not count against the limit of time.
    assert_eq!(cursor.next_if_any().expect("in time"), None);
    assert!(begin.elapsed() >= Duration::from_millis(50));
    insert(&log, [2]);
    assert_eq!(cursor.next_if_any().expect("read"), Some(doc! { "_id": 2 }));
}

/// Eight writers, and readers that follow them: each sees every document once and in one order, or gets an error that it was
/// overtaken.
#[track_caller]
fn follow(max: u64, per_call: i32) {
    const WRITERS: i32 = 8;
    const DOCUMENTS: i32 = 400;
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 64 << 20, max);
    log.insert_one(doc! { "_id": "first" }).run().expect("stored");
    let (running, overtaken) = (AtomicU64::new(8), AtomicU64::new(0));
    let is_done = AtomicBool::new(false);
    let seen = race(0..11, |lane| {
        if lane < WRITERS {
            for call in 0..DOCUMENTS / per_call {
                let documents = (0..per_call).map(|at| doc! { "w": lane, "n": call * per_call + at });
                log.insert_many(documents).run().expect("stored");
            }
            if running.fetch_sub(1, Ordering::SeqCst) == 1 {
                log.insert_one(doc! { "last": true }).run().expect("stored");
                is_done.store(true, Ordering::SeqCst);
            }
            return Vec::new();
        }
        let mut cursor = tail(&log);
        let mut found = Vec::new();
        loop {
            match cursor.advance() {
                Ok(true) if cursor.current().get_bool("last").is_ok() => return found,
                Ok(true) => {
                    let current = cursor.current();
                    if let (Ok(writer), Ok(number)) = (current.get_i32("w"), current.get_i32("n")) {
                        found.push((writer, number));
                    }
                }
                Ok(false) => panic!("it has an end"),
                Err(error) => {
                    assert_eq!(error.code(), Some(136), "{error}");
                    overtaken.fetch_add(1, Ordering::SeqCst);
                    found.clear();
                    // Begins again, and gets the last one at the latest then.
                    cursor = tail(&log);
                }
            }
        }
    });
    assert!(is_done.load(Ordering::SeqCst));
    let is_whole = overtaken.load(Ordering::SeqCst) == 0;
    for found in seen.iter().skip(8) {
        let mut next: HashMap<i32, i32> = HashMap::new();
        for (writer, number) in found {
            let expected = next.entry(*writer).or_insert(if max == 0 { 0 } else { *number });
            assert_eq!(number, expected, "writer {writer}");
            *expected += 1;
        }
        if max == 0 {
            assert!(is_whole);
            assert_eq!(found.len(), usize::try_from(WRITERS * DOCUMENTS).expect("small"));
            let stored: Vec<(i32, i32)> = all(&log)
                .iter()
                .filter_map(|document| Some((document.get_i32("w").ok()?, document.get_i32("n").ok()?)))
                .collect();
            assert_eq!(*found, stored, "readers see the order that is stored");
        }
    }
    fixture.verify_clean();
}

#[test]
fn readers_see_every_document_of_eight_writers_once_and_in_order() {
    follow(0, 1);
    follow(0, 20);
}

#[test]
fn readers_of_a_small_collection_miss_nothing_unnoticed() {
    follow(20, 1);
    follow(100, 10);
}

#[test]
fn a_cursor_in_the_middle_of_its_documents_rests() {
    let fixture = Fixture::new();
    let log = log_of(&fixture.client, 1 << 20, 0);
    insert(&log, 0..10);
    let mut cursor = tail(&log);
    for expected in 0..10 {
        assert!(cursor.advance().expect("read"));
        assert_eq!(id(&Document::try_from(cursor.current()).expect("a document")), expected);
        cursor.step_back();
        assert!(cursor.advance().expect("read"));
        assert_eq!(cursor.current().get_i32("_id").ok(), Some(expected));
        cursor.rest();
    }
    insert(&log, [10]);
    assert_eq!(rest(&mut cursor), [10]);
    cursor.rest();
    assert_eq!(rest(&mut cursor), [0; 0]);
    // Typed otherwise, it goes on where it was.
    insert(&log, [11]);
    let mut typed = cursor.with_type::<cairndb::bson::RawDocumentBuf>();
    assert_eq!(typed.next_if_any().expect("read").expect("one").get_i32("_id").ok(), Some(11));
}
