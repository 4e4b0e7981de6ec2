//! `cairn user` as a process.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::Client;

fn user(arguments: &[&str], path: &Path, more: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.arg("user").args(arguments).arg(path).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    // Who refuses before it reads has closed its end.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("ended")
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains(words), "{complaint}");
}

#[test]
fn users_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    done(&user(&["add"], &path, &["report", "--read-only"], "battery"));
    assert_eq!(done(&user(&["list"], &path, &[], "")), "ada root\nreport readAnyDatabase\n");
    refused(&user(&["add"], &path, &["ada"], "other\n"), "there is a user \"ada\" already");
    refused(&user(&["add"], &path, &["bob"], "\n"), "the password is empty");
    refused(&user(&["add"], &path, &["bob"], &"p".repeat(5000)), "longer than 4096 bytes");
    refused(&user(&["add"], &path, &["b\tob"], "secret\n"), "\"b\\tob\"");
    refused(&user(&["add"], &path, &["bob", "secret"], ""), "unexpected argument");
    done(&user(&["remove"], &path, &["ada"], ""));
    refused(&user(&["remove"], &path, &["ada"], ""), "there is no user \"ada\"");
    assert_eq!(done(&user(&["list"], &path, &[], "")), "report readAnyDatabase\n");
}

#[test]
fn a_folder_that_is_not_there_or_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    refused(&user(&["list"], &path, &[], ""), "there is no database");
    refused(&user(&["remove"], &path, &["ada"], ""), "there is no database");
    assert!(!path.exists());
    let held = Client::open(&path).unwrap();
    refused(&user(&["add"], &path, &["ada"], "secret\n"), "is already open");
    held.close().unwrap();
}

#[test]
fn passwords_are_stored_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    done(&user(&["add"], &path, &["ada"], "correct horse\n"));
    let mut looked_at = 0;
    for entry in std::fs::read_dir(&path).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        looked_at += bytes.len();
        assert!(!bytes.windows(13).any(|window| window == b"correct horse"));
    }
    assert!(looked_at > 0);
}
