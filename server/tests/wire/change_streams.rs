//! Change streams by wire: batches that wait for events, tokens with which another stream goes on, and what is rejected.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::{Bson, Document, Timestamp, doc};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::auth::{code, guarded_set, logged_in};
use crate::peer::{Peer, message, reply};
use crate::transactions::session;
use crate::{Fixture, PATIENCE};

/// Longer than a test takes whose batches are woken.
const LONG: i64 = 600_000;

fn fixture() -> Fixture {
    Fixture::with(|builder| builder.replica_set("rs"))
}

fn run(peer: &mut Peer, mut command: Document) -> Document {
    command.insert("$db", "shop");
    peer.run(command)
}

fn watch(target: impl Into<Bson>, options: Document) -> Document {
    doc! { "aggregate": target, "pipeline": [{ "$changeStream": options }], "cursor": {} }
}

fn insert(peer: &mut Peer, documents: Vec<Document>) {
    let reply = run(peer, doc! { "insert": "orders", "documents": documents });
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// A batch, split.
struct Batch {
    id: i64,
    events: Vec<Document>,
    token: Document,
}

#[track_caller]
fn batch(reply: &Document) -> Batch {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let events = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).expect("a batch");
    Batch {
        id: cursor.get_i64("id").expect("a number"),
        events: events.iter().filter_map(Bson::as_document).cloned().collect(),
        token: cursor.get_document("postBatchResumeToken").expect("a token").clone(),
    }
}

/// The next batch that is not empty.
#[track_caller]
fn next(peer: &mut Peer, id: i64) -> Batch {
    let begin = Instant::now();
    loop {
        let found = batch(&run(peer, doc! { "getMore": id, "collection": "orders", "maxTimeMS": LONG }));
        if !found.events.is_empty() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "no event comes");
    }
}

fn kinds(events: &[Document]) -> Vec<&str> {
    events.iter().map(|event| event.get_str("operationType").expect("a kind")).collect()
}

#[test]
fn a_batch_waits_for_an_event() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    assert!(opened.id != 0 && opened.events.is_empty());
    let waits = thread::spawn(move || next(&mut peer, opened.id));
    let mut other = fixture.peer();
    insert(&mut other, vec![doc! { "_id": 1 }]);
    let found = waits.join().expect("no panic");
    assert_eq!((found.id, kinds(&found.events)), (opened.id, vec!["insert"]));
    assert_eq!(found.events[0].get_document("fullDocument").ok(), Some(&doc! { "_id": 1 }));
    // That of the batch is the one of its last event, or of a later place.
    let data = |token: &Document| token.get_str("_data").expect("a text").to_owned();
    assert!(data(&found.token) >= data(found.events[0].get_document("_id").expect("a token")));
}

#[test]
fn a_batch_is_short_unless_its_length_is_said() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    let text = "x".repeat(300 << 10);
    insert(&mut peer, (0..20).map(|id| doc! { "_id": id, "text": &text }).collect());
    let ids = |events: &[Document]| -> Vec<i32> {
        let keys = events.iter().map(|event| event.get_document("documentKey").expect("a key"));
        keys.map(|key| key.get_i32("_id").expect("a number")).collect()
    };
    let first = next(&mut peer, opened.id);
    assert_eq!(ids(&first.events), (0..6).collect::<Vec<_>>());
    let all = run(&mut peer, doc! { "getMore": opened.id, "collection": "orders", "batchSize": 100 });
    let all = batch(&all);
    assert_eq!(ids(&all.events), (6..20).collect::<Vec<_>>());
    let resumed = batch(&run(&mut peer, watch("orders", doc! { "resumeAfter": first.token })));
    assert_eq!(ids(&resumed.events).first(), Some(&6));
}

#[test]
fn an_empty_batch_waits_as_long_as_it_was_asked_to_and_has_a_token() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    let begin = Instant::now();
    let more = doc! { "getMore": opened.id, "collection": "orders", "maxTimeMS": 150 };
    let empty = batch(&run(&mut peer, more));
    assert!(begin.elapsed() >= Duration::from_millis(150) && empty.events.is_empty());
    // Events after the empty batch are what a stream shows that goes on after its token.
    insert(&mut peer, vec![doc! { "_id": 1 }]);
    let resumed = batch(&run(&mut peer, watch("orders", doc! { "resumeAfter": empty.token })));
    let found = if resumed.events.is_empty() { next(&mut peer, resumed.id) } else { resumed };
    assert_eq!(kinds(&found.events), ["insert"]);
}

#[test]
fn a_stream_goes_on_after_the_token_of_every_batch() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let first = batch(&run(&mut peer, watch("orders", doc! {})));
    // Two of them have room in a batch: the third is read again for the next one.
    let text = "x".repeat(7 << 20);
    insert(&mut peer, (0..2).map(|id| doc! { "_id": id, "text": &text }).collect());
    insert(&mut peer, (2..4).map(|id| doc! { "_id": id, "text": &text }).collect());
    let keys = |batch: &Batch| -> Vec<i32> {
        let key = |event: &Document| event.get_document("documentKey").and_then(|key| key.get_i32("_id"));
        batch.events.iter().map(|event| key(event).expect("a key")).collect()
    };
    let (mut seen, mut tokens) = (Vec::new(), vec![(0, first.token.clone())]);
    while seen.len() < 4 {
        let found = next(&mut peer, first.id);
        seen.extend(keys(&found));
        tokens.push((seen.len(), found.token));
    }
    assert_eq!(seen, [0, 1, 2, 3]);
    assert!(tokens.len() > 2, "all of them had room in one batch");
    for (seen, token) in tokens.into_iter().filter(|(seen, _)| *seen < 4) {
        let opened = batch(&run(&mut peer, watch("orders", doc! { "startAfter": token })));
        let found = if opened.events.is_empty() { next(&mut peer, opened.id) } else { opened };
        assert_eq!(keys(&found).first(), i32::try_from(seen).ok().as_ref());
    }
}

#[test]
fn a_stream_begins_at_the_time_of_a_reply() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    run(&mut peer, watch("orders", doc! {}));
    insert(&mut peer, vec![doc! { "_id": 1 }]);
    let reply = run(&mut peer, doc! { "ping": 1 });
    let time = reply.get_timestamp("operationTime").expect("a time");
    insert(&mut peer, vec![doc! { "_id": 2 }]);
    let mut found = batch(&run(&mut peer, watch("orders", doc! { "startAtOperationTime": time })));
    let mut events = Vec::new();
    // The last write before the time may be shown again, as in MongoDB.
    while events.len() < 2 && events.last() != Some(&doc! { "_id": 2 }) {
        if found.events.is_empty() {
            found = next(&mut peer, found.id);
        }
        for event in found.events.drain(..) {
            assert!(event.get_timestamp("clusterTime").expect("a time") >= time);
            events.push(event.get_document("documentKey").expect("a key").clone());
        }
    }
    assert_eq!(events.last(), Some(&doc! { "_id": 2 }));
}

#[test]
fn a_drop_ends_a_stream_and_another_begins_after_it() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    insert(&mut peer, vec![doc! { "_id": 1 }]);
    run(&mut peer, doc! { "drop": "orders" });
    let (mut events, mut last) = (Vec::new(), opened);
    while last.id != 0 {
        last = next(&mut peer, last.id);
        events.append(&mut last.events);
    }
    assert_eq!(kinds(&events), ["insert", "drop", "invalidate"]);
    let refused = run(&mut peer, watch("orders", doc! { "resumeAfter": &last.token }));
    assert_eq!(code(&refused), 260);
    let opened = batch(&run(&mut peer, watch("orders", doc! { "startAfter": &last.token })));
    insert(&mut peer, vec![doc! { "_id": 2 }]);
    assert_eq!(kinds(&next(&mut peer, opened.id).events), ["insert"]);
}

#[test]
fn databases_and_all_of_them_are_watched() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let of_database = batch(&run(&mut peer, watch(1, doc! {})));
    let mut all = watch(1, doc! { "allChangesForCluster": true });
    all.insert("$db", "admin");
    let of_all = batch(&peer.run(all));
    insert(&mut peer, vec![doc! { "_id": 1 }]);
    for (id, db) in [(of_database.id, "shop"), (of_all.id, "admin")] {
        let begin = Instant::now();
        loop {
            let more = doc! { "getMore": id, "collection": "$cmd.aggregate", "maxTimeMS": LONG, "$db": db };
            let found = batch(&peer.run(more));
            if let Some(event) = found.events.first() {
                let of = event.get_document("ns").ok();
                assert_eq!(of, Some(&doc! { "db": "shop", "coll": "orders" }));
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "no event comes");
        }
    }
}

#[test]
fn a_batch_that_waits_ends_with_its_cursor() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    let waits = thread::spawn(move || {
        run(&mut peer, doc! { "getMore": opened.id, "collection": "orders", "maxTimeMS": LONG })
    });
    let mut other = fixture.peer();
    let begin = Instant::now();
    while !waits.is_finished() {
        run(&mut other, doc! { "killCursors": "orders", "cursors": [opened.id] });
        assert!(begin.elapsed() < PATIENCE, "it waits on");
    }
    // Killed before or while it waited.
    assert!([43, 237].contains(&code(&waits.join().expect("no panic"))));
}

#[test]
fn what_is_no_change_stream_is_refused() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    insert(&mut peer, vec![doc! { "_id": 1 }]);
    run(&mut peer, doc! { "create": "seen", "viewOn": "orders", "pipeline": [] });
    let time = Timestamp { time: u32::MAX, increment: 1 };
    let token = batch(&run(&mut peer, watch("orders", doc! {}))).token;
    let both = doc! { "resumeAfter": &token, "startAfter": &token };
    let with_time = doc! { "resumeAfter": &token, "startAtOperationTime": time };
    for (command, expected) in [
        (watch("orders", doc! { "every": 1 }), 40_415),
        (watch("orders", doc! { "fullDocument": "all" }), 2),
        (watch("orders", doc! { "fullDocumentBeforeChange": 1 }), 14),
        (watch("orders", doc! { "resumeAfter": { "_data": "00" } }), 260),
        (watch("orders", doc! { "resumeAfter": {} }), 260),
        (watch("orders", doc! { "resumeAfter": 1 }), 14),
        (watch("orders", both), 50_865),
        (watch("orders", with_time), 40_674),
        (watch("orders", doc! { "startAtOperationTime": 1 }), 14),
        (watch("orders", doc! { "startAtOperationTime": time }), 286),
        (watch("orders", doc! { "allChangesForCluster": true }), 72),
        (watch("seen", doc! {}), 166),
        (watch("system.profile", doc! {}), 73),
        (doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": 1 }], "cursor": {} }, 14),
        (doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }] }, 9),
        (
            doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }, { "$group": { "_id": 1 } }], "cursor": {} },
            20,
        ),
        (
            doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }, { "$unknown": 1 }], "cursor": {} },
            40_324,
        ),
        (
            doc! { "aggregate": "orders", "pipeline": [{ "$match": {} }, { "$changeStream": {} }], "cursor": {} },
            40_602,
        ),
        (
            doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }], "cursor": {}, "let": { "a": 1 } },
            238,
        ),
    ] {
        let reply = run(&mut peer, command.clone());
        assert_eq!(code(&reply), expected, "{command}: {reply}");
        let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
        let is_lost = labels.contains(&Bson::from("NonResumableChangeStreamError"));
        assert_eq!(is_lost, expected == 286, "{command}: {reply}");
    }
    for database in ["admin", "local", "config"] {
        let mut command = watch(1, doc! {});
        command.insert("$db", database);
        assert_eq!(code(&peer.run(command)), 73, "{database}");
    }
    let mut within = watch("orders", doc! {});
    within.extend(
        doc! { "lsid": session(1), "txnNumber": 1_i64, "autocommit": false, "startTransaction": true },
    );
    assert_eq!(code(&run(&mut peer, within)), 263);
    let mut alone = Fixture::new();
    assert_eq!(code(&run(&mut alone.peer(), watch("orders", doc! {}))), 40_573);
    alone.stop();
}

/// The text of a token, with other digits from a place on.
fn altered(token: &Document, at: usize, with: &str) -> Document {
    let mut data = token.get_str("_data").expect("a text").to_owned();
    data.replace_range(at..at + with.len(), with);
    doc! { "_data": data }
}

#[track_caller]
fn is_refused(reply: &Document, expected: i32) {
    assert_eq!(code(reply), expected, "{reply}");
    let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
    let lost = [Bson::from("NonResumableChangeStreamError")];
    assert_eq!(labels, if expected == 286 { &lost[..] } else { &[] }, "{reply}");
}

#[test]
fn places_that_the_log_does_not_have_are_refused() {
    let (fixture, other) = (fixture(), fixture());
    let mut peer = fixture.peer();
    let token = batch(&run(&mut peer, watch("orders", doc! {}))).token;
    let of_other = batch(&run(&mut other.peer(), watch("orders", doc! {}))).token;
    for (token, expected) in [
        // Ahead of the clock, of another store, of another version, cut short, and longer.
        (altered(&token, 2, "FFFFFFFF"), 286),
        (of_other, 260),
        (altered(&token, 0, "02"), 260),
        (doc! { "_data": &token.get_str("_data").expect("a text")[..20] }, 260),
        (doc! { "_data": format!("{}00", token.get_str("_data").expect("a text")) }, 260),
    ] {
        for name in ["resumeAfter", "startAfter"] {
            is_refused(&run(&mut peer, watch("orders", doc! { name: &token })), expected);
        }
    }
    batch(&run(&mut peer, watch("orders", doc! { "resumeAfter": token })));
}

/// The log keeps no event for a reader that does not come back.
#[test]
fn a_stream_that_the_log_has_overtaken_between_two_batches_is_lost() {
    let opening = Client::builder().change_log_bytes_max(64 << 10);
    let fixture = Fixture::of(opening, |_| (), |builder| builder.replica_set("rs"));
    let mut peer = fixture.peer();
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    let (begin, text) = (Instant::now(), "x".repeat(1000));
    loop {
        insert(&mut peer, (0..50).map(|_| doc! { "text": &text }).collect());
        let resumed = run(&mut peer, watch("orders", doc! { "resumeAfter": &opened.token }));
        if code(&resumed) != 0 {
            is_refused(&resumed, 286);
            break;
        }
        let id = batch(&resumed).id;
        run(&mut peer, doc! { "killCursors": "orders", "cursors": [id] });
        assert!(begin.elapsed() < PATIENCE, "nothing is forgotten");
    }
    let more = doc! { "getMore": opened.id, "collection": "orders", "maxTimeMS": LONG };
    is_refused(&run(&mut peer, more.clone()), 286);
    // Its cursor is gone with it.
    is_refused(&run(&mut peer, more), 43);
    // The next stream begins with what comes now.
    let opened = batch(&run(&mut peer, watch("orders", doc! {})));
    insert(&mut peer, vec![doc! { "_id": "now" }]);
    assert_eq!(kinds(&next(&mut peer, opened.id).events), ["insert"]);
}

#[test]
fn who_only_reads_watches_what_is_logged_already() {
    let fixture = guarded_set();
    let mut reader = logged_in(&fixture, "reader", "IX");
    for target in [Bson::from("orders"), Bson::from(1)] {
        assert_eq!(code(&run(&mut reader, watch(target, doc! {}))), 13);
    }
    let mut ada = logged_in(&fixture, "ada", "pencil");
    batch(&run(&mut ada, watch("orders", doc! {})));
    let opened = batch(&run(&mut reader, watch("orders", doc! {})));
    insert(&mut ada, vec![doc! { "_id": 1 }]);
    assert_eq!(kinds(&next(&mut reader, opened.id).events), ["insert"]);
    assert_eq!(code(&run(&mut reader, watch("others", doc! {}))), 13);
}

#[test]
fn drivers_go_on_after_failures_with_a_label() {
    let fixture = Fixture::with(|builder| builder.replica_set("rs").test_commands());
    let mut peer = fixture.peer();
    for (failing, is_labelled) in [(10_107, true), (234, true), (11_601, false)] {
        let opened = batch(&run(&mut peer, watch("orders", doc! {})));
        let fault = doc! { "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "times": 1 }, "data": { "errorCode": failing }, "$db": "admin" };
        assert_eq!(code(&peer.run(fault)), 0);
        let reply = run(&mut peer, doc! { "getMore": opened.id, "collection": "orders", "maxTimeMS": LONG });
        let labels = reply.get_array("errorLabels").cloned().unwrap_or_default();
        assert_eq!(code(&reply), failing, "{reply}");
        assert_eq!(labels.contains(&"ResumableChangeStreamError".into()), is_labelled, "{reply}");
    }
}

/// Batches wait in no thread, and one event answers them all.
#[test]
fn a_thousand_batches_that_wait_take_no_thread_each() {
    const STREAMS: usize = 1000;
    // Both ends of the connections are here, and the server takes no more connections than half of the files.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).expect("allowed");
    let fixture = fixture();
    let mut other = fixture.peer();
    insert(&mut other, vec![doc! { "_id": 0 }]);
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let mut peers: Vec<Peer> = (0..STREAMS).map(|_| fixture.peer()).collect();
    for peer in &mut peers {
        let opened = batch(&run(peer, watch("orders", doc! {})));
        let more = doc! { "getMore": opened.id, "collection": "orders", "maxTimeMS": LONG, "$db": "shop" };
        assert!(peer.send(&message(more).bytes(1, 0)));
    }
    let waiting = |peer: &mut Peer| {
        let running = peer.run(doc! { "currentOp": 1, "op": "getmore", "$db": "admin" });
        running.get_array("inprog").expect("a list").len()
    };
    let begin = Instant::now();
    while waiting(&mut other) < STREAMS {
        assert!(begin.elapsed() < PATIENCE, "{} wait", waiting(&mut other));
        thread::park_timeout(Duration::from_millis(1));
    }
    // Those of other tests come and go.
    assert!(threads() < before + STREAMS / 2, "{before} threads became {}", threads());
    insert(&mut other, vec![doc! { "_id": 1 }]);
    for peer in &mut peers {
        let (_, answer) = peer.receive().expect("an answer");
        let found = batch(&reply(&answer));
        assert_eq!(kinds(&found.events), ["insert"]);
    }
}
