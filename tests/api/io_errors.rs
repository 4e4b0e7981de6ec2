//! What a write that meets an I/O error leaves behind. The error is made without privileges: a child process runs
//! under a limit on the size of files, so that the log can grow only so far.

#![cfg(unix)]

use std::collections::HashMap;
use std::process::{Command, Stdio};

use cairndb_tests::scratch::{self, Scratch};

use crate::verify_clean;

/// In units of the shell, 512 or 1024 bytes.
const FILE_LIMIT: &str = "4096";

/// Fills the folder under the limit; what the child printed, by its first word.
fn fill(scratch: &Scratch) -> HashMap<String, String> {
    // An ignored SIGXFSZ is inherited, so that the write fails with an error and does not kill.
    let script = format!("trap '' XFSZ; ulimit -f {FILE_LIMIT}; exec \"$0\" fill \"$1\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_child")])
        .arg(scratch.path())
        .stderr(Stdio::inherit())
        .output()
        .expect("the child runs");
    assert!(output.status.success(), "the child ends in order: {:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("the child prints text");
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(word, value)| (word.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_failed_commit_is_unknown_and_stops_writes_but_not_reads() {
    let scratch = Scratch::new();
    let seen = fill(&scratch);
    assert_eq!(seen["first"], "CommitUnknown");
    assert_eq!(seen["unknown"], "true");
    assert_eq!(seen["second"], "Poisoned");
    assert_eq!(seen["close"], "Poisoned");
    assert_eq!(seen["readable"], seen["acknowledged"]);
}

#[test]
fn opening_again_brings_every_acknowledged_write_and_writes_go_on() {
    let scratch = Scratch::new();
    let acknowledged: u64 = fill(&scratch)["acknowledged"].parse().expect("a number");
    assert!(acknowledged > 100, "the limit leaves room for {acknowledged} documents only");
    let client = scratch.open();
    verify_clean(&client);
    let things = scratch::things(&client);
    let stored = things.estimated_document_count().run().expect("counted");
    assert!(
        stored == acknowledged || stored == acknowledged + 1,
        "{acknowledged} acknowledged and one of unknown outcome, but {stored} stored"
    );
    things.insert_one(cairndb::bson::doc! { "_id": -1 }).run().expect("writes go on");
    verify_clean(&client);
}
