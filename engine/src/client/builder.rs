//! Opening a client: `Client::open`, and the builder with its options.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sequence::object_id::Layout;

use crate::client::handle::Client;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::options::{Compression, Durability, PlantedFault};
use crate::shared::{Caller, Shared};
use crate::storage::{OpenMode, StoreOptions};

/// The default memory budget in bytes.
const MEMORY_BUDGET: usize = 256 << 20;

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

/// How the 12 bytes of the `ObjectId`s that the engine generates are used.
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
pub struct ClientBuilder {
    memory_budget: usize,
    durability: Durability,
    compression: Compression,
    read_only: bool,
    create_if_missing: bool,
    object_id_layout: ObjectIdLayout,
    witness: bool,
    fault: PlantedFault,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            memory_budget: MEMORY_BUDGET,
            durability: Durability::default(),
            compression: Compression::default(),
            read_only: false,
            create_if_missing: true,
            object_id_layout: ObjectIdLayout::default(),
            witness: true,
            fault: PlantedFault::None,
        }
    }
}

impl ClientBuilder {
    /// The memory in bytes for blocks of files, with their indexes and filters, and for memtables: writes that are not in
    /// files yet. Memtables take at most half of it. The default is 256 MiB; the limits are 8 MiB and 1 TiB.
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

    /// The durability of writes without a [write concern](crate::WriteConcern). The default is
    /// [`Durability::Buffered`] with a sync every 100 ms.
    ///
    /// [`open`](Self::open) fails if the sync interval is not between 1 ms and 1 s.
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
    /// writes, or its witness: what is left is then taken as complete. Damage inside of files is refused in any case.
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

    /// Plants a fault on purpose, to show that the test suites detect it.
    #[doc(hidden)]
    pub fn planted_fault(mut self, fault: PlantedFault) -> Self {
        self.fault = fault;
        self
    }

    /// Opens the database in the folder at `path`. It fails as [`Client::open`] does, and if an option is out of range.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().create_if_missing(true).open(&path)?;
    /// assert!(path.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(self, path: impl AsRef<Path>) -> Result<Client> {
        // Options are checked before the folder is touched.
        if let Durability::Buffered { sync_interval } = self.durability
            && (sync_interval < Duration::from_millis(1) || sync_interval > Durability::SYNC_INTERVAL_MAX)
        {
            return Err(Error::invalid_argument(format!(
                "sync_interval of {sync_interval:?} is not between 1 ms and 1 s"
            )));
        }
        let path: PathBuf = path.as_ref().to_owned();
        // Joined with the names of files, an empty path would stand for the current folder.
        if path.as_os_str().is_empty() {
            return Err(Error::invalid_argument("the path of the database is empty"));
        }
        // Reading only never creates a database, whatever `create_if_missing` says.
        let mode = match (self.read_only, self.create_if_missing) {
            (true, _) => OpenMode::ReadOnly,
            (false, true) => OpenMode::CreateIfMissing,
            (false, false) => OpenMode::MustExist,
        };
        let options = StoreOptions {
            path,
            mode,
            memory_budget: self.memory_budget,
            compression: self.compression,
            durability: self.durability,
            witness: self.witness,
            fault: self.fault,
        };
        let layout = match self.object_id_layout {
            ObjectIdLayout::MachineProcess => Layout::MachineProcess,
            ObjectIdLayout::Random => Layout::Random,
        };
        Ok(Client { shared: Arc::new(Shared::open(options, layout)?), caller: Caller::default() })
    }
}
