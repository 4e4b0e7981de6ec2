//! Filters that are made step by step here, with writes in between.

use std::ops::Range;
use std::sync::Arc;

use base::error::Error;
use bson::doc;
use bson::oid::ObjectId;
use query::operation::OperationContext;
use store::Family;
use store::latch::hash_of;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::catalog::collection::CollectionState;
use crate::catalog::given_keys::filters::Absence;
use crate::catalog::given_keys::steps::{KeySpace, Step};
use crate::catalog::given_keys::{GivenKeys, MARK_INTERVAL};
use crate::fixture::Fixture;
use crate::options::PlantedFault;

/// The number of documents in the collections of these tests.
const STORED: u32 = 3000;
/// As many keys as pay for whatever a test reads.
const PAYING: u32 = 40_000;

#[test]
fn only_keys_beyond_every_admitted_one_are_proven_absent() {
    let given = GivenKeys::default();
    let admit = |key: &[u8]| given.admit(key, || Ok(Some(vec![5]))).expect("admitted").absence;
    assert_eq!(admit(&[5]), Absence::Unproven);
    assert_eq!(admit(&[5, 0]), Absence::Proven);
    assert_eq!(admit(&[5, 0]), Absence::Unproven);
    assert_eq!(admit(&[9]), Absence::Proven);
    assert_eq!(admit(&[7]), Absence::Unproven);
}

#[test]
fn a_batch_beyond_the_highest_key_is_admitted_as_a_whole_or_not_at_all() {
    let given = GivenKeys::default();
    assert!(!given.admit_ascending(&[6], &[9]), "the highest key is not known yet");
    let admit = |key: &[u8]| given.admit(key, || Ok(Some(vec![5]))).expect("admitted").absence;
    assert_eq!(admit(&[6]), Absence::Proven);
    assert!(!given.admit_ascending(&[6], &[9]));
    assert_eq!(admit(&[7]), Absence::Proven);
    assert!(given.admit_ascending(&[8], &[20]));
    assert_eq!(admit(&[15]), Absence::Unproven);
    assert_eq!(admit(&[21]), Absence::Proven);
}

#[test]
fn a_failed_read_of_the_last_key_admits_nothing() {
    let given = GivenKeys::default();
    assert!(given.admit(&[9], || Err(Error::invalid_argument("unreadable"))).is_err());
    assert_eq!(given.admit(&[9], || Ok(Some(vec![9]))).expect("admitted").absence, Absence::Unproven);
}

/// An id in no order.
fn id_of(number: u32) -> ObjectId {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&hash_of(&number.to_be_bytes()).to_be_bytes());
    ObjectId::from_bytes(bytes)
}

/// A collection of documents with ids in no order.
struct Stored {
    fixture: Fixture,
    collection: Arc<CollectionState>,
    keys: Vec<Vec<u8>>,
    /// Whether it is known how many there are.
    is_counted: bool,
}

impl Stored {
    fn new(documents: u32) -> Self {
        Self::with_fault(documents, PlantedFault::None)
    }

    fn with_fault(documents: u32, fault: PlantedFault) -> Self {
        let fixture = Fixture::with_fault(fault, |client| {
            let ids = client.database("test").collection("ids");
            let documents = (0..documents).map(|number| doc! { "_id": id_of(number), "number": number });
            ids.insert_many(documents).run().expect("stored");
        });
        let collection = fixture.collection("ids").expect("the collection");
        let bounds = (collection.id.prefix().to_vec(), Some(collection.id.end()));
        let snapshot = Snapshot::take(&fixture.database);
        let mut scan =
            Scan::open(&snapshot, Family::Records, bounds, CacheUse::Bypass, &OperationContext::unlimited());
        let mut keys = Vec::new();
        while scan.advance().expect("read") {
            keys.push(scan.key().to_vec());
        }
        Self { fixture, collection, keys, is_counted: true }
    }

    /// A key that is not stored, and not above all stored ones.
    fn absent(&self, number: u32) -> Vec<u8> {
        let mut key = self.keys[0].clone();
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    fn admit(&self, key: &[u8]) -> Absence {
        let last = || Ok(self.keys.last().cloned());
        self.collection.given_keys.admit(key, last).expect("admitted").absence
    }

    /// Admits keys that are not stored.
    fn ask(&self, numbers: Range<u32>) {
        for number in numbers {
            self.admit(&self.absent(number));
        }
    }

    /// Admits keys that no other part of a test uses, each of which pays for the reading of some.
    fn pay(&self, keys: u32) {
        const FIRST: u32 = 1 << 31;
        self.ask(FIRST..FIRST + keys);
    }

    /// Makes one step.
    fn step(&self) {
        let (keys, latches) =
            (Arc::clone(&self.collection.given_keys), Arc::clone(&self.fixture.shared.store.latches));
        let space = KeySpace::of_records(self.collection.id);
        let stored = self.collection.count.known().filter(|_| self.is_counted);
        Step { keys, latches, space, stored }.run(&self.fixture.database);
    }

    /// Makes as many steps as a filter may need.
    fn steps(&self) {
        (0..500).for_each(|_| self.step());
    }

    /// The number of a hundred keys that were never given that are proven absent.
    fn proven(&self, from: u32) -> usize {
        (from..from + 100).filter(|number| self.admit(&self.absent(*number)) == Absence::Proven).count()
    }

    fn store(&self, key: &[u8]) {
        let mut batch = Batch::new(&self.fixture.database);
        batch.put(Family::Records, key, &[5, 0, 0, 0, 0]);
        self.fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("stored");
    }
}

#[test]
fn a_filter_proves_new_keys_absent_and_never_a_stored_or_an_admitted_one() {
    let stored = Stored::new(STORED);
    assert_eq!(stored.proven(0), 0, "there is no filter yet");
    stored.step();
    assert_eq!(stored.proven(100), 0, "too little was paid for one");
    stored.pay(PAYING);
    stored.steps();
    assert!(stored.proven(200) >= 97);
    assert!(stored.keys.iter().all(|key| stored.admit(key) == Absence::Unproven));
    // Of those that were admitted a moment ago none is proven a second time, though none was stored.
    assert_eq!(stored.proven(200), 0);
    assert!(stored.fixture.database.filters_used() > 0);
}

#[test]
fn keys_above_the_highest_one_of_a_filter_are_looked_up_until_it_is_renewed() {
    let stored = Stored::new(STORED);
    stored.pay(PAYING);
    stored.steps();
    let highest = [&stored.keys[stored.keys.len() - 1][..], &[9]].concat();
    assert_eq!(stored.admit(&highest), Absence::Proven, "by the highest key");
    let above = |number: u32| [&stored.keys[stored.keys.len() - 1][..], &[8], &number.to_be_bytes()].concat();
    assert_eq!(stored.admit(&above(0)), Absence::Unproven);
    for number in 1..PAYING {
        stored.admit(&above(number));
    }
    stored.steps();
    let proven = (0..100).filter(|number| stored.admit(&above(PAYING + number)) == Absence::Proven);
    assert!(proven.count() >= 97);
}

/// The result of an insert that was admitted before the filter and commits while the filter is made, where it was
/// read already or not.
fn insert_in_the_middle(stored: &Stored) -> Absence {
    let late = stored.absent(7);
    stored.pay(PAYING);
    let latches = &stored.fixture.shared.store.latches;
    let held = latches.lock_one(&late, &OperationContext::default()).expect("free");
    assert_eq!(stored.admit(&late), Absence::Unproven);
    stored.steps();
    stored.store(&late);
    drop(held);
    stored.steps();
    assert!(stored.proven(500) >= 97, "the filter is ready");
    stored.admit(&late)
}

#[test]
fn a_filter_waits_for_inserts_that_were_admitted_before_it() {
    let stored = Stored::new(STORED);
    assert_eq!(insert_in_the_middle(&stored), Absence::Unproven);
}

/// The test above can fail.
#[test]
fn a_filter_that_does_not_wait_calls_a_stored_key_absent() {
    let stored = Stored::with_fault(STORED, PlantedFault::FiltersStartEarly);
    assert_eq!(insert_in_the_middle(&stored), Absence::Proven);
}

#[test]
fn a_collection_of_more_documents_than_is_known_gets_a_filter_that_fits() {
    let stored = Stored { is_counted: false, ..Stored::new(40_000) };
    // One of the smallest filters is begun, and the credit reads all documents once and not twice.
    stored.pay(2 * MARK_INTERVAL + 6000);
    stored.steps();
    assert!(stored.proven(0) >= 97);
    assert!(stored.keys.iter().all(|key| stored.admit(key) == Absence::Unproven));
}

#[test]
fn a_full_filter_grows_and_forgets_nothing() {
    let stored = Stored { is_counted: false, ..Stored::new(STORED) };
    stored.pay(PAYING);
    stored.steps();
    let used = stored.fixture.database.filters_used();
    // Never stored: if the keys were read again, these would be new again.
    for turn in 0..5 {
        stored.ask(turn * PAYING..(turn + 1) * PAYING);
        stored.steps();
    }
    assert!(stored.fixture.database.filters_used() > 4 * used);
    assert!((0..5 * PAYING).all(|number| stored.admit(&stored.absent(number)) == Absence::Unproven));
    assert!(stored.keys.iter().all(|key| stored.admit(key) == Absence::Unproven));
    assert!(stored.proven(5 * PAYING) >= 97);
}

/// A queue: documents come and go.
#[test]
fn the_memory_of_a_filter_follows_the_documents_and_not_those_that_came_and_went() {
    let stored = Stored::new(STORED);
    stored.pay(PAYING);
    stored.steps();
    let used = stored.fixture.database.filters_used();
    for turn in 1..20 {
        stored.ask(turn * PAYING..(turn + 1) * PAYING);
        stored.steps();
        assert!(stored.fixture.database.filters_used() <= 4 * used);
    }
    assert!(stored.proven(PAYING) >= 97, "and those that went are new again");
}

/// Every second of two threads' ids came below the highest one, and a filter was made again and again that answered for none.
#[test]
fn ids_that_ascend_but_for_their_neighbors_make_no_filter() {
    let stored = Stored::new(STORED);
    let last = &stored.keys[stored.keys.len() - 1];
    for number in (0..20 * PAYING).step_by(1000) {
        // Two batches of five hundred, the later ids first.
        for id in (number + 500..number + 1000).chain(number..number + 500) {
            stored.admit(&[&last[..], &id.to_be_bytes()].concat());
        }
        stored.step();
    }
    assert_eq!(stored.fixture.database.filters_used(), 0);
}

/// A filter with memory for no more keys than there are was thrown away when it was nearly made, again and again.
#[test]
fn a_filter_that_cannot_grow_is_made_all_the_same() {
    let stored = Stored::new(40_000);
    let _others = stored.fixture.database.filter_bytes((2 << 20) - (110 << 10)).expect("not used yet");
    stored.pay(PAYING);
    stored.steps();
    assert!(stored.proven(0) >= 90);
    assert!(stored.keys.iter().all(|key| stored.admit(key) == Absence::Unproven));
}

/// RocksDB passes deleted keys in one call, for as long as that lasts, and the background thread has syncs to make.
#[test]
fn many_deleted_keys_in_a_row_end_a_step_and_the_filter() {
    let stored = Stored::new(STORED);
    let database = &stored.fixture.database;
    for removed in 0..2 {
        let mut batch = Batch::new(database);
        for number in 0..15_000 {
            batch.put(Family::Records, &stored.absent(number), &[5, 0, 0, 0, 0]);
            if removed == 1 {
                batch.delete(Family::Records, &stored.absent(number));
            }
        }
        stored.fixture.shared.store.commit(batch, CommitLevel::Buffered).expect("written");
    }
    stored.pay(PAYING);
    stored.steps();
    assert_eq!(database.filters_used(), 0);
    assert_eq!(stored.proven(0), 0);
}

#[test]
fn what_was_forgotten_is_not_filled_by_a_step_that_began_before() {
    let stored = Stored::new(STORED);
    stored.pay(PAYING);
    stored.step();
    stored.collection.given_keys.forget();
    assert_eq!(stored.fixture.database.filters_used(), 0);
    stored.steps();
    assert_eq!(stored.admit(&stored.absent(1)), Absence::Unproven);
    assert_eq!(stored.fixture.database.filters_used(), 0);
}

#[test]
fn without_memory_for_a_filter_keys_are_looked_up_as_before() {
    let stored = Stored::new(STORED);
    let free = (2 << 20) - 4096;
    let _others = stored.fixture.database.filter_bytes(free).expect("not used yet");
    stored.pay(PAYING);
    stored.steps();
    assert_eq!(stored.proven(0), 0);
    assert_eq!(stored.fixture.database.filters_used() as u64, free);
}
