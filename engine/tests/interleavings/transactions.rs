//! Transactions beside each other and beside plain writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use cairndb::bson::doc;
use cairndb::{
    AutoIncrement, ClientSession, Contract, Error, Hint, PlantedFault, ReadConcern,
    TRANSIENT_TRANSACTION_ERROR,
};

use crate::ROUNDS;
use crate::world::{Findings, World, beside, finds, holds, is_done};

/// How often a plain writer writes: a transaction takes several times as many steps.
const PLAIN_ROUNDS: i32 = 4 * ROUNDS;

/// Passes the time of a plain writer. One that does nothing else writes beside every statement, and then no transaction is committed.
fn pause(world: &World) {
    for _ in 0..4 {
        world.things().find(doc! {}).run().expect("a cursor").for_each(drop);
    }
}

/// A session whose transaction is started.
fn started(world: &World) -> ClientSession {
    let mut session = world.client.start_session().run().expect("an open client");
    session.start_transaction().run().expect("none is in progress");
    session
}

/// A transaction ends by its commit, or by a failure after which it may be tried again.
fn expect_an_end(world: &World, ended: &Result<(), Error>) {
    let is_expected = |error: &Error| error.contains_label(TRANSIENT_TRANSACTION_ERROR);
    world.expect(ended.as_ref().err().is_none_or(is_expected), || format!("{ended:?}"));
}

/// Begins and ends a transaction. The first one of all sees every latch free, and plain writers would have ended meanwhile.
fn use_transactions(world: &World) {
    let mut session = started(world);
    world.things().find_one(doc! {}).session(&mut session).run().expect("a search");
    session.abort_transaction().run().expect("it is in progress");
}

/// A transaction of two counters. Returns whether it was committed.
fn count_in_a_transaction(world: &World) -> bool {
    let mut session = started(world);
    let things = world.things();
    let counted = [1, 2].into_iter().try_for_each(|id| {
        let read = things.find_one(doc! { "_id": id }).session(&mut session).run()?;
        let next = read.and_then(|read| read.get_i32("a").ok()).unwrap_or_default() + 1;
        let set = doc! { "$set": { "a": next } };
        things.update_one(doc! { "_id": id }, set).session(&mut session).run().map(|_| ())
    });
    match counted.and_then(|()| session.commit_transaction().run()) {
        Ok(()) => true,
        Err(error) => {
            world.expect(error.contains_label(TRANSIENT_TRANSACTION_ERROR), || error.to_string());
            false
        }
    }
}

/// Whether both counters have what as many committed transactions and writes of the plain writer have added.
fn judged(world: &World, committed: i32, plain: i32) -> Findings {
    let stored = world.documents();
    let counted = |id: &str| stored.get(id).and_then(|found| found.get_i32("a").ok()).unwrap_or_default() - 1;
    let expected = [committed + plain, committed];
    let counted = ["1", "2"].map(counted);
    world.expect(counted == expected, || format!("{counted:?} where {expected:?} were added"));
    world.findings()
}

/// Counters that transactions and plain writers add to, and a reader to whom both are the same.
fn counters_in_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2, 3]);
    use_transactions(&world);
    let committed = Arc::new(AtomicI32::new(0));
    let count = || {
        let committed = Arc::clone(&committed);
        world.thread(move |world| {
            for _ in 0..ROUNDS {
                committed.fetch_add(i32::from(count_in_a_transaction(world)), Ordering::Relaxed);
            }
        })
    };
    let plain = world.thread(|world| {
        for _ in 0..PLAIN_ROUNDS {
            let one = doc! { "$inc": { "a": 1 } };
            is_done(world, world.things().update_one(doc! { "_id": 1 }, one).run());
            pause(world);
        }
    });
    beside(vec![count(), count(), plain]);
    judged(&world, committed.load(Ordering::Relaxed), PLAIN_ROUNDS)
}

#[test]
fn no_increment_of_a_transaction_is_lost() {
    holds(counters_in_transactions);
}

#[test]
fn planted_writers_that_leave_no_notes_are_found() {
    finds(PlantedFault::NotesLeftOut, counters_in_transactions);
}

#[test]
fn planted_commits_that_do_not_ask_for_notes_are_found() {
    finds(PlantedFault::NotesNotAsked, counters_in_transactions);
}

#[test]
fn planted_notes_that_are_left_after_the_latches_are_found() {
    finds(PlantedFault::NotesLeftLate, counters_in_transactions);
}

/// A transaction that adds to a counter, beside a plain writer that adds to it too, and then writes more documents than are noted.
fn counter_beside_many_writes(fault: PlantedFault) -> Findings {
    const DOCUMENTS: i32 = 150;
    let world = World::new(fault);
    world.filled("things", [1]);
    use_transactions(&world);
    let committed = Arc::new(AtomicBool::new(false));
    let is_committed = Arc::clone(&committed);
    let count = world.thread(move |world| {
        let mut session = started(world);
        let read = world.things().find_one(doc! { "_id": 1 }).session(&mut session).run().expect("read");
        let next = read.and_then(|read| read.get_i32("a").ok()).unwrap_or_default() + 1;
        (0..ROUNDS).for_each(|_| pause(world));
        let set = doc! { "$set": { "a": next } };
        let updated = world.things().update_one(doc! { "_id": 1 }, set).session(&mut session).run();
        let ended = updated.and_then(|_| session.commit_transaction().run());
        is_committed.store(ended.is_ok(), Ordering::Relaxed);
        expect_an_end(world, &ended);
    });
    let plain = world.thread(|world| {
        is_done(world, world.things().update_one(doc! { "_id": 1 }, doc! { "$inc": { "a": 1 } }).run());
        world.filled("things", 2..=DOCUMENTS);
    });
    beside(vec![count, plain]);
    let counted = world.documents().get("1").and_then(|found| found.get_i32("a").ok());
    let added = 1 + i32::from(committed.load(Ordering::Relaxed));
    world.expect(counted == Some(1 + added), || format!("{counted:?} where {added} were added to 1"));
    world.findings()
}

#[test]
fn forgotten_notes_are_conflicts() {
    holds(counter_beside_many_writes);
}

#[test]
fn planted_floors_that_are_ignored_are_found() {
    finds(PlantedFault::FloorsIgnored, counter_beside_many_writes);
}

/// Transactions that add to two counters, which a reader sees as one.
fn counters_of_one_commit(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2]);
    use_transactions(&world);
    let count = world.thread(|world| {
        for _ in 0..ROUNDS {
            count_in_a_transaction(world);
        }
    });
    let read = world.thread(|world| {
        for _ in 0..4 * ROUNDS {
            let read = world.documents();
            let counted = ["1", "2"].map(|id| read.get(id).and_then(|found| found.get_i32("a").ok()));
            world.expect(counted[0] == counted[1], || format!("a reader sees {counted:?}"));
        }
    });
    beside(vec![count, read]);
    world.findings()
}

#[test]
fn a_commit_is_seen_whole() {
    holds(counters_of_one_commit);
}

#[test]
fn planted_commits_by_two_writes_are_found() {
    finds(PlantedFault::CommittedApart, counters_of_one_commit);
}

/// A transaction that inserts documents, beside a plain writer whose inserts, in no order, begin a filter of given keys.
fn ids_of_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [100]);
    use_transactions(&world);
    let transact = world.thread(|world| {
        let mut session = started(world);
        let inserted = [7, 4].into_iter().try_for_each(|id| {
            world.things().insert_one(doc! { "_id": id }).session(&mut session).run().map(|_| ())
        });
        let ended = inserted.and_then(|()| session.commit_transaction().run());
        let is_expected = ended.as_ref().err().is_none_or(|error| {
            error.is_duplicate_key() || error.contains_label(TRANSIENT_TRANSACTION_ERROR)
        });
        world.expect(is_expected, || format!("{ended:?}"));
    });
    let plain = world.thread(|world| {
        for id in [5, 3, 8, 1, 7, 4] {
            is_done(world, world.things().insert_one(doc! { "_id": id }).run());
        }
    });
    beside(vec![transact, plain]);
    // A second document of an `_id` takes the place of the first one, and is counted.
    let stored = world.documents().len() as u64;
    let counted = world.things().estimated_document_count().run().expect("a count");
    world.expect(counted == stored, || format!("{counted} counted, {stored} stored"));
    world.findings()
}

#[test]
fn an_id_of_a_transaction_is_given_once() {
    holds(ids_of_transactions);
}

#[test]
fn planted_keys_that_filters_do_not_learn_of_are_found() {
    finds(PlantedFault::KeysNotAdmitted, ids_of_transactions);
}

/// Counters that transactions and a plain writer add to, of which none has begun before: the first transaction of all waits for
/// writers that leave no notes yet.
fn counters_when_transactions_begin(fault: PlantedFault) -> Findings {
    counters_when_they_begin(fault, PLAIN_ROUNDS)
}

/// The same with a plain writer that writes as often as given.
fn counters_when_they_begin(fault: PlantedFault, rounds: i32) -> Findings {
    let world = World::new(fault);
    // A write of a unique key takes several latches.
    world.index("k", true).expect("an empty collection");
    let counters = [1, 2].map(|id| doc! { "_id": id, "a": 1, "k": -id });
    world.things().insert_many(counters).run().expect("nothing is there yet");
    let committed = Arc::new(AtomicI32::new(0));
    let count = || {
        let committed = Arc::clone(&committed);
        world.thread(move |world| {
            pause(world);
            committed.fetch_add(i32::from(count_in_a_transaction(world)), Ordering::Relaxed);
        })
    };
    let plain = world.thread(move |world| {
        for round in 1..=rounds {
            let keyed = if round % 2 == 0 {
                doc! { "k": round }
            } else {
                doc! { "other": round }
            };
            let one = doc! { "$inc": { "a": 1 }, "$set": keyed };
            is_done(world, world.things().update_one(doc! { "_id": 1 }, one).run());
            pause(world);
        }
    });
    beside(vec![plain, count(), count()]);
    judged(&world, committed.load(Ordering::Relaxed), rounds)
}

#[test]
fn no_increment_is_lost_when_transactions_begin() {
    holds(counters_when_transactions_begin);
}

#[test]
fn planted_beginnings_without_a_pass_are_found() {
    finds(PlantedFault::PassLeftOut, counters_when_transactions_begin);
}

#[test]
fn planted_writers_that_ask_early_whether_to_note_are_found() {
    // A second write would leave a note.
    finds(PlantedFault::NotingAskedEarly, |fault| counters_when_they_begin(fault, 1));
}

#[test]
fn planted_beginnings_before_the_pass_are_found() {
    finds(PlantedFault::OnBeforePass, counters_when_transactions_begin);
}

/// Transactions that read a document again and again, which plain writers change and others look up.
fn states_of_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1]);
    use_transactions(&world);
    let read = || {
        world.thread(|world| {
            for _ in 0..ROUNDS {
                let mut session = started(world);
                let mut read = || {
                    let found = world.things().find_one(doc! { "_id": 1 }).session(&mut session).run();
                    found.expect("read").and_then(|found| found.get_i32("a").ok())
                };
                let first = read();
                // Twice would do to keep a copy.
                let later = [read(), read(), read()];
                world.expect(later == [first; 3], || format!("{first:?} and then {later:?}"));
            }
        })
    };
    let add = |in_a_batch: bool| {
        world.thread(move |world| {
            for _ in 0..ROUNDS {
                let (things, one) = (world.things(), doc! { "$inc": { "a": 1 } });
                let updated = if in_a_batch {
                    things.update_many(doc! { "a": { "$gte": 0 } }, one).run()
                } else {
                    things.update_one(doc! { "_id": 1 }, one).run()
                };
                is_done(world, updated);
                world.things().find_one(doc! { "_id": 1 }).run().expect("read");
            }
        })
    };
    beside(vec![read(), add(false), add(true)]);
    world.findings()
}

#[test]
fn a_transaction_reads_one_state_beside_copies_of_others() {
    holds(states_of_transactions);
}

#[test]
fn planted_copies_that_are_newer_than_a_snapshot_are_found() {
    finds(PlantedFault::StampsTooLow, states_of_transactions);
}

/// Transactions and plain writers that want the same unique keys.
fn unique_keys_in_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [100]);
    world.index("k", true).expect("an empty collection");
    use_transactions(&world);
    let insert = |first: i32, in_transaction: bool| {
        world.thread(move |world| {
            for round in 0..ROUNDS {
                let insert = world.things();
                let document = doc! { "_id": first + round, "k": round };
                if !in_transaction {
                    is_done(world, insert.insert_one(document).run());
                    continue;
                }
                let mut session = started(world);
                let inserted = insert.insert_one(document).session(&mut session).run();
                let done = inserted.and_then(|_| session.commit_transaction().run());
                let is_expected = done.as_ref().map_or_else(
                    |error| error.is_duplicate_key() || error.contains_label(TRANSIENT_TRANSACTION_ERROR),
                    |()| true,
                );
                world.expect(is_expected, || format!("{done:?}"));
            }
        })
    };
    beside(vec![insert(0, true), insert(10, true), insert(20, false)]);
    for key in 0..ROUNDS {
        let having =
            world.read(world.things().find(doc! { "k": key }).hint(Hint::Keys(doc! { "_id": 1 })).run());
        world.expect(having.len() == 1, || format!("{} documents have the key {key}", having.len()));
    }
    world.findings()
}

#[test]
fn a_unique_key_has_one_document_beside_transactions() {
    holds(unique_keys_in_transactions);
}

#[test]
fn planted_unique_keys_that_are_not_claimed_are_found() {
    finds(PlantedFault::UniqueNotClaimed, unique_keys_in_transactions);
}

/// Transactions and plain writers that number by one gapless sequence, and transactions that want a second one as well.
fn gapless_numbers_in_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    let names = ["things", "others"];
    for name in names {
        let number = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        let made = world.client.database("app").create_collection(name).auto_increment(number).run();
        made.expect("an allowed field");
    }
    use_transactions(&world);
    let transact = |order: [&'static str; 2], commits: bool| {
        world.thread(move |world| {
            let mut session = started(world);
            let inserted = order.into_iter().try_for_each(|name| {
                world.collection(name).insert_one(doc! {}).session(&mut session).run().map(|_| ())
            });
            let ended = inserted.and_then(|()| {
                if commits { session.commit_transaction().run() } else { session.abort_transaction().run() }
            });
            expect_an_end(world, &ended);
        })
    };
    let plain = world.thread(|world| {
        for _ in 0..2 {
            is_done(world, world.things().insert_one(doc! {}).run());
            let watermark = world.things().auto_increment("n").safe_watermark().expect("an open client");
            let below = doc! { "n": { "$lte": watermark.unwrap_or_default() } };
            let found = world.read(world.things().find(below).run()).len() as i64;
            let expected = watermark.unwrap_or_default();
            world.expect(found == expected, || format!("{found} documents up to the watermark {expected}"));
        }
    });
    let against = ["others", "things"];
    beside(vec![transact(names, true), transact(against, true), transact(names, false), plain]);
    for name in names {
        let found = world.read(world.collection(name).find(doc! {}).run());
        let mut numbers: Vec<i64> = found.iter().filter_map(|found| found.get_i64("n").ok()).collect();
        numbers.sort_unstable();
        let expected: Vec<i64> = (1..).take(numbers.len()).collect();
        world.expect(numbers == expected, || format!("the numbers of {name} are {numbers:?}"));
    }
    world.findings()
}

#[test]
fn gapless_numbers_of_transactions_have_no_gap() {
    holds(gapless_numbers_in_transactions);
}

#[test]
fn planted_turns_that_are_let_go_early_are_found() {
    finds(PlantedFault::TurnsLetGoEarly, gapless_numbers_in_transactions);
}

/// Transactions and a plain writer that write the first document of one collection.
#[test]
fn one_collection_is_made_by_many_first_writers() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("others", [1]);
        use_transactions(&world);
        let transact = |id: i32| {
            world.thread(move |world| {
                let mut session = started(world);
                let things = world.things();
                let inserted = things.insert_one(doc! { "_id": id }).session(&mut session).run();
                let ended = inserted.and_then(|_| session.commit_transaction().run());
                expect_an_end(world, &ended);
                let stored = things.find_one(doc! { "_id": id }).run().expect("a search").is_some();
                world.expect(stored == ended.is_ok(), || format!("{id} is there: {stored}, {ended:?}"));
            })
        };
        let plain = world.thread(|world| {
            is_done(world, world.things().insert_one(doc! { "_id": 3 }).run());
        });
        beside(vec![transact(1), transact(2), plain]);
        let stored = world.documents().len() as u64;
        let counted = world.things().estimated_document_count().run().expect("a count");
        world.expect(counted == stored, || format!("{counted} counted, {stored} stored"));
        world.findings()
    });
}

/// Serializable transactions that each insert a document if there are less than three, beside a plain writer that removes one.
fn searches_of_serializable_transactions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2]);
    use_transactions(&world);
    let transact = |id: i32| {
        world.thread(move |world| {
            let mut session = world.client.start_session().run().expect("an open client");
            let start = session.start_transaction().read_concern(ReadConcern::serializable());
            start.run().expect("none is in progress");
            let things = world.things();
            let counted = things.count_documents(doc! { "a": 1 }).session(&mut session).run();
            let ended = counted.and_then(|counted| {
                if counted < 3 {
                    things.insert_one(doc! { "_id": id, "a": 1 }).session(&mut session).run()?;
                }
                session.commit_transaction().run()
            });
            expect_an_end(world, &ended);
        })
    };
    let plain = world.thread(|world| {
        is_done(world, world.things().update_one(doc! { "_id": 1 }, doc! { "$set": { "b": 1 } }).run());
    });
    beside(vec![transact(10), transact(20), plain]);
    let stored = world.documents().len();
    world.expect(stored <= 3, || format!("{stored} documents where three are the most"));
    world.findings()
}

#[test]
fn what_serializable_transactions_have_searched_is_still_so() {
    holds(searches_of_serializable_transactions);
}

#[test]
fn planted_searches_that_are_not_checked_are_found() {
    finds(PlantedFault::SearchesNotChecked, searches_of_serializable_transactions);
}
