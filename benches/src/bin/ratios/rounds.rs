//! The rounds of several figures.

use cairndb::Collection;
use cairndb::bson::RawDocumentBuf;
use cairndb_benches::documents;
use serde::Serialize;

/// Documents of one round of an insert figure.
pub(crate) const DOCUMENTS: u64 = 60_000;
/// Documents of a call of `insert_many`.
pub(crate) const BATCH: usize = 1000;

/// Ready raw documents without an `_id`.
pub(crate) fn raw_orders(count: u64) -> Vec<RawDocumentBuf> {
    (0..count).map(documents::raw_order).collect()
}

/// Inserts them one by one.
pub(crate) fn insert_all(orders: &Collection<RawDocumentBuf>, documents: &[RawDocumentBuf]) {
    for document in documents {
        orders.insert_one(document).run().expect("inserted");
    }
}

/// Inserts them in calls of [`BATCH`].
pub(crate) fn insert_batches<T: Serialize>(orders: &Collection<T>, documents: &[T]) {
    for batch in documents.chunks(BATCH) {
        orders.insert_many(batch).run().expect("inserted");
    }
}

/// Runs both at once and waits for both.
pub(crate) fn side_by_side(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(left);
        scope.spawn(right);
    });
}

/// Works on all parts at once, each in a thread of its own, and waits for all.
pub(crate) fn in_parallel<T: Send>(parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(|| work(part));
        }
    });
}
