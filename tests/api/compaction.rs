//! `compact`: the room of what was deleted comes back, whatever goes on beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{CancellationToken, Client, Collection, CompactionReport, ErrorKind, IndexModel};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{small, things};

use crate::{Fixture, all, refused, verify_clean};

/// Documents whose texts no compression makes much shorter.
fn documents(count: u32) -> impl Iterator<Item = Document> {
    let part = |seed: u64| format!("{:016x}", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..count).map(move |id| {
        let text: String = (1..=30).map(|at| part(u64::from(id) * 30 + at)).collect();
        doc! { "_id": id, "n": id % 97, "text": text }
    })
}

/// A store with 10,000 documents in tables, of nearly 3 MiB, and an index over one of their fields.
fn filled() -> Fixture {
    let fixture = Fixture::with(documents(10_000));
    fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    // Into the last level, where what is deleted later stays until it is compacted.
    fixture.client.compact().run().expect("compacted");
    fixture
}

fn others(client: &Client) -> Collection<Document> {
    client.database("test").collection("others")
}

#[test]
fn what_was_deleted_is_free_and_the_rest_is_as_it_was() {
    let fixture = filled();
    others(&fixture.client).insert_many(documents(500)).run().unwrap();
    fixture.things.delete_many(doc! { "_id": { "$gte": 1000 } }).run().unwrap();
    let report = fixture.things.compact().run().unwrap();
    assert!(report.bytes_before > 2 << 20, "{report:?}");
    assert!(report.bytes_after < report.bytes_before / 5, "{report:?}");
    assert_eq!(report.bytes_freed(), report.bytes_before - report.bytes_after);
    assert_eq!(fixture.stored(), documents(1000).collect::<Vec<_>>());
    assert_eq!(all(&others(&fixture.client)), documents(500).collect::<Vec<_>>());
    assert_eq!(fixture.things.count_documents(doc! { "n": 5 }).run().unwrap(), 11);
    fixture.verify_clean();
}

#[test]
fn the_room_of_what_was_dropped_is_free_once_everything_is_compacted() {
    let fixture = filled();
    others(&fixture.client).insert_many(documents(500)).run().unwrap();
    fixture.things.drop().run().unwrap();
    let report = fixture.client.compact().run().unwrap();
    assert!(report.bytes_before > 2 << 20 && report.bytes_after < 512 << 10, "{report:?}");
    let tables = fixture.client.metrics().unwrap().storage.table_bytes;
    assert_eq!(tables, report.bytes_after);
    // There is nothing more to free.
    let again = fixture.client.compact().run().unwrap();
    assert_eq!(again.bytes_before, report.bytes_after);
    assert_eq!(all(&others(&fixture.client)), documents(500).collect::<Vec<_>>());
    fixture.verify_clean();
}

#[test]
fn an_empty_store_and_an_empty_collection_have_nothing_to_free() {
    let fixture = Fixture::new();
    fixture.client.compact().run().unwrap();
    fixture.client.database("test").create_collection("things").run().unwrap();
    let report = fixture.things.compact().run().unwrap();
    assert_eq!(report.bytes_after, 0);
    assert_eq!(report, serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap());
    assert_eq!(serde_json::to_value(report).unwrap().get("bytesAfter"), Some(&serde_json::json!(0)));
}

#[test]
fn a_cursor_keeps_what_it_may_return_and_it_is_free_after_its_end() {
    let fixture = filled();
    let mut cursor = fixture.things.find(doc! {}).run().unwrap();
    assert!(cursor.advance().unwrap());
    fixture.things.delete_many(doc! {}).run().unwrap();
    let kept = fixture.things.compact().run().unwrap();
    assert!(kept.bytes_after > 2 << 20, "{kept:?}");
    let mut count = 1;
    while cursor.advance().unwrap() {
        count += 1;
    }
    assert_eq!(count, 10_000);
    drop(cursor);
    let free = fixture.things.compact().run().unwrap();
    assert!(free.bytes_after < 64 << 10, "{free:?}");
    fixture.verify_clean();
}

#[test]
fn writers_and_index_builds_go_on_beside_compactions() {
    let fixture = filled();
    let is_over = AtomicBool::new(false);
    let compactions = std::thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        let compacting = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let report = if count % 2 == 0 { fixture.client.compact() } else { fixture.things.compact() };
                let _: CompactionReport = report.run().expect("compacted");
                count += 1;
            }
            count
        });
        for round in 0..6 {
            let from = 1000 * round;
            let gone = doc! { "_id": { "$gte": from, "$lt": from + 500 } };
            assert_eq!(fixture.things.delete_many(gone).run().unwrap().deleted_count, 500);
            let late = (0..500).map(|id| doc! { "_id": 100_000 + from + id, "n": id, "text": "late" });
            fixture.things.insert_many(late).run().unwrap();
            let keys = doc! { format!("m{round}"): 1, "n": 1, "_id": -1 };
            fixture.things.create_index(IndexModel::builder().keys(keys).build()).run().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        compacting.join().expect("no panic")
    });
    assert!(compactions > 0);
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), 10_000);
    fixture.verify_clean();
}

#[test]
fn progress_goes_to_its_end_and_a_compaction_can_be_ended() {
    let fixture = filled();
    let mut told = Vec::new();
    fixture.things.compact().progress(|at| told.push(*at)).run().unwrap();
    assert!(told.first().is_some_and(|at| at.done == 0 && at.total > 2 << 20), "{told:?}");
    assert!(told.last().is_some_and(|at| at.done == at.total), "{told:?}");
    assert!(told.is_sorted_by_key(|at| at.done), "{told:?}");

    let token = CancellationToken::new();
    let client = fixture.client.with_cancellation(&token);
    refused(client.compact().progress(|_| token.cancel()).run(), 11_601, "interrupted");
    refused(fixture.client.compact().max_time(Duration::from_nanos(1)).run(), 50, "time limit");
    refused(fixture.things.compact().max_time(Duration::from_nanos(1)).run(), 50, "time limit");
    fixture.verify_clean();
}

#[test]
fn a_closed_client_and_one_that_only_reads_compact_nothing() {
    let fixture = filled();
    let copy = fixture.scratch.folder().join("copy");
    fixture.client.backup(&copy).unwrap();
    let reader = small().read_only(true).open(&copy).unwrap();
    for refused in [reader.compact().run(), things(&reader).compact().run()] {
        assert!(refused.is_err_and(|error| matches!(error.kind(), ErrorKind::ReadOnly)));
    }
    let other = fixture.client.clone();
    fixture.client.close().unwrap();
    assert!(other.compact().run().is_err_and(|error| matches!(error.kind(), ErrorKind::Closed)));
}

#[test]
fn the_command_tells_what_was_freed() {
    let fixture = filled();
    let (test, admin) = (fixture.client.database("test"), fixture.client.database("admin"));
    fixture.things.delete_many(doc! { "_id": { "$gte": 100 } }).run().unwrap();
    let reply =
        test.run_command(doc! { "compact": "things", "force": true, "maxTimeMS": 60_000 }).run().unwrap();
    let number = |name: &str| reply.get_i64(name).unwrap();
    assert_eq!(number("bytesFreed"), number("bytesBefore") - number("bytesAfter"));
    assert!(number("bytesFreed") > 2 << 20 && reply.get_f64("ok").is_ok(), "{reply}");
    let whole = admin.run_command(doc! { "compact": 1 }).run().unwrap();
    assert!(whole.get_i64("bytesBefore").unwrap() > 0, "{whole}");
    verify_clean(&fixture.client);
}

#[test]
fn a_command_that_cannot_be_meant_is_refused() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let test = fixture.client.database("test");
    test.create_collection("seen").view_on("things".to_owned()).run().unwrap();
    let run = |command: Document| test.run_command(command).run();
    refused(run(doc! { "compact": "missing" }), 26, "test.missing");
    refused(run(doc! { "compact": "seen" }), 166, "test.seen");
    refused(run(doc! { "compact": 1 }), 13, "admin");
    refused(run(doc! { "compact": 2 }), 73, "compact");
    refused(run(doc! { "compact": "things", "dryRun": true }), 238, "dryRun");
    refused(run(doc! { "compact": "things", "freeSpaceTargetMB": 20 }), 238, "freeSpaceTargetMB");
    refused(run(doc! { "compact": "things", "wanted": 1 }), 40_415, "wanted");
    refused(run(doc! { "compact": "things", "force": "yes" }), 14, "force");
    refused(fixture.client.database("test").collection::<Document>("").compact().run(), 73, "");
}
