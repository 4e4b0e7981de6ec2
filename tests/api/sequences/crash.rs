//! The state of a sequence when its process is killed, and when it is closed.

use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{Durability, SequenceOptions, WriteConcern};
use cairndb_tests::race::wait_until;
use cairndb_tests::scratch::{Scratch, small};

use super::Numbers;

/// Draws values; gives the next one after the process was killed, and after a clean close. A killed process may have
/// made the next reserve already.
#[track_caller]
fn next_after(options: Document, taken: usize, killed: impl Into<Killed>, closed: i64) {
    let numbers = Numbers::with(options);
    numbers.take(taken);
    let Killed(killed) = killed.into();
    let next = numbers.killed().next();
    assert!(killed.contains(&next), "{next} after a kill, not one of {killed:?}");
    assert_eq!(numbers.reopened().next(), closed, "after a close");
}

/// The values that may come next.
struct Killed(Vec<i64>);

impl From<i64> for Killed {
    fn from(only: i64) -> Self {
        Self(vec![only])
    }
}

impl<const N: usize> From<[i64; N]> for Killed {
    fn from(any: [i64; N]) -> Self {
        Self(any.to_vec())
    }
}

#[test]
fn a_kill_loses_at_most_the_reserve_and_a_close_loses_nothing() {
    next_after(doc! {}, 0, 1, 1);
    next_after(doc! {}, 3, 1001, 4);
    next_after(doc! {}, 499, 1001, 500);
    next_after(doc! {}, 1000, [1001, 2001], 1001);
    // The reserve that was asked for at half of the first block may be made when the second is in use already.
    next_after(doc! {}, 1001, [2001, 3001], 1002);
    next_after(doc! { "AcquireSize": 10 }, 3, 1001, 4);
    next_after(doc! { "AcquireSize": 1 }, 3, 1002, 4);
    next_after(doc! { "AcquireSize": 1 }, 1, [2, 1002], 2);
    next_after(doc! { "AcquireSize": 1, "CacheSize": 1 }, 3, 4, 4);
    next_after(doc! { "Increment": -10, "AcquireSize": 5, "CacheSize": 20 }, 3, -201, -31);
    next_after(doc! { "Contract": "ordered" }, 3, 1001, 4);
    next_after(doc! { "Contract": "gapless" }, 3, 4, 4);
}

#[test]
fn a_block_of_a_live_acquirer_is_given_back_at_a_close() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10, "CacheSize": 100 });
    let [other] = numbers.acquirers();
    numbers.take(10);
    other.fetch(4).run().unwrap();
    drop(other);
    assert_eq!(numbers.reopened().next(), 15);
}

#[test]
fn a_dropped_acquirer_gives_back_what_can_be_handed_out_again() {
    let numbers = Numbers::with(doc! { "AcquireSize": 10, "CacheSize": 100 });
    let [other] = numbers.acquirers();
    other.fetch(4).run().unwrap();
    drop(other);
    assert_eq!(numbers.next(), 5);
    let [other] = numbers.acquirers();
    other.fetch(4).run().unwrap();
    numbers.take(11);
    drop(other);
    assert_eq!(numbers.next(), 27, "other blocks lie behind the rest of the dropped one");
}

#[test]
fn dropping_every_handle_closes_without_a_gap() {
    let Numbers { sequence: numbers, db, client, scratch } = Numbers::with(doc! {});
    assert_eq!(numbers.next_value().run().unwrap(), 1);
    drop((numbers, db, client));
    assert_eq!(Numbers::of(scratch.open(), scratch).take(2), [2, 3]);
}

#[test]
fn a_restart_and_a_change_survive_a_kill() {
    let numbers = Numbers::with(doc! {});
    numbers.take(30);
    numbers.sequence.restart(7).run().unwrap();
    assert_eq!(numbers.killed().next(), 7);
    numbers.alter(doc! { "CurrentValue": 50, "Increment": 5 });
    assert_eq!(numbers.killed().next(), 55);
    numbers.sequence.set_current_value(1000).run().unwrap();
    assert!(numbers.killed().next() > 1000);
}

#[test]
fn a_kill_after_starting_over_goes_on_behind_the_reserve() {
    let options = doc! { "MaxValue": 20, "CacheSize": 4, "AcquireSize": 2, "Cycled": true };
    let numbers = Numbers::with(options);
    numbers.take(21);
    assert_eq!(numbers.killed().next(), 5);
    numbers.killed().shows(doc! { "CycledCount": 1 });
}

#[test]
fn a_journaled_value_is_on_stable_storage() {
    let numbers = Numbers::with(doc! {});
    let value = numbers.sequence.next_value().write_concern(WriteConcern::journaled()).run().unwrap();
    assert_eq!(value, 1);
    let durable = numbers.client.durable_seq();
    assert!(durable >= numbers.client.written_seq().unwrap());
    let more = numbers.sequence.fetch(5).write_concern(WriteConcern::journaled()).run().unwrap();
    assert_eq!(more.next_value, 2);
    assert_eq!(numbers.client.durable_seq(), durable, "the reserve was durable already");
}

/// A sequence in a folder whose background sync comes late.
fn synced_late(options: Document) -> Numbers {
    let scratch = Scratch::new();
    let late = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    let client = scratch.open_with(small().durability(late));
    let options = SequenceOptions::try_from(options).expect("well-formed options");
    client.database("test").create_sequence("numbers").with_options(options).run().expect("made");
    Numbers::of(client, scratch)
}

/// Whether everything that was written is on stable storage.
fn is_synced(numbers: &Numbers) -> bool {
    let written = numbers.client.written_seq().expect("a number");
    numbers.client.durable_seq() >= written
}

/// No caller asked for a sync.
#[test]
fn a_reserve_is_synced_before_its_first_value_leaves() {
    for contract in ["fast", "ordered"] {
        for _ in 0..10 {
            let numbers = synced_late(doc! { "Contract": contract });
            numbers.db.collection::<Document>("things").insert_one(doc! {}).run().unwrap();
            assert_eq!(numbers.next(), 1);
            assert!(is_synced(&numbers), "{contract}");
        }
    }
}

/// A value that is a reserve of its own is synced for the caller that asks for it.
#[test]
fn single_values_are_as_durable_as_asked_for() {
    let numbers = synced_late(doc! { "CacheSize": 1, "AcquireSize": 1 });
    let unsynced = (0..20).filter(|_| {
        numbers.next();
        !is_synced(&numbers)
    });
    assert!(unsynced.count() > 0);
    numbers.sequence.next_value().write_concern(WriteConcern::journaled()).run().unwrap();
    assert!(is_synced(&numbers));
}

#[test]
fn the_next_reserve_is_made_when_half_a_block_is_left() {
    let numbers = synced_late(doc! {});
    numbers.take(499);
    let first = numbers.client.written_seq().unwrap();
    assert_eq!(numbers.next(), 500);
    wait_until(|| numbers.client.written_seq().unwrap() > first && is_synced(&numbers));
    let second = numbers.client.written_seq().unwrap();
    numbers.shows(doc! { "CurrentValue": 1000_i64, "Reservations": 1_i64 });
    assert_eq!(numbers.take(999), (501..1500).collect::<Vec<_>>());
    assert_eq!(numbers.client.written_seq().unwrap(), second, "no caller waited for a write");
    numbers.shows(doc! { "CurrentValue": 2000_i64, "Reservations": 2_i64 });
    assert_eq!(numbers.killed().next(), 2001);
    assert_eq!(numbers.reopened().next(), 1500);
}

/// A kill that loses a reserve that was made ahead leaves it in the ledger.
#[test]
fn a_reserve_that_was_made_ahead_is_listed_when_it_is_lost() {
    let numbers = synced_late(doc! {});
    numbers.take(499);
    let first = numbers.client.written_seq().unwrap();
    numbers.next();
    wait_until(|| numbers.client.written_seq().unwrap() > first);
    let gaps = numbers.killed().sequence.gaps().run().unwrap();
    let crash: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.last, gap.cause.as_str())).collect();
    assert_eq!(crash, [(501, 2000, "crash")]);
}

#[test]
fn a_change_replaces_the_reserve_that_was_made_ahead() {
    let numbers = synced_late(doc! {});
    numbers.take(499);
    let first = numbers.client.written_seq().unwrap();
    numbers.next();
    wait_until(|| numbers.client.written_seq().unwrap() > first);
    numbers.sequence.restart(7).run().unwrap();
    assert_eq!(numbers.killed().next(), 7);
    assert_eq!(numbers.take(2), [7, 8]);
    numbers.sequence.set_current_value(5000).run().unwrap();
    assert!(numbers.next() > 5000);
    assert!(numbers.killed().next() > 5001);
}
