//! Change streams beside writers: each write is shown once and in order, a copy that is handed over becomes its original, and
//! switching the log on misses no later write.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, FullDocumentType, OperationType, UpdateDescription, WriteConcern};
use cairndb_tests::choices::{Choices, number_from_environment, part, seed};
use cairndb_tests::race::{race, wait_until};
use cairndb_tests::scratch::{Scratch, small};

use crate::Fixture;
use crate::change_streams::{Event, Stream, next, orders, through, told, watch};

/// Applies an event to a copy of a collection.
fn apply(copy: &mut BTreeMap<String, Document>, event: &Event) {
    let key = || event.document_key.as_ref().map(Document::to_string).expect("a key");
    match &event.full_document {
        Some(full) => drop(copy.insert(key(), full.clone())),
        None if event.operation_type == OperationType::Delete => drop(copy.remove(&key())),
        None => {
            assert_eq!(event.operation_type, OperationType::Update);
            // Without one it is gone since: its delete follows.
            if let Some(document) = copy.get_mut(&key()) {
                describe(document, event.update_description.as_ref().expect("a description"));
            }
        }
    }
}

/// Applies a description to a document that may already have what it describes, and what came later. A path that leads nowhere was
/// changed by a later event, which sets it again.
fn describe(document: &mut Document, update: &UpdateDescription) {
    for cut in update.truncated_arrays.iter().flatten() {
        if let Ok(array) = document.get_array_mut(&cut.field) {
            array.truncate(usize::try_from(cut.new_size).expect("not negative"));
        }
    }
    for path in &update.removed_fields {
        document.remove(path);
    }
    for (path, value) in &update.updated_fields {
        let Some((array, place)) = path.split_once('.') else {
            document.insert(path, value.clone());
            continue;
        };
        let place: usize = place.parse().expect("a place in an array");
        if let Ok(array) = document.get_array_mut(array) {
            array.resize(array.len().max(place + 1), Bson::Null);
            *array.get_mut(place).expect("it was made") = value.clone();
        }
    }
}

fn contents(collection: &Collection<Document>) -> BTreeMap<String, Document> {
    let found = collection.find(doc! {}).run().expect("a cursor").map(|found| found.expect("a document"));
    found.map(|found| (doc! { "_id": found.get("_id") }.to_string(), found)).collect()
}

/// Every event once, in the order of positions, and that of each document as it was written. A write that had ended before another one
/// began comes before it, and nothing comes between the writes of a transaction.
#[test]
fn beside_writers_each_write_is_shown_once_and_in_order() {
    const WRITERS: i32 = 16;
    const WRITES: i32 = 60;
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    let mut stream = watch(&orders);
    let mut wider = wider(&fixture.client);
    let (clock, ends) = (AtomicI64::new(1), Mutex::new(BTreeMap::new()));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    race(0..WRITERS, |id| {
        let mut ended = BTreeMap::new();
        let concern = if id % 2 == 0 { WriteConcern::journaled() } else { WriteConcern::default() };
        orders.insert_one(doc! { "_id": id, "n": 0 }).write_concern(concern.clone()).run().expect("stored");
        for write in 0..WRITES {
            // Its own document, and one that all change.
            let began = tick();
            let update = doc! { "$inc": { "n": 1 }, "$set": { "began": began } };
            let update = orders.update_one(doc! { "_id": id }, update).write_concern(concern.clone());
            update.run().expect("updated");
            ended.insert(began, tick());
            let shared = orders.update_one(doc! { "_id": -1 }, doc! { "$inc": { "n": 1 } }).upsert(true);
            shared.run().expect("updated");
            if write % 8 == 0 {
                let mut session = fixture.client.start_session().run().expect("a session");
                session.start_transaction().run().expect("begun");
                for part in 0..2 {
                    let document = doc! { "_id": pair(id, write) + part, "n": 0 };
                    orders.insert_one(document).session(&mut session).run().expect("staged");
                }
                session.commit_transaction().run().expect("committed");
            }
        }
        ends.lock().expect("not poisoned").append(&mut ended);
    });
    let ends = ends.into_inner().expect("not poisoned");
    let mut counts: BTreeMap<i32, i32> = BTreeMap::new();
    let (mut last, mut last_began, mut first_of_pair) = (None, 0, None);
    let events = through(&orders, &mut stream);
    show_the_same(&mut wider, &events);
    for event in events {
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
        if let Ok(began) = told.get_i64("began") {
            assert!(ends[&began] > last_began, "it had ended before one began that was shown before it");
            last_began = last_began.max(began);
        }
        let id = id.as_i32().expect("a number");
        if let Some(first) = first_of_pair.take() {
            assert_eq!((id - 1, event.cluster_time), first, "a transaction is divided");
        } else if id >= FIRST_PAIR {
            first_of_pair = Some((id, event.cluster_time));
        }
    }
    let pairs = (0..WRITERS).flat_map(|id| (0..WRITES).step_by(8).map(move |write| pair(id, write)));
    let pairs = pairs.flat_map(|first| [(first, 0), (first + 1, 0)]);
    let expected = (0..WRITERS).map(|id| (id, WRITES)).chain([(-1, WRITERS * WRITES)]).chain(pairs).collect();
    assert_eq!(counts, expected);
    fixture.verify_clean();
}

/// Streams of the database and of all.
fn wider(client: &Client) -> [Stream; 2] {
    [client.database("shop").watch(), client.watch()].map(|watch| watch.run().expect("opened"))
}

/// Streams show these events, in this order.
fn show_the_same(streams: &mut [Stream], events: &[Event]) {
    let parts = |event: &Event| (event.cluster_time, event.id.clone(), told(event));
    for event in events {
        for stream in &mut *streams {
            assert_eq!(parts(&next(stream)), parts(event));
        }
    }
}

const FIRST_PAIR: i32 = 1000;

/// The first id of two documents of one transaction.
fn pair(writer: i32, write: i32) -> i32 {
    FIRST_PAIR + writer * 1000 + write * 2
}

/// Read at a time, and watched from there, copies become what the original is: in as many runs as the variable says.
#[test]
fn a_copy_that_is_handed_over_equals_its_original() {
    let seed = seed();
    for run in 0..number_from_environment("CAIRNDB_HANDOVERS", 5) {
        hand_over(part(seed, run));
    }
}

fn hand_over(seed: u64) {
    let mut choices = Choices::seeded(seed);
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    drop(watch(&orders));
    let (writers, rounds) = (1 + choices.below(4), 20 + choices.below(100));
    let seeds: Vec<u64> = (0..writers).map(|_| choices.number()).collect();
    let writers: Vec<_> = seeds
        .into_iter()
        .map(|seed| {
            let orders = orders.clone();
            let client = fixture.client.clone();
            thread::spawn(move || write(&client, &orders, &mut Choices::seeded(seed), rounds))
        })
        .collect();
    let mut copies = Vec::new();
    for _ in 0..=choices.below(6) {
        let time = fixture.client.operation_time().expect("open");
        let copy = contents(&orders);
        let watch = orders.watch().start_at_operation_time(time);
        // By documents that are looked up, or by the descriptions of updates.
        let is_looked_up = choices.one_in(2);
        let watch = if is_looked_up { watch.full_document(FullDocumentType::UpdateLookup) } else { watch };
        copies.push((copy, watch.run().expect("opened")));
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
        assert_eq!(copy, original, "seed {seed}");
    }
}

/// Writes of every kind to a few documents.
fn write(client: &Client, orders: &Collection<Document>, choices: &mut Choices, rounds: u64) {
    for round in 0..rounds {
        let (id, number) = (choices.below(20).cast_signed(), round.cast_signed());
        let one = doc! { "_id": id };
        let done = match choices.below(12) {
            6 => orders.update_one(one, doc! { "$unset": { "n": "" } }).run().map(drop),
            7 => orders.update_many(doc! {}, doc! { "$push": { "tags": number } }).run().map(drop),
            8 => {
                let end = if choices.one_in(2) { 1 } else { -1 };
                orders.update_many(doc! {}, doc! { "$pop": { "tags": end } }).run().map(drop)
            }
            9 => {
                orders.update_one(one, doc! { "$set": { "tags": [number, 2] } }).upsert(true).run().map(drop)
            }
            10 => {
                let some = (0..3).map(|place| doc! { "_id": id + place, "n": number });
                orders.insert_many(some).ordered(false).run().map(drop)
            }
            11 => transact(client, orders, [id, id + 1]),
            0 => orders.delete_one(one).run().map(drop),
            1 => orders.replace_one(one, doc! { "n": number }).upsert(true).run().map(drop),
            2 => {
                orders.update_many(doc! { "_id": { "$lt": id } }, doc! { "$inc": { "m": 1 } }).run().map(drop)
            }
            _ => orders.update_one(one, doc! { "$inc": { "n": 1 } }).upsert(true).run().map(drop),
        };
        // Two upserts of one document may meet.
        assert!(done.as_ref().err().is_none_or(cairndb::Error::is_duplicate_key), "{done:?}");
    }
}

/// Moves a number from a document to another one, and pushes it there.
fn transact(client: &Client, orders: &Collection<Document>, [from, to]: [i64; 2]) -> cairndb::Result<()> {
    let mut session = client.start_session().run()?;
    session.start_transaction().and_run(|session| {
        let less =
            orders.update_one(doc! { "_id": from }, doc! { "$inc": { "n": -1 }, "$unset": { "m": "" } });
        less.upsert(true).session(&mut *session).run()?;
        let more =
            orders.update_one(doc! { "_id": to }, doc! { "$inc": { "n": 1 }, "$push": { "tags": from } });
        more.upsert(true).session(&mut *session).run().map(drop)
    })
}

/// A stream that begins beside writers shows each write that begins after it is open.
#[test]
fn switching_on_beside_writers_misses_no_later_write() {
    const WRITERS: i32 = 16;
    let fixture = Fixture::new();
    for round in 0..8 {
        let orders = fixture.client.database("shop").collection::<Document>(&format!("orders{round}"));
        orders.insert_one(doc! { "_id": "first" }).run().expect("stored");
        let is_open = AtomicBool::new(false);
        let shown = Mutex::new((Vec::new(), Vec::new()));
        race(0..=WRITERS, |thread| {
            if thread == 0 {
                let mut stream = watch(&orders);
                is_open.store(true, Ordering::SeqCst);
                let mut ids = Vec::new();
                let mut ends = 0;
                while ends < WRITERS {
                    let id = told(&next(&mut stream)).1;
                    ends += i32::from(id.as_str().is_some());
                    ids.push(id.to_string());
                }
                shown.lock().expect("not poisoned").0 = ids;
                return;
            }
            let mut later = Vec::new();
            for n in 0..100 {
                let begins_later = is_open.load(Ordering::SeqCst);
                let id = thread * 1000 + n;
                orders.insert_one(doc! { "_id": id }).run().expect("stored");
                if begins_later {
                    later.push(Bson::Int32(id).to_string());
                }
                if later.len() > 20 {
                    break;
                }
            }
            while !is_open.load(Ordering::SeqCst) {
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

/// Streams wait in no thread, and each of them is woken.
#[test]
fn a_thousand_streams_take_no_thread_each() {
    const STREAMS: usize = 1000;
    let fixture = Fixture::new();
    let orders = orders(&fixture.client);
    orders.insert_one(doc! { "_id": 0 }).run().expect("stored");
    drop(watch(&orders));
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let mut streams: Vec<_> = (0..STREAMS).map(|_| watch(&orders)).collect();
    // Those of other tests come and go.
    assert!(threads() < before + STREAMS / 2, "{before} threads became {}", threads());
    assert_eq!(fixture.client.metrics().expect("open").change_log.streams, STREAMS as u64);
    orders.insert_one(doc! { "_id": 1 }).write_concern(WriteConcern::journaled()).run().expect("stored");
    for stream in &mut streams {
        assert_eq!(next(stream).document_key, Some(doc! { "_id": 1 }));
    }
}

/// The log keeps to its bytes beside writers that never wait, and a reader that stopped meanwhile gets an error that it is lost.
#[test]
fn the_log_keeps_to_its_bytes_under_load_and_a_reader_that_stopped_is_lost() {
    const BYTES: u64 = 1 << 20;
    let scratch = Scratch::new();
    let client = small().change_log_bytes_max(BYTES).open(scratch.path()).expect("opened");
    let orders = orders(&client);
    let mut stopped = watch(&orders);
    let text = "x".repeat(2000);
    race(0..4, |writer| {
        for n in 0..1500 {
            orders.insert_one(doc! { "_id": writer * 10_000 + n, "text": &text }).run().expect("stored");
        }
    });
    wait_until(|| client.metrics().expect("open").change_log.bytes <= BYTES);
    // The bytes are counted down before the events are gone.
    let token = stopped.resume_token().expect("a token");
    wait_until(|| {
        let again = orders.watch().resume_after(token.clone()).run().map(drop);
        again.is_err_and(|error| error.code() == Some(286))
    });
    let lost = stopped.find_map(Result::err).expect("it is lost");
    assert_eq!(lost.code(), Some(286), "{lost}");
    assert!(stopped.next().is_none() && client.verify().expect("verified").is_clean());
}
