//! Places in the log of changes that are not there: ahead of the clock, forgotten, or of no token. And how far streams are behind.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, Timestamp, deserialize_from_document, doc, serialize_to_document};
use cairndb::{Collection, Durability, Error, LiveChange, NON_RESUMABLE_CHANGE_STREAM_ERROR, ResumeToken};
use cairndb_tests::race::{pause, wait_until};
use cairndb_tests::scratch::{Scratch, small};

use crate::Fixture;
use crate::change_streams::{next, orders, watch};

/// The digits of a token, as they are stored: version, position, ordinal, kind and the log, two for each byte.
fn digits(token: &ResumeToken) -> String {
    let stored = serialize_to_document(token).expect("stored");
    stored.get_str("_data").expect("a text").to_owned()
}

fn token_of(digits: &str) -> ResumeToken {
    deserialize_from_document(doc! { "_data": digits }).expect("a text")
}

/// A token with other digits from a place on.
fn altered(token: &ResumeToken, at: usize, with: &str) -> ResumeToken {
    let mut digits = digits(token);
    digits.replace_range(at..at + with.len(), with);
    token_of(&digits)
}

#[track_caller]
fn is_lost(error: &Error) {
    assert_eq!(error.code(), Some(286), "{error}");
    assert!(error.contains_label(NON_RESUMABLE_CHANGE_STREAM_ERROR), "{error:?}");
}

/// Resumes by a token in both ways.
fn resumed(orders: &Collection<Document>, token: &ResumeToken) -> [cairndb::Result<()>; 2] {
    let (resumed, started) =
        (orders.watch().resume_after(token.clone()), orders.watch().start_after(token.clone()));
    [resumed.run().map(drop), started.run().map(drop)]
}

#[test]
fn a_place_ahead_of_the_clock_is_lost_and_moves_no_clock() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let event = next(&mut stream);
    // Years ahead, and the last position of all.
    for position in ["F", "FFFFFFFFFFFFFFFF"] {
        for token in [&event.id, &stream.resume_token().expect("a token")] {
            for refused in resumed(&orders, &altered(token, 2, position)) {
                is_lost(&refused.expect_err("ahead of the clock"));
            }
        }
    }
    let time = event.cluster_time.expect("a time");
    for ahead in [
        Timestamp { time: time.time + 3600, increment: 0 },
        Timestamp { time: u32::MAX, increment: u32::MAX },
    ] {
        let refused = orders.watch().start_at_operation_time(ahead).run().map(drop);
        is_lost(&refused.expect_err("ahead of the clock"));
    }
    // The clock is not moved by any of them, and the stream and its tokens are good.
    orders.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let second = next(&mut stream);
    assert!(second.cluster_time.is_some_and(|second| second.time < time.time + 3600));
    let mut after = orders.watch().resume_after(event.id).run().expect("opened");
    assert_eq!(next(&mut after).document_key, Some(doc! { "_id": 2 }));
}

#[test]
fn a_token_with_another_byte_in_its_frame_is_none() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let token = watch(&orders).resume_token().expect("a token");
    let text = digits(&token);
    assert_eq!(text.len(), 36);
    let wrong = [
        // The version, the kind, and the log.
        altered(&token, 0, "02"),
        altered(&token, 26, "03"),
        altered(&token, 28, if text.ends_with("00000000") { "11111111" } else { "00000000" }),
        // Its length, and what is no digit.
        token_of(&text[..34]),
        token_of(&text[..35]),
        token_of(&format!("{text}00")),
        altered(&token, 10, "G"),
        altered(&token, 10, " "),
        token_of(""),
    ];
    for token in &wrong {
        for refused in resumed(&orders, token) {
            let error = refused.expect_err("no token");
            assert_eq!(error.code(), Some(260), "{token:?}: {error}");
            assert!(!error.contains_label(NON_RESUMABLE_CHANGE_STREAM_ERROR), "{error:?}");
        }
    }
    // Small letters are the same digits.
    for resumed in resumed(&orders, &token_of(&text.to_lowercase())) {
        resumed.expect("opened");
    }
}

/// One that has read all goes on, however much was forgotten behind it. One that has not must be opened again.
#[test]
fn a_live_query_that_the_log_has_overtaken_is_lost_and_one_that_has_kept_up_is_not() {
    const BYTES: u64 = 64 << 10;
    let scratch = Scratch::new();
    let client = scratch.open_with(small().change_log_bytes_max(BYTES));
    let orders = orders(&client);
    orders.insert_one(doc! { "_id": -1, "n": 1 }).run().expect("stored");
    let few = || orders.find(doc! { "_id": { "$lt": 3 } });
    let mut behind = few().live().expect("opened");
    // By a search that is run again, and by documents that are looked up.
    let mut behind_limited = few().sort(doc! { "_id": 1 }).limit(10).live().expect("opened");
    let mut kept_up = few().max_await_time(Duration::ZERO).live().expect("opened");
    for query in [&mut behind, &mut behind_limited, &mut kept_up] {
        assert_eq!(query.next().expect("it waits").expect("a batch").len(), 1);
    }
    let token = watch(&orders).resume_token().expect("a token");
    let text = "x".repeat(1000);
    let (mut known, began, mut id) = (1, Instant::now(), 0);
    while orders.watch().resume_after(token.clone()).run().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is forgotten");
        orders.insert_one(doc! { "_id": id, "text": &text }).run().expect("stored");
        id += 1;
        client.sync().expect("synced");
        while let Some(batch) = kept_up.next_if_any().expect("it keeps up") {
            known += batch.len();
        }
        pause();
    }
    for query in [&mut behind, &mut behind_limited] {
        let lost = query.next().expect("it waits").expect_err("overtaken");
        is_lost(&lost);
        assert!(!query.is_alive() && query.next().is_none());
    }
    // What it is told next is what comes next.
    wait_until(|| client.metrics().expect("open").change_log.bytes <= BYTES);
    orders.delete_one(doc! { "_id": -1 }).run().expect("deleted");
    let mut gone = Vec::new();
    while gone.is_empty() {
        client.sync().expect("synced");
        gone = kept_up.next_if_any().expect("it keeps up").unwrap_or_default();
        assert!(began.elapsed() < Duration::from_secs(60), "it shows nothing");
    }
    assert_eq!((gone, known), (vec![LiveChange::Left((-1).into())], 4));
    // Opened again it begins with the result of now.
    let mut again = few().live().expect("opened");
    assert_eq!(again.next().expect("it waits").expect("a batch").len(), 3);
    crate::verify_clean(&client);
}

/// What was written and not synced is shown to no stream, so all of them are behind by it.
#[test]
fn streams_are_behind_until_the_sync_of_what_was_written() {
    let scratch = Scratch::new();
    let durability = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    let client = small().durability(durability).open(scratch.path()).expect("opened");
    let orders = orders(&client);
    let lag = || client.metrics().expect("open").change_log.lag_seconds;
    let mut stream = watch(&orders);
    orders.insert_one(doc! { "_id": 0 }).run().expect("stored");
    next(&mut stream);
    assert_eq!(lag(), 0);
    let (began, mut written) = (Instant::now(), 0);
    // Between two syncs a second of the clock begins.
    while lag() == 0 {
        written += 1;
        orders.insert_one(doc! { "_id": written }).run().expect("stored");
        assert!(began.elapsed() < Duration::from_secs(60), "never behind");
        thread::park_timeout(Duration::from_millis(5));
    }
    assert!(lag() < 60, "{}", lag());
    client.sync().expect("synced");
    wait_until(|| lag() == 0);
    // All that it was behind by is there to be read.
    for id in 1..=written {
        assert_eq!(next(&mut stream).document_key, Some(doc! { "_id": id }));
    }
    assert_eq!(lag(), 0);
    // Without a stream there is none to be behind.
    drop(stream);
    orders.insert_one(doc! {}).run().expect("stored");
    assert_eq!(lag(), 0);
}
