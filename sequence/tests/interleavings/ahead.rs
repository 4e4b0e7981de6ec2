//! Reserves that are made ahead of need, while other threads take values and change the sequence.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cairndb_sequence::attributes::{Contract, Options};
use cairndb_sequence::error::SequenceError;
use shuttle::thread::yield_now;

use crate::world::{Diligence, Failure, Findings, World, beside, body, finds, holds, taker, visitor};

/// The thread that makes reserves ahead of need, as often as it is asked to while other threads take.
fn provider(world: &Arc<World>) -> Box<dyn FnOnce() + Send> {
    body(world, |world| {
        for _ in 0..8 {
            if world.disk.asked.0.swap(false, Ordering::Relaxed) {
                let made = world.sequence.reserve_ahead(&world.disk);
                let is_ended = matches!(made, Err(Failure::Sequence(SequenceError::Retired)));
                let fails = world.disk.fails_to_sync.load(Ordering::Relaxed);
                world.find(made.is_ok() || is_ended || fails, || format!("{made:?}"));
            }
            yield_now();
        }
    })
}

#[test]
fn values_of_reserves_made_ahead_come_once_and_after_the_sync() {
    for contract in [Contract::Fast, Contract::Ordered] {
        let scenario = match contract {
            Contract::Ordered => || ahead_of_takers(Contract::Ordered),
            Contract::Fast | Contract::Gapless => || ahead_of_takers(Contract::Fast),
        };
        holds(scenario);
    }
}

fn ahead_of_takers(contract: Contract) -> Findings {
    let world = World::new(contract, Diligence::Writes);
    beside(vec![taker(&world), taker(&world), visitor(&world), provider(&world)]);
    world.no_value_came_twice();
    world.nothing_is_missing(&[]);
    world.findings()
}

/// No value leaves a reserve whose sync failed.
#[test]
fn a_sync_that_fails_lets_no_value_leave() {
    holds(|| {
        let world = World::fast();
        let breaker = body(&world, |world| {
            yield_now();
            world.disk.fails_to_sync.store(true, Ordering::Relaxed);
        });
        beside(vec![taker(&world), taker(&world), provider(&world), breaker]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[]);
        world.findings()
    });
}

#[test]
fn reserves_made_ahead_beside_announcements_and_changes() {
    holds(|| {
        let world = World::fast();
        let announcer = body(&world, |world| {
            let _ = world.sequence.announce(world.sequence.shared(), 11, &world.disk);
            let sizes = Options { acquire_size: Some(3), ..Options::default() };
            world.find(world.sequence.alter(&sizes, &world.disk).is_ok(), || "not altered".to_owned());
        });
        beside(vec![taker(&world), taker(&world), provider(&world), announcer]);
        world.no_value_came_twice();
        world.nothing_is_missing(&[11]);
        world.findings()
    });
}

#[test]
fn planted_a_store_that_does_not_sync_is_found() {
    finds(|| {
        let world = World::new(Contract::Fast, Diligence::SyncsNothing);
        beside(vec![taker(&world), taker(&world), provider(&world)]);
        world.findings()
    });
}
