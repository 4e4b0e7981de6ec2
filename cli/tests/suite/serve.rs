//! `cairn serve` as a process: it prints where it listens, refuses unsafe addresses, and ends in order.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use cairndb::{Client, ErrorKind};

use crate::fixture::small_disk::SmallDisk;

fn cairn(path: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.arg("serve").arg(path).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The address that a server prints when it listens.
fn address_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on mongodb://").expect("an address");
    address.trim_end_matches('/').to_owned()
}

/// Sends a command over a connection of its own.
fn send(address: &str, command: &Document) -> TcpStream {
    let body = RawDocumentBuf::try_from(command).expect("encoded").into_bytes();
    let length = i32::try_from(21 + body.len()).expect("a short command");
    let header: Vec<u8> = [length, 1, 0, 2013, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(&[&header[..], &[0], &body[..]].concat()).expect("sent");
    stream
}

/// Sends a command over a connection of its own, and returns the reply.
fn run(address: &str, command: &Document) -> Document {
    let mut stream = send(address, command);
    let (mut length, mut front) = ([0; 4], [0; 17]);
    stream.read_exact(&mut length).expect("an answer");
    stream.read_exact(&mut front).expect("an answer");
    let length = usize::try_from(i32::from_le_bytes(length)).expect("a length");
    let mut reply = vec![0; length - 21];
    stream.read_exact(&mut reply).expect("a whole answer");
    Document::try_from(RawDocument::from_bytes(&reply).expect("a document")).expect("decoded")
}

#[test]
fn a_served_store_is_written_to_and_closed_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for (signal, count) in [(rustix::process::Signal::TERM, 1), (rustix::process::Signal::INT, 2)] {
        let mut child = cairn(&path, &["--port", "0", "--log-level", "warn"]).spawn().unwrap();
        let address = address_of(&mut child);
        let reply = run(&address, &doc! { "insert": "a", "documents": [{}], "$db": "shop" });
        assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
        let taken = Client::open(&path).expect_err("it is open");
        assert!(matches!(taken.kind(), ErrorKind::AlreadyOpen { .. }));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let client = Client::open(&path).unwrap();
        let documents = client.database("shop").collection::<Document>("a");
        assert_eq!(documents.count_documents(doc! {}).run().unwrap(), count);
        client.close().unwrap();
    }
}

/// With its log on a full disk, or with the other end of the pipe closed, the server ended by a panic, or lost every
/// connection whose command logged a line after it was applied.
#[test]
fn a_log_that_takes_no_lines_hurts_nobody() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    for log in [Stdio::from(full), Stdio::from(writer)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
            .args(["serve", "--memory", "--port", "0", "--log-level", "debug", "--slow-threshold", "0"])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let address = address_of(&mut child);
        for id in 0..3 {
            let reply = run(&address, &doc! { "insert": "a", "documents": [{ "_id": id }], "$db": "shop" });
            assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
        }
        let status = run(&address, &doc! { "serverStatus": 1, "$db": "admin" });
        assert!(status.get_i64("logLinesLost").is_ok_and(|lost| lost > 3), "{status}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert!(child.wait().expect("it ended").success());
    }
}

/// A server that does not end, because a command does not, could be ended by SIGKILL alone.
#[test]
fn a_second_signal_ends_the_server_whatever_runs() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["serve", "--memory", "--port", "0", "--enable-test-commands"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let address = address_of(&mut child);
    let data = doc! { "failCommands": ["count"], "blockConnection": true, "blockTimeMS": 60_000 };
    let fail_point =
        doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data, "$db": "admin" };
    run(&address, &fail_point);
    let _waiting = send(&address, &doc! { "count": "a", "$db": "shop" });
    // A server that has not read the command yet would end in order. The answer counts the commands that met the fail point.
    let begin = Instant::now();
    while run(&address, &fail_point).get_i64("count").expect("a count") == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the command does not begin");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&child);
    let signal = || rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    signal();
    // The server would end by itself after its grace of ten seconds. What it says is read, so that the second signal comes
    // after the first.
    let mut log = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("stopping") {
        said.clear();
        assert!(log.read_line(&mut said).expect("a line") > 0, "it ended at the first signal");
    }
    signal();
    assert_eq!(child.wait().expect("it ended").code(), Some(143));
}

/// So is a file of a certificate that is not there.
#[test]
fn an_address_in_use_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let output = cairn(&folder.path().join("db"), &["--port", &port]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("{address} cannot be listened on: ")), "{said}");
    assert_eq!(said.matches("in use").count(), 1, "{said}");
    let more = ["--port", "0", "--tls-certificate", "none.pem", "--tls-key", "none.key"];
    let output = cairn(&folder.path().join("db"), &more).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("o such file").count(), 1, "{said}");
}

/// What a server says whose process may open few files only. The folder is new, so that the options are tried first.
fn said_with_few_files(more: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("it works");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cairn"), "serve"]);
    command.arg(folder.path().join("db")).args(["--port", "0"]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works");
    BufReader::new(child.stdout.take().expect("it works")).read_line(&mut String::new()).expect("it works");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it works");
    String::from_utf8(child.wait_with_output().expect("it works").stderr).expect("it works")
}

#[test]
fn a_lower_limit_of_connections_is_told_once_to_who_asked_for_more() {
    let told = |said: &str| said.matches("lowered the limit of connections").count();
    let said = said_with_few_files(&[]);
    assert_eq!(told(&said), 0, "{said}");
    let said = said_with_few_files(&["--max-connections", "5000"]);
    assert_eq!(told(&said), 1, "{said}");
}

/// It was refused, and nothing could be read before there was room.
#[test]
fn a_folder_whose_disk_is_full_is_served_for_reading() {
    let Some(disk) = SmallDisk::make("8m") else { return };
    let path = disk.path.join("db");
    let client = Client::open(&path).unwrap();
    client.database("shop").collection::<Document>("a").insert_one(doc! { "_id": 1 }).run().unwrap();
    client.close().unwrap();
    let mut ballast = std::fs::File::create(disk.path.join("ballast")).unwrap();
    while ballast.write_all(&[1; 4096]).is_ok() {}
    drop(ballast);
    let mut child = cairn(&path, &["--port", "0", "--log-level", "off"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on mongodb://").map(|line| line.trim_end_matches('/'));
    let replies = address.map(|address| {
        [
            run(address, &doc! { "count": "a", "$db": "shop" }),
            run(address, &doc! { "insert": "a", "documents": [{}], "$db": "shop" }),
        ]
    });
    // One that has not started is gone already.
    let id = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let [counted, refused] = replies.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(counted.get_i32("n").ok(), Some(1), "{counted}");
    assert_eq!(refused.get_i32("ok").ok().or(Some(0)), Some(0), "{refused}");
    assert!(
        refused.to_string().contains("read-only") || refused.to_string().contains("reading only"),
        "{refused}"
    );
    assert!(said.contains("is full: the folder is served for reading only"), "{said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_store_in_memory_is_served_and_gone() {
    for _ in 0..2 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
            .args(["serve", "--memory", "--port", "0", "--log-level", "warn"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let address = address_of(&mut child);
        let reply = run(&address, &doc! { "insert": "a", "documents": [{ "_id": 1 }], "$db": "shop" });
        assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        assert!(child.wait().unwrap().success());
    }
}

/// The test reads to the end of the server's output, which comes only when the server has ended.
#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let script = "\"$0\" serve --memory --port 0 --exit-with-parent --log-level off & wait";
    let mut shell = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_cairn")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(output.read_line(&mut line).unwrap(), 0);
}

#[test]
fn memory_takes_no_folder_and_no_users() {
    for more in [&["folder"][..], &["--auth"], &["--read-only"]] {
        let refused = Command::new(env!("CARGO_BIN_EXE_cairn"))
            .args(["serve", "--memory"])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot be used with"), "{refused:?}");
    }
}

/// RocksDB makes files at every opening, and without the mask of the process any user could read them. It
/// also removes files while they are listed.
#[test]
fn files_of_a_served_store_can_be_read_by_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let modes = || {
        let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        entries.filter_map(|entry| match entry.metadata() {
            Ok(metadata) => Some((entry.file_name(), metadata.permissions().mode() & 0o777)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("{}: {error}", entry.path().display()),
        })
    };
    let mut made = 0;
    for _ in 0..2 {
        let mut child = cairn(&path, &["--port", "0", "--log-level", "warn"]).spawn().unwrap();
        let address = address_of(&mut child);
        let reply = run(&address, &doc! { "insert": "a", "documents": [{}], "$db": "shop" });
        assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
        assert!(modes().all(|(_, mode)| mode == 0o600), "{:?}", modes().collect::<Vec<_>>());
        made = modes().count().max(made);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert!(made > 5, "RocksDB made {made} files");
}

/// What a server in memory has logged of an insert and an update, when it has ended.
fn logged(more: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["serve", "--memory", "--port", "0", "--log-level", "warn"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let address = address_of(&mut child);
    run(&address, &doc! { "insert": "a", "documents": [{ "_id": 1, "name": "secret" }], "$db": "shop" });
    let update = doc! { "q": { "name": "secret" }, "u": { "$set": { "n": 1 } } };
    run(&address, &doc! { "update": "a", "updates": [update], "$db": "shop" });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let Output { status, stderr, .. } = child.wait_with_output().expect("it ended");
    assert!(status.success(), "{status}");
    String::from_utf8(stderr).expect("a text")
}

#[test]
fn slow_operations_are_logged_from_the_given_time_on() {
    let all = logged(&["--slow-threshold", "0"]);
    // The server reads its own collections, too.
    let of_client = |line: &&str| line.contains("slow operation") && line.contains("namespace=shop.");
    let slow: Vec<_> = all.lines().filter(of_client).collect();
    let [insert, update] = slow.as_slice() else { panic!("{all}") };
    assert!(insert.contains("verb=\"insert_many\"") && insert.contains("namespace=shop.a"), "{insert}");
    assert!(update.contains("verb=\"update_one\"") && update.contains("filter: {name: ?}"), "{update}");
    assert!(!all.contains("secret"), "{all}");
    for more in [["--slow-threshold", "600000"], ["--slow-threshold", "off"]] {
        let log = logged(&more);
        assert!(!log.contains("slow operation"), "{more:?}: {log}");
    }
}

#[track_caller]
fn refused(path: &Path, more: &[&str], words: &str) {
    let output = cairn(path, more).output().expect("it ran");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains(words), "{complaint}");
}

#[test]
fn what_cannot_be_served_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    refused(&path, &["--bind", "0.0.0.0", "--port", "0"], "--tls-certificate");
    refused(&path, &["--bind", "0.0.0.0", "--port", "0", "--insecure-plaintext"], "cairn user add");
    refused(&path, &["--auth", "--port", "0"], "cairn user add");
    refused(&path, &["--tls-certificate", "a.pem"], "--tls-key");
    refused(&path, &["--tls-certificate", "none.pem", "--tls-key", "none.key"], "none.pem cannot be read");
    refused(&path, &["--port", "70000"], "70000");
    refused(&path, &["--max-connections", "0"], "--max-connections");
    refused(&path, &["--max-commands", "0"], "--max-commands");
    refused(&path, &["--max-commands", "2000"], "--max-commands");
    refused(&path, &["--disk-quota", "31"], "--disk-quota");
    refused(&path, &["--scrub", "0"], "--scrub");
    refused(&path, &["--temporary-space", "lots"], "--temporary-space");
    refused(&path, &["--temporary-space", "1", "--read-only"], "--temporary-space");
    refused(&path, &["--slow-threshold", "soon"], "neither a number of milliseconds nor `off`");
    refused(&folder.path().join("none"), &["--read-only"], "there is no database");
    let held = Client::open(&path).unwrap();
    refused(&path, &["--port", "0"], "is open in another process (pid ");
    refused(&path, &["--port", "0"], "give the socket");
    assert_eq!(cairn(&path, &["--port", "0"]).output().expect("it ran").status.code(), Some(5));
    held.close().unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    refused(&path, &["--port", &port], &port);
}
