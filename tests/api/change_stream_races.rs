//! Change streams beside writers: each write is shown once and in order, a copy that is handed over becomes its original, and
//! switching the log on misses no later write.

use std::collections::BTreeMap;
use std::thread;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Collection, FullDocumentType, OperationType, WriteConcern};
use cairndb_tests::race::race;

use crate::Fixture;
use crate::change_streams::{Event, next, orders, through, told, watch};

/// Applies an event to a copy of a collection.
fn apply(copy: &mut BTreeMap<String, Document>, event: &Event) {
    let key = || event.document_key.as_ref().map(Document::to_string).expect("a key");
    match &event.full_document {
        Some(full) => drop(copy.insert(key(), full.clone())),
        None if event.operation_type == OperationType::Delete => drop(copy.remove(&key())),
        // Gone by the time of the look-up: its delete follows.
        None => assert_eq!(event.operation_type, OperationType::Update),
    }
}

fn contents(collection: &Collection<Document>) -> BTreeMap<String, Document> {
    let found = collection.find(doc! {}).run().expect("a cursor").map(|found| found.expect("a document"));
    found.map(|found| (doc! { "_id": found.get("_id") }.to_string(), found)).collect()
}

/// Every event once, in the order of positions, and that of each document as it was written.
#[test]
fn beside_writers_each_write_is_shown_once_and_in_order() {
    const WRITERS: i32 = 16;
    const WRITES: i32 = 60;
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    race(0..WRITERS, |id| {
        let concern = if id % 2 == 0 { WriteConcern::journaled() } else { WriteConcern::default() };
        orders.insert_one(doc! { "_id": id, "n": 0 }).write_concern(concern.clone()).run().expect("stored");
        for _ in 0..WRITES {
            // Its own document, and one that all change.
            orders
                .update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1 } })
                .write_concern(concern.clone())
                .run()
                .expect("updated");
            let shared = orders.update_one(doc! { "_id": -1 }, doc! { "$inc": { "n": 1 } }).upsert(true);
            shared.run().expect("updated");
        }
    });
    let mut counts: BTreeMap<i32, i32> = BTreeMap::new();
    let mut last = None;
    for event in through(&orders, &mut stream) {
        let place = (event.cluster_time, event.id.clone());
        assert!(
            last.as_ref().is_none_or(
                |(time, token)| (*time, format!("{token:?}")) < (place.0, format!("{:?}", place.1))
            )
        );
        last = Some(place);
        let (kind, id, told) = told(&event);
        let count = counts.entry(id.as_i32().expect("a number")).or_insert(-1);
        let n = told.get_i32("n").expect("a number");
        // The shared document is made by an upsert, which counts at once.
        let is_first = *count == -1;
        assert_eq!(kind == "insert", is_first);
        assert!(is_first || n == *count + 1, "{n} after {count}");
        *count = n;
    }
    let expected = (0..WRITERS).map(|id| (id, WRITES)).chain([(-1, WRITERS * WRITES)]).collect();
    assert_eq!(counts, expected);
    fixture.verify_clean();
}

/// Read at a time, and watched from there, a copy becomes what the original is.
#[test]
fn a_copy_that_is_handed_over_equals_its_original() {
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    drop(watch(&orders));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let orders = orders.clone();
            thread::spawn(move || {
                for round in 0..150 {
                    let id = (writer * 7 + round) % 20;
                    orders
                        .update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1 } })
                        .upsert(true)
                        .run()
                        .expect("done");
                    if round % 5 == 0 {
                        orders.delete_one(doc! { "_id": (id + 3) % 20 }).run().expect("done");
                    }
                }
            })
        })
        .collect();
    let mut copies = Vec::new();
    for _ in 0..10 {
        let time = fixture.client.operation_time().expect("open");
        let copy = contents(&orders);
        let lookup = orders.watch().full_document(FullDocumentType::UpdateLookup);
        copies.push((copy, lookup.start_at_operation_time(time).run().expect("opened")));
    }
    for writer in writers {
        writer.join().expect("no panic");
    }
    orders.insert_one(doc! { "_id": "end" }).run().expect("stored");
    let original = contents(&orders);
    for (mut copy, mut stream) in copies {
        loop {
            let event = next(&mut stream);
            apply(&mut copy, &event);
            if event.document_key == Some(doc! { "_id": "end" }) {
                break;
            }
        }
        assert_eq!(copy, original);
    }
}

/// A stream that begins beside writers shows each write that begins after it is open.
#[test]
fn switching_on_beside_writers_misses_no_later_write() {
    let fixture = Fixture::new();
    for round in 0..8 {
        let orders = fixture.client.database("shop").collection::<Document>(&format!("orders{round}"));
        orders.insert_one(doc! { "_id": "first" }).run().expect("stored");
        let is_open = std::sync::atomic::AtomicBool::new(false);
        let shown = std::sync::Mutex::new((Vec::new(), Vec::new()));
        race(0..5, |thread| {
            if thread == 0 {
                let mut stream = watch(&orders);
                is_open.store(true, std::sync::atomic::Ordering::SeqCst);
                let mut ids = Vec::new();
                let mut ends = 0;
                while ends < 4 {
                    let id = told(&next(&mut stream)).1;
                    ends += i32::from(id.as_str().is_some());
                    ids.push(id.to_string());
                }
                shown.lock().expect("not poisoned").0 = ids;
                return;
            }
            let mut later = Vec::new();
            for n in 0..400 {
                let begins_later = is_open.load(std::sync::atomic::Ordering::SeqCst);
                let id = thread * 1000 + n;
                orders.insert_one(doc! { "_id": id }).run().expect("stored");
                if begins_later {
                    later.push(Bson::Int32(id).to_string());
                }
                if later.len() > 20 {
                    break;
                }
            }
            while !is_open.load(std::sync::atomic::Ordering::SeqCst) {
                thread::yield_now();
            }
            orders.insert_one(doc! { "_id": format!("end{thread}") }).run().expect("stored");
            shown.lock().expect("not poisoned").1.extend(later);
        });
        let (shown, expected) = shown.into_inner().expect("not poisoned");
        for id in expected {
            assert!(shown.contains(&id), "{id} is missing");
        }
    }
}
