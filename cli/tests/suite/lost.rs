//! Servers that do not answer, that do not answer any more, and that are gone.

#![cfg(feature = "remote")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::{Document, doc};
use rustix::process::Signal;

use crate::fixture::migrating::{stalling, uri};
use crate::fixture::{Fixture, cairn, number, report};

/// Nothing that is waited for takes as long, even on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The commands that reach a server, each with what follows the store.
fn commands() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("backup", &["copy"]),
        ("compact", &[]),
        ("dump", &["dumped"]),
        ("export", &["shop.orders"]),
        ("import", &["shop.orders", "lines.ndjson"]),
        ("inspect", &["shop", "--sequence", "numbers=1"]),
        ("restore", &["--archive", "archive"]),
        ("sequences", &[]),
        ("stats", &[]),
        #[cfg(feature = "shell")]
        ("query", &["db.orders.find()"]),
        #[cfg(feature = "shell")]
        ("shell", &["--eval", "db.orders.find()"]),
    ]
}

/// A folder with what the commands read.
fn prepared() -> Fixture {
    let fixture = Fixture::new(&documents(2000), false);
    std::fs::write(fixture.path("lines.ndjson"), "{}\n").expect("it works");
    let dumped = fixture.run("dump", &["--archive", "archive"]).output().expect("it works");
    assert!(dumped.status.success(), "{dumped:?}");
    fixture
}

fn documents(count: i32) -> Vec<Document> {
    (0..count).map(|id| doc! { "_id": id, "text": "x".repeat(3000) }).collect()
}

fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("it runs");
}

/// Says one thing about a server, by its name, and nothing in the words of the driver.
#[track_caller]
fn says(output: &Output, status: i32, words: &str, name: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{told}");
    assert!(told.contains(words) && told.contains(name), "{told}");
    for debug in ["Kind:", "labels", "Topology", "panicked"] {
        assert!(!told.contains(debug), "{told}");
    }
    let (complaints, whole) = (told.matches("cairn: ").count(), told.matches(words).count());
    assert_eq!((complaints, whole), (1, 1), "{told}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_reason() {
    let fixture = prepared();
    // A port that is taken, so that no other process listens on it, and on which nothing listens.
    let taken = tokio::net::TcpSocket::new_v4().expect("it works");
    taken.bind("127.0.0.1:0".parse().expect("an address")).expect("it works");
    let port = taken.local_addr().expect("it works").port();
    let (uri, name) =
        (format!("mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=300"), format!("127.0.0.1:{port}"));
    for (command, words) in commands() {
        let output = cairn().arg(command).arg(&uri).args(words).current_dir(fixture.folder.path()).output();
        let output = output.expect("it works");
        says(&output, 6, "no server can be reached at ", &name);
        assert!(String::from_utf8_lossy(&output.stderr).contains("Connection refused"), "{output:?}");
    }
    for side in ["--to", "--from"] {
        let output = fixture.run("migrate", &[side, &uri]).output().expect("it works");
        says(&output, 6, "no server can be reached at ", &name);
    }
    // What would have been written to is not made.
    let output = cairn().arg("migrate").arg(fixture.path("new")).args(["--from", &uri]).output();
    says(&output.expect("it works"), 6, "no server can be reached at ", &name);
    assert!(!fixture.path("new").exists());
}

/// The first signal was not noticed, and the driver waited for the whole of its time.
#[test]
fn one_signal_ends_the_wait_for_a_server_that_says_nothing() {
    let fixture = prepared();
    let listener = TcpListener::bind("127.0.0.1:0").expect("it works");
    let address = listener.local_addr().expect("it has one");
    // The driver would wait for longer than a signal takes on a busy machine.
    let uri = format!("mongodb://{address}/?serverSelectionTimeoutMS=300000&connectTimeoutMS=300000");
    let all = commands().into_iter().map(|(command, words)| {
        let mut one = cairn();
        one.arg(command).arg(&uri).args(words).current_dir(fixture.folder.path());
        one
    });
    let both = ["--to", "--from"].map(|side| fixture.run("migrate", &[side, &uri]));
    for (at, mut command) in all.chain(both).enumerate() {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (mut connection, _) = listener.accept().expect("it connects");
        // It has asked, and gets no answer.
        connection.read_exact(&mut [0; 16]).expect("it says hello");
        let begun = Instant::now();
        let (signal, status) = if at % 2 == 0 { (Signal::TERM, 143) } else { (Signal::INT, 130) };
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{command:?}: {told}");
        assert!(told.contains("interrupted"), "{command:?}: {told}");
        assert!(begun.elapsed() < TIME_MAX, "{command:?}: {:?}", begun.elapsed());
        // Another connection of the same client may wait to be accepted.
        listener.set_nonblocking(true).expect("it works");
        while listener.accept().is_ok() {}
        listener.set_nonblocking(false).expect("it works");
    }
}

/// A server, and the URI by which it is reached: it gives up soon where there is no server.
struct Served {
    fixture: Fixture,
    server: Child,
    uri: String,
}

impl Served {
    fn start(documents: &[Document]) -> Self {
        let fixture = Fixture::new(documents, false);
        let socket = fixture.path("s.sock");
        let mut server = cairn();
        server.arg("serve").arg(fixture.path("db")).args([
            "--port",
            "0",
            "--log-level",
            "off",
            "--unix-socket",
        ]);
        let mut server = server.arg(&socket).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = std::io::BufReader::new(server.stdout.take().expect("it is a pipe"));
        let mut lines = std::io::BufRead::lines(lines);
        lines
            .find(|line| line.as_ref().is_ok_and(|line| line.ends_with("s.sock")))
            .expect("it listens")
            .expect("text");
        let path = socket.to_str().expect("a path").replace('/', "%2F");
        Self { fixture, server, uri: format!("mongodb://{path}/?serverSelectionTimeoutMS=500") }
    }

    fn run(&self, name: &str, more: &[&str]) -> Command {
        let mut command = cairn();
        command.arg(name).arg(&self.uri).args(more).current_dir(self.fixture.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn kill(&mut self) {
        self.server.kill().expect("it runs");
        self.server.wait().expect("it was started here");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Also one that was stopped or killed before.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn lines(ids: std::ops::Range<u32>) -> Vec<u8> {
    ids.flat_map(|id| format!("{{\"_id\":{id}}}\n").into_bytes()).collect()
}

/// An import of which the server has stored a batch of 10, and that has read another.
fn half_of_an_import(served: &Served, more: &[&str]) -> Child {
    let words = [&["shop.orders", "-", "--format", "ndjson", "--batch", "10"], more].concat();
    let child = served.run("import", &words).spawn().expect("it starts");
    let mut input = child.stdin.as_ref().expect("it is a pipe");
    // The reader gives on what it has once it has 256 KiB: blank lines do.
    input.write_all(&lines(0..11)).expect("it is read");
    input.write_all(&vec![b'\n'; 300 << 10]).expect("it is read");
    let (_held, never) = channel::<()>();
    let end = Instant::now() + TIME_MAX;
    let is_stored = || {
        let counted = served.run("export", &["shop.orders", "--fields", "_id", "--format", "csv"]).output();
        String::from_utf8_lossy(&counted.expect("it works").stdout).lines().count() == 11
    };
    while !is_stored() {
        assert!(Instant::now() < end, "the first batch is not stored");
        let _ = never.recv_timeout(Duration::from_millis(20));
    }
    child
}

#[test]
fn an_import_whose_server_is_killed_says_so_once_and_what_was_stored() {
    let mut served = Served::start(&[]);
    let mut child = half_of_an_import(&served, &[]);
    served.kill();
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("it ends");
    says(&output, 6, " is lost: ", "s.sock");
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 inserted"), "{output:?}");
}

#[test]
fn what_is_read_from_a_server_that_is_killed_ends_with_one_message() {
    for (command, words) in [
        ("export", &["shop.orders"][..]),
        ("dump", &["--archive", "-"]),
        #[cfg(feature = "shell")]
        ("query", &["db.orders.find()"]),
        #[cfg(feature = "shell")]
        ("shell", &["--eval", "db.orders.find().forEach(one => print(one.text))", "--db", "shop"]),
    ] {
        let mut served = Served::start(&documents(20_000));
        let mut child = served.run(command, words).spawn().expect("it starts");
        let mut out = child.stdout.take().expect("it is a pipe");
        out.read_exact(&mut [0; 1000]).expect("it prints");
        served.kill();
        std::io::copy(&mut out, &mut std::io::sink()).expect("it ends");
        let output = child.wait_with_output().expect("it ends");
        says(&output, 6, " is lost: ", "s.sock");
    }
}

/// A server that has stopped in the middle is not waited for longer than a few seconds after the signal.
#[test]
fn one_signal_ends_the_wait_for_a_reply_that_never_comes() {
    let served = Served::start(&documents(20_000));
    let mut child = served.run("export", &["shop.orders", "--json"]).spawn().expect("it starts");
    let mut out = child.stdout.take().expect("it is a pipe");
    out.read_exact(&mut [0; 1000]).expect("it prints");
    send(&served.server, Signal::STOP);
    send(&child, Signal::INT);
    std::io::copy(&mut out, &mut std::io::sink()).expect("it ends");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    send(&served.server, Signal::CONT);

    let served = Served::start(&[]);
    let child = half_of_an_import(&served, &["--json"]);
    send(&served.server, Signal::STOP);
    let mut input = child.stdin.as_ref().expect("it is a pipe");
    // A batch is sent, and its reply does not come.
    input.write_all(&lines(11..40)).expect("it is read");
    input.write_all(&vec![b'\n'; 300 << 10]).expect("it is read");
    let begun = Instant::now();
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(report.get("interrupted"), Some(&true.into()), "{report}");
    assert_eq!(report.get("inserted"), Some(&10.into()), "{report}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    send(&served.server, Signal::CONT);
}

/// A server that can be told to leave commands without an answer.
fn with_test_commands() -> Fixture {
    let mut served = Fixture::new(&[], false);
    served.serve_with(&["--enable-test-commands"]);
    served
}

/// Ends a command by one signal, while the server does not answer what it was sent under this name. Returns the report.
#[track_caller]
fn cut_off(
    target: &Fixture,
    name: &str,
    mut command: Command,
    signal: Signal,
    status: i32,
) -> serde_json::Value {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = stalling(target, name, |sent| {
        let child = command.spawn().expect("it starts");
        let (_held, never) = channel::<()>();
        let end = Instant::now() + TIME_MAX;
        while sent() == 0 {
            assert!(Instant::now() < end, "{name} is not sent");
            let _ = never.recv_timeout(Duration::from_millis(20));
        }
        let begun = Instant::now();
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        // The answer was waited for some seconds, and nothing was sent again that could have a second one.
        assert!(begun.elapsed() < TIME_MAX, "{name}: {:?}", begun.elapsed());
        assert_eq!(sent(), 1, "{name}");
        output
    });
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{name}: {told}");
    assert!(!told.contains("operation was interrupted"), "{name}: {told}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(report.get("interrupted"), Some(&true.into()), "{name}: {report}");
    for count in ["documents", "refused", "leftOut", "indexes"] {
        assert_eq!(
            number(&report, count),
            if (name, count) == ("createIndexes", "documents") { 10 } else { 0 }
        );
    }
    report
}

/// A folder with ten documents and an index.
fn indexed() -> Fixture {
    let fixture = Fixture::new(&documents(10), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let index = doc! { "createIndexes": "orders", "indexes": [{ "key": { "text": 1 }, "name": "by_text" }] };
    client.database("shop").run_command(index).run().expect("it works");
    client.close().expect("it works");
    fixture
}

/// Checks all cases at the same time, each on a thread of its own.
fn each_on_its_own<C: Send>(cases: impl IntoIterator<Item = C>, check: impl Fn(C) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let check = &check;
            scope.spawn(move || check(case));
        }
    });
}

/// The batch without an answer was sent again by halves, each of its documents was counted as refused, and the migration went on
/// after them: resuming it never copied them.
#[test]
fn a_batch_of_a_migration_that_a_signal_cuts_off_is_copied_by_the_same_command() {
    // At the same time: each waits for the five seconds of its answer.
    each_on_its_own(["create", "insert", "createIndexes"], |name| {
        let (source, target) = (indexed(), with_test_commands());
        let command = || source.run("migrate", &["--to", &uri(&target), "--json"]);
        cut_off(&target, name, command(), Signal::INT, 130);
        assert!(source.path("db.cairn-migrate").exists(), "{name}");
        let report = report(&command().output().expect("it works"));
        let there = number(&report, "documents") + number(&report, "alreadyThere");
        // After the documents nothing of them is sent again.
        assert_eq!(there, if name == "createIndexes" { 0 } else { 10 }, "{name}: {report}");
        assert_eq!((number(&report, "refused"), number(&report, "differences")), (0, 0), "{name}: {report}");
        assert!(!source.path("db.cairn-migrate").exists(), "{name}");
    });
}

/// Five seconds were waited for each half of the batch, and its documents were named as refused.
#[test]
fn a_restore_that_a_signal_cuts_off_sends_nothing_more_and_names_nothing_as_refused() {
    let source = indexed();
    let dumped = source.run("dump", &["--archive", "archive"]).output().expect("it works");
    assert!(dumped.status.success(), "{dumped:?}");
    let archive = source.path("archive");
    let cases =
        [("create", Signal::INT, 130), ("insert", Signal::TERM, 143), ("createIndexes", Signal::INT, 130)];
    // At the same time: each waits for the five seconds of its answer.
    each_on_its_own(cases, |(name, signal, status)| {
        let target = with_test_commands();
        let command = |more: &[&str]| {
            let mut command = target.run("restore", &["--json", "--archive"]);
            command.arg(&archive).args(more);
            command
        };
        cut_off(&target, name, command(&[]), signal, status);
        let again = report(&command(&["--drop", "--verify"]).output().expect("it works"));
        assert_eq!((number(&again, "documents"), number(&again, "refused")), (10, 0), "{name}: {again}");
    });
}
