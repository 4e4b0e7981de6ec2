//! Ending commands that run: by their number, and with the server.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, doc};

use crate::peer::message;
use crate::{Fixture, PATIENCE, fill};

/// A command that would go on for hours over one document.
fn endless() -> Document {
    let wide = || doc! { "$range": [0, 100_000] };
    let inner = doc! { "$map": { "input": wide(), "as": "z", "in": { "$add": ["$$x", "$$y", "$$z"] } } };
    let middle = doc! { "$map": { "input": wide(), "as": "y", "in": { "$sum": inner } } };
    let outer = doc! { "$sum": { "$map": { "input": wide(), "as": "x", "in": { "$add": ["$_id", { "$sum": middle }] } } } };
    doc! { "aggregate": "a", "pipeline": [{ "$set": { "s": outer } }], "cursor": {}, "$db": "shop" }
}

/// The number of the aggregation that runs.
fn running(fixture: &Fixture) -> i64 {
    let mut peer = fixture.peer();
    let start = Instant::now();
    loop {
        let listed = peer.run(doc! { "currentOp": 1, "ns": "shop.a", "op": "command", "$db": "admin" });
        let operations = listed.get_array("inprog").expect("a list");
        if let Some(number) = operations.first().and_then(Bson::as_document) {
            return number.get_i64("opid").expect("a number");
        }
        assert!(start.elapsed() < PATIENCE, "it does not begin");
        thread::yield_now();
    }
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
    // As in MongoDB, an operation that has ended is no error; one without a number is.
    assert_eq!(peer.run(doc! { "killOp": 1, "op": op, "$db": "admin" }).get_f64("ok").ok(), Some(1.0));
    assert_eq!(peer.run(doc! { "killOp": 1, "$db": "admin" }).get_i32("code").ok(), Some(40_414));
    assert_eq!(peer.run(doc! { "killOp": 1, "op": "x", "$db": "admin" }).get_i32("code").ok(), Some(14));
    assert_eq!(peer.run(doc! { "killOp": 1, "op": op, "$db": "shop" }).get_i32("code").ok(), Some(13));
}

/// A stop with a grace of ten seconds took twenty-eight: what ran was waited for, however long it took.
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
