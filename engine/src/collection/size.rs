//! The sizes of a collection, estimated from samples: not all of it is read.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use base::error::Result;
use query::operation::OperationContext;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::ID_INDEX_NAME;
use crate::collection::handle::{Handle, Viewed};
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::plan::order::Order;
use crate::plan::selector::Selector;

/// The number of documents, and of keys of an index, in a sample.
const SAMPLE_LEN_MAX: u64 = 1000;
/// The size in bytes that MongoDB reports for an empty collection or index.
const STORED_BYTES_MIN: u64 = 4096;

/// The part of a collection's documents, one in this number, that may be in memory while its size in tables stands for all.
const MEMORY_PART_MIN: u64 = 20;

/// The sizes of one collection, or the sums of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    pub(crate) documents: u64,
    /// The size of all documents, extrapolated from the first thousand.
    pub(crate) document_bytes: u64,
    /// The size of the records in table files. `document_bytes` if that is more, because recent writes are not in files yet.
    pub(crate) record_bytes: u64,
    /// The size of the records in table files, and nothing else.
    pub(crate) table_bytes: u64,
    /// Whether table files have nearly all documents of the store.
    pub(crate) is_in_tables: bool,
    /// The size of the entries, by the index's name. The index on `_id` comes first; its entries are the keys of the records.
    pub(crate) indexes: Vec<(String, u64)>,
}

impl Size {
    /// The average size of a document in bytes, or 0 if there are no documents.
    pub(crate) fn average(&self) -> i64 {
        let average = self.document_bytes.checked_div(self.documents).unwrap_or(0);
        i64::try_from(average).unwrap_or(i64::MAX)
    }
}

/// The number of keys in each index.
pub(crate) struct KeyCounts {
    pub(crate) documents: u64,
    /// By the index's name, the one on `_id` first.
    pub(crate) indexes: Vec<(String, u64)>,
}

impl Handle {
    /// Counts the keys of all indexes by reading them. Returns `None` if the collection does not exist.
    pub(crate) fn key_counts(&self) -> Result<Option<KeyCounts>> {
        let operation = self.begin_plain(None);
        // One view for all counts, so that they fit each other while writes go on.
        self.view(|Viewed { state, view, .. }| {
            let count = |family: Family, start: Vec<u8>, end: Vec<u8>| -> Result<u64> {
                // A view of a whole collection always has a snapshot, so this 0 is never returned.
                let Some(snapshot) = view.snapshot() else { return Ok(0) };
                // Blocks that are read once must not displace the working set from the block cache.
                let bounds = (start, Some(end));
                let mut scan = Scan::open(snapshot, family, bounds, CacheUse::Bypass, &operation);
                let mut keys = 0;
                while scan.advance()? {
                    operation.step()?;
                    keys += 1;
                }
                Ok(keys)
            };
            let documents = count(Family::Records, state.id.prefix().to_vec(), state.id.end())?;
            // Records are stored by their `_id`, so this index has one key for each document.
            let mut indexes = vec![(ID_INDEX_NAME.to_owned(), documents)];
            for index in state.indexes().iter() {
                let keys = count(Family::Entries, index.id.prefix().to_vec(), index.id.end())?;
                indexes.push((index.name.clone(), keys));
            }
            Ok(KeyCounts { documents, indexes })
        })
    }

    /// Estimates the sizes. Returns `None` if the collection does not exist.
    pub(crate) fn size(&self) -> Result<Option<Size>> {
        // Not within the view: the first count after a crash reads all documents, on a view of its own.
        let operation = self.begin_plain(None);
        let documents = self.known_count(&operation)?.unwrap_or(0);
        self.view(|Viewed { database, state, view }| {
            let sample = Sample { documents, operation: &operation };
            let indexes = sample.index_bytes(database, state, &view)?;
            let document_bytes = sample.document_bytes(view)?;
            // New documents may be in no file yet, and a collection with documents must not seem empty.
            let record_bytes = record_bytes(database, state).max(document_bytes);
            let table_bytes = table_bytes(database, state);
            // RocksDB counts what is in memory for all collections together. So this may say no too often, and never yes.
            let in_memory = database.keys_in_memory(Family::Records);
            let is_in_tables = in_memory.saturating_mul(MEMORY_PART_MIN) <= documents;
            Ok(Size { documents, document_bytes, record_bytes, table_bytes, is_in_tables, indexes })
        })
    }
}

/// The estimation of sizes.
struct Sample<'a> {
    /// The number of documents in the collection.
    documents: u64,
    operation: &'a OperationContext,
}

impl Sample<'_> {
    /// The size of the entries of each index, by its name. The index on `_id` comes first.
    fn index_bytes(
        &self,
        database: &Database,
        state: &CollectionState,
        view: &ReadView,
    ) -> Result<Vec<(String, u64)>> {
        let sample = |family: Family, start: Vec<u8>, end: Vec<u8>| {
            view.snapshot().map_or(Ok(0), |snapshot| self.key_bytes(snapshot, family, (start, end)))
        };
        // The index on `_id` has no files of its own. Its size is that of the records' keys.
        let ids = sample(Family::Records, state.id.prefix().to_vec(), state.id.end())?;
        let mut indexes = vec![(ID_INDEX_NAME.to_owned(), ids.max(STORED_BYTES_MIN))];
        for index in state.indexes().iter() {
            let (start, end) = (index.id.prefix().to_vec(), index.id.end());
            let files = database.file_bytes(Family::Entries, &start, &end);
            let keys = sample(Family::Entries, start, end)?;
            // Files do not count what is only in memtables and the log. The sample does.
            indexes.push((index.name.clone(), files.max(keys).max(STORED_BYTES_MIN)));
        }
        Ok(indexes)
    }

    /// The size of the keys of an index. Beyond the first thousand it is extrapolated to one key for each document.
    fn key_bytes(&self, snapshot: &Arc<Snapshot>, family: Family, bounds: (Vec<u8>, Vec<u8>)) -> Result<u64> {
        let (start, end) = bounds;
        // A sample is small, so it displaces little from the block cache.
        let mut scan = Scan::open(snapshot, family, (start, Some(end)), CacheUse::Fill, self.operation);
        let (mut read, mut bytes) = (0, 0);
        while read < SAMPLE_LEN_MAX && scan.advance()? {
            read += 1;
            bytes += scan.key().len() as u64;
            // The value of an entry belongs to the index. The value of a record is the document.
            if family == Family::Entries {
                bytes += scan.value().len() as u64;
            }
        }
        // All keys were read. A partial index may have few of them among millions of documents.
        if read < SAMPLE_LEN_MAX {
            return Ok(bytes);
        }
        Ok(scaled(bytes, read, self.documents))
    }

    /// The size of all documents, extrapolated from the first thousand.
    fn document_bytes(&self, view: ReadView) -> Result<u64> {
        let everything = Selector::everything_within(self.operation.clone())?;
        let mut sample = Matches::open(view, &everything, &Order::default())?;
        let (mut read, mut bytes) = (0, 0);
        while read < SAMPLE_LEN_MAX && sample.advance()? {
            read += 1;
            bytes += sample.bytes().len() as u64;
        }
        Ok(scaled(bytes, read, self.documents))
    }
}

/// The document `storageStats`, with sizes divided by `scale`.
pub(super) fn storage_stats(
    viewed: Viewed<'_>,
    scale: i64,
    operation: &OperationContext,
) -> Result<Document> {
    let Viewed { database, state, view } = viewed;
    let limits = state.definition().capped.map(|capped| capped.limits);
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let scaled = |bytes: u64| long(bytes) / scale;
    let (files, again) = (record_bytes(database, state), view.again());
    // Counted on the view and not read from the counter: size and count are of one moment.
    let everything = Selector::everything_within(operation.clone())?;
    let mut matches = Matches::open(view, &everything, &Order::default())?;
    let (mut count, mut size) = (0_u64, 0_u64);
    while matches.advance()? {
        count += 1;
        size = size.saturating_add(matches.bytes().len() as u64);
    }
    // All indexes: hidden ones use space as well, and the view has only those that searches may use.
    let sample = Sample { documents: count, operation };
    let indexes = again.map_or(Ok(Vec::new()), |view| sample.index_bytes(database, state, &view))?;
    let in_indexes: u64 = indexes.iter().map(|(_, bytes)| bytes).sum();
    // As in the command `collStats`: what was just written is in no table file yet.
    let stored = files.max(size);
    let mut storage = doc! { "size": scaled(size), "count": long(count) };
    // As in MongoDB, an empty collection has no average. It is in bytes, whatever the scale.
    if let Some(average) = size.checked_div(count) {
        storage.insert("avgObjSize", long(average));
    }
    let sizes = indexes.iter().map(|(name, bytes)| (name.clone(), Bson::Int64(scaled(*bytes))));
    storage.extend(doc! {
        "storageSize": scaled(stored),
        "freeStorageSize": 0_i64,
        "capped": limits.is_some(),
        "nindexes": i32::try_from(indexes.len()).unwrap_or(i32::MAX),
        "totalIndexSize": scaled(in_indexes),
        "indexSizes": sizes.collect::<Document>(),
        "totalSize": scaled(stored.saturating_add(in_indexes)),
        "scaleFactor": scale,
    });
    if let Some(limits) = limits {
        limits.describe_stats(&mut storage, scale.unsigned_abs());
    }
    Ok(storage)
}

/// The size of a collection's records in table files, and at least the size of an empty collection.
pub(crate) fn record_bytes(database: &Database, state: &CollectionState) -> u64 {
    // No document is read, because lists of databases ask this of every collection.
    table_bytes(database, state).max(STORED_BYTES_MIN)
}

/// The size of a collection's records in table files.
fn table_bytes(database: &Database, state: &CollectionState) -> u64 {
    database.file_bytes(Family::Records, &state.id.prefix(), &state.id.end())
}

/// The size of `all` items, if `read` of them use `bytes`. It is 0 if none was read.
fn scaled(bytes: u64, read: u64, all: u64) -> u64 {
    // In 128 bits, because the product of two large sizes does not fit into 64.
    let scaled = u128::from(bytes) * u128::from(all);
    u64::try_from(scaled.checked_div(u128::from(read)).unwrap_or(0)).unwrap_or(u64::MAX)
}
