//! The acknowledgement of writes, and the compression of files.

use std::mem::discriminant;
use std::time::Duration;

use base::error::{Error, Result};
use query::code::Code;

/// The moment at which a write is acknowledged, that is, at which its call returns.
///
/// The default is as the client was opened: see [`Durability`].
///
/// ```
/// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let concern = WriteConcern::journaled();
/// people.insert_one(doc! { "name": "Ada" }).write_concern(concern).run()?;
/// // The write is on stable storage.
/// assert_eq!(client.durable_seq(), client.written_seq()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// The nodes that must acknowledge. There is one node, so only `Nodes(1)` and `Majority` are accepted.
    pub w: Option<Acknowledgment>,
    /// Accepted and without effect: there are no other nodes to wait for.
    pub w_timeout: Option<Duration>,
    /// With `true` the call returns when the write is on stable storage. With `false` it returns when the operating system
    /// has the write, and every write before it; it is then synced in the background. `None` means `true` if `w` is a majority, as in MongoDB;
    /// otherwise it means as the client was opened.
    pub journal: Option<bool>,
}

impl WriteConcern {
    /// A write is acknowledged when it is on stable storage. A power failure does not lose it.
    ///
    /// ```
    /// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).write_concern(WriteConcern::journaled()).run()?;
    /// assert_eq!(client.durable_seq(), client.written_seq()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn journaled() -> Self {
        Self { journal: Some(true), ..Self::default() }
    }

    /// A write is acknowledged when the operating system has it. The death of the process does not lose it. It is synced in
    /// the background, so a power failure soon afterwards can lose it.
    ///
    /// ```
    /// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).write_concern(WriteConcern::buffered()).run()?;
    /// client.sync()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffered() -> Self {
        Self { journal: Some(false), ..Self::default() }
    }

    /// A write is acknowledged when a majority of the nodes has it on stable storage. With one node this is the same as
    /// [`journaled`](Self::journaled).
    ///
    /// ```
    /// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).write_concern(WriteConcern::majority()).run()?;
    /// assert_eq!(client.durable_seq(), client.written_seq()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn majority() -> Self {
        Self { w: Some(Acknowledgment::Majority), ..Self::default() }
    }

    #[doc(hidden)]
    pub fn new(w: Option<Acknowledgment>, w_timeout: Option<Duration>, journal: Option<bool>) -> Self {
        Self { w, w_timeout, journal }
    }

    #[doc(hidden)]
    pub fn validate(&self) -> Result<()> {
        match &self.w {
            // One node is the majority of one, and never waits for others, so `w_timeout` has no effect.
            None | Some(Acknowledgment::Nodes(1) | Acknowledgment::Majority) => Ok(()),
            // MongoDB accepts 0 and sends no answer. A call within one process always has an answer.
            Some(Acknowledgment::Nodes(0)) => Err(Error::invalid_argument(
                "write concern w: 0 is not offered, because every write of an embedded store is acknowledged",
            )),
            // The messages are those of a MongoDB server without a replica set.
            Some(Acknowledgment::Nodes(_)) => {
                Err(Error::command(Code::BAD_VALUE, "cannot use 'w' > 1 when a host is not replicated"))
            }
            Some(Acknowledgment::Custom(tag)) => Err(Error::command(
                Code::BAD_VALUE,
                format!(
                    "cannot use non-majority 'w' mode \"{tag}\" when a host is not a member of a replica set"
                ),
            )),
        }
    }
}

/// The nodes that must acknowledge a write: the `w` of a [`WriteConcern`].
///
/// ```
/// # use cairndb::{Acknowledgment, Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let mut two = WriteConcern::default();
/// two.w = Some(Acknowledgment::Nodes(2));
/// let refused = people.insert_one(doc! { "name": "Ada" }).write_concern(two).run();
/// assert!(refused.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// A number of nodes.
    Nodes(u32),
    /// A majority of the nodes, which is the one node. The write is on stable storage, unless `journal` is `false`.
    Majority,
    /// A custom mode. It is rejected, because there are none.
    Custom(String),
}

/// The durability of writes without a [`WriteConcern`], set by [`ClientBuilder::durability`](struct.ClientBuilder.html#method.durability).
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, Durability};
/// # let folder = tempfile::tempdir()?;
/// let each_second = Durability::Buffered { sync_interval: Duration::from_secs(1) };
/// let client = Client::builder().durability(each_second).open(folder.path().join("db"))?;
/// # Ok::<(), cairndb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A call returns when the operating system has the write, so the death of the process does not lose it. A sync in the
    /// background follows within the interval, so a power failure can lose at most the writes of one interval.
    Buffered {
        /// The longest time until a write is synced: 1 ms to 1 s.
        sync_interval: Duration,
    },
    /// A call returns when its write is on stable storage.
    Journaled,
    /// A call returns when its write is in the memory of this process. A thread hands all writes to the operating system
    /// within one interval and syncs them within the other, so **the death of the process can lose the last writes**: at most
    /// those of one `write_interval`, and as long as the disk is held up. What is lost is an end: a write that is there has
    /// every earlier one before it. Closing the client, and dropping it, lose nothing.
    ///
    /// It is what other stores call delayed durability, and the fastest way to write one document after the other. A write with
    /// a [`WriteConcern`] that has a `journal` waits as long as that says, and for all writes before it.
    ///
    /// On a full disk, RocksDB gives up a log whose end it could not write. So such a client rejects writes from then on, until
    /// the folder is opened again; with the other levels writes succeed again once there is room.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Durability, WriteConcern, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let delayed = Durability::Delayed {
    ///     write_interval: Duration::from_millis(5),
    ///     sync_interval: Duration::from_millis(100),
    /// };
    /// let client = Client::builder().durability(delayed).open(&path)?;
    /// let clicks = client.database("shop").collection::<Document>("clicks");
    /// for page in 0..1000 {
    ///     clicks.insert_one(doc! { "page": page }).run()?;
    /// }
    /// // This one, and the clicks before it, survive the death of the process.
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.insert_one(doc! { "total": 12 }).write_concern(WriteConcern::buffered()).run()?;
    /// # Ok(())
    /// # }
    /// ```
    Delayed {
        /// The longest time until the operating system has a write: 1 ms to 1 s.
        write_interval: Duration,
        /// The longest time until a write is synced: 1 ms to 1 s.
        sync_interval: Duration,
    },
}

/// A fault planted on purpose, with which the test suites show that they detect it. Without the feature `planted-faults` none is equal to
/// any, so that the compiler leaves out all that they do.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum PlantedFault {
    /// No fault.
    #[default]
    None,
    /// RocksDB opens the folder without the preflight checks.
    PreflightOff,
    /// The witness is not updated.
    WitnessNotRaised,
    /// Journaled commits are acknowledged, and count as durable, before they are synced.
    CommitsNotSynced,
    /// A sync that other calls wait for is left out, and counts as done.
    MarkNotSynced,
    /// A sequence's reserve is not synced before its first value is handed out.
    ReserveNotSynced,
    /// The entries of indexes are written after their documents, in a batch of their own.
    EntriesApart,
    /// The entries of indexes are not written.
    EntriesLeftOut,
    /// An error of syncing the parent of a new folder is ignored, as if there had been no sync.
    FolderNotSynced,
    /// `verify` does not read the filters of tables.
    FiltersNotVerified,
    /// `salvage` ignores deletions.
    DeletionsNotSalvaged,
    /// Writes do not note the arrays of their documents in the indexes.
    ArraysNotNoted,
    /// Updates leave the entries of the old document.
    OldEntriesKept,
    /// Entries answer at paths with arrays, where they have single elements.
    ArraysCovered,
    /// Partial indexes are read for filters that do not imply theirs.
    PartialNotProven,
    /// A scan that reaches a document twice returns it twice.
    DuplicatesReturned,
    /// Updates read their document before they latch it.
    UpdatesReadEarly,
    /// The latches of unique keys are not acquired.
    UniqueNotLatched,
    /// Readers make their snapshot before they look up the indexes, and do not look again.
    SnapshotsTakenEarly,
    /// Scans of an index read their documents as they are now, and not as the snapshot has them.
    DocumentsReadLate,
    /// Deletes do not look again at their documents under the latch.
    DeletesNotChecked,
    /// A copy of a record is kept though a write began after the record was read.
    CopiesKeptLate,
    /// Copies of records are given to readers of every snapshot.
    StampsTooLow,
    /// Writers do not note the entries and records that they change, so that leaves in memory still have the old ones.
    LeavesNotNoted,
    /// Leaves in memory are used before all writers note what they change.
    LeavesUsedEarly,
    /// With delayed durability, buffered commits are acknowledged before the operating system has them.
    WritesNotHandedOver,
    /// Filters of given keys are made without a look at writes that were admitted before.
    FiltersStartEarly,
    /// Writes below the first live key that a scan has noted do not lower the note.
    LiveStartsNotLowered,
    /// Plain writers leave no notes for transactions.
    NotesLeftOut,
    /// The first transaction does not wait for writers that leave no notes yet.
    PassLeftOut,
    /// Transactions begin before the first one has waited for those.
    OnBeforePass,
    /// Transactions that are aborted keep their claims.
    ClaimsKept,
    /// Scans of indexes do not see what the transaction has staged.
    StagedMissedByScans,
    /// Scans do not see that while they go backwards.
    StagedMissedBackwards,
    /// Scans see what the transaction has removed.
    StagedDeletesShown,
    /// A transaction reads collections that were changed since it began.
    SinceNotCompared,
    /// A transaction's own plans do not know of the arrays that it has staged.
    ArraysAnnouncedLate,
    /// A commit of a transaction does not look at the notes.
    NotesNotAsked,
    /// Writers let their latches go before they leave their notes.
    NotesLeftLate,
    /// Writers ask whether notes are kept before they have their latches.
    NotingAskedEarly,
    /// Keys whose notes were forgotten count as not written.
    FloorsIgnored,
    /// The filters of given keys do not learn of keys that transactions commit.
    KeysNotAdmitted,
    /// A transaction is committed by two writes.
    CommittedApart,
    /// A transaction claims records and no unique keys.
    UniqueNotClaimed,
    /// The commit of a serializable transaction does not look at what it has read.
    SearchesNotChecked,
    /// The row of a token is written after the write that it is of, in a batch of its own.
    TokensApart,
    /// A commit with a token does not look again whether the token has a row by now.
    TokensNotLookedUp,
    /// A commit with a token does not enter it among the highest ones, which prove others absent.
    TokensNotEntered,
    /// With a new generation of tokens the last one is forgotten, and not the one before it.
    GenerationsDroppedEarly,
    /// Events are written after the write that they are of, in a batch of their own.
    EventsApart,
    /// Streams read on past writers that are still at work.
    HolesPassed,
    /// Streams show what is not on stable storage yet.
    EventsShownEarly,
    /// Streams read what a sync has made a round of, and nothing that is on stable storage since.
    RoundsOfSyncsAlone,
    /// Live queries do not show that documents leave their results.
    LeftForgotten,
    /// Updates get their position in the log of changes before they have their latches.
    PositionsTakenEarly,
    /// Streams look up the documents of updates in the newest state, and not in that of their round.
    DocumentsLookedUpLate,
    /// The positions of a later life of the store do not begin above the mark of the lives before.
    LogMarkIgnored,
    /// Switching the log of changes on does not wait for writers that are in a collection.
    CollectionsPassedBy,
    /// A transaction keeps the turn of a sequence for one statement only.
    TurnsLetGoEarly,
    /// A scan mistakes the place where RocksDB has passed many deleted keys for its end.
    CutTakenForEnd,
    /// Threads that share a write are informed of it before it is made.
    GroupsToldEarly,
    /// The digests of all long values in keys are the same.
    DigestsCollide,
}

impl PartialEq for PlantedFault {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        cfg!(any(test, feature = "planted-faults")) && discriminant(self) == discriminant(other)
    }
}

impl Durability {
    const INTERVAL_MIN: Duration = Duration::from_millis(1);
    const INTERVAL_MAX: Duration = Duration::from_secs(1);

    /// The interval in which writes are synced in the background.
    #[doc(hidden)]
    pub fn sync_interval(self) -> Duration {
        match self {
            Self::Buffered { sync_interval } | Self::Delayed { sync_interval, .. } => sync_interval,
            Self::Journaled => Self::INTERVAL_MAX,
        }
    }

    /// The interval in which the log's buffer is handed to the operating system. Returns `None` where each write does
    /// that.
    #[doc(hidden)]
    pub fn write_interval(self) -> Option<Duration> {
        match self {
            Self::Delayed { write_interval, .. } => Some(write_interval),
            Self::Buffered { .. } | Self::Journaled => None,
        }
    }

    /// Rejects intervals that are out of range.
    #[doc(hidden)]
    pub fn validate(self) -> Result<()> {
        let intervals =
            [("write_interval", self.write_interval()), ("sync_interval", Some(self.sync_interval()))];
        for (name, interval) in intervals {
            if let Some(interval) = interval
                && !(Self::INTERVAL_MIN..=Self::INTERVAL_MAX).contains(&interval)
            {
                return Err(Error::invalid_argument(format!(
                    "{name} of {interval:?} is not between 1 ms and 1 s"
                )));
            }
        }
        Ok(())
    }
}

impl Default for Durability {
    fn default() -> Self {
        // 100 ms is also the interval at which MongoDB syncs its journal by default.
        Self::Buffered { sync_interval: Duration::from_millis(100) }
    }
}

/// The compression of blocks of table files. It applies to files that are written from now on; older files stay
/// readable.
///
/// ```
/// # use cairndb::{Client, Compression};
/// # let folder = tempfile::tempdir()?;
/// let client = Client::builder().compression(Compression::Zstd).open(folder.path().join("db"))?;
/// client.close()?;
/// # Ok::<(), cairndb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4 on every level except the last, Zstandard on the last: fast writes, and small files for old data.
    #[default]
    Lz4ThenZstd,
    /// LZ4 on every level.
    Lz4,
    /// Zstandard on every level.
    Zstd,
}
