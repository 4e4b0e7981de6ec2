//! `cairn compact` as a process, on a folder and through a server.

use std::path::Path;
use std::process::Output;

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, IndexModel};

use crate::fixture::{Fixture, cairn, complains, number, report};

/// Documents whose texts no compression makes much shorter.
fn documents() -> Vec<Document> {
    let part = |seed: u64| format!("{:016x}", seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |n: u64| (1..=30).map(|at| part(n * 30 + at)).collect::<String>();
    (0_u32..4000).map(|n| doc! { "_id": n, "n": n % 7, "text": text(n.into()) }).collect()
}

/// A store in whose tables most documents of two collections were deleted.
fn filled() -> Fixture {
    let fixture = Fixture::new(&documents(), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let collection = |name: &str| -> Collection<Document> { client.database("shop").collection(name) };
    collection("others").insert_many(documents()).run().expect("it works");
    for name in ["orders", "others"] {
        let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
        collection(name).create_index(index).run().expect("it works");
    }
    // Into the last level. What is deleted then is not compacted with it before more is written.
    client.compact().run().expect("it works");
    for name in ["orders", "others"] {
        collection(name).delete_many(doc! { "_id": { "$gte": 10 } }).run().expect("it works");
    }
    client.close().expect("it works");
    fixture
}

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("compact", more).output().expect("it works")
}

fn table_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("it works").map(|entry| entry.expect("it works"));
    let tables = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "sst"));
    tables.map(|table| table.metadata().expect("it works").len()).sum()
}

/// On a folder and through a server: one collection, and then everything.
#[test]
fn a_collection_and_then_everything_give_their_room_back() {
    for is_served in [false, true] {
        let mut fixture = filled();
        if is_served {
            fixture.serve();
        }
        let one = report(&run(&fixture, &["shop.orders", "--json"]));
        assert!(number(&one, "bytesBefore") > 1 << 20, "{one}");
        assert!(number(&one, "bytesAfter") < 64 << 10, "{one}");
        assert_eq!(number(&one, "bytesFreed"), number(&one, "bytesBefore") - number(&one, "bytesAfter"));
        // Tables that both have keys in are written anew for both.
        let all = report(&run(&fixture, &["--json"]));
        assert!(number(&all, "bytesAfter") < 128 << 10, "{all}");
        if is_served {
            fixture.kill_in_order();
        }
        assert!(table_bytes(&fixture.path("db")) < 128 << 10);
        let verified = cairn().arg("verify").arg(fixture.path("db")).output().expect("it works");
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
        fixture.check(&["--projection", "{\"_id\": 1}", "--limit", "2"], "{\"_id\":0}\n{\"_id\":1}\n");
    }
}

#[test]
fn a_line_says_what_there_was_and_what_there_is() {
    let fixture = filled();
    let output = run(&fixture, &["shop.orders"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("compacted shop.orders: ") && told.contains("B of tables before, "), "{told}");
    assert!(run(&fixture, &["-q"]).stderr.is_empty());
}

#[test]
fn what_cannot_be_compacted_is_refused_by_its_name() {
    for is_served in [false, true] {
        let fixture = Fixture::new(&[doc! { "_id": 1 }], is_served);
        complains(&run(&fixture, &["shop.missing"]), 1, "shop.missing");
        complains(&run(&fixture, &["orders"]), 2, "\"orders\" is not a DB.COLLECTION");
        complains(&run(&fixture, &["shop."]), 2, "\"shop.\" is not a DB.COLLECTION");
    }
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let absent = fixture.path("absent");
    complains(&cairn().arg("compact").arg(&absent).output().expect("it works"), 6, "absent");
    assert!(!absent.exists(), "no folder is made");
}

#[test]
fn a_folder_that_another_process_has_open_is_not_compacted() {
    let mut fixture = filled();
    fixture.serve();
    let output = cairn().arg("compact").arg(fixture.path("db")).output().expect("it works");
    complains(&output, 5, "give the socket");
}

#[test]
fn a_server_that_only_reads_and_a_user_who_only_reads_compact_nothing() {
    let mut fixture = filled();
    fixture.serve_with(&["--read-only"]);
    complains(&run(&fixture, &["shop.orders"]), 1, "read-only");
    complains(&run(&fixture, &[]), 1, "read-only");
}
