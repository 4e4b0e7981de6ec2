//! How commands end, and what they tell until then: progress with and without a terminal, a second signal, a full disk, and a
//! reader that is gone.

#![allow(clippy::indexing_slicing, reason = "offsets within a file")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::examples::root;
use crate::fixture::small_disk::SmallDisk;
use crate::fixture::{Fixture, cairn, complains, number, on_both, read, report, screen};

/// Nothing that is waited for takes as long, even on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Texts that no compression makes much shorter.
fn documents(count: u64) -> Vec<Document> {
    let part = |seed: u64| format!("{:016x}", (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |n: u64| (0..60).map(|at| part(n * 60 + at)).collect::<String>();
    (0..count).map(|n| doc! { "_id": i64::try_from(n).expect("few"), "text": text(n) }).collect()
}

/// Lets a command wait for its reader for a while, which is what makes it slow.
fn pause(time: Duration) {
    let (_held, never) = channel::<()>();
    assert!(never.recv_timeout(time).is_err());
}

/// What an export has told on standard error whose reader pauses in the middle.
fn told(fixture: &Fixture, more: &[&str], time: Duration) -> String {
    let mut child = fixture
        .command(&[&["shop.orders"], more].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it works");
    let mut out = child.stdout.take().expect("it is piped");
    out.read_exact(&mut [0; 1000]).expect("it prints");
    pause(time);
    std::io::copy(&mut out, &mut std::io::sink()).expect("it works");
    let output = child.wait_with_output().expect("it works");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stderr).expect("it is UTF-8")
}

#[test]
fn plain_progress_has_a_rate_and_the_time_left() {
    let fixture = Fixture::new(&documents(2000), false);
    let (with, without) = std::thread::scope(|scope| {
        let plain = |more: &'static [&'static str]| {
            let fixture = &fixture;
            scope.spawn(move || told(fixture, more, Duration::from_millis(5_500)))
        };
        let [with, quiet, json, auto] = [
            plain(&["--progress", "plain"]),
            plain(&["--progress", "plain", "--quiet"]),
            plain(&["--progress", "plain", "--json"]),
            // Standard error is no terminal.
            plain(&[]),
        ];
        let without = [quiet, json, auto].map(|thread| thread.join().expect("no panic"));
        (with.join().expect("no panic"), without)
    });
    let lines: Vec<&str> = with.lines().collect();
    let [progress @ .., last] = lines.as_slice() else { panic!("nothing was told") };
    assert!(last.starts_with("exported 2,000 documents, "), "{with}");
    assert!(!progress.is_empty(), "{with}");
    for (at, line) in progress.iter().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [done, "of", "2,000", "documents,", rate, "a", "second,", left, "s", "left"] = words.as_slice()
        else {
            panic!("{line:?} is no progress")
        };
        let [done, rate] =
            [done, rate].map(|number| number.replace(',', "").parse::<u64>().expect("a number"));
        assert!(done > 0 && done <= 2000 && rate < 400, "{line}");
        // Most of them are left, at the rate of the first five seconds.
        let left: f64 = left.parse().expect("a number");
        assert!(at > 0 || left >= 5.0, "{line}");
    }
    let [quiet, json, auto] = without;
    assert_eq!(quiet, "");
    assert!(json.lines().count() == 1 && json.starts_with("{\"command\":\"export\""), "{json}");
    assert!(auto.lines().count() == 1 && auto.starts_with("exported 2,000 documents"), "{auto}");
}

/// What a command tells at a terminal.
fn told_at_a_terminal(mut command: Command) -> String {
    let (mut terminal, other) = screen::terminal(200);
    let mut child = command
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(Stdio::from(other))
        .spawn()
        .expect("it works");
    // It holds the other end.
    drop(command);
    let told = screen::read_to_end(&mut terminal);
    assert!(child.wait().expect("it works").success());
    told
}

#[test]
fn a_bar_is_for_terminals() {
    let fixture = Fixture::new(&documents(2000), false);
    let told = |more: &[&str]| told_at_a_terminal(fixture.command(&[&["shop.orders"], more].concat()));
    let bar = told(&[]);
    assert!(bar.contains(" of 2,000 documents, ") && bar.contains(" left"), "{bar:?}");
    assert!(bar.trim_end().ends_with(" a second"), "{bar:?}");
    assert!(!told(&["--progress", "plain"]).contains("of 2,000"));
    assert_eq!(told(&["--quiet"]), "");
    assert_eq!(told(&["--json"]).lines().count(), 1);
}

fn interrupt(child: &Child) {
    // The second one may find no process any more.
    let _ = kill_process(Pid::from_child(child), Signal::INT);
}

/// Whether a pipe has no room left. Its length does not say so: the system gives some users smaller ones.
fn is_full(out: &ChildStdout) -> bool {
    let end = format!("/proc/self/fd/{}", out.as_raw_fd());
    let end = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(end).expect("it is open");
    let mut asked = [PollFd::new(&end, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).expect("it is a pipe") == 0
}

/// An export whose reader does nothing cannot end in order: the first signal waits for the current document.
#[test]
fn a_second_signal_ends_a_command_that_waits() {
    on_both(&documents(2000), |fixture| {
        let mut child = fixture
            .command(&["shop.orders", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it works");
        // The pipe stays open, and the command waits for room in it once it is full.
        let out = child.stdout.take().expect("it is piped");
        let begin = Instant::now();
        while !is_full(&out) {
            assert!(begin.elapsed() < TIME_MAX, "the pipe is not filled");
            pause(Duration::from_millis(10));
        }
        interrupt(&child);
        pause(Duration::from_millis(300));
        assert!(child.try_wait().expect("it works").is_none(), "the first signal waits for the document");
        interrupt(&child);
        let output = child.wait_with_output().expect("it works");
        drop(out);
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "it ends at once, without a report");
    });
}

/// The second signal comes while the first one ends the command, at times too late for it.
#[test]
fn a_second_signal_is_as_a_kill_for_the_store() {
    let line = |id: u32| format!("{{\"_id\":{id},\"text\":\"{}\"}}\n", "x".repeat(1_000));
    let (mut ended_at_once, begin) = (0, Instant::now());
    for round in 0_u64.. {
        if round >= 30 && (ended_at_once > 0 || begin.elapsed() > TIME_MAX) {
            break;
        }
        let fixture = Fixture::new(&[], false);
        let mut child = fixture
            .run("import", &["shop.orders", "-", "--format", "ndjson", "--json", "--batch", "10"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it works");
        let mut input = child.stdin.take().expect("it is piped");
        let mut lines_end = Vec::new();
        for id in 0..20_000 {
            let line = line(id);
            input.write_all(line.as_bytes()).expect("it is read");
            lines_end.push(lines_end.last().unwrap_or(&0) + line.len() as u64);
        }
        interrupt(&child);
        // The system gives two signals that come together as one.
        pause(Duration::from_micros(100 * (round % 10)));
        interrupt(&child);
        let output = child.wait_with_output().expect("it works");
        let bytes_read =
            lines_end.last().expect("there are some") - rustix::io::ioctl_fionread(&input).expect("it works");
        drop(input);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let verified = report(&fixture.run("verify", &["--json"]).output().expect("it works"));
        let exported = fixture.export(&["shop.orders", "--fields", "_id", "--format", "csv"]);
        let exported = String::from_utf8(exported.stdout).expect("it is UTF-8");
        let ids: Vec<u32> = exported.lines().skip(1).map(|id| id.parse().expect("a number")).collect();
        assert_eq!(ids, (0..u32::try_from(ids.len()).expect("few")).collect::<Vec<_>>());
        assert_eq!(number(&verified, "documents"), ids.len() as u64);
        // A command that ends in order stores all the lines that it has read, whose last batch may be smaller.
        let lines_read = lines_end.partition_point(|&end| end <= bytes_read);
        let is_whole = ids.len().is_multiple_of(10) || ids.len() == lines_read;
        assert!(is_whole, "a batch is stored whole or not at all: {} of {lines_read}", ids.len());
        ended_at_once += u32::from(output.stdout.is_empty());
        if ended_at_once > 2 {
            return;
        }
    }
    assert!(ended_at_once > 0, "no second signal has ended an import at once");
}

/// RocksDB is at work on other threads, whose objects an ordinary exit would destroy: that ended in SIGSEGV or SIGABRT.
#[test]
fn a_second_signal_at_any_moment_is_no_crash() {
    let fixture = Fixture::new(&documents(4000), false);
    // The moments are spread over the time that the command needs on this machine.
    let begin = Instant::now();
    assert!(fixture.run("verify", &["--json"]).output().expect("it works").status.success());
    let whole = begin.elapsed();
    let mut by_signal = 0;
    for round in 0_u32.. {
        if round >= 120 && (by_signal > 0 || begin.elapsed() > TIME_MAX) {
            break;
        }
        let mut child = fixture
            .run("verify", &["--json"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it works");
        pause(whole * (round % 40) / 40);
        for _ in 0..2 {
            // It may have ended by itself.
            interrupt(&child);
            pause(Duration::from_micros(u64::from(300 * (round % 7))));
        }
        let status = child.wait().expect("it works");
        // Before signals are watched the first one ends the process as it ends any other.
        let is_early = std::os::unix::process::ExitStatusExt::signal(&status) == Some(2);
        assert!(is_early || matches!(status.code(), Some(0 | 130)), "{status:?}");
        by_signal += u32::from(status.code() == Some(130));
    }
    assert!(by_signal > 0, "no signal came while it ran");
}

fn run(fixture: &Fixture, command: &str, more: &[&str]) -> Output {
    fixture.run(command, more).output().expect("it works")
}

#[test]
fn a_full_disk_leaves_no_half_of_an_export_or_of_a_dump() {
    let Some(disk) = SmallDisk::make("1m") else { return };
    on_both(&documents(4000), |fixture| {
        let at = |name: &str| disk.path.join(name).to_str().expect("a path").to_owned();
        for more in [
            &["shop.orders", &at("a.ndjson")][..],
            &["shop.orders", &at("a.json"), "--format", "json"],
            &["shop.orders", &at("a.bson"), "--format", "bson"],
            &["shop.orders", &at("a.csv.gz"), "--format", "csv", "--fields", "_id,text"],
            &["shop.orders", &at("a.ndjson.zst")],
        ] {
            complains(&run(fixture, "export", more), 1, "No space left on device");
            assert_eq!(disk.names(), [""; 0], "{more:?}");
        }
        for more in [
            &[&at("dumped")[..]][..],
            &[&at("zipped"), "--gzip"],
            &["--archive", &at("archive")],
            &["--archive", &at("archive.gz"), "--gzip"],
        ] {
            let output = run(fixture, "dump", &[more, &["--json"]].concat());
            assert_eq!(output.status.code(), Some(1), "{more:?}: {output:?}");
            assert!(
                String::from_utf8_lossy(&output.stdout).contains("No space left on device"),
                "{output:?}"
            );
            assert_eq!(disk.names(), [""; 0], "{more:?}");
        }
        // What had the name stays.
        let kept = disk.path.join("a.ndjson");
        std::fs::write(&kept, "kept").expect("it works");
        let more = ["shop.orders", &at("a.ndjson"), "--overwrite"];
        complains(&run(fixture, "export", &more), 1, "No space left on device");
        assert_eq!(read(&kept), b"kept");
        assert_eq!(disk.names(), ["a.ndjson"]);
        std::fs::remove_file(&kept).expect("it works");
    });
}

#[test]
fn rejects_that_find_no_space_are_not_half_there() {
    let Some(disk) = SmallDisk::make("64k") else { return };
    let rejects = disk.path.join("rejects.ndjson");
    let rejects = rejects.to_str().expect("a path");
    on_both(&[], |fixture| {
        let bad = format!("bad {}\n", "x".repeat(1000)).repeat(1000);
        std::fs::write(fixture.path("a.ndjson"), bad).expect("it works");
        let more = ["shop.orders", "a.ndjson", "--rejects", rejects, "--max-rejects", "all"];
        complains(&run(fixture, "import", &more), 1, "No space left on device");
        assert_eq!(disk.names(), [""; 0]);
    });
}

#[test]
fn an_import_that_fills_the_disk_leaves_a_whole_store() {
    let Some(disk) = SmallDisk::make("40m") else { return };
    let folder = tempfile::tempdir().expect("it works");
    let input = folder.path().join("a.bson");
    let mut file = std::io::BufWriter::new(File::create(&input).expect("it works"));
    for document in documents(60_000) {
        cairndb::bson::RawDocumentBuf::try_from(&document)
            .map(|raw| file.write_all(raw.as_bytes()).expect("there is room"))
            .expect("it works");
    }
    file.into_inner().expect("there is room");
    let store = disk.path.join("db");
    let ballast = disk.path.join("ballast");
    std::fs::write(&ballast, vec![1; 16 << 20]).expect("there is room");
    let mut import = cairn();
    import.arg("import").arg(&store).arg("shop.orders").arg(&input).args(["--json", "--batch", "100"]);
    let output = import.output().expect("it works");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(output.status.code(), Some(1), "{told}");
    let message = told.pointer("/error/message").and_then(serde_json::Value::as_str).expect("a message");
    assert!(message.to_lowercase().contains("space"), "{message}");
    // Reading needs no room.
    let verified = |what: &str| {
        let output = cairn().arg("verify").arg(&store).arg("--json").output().expect("it works");
        assert_eq!(output.status.code(), Some(0), "{what}: {output:?}");
        number(&report(&output), "documents")
    };
    let stored = verified("full");
    assert!(stored >= number(&told, "inserted") && stored > 0 && stored % 100 == 0, "{stored}: {told}");
    std::fs::remove_file(&ballast).expect("it works");
    let mut more = cairn();
    more.arg("import").arg(&store).args(["shop.more", "-", "--format", "ndjson"]).stdin(Stdio::piped());
    let mut more = more.spawn().expect("it works");
    more.stdin.take().expect("it is piped").write_all(b"{\"_id\": 1}\n").expect("it is read");
    assert!(more.wait().expect("it works").success());
    assert_eq!(verified("with room again"), stored + 1);
}

/// A command whose reader takes one line, as `head -1` does.
#[track_caller]
fn is_read_by_head(mut command: Command, status: i32) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works");
    let mut out = child.stdout.take().expect("it is piped");
    let _ = out.read(&mut [0; 1]).expect("it works");
    drop(out);
    let output = child.wait_with_output().expect("it works");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {told}");
    assert!(!told.contains("panicked") && !told.contains("roken pipe"), "{command:?}: {told}");
}

/// Damages every block of the largest table, so that there are more findings than a pipe takes.
fn damage(folder: &Path) {
    let entries = std::fs::read_dir(folder).expect("it works").map(|entry| entry.expect("it works").path());
    let tables = entries.filter(|path| path.extension().is_some_and(|ending| ending == "sst"));
    let table =
        tables.max_by_key(|path| std::fs::metadata(path).expect("it works").len()).expect("there is one");
    let mut bytes = read(&table);
    let end = bytes.len() * 9 / 10;
    for at in (1000..end).step_by(1000) {
        bytes[at] ^= 1;
    }
    std::fs::write(&table, bytes).expect("it works");
}

#[test]
fn what_is_printed_for_nobody_ends_quietly() {
    let fixture = Fixture::new(&documents(4000), false);
    let client = cairndb::Client::open(fixture.path("db")).expect("it works");
    client.compact().run().expect("it works");
    client.close().expect("it works");
    for json in [&[][..], &["--json"]] {
        let with = |command: &str, more: &[&str]| fixture.run(command, &[more, json].concat());
        is_read_by_head(with("verify", &[]), 0);
        is_read_by_head(with("compact", &[]), 0);
        is_read_by_head(with("backup", &[if json.is_empty() { "copy" } else { "again" }]), 0);
    }
    for words in
        [&["man"][..], &["man", "import"], &["version"], &["version", "--json"], &["help"], &["--version"]]
    {
        let mut command = cairn();
        command.args(words);
        is_read_by_head(command, 0);
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let mut command = cairn();
        command.args(["completions", shell]);
        is_read_by_head(command, 0);
    }
    damage(&fixture.path("db"));
    for json in [&[][..], &["--json"]] {
        is_read_by_head(fixture.run("verify", json), 4);
        let new = if json.is_empty() { "new" } else { "other" };
        is_read_by_head(fixture.run("salvage", &[&[new], json].concat()), 3);
    }
}

/// A list, a report or a page of which nothing was written looks like one of nothing.
#[test]
fn what_finds_standard_output_full_has_failed() {
    let fixture = Fixture::new(&documents(4000), false);
    let client = cairndb::Client::open(fixture.path("db")).expect("it works");
    client.compact().run().expect("it works");
    client.close().expect("it works");
    let mut add = cairn();
    add.args(["user", "add", "db", "ada"]).env("CAIRN_PASSWORD", "secret").current_dir(fixture.folder.path());
    assert!(add.status().expect("it works").success());
    let check = |words: &[&str], status: i32| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut command = cairn();
        command.args(words).current_dir(fixture.folder.path()).stdout(full);
        let output = command.output().expect("it works");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {told}");
        let is_told = told.contains("standard output") && told.contains("No space left");
        assert!(is_told && !told.contains("panicked"), "{words:?}: {told}");
    };
    for words in [
        &["help"][..],
        &["help", "import"],
        &["import", "--help"],
        &["--version"],
        &["version"],
        &["man"],
        &["completions", "bash"],
        &["user", "list", "db"],
        &["serve", "db", "--port", "0", "--log-level", "off"],
        &["verify", "db", "--json"],
        &["compact", "db", "--json"],
        &["backup", "db", "copy", "--json"],
        &["sequences", "db", "--json"],
        &["import", "db", "shop.others", "db/CAIRNDB", "--format", "csv", "--dry-run", "--json"],
        &["dump", "db", "dumped", "--json"],
        &["restore", "new", "dumped", "--json"],
    ] {
        check(words, 1);
    }
    damage(&fixture.path("db"));
    // That there are findings is told by the status all the same.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = fixture.run("verify", &[]).stdout(full).output().expect("it works");
    complains(&output, 4, "findings");
}

/// The standard library puts `/dev/null` in the place of a closed descriptor: what was asked for was lost, and the status was 0.
#[test]
fn what_finds_standard_output_closed_is_refused_before_anything_is_done() {
    let fixture = Fixture::new(&documents(10), false);
    std::fs::write(fixture.path("lines.ndjson"), "{}\n").expect("it works");
    let dumped = fixture.run("dump", &["--archive", "archive"]).output().expect("it works");
    assert!(dumped.status.success(), "{dumped:?}");
    let before = fixture.files();
    let closed = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" >&-", "sh", env!("CARGO_BIN_EXE_cairn")]).args(words);
        command.current_dir(fixture.folder.path()).stdin(Stdio::null()).output().expect("it works")
    };
    for words in [
        &["export", "db", "shop.orders"][..],
        &["dump", "db", "--archive", "-"],
        #[cfg(feature = "shell")]
        &["query", "db", "db.orders.find()"],
        #[cfg(feature = "shell")]
        &["shell", "db", "--eval", "1"],
        &["stats", "db"],
        &["sequences", "db"],
        &["verify", "db"],
        &["salvage", "db", "new"],
        &["inspect", "db", "shop.orders", "--id", "1"],
        &["user", "list", "db"],
        &["version"],
        &["man"],
        &["help"],
        &["--version"],
        &["completions", "bash"],
        &["import", "db", "shop.orders", "lines.ndjson", "--json"],
        &["import", "new", "shop.orders", "lines.ndjson", "--json"],
        &["export", "db", "shop.orders", "exported", "--json"],
        &["dump", "db", "dumped", "--json"],
        &["restore", "new", "--archive", "archive", "--json"],
        &["compact", "db", "--json"],
        &["backup", "db", "copy", "--json"],
    ] {
        let output = closed(words);
        complains(&output, 1, "standard output is closed");
        assert_eq!(fixture.files(), before, "{words:?}");
    }
    fixture.check(&["--fields", "_id", "--format", "csv"], "_id\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    // What prints nothing needs none.
    for words in [
        &["import", "db", "shop.others", "lines.ndjson"][..],
        #[cfg(feature = "shell")]
        &["export", "db", "shop.orders", "exported", "--filter", "{_id: 1}"],
        &["backup", "db", "copy"],
        &["compact", "db"],
    ] {
        let output = closed(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
    // And a closed input is not an empty one.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" <&-", "sh", env!("CARGO_BIN_EXE_cairn")]);
    command.args(["import", "db", "shop.others", "--format", "ndjson"]).current_dir(fixture.folder.path());
    complains(&command.output().expect("it works"), 1, "standard input: it is closed");
}

/// The one table of statuses: a command that ends with another one breaks what scripts rely on.
#[test]
fn every_status_is_in_the_table_of_the_page() {
    let text = |path: PathBuf| std::fs::read_to_string(path).expect("it is there");
    let numbers = |text: &str| -> Vec<u8> {
        text.split(|character: char| !character.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect()
    };
    let page = text(root().join("docs/tools.md"));
    let (_, table) = page.split_once("| exit | meaning |\n|---|---|\n").expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let mut told: Vec<u8> = rows.filter_map(|row| row.split('|').nth(1)).flat_map(numbers).collect();
    told.sort_unstable();
    // 0 is success, which is no failure.
    assert_eq!(told.first(), Some(&0));
    let source = text(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/failure.rs"));
    let (_, body) = source.split_once("pub(crate) enum Exit {").expect("the statuses");
    let (body, _) = body.split_once('}').expect("their end");
    let values =
        body.lines().filter_map(|line| line.split_once(" = ")).flat_map(|(_, number)| numbers(number));
    let mut known: Vec<u8> = std::iter::once(0).chain(values).collect();
    known.sort_unstable();
    assert_eq!(told, known);
    assert_eq!(page.matches("| exit | meaning |").count(), 1);
}
