//! The callers of one database in memory, on threads that a scheduler runs in hundreds of orders: at random, and with few
//! switches at unlikely points (PCT).
//!
//! Only with the feature `shuttle`, as `make interleavings` does. Then the locks and atomics that `base/src/sync.rs` names
//! are the checker's, and each operation on them is a point at which threads may switch: latches, gates of collections,
//! the catalog, counters, announcements of changes, the gate that `close` waits at. A deadlock ends a schedule with a
//! panic. RocksDB is the real one, and each call of it is one step. Planted faults show that the scenarios can fail.

#[path = "../../linked/schedules.rs"]
mod schedules;
mod searches;
mod streams;
mod tokens;
mod transactions;
mod world;

use std::time::Duration;

use cairndb::bson::doc;
use cairndb::{AutoIncrement, Contract, ErrorKind, Hint, IndexModel, IndexOptions, PlantedFault};
use shuttle::thread::yield_now;

use crate::world::{Findings, World, beside, finds, holds, is_done};

/// How often a thread repeats what it does.
pub(crate) const ROUNDS: i32 = 3;

/// Three threads insert the same `_id`s.
fn inserts_of_the_same_ids(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    let insert = |by: i32| {
        world.thread(move |world| {
            for id in 0..ROUNDS {
                if is_done(world, world.things().insert_one(doc! { "_id": id, "by": by }).run()) {
                    let stored = world.things().find_one(doc! { "_id": id }).run().expect("a search");
                    let own =
                        stored.is_some_and(|stored| stored.get_i32("by").is_ok_and(|stored| stored == by));
                    world.expect(own, || format!("{by} inserted {id}, and another document is there"));
                }
            }
        })
    };
    beside(vec![insert(1), insert(2), insert(3)]);
    let stored = world.things().count_documents(doc! {}).run().expect("a count");
    world.expect(stored == u64::from(ROUNDS.unsigned_abs()), || format!("{stored} documents"));
    world.findings()
}

#[test]
fn an_id_is_given_once() {
    holds(inserts_of_the_same_ids);
}

/// Three threads insert the same `_id`s, below the highest one, while the first of them make a filter.
fn inserts_in_no_order(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [100]);
    let insert = |by: i32, ids: [i32; 4]| {
        world.thread(move |world| {
            for id in ids {
                if is_done(world, world.things().insert_one(doc! { "_id": id, "by": by }).run()) {
                    let stored = world.things().find_one(doc! { "_id": id }).run().expect("a search");
                    let own =
                        stored.is_some_and(|stored| stored.get_i32("by").is_ok_and(|stored| stored == by));
                    world.expect(own, || format!("{by} inserted {id}, and another document is there"));
                }
            }
        })
    };
    beside(vec![insert(1, [5, 3, 8, 1]), insert(2, [1, 8, 3, 5]), insert(3, [5, 1, 3, 8])]);
    let stored = world.things().count_documents(doc! {}).run().expect("a count");
    world.expect(stored == 5, || format!("{stored} documents"));
    world.findings()
}

#[test]
fn an_id_below_the_highest_one_is_given_once() {
    holds(inserts_in_no_order);
}

#[test]
fn planted_filters_that_do_not_wait_for_writes_are_found() {
    finds(PlantedFault::FiltersStartEarly, inserts_in_no_order);
}

/// Three threads insert, each its own `_id`s, so that their records share writes.
fn inserts_of_own_ids(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    let insert = |first: i32| {
        world.thread(move |world| {
            for id in first..first + ROUNDS {
                if is_done(world, world.things().insert_one(doc! { "_id": id }).run()) {
                    let stored = world.things().find_one(doc! { "_id": id }).run().expect("a search");
                    world.expect(stored.is_some(), || format!("{id} was inserted, and is not there"));
                }
            }
        })
    };
    beside(vec![insert(10), insert(20), insert(30)]);
    world.findings()
}

#[test]
fn what_is_acknowledged_is_there() {
    holds(inserts_of_own_ids);
}

#[test]
fn planted_groups_that_are_told_of_their_write_before_it_are_found() {
    finds(PlantedFault::GroupsToldEarly, inserts_of_own_ids);
}

/// A unique key is inserted, given to another document by an update, and freed by a delete.
fn one_unique_key(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2]);
    world.things().update_one(doc! { "_id": 2 }, doc! { "$set": { "a": 2 } }).run().expect("an update");
    world.index("a", true).expect("an index");
    let inserter = world.thread(|world| {
        for id in 10..10 + ROUNDS {
            is_done(world, world.things().insert_one(doc! { "_id": id, "a": 3 }).run());
        }
    });
    let updater = world.thread(|world| {
        for _ in 0..ROUNDS {
            for a in [3, 1] {
                let changed = world.things().update_one(doc! { "_id": 1 }, doc! { "$set": { "a": a } }).run();
                is_done(world, changed);
            }
        }
    });
    let deleter = world.thread(|world| {
        for _ in 0..ROUNDS {
            is_done(world, world.things().delete_many(doc! { "a": 3, "_id": { "$gte": 10 } }).run());
            is_done(world, world.things().insert_one(doc! { "a": 3 }).run());
        }
    });
    beside(vec![inserter, updater, deleter]);
    let owners =
        world.documents().values().filter(|document| document.get_i32("a").is_ok_and(|a| a == 3)).count();
    world.expect(owners <= 1, || format!("{owners} documents have the unique key 3"));
    world.findings()
}

#[test]
fn a_unique_key_has_one_document() {
    holds(one_unique_key);
}

#[test]
fn planted_unique_keys_without_latches_are_found() {
    finds(PlantedFault::UniqueNotLatched, one_unique_key);
}

/// Two threads exchange unique keys, each taking the latches of several at once.
#[test]
fn writers_that_need_latches_of_each_other_do_not_wait_for_ever() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", [1]);
        world.index("k", true).expect("an index");
        let keys = |from: i32| (from..from + 4).collect::<Vec<_>>();
        let exchange = |id: i32, own: i32, others: i32| {
            world.thread(move |world| {
                for round in 0..ROUNDS {
                    let from = if round % 2 == 0 { own } else { others };
                    let key = doc! { "$set": { "k": keys(from) } };
                    is_done(world, world.things().update_one(doc! { "_id": id }, key).upsert(true).run());
                }
            })
        };
        beside(vec![exchange(1, 0, 4), exchange(2, 4, 0), exchange(3, 2, 6)]);
        world.findings()
    });
}

/// Counters that several threads add to.
fn counters(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1]);
    let count = || {
        world.thread(|world| {
            for _ in 0..ROUNDS {
                let one = doc! { "$inc": { "a": 1 } };
                is_done(world, world.things().update_one(doc! { "_id": 1 }, one).run());
            }
        })
    };
    beside(vec![count(), count(), count()]);
    let stored = world.things().find_one(doc! { "_id": 1 }).run().expect("a search").expect("the counter");
    let added = stored.get_i32("a").expect("a number") - 1;
    world.expect(added == 3 * ROUNDS, || format!("{added} of {} were added", 3 * ROUNDS));
    world.findings()
}

#[test]
fn no_increment_is_lost() {
    holds(counters);
}

#[test]
fn planted_updates_that_read_before_they_latch_are_found() {
    finds(PlantedFault::UpdatesReadEarly, counters);
}

/// A session expires unless it was renewed: the delete must look at the document again.
fn sessions(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2]);
    let renew = world.thread(|world| {
        let renewed = world.things().update_many(doc! {}, doc! { "$set": { "a": 2 } }).run();
        for document in
            renewed.ok().filter(|renewed| renewed.matched_count == 2).into_iter().flat_map(|_| 1..=2)
        {
            let stored = world.things().find_one(doc! { "_id": document }).run().expect("a search");
            world.expect(stored.is_some(), || format!("{document} was renewed and is gone"));
        }
    });
    let expire = world.thread(|world| {
        is_done(world, world.things().delete_many(doc! { "a": 1 }).run());
    });
    beside(vec![renew, expire]);
    world.findings()
}

#[test]
fn what_was_changed_meanwhile_is_not_deleted() {
    holds(sessions);
}

#[test]
fn planted_deletes_that_do_not_look_again_are_found() {
    finds(PlantedFault::DeletesNotChecked, sessions);
}

/// A collection of five documents is replaced again and again by another one of five.
fn replaced_collections(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", 0..5);
    let replace = world.thread(|world| {
        for round in 1..=ROUNDS {
            world.filled("aside", 10 * round..10 * round + 5);
            is_done(world, world.collection("aside").rename("things").drop_target(true).run());
        }
    });
    let read = || {
        world.thread(|world| {
            // Kept, so that what the handle remembers of the collection goes out of date.
            let things = world.things();
            for _ in 0..ROUNDS {
                let counted = things.count_documents(doc! { "a": { "$gte": 0 } }).run();
                world.expect(matches!(counted, Ok(5)), || format!("{counted:?} of five documents"));
                let found = world.read(things.find(doc! {}).run()).len();
                world.expect(found == 5, || format!("a cursor shows {found} of five documents"));
            }
        })
    };
    beside(vec![replace, read(), read()]);
    world.findings()
}

#[test]
fn a_collection_that_is_replaced_is_always_whole() {
    holds(replaced_collections);
}

#[test]
fn planted_snapshots_that_nothing_ties_to_the_catalog_are_found() {
    finds(PlantedFault::SnapshotsTakenEarly, replaced_collections);
}

/// An index comes and goes while searches use it.
fn indexes_that_come_and_go(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", 0..5);
    world.index("a", false).expect("an index");
    let change = world.thread(|world| {
        for _ in 0..ROUNDS {
            is_done(world, world.things().drop_index("a_1").run());
            is_done(world, world.index("a", false));
        }
    });
    let read = || {
        world.thread(|world| {
            for _ in 0..ROUNDS {
                let found = world.read(world.things().find(doc! { "a": 1 }).run()).len();
                world.expect(found == 5, || format!("a search found {found} of five documents"));
            }
        })
    };
    beside(vec![change, read(), read()]);
    world.findings()
}

#[test]
fn an_index_that_is_dropped_changes_no_answer() {
    holds(indexes_that_come_and_go);
}

#[test]
fn an_index_that_is_built_beside_writers_has_what_they_wrote() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", 0..4);
        let build = world.thread(|world| {
            is_done(world, world.index("a", false));
        });
        let write = |from: i32| {
            world.thread(move |world| {
                let things = world.things();
                is_done(world, things.insert_one(doc! { "_id": from, "a": 7 }).run());
                is_done(world, things.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": from } }).run());
                is_done(world, things.delete_one(doc! { "_id": from / 10 }).run());
            })
        };
        beside(vec![build, write(20), write(30)]);
        let found = world.things().find(doc! { "a": 7 }).hint(Hint::Name("a_1".to_owned())).run();
        let found = world.read(found).len();
        world.expect(found == 2, || format!("the index has {found} of two documents"));
        world.findings()
    });
}

/// The conversion drops documents as a range, of which no build has notes.
#[test]
fn an_index_that_is_built_beside_a_conversion_has_the_documents_that_stay() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", 0..20);
        let build = |expire_after: Option<Duration>, path: &'static str| {
            world.thread(move |world| {
                let options = IndexOptions::builder().expire_after(expire_after).build();
                let model = IndexModel::builder().keys(doc! { path: 1 }).options(options).build();
                match world.things().create_index(model).run() {
                    Ok(_) => {}
                    // No document of a capped collection expires.
                    Err(error) => {
                        world.expect(expire_after.is_some() && error.code() == Some(67), || error.to_string())
                    }
                }
            })
        };
        let convert = world.thread(|world| match world.things().convert_to_capped(256).run() {
            Ok(()) => {}
            // A build was there first.
            Err(error) => world.expect(error.code() == Some(12587), || error.to_string()),
        });
        beside(vec![build(None, "a"), build(Some(Duration::from_secs(1 << 20)), "at"), convert]);
        let is_capped = world.documents().len() < 20;
        let expires =
            world.things().list_index_names().run().expect("a list").iter().any(|name| name == "at_1");
        world.expect(!(is_capped && expires), || "a capped collection has an index that expires".to_owned());
        // `verify` knows whether an index has entries of documents that are gone.
        world.findings()
    });
}

#[test]
fn a_unique_index_that_is_built_beside_writers_fails_or_has_no_duplicate() {
    holds(|fault| {
        let world = World::new(fault);
        for id in 0..3 {
            world.things().insert_one(doc! { "_id": id, "a": id }).run().expect("nothing is there yet");
        }
        let build = world.thread(|world| {
            is_done(world, world.index("a", true));
        });
        let write = |id: i32, a: i32| {
            world.thread(move |world| {
                is_done(world, world.things().insert_one(doc! { "_id": id, "a": a }).run());
                is_done(
                    world,
                    world.things().update_one(doc! { "_id": 1 }, doc! { "$set": { "a": a } }).run(),
                );
            })
        };
        beside(vec![build, write(10, 5), write(11, 2)]);
        // `verify` knows whether a unique key has two documents, and whether the index is whole.
        world.findings()
    });
}

#[test]
fn documents_of_a_dropped_collection_are_gone_and_later_ones_stay() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", [1]);
        let insert = |from: i32| {
            world.thread(move |world| {
                for id in from..from + ROUNDS {
                    is_done(world, world.things().insert_one(doc! { "_id": id, "a": 1 }).run());
                }
            })
        };
        let drop_it = world.thread(|world| {
            is_done(world, world.things().drop().run());
            is_done(world, world.things().insert_one(doc! { "_id": 99 }).run());
        });
        beside(vec![insert(10), insert(20), drop_it]);
        let documents = world.documents();
        world.expect(!documents.contains_key("1"), || "a document is there that was dropped".to_owned());
        world.expect(documents.contains_key("99"), || {
            "a document is gone that came after the drop".to_owned()
        });
        let counted = world.things().estimated_document_count().run().expect("a count");
        world.expect(counted == documents.len() as u64, || format!("{counted} counted, {}", documents.len()));
        world.findings()
    });
}

#[test]
fn the_counter_of_documents_is_right_whoever_writes() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", 0..3);
        let insert = world.thread(|world| {
            for id in 10..10 + ROUNDS {
                is_done(world, world.things().insert_one(doc! { "_id": id }).run());
            }
        });
        let delete = world.thread(|world| {
            is_done(world, world.things().delete_many(doc! { "_id": { "$lt": 12 } }).run());
        });
        let truncate = world.thread(|world| {
            yield_now();
            is_done(world, world.things().truncate().run());
        });
        beside(vec![insert, delete, truncate]);
        let counted = world.things().estimated_document_count().run().expect("a count");
        let stored = world.documents().len() as u64;
        world.expect(counted == stored, || format!("{counted} counted, {stored} stored"));
        world.findings()
    });
}

#[test]
fn gapless_numbers_have_no_gap_whatever_is_refused() {
    holds(|fault| {
        let world = World::new(fault);
        let number = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        let made = world.client.database("app").create_collection("things").auto_increment(number).run();
        made.expect("an allowed field");
        let insert = |ids: [i32; 3]| {
            world.thread(move |world| {
                for id in ids {
                    is_done(world, world.things().insert_one(doc! { "_id": id }).run());
                }
            })
        };
        // Some `_id`s come twice, so some inserts are refused after they were numbered.
        beside(vec![insert([1, 2, 3]), insert([2, 4, 1]), insert([5, 3, 2])]);
        let mut numbers: Vec<i64> =
            world.documents().values().filter_map(|document| document.get_i64("n").ok()).collect();
        numbers.sort_unstable();
        world.expect(numbers == [1, 2, 3, 4, 5], || format!("the numbers are {numbers:?}"));
        world.findings()
    });
}

#[test]
fn upserts_of_one_key_make_one_document() {
    holds(|fault| {
        let world = World::new(fault);
        let upsert = || {
            world.thread(|world| {
                let one = doc! { "$inc": { "n": 1 } };
                is_done(world, world.things().update_one(doc! { "_id": "k" }, one).upsert(true).run());
            })
        };
        beside(vec![upsert(), upsert(), upsert()]);
        let numbers: Vec<_> =
            world.documents().values().filter_map(|stored| stored.get_i32("n").ok()).collect();
        world.expect(numbers == [3], || format!("the counters are {numbers:?}"));
        world.findings()
    });
}

#[test]
fn close_waits_for_what_runs_and_refuses_what_comes() {
    holds(|fault| {
        let world = World::new(fault);
        world.filled("things", [0]);
        let is_closed = |error: &cairndb::Error| matches!(error.kind(), ErrorKind::Closed);
        let write = world.thread(move |world| {
            let mut closed = false;
            for id in 1..=ROUNDS {
                match world.things().insert_one(doc! { "_id": id }).run() {
                    Ok(_) => world.expect(!closed, || "a write was done after one was refused".to_owned()),
                    Err(error) => {
                        world.expect(is_closed(&error), || error.to_string());
                        closed = true;
                    }
                }
            }
        });
        let read = world.thread(move |world| {
            for _ in 0..ROUNDS {
                match world.things().find(doc! {}).run() {
                    // A cursor that is open goes on to its end.
                    Ok(cursor) => {
                        let found = world.read(Ok(cursor)).len();
                        world.expect(found >= 1, || format!("{found} documents"));
                    }
                    Err(error) => world.expect(is_closed(&error), || error.to_string()),
                }
            }
        });
        let close = world.thread(|world| match world.client.clone().close() {
            Ok(()) => {}
            Err(error) => {
                let cursors = matches!(error.kind(), ErrorKind::CursorsOpen { .. });
                world.expect(cursors, || error.to_string());
            }
        });
        beside(vec![write, read, close]);
        let refused = world.things().insert_one(doc! { "_id": 100 }).run();
        world.expect(refused.is_err_and(|error| is_closed(&error)), || {
            "a closed store takes a write".to_owned()
        });
        world.findings()
    });
}

/// A transfer between two documents is two updates, so a reader of one moment sees at most one of them missing.
fn transfers(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    for id in 0..3 {
        world.things().insert_one(doc! { "_id": id, "a": 10, "b": id }).run().expect("nothing is there yet");
    }
    world.index("a", false).expect("an index");
    let transfer = world.thread(|world| {
        for round in 0..ROUNDS {
            let add = |id: i32, a: i32| {
                let changed =
                    world.things().update_one(doc! { "_id": id }, doc! { "$inc": { "a": a } }).run();
                is_done(world, changed);
            };
            add(round % 3, -1);
            add((round + 1) % 3, 1);
        }
    });
    let read = || {
        world.thread(|world| {
            for _ in 0..ROUNDS {
                let found =
                    world.read(world.things().find(doc! { "a": { "$gt": 0 } }).sort(doc! { "a": 1 }).run());
                let sum: i32 = found.iter().filter_map(|document| document.get_i32("a").ok()).sum();
                world.expect(found.len() == 3 && (29..=30).contains(&sum), || format!("{found:?}"));
            }
        })
    };
    beside(vec![transfer, read(), read()]);
    world.findings()
}

#[test]
fn a_scan_of_an_index_shows_one_moment() {
    holds(transfers);
}

/// What is looked up and what is scanned are of one history: nothing that was seen is older afterwards.
fn changes_that_are_looked_up(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.things().insert_one(doc! { "_id": 0, "n": 0 }).run().expect("nothing is there yet");
    let id = || doc! { "_id": 0 };
    let add = world.thread(move |world| {
        for round in 0..ROUNDS {
            let things = world.things();
            let changed = if round % 2 == 0 {
                things.update_one(id(), doc! { "$inc": { "n": 1 } }).run()
            } else {
                things.update_many(doc! { "n": { "$gte": 0 } }, doc! { "$inc": { "n": 1 } }).run()
            };
            is_done(world, changed);
        }
    });
    let read = || {
        world.thread(move |world| {
            let mut last = 0;
            for round in 0..3 * ROUNDS {
                let found = match round % 3 {
                    2 => Ok(world.read(world.things().find(doc! {}).run()).pop()),
                    _ => world.things().find_one(id()).run(),
                };
                let n = found.ok().flatten().and_then(|found| found.get_i32("n").ok());
                world.expect(n.is_some_and(|n| n >= last), || format!("{n:?} after {last}"));
                last = n.unwrap_or(last);
            }
        })
    };
    beside(vec![add, read(), read()]);
    world.findings()
}

#[test]
fn what_was_seen_is_never_older_afterwards() {
    holds(changes_that_are_looked_up);
}

#[test]
fn planted_copies_of_older_records_are_found() {
    finds(PlantedFault::CopiesKeptLate, changes_that_are_looked_up);
}

/// Takers of the first document, and one who puts documents back in front of what they have seen.
fn queues(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", 10..16);
    let first = |world: &World| world.things().find_one_and_delete(doc! {}).sort(doc! { "_id": 1 }).run();
    let take = move |world: &World| {
        for _ in 0..3 {
            first(world).expect("taken");
        }
    };
    let put = |world: &World| {
        for id in [9, 3] {
            world.things().insert_one(doc! { "_id": id, "a": 1 }).run().expect("it was not there");
            // Whether it is taken meanwhile or not, a scan finds what its key finds.
            let found = world.things().find(doc! { "a": 1 }).run().expect("found");
            let found = found.map(|found| found.expect("read").get_i32("_id").expect("a number"));
            let scanned = found.min();
            let stored = world.things().count_documents(doc! { "_id": id }).run().expect("counted");
            world.expect(stored == 0 || scanned.is_some_and(|scanned| scanned <= id), || {
                format!("a scan begins at {scanned:?} and {id} is stored")
            });
        }
    };
    beside(vec![world.thread(take), world.thread(put)]);
    let found = world.things().find(doc! { "a": 1 }).run().expect("found").count();
    let stored =
        (0..16).filter(|id| world.things().find_one(doc! { "_id": *id }).run().expect("found").is_some());
    let stored = stored.count();
    world.expect(found == stored, || format!("a scan finds {found} of {stored} documents"));
    world.findings()
}

#[test]
fn a_scan_passes_over_no_document_that_was_put_back() {
    holds(queues);
}

#[test]
fn planted_notes_that_writes_do_not_lower_are_found() {
    finds(PlantedFault::LiveStartsNotLowered, queues);
}
