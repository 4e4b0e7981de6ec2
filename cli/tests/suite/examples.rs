//! Every example of the help and of `docs/tools.md` is run as it is printed, each in a folder that has what it names. Those of
//! `dump` and `restore`, `stats` and `sequences`, and `inspect` are run by the suites of these commands.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};

use crate::fixture::Fixture;
use crate::fixture::examples::{SOURCES, printed};

/// A folder in which a reader types: a store `shop-data`, another one behind `shop.sock`, and the files of the examples.
struct Place {
    folder: Fixture,
    _served: Fixture,
}

impl Place {
    fn new() -> Self {
        Self::served_with(&[])
    }

    /// The server is a replica set, which change streams need.
    fn with_streams() -> Self {
        Self::served_with(&["--replica-set", "rs", "--advertise", "192.0.2.1:1"])
    }

    fn served_with(options: &[&str]) -> Self {
        let mut served = Fixture::new(&orders(), false);
        let folder = Fixture::new(&orders(), false);
        std::fs::create_dir(folder.path("backups")).expect("it works");
        let backups = served.path("backups");
        std::fs::create_dir(&backups).expect("it works");
        let folder_of_backups = ["--backup-folder", backups.to_str().expect("a path")];
        served.serve_with(&[&folder_of_backups, options].concat());
        std::fs::rename(folder.path("db"), folder.path("shop-data")).expect("it works");
        std::os::unix::fs::symlink(served.path("s.sock"), folder.path("shop.sock")).expect("it works");
        let place = Self { folder, _served: served };
        place.file("customers.ndjson", b"{\"email\":\"a@example.org\",\"name\":\"Ada\"}\n");
        place.file("counters.js", b"db.counters.insertOne({_id: 'orders', seq: 1})\n");
        place.file("password.txt", b"correct horse\n");
        // What `--mongosh` starts.
        place.file("bin/mongosh", b"#!/bin/sh\ntest \"$#\" -gt 1\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.folder.path("bin/mongosh"), mode).expect("it works");
        place
    }

    /// What is imported is not there before an export of the same name.
    fn with_inputs(self) -> Self {
        self.file("orders.csv", b"_id,total\n101,20\n102,30\n");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"201\t24.12.2025\n").expect("it works");
        self.file("orders.tsv.gz", &gzip.finish().expect("it works"));
        self
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it works");
        std::fs::write(path, bytes).expect("it works");
    }

    fn types(&self, line: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().and_then(Path::to_str).expect("a path");
        let bin = self.folder.path("bin");
        let search = format!("{}:{program}:{}", bin.display(), std::env::var("PATH").expect("it is set"));
        // The one folder of the examples that this machine need not have.
        let line = line.replace("/mnt/backups", self.folder.path("backups").to_str().expect("a path"));
        let mut shell = Command::new("sh");
        shell.args(["-ec", &line]).env("PATH", &search).env("XDG_STATE_HOME", self.folder.path("state"));
        shell.current_dir(self.folder.folder.path()).stdin(Stdio::null()).output().expect("it works")
    }

    #[track_caller]
    fn runs(&self, line: &str) -> Output {
        let output = self.types(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// How many documents a collection of the folder has.
    fn count(&self, collection: &str) -> u64 {
        let client = Client::open(self.folder.path("shop-data")).expect("it works");
        let documents: Collection<Document> = client.database("shop").collection(collection);
        documents.count_documents(doc! {}).run().expect("it works")
    }
}

fn orders() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "customer": "Ada", "total": 20 },
        doc! { "_id": 2, "customer": "Grace", "total": 30 },
        doc! { "_id": 3, "customer": "Adam", "total": 40 },
    ]
}

/// Runs the examples of a command in the order in which they are printed. Returns how many there were.
fn run(place: impl Fn() -> Place, command: &str, mut looked_at: impl FnMut(&Place, &str, &Output)) -> usize {
    let mut count = 0;
    for source in SOURCES {
        let place = place();
        for line in printed(source, command) {
            let output = place.runs(&line);
            looked_at(&place, &line, &output);
            count += 1;
        }
    }
    count
}

#[test]
fn examples_of_import_run_as_they_are_printed() {
    let place = || Place::new().with_inputs();
    let count = run(place, "import", |place, line, _| {
        let is_first = line == "cairn import shop-data shop.orders orders.csv";
        assert!(!is_first || place.count("orders") == 5, "{line}");
    });
    assert_eq!(count, 6);
}

#[test]
fn examples_of_export_run_as_they_are_printed() {
    let count = run(Place::new, "export", |place, line, output| {
        let is_printed = line.contains('|');
        assert_eq!(is_printed, !output.stdout.is_empty(), "{line}");
        let made = ["orders.ndjson.gz", "orders.csv"].into_iter().find(|name| line.contains(name));
        assert!(made.is_none_or(|name| place.folder.path(name).exists()), "{line}");
    });
    assert_eq!(count, 6);
}

#[test]
fn examples_of_query_print_something() {
    let count = run(Place::new, "query", |_, line, output| assert!(!output.stdout.is_empty(), "{line}"));
    assert_eq!(count, 10);
}

#[test]
fn examples_of_the_shell_run_as_they_are_printed() {
    let count = run(Place::new, "shell", |place, line, output| {
        let is_counting = line.contains("--eval");
        assert!(!is_counting || output.stdout == b"2\n", "{line}: {output:?}");
        assert!(!line.contains("counters.js") || place.count("counters") == 1, "{line}");
    });
    assert!(count >= 9, "{count}");
}

#[test]
fn examples_of_backups_leave_backups() {
    let count = run(Place::new, "backup", |place, line, _| {
        let kept = std::fs::read_dir(place.folder.path("backups")).expect("it works").count();
        assert!(kept > 0, "{line}");
    });
    assert_eq!(count, 6);
}

#[test]
fn examples_of_compact_and_verify_run_as_they_are_printed() {
    assert_eq!(run(Place::new, "compact", |_, _, _| {}), 5);
    assert_eq!(run(Place::new, "verify", |_, _, _| {}), 4);
}

#[test]
fn examples_of_salvage_make_a_folder() {
    let count = run(Place::new, "salvage", |place, line, _| {
        // The next example makes it too.
        std::fs::remove_dir_all(place.folder.path("shop-new"))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    });
    assert_eq!(count, 3);
}

#[test]
fn examples_of_a_restored_backup_make_a_store() {
    let place = || {
        let place = Place::new();
        place.runs("cairn backup shop-data /mnt/backups/shop-before-upgrade");
        place
    };
    let count = run(place, "restore-backup", |place, line, _| {
        assert!(place.folder.path("shop-again/CAIRNDB").exists(), "{line}");
    });
    assert_eq!(count, 2);
}

#[test]
fn examples_of_schema_and_ops_run_as_they_are_printed() {
    let count = run(Place::new, "schema", |_, line, output| assert!(!output.stdout.is_empty(), "{line}"));
    assert_eq!(count, 4);
    assert_eq!(run(Place::new, "ops", |_, _, _| {}), 4);
}

/// Each of them waits until it is ended, so it is told not to.
#[test]
fn examples_of_watch_run_until_no_event_is_left() {
    let mut count = 0;
    for source in SOURCES {
        let place = Place::with_streams();
        for line in printed(source, "watch") {
            place.runs(&line.replacen("cairn watch", "cairn watch --until-now", 1));
            count += 1;
        }
    }
    assert_eq!(count, 6);
}

/// The number is one of another day.
#[test]
fn the_example_of_kill_tells_that_no_operation_has_the_number() {
    let place = Place::new();
    for line in printed(SOURCES[0], "kill") {
        let output = place.types(&line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("no operation 4711"), "{line}: {said}");
    }
}

/// The first one asks for the password, which is in the environment here.
#[test]
fn examples_of_users_make_and_remove_them() {
    let mut listed = 0;
    let place = Place::new();
    let lines: Vec<String> = SOURCES.into_iter().flat_map(|source| printed(source, "user")).collect();
    for line in &lines {
        let asks = line.ends_with(" ada");
        let output = place.runs(&if asks { format!("CAIRN_PASSWORD=secret {line}") } else { line.clone() });
        if line.contains("user list") {
            listed += 1;
            let told = String::from_utf8(output.stdout).expect("it is UTF-8");
            assert_eq!(told, "ada root\nbackup root\nreport readAnyDatabase\n");
        }
    }
    assert!(lines.len() >= 5 && listed == 1, "{lines:?}");
}

/// A line that is broken by a backslash is one line for a shell, and for these suites.
#[test]
fn broken_examples_are_one_line() {
    let lines = printed(SOURCES[0], "import");
    assert!(
        lines.iter().any(|line| line.contains("--types typed") && line.contains("--fields")),
        "{lines:?}"
    );
    assert!(lines.iter().all(|line| !line.contains('\\')), "{lines:?}");
}
