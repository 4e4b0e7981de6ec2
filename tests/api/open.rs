//! Opening: what becomes a database, what is rejected, and that nothing is ever destroyed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cairndb::bson::doc;
use cairndb::{Client, Error, ErrorKind};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{Scratch, small, things};

use crate::{Fixture, refused};

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.insert(path.clone(), fs::read(path).expect("a file"));
        }
    }
    files
}

/// Opening fails, and leaves every byte where it was.
#[track_caller]
fn refused_untouched(folder: &Path, options: cairndb::ClientBuilder) -> Error {
    let before = files(folder);
    let error = options.open(folder).expect_err("refused");
    assert_eq!(files(folder), before, "the refusal changed the folder");
    error
}

#[track_caller]
fn foreign(names: &[&str]) {
    let scratch = Scratch::new();
    for name in names {
        let path = scratch.folder().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, b"somebody's").expect("a file");
    }
    let error = refused_untouched(scratch.folder(), small());
    assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
    let error = refused_untouched(scratch.folder(), small().create_if_missing(false));
    assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
    let error = refused_untouched(scratch.folder(), small().read_only(true));
    assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
}

#[test]
fn an_absent_folder_becomes_a_database() {
    let scratch = Scratch::new();
    scratch.open().close().unwrap();
    assert!(scratch.path().join("CAIRNDB").is_file());
}

#[test]
fn an_empty_folder_becomes_a_database() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path()).unwrap();
    scratch.open().close().unwrap();
    small().create_if_missing(false).open(scratch.path()).unwrap();
}

#[test]
fn missing_parents_are_made() {
    let scratch = Scratch::new();
    let nested = scratch.folder().join("a").join("b").join("c");
    let client = small().open(&nested).unwrap();
    things(&client).insert_one(doc! { "_id": 1 }).run().unwrap();
    client.close().unwrap();
    assert!(nested.join("CAIRNDB").is_file());
}

#[test]
fn foreign_folders_are_refused_and_untouched() {
    foreign(&["notes.txt"]);
    foreign(&["CURRENT", "MANIFEST-000001", "000003.log"]);
    foreign(&["sub/photo.jpg"]);
    foreign(&["CAIRNDB.creating", "photo.jpg"]);
    foreign(&["CAIRNDB.creating", "000003.sst", "holiday.log"]);
}

#[test]
fn a_file_is_not_a_folder() {
    let scratch = Scratch::new();
    fs::write(scratch.path(), b"text").unwrap();
    let error = small().open(scratch.path()).expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
    assert_eq!(fs::read(scratch.path()).unwrap(), b"text");
}

/// It said that the file system rejected an operation, and neither which nor where.
#[test]
fn a_path_that_cannot_be_says_what_was_tried_and_why() {
    let scratch = Scratch::new();
    let file = scratch.folder().join("file");
    fs::write(&file, b"text").unwrap();
    let below = file.join("shop").join("db");
    for options in [small(), small().create_if_missing(false), small().read_only(true)] {
        let error = options.open(&below).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Io { path: Some(_), .. }), "{error:?}");
        let (text, marker) = (error.to_string(), below.join("CAIRNDB"));
        assert_eq!(text, format!("cannot open the file {}: Not a directory (os error 20)", marker.display()));
    }
    let nowhere = Path::new("/proc/cairndb/db");
    let error = small().open(nowhere).expect_err("refused");
    let text = error.to_string();
    assert!(text.starts_with("cannot make the folder /proc/cairndb: "), "{text}");
    assert!(std::error::Error::source(&error).is_none(), "the text says it all");
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

#[test]
fn a_copy_to_a_path_that_cannot_be_says_what_was_tried_and_why() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let error = client.backup("/proc/cairndb/copy").expect_err("refused");
    let text = error.to_string();
    assert!(text.starts_with("cannot make the folder /proc/cairndb/copy."), "{text}");
    assert!(text.contains("No such file or directory"), "{text}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Any user of the machine could read the documents, and the keys of passwords.
#[test]
fn only_the_owner_can_enter_a_store_that_was_made() {
    let scratch = Scratch::new();
    let nested = scratch.folder().join("parent").join("db");
    let client = small().open(&nested).unwrap();
    assert_eq!(mode(&nested), 0o700);
    for path in files(&nested).into_keys() {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    things(&client).insert_one(doc! { "_id": 1 }).run().unwrap();
    client.flush().unwrap();
    let copy = scratch.folder().join("copy");
    client.backup(&copy).unwrap();
    assert_eq!(mode(&copy), 0o700);
    for path in files(&copy).into_keys().filter(|path| path.extension().is_some()) {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let beside: Vec<_> =
        fs::read_dir(scratch.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
    small().read_only(true).open(&copy).unwrap();
}

#[test]
fn an_empty_folder_that_becomes_a_store_is_closed_to_others() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path()).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    scratch.open().close().unwrap();
    assert_eq!(mode(&scratch.path()), 0o700);
    // A user who opens it to others afterwards has meant that.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o750)).unwrap();
    scratch.open().close().unwrap();
    assert_eq!(mode(&scratch.path()), 0o750);
}

#[test]
fn an_empty_path_is_refused() {
    let error = Client::open("").expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
}

#[test]
fn what_must_exist_is_not_made() {
    let scratch = Scratch::new();
    for options in [small().create_if_missing(false), small().read_only(true)] {
        let error = options.open(scratch.path()).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::NotFound { path } if *path == scratch.path()), "{error:?}");
        assert!(!scratch.path().exists());
    }
}

#[test]
fn a_database_without_current_is_never_made_anew() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    fixture.client.flush().unwrap();
    let Fixture { client, things, scratch } = fixture;
    drop(things);
    client.close().unwrap();
    fs::remove_file(scratch.path().join("CURRENT")).unwrap();
    let tables = |folder: &Path| {
        let paths = files(folder).into_iter();
        paths.filter(|(path, _)| path.extension().is_some_and(|end| end == "sst")).collect::<Vec<_>>()
    };
    let before = tables(&scratch.path());
    assert!(!before.is_empty());
    let error = small().open(scratch.path()).expect_err("refused");
    assert!(!matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
    assert_eq!(tables(&scratch.path()), before);
    assert!(!scratch.path().join("CURRENT").exists());
}

#[test]
fn a_creation_that_was_cut_short_is_done_again() {
    let scratch = Scratch::new();
    let client = scratch.open();
    client.close().unwrap();
    fs::rename(scratch.path().join("CAIRNDB"), scratch.path().join("CAIRNDB.creating")).unwrap();
    fs::remove_file(scratch.path().join("CURRENT")).unwrap();
    let error = small().create_if_missing(false).open(scratch.path()).expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error:?}");
    let client = scratch.open();
    things(&client).insert_one(doc! { "_id": 1 }).run().unwrap();
    client.close().unwrap();
    assert!(!scratch.path().join("CAIRNDB.creating").exists());
    assert_eq!(things(&scratch.open()).count_documents(doc! {}).run().unwrap(), 1);
}

#[test]
fn another_format_in_the_marker_is_refused() {
    for (text, expected) in [("CairnDB format 2\n", "2"), ("CairnDB format 8\n", "8")] {
        let scratch = Scratch::new();
        scratch.open().close().unwrap();
        fs::write(scratch.path().join("CAIRNDB"), text).unwrap();
        let error = refused_untouched(&scratch.path(), small());
        let ErrorKind::UnsupportedFormat { path, found, oldest, supported } = error.kind() else {
            panic!("{error:?}")
        };
        assert_eq!((found.as_str(), *oldest, *supported), (expected, 3, 7));
        assert_eq!(path, &scratch.path());
        assert!(error.to_string().ends_with("this version of CairnDB reads formats 3 to 7"), "{error}");
    }
}

/// It was called no database, which a program looks for elsewhere, or makes again.
#[test]
fn a_marker_that_no_version_wrote_is_a_damaged_file() {
    let contents: [(&[u8], u64); 6] = [
        (b"", 0),
        (b"hello", 0),
        (b"\xff\xfe", 0),
        (b"CairnDB format 7", 16),
        (b"CairnDB format x\n", 15),
        (b"CairnDB format 04\n", 15),
    ];
    for (content, expected) in contents {
        let scratch = Scratch::new();
        scratch.open().close().unwrap();
        let marker = scratch.path().join("CAIRNDB");
        fs::write(&marker, content).unwrap();
        for options in [small(), small().read_only(true)] {
            let error = refused_untouched(&scratch.path(), options);
            let ErrorKind::DamagedFile { path, offset, .. } = error.kind() else { panic!("{error:?}") };
            assert_eq!((path, *offset), (&marker, expected));
            assert!(error.is_corruption());
        }
    }
}

#[test]
fn a_file_of_the_markers_name_alone_is_no_database() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path()).unwrap();
    fs::write(scratch.path().join("CAIRNDB"), "mine").unwrap();
    let error = refused_untouched(&scratch.path(), small());
    assert!(matches!(error.kind(), ErrorKind::NotADatabase { .. }), "{error:?}");
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("it runs").success());
}

#[track_caller]
fn refused_for_pipe(error: Error, name: &str) {
    let ErrorKind::NotADatabase { reason, .. } = error.kind() else { panic!("{name}: {error:?}") };
    assert_eq!(
        reason,
        &format!("its file {name} is a pipe, a socket or a device, and must be a regular file")
    );
}

/// Opening and reading a pipe waits until someone writes into it, and a folder may come from others.
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused() {
    for name in ["CAIRNDB", "CAIRNDB.witness", "CURRENT", "MANIFEST-000005", "000004.log", "000777.sst"] {
        let scratch = Scratch::new();
        scratch.open().close().unwrap();
        let _ = fs::remove_file(scratch.path().join(name));
        pipe(&scratch.path().join(name));
        for options in [small(), small().read_only(true)] {
            refused_for_pipe(options.open(scratch.path()).expect_err("refused"), name);
        }
        let salvaged = cairndb::salvage(scratch.path(), scratch.folder().join("new")).run();
        refused_for_pipe(salvaged.expect_err("refused"), name);
    }
    let alone = Scratch::new();
    fs::create_dir(alone.path()).unwrap();
    pipe(&alone.path().join("CAIRNDB"));
    refused_for_pipe(small().open(alone.path()).expect_err("refused"), "CAIRNDB");
    // Files that are not the store's are none of its business.
    let beside = Scratch::new();
    beside.open().close().unwrap();
    pipe(&beside.path().join("server.pipe"));
    beside.open().close().unwrap();
}

#[test]
fn a_second_client_in_the_process_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let error = small().open(scratch.path()).expect_err("refused");
    assert!(error.is_already_open(), "{error:?}");
    assert_eq!(error.to_string(), format!("the database {} is already open", scratch.path().display()));
    client.close().unwrap();
    scratch.open();
}

#[test]
fn a_folder_that_another_process_has_open_is_refused() {
    let scratch = Scratch::new();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_child"))
        .args(["hold".as_ref(), scratch.path().as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    assert!(small().open(scratch.path()).expect_err("refused").is_already_open());
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    scratch.open();
}

#[test]
fn reading_beside_a_writer_shows_the_moment_of_opening() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let reader = small().read_only(true).open(fixture.scratch.path()).unwrap();
    fixture.things.insert_one(doc! { "_id": 2 }).run().unwrap();
    assert_eq!(things(&reader).count_documents(doc! {}).run().unwrap(), 1);
    assert_eq!(things(&reader).estimated_document_count().run().unwrap(), 1);
    crate::verify_clean(&reader);
    reader.close().unwrap();
    assert_eq!(fixture.stored().len(), 2);
}

#[test]
fn a_read_only_client_refuses_every_write() {
    let scratch = Scratch::new();
    let client = scratch.open();
    things(&client).insert_one(doc! { "_id": 1 }).run().unwrap();
    client.close().unwrap();
    let before = files(&scratch.path()).keys().cloned().collect::<Vec<_>>();
    let reader = small().read_only(true).open(scratch.path()).unwrap();
    let things = things(&reader);
    let database = reader.database("test");
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    let refusals = [
        things.insert_one(doc! { "_id": 2 }).run().err(),
        things.insert_many([doc! { "_id": 2 }]).run().err(),
        things.replace_one(doc! { "_id": 1 }, doc! { "a": 1 }).run().err(),
        things.delete_one(doc! { "_id": 1 }).run().err(),
        things.delete_many(doc! {}).run().err(),
        things.create_index(by_a).run().err(),
        things.drop_indexes().run().err(),
        things.drop().run().err(),
        things.rename("others").run().err(),
        database.create_collection("new").run().err(),
        database.drop().run().err(),
    ];
    for refusal in refusals {
        let error = refusal.expect("refused");
        assert!(matches!(error.kind(), ErrorKind::ReadOnly), "{error:?}");
    }
    assert_eq!(crate::all(&things), [doc! { "_id": 1 }]);
    drop(things);
    reader.close().unwrap();
    assert_eq!(files(&scratch.path()).keys().cloned().collect::<Vec<_>>(), before);
}

#[test]
fn too_little_memory_is_refused() {
    let scratch = Scratch::new();
    let error = small().memory_budget((8 << 20) - 1).open(scratch.path()).expect_err("refused");
    assert!(error.to_string().contains("8388607"), "{error}");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    assert!(!scratch.path().exists());
    small().memory_budget(8 << 20).open(scratch.path()).unwrap();
}

/// RocksDB ended the process when it could not set aside the addresses for its cache.
#[test]
fn more_memory_than_any_machine_has_is_refused() {
    for budget in [(1 << 40) + 1, usize::MAX] {
        let scratch = Scratch::new();
        let error = small().memory_budget(budget).open(scratch.path()).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(&budget.to_string()), "{error}");
        assert!(!scratch.path().exists());
    }
    let scratch = Scratch::new();
    small().memory_budget(1 << 40).open(scratch.path()).unwrap();
}

#[test]
fn names_of_databases_are_listed_and_unique_but_for_case() {
    let fixture = Fixture::new();
    for name in ["shop", "archive"] {
        fixture.client.database(name).create_collection("c").run().unwrap();
    }
    assert_eq!(fixture.client.list_database_names().run().unwrap(), ["archive", "shop"]);
    refused(fixture.client.database("Shop").create_collection("c").run(), 13297, "different case");
    assert_eq!(fixture.client.list_database_names().run().unwrap(), ["archive", "shop"]);
}

#[test]
fn a_held_folder_says_so_in_its_own_words() {
    let mut text = Vec::new();
    let scratch = Scratch::new();
    let _client = scratch.open();
    write!(text, "{}", small().open(scratch.path()).expect_err("refused")).unwrap();
    assert!(String::from_utf8(text).unwrap().ends_with("is already open"));
}

/// A process that is being started has copies of all open files for a moment. A lock that is given back only by
/// closing its file stays with such a copy, and the next opening is rejected although no process has the folder.
#[test]
fn a_closed_folder_is_free_while_other_processes_are_started() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&stop);
        let starter = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                Command::new("true").status().expect("a process");
            }
        });
        let scratch = Scratch::new();
        for _ in 0..100 {
            scratch.open().close().unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        starter.join().unwrap();
    });
}

/// Two openers of one fresh folder raced: the second mistook the first one's finished database for an unfinished creation,
/// and removed its files while it was acknowledging writes.
#[test]
fn openers_of_a_fresh_folder_never_clear_each_others_database() {
    for _ in 0..60 {
        let scratch = Scratch::new();
        let won = AtomicBool::new(false);
        // A thread that is rejected tries again at once, until a while after another has won.
        let open = || {
            let mut attempts_after_winning = 20;
            while attempts_after_winning > 0 {
                if let Ok(client) = small().open(scratch.path()) {
                    won.store(true, Ordering::Release);
                    return Some(client);
                }
                attempts_after_winning -= i32::from(won.load(Ordering::Acquire));
            }
            None
        };
        let opened: Vec<Client> = std::thread::scope(|scope| {
            let openers: Vec<_> = (0..3).map(|_| scope.spawn(open)).collect();
            openers.into_iter().filter_map(|opener| opener.join().expect("no opener panics")).collect()
        });
        let [client] =
            opened.try_into().unwrap_or_else(|clients: Vec<_>| panic!("{} are open", clients.len()));
        things(&client).insert_one(doc! { "_id": 1 }).run().expect("inserted");
        client.close().expect("closed");
        let stored = things(&scratch.open()).count_documents(doc! {}).run().expect("counted");
        assert_eq!(stored, 1);
    }
}
