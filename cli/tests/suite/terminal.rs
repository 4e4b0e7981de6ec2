//! `cairn shell` at a terminal: a pseudo-terminal that a test types into.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::doc;
use rustix::process::Signal;

use crate::fixture::examples::root;
use crate::fixture::signals::send;
use crate::fixture::{Fixture, on_both, screen};

/// No answer takes as long, even on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(60);

/// An empty prompt, as the line editor draws it.
const PROMPT: &str = "> \r\u{1b}[";
/// The begin of another line of a statement.
const GOES_ON: &str = "\r\n\r\u{1b}[?2026l";

/// A shell, and who types into it.
struct Typist {
    terminal: File,
    child: Child,
    said: Receiver<Vec<u8>>,
    /// What was said and not yet looked for.
    rest: String,
}

impl Typist {
    fn start(fixture: &Fixture, more: &[&str]) -> Self {
        // So wide that no line is drawn anew.
        let (terminal, other) = screen::terminal(2000);
        let mut command = fixture.run("shell", more);
        let child = command
            .env("XDG_STATE_HOME", fixture.path("state"))
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::from(other.try_clone().expect("it works")))
            .stdout(Stdio::from(other.try_clone().expect("it works")))
            .stderr(Stdio::from(other))
            .spawn()
            .expect("it works");
        drop(command);
        let mut reading = terminal.try_clone().expect("it works");
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The terminal ends with an error when nothing has it open any more.
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                let said = buffer.get(..count).unwrap_or_default().to_vec();
                if sender.send(said).is_err() {
                    return;
                }
            }
        });
        Self { terminal, child, said, rest: String::new() }
    }

    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("it is read");
    }

    /// Types a line once the shell asks for it: what comes earlier is lost when the line editor begins.
    #[track_caller]
    fn enters(&mut self, line: &str) {
        self.sees(PROMPT);
        self.types(&format!("{line}\r"));
    }

    /// Waits until the shell says something. Returns what came before it.
    #[track_caller]
    fn sees(&mut self, words: &str) -> String {
        self.sees_one_of(&[words]).0
    }

    /// Returns also which of them it was.
    #[track_caller]
    fn sees_one_of<'w>(&mut self, many: &[&'w str]) -> (String, &'w str) {
        let end = Instant::now() + TIME_MAX;
        loop {
            let found = many.iter().filter_map(|words| Some((self.rest.find(words)?, *words))).min();
            if let Some((at, words)) = found {
                let after = self.rest.split_off(at + words.len());
                let mut before = std::mem::replace(&mut self.rest, after);
                before.truncate(at);
                return (before, words);
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(more) = self.said.recv_timeout(left) else { panic!("{many:?} is not in {:?}", self.rest) };
            self.rest.push_str(&String::from_utf8_lossy(&more));
        }
    }

    #[track_caller]
    fn ends(mut self, status: i32) {
        let left = self.child.wait().expect("it was started here");
        assert_eq!(left.code(), Some(status), "{}", self.rest);
    }

    fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }
}

#[test]
fn the_examples_of_tutorials_are_typed_line_by_line() {
    let folder = root().join("tests/clients/mongosh");
    on_both(&[], |fixture| {
        for name in ["counters.js", "optimistic.js"] {
            let mut typist = Typist::start(fixture, &["--db", "shop"]);
            typist.sees(PROMPT);
            let mut said = String::new();
            for file in ["prelude.js", name] {
                for line in std::fs::read_to_string(folder.join(file)).expect("it is there").lines() {
                    typist.types(line);
                    // The editor shows it when it has taken it.
                    typist.sees(line);
                    typist.types("\r");
                    said.push_str(&typist.sees_one_of(&[PROMPT, GOES_ON]).0);
                }
            }
            assert!(said.contains("\npassed\r\n") && !said.contains("Uncaught"), "{said}");
            typist.types("db.dropDatabase()\r");
            typist.sees("dropped: 'shop'");
            typist.enters("exit");
            typist.ends(0);
        }
    });
}

#[test]
fn a_signal_ends_the_statement_and_not_the_shell() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        let mut typist = Typist::start(fixture, &["--quiet"]);
        for statement in [
            "while (true) {}",
            "sleep(600000)",
            "for (;;) { try { for (;;) {} } catch {} }",
            "for (;;) db.orders.find().toArray()",
        ] {
            typist.enters(&format!("print('begun'); {statement}"));
            typist.sees("\nbegun");
            typist.signal(Signal::INT);
            typist.sees("interrupted");
            typist.enters("6 * 7");
            typist.sees("\n42\r\n");
        }
        // What the store does ends too.
        typist.enters("db.orders.find().itcount()");
        typist.sees("\n1\r\n");
        typist.enters("print('begun'); sleep(600000)");
        typist.sees("\nbegun");
        typist.signal(Signal::TERM);
        typist.ends(143);
    });
}

#[test]
fn a_signal_at_the_prompt_ends_the_shell_only_if_it_is_told_to_end() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let mut typist = Typist::start(&fixture, &["--quiet"]);
    typist.sees(PROMPT);
    typist.signal(Signal::INT);
    // The signal may still come while this runs, or the next statement.
    typist.types("0\r");
    typist.enters("6 * 7");
    if typist.sees_one_of(&["\n42\r\n", "interrupted"]).1 == "interrupted" {
        typist.enters("6 * 7");
        typist.sees("\n42\r\n");
    }
    typist.sees(PROMPT);
    typist.signal(Signal::TERM);
    typist.ends(143);
}

/// A read of many minutes in the store itself: a join of a collection with itself, without an index.
#[test]
fn a_signal_ends_a_read_in_the_store() {
    let documents: Vec<_> = (0..20_000).map(|id| doc! { "_id": id, "a": id }).collect();
    on_both(&documents, |fixture| {
        let mut typist = Typist::start(fixture, &["--quiet"]);
        let join = "db.orders.aggregate([{$lookup: {from: 'orders', as: 'x', let: {a: '$a'}, pipeline: [{$match: {$expr: {$gt: [{$sum: {$range: [0, {$add: ['$a', '$$a', 1000]}]}}, 1e12]}}}]}}, {$group: {_id: null, n: {$sum: 1}}}]).toArray()";
        typist.enters(&format!("print('begun'); {join}"));
        typist.sees("\nbegun");
        typist.signal(Signal::INT);
        typist.sees("interrupted");
        typist.enters("db.orders.countDocuments()");
        typist.sees("\n20000\r\n");
        typist.enters("exit(3)");
        typist.ends(3);
    });
}

#[test]
fn errors_are_shown_and_the_shell_goes_on() {
    on_both(&[doc! { "_id": 1, "name": "Ada" }], |fixture| {
        let mut typist = Typist::start(fixture, &[]);
        typist.sees("help shows what there is");
        for (typed, seen) in [
            ("null.x", "Uncaught TypeError: "),
            ("db.orders.insertOne({_id: 1})", "Uncaught MongoServerError[DuplicateKey]: E11000"),
            ("let = =", "SyntaxError"),
            ("x = {\r a: [\r 1]}", "{ a: [ 1 ] }"),
            ("use other", "switched to db other"),
            ("show dbs", "shop"),
            ("help", "use NAME"),
            ("it", "no cursor"),
            ("db", "\nother\r\n"),
        ] {
            typist.enters(typed);
            typist.sees(seen);
        }
        typist.sees(PROMPT);
        typist.types("\u{4}");
        typist.ends(0);
    });
}

/// It ended the session, and what followed it in the line was lost.
#[test]
fn a_line_that_is_not_utf_8_is_dropped_and_the_shell_goes_on() {
    on_both(&[], |fixture| {
        let mut typist = Typist::start(fixture, &["--quiet", "--db", "shop"]);
        typist.sees(PROMPT);
        typist.terminal.write_all(b"db.orders.insertOne({text: '\xff'}); exit(7)\r").expect("it is read");
        typist.sees("cairn: the line is not UTF-8, and was dropped");
        typist.enters("db.orders.countDocuments() + ' documents'");
        typist.sees("0 documents");
        typist.enters("exit(3)");
        typist.ends(3);
    });
}

#[test]
fn names_are_completed() {
    on_both(&[doc! { "_id": 1, "customer": "Ada" }], |fixture| {
        let mut typist = Typist::start(fixture, &["--quiet"]);
        typist.sees(PROMPT);
        typist.types("db.ord\t");
        typist.sees("db.orders");
        // The key that empties the line.
        typist.types("\u{15}db.orders.estim\t()\r");
        typist.sees("db.orders.estimatedDocumentCount");
        typist.sees("\n1\r\n");
        typist.enters("db.orders.findOne()");
        typist.sees("customer: 'Ada'");
        typist.enters("db.orders.find({cust\t: 'Ada'}).itc\t()");
        typist.sees("itcount");
        typist.sees("\n1\r\n");
        typist.enters("use sh\t");
        typist.sees("switched to db shop");
        typist.enters("show coll\t");
        typist.sees("\norders\r\n");
        typist.enters("exit");
        typist.ends(0);
    });
}

#[test]
fn statements_are_remembered_but_for_passwords() {
    let fixture = Fixture::new(&[], false);
    let mut typist = Typist::start(&fixture, &[]);
    for line in ["let x = 5", "db.auth('ada', 'secret')", "y = {\r  a: 1\r}"] {
        typist.enters(line);
    }
    typist.sees("{ a: 1 }");
    typist.enters("exit");
    typist.ends(0);
    let path = fixture.path("state/cairn/history");
    assert_eq!(std::fs::read_to_string(&path).expect("it is made"), "let x = 5\ny = {\\n  a: 1\\n}\nexit\n");
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    // The last but one, by the key for the line before.
    let mut typist = Typist::start(&fixture, &["--quiet"]);
    typist.enters("\u{10}\u{10}");
    typist.sees("{ a: 1 }");
    typist.enters("exit");
    typist.ends(0);
}

#[test]
fn the_prompt_says_that_a_folder_is_open_for_reading() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let mut typist = Typist::start(&fixture, &[]);
    typist.sees("it is opened for reading, as it is now");
    typist.sees("shop (read-only)");
    typist.enters("db.orders.insertOne({})");
    typist.sees("Uncaught MongoServerError[IllegalOperation]");
    typist.enters("db.orders.find()");
    typist.sees("{ _id: 1 }");
    typist.enters("exit");
    typist.ends(0);
    client.close().expect("it works");
}
