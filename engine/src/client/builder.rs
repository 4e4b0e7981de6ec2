//! `Client::open`, and the builder with the options by which a client is opened.

use std::path::Path;
use std::time::Duration;

#[cfg(doc)]
use base::error::ErrorKind;
use base::error::Result;
use store::SpillOptions;

use crate::client::handle::Client;
#[cfg(feature = "opentelemetry")]
use crate::metrics::spans::OpentelemetryOptions;
use crate::options::{Compression, Durability, PlantedFault};
use crate::transaction::registry::Limits;

/// The default memory budget in bytes.
const MEMORY_BUDGET: usize = 256 << 20;
/// Operations that need at least so long are logged by default, as in MongoDB.
const SLOW_THRESHOLD: Duration = Duration::from_millis(100);
/// The interval in which expired documents are deleted by default, as in MongoDB.
const TTL_INTERVAL: Duration = Duration::from_secs(60);

impl Client {
    /// Opens the database in the folder at `path`, with default options. A missing or empty folder becomes a new database.
    ///
    /// Fails with
    /// - [`ErrorKind::AlreadyOpen`] if another client, of this or another process, has the folder open,
    /// - [`ErrorKind::NotADatabase`] if the folder has files that are not CairnDB's,
    /// - [`ErrorKind::UnsupportedFormat`] if an incompatible version of CairnDB created the database,
    /// - [`ErrorKind::UnsupportedProcessor`] if the linked RocksDB uses instructions that this processor does not have,
    /// - [`ErrorKind::DamagedFile`] or [`ErrorKind::DataLoss`] if files are damaged, or synced writes are missing.
    ///
    /// A folder that cannot be opened is left as it is.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::open(&path)?;
    /// // A folder is open once at a time.
    /// assert!(Client::open(&path).is_err_and(|error| error.is_already_open()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Makes a database in memory, with default options. Nothing of it reaches a disk, and it is gone once it is closed. For
    /// tests: each can have its own, in a few milliseconds. See [`ClientBuilder::in_memory`].
    ///
    /// Fails with [`ErrorKind::UnsupportedProcessor`] if the linked RocksDB uses instructions that this processor does not
    /// have.
    ///
    /// A recipe: [a database for each test](crate::guide::recipes#a-database-for-each-test).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::in_memory()?;
    /// let people = client.database("app").collection("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    ///
    /// // Another one knows nothing of it.
    /// let people = Client::in_memory()?.database("app").collection::<Document>("people");
    /// assert_eq!(people.count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_memory() -> Result<Self> {
        Self::builder().in_memory(true).open("")
    }

    /// Starts a builder, to open a database with other than the default options.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().memory_budget(64 << 20).open(&path)?;
    /// assert!(!client.is_read_only());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

/// The layout of the 12 bytes of generated `ObjectId`s.
///
/// ```
/// # use cairndb::{Client, ObjectIdLayout, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// let client = Client::builder().object_id_layout(ObjectIdLayout::Random).open(&path)?;
/// let people = client.database("app").collection::<Document>("people");
/// let inserted = people.insert_one(doc! { "name": "Ada" }).run()?;
/// assert!(inserted.inserted_id.as_object_id().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectIdLayout {
    /// Timestamp, 3 bytes for the machine, 2 bytes for the process, counter.
    #[default]
    MachineProcess,
    /// Timestamp, 5 random bytes, counter: the layout of MongoDB's current drivers.
    Random,
}

/// Builds a [`Client`]: options, and then [`open`](Self::open).
///
/// ```
/// use std::time::Duration;
/// use cairndb::{Client, Compression, Durability};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// let client = Client::builder()
///     .memory_budget(64 << 20)
///     .durability(Durability::Journaled)
///     .compression(Compression::Zstd)
///     .open(&path)?;
/// client.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ClientBuilder {
    pub(super) memory_budget: usize,
    pub(super) record_cache: Option<usize>,
    pub(super) durability: Durability,
    pub(super) compression: Compression,
    pub(super) index_build_memory: Option<usize>,
    pub(super) spilling: SpillOptions,
    pub(super) disk_quota: Option<u64>,
    pub(super) read_only: bool,
    pub(super) read_only_if_full: bool,
    pub(super) upgrade: bool,
    pub(super) in_memory: bool,
    pub(super) create_if_missing: bool,
    pub(super) object_id_layout: ObjectIdLayout,
    pub(super) witness: bool,
    pub(super) ttl_interval: Option<Duration>,
    pub(super) transactions: Limits,
    pub(super) scrub: Option<u64>,
    pub(super) metrics: bool,
    pub(super) slow_threshold: Option<Duration>,
    #[cfg(feature = "opentelemetry")]
    pub(super) tracing: OpentelemetryOptions,
    pub(super) fault: PlantedFault,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            memory_budget: MEMORY_BUDGET,
            record_cache: None,
            durability: Durability::default(),
            compression: Compression::default(),
            index_build_memory: None,
            spilling: SpillOptions::default(),
            disk_quota: None,
            read_only: false,
            read_only_if_full: false,
            upgrade: true,
            in_memory: false,
            create_if_missing: true,
            object_id_layout: ObjectIdLayout::default(),
            witness: true,
            ttl_interval: Some(TTL_INTERVAL),
            transactions: Limits::default(),
            scrub: None,
            metrics: true,
            slow_threshold: Some(SLOW_THRESHOLD),
            #[cfg(feature = "opentelemetry")]
            tracing: OpentelemetryOptions::default(),
            fault: PlantedFault::None,
        }
    }
}

impl ClientBuilder {
    /// The memory in bytes for blocks of files, with their indexes and filters, for memtables (writes that are not in files
    /// yet), for copies of documents and of entries of indexes that are read often, and for filters that describe new `_id`s and unique values
    /// that no document has them, where they come in no order. Memtables need at most half of it, documents five sixteenths (less while memtables and filters need theirs), entries a sixteenth, and
    /// filters an eighth: with the default that is enough for about 15 million of them. The default is 256 MiB; the limits are 8 MiB and 1 TiB.
    ///
    /// A process needs more than this: for its program, the documents of running calls, sorts and pipeline stages (up to
    /// 100 MiB each), the buffers of flushes and compactions, and the allocator. With one thread that writes and scans this
    /// is about 30 MiB with the smallest budget and 60 MiB with the default, without sorts. Each thread that writes large
    /// batches adds a few times the size of its batch.
    ///
    /// After a disk was full, writes succeed again once a quarter of the budget (at least 1 MiB, at most 64 MiB) is free:
    /// the size of one memtable. So use a small budget on a small volume.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().memory_budget(16 << 20).open(&path)?;
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Sets the limit of the folder on the disk, in bytes. The default is `None`: as many as the disk has.
    ///
    /// Everything in the folder counts: documents, indexes, logs, what compactions and index builds use while they run, and
    /// what an open cursor keeps from being removed. A write that might exceed the quota fails as on a full disk, with
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), before anything is written. Reads go on, and deletes and drops do too;
    /// what they free is usable once it is compacted away, which a write waits for, for up to ten seconds. As long as an open
    /// cursor keeps what they deleted, deletes have only what is kept free for them and for compactions: about a tenth of
    /// the quota, and more of a small one.
    ///
    /// A folder that has more already opens, and is as one that is full. The memtables are at most a 384th of the quota,
    /// so a small quota makes writes slower. Readers ([`read_only`](Self::read_only)) ignore it.
    ///
    /// [`open`](Self::open) fails if the quota is below 32 MiB.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().disk_quota(1 << 30).open(&path)?;
    /// let people = client.database("app").collection::<Document>("people");
    /// match people.insert_one(doc! { "name": "Ada" }).run() {
    ///     Err(error) if error.is_no_space() => {
    ///         people.delete_many(doc! { "left": true }).run()?;
    ///     }
    ///     inserted => drop(inserted?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn disk_quota(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.disk_quota = bytes.into();
        self
    }

    /// The durability of writes without a [write concern](crate::WriteConcern). The default is
    /// [`Durability::Buffered`] with a sync every 100 ms.
    ///
    /// [`open`](Self::open) fails if an interval is not between 1 ms and 1 s.
    ///
    /// ```
    /// # use cairndb::{Client, Durability, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().durability(Durability::Journaled).open(&path)?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// // Each write returns after its sync.
    /// assert_eq!(client.durable_seq(), client.written_seq()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The compression of table files. It applies to files that are written from now on; older files stay readable.
    ///
    /// ```
    /// # use cairndb::{Client, Compression};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// Client::builder().compression(Compression::Zstd).open(&path)?.close()?;
    /// // The next open can choose another one.
    /// Client::builder().compression(Compression::None).open(&path)?.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// The memory in bytes in which an index build sorts its keys. It is not part of the memory budget, and each build that
    /// runs uses it. Keys that do not fit are sorted in files in the folder of the database. The default is a quarter of the
    /// memory budget, and at most 64 MiB; the least is 1 MiB. Small collections need less.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().index_build_memory(200 << 20).open(&path)?;
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn index_build_memory(mut self, bytes: usize) -> Self {
        self.index_build_memory = Some(bytes);
        self
    }

    /// The memory in bytes that a sort may use, and each stage of a pipeline that holds documents. It is not part of the memory
    /// budget. The default, and the most that has an effect, is 100 MiB; the least is 64 KiB.
    ///
    /// Sorts, groups and joins that need more go on in temporary files, up to [`temporary_space`](Self::temporary_space). Other stages
    /// fail with code 292 (`QueryExceededMemoryLimitNoDiskUseAllowed`), and all do with `allow_disk_use(false)`.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// Client::builder().stage_memory(16 << 20).open(&path)?.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stage_memory(mut self, bytes: usize) -> Self {
        self.spilling.stage_memory = bytes;
        self
    }

    /// Sets the limit of the temporary files of all sorts, groups and joins together, in bytes. The default is 10 GiB. One that
    /// needs more fails as on a full disk, with code 14031 (`OutOfDiskSpace`); with 0 there are none, and it fails with code 292.
    ///
    /// The files lie in the database's folder `CAIRNDB.spill`, count for [`disk_quota`](Self::disk_quota), and are gone when the
    /// operation ends or its cursor is dropped; on Unix they have no names, and are gone as well when the process dies. Those of
    /// a client that is open for reading lie in the system's folder for temporary files (`std::env::temp_dir`), for their
    /// owner only. A database in memory has none.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// Client::builder().temporary_space(1 << 30).open(&path)?.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn temporary_space(mut self, bytes: u64) -> Self {
        self.spilling.space = bytes;
        self
    }

    /// With `true`, the database is made in memory. It has everything that one in a folder has: indexes, sequences, cursors,
    /// `verify`, and `backup` into a real folder. But nothing of it reaches a disk, and it is gone once the client is closed
    /// and its last cursor dropped. Any number can be open in one process.
    ///
    /// The path that is given to [`open`](Self::open) is a name then, for messages; no folder of that name is made or looked
    /// at. [`Client::in_memory`] does without one.
    ///
    /// Durability is accepted and means less: a journaled write, or [`sync`](Client::sync), returns at once, because nothing
    /// outlives the process. [`memory_budget`](Self::memory_budget) is what the database uses beside its files, which are
    /// in memory too, compressed as they would be on a disk. An index build sorts all its keys in memory, whatever
    /// [`index_build_memory`](Self::index_build_memory) says.
    ///
    /// `read_only`, `create_if_missing(false)` and `scrub` are rejected with it.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::builder().memory_budget(16 << 20).in_memory(true).open("orders of a test")?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.insert_one(doc! { "item": "lamp" }).run()?;
    /// assert!(!std::path::Path::new("orders of a test").exists());
    ///
    /// // What is to stay is copied to a folder.
    /// # let folder = tempfile::tempdir()?;
    /// client.backup(folder.path().join("copy"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_memory(mut self, in_memory: bool) -> Self {
        self.in_memory = in_memory;
        self
    }

    /// With `true`, the folder is opened for reading only. This needs no lock, so a folder can be read while another client
    /// writes to it. Reads see the state at the time of opening.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let writer = Client::open(&path)?;
    /// let people = writer.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// let reader = Client::builder().read_only(true).open(&path)?;
    /// let people = reader.database("app").collection::<Document>("people");
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    /// assert!(people.insert_one(doc! { "name": "Grace" }).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// With `true`, a folder whose disk is too full to open it for writing is opened for reading only, and
    /// [`is_read_only`](Client::is_read_only) says which it was. Writes are rejected as with [`read_only`](Self::read_only) until
    /// the folder is opened again. The default is `false`: opening fails with [`ErrorKind::NoSpace`]. A disk that gets full
    /// while a folder is open needs no such option: reads go on, and writes do once there is room.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().read_only_if_full(true).open(&path)?;
    /// assert!(!client.is_read_only());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only_if_full(mut self, read_only_if_full: bool) -> Self {
        self.read_only_if_full = read_only_if_full;
        self
    }

    /// Whether a missing or empty folder becomes a new database. The default is `true`.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let missing = Client::builder().create_if_missing(false).open(&path);
    /// assert!(missing.is_err());
    /// assert!(!path.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// The layout of the `ObjectId`s that the engine generates.
    ///
    /// ```
    /// # use cairndb::{Client, ObjectIdLayout};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().object_id_layout(ObjectIdLayout::Random).open(&path)?;
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn object_id_layout(mut self, layout: ObjectIdLayout) -> Self {
        self.object_id_layout = layout;
        self
    }

    /// Whether the witness is written and checked. The default is `true`. The witness is a small file that says which writes
    /// are on stable storage; it is written once a second. With it, opening detects files that went back to an earlier
    /// state, such as a log that ends too early or an old MANIFEST.
    ///
    /// With `false` such a loss is not detected, and a warning is logged. Use it once to open a database that has lost
    /// writes, or its witness: what is left is then accepted as complete. Damage inside of files is rejected in any case.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().witness(false).open(&path)?;
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn witness(mut self, witness: bool) -> Self {
        self.witness = witness;
        self
    }

    /// Sets the interval in which a thread of the client deletes documents that have expired by a TTL index. The default is 60
    /// seconds. With `None` no thread does, and documents stay until [`expire_documents`](Client::expire_documents) is called.
    ///
    /// The thread runs from when the first TTL index is there until the client is closed. It logs its errors.
    /// [`open`](Self::open) fails if the interval is 0.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().ttl_interval(Duration::from_secs(5)).open(&path)?;
    /// client.close()?;
    /// let client = Client::builder().ttl_interval(None).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.ttl_interval = interval.into();
        self
    }

    /// Sets the time that a transaction may last from its first statement on, by default 60 seconds. Then it is aborted.
    ///
    /// [`open`](Self::open) fails if it is less than a second or more than a day.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().transaction_lifetime(Duration::from_secs(5)).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction_lifetime(mut self, lifetime: Duration) -> Self {
        self.transactions.lifetime = lifetime;
        self
    }

    /// Sets the time for which tokens of [`exactly_once`](crate::Collection::insert_one) are remembered, at least.
    /// They are forgotten together, so one is remembered up to twice as long. The default is 24 hours.
    ///
    /// [`open`](Self::open) fails if it is less than a minute or more than 366 days.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let week = Duration::from_secs(7 * 86_400);
    /// let client = Client::builder().token_retention(week).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn token_retention(mut self, retention: Duration) -> Self {
        self.transactions.tokens.retention = retention;
        self
    }

    /// Sets the limit of the remembered tokens, with the results of their calls, in bytes. Beyond that a call with a
    /// new token fails with code 146 (`ExceededMemoryLimit`): none is forgotten early. The default is 1 GiB.
    ///
    /// [`open`](Self::open) fails if it is less than 64 KiB.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().token_bytes_max(64 << 20).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn token_bytes_max(mut self, bytes: u64) -> Self {
        self.transactions.tokens.bytes_max = bytes;
        self
    }

    /// Sets the time for which the log of changes keeps events, by default 24 hours. A slower stream fails with code 286.
    ///
    /// [`open`](Self::open) fails if it is less than a minute or more than 366 days.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let week = Duration::from_secs(7 * 86_400);
    /// let client = Client::builder().change_log_age_max(week).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log_age_max(mut self, age: Duration) -> Self {
        self.transactions.log.age = age;
        self
    }

    /// Sets the limit of the log of changes, about, in bytes. Beyond that the oldest events are forgotten, four times a second:
    /// a stream that has not read them fails with code 286, and no writer waits for one. The default is 1 GiB; it is never more
    /// than an eighth of a [`disk_quota`](Self::disk_quota), or of the memory budget of a store in memory. While the quota has no
    /// room for a write, half of it is kept.
    ///
    /// [`open`](Self::open) fails if it is less than 64 KiB.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().change_log_bytes_max(64 << 20).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log_bytes_max(mut self, bytes: u64) -> Self {
        self.transactions.log.bytes = bytes;
        self
    }

    /// Sets the rate in bytes a second at which a thread of the client reads the database's files to find damage, or
    /// `None`, the default: no thread does. Give it a small part of what the disk can read.
    ///
    /// The scrub reads the checksum of every block and record, as [`verify`](Client::verify) does for files, from when the
    /// client is opened, and again an hour after it has come to the end. What it finds is in the log (`tracing`, as an error)
    /// and in [`scrub_status`](Client::scrub_status); `verify` finds it too. It ends with the client.
    ///
    /// [`open`](Self::open) fails if the rate is 0.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().scrub(4 << 20).open(&path)?;
    /// assert!(client.scrub_status().findings.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scrub(mut self, bytes_per_second: impl Into<Option<u64>>) -> Self {
        self.scrub = bytes_per_second.into();
        self
    }

    /// Whether operations are counted and timed for [`Client::metrics`]. The default is `true`; it costs less than a hundredth
    /// of an insert.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::builder().metrics(false).in_memory(true).open("")?;
    /// client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let metrics = client.metrics()?;
    /// assert!(metrics.operations.is_empty());
    /// assert!(metrics.storage.memtable_bytes > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(mut self, metrics: bool) -> Self {
        self.metrics = metrics;
        self
    }

    /// Operations that need at least so long are logged (`tracing`, as a warning with the target `cairndb::slow`): the verb, the
    /// collection, how long it lasted, which plans its searches followed, what they read, and the shape of the request. A shape has
    /// the names of fields and operators, and `?` for each value. The default is 100 ms; `None` logs none.
    ///
    /// A cursor is logged once it is at its end or dropped, with the time of its own work.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::builder().slow_threshold(Duration::from_secs(1)).in_memory(true).open("")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn slow_threshold(mut self, threshold: impl Into<Option<Duration>>) -> Self {
        self.slow_threshold = threshold.into();
        self
    }

    /// Makes a span of `OpenTelemetry` of each call. There are none by default. Of a cursor, the call that opens it is one.
    ///
    /// It needs the feature `opentelemetry`. See [`OpentelemetryOptions`] for what spans have.
    ///
    /// ```
    /// # use cairndb::{Client, OpentelemetryOptions};
    /// # fn main() -> cairndb::Result<()> {
    /// let mut tracing = OpentelemetryOptions::default();
    /// tracing.enabled = Some(true);
    /// let client = Client::builder().tracing(tracing).in_memory(true).open("")?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "opentelemetry")]
    pub fn tracing(mut self, tracing: OpentelemetryOptions) -> Self {
        self.tracing = tracing;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a client of these options logs an operation of so many nanoseconds.
    fn is_slow(builder: ClientBuilder, nanoseconds: u64) -> bool {
        let client = builder.in_memory(true).open("").expect("made");
        client.shared.recorder.is_slow(nanoseconds)
    }

    #[test]
    fn operations_of_a_tenth_of_a_second_are_slow_unless_told_otherwise() {
        assert!(!is_slow(Client::builder(), 99_999_999));
        assert!(is_slow(Client::builder(), 100_000_000));
        let short = Client::builder().slow_threshold(Duration::from_millis(1));
        assert!(!is_slow(short.clone(), 999_999) && is_slow(short, 1_000_000));
        assert!(!is_slow(Client::builder().slow_threshold(None), u64::MAX));
    }
}
