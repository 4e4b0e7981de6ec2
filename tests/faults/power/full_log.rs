//! The log of changes on a disk that is full and gets room again: the same streams go on, show every write that is there and none
//! that was rejected, and the log keeps to its limits.

use std::fs;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, Timestamp, doc};
use cairndb::{ChangeStream, ChangeStreamEvent, Client, StoreState};
use cairndb_tests::race::wait_until;
use cairndb_tests::scratch::things;

use crate::power::full::{
    Filled, PATIENCE, Small, audit, fill_from_outside, go_on, is_full, options, padding,
};
use crate::power::say;

/// Writes until another program's file leaves a commit no room, which is one with a token or not, makes room, and writes on.
fn fill_and_go_on(client: &Client, small: &Small, with_token: bool) -> Filled {
    let mut filled = Filled::default();
    let mut without_answer = Vec::new();
    let tokened = |id: i64| {
        let document = doc! { "_id": id, "padding": padding(id) };
        things(client).insert_one(document).exactly_once(format!("thing {id}")).run()
    };
    let mut insert = |id: i64| {
        let document = doc! { "_id": id, "padding": padding(id) };
        let done = if id % 2 == 0 { things(client).insert_one(document).run() } else { tokened(id) };
        match done {
            Ok(_) => {
                filled.acknowledged.push(id);
                false
            }
            Err(error) => {
                is_full(&error);
                filled.refused += 1;
                without_answer.push(id);
                error.is_commit_unknown()
            }
        }
    };
    assert!(!(0..200).any(&mut insert), "there is room");
    fill_from_outside(small);
    let first = if with_token { 201 } else { 200 };
    assert!((first..100_000).step_by(2).any(insert), "no commit has met the full disk");
    assert_eq!(client.metrics().expect("open").state, StoreState::Full);
    fs::remove_file(small.ballast()).expect("removed");
    go_on(client, &mut filled);
    assert_eq!(client.metrics().expect("open").state, StoreState::Open);
    // Made again, each call with a token happens once.
    for id in without_answer.into_iter().filter(|id| id % 2 != 0) {
        let (first, second) = (tokened(id).expect("there is room"), tokened(id).expect("there is room"));
        assert!(second.was_replayed && first.inserted_id == second.inserted_id, "{first:?} {second:?}");
        filled.acknowledged.push(id);
    }
    filled
}

fn stored(client: &Client) -> Vec<i64> {
    let found = things(client).find(doc! {}).sort(doc! { "_id": 1 }).run().expect("reads go on");
    found.map(|document| document.expect("whole").get_i64("_id").expect("an id")).collect()
}

/// The ids of the next inserts, in the order of their events.
#[track_caller]
fn shown(stream: &mut ChangeStream<ChangeStreamEvent<Document>>, count: usize) -> Vec<i64> {
    let (began, mut ids) = (Instant::now(), Vec::new());
    while ids.len() < count {
        assert!(began.elapsed() < PATIENCE, "the stream ends after {} of {count}", ids.len());
        if let Some(event) = stream.next_if_any().expect("it goes on") {
            ids.push(event.document_key.expect("of an insert").get_i64("_id").expect("an id"));
        }
    }
    ids
}

fn from(client: &Client, time: Timestamp) -> ChangeStream<ChangeStreamEvent<Document>> {
    let things = things(client);
    let watch = things.watch().start_at_operation_time(time);
    watch.max_await_time(Duration::from_millis(100)).run().expect("opened")
}

/// It waited for the write that had met the full disk until the store was opened again.
#[test]
fn a_stream_goes_on_once_there_is_room() {
    let Some(small) = Small::memory(64) else { return say("skipped: no mount (streams on a full disk)") };
    for is_journaled in [false, true] {
        let client = options(is_journaled).open(small.path()).expect("made");
        drop(things(&client).watch().run().expect("the log is switched on"));
        let began = client.operation_time().expect("open");
        let mut stream = from(&client, began);
        let filled = fill_and_go_on(&client, &small, is_journaled);
        audit(&client, &filled);
        let stored = stored(&client);
        let order = shown(&mut stream, stored.len());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, stored, "what is there was shown once, and nothing else");
        assert!(stream.next_if_any().expect("it goes on").is_none());
        assert!(client.operation_time().expect("open") > began);
        // The log in which writes were cut short is not read again: a kill brings nothing back that was passed.
        let killed = small.killed();
        let copy = options(is_journaled).open(killed.path()).expect("opened");
        audit(&copy, &filled);
        assert_eq!(shown(&mut from(&copy, began), order.len()), order, "another life shows the same");
        assert!(copy.verify().expect("a report").is_clean());
        copy.close().expect("closed");
        drop(stream);
        client.close().expect("closed");
        fs::remove_dir_all(small.path()).expect("removed");
    }
}

/// Nothing was forgotten any more until the store was opened again.
#[test]
fn the_log_is_shortened_again_once_there_is_room() {
    let Some(small) = Small::memory(64) else { return say("skipped: no mount (the log on a full disk)") };
    let limit = 1 << 20;
    let client = options(false).change_log_bytes_max(limit).open(small.path()).expect("made");
    drop(things(&client).watch().run().expect("opened"));
    let mut filled = fill_and_go_on(&client, &small, true);
    // More than the limit, all of it after what was rejected.
    for id in -1000..0 {
        let document = doc! { "_id": id, "padding": padding(id) };
        things(&client).insert_one(document).run().expect("there is room");
        filled.acknowledged.push(id);
    }
    wait_until(|| client.metrics().expect("open").change_log.bytes <= 2 * limit);
    audit(&client, &filled);
    client.close().expect("closed");
}
