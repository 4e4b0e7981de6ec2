//! Transactions by wire: statements, their ends, what aborts them, and what they get that have come too late.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
use cairndb::{Client, ClientBuilder};
use cairndb_server::ServerBuilder;

use crate::peer::{Peer, message};
use crate::{Fixture, PATIENCE};

pub(crate) fn session(number: u8) -> Document {
    doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![number; 16] } }
}

/// A replica set with three accounts.
fn fixture() -> Fixture {
    prepared(Client::builder(), |builder| builder)
}

fn prepared(opening: ClientBuilder, change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Fixture {
    let prepare = |client: &Client| {
        let accounts = client.database("bank").collection::<Document>("accounts");
        accounts.insert_many((1..=3).map(|id| doc! { "_id": id, "has": 100 })).run().expect("stored");
    };
    Fixture::of(opening, prepare, |builder| change(builder.replica_set("rs")))
}

/// A session with its transactions.
struct Transaction<'a> {
    peer: &'a mut Peer,
    session: u8,
    number: i64,
    is_first: bool,
}

impl<'a> Transaction<'a> {
    fn new(peer: &'a mut Peer, session: u8, number: i64) -> Self {
        Self { peer, session, number, is_first: true }
    }

    fn run_on(&mut self, database: &str, mut command: Document) -> Document {
        command.insert("lsid", session(self.session));
        command.insert("txnNumber", self.number);
        command.insert("autocommit", false);
        if std::mem::take(&mut self.is_first) {
            command.insert("startTransaction", true);
        }
        command.insert("$db", database);
        self.peer.run(command)
    }

    fn run(&mut self, command: Document) -> Document {
        self.run_on("bank", command)
    }

    fn commit(&mut self) -> Document {
        self.run_on("admin", doc! { "commitTransaction": 1 })
    }

    fn abort(&mut self) -> Document {
        self.run_on("admin", doc! { "abortTransaction": 1 })
    }
}

fn add(id: i32, amount: i32) -> Document {
    doc! { "update": "accounts", "updates": [{ "q": { "_id": id }, "u": { "$inc": { "has": amount } } }] }
}

fn has(peer: &mut Peer, id: i32) -> i32 {
    let found = peer.run(doc! { "find": "accounts", "filter": { "_id": id }, "$db": "bank" });
    let batch =
        found.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let account = batch.first().and_then(Bson::as_document);
    account.and_then(|account| account.get_i32("has").ok()).expect("an account")
}

#[track_caller]
fn done(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
}

/// With this code, and these labels.
#[track_caller]
pub(crate) fn refused(reply: &Document, code: i32, labels: &[&str]) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
    let found: Vec<&str> = reply
        .get_array("errorLabels")
        .map(|labels| labels.iter().filter_map(Bson::as_str).collect())
        .unwrap_or_default();
    assert_eq!(found, labels, "{reply}");
}

const TRANSIENT: &[&str] = &["TransientTransactionError"];

fn status(peer: &mut Peer, name: &str) -> i64 {
    let status = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
    status.get_document("transactions").and_then(|counted| counted.get_i64(name)).expect("a number")
}

#[test]
fn what_is_committed_is_there_and_what_is_aborted_is_not() {
    let fixture = fixture();
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    let mut moving = Transaction::new(&mut peer, 1, 1);
    done(&moving.run(add(1, -30)));
    done(&moving.run(add(2, 30)));
    let found = moving.run(doc! { "find": "accounts", "filter": { "_id": 2 } });
    assert_eq!(found.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).ok(), Some(0), "{found}");
    assert_eq!(has(&mut other, 1), 100);
    done(&moving.commit());
    // Again: the answer was lost, maybe.
    done(&moving.commit());
    assert_eq!((has(&mut other, 1), has(&mut other, 2)), (70, 130));
    let mut given_up = Transaction::new(&mut peer, 1, 2);
    done(&given_up.run(add(1, 1000)));
    done(&given_up.run(doc! { "insert": "accounts", "documents": [{ "_id": 9, "has": 1 }] }));
    done(&given_up.run(doc! { "delete": "accounts", "deletes": [{ "q": { "_id": 3 }, "limit": 1 }] }));
    let counted =
        given_up.run(doc! { "aggregate": "accounts", "pipeline": [{ "$count": "n" }], "cursor": {} });
    assert!(counted.to_string().contains("\"n\": 3"), "{counted}");
    done(&given_up.abort());
    assert_eq!((has(&mut other, 1), has(&mut other, 3)), (70, 100));
    let counts = ["totalStarted", "totalCommitted", "totalAborted", "currentOpen", "currentActive"];
    assert_eq!(counts.map(|name| status(&mut other, name)), [2, 1, 1, 0, 0]);
}

/// Each line of the tables that say what comes of a number.
#[test]
fn a_number_means_one_transaction() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let mut first = Transaction::new(&mut peer, 1, 5);
    // Nothing was started yet.
    first.is_first = false;
    refused(&first.run(add(1, 1)), 251, TRANSIENT);
    refused(&first.commit(), 251, TRANSIENT);
    refused(&first.abort(), 251, TRANSIENT);
    first.is_first = true;
    done(&first.run(add(1, 1)));
    // Started twice. It goes on.
    first.is_first = true;
    refused(&first.run(add(1, 1)), 117, &[]);
    done(&first.run(add(1, 1)));
    // A lower number, and a higher one that was not started.
    for (number, code, labels) in [(4, 225, &[][..]), (6, 251, TRANSIENT)] {
        let mut wrong = Transaction::new(&mut peer, 1, number);
        wrong.is_first = false;
        refused(&wrong.run(add(1, 1)), code, labels);
        refused(&wrong.commit(), code, labels);
    }
    refused(&Transaction::new(&mut peer, 1, 4).run(add(1, 1)), 225, &[]);
    // The next one aborts the one before.
    let mut next = Transaction::new(&mut peer, 1, 6);
    done(&next.run(add(1, 50)));
    done(&next.commit());
    refused(&next.run(add(1, 1)), 256, &[]);
    refused(&next.abort(), 256, &[]);
    assert_eq!(has(&mut peer, 1), 150);
    let mut last = Transaction::new(&mut peer, 1, 7);
    done(&last.run(add(1, 1)));
    done(&last.abort());
    refused(&last.run(add(1, 1)), 251, TRANSIENT);
    refused(&last.commit(), 251, TRANSIENT);
    refused(&last.abort(), 251, TRANSIENT);
    // Another session has numbers of its own.
    let mut other = Transaction::new(&mut peer, 2, 5);
    done(&other.run(add(2, 1)));
    done(&other.commit());
}

#[test]
fn fields_that_say_nothing_sensible_are_refused() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let mut check = |fields: Document, code: i32| {
        let mut command = doc! { "find": "accounts" };
        command.extend(fields);
        command.insert("$db", "bank");
        let reply = peer.run(command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
    };
    let lsid = || session(1);
    check(doc! { "txnNumber": 1_i64 }, 72);
    check(doc! { "txnNumber": 1_i64, "autocommit": false, "startTransaction": true }, 72);
    check(doc! { "lsid": lsid(), "autocommit": false }, 72);
    check(doc! { "lsid": lsid(), "startTransaction": true }, 72);
    check(doc! { "lsid": lsid(), "txnNumber": 1_i64, "startTransaction": true }, 72);
    check(doc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": true }, 72);
    check(doc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": false }, 72);
    check(doc! { "lsid": lsid(), "txnNumber": -1_i64, "autocommit": false }, 72);
    check(doc! { "lsid": lsid(), "txnNumber": 1, "autocommit": false }, 14);
    check(doc! { "lsid": lsid(), "txnNumber": 1_i64, "autocommit": 0 }, 14);
    // A number alone is one of a write.
    check(doc! { "lsid": lsid(), "txnNumber": 1_i64 }, 72);
    let mut check = |level: Document, code: Option<i32>| {
        let mut transaction = Transaction::new(&mut peer, 3, 1);
        transaction.number = i64::try_from(level.len()).expect("short");
        let reply = transaction.run(doc! { "find": "accounts", "readConcern": level.clone() });
        assert_eq!(reply.get_i32("code").ok(), code, "{level}: {reply}");
    };
    check(doc! { "level": "available" }, Some(72));
    check(
        doc! { "level": "snapshot", "afterClusterTime": cairndb::bson::Timestamp { time: 1, increment: 1 } },
        None,
    );
    let mut peer = fixture.peer();
    for (number, level) in (100..).zip(["local", "majority", "snapshot", "serializable"]) {
        done(
            &Transaction::new(&mut peer, 4, number)
                .run(doc! { "find": "accounts", "readConcern": { "level": level } }),
        );
    }
    for (number, level) in (200..).zip(["available", "linearizable", "some"]) {
        let mut transaction = Transaction::new(&mut peer, 4, number);
        refused(&transaction.run(doc! { "find": "accounts", "readConcern": { "level": level } }), 72, &[]);
        // It has used up its number.
        refused(&transaction.run(doc! { "find": "accounts" }), 251, TRANSIENT);
    }
}

#[test]
fn what_no_transaction_can_have_aborts_it() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let cases = [
        ("bank", doc! { "count": "accounts" }, 263),
        ("bank", doc! { "drop": "accounts" }, 263),
        ("bank", doc! { "listCollections": 1 }, 263),
        ("bank", doc! { "explain": { "find": "accounts" } }, 263),
        ("bank", doc! { "aggregate": "accounts", "pipeline": [], "explain": true }, 263),
        ("bank", doc! { "aggregate": "accounts", "pipeline": [{ "$out": "b" }], "cursor": {} }, 263),
        ("bank", doc! { "aggregate": "accounts", "pipeline": [{ "$merge": "b" }], "cursor": {} }, 263),
        ("bank", doc! { "aggregate": "accounts", "pipeline": [{ "$collStats": {} }], "cursor": {} }, 263),
        ("bank", doc! { "aggregate": 1, "pipeline": [{ "$documents": [] }], "cursor": {} }, 263),
        ("admin", doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {} }, 263),
        ("bank", doc! { "ping": 1 }, 263),
        ("admin", doc! { "hello": 1 }, 263),
        ("admin", doc! { "serverStatus": 1 }, 263),
        ("admin", doc! { "find": "things" }, 263),
        ("config", doc! { "find": "transactions" }, 263),
        ("local", doc! { "insert": "things", "documents": [{}] }, 263),
        ("bank", doc! { "find": "accounts", "writeConcern": { "w": 1 } }, 72),
        ("bank", doc! { "find": "accounts", "readConcern": { "level": "local" } }, 72),
        ("bank", doc! { "find": "accounts", "filter": { "$fly": 1 } }, 2),
        ("bank", doc! { "getMore": 5_i64, "collection": "accounts" }, 43),
    ];
    for (number, (database, command, code)) in (1..).zip(cases) {
        let mut transaction = Transaction::new(&mut peer, 1, number);
        done(&transaction.run(add(1, 1)));
        let reply = transaction.run_on(database, command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
        let after = transaction.run(doc! { "find": "accounts" });
        assert_eq!(after.get_i32("code").ok(), Some(251), "{command}: {after}");
    }
    assert_eq!(has(&mut peer, 1), 100);
    assert_eq!(status(&mut peer, "currentOpen"), 0);
}

#[test]
fn a_refused_write_aborts() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let taken = || doc! { "insert": "accounts", "documents": [{ "_id": 8 }, { "_id": 1 }, { "_id": 9 }], "ordered": false };
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(1, 1)));
    let reply = transaction.run(taken());
    let errors = reply.get_array("writeErrors").expect("one is refused");
    assert_eq!(errors.len(), 1, "{reply}");
    assert_eq!(errors[0].as_document().and_then(|error| error.get_i32("code").ok()), Some(11_000));
    refused(&transaction.commit(), 251, TRANSIENT);
    let mut transaction = Transaction::new(&mut peer, 1, 2);
    let updates = doc! {
        "update": "accounts",
        "ordered": false,
        "updates": [
            { "q": { "_id": 1 }, "u": { "$inc": { "has": 5 } } },
            { "q": { "_id": 1 }, "u": { "$set": { "_id": 7 } } },
            { "q": { "_id": 2 }, "u": { "$inc": { "has": 5 } } },
        ],
    };
    let reply = transaction.run(updates);
    assert_eq!(reply.get_array("writeErrors").map(Vec::len).ok(), Some(1), "{reply}");
    refused(&transaction.run(add(1, 1)), 251, TRANSIENT);
    assert_eq!((has(&mut peer, 1), has(&mut peer, 2)), (100, 100));
    // One that makes a collection is seen as a whole.
    let mut transaction = Transaction::new(&mut peer, 1, 3);
    done(&transaction.run(doc! { "create": "new" }));
    done(&transaction.run(doc! { "createIndexes": "new", "indexes": [{ "key": { "n": 1 }, "name": "n" }] }));
    done(&transaction.run(doc! { "insert": "new", "documents": [{ "_id": 8 }] }));
    done(&transaction.run(doc! { "insert": "another", "documents": [{ "_id": 8 }] }));
    done(&transaction.commit());
    let listed = peer.run(doc! { "listCollections": 1, "nameOnly": true, "$db": "bank" });
    assert!(["new", "another"].iter().all(|name| listed.to_string().contains(name)), "{listed}");
}

#[test]
fn the_second_writer_of_a_document_gets_a_conflict() {
    let fixture = fixture();
    let (mut one, mut two) = (fixture.peer(), fixture.peer());
    let mut first = Transaction::new(&mut one, 1, 1);
    let mut second = Transaction::new(&mut two, 2, 1);
    done(&first.run(add(1, 1)));
    done(&second.run(add(2, 1)));
    refused(&second.run(add(1, 10)), 112, TRANSIENT);
    done(&first.commit());
    assert_eq!(has(&mut one, 1), 101);
    // A plain write comes first, too, and the commit tells.
    let mut third = Transaction::new(&mut two, 2, 2);
    done(&third.run(add(3, 1)));
    let mut plain = add(3, 10);
    plain.insert("$db", "bank");
    done(&one.run(plain));
    refused(&third.commit(), 112, TRANSIENT);
    assert_eq!((has(&mut one, 2), has(&mut one, 3)), (100, 110));
}

#[test]
fn cursors_of_a_transaction_end_with_it() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let open = |transaction: &mut Transaction<'_>| {
        let opened = transaction.run(doc! { "find": "accounts", "sort": { "_id": 1 }, "batchSize": 1 });
        opened.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor")
    };
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(2, 7)));
    let id = open(&mut transaction);
    // Later writes are not seen.
    done(&transaction.run(add(2, 7)));
    let more = transaction.run(doc! { "getMore": id, "collection": "accounts", "batchSize": 1 });
    assert!(more.to_string().contains("107"), "{more}");
    // Outside of the transaction it is another's.
    let outside = transaction
        .peer
        .run(doc! { "getMore": id, "collection": "accounts", "lsid": session(1), "$db": "bank" });
    refused(&outside, 50_741, &[]);
    done(&transaction.run(doc! { "killCursors": "accounts", "cursors": [id] }));
    let kept = open(&mut transaction);
    done(&transaction.commit());
    let get_more = doc! { "getMore": kept, "collection": "accounts" };
    refused(&transaction.run(get_more.clone()), 256, &[]);
    let outside = |command: Document| {
        let mut command = command;
        command.insert("lsid", session(1));
        command.insert("$db", "bank");
        command
    };
    refused(&peer.run(outside(get_more)), 43, &[]);
    let mut transaction = Transaction::new(&mut peer, 1, 2);
    let kept = open(&mut transaction);
    done(&transaction.abort());
    refused(&peer.run(outside(doc! { "getMore": kept, "collection": "accounts" })), 43, &[]);
    let open = peer.run(doc! { "serverStatus": 1, "$db": "admin" });
    let open = open
        .get_document("metrics")
        .and_then(|of| of.get_document("cursor"))
        .and_then(|of| of.get_document("open"));
    assert_eq!(open.and_then(|open| open.get_i64("total")).ok(), Some(0));
}

#[test]
fn a_commit_is_of_admin_and_tells_what_cannot_be_met() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(1, 1)));
    refused(&transaction.run(doc! { "commitTransaction": 1 }), 13, &[]);
    refused(&transaction.run_on("admin", doc! { "commitTransaction": 1, "fly": 1 }), 40_415, &[]);
    let commit = |concern: Document| doc! { "commitTransaction": 1, "writeConcern": concern, "recoveryToken": { "x": 1 } };
    let reply = transaction.run_on("admin", commit(doc! { "w": 2 }));
    done(&reply);
    let unmet = reply.get_document("writeConcernError").expect("it cannot be met");
    assert_eq!(unmet.get_i32("code").ok(), Some(100), "{reply}");
    done(&transaction.run_on("admin", commit(doc! { "w": "majority", "wtimeout": 1000 })));
    assert_eq!(has(&mut peer, 1), 101);
    refused(&peer.run(doc! { "commitTransaction": 1, "lsid": session(1), "$db": "admin" }), 251, &[]);
}

#[test]
fn the_end_of_a_session_is_that_of_its_transaction() {
    let fixture = fixture();
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    for (number, end) in (1..).zip([
        doc! { "endSessions": [session(1)], "$db": "admin" },
        doc! { "killSessions": [session(1)], "$db": "admin" },
        doc! { "killAllSessions": [], "$db": "admin" },
    ]) {
        let mut transaction = Transaction::new(&mut peer, 1, number);
        done(&transaction.run(add(1, 1)));
        done(&other.run(end));
        let start = Instant::now();
        // Its claims are gone, soon.
        loop {
            let mut writing = Transaction::new(
                &mut other,
                2,
                i64::try_from(start.elapsed().as_nanos()).unwrap() + number * 1_000_000_000_000,
            );
            let reply = writing.run(add(1, 1));
            if reply.get_i32("code").ok() != Some(112) {
                done(&reply);
                done(&writing.abort());
                break;
            }
            assert!(start.elapsed() < PATIENCE);
        }
        refused(
            &Transaction { is_first: false, ..Transaction::new(&mut peer, 1, number) }.run(add(1, 1)),
            251,
            TRANSIENT,
        );
    }
    assert_eq!(has(&mut peer, 1), 100);
}

#[test]
fn a_session_runs_one_statement_at_a_time() {
    let fixture = fixture();
    let (mut peer, mut looking) = (fixture.peer(), fixture.peer());
    let begin = |number: i64, statement: Document| {
        let address = fixture.address;
        thread::spawn(move || {
            let mut peer = Peer::connect(address);
            Transaction { is_first: false, ..Transaction::new(&mut peer, 1, number) }.run(statement)
        })
    };
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(1, 1)));
    let size = doc! { "$size": { "$range": [0, 100_000] } };
    let slow = doc! { "$reduce": { "input": { "$range": [0, 100] }, "initialValue": 0, "in": size } };
    let slow = doc! { "aggregate": "accounts", "pipeline": [{ "$project": { "n": slow } }], "cursor": {} };
    let running = begin(1, slow);
    let start = Instant::now();
    while status(&mut looking, "currentActive") == 0 && !running.is_finished() {
        assert!(start.elapsed() < PATIENCE, "it did not begin");
    }
    // A statement waits for its turn,
    done(&transaction.run(add(1, 1)));
    done(&running.join().expect("it ends"));
    done(&transaction.commit());
    // and no longer than it may.
    let mut transaction = Transaction::new(&mut peer, 1, 2);
    done(&transaction.run(add(1, 1)));
    let running = begin(2, endless());
    wait_until_active(&mut looking);
    let mut short = add(1, 1);
    short.insert("maxTimeMS", 20);
    refused(&transaction.run(short), 50, &[]);
    done(&looking.run(doc! { "killSessions": [session(1)], "$db": "admin" }));
    refused(&running.join().expect("it ends"), 11_601, &[]);
    assert_eq!(has(&mut looking, 1), 102);
}

#[test]
fn a_client_that_goes_away_ends_its_statement_and_the_transaction() {
    let fixture = fixture();
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(1, 1)));
    let mut endless = endless();
    endless.extend(doc! { "lsid": session(1), "txnNumber": 1_i64, "autocommit": false, "$db": "bank" });
    let mut leaving = fixture.peer();
    assert!(leaving.send(&message(endless).bytes(1, 0)));
    wait_until_active(&mut other);
    drop(leaving);
    let start = Instant::now();
    while status(&mut other, "currentOpen") > 0 {
        assert!(start.elapsed() < PATIENCE, "the transaction is still open");
    }
    refused(&Transaction { is_first: false, ..Transaction::new(&mut peer, 1, 1) }.commit(), 251, TRANSIENT);
    assert_eq!(has(&mut other, 1), 100);
}

#[test]
fn one_that_is_idle_is_shown_and_has_its_time() {
    // Much longer than a busy machine needs to show it.
    let fixture = prepared(Client::builder().transaction_lifetime(Duration::from_secs(5)), |builder| builder);
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    done(&peer.run(doc! { "hello": 1, "client": { "application": { "name": "till" } }, "$db": "admin" }));
    let mut transaction = Transaction::new(&mut peer, 1, 1);
    done(&transaction.run(add(1, 1)));
    let shown = other.run(doc! { "currentOp": 1, "type": "idleSession", "$db": "admin" });
    let shown = shown.get_array("inprog").expect("a list");
    let shown = shown.first().and_then(Bson::as_document).expect("one that is idle");
    assert_eq!(shown.get_document("lsid").ok(), Some(&session(1)));
    assert_eq!(shown.get_str("appName").ok(), Some("till"));
    let parameters = shown.get_document("transaction").and_then(|of| of.get_document("parameters"));
    assert_eq!(parameters.and_then(|of| of.get_i64("txnNumber")).ok(), Some(1));
    let piped = |options: Document| {
        doc! { "aggregate": 1, "pipeline": [{ "$currentOp": options }, { "$match": { "type": "idleSession" } }], "cursor": {}, "$db": "admin" }
    };
    let mut count = |options: Document| {
        let reply = other.run(piped(options));
        reply.get_document("cursor").and_then(|of| of.get_array("firstBatch")).map(Vec::len).expect("a batch")
    };
    assert_eq!((count(doc! {}), count(doc! { "idleSessions": false })), (1, 0));
    let start = Instant::now();
    while has(&mut other, 1) == 100 {
        // The claim of the expired one is gone when another can write.
        let mut writing =
            Transaction::new(&mut other, 2, i64::try_from(start.elapsed().as_nanos()).expect("short"));
        if writing.run(add(1, 5)).get_f64("ok").ok() == Some(1.0) {
            done(&writing.commit());
        }
        assert!(start.elapsed() < PATIENCE);
    }
    refused(
        &Transaction { is_first: false, ..Transaction::new(&mut peer, 1, 1) }.run(add(1, 1)),
        251,
        TRANSIENT,
    );
    assert_eq!(has(&mut peer, 1), 105);
}

/// Numbers without a transaction are those of writes that may be sent again.
#[test]
fn a_write_with_a_number_has_one_document_each() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let mut write = |number: i64, mut command: Document| {
        command.extend(doc! { "lsid": session(1), "txnNumber": number, "$db": "bank" });
        peer.run(command)
    };
    let many = doc! { "update": "accounts", "updates": [
        { "q": { "_id": 1 }, "u": { "$inc": { "has": 1 } } },
        { "q": {}, "u": { "$inc": { "has": 1 } }, "multi": true },
    ] };
    refused(&write(1, many), 72, &[]);
    refused(&write(2, doc! { "delete": "accounts", "deletes": [{ "q": {}, "limit": 0 }] }), 72, &[]);
    refused(&write(3, doc! { "find": "accounts" }), 72, &[]);
    refused(&write(4, doc! { "commitTransaction": 1 }), 72, &[]);
    let sequence = doc! { "delete": "accounts", "lsid": session(1), "txnNumber": 5_i64, "$db": "bank" };
    refused(&peer.run_with(sequence, "deletes", &[doc! { "q": {}, "limit": 0 }]), 72, &[]);
    assert_eq!(has(&mut peer, 1), 100);
}

/// A fail point's labels are all; without them, an error gets those of its code.
#[test]
fn failures_have_labels_by_which_drivers_try_again() {
    let fixture = prepared(Client::builder(), ServerBuilder::test_commands);
    let mut peer = fixture.peer();
    let mut number = 0;
    let mut check = |name: &str, fault: Document, labels: &[&str]| {
        number += 1;
        let mut data = doc! { "failCommands": [name] };
        data.extend(fault);
        let point = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data, "$db": "admin" };
        done(&peer.run(point));
        let mut transaction = Transaction::new(&mut peer, 1, number);
        let mut reply = transaction.run(add(1, 0));
        if name != "update" {
            done(&reply);
            reply = if name == "commitTransaction" { transaction.commit() } else { transaction.abort() };
        }
        refused(&reply, reply.get_i32("code").expect("a code"), labels);
    };
    check("update", doc! { "errorCode": 112 }, TRANSIENT);
    check("update", doc! { "errorCode": 91 }, TRANSIENT);
    check("update", doc! { "errorCode": 50 }, &[]);
    check("update", doc! { "errorCode": 91, "errorLabels": ["foo"] }, &["foo"]);
    check("update", doc! { "errorCode": 112, "errorLabels": [] }, &[]);
    check("commitTransaction", doc! { "errorCode": 91 }, &["RetryableWriteError"]);
    check("commitTransaction", doc! { "errorCode": 251 }, TRANSIENT);
    check("abortTransaction", doc! { "errorCode": 10_107 }, &["RetryableWriteError"]);
}

/// A pipeline that does not end by itself.
fn endless() -> Document {
    doc! {
        "aggregate": "accounts",
        "pipeline": [{ "$project": { "n": { "$reduce": {
            "input": { "$range": [0, 2_000_000] }, "initialValue": 0,
            "in": { "$size": { "$range": [0, 1_000_000] } } } } } }],
        "cursor": {},
    }
}

fn wait_until_active(peer: &mut Peer) {
    let start = Instant::now();
    while status(peer, "currentActive") == 0 {
        assert!(start.elapsed() < PATIENCE, "no statement has begun");
    }
}

#[test]
fn to_kill_a_session_ends_its_statement_and_those_that_wait() {
    let fixture = fixture();
    let mut other = fixture.peer();
    let address = fixture.address;
    let running = thread::spawn(move || {
        let mut peer = Peer::connect(address);
        Transaction::new(&mut peer, 1, 1).run(endless())
    });
    wait_until_active(&mut other);
    let waiting = thread::spawn(move || {
        let mut peer = Peer::connect(address);
        let mut second = Transaction::new(&mut peer, 1, 1);
        second.is_first = false;
        second.run(add(1, 1))
    });
    done(&other.run(doc! { "killSessions": [session(1)], "$db": "admin" }));
    refused(&running.join().expect("it ends"), 11_601, &[]);
    // It came before the session was ended, or after it.
    refused(&waiting.join().expect("it ends"), 251, TRANSIENT);
    assert_eq!((status(&mut other, "currentOpen"), status(&mut other, "currentActive")), (0, 0));
    assert_eq!(has(&mut other, 1), 100);
}

/// A client that waits for its turn holds nothing but its place in the queue: the session goes on when that client is
/// gone.
#[test]
fn clients_that_go_away_while_they_wait_hold_nothing_up() {
    let fixture = fixture();
    let mut other = fixture.peer();
    let address = fixture.address;
    let running = thread::spawn(move || {
        let mut peer = Peer::connect(address);
        Transaction::new(&mut peer, 1, 1).run(endless())
    });
    wait_until_active(&mut other);
    for _ in 0..20 {
        let mut waiting = fixture.peer();
        let mut command = add(1, 1);
        command.extend(doc! { "lsid": session(1), "txnNumber": 1_i64, "autocommit": false, "$db": "bank" });
        assert!(waiting.send(&message(command).bytes(1, 0)));
    }
    done(&other.run(doc! { "killAllSessions": [], "$db": "admin" }));
    refused(&running.join().expect("it ends"), 11_601, &[]);
    let mut next = Transaction::new(&mut other, 1, 2);
    done(&next.run(add(1, 5)));
    done(&next.commit());
    assert_eq!(has(&mut other, 1), 105);
}

#[test]
fn only_so_many_transactions_are_open() {
    const OPEN_MAX: i64 = 10_000;
    // The first ones are still open when a busy machine has started the last.
    let lifetime = Duration::from_secs(3600);
    let fixture = prepared(Client::builder().transaction_lifetime(lifetime), |builder| builder);
    let mut peer = fixture.peer();
    let id = |number: i64| {
        let bytes = [&[7; 8][..], &number.to_be_bytes()].concat();
        doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes } }
    };
    let begin = |number: i64| {
        doc! { "find": "accounts", "filter": { "_id": 9 }, "lsid": id(number), "txnNumber": 1_i64, "autocommit": false,
        "startTransaction": true, "$db": "bank" }
    };
    for number in 0..OPEN_MAX {
        done(&peer.run(begin(number)));
    }
    assert_eq!(status(&mut peer, "currentOpen"), OPEN_MAX);
    refused(&peer.run(begin(OPEN_MAX)), 261, &[]);
    done(&peer.run(doc! { "killSessions": [id(3)], "$db": "admin" }));
    done(&peer.run(begin(OPEN_MAX + 1)));
    assert_eq!(has(&mut peer, 1), 100);
}

#[test]
fn sessions_of_two_users_are_two() {
    use cairndb_server::{Role, Users};

    let prepare = |client: &Client| {
        client
            .database("bank")
            .collection("accounts")
            .insert_one(doc! { "_id": 1, "has": 100 })
            .run()
            .expect("stored");
        let users = Users::of(client);
        users.add("ada", "the password", Role::Root).expect("added");
        users.add("bea", "the password", Role::ReadAnyDatabase).expect("added");
    };
    let fixture = Fixture::over(prepare, |builder| builder.replica_set("rs").require_users());
    let (mut ada, mut bea) = (fixture.peer(), fixture.peer());
    crate::login::log_in(&mut ada, "ada", "the password").expect("logged in");
    crate::login::log_in(&mut bea, "bea", "the password").expect("logged in");
    let mut of_ada = Transaction::new(&mut ada, 1, 5);
    done(&of_ada.run(add(1, 1)));
    // The same id is another session, which has no transaction yet.
    let mut of_bea = Transaction::new(&mut bea, 1, 5);
    of_bea.is_first = false;
    refused(&of_bea.commit(), 251, TRANSIENT);
    let mut of_bea = Transaction::new(&mut bea, 1, 6);
    let found = of_bea.run(doc! { "find": "accounts" });
    assert!(found.to_string().contains("100"), "{found}");
    // A user who may only read may not write in a transaction either. It was rejected before it was a statement.
    refused(&of_bea.run(add(1, 1)), 13, &[]);
    done(&of_bea.commit());
    done(&of_ada.commit());
    // A stranger has no sessions, and so no transactions.
    let mut stranger = fixture.peer();
    refused(&Transaction::new(&mut stranger, 1, 7).run(add(1, 1)), 13, &[]);
    refused(&Transaction::new(&mut stranger, 1, 7).run_on("admin", doc! { "ping": 1 }), 263, &[]);
}
