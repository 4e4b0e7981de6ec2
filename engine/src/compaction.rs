//! Compactions that a caller asks for: of one collection with its indexes, or of everything.

use std::time::Duration;

use base::error::Result;
use base::namespace::Namespace;
use serde::{Deserialize, Serialize};
use store::Family;
use store::compaction::{CompactedRange, CompactionCalls, compact};

use crate::catalog::collection::CollectionState;
use crate::shared::{Caller, Shared};

type Callback<'a> = dyn FnMut(&CompactionProgress) + Send + 'a;

/// The action that [`Client::compact`](crate::Client::compact) and [`Collection::compact`](crate::Collection::compact) return.
/// [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let report = client.compact().max_time(Duration::from_secs(60)).run()?;
/// println!("{} bytes before, {} after", report.bytes_before, report.bytes_after);
/// # Ok(())
/// # }
/// ```
#[must_use = "tables are compacted by run()"]
pub struct Compaction<'a> {
    shared: &'a Shared,
    caller: &'a Caller,
    extent: Extent,
    max_time: Option<Duration>,
    progress: Option<Box<Callback<'a>>>,
}

/// The result of a compaction: the bytes of table files. As BSON or JSON the fields have the names of MongoDB's
/// style.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_many((0..1000).map(|id| doc! { "_id": id, "name": format!("person {id}") })).run()?;
/// people.delete_many(doc! { "_id": { "$gt": 0 } }).run()?;
/// let report = people.compact().run()?;
/// assert!(report.bytes_after < report.bytes_before);
/// assert_eq!(report.bytes_freed(), report.bytes_before - report.bytes_after);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactionReport {
    /// The bytes of table files before, once all that was in memory had been written to them. Of one collection it is
    /// an estimate.
    pub bytes_before: u64,
    /// The bytes of table files after. Of one collection it is an estimate.
    pub bytes_after: u64,
}

/// The progress of a compaction.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # client.database("app").collection::<Document>("people").insert_one(doc! { "name": "Ada" }).run()?;
/// let mut last = None;
/// client.compact().progress(|progress| last = Some(*progress)).run()?;
/// assert!(last.is_some_and(|progress| progress.done == progress.total));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionProgress {
    /// The number of bytes of table files that are done.
    pub done: u64,
    /// Their number when the compaction began.
    pub total: u64,
}

/// The extent of a compaction.
enum Extent {
    Everything,
    /// A collection and its indexes, or why its name is not allowed.
    Collection(Result<Namespace>),
}

impl<'a> Compaction<'a> {
    /// A compaction of everything.
    pub(crate) fn of_everything(shared: &'a Shared, caller: &'a Caller) -> Self {
        Self { shared, caller, extent: Extent::Everything, max_time: None, progress: None }
    }

    /// A compaction of a collection and its indexes.
    pub(crate) fn of_collection(
        shared: &'a Shared,
        caller: &'a Caller,
        namespace: Result<Namespace>,
    ) -> Self {
        Self { extent: Extent::Collection(namespace), ..Self::of_everything(shared, caller) }
    }

    /// The time limit of the call. When it is over the call fails with code 50 (`MaxTimeMSExpired`). What was compacted by then
    /// stays so.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.compact().max_time(std::time::Duration::from_secs(60)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// A function that receives the progress of the compaction: at its beginning, and after each part. It is called on the thread of
    /// [`run`](Self::run).
    ///
    /// The example of [`CompactionProgress`] keeps what was reported last.
    pub fn progress(self, tell: impl FnMut(&CompactionProgress) + Send + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Compacts, and returns what table files had before and have after.
    ///
    /// [`close`](crate::Client::close), the time limit and a [cancellation](crate::Client::with_cancellation) end it after the
    /// part that is under way: two table files, and what lies above them.
    ///
    /// Fails on a store that rejects writes, with code 26 if the collection does not exist, with code 166 if a view has the
    /// name, and with 14031 if the disk, or the quota of the folder, has no room for the new tables.
    pub fn run(self) -> Result<CompactionReport> {
        let Self { shared, caller, extent, max_time, mut progress } = self;
        let operation = shared.operation(caller, max_time);
        operation.look()?;
        // Held to the end, so that `close` waits for the part that is under way.
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let ranges = match extent {
            Extent::Everything => CompactedRange::everything(),
            Extent::Collection(namespace) => {
                let namespace = namespace?;
                let found = shared.catalog.find(&namespace);
                let state = found.ok_or_else(|| shared.catalog.absent(&namespace))?;
                ranges_of(&state)
            }
        };
        // Compactions do not meet deletions that are in memtables.
        shared.store.flush(&database)?;
        let look = || {
            operation.look()?;
            shared.store.refuse_closing()
        };
        let mut tell = |done, total| {
            if let Some(tell) = &mut progress {
                tell(&CompactionProgress { done, total });
            }
        };
        let compacted = compact(&database, &ranges, CompactionCalls { look: &look, tell: &mut tell })?;
        Ok(CompactionReport { bytes_before: compacted.before, bytes_after: compacted.after })
    }
}

impl CompactionReport {
    /// The number of bytes of table files that are free now. It is 0 if writes have added more than was freed.
    ///
    /// The example of [`CompactionReport`] compares it.
    pub fn bytes_freed(&self) -> u64 {
        self.bytes_before.saturating_sub(self.bytes_after)
    }
}

/// The keys of a collection's documents, of the entries of its indexes, and of its insertion order.
fn ranges_of(state: &CollectionState) -> Vec<CompactedRange> {
    let records = CompactedRange {
        family: Family::Records,
        first: state.id.prefix().to_vec(),
        last: Some(state.id.end()),
    };
    let indexes = state.indexes();
    // Without the index on `_id`, which is the order of the records and has no entries.
    let entries = indexes.iter().map(|index| CompactedRange {
        family: Family::Entries,
        first: index.id.prefix().to_vec(),
        last: Some(index.id.end()),
    });
    let order = state.order().map(|order| CompactedRange {
        family: Family::Entries,
        first: order.id.prefix().to_vec(),
        last: Some(order.id.end()),
    });
    std::iter::once(records).chain(entries).chain(order).collect()
}
