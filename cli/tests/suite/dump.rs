//! `cairn dump` as a process, on a folder and through the socket of a server.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Output, Stdio};

use cairndb::Client;
use cairndb::bson::{Document, doc};
use flate2::read::MultiGzDecoder;
use formats::dump::prelude::Moment;
use formats::dump::reader::{ArchiveReader, Piece};
use formats::dump::stream::DocumentStream;
use rustix::process::Signal;

use crate::fixture::content::{Content, files_below, of_archive, of_directory, of_store};
use crate::fixture::rich::{fill, hostile_names, kinds};
use crate::fixture::signals::send_and_wait;
use crate::fixture::{Fixture, complains, prints_in_little_memory, read};

/// The test on a folder and on a server with everything in it.
fn on_both(test: impl Fn(&Fixture)) {
    for is_served in [false, true] {
        let mut fixture = Fixture::new(&[], false);
        fill(&fixture.path("db"));
        if is_served {
            fixture.serve();
        }
        test(&fixture);
    }
}

#[track_caller]
fn dump(fixture: &Fixture, more: &[&str]) -> Output {
    let output = fixture.run("dump", more).output().expect("it works");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn refused(fixture: &Fixture, more: &[&str], status: i32, words: &str) {
    complains(&fixture.run("dump", more).output().expect("it works"), status, words);
}

#[track_caller]
fn has_all(content: &Content, stored: &BTreeMap<(String, String), Vec<u8>>) {
    assert_eq!(content.keys().collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
    for (name, (documents, _)) in content {
        assert!(documents == stored.get(name).expect("it works"), "{name:?}");
    }
}

#[test]
fn a_directory_has_all_documents_under_escaped_names() {
    on_both(|fixture| {
        let stored = of_store(&fixture.path("db"));
        for (name, ending, more) in [("plain", "", &[][..]), ("packed", ".gz", &["--gzip", "-j", "3"][..])] {
            dump(fixture, &[&[name], more].concat());
            let (content, prelude) = of_directory(&fixture.path(name), ending);
            has_all(&content, &stored);
            assert_eq!(prelude.server_version, "8.0.0");
            for name in hostile_names() {
                assert!(content.contains_key(&("odd".into(), name)));
            }
        }
        assert_eq!(fixture.files(), ["packed", "plain"], "and nothing is outside of the directories");
        for path in files_below(&fixture.path("packed")) {
            assert_eq!(
                path.strip_prefix(fixture.path("packed")).unwrap().components().count().min(2),
                path.strip_prefix(fixture.path("packed")).unwrap().components().count()
            );
        }
    });
}

#[test]
fn an_archive_has_the_same() {
    on_both(|fixture| {
        let stored = of_store(&fixture.path("db"));
        dump(fixture, &["plain"]);
        let (expected, _) = of_directory(&fixture.path("plain"), "");
        let of_output = dump(fixture, &["--archive", "-"]).stdout;
        dump(fixture, &["--archive", "a", "-j", "4"]);
        let packed = dump(fixture, &["--archive", "-", "--gzip"]).stdout;
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
        for archive in [of_output, read(&fixture.path("a")), unpacked] {
            let content = of_archive(&archive);
            has_all(&content, &stored);
            for (name, (_, metadata)) in &content {
                assert_eq!(metadata, &expected[name].1, "{name:?}");
            }
        }
    });
}

#[test]
fn segments_alternate_where_several_collections_are_dumped_at_once() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).unwrap();
    for name in ["a", "b"] {
        let documents: Vec<_> = (0..64).map(|id| doc! { "_id": id, "x": "x".repeat(1 << 18) }).collect();
        client.database("shop").collection(name).insert_many(documents).run().unwrap();
    }
    client.close().unwrap();
    let order = |jobs: &str| {
        let archive = dump(&fixture, &["--archive", "-", "-j", jobs]).stdout;
        let mut reader = ArchiveReader::open(&*archive).unwrap();
        let (mut document, mut order) = (Vec::new(), Vec::new());
        while let Some(piece) = reader.next(&mut document).unwrap() {
            match piece {
                Piece::Document(at) | Piece::End(at, _) => order.push(at),
            }
        }
        order.dedup();
        order
    };
    assert_eq!(order("1"), [0, 1]);
    // Both begin with the first segment of one of the threads; neither can write 16 MiB in one.
    assert!(order("2").len() >= 2);
}

#[test]
fn what_mongorestore_does_not_know_stands_where_it_does_not_look() {
    on_both(|fixture| {
        dump(fixture, &["plain"]);
        let (content, prelude) = of_directory(&fixture.path("plain"), "");
        let metadata = |database: &str, name: &str| &content[&(database.to_owned(), name.to_owned())].1;
        for (name, _, used) in kinds() {
            let metadata = metadata("numbers", name);
            assert_eq!(metadata.options, doc! {}, "it would be sent to a server that refuses it");
            let [field] = &metadata.numbered[..] else { panic!("{metadata:?}") };
            assert_eq!(field.get_str("Field").ok(), Some("n.value"));
            let snapshot = field.get_document("snapshot").unwrap();
            assert_eq!(snapshot.get_bool("Initial").ok(), Some(used == 0), "{snapshot}");
        }
        let orders = metadata("shop", "orders");
        let expected = doc! { "validator": { "total": { "$gte": 0 } }, "validationLevel": "moderate", "validationAction": "error" };
        assert_eq!(orders.options.get("validator"), expected.get("validator"));
        assert_eq!(orders.indexes.len(), 9);
        assert_eq!(orders.indexes[0].get_str("name").ok(), Some("_id_"));
        assert!(
            orders
                .uuid
                .as_ref()
                .is_some_and(|uuid| uuid.len() == 32 && uuid.chars().all(|c| c.is_ascii_hexdigit()))
        );
        let view = metadata("shop", "newest");
        assert_eq!((view.kind.as_deref(), view.indexes.len()), (Some("view"), 0));
        assert_eq!(view.options.get_str("viewOn").ok(), Some("orders"));
        let carried = prelude.carried.unwrap();
        let is_served = fixture.path("s.sock").exists();
        assert_eq!(carried.moment, if is_served { Moment::Each } else { Moment::One });
        let [(database, sequences)] = &carried.sequences[..] else { panic!("{:?}", carried.sequences) };
        assert_eq!((database.as_str(), sequences.len()), ("tickets", kinds().len() + 1));
    });
}

/// A stream of documents is what the files are, for readers of BSON that know nothing of dumps.
#[test]
fn files_are_documents_one_after_the_other() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }, doc! { "_id": 2 }], false);
    dump(&fixture, &["d"]);
    let bytes = read(&fixture.path("d/shop/orders.bson"));
    let (mut stream, mut document, mut count) = (DocumentStream::new(&*bytes), Vec::new(), 0);
    while stream.next(&mut document).unwrap() {
        count += 1;
    }
    assert_eq!((count, stream.offset()), (2, bytes.len() as u64));
}

#[test]
fn patterns_and_a_filter_choose() {
    on_both(|fixture| {
        let names = |more: &[&str]| {
            let archive = dump(fixture, &[&["--archive", "-"], more].concat()).stdout;
            of_archive(&archive)
                .into_keys()
                .map(|(database, name)| format!("{database}.{name}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&["--include", "shop.*"]),
            ["shop.again", "shop.empty", "shop.newest", "shop.orders", "shop.types"]
        );
        assert_eq!(
            names(&["--include", "*.o*", "--exclude", "numbers.*", "--exclude", "odd.*"]),
            ["shop.orders"]
        );
        let one = ["--archive", "-", "--include", "shop.orders", "--filter", r#"{"_id": {"$lt": 2}}"#];
        let chosen = |options: &[&str]| {
            let content = of_archive(&dump(fixture, options).stdout);
            let (documents, _) = &content[&("shop".into(), "orders".into())];
            let mut stream = DocumentStream::new(&**documents);
            let mut ids = 0;
            while stream.next(&mut Vec::new()).unwrap() {
                ids += 1;
            }
            ids
        };
        assert_eq!(chosen(&one), 3);
        #[cfg(feature = "shell")]
        assert_eq!(chosen(&["--archive", "-", "--include", "shop.orders", "--filter", "{_id: {$lt: 2}}"]), 3);
        refused(fixture, &["d", "--filter", "{}"], 2, "--filter is for one collection");
        refused(
            fixture,
            &["d", "--filter", "{", "--include", "shop.orders"],
            2,
            if cfg!(feature = "shell") { "--filter:" } else { "--filter is not Extended JSON" },
        );
        refused(fixture, &["d", "--include", "shop"], 2, "all of a database is shop.*");
        refused(
            fixture,
            &["d", "--include", "shop.ordres"],
            2,
            "--include shop.ordres: the store has no collection",
        );
        refused(fixture, &[], 2, "required");
        refused(fixture, &["d", "--archive", "-"], 2, "cannot be used with");
        assert!(!fixture.path("d").exists() && !fixture.path("d.partial").exists());
    });
}

#[test]
fn a_dump_is_replaced_if_it_is_wanted_and_nothing_else_is() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    dump(&fixture, &["d"]);
    refused(&fixture, &["d"], 2, "give --overwrite");
    std::fs::create_dir(fixture.path("d/gone")).unwrap();
    std::fs::write(fixture.path("d/gone/old.bson"), "").unwrap();
    dump(&fixture, &["d", "--overwrite"]);
    assert!(!fixture.path("d/gone").exists(), "of the old dump nothing stays");
    std::fs::write(fixture.path("d/shop/notes.txt"), "mine").unwrap();
    refused(&fixture, &["d", "--overwrite"], 2, "has more than a dump");
    assert_eq!(read(&fixture.path("d/shop/notes.txt")), b"mine");
    refused(&fixture, &["db", "--overwrite"], 2, "has more than a dump");
    std::fs::write(fixture.path("file"), "mine").unwrap();
    refused(&fixture, &["file", "--overwrite"], 2, "no directory");
    std::fs::create_dir(fixture.path("empty")).unwrap();
    dump(&fixture, &["empty"]);
    // What a killed process left is no obstacle; what is not a dump is none of ours.
    std::fs::create_dir_all(fixture.path("k.partial/shop")).unwrap();
    std::fs::write(fixture.path("k.partial/shop/orders.bson"), "x").unwrap();
    dump(&fixture, &["k"]);
    std::fs::create_dir_all(fixture.path("k.partial.replaced/shop")).unwrap();
    dump(&fixture, &["k", "--overwrite"]);
    std::fs::create_dir(fixture.path("l.partial")).unwrap();
    std::fs::write(fixture.path("l.partial/notes"), "mine").unwrap();
    refused(&fixture, &["l"], 1, "l.partial");
    assert_eq!(read(&fixture.path("l.partial/notes")), b"mine");
    refused(&fixture, &["absent/d"], 1, "absent/d.partial");
    dump(&fixture, &["--archive", "a"]);
    refused(&fixture, &["--archive", "a"], 2, "give --overwrite");
    assert_eq!(fixture.files(), ["a", "d", "empty", "file", "k", "l.partial"]);
}

#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
    let documents: Vec<_> = (0..64).map(|id| doc! { "_id": id, "text": "x".repeat(100_000) }).collect();
    crate::fixture::on_both(&documents, |fixture| {
        let mut child = fixture
            .run("dump", &["--archive", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 4];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            fixture.run("dump", &["--archive", "-"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
        complains(&output, 1, "standard output: No space left");
    });
}

#[test]
fn a_signal_leaves_no_half_of_a_dump() {
    let documents: Vec<_> = (0..64).map(|id| doc! { "_id": id, "text": "x".repeat(1_000_000) }).collect();
    crate::fixture::on_both(&documents, |fixture| {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut child = fixture
                .run("dump", &["--archive", "-", "--json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = child.stdout.take().unwrap();
            // The pipe is full now, or will be, and the command in the middle of the documents.
            out.read_exact(&mut [0; 4]).unwrap();
            send_and_wait(&child, signal);
            std::io::copy(&mut out, &mut std::io::sink()).unwrap();
            complains(&child.wait_with_output().unwrap(), status, "\"interrupted\":true");
        }
        assert_eq!(fixture.files(), [""; 0]);
    });
}

#[test]
fn users_are_dumped_from_folders_alone_and_if_it_is_said() {
    let mut fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let mut add = crate::fixture::cairn();
    add.args(["user", "add"]).arg(fixture.path("db")).arg("ada").stdin(Stdio::piped());
    let mut add = add.spawn().unwrap();
    std::io::Write::write_all(&mut add.stdin.take().unwrap(), b"secret\n").unwrap();
    assert!(add.wait().unwrap().success());
    dump(&fixture, &["without"]);
    assert!(!fixture.path("without/admin").exists());
    dump(&fixture, &["with", "--users"]);
    let bytes = read(&fixture.path("with/admin/system.users.bson"));
    let mut document = Vec::new();
    assert!(DocumentStream::new(&*bytes).next(&mut document).unwrap());
    let user = cairndb::bson::deserialize_from_slice::<Document>(&document).unwrap();
    assert_eq!(user.get_str("_id").ok(), Some("admin.ada"));
    fixture.serve();
    refused(&fixture, &["remote", "--users"], 2, "users are never read through a connection");
    assert!(!fixture.path("remote").exists());
}

#[test]
fn memory_does_not_grow_with_the_documents() {
    prints_in_little_memory("dump", &["--archive", "-"]);
}

/// Each is whole or refused, and what has the name is whole.
#[test]
fn dumps_that_race_for_a_name_leave_one_that_is_whole() {
    let documents: Vec<_> = (0..500).map(|id| doc! { "_id": id, "text": "x".repeat(1_000) }).collect();
    let fixture = Fixture::new(&documents, false);
    dump(&fixture, &["expected"]);
    let expected = of_directory(&fixture.path("expected"), "").0;
    for _ in 0..5 {
        let started: Vec<_> = (0..4)
            .map(|_| fixture.run("dump", &["d", "--overwrite"]).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        let ended: Vec<_> = started.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let told: Vec<_> = ended.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
        assert!(ended.iter().any(|output| output.status.success()), "{told:?}");
        assert!(told.iter().all(|told| !told.contains("panicked")), "{told:?}");
        assert_eq!(of_directory(&fixture.path("d"), "").0, expected, "{told:?}");
        assert_eq!(fixture.files(), ["d", "expected"], "{told:?}");
    }
}
