//! Budgets of memory: a client that takes much, or is slow, leaves enough for others.

use cairndb::bson::{Document, doc};
use cairndb_server::frame::header::{Header, OP_MSG};

use crate::peer::{Peer, message};
use crate::{Fixture, fill};

fn batch(reply: &Document) -> (i64, usize) {
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let documents = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
    (cursor.get_i64("id").expect("a number"), documents.expect("a batch").len())
}

fn fill_with_large(peer: &mut Peer) {
    for id in 0..6 {
        let documents = [doc! { "_id": id, "text": "x".repeat(5 << 20) }];
        peer.run_with(doc! { "insert": "large", "$db": "shop" }, "documents", &documents);
    }
}

/// The budget was taken by announcements: a client that announced enough, and sent little, held all of it.
#[test]
fn announcements_hold_nothing() {
    let fixture = Fixture::with(|builder| builder.request_bytes_max(4 << 20));
    let announced = Header { length: 40 << 20, request_id: 1, response_to: 0, opcode: OP_MSG };
    let mut slow: Vec<Peer> = (0..12).map(|_| fixture.peer()).collect();
    for peer in &mut slow {
        assert!(peer.send(&[&announced.bytes()[..], &vec![0; 100_000]].concat()));
    }
    let mut neighbor = fixture.peer();
    let document = doc! { "_id": 1, "text": "x".repeat(1 << 20) };
    let reply = neighbor.run_with(doc! { "insert": "a", "$db": "shop" }, "documents", &[document]);
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
}

/// Messages that each hold a part of the budget would wait for each other if none could exceed it.
#[test]
fn messages_that_do_not_fit_together_are_all_answered() {
    let fixture = Fixture::with(|builder| builder.request_bytes_max(4 << 20));
    std::thread::scope(|scope| {
        let inserts: Vec<_> = (0..6)
            .map(|id| {
                let mut peer = fixture.peer();
                let insert = message(doc! {
                    "insert": "a", "documents": [{ "_id": id, "text": "x".repeat(3 << 20) }], "$db": "shop",
                });
                scope.spawn(move || peer.run_message(&insert).get_i32("n").ok())
            })
            .collect();
        for insert in inserts {
            assert_eq!(insert.join().expect("it was answered"), Some(1));
        }
    });
}

/// Each command with a cursor took 16 MiB, whatever it read: a few of them, or readers that take no answers,
/// stopped all others.
#[test]
fn readers_that_receive_no_answers_stop_no_others() {
    let fixture = Fixture::with(|builder| builder.answer_bytes_max(24 << 20));
    let mut peer = fixture.peer();
    fill(&mut peer, "small", 5);
    fill_with_large(&mut peer);
    let find = || message(doc! { "find": "large", "batchSize": 10, "$db": "shop" }).bytes(1, 0);
    let mut slow: Vec<Peer> = (0..4).map(|_| fixture.peer()).collect();
    for peer in &mut slow {
        assert!(peer.send(&find()));
    }
    for _ in 0..20 {
        assert_eq!(batch(&peer.run(doc! { "find": "small", "$db": "shop" })), (0, 5));
        assert_eq!(peer.run(doc! { "count": "small", "$db": "shop" }).get_i32("n").ok(), Some(5));
    }
    // Clients that read get all documents, in short batches.
    drop(slow);
    let reply = peer.run(doc! { "find": "large", "$db": "shop" });
    let (mut id, mut len) = batch(&reply);
    while id != 0 {
        let (next, more) = batch(&peer.run(doc! { "getMore": id, "collection": "large", "$db": "shop" }));
        (id, len) = (next, len + more);
    }
    assert_eq!(len, 6);
}
