//! The report of [`Client::metrics`](struct.Client.html#method.metrics).

use std::collections::BTreeMap;

use bson::DateTime;
use serde::{Deserialize, Serialize};

/// Counts of a client since it was opened, and the present state of its store.
///
/// Numbers of what was done only rise, from 0 when the client is opened. Sizes and what is open are those of the moment. As
/// BSON or JSON the fields have the names of MongoDB's style, `bytesWritten`; times are in microseconds.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// let client = Client::in_memory()?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "name": "Ada" }).run()?;
/// people.find_one(doc! { "name": "Ada" }).run()?;
///
/// let metrics = client.metrics()?;
/// assert_eq!(metrics.operations["insert_one"].times.count, 1);
/// assert_eq!(metrics.documents.inserted, 1);
/// // There is no index on the name.
/// assert_eq!(metrics.searches.collection_scans, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Metrics {
    /// Whether the store accepts writes.
    pub state: StoreState,
    /// The calls on collections, by the name of their verb: `insert_one`, `find`, `drop`. Those that were never called are
    /// absent. `create_index` counts as `create_indexes`, `drop_index` as `drop_indexes`, and `list_index_names` as
    /// `list_indexes`; files count by the calls on the two collections of their bucket. Values of sequences have no verb, because
    /// to time one would cost more than the value.
    pub operations: BTreeMap<String, OperationMetrics>,
    /// The documents that passed.
    pub documents: DocumentMetrics,
    /// The ways in which searches found their documents.
    pub searches: SearchMetrics,
    /// The cursors that are open.
    pub cursors: CursorMetrics,
    /// The numbers of sequences and auto-increment fields.
    pub sequences: SequenceMetrics,
    /// Calls that are to happen exactly once.
    pub tokens: TokenMetrics,
    /// The log of changes, and the streams of it.
    pub change_log: ChangeLogMetrics,
    /// The waits of writers.
    pub waits: WaitMetrics,
    /// The files, and the memory of RocksDB.
    pub storage: StorageMetrics,
    /// The [scrub](struct.ClientBuilder.html#method.scrub). Absent without one.
    pub scrub: Option<ScrubMetrics>,
}

/// Whether a store accepts writes. See the chapter on reliability for what each state means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StoreState {
    /// Reads and writes are accepted.
    #[default]
    Open,
    /// The disk was full, or the quota used up, when a write was last tried. The next one that succeeds ends this state.
    Full,
    /// A write or a sync failed. No write is accepted until the database is opened again.
    Poisoned,
    /// RocksDB found damage while it wrote. No write is accepted until the database is opened again.
    Damaged,
    /// The database was opened for reading only.
    ReadOnly,
}

/// The calls of one verb.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperationMetrics {
    /// The number of calls, and their times. That of a cursor is counted once it is at its end or dropped, with the
    /// time of all calls that worked for long, but not of the program between them.
    pub times: Times,
    /// The number of failed calls.
    pub failed: u64,
}

/// A histogram of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Times {
    /// The number of measured times.
    pub count: u64,
    /// The sum of all times.
    pub total_micros: u64,
    /// The histogram: its buckets that are not empty, the shortest times first.
    pub buckets: Vec<Bucket>,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Bucket {
    /// The times of the bucket are below this, and at least half of it; the first bucket begins with 0. Absent for the last
    /// bucket, which begins with 67 seconds.
    pub below_micros: Option<u64>,
    /// The number of times.
    pub count: u64,
}

/// The documents that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DocumentMetrics {
    /// Documents that were inserted, by upserts too.
    pub inserted: u64,
    /// Documents that were changed or replaced.
    pub updated: u64,
    /// Documents that were deleted. Those of a dropped or truncated collection are not counted.
    pub deleted: u64,
    /// Documents that finds and aggregations returned.
    pub returned: u64,
    /// The bytes of the returned documents.
    pub bytes_returned: u64,
    /// The bytes that were given to RocksDB to write, entries of indexes and keys included.
    pub bytes_written: u64,
}

/// The ways in which searches found their documents. Searches of updates, deletes and other verbs count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SearchMetrics {
    /// Searches that looked one record up, by its `_id` or a unique key.
    pub lookups: u64,
    /// Searches that read an index, or part of the records by their `_id`s.
    pub index_scans: u64,
    /// Searches that read all documents of a collection.
    pub collection_scans: u64,
    /// The keys of indexes that were read.
    pub keys_examined: u64,
    /// The documents that were read.
    pub documents_examined: u64,
    /// The blocks of files that reads found in the cache.
    pub cache_hits: u64,
    /// The blocks that they read from files.
    pub cache_misses: u64,
}

/// The cursors that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CursorMetrics {
    /// The number of open cursors of `find` and `aggregate`.
    pub open: u64,
    /// The number of snapshots that cursors and running calls hold.
    pub snapshots: u64,
    /// The age of the oldest snapshot, in seconds. Absent if there is none. What was overwritten since then stays on disk.
    pub oldest_snapshot_seconds: Option<u64>,
}

/// The numbers of sequences and auto-increment fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SequenceMetrics {
    /// The number of written changes of sequences: reserves of values, and ends of gapless inserts.
    pub reserves: u64,
    /// The number of gaps in the ledgers: values that no caller will ever get.
    pub gaps: u64,
}

/// Calls that are to happen exactly once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenMetrics {
    /// The number of calls that had happened before, and got the first answer again.
    pub replays: u64,
    /// The bytes of the remembered tokens, with the results of their calls. 0 until the first call with a token.
    pub bytes: u64,
}

/// The log of changes, which change streams read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeLogMetrics {
    /// The bytes of its events. Those of earlier lives of the store are counted some time after it was opened.
    pub bytes: u64,
    /// The age of its oldest events, in seconds.
    pub oldest_event_seconds: u64,
    /// The number of open streams.
    pub streams: u64,
    /// The seconds by which the newest event that streams may show is behind the newest one of all. An event is shown once it is on stable
    /// storage, and no writer of an earlier one is still at work. 0 without streams.
    pub lag_seconds: u64,
}

/// The waits of writers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitMetrics {
    /// Waits for another writer of the same document or unique key.
    pub latches: Times,
    /// Waits for RocksDB to make room in memory.
    pub stalls: Times,
    /// Syncs of the log, those of journaled writes and those in the background.
    pub syncs: Times,
}

/// The files, and the memory of RocksDB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StorageMetrics {
    /// The bytes of all memtables.
    pub memtable_bytes: u64,
    /// The bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// The limit of the cache, in bytes, without what it has given up for filters and for leaves of collections.
    pub cache_capacity_bytes: u64,
    /// The bytes of the records, and of the leaves of indexes and collections, that are kept because they were looked up often, and of
    /// their tables.
    pub record_cache_bytes: u64,
    /// The number of lookups of one record that found it there. A record that is read from a leaf is not looked up.
    pub record_cache_hits: u64,
    /// The number of lookups of one record that did not.
    pub record_cache_misses: u64,
    /// The bytes of the filters that prove most new `_id`s and unique values absent, without a look-up. They are part of the
    /// cache's share of the memory budget.
    pub key_filter_bytes: u64,
    /// The bytes of the live table files.
    pub table_bytes: u64,
    /// The number of live table files.
    pub table_files: u64,
    /// The number of finished flushes of memtables and compactions of tables.
    pub flushes_and_compactions: u64,
    /// The number of running ones.
    pub running: u64,
    /// About how many bytes compactions have yet to rewrite.
    pub pending_compaction_bytes: u64,
    /// The number of failed flushes and compactions.
    pub background_errors: u64,
    /// The bytes of the temporary files of sorts, groups and joins that run, or wait for their readers.
    pub temporary_bytes: u64,
    /// The number of created temporary files.
    pub temporary_files: u64,
    /// The number of bytes written to temporary files.
    pub temporary_bytes_written: u64,
    /// The [disk quota](struct.ClientBuilder.html#method.disk_quota). Absent without one.
    pub quota: Option<QuotaMetrics>,
}

/// Progress and findings of the scrub. [`Client::scrub_status`](struct.Client.html#method.scrub_status) has the
/// findings themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ScrubMetrics {
    /// The number of complete passes over all files.
    pub passes: u64,
    /// The number of bytes read in all passes, the running one included.
    pub bytes_read: u64,
    /// The number of files that the last complete pass has read.
    pub files: u64,
    /// The number of findings of the last complete pass, or of the running one, once it has one.
    pub findings: u64,
    /// The end of the last complete pass. Absent before.
    pub finished_at: Option<DateTime>,
}

/// The use of a disk quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QuotaMetrics {
    /// The quota in bytes.
    pub limit_bytes: u64,
    /// The bytes that the folder has on the disk.
    pub used_bytes: u64,
    /// Whether the last write that does not only delete was rejected for want of room.
    pub is_full: bool,
}
