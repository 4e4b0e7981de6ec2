//! Searches whose answers come from leaves of an index or of a collection in memory, beside writers who change what they find.

use cairndb::PlantedFault;
use cairndb::bson::doc;

use crate::ROUNDS;
use crate::world::{Findings, World, beside, finds, holds, is_done};

/// A number that is raised, and readers who ask for it by an index, alone and in ranges, so often that their answers come from leaves in memory.
fn numbers_that_are_searched_for(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.things().insert_one(doc! { "_id": 0, "n": 0 }).run().expect("nothing is there yet");
    world.index("n", false).expect("an index");
    let raise = world.thread(move |world| {
        for round in 0..ROUNDS {
            let (things, one) = (world.things(), doc! { "$inc": { "n": 1 } });
            let changed = if round % 2 == 0 {
                things.update_one(doc! { "_id": 0 }, one).run()
            } else {
                things.update_many(doc! { "n": { "$gte": 0 } }, one).run()
            };
            is_done(world, changed);
        }
    });
    let read = |in_one_search: bool| {
        world.thread(move |world| {
            let mut last = 0;
            for round in 0..4 * ROUNDS {
                let n = round % (ROUNDS + 1);
                let is_there = if in_one_search {
                    !world.read(world.things().find(doc! { "n": n }).run()).is_empty()
                } else {
                    world.things().find_one(doc! { "n": n }).run().is_ok_and(|found| found.is_some())
                };
                world.expect(!is_there || n >= last, || format!("{n} after {last}"));
                last = if is_there { n } else { last };
            }
        })
    };
    let range = world.thread(move |world| {
        let mut last = 0;
        for round in 0..2 * ROUNDS {
            let direction = if round % 2 == 0 { 1 } else { -1 };
            let (things, range) = (world.things(), doc! { "n": { "$gte": 0 } });
            let found = world.read(things.find(range).sort(doc! { "n": direction }).run());
            let n = found.first().and_then(|found| found.get_i32("n").ok()).unwrap_or(-1);
            world.expect(found.len() == 1 && n >= last, || format!("{found:?} after {last}"));
            last = n;
        }
    });
    beside(vec![raise, read(false), read(true), range]);
    let stored = world.documents().values().filter_map(|document| document.get_i32("n").ok()).next();
    for n in 0..=ROUNDS {
        let found = world.things().find_one(doc! { "n": n }).run().expect("a search");
        world.expect(found.is_some() == (stored == Some(n)), || {
            format!("{n} is found, and {stored:?} is stored")
        });
    }
    world.findings()
}

#[test]
fn what_is_searched_for_again_is_never_an_older_state() {
    holds(numbers_that_are_searched_for);
}

#[test]
fn planted_leaves_that_writers_leave_are_found() {
    finds(PlantedFault::LeavesNotNoted, numbers_that_are_searched_for);
}

#[test]
fn planted_leaves_that_do_not_wait_for_writers_are_found() {
    finds(PlantedFault::LeavesUsedEarly, numbers_that_are_searched_for);
}

/// The numbers of documents that no index has are raised, and readers ask for all of them by an index, so that the documents come from
/// leaves in memory.
fn numbers_that_are_read_in_a_row(fault: PlantedFault) -> Findings {
    const DOCUMENTS: i32 = 6;
    let world = World::new(fault);
    for id in 0..DOCUMENTS {
        world.things().insert_one(doc! { "_id": id, "a": id, "n": 0 }).run().expect("nothing is there yet");
    }
    world.index("a", false).expect("an index");
    let raise = world.thread(move |world| {
        for round in 0..ROUNDS {
            let (things, one) = (world.things(), doc! { "$inc": { "n": 1 } });
            let changed = if round % 2 == 0 {
                is_done(world, things.update_one(doc! { "_id": 0 }, one.clone()).run());
                things.update_one(doc! { "_id": DOCUMENTS - 1 }, one).run()
            } else {
                things.update_many(doc! { "a": { "$gte": 0 } }, one).run()
            };
            is_done(world, changed);
        }
    });
    let read = || {
        world.thread(move |world| {
            let mut last = vec![0; 6];
            for round in 0..3 * ROUNDS {
                let direction = if round % 2 == 0 { 1 } else { -1 };
                let (things, all) = (world.things(), doc! { "a": { "$gte": 0 } });
                let found = world.read(things.find(all).sort(doc! { "a": direction }).run());
                let mut numbers: Vec<i32> =
                    found.iter().filter_map(|document| document.get_i32("n").ok()).collect();
                if direction < 0 {
                    numbers.reverse();
                }
                let is_newer =
                    numbers.len() == last.len() && numbers.iter().zip(&last).all(|(n, last)| n >= last);
                world.expect(is_newer, || format!("{numbers:?} after {last:?}"));
                last = numbers;
            }
        })
    };
    beside(vec![raise, read(), read()]);
    let read = world.read(world.things().find(doc! { "a": { "$gte": 0 } }).run());
    let stored: Vec<_> = world.documents().into_values().collect();
    world.expect(read == stored, || format!("{read:?} are read, and {stored:?} are stored"));
    world.findings()
}

#[test]
fn documents_that_are_read_in_a_row_are_never_of_an_older_state() {
    holds(numbers_that_are_read_in_a_row);
}

#[test]
fn planted_leaves_of_documents_that_writers_leave_are_found() {
    finds(PlantedFault::LeavesNotNoted, numbers_that_are_read_in_a_row);
}

#[test]
fn planted_leaves_of_documents_that_do_not_wait_for_writers_are_found() {
    finds(PlantedFault::LeavesUsedEarly, numbers_that_are_read_in_a_row);
}

/// Searches by an index, of a collection that is dropped, renamed and made anew meanwhile: each ends, with a state that was there.
#[test]
fn searches_beside_a_drop_and_a_rename_come_to_an_end() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", [1]);
        world.index("a", false).expect("an index");
        world.filled("aside", [1]);
        let change = world.thread(|world| {
            is_done(world, world.collection("aside").rename("things").drop_target(true).run());
            is_done(world, world.things().drop().run());
        });
        let read = || {
            world.thread(|world| {
                for _ in 0..ROUNDS {
                    let found = world.read(world.things().find(doc! { "a": 1 }).run());
                    world.expect(found.len() <= 1, || format!("{found:?}"));
                    let found = world.things().find_one(doc! { "a": 1 }).run();
                    world.expect(found.is_ok(), || format!("{found:?}"));
                }
            })
        };
        beside(vec![change, read(), read()]);
        world.findings()
    });
}
