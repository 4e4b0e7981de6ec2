//! Planted faults of the log, and that the checks here find them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, Timestamp, doc};
use query::operation::OperationContext;
use store::Family;
use store::keys::{META_LOG, META_LOG_LOW, META_LOG_MARK, event_key};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::changes::log::scope_key;
use crate::client::Client;
use crate::collection::Collection;
use crate::fixture::syncing_late;
use crate::options::{PlantedFault, WriteConcern};
use crate::streams::FullDocumentType;

/// Which events are old, not who has read them, decides what is forgotten.
#[test]
fn who_has_read_all_that_is_forgotten_goes_on() {
    let client = in_memory(PlantedFault::None);
    let things = logged(&client);
    let mut stream = things.watch().run().expect("opened");
    things.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    let [first, second] = [(); 2].map(|()| stream.next().expect("it waits").expect("an event"));
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let later = engine.catalog.log.last() + ((2 * 86_400) << 32);
    engine.catalog.log.forget_at(engine.storage(&database), later).expect("forgotten");
    let lost = things.watch().resume_after(first.id).run().and_then(|mut stream| stream.next_if_any());
    assert_eq!(lost.expect_err("forgotten").code(), Some(286));
    let mut stream = things.watch().resume_after(second.id).run().expect("opened");
    things.insert_one(doc! { "_id": 3 }).run().expect("stored");
    let event = stream.next().expect("it waits").expect("an event");
    assert_eq!(event.full_document, Some(doc! { "_id": 3 }));
}

/// Nothing that is older than the log is to be stays beside writers that never wait, and nothing that is younger goes.
#[test]
fn the_log_keeps_to_its_age_beside_writers() {
    let client = in_memory(PlantedFault::None);
    let things = logged(&client);
    let engine = client.shared().engine();
    let is_done = AtomicBool::new(false);
    let write = || {
        while !is_done.load(Ordering::Acquire) {
            things.insert_one(doc! { "text": "beside" }).run().expect("stored");
        }
    };
    thread::scope(|scope| {
        let writers = [(); 4].map(|()| scope.spawn(write));
        for _ in 0..20 {
            let database = engine.store.enter().expect("open");
            let log = &engine.catalog.log;
            let first_kept = log.watermark();
            let has_any = || {
                let snapshot = Snapshot::take(&database);
                let through = event_key(first_kept.saturating_add(1), 0).to_vec();
                let (bounds, unlimited) = ((Vec::new(), Some(through)), OperationContext::unlimited());
                let mut scan = Scan::open(&snapshot, Family::Changes, bounds, CacheUse::Bypass, &unlimited);
                scan.advance().expect("a step")
            };
            let forget_after = |hours: u64| {
                let later = first_kept + ((hours * 3600) << 32);
                log.forget_at(engine.storage(&database), later).expect("forgotten");
            };
            let before = log.low();
            forget_after(1);
            assert_eq!(log.low(), before);
            forget_after(48);
            assert!(!has_any());
        }
        is_done.store(true, Ordering::Release);
        for writer in writers {
            writer.join().expect("no panic");
        }
    });
    assert!(client.verify().expect("audited").is_clean());
}

#[test]
fn no_time_is_before_another_while_the_log_is_switched_on() {
    let client = in_memory(PlantedFault::None);
    let engine = client.shared().engine();
    let log = &engine.catalog.log;
    let before = log.time();
    log.set_scope("things", 0);
    assert!(before.time > 0 && log.time() >= before);
}

/// One that is watched again is logged from then on, and tokens of before are lost.
#[test]
fn what_is_not_watched_for_long_is_not_logged_any_more() {
    let client = in_memory(PlantedFault::None);
    let things = logged(&client);
    let mut stream = things.watch().run().expect("opened");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let first = stream.next().expect("it waits").expect("an event");
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let storage = engine.storage(&database);
    let stop = || {
        engine.catalog.stop_logging(storage, &OperationContext::unlimited()).expect("stopped");
        engine.catalog.log.is_used()
    };
    let log = &engine.catalog.log;
    let later = ((log.last() >> 32) + 2 * 86_400) << 32;
    // Not while a stream is open.
    assert!(!log.is_unused_at(later) && stop());
    drop(stream);
    assert!(!log.is_unused_at(later) && log.is_unused_at(2 * later));
    assert!(!stop() && log.bytes() == 0);
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let snapshot = Snapshot::take(&database);
    let mut scan = Scan::open(
        &snapshot,
        Family::Changes,
        (Vec::new(), None),
        CacheUse::Bypass,
        &OperationContext::unlimited(),
    );
    assert!(!scan.advance().expect("a step"));
    let lost = things.watch().resume_after(first.id).run().map(drop).expect_err("forgotten");
    assert_eq!(lost.code(), Some(286));
    let mut stream = things.watch().run().expect("opened");
    things.insert_one(doc! { "_id": 3 }).run().expect("stored");
    let event = stream.next().expect("it waits").expect("an event");
    assert_eq!(event.full_document, Some(doc! { "_id": 3 }));
    assert!(client.verify().expect("verified").is_clean());
}

/// The longest time that a fault may need to show itself. Nothing waits for as long without one.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collection that is logged, in a store with a fault.
fn logged(client: &Client) -> Collection<Document> {
    let database = client.database("test");
    // Before it is logged: that it was created would be an event too.
    database.create_collection("things").run().expect("created");
    let things = database.collection("things");
    things.watch().run().expect("opened");
    things
}

fn in_memory(fault: PlantedFault) -> Client {
    Client::builder().in_memory(true).planted_fault(fault).open("").expect("opened")
}

/// Whether a state of the store was found in which documents and events are not the same number.
fn has_a_half_write(fault: PlantedFault, rounds: i32) -> bool {
    let client = in_memory(fault);
    let things = logged(&client);
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let count = |snapshot: &Arc<Snapshot>, family| {
        let operation = OperationContext::unlimited();
        let mut scan = Scan::open(snapshot, family, (Vec::new(), None), CacheUse::Bypass, &operation);
        let mut count = 0;
        while scan.advance().expect("a step") {
            count += 1;
        }
        count
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let ids = (0..rounds).take_while(|_| !is_over.load(Ordering::Relaxed));
            ids.for_each(|id| drop(things.insert_one(doc! { "_id": id }).run().expect("stored")));
            is_over.store(true, Ordering::Relaxed);
        });
        let mut is_found = false;
        while !is_found && !is_over.load(Ordering::Relaxed) {
            let snapshot = Snapshot::take(&database);
            is_found = count(&snapshot, Family::Records) != count(&snapshot, Family::Changes);
        }
        is_over.store(true, Ordering::Relaxed);
        is_found
    })
}

#[test]
fn a_document_is_never_there_without_its_event() {
    assert!(!has_a_half_write(PlantedFault::None, 500));
    assert!(has_a_half_write(PlantedFault::EventsApart, 1_000_000));
}

/// Whether a stream beside writers has left out a write before a later one.
fn passes_a_hole(fault: PlantedFault, patience: Duration) -> bool {
    let client = in_memory(fault);
    let things = logged(&client);
    let mut stream = things.watch().max_await_time(Duration::ZERO).run().expect("opened");
    let (is_over, began) = (AtomicBool::new(false), Instant::now());
    let (written, shown) = thread::scope(|scope| {
        let write = |writer: i32| {
            let (things, is_over) = (&things, &is_over);
            scope.spawn(move || {
                let ids = (0..).map(|n| writer * 10_000_000 + n);
                let mut written = BTreeSet::new();
                for id in ids.take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    things.insert_one(doc! { "_id": id }).run().expect("stored");
                    written.insert(id);
                }
                written
            })
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        let mut shown = BTreeSet::new();
        let mut next = BTreeSet::from([0, 10_000_000, 20_000_000, 30_000_000]);
        let mut take = |shown: &mut BTreeSet<i32>| {
            let mut is_whole = true;
            // Not without end: the writers go on meanwhile.
            while is_whole && (is_over.load(Ordering::Relaxed) || began.elapsed() < patience) {
                let Some(event) = stream.next_if_any().expect("read") else { break };
                let id = event.document_key.expect("a key").get_i32("_id").expect("a number");
                // Each writer ascends by one.
                is_whole &= next.remove(&id);
                next.insert(id + 1);
                shown.insert(id);
            }
            is_whole
        };
        while take(&mut shown) && began.elapsed() < patience {
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        let written: BTreeSet<i32> =
            writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect();
        take(&mut shown);
        (written, shown)
    });
    written != shown
}

#[test]
fn no_stream_passes_a_writer_that_is_still_at_work() {
    assert!(!passes_a_hole(PlantedFault::None, Duration::from_millis(500)));
    assert!(passes_a_hole(PlantedFault::HolesPassed, PATIENCE));
}

/// Whether a stream shows a write before it is on stable storage.
fn shows_early(fault: PlantedFault) -> bool {
    let (_folder, client) = syncing_late(fault);
    let things = logged(&client);
    let mut stream = things.watch().max_await_time(Duration::ZERO).run().expect("opened");
    let engine = client.shared().engine();
    let began = Instant::now();
    // After which write of the store each document was there.
    let mut written = Vec::new();
    for id in 0.. {
        things.insert_one(doc! { "_id": id }).run().expect("stored");
        written.push(engine.store.enter().expect("open").latest_sequence());
        let shown = stream.next_if_any().expect("read").and_then(|event| event.document_key);
        if let Some(key) = shown {
            let id = usize::try_from(key.get_i32("_id").expect("a number")).expect("not negative");
            // Asked after the look: a sync may have come in between.
            return written.get(id).is_none_or(|written| engine.store.durable_sequence() < *written);
        }
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    false
}

#[test]
fn nothing_is_shown_before_it_is_on_stable_storage() {
    assert!(!shows_early(PlantedFault::None));
    // On a busy machine a sync comes between the event and the look.
    assert!((0..10).any(|_| shows_early(PlantedFault::EventsShownEarly)));
}

fn count_up(things: &Collection<Document>) {
    let one = doc! { "$inc": { "n": 1 } };
    things.update_one(doc! { "_id": 1 }, one).run().expect("updated");
}

/// Whether a stream shows updates of one document in another order than that in which they were made, or not all of them.
fn mixes_updates(fault: PlantedFault, patience: Duration) -> bool {
    const ROUND: i32 = 200;
    let client = in_memory(fault);
    let things = logged(&client);
    things.insert_one(doc! { "_id": 1, "n": 0 }).run().expect("stored");
    let mut stream = things.watch().max_await_time(Duration::ZERO).run().expect("opened");
    let (began, mut shown) = (Instant::now(), 0);
    while began.elapsed() < patience {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..ROUND).for_each(|_| count_up(&things)));
            }
        });
        for _ in 0..4 * ROUND {
            let update = stream.next_if_any().expect("read").and_then(|event| event.update_description);
            let n = update.and_then(|update| update.updated_fields.get_i32("n").ok());
            shown += 1;
            if n != Some(shown) {
                return true;
            }
        }
    }
    false
}

#[test]
fn updates_of_a_document_are_shown_in_the_order_in_which_they_were_made() {
    assert!(!mixes_updates(PlantedFault::None, Duration::from_millis(500)));
    assert!(mixes_updates(PlantedFault::PositionsTakenEarly, PATIENCE));
}

/// Whether a stream shows the document of an update as it is on no stable storage yet.
fn looks_up_late(fault: PlantedFault) -> bool {
    let (_folder, client) = syncing_late(fault);
    let things = logged(&client);
    let engine = client.shared().engine();
    let lookup = things.watch().full_document(FullDocumentType::UpdateLookup);
    let mut stream = lookup.max_await_time(Duration::ZERO).run().expect("opened");
    things.insert_one(doc! { "_id": 1, "n": 0 }).run().expect("stored");
    for n in 1..50 {
        let set = |n: i32| things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": n } });
        set(2 * n).write_concern(WriteConcern::journaled()).run().expect("updated");
        set(2 * n + 1).run().expect("updated");
        let written = engine.store.enter().expect("open").latest_sequence();
        while let Some(event) = stream.next_if_any().expect("read") {
            let found = event.full_document.and_then(|found| found.get_i32("n").ok());
            // Asked after the look: a sync may have come in between.
            if found == Some(2 * n + 1) && engine.store.durable_sequence() < written {
                return true;
            }
        }
    }
    false
}

#[test]
fn documents_of_updates_are_looked_up_on_stable_storage() {
    assert!(!looks_up_late(PlantedFault::None));
    assert!(looks_up_late(PlantedFault::DocumentsLookedUpLate));
}

/// Whether a later life of a store has written over events of the life before. Both are within one second in nearly every round.
fn loses_earlier_events(fault: PlantedFault, rounds: i32) -> bool {
    let insert = |client: &Client, ids: [i32; 3]| {
        let things = client.database("test").collection::<Document>("things");
        for id in ids {
            let insert = things.insert_one(doc! { "_id": id });
            insert.write_concern(WriteConcern::journaled()).run().expect("stored");
        }
        things
    };
    (0..rounds).any(|_| {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Client::builder().planted_fault(fault).open(folder.path().join("db")).expect("opened");
        let client = open();
        let token = logged(&client).watch().run().expect("opened").resume_token();
        insert(&client, [1, 2, 3]);
        client.close().expect("closed");
        let client = open();
        let things = insert(&client, [4, 5, 6]);
        let resumed = things.watch().resume_after(token).max_await_time(Duration::ZERO);
        let Ok(mut stream) = resumed.run() else { return true };
        let shown = std::iter::from_fn(|| stream.next_if_any().expect("read"));
        let ids = shown.map(|event| event.document_key.expect("a key").get_i32("_id").expect("a number"));
        !ids.eq(1..=6)
    })
}

#[test]
fn a_later_life_gives_no_position_again() {
    assert!(!loses_earlier_events(PlantedFault::None, 3));
    assert!(loses_earlier_events(PlantedFault::LogMarkIgnored, 100));
}

/// A stream on a quiet collection once kept the snapshot of its last event, however much was written elsewhere.
#[test]
fn a_stream_that_waits_holds_no_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("opened");
    let things = logged(&client);
    let mut stream = things.watch().run().expect("opened");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    assert!(stream.next().is_some_and(|event| event.is_ok()));
    let others = client.database("test").collection::<Document>("others");
    let rounds = &client.shared().engine().catalog.log.rounds;
    let began = Instant::now();
    while rounds.holds_snapshot() {
        others.insert_one(doc! {}).write_concern(WriteConcern::journaled()).run().expect("stored");
        assert!(began.elapsed() < PATIENCE, "the snapshot is kept");
    }
    // It goes on from there.
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let event = stream.next().expect("it waits").expect("read");
    assert_eq!(event.document_key, Some(doc! { "_id": 2 }));
}

/// The mark says how far an earlier life may have come, whatever the clock says.
#[test]
fn a_clock_that_has_gone_back_gives_later_positions() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Client::open(folder.path().join("db")).expect("opened");
    let client = open();
    let things = logged(&client);
    {
        let engine = client.shared().engine();
        let database = engine.store.enter().expect("open");
        // As a clock that is an hour ahead would have it.
        engine.catalog.log.rounds.positions.take(super::log::now() + (3600 << 32));
        engine.catalog.log.take_position(engine.storage(&database)).expect("raised");
    }
    let mut stream = things.watch().run().expect("opened");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let first = stream.next().expect("it waits").expect("an event");
    drop((stream, things));
    client.close().expect("closed");
    let client = open();
    let things = client.database("test").collection::<Document>("things");
    let mut stream = things.watch().resume_after(first.id).run().expect("opened");
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    let second = stream.next().expect("it waits").expect("an event");
    assert_eq!(second.document_key, Some(doc! { "_id": 2 }));
    assert!(second.cluster_time > first.cluster_time && first.cluster_time > Some(now_and(1800)));
}

/// The time in so many seconds.
fn now_and(seconds: u32) -> Timestamp {
    super::log::timestamp(super::log::now() + (u64::from(seconds) << 32))
}

/// A collection that is not watched writes no event.
#[test]
fn what_is_not_watched_writes_nothing_into_the_log() {
    let client = in_memory(PlantedFault::None);
    drop(logged(&client));
    let others = client.database("test").collection::<Document>("others");
    for id in 0..100 {
        others.insert_one(doc! { "_id": id }).run().expect("stored");
        others.update_one(doc! { "_id": id }, doc! { "$set": { "n": 1 } }).run().expect("updated");
    }
    others.delete_many(doc! {}).run().expect("deleted");
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let snapshot = Snapshot::take(&database);
    let unlimited = OperationContext::unlimited();
    let mut scan = Scan::open(&snapshot, Family::Changes, (Vec::new(), None), CacheUse::Bypass, &unlimited);
    assert!(!scan.advance().expect("a step") && engine.catalog.log.bytes() == 0);
}

/// Puts or deletes a key as a damaged disk has it, which an audit must name, also in the next life of the store if that opens.
#[track_caller]
fn is_named(family: Family, key: &dyn Fn(u64) -> Vec<u8>, value: Option<&[u8]>, words: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("made");
    let things = logged(&client);
    let mut stream = things.watch().max_await_time(Duration::ZERO).run().expect("opened");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let last = engine.catalog.log.last();
    let event = database.get(Family::Changes, &event_key(last, 0)).expect("read").expect("an event").to_vec();
    let key = key(last);
    let mut batch = Batch::new(&database);
    match value {
        Some(b"the event") => batch.put(family, &key, &event),
        Some(value) => batch.put(family, &key, value),
        None => batch.delete(family, &key),
    }
    engine.store.commit(batch, CommitLevel::Buffered).expect("stored");
    let check = |client: &Client| {
        let findings = client.verify().expect("audited").findings;
        let is_found = findings
            .iter()
            .any(|finding| format!("{finding:?}").contains(family.name()) && finding.problem.contains(words));
        assert!(is_found, "{words}: {findings:?}");
    };
    check(&client);
    // A reader gets what is whole, or an error, and nothing panics.
    while let Ok(Some(_)) = stream.next_if_any() {}
    drop((stream, database, things));
    client.close().expect("closed");
    match Client::open(folder.path().join("db")) {
        Ok(client) => {
            let database = client.shared().store.enter().expect("open");
            let stored = database.get(family, &key).expect("read");
            // The store knew the mark, and has written it again when it was closed.
            let is_damaged = family != Family::Meta || stored.as_deref() == value;
            if is_damaged { check(&client) } else { assert!(client.verify().expect("audited").is_clean()) }
        }
        Err(error) => assert!(error.is_corruption() && error.to_string().contains(family.name()), "{error}"),
    }
}

/// Each kind of damage is named with its family and key.
#[test]
fn damaged_events_and_marks_are_named() {
    let later = |seconds: u64, ordinal: u32| {
        move |last: u64| event_key(last + (seconds << 32) + u64::from(seconds == 0), ordinal).to_vec()
    };
    let whole = Some(&b"the event"[..]);
    is_named(Family::Changes, &|_| vec![0; 11], whole, "the key is not a position and an ordinal");
    is_named(Family::Changes, &later(0, 1), whole, "has the number 1 in its commit, and 0 is missing");
    is_named(Family::Changes, &later(3600, 0), whole, "the position is above the mark");
    is_named(Family::Changes, &later(0, 0), Some(b"\xff"), "");
    is_named(Family::Changes, &|last| event_key(last, 0).to_vec(), Some(b""), "");
    let meta = |key: &[u8]| {
        let key = key.to_vec();
        move |_: u64| key.clone()
    };
    let far = (u64::MAX / 2).to_be_bytes();
    is_named(Family::Meta, &meta(META_LOG), None, "the log has no id");
    is_named(
        Family::Meta,
        &meta(META_LOG_MARK),
        Some(b"7 bytes"),
        "the value has another length than 8 bytes",
    );
    is_named(Family::Meta, &meta(META_LOG_LOW), Some(b"short"), "the value has another length than 12 bytes");
    is_named(Family::Meta, &meta(&scope_key("test.things")), Some(&far), "since a position above the mark");
    is_named(Family::Meta, &meta(&scope_key("test.things")), Some(b"x"), "no name has changes logged");
}

/// An event that should have gone is named, and one that cannot be decoded ends a stream with an error that names its key.
#[test]
fn what_is_left_of_forgotten_events_is_named_and_what_is_damaged_ends_a_stream() {
    let client = in_memory(PlantedFault::None);
    let things = logged(&client);
    let mut stream = things.watch().run().expect("opened");
    things.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let engine = client.shared().engine();
    let database = engine.store.enter().expect("open");
    let key = event_key(engine.catalog.log.last(), 0);
    let put = |family, key: &[u8], value: &[u8]| {
        let mut batch = Batch::new(&database);
        batch.put(family, key, value);
        engine.store.commit(batch, CommitLevel::Buffered).expect("stored");
    };
    put(Family::Meta, META_LOG_LOW, &key);
    let findings = client.verify().expect("audited").findings;
    assert!(findings.iter().any(|finding| finding.problem.contains("should be forgotten")), "{findings:?}");
    put(Family::Changes, &key, b"\xff");
    let error = stream.next().expect("an error").expect_err("it is damaged");
    assert!(error.is_corruption() && error.to_string().contains("changes"), "{error}");
    assert!(stream.next().is_none());
}
