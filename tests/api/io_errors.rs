//! The state after a write that meets an I/O error. The error is made without privileges: a child process runs under
//! a limit on the size of files, so that the log can grow only so far.

#![cfg(unix)]

use std::collections::HashMap;
use std::process::{Command, Stdio};

use cairndb_tests::scratch::{self, Scratch};

use crate::verify_clean;

/// In units of the shell, 512 or 1024 bytes.
const FILE_LIMIT: &str = "4096";

/// Fills the folder under the limit; what the child printed, by its first word.
fn fill(scratch: &Scratch) -> HashMap<String, String> {
    run(scratch, "exec \"$0\" fill \"$1\"")
}

/// Numbers under the limit: documents of a contract, or values that are drawn directly.
fn fill_numbered(scratch: &Scratch, what: &str) -> HashMap<String, String> {
    run(scratch, &format!("exec \"$0\" fill-numbered \"$1\" {what}"))
}

fn run(scratch: &Scratch, command: &str) -> HashMap<String, String> {
    // An ignored SIGXFSZ is inherited, so that the write fails with an error and does not kill.
    let script = format!("trap '' XFSZ; ulimit -f {FILE_LIMIT}; {command}");
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
    assert_eq!(seen["state"], "Poisoned");
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

#[test]
fn an_upload_that_meets_an_io_error_leaves_no_half_file() {
    use std::io::Read;
    // Few chunks in a file, and so many that most commits are of chunks.
    for chunk_size in ["100000", "1000"] {
        let scratch = Scratch::new();
        let seen = run(&scratch, &format!("exec \"$0\" fill-files \"$1\" {chunk_size}"));
        assert_eq!((seen["first"].as_str(), seen["second"].as_str()), ("CommitUnknown", "Poisoned"));
        let acknowledged: u64 = seen["acknowledged"].parse().expect("a number");
        assert!(acknowledged > 5, "the limit leaves room for {acknowledged} files only");
        let client = scratch.open();
        verify_clean(&client);
        let bucket = client.database("test").gridfs_bucket(None);
        let mut whole = 0;
        for file in bucket.find(cairndb::bson::Document::new()).run().expect("found") {
            let mut found = Vec::new();
            let mut stream = bucket.open_download_stream(file.expect("a file").id).run().expect("opened");
            stream.read_to_end(&mut found).expect("it is whole");
            assert!(found == vec![7; 100_000]);
            whole += 1;
        }
        // The one of unknown outcome may be there, too: then its chunks are.
        assert!(
            whole == acknowledged || whole == acknowledged + 1,
            "{acknowledged} acknowledged, {whole} found"
        );
        bucket.remove_orphans(std::time::Duration::ZERO).run().expect("writes go on");
        let chunks = client.database("test").collection::<cairndb::bson::Document>("fs.chunks");
        let stored = chunks.count_documents(cairndb::bson::doc! {}).run().expect("counted");
        assert_eq!(stored, whole * (100_000 / chunk_size.parse::<u64>().expect("a number")));
    }
}

#[test]
fn a_call_with_a_token_that_met_an_io_error_is_made_once_by_the_next_opening() {
    for documents in [1, 3] {
        let scratch = Scratch::new();
        let seen = run(&scratch, &format!("exec \"$0\" fill-tokens \"$1\" {documents}"));
        assert_eq!((seen["first"].as_str(), seen["again"].as_str()), ("CommitUnknown", "Poisoned"));
        let acknowledged: i32 = seen["acknowledged"].parse().expect("a number");
        assert!(acknowledged > 50, "the limit leaves room for {acknowledged} calls only");
        let client = scratch.open();
        let things = scratch::things(&client);
        // The last ones that were acknowledged, the one of unknown outcome, and one that was never made.
        for number in acknowledged - 20..acknowledged + 2 {
            for attempt in 0..2 {
                let padding = "x".repeat(1000);
                let new = (0..documents)
                    .map(|place| cairndb::bson::doc! { "call": number, "place": place, "padding": &padding });
                let done =
                    things.insert_many(new).exactly_once(format!("call {number}")).run().expect("done");
                let is_known = number < acknowledged || attempt > 0;
                assert!(done.was_replayed || !is_known, "{number}: {done:?}");
            }
            let stored =
                things.count_documents(cairndb::bson::doc! { "call": number }).run().expect("counted");
            assert_eq!(stored, u64::try_from(documents).expect("few"), "call {number}");
        }
        verify_clean(&client);
    }
}

/// Every call after the failed one is rejected, those that would be served from memory as well.
#[track_caller]
fn stopped(seen: &HashMap<String, String>) {
    assert_eq!(seen["first"], "CommitUnknown", "{seen:?}");
    for call in ["again", "single", "block", "alter", "restart", "set", "drop", "close"] {
        assert_eq!(seen[call], "Poisoned", "{call} in {seen:?}");
    }
}

#[test]
fn a_failed_reserve_hands_out_nothing() {
    let scratch = Scratch::new();
    let seen = fill_numbered(&scratch, "values");
    stopped(&seen);
    let last: i64 = seen["last"].parse().expect("a number");
    assert!(last > 100, "the limit leaves room for {last} values only");
    let client = scratch.open();
    let next = |name: &str| client.database("test").sequence(name).next_value().run().expect("a value");
    // The write of unknown outcome may have been made.
    assert!([last + 1, last + 2].contains(&next("singles")));
    assert_eq!(next("thousands"), 1001);
    verify_clean(&client);
}

#[test]
fn a_failed_insert_numbers_nothing_twice() {
    for what in ["fast", "ordered", "gapless", "fast-within", "ordered-within", "gapless-within"] {
        let scratch = Scratch::new();
        let seen = fill_numbered(&scratch, what);
        // Each document in a transaction, or none.
        let contract = what.strip_suffix("-within").unwrap_or(what);
        stopped(&seen);
        assert_eq!(seen["truncate"], "Poisoned");
        let last: i64 = seen["last"].parse().expect("a number");
        let client = scratch.open();
        let things = scratch::things(&client);
        let mut stored = crate::auto_increment::numbers(&things, "n");
        stored.sort_unstable();
        let expected: Vec<i64> = (1..).take(stored.len()).collect();
        assert_eq!(stored, expected, "{contract}");
        let next = things.insert_one(cairndb::bson::doc! {}).run().expect("stored").last_generate_id;
        let (kept, next) = (i64::try_from(stored.len()).expect("small"), next.expect("a value"));
        assert!(kept == last || kept == last + 1, "{last} acknowledged, {kept} stored");
        assert!(next > kept && next <= kept + 4, "{contract}: {next} after {kept}");
        assert!(contract != "gapless" || next == kept + 1, "{next} after {kept}");
        verify_clean(&client);
    }
}
