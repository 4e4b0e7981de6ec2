//! Cursors of several batches, and cursors that somebody ends.

use std::time::{Duration, Instant};

use cairndb_clients::cairn::Cairn;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::CursorType;

use crate::{Served, refused};

#[test]
fn a_cursor_walks_over_several_batches() {
    let served = Served::with((0..1000).map(|id| doc! { "_id": id }));
    let ids = |cursor: mongodb::sync::Cursor<Document>| -> Vec<i32> {
        cursor.map(|thing| thing.unwrap().get_i32("_id").unwrap()).collect()
    };
    let by_batches = served.things.find(doc! {}).batch_size(7).run().unwrap();
    assert_eq!(ids(by_batches), (0..1000).collect::<Vec<_>>());
    let backwards =
        served.things.find(doc! {}).sort(doc! { "_id": -1 }).skip(10).limit(250).batch_size(100).run();
    assert_eq!(ids(backwards.unwrap()), (740..990).rev().collect::<Vec<_>>());
    let piped = served.things.aggregate([doc! { "$match": { "_id": { "$lt": 500 } } }]).batch_size(50).run();
    assert_eq!(ids(piped.unwrap()).len(), 500);
    assert_eq!(open_cursors(&served), 0);
    served.stop();
}

#[test]
fn documents_beyond_a_batchs_bytes_come_with_the_next() {
    let text = "x".repeat(5 << 20);
    let served = Served::with((0..9).map(|id| doc! { "_id": id, "text": &text }));
    assert_eq!(served.things.find(doc! {}).run().unwrap().map(Result::unwrap).count(), 9);
    served.stop();
}

/// Forty idle cursors over 20 MB of sorted documents held 828 MB, and nearly all of it was still there when they were gone.
#[test]
fn idle_cursors_over_sorted_documents_hold_little() {
    let text = "x".repeat(1000);
    let served = Served::with((0..20_000).map(|id| doc! { "_id": id, "n": id % 1000, "text": &text }));
    let open = || {
        let mut cursor = served.things.find(doc! {}).sort(doc! { "n": -1 }).batch_size(2).run().unwrap();
        assert!(cursor.advance().unwrap());
        cursor
    };
    drop(open());
    let before = served.cairn.resident_bytes();
    let mut cursors: Vec<_> = (0..20).map(|_| open()).collect();
    let (begin, mut held) = (Instant::now(), None);
    while begin.elapsed() < Duration::from_secs(60) {
        held = served.cairn.resident_bytes();
        if held.zip(before).is_none_or(|(held, before)| held < before + (80 << 20)) {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let is_little = held.zip(before).is_none_or(|(held, before)| held < before + (80 << 20));
    assert!(is_little, "{held:?} bytes, and {before:?} before");
    // The documents come from the file in their order.
    let mut last = (999, 0);
    let mut cursor = cursors.pop().expect("there are some");
    for count in 1.. {
        let document = cursor.deserialize_current().unwrap();
        let next = (document.get_i32("n").unwrap(), document.get_i32("_id").unwrap());
        assert!(
            next.0 < last.0 || next.0 == last.0 && next.1 > last.1 || count == 1,
            "{next:?} after {last:?}"
        );
        last = next;
        if !cursor.advance().unwrap() {
            assert_eq!(count, 20_000);
            break;
        }
    }
    drop((cursor, cursors));
    served.stop();
}

#[test]
fn a_cursor_that_is_dropped_is_ended() {
    let served = Served::with((0..1000).map(|id| doc! { "_id": id }));
    let mut cursor = served.things.find(doc! {}).batch_size(2).run().unwrap();
    assert!(cursor.advance().unwrap());
    assert_eq!(open_cursors(&served), 1);
    drop(cursor);
    // The driver sends its word of it beside other work.
    assert!((0..100_000).any(|_| open_cursors(&served) == 0));
    served.stop();
}

#[test]
fn a_cursor_shows_the_moment_of_its_opening() {
    let served = Served::with((0..300).map(|id| doc! { "_id": id }));
    let cursor = served.things.find(doc! {}).batch_size(10).run().unwrap();
    served.things.delete_many(doc! {}).run().unwrap();
    assert_eq!(cursor.map(Result::unwrap).count(), 300);
    served.stop();
}

/// The driver asks for a batch after the other; each waits at the server until a document comes.
#[test]
fn a_tailable_cursor_follows_a_capped_collection() {
    let served = Served::start();
    let shop = served.client.database("shop");
    shop.create_collection("log").capped(true).size(1 << 20).max(5).run().unwrap();
    let log = shop.collection::<Document>("log");
    log.insert_many([doc! { "_id": 3 }, doc! { "_id": 1 }]).run().unwrap();
    let awaits = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    let cursor = awaits.max_await_time(Duration::from_millis(500)).run().unwrap();
    let reader = std::thread::spawn(move || {
        let ids = cursor.map(|one| one.unwrap().get_i32("_id").unwrap());
        ids.take(6).collect::<Vec<_>>()
    });
    for id in [9, 2, 7, 5] {
        log.insert_one(doc! { "_id": id }).run().unwrap();
        std::thread::yield_now();
    }
    assert_eq!(reader.join().unwrap(), [3, 1, 9, 2, 7, 5]);
    let left = log.find(doc! {}).run().unwrap().map(|one| one.unwrap().get_i32("_id").unwrap());
    assert_eq!(left.collect::<Vec<_>>(), [1, 9, 2, 7, 5]);
    served.stop();
}

#[test]
fn an_unknown_cursor_is_refused() {
    let served = Served::start();
    let more = doc! { "getMore": 4711_i64, "collection": "things" };
    refused(served.client.database("shop").run_command(more).run(), 43, "cursor id 4711 not found");
    let kill = doc! { "killCursors": "things", "cursors": [4711_i64] };
    let reply = served.client.database("shop").run_command(kill).run().unwrap();
    assert_eq!(reply.get_array("cursorsNotFound").unwrap(), &[Bson::Int64(4711)]);
    served.stop();
}

#[test]
fn a_server_that_ends_ends_its_cursors() {
    let served = Served::over(Cairn::start());
    served.things.insert_many((0..1000).map(|id| doc! { "_id": id })).run().unwrap();
    let mut cursor = served.things.find(doc! {}).batch_size(2).run().unwrap();
    assert!(cursor.advance().unwrap());
    let Served { cairn, client, .. } = served;
    cairn.stop();
    assert!(cursor.any(|thing| thing.is_err()), "the rest cannot be read");
    client.shutdown().immediate(true).run();
}

fn open_cursors(served: &Served) -> i64 {
    let status = served.client.database("admin").run_command(doc! { "serverStatus": 1 }).run();
    let status = status.expect("an answer");
    let open = status.get_document("metrics").and_then(|metrics| metrics.get_document("cursor"));
    open.and_then(|cursor| cursor.get_document("open"))
        .and_then(|open| open.get_i64("total"))
        .expect("a number")
}
