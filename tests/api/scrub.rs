//! The scrub: it finds damage by itself, is in no way of readers and writers, and ends with the client.

use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Client, ErrorKind, ScrubStatus};
use cairndb_tests::files::{change, contents, is_table};
use cairndb_tests::race::pause;
use cairndb_tests::scratch::{Scratch, small};

const FAST: u64 = 1 << 30;

/// A closed database with a table of some hundred kilobytes.
fn victim() -> Scratch {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().compression(cairndb::Compression::None));
    let things = client.database("app").collection::<Document>("things");
    let documents = (0..2000).map(|n| doc! { "_id": n, "text": format!("{n:0200}") });
    things.insert_many(documents).run().expect("stored");
    client.flush().expect("flushed");
    client.close().expect("closed");
    scratch
}

/// The first status that is as it should be.
#[track_caller]
fn status(client: &Client, is_right: impl Fn(&ScrubStatus) -> bool) -> ScrubStatus {
    let began = Instant::now();
    loop {
        let status = client.scrub_status();
        if is_right(&status) {
            return status;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{status:?}");
        pause();
    }
}

#[test]
fn a_scrub_reads_every_file_and_finds_nothing_in_a_whole_database() {
    let scratch = victim();
    let client = scratch.open_with(small().read_only(true).scrub(FAST));
    let status = status(&client, |status| status.passes > 0);
    assert!(status.findings.is_empty() && status.finished_at.is_some() && status.files > 0, "{status:?}");
    let tables = contents(&scratch.path()).into_iter().filter(|(name, _)| is_table(name));
    let bytes: usize = tables.map(|(_, bytes)| bytes.len()).sum();
    // All but the footers.
    assert!(status.bytes + 1000 > bytes as u64, "{status:?} of {bytes}");
}

#[test]
fn a_scrub_tells_of_damage_with_the_file_and_the_collection() {
    let scratch = victim();
    let tables = contents(&scratch.path()).into_iter().filter(|(name, _)| is_table(name));
    let (name, bytes) = tables.max_by_key(|(_, bytes)| bytes.len()).expect("a table");
    change(&scratch.path(), &name, |content| content[bytes.len() / 2] ^= 1);
    let client = scratch.open_with(small().read_only(true).scrub(FAST));
    let found = status(&client, |status| status.passes > 0).findings;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].place == "app.things" && found[0].file.as_ref().unwrap().ends_with(&name), "{found:?}");
    let verified = client.verify().unwrap().findings;
    assert!(verified.contains(&found[0]), "{verified:?}");
}

#[test]
fn the_metrics_tell_of_the_scrub() {
    let scratch = victim();
    assert_eq!(scratch.open().metrics().unwrap().scrub, None);
    let tables = contents(&scratch.path()).into_iter().filter(|(name, _)| is_table(name));
    let (name, bytes) = tables.max_by_key(|(_, bytes)| bytes.len()).expect("a table");
    change(&scratch.path(), &name, |content| content[bytes.len() / 2] ^= 1);
    // So slow that the first pass does not end.
    let client = scratch.open_with(small().read_only(true).scrub(1000));
    status(&client, |status| status.bytes > 0);
    let before = client.metrics().unwrap().scrub.expect("there is a scrub");
    assert_eq!((before.passes, before.files, before.finished_at), (0, 0, None));
    client.close().unwrap();
    let client = scratch.open_with(small().read_only(true).scrub(FAST));
    let status = status(&client, |status| status.passes > 0);
    let after = client.metrics().unwrap().scrub.expect("there is a scrub");
    assert_eq!((after.passes, after.findings), (1, 1));
    assert!(after.bytes_read > before.bytes_read);
    assert_eq!(
        (after.bytes_read, after.files, after.finished_at),
        (status.bytes, status.files, status.finished_at)
    );
}

#[test]
fn closing_ends_a_slow_scrub_at_once() {
    let scratch = victim();
    let client = scratch.open_with(small().scrub(1));
    let began = Instant::now();
    client.close().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let client = scratch.open_with(small().scrub(1000));
    status(&client, |status| status.bytes > 0);
    let began = Instant::now();
    drop(client);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn there_is_no_scrub_that_was_not_asked_for() {
    let scratch = victim();
    let client = scratch.open();
    assert_eq!(client.scrub_status(), ScrubStatus::default());
    client.close().unwrap();
    let refused = small().scrub(0).open(scratch.path()).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }), "{refused}");
    small().scrub(None).open(scratch.path()).unwrap().close().unwrap();
}

#[test]
fn a_scrub_beside_writers_and_compactions_finds_nothing() {
    let scratch = Scratch::new();
    for _ in 0..3 {
        let client = scratch.open_with(small().scrub(FAST));
        let things = client.database("app").collection::<Document>("things");
        for round in 0..20 {
            let documents = (0..100).map(|n| doc! { "_id": round * 100 + n, "text": "x".repeat(300) });
            things.insert_many(documents).run().unwrap();
            client.flush().unwrap();
        }
        things.delete_many(doc! {}).run().unwrap();
        let status = status(&client, |status| status.passes > 0);
        assert!(status.findings.is_empty(), "{status:?}");
        client.close().unwrap();
    }
}
