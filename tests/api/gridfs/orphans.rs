//! Orphans: named and removed where an upload was killed, and never where one is running.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
use cairndb::{IndexModel, VerifyReport};
use cairndb_tests::race::SetWhenDropped;

use super::{Files, bucket, content, count, download};

const HOUR: Duration = Duration::from_secs(3600);

/// A chunk as a client of a server would have written it, `age` seconds ago.
fn chunk(files_id: impl Into<Bson>, n: i32, age: i64) -> Document {
    let seconds = cairndb::bson::DateTime::now().timestamp_millis() / 1000 - age;
    let mut id = ObjectId::new().bytes();
    // The first four bytes of an `ObjectId` are the second in which it was made.
    for (to, from) in id.iter_mut().zip(u32::try_from(seconds).expect("before 2106").to_be_bytes()) {
        *to = from;
    }
    let data = Binary { subtype: BinarySubtype::Generic, bytes: vec![1; 100] };
    doc! { "_id": ObjectId::from_bytes(id), "files_id": files_id.into(), "n": n, "data": data }
}

#[test]
fn verify_names_them_and_is_clean() {
    let files = Files::new();
    files.upload("whole", &content(1000), 100);
    for n in 0..3 {
        files.chunks().insert_one(chunk("killed", n, 7200 - i64::from(n))).run().expect("inserted");
    }
    let report = files.client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.orphans.len(), report.orphans_omitted), (1, 0));
    let orphans = &report.orphans[0];
    assert_eq!(
        (orphans.place.as_str(), orphans.files_id.as_str(), orphans.chunks),
        ("test.fs.chunks", "\"killed\"", 3)
    );
    assert!(orphans.bytes > 300 && orphans.newest.is_some());
    let found: Vec<_> =
        files.bucket.find_orphans().run().expect("searched").collect::<Result<_, _>>().expect("found");
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].id, found[0].chunks, found[0].newest), (&"killed".into(), 3, orphans.newest));
    let removed = files.bucket.remove_orphans(HOUR).run().expect("removed");
    assert_eq!((removed.uploads, removed.chunks), (1, 3));
    let report = files.client.verify().expect("verified");
    assert!(report.is_clean() && report.orphans.is_empty(), "{report:?}");
    assert_eq!(count(&files.chunks()), 10);
}

#[test]
fn the_young_and_the_ageless_stay() {
    let files = Files::new();
    files.upload("whole", b"x", 100);
    let chunks = files.chunks();
    // An upload is as old as its newest chunk.
    for document in
        [chunk("slow", 0, 90_000), chunk("slow", 1, 60), chunk("ahead", 0, -60), chunk("old", 0, 90_000)]
    {
        chunks.insert_one(document).run().expect("inserted");
    }
    let mut ageless = chunk("ageless", 0, 0);
    ageless.insert("_id", "a name");
    chunks.insert_one(ageless).run().expect("inserted");
    let found = |older_than| {
        let found = files.bucket.find_orphans().older_than(older_than).run().expect("searched");
        found.map(|orphan| orphan.expect("found").id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(Duration::ZERO), ["\"ageless\"", "\"ahead\"", "\"old\"", "\"slow\""]);
    assert_eq!(found(HOUR), ["\"old\""]);
    assert_eq!(files.bucket.remove_orphans(HOUR).run().expect("removed").chunks, 1);
    assert_eq!(files.bucket.remove_orphans(Duration::MAX).run().expect("removed").chunks, 0);
    assert_eq!(files.bucket.remove_orphans(Duration::ZERO).run().expect("removed").chunks, 4);
    assert_eq!(count(&chunks), 1);
}

#[test]
fn a_running_upload_is_no_orphan() {
    let files = Files::new();
    let mut upload = files.bucket.open_upload_stream("running").chunk_size_bytes(1000).run().expect("opened");
    upload.write_all(&content(50_000)).expect("written");
    upload.flush().expect("stored");
    assert_eq!(count(&files.chunks()), 50);
    assert!(files.client.verify().expect("verified").orphans.is_empty());
    assert_eq!(files.bucket.find_orphans().run().expect("searched").count(), 0);
    assert_eq!(bucket(&files.client, None).remove_orphans(Duration::ZERO).run().expect("removed").chunks, 0);
    upload.close().expect("closed");
    assert!(download(&files.bucket, upload.id().clone()).expect("read") == content(50_000));
}

/// The removal runs all the time, with no age to protect anything, beside uploads that end, are given up, and are deleted.
#[test]
fn no_upload_loses_a_chunk_to_a_removal_that_races_it() {
    let files = Files::new();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&ended);
        let removals = scope.spawn(|| {
            let (mut passes, mut orphans) = (0, 0);
            while !ended.load(Ordering::Relaxed) {
                passes += 1;
                orphans += files.bucket.remove_orphans(Duration::ZERO).run().expect("removed").chunks;
                let report = files.client.verify().expect("verified");
                assert!(report.is_clean(), "{report:?}");
                orphans += report.orphans.len() as u64;
                orphans += files.bucket.find_orphans().run().expect("searched").count() as u64;
            }
            (passes, orphans)
        });
        let uploads: Vec<_> = (0..4_usize)
            .map(|thread| {
                let files = &files;
                scope.spawn(move || upload_and_remove(files, thread))
            })
            .collect();
        for upload in uploads {
            upload.join().expect("no panic");
        }
        ended.store(true, Ordering::Relaxed);
        let (passes, orphans) = removals.join().expect("no panic");
        // A delete removes the document first, so between its two steps verify may see chunks without one: they have a claim.
        assert!(passes > 0);
        assert_eq!(orphans, 0, "an upload was taken for an orphan");
    });
    for file in files.bucket.find(doc! {}).run().expect("found") {
        let file = file.expect("a file");
        assert_eq!(download(&files.bucket, file.id).expect("whole").len() as u64, file.length);
    }
    assert_eq!(files.bucket.find_orphans().run().expect("searched").count(), 0);
}

/// One of the threads of the test above.
fn upload_and_remove(files: &Files, thread: usize) {
    for round in 0..40_usize {
        let content = content(3000 + 100 * thread + round);
        let mut upload =
            files.bucket.open_upload_stream("raced").chunk_size_bytes(100).run().expect("opened");
        for piece in content.chunks(500) {
            upload.write_all(piece).expect("written");
            // Each piece is stored by itself, so that the upload is seen unfinished again and again.
            upload.flush().expect("stored");
        }
        // Given up.
        if round % 4 == 0 {
            continue;
        }
        upload.close().expect("closed");
        assert!(download(&files.bucket, upload.id().clone()).expect("read") == content);
        if round % 4 == 1 {
            files.bucket.delete(upload.id().clone()).run().expect("deleted");
        }
    }
}

#[test]
fn collections_that_are_no_bucket_have_no_orphans() {
    let files = Files::new();
    let database = files.client.database("test");
    for name in ["pine.chunks", "chunks", "fs.chunks.old"] {
        database
            .collection::<Document>(name)
            .insert_one(doc! { "files_id": 1, "n": 0 })
            .run()
            .expect("inserted");
    }
    assert!(files.client.verify().expect("verified").orphans.is_empty());
    // With the index it is one, even without a collection of files.
    let model = IndexModel::builder().keys(doc! { "files_id": 1, "n": 1.0 }).build();
    database.collection::<Document>("pine.chunks").create_index(model).run().expect("made");
    assert_eq!(files.client.verify().expect("verified").orphans.len(), 1);
}

#[test]
fn the_report_is_bounded() {
    let files = Files::new();
    files.upload("a", b"x", 10);
    let long = "x".repeat(100_000);
    // Two that differ at their ends only, each with two chunks.
    for (end, n) in [("a", 0), ("a", 1), ("b", 0), ("b", 1)] {
        files.chunks().insert_one(chunk(format!("{long}{end}"), n, 0)).run().expect("inserted");
    }
    let long: Vec<_> =
        files.client.verify().expect("verified").orphans.into_iter().map(|found| found.chunks).collect();
    assert_eq!(long, [2, 2]);
    files.chunks().insert_many((0..1500).map(|file| chunk(file, 0, 0))).run().expect("inserted");
    let report = files.client.verify().expect("verified");
    assert_eq!((report.orphans.len(), report.orphans_omitted), (VerifyReport::FINDINGS_MAX, 502));
    assert!(report.orphans.iter().all(|orphans| orphans.files_id.len() < 500));
    let text = serde_json::to_string(&report).expect("printed");
    assert_eq!(serde_json::from_str::<VerifyReport>(&text).expect("read"), report);
    assert_eq!(files.bucket.remove_orphans(Duration::ZERO).run().expect("removed").uploads, 1502);
}

#[test]
fn a_backup_takes_them_along() {
    let files = Files::new();
    files.upload("a", b"x", 10);
    files.chunks().insert_one(chunk("killed", 0, 0)).run().expect("inserted");
    let copy = files.scratch.folder().join("copy");
    assert_eq!(files.client.backup(copy).expect("copied").verified.orphans.len(), 1);
}

#[test]
fn a_killed_upload_leaves_orphans_and_no_file() {
    let files = Files::new();
    let whole = files.upload("whole", &content(10_000), 1000);
    let mut upload = files.bucket.open_upload_stream("killed").chunk_size_bytes(1000).run().expect("opened");
    upload.write_all(&content(10_000)).expect("written");
    upload.flush().expect("stored");
    let killed = files.scratch.killed();
    drop(upload);
    assert!(files.client.verify().expect("verified").orphans.is_empty());
    let client = killed.open();
    let report = client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.orphans.len(), report.orphans[0].chunks), (1, 10));
    let left = bucket(&client, None);
    assert_eq!(left.find(doc! {}).run().expect("found").count(), 1);
    assert_eq!(left.remove_orphans(Duration::ZERO).run().expect("removed").chunks, 10);
    assert!(download(&left, whole).expect("read") == content(10_000));
}
