//! Ending running commands: by their number, with their client, and with the server.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, doc};
use cairndb_server::frame::message::{MORE_TO_COME, Message};

use crate::peer::{Answer, message};
use crate::{Fixture, PATIENCE, fill};

/// A command that would run for hours over one document.
pub(crate) fn endless() -> Document {
    let wide = || doc! { "$range": [0, 100_000] };
    let inner = doc! { "$map": { "input": wide(), "as": "z", "in": { "$add": ["$$x", "$$y", "$$z"] } } };
    let middle = doc! { "$map": { "input": wide(), "as": "y", "in": { "$sum": inner } } };
    let outer = doc! { "$sum": { "$map": { "input": wide(), "as": "x", "in": { "$add": ["$_id", { "$sum": middle }] } } } };
    doc! { "aggregate": "a", "pipeline": [{ "$set": { "s": outer } }], "cursor": {}, "$db": "shop" }
}

/// Waits until `currentOp` shows what is wanted of the operations of a collection, if there are any.
#[track_caller]
pub(crate) fn wait_for<T>(
    mut run: impl FnMut(Document) -> Document,
    wanted: impl Fn(Option<&Document>) -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        let listed = run(doc! { "currentOp": 1, "ns": "shop.a", "$db": "admin" });
        let operations = listed.get_array("inprog").expect("a list");
        if let Some(found) = wanted(operations.first().and_then(Bson::as_document)) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "it does not come to be: {listed}");
        // Each look is a command, which takes the time of what is waited for.
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Waits until the aggregation runs. Returns its number.
#[track_caller]
fn running(fixture: &Fixture) -> i64 {
    let mut peer = fixture.peer();
    wait_for(|command| peer.run(command), |operation| Some(operation?.get_i64("opid").expect("a number")))
}

/// Waits until no command runs on the collection.
#[track_caller]
fn ended(fixture: &Fixture) {
    let mut peer = fixture.peer();
    wait_for(|command| peer.run(command), |operation| operation.is_none().then_some(()));
}

#[test]
fn a_command_is_ended_by_its_number() {
    let fixture = Fixture::new();
    fill(&mut fixture.peer(), "a", 1);
    let mut busy = fixture.peer();
    let answer = thread::spawn(move || busy.run(endless()));
    let op = running(&fixture);
    let mut peer = fixture.peer();
    let killed = peer.run(doc! { "killOp": 1, "op": op, "$db": "admin" });
    assert_eq!(killed.get_f64("ok").ok(), Some(1.0), "{killed}");
    let refused = answer.join().expect("an answer");
    assert_eq!(refused.get_i32("code").ok(), Some(11_601), "{refused}");
    // As in MongoDB it is not an error if the operation has ended, but one if the number is missing.
    assert_eq!(peer.run(doc! { "killOp": 1, "op": op, "$db": "admin" }).get_f64("ok").ok(), Some(1.0));
    assert_eq!(peer.run(doc! { "killOp": 1, "$db": "admin" }).get_i32("code").ok(), Some(40_414));
    assert_eq!(peer.run(doc! { "killOp": 1, "op": "x", "$db": "admin" }).get_i32("code").ok(), Some(14));
    assert_eq!(peer.run(doc! { "killOp": 1, "op": op, "$db": "shop" }).get_i32("code").ok(), Some(13));
}

/// A stop with a grace of ten seconds once took twenty-eight: it waited for the running commands to end.
#[test]
fn a_server_that_stops_ends_what_still_runs() {
    let mut fixture = Fixture::with(|builder| builder.grace(Duration::from_millis(10)));
    fill(&mut fixture.peer(), "a", 1);
    let mut busy = fixture.peer();
    let answer = thread::spawn(move || busy.answer(&message(endless()).bytes(77, 0)));
    running(&fixture);
    fixture.stop();
    answer.join().expect("an answer or an end");
}

/// An aggregation once ran for a minute after its client's socket timeout.
#[test]
fn a_client_that_disconnects_ends_its_command() {
    let fixture = Fixture::new();
    fill(&mut fixture.peer(), "a", 1);
    let mut leaving = fixture.peer();
    assert!(leaving.send(&message(endless()).bytes(77, 0)));
    running(&fixture);
    drop(leaving);
    ended(&fixture);
}

#[test]
fn a_client_that_disconnects_a_unix_socket_ends_its_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sock");
    let fixture = Fixture::with(|builder| builder.unix_socket(&path));
    fill(&mut fixture.peer(), "a", 1);
    let mut leaving = UnixStream::connect(&path).expect("connected");
    leaving.write_all(&message(endless()).bytes(77, 0)).expect("sent");
    running(&fixture);
    drop(leaving);
    ended(&fixture);
}

/// As in MongoDB a client that closes its sending half counts as disconnected, although it could still read.
#[test]
fn a_client_that_closes_its_half_ends_its_command() {
    let fixture = Fixture::new();
    fill(&mut fixture.peer(), "a", 1);
    let mut leaving = fixture.peer();
    assert!(leaving.send(&message(endless()).bytes(77, 0)));
    running(&fixture);
    leaving.shut_down_writing();
    assert_eq!(leaving.answer(&[]), Answer::Document(279));
}

/// A message that waits in the socket is neither lost nor taken for a disconnect.
#[test]
fn a_client_that_sends_the_next_command_early_is_not_disconnected() {
    let fixture = Fixture::new();
    fill(&mut fixture.peer(), "a", 1);
    let mut busy = fixture.peer();
    assert!(busy.send(&message(endless()).bytes(77, 0)));
    assert!(busy.send(&message(doc! { "ping": 1, "$db": "admin" }).bytes(78, 0)));
    // Long enough for several looks for disconnected clients.
    let mut peer = fixture.peer();
    let is_old = |operation: &Document| operation.get_i64("microsecs_running").expect("a time") > 1_000_000;
    let old = |operation: Option<&Document>| operation.is_none_or(is_old).then_some(());
    wait_for(|command| peer.run(command), old);
    let op = running(&fixture);
    peer.run(doc! { "killOp": 1, "op": op, "$db": "admin" });
    assert_eq!(busy.answer(&[]), Answer::Document(11_601));
    assert_eq!(busy.answer(&[]), Answer::Document(0));
}

/// A client may send an unacknowledged write and disconnect.
#[test]
fn a_write_without_an_answer_outlives_its_client() {
    let fixture = Fixture::with(cairndb_server::ServerBuilder::test_commands);
    let mut peer = fixture.peer();
    let fail_point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "$db": "admin",
        "data": { "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 2_000 },
    };
    peer.run(fail_point.clone());
    let mut leaving = fixture.peer();
    let insert = message(doc! { "insert": "a", "documents": [{ "_id": 1 }], "$db": "shop" });
    assert!(leaving.send(&Message { flags: MORE_TO_COME, ..insert }.bytes(77, 0)));
    // The answer counts the inserts that have begun. On a busy machine this one may have ended before it would be listed.
    let start = Instant::now();
    while peer.run(fail_point.clone()).get_i64("count").expect("a count") == 0 {
        assert!(start.elapsed() < PATIENCE, "it does not begin");
        thread::park_timeout(Duration::from_millis(1));
    }
    drop(leaving);
    ended(&fixture);
    let counted = peer.run(doc! { "count": "a", "$db": "shop" });
    assert_eq!(counted.get_i32("n").ok(), Some(1), "{counted}");
}
