//! Hellos that wait for a change of the topology, as the monitors of drivers send them.

use std::time::{Duration, Instant};

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use cairndb_server::frame::message::{EXHAUST_ALLOWED, MORE_TO_COME, Message};

use crate::Fixture;
use crate::peer::{Peer, decode, message};

/// The topology version of the server.
fn topology(peer: &mut Peer) -> Document {
    let hello = peer.run(doc! { "hello": 1, "$db": "admin" });
    hello.get_document("topologyVersion").expect("a topology").clone()
}

fn waiting(topology: Document, milliseconds: i64) -> Document {
    doc! { "hello": 1, "topologyVersion": topology, "maxAwaitTimeMS": milliseconds, "$db": "admin" }
}

#[test]
fn a_hello_waits_while_the_topology_stays_the_same() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let known = topology(&mut peer);
    assert_eq!(known.get_i64("counter").ok(), Some(0));
    let start = Instant::now();
    let reply = peer.run(waiting(known.clone(), 300));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(reply.get_document("topologyVersion").ok(), Some(&known));
    assert_eq!(reply.get_bool("isWritablePrimary").ok(), Some(true));
    // Another process is a change, so the hello does not wait for its hour.
    let other = doc! { "processId": ObjectId::new(), "counter": 7_i64 };
    assert_eq!(peer.run(waiting(other, 3_600_000)).get_document("topologyVersion").ok(), Some(&known));
    for legacy in ["isMaster", "ismaster"] {
        let reply = peer
            .run(doc! { legacy: 1, "topologyVersion": known.clone(), "maxAwaitTimeMS": 1, "$db": "admin" });
        assert_eq!(reply.get_bool("ismaster").ok(), Some(true));
    }
}

#[test]
fn a_hello_is_answered_again_and_again_where_that_is_allowed() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    // The first hello is answered at once, because it names another process; the next ones name the server's.
    let known = doc! { "processId": ObjectId::new(), "counter": 0_i64 };
    let asked = Message { flags: EXHAUST_ALLOWED, ..message(waiting(known, 50)) };
    assert!(peer.send(&asked.bytes(31, 0)));
    let mut expected = 31;
    for _ in 0..4 {
        let (header, answer) = peer.receive().expect("an answer");
        assert_eq!(header.response_to, expected);
        let answer = Message::parse(&answer).expect("a message");
        assert_eq!(answer.flags, MORE_TO_COME);
        assert_eq!(decode(&answer.body).get_f64("ok").ok(), Some(1.0));
        expected = header.request_id;
    }
}

#[test]
fn a_refused_hello_is_not_answered_again() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let asked = Message { flags: EXHAUST_ALLOWED, ..message(doc! { "hello": 1, "$db": "admin" }) };
    let reply = peer.run_message(&asked);
    assert_eq!(reply.get_i32("code").ok(), Some(51_756), "{reply}");
    // Other commands are answered once, even if the client accepts several answers.
    let ping = Message { flags: EXHAUST_ALLOWED, ..message(doc! { "ping": 1, "$db": "admin" }) };
    assert!(peer.send(&ping.bytes(5, 0)));
    let (_, answer) = peer.receive().expect("an answer");
    assert_eq!(Message::parse(&answer).expect("a message").flags, 0);
    assert_eq!(peer.run(doc! { "ping": 1, "$db": "admin" }), doc! { "ok": 1.0 });
}

#[test]
fn malformed_hellos_are_refused() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let known = topology(&mut peer);
    let mut refused = |fields: Document, code: i32| {
        let mut command = doc! { "hello": 1, "$db": "admin" };
        command.extend(fields);
        let reply = peer.run(command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
    };
    let with = |field: &str, value: cairndb::bson::Bson| {
        let mut topology = known.clone();
        topology.insert(field, value);
        doc! { "topologyVersion": topology, "maxAwaitTimeMS": 1 }
    };
    refused(doc! { "topologyVersion": known.clone() }, 31_368);
    refused(doc! { "maxAwaitTimeMS": 1 }, 31_368);
    refused(doc! { "topologyVersion": known.clone(), "maxAwaitTimeMS": -1 }, 31_373);
    refused(doc! { "topologyVersion": known.clone(), "maxAwaitTimeMS": "a" }, 14);
    refused(doc! { "topologyVersion": {}, "maxAwaitTimeMS": 1 }, 40_414);
    refused(doc! { "topologyVersion": 1, "maxAwaitTimeMS": 1 }, 14);
    refused(with("counter", (-1).into()), 31_372);
    refused(with("counter", 1.into()), 31_382);
    refused(with("processId", 1.into()), 14);
}

#[test]
fn a_server_that_stops_answers_waiting_hellos() {
    let mut fixture = Fixture::new();
    let mut peer = fixture.peer();
    let known = topology(&mut peer);
    assert!(peer.send(&message(waiting(known.clone(), 600_000)).bytes(1, 0)));
    // The next connection is accepted after the hello was sent, so the hello is probably waiting by now.
    topology(&mut fixture.peer());
    fixture.stop();
    if let Some((_, answer)) = peer.receive() {
        let reply = decode(&Message::parse(&answer).expect("a message").body);
        assert_eq!(reply.get_i32("code").ok(), Some(91), "{reply}");
        let counter = reply.get_document("topologyVersion").and_then(|topology| topology.get_i64("counter"));
        assert_eq!(counter.ok(), Some(1));
    }
}
