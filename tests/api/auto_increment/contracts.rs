//! The three contracts and the safe watermark, as one thread sees them.

use cairndb::bson::{Document, doc};
use cairndb::{Collection, Contract, Durability, WriteConcern};

use super::Numbered;

fn next(collection: &Collection<Document>) -> Option<i64> {
    collection.insert_one(doc! {}).run().expect("stored").last_generate_id
}

fn other(numbered: &Numbered) -> Collection<Document> {
    numbered.client.acquirer().database("test").collection("things")
}

#[test]
fn fast_acquirers_number_block_by_block() {
    let numbered = Numbered::n(doc! { "AcquireSize": 10 });
    let other = other(&numbered);
    assert_eq!((next(&numbered.things), next(&other), next(&numbered.things)), (Some(1), Some(11), Some(2)));
}

#[test]
fn ordered_and_gapless_acquirers_number_one_by_one() {
    for contract in [Contract::Ordered, Contract::Gapless] {
        let numbered = Numbered::n(doc! { "AcquireSize": 10, "Contract": contract.name() });
        let other = other(&numbered);
        assert_eq!(
            (next(&numbered.things), next(&other), next(&numbered.things)),
            (Some(1), Some(2), Some(3))
        );
        drop(other);
        assert_eq!(next(&numbered.things), Some(4));
    }
}

#[test]
fn a_gapless_sequence_writes_each_value_with_its_document() {
    let numbered = Numbered::n(doc! { "Contract": "gapless" });
    for value in 1..=3 {
        assert_eq!(numbered.next(), value);
        numbered.shows(doc! { "CurrentValue": value, "Initial": false, "LastUsed": value });
        assert_eq!(numbered.killed().next(), value + 1);
    }
    assert_eq!(numbered.things.auto_increment("n").gaps().unwrap(), []);
}

#[test]
fn every_contract_holds_for_journaled_writes() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "Contract": contract.name() });
        let concern = WriteConcern::journaled();
        let one = numbered.things.insert_one(doc! {}).write_concern(concern.clone()).run().unwrap();
        assert_eq!(one.last_generate_id, Some(1));
        assert!(numbered.client.durability_ticket().unwrap().is_durable(), "{contract:?}");
        let many = numbered.things.insert_many(vec![doc! {}; 3]).write_concern(concern).run().unwrap();
        assert_eq!(many.last_generate_id, Some(2));
        assert!(numbered.client.durability_ticket().unwrap().is_durable(), "{contract:?}");
    }
}

#[test]
fn every_contract_holds_in_a_journaled_client() {
    for contract in Contract::ALL {
        let scratch = cairndb_tests::scratch::Scratch::new();
        let client = scratch.open_with(cairndb_tests::scratch::small().durability(Durability::Journaled));
        let options = super::field(doc! { "Field": "n", "Contract": contract.name() });
        client.database("test").create_collection("things").auto_increment(options).run().unwrap();
        let numbered = Numbered::of(client, scratch);
        assert_eq!(numbered.next(), 1);
        assert!(numbered.client.durability_ticket().unwrap().is_durable(), "{contract:?}");
    }
}

#[test]
fn contracts_change_without_a_value_twice() {
    let numbered = Numbered::singles();
    numbered.unique(doc! { "n": 1 });
    let mut expected = 1;
    for contract in ["gapless", "fast", "ordered", "fast", "gapless", "ordered", "gapless", "fast"] {
        for _ in 0..3 {
            assert_eq!(numbered.next(), expected);
            expected += 1;
        }
        numbered.alter(doc! { "Contract": contract });
    }
}

#[test]
fn fields_of_different_contracts_stand_beside_each_other() {
    let fields = Contract::ALL.map(|contract| doc! { "Field": contract.name(), "Contract": contract.name() });
    let numbered = Numbered::with(fields);
    numbered.unique(doc! { "k": 1 });
    for k in [0, 1, 1, 2] {
        let _ = numbered.things.insert_one(doc! { "k": k }).run();
    }
    let _ = numbered.things.insert_many([3, 3, 4].map(|k| doc! { "k": k })).ordered(false).run();
    let column = |field| super::numbers(&numbered.things, field);
    assert_eq!(column("gapless"), [1, 2, 3, 4, 5]);
    for field in ["fast", "ordered"] {
        let values = column(field);
        assert!(values.is_sorted_by(|a, b| a < b), "{field} {values:?}");
    }
}

#[test]
fn the_watermark_follows_what_is_stored() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "Contract": contract.name() });
        let watermark = || numbered.things.auto_increment("n").safe_watermark().unwrap();
        assert_eq!(watermark(), None);
        numbered.next();
        assert_eq!(watermark(), Some(1));
        numbered.things.insert_many(vec![doc! {}; 1500]).run().unwrap();
        assert_eq!(watermark(), Some(1501));
        numbered.insert(doc! { "n": 5000 });
        assert_eq!(watermark(), Some(5000));
    }
}

#[test]
fn the_watermark_stays_before_the_block_of_another_acquirer() {
    let numbered = Numbered::n(doc! { "AcquireSize": 10 });
    let watermark = || numbered.things.auto_increment("n").safe_watermark().unwrap();
    let other = other(&numbered);
    next(&other);
    next(&numbered.things);
    assert_eq!(watermark(), Some(1), "2 to 10 may still come");
    drop(other);
    assert_eq!(watermark(), Some(11));
}

#[test]
fn the_watermark_is_known_after_a_reopen_and_a_kill() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let watermark = |numbered: &Numbered| numbered.things.auto_increment("n").safe_watermark().unwrap();
    assert_eq!(watermark(&numbered.killed()), Some(1000));
    assert_eq!(watermark(&numbered.reopened()), Some(1));
}
