//! The demo, run as `make demo` runs it: what it shows fits on a screen, and whatever it is given, it says one line and leaves
//! nothing behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Lines of a screen, and characters of a line with its indentation.
const LINES_MAX: usize = 45;
const CHARACTERS_MAX: usize = 113;

/// The demo with its temporary folder in `folder`.
fn demo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.env("TMPDIR", folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().expect("it starts");
    // It may end before it has read all.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    child.wait_with_output().expect("it ends")
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("the folder").next().is_none()
}

#[track_caller]
fn is_a_screen(output: &Output, words: &[&str]) {
    let shown = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}{told}");
    let lines = shown.lines().count() + told.lines().count();
    assert!(lines <= LINES_MAX, "{lines} lines:\n{shown}{told}");
    for line in shown.lines() {
        assert!(line.chars().count() <= CHARACTERS_MAX, "{line}");
        assert!(!line.contains('\u{1b}'), "colors in a pipe: {line}");
    }
    for word in words {
        assert!(shown.contains(word), "{word:?} is not in\n{shown}");
    }
}

#[track_caller]
fn is_one_line(output: &Output, words: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert_eq!(told.lines().filter(|line| !line.contains("standard input is")).count(), 1, "{told}");
    assert!(told.contains(words), "{words:?} is not in {told}");
}

#[test]
fn it_tells_its_story_of_the_packages_on_one_screen() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = with_input(demo(folder.path()), b"");
    let words = [
        "packages from cargo metadata",
        "raw RocksDB",
        ": made at 2",
        " on machine ",
        ", by process ",
        ", counter ",
        "invoices gapless  2,000 numbers, 1 to 2,000: none twice, 0 missing; ",
        "orders   fast     10,000 numbers, 1 to 10,",
        "none twice, 0 missing",
        "E11000",
        " 0 lost",
        "nothing is wrong",
        "IXSCAN package_1",
        "$sortByCount",
    ];
    is_a_screen(&output, &words);
    assert!(is_empty(folder.path()));
}

#[test]
fn lines_that_are_piped_in_take_the_place_of_the_packages() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines =
        b"{\"_id\": 1, \"name\": \"Ada\"}\nno document\n{\"_id\": 2, \"name\": \"Grace\"}\n{\"_id\": 1}\n";
    let output = with_input(demo(folder.path()), lines);
    is_a_screen(
        &output,
        &["standard input", "2 documents in", "2 lines are not stored; the first: line 2: ", "\"Ada\""],
    );
    assert!(is_empty(folder.path()));
    // Documents without any field have no more than an _id.
    is_a_screen(&with_input(demo(folder.path()), b"{}\n{}\n"), &["2 documents in", "no field differs"]);
    assert!(is_empty(folder.path()));
}

#[test]
fn input_without_a_document_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    is_one_line(&with_input(demo(folder.path()), b"no document\n"), "demo: line 1: ");
    is_one_line(&with_input(demo(folder.path()), b"\n\n"), "demo: the input holds no document");
    is_one_line(&with_input(demo(folder.path()), b"\x28\xb5\x2f\xfdbroken"), "demo: cannot read the input: ");
    assert!(is_empty(folder.path()));
}

#[test]
fn a_folder_that_cannot_be_made_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("it works");
    is_one_line(&with_input(demo(&file), b""), "demo: no folder for the stores: ");
    let mut named = demo(folder.path());
    named.arg(file.join("stores"));
    is_one_line(&with_input(named, b""), "file/stores: ");
    let mut wrong = demo(folder.path());
    wrong.args(["--fast"]);
    is_one_line(&with_input(wrong, b""), "usage: demo [FOLDER]");
}

/// Wherever in its story the disk is full.
#[test]
fn a_full_disk_is_one_line() {
    for size in ["1m", "4m", "10m", "14m"] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(folder.path()).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no mount (a disk of {size})");
            return;
        }
        let output = with_input(demo(folder.path()), b"");
        let is_left_empty = is_empty(folder.path());
        let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
        is_one_line(&output, "o space left on");
        assert!(is_left_empty, "{size}");
    }
}

/// Root may write everywhere but onto a disk that cannot be written to.
#[test]
fn a_folder_without_rights_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["-t", "tmpfs", "-o", "ro", "tmpfs"];
    let mounted = Command::new("mount").args(options).arg(folder.path()).stderr(Stdio::null()).status();
    let is_mounted = mounted.is_ok_and(|status| status.success());
    if !is_mounted {
        let mut rights = std::fs::metadata(folder.path()).expect("the folder").permissions();
        rights.set_readonly(true);
        std::fs::set_permissions(folder.path(), rights).expect("it works");
    }
    let own = with_input(demo(folder.path()), b"");
    let mut named = demo(folder.path());
    named.arg(folder.path());
    let named = with_input(named, b"");
    if is_mounted {
        let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
    }
    is_one_line(&own, "demo: no folder for the stores: ");
    is_one_line(&named, &folder.path().display().to_string());
}

/// All that a terminal shows, of which both outputs are.
fn at_a_terminal(mut command: Command) -> String {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&shown).expect("it works");
    unlockpt(&shown).expect("it works");
    let name = ptsname(&shown, Vec::new()).expect("it has a name");
    let name = name.to_str().expect("a path");
    let other = File::options().read(true).write(true).open(name).expect("it opens");
    let copy = other.try_clone().expect("it works");
    let mut child = command
        .env("TERM", "xterm")
        .stdout(other)
        .stderr(copy)
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It holds the other end.
    drop(command);
    let mut input = child.stdin.take().expect("it is piped");
    for id in 0..3_000 {
        writeln!(input, "{{\"_id\": {id}}}").expect("it reads");
    }
    drop(input);
    let (mut told, mut buffer) = (Vec::new(), [0; 4096]);
    let mut shown = File::from(shown);
    // The terminal ends with an error when the last program has closed it.
    while let Ok(count @ 1..) = shown.read(&mut buffer) {
        told.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(child.wait().expect("it ends").success(), "{told}");
    told
}

#[test]
fn at_a_terminal_there_are_colors_and_a_progress_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut colored = demo(folder.path());
    colored.env_remove("NO_COLOR");
    let colored = at_a_terminal(colored);
    assert!(colored.contains("\u{1b}[1;36m1 Real documents: newline-delimited JSON"), "{colored}");
    assert!(colored.contains(" documents, "), "no progress: {colored}");
    let mut plain = demo(folder.path());
    plain.env("NO_COLOR", "1");
    let plain = at_a_terminal(plain);
    assert!(
        plain.contains("1 Real documents: newline-delimited JSON") && !plain.contains("\u{1b}[1;36m"),
        "{plain}"
    );
    assert!(is_empty(folder.path()));
}

fn interrupt(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, signal).expect("it runs");
}

/// It waits for input that does not come: the signal is all that ends it.
#[test]
fn an_interrupted_demo_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = demo(folder.path()).spawn().expect("it starts");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"{\"a\": 1}\n").expect("it reads");
        let mut told = child.stderr.take().expect("it is piped");
        // What it says first is said by the second process: by then there is a folder.
        let mut byte = [0];
        told.read_exact(&mut byte).expect("it says that it reads");
        interrupt(&child, signal);
        let mut rest = String::new();
        told.read_to_string(&mut rest).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
        assert!(rest.ends_with("demo: interrupted\n"), "{rest}");
        drop(input);
        assert!(is_empty(folder.path()), "{signal:?}");
    }
}

/// The process that writes would go on, and close its store into the folder while that is removed.
#[test]
fn a_demo_that_is_interrupted_while_another_process_writes_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = demo(folder.path()).stderr(Stdio::null()).spawn().expect("it starts");
    drop(child.stdin.take());
    let mut shown = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert!(shown.any(|line| line.expect("text").contains("SIGKILL")));
    interrupt(&child, Signal::INT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(is_empty(folder.path()));
}
