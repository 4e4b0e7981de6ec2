//! Writes that are sent again, commits that are, and reads of one state.

use std::thread;
use std::time::Duration;

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, Timestamp, doc};
use cairndb_server::Server;

use crate::Fixture;
use crate::peer::Peer;
use crate::transactions::{refused, session};

fn fixture() -> Fixture {
    Fixture::with(|builder| builder.replica_set("rs").test_commands())
}

fn write(peer: &mut Peer, number: i64, mut command: Document) -> Document {
    command.extend(doc! { "lsid": session(1), "txnNumber": number, "$db": "shop" });
    peer.run(command)
}

fn count(peer: &mut Peer, filter: Document) -> i32 {
    peer.run(doc! { "count": "a", "query": filter, "$db": "shop" }).get_i32("n").expect("a number")
}

/// The parts that are the same in both answers.
fn told(mut reply: Document) -> Document {
    for name in ["$clusterTime", "operationTime", "retriedStmtIds"] {
        reply.remove(name);
    }
    reply
}

#[test]
fn a_write_that_is_sent_again_takes_effect_once() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let increase = doc! { "update": "a", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
    let commands = [
        doc! { "insert": "a", "documents": [{ "_id": 1, "n": 0 }, { "_id": 2, "n": 0 }] },
        increase.clone(),
        doc! { "findAndModify": "a", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } }, "new": true },
        doc! { "update": "a", "updates": [{ "q": { "_id": 3 }, "u": { "$inc": { "n": 5 } }, "upsert": true }] },
        doc! { "delete": "a", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] },
    ];
    for (number, command) in (1..).zip(commands) {
        let first = write(&mut peer, number, command.clone());
        assert_eq!(first.get_f64("ok").ok(), Some(1.0), "{first}");
        // By another connection: the first one was lost.
        let again = write(&mut fixture.peer(), number, command.clone());
        assert!(again.contains_key("retriedStmtIds"), "{command}: {again}");
        assert_eq!(told(first), told(again), "{command}");
    }
    assert_eq!(count(&mut peer, doc! { "_id": 1, "n": 2 }), 1);
    assert_eq!(count(&mut peer, doc! { "_id": 3, "n": 5 }), 1);
    assert_eq!(count(&mut peer, doc! {}), 2);
    refused(&write(&mut peer, 3, increase.clone()), 225, &[]);
    // The number of another command.
    refused(&write(&mut peer, 5, increase.clone()), 72, &[]);
    // A transaction takes a number of its own, and a write after it the next one.
    let begin = doc! { "autocommit": false, "startTransaction": true };
    let mut statement = increase.clone();
    statement.extend(begin.clone());
    refused(&write(&mut peer, 5, statement.clone()), 117, &[]);
    assert_eq!(write(&mut peer, 6, statement).get_f64("ok").ok(), Some(1.0));
    refused(&write(&mut peer, 6, increase.clone()), 72, &[]);
    assert_eq!(write(&mut peer, 7, increase.clone()).get_i32("n").ok(), Some(1));
    // The write has ended the transaction.
    let mut late = increase;
    late.insert("autocommit", false);
    refused(&write(&mut peer, 6, late), 225, &[]);
    assert_eq!(count(&mut peer, doc! { "_id": 1, "n": 3 }), 1);
}

/// Another server over the same store knows no numbers, as one that was started again.
#[test]
fn a_server_that_is_started_again_answers_what_was_answered() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let insert = |id: i32| doc! { "insert": "a", "documents": [{ "_id": id }] };
    write(&mut peer, 1, insert(0));
    let statement = |id: i32| {
        let mut statement = insert(id);
        statement.extend(doc! { "autocommit": false, "startTransaction": true });
        statement
    };
    let commit = |number: i64| {
        doc! { "commitTransaction": 1, "lsid": session(1), "txnNumber": number, "autocommit": false, "writeConcern": { "w": "majority" },
        "$db": "admin" }
    };
    assert_eq!(write(&mut peer, 2, statement(1)).get_i32("n").ok(), Some(1));
    assert_eq!(peer.run(commit(2)).get_f64("ok").ok(), Some(1.0));
    let client = fixture.client.clone().expect("it is open");
    let again = Server::builder(client).tcp("127.0.0.1:0".parse().expect("an address")).replica_set("rs");
    let again = again.spawn().expect("it starts");
    let mut peer = Peer::connect(again.local_addr().expect("an address"));
    assert_eq!(peer.run(commit(2)).get_f64("ok").ok(), Some(1.0));
    refused(&peer.run(commit(3)), 251, &["TransientTransactionError"]);
    refused(&peer.run(commit(1)), 225, &[]);
    let mut abort = commit(2);
    abort.remove("writeConcern");
    abort.remove("commitTransaction");
    let abort: Document =
        [("abortTransaction".to_owned(), Bson::Int32(1))].into_iter().chain(abort).collect();
    refused(&peer.run(abort), 256, &[]);
    refused(&write(&mut peer, 2, statement(2)), 117, &[]);
    refused(&write(&mut peer, 1, statement(2)), 225, &[]);
    refused(&write(&mut peer, 1, insert(7)), 225, &[]);
    assert_eq!(write(&mut peer, 3, statement(2)).get_i32("n").ok(), Some(1));
    assert_eq!(peer.run(commit(3)).get_f64("ok").ok(), Some(1.0));
    assert_eq!(count(&mut peer, doc! {}), 3);
    drop(peer);
    again.stop();
}

#[test]
fn a_fail_point_breaks_retryable_writes() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let configure = |peer: &mut Peer, data: Document| {
        let mode = doc! { "times": 1 };
        let point = doc! { "configureFailPoint": "onPrimaryTransactionalWrite", "mode": mode, "data": data, "$db": "admin" };
        assert_eq!(peer.run(point).get_f64("ok").ok(), Some(1.0));
    };
    let insert = |id: i32| doc! { "insert": "a", "documents": [{ "_id": id }] };
    configure(&mut peer, doc! { "failBeforeCommitExceptionCode": 91, "closeConnection": false });
    // Writes without a number do not meet it.
    assert_eq!(
        peer.run(doc! { "insert": "a", "documents": [{ "_id": 0 }], "$db": "shop" }).get_i32("n").ok(),
        Some(1)
    );
    refused(&write(&mut peer, 1, insert(1)), 91, &["RetryableWriteError", "NoWritesPerformed"]);
    assert_eq!(write(&mut peer, 1, insert(1)).get_i32("n").ok(), Some(1));
    // Without a code the write is done, and its answer lost.
    configure(&mut peer, doc! {});
    let mut lost = insert(2);
    lost.extend(doc! { "lsid": session(1), "txnNumber": 2_i64, "$db": "shop" });
    assert!(peer.send(&crate::peer::message(lost).bytes(1, 0)));
    assert!(peer.receive().is_none(), "the connection is closed");
    let again = write(&mut fixture.peer(), 2, insert(2));
    assert_eq!((again.get_i32("n").ok(), again.contains_key("retriedStmtIds")), (Some(1), true), "{again}");
    assert_eq!(count(&mut fixture.peer(), doc! {}), 3);
}

#[test]
fn reads_of_a_snapshot_are_of_one_state() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let insert = |peer: &mut Peer, id: i32| {
        peer.run(doc! { "insert": "a", "documents": [{ "_id": id }], "$db": "shop" });
    };
    insert(&mut peer, 1);
    insert(&mut peer, 2);
    let at = |time: Option<Timestamp>| {
        let mut concern = doc! { "level": "snapshot" };
        concern.extend(time.map(|time| ("atClusterTime".to_owned(), Bson::from(time))));
        doc! { "lsid": session(1), "readConcern": concern, "$db": "shop" }
    };
    let mut read = |command: Document, time: Option<Timestamp>| {
        let mut command = command;
        command.extend(at(time));
        peer.run(command)
    };
    let find = || doc! { "find": "a", "batchSize": 1 };
    let first = read(find(), None);
    let cursor = first.get_document("cursor").expect("a cursor").clone();
    let time = cursor.get_timestamp("atClusterTime").expect("a time");
    insert(&mut fixture.peer(), 3);
    let distinct = read(doc! { "distinct": "a", "key": "_id" }, Some(time));
    assert_eq!(distinct.get_array("values").map(Vec::len).ok(), Some(2), "{distinct}");
    assert_eq!(distinct.get_timestamp("atClusterTime").ok(), Some(time));
    let counted = read(doc! { "aggregate": "a", "pipeline": [{ "$count": "n" }], "cursor": {} }, Some(time));
    assert!(counted.to_string().contains("\"n\": 2"), "{counted}");
    let now = read(doc! { "distinct": "a", "key": "_id" }, None);
    assert_eq!(now.get_array("values").map(Vec::len).ok(), Some(3), "{now}");
    refused(&read(find(), Some(Timestamp { time: 1, increment: 1 })), 239, &[]);
    refused(&read(doc! { "count": "a" }, Some(time)), 72, &[]);
    refused(&read(doc! { "insert": "a", "documents": [{}] }, None), 72, &[]);
    // Its cursor is of the state, too.
    let id = cursor.get_i64("id").expect("a number");
    let more = peer.run(doc! { "getMore": id, "collection": "a", "lsid": session(1), "$db": "shop" });
    let more = more.get_document("cursor").expect("a cursor");
    assert_eq!((more.get_array("nextBatch").map(Vec::len).ok(), more.get_i64("id").ok()), (Some(1), Some(0)));
    // More than are kept: the oldest is gone.
    for _ in 0..64 {
        peer.run([("find".to_owned(), Bson::from("a"))].into_iter().chain(at(None)).collect());
    }
    refused(
        &peer.run([("find".to_owned(), Bson::from("a"))].into_iter().chain(at(Some(time))).collect()),
        239,
        &[],
    );
}

#[test]
fn a_write_with_a_token_takes_effect_once_and_so_does_a_commit() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let insert = doc! { "insert": "a", "documents": [{ "n": 1 }], "exactlyOnce": "order 7", "$db": "shop" };
    let first = peer.run(insert.clone());
    let again = fixture.peer().run(insert);
    assert_eq!(
        (first.get_bool("replayed").ok(), again.get_bool("replayed").ok()),
        (None, Some(true)),
        "{again}"
    );
    assert_eq!(count(&mut peer, doc! {}), 1);
    let other = doc! { "insert": "a", "documents": [{ "n": 2 }], "exactlyOnce": "order 7", "$db": "shop" };
    refused(&peer.run(other), 72, &[]);
    // A transaction with a token. Each attempt is a new one: the client does not know what became of the one before.
    for number in 1..4 {
        let mut statement = doc! { "update": "a", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } } }] };
        statement.extend(doc! { "autocommit": false, "startTransaction": true });
        let done = write(&mut peer, number, statement);
        assert_eq!(done.get_i32("n").ok(), Some(1), "{done}");
        let commit =
            doc! { "commitTransaction": 1, "lsid": session(1), "txnNumber": number, "autocommit": false };
        let mut commit_once = commit.clone();
        commit_once.extend(doc! { "exactlyOnce": "payment 3", "$db": "admin" });
        for attempt in 0..2 {
            let reply = peer.run(commit_once.clone());
            let is_first = number == 1 && attempt == 0;
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
            assert_eq!(
                reply.get_bool("replayed").ok(),
                (!is_first).then_some(true),
                "{number} {attempt}: {reply}"
            );
        }
        assert_eq!(count(&mut peer, doc! { "n": 2 }), 1);
    }
    // One that the server does not know any more.
    let commit = doc! { "commitTransaction": 1, "lsid": session(2), "txnNumber": 9_i64, "autocommit": false,
    "exactlyOnce": "payment 3", "$db": "admin" };
    assert_eq!(peer.run(commit.clone()).get_bool("replayed").ok(), Some(true));
    let mut unknown = commit;
    unknown.insert("exactlyOnce", "payment 4");
    refused(&peer.run(unknown), 251, &["TransientTransactionError"]);
}

#[test]
fn what_is_no_token_is_refused_and_changes_nothing() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    peer.run(doc! { "insert": "a", "documents": [{ "_id": 1, "n": 1 }], "$db": "shop" });
    let increase = doc! { "$inc": { "n": 1 } };
    let update = doc! { "q": { "_id": 1 }, "u": &increase };
    let bytes = |len| Bson::from(Binary { subtype: BinarySubtype::Generic, bytes: vec![7; len] });
    let wrong = [
        (Bson::from(""), 2),
        ("x".repeat(65).into(), 2),
        // 33 letters of two bytes.
        ("ä".repeat(33).into(), 2),
        (bytes(0), 2),
        (bytes(65), 2),
        (7.into(), 14),
        (doc! { "a": 1 }.into(), 14),
    ];
    for (token, expected) in wrong.clone() {
        for command in [
            doc! { "insert": "a", "documents": [{ "n": 1 }] },
            doc! { "insert": "a", "documents": [{ "n": 1 }, { "n": 2 }] },
            doc! { "update": "a", "updates": [update.clone()] },
            doc! { "update": "a", "updates": [update.clone(), update.clone()] },
            doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 1 }] },
            doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "findAndModify": "a", "query": { "_id": 1 }, "update": &increase },
            doc! { "findAndModify": "a", "query": { "_id": 1 }, "remove": true },
        ] {
            let mut command = command;
            command.extend(doc! { "exactlyOnce": token.clone(), "$db": "shop" });
            refused(&peer.run(command), expected, &[]);
        }
        let mut bulk = doc! { "bulkWrite": 1, "ops": [{ "insert": 0, "document": { "n": 1 } }], "nsInfo": [{ "ns": "shop.a" }] };
        bulk.extend(doc! { "exactlyOnce": token.clone(), "$db": "admin" });
        refused(&peer.run(bulk), expected, &[]);
        assert_eq!(
            (count(&mut peer, doc! {}), count(&mut peer, doc! { "_id": 1, "n": 1 })),
            (1, 1),
            "{token}"
        );
    }
    // Nor is a transaction committed with one: it goes on, and is committed with a token that is one.
    let mut statement = doc! { "update": "a", "updates": [update] };
    statement.extend(doc! { "autocommit": false, "startTransaction": true });
    write(&mut peer, 1, statement);
    let mut commit = doc! { "commitTransaction": 1, "lsid": session(1), "txnNumber": 1_i64, "autocommit": false, "$db": "admin" };
    for (token, expected) in wrong {
        commit.insert("exactlyOnce", token);
        refused(&peer.run(commit.clone()), expected, &[]);
        assert_eq!(count(&mut peer, doc! { "n": 1 }), 1);
    }
    // The longest one.
    commit.insert("exactlyOnce", bytes(64));
    let committed = peer.run(commit);
    assert_eq!(committed.get_f64("ok").ok(), Some(1.0), "{committed}");
    assert_eq!(count(&mut peer, doc! { "_id": 1, "n": 2 }), 1);
}

#[test]
fn a_token_beside_a_number_decides_and_the_number_is_spent_too() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let increase = doc! { "update": "a", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }] };
    let mut once = increase.clone();
    once.insert("exactlyOnce", "sale 9");
    let first = write(&mut peer, 5, once.clone());
    // By the number, without the token.
    let by_number = write(&mut fixture.peer(), 5, increase.clone());
    assert!(by_number.contains_key("retriedStmtIds") && !by_number.contains_key("replayed"), "{by_number}");
    assert!(first.get_f64("ok").ok() == Some(1.0) && !first.contains_key("replayed"), "{first}");
    // By the token, with the same number, a later one, and none.
    for number in [5, 7] {
        let again = write(&mut fixture.peer(), number, once.clone());
        assert_eq!(again.get_bool("replayed").ok(), Some(true), "{number}: {again}");
        assert_eq!(again.get_array("upserted").ok(), first.get_array("upserted").ok(), "{number}: {again}");
    }
    once.insert("$db", "shop");
    assert_eq!(peer.run(once.clone()).get_bool("replayed").ok(), Some(true));
    // A number that is too old is none, with a token too.
    once.remove("$db");
    refused(&write(&mut peer, 2, once), 225, &[]);
    assert_eq!(count(&mut peer, doc! { "n": 1 }), 1);
    // The token of another command with a new number does nothing, and takes no number.
    let other = doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 1 }], "exactlyOnce": "sale 9" };
    refused(&write(&mut peer, 8, other), 72, &[]);
    assert_eq!(count(&mut peer, doc! { "n": 1 }), 1);
    let new = write(&mut peer, 8, increase);
    assert!(new.get_f64("ok").ok() == Some(1.0) && !new.contains_key("retriedStmtIds"), "{new}");
    assert_eq!(count(&mut peer, doc! { "n": 2 }), 1);
}

/// Drivers of causally consistent sessions send the time of the last operation with writes too. Here it is met at once.
#[test]
fn a_write_of_a_causal_session_names_a_time() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let after = doc! { "afterClusterTime": Timestamp { time: 1, increment: 1 } };
    let change = doc! { "$inc": { "n": 1 } };
    let writes = [
        doc! { "insert": "a", "documents": [{ "_id": 1 }] },
        doc! { "update": "a", "updates": [{ "q": { "_id": 1 }, "u": change.clone() }] },
        doc! { "findAndModify": "a", "query": { "_id": 1 }, "update": change },
        doc! { "delete": "a", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] },
    ];
    for (number, mut command) in (2..).step_by(2).zip(writes) {
        command.insert("readConcern", after.clone());
        let done = write(&mut peer, number, command.clone());
        assert_eq!(done.get_f64("ok").ok(), Some(1.0), "{command}: {done}");
        let again = write(&mut peer, number, command.clone());
        let is_replayed = again.contains_key("retriedStmtIds") || again.contains_key("retriedStmtId");
        assert!(is_replayed, "{command}: {again}");
        // No write reads one state of many.
        command.insert("readConcern", doc! { "level": "snapshot" });
        refused(&write(&mut peer, number + 1, command.clone()), 72, &[]);
        command.insert("$db", "shop");
        refused(&peer.run(command.clone()), 72, &[]);
        command.insert("readConcern", after.clone());
        assert_eq!(peer.run(command.clone()).get_f64("ok").ok(), Some(1.0), "{command}");
        command.insert("readConcern", doc! { "afterClusterTime": 1 });
        refused(&peer.run(command), 14, &[]);
    }
}

/// What comes after the end of a session is answered from what the commit leaves, and not from what was there before. A client that
/// learns that nothing was committed runs its transaction again.
#[test]
fn a_commit_whose_session_is_killed_is_known_to_the_next_one() {
    const DOCUMENTS: i32 = 10_000;
    let fixture = fixture();
    let mut peer = fixture.peer();
    let commit = |number: i64| {
        doc! {
            "commitTransaction": 1, "lsid": session(1), "txnNumber": number, "autocommit": false, "$db": "admin",
        }
    };
    let is_done = |answer: &Document| answer.get_f64("ok").ok() == Some(1.0);
    // Enough to stop before it, within it and after it.
    for (number, millis) in (1..).zip([0, 1, 2, 5, 10, 20, 40]) {
        let documents: Vec<_> = (0..DOCUMENTS).map(|_| doc! { "of": number }).collect();
        let mut insert = doc! { "insert": "a", "documents": documents };
        insert.extend(doc! { "autocommit": false, "startTransaction": true });
        assert!(is_done(&write(&mut peer, number, insert)));
        let (mut first, command) = (fixture.peer(), commit(number));
        let first = thread::spawn(move || first.run(command));
        thread::park_timeout(Duration::from_millis(millis));
        fixture.peer().run(doc! { "killAllSessions": [], "$db": "admin" });
        let again = fixture.peer().run(commit(number));
        let first = first.join().expect("an answer");
        let stored = count(&mut peer, doc! { "of": number });
        assert!(stored == 0 || stored == DOCUMENTS, "{stored} of {DOCUMENTS}");
        assert_eq!(is_done(&again), stored > 0, "after {millis} ms: {again}");
        assert!(!is_done(&first) || stored > 0, "after {millis} ms: {first}");
    }
}
