//! `cairn backup` as a process: a folder, a server's store, kills, a full disk, and other file systems.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};
use rustix::process::Signal;

use crate::fixture::signals::send;
use crate::fixture::small_disk::SmallDisk;
use crate::fixture::{Fixture, cairn, complains, number, report};

/// Documents whose texts no compression makes much shorter.
fn documents(count: u32) -> Vec<Document> {
    let part = |seed: u64| format!("{:016x}", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |n: u64| (1..=30).map(|at| part(n * 30 + at)).collect::<String>();
    (0..count).map(|n| doc! { "_id": n, "n": n % 7, "text": text(n.into()) }).collect()
}

/// A store of 1 MiB in tables of the last level, which stay as they are.
fn filled() -> Fixture {
    let fixture = Fixture::new(&documents(4000), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    client.compact().run().expect("it works");
    client.close().expect("it works");
    fixture
}

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("backup", more).output().expect("it works")
}

/// The folders and files of a folder but for the two that are beside generations.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it works");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("it works").file_name().into_string().expect("it works"))
        .filter(|name| !name.starts_with("CAIRNDB"))
        .collect();
    names.sort();
    names
}

/// A backup that opens, verifies and has as many documents.
#[track_caller]
fn is_whole(folder: &Path, count: u64) {
    let client = Client::builder().read_only(true).open(folder).expect("it opens");
    let orders: Collection<Document> = client.database("shop").collection("orders");
    assert_eq!(orders.count_documents(doc! {}).run().expect("it works"), count);
    let verified = client.verify().expect("it works");
    assert!(verified.is_clean(), "{:?}", verified.findings);
}

#[test]
fn a_copy_is_verified_and_can_be_served_where_it_is() {
    let fixture = filled();
    let output = run(&fixture, &["copy"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.starts_with("backed up 4,000 documents into copy: ") && told.ends_with("B, verified\n"),
        "{told}"
    );
    assert!(output.stdout.is_empty());
    is_whole(&fixture.path("copy"), 4000);
    assert_eq!(fixture.files(), ["copy"]);
    let before = names(&fixture.path("copy"));
    complains(&run(&fixture, &["copy"]), 2, "copy exists already");
    assert_eq!(names(&fixture.path("copy")), before);
    let slashes = cairn().args(["backup", "db/", "other/"]).current_dir(fixture.folder.path()).output();
    assert_eq!(slashes.expect("it works").status.code(), Some(0));
    is_whole(&fixture.path("other"), 4000);
    let within = cairn().args(["backup", ".", "../third"]).current_dir(fixture.path("db")).output();
    assert_eq!(within.expect("it works").status.code(), Some(0));
    assert_eq!(fixture.files(), ["copy", "other", "third"]);
    complains(&run(&fixture, &["."]), 2, "exists already");
    // A backup is restored by opening it, and a wrong try is told so.
    let restored = cairn()
        .args(["restore", "elsewhere", "copy"])
        .current_dir(fixture.folder.path())
        .output()
        .expect("it works");
    complains(&restored, 2, "copy the folder, or open it");
}

#[test]
fn generations_come_and_go_and_the_report_names_them() {
    let fixture = filled();
    let mut folders = Vec::new();
    for round in 0..4 {
        let report = report(&run(&fixture, &["backups", "--generations", "2", "--json"]));
        assert_eq!(number(&report, "documents"), 4000);
        assert_eq!(number(&report, "filesLinked") > 0, round > 0, "{report}");
        assert!(number(&report, "bytesLinked") < number(&report, "bytes"), "{report}");
        let folder = report.get("folder").and_then(serde_json::Value::as_str).expect("it has one").to_owned();
        let removed = report.get("removed").and_then(serde_json::Value::as_array).expect("a list").clone();
        folders.push(folder);
        match folders.len().checked_sub(3) {
            Some(oldest) => assert_eq!(removed, [serde_json::json!(folders[oldest])]),
            None => assert!(removed.is_empty(), "{report}"),
        }
    }
    assert_eq!(names(&fixture.path("backups")).len(), 2);
    for folder in &folders[2..] {
        is_whole(&fixture.folder.path().join(folder), 4000);
    }
    let restored = cairn()
        .args(["restore", "elsewhere", "backups"])
        .current_dir(fixture.folder.path())
        .output()
        .expect("it works");
    complains(&restored, 2, "copy the folder, or open it");
    complains(&run(&fixture, &["backups", "--generations", "0"]), 2, "--generations");
}

#[test]
fn a_server_backs_up_into_its_own_folder_and_takes_no_path() {
    let mut fixture = filled();
    std::fs::create_dir(fixture.path("kept")).expect("it works");
    let kept = fixture.path("kept");
    fixture.serve_with(&["--backup-folder", kept.to_str().expect("it works")]);
    // Not from outside: the server has the folder.
    let outside =
        cairn().arg("backup").arg(fixture.path("db")).arg(fixture.path("copy")).output().expect("it works");
    complains(&outside, 5, "give the socket");
    assert!(!fixture.path("copy").exists());

    let single = report(&run(&fixture, &["before-upgrade", "--json"]));
    assert_eq!(single.get("folder"), Some(&serde_json::json!("before-upgrade")));
    is_whole(&kept.join("before-upgrade"), 4000);
    for round in 0..3 {
        let daily = report(&run(&fixture, &["daily", "--generations", "2", "--json"]));
        assert_eq!((number(&daily, "documents"), number(&daily, "filesLinked") > 0), (4000, round > 0));
        let removed = daily.get("removed").and_then(serde_json::Value::as_array).expect("a list");
        assert_eq!(removed.len(), usize::from(round == 2), "{daily}");
    }
    for name in names(&kept.join("daily")) {
        is_whole(&kept.join("daily").join(name), 4000);
    }
    let path = fixture.path("elsewhere");
    let path = path.to_str().expect("it works");
    for name in [path, "../elsewhere", "a/b", ".hidden", "a.partial", ""] {
        complains(&run(&fixture, &[name]), 2, "");
    }
    assert!(!fixture.path("elsewhere").exists());
    complains(&run(&fixture, &["before-upgrade"]), 2, "exists already");
    assert_eq!(names(&kept), ["before-upgrade", "daily"]);
}

#[test]
fn a_server_without_a_folder_for_backups_makes_none() {
    let mut fixture = filled();
    fixture.serve();
    complains(&run(&fixture, &["daily"]), 1, "--backup-folder");
    let absent = fixture.path("absent");
    let mut serve = cairn();
    serve.args(["serve", "--port", "0", "--backup-folder"]).arg(&absent).arg(fixture.path("other"));
    complains(&serve.stdout(Stdio::null()).output().expect("it works"), 1, "absent");
}

#[test]
fn what_is_no_store_is_not_backed_up() {
    let fixture = filled();
    let absent = cairn().arg("backup").arg(fixture.path("absent")).arg(fixture.path("copy")).output();
    complains(&absent.expect("it works"), 6, "absent");
    assert!(!fixture.path("absent").exists() && !fixture.path("copy").exists());
    complains(&run(&fixture, &["db/copy"]), 2, "lies in the database");
    std::fs::write(fixture.path("notes"), b"mine").expect("it works");
    complains(&run(&fixture, &["notes"]), 2, "notes exists already");
    complains(&run(&fixture, &["notes", "--generations", "2"]), 2, "notes");
}

/// A copy that does not verify has status 4, and what was there stays.
#[test]
fn damage_is_told_by_the_status_and_removes_nothing() {
    let fixture = filled();
    report(&run(&fixture, &["backups", "--generations", "1", "--json"]));
    let before = names(&fixture.path("backups"));
    let tables = std::fs::read_dir(fixture.path("db")).expect("it works");
    let mut tables: Vec<PathBuf> = tables.map(|entry| entry.expect("it works").path()).collect();
    tables.retain(|path| path.extension().is_some_and(|extension| extension == "sst"));
    tables.sort_by_key(|path| std::fs::metadata(path).expect("it works").len());
    let table = tables.pop().expect("there is one");
    let mut bytes = crate::fixture::read(&table);
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).expect("it is there") ^= 1;
    std::fs::write(&table, bytes).expect("it works");
    let output = run(&fixture, &["backups", "--generations", "1", "--json"]);
    complains(&output, 4, "does not verify");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(told.pointer("/error/kind"), Some(&serde_json::json!("different")));
    let after = names(&fixture.path("backups"));
    assert_eq!(after.first(), before.first());
    assert!(after.len() == 2 && after[1].ends_with(".partial"), "{after:?}");
    is_whole(&fixture.path("backups").join(&before[0]), 4000);
    let verified =
        cairn().arg("verify").arg(fixture.path("backups").join(&after[1])).output().expect("it works");
    complains(&verified, 6, ".partial");
}

/// SIGKILL at any moment: complete generations stay what they are, and the next backup removes what was left.
#[test]
fn a_kill_within_a_backup_harms_no_generation_and_leaves_nothing_for_long() {
    let fixture = filled();
    let backups = fixture.path("backups");
    let all = ["backups", "--generations", "3"];
    report(&run(&fixture, &["backups", "--generations", "3", "--json"]));
    // The moments are spread over the time that a later backup needs on this machine, and some come after its end.
    let start = Instant::now();
    report(&run(&fixture, &["backups", "--generations", "3", "--json"]));
    let whole = start.elapsed();
    let mut killed = 0;
    for round in 0_u32.. {
        if round >= 25 && (killed > 5 || start.elapsed() > Duration::from_secs(60)) {
            break;
        }
        let mut child = fixture.run("backup", &all).stderr(Stdio::null()).spawn().expect("it works");
        let patience = whole * (round % 25) / 20;
        let began = Instant::now();
        while began.elapsed() < patience && child.try_wait().expect("it works").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("it works");
        killed += u32::from(!child.wait().expect("it works").success());
        for name in names(&backups).into_iter().filter(|name| name.ends_with('Z')) {
            is_whole(&backups.join(name), 4000);
        }
    }
    assert!(killed > 5, "{killed}");
    let last = report(&run(&fixture, &["backups", "--generations", "3", "--json"]));
    assert!(number(&last, "documents") == 4000);
    let left = names(&backups);
    assert!(left.len() <= 3 && left.iter().all(|name| name.ends_with('Z')), "{left:?}");
    assert_eq!(fixture.files(), ["backups"]);

    // A single copy, too: what a kill left of it is made anew.
    let mut child = fixture.run("backup", &["copy"]).stderr(Stdio::null()).spawn().expect("it works");
    while !fixture.path("copy.partial").join("CURRENT").exists()
        && child.try_wait().expect("it works").is_none()
    {
        std::thread::yield_now();
    }
    child.kill().expect("it works");
    child.wait().expect("it works");
    if !fixture.path("copy").exists() {
        assert_eq!(run(&fixture, &["copy"]).status.code(), Some(0));
    }
    is_whole(&fixture.path("copy"), 4000);
    assert_eq!(fixture.files(), ["backups", "copy"]);
}

#[test]
fn a_signal_ends_a_backup_in_order() {
    let fixture = filled();
    let mut child = fixture
        .run("backup", &["copy", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it works");
    while !fixture.path("copy.partial").exists() && child.try_wait().expect("it works").is_none() {
        std::thread::yield_now();
    }
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("it works");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    if output.status.code() == Some(0) {
        // It came too late.
        is_whole(&fixture.path("copy"), 4000);
    } else {
        assert_eq!(output.status.code(), Some(143), "{told}");
        assert_eq!(told.get("interrupted"), Some(&serde_json::json!(true)));
        assert!(fixture.files().is_empty(), "{:?}", fixture.files());
    }
}

/// On a disk of its own, which is full in the middle of the third generation.
#[test]
fn a_full_disk_leaves_the_generations_that_are_there() {
    let Some(disk) = SmallDisk::make("3m") else { return };
    let fixture = filled();
    let target = disk.path.join("backups");
    let target = target.to_str().expect("it works");
    let first = report(&run(&fixture, &[target, "--generations", "1", "--json"]));
    report(&run(&fixture, &[target, "--generations", "2", "--json"]));
    let before = names(Path::new(target));
    assert_eq!(before.len(), 2);
    // New tables for all documents: there is no room for both.
    let client = Client::open(fixture.path("db")).expect("it works");
    let orders: Collection<Document> = client.database("shop").collection("orders");
    orders.drop().run().expect("it works");
    orders.insert_many(documents(9000)).run().expect("it works");
    client.compact().run().expect("it works");
    client.close().expect("it works");
    for _ in 0..2 {
        let output = run(&fixture, &[target, "--generations", "1"]);
        complains(&output, 1, "o space left on");
        assert_eq!(names(Path::new(target)), before, "nothing is removed, and nothing is left");
    }
    for name in &before {
        is_whole(&Path::new(target).join(name), 4000);
    }
    assert!(number(&first, "bytes") > 1 << 20);
}

/// Neither could be copied: a full disk, because opening for writing needs room, and a read-only one.
#[test]
fn a_store_is_copied_from_a_disk_that_takes_no_writes() {
    let Some(disk) = SmallDisk::make("20m") else { return };
    let fixture = filled();
    let store = disk.path.join("db");
    let copied = Command::new("cp").arg("-a").arg(fixture.path("db")).arg(&store).status();
    assert!(copied.expect("it works").success());
    let fill = || {
        let mut file = std::fs::File::create(disk.path.join("fill")).expect("it works");
        while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
    };
    fill();
    let copy = |name: &str| {
        let target = fixture.path(name);
        let output = cairn().arg("backup").arg(&store).arg(&target).output().expect("it works");
        assert!(output.status.success(), "{output:?}");
        is_whole(&target, 4000);
    };
    copy("of-full");
    std::fs::remove_file(disk.path.join("fill")).expect("it works");
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.path).status();
    assert!(remounted.expect("it works").success());
    copy("of-read-only");
}
