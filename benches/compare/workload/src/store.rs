//! A store of the comparison, and its results.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use crate::durability::{Durability, Result};
use crate::order::{Order, Wanted};

/// A store under comparison. `Document` is what it accepts, `Id` what it finds a document by again.
pub trait Store: Sized {
    /// A document in the form that the store accepts.
    type Document;
    /// The key of a stored document.
    type Id;
    /// Whether the store has transactions, whose writes are made one by one and are one commit.
    const HAS_TRANSACTIONS: bool = false;

    /// Opens or creates the store in `folder`; an error when it does not offer `durability`.
    fn open(folder: &Path, durability: Durability) -> Result<Self>;
    /// Brings an order into the form that the store accepts; this is not timed.
    fn prepare(order: &Order) -> Result<Self::Document>;
    /// Stores one document, as one commit.
    fn insert_one(&mut self, document: Self::Document) -> Result<Self::Id>;
    /// Stores many documents, as one commit; ids in the documents' order.
    fn insert_many(&mut self, documents: Vec<Self::Document>) -> Result<Vec<Self::Id>>;
    /// Stores documents one by one, in one transaction; ids in the documents' order. Without transactions it is a batch, which is not
    /// measured.
    fn transact(&mut self, documents: Vec<Self::Document>) -> Result<Vec<Self::Id>> {
        self.insert_many(documents)
    }
    /// Finds one document and shows it to `seen`.
    fn read(&self, id: &Self::Id, seen: &mut Seen) -> Result<()>;
    /// Shows every document to `seen`.
    fn scan(&self, seen: &mut Seen) -> Result<()>;
}

/// A store that looks into its documents: it can be asked for them by their fields, and change a part of one.
pub trait DocumentStore: Store {
    /// Shows every document that matches to `seen`, found without an index.
    fn find(&self, wanted: &Wanted, seen: &mut Seen) -> Result<()>;
    /// Adds one to the `placed` of a document, as one commit; how many documents were changed.
    fn increment(&mut self, id: &Self::Id) -> Result<u64>;
}

/// The documents that a read came upon. Looking at them keeps the compiler, and a memory map, honest.
#[derive(Debug, Default)]
pub struct Seen {
    documents: u64,
    sum: u64,
}

impl Seen {
    /// A document in its stored form: both ends are touched.
    pub fn bytes(&mut self, document: &[u8]) {
        let ends = document.first().zip(document.last()).map_or(0, |(first, last)| u64::from(first ^ last));
        self.documents += 1;
        self.sum = black_box(self.sum.wrapping_add(ends));
    }

    /// A document that the store hands out as a tree of `fields` fields only.
    pub fn tree(&mut self, fields: usize) {
        self.documents += 1;
        self.sum = black_box(self.sum.wrapping_add(fields as u64));
    }
}

/// Prints a figure: operations a second since `start`.
pub(crate) fn report(name: &str, operations: u64, start: Instant) {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
    let rate = operations as f64 / start.elapsed().as_secs_f64();
    println!("{name} {rate:.1}");
}

/// Fails if the store did not show as many documents as there are.
pub(crate) fn expect_seen(what: &str, seen: &Seen, expected: u64) -> Result<()> {
    if seen.documents == expected {
        return Ok(());
    }
    Err(format!("{what} found {} documents where there are {expected}", seen.documents).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_misses_documents_is_an_error() {
        let mut seen = Seen::default();
        seen.bytes(b"one");
        seen.tree(5);
        assert!(expect_seen("scan", &seen, 2).is_ok());
        assert!(expect_seen("scan", &seen, 3).is_err());
    }
}
