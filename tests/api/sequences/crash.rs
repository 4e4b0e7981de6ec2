//! What is left of a sequence when its process is killed, and when it is closed.

use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{Durability, WriteConcern};
use cairndb_tests::scratch::{Scratch, small};

use super::Numbers;

/// Takes values; gives the next one after the process was killed, and after a clean close.
#[track_caller]
fn next_after(options: Document, taken: usize, killed: i64, closed: i64) {
    let numbers = Numbers::with(options);
    numbers.take(taken);
    assert_eq!(numbers.killed().next(), killed, "after a kill");
    assert_eq!(numbers.reopened().next(), closed, "after a close");
}

#[test]
fn a_kill_loses_at_most_the_reserve_and_a_close_loses_nothing() {
    next_after(doc! {}, 0, 1, 1);
    next_after(doc! {}, 3, 1001, 4);
    next_after(doc! {}, 1000, 1001, 1001);
    next_after(doc! {}, 1001, 2001, 1002);
    next_after(doc! { "AcquireSize": 10 }, 3, 1001, 4);
    next_after(doc! { "AcquireSize": 1 }, 3, 1002, 4);
    next_after(doc! { "AcquireSize": 1 }, 1, 2, 2);
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

/// The value comes from a block, whose reserve was written by a call that did not ask for a sync.
#[test]
fn a_journaled_value_waits_for_the_sync_of_an_older_reserve() {
    let scratch = Scratch::new();
    let late = Durability::Buffered { sync_interval: Duration::from_secs(1) };
    let client = scratch.open_with(small().durability(late));
    client.database("test").create_sequence("numbers").run().unwrap();
    let numbers = Numbers::of(client, scratch);
    assert_eq!(numbers.next(), 1);
    let reserved = numbers.client.written_seq().unwrap();
    let journaled = WriteConcern::journaled();
    assert_eq!(numbers.sequence.next_value().write_concern(journaled).run().unwrap(), 2);
    assert!(numbers.client.durable_seq() >= reserved);
}
