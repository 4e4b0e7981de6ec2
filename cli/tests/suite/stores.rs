//! What STORE may be, and that a command which is refused makes none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use cairndb::bson::doc;

use crate::fixture::{Fixture, cairn, complains};

/// Every command that takes a store, with what follows it.
fn commands() -> Vec<(&'static [&'static str], &'static [&'static str])> {
    vec![
        (&["backup"], &["copy"]),
        (&["compact"], &[]),
        (&["dump"], &["dumped"]),
        (&["export"], &["shop.orders"]),
        (&["import"], &["shop.orders", "lines.ndjson"]),
        (&["inspect"], &["shop.orders", "--id", "1"]),
        (&["migrate"], &["--from", "mongodb://127.0.0.1:1/"]),
        (&["restore"], &["--archive", "archive"]),
        (&["salvage"], &["new"]),
        (&["sequences"], &[]),
        (&["serve"], &[]),
        (&["stats"], &[]),
        (&["user", "add"], &["ada"]),
        (&["user", "list"], &[]),
        (&["user", "remove"], &["ada"]),
        (&["verify"], &[]),
        #[cfg(feature = "shell")]
        (&["query"], &["1"]),
        #[cfg(feature = "shell")]
        (&["shell"], &["--eval", "1"]),
    ]
}

/// A folder with what the commands read, and a store `db`.
fn prepared() -> Fixture {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::write(fixture.path("lines.ndjson"), "{}\n").expect("it works");
    let dumped = fixture.run("dump", &["--archive", "archive"]).output().expect("it works");
    assert!(dumped.status.success(), "{dumped:?}");
    fixture
}

fn run(fixture: &Fixture, words: &[&str], store: &OsStr, more: &[&str]) -> Output {
    let mut command = cairn();
    command
        .args(words)
        .arg(store)
        .args(more)
        .current_dir(fixture.folder.path())
        .env("CAIRN_PASSWORD", "secret");
    command.stdin(Stdio::null()).output().expect("it works")
}

#[test]
fn a_store_without_a_name_makes_no_sense() {
    let fixture = prepared();
    let before = fixture.files();
    for (words, more) in commands() {
        complains(&run(&fixture, words, OsStr::new(""), more), 2, "a value is required for '");
        assert_eq!(fixture.files(), before, "{words:?}");
    }
}

#[test]
fn a_name_that_is_no_text_is_taken_as_it_is() {
    let fixture = prepared();
    let name = OsStr::from_bytes(b"\xff-data");
    std::fs::rename(fixture.path("db"), fixture.folder.path().join(name)).expect("it works");
    for (words, more) in commands() {
        let status = match words.first() {
            // It goes on until it is told to end.
            Some(&"serve") => continue,
            // No such server exists, and the collection of the archive is there.
            Some(&"migrate") => 6,
            Some(&"restore") => 1,
            Some(_) | None => 0,
        };
        let output = run(&fixture, words, name, more);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
    }
    // A message shows what it can of it.
    complains(&run(&fixture, &["export"], OsStr::from_bytes(b"\xff-gone"), &["a.b"]), 6, "at \u{fffd}-gone");
    let uri = OsStr::from_bytes(b"mongodb://\xff/");
    assert_ne!(run(&fixture, &["import"], uri, &["shop.orders", "lines.ndjson"]).status.code(), Some(0));
    assert!(!fixture.path("mongodb:").exists());
    assert!(run(&fixture, &["user", "add"], name, &["ada"]).status.success());
    assert_eq!(run(&fixture, &["user", "list"], name, &[]).stdout, b"ada root\n");
    // Under this name, and under none that looks like it.
    let entries = std::fs::read_dir(fixture.folder.path()).expect("it works");
    let names: Vec<_> = entries.map(|entry| entry.expect("it works").file_name()).collect();
    assert_eq!(names.iter().filter(|other| other.as_bytes().ends_with(b"-data")).collect::<Vec<_>>(), [name]);

    // Other paths are bytes too.
    std::fs::rename(fixture.folder.path().join(name), fixture.path("db")).expect("it works");
    let with = |command: &str, words: &[&str], path: &[u8]| {
        let mut one = fixture.run(command, words);
        let output = one.arg(OsStr::from_bytes(path)).output().expect("it works");
        assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
        assert!(fixture.folder.path().join(OsStr::from_bytes(path)).exists(), "{command}");
    };
    with("export", &["shop.orders"], b"\xfe.ndjson");
    with("import", &["shop.others", "--resume"], b"\xfe.ndjson");
    with("dump", &[], b"\xfe.dump");
    with("dump", &["--archive"], b"\xfe.archive");
    with("restore", &["--drop"], b"\xfe.dump");
    with("restore", &["--drop", "--archive"], b"\xfe.archive");
    with("backup", &[], b"\xfe.backup");
    with("salvage", &[], b"\xfe.new");
}

/// A mistyped name: the words are the same everywhere, and say what makes a store.
#[test]
fn a_store_that_is_not_there_is_made_by_few_commands_and_the_others_say_which() {
    let fixture = prepared();
    let before = fixture.files();
    for (words, more) in commands() {
        let makes = matches!(words, ["import" | "migrate" | "restore" | "serve"] | ["user", "add"]);
        if makes || words == ["salvage"] {
            continue;
        }
        let output = run(&fixture, words, OsStr::new("absent"), more);
        complains(&output, 6, "there is no database at absent");
        complains(&output, 6, "cairn import, restore, migrate --from, serve and user add make one");
        assert_eq!(fixture.files(), before, "{words:?}");
    }
}

/// A mistyped address: `import localhost:27017 …` said "1 inserted", into a new folder of that name.
#[test]
fn what_looks_like_an_address_is_no_folder() {
    let fixture = prepared();
    let before = fixture.files();
    for (name, meant) in [
        ("localhost:27017", "mongodb://localhost:27017/"),
        ("localhost:27017/shop", "mongodb://localhost:27017/"),
        ("mongodb:/db.example/", "mongodb://db.example/"),
        ("http://db.example:27017", "mongodb://db.example:27017/"),
    ] {
        for words in [&["import"][..], &["restore"], &["stats"], &["user", "add"]] {
            let Some((_, more)) = commands().into_iter().find(|(other, _)| *other == words) else { continue };
            let output = run(&fixture, words, OsStr::new(name), more);
            complains(&output, 6, &format!("it looks like an address, which is written {meant}"));
            assert_eq!(fixture.files(), before, "{words:?} {name}");
        }
    }
}

#[track_caller]
fn leaves_nothing(fixture: &Fixture, mut command: Command, words: &str) {
    let before = fixture.files();
    command.current_dir(fixture.folder.path()).stdin(Stdio::null());
    let output = command.output().expect("it works");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{command:?}: {output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(words) && !told.contains("panicked"), "{command:?}: {told}");
    assert_eq!(fixture.files(), before, "{command:?}");
}

#[test]
fn a_password_that_cannot_be_read_leaves_no_store() {
    let fixture = prepared();
    let start = |words: &[&str]| {
        let mut command = cairn();
        command.args(words).env_remove("CAIRN_PASSWORD");
        command
    };
    for words in [
        &["import", "new", "shop.orders", "lines.ndjson", "--password-file", "absent.txt"][..],
        &["restore", "new", "--archive", "archive", "--password-file", "absent.txt"],
        &["migrate", "new", "--from", "s.sock", "--password-file", "absent.txt"],
        &["user", "add", "new", "ada", "--password-file", "absent.txt"],
    ] {
        let mut command = start(words);
        if words.first() == Some(&"migrate") {
            // The cluster is asked first, and is there.
            let listener = std::os::unix::net::UnixListener::bind(fixture.path("s.sock")).expect("it works");
            command.current_dir(fixture.folder.path());
            let output = command.output().expect("it works");
            complains(&output, 1, "absent.txt");
            assert!(!fixture.path("new").exists());
            drop(listener);
            std::fs::remove_file(fixture.path("s.sock")).expect("it is there");
            continue;
        }
        leaves_nothing(&fixture, command, "absent.txt");
    }
    // A folder is no file, an empty password is none, and neither is what is no text.
    leaves_nothing(&fixture, start(&["user", "add", "new", "ada", "--password-file", "db"]), "db: ");
    leaves_nothing(&fixture, start(&["user", "add", "new", "ada"]), "the password is empty");
    leaves_nothing(
        &fixture,
        start(&["user", "add", "new", "a\nb", "--password-file", "lines.ndjson"]),
        "a\\nb",
    );
    let mut command = start(&["user", "add", "new", "ada"]);
    command.env("CAIRN_PASSWORD", OsStr::from_bytes(b"\xff"));
    leaves_nothing(&fixture, command, "CAIRN_PASSWORD is not UTF-8");
    let words = ["migrate", "new", "--from", "mongodb://ada@127.0.0.1:1/"];
    leaves_nothing(&fixture, start(&words), "give --password-file or CAIRN_PASSWORD");
    let words = ["import", "mongodb://ada@127.0.0.1:1/", "shop.orders", "lines.ndjson"];
    leaves_nothing(&fixture, start(&words), "give --password-file or CAIRN_PASSWORD");
}

#[test]
fn a_server_that_cannot_start_leaves_no_store() {
    let fixture = prepared();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("it works");
    let port = taken.local_addr().expect("it has one").port().to_string();
    for (words, told) in [
        (&["--tls-certificate", "absent.pem", "--tls-key", "absent.pem"][..], "absent.pem"),
        (&["--backup-folder", "absent"], "absent"),
        (&["--bind", "0.0.0.0"], "--tls-certificate"),
        (&["--auth"], "users"),
        (&["--metrics", "0.0.0.0:0"], "0.0.0.0:0"),
        (&["--unix-socket", "absent/s.sock"], "absent/s.sock"),
        (&["--port", &port], &port),
    ] {
        let mut command = cairn();
        command.args(["serve", "new", "--port", "0"]);
        if words.contains(&"--port") {
            command = cairn();
            command.args(["serve", "new"]);
        }
        command.args(words);
        leaves_nothing(&fixture, command, told);
    }
}
