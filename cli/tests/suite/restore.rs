//! `cairn restore` as a process, of dumps that `cairn dump` and mongodump wrote, into folders and servers.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, Timestamp, doc};
use cairndb::{Client, Collation, CollationStrength, Collection, IndexModel, IndexOptions};
use formats::dump::archive::{Checksum, Declared, Header, TERMINATOR, push_end, push_prelude, push_segment};

use crate::fixture::content::{Content, of_store};
use crate::fixture::dice::{self, Dice};
use crate::fixture::examples::{SOURCES, printed};
use crate::fixture::restoring::{are_same, dumped, fixtures, path, refused, restore, succeeds, target};
use crate::fixture::rich::fill;
use crate::fixture::{Fixture, anonymous_kibibytes, cairn, complains, mebibytes, read};

/// Every form, from a folder and from a server, into both: the stores are equal, and number on with the same values.
#[test]
fn a_restored_store_is_the_dumped_one() {
    for is_served in [false, true] {
        let mut source = Fixture::new(&[], false);
        fill(&source.path("db"));
        if is_served {
            source.serve();
        }
        let expected = dumped(&source);
        let forms: [&[&str]; 4] =
            [&["d"], &["z", "--gzip"], &["--archive", "a"], &["--archive", "b", "--gzip", "-j", "3"]];
        for form in forms {
            succeeds(&source.run("dump", form).output().unwrap());
        }
        for (at, form) in [&["d"][..], &["z", "-j", "3"], &["--archive", "a", "-j", "2"], &["--archive", "b"]]
            .into_iter()
            .enumerate()
        {
            let into_server = (at % 2 == 0) != is_served;
            let target = target(into_server);
            let mut command = target.run("restore", form);
            // The dumps are in the source's folder.
            succeeds(&command.arg("--verify").current_dir(source.folder.path()).output().unwrap());
            are_same(&dumped(&target), &expected);
        }
    }
}

#[test]
fn what_mongodump_wrote_is_restored() {
    let directory = fixtures("directory");
    let expected = of_mongodump(&directory);
    for is_served in [false, true] {
        for form in ["directory", "directory-gzip", "all.archive", "all.archive.gz"] {
            let target = target(is_served);
            let place = fixtures(form);
            let mut arguments = vec![path(&place), "--verify", "--json"];
            if form.starts_with("all") {
                arguments.insert(0, "--archive");
            }
            let output = restore(&target, &arguments);
            let report: Document = serde_json::from_slice(&output.stdout).unwrap();
            let count =
                |name: &str| report.get_i32(name).map(i64::from).or_else(|_| report.get_i64(name)).ok();
            assert_eq!(
                (count("collections"), count("documents"), count("indexes")),
                (Some(6), Some(383), Some(3))
            );
            let stored = dumped(&target);
            assert_eq!(stored.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            for (name, (documents, mut metadata)) in stored {
                let (own, described) = expected[&name].clone();
                assert!(documents == own, "{form} {name:?}");
                metadata.options.clear();
                let mut described = described;
                described.indexes.sort_by_key(|index| index.get_str("name").unwrap().to_owned());
                assert_eq!(metadata.indexes, described.indexes, "{form} {name:?}");
            }
        }
    }
}

fn of_mongodump(directory: &Path) -> Content {
    crate::fixture::content::of_directory(directory, "").0
}

#[test]
fn an_archive_that_is_cut_anywhere_is_refused_with_its_place() {
    let target = target(false);
    let archive = small_archive(&[("shop", "a", &[doc! { "_id": 1, "x": "yes" }]), ("shop", "b", &[])]);
    std::fs::write(target.path("whole"), &archive).unwrap();
    restore(&target, &["--archive", "whole", "--dry-run"]);
    for len in 0..archive.len() {
        std::fs::write(target.path("cut"), &archive[..len]).unwrap();
        let output = target.run("restore", &["--archive", "cut", "--dry-run"]).output().unwrap();
        complains(&output, 1, "byte ");
    }
    // Not by a dry run: what came before the cut is there, and the command has failed.
    std::fs::write(target.path("cut"), &archive[..archive.len() - 1]).unwrap();
    refused(&target, &["--archive", "cut"], 1, "byte ");
}

/// An archive with nothing but documents.
fn small_archive(collections: &[(&str, &str, &[Document])]) -> Vec<u8> {
    let declared = |(database, collection, _): &(&str, &str, &[Document])| Declared {
        database: (*database).to_owned(),
        collection: (*collection).to_owned(),
        metadata: "{\"options\":{},\"indexes\":[]}".to_owned(),
        kind: "collection".to_owned(),
    };
    let all: Vec<_> = collections.iter().map(declared).collect();
    archive_of(&all, &collections.iter().map(|(_, _, documents)| documents.to_vec()).collect::<Vec<_>>())
}

fn archive_of(declared: &[Declared], documents: &[Vec<Document>]) -> Vec<u8> {
    let header = Header { server_version: "7.0.0".into(), ..Header::default() };
    let mut out = Vec::new();
    push_prelude(&mut out, &header, declared).expect("it works");
    for (one, documents) in declared.iter().zip(documents) {
        let mut checksum = Checksum::default();
        for document in documents {
            let bytes = cairndb::bson::serialize_to_vec(document).expect("it works");
            push_segment(&mut out, &one.database, &one.collection);
            out.extend_from_slice(&bytes);
            out.extend_from_slice(&TERMINATOR);
            checksum.update(&bytes);
        }
        push_end(&mut out, &one.database, &one.collection, &checksum, None).expect("it works");
    }
    out
}

fn described(collection: &str, metadata: &str) -> Declared {
    Declared {
        database: "shop".into(),
        collection: collection.into(),
        metadata: metadata.into(),
        kind: "collection".into(),
    }
}

#[test]
fn what_the_store_refuses_is_named_and_the_rest_restored() {
    let metadata = r#"{"options":{"create":"other","storageEngine":{"a":1},"indexOptionDefaults":{"a":1},"validator":{"x":{"$gt":0}}},"indexes":[
        {"v":1,"key":{"_id":1},"name":"_id_","ns":"shop.a"},
        {"v":1,"key":{"x":1},"name":"x","ns":"shop.a","background":true},
        {"v":2,"key":{"t":"text"},"name":"words","weights":{"t":1}},
        {"v":2,"key":{"y":1},"name":"y","unique":true}]}"#;
    let documents =
        vec![doc! { "_id": 1, "x": 1, "y": 1 }, doc! { "_id": 2, "x": -1, "y": 1 }, doc! { "_id": 1 }];
    let archive = archive_of(&[described("a", metadata), described("system.js", "{}")], &[documents, vec![]]);
    for is_served in [false, true] {
        let target = target(is_served);
        std::fs::write(target.path("a"), &archive).unwrap();
        let output = target.run("restore", &["--archive", "a"]).output().unwrap();
        for words in [
            "option create: no collection has it",
            "option storageEngine",
            "option indexOptionDefaults",
            "index words",
            "index y",
            "shop.a, _id 1: E11000",
            "shop.system.js",
        ] {
            complains(&output, 3, words);
        }
        let stored = dumped(&target);
        let (documents, metadata) = &stored[&("shop".into(), "a".into())];
        assert_eq!(
            documents.len(),
            cairndb::bson::serialize_to_vec(&doc! { "_id": 1, "x": 1, "y": 1 }).unwrap().len() * 2
        );
        let names: Vec<_> = metadata.indexes.iter().map(|index| index.get_str("name").unwrap()).collect();
        assert_eq!(names, ["_id_", "x"]);
        assert!(metadata.options.contains_key("validator"), "it is not refused: {}", metadata.options);
    }
}

/// Several threads insert the documents of a dump; those of a capped collection keep their order all the same.
#[test]
fn a_capped_collection_keeps_its_limits_and_its_order() {
    for is_served in [false, true] {
        let mut source = Fixture::new(&[], false);
        let client = Client::open(source.path("db")).unwrap();
        let shop = client.database("shop");
        shop.create_collection("log").capped(true).size(64 << 20).max(30_000).run().unwrap();
        // Several batches, in an order that is not that of the `_id`s.
        let documents = (0..31_000_i64).map(|n| doc! { "_id": n * 7919 % 31_001, "text": "x".repeat(300) });
        shop.collection("log").insert_many(documents).run().unwrap();
        let ids = |client: &Client| -> Vec<i64> {
            let log = client.database("shop").collection::<Document>("log");
            log.find(doc! {}).run().unwrap().map(|one| one.unwrap().get_i64("_id").unwrap()).collect()
        };
        let expected = ids(&client);
        client.close().unwrap();
        if is_served {
            source.serve();
        }
        succeeds(&source.run("dump", &["d"]).output().unwrap());
        let target = target(false);
        let mut command = target.run("restore", &["d", "-j", "4"]);
        succeeds(&command.arg("--verify").current_dir(source.folder.path()).output().unwrap());
        let client = Client::open(target.path("db")).unwrap();
        assert_eq!(ids(&client), expected);
        let listed = client.database("shop").run_command(doc! { "listCollections": 1 }).run().unwrap();
        let options =
            listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap()[0].as_document();
        let options = options.unwrap().get_document("options").unwrap();
        assert_eq!(options, &doc! { "capped": true, "size": 64_i64 << 20, "max": 30_000_i64 });
        assert!(client.verify().unwrap().is_clean());
    }
}

/// Indexes and views inherit the collation of their collection, and `_id`s are told apart by their bytes.
#[test]
fn collations_come_back_with_what_has_them() {
    for is_served in [false, true] {
        let mut source = Fixture::new(&[], false);
        let client = Client::open(source.path("db")).unwrap();
        let shop = client.database("shop");
        let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
        shop.create_collection("words").collation(any_case.clone()).run().unwrap();
        shop.create_collection("shown").view_on("words").collation(any_case).run().unwrap();
        let words = shop.collection::<Document>("words");
        words.insert_many([doc! { "_id": "Ada", "w": "x" }, doc! { "_id": "ADA", "w": "Y" }]).run().unwrap();
        let by_language = IndexOptions::builder().unique(true).build();
        let by_bytes =
            IndexOptions::builder().collation(Collation::simple()).name("bytes".to_owned()).build();
        for options in [by_language, by_bytes] {
            words
                .create_index(IndexModel::builder().keys(doc! { "w": 1 }).options(options).build())
                .run()
                .unwrap();
        }
        client.close().unwrap();
        if is_served {
            source.serve();
        }
        succeeds(&source.run("dump", &["d"]).output().unwrap());
        let target = target(false);
        let mut command = target.run("restore", &["d"]);
        succeeds(&command.arg("--verify").current_dir(source.folder.path()).output().unwrap());
        let client = Client::open(target.path("db")).unwrap();
        let words = client.database("shop").collection::<Document>("words");
        assert_eq!(words.count_documents(doc! { "_id": "ada" }).run().unwrap(), 2);
        assert!(words.insert_one(doc! { "w": "X" }).run().unwrap_err().is_duplicate_key());
        let shown = client.database("shop").collection::<Document>("shown");
        assert_eq!(shown.count_documents(doc! { "w": "y" }).run().unwrap(), 1);
        let indexes = client.database("shop").run_command(doc! { "listIndexes": "words" }).run().unwrap();
        let indexes = indexes.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
        let collated: Vec<bool> =
            indexes.iter().map(|index| index.as_document().unwrap().contains_key("collation")).collect();
        assert_eq!(collated, [false, true, false], "the last one is by bytes in a collection that is not");
        assert!(client.verify().unwrap().is_clean());
    }
}

/// The clock takes the place of a timestamp of zero, as in MongoDB, so this document cannot come back.
#[test]
fn a_comparison_finds_what_is_not_the_same() {
    let empty = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    let planted = [
        (vec![doc! { "_id": 1, "stamp": empty }], "{}", "shop.a, _id 1: it is not the same as in the dump"),
        (vec![doc! { "_id": 1 }, doc! { "_id": 1 }], "{}", "1 document, and 2 in the dump"),
        (
            vec![],
            r#"{"cairndb":{"autoIncrement":[{"Field":"$n","snapshot":{"UsedUpTo":7}}]}}"#,
            "field $n: it is not an auto-increment field",
        ),
    ];
    for is_served in [false, true] {
        for (documents, metadata, words) in &planted {
            let target = target(is_served);
            std::fs::write(
                target.path("a"),
                archive_of(&[described("a", metadata)], std::slice::from_ref(documents)),
            )
            .unwrap();
            refused(&target, &["--archive", "a", "--verify"], 4, words);
        }
    }
}

#[test]
fn what_is_there_stays_unless_it_is_said() {
    let archive = small_archive(&[("shop", "orders", &[doc! { "_id": 1 }, doc! { "_id": 2 }])]);
    for is_served in [false, true] {
        let target = Fixture::new(&[doc! { "_id": 1, "mine": true }], is_served);
        std::fs::write(target.path("a"), &archive).unwrap();
        refused(
            &target,
            &["--archive", "a"],
            1,
            "shop.orders has documents: give --drop, or --into-existing",
        );
        target.check(&[], "{\"_id\":1,\"mine\":true}\n");
        refused(&target, &["--archive", "a", "--into-existing"], 3, "shop.orders, _id 1: E11000");
        target.check(&["--sort", "{\"_id\": 1}"], "{\"_id\":1,\"mine\":true}\n{\"_id\":2}\n");
        restore(&target, &["--archive", "a", "--rename", "shop.orders=shop.others"]);
        restore(&target, &["--archive", "a", "--drop"]);
        target.check(&[], "{\"_id\":1}\n{\"_id\":2}\n");
        refused(&target, &["--archive", "a", "--drop", "--into-existing"], 2, "cannot be used with");
        restore(&target, &["--archive", "a", "--drop", "--dry-run"]);
        target.check(&[], "{\"_id\":1}\n{\"_id\":2}\n");
    }
}

/// Dropping touches what is restored and nothing besides.
#[test]
fn options_choose_what_is_restored() {
    let source = Fixture::new(&[], false);
    fill(&source.path("db"));
    succeeds(&source.run("dump", &["d"]).output().unwrap());
    let dump = source.path("d");
    for is_served in [false, true] {
        let target = Fixture::new(&[doc! { "_id": "mine" }], is_served);
        restore(&target, &[path(&dump), "--include", "shop.*", "--exclude", "shop.o*", "--no-indexes"]);
        let names: Vec<_> = dumped(&target).into_keys().map(|(_, name)| name).collect();
        assert_eq!(names, ["again", "empty", "newest", "orders", "types"]);
        target.check(&[], "{\"_id\":\"mine\"}\n");
        restore(&target, &[path(&dump), "--drop", "--no-indexes", "--no-sequences"]);
        let stored = dumped(&target);
        let orders = &stored[&("shop".into(), "orders".into())].1;
        assert_eq!(orders.indexes.len(), 1);
        assert!(orders.options.contains_key("validator"));
        assert!(stored.values().all(|(_, metadata)| metadata.numbered.is_empty()));
        restore(&target, &[path(&dump), "--drop", "--verify"]);
        // Sequences are there now.
        refused(
            &target,
            &[path(&dump), "--include", "tickets.*"],
            1,
            "is there: give --drop, or --into-existing",
        );
        restore(&target, &[path(&dump), "--include", "tickets.*", "--into-existing"]);
        // A name that was mistyped, also one of a sequence that is not restored.
        for none in [
            &["--include", "shop.ordres", "--include", "a\\*.*"][..],
            &["--include", "tickets.*", "--no-sequences"],
        ] {
            let arguments = [&[path(&dump), "--into-existing"], none].concat();
            let words = format!("--include {}", none[1..].join(" "));
            refused(&target, &arguments, 2, words.trim_end_matches(" --no-sequences"));
        }
    }
}

#[test]
fn what_is_no_dump_is_refused_before_anything_is_made() {
    let target = target(false);
    let new = |name: &str, files: &[(&str, &[u8])]| {
        for (file, bytes) in files {
            let path = target.path(name).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    };
    let check = |name: &str, status: i32, words: &str| {
        let output =
            cairn().args(["restore", "made", name]).current_dir(target.folder.path()).output().unwrap();
        complains(&output, status, words);
        // Which files it would have passed over is no help then.
        assert!(!String::from_utf8_lossy(&output.stderr).contains("passed over"), "{name}");
        assert!(!target.path("made").exists(), "{name}");
    };
    check("absent", 1, "absent");
    new("nothing", &[]);
    std::fs::create_dir_all(target.path("nothing")).unwrap();
    check("nothing", 2, "nothing is not a dump: it has neither prelude.json nor");
    new("photos", &[("summer/a.jpg", b"x"), ("notes.txt", b"x")]);
    check("photos", 2, "photos is not a dump");
    check("db", 2, "is a store or a backup of one, and no dump: copy the folder");
    new("wrong", &[("shop/a.metadata.json", b"{\"indexes\":7}"), ("shop/a.bson", b"")]);
    check("wrong", 1, "indexes is not an array of documents");
    new("name", &[("shop/50%.bson", b"")]);
    check("name", 1, "shop/50% is not an escaped name");
    let short = formats::dump::names::file_name(&"x".repeat(300));
    new("short", &[(&format!("shop/{short}.bson"), b"")]);
    check("short", 1, "the name is shortened, and its metadata is missing");
    new("oplog", &[("oplog.bson", b"")]);
    check("oplog", 2, "dumps with an oplog are not supported");
    new("inner", &[("a.bson", b"")]);
    check("inner", 2, "give the directory above it");
    new("both", &[("shop/a.bson", b""), ("shop/a.bson.gz", b"")]);
    check("both", 1, "are of the same collection");
    new("later", &[("prelude.json", b"{\"cairndb\":{\"format\":2}}")]);
    check("later", 1, "has the format 2, and 1 is known");
    let twice = [
        ("shop/a.bson", &b""[..]),
        ("shop/b.bson", b""),
        ("shop/b.metadata.json", b"{\"collectionName\":\"a\"}"),
    ];
    new("twice", &twice);
    check("twice", 2, "shop.a and another collection would both be shop.a");
    std::fs::write(target.path("file"), b"x").unwrap();
    check("file", 2, "an archive is given by --archive file");
    let output = cairn()
        .args(["restore", "made", "--archive", "db"])
        .current_dir(target.folder.path())
        .output()
        .unwrap();
    complains(&output, 2, "db is a directory: leave out --archive");
    let output = cairn()
        .args(["restore", "made", "--archive", "file"])
        .current_dir(target.folder.path())
        .output()
        .unwrap();
    complains(&output, 1, "file, byte 0: this is not an archive of mongodump");
}

#[test]
fn damaged_files_are_refused_with_their_place() {
    let target = target(false);
    std::fs::create_dir_all(target.path("d/shop")).unwrap();
    let document = cairndb::bson::serialize_to_vec(&doc! { "_id": 1 }).unwrap();
    std::fs::write(target.path("d/shop/a.bson"), [&document[..], &document[..7]].concat()).unwrap();
    refused(&target, &["d"], 1, "d/shop/a.bson, byte 14: the file ends within a document");
    std::fs::write(target.path("d/shop/a.bson"), [&document[..], &[1, 0, 0, 0]].concat()).unwrap();
    refused(&target, &["d", "--drop"], 1, "d/shop/a.bson, byte 14: 1 is not the length of a document");
    std::fs::remove_file(target.path("d/shop/a.bson")).unwrap();
    std::fs::write(target.path("d/shop/a.bson.gz"), b"").unwrap();
    refused(&target, &["d", "--drop"], 1, "d/shop/a.bson.gz is empty, and not gzip");
    std::fs::write(
        target.path("d/shop/a.bson.gz"),
        &read(&fixtures("directory-gzip/shop/items.bson.gz"))[..200],
    )
    .unwrap();
    refused(&target, &["d", "--drop"], 1, "d/shop/a.bson.gz, byte ");
}

/// Names within a dump lead nowhere: collections are made in the store, and no file anywhere.
#[test]
fn hostile_names_of_a_dump_are_names_or_refused() {
    let target = target(false);
    let metadata = |name: &str| format!("{{\"collectionName\":\"{name}\"}}");
    std::fs::create_dir_all(target.path("d/shop")).unwrap();
    std::fs::write(target.path("d/shop/a.bson"), b"").unwrap();
    std::fs::write(target.path("d/shop/a.metadata.json"), metadata("../../../etc/passwd")).unwrap();
    let before = target.files();
    refused(&target, &["d"], 3, "etc/passwd");
    std::fs::write(target.path("d/shop/a.metadata.json"), metadata("x/../../etc")).unwrap();
    restore(&target, &["d"]);
    std::fs::write(target.path("d/shop/a.metadata.json"), metadata("a$b")).unwrap();
    refused(&target, &["d"], 3, "a$b");
    assert_eq!(target.files(), before);
    assert!(of_store(&target.path("db")).contains_key(&("shop".into(), "x/../../etc".into())));
}

#[test]
fn a_folder_in_use_is_told_so() {
    let target = target(false);
    std::fs::write(target.path("a"), small_archive(&[("shop", "a", &[])])).unwrap();
    let client = Client::open(target.path("db")).unwrap();
    refused(&target, &["--archive", "a"], 5, "is open in another process");
    client.close().unwrap();
}

/// Reads all but the end of 192 MiB, or of as many as are asked for, from a pipe and looks at the process then: whatever it collects, it has.
#[test]
fn memory_does_not_grow_with_the_dump() {
    let target = target(false);
    let text = "x".repeat(1 << 20);
    let document = |id: i32| doc! { "_id": id, "text": &text };
    let mut child = target
        .run("restore", &["--archive", "-", "-j", "2", "--memory", &(32_u32 << 20).to_string()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut send = |bytes: &[u8]| std::io::Write::write_all(&mut input, bytes).unwrap();
    let mut out = Vec::new();
    push_prelude(
        &mut out,
        &Header { server_version: "7".into(), ..Header::default() },
        &[described("a", "{}")],
    )
    .unwrap();
    push_segment(&mut out, "shop", "a");
    send(&out);
    let mut checksum = Checksum::default();
    for id in 0..mebibytes(192) {
        let bytes = cairndb::bson::serialize_to_vec(&document(id)).unwrap();
        checksum.update(&bytes);
        send(&bytes);
    }
    let kibibytes = anonymous_kibibytes(&child);
    out.clear();
    out.extend_from_slice(&TERMINATOR);
    push_end(&mut out, "shop", "a", &checksum, None).unwrap();
    send(&out);
    drop(input);
    succeeds(&child.wait_with_output().unwrap());
    assert!(kibibytes < (32 + 64) << 10, "{kibibytes} KiB");
}

/// Killed at random moments, and begun again with `--drop` until it ends: the store is that of an undisturbed run.
/// `CAIRNDB_RESTORE_KILLS` says how often, and `make tool KILLS=200` half as many in all.
#[test]
fn a_killed_restore_is_begun_again() {
    let kills = dice::kills("CAIRNDB_RESTORE_KILLS", 4, 6);
    let source = Fixture::new(&[], false);
    fill(&source.path("db"));
    let client = Client::open(source.path("db")).unwrap();
    let many: Collection<Document> = client.database("shop").collection("many");
    many.insert_many((0..20_000).map(|id| doc! { "_id": id, "x": id % 7 })).run().unwrap();
    client.close().unwrap();
    succeeds(&source.run("dump", &["--archive", "a"]).output().unwrap());
    let expected = dumped(&source);
    let archive = source.path("a");
    for (is_served, case) in [(false, "restore into a folder"), (true, "restore into a server")] {
        let mut dice = Dice::new(case);
        let target = target(is_served);
        let arguments = ["--archive", path(&archive), "--drop", "-j", "2"];
        let started = Instant::now();
        succeeds(&target.run("restore", &arguments).output().unwrap());
        // Some come after the end, which is a moment too.
        let reach = started.elapsed().as_micros() * 9 / 8;
        let mut deaths = 0;
        for kill in 1_u64.. {
            // That run may have been slower than all of these.
            if kill > kills && (deaths > 0 || started.elapsed() > Duration::from_secs(60)) {
                break;
            }
            let mut child = target.run("restore", &arguments).stderr(Stdio::null()).spawn().unwrap();
            let moment = Duration::from_micros(dice.below(u64::try_from(reach).unwrap()));
            deaths += u64::from(!ends_within(&mut child, moment));
            let _ = child.kill();
            child.wait().unwrap();
            // Now and then what a killed one left is looked at as it is: a whole store, with a part of the dump.
            if kill % 5 == 0 && !is_served {
                succeeds(&target.run("verify", &[]).output().unwrap());
            }
        }
        assert!(deaths > 0, "{case}: none of {kills} was killed within {reach} microseconds");
        restore(&target, &[&arguments[..], &["--verify"]].concat());
        are_same(&dumped(&target), &expected);
    }
}

/// Whether the process ends by itself within a time: there is no event to wait for.
fn ends_within(child: &mut std::process::Child, time: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < time {
        if child.try_wait().expect("it works").is_some() {
            return true;
        }
        std::thread::park_timeout(time.saturating_sub(started.elapsed()).min(Duration::from_millis(1)));
    }
    false
}

/// The lines of the page and of the help, in their order, run by a shell as they are printed; those that name a server
/// somewhere else are left out.
#[test]
fn examples_of_the_page_and_of_the_help_run_as_they_are_printed() {
    for source in SOURCES {
        // What is dumped is restored.
        let lines = ["dump", "restore"].map(|name| printed(source, name));
        let is_dump = |line: &&String| line.starts_with("cairn dump ");
        let (dumps, restores): (Vec<&String>, Vec<&String>) = lines.iter().flatten().partition(is_dump);
        assert!(dumps.len() >= 3 && restores.len() >= 3, "{lines:?}");
        let mut served = Fixture::new(&[doc! { "_id": 1, "total": 7 }], false);
        served.serve();
        let folder = Fixture::new(&[doc! { "_id": 1, "total": 30 }], false);
        std::fs::rename(folder.path("db"), folder.path("shop-data")).unwrap();
        std::os::unix::fs::symlink(served.path("s.sock"), folder.path("shop.sock")).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().unwrap();
        let search = format!("{}:{}", path(program), std::env::var("PATH").unwrap());
        for line in dumps.into_iter().chain(restores) {
            let mut shell = std::process::Command::new("sh");
            // What one example has made, the next may make as well.
            let line =
                line.replace("cairn restore other-data", "rm -rf other-data; cairn restore other-data");
            shell.args(["-ec", &line]).env("PATH", &search).current_dir(folder.folder.path());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn users_are_restored_into_folders_alone_and_if_it_is_said() {
    let source = target(false);
    let added = |fixture: &Fixture, name: &str| {
        let mut add = cairn();
        let mut add = add
            .args(["user", "add"])
            .arg(fixture.path("db"))
            .arg(name)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut add.stdin.take().unwrap(), format!("{name}'s secret\n").as_bytes())
            .unwrap();
        assert!(add.wait().unwrap().success());
    };
    let listed = |fixture: &Fixture| {
        let output = cairn().args(["user", "list"]).arg(fixture.path("db")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    added(&source, "ada");
    added(&source, "bob");
    succeeds(&source.run("dump", &["--archive", "a", "--users"]).output().unwrap());
    let archive = source.path("a");
    let target = target(false);
    refused(&target, &["--archive", path(&archive)], 3, "admin.system.users: users need --users");
    assert_eq!(listed(&target), "");
    restore(&target, &["--archive", path(&archive), "--users"]);
    assert_eq!(listed(&target), "ada root\nbob root\n");
    refused(&target, &["--archive", path(&archive), "--users"], 3, "there is a user \"ada\" already");
    restore(&target, &["--archive", path(&archive), "--users", "--drop"]);
    assert_eq!(listed(&target), "ada root\nbob root\n");
    let served = crate::fixture::restoring::target(true);
    refused(
        &served,
        &["--archive", path(&archive), "--users"],
        2,
        "users are never read through a connection",
    );
    // Passwords are what they were.
    let mut target = target;
    target.serve();
    std::fs::write(target.path("password"), "ada's secret\n").unwrap();
    let uri = format!("mongodb://ada@{}/", path(&target.path("s.sock")).replace('/', "%2F"));
    let log_in = |file: &str| {
        let mut dump = cairn();
        dump.args(["dump", &uri, "--archive", "-", "--password-file"])
            .arg(target.path(file))
            .output()
            .unwrap()
    };
    succeeds(&log_in("password"));
    std::fs::write(target.path("wrong"), "bob's secret\n").unwrap();
    complains(&log_in("wrong"), 1, "");
}
