//! `cairn watch`: the changes of a server as lines, and where a later run goes on.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use cairndb::bson::{Document, doc};
use rustix::process::Signal;

use crate::fixture::signals::send;
use crate::fixture::{Fixture, complains};

/// A server that is a replica set.
fn served() -> Fixture {
    let mut fixture = Fixture::new(&[doc! { "_id": 0 }], false);
    fixture.serve_with(&["--replica-set", "rs", "--advertise", "192.0.2.1:1"]);
    fixture
}

/// Imports documents with these `_id`s into a collection of `shop`.
#[track_caller]
fn insert(fixture: &Fixture, collection: &str, ids: impl IntoIterator<Item = i32>) {
    let lines: Vec<String> = ids.into_iter().map(|id| format!("{{\"_id\":{id}}}")).collect();
    let file = fixture.path("ids.ndjson");
    std::fs::write(&file, lines.join("\n")).expect("it works");
    let file = file.display().to_string();
    let output = fixture.run("import", &[&format!("shop.{collection}"), &file]).output().expect("it works");
    complains(&output, 0, "");
}

/// Runs a statement of the shell on `shop`.
#[track_caller]
fn statement(fixture: &Fixture, statement: &str) {
    let statement = format!("db = db.getSiblingDB('shop'); {statement}");
    complains(&fixture.run("shell", &["--eval", &statement]).output().expect("it works"), 0, "");
}

/// The events of lines.
fn parsed(lines: &[u8]) -> Vec<Document> {
    let text = std::str::from_utf8(lines).expect("it is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("it is Extended JSON")).collect()
}

/// The `_id`s of the documents of events.
fn ids(events: &[Document]) -> Vec<i64> {
    let id = |event: &Document| {
        let key = event.get_document("documentKey").expect("of a document");
        key.get_i32("_id").map(i64::from).expect("a number")
    };
    events.iter().map(id).collect()
}

/// The events that are there, of a run that waits for none.
#[track_caller]
fn until_now(fixture: &Fixture, more: &[&str]) -> Vec<Document> {
    let output = fixture.run("watch", &[more, &["--until-now"]].concat()).output().expect("it works");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    parsed(&output.stdout)
}

#[test]
fn a_later_run_goes_on_where_the_one_before_has_stopped() {
    let mut fixture = served();
    let of_orders = ["shop.orders", "--resume-file", "token"];
    assert!(until_now(&fixture, &of_orders).is_empty());
    insert(&fixture, "orders", [1, 2]);
    insert(&fixture, "others", [3]);
    let events = until_now(&fixture, &of_orders);
    assert_eq!(ids(&events), [1, 2]);
    assert!(events.iter().all(|event| event.get_str("operationType").is_ok_and(|kind| kind == "insert")));
    assert!(until_now(&fixture, &of_orders).is_empty());
    insert(&fixture, "orders", [4]);
    // Also after the server has ended, and from its folder.
    fixture.kill_in_order();
    let folder = ["shop.orders", "--resume-file", "token", "--canonical"];
    assert_eq!(until_now(&fixture, &folder).len(), 1);
    assert!(until_now(&fixture, &of_orders).is_empty());
}

/// The lines of a child, as they come.
struct Lines {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Lines {
    fn of(fixture: &Fixture, more: &[&str]) -> Self {
        let child = fixture.run("watch", more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it works");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Document {
        let line = self.lines.next().expect("it goes on").expect("it can be read");
        serde_json::from_str(&line).expect("it is Extended JSON")
    }
}

#[test]
fn events_come_while_the_command_waits_and_a_signal_ends_it() {
    let fixture = served();
    let lookup = ["shop", "--full-document", "update-lookup", "--resume-file", "token"];
    assert!(until_now(&fixture, &lookup).is_empty());
    let mut watch = Lines::of(&fixture, &lookup);
    insert(&fixture, "orders", [1]);
    assert_eq!(ids(&[watch.next()]), [1]);
    statement(&fixture, "db.orders.updateOne({_id: 1}, {$set: {a: 2}})");
    let update = watch.next();
    assert_eq!(update.get_document("fullDocument").ok(), Some(&doc! { "_id": 1, "a": 2 }));
    send(&watch.child, Signal::INT);
    let output = watch.child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("interrupted after 2 events"), "{told}");
    // A second process would write the same file.
    assert!(until_now(&fixture, &lookup).is_empty());
}

/// Runs that are killed while events come: no event is left out, and the ones that are printed again follow the last that was kept.
#[test]
fn a_run_that_is_killed_leaves_nothing_out() {
    const RUNS: i32 = 12;
    let fixture = served();
    let of_orders = ["shop.orders", "--resume-file", "token"];
    assert!(until_now(&fixture, &of_orders).is_empty());
    let mut seen = Vec::new();
    for run in 0..RUNS {
        let mut watch = Lines::of(&fixture, &of_orders);
        let first = 1 + run * 20;
        insert(&fixture, "orders", first..first + 20);
        for _ in 0..=run {
            seen.extend(ids(&[watch.next()]));
        }
        watch.child.kill().expect("it works");
        // The lines that were printed and not read yet.
        let rest: Vec<u8> =
            watch.lines.map_while(Result::ok).flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        seen.extend(ids(&parsed(&rest)));
        watch.child.wait().expect("it works");
    }
    seen.extend(ids(&until_now(&fixture, &of_orders)));
    // Each one for the first time in its order.
    let mut last = 0;
    for id in seen {
        assert!(id <= last + 1, "{id} after {last}");
        last = last.max(id);
    }
    assert_eq!(last, i64::from(RUNS * 20));
}

#[test]
fn a_drop_ends_the_command_and_another_run_begins_after_it() {
    let fixture = served();
    let of_orders = ["shop.orders", "--resume-file", "token"];
    assert!(until_now(&fixture, &of_orders).is_empty());
    statement(&fixture, "db.orders.drop()");
    let output = fixture.run("watch", &of_orders).output().expect("it works");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let kinds: Vec<_> = parsed(&output.stdout);
    let kinds: Vec<_> = kinds.iter().filter_map(|event| event.get_str("operationType").ok()).collect();
    assert_eq!(kinds, ["drop", "invalidate"]);
    insert(&fixture, "orders", [7]);
    assert_eq!(ids(&until_now(&fixture, &of_orders)), [7]);
}

#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    let fixture = served();
    std::fs::write(fixture.path("bad"), "no token\n").expect("it works");
    for (more, status, words) in [
        (&["shop."][..], 2, "neither a DB.COLLECTION nor a DB"),
        (&["shop.orders", "--pipeline", "{}"], 2, "--pipeline"),
        (&["shop.orders", "--pipeline", "[{$group: {_id: 1}}]"], 1, "$group"),
        (&["shop.orders", "--resume-file", "bad"], 2, "bad has no resume token: no token"),
        (&["shop.system.views"], 1, "system"),
    ] {
        complains(&fixture.run("watch", more).output().expect("it works"), status, words);
    }
    // A server that is none of a replica set has no streams, and a folder that is open for reading switches nothing on.
    let mut alone = Fixture::new(&[doc! { "_id": 0 }], true);
    complains(&alone.run("watch", &["shop.orders"]).output().expect("it works"), 1, "replica set");
    alone.kill_in_order();
    complains(&alone.run("watch", &["shop.orders"]).output().expect("it works"), 1, "read-only");
}

#[test]
fn a_pipeline_chooses_events_and_images_come_with_them() {
    let fixture = served();
    statement(
        &fixture,
        "db.runCommand({ collMod: 'orders', changeStreamPreAndPostImages: { enabled: true } })",
    );
    let chosen = "[{\"$match\": {\"documentKey._id\": {\"$gte\": 2}}}, {\"$project\": {\"wallTime\": 0}}]";
    let of_orders = ["shop.orders", "--resume-file", "token", "--pipeline", chosen];
    let images = ["--full-document", "update-lookup", "--full-document-before", "when-available"];
    let of_orders = [&of_orders[..], &images].concat();
    assert!(until_now(&fixture, &of_orders).is_empty());
    insert(&fixture, "orders", [1, 2, 3]);
    statement(&fixture, "db.orders.updateMany({}, { $set: { a: 1 } })");
    let events = until_now(&fixture, &of_orders);
    assert_eq!(ids(&events), [2, 3, 2, 3]);
    assert!(events.iter().all(|event| !event.contains_key("wallTime")), "{events:?}");
    let last = events.last().expect("four");
    assert_eq!(last.get_document("fullDocument").ok(), Some(&doc! { "_id": 3, "a": 1 }));
    assert_eq!(last.get_document("fullDocumentBeforeChange").ok(), Some(&doc! { "_id": 3 }));
}
