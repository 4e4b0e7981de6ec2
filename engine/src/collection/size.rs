//! How much room a collection takes, without reading all of it.

use index::key::Direction;

use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::ID_INDEX_NAME;
use crate::collection::{Collection, Viewed};
use crate::error::Result;
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::plan::selector::Selector;
use crate::storage::{Database, Family};

/// How many documents tell how long a document is.
const SAMPLE_LEN_MAX: u64 = 1000;

/// The sizes of a collection, or the sums of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    pub(crate) documents: u64,
    /// Of documents as they are read: what the first thousand take, for all of them.
    pub(crate) document_bytes: u64,
    /// Of the table files that hold records. What only the log and memory hold is not in it.
    pub(crate) record_bytes: u64,
    /// The same of entries by the index's name, the one on `_id` first: its keys are the records'.
    pub(crate) indexes: Vec<(String, u64)>,
}

impl Size {
    /// The length of a document in bytes; 0 if there is none.
    pub(crate) fn average(&self) -> i64 {
        let average = self.document_bytes.checked_div(self.documents).unwrap_or(0);
        i64::try_from(average).unwrap_or(i64::MAX)
    }
}

impl<T> Collection<T> {
    /// The collection's sizes, if it exists.
    pub(crate) fn size(&self) -> Result<Option<Size>> {
        let documents = self.known_count()?.unwrap_or(0);
        self.view(|Viewed { database, state, view }| {
            let mut indexes = vec![(ID_INDEX_NAME.to_owned(), 0)];
            indexes.extend(view.indexes().iter().map(|index| {
                let range = (index.id.prefix().to_vec(), index.id.end());
                (index.name.clone(), database.file_bytes(Family::Entries, range))
            }));
            Ok(Size {
                documents,
                document_bytes: document_bytes(view, documents)?,
                record_bytes: record_bytes(database, state),
                indexes,
            })
        })
    }
}

/// How much the table files hold of a collection's records.
pub(crate) fn record_bytes(database: &Database, state: &CollectionState) -> u64 {
    database.file_bytes(Family::Records, (state.id.prefix().to_vec(), state.id.end()))
}

fn document_bytes(view: ReadView, documents: u64) -> Result<u64> {
    let mut sample = Matches::open(view, Selector::everything()?, Direction::Ascending)?;
    let (mut read, mut bytes) = (0, 0);
    while read < SAMPLE_LEN_MAX && sample.advance()? {
        read += 1;
        bytes += sample.bytes().len() as u64;
    }
    let scaled = u128::from(bytes) * u128::from(documents);
    Ok(u64::try_from(scaled.checked_div(u128::from(read)).unwrap_or(0)).unwrap_or(u64::MAX))
}
