//! `cairn sequences` as a process, on a folder and through a server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::bson::{Bson, Document, doc, serialize_to_document};
use cairndb::{AutoIncrement, Client, Collection};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::examples::{SOURCES, printed};
use crate::fixture::rich::kinds;
use crate::fixture::signals::send;
use crate::fixture::{Fixture, cairn, complains, on_both, rich};

/// A store with each contract in each direction, as sequences and as fields.
fn numbered(is_served: bool) -> Fixture {
    let mut fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    rich::numbers(&client);
    // Its sequence's name is made, and the field's is the one to look for.
    let odd: Collection<Document> = client.database("shop").collection("a\nb/%");
    odd.create_auto_increment(AutoIncrement::builder().field("no").start_value(5).build())
        .run()
        .expect("it works");
    client.close().expect("it works");
    if is_served {
        fixture.serve();
    }
    fixture
}

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("sequences", more).output().expect("it works")
}

#[track_caller]
fn report(fixture: &Fixture, more: &[&str]) -> Vec<Value> {
    let output = run(fixture, &[more, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    report.get("sequences").and_then(Value::as_array).expect("a list").clone()
}

#[track_caller]
fn table(fixture: &Fixture, more: &[&str]) -> Vec<Vec<String>> {
    let output = run(fixture, more);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it works");
    // Two spaces and more stand between two columns.
    let cells = |line: &str| {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    text.lines().map(cells).collect()
}

#[test]
fn each_sequence_is_a_row() {
    for is_served in [false, true] {
        let table = table(&numbered(is_served), &[]);
        let (head, rows) = table.split_first().expect("a head");
        assert_eq!(
            head.join(" "),
            "sequence contract next left lost step start min max cache acquire rounds"
        );
        assert_eq!(rows.len(), 2 * kinds().len() + 2, "{rows:?}");
        assert!(rows.iter().all(|row| row.len() == head.len()), "{rows:?}");
        let row =
            |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}: {rows:?}"));
        let cells = |name: &str| row(name)[1..5].join(" ");
        assert_eq!(cells("tickets.exhausted"), "fast - 0 0");
        assert_eq!(cells("numbers.exhausted, field n.value"), "fast - 0 0");
        assert_eq!(cells("tickets.gapless"), "gapless 4 9223372036854775804 0");
        assert_eq!(row("tickets.ordered")[2..6].join(" "), "16 1844674407370955159 0 5");
        assert_eq!(row("tickets.around")[2..].join(" "), "1 0 0 1 1 1 4 2 2 0");
        assert_eq!(row("tickets.cycled")[11], "1");
        // A name is one line.
        assert_eq!(row("shop.a\\nb/%, field no")[2], "5");
    }
}

/// A value of a snapshot as relaxed Extended JSON.
fn relaxed(value: &Bson) -> Value {
    if let Some(id) = value.as_object_id() {
        return serde_json::json!({ "$oid": id.to_hex() });
    }
    let number = value.as_i64().or(value.as_i32().map(i64::from)).map(Value::from);
    let other = value.as_bool().map(Value::from).or(value.as_str().map(Value::from));
    number.or(other).unwrap_or(Value::Null)
}

/// The report has what the library's snapshot has, type by type, and no field of it is left out.
#[test]
fn the_report_has_whole_snapshots() {
    for is_served in [false, true] {
        let mut fixture = numbered(is_served);
        let shown = report(&fixture, &["tickets"]);
        if is_served {
            fixture.kill_in_order();
        }
        let client = Client::builder().read_only(true).open(fixture.path("db")).expect("it works");
        let snapshots = client.database("tickets").snapshot_sequences().run().expect("it works");
        assert_eq!(shown.len(), snapshots.len());
        for (shown, snapshot) in shown.iter().zip(&snapshots) {
            let fields = serialize_to_document(snapshot).expect("it works");
            let relaxed: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name, relaxed(&value))).collect();
            assert_eq!(shown["snapshot"], Value::Object(relaxed));
            assert_eq!(shown["name"], snapshot.name);
            assert_eq!(shown["database"], "tickets");
            assert_eq!(shown.get("next").is_none(), snapshot.exhausted && !snapshot.cycled, "{shown}");
        }
    }
}

#[test]
fn sequences_of_fields_have_their_collection() {
    for is_served in [false, true] {
        let fixture = numbered(is_served);
        let fields = report(&fixture, &["numbers"]);
        assert_eq!(fields.len(), kinds().len());
        for (name, _, _) in kinds() {
            let found = fields.iter().find(|one| one["collection"] == name);
            let found = found.unwrap_or_else(|| panic!("{name} is missing: {fields:?}"));
            assert_eq!((&found["field"], &found["snapshot"]["Internal"]), (&"n.value".into(), &true.into()));
        }
        assert!(report(&fixture, &["tickets"]).iter().all(|one| one.get("collection").is_none()));
    }
}

/// A process has the folder open and has handed values out: what it has reserved counts as used for those who look on.
#[test]
fn a_reader_is_never_told_a_value_that_was_handed_out() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let shop = client.database("shop");
    shop.create_sequence("tickets").run().expect("it works");
    for _ in 0..5 {
        let last = shop.sequence("tickets").next_value().run().expect("it works");
        let shown = report(&fixture, &["shop"]);
        let next = shown.first().and_then(|one| one["next"].as_i64()).expect("a value");
        assert!(next > last, "{next} after {last}");
    }
    client.close().expect("it works");
    assert_eq!(report(&fixture, &[])[0]["next"], 6);
}

/// Two who take values have a block each: the next value is after those of both.
#[test]
fn the_next_value_is_after_that_of_every_acquirer() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let options = doc! { "createSequence": "tickets", "options": { "CacheSize": 10, "AcquireSize": 2 } };
    rich::run(&client, "shop", options);
    let other = client.acquirer();
    let mut last = 0;
    for taker in [&client, &other, &client, &other] {
        last = taker.database("shop").sequence("tickets").next_value().run().expect("it works").max(last);
    }
    let server = cairndb_server::Server::builder(client.clone()).unix_socket(fixture.path("in.sock"));
    let running = server.spawn().expect("it works");
    let output =
        cairn().arg("sequences").arg(fixture.path("in.sock")).arg("--json").output().expect("it works");
    running.stop();
    let report: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!((last, &report["sequences"][0]["next"]), (4, &5.into()), "{report}");
}

#[test]
fn a_store_without_sequences_says_so() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        assert_eq!(table(fixture, &[]), [["no sequences"]]);
        assert_eq!(table(fixture, &["shop"]), [["no sequences"]]);
        assert!(report(fixture, &[]).is_empty());
        complains(&run(fixture, &["absent"]), 1, "there is no database absent");
        for database in ["", ".", "shop.orders"] {
            complains(&run(fixture, &[database]), 2, "is not a DB");
        }
        assert_eq!(run(fixture, &["shop", "more"]).status.code(), Some(2));
    });
    on_both(&[], |fixture| assert_eq!(table(fixture, &[]), [["no sequences"]]));
    let fixture = Fixture::new(&[], false);
    complains(&cairn().arg("sequences").arg(fixture.path("absent")).output().expect("it works"), 6, "absent");
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    for is_served in [false, true] {
        numbered(is_served).prints_to_nobody("sequences");
    }
}

/// The lines of the page and of the help, run by a shell as they are printed. What goes on until a signal is ended after
/// its first line.
#[test]
fn examples_of_the_page_and_of_the_help_run_as_they_are_printed() {
    let mut served = Fixture::new(&[doc! { "_id": 1 }], false);
    served.serve();
    let folder = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::rename(folder.path("db"), folder.path("shop-data")).expect("it works");
    std::os::unix::fs::symlink(served.path("s.sock"), folder.path("shop.sock")).expect("it works");
    let names = ["stats", "sequences"];
    let lines: Vec<String> =
        SOURCES.into_iter().flat_map(|source| names.map(|name| printed(source, name))).flatten().collect();
    assert_eq!(lines.len(), 10, "{lines:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().and_then(Path::to_str).expect("it works");
    let search = format!("{program}:{}", std::env::var("PATH").expect("it works"));
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("exec {line}")]).env("PATH", &search).current_dir(folder.folder.path());
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it works");
        let mut out = BufReader::new(child.stdout.take().expect("it works"));
        let mut first = String::new();
        out.read_line(&mut first).expect("it works");
        assert!(!first.is_empty(), "{line}");
        let is_endless = line.contains("--watch");
        if is_endless {
            send(&child, Signal::TERM);
        }
        std::io::copy(&mut out, &mut std::io::sink()).expect("it works");
        assert_eq!(child.wait().expect("it works").code(), Some(if is_endless { 143 } else { 0 }), "{line}");
    }
}
