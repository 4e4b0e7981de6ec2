//! The exit statuses, command by command: the table of the page holds for all of them. What a wrong command line, an absent store and
//! a folder that is open elsewhere end with is said here for every command that the help lists.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::collections::BTreeSet;
use std::process::Stdio;

use cairndb::Client;
use cairndb::bson::doc;

use crate::fixture::examples::help;
use crate::fixture::{Fixture, cairn};

/// A command line, and what it ends with. `db` is a store with `shop.orders`, `absent` nothing, `held` a store that this process
/// has open, `dumped` a dump and `copy` a backup.
type Case = (&'static [&'static str], i32);

const DONE: [Case; 23] = [
    (&["query", "db", "db.orders.countDocuments()"], 0),
    (&["shell", "db", "--eval", "1"], 0),
    (&["schema", "db", "shop.orders"], 0),
    (&["watch", "db", "shop.orders"], 0),
    (&["stats", "db"], 0),
    (&["sequences", "db"], 0),
    (&["inspect", "db", "shop.orders", "--id", "1"], 0),
    (&["import", "db", "shop.more", "lines.ndjson"], 0),
    (&["export", "db", "shop.orders"], 0),
    (&["dump", "db", "again"], 0),
    (&["restore", "other", "dumped"], 0),
    (&["migrate", "db", "--to", "s.sock", "--plan"], 0),
    (&["user", "add", "db", "ada", "--password-file", "password"], 0),
    (&["ops", "s.sock"], 0),
    (&["backup", "db", "second"], 0),
    (&["restore-backup", "copy", "third"], 0),
    (&["verify", "db"], 0),
    (&["salvage", "copy", "fourth"], 0),
    (&["compact", "db"], 0),
    (&["completions", "bash"], 0),
    (&["man"], 0),
    (&["version"], 0),
    (&["help"], 0),
];

/// What is asked of a store that is not there, or of a server that does not answer.
const ABSENT: [Case; 25] = [
    (&["query", "absent", "1"], 6),
    (&["shell", "absent", "--eval", "1"], 6),
    (&["schema", "absent", "shop.orders"], 6),
    (&["watch", "absent", "shop.orders"], 6),
    (&["stats", "absent"], 6),
    (&["sequences", "absent"], 6),
    (&["inspect", "absent", "shop.orders", "--id", "1"], 6),
    (&["import", "absent.sock", "shop.orders", "lines.ndjson"], 6),
    (&["export", "absent", "shop.orders"], 6),
    (&["dump", "absent", "new"], 6),
    (&["restore", "absent.sock", "dumped"], 6),
    (&["migrate", "absent", "--to", "s.sock"], 6),
    (&["migrate", "db", "--to", "absent.sock"], 6),
    (&["serve", "absent.sock", "--port", "0"], 6),
    (&["serve", "absent", "--port", "0", "--read-only"], 6),
    (&["user", "list", "absent"], 6),
    (&["user", "remove", "absent", "ada"], 6),
    // They ended with 2, as for a folder.
    (&["ops", "absent.sock"], 6),
    (&["kill", "absent.sock", "1"], 6),
    (&["backup", "absent", "new"], 6),
    (&["restore-backup", "absent", "new"], 6),
    (&["verify", "absent"], 6),
    (&["salvage", "absent", "new"], 6),
    (&["compact", "absent"], 6),
    (&["ops", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500"], 6),
];

/// A folder that another process has open is read, and not written.
const HELD: [Case; 23] = [
    (&["query", "held", "db.orders.countDocuments()"], 0),
    (&["query", "held", "db.orders.insertOne({})"], 5),
    (&["shell", "held", "--eval", "1"], 0),
    (&["shell", "held", "--eval", "db.orders.insertOne({})"], 5),
    (&["schema", "held", "shop.orders"], 0),
    (&["watch", "held", "shop.orders"], 0),
    (&["stats", "held"], 0),
    (&["sequences", "held"], 0),
    (&["inspect", "held", "shop.orders", "--id", "2"], 0),
    (&["import", "held", "shop.orders", "lines.ndjson"], 5),
    (&["export", "held", "shop.orders"], 0),
    (&["dump", "held", "beside"], 0),
    (&["restore", "held", "dumped", "--drop"], 5),
    (&["migrate", "held", "--to", "s.sock"], 5),
    (&["serve", "held", "--port", "0"], 5),
    (&["user", "list", "held"], 0),
    (&["user", "add", "held", "ada", "--password-file", "password"], 5),
    (&["user", "remove", "held", "ada"], 5),
    (&["backup", "held", "new"], 5),
    (&["restore-backup", "held", "fifth"], 0),
    (&["verify", "held"], 0),
    (&["salvage", "held", "new"], 5),
    (&["compact", "held"], 5),
];

/// One of each other kind: failed, in part, and different.
const OTHERS: [Case; 12] = [
    (&["query", "db", "throw new Error('x')"], 1),
    (&["shell", "db", "--eval", "exit(9)"], 9),
    (&["export", "db", "shop.none"], 1),
    (&["kill", "s.sock", "99999999"], 1),
    (&["ops", "db"], 2),
    (&["export", "db", "shop.orders", "lines.ndjson"], 2),
    (&["backup", "db", "copy"], 2),
    (&["import", "db", "shop.wrong", "wrong.ndjson"], 3),
    (&["inspect", "db", "shop", "--sequence", "none=1"], 1),
    (&["restore", "db", "dumped"], 1),
    (&["restore", "sixth", "none"], 1),
    (&["user", "remove", "db", "grace"], 1),
];

#[test]
fn every_command_keeps_to_the_table_of_statuses() {
    let fixture = prepared();
    let held = Client::open(fixture.path("held")).expect("it opens");
    let mut kinds: [BTreeSet<&str>; 3] = Default::default();
    let all = [&DONE[..], &ABSENT, &HELD, &OTHERS];
    for (at, cases) in all.into_iter().enumerate() {
        for (words, status) in cases {
            check(&fixture, words, *status);
            if let (Some(kind), Some(name)) = (kinds.get_mut(at), words.first()) {
                kind.insert(name);
            }
        }
    }
    held.close().expect("it closes");
    // Each command of the help has a wrong command line, and is in the lists above, but for those that take no store.
    let text = help("");
    let listed = text.lines().take_while(|line| *line != "Options:").filter(|line| line.starts_with("  "));
    let names: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 20, "{names:?}");
    let [done, absent, held] = &kinds;
    for name in names {
        check(&fixture, &[name, "--no-such-option"], 2);
        let takes_no_store = ["completions", "man", "version", "help"].contains(&name);
        let is_for_servers = ["ops", "kill"].contains(&name);
        // A server runs until it is ended, and `kill` needs something to end: other suites see them succeed.
        assert!(done.contains(name) || ["serve", "kill"].contains(&name), "{name} is never done");
        assert!(absent.contains(name) || takes_no_store, "{name} without a store");
        assert!(held.contains(name) || takes_no_store || is_for_servers, "{name} beside another process");
    }
}

/// Stores, files and a server on `s.sock`, which serves a store of its own.
fn prepared() -> Fixture {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::write(fixture.path("lines.ndjson"), "{\"_id\":2}\n").expect("it works");
    std::fs::write(fixture.path("wrong.ndjson"), "{\"_id\":2}\nx\n").expect("it works");
    std::fs::write(fixture.path("password"), "correct horse\n").expect("it works");
    for words in [
        &["import", "held", "shop.orders", "lines.ndjson"][..],
        &["import", "served", "other.orders", "lines.ndjson"],
        &["dump", "db", "dumped"],
        &["backup", "db", "copy"],
    ] {
        check(&fixture, words, 0);
    }
    for name in ["db", "held"] {
        // Else there is nothing that could be watched.
        let client = Client::open(fixture.path(name)).expect("it opens");
        client.change_log(true).expect("switched on");
        client.close().expect("it closes");
    }
    fixture
}

#[track_caller]
fn check(fixture: &Fixture, words: &[&str], status: i32) {
    let server = words.contains(&"s.sock").then(|| Served::start(fixture));
    let mut command = cairn();
    command.args(words).current_dir(fixture.folder.path()).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    drop(server);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {told}");
    assert!(!told.contains("panicked"), "{words:?}: {told}");
    // What fails says why, on one line that begins with the tool's name, but for the parser's own.
    let says = |line: &str| line.starts_with("cairn: ") || line.starts_with("error: ");
    assert!(matches!(status, 0 | 9) || told.lines().any(says), "{words:?}: {told}");
}

/// A server on `s.sock` for one command.
struct Served {
    child: std::process::Child,
}

impl Served {
    fn start(fixture: &Fixture) -> Self {
        let mut command = cairn();
        command.args(["serve", "served", "--port", "0", "--unix-socket", "s.sock", "--log-level", "off"]);
        command.current_dir(fixture.folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
        let is_there =
            |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| line.ends_with("s.sock"));
        assert!(lines.any(|line| is_there(&line)), "it does not listen");
        Self { child }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
