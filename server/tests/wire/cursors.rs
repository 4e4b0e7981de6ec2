//! Cursors between two batches: their batches, their owners, and how they are closed.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Document, bson, doc};

use crate::peer::Peer;
use crate::{Fixture, PATIENCE, fill};

/// A cursor's number and how many documents its batch has.
#[track_caller]
fn batch(reply: &Document) -> (i64, usize) {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let documents = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
    (cursor.get_i64("id").expect("a number"), documents.expect("a batch").len())
}

fn find(peer: &mut Peer, more: Document) -> Document {
    let mut command = doc! { "find": "a" };
    command.extend(more);
    command.insert("$db", "shop");
    peer.run(command)
}

fn get_more(peer: &mut Peer, id: i64, more: Document) -> Document {
    let mut command = doc! { "getMore": id, "collection": "a" };
    command.extend(more);
    command.insert("$db", "shop");
    peer.run(command)
}

fn session(number: u8) -> Document {
    doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![number; 16] } }
}

#[track_caller]
fn refused(reply: &Document, code: i32) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
}

#[test]
fn batches_have_the_size_that_was_asked_for() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 300);
    let (id, len) = batch(&find(&mut peer, doc! {}));
    assert!(id != 0 && len == 101);
    assert_eq!(batch(&get_more(&mut peer, id, doc! { "batchSize": 7 })), (id, 7));
    assert_eq!(batch(&get_more(&mut peer, id, doc! {})), (0, 192));
    refused(&get_more(&mut peer, id, doc! {}), 43);
    let (id, len) = batch(&find(&mut peer, doc! { "batchSize": 0 }));
    assert!(id != 0 && len == 0);
    assert_eq!(batch(&get_more(&mut peer, id, doc! { "batchSize": 300 })), (id, 300));
    assert_eq!(batch(&get_more(&mut peer, id, doc! {})), (0, 0));
    assert_eq!(batch(&find(&mut peer, doc! { "singleBatch": true, "batchSize": 3 })), (0, 3));
    assert_eq!(batch(&find(&mut peer, doc! { "limit": 5, "batchSize": 5 })), (0, 5));
    assert_eq!(batch(&find(&mut peer, doc! { "filter": { "_id": 3 } })), (0, 1));
}

#[test]
fn a_batch_holds_sixteen_megabytes() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    for id in 0..5 {
        let documents = [doc! { "_id": id, "text": "x".repeat(6 << 20) }];
        let insert = doc! { "insert": "a", "$db": "shop" };
        assert_eq!(peer.run_with(insert, "documents", &documents).get_i32("n").ok(), Some(1));
    }
    let (id, len) = batch(&find(&mut peer, doc! {}));
    assert!(id != 0 && len == 2);
    assert_eq!(batch(&get_more(&mut peer, id, doc! {})), (id, 2));
    assert_eq!(batch(&get_more(&mut peer, id, doc! {})), (0, 1));
}

#[test]
fn a_cursor_belongs_to_its_namespace_and_session_and_not_to_its_connection() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let (id, _) = batch(&find(&mut peer, doc! { "batchSize": 2, "lsid": session(1) }));
    refused(&get_more(&mut peer, id, doc! { "collection": "b", "lsid": session(1) }), 13);
    refused(&get_more(&mut peer, id, doc! { "lsid": session(2) }), 50_738);
    refused(&get_more(&mut peer, id, doc! {}), 50_738);
    refused(&get_more(&mut peer, id, doc! { "batchSize": -1, "lsid": session(1) }), 51_024);
    let mut other = fixture.peer();
    drop(peer);
    assert_eq!(batch(&get_more(&mut other, id, doc! { "lsid": session(1) })), (0, 8));
}

#[test]
fn cursors_are_killed_by_number_and_by_session() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let mut open = |more: Document| {
        let mut asked = doc! { "batchSize": 2 };
        asked.extend(more);
        batch(&find(&mut peer, asked)).0
    };
    let (first, second, third) =
        (open(doc! {}), open(doc! { "lsid": session(1) }), open(doc! { "lsid": session(2) }));
    let reply = peer.run(doc! { "killCursors": "a", "cursors": [first, 5_i64], "$db": "shop" });
    let expected = doc! {
        "cursorsKilled": [first], "cursorsNotFound": [5_i64], "cursorsAlive": [], "cursorsUnknown": [], "ok": 1.0,
    };
    assert_eq!(reply, expected);
    peer.run(doc! { "killSessions": [session(1)], "$db": "admin" });
    refused(&get_more(&mut peer, second, doc! { "lsid": session(1) }), 43);
    assert_eq!(batch(&get_more(&mut peer, third, doc! { "batchSize": 1, "lsid": session(2) })), (third, 1));
    peer.run(doc! { "killAllSessions": [], "$db": "admin" });
    refused(&get_more(&mut peer, third, doc! { "lsid": session(2) }), 43);
}

/// A number in `metrics.cursor.open` of `serverStatus`.
fn open_cursors(peer: &mut Peer, which: &str) -> i64 {
    let status = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
    let cursors = status.get_document("metrics").and_then(|metrics| metrics.get_document("cursor"));
    let open = cursors.and_then(|cursors| cursors.get_document("open")).expect("cursors");
    open.get_i64(which).expect("a number")
}

#[track_caller]
fn wait_for_cursors(peer: &mut Peer, which: &str, expected: i64) {
    let end = Instant::now() + PATIENCE;
    while open_cursors(peer, which) != expected {
        assert!(Instant::now() < end, "{which} is not {expected}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// A cursor that was killed within a batch once returned it like the last one: 5 of 9 documents, and the end.
#[test]
fn a_cursor_that_is_killed_within_a_batch_fails() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 400);
    let kills = [
        |id: i64| doc! { "killCursors": "a", "cursors": [id], "$db": "shop" },
        |_| doc! { "killSessions": [session(7)], "$db": "admin" },
        |_| doc! { "endSessions": [session(7)], "$db": "admin" },
    ];
    // Each document takes a while, so that the kill comes long before the last one.
    let sum = bson!({ "$reduce": {
        "input": { "$range": [0, 20_000] }, "initialValue": 0, "in": { "$add": ["$$value", "$$this"] },
    } });
    for kill in kills {
        let opened = peer.run(doc! {
            "aggregate": "a", "pipeline": [{ "$project": { "sum": sum.clone() } }], "cursor": { "batchSize": 1 },
            "lsid": session(7), "$db": "shop",
        });
        let (id, len) = batch(&opened);
        assert!(id != 0 && len == 1);
        let mut reader = fixture.peer();
        let reading = std::thread::spawn(move || get_more(&mut reader, id, doc! { "lsid": session(7) }));
        wait_for_cursors(&mut peer, "pinned", 1);
        peer.run(kill(id));
        refused(&reading.join().expect("it was answered"), 237);
        assert_eq!(open_cursors(&mut peer, "total"), 0);
        refused(&get_more(&mut peer, id, doc! { "lsid": session(7) }), 43);
    }
}

/// Once only a kill or the end of the server closed them.
#[test]
fn cursors_without_a_timeout_go_with_their_session_or_connection() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let mut other = fixture.peer();
    let stays = || doc! { "batchSize": 2, "noCursorTimeout": true };
    let (id, _) = batch(&find(&mut other, stays()));
    let mut in_session = stays();
    in_session.insert("lsid", session(1));
    let (in_session, _) = batch(&find(&mut other, in_session));
    // Any connection may read it while its own connection is open.
    assert_eq!(batch(&get_more(&mut peer, id, doc! { "batchSize": 1 })), (id, 1));
    drop(other);
    wait_for_cursors(&mut peer, "total", 1);
    refused(&get_more(&mut peer, id, doc! {}), 43);
    let more = doc! { "batchSize": 1, "lsid": session(1) };
    assert_eq!(batch(&get_more(&mut peer, in_session, more.clone())), (in_session, 1));
    peer.run(doc! { "endSessions": [session(1)], "$db": "admin" });
    assert_eq!(open_cursors(&mut peer, "total"), 0);
    refused(&get_more(&mut peer, in_session, more), 43);
}

#[test]
fn idle_cursors_are_closed_unless_they_have_no_timeout() {
    let fixture = Fixture::with(|builder| builder.cursor_timeout(Duration::from_millis(50)));
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let (stays, _) = batch(&find(&mut peer, doc! { "batchSize": 2, "noCursorTimeout": true }));
    let (goes, _) = batch(&find(&mut peer, doc! { "batchSize": 2 }));
    assert!(stays != 0 && goes != 0);
    let start = Instant::now();
    loop {
        let status = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
        let cursors = status.get_document("metrics").and_then(|metrics| metrics.get_document("cursor"));
        if cursors.is_ok_and(|cursors| cursors.get_i64("timedOut").ok() == Some(1)) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "no cursor was ended");
        thread::park_timeout(Duration::from_millis(1));
    }
    refused(&get_more(&mut peer, goes, doc! {}), 43);
    assert_eq!(batch(&get_more(&mut peer, stays, doc! {})), (0, 8));
}

#[test]
fn open_cursors_are_bounded() {
    let fixture = Fixture::with(|builder| builder.cursors_max(3));
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 10);
    let ids: Vec<i64> = (0..3).map(|_| batch(&find(&mut peer, doc! { "batchSize": 1 })).0).collect();
    let more = batch(&find(&mut peer, doc! { "batchSize": 1 })).0;
    assert_eq!(open_cursors(&mut peer, "total"), 3);
    // The oldest one was closed for it.
    refused(&get_more(&mut peer, ids[0], doc! {}), 43);
    for id in [ids[1], ids[2], more] {
        assert_eq!(batch(&get_more(&mut peer, id, doc! {})), (0, 9));
    }
}

#[test]
fn lists_are_cursors_as_well() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    for number in 0..5 {
        peer.run(doc! { "create": format!("c{number}"), "$db": "shop" });
    }
    let reply = peer.run(doc! { "listCollections": 1, "cursor": { "batchSize": 2 }, "$db": "shop" });
    let (id, len) = batch(&reply);
    assert!(id != 0 && len == 2);
    let more = doc! { "getMore": id, "collection": "$cmd.listCollections", "$db": "shop" };
    assert_eq!(batch(&peer.run(more)), (0, 3));
    let indexes = peer.run(doc! { "listIndexes": "c1", "$db": "shop" });
    assert_eq!(batch(&indexes), (0, 1));
    refused(&peer.run(doc! { "listIndexes": "none", "$db": "shop" }), 26);
}
