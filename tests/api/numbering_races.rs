//! Many threads that number at once: every value once, in the order and completeness that each contract promises,
//! and never a value of a state that was left.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, Contract, IndexModel, IndexOptions, Sequence, SequenceOptions};
use cairndb_tests::choices::number_from_environment;
use cairndb_tests::race::race;
use cairndb_tests::scratch::Scratch;

use crate::auto_increment::{field, numbers, sequence_refuses};
use crate::verify_clean;

const THREADS: usize = 8;

/// The number of times that everything is done: once in a normal run.
fn rounds() -> u64 {
    number_from_environment("CAIRNDB_RACE_ROUNDS", 1)
}

/// A collection whose field `n` numbers itself.
struct Race {
    // Dropped first: the folder goes last.
    things: Collection<Document>,
    client: Client,
    _scratch: Scratch,
}

impl Race {
    #[track_caller]
    fn with(options: Document) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        let options = doc! { "Field": "n" }.into_iter().chain(options).collect();
        let creation =
            client.database("test").create_collection("things").auto_increment(field(options)).run();
        creation.expect("an allowed field");
        let things = client.database("test").collection("things");
        Self { things, client, _scratch: scratch }
    }

    #[track_caller]
    fn of(contract: Contract) -> Self {
        Self::with(doc! { "Contract": contract.name(), "AcquireSize": 7, "CacheSize": 20 })
    }

    #[track_caller]
    fn unique(&self, path: &str) {
        let options = IndexOptions::builder().unique(true).build();
        let model = IndexModel::builder().keys(doc! { path: 1 }).options(options).build();
        self.things.create_index(model).run().expect("an index");
    }

    /// The stored values, ascending.
    #[track_caller]
    fn sorted(&self) -> Vec<i64> {
        let mut values = numbers(&self.things, "n");
        values.sort_unstable();
        values
    }
}

/// Runs the work again and again on all threads while `change` runs once.
fn race_during(work: impl Fn(usize) + Sync, change: impl FnOnce() + Send) {
    /// Ends the threads when the change is over, also where it failed: the scope would wait for them for ever.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    let done = AtomicBool::new(false);
    let turns = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (done, turns, work) = (&done, &turns, &work);
        let _done = Done(done);
        for thread in 0..THREADS {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    work(thread);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let wait_for = |goal: u64| {
            while turns.load(Ordering::Relaxed) < goal {
                std::thread::yield_now();
            }
        };
        wait_for(100);
        change();
        wait_for(turns.load(Ordering::Relaxed) + 200);
    });
}

fn number(position: usize) -> i64 {
    i64::try_from(position).expect("small")
}

#[track_caller]
fn distinct(values: &[i64]) {
    let set: BTreeSet<i64> = values.iter().copied().collect();
    assert_eq!(set.len(), values.len(), "a value was given twice");
}

/// Inserts from all threads, one by one and in batches.
fn insert_from_all(race_of: &Race, batches: bool) {
    race(0..THREADS, |thread| {
        for step in 0..60 {
            let mark = doc! { "thread": number(thread), "step": number(step) };
            if batches {
                race_of.things.insert_many(vec![mark; 1 + step % 5]).run().expect("stored");
            } else {
                race_of.things.insert_one(mark).run().expect("stored");
            }
        }
    });
}

#[test]
fn eight_threads_get_every_value_once() {
    for _ in 0..rounds() {
        for contract in Contract::ALL {
            for batches in [false, true] {
                let race_of = Race::of(contract);
                insert_from_all(&race_of, batches);
                let values = race_of.sorted();
                assert_eq!(values, (1..).take(values.len()).collect::<Vec<i64>>(), "{contract:?}");
                verify_clean(&race_of.client);
            }
        }
    }
}

#[test]
fn eight_acquirers_get_every_value_once() {
    for contract in Contract::ALL {
        let race_of = Race::of(contract);
        let sequences = race(0..THREADS, |_| {
            let things = race_of.client.acquirer().database("test").collection::<Document>("things");
            let mut values = Vec::new();
            for step in 0..60 {
                if step % 3 == 0 {
                    things.insert_many(vec![doc! {}; 4]).run().expect("stored");
                } else {
                    values.push(things.insert_one(doc! {}).run().expect("stored").last_generate_id);
                }
            }
            values
        });
        assert!(
            sequences.iter().all(|values| values.is_sorted_by(|a, b| a < b)),
            "an acquirer's values ascend"
        );
        distinct(&race_of.sorted());
        verify_clean(&race_of.client);
    }
}

/// The numbers of one batch follow each other beside other inserts; only where a block ends, others may be in between:
/// they draw from the next blocks while the batch waits for its next one.
#[test]
fn a_batch_takes_its_values_in_one_step() {
    for contract in Contract::ALL {
        let block = 1000;
        let race_of = Race::with(doc! { "Contract": contract.name(), "AcquireSize": block });
        race(0..THREADS, |_| {
            for _ in 0..40 {
                let batch = race_of.things.insert_many(vec![doc! {}; 90]).run().expect("stored");
                let mut values: Vec<i64> =
                    batch.generated.values().map(|made| made.get("n").expect("a value")).collect();
                values.sort_unstable();
                let is_in_between =
                    |pair: &[i64]| matches!(pair, [one, next] if next - one > 1 && one % block != 0);
                assert!(!values.windows(2).any(is_in_between), "{contract:?}: {values:?}");
            }
        });
        assert_eq!(race_of.sorted(), (1..=28_800).collect::<Vec<_>>());
        verify_clean(&race_of.client);
    }
}

/// Inserts values that lie far ahead of everything, and of every other explicit value, between generated ones.
fn insert_explicit(race_of: &Race, explicit: &AtomicI64) {
    for step in 0..40 {
        race_of.things.insert_one(doc! {}).run().expect("stored");
        if step % 4 == 0 {
            let value = explicit.fetch_add(1000, Ordering::Relaxed) + 500;
            race_of.things.insert_one(doc! { "n": value, "explicit": true }).run().expect("stored");
        }
    }
}

#[test]
fn eight_threads_with_explicit_values_never_get_a_value_twice() {
    for _ in 0..rounds() {
        for contract in Contract::ALL {
            let race_of = Race::of(contract);
            let explicit = AtomicI64::new(0);
            race(0..THREADS, |_| insert_explicit(&race_of, &explicit));
            let generated = doc! { "explicit": { "$exists": false } };
            let generated = race_of.things.find(generated).run().expect("a cursor");
            let generated: Vec<i64> = generated.map(|found| found.unwrap().get_i64("n").unwrap()).collect();
            distinct(&generated);
            verify_clean(&race_of.client);
        }
    }
}

#[test]
fn values_taken_directly_are_given_once() {
    let scratch = Scratch::new();
    let client = scratch.open();
    for contract in Contract::ALL {
        let db = client.database(contract.name());
        let options = SequenceOptions::builder().acquire_size(7).cache_size(20).contract(contract).build();
        db.create_sequence("numbers").with_options(options).run().unwrap();
        let shared = db.sequence("numbers");
        let values = race(0..THREADS, |thread| {
            let own = client.acquirer().database(contract.name()).sequence("numbers");
            let sequence = if thread % 2 == 0 { &shared } else { &own };
            (0..300)
                .flat_map(|step| {
                    let count = if step % 3 == 0 { 5 } else { 1 };
                    sequence
                        .fetch(count)
                        .run()
                        .expect("values")
                        .values()
                        .chain([sequence.next_value().run().unwrap()])
                })
                .collect::<Vec<i64>>()
        });
        distinct(&values.concat());
    }
}

/// Inserts documents of which half are rejected by a unique index on another field; gapless numbers show no gap.
#[track_caller]
fn refused_in_between(ordered: Option<bool>) {
    let race_of = Race::of(Contract::Gapless);
    race_of.unique("k");
    race(0..THREADS, |thread| {
        for step in 0..50_i64 {
            // Every key is tried by two threads, and once more.
            let key = number(thread / 2) * 1000 + step;
            match ordered {
                None => drop(race_of.things.insert_one(doc! { "k": key }).run()),
                Some(ordered) => {
                    let keys = [key, key, key + 500, key];
                    let batch = keys.map(|key| doc! { "k": key });
                    drop(race_of.things.insert_many(batch).ordered(ordered).run());
                }
            }
        }
    });
    let values = race_of.sorted();
    assert!(values.len() >= 200, "{} stored", values.len());
    assert_eq!(values, (1..).take(values.len()).collect::<Vec<i64>>());
    assert_eq!(race_of.things.auto_increment("n").gaps().expect("a list"), []);
    verify_clean(&race_of.client);
}

#[test]
fn refused_documents_leave_no_gap_in_a_gapless_sequence() {
    for _ in 0..rounds() {
        refused_in_between(None);
        refused_in_between(Some(true));
        refused_in_between(Some(false));
    }
}

#[test]
fn a_gapless_sequence_passes_values_that_are_in_use() {
    for batch in [1, 5] {
        let race_of = Race::of(Contract::Gapless);
        race_of.unique("n");
        let used = (2..40).step_by(3).chain([50, 51, 52, 53, 54, 55]);
        race_of.things.insert_many(used.map(|n| doc! { "n": n })).run().unwrap();
        race_of.things.insert_one(doc! { "n": 1 }).run().unwrap();
        race_of.things.alter_auto_increment(field(doc! { "Field": "n", "CurrentValue": 1 })).run().unwrap();
        race(0..THREADS, |_| {
            for _ in 0..30 {
                let _ = match batch {
                    1 => race_of.things.insert_one(doc! {}).run().map(drop),
                    _ => race_of.things.insert_many(vec![doc! {}; batch]).ordered(false).run().map(drop),
                };
            }
        });
        let values = race_of.sorted();
        assert!(values.len() > 150, "it got stuck at {}", values.len());
        assert_eq!(values, (1..).take(values.len()).collect::<Vec<i64>>());
        verify_clean(&race_of.client);
    }
}

#[test]
fn gapless_fields_beside_each_other_are_both_complete() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let gapless = |name: &str| field(doc! { "Field": name, "Contract": "gapless" });
    let db = client.database("test");
    // In two collections with the fields in opposite orders of making, so that turns could be taken crosswise.
    db.create_collection("a").auto_increment(gapless("n")).auto_increment(gapless("m")).run().unwrap();
    db.create_collection("b").auto_increment(gapless("m")).auto_increment(gapless("n")).run().unwrap();
    race(0..THREADS, |thread| {
        for step in 0..40 {
            let name = if (thread + step) % 2 == 0 { "a" } else { "b" };
            db.collection::<Document>(name).insert_one(doc! {}).run().expect("stored");
        }
    });
    for name in ["a", "b"] {
        for path in ["m", "n"] {
            let mut values = numbers(&db.collection(name), path);
            values.sort_unstable();
            assert_eq!(values, (1..=160).collect::<Vec<_>>(), "{name}.{path}");
        }
    }
    verify_clean(&client);
}

/// Inserts while `change` runs. A writer that starts after it has returned, or starts after the next one has begun, gets
/// values that `is_new` accepts.
#[track_caller]
fn changes(
    options: Document,
    change: impl FnOnce(&Race) + Send,
    is_new: impl Fn(i64) -> bool + Sync,
) -> Race {
    let race_of = Race::with(options);
    let changed = AtomicBool::new(false);
    race_during(
        |thread| {
            let own = race_of.client.acquirer().database("test").collection::<Document>("things");
            let things = if thread % 2 == 0 { &race_of.things } else { &own };
            let after = changed.load(Ordering::Acquire);
            let values: Vec<i64> = if thread % 3 == 0 {
                let result = things.insert_many(vec![doc! { "after": after }; 3]).run().expect("stored");
                result.generated.values().map(|values| values.get("n").expect("a value")).collect()
            } else {
                let result = things.insert_one(doc! { "after": after }).run().expect("stored");
                result.last_generate_id.into_iter().collect()
            };
            assert!(!after || values.iter().all(|value| is_new(*value)), "{values:?} after the change");
        },
        || {
            change(&race_of);
            changed.store(true, Ordering::Release);
        },
    );
    verify_clean(&race_of.client);
    race_of
}

fn alter(options: Document) -> impl FnOnce(&Race) + Send {
    move |race_of| {
        let options = doc! { "Field": "n" }.into_iter().chain(options).collect();
        race_of.things.alter_auto_increment(field(options)).run().expect("altered");
    }
}

fn truncate(race_of: &Race) {
    race_of.things.truncate().run().expect("truncated");
}

fn sizes(contract: Contract) -> Document {
    doc! { "Contract": contract.name(), "AcquireSize": 50, "CacheSize": 100 }
}

#[test]
fn after_a_change_no_value_of_the_old_state_is_given() {
    for _ in 0..rounds() {
        for contract in Contract::ALL {
            let far = 1_000_000_000;
            let race_of = changes(sizes(contract), alter(doc! { "CurrentValue": far }), |value| value > far);
            distinct(&race_of.sorted());
            let turned =
                alter(doc! { "Increment": -1, "MinValue": -far, "MaxValue": far, "CurrentValue": 0 });
            let race_of = changes(sizes(contract), turned, |value| value < 0);
            distinct(&race_of.sorted());
            let evens = alter(doc! { "CurrentValue": far, "Increment": 2 });
            changes(sizes(contract), evens, |value| value > far && value % 2 == 0);
        }
    }
}

#[test]
fn after_a_change_of_contract_the_new_one_holds() {
    let far = 1_000_000;
    for from in Contract::ALL {
        for to in Contract::ALL {
            let change = alter(doc! { "Contract": to.name(), "CurrentValue": far });
            let race_of = changes(sizes(from), change, |value| value > far);
            distinct(&race_of.sorted());
            if to == Contract::Gapless {
                let new: Vec<i64> = race_of.sorted().into_iter().filter(|value| *value > far).collect();
                assert_eq!(new, (far + 1..).take(new.len()).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn after_a_truncation_no_document_of_before_appears() {
    for _ in 0..rounds() {
        for contract in Contract::ALL {
            let options = doc! { "StartValue": 5 }.into_iter().chain(sizes(contract)).collect();
            let race_of = changes(options, truncate, |_| true);
            let values = race_of.sorted();
            distinct(&values);
            assert_eq!(values.first(), Some(&5), "values start again");
            let last = race_of.things.auto_increment("n").snapshot().unwrap().current_value;
            assert!(values.iter().all(|value| *value <= last), "{last} is behind what is stored");
            let counted = race_of.things.estimated_document_count().run().unwrap();
            assert_eq!(counted, values.len() as u64);
        }
    }
}

#[test]
fn after_a_field_was_dropped_and_made_again_values_start_again() {
    for contract in Contract::ALL {
        let race_of = Race::with(sizes(contract));
        race_during(
            |_| {
                // Without the field nothing is generated, which is as good.
                race_of.things.insert_one(doc! {}).run().expect("stored");
            },
            || {
                for round in 0..5 {
                    race_of.things.drop_auto_increment("n").run().expect("dropped");
                    race_of.things.truncate().run().expect("truncated");
                    let start = doc! { "Field": "n", "StartValue": 1000 * (round + 1) };
                    let options = start.into_iter().chain(sizes(contract)).collect();
                    race_of.things.create_auto_increment(field(options)).run().expect("made");
                    verify_clean(&race_of.client);
                }
            },
        );
        let stored = race_of.things.find(doc! { "n": { "$exists": true } }).run().unwrap();
        let values: Vec<i64> = stored.map(|found| found.unwrap().get_i64("n").unwrap()).collect();
        distinct(&values);
        assert!(values.iter().all(|value| *value >= 5000), "a value of a dropped field is stored");
        verify_clean(&race_of.client);
    }
}

#[test]
fn a_collection_that_is_dropped_and_made_again_numbers_from_the_start() {
    let race_of = Race::of(Contract::Fast);
    let db = race_of.client.database("test");
    race_during(
        |_| drop(race_of.things.insert_one(doc! {}).run().expect("stored")),
        || {
            for _ in 0..5 {
                race_of.things.drop().run().expect("dropped");
                // A racing insert may have made it, without fields.
                let creation =
                    db.create_collection("things").auto_increment(field(doc! { "Field": "n" })).run();
                assert!(creation.is_ok() || creation.unwrap_err().code() == Some(48));
                verify_clean(&race_of.client);
            }
        },
    );
    let stored = crate::all(&race_of.things);
    let values: Vec<i64> = stored.iter().filter_map(|document| document.get_i64("n").ok()).collect();
    distinct(&values);
    verify_clean(&race_of.client);
}

#[test]
fn a_renamed_collection_goes_on() {
    let race_of = Race::of(Contract::Gapless);
    let others = race_of.client.database("test").collection::<Document>("others");
    let acknowledged = AtomicU64::new(0);
    race_during(
        |thread| {
            let things = if thread % 2 == 0 { &race_of.things } else { &others };
            let result = things.insert_one(doc! {}).run().expect("stored");
            acknowledged.fetch_add(u64::from(result.last_generate_id.is_some()), Ordering::Relaxed);
        },
        || {
            for _ in 0..3 {
                race_of.things.rename("others").drop_target(true).run().expect("renamed");
                others.rename("things").drop_target(true).run().expect("renamed");
            }
        },
    );
    // Documents of collections without the field went with the renames; those with it stayed.
    for collection in [&race_of.things, &others] {
        let found = collection.find(doc! { "n": { "$exists": true } }).run().unwrap();
        let mut values: Vec<i64> = found.map(|found| found.unwrap().get_i64("n").unwrap()).collect();
        values.sort_unstable();
        assert_eq!(values, (1..).take(values.len()).collect::<Vec<i64>>());
    }
    verify_clean(&race_of.client);
}

/// Draws from a sequence while `change` runs; a caller that starts after that has returned gets values from `least` on.
#[track_caller]
fn takes_during(
    contract: Contract,
    change: impl FnOnce(&Sequence) -> cairndb::Result<()> + Send,
    least: i64,
) {
    let scratch = Scratch::new();
    let client = scratch.open();
    let db = client.database("test");
    let options = SequenceOptions::builder().acquire_size(50).cache_size(100).contract(contract).build();
    db.create_sequence("numbers").with_options(options).run().expect("made");
    let sequence = db.sequence("numbers");
    let changed = AtomicBool::new(false);
    let values = Mutex::new(Vec::new());
    let own: Vec<Sequence> =
        (0..THREADS).map(|_| client.acquirer().database("test").sequence("numbers")).collect();
    race_during(
        |thread| {
            let sequence = own.get(thread).filter(|_| thread % 2 == 0).unwrap_or(&sequence);
            let after = changed.load(Ordering::Acquire);
            let taken: Vec<i64> = match thread % 3 {
                0 => sequence.fetch(3).run().expect("values").values().collect(),
                _ => vec![sequence.next_value().run().expect("a value")],
            };
            assert!(!after || taken.iter().all(|value| *value >= least), "{taken:?} after the change");
            values.lock().expect("no thread fails").extend(taken);
        },
        || {
            change(&sequence).expect("changed");
            changed.store(true, Ordering::Release);
        },
    );
    distinct(&values.into_inner().expect("no thread fails"));
    verify_clean(&client);
}

#[test]
fn after_a_change_of_a_sequence_no_value_of_the_old_state_is_taken() {
    let far = 1_000_000_000;
    for contract in Contract::ALL {
        takes_during(contract, |sequence| sequence.restart(far).run(), far);
        takes_during(contract, |sequence| sequence.set_current_value(far).run(), far + 1);
        let options = SequenceOptions::builder().current_value(far).increment(3).build();
        takes_during(contract, |sequence| sequence.alter(options).run(), far + 3);
    }
}

/// Draws from a sequence that may have another name by now.
fn take_by_name(sequence: &Sequence, thread: usize) -> Vec<i64> {
    let taken = if thread.is_multiple_of(2) {
        sequence.next_value().run().map(|value| vec![value])
    } else {
        sequence.fetch(3).run().map(|fetched| fetched.values().collect())
    };
    taken.unwrap_or_else(|error| {
        sequence_refuses::<()>(Err(error), -324, "there is no sequence");
        Vec::new()
    })
}

#[track_caller]
fn renames(contract: Contract) {
    let scratch = Scratch::new();
    let client = scratch.open();
    let db = client.database("test");
    let options = SequenceOptions::builder().acquire_size(5).cache_size(20).contract(contract).build();
    db.create_sequence("a").with_options(options).run().expect("made");
    let names = ["a", "b"].map(|name| db.sequence(name));
    let values = Mutex::new(Vec::new());
    race_during(
        |thread| {
            for sequence in &names {
                let taken = take_by_name(sequence, thread);
                values.lock().expect("no thread fails").extend(taken);
            }
        },
        || {
            for _ in 0..10 {
                db.rename_sequence("a", "b").run().expect("renamed");
                db.rename_sequence("b", "a").run().expect("renamed");
            }
        },
    );
    distinct(&values.into_inner().expect("no thread fails"));
    verify_clean(&client);
}

#[test]
fn a_renamed_sequence_gives_every_value_once_over_both_names() {
    for _ in 0..rounds() {
        Contract::ALL.into_iter().for_each(renames);
    }
}

/// A sequence that was dropped while others drew from it left its mark behind, and one that was altered meanwhile was
/// there again after the next open: they wrote behind the removal.
#[test]
fn a_dropped_sequence_gives_nothing_any_more() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let db = client.database("test");
    db.create_sequence("a").start_value(0).with_options(SequenceOptions::builder().build()).run().unwrap();
    let epoch = AtomicI64::new(0);
    let sequence = db.sequence("a");
    race_during(
        |thread| {
            let least = epoch.load(Ordering::Acquire);
            if thread == 0 {
                let _ = sequence.alter(SequenceOptions::builder().cache_size(2000 + least % 7).build()).run();
            }
            match sequence.fetch(1000).run().map(|fetched| fetched.next_value) {
                Ok(value) => {
                    assert!(value >= least, "{value} is of a dropped sequence, {least} was made since");
                }
                Err(error) => drop(sequence_refuses::<()>(Err(error), -324, "there is no sequence")),
            }
        },
        || {
            for round in 1..20 {
                db.drop_sequence("a").run().expect("dropped");
                db.create_sequence("a").start_value(round * 1_000_000_000).run().expect("made");
                epoch.store(round * 1_000_000_000, Ordering::Release);
            }
        },
    );
    db.drop_sequence("a").run().expect("dropped");
    verify_clean(&client);
    drop((db, sequence));
    client.close().expect("a clean close");
    let client = scratch.open();
    assert_eq!(client.database("test").list_sequences().run().unwrap(), [""; 0]);
    verify_clean(&client);
}

#[test]
fn closing_while_eight_threads_number_loses_nothing() {
    for contract in Contract::ALL {
        let scratch = Scratch::new();
        let client = scratch.open();
        let db = client.database("test");
        let options = SequenceOptions::builder().contract(contract).build();
        db.create_sequence("a").with_options(options).run().unwrap();
        let sequence = db.sequence("a");
        let taken = AtomicI64::new(0);
        let closed = AtomicBool::new(false);
        race_during(
            |_| match sequence.next_value().run() {
                Ok(value) => drop(taken.fetch_max(value, Ordering::Relaxed)),
                Err(error) => {
                    assert!(matches!(error.kind(), cairndb::ErrorKind::Closed), "{error:?}");
                    closed.store(true, Ordering::Relaxed);
                }
            },
            || client.close().expect("a clean close"),
        );
        assert!(closed.into_inner());
        let next = scratch.open().database("test").sequence("a").next_value().run().unwrap();
        assert_eq!(next, taken.into_inner() + 1, "{contract:?}");
    }
}
