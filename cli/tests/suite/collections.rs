//! Many collections: what it takes to make them, to open them again, and to have them open. Each has an index and a document.
//! `make collections COLLECTIONS=10000` prints the figures of the page of limits; every run has 300.

#![cfg(all(target_os = "linux", feature = "remote", feature = "shell"))]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, cairn, number, report};

/// What a process may take for each collection, beside what it takes without any.
const KIBIBYTES_EACH: u64 = 64;
const KIBIBYTES_WITHOUT: u64 = 192 << 10;

/// A process of the tool that works until it is ended.
struct Process(Child);

impl Process {
    /// Starts a command, and returns with it the time until it has printed a line that begins so.
    fn start(mut command: Command, first_words: &str) -> (Self, Duration) {
        let began = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let found = lines.any(|line| line.expect("it is UTF-8").starts_with(first_words));
        assert!(found, "{command:?} has ended");
        (Self(child), began.elapsed())
    }

    /// The most memory that the process had.
    fn kibibytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends the process in order. Returns how long that took.
    fn end(mut self) -> Duration {
        let began = Instant::now();
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.0.wait().expect("it ends").success());
        began.elapsed()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn collections() -> u64 {
    std::env::var("CAIRNDB_COLLECTIONS").map_or(300, |count| count.parse().expect("a number"))
}

#[test]
fn many_collections_are_made_and_opened_again_in_little_memory() {
    let count = collections();
    let fixture = Fixture::new(&[], false);
    let script = format!(
        "for (let n = 0; n < {count}; n += 1) {{\n\
             db['c' + n].createIndex({{number: 1}});\n\
             db['c' + n].insertOne({{_id: 1, number: n}});\n\
         }}"
    );
    let began = Instant::now();
    let making =
        fixture.run("shell", &["--db", "many", "--quiet", "--eval", &script]).output().expect("it works");
    assert!(making.status.success(), "{making:?}");
    let made = began.elapsed();

    let mut serve = cairn();
    serve.args(["serve", "--port", "0", "--log-level", "off"]).arg(fixture.path("db"));
    let (server, opened) = Process::start(serve, "listening on ");
    let serving = server.kibibytes();
    let closed = server.end();

    let began = Instant::now();
    let ask = format!("db.c{}.findOne({{number: {}}}).number", count - 1, count - 1);
    let asked = fixture.run("query", &[&ask, "--db", "many"]).output().expect("it works");
    assert_eq!(asked.stdout, format!("{}\n", count - 1).as_bytes(), "{asked:?}");
    let first_answer = began.elapsed();

    let began = Instant::now();
    let verified = report(&fixture.run("verify", &["--json"]).output().expect("it works"));
    let verifying = began.elapsed();
    assert_eq!(number(&verified, "collections"), count);
    assert_eq!(number(&verified, "documents"), count);
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(fixture.path("db")).expect("it works") {
        files += 1;
        bytes += entry.and_then(|entry| entry.metadata()).expect("it works").len();
    }
    println!(
        "{count} collections with an index each: made in {made:.1?}, opened by a server in {opened:.2?}, closed in \
         {closed:.2?}, {serving} KiB at most while open, opened and asked in {first_answer:.2?}, verified in \
         {verifying:.2?}, {files} files of {bytes} bytes"
    );
    assert!(serving < KIBIBYTES_WITHOUT + KIBIBYTES_EACH * count, "{serving} KiB");
    // A file for each would soon be more than a process may open.
    assert!(files < 100, "{files} files");
}
