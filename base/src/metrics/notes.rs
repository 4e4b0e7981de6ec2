//! Counts of the present operation of a thread, for code that does not know the operation.
//!
//! A verb runs in one thread. What is below it adds to the thread's notes, and the watch of the
//! verb collects them at its end. A cursor collects them in each of its calls.

use std::cell::{Cell, RefCell};

/// The limit of named plans, of an operation with several searches.
const PLANS_MAX: usize = 4;

/// The source of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan<'a> {
    /// Entries of the index of that name.
    Index(&'a str),
    /// Records within bounds on `_id`.
    Ids,
    /// All records.
    Records,
}

/// The source that a scan has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanNote {
    /// Entries of the index of that name.
    Index(String),
    /// Records within bounds on `_id`.
    Ids,
    /// All records.
    Records,
}

impl PlanNote {
    fn of(plan: Plan<'_>) -> Self {
        match plan {
            Plan::Index(name) => Self::Index(name.to_owned()),
            Plan::Ids => Self::Ids,
            Plan::Records => Self::Records,
        }
    }

    fn borrowed(&self) -> Plan<'_> {
        match self {
            Self::Index(name) => Plan::Index(name),
            Self::Ids => Plan::Ids,
            Self::Records => Plan::Records,
        }
    }

    /// The plan in MongoDB's words.
    pub fn summary(&self) -> String {
        match self {
            Self::Index(name) => format!("IXSCAN {name}"),
            Self::Ids => "IXSCAN _id_".to_owned(),
            Self::Records => "COLLSCAN".to_owned(),
        }
    }
}

/// Numbers of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records that were looked up by their `_id` or a unique key.
    pub lookups: u64,
    /// Searches that read a part of the records, or of an index.
    pub index_scans: u64,
    /// Searches that read all records, or a whole index.
    pub collection_scans: u64,
    /// Keys that searches have read.
    pub keys_examined: u64,
    /// Documents that searches have read.
    pub documents_examined: u64,
    /// Documents that were inserted.
    pub documents_inserted: u64,
    /// Documents that were changed.
    pub documents_updated: u64,
    /// Documents that were removed.
    pub documents_deleted: u64,
    /// Documents that were returned to the caller.
    pub documents_returned: u64,
    /// The bytes of the returned documents.
    pub bytes_returned: u64,
    /// The bytes that were given to RocksDB to write.
    pub bytes_written: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.lookups += other.lookups;
        self.index_scans += other.index_scans;
        self.collection_scans += other.collection_scans;
        self.keys_examined += other.keys_examined;
        self.documents_examined += other.documents_examined;
        self.documents_inserted += other.documents_inserted;
        self.documents_updated += other.documents_updated;
        self.documents_deleted += other.documents_deleted;
        self.documents_returned += other.documents_returned;
        self.bytes_returned += other.bytes_returned;
        self.bytes_written += other.bytes_written;
    }
}

/// A tally that a thread adds to, number by number: to copy all of them for each would be felt in an insert.
#[derive(Debug, Default)]
struct OpenTally {
    lookups: Cell<u64>,
    index_scans: Cell<u64>,
    collection_scans: Cell<u64>,
    keys_examined: Cell<u64>,
    documents_examined: Cell<u64>,
    documents_inserted: Cell<u64>,
    documents_updated: Cell<u64>,
    documents_deleted: Cell<u64>,
    documents_returned: Cell<u64>,
    bytes_returned: Cell<u64>,
    bytes_written: Cell<u64>,
}

thread_local! {
    static TALLY: OpenTally = const {
        OpenTally {
            lookups: Cell::new(0),
            index_scans: Cell::new(0),
            collection_scans: Cell::new(0),
            keys_examined: Cell::new(0),
            documents_examined: Cell::new(0),
            documents_inserted: Cell::new(0),
            documents_updated: Cell::new(0),
            documents_deleted: Cell::new(0),
            documents_returned: Cell::new(0),
            bytes_returned: Cell::new(0),
            bytes_written: Cell::new(0),
        }
    };
    static PLANS: RefCell<Vec<PlanNote>> = const { RefCell::new(Vec::new()) };
}

/// Adds to a number of the tally. Nothing is noted while the thread ends.
#[inline]
fn add(number: impl FnOnce(&OpenTally) -> &Cell<u64>, count: u64) {
    let _ = TALLY.try_with(|tally| {
        let number = number(tally);
        number.set(number.get().wrapping_add(count));
    });
}

/// A record was looked up by its `_id` or a unique key.
#[inline]
pub fn looked_up() {
    add(|tally| &tally.lookups, 1);
}

/// Documents were inserted.
#[inline]
pub fn inserted(documents: u64) {
    add(|tally| &tally.documents_inserted, documents);
}

/// Documents were changed.
#[inline]
pub fn updated(documents: u64) {
    add(|tally| &tally.documents_updated, documents);
}

/// Documents were removed.
#[inline]
pub fn deleted(documents: u64) {
    add(|tally| &tally.documents_deleted, documents);
}

/// Documents were returned to the caller.
#[inline]
pub fn returned(documents: u64, bytes: u64) {
    add(|tally| &tally.documents_returned, documents);
    add(|tally| &tally.bytes_returned, bytes);
}

/// Bytes were given to RocksDB to write.
#[inline]
pub fn wrote(bytes: usize) {
    add(|tally| &tally.bytes_written, bytes as u64);
}

/// A search reads all records of a collection, or an index.
#[inline]
pub fn searched(reads_all: bool) {
    // A union with one such branch reads everything, whatever its others do.
    add(|tally| if reads_all { &tally.collection_scans } else { &tally.index_scans }, 1);
}

/// A scan of the search reads this.
pub fn scans(plan: Plan<'_>) {
    let _ = PLANS.try_with(|plans| {
        let mut plans = plans.borrow_mut();
        if plans.len() < PLANS_MAX && !plans.iter().any(|known| known.borrowed() == plan) {
            // Copied only here: an index may be gone when the note is read.
            plans.push(PlanNote::of(plan));
        }
    });
}

/// A search has read keys and documents.
#[inline]
pub fn examined(keys: u64, documents: u64) {
    add(|tally| &tally.keys_examined, keys);
    add(|tally| &tally.documents_examined, documents);
}

/// Returns the tally, and leaves an empty one.
#[inline]
pub fn take_tally() -> Tally {
    let take = |open: &OpenTally| Tally {
        lookups: open.lookups.take(),
        index_scans: open.index_scans.take(),
        collection_scans: open.collection_scans.take(),
        keys_examined: open.keys_examined.take(),
        documents_examined: open.documents_examined.take(),
        documents_inserted: open.documents_inserted.take(),
        documents_updated: open.documents_updated.take(),
        documents_deleted: open.documents_deleted.take(),
        documents_returned: open.documents_returned.take(),
        bytes_returned: open.bytes_returned.take(),
        bytes_written: open.bytes_written.take(),
    };
    TALLY.try_with(take).unwrap_or_default()
}

/// Returns the plans, and leaves none.
pub fn take_plans() -> Vec<PlanNote> {
    PLANS.try_with(RefCell::take).unwrap_or_default()
}

/// Forgets the plans.
#[inline]
pub fn forget_plans() {
    let _ = PLANS.try_with(|plans| plans.borrow_mut().clear());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once() {
        looked_up();
        searched(true);
        searched(true);
        scans(Plan::Records);
        scans(Plan::Records);
        searched(false);
        scans(Plan::Index("a_1"));
        examined(3, 4);
        wrote(10);
        let expected = Tally {
            lookups: 1,
            index_scans: 1,
            collection_scans: 2,
            keys_examined: 3,
            documents_examined: 4,
            bytes_written: 10,
            ..Tally::default()
        };
        assert_eq!(take_tally(), expected);
        assert_eq!(take_tally(), Tally::default());
        let summaries: Vec<_> = take_plans().iter().map(PlanNote::summary).collect();
        assert_eq!(summaries, ["COLLSCAN", "IXSCAN a_1"]);
        assert!(take_plans().is_empty());
    }
}
