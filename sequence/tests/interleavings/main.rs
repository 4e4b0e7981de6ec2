//! The allocator's threads, run in thousands of orders that a scheduler chooses: at random, and with few
//! switches at unlikely points (PCT).
//!
//! Only with the feature `shuttle`, as `make interleavings` does. Then the locks and atomics that
//! `src/sync.rs` names are the checker's, and each operation on them is a point at which threads may switch.
//! The rest stays real: `arc-swap` and the flags of a sequence are single atomic operations, and there are
//! enough switches between them. Each property is also tested with a planted defect, which shows that it can
//! fail.

mod ahead;
mod schedules;
mod world;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use cairndb_sequence::acquirer::Acquirer;
use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::error::SequenceError;
use cairndb_sequence::store::{Change, Store};
use shuttle::thread::yield_now;

use crate::world::{Diligence, Failure, Findings, World, beside, body, finds, holds, lock, taker, visitor};

#[test]
fn values_come_once_and_after_their_reserve() {
    holds(|| {
        let world = World::fast();
        beside(vec![taker(&world), taker(&world), taker(&world), visitor(&world)]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[]);
        world.findings()
    });
}

#[test]
fn planted_a_late_store_is_found() {
    finds(|| {
        let world = World::new(Contract::Fast, Diligence::WritesLate);
        beside(vec![taker(&world), taker(&world)]);
        world.findings()
    });
}

/// Planted: reads the position and then writes it.
#[test]
fn planted_a_torn_counter_is_found() {
    finds(|| {
        use shuttle::sync::atomic::{AtomicI64, Ordering};
        let world = World::fast();
        let counter = Arc::new(AtomicI64::new(0));
        let torn = || {
            let counter = Arc::clone(&counter);
            body(&world, move |world| {
                for _ in 0..3 {
                    let value = counter.load(Ordering::SeqCst) + 1;
                    counter.store(value, Ordering::SeqCst);
                    lock(&world.taken).push(value);
                }
            })
        };
        beside(vec![torn(), torn()]);
        world.no_value_came_twice();
        world.findings()
    });
}

#[test]
fn after_an_announcement_nobody_gets_the_value() {
    holds(|| {
        let world = World::fast();
        let announcer = body(&world, |world| {
            let slot = world.sequence.shared();
            let value = 4;
            if world.sequence.announce(slot, value, &world.disk).is_ok() {
                let next = world.take_one(slot);
                world.find(next.is_ok_and(|next| next > value), || "not beyond the value".to_owned());
            }
        });
        beside(vec![taker(&world), announcer, visitor(&world)]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[4]);
        world.findings()
    });
}

#[test]
fn two_announcements_beside_takers() {
    holds(|| {
        let world = World::fast();
        let announcer = |value: i64| {
            body(&world, move |world| {
                let acquirer = Acquirer::default();
                let slot = acquirer.slot(1, &world.sequence);
                let _ = world.sequence.announce(&slot, value, &world.disk);
                let _ = world.take_one(&slot);
            })
        };
        beside(vec![taker(&world), announcer(3), announcer(9)]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[3, 9]);
        world.findings()
    });
}

#[test]
fn after_a_change_nothing_of_the_old_state_comes() {
    holds(|| {
        let world = World::fast();
        let changer = body(&world, |world| {
            let changed = world.sequence.restart(1_000, &world.disk);
            world.find(changed.is_ok(), || "not restarted".to_owned());
            let next = world.take(world.sequence.shared(), 2);
            world.find(next.is_ok_and(|next| next.iter().all(|value| *value >= 1_000)), || {
                "old values".to_owned()
            });
        });
        beside(vec![taker(&world), taker(&world), changer, visitor(&world)]);
        world.no_value_came_twice();
        world.findings()
    });
}

#[test]
fn alterations_beside_takers_lose_nothing_unlisted() {
    holds(|| {
        let world = World::fast();
        let changer = body(&world, |world| {
            let sizes = Options { acquire_size: Some(3), ..Options::default() };
            world.find(world.sequence.alter(&sizes, &world.disk).is_ok(), || "not altered".to_owned());
        });
        beside(vec![taker(&world), visitor(&world), changer]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[]);
        world.findings()
    });
}

#[test]
fn a_failing_change_beside_takers_leaves_everything() {
    holds(|| {
        let world = World::fast();
        let changer = body(&world, |world| {
            world.disk.fails.store(true, Ordering::Relaxed);
            let failed = world.sequence.restart(1_000, &world.disk);
            world.find(matches!(failed, Err(Failure::Disk)), || "restarted".to_owned());
            world.disk.fails.store(false, Ordering::Relaxed);
        });
        beside(vec![taker(&world), visitor(&world), changer]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[]);
        world.findings()
    });
}

#[test]
fn conflicts_and_current_values_beside_takers() {
    holds(|| {
        let world = World::fast();
        let conflicting = body(&world, |world| {
            let slot = world.sequence.shared();
            let first = world.take_one(slot);
            world.sequence.give_up(slot);
            let second = world.take_one(slot);
            world.find(second.ok() > first.ok(), || "not behind the conflict".to_owned());
        });
        let setter = body(&world, |world| {
            let slot = world.sequence.shared();
            if world.sequence.set_current_value(slot, 20, &world.disk).is_ok() {
                let next = world.take_one(slot);
                world.find(next.is_ok_and(|next| next > 20), || "not beyond the current value".to_owned());
            }
        });
        beside(vec![taker(&world), conflicting, setter]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[20]);
        world.findings()
    });
}

#[test]
fn after_the_end_nothing_comes() {
    holds(|| {
        let world = World::fast();
        let ender = body(&world, |world| {
            world.sequence.retire();
            let next = world.take_one(world.sequence.shared());
            let refused = matches!(next, Err(Failure::Sequence(SequenceError::Retired)));
            world.find(refused, || "a value of a dropped sequence".to_owned());
        });
        beside(vec![taker(&world), visitor(&world), ender]);
        world.no_value_came_twice();
        world.findings()
    });
}

#[test]
fn a_close_beside_takers_writes_what_was_used() {
    holds(|| {
        let world = World::fast();
        let closer = body(&world, |world| world.nothing_is_missing(&[]));
        beside(vec![taker(&world), taker(&world), closer]);
        world.no_value_came_twice();
        // The mark covers all values that were taken before the close, and no value was taken after it.
        world.findings()
    });
}

/// Watermarks, and what was visible up to them.
type Polls = Mutex<Vec<(i64, BTreeSet<i64>)>>;

/// The reads of consumers up to a watermark, against what is visible in the end.
fn check_polls(world: &World, polls: &Polls) {
    let visible = lock(&world.visible).clone();
    for (watermark, seen) in lock(polls).iter() {
        let missed: Vec<&i64> = visible.range(..=*watermark).filter(|value| !seen.contains(value)).collect();
        world.find(missed.is_empty(), || format!("{missed:?} came up behind the watermark {watermark}"));
    }
}

fn poller(world: &Arc<World>, polls: &Arc<Polls>) -> Box<dyn FnOnce() + Send> {
    let polls = Arc::clone(polls);
    body(world, move |world| {
        for _ in 0..4 {
            let poll = world.poll();
            lock(&polls).extend(poll);
            yield_now();
        }
    })
}

/// Writers on the shared slot and on one of their own, which is closed, while `change` runs.
fn watched(change: fn(&World)) -> Findings {
    let world = World::fast();
    let polls = Arc::default();
    let writer = || {
        body(&world, |world| {
            world.insert(world.sequence.shared());
            world.insert_in_one_step(world.sequence.shared());
        })
    };
    let visitor = body(&world, |world| {
        let acquirer = Acquirer::default();
        world.insert(&acquirer.slot(1, &world.sequence));
        drop(acquirer);
        let acquirer = Acquirer::default();
        world.insert_in_one_step(&acquirer.slot(1, &world.sequence));
    });
    beside(vec![writer(), writer(), visitor, poller(&world, &polls), body(&world, change)]);
    world.no_value_came_twice();
    check_polls(&world, &polls);
    world.findings()
}

#[test]
fn a_watermark_misses_no_writer() {
    holds(|| watched(|_| {}));
}

/// A writer that found a block closed by a change registered at a position after it. The change failed, and
/// the writer took a value of the block, before its registered position.
#[test]
fn a_watermark_misses_no_writer_beside_a_failing_change() {
    holds(|| {
        watched(|world| {
            world.disk.fails.store(true, Ordering::Relaxed);
            let _ = world.sequence.restart(1_000, &world.disk);
            world.disk.fails.store(false, Ordering::Relaxed);
        })
    });
}

#[test]
fn a_watermark_misses_no_writer_beside_an_alteration() {
    holds(|| {
        watched(|world| {
            let sizes = Options { acquire_size: Some(3), ..Options::default() };
            let _ = world.sequence.alter(&sizes, &world.disk);
        })
    });
}

/// Writers of an ordered sequence do not register: the watermark waits for their turns.
#[test]
fn a_watermark_misses_no_writer_that_has_the_turn() {
    holds(|| {
        let world = World::new(Contract::Ordered, Diligence::Writes);
        let polls = Arc::default();
        let writer = || {
            body(&world, |world| {
                for _ in 0..2 {
                    world.insert_in_turn();
                }
            })
        };
        beside(vec![writer(), writer(), poller(&world, &polls)]);
        check_polls(&world, &polls);
        world.findings()
    });
}

/// Readers of the watermark do not wait for such a writer: it has registered.
#[test]
fn a_watermark_misses_no_writer_that_keeps_the_turn() {
    holds(|| {
        let world = World::new(Contract::Ordered, Diligence::Writes);
        let polls = Arc::default();
        let keeping = || body(&world, World::insert_keeping_the_turn);
        beside(vec![
            keeping(),
            keeping(),
            body(&world, |world| (0..2).for_each(|_| world.insert_in_turn())),
            poller(&world, &polls),
        ]);
        check_polls(&world, &polls);
        world.findings()
    });
}

/// Planted: writers that do not register.
#[test]
fn planted_unregistered_writers_are_found() {
    finds(|| {
        let world = World::fast();
        let polls = Arc::default();
        let writer = body(&world, |world| {
            for _ in 0..2 {
                if let Ok(value) = world.take_one(world.sequence.shared()) {
                    world.show(value);
                }
            }
        });
        beside(vec![writer, poller(&world, &polls)]);
        check_polls(&world, &polls);
        world.findings()
    });
}

/// Reads the visible values, which must be all values up to the greatest.
fn without_holes(world: &World) {
    for _ in 0..5 {
        let visible = lock(&world.visible).clone();
        let last = visible.last().copied().unwrap_or(0);
        let whole = (1..=last).all(|value| visible.contains(&value));
        world.find(whole, || format!("a smaller value is missing: {visible:?}"));
        yield_now();
    }
}

#[test]
fn values_of_an_ordered_sequence_become_visible_in_their_order() {
    holds(|| {
        let world = World::new(Contract::Ordered, Diligence::Writes);
        let writer = || {
            body(&world, |world| {
                for _ in 0..3 {
                    world.insert_in_turn();
                }
            })
        };
        beside(vec![writer(), writer(), body(&world, without_holes)]);
        world.findings()
    });
}

/// Planted: a fast sequence does not promise it.
#[test]
fn planted_a_fast_sequence_is_found_out_of_order() {
    finds(|| {
        let world = World::fast();
        let writer = || {
            body(&world, |world| {
                for _ in 0..2 {
                    let value = world.take_one(world.sequence.shared());
                    yield_now();
                    lock(&world.visible).extend(value);
                }
            })
        };
        beside(vec![writer(), writer(), body(&world, without_holes)]);
        world.findings()
    });
}

#[test]
fn values_of_a_gapless_sequence_have_no_hole() {
    /// Every other document is rejected.
    fn write(world: &World) {
        for document in 0..4 {
            let turn = world.sequence.turn();
            let Ok(mut numbering) = turn.number() else { return };
            let Ok(value) = numbering.take() else { return };
            yield_now();
            if document % 2 == 0 {
                let mark = numbering.mark();
                if let Ok(receipt) = world.disk.reserve(&Change { mark: &mark, definition: None, gaps: &[] })
                {
                    lock(&world.visible).insert(value);
                    lock(&world.taken).push(value);
                    turn.publish(numbering, receipt);
                }
            }
        }
    }
    holds(|| {
        let world = World::new(Contract::Gapless, Diligence::Writes);
        let reader = body(&world, |world| {
            without_holes(world);
            let _ = world.sequence.safe_watermark();
        });
        beside(vec![body(&world, write), body(&world, write), reader]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[]);
        world.findings()
    });
}
