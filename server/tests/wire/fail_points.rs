//! Fail points: faults on demand.

use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, doc};
use cairndb_server::ServerBuilder;

use crate::Fixture;
use crate::peer::{Answer, Peer, message};

fn fixture() -> Fixture {
    Fixture::with(ServerBuilder::test_commands)
}

fn configure(peer: &mut Peer, mode: impl Into<Bson>, data: Document) -> Document {
    let command =
        doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data, "$db": "admin" };
    peer.run(command)
}

fn ping() -> Vec<u8> {
    message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0)
}

#[test]
fn without_test_commands_there_are_no_fail_points() {
    let reply = configure(&mut Fixture::new().peer(), "alwaysOn", doc! { "failCommands": ["ping"] });
    assert_eq!(reply.get_i32("code").ok(), Some(59));
    let commands = Fixture::new().peer().run(doc! { "listCommands": 1, "$db": "admin" });
    assert!(!commands.get_document("commands").unwrap().contains_key("configureFailPoint"));
}

#[test]
fn a_command_is_refused_by_number_and_labels() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let data = doc! { "failCommands": ["ping"], "errorCode": 10_107, "errorLabels": ["RetryableWriteError"] };
    let configured = configure(&mut peer, doc! { "times": 2 }, data);
    assert_eq!(configured, doc! { "count": 0_i64, "ok": 1.0 });
    for _ in 0..2 {
        let reply = fixture.peer().run(doc! { "ping": 1, "$db": "admin" });
        let expected = doc! {
            "ok": 0.0,
            "errmsg": "Failing command via 'failCommand' failpoint",
            "code": 10_107,
            "codeName": "NotWritablePrimary",
            "errorLabels": ["RetryableWriteError"],
        };
        assert_eq!(reply, expected);
    }
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
    assert_eq!(configure(&mut peer, "off", doc! { "failCommands": [] }).get_i64("count").ok(), Some(2));
}

#[test]
fn a_connection_is_closed_without_an_answer() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    configure(&mut peer, doc! { "skip": 1 }, doc! { "failCommands": ["ping"], "closeConnection": true });
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
    assert_eq!(peer.answer(&ping()), Answer::Closed);
    configure(&mut fixture.peer(), "off", doc! { "failCommands": ["ping"] });
    assert_eq!(fixture.peer().answer(&ping()), Answer::Document(0));
}

#[test]
fn a_command_is_blocked_for_a_while() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let data = doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 300 };
    configure(&mut peer, doc! { "times": 1 }, data);
    let started = Instant::now();
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_write_is_done_and_its_concern_fails() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let data = doc! {
        "failCommands": ["insert"],
        "writeConcernError": { "code": 91, "errmsg": "going" },
        "errorLabels": ["RetryableWriteError"],
    };
    configure(&mut peer, doc! { "times": 1 }, data);
    let reply = peer.run(doc! { "insert": "orders", "documents": [{ "_id": 1 }], "$db": "shop" });
    let expected = doc! {
        "n": 1,
        "ok": 1.0,
        "writeConcernError": { "code": 91, "errmsg": "going", "codeName": "ShutdownInProgress" },
        "errorLabels": ["RetryableWriteError"],
    };
    assert_eq!(reply, expected);
    assert_eq!(peer.run(doc! { "count": "orders", "$db": "shop" }).get_i32("n").ok(), Some(1));
}

#[test]
fn only_the_named_program_meets_a_fail_point() {
    let fixture = fixture();
    let (mut peer, mut meant) = (fixture.peer(), fixture.peer());
    let hello = doc! { "hello": 1, "client": { "application": { "name": "shop" } }, "$db": "admin" };
    assert_eq!(meant.run(hello).get_f64("ok").ok(), Some(1.0));
    configure(&mut peer, "alwaysOn", doc! { "failCommands": ["ping"], "errorCode": 50, "appName": "shop" });
    assert_eq!((peer.answer(&ping()), meant.answer(&ping())), (Answer::Document(0), Answer::Document(50)));
}

#[test]
fn a_command_meets_a_fail_point_by_any_of_its_names() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let pairs = [("findAndModify", "findandmodify"), ("buildInfo", "buildinfo"), ("isMaster", "ismaster")];
    for (one, other) in pairs {
        for (meant, sent) in [(one, other), (other, one), (one, one)] {
            configure(&mut peer, doc! { "times": 1 }, doc! { "failCommands": [meant], "errorCode": 91 });
            let reply = peer.run(doc! { sent: "a", "$db": "admin" });
            assert_eq!(reply.get_i32("code").ok(), Some(91), "{meant} {sent}: {reply}");
        }
    }
}

#[test]
fn a_program_meets_a_fail_point_with_its_own_hello() {
    let fixture = fixture();
    let data = doc! { "failCommands": ["hello"], "errorCode": 91, "appName": "shop" };
    configure(&mut fixture.peer(), "alwaysOn", data);
    let hello = |name: &str| {
        let client = doc! { "application": { "name": name } };
        let reply = fixture.peer().run(doc! { "hello": 1, "client": client, "$db": "admin" });
        reply.get_i32("code").unwrap_or(0)
    };
    assert_eq!((hello("shop"), hello("other")), (91, 0));
}

#[test]
fn commands_with_a_time_limit_time_out() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let turn = |peer: &mut Peer, mode: Bson| {
        peer.run(doc! { "configureFailPoint": "maxTimeAlwaysTimeOut", "mode": mode, "$db": "admin" })
    };
    let count = |peer: &mut Peer, limit: i32| {
        peer.run(doc! { "count": "a", "maxTimeMS": limit, "$db": "shop" }).get_i32("code").unwrap_or(0)
    };
    assert_eq!(turn(&mut peer, doc! { "times": 2 }.into()), doc! { "count": 0_i64, "ok": 1.0 });
    assert_eq!((count(&mut peer, 0), count(&mut peer, 60_000)), (0, 50));
    assert_eq!((count(&mut peer, 60_000), count(&mut peer, 60_000)), (50, 0));
    assert_eq!(turn(&mut peer, "off".into()).get_i64("count").ok(), Some(2));
}

#[test]
fn malformed_fail_points_are_refused() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let code = |reply: Document| reply.get_i32("code").unwrap_or(0);
    assert_eq!(code(configure(&mut peer, "often", doc! { "failCommands": ["ping"] })), 2);
    assert_eq!(code(configure(&mut peer, "alwaysOn", doc! {})), 40_414);
    assert_eq!(
        code(configure(&mut peer, "alwaysOn", doc! { "failCommands": ["ping"], "unknown": 1 })),
        40_415
    );
    let other = peer.run(doc! { "configureFailPoint": "other", "mode": "off", "$db": "admin" });
    assert_eq!(code(other), 266);
    assert_eq!(peer.answer(&ping()), Answer::Document(0));
}
