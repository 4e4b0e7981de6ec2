//! How much room a collection takes, without reading all of it.

use std::sync::Arc;

use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::ID_INDEX_NAME;
use crate::collection::{Collection, Viewed};
use crate::error::Result;
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

/// How many documents tell how long a document is, and how many keys how long a key is.
const SAMPLE_LEN_MAX: u64 = 1000;
/// What an empty collection or index takes, as MongoDB says it.
const STORED_BYTES_MIN: u64 = 4096;

/// The sizes of a collection, or the sums of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    pub(crate) documents: u64,
    /// Of documents as they are read: what the first thousand take, for all of them.
    pub(crate) document_bytes: u64,
    /// Of what is stored of the records: what table files hold of them, or, where that is more because little was flushed to
    /// such files yet, what the documents take.
    pub(crate) record_bytes: u64,
    /// The same of entries by the index's name. The one on `_id` comes first: its keys are the records'.
    pub(crate) indexes: Vec<(String, u64)>,
}

impl Size {
    /// The length of a document in bytes; 0 if there is none.
    pub(crate) fn average(&self) -> i64 {
        let average = self.document_bytes.checked_div(self.documents).unwrap_or(0);
        i64::try_from(average).unwrap_or(i64::MAX)
    }
}

/// How many keys are stored, counted.
pub(crate) struct KeyCounts {
    pub(crate) documents: u64,
    /// By the index's name, the one on `_id` first.
    pub(crate) indexes: Vec<(String, u64)>,
}

impl<T> Collection<T> {
    /// Counts the keys of all indexes, if the collection exists.
    pub(crate) fn key_counts(&self) -> Result<Option<KeyCounts>> {
        self.view(|Viewed { state, view, .. }| {
            let count = |family: Family, start: Vec<u8>, end: Vec<u8>| -> Result<u64> {
                let Some(snapshot) = view.snapshot() else { return Ok(0) };
                let mut scan = Scan::open(snapshot, family, (start, Some(end)), CacheUse::Bypass);
                let mut keys = 0;
                while scan.advance()? {
                    keys += 1;
                }
                Ok(keys)
            };
            let documents = count(Family::Records, state.id.prefix().to_vec(), state.id.end())?;
            let mut indexes = vec![(ID_INDEX_NAME.to_owned(), documents)];
            for index in view.indexes() {
                let keys = count(Family::Entries, index.id.prefix().to_vec(), index.id.end())?;
                indexes.push((index.name.clone(), keys));
            }
            Ok(KeyCounts { documents, indexes })
        })
    }

    /// The collection's sizes, if it exists.
    pub(crate) fn size(&self) -> Result<Option<Size>> {
        let documents = self.known_count()?.unwrap_or(0);
        self.view(|Viewed { database, state, view }| {
            let sample = |family: Family, start: Vec<u8>, end: Vec<u8>| {
                view.snapshot().map_or(Ok(0), |snapshot| key_bytes(snapshot, family, start, end, documents))
            };
            let ids = sample(Family::Records, state.id.prefix().to_vec(), state.id.end())?;
            let mut indexes = vec![(ID_INDEX_NAME.to_owned(), ids.max(STORED_BYTES_MIN))];
            for index in view.indexes() {
                let (start, end) = (index.id.prefix().to_vec(), index.id.end());
                let files = database.file_bytes(Family::Entries, (start.clone(), end.clone()));
                let keys = sample(Family::Entries, start, end)?;
                indexes.push((index.name.clone(), files.max(keys).max(STORED_BYTES_MIN)));
            }
            let document_bytes = document_bytes(view, documents)?;
            let record_bytes = record_bytes(database, state).max(document_bytes);
            Ok(Size { documents, document_bytes, record_bytes, indexes })
        })
    }
}

/// How much the table files hold of a collection's records, and no less than an empty collection is said to take.
pub(crate) fn record_bytes(database: &Database, state: &CollectionState) -> u64 {
    let files = database.file_bytes(Family::Records, (state.id.prefix().to_vec(), state.id.end()));
    files.max(STORED_BYTES_MIN)
}

/// What as many keys take as there are documents, if all are as long as the first thousand.
fn key_bytes(
    snapshot: &Arc<Snapshot>,
    family: Family,
    start: Vec<u8>,
    end: Vec<u8>,
    documents: u64,
) -> Result<u64> {
    let mut scan = Scan::open(snapshot, family, (start, Some(end)), CacheUse::Fill);
    let (mut read, mut bytes) = (0, 0);
    while read < SAMPLE_LEN_MAX && scan.advance()? {
        read += 1;
        bytes += scan.key().len() as u64;
        if family == Family::Entries {
            bytes += scan.value().len() as u64;
        }
    }
    Ok(scaled(bytes, read, documents))
}

fn document_bytes(view: ReadView, documents: u64) -> Result<u64> {
    let mut sample = Matches::open(view, Selector::everything()?, &Order::default())?;
    let (mut read, mut bytes) = (0, 0);
    while read < SAMPLE_LEN_MAX && sample.advance()? {
        read += 1;
        bytes += sample.bytes().len() as u64;
    }
    Ok(scaled(bytes, read, documents))
}

/// What all take, if `read` of them take `bytes`.
fn scaled(bytes: u64, read: u64, all: u64) -> u64 {
    let scaled = u128::from(bytes) * u128::from(all);
    u64::try_from(scaled.checked_div(u128::from(read)).unwrap_or(0)).unwrap_or(u64::MAX)
}
