//! `verify`: what it counts, its report as data, and the checksums of files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    Client, Compression, ErrorKind, Finding, IndexModel, VerifyPhase, VerifyProgress, VerifyReport,
};
use cairndb_tests::files::{change, contents, is_table, newest_log};
use cairndb_tests::scratch::{Scratch, small};

use crate::Fixture;

/// The time that a write may need, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_report_counts_what_it_looked_at() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": [1, 2] }, doc! { "_id": 2 }]);
    fixture.client.database("test").create_collection("empty").run().unwrap();
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(by_a).run().unwrap();
    let report = fixture.client.verify().unwrap();
    assert_eq!((report.collections, report.documents, report.indexes, report.entries), (2, 2, 1, 3));
    let bytes =
        fixture.stored().into_iter().map(|stored| cairndb::bson::serialize_to_vec(&stored).unwrap().len());
    assert_eq!(report.document_bytes, bytes.sum::<usize>() as u64);
    assert!(report.is_clean() && report.findings_omitted == 0);
}

#[test]
fn a_report_is_machine_readable() {
    let report = Fixture::with([doc! { "_id": 1 }]).client.verify().unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<VerifyReport>(&text).unwrap(), report);
    let with_finding = text.replace(
        r#""findings":[]"#,
        r#""findings":[{"place":"test.things","index":null,"key":"00","problem":"the entry is missing"}]"#,
    );
    let report: VerifyReport = serde_json::from_str(&with_finding).unwrap();
    assert!(!report.is_clean());
    assert_eq!(report.findings[0].problem, "the entry is missing");
}

#[test]
fn verifying_does_not_disturb_writers() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for id in 0..2000 {
                fixture.things.insert_one(doc! { "_id": id }).run().expect("stored");
                fixture.things.delete_one(doc! { "_id": id - 50 }).run().expect("deleted");
            }
        });
        let mut looks = 0;
        while !writer.is_finished() || looks == 0 {
            fixture.verify_clean();
            looks += 1;
        }
        writer.join().unwrap();
    });
    assert_eq!(fixture.stored().len(), 50);
}

/// The locks that a verification holds while it reads are held while it says how far it is, too.
#[test]
fn no_writer_waits_for_any_phase_of_a_verification() {
    let scratch = with_tables(Compression::None);
    let client = scratch.open();
    let (ask, is_asked) = channel();
    let (done, is_done) = channel();
    let (mut phases, mut namespaces) = (Vec::new(), BTreeSet::new());
    std::thread::scope(|scope| {
        let app = client.database("app");
        scope.spawn(move || {
            for number in is_asked {
                for name in ["people", "things"] {
                    let collection = app.collection::<Document>(name);
                    collection.insert_one(doc! { "_id": format!("late {number}") }).run().expect("stored");
                }
                done.send(()).expect("it is waited for");
            }
        });
        let (told, in_collections) = (&mut phases, &mut namespaces);
        let tell = move |at: &VerifyProgress| {
            ask.send(told.len()).expect("the writer lives");
            is_done.recv_timeout(PATIENCE).expect("no writer waits for a verification");
            told.push(at.phase);
            in_collections.insert(at.namespace.clone());
        };
        let report = client.verification().progress(tell).run().expect("verified");
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(report.documents, 6_000, "of its snapshot");
    });
    for phase in [VerifyPhase::Documents, VerifyPhase::Entries, VerifyPhase::Files] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    // The collections in which documents and entries end, and none for the files.
    assert_eq!(namespaces.iter().collect::<Vec<_>>(), ["", "app.people", "app.things"]);
    let things = client.database("app").collection::<Document>("things");
    assert_eq!(things.count_documents(doc! {}).run().expect("counted"), 3_000 + phases.len() as u64);
}

/// A closed database with two collections, one of them with an index, whose documents are in tables.
fn with_tables(compression: Compression) -> Scratch {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().compression(compression));
    let app = client.database("app");
    app.collection::<Document>("people")
        .create_index(IndexModel::builder().keys(doc! { "n": 1 }).build())
        .run()
        .expect("done");
    for name in ["people", "things"] {
        let documents = (0..3000).map(|n| doc! { "_id": n, "n": n, "text": format!("{n:0200}") });
        app.collection(name).insert_many(documents).run().expect("done");
    }
    client.flush().expect("done");
    client.close().expect("done");
    scratch
}

/// Opened for reading only: a compaction would remove tables while they are read, which are then left out, and one that
/// meets a damaged table ends all writes.
fn undisturbed(scratch: &Scratch) -> Client {
    scratch.open_with(small().read_only(true))
}

fn tables(folder: &Path) -> Vec<(String, usize)> {
    let files = contents(folder).into_iter().map(|(name, bytes)| (name, bytes.len()));
    files.filter(|(name, _)| is_table(name)).collect()
}

fn findings_of_files(client: &Client) -> Vec<Finding> {
    let mut findings = client.verify().expect("done").findings;
    findings.retain(|finding| finding.file.is_some());
    findings
}

#[test]
fn files_are_read_and_counted() {
    let scratch = with_tables(Compression::Lz4ThenZstd);
    let client = undisturbed(&scratch);
    let report = client.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let bytes: usize = tables(&scratch.path()).iter().map(|(_, bytes)| bytes).sum();
    assert!(report.file_bytes >= bytes as u64, "{report:?}");
    assert!(report.files > tables(&scratch.path()).len() as u64);
}

/// A finding names the file and the block, and who depends on it.
#[test]
fn a_damaged_table_is_named_with_the_collection_that_depends_on_it() {
    let scratch = with_tables(Compression::None);
    let folder = scratch.path();
    let (largest, bytes) = tables(&folder).into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
    // The first half of the documents is of the one collection, the second of the other.
    for (at, place) in [(bytes / 4, "app.people"), (bytes * 3 / 4, "app.things")] {
        change(&folder, &largest, |bytes| bytes[at] ^= 1);
        let client = undisturbed(&scratch);
        let found = findings_of_files(&client);
        assert_eq!(found.len(), 1, "{found:?}");
        let finding = &found[0];
        assert_eq!(finding.place, place, "{finding:?}");
        assert!(finding.file.as_ref().unwrap().ends_with(&largest), "{finding:?}");
        let offset = finding.offset.unwrap();
        assert!((offset..offset + 40_000).contains(&(at as u64)), "{finding:?}");
        assert!(finding.problem.contains("checksum") && !finding.key.is_empty(), "{finding:?}");
        // Documents cannot be read to their end either, which is one more finding and no error, and what was read counts.
        let report = client.verify().unwrap();
        assert!(report.findings.iter().any(|finding| finding.place == "database"));
        assert_eq!((report.collections, report.indexes), (2, 1));
        assert!((1..6_000).contains(&report.documents), "{report:?}");
        client.close().unwrap();
        change(&folder, &largest, |bytes| bytes[at] ^= 1);
    }
    assert!(scratch.open().verify().unwrap().is_clean());
}

/// Nothing that a query reads is damaged here: RocksDB would find it at the next compaction, or never.
#[test]
fn damage_that_no_read_meets_is_found() {
    let scratch = with_tables(Compression::None);
    let folder = scratch.path();
    let client = scratch.open();
    let things = client.database("app").collection::<Document>("things");
    things.insert_one(doc! { "_id": "late" }).run().unwrap();
    let log = newest_log(&folder);
    things.insert_many((0..50).map(|n| doc! { "_id": format!("x{n}") })).run().unwrap();
    client.sync().unwrap();
    change(&folder, &log, |bytes| bytes[40] ^= 1);
    let found = findings_of_files(&client);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].file.as_ref().unwrap().ends_with(&log), "{found:?}");
    change(&folder, &log, |bytes| bytes[40] ^= 1);
    let manifest = cairndb_tests::files::manifest(&folder);
    change(&folder, &manifest, |bytes| bytes[40] ^= 1);
    let found = findings_of_files(&client);
    // Without the manifest a table that a compaction is writing cannot be distinguished from a damaged one.
    let is_manifest = |file: &std::path::PathBuf| file.ends_with(&manifest);
    assert!(found.iter().any(|found| found.file.as_ref().is_some_and(is_manifest)), "{found:?}");
}

#[test]
fn a_table_that_is_gone_is_named() {
    let scratch = with_tables(Compression::None);
    let client = undisturbed(&scratch);
    let (largest, _) = tables(&scratch.path()).into_iter().max_by_key(|(_, bytes)| *bytes).unwrap();
    std::fs::remove_file(scratch.path().join(&largest)).unwrap();
    let found = findings_of_files(&client);
    assert!(found.len() == 1 && found[0].file.as_ref().unwrap().ends_with(&largest), "{found:?}");
    assert!(found[0].problem.contains("missing"), "{found:?}");
}

#[test]
fn progress_goes_through_all_phases_to_their_ends() {
    let scratch = with_tables(Compression::None);
    let client = undisturbed(&scratch);
    let mut told = Vec::new();
    client.verification().progress(|at| told.push(at.clone())).run().unwrap();
    let last = |phase| told.iter().rev().find(|at| at.phase == phase).map(|at| (at.done, at.total)).unwrap();
    assert_eq!(last(VerifyPhase::Documents), (6000, 6000));
    assert_eq!(last(VerifyPhase::Entries), (3000, 3000));
    let (done, total) = last(VerifyPhase::Files);
    assert!(total - done < 1_000 && total > 10_000, "{done} of {total}");
    assert!(told.is_sorted_by_key(|at| at.phase as u8));
}

#[test]
fn a_bound_of_the_rate_is_kept() {
    let scratch = with_tables(Compression::None);
    let client = undisturbed(&scratch);
    let began = Instant::now();
    let bytes = client.verify().unwrap().file_bytes;
    let unbounded = began.elapsed();
    let began = Instant::now();
    let bounded = client.verification().bytes_per_second(2 * bytes).max_time(Duration::from_secs(60));
    bounded.run().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?} against {unbounded:?}", began.elapsed());
}

#[test]
fn closing_ends_a_slow_verification() {
    let scratch = with_tables(Compression::None);
    let client = undisturbed(&scratch);
    std::thread::scope(|scope| {
        let (told, wait) = std::sync::mpsc::channel();
        let verifier = client.clone();
        let slow = scope.spawn(move || {
            let tell = move |_: &_| told.send(()).unwrap_or_default();
            verifier.verification().bytes_per_second(1000).progress(tell).run()
        });
        wait.recv().unwrap();
        let began = Instant::now();
        client.clone().close().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let error = slow.join().unwrap().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}");
    });
}

#[test]
fn a_time_limit_ends_a_slow_verification() {
    let scratch = with_tables(Compression::None);
    let client = undisturbed(&scratch);
    let limited = client.verification().bytes_per_second(1000).max_time(Duration::from_millis(100)).run();
    assert_eq!(limited.unwrap_err().code(), Some(50));
}

/// Tables come and go under the reading: none of it is a finding.
#[test]
fn files_that_come_and_go_are_no_finding() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..60 {
                let documents = (0..100).map(|n| doc! { "_id": round * 100 + n, "text": "x".repeat(300) });
                fixture.things.insert_many(documents).run().expect("stored");
                fixture.things.delete_many(doc! { "_id": { "$lt": round * 50 } }).run().expect("deleted");
                fixture.client.flush().expect("flushed");
            }
        });
        let mut looks = 0;
        while !writer.is_finished() || looks == 0 {
            fixture.verify_clean();
            looks += 1;
        }
        writer.join().unwrap();
    });
}
