//! One signal ends whatever a command waits for: standard input, a pipe with a name, a terminal, a server that does not answer.
//! What had been read until then is not lost.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::fixture::signals::{send, until};
use crate::fixture::{Fixture, cairn, complains, on_both, read};

/// A command whose standard input is a pipe.
fn begin(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Writes into a pipe, and waits until all of it was read.
#[track_caller]
fn feed(mut input: &ChildStdin, bytes: &[u8]) {
    input.write_all(bytes).expect("it is read");
    until("all is read", || rustix::io::ioctl_fionread(input).expect("it is a pipe") == 0);
}

/// Ends the command by one signal while its input stays open.
#[track_caller]
fn end(mut child: Child, signal: Signal, status: i32) -> Output {
    let input = child.stdin.take();
    send(&child, signal);
    until("it has ended", || child.try_wait().expect("it is a child").is_some());
    drop(input);
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    output
}

fn lines(ids: std::ops::Range<u32>) -> Vec<u8> {
    ids.flat_map(|id| format!("{{\"_id\":{id}}}\n").into_bytes()).collect()
}

/// How many documents the collection has.
#[track_caller]
fn stored(fixture: &Fixture) -> usize {
    let output = fixture.export(&["shop.orders", "--fields", "_id", "--format", "csv"]);
    String::from_utf8_lossy(&output.stdout).lines().skip(1).count()
}

#[track_caller]
fn told(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// The reader waited for 256 KiB or the end, and the signal was looked at between two batches: nothing was stored, and
/// only a second signal ended the command.
#[test]
fn an_import_stores_the_whole_lines_that_a_pipe_has_given() {
    for (count, more, signal, status) in [
        (1000, &["--format", "ndjson"][..], Signal::TERM, 143),
        (1000, &[], Signal::INT, 130),
        (1500, &["--batch", "400"], Signal::TERM, 143),
        (1, &["--mode", "upsert"], Signal::TERM, 143),
    ] {
        on_both(&[], |fixture| {
            let words = [&["shop.orders", "-", "--json"], more].concat();
            let child = begin(fixture.run("import", &words));
            let input = child.stdin.as_ref().expect("it is a pipe");
            feed(input, &lines(0..count));
            feed(input, b"{\"_id\": 7777, \"half\": ");
            let report = told(&end(child, signal, status));
            assert_eq!(report.get("interrupted"), Some(&true.into()), "{report}");
            assert_eq!(report.get("read"), Some(&count.into()), "{report}");
            assert_eq!(report.get("rejected"), Some(&0.into()), "{report}");
            assert_eq!(stored(fixture), count as usize, "{report}");
        });
    }
}

#[test]
fn an_import_stores_the_whole_rows_that_a_pipe_has_given() {
    let fixture = Fixture::new(&[], false);
    let child = begin(fixture.run("import", &["shop.orders", "-", "--format", "csv", "--json"]));
    feed(child.stdin.as_ref().expect("it is a pipe"), b"_id,name\n1,Ada\n2,Bob\n3,Car");
    let report = told(&end(child, Signal::TERM, 143));
    assert_eq!(report.get("inserted"), Some(&2.into()), "{report}");
    assert_eq!(stored(&fixture), 2);
}

#[test]
fn an_import_that_was_given_nothing_makes_no_store() {
    let fixture = Fixture::new(&[], false);
    let mut command = cairn();
    command.arg("import").arg(fixture.path("new")).args(["shop.orders", "--json"]);
    let child = begin(command);
    is_begun(&child);
    let report = told(&end(child, Signal::TERM, 143));
    assert_eq!(report.get("interrupted"), Some(&true.into()), "{report}");
    assert!(!fixture.path("new").exists());
}

/// Waits until the process has said what is to be done at SIGTERM.
#[track_caller]
fn is_begun(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    until("it watches signals", || {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
        caught.is_some_and(|caught| caught >> (Signal::TERM.as_raw() - 1) & 1 == 1)
    });
}

fn pipe_with_a_name(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("it is made");
}

/// A writer of the pipe, once the command has opened it.
#[track_caller]
fn writer(path: &Path) -> File {
    use std::os::unix::fs::OpenOptionsExt;

    let mut writer = None;
    until("it has a reader", || {
        let opened = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path);
        writer = opened.ok();
        writer.is_some()
    });
    writer.expect("it is open")
}

#[test]
fn a_pipe_with_a_name_is_waited_for_like_standard_input() {
    on_both(&[], |fixture| {
        let path = fixture.path("lines");
        pipe_with_a_name(&path);
        let words = ["shop.orders", "lines", "--format", "ndjson", "--json"];
        // Nothing has it open for writing.
        let child = begin(fixture.run("import", &words));
        let opened = format!("/proc/{}/fd", child.id());
        until("it is open", || {
            let opened = std::fs::read_dir(&opened).into_iter().flatten().flatten();
            opened.filter_map(|one| std::fs::read_link(one.path()).ok()).any(|one| one.ends_with("lines"))
        });
        assert_eq!(told(&end(child, Signal::INT, 130)).get("interrupted"), Some(&true.into()));
        // A pipe whose lines could not be read again is not waited for.
        complains(
            &fixture.run("import", &[&words[..], &["--resume"]].concat()).output().expect("it ends"),
            2,
            "resumed",
        );
        // A writer comes, and gives lines.
        let child = begin(fixture.run("import", &words));
        let mut input = writer(&path);
        input.write_all(&lines(0..10)).expect("there is room");
        until("all is read", || rustix::io::ioctl_fionread(&input).expect("it is a pipe") == 0);
        assert_eq!(told(&end(child, Signal::INT, 130)).get("inserted"), Some(&10.into()));
        assert_eq!(stored(fixture), 10);
        drop(input);
        // It goes again in order, and the import ends with it.
        let child = begin(fixture.run("import", &words));
        writer(&path).write_all(&lines(10..30)).expect("there is room");
        assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(0));
        assert_eq!(stored(fixture), 30);
    });
}

#[test]
fn arguments_on_standard_input_are_not_waited_for_after_a_signal() {
    on_both(&[cairndb::bson::doc! { "_id": 1 }], |fixture| {
        for (command, words) in [
            ("export", &["shop.orders", "--filter", "-"][..]),
            ("export", &["shop.orders", "--pipeline", "-"]),
            ("dump", &["dumped", "--include", "shop.orders", "--filter", "-"]),
            ("restore", &["--archive", "-"]),
            #[cfg(feature = "shell")]
            ("query", &["-"]),
            #[cfg(feature = "shell")]
            ("query", &["-", "-c", "orders", "--json"]),
        ] {
            for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
                let child = begin(fixture.run(command, words));
                feed(child.stdin.as_ref().expect("it is a pipe"), b"{");
                let output = end(child, signal, status);
                assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
            }
        }
        assert!(!fixture.path("dumped").exists());
    });
}

#[cfg(feature = "shell")]
#[test]
fn a_shell_ends_while_it_waits_for_a_statement() {
    on_both(&[], |fixture| {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut child = begin(fixture.run("shell", &["--db", "shop"]));
            let input = child.stdin.as_ref().expect("it is a pipe");
            feed(input, b"db.orders.insertOne({_id: 1}); print('there')\n");
            let mut said = [0; 5];
            child.stdout.as_mut().expect("it is a pipe").read_exact(&mut said).expect("it prints");
            assert_eq!(&said, b"there");
            feed(child.stdin.as_ref().expect("it is a pipe"), b"db.orders.insertOne(");
            end(child, signal, status);
            assert_eq!(stored(fixture), 1);
            assert!(
                fixture
                    .run("shell", &["--db", "shop", "--eval", "db.orders.drop()"])
                    .status()
                    .expect("it works")
                    .success()
            );
        }
        // A script that is a pipe.
        pipe_with_a_name(&fixture.path("script.js"));
        let child = begin(fixture.run("shell", &["script.js"]));
        let _input = writer(&fixture.path("script.js"));
        end(child, Signal::TERM, 143);
    });
}

#[test]
fn a_password_is_not_waited_for_after_a_signal() {
    let folder = tempfile::tempdir().expect("it works");
    let mut command = cairn();
    command.args(["user", "add"]).arg(folder.path().join("db")).arg("ada").env_remove("CAIRN_PASSWORD");
    let child = begin(command);
    feed(child.stdin.as_ref().expect("it is a pipe"), b"half of a passw");
    complains(&end(child, Signal::INT, 130), 130, "interrupted");
    assert!(!folder.path().join("db").exists());
}

/// What was started by `nohup` outlives its terminal.
#[test]
fn a_closed_terminal_ends_what_does_not_ignore_it() {
    let fixture = Fixture::new(&[], false);
    let import = fixture.run("import", &["shop.orders", "-", "--format", "ndjson"]);
    let child = begin(import);
    feed(child.stdin.as_ref().expect("it is a pipe"), b"{\"_id\":1}\n");
    complains(&end(child, Signal::HUP, 129), 129, "interrupted");
    assert_eq!(stored(&fixture), 1);
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cairn"), "import"]);
    ignoring.arg(fixture.path("db")).args(["shop.orders", "-", "--format", "ndjson"]);
    let mut child = begin(ignoring);
    feed(child.stdin.as_ref().expect("it is a pipe"), b"{\"_id\":2}\n");
    send(&child, Signal::HUP);
    feed(child.stdin.as_ref().expect("it is a pipe"), b"{\"_id\":3}\n");
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stored(&fixture), 3);
}

/// The first Ctrl-C was not noticed at a prompt.
#[test]
fn a_prompt_ends_by_one_signal_and_the_terminal_shows_again_what_is_typed() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    let folder = tempfile::tempdir().expect("it works");
    let mut terminal =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map(File::from).expect("there are some");
    grantpt(&terminal).expect("it works");
    unlockpt(&terminal).expect("it works");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let other =
        File::options().read(true).write(true).open(name.to_str().expect("a path")).expect("it opens");
    let is_shown = || tcgetattr(&other).expect("it is a terminal").local_modes.contains(LocalModes::ECHO);
    let mut asks = |typed: &str| {
        let mut command = cairn();
        command.args(["user", "add"]).arg(folder.path().join("db")).arg("ada").env_remove("CAIRN_PASSWORD");
        command.stdin(Stdio::from(other.try_clone().expect("it works"))).stderr(Stdio::piped());
        let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = Vec::new();
        for part in typed.split_inclusive('\n') {
            while !said.ends_with(b": ") {
                let mut byte = [0];
                terminal.read_exact(&mut byte).expect("it asks");
                said.push(byte[0]);
            }
            said.clear();
            assert!(!is_shown(), "a password is seen");
            terminal.write_all(part.as_bytes()).expect("it is read");
        }
        child
    };
    complains(&end(asks("secr"), Signal::INT, 130), 130, "interrupted");
    assert!(is_shown() && !folder.path().join("db").exists());
    complains(&end(asks("secret\nsecr"), Signal::TERM, 143), 143, "interrupted");
    assert!(is_shown() && !folder.path().join("db").exists());
    complains(&end(asks("secr"), Signal::HUP, 129), 129, "interrupted");
    assert!(is_shown());
    // Ctrl-D, at which a terminal gives the end of its input: it is no empty password, which would be asked for again.
    let output = asks("\x04").wait_with_output().expect("it ends");
    complains(&output, 1, "the password: the input has ended, and nothing was typed");
    assert!(is_shown() && !folder.path().join("db").exists());
    let output = asks("secret\nsecret\n").wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(is_shown());
}

/// Runs a command to its end, which no signal has to bring.
#[track_caller]
fn ended(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    until("it has ended", || child.try_wait().expect("it is a child").is_some());
    child.wait_with_output().expect("it has ended")
}

/// The command waited for a writer, and the first signal was not noticed: a dump of others could hold up a restore.
#[test]
fn a_pipe_in_the_place_of_a_regular_file_is_refused() {
    const WORDS: &str = "it is a pipe, and must be a regular file";
    let fixture = Fixture::new(&[cairndb::bson::doc! { "_id": 1 }], false);
    assert!(fixture.run("dump", &["dumped"]).status().expect("it works").success());
    let dumped = fixture.path("dumped");
    let restoring = |more: &[&str]| {
        let mut command = cairn();
        command.arg("restore").arg(fixture.path("new")).arg(&dumped).args(more);
        ended(command)
    };
    for name in ["prelude.json", "shop/orders.metadata.json", "shop/orders.bson"] {
        let path = dumped.join(name);
        let kept = read(&path);
        std::fs::remove_file(&path).expect("it is there");
        pipe_with_a_name(&path);
        complains(&restoring(&[]), 1, &format!("{name}: {WORDS}"));
        if name == "shop/orders.bson" {
            complains(&restoring(&["--exclude", "shop.*", "--dry-run"]), 0, "");
        }
        assert!(!fixture.path("new").exists(), "{name}");
        std::fs::remove_file(&path).expect("it is there");
        std::fs::write(&path, kept).expect("it works");
    }
    std::fs::write(fixture.path("a.ndjson"), "x\n").expect("it works");
    for (pipe, command, words) in [
        ("a.ndjson.cairn-import", "import", &["shop.orders", "a.ndjson", "--resume"][..]),
        ("a.ndjson.cairn-import.partial", "import", &["shop.orders", "a.ndjson", "--resume"]),
        ("a.ndjson.rejects.ndjson.partial", "import", &["shop.orders", "a.ndjson"]),
        ("b.ndjson.partial", "export", &["shop.orders", "b.ndjson"]),
        ("archive.partial", "dump", &["--archive", "archive"]),
        #[cfg(feature = "remote")]
        ("state", "migrate", &["--to", "mongodb://127.0.0.1:1/", "--state", "state"]),
    ] {
        pipe_with_a_name(&fixture.path(pipe));
        complains(&ended(fixture.run(command, words)), 1, &format!("{pipe}: {WORDS}"));
        std::fs::remove_file(fixture.path(pipe)).expect("it is there");
    }
    // A folder that was given by others.
    let given = fixture.path("given");
    std::fs::create_dir(&given).expect("it works");
    pipe_with_a_name(&given.join("CAIRNDB"));
    for words in [&["stats"][..], &["verify"], &["dump"], &["import"], &["user", "list"]] {
        let mut command = cairn();
        command.args(words).arg(&given);
        match words {
            ["dump"] => drop(command.arg(fixture.path("other"))),
            ["import"] => drop(command.arg("shop.orders").arg(fixture.path("a.ndjson"))),
            _ => {}
        }
        complains(&ended(command), 6, "its file CAIRNDB is a pipe, a socket or a device");
    }
}
