//! `bulkWrite` as drivers send it: operations and namespaces as sequences of documents, and results from a cursor.

use cairndb::bson::{Bson, Document, doc};
use cairndb_server::frame::message::{DocumentSequence, MORE_TO_COME, Message};

use crate::Fixture;
use crate::peer::{Peer, encode, message};
use crate::transactions::{refused, session};

fn fixture() -> Fixture {
    Fixture::with(|builder| builder.replica_set("rs").test_commands())
}

/// The message of a command with operations on `shop.a` and `shop.b`.
fn asked(ops: &[Document], options: Document) -> Message {
    let sequence = |field: &str, documents: &[Document]| {
        let documents: Vec<u8> = documents.iter().flat_map(encode).collect();
        DocumentSequence { field: field.to_owned(), documents: documents.into() }
    };
    let namespaces = [doc! { "ns": "shop.a" }, doc! { "ns": "shop.b" }];
    let mut command = doc! { "bulkWrite": 1, "$db": "admin" };
    command.extend(options);
    Message { sequences: vec![sequence("ops", ops), sequence("nsInfo", &namespaces)], ..message(command) }
}

fn insert(collection: i32, id: i32) -> Document {
    doc! { "insert": collection, "document": { "_id": id } }
}

fn count(peer: &mut Peer, collection: &str) -> i32 {
    peer.run(doc! { "count": collection, "$db": "shop" }).get_i32("n").expect("a number")
}

/// The position of the cursor, and those of the operations whose results are in the batch.
fn batch(reply: &Document, field: &str) -> (i64, Vec<i32>) {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
    assert_eq!(cursor.get_str("ns").ok(), Some("admin.$cmd.bulkWrite"));
    let results = cursor.get_array(field).expect("a batch").iter().filter_map(Bson::as_document);
    let positions = results.map(|result| result.get_i32("idx").expect("a position")).collect();
    (cursor.get_i64("id").expect("an id"), positions)
}

#[test]
fn results_come_in_batches() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let ops: Vec<Document> = (0..10).map(|id| insert(id % 2, id)).collect();
    let reply = peer.run_message(&asked(&ops, doc! { "cursor": { "batchSize": 4 } }));
    let (id, first) = batch(&reply, "firstBatch");
    assert!(id != 0, "{reply}");
    assert_eq!(first, [0, 1, 2, 3]);
    // All of it is done already.
    assert_eq!(reply.get_i32("nInserted").ok(), Some(10), "{reply}");
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0));
    assert_eq!((count(&mut peer, "a"), count(&mut peer, "b")), (5, 5));
    let more = |batch_size: i32| doc! { "getMore": id, "collection": "$cmd.bulkWrite", "batchSize": batch_size, "$db": "admin" };
    assert_eq!(batch(&peer.run(more(3)), "nextBatch"), (id, vec![4, 5, 6]));
    assert_eq!(batch(&peer.run(more(3)), "nextBatch"), (0, vec![7, 8, 9]));
    refused(&peer.run(more(3)), 43, &[]);
    // One that is left is closed like another.
    let reply =
        peer.run_message(&asked(&[insert(0, 20), insert(0, 21)], doc! { "cursor": { "batchSize": 1 } }));
    let (id, _) = batch(&reply, "firstBatch");
    let closed = peer.run(doc! { "killCursors": "$cmd.bulkWrite", "cursors": [id], "$db": "admin" });
    assert_eq!(closed.get_array("cursorsKilled").ok(), Some(&vec![id.into()]));
    let whole = peer.run_message(&asked(&[insert(0, 30), insert(0, 20)], doc! { "ordered": false }));
    assert_eq!((batch(&whole, "firstBatch"), whole.get_i32("nErrors").ok()), ((0, vec![0, 1]), Some(1)));
}

#[test]
fn it_is_a_command_of_admin_alone() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let reply = peer.run_message(&asked(&[insert(0, 1)], doc! { "$db": "shop" }));
    refused(&reply, 13, &[]);
    let outside = peer.run_message(&asked(&[insert(0, 1), insert(2, 1)], doc! {}));
    refused(&outside, 2, &[]);
    assert_eq!(count(&mut peer, "a"), 0);
}

#[test]
fn a_command_that_asks_for_no_answer_gets_none() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let options = doc! { "writeConcern": { "w": 0 }, "ordered": false, "errorsOnly": true };
    let asked = Message { flags: MORE_TO_COME, ..asked(&[insert(0, 1), insert(1, 2)], options) };
    assert!(peer.send(&asked.bytes(77, 0)));
    assert_eq!((count(&mut peer, "a"), count(&mut peer, "b")), (1, 1));
}

#[test]
fn a_command_that_is_sent_again_takes_effect_once() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let ops =
        [insert(0, 1), doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$inc": { "n": 1 } } }];
    let numbered = |number: i64| doc! { "lsid": session(1), "txnNumber": number };
    let first = peer.run_message(&asked(&ops, numbered(1)));
    assert_eq!(first.get_i32("nModified").ok(), Some(1), "{first}");
    let again = fixture.peer().run_message(&asked(&ops, numbered(1)));
    assert_eq!(again.get_array("retriedStmtIds").ok(), Some(&vec![0.into(), 1.into()]), "{again}");
    assert_eq!(again.get_document("cursor").ok(), first.get_document("cursor").ok());
    let once = peer.run(doc! { "count": "a", "query": { "n": 1 }, "$db": "shop" });
    assert_eq!(once.get_i32("n").ok(), Some(1));
    // An error in place of an answer says that the command can be sent again.
    let broken = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 },
    "data": { "failCommands": ["bulkWrite"], "errorCode": 91, "errorLabels": ["RetryableWriteError"] }, "$db": "admin" };
    assert_eq!(peer.run(broken).get_f64("ok").ok(), Some(1.0));
    refused(&peer.run_message(&asked(&[insert(1, 1)], numbered(2))), 91, &["RetryableWriteError"]);
    let done = peer.run_message(&asked(&[insert(1, 1)], numbered(2)));
    assert_eq!(done.get_i32("nInserted").ok(), Some(1), "{done}");
    refused(&peer.run_message(&asked(&ops, numbered(1))), 225, &[]);
}

#[test]
fn it_is_a_statement_of_a_transaction() {
    let fixture = fixture();
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    peer.run(doc! { "create": "b", "$db": "shop" });
    let in_transaction = |number: i64| doc! { "lsid": session(1), "txnNumber": number, "autocommit": false };
    let ending = |name: &str, number: i64| {
        let mut command = doc! { name: 1, "$db": "admin" };
        command.extend(in_transaction(number));
        command
    };
    let starting = |number: i64| {
        let mut options = in_transaction(number);
        options.insert("startTransaction", true);
        options
    };
    let mut options = starting(1);
    options.insert("cursor", doc! { "batchSize": 1 });
    let reply = peer.run_message(&asked(&[insert(0, 1), insert(1, 1)], options));
    let (id, first) = batch(&reply, "firstBatch");
    assert_eq!((first, count(&mut other, "a")), (vec![0], 0));
    let mut more = doc! { "getMore": id, "collection": "$cmd.bulkWrite", "$db": "admin" };
    more.extend(in_transaction(1));
    assert_eq!(batch(&peer.run(more), "nextBatch"), (0, vec![1]));
    assert_eq!(peer.run(ending("commitTransaction", 1)).get_f64("ok").ok(), Some(1.0));
    assert_eq!((count(&mut other, "a"), count(&mut other, "b")), (1, 1));
    // A rejected operation ends it.
    let reply = peer.run_message(&asked(&[insert(0, 2), insert(0, 1)], starting(2)));
    assert_eq!(reply.get_i32("nErrors").ok(), Some(1), "{reply}");
    refused(&peer.run(ending("commitTransaction", 2)), 251, &["TransientTransactionError"]);
    assert_eq!(count(&mut other, "a"), 1);
    // A transaction takes no collections of these databases.
    for (number, database) in (3..).zip(["admin", "config", "local"]) {
        let command = doc! { "bulkWrite": 1, "ops": [insert(0, 1)], "nsInfo": [{ "ns": format!("{database}.a") }], "$db": "admin" };
        let command: Document = command.into_iter().chain(starting(number)).collect();
        refused(&peer.run(command), 263, &[]);
    }
}
