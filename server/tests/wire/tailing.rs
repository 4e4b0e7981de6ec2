//! Tailable cursors over the wire: batches that wait, what wakes and what ends them, and that they take nothing from others.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};

use crate::peer::Peer;
use crate::{Fixture, PATIENCE};

/// Longer than a test takes whose batches are woken.
const LONG: i64 = 600_000;

fn run(peer: &mut Peer, mut command: Document) -> Document {
    command.insert("$db", "shop");
    peer.run(command)
}

#[track_caller]
fn done(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

#[track_caller]
fn refused(reply: &Document, code: i32) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
}

fn make(peer: &mut Peer, max: i32) {
    done(&run(peer, doc! { "create": "log", "capped": true, "size": 1.0e6, "max": max }));
    insert(peer, [0]);
}

fn insert(peer: &mut Peer, ids: impl IntoIterator<Item = i32>) {
    let documents: Vec<Document> = ids.into_iter().map(|id| doc! { "_id": id }).collect();
    done(&run(peer, doc! { "insert": "log", "documents": documents }));
}

/// The number of a cursor, and the `_id`s of a batch.
#[track_caller]
fn batch(reply: &Document) -> (i64, Vec<i32>) {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let documents =
        cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).expect("a batch");
    let ids =
        documents.iter().map(|one| one.as_document().and_then(|one| one.get_i32("_id").ok()).expect("an id"));
    (cursor.get_i64("id").expect("a number"), ids.collect())
}

/// Opens a tailable cursor that awaits documents, and reads what is there.
fn tail(peer: &mut Peer) -> i64 {
    let (id, found) = batch(&run(peer, doc! { "find": "log", "tailable": true, "awaitData": true }));
    assert!(id != 0 && !found.is_empty());
    id
}

fn get_more(peer: &mut Peer, id: i64, time: i64) -> Document {
    run(peer, doc! { "getMore": id, "collection": "log", "maxTimeMS": time })
}

/// A batch that is waited for by a peer of its own.
fn waiting(fixture: &Fixture, time: i64) -> (i64, JoinHandle<(Document, Duration)>) {
    let mut peer = fixture.peer();
    let id = tail(&mut peer);
    let mut other = fixture.peer();
    let before = in_use(&mut other);
    let waits = thread::spawn(move || {
        let begin = Instant::now();
        (get_more(&mut peer, id, time), begin.elapsed())
    });
    let begin = Instant::now();
    // A command is listed before it has its cursor, which on a busy machine may come much later.
    while in_use(&mut other) <= before {
        assert!(begin.elapsed() < PATIENCE, "it does not begin");
        thread::park_timeout(Duration::from_millis(1));
    }
    (id, waits)
}

/// The number of cursors that commands read, or wait with.
fn in_use(peer: &mut Peer) -> i64 {
    let status = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
    let cursors = status.get_document("metrics").and_then(|metrics| metrics.get_document("cursor"));
    let open = cursors.and_then(|cursors| cursors.get_document("open"));
    open.and_then(|open| open.get_i64("pinned")).expect("a number")
}

/// The number by which the `getMore` of a cursor can be killed, while it waits.
fn number_of(peer: &mut Peer, _cursor: i64) -> Option<i64> {
    let running = peer.run(doc! { "currentOp": 1, "$db": "admin" });
    let running = running.get_array("inprog").expect("a list").iter().filter_map(|one| one.as_document());
    let mut more = running.filter(|one| one.get_str("op").is_ok_and(|op| op == "getmore"));
    more.next_back().and_then(|one| one.get_i64("opid").ok())
}

#[test]
fn an_insert_wakes_a_batch_that_waits() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let (id, waits) = waiting(&fixture, LONG);
    insert(&mut peer, [5, 3]);
    let (reply, waited) = waits.join().expect("no panic");
    assert_eq!(batch(&reply), (id, vec![5, 3]));
    assert!(waited < PATIENCE);
}

#[test]
fn a_batch_waits_as_long_as_it_was_asked_to() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let id = tail(&mut peer);
    let begin = Instant::now();
    assert_eq!(batch(&get_more(&mut peer, id, 150)), (id, vec![]));
    assert!(begin.elapsed() >= Duration::from_millis(150));
    // A second, if nothing is said.
    let begin = Instant::now();
    assert_eq!(batch(&run(&mut peer, doc! { "getMore": id, "collection": "log" })), (id, vec![]));
    assert!(begin.elapsed() >= Duration::from_secs(1));
    insert(&mut peer, 1..5);
    let more = doc! { "getMore": id, "collection": "log", "batchSize": 3, "maxTimeMS": LONG };
    assert_eq!(batch(&run(&mut peer, more.clone())), (id, vec![1, 2, 3]));
    assert_eq!(batch(&run(&mut peer, more)), (id, vec![4]));
}

#[test]
fn a_cursor_that_does_not_await_answers_at_once() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let (id, found) = batch(&run(&mut peer, doc! { "find": "log", "tailable": true }));
    assert_eq!(found, [0]);
    assert_eq!(batch(&run(&mut peer, doc! { "getMore": id, "collection": "log" })), (id, vec![]));
    refused(&get_more(&mut peer, id, 5), 2);
    insert(&mut peer, [7]);
    assert_eq!(batch(&run(&mut peer, doc! { "getMore": id, "collection": "log" })), (id, vec![7]));
    // With nothing to follow it is at its end.
    done(&run(&mut peer, doc! { "delete": "log", "deletes": [{ "q": {}, "limit": 0 }] }));
    assert_eq!(batch(&run(&mut peer, doc! { "find": "log", "tailable": true })), (0, vec![]));
    refused(&run(&mut peer, doc! { "find": "log", "awaitData": true }), 9);
    refused(&run(&mut peer, doc! { "find": "log", "tailable": true, "sort": { "_id": 1 } }), 2);
}

#[test]
fn what_ends_the_cursor_ends_the_batch_that_waits() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let mut check = |end: &dyn Fn(&mut Peer, i64), code: i32| {
        make(&mut peer, 3);
        let (id, waits) = waiting(&fixture, LONG);
        end(&mut peer, id);
        let (reply, waited) = waits.join().expect("no panic");
        refused(&reply, code);
        assert!(waited < PATIENCE);
        refused(&get_more(&mut peer, id, 5), 43);
        run(&mut peer, doc! { "drop": "log" });
    };
    check(&|peer, id| done(&run(peer, doc! { "killCursors": "log", "cursors": [id] })), 237);
    check(&|peer, _| done(&run(peer, doc! { "drop": "log" })), 175);
    check(
        &|peer, id| {
            let op = number_of(peer, id).expect("it waits");
            done(&peer.run(doc! { "killOp": 1, "op": op, "$db": "admin" }));
        },
        11_601,
    );
    // A batch that is overtaken before it looks.
    make(&mut peer, 3);
    let id = tail(&mut peer);
    insert(&mut peer, 1..9);
    refused(&get_more(&mut peer, id, 5), 136);
    refused(&get_more(&mut peer, id, 5), 43);
}

#[test]
fn a_client_that_disconnects_leaves_no_batch_that_waits() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let mut gone = fixture.peer();
    let id = tail(&mut gone);
    let more = doc! { "getMore": id, "collection": "log", "maxTimeMS": LONG, "$db": "shop" };
    assert!(gone.send(&crate::peer::message(more).bytes(5, 0)));
    let begin = Instant::now();
    while number_of(&mut peer, id).is_none() {
        assert!(begin.elapsed() < PATIENCE, "it does not begin");
    }
    drop(gone);
    let begin = Instant::now();
    while number_of(&mut peer, id).is_some() {
        assert!(begin.elapsed() < PATIENCE, "it waits on");
    }
}

#[test]
fn batches_that_wait_take_no_place_from_other_commands() {
    let fixture = Fixture::with(|builder| builder.calls_max(1));
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let many: Vec<_> = (0..20).map(|_| waiting(&fixture, LONG)).collect();
    assert_eq!(batch(&run(&mut peer, doc! { "find": "log" })), (0, vec![0]));
    insert(&mut peer, [4]);
    for (id, waits) in many {
        assert_eq!(batch(&waits.join().expect("no panic").0), (id, vec![4]));
    }
}

#[test]
fn a_server_that_stops_does_not_wait_for_batches_that_wait() {
    let mut fixture = Fixture::with(|builder| builder.grace(PATIENCE));
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    let (_, waits) = waiting(&fixture, LONG);
    drop(peer);
    let begin = Instant::now();
    fixture.stop();
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    let (reply, _) = waits.join().expect("no panic");
    assert_eq!(batch(&reply).1, [0; 0]);
}

#[test]
fn collections_are_converted_and_copied() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    make(&mut peer, 0);
    done(&run(&mut peer, doc! { "insert": "things", "documents": [{ "_id": 2 }, { "_id": 1 }] }));
    done(&run(&mut peer, doc! { "convertToCapped": "things", "size": 4096 }));
    let copy = doc! { "cloneCollectionAsCapped": "log", "toCollection": "copy", "size": 4096 };
    done(&run(&mut peer, copy));
    for (name, count) in [("things", 2), ("copy", 1)] {
        let told = run(&mut peer, doc! { "collStats": name });
        assert_eq!(
            (told.get_bool("capped").ok(), told.get_i64("maxSize").ok(), told.get_i64("count").ok()),
            (Some(true), Some(4096), Some(count)),
            "{told}"
        );
    }
}
