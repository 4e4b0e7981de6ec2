//! Commands against servers that lack what they need: one of MongoDB, and one that is for reading only.

#![cfg(feature = "remote")]

use std::process::Output;

use cairndb::bson::doc;

use crate::fixture::{Fixture, cairn, complains, mongod};

#[test]
fn a_server_of_mongodb_has_no_sequences_and_no_backups() {
    let folder = tempfile::tempdir().expect("it works");
    let socket = folder.path().join("m.sock");
    mongod::listen(&socket);
    let run = |name: &str, more: &[&str]| -> Output {
        cairn().arg(name).arg(&socket).args(more).output().expect("it works")
    };
    let sequences = run("sequences", &[]);
    complains(&sequences, 0, "the server is MongoDB's, which has no sequences: cairn migrate makes");
    assert_eq!(sequences.stdout, b"no sequences\n");
    let words =
        "the server has no sequences: it is MongoDB's, or an older one of CairnDB; give inspect the folder";
    complains(&run("inspect", &["shop", "--sequence", "tickets=1"]), 1, words);
    complains(&run("inspect", &["shop.orders", "--number", "no=1"]), 1, words);
    complains(&run("backup", &["monday"]), 1, "cairn dump copies what it has");
    complains(&run("compact", &[]), 1, "the server is MongoDB's: give DB.COLLECTION");
}

#[test]
fn a_server_that_is_for_reading_only_says_what_to_give_instead() {
    let mut fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    fixture.serve_with(&["--read-only"]);
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":2}\n").expect("it works");
    for (name, more) in [("import", &["shop.orders", "a.ndjson"][..]), ("compact", &[])] {
        let output = fixture.run(name, more).output().expect("it works");
        complains(&output, 1, "give a server that was started without --read-only, or the folder");
    }
    for (name, more) in [("stats", &[][..]), ("sequences", &[]), ("export", &["shop.orders"])] {
        assert_eq!(fixture.run(name, more).output().expect("it works").status.code(), Some(0), "{name}");
    }
}

/// One rule for all commands: what is named and not there is an error that names it.
#[test]
fn a_name_that_is_not_there_is_an_error_everywhere() {
    crate::fixture::on_both(&[doc! { "_id": 1 }], |fixture| {
        for (name, more, status, words) in [
            ("stats", &["shop.absent"][..], 1, "there is no collection shop.absent"),
            ("stats", &["absent"], 1, "there is no database absent"),
            ("stats", &["absent.orders"], 1, "there is no collection absent.orders"),
            ("sequences", &["absent"], 1, "there is no database absent"),
            ("export", &["shop.absent"], 1, "there is no collection shop.absent"),
            ("export", &["absent.orders"], 1, "there is no collection absent.orders"),
            ("inspect", &["shop.absent", "--number", "no=1"], 1, "there is no collection shop.absent"),
            ("inspect", &["shop", "--sequence", "absent=1"], 1, "absent"),
            ("inspect", &["absent", "--sequence", "tickets=1"], 1, "there is no database absent"),
            ("compact", &["shop.absent"], 1, "shop.absent"),
            ("compact", &["absent.orders"], 1, "absent.orders"),
            ("dump", &["d", "--include", "absent.*"], 2, "--include absent.*: the store has no collection"),
        ] {
            let output = fixture.run(name, more).output().expect("it works");
            eprintln!("{name} {more:?}: {}", String::from_utf8_lossy(&output.stderr));
            complains(&output, status, words);
            assert!(output.stdout.is_empty(), "{name} {more:?}");
        }
        assert!(!fixture.path("d").exists());
    });
}
