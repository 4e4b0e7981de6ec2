//! `Client`: an open database folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use query::operation::CancellationToken;
use sequence::object_id::Layout;

use crate::audit;
use crate::collection::{BulkWrite, Collection, whole};
use crate::database::Database;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::namespace::SystemCollection;
use crate::options::{Compression, Durability, PlantedFault, WriteModel};
use crate::results::{
    BackupReport, DatabaseSpecification, RecoveryReport, SummaryBulkWriteResult, VerifyReport,
};
use crate::shared::{Caller, Shared};
use crate::storage::{OpenMode, Store, StoreOptions};

/// Block cache and memtables together, when nothing else is asked for.
const MEMORY_BUDGET: usize = 256 << 20;

/// An open database folder. Handles are cheap to clone; the folder is closed with [`close`](Client::close), or
/// when the last handle is dropped.
///
/// ```
/// use cairndb::{Client, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop");
/// let client = Client::open(&path)?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let id = orders.insert_one(doc! { "item": "lamp", "price": 20 }).run()?.inserted_id;
/// client.close()?;
///
/// let client = Client::open(&path)?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let order = orders.find_one(doc! { "_id": id }).run()?.expect("stored above");
/// assert_eq!(order.get("item"), Some(&"lamp".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    caller: Caller,
}

impl Client {
    /// Opens the database in the folder at `path` with default options. An absent or empty folder becomes one.
    ///
    /// Fails with [`ErrorKind::AlreadyOpen`] if another client has it open, with [`ErrorKind::NotADatabase`] if
    /// the folder holds anything that CairnDB did not make, with [`ErrorKind::UnsupportedFormat`] if another
    /// version made it, and with [`ErrorKind::UnsupportedProcessor`] if the linked RocksDB uses instructions that this
    /// processor lacks. Nothing is ever deleted or made anew.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Starts an opening with options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A handle to a database, which need not have a collection yet.
    pub fn database(&self, name: &str) -> Database {
        Database::new(Arc::clone(&self.shared), self.caller.clone(), name)
    }

    /// A collection that a server keeps for itself, and that nothing else reaches.
    ///
    /// ```
    /// # use cairndb::{Client, SystemCollection, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let users = client.system_collection::<Document>(SystemCollection::Users);
    /// users.insert_one(doc! { "_id": "admin.ada" }).run()?;
    /// let by_name = client.database("admin").collection::<Document>("system.users");
    /// assert!(by_name.find_one(doc! {}).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn system_collection<T>(&self, system: SystemCollection) -> Collection<T> {
        Collection::of_system(Arc::clone(&self.shared), system)
    }

    /// Does many writes to any number of collections, one after the other. It is no transaction: each write is done by
    /// itself.
    ///
    /// ```
    /// # use cairndb::{Client, DeleteOneModel, InsertOneModel, Namespace, WriteModel, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let books = Namespace::new("library", "books");
    /// let writes: [WriteModel; 2] = [
    ///     InsertOneModel::builder().namespace(books.clone()).document(doc! { "_id": 1 }).build().into(),
    ///     DeleteOneModel::builder().namespace(books).filter(doc! { "_id": 1 }).build().into(),
    /// ];
    /// let result = client.bulk_write(writes).run()?;
    /// assert_eq!((result.inserted_count, result.deleted_count), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        BulkWrite::new((&self.shared, self.caller.clone()), models, None)
    }

    /// A handle to the same database folder with blocks of sequences of its own: what is taken through it, and through
    /// all handles made from it, comes from its own blocks of `AcquireSize` values.
    ///
    /// Otherwise all threads draw from the same blocks, so values follow the order in which they are asked for. Dropping
    /// the last handle gives back what nobody took, where it can still be handed out; the rest is listed as lost.
    pub fn acquirer(&self) -> Self {
        let caller = Caller { acquirer: Some(Arc::default()), ..self.caller.clone() };
        Self { shared: Arc::clone(&self.shared), caller }
    }

    /// A handle to the same store whose operations `token` ends: those of this handle and of all databases,
    /// collections and cursors that come from it. From the moment that another thread calls
    /// [`cancel`](CancellationToken::cancel), what runs fails with code 11601 within a short time, wherever it is, and
    /// so does what begins later. What was committed before stays: an `update_many` keeps the documents that it has
    /// changed.
    ///
    /// ```
    /// # use cairndb::{CancellationToken, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let token = CancellationToken::new();
    /// let people = client.with_cancellation(&token).database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// // A user closes the window while another thread counts.
    /// std::thread::spawn(move || token.cancel()).join().unwrap();
    /// let refused = people.count_documents(doc! { "name": "Ada" }).run().unwrap_err();
    /// assert_eq!(refused.code(), Some(11_601));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        Self { shared: Arc::clone(&self.shared), caller: self.caller.with_cancellation(token) }
    }

    /// The names of databases that have a collection, ascending.
    pub fn list_database_names(&self) -> ListDatabaseNames<'_> {
        ListDatabaseNames { client: self }
    }

    /// The databases that have a collection, ascending by name, with their sizes.
    pub fn list_databases(&self) -> ListDatabases<'_> {
        ListDatabases { client: self }
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.shared.options.mode.is_read_only()
    }

    /// Proves on one snapshot that everything stored agrees: records with keys, documents with index entries in
    /// both directions, counters with documents. Writing goes on meanwhile.
    ///
    /// Disagreements are in the report; an `Err` means that the storage could not be read.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # client.database("app").collection::<Document>("people").insert_one(doc! { "name": "Ada" }).run()?;
    /// let report = client.verify()?;
    /// assert!(report.is_clean());
    /// assert_eq!(report.documents, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self) -> Result<VerifyReport> {
        let database = self.shared.store.enter()?;
        audit::verify(&self.shared, &database)
    }

    /// Makes a copy of the database as it is now in the absent folder `path`, and verifies the copy. The folder must not
    /// lie in the database's own.
    ///
    /// Table files are hard links where the file system allows. Only their owner can read the copy, and the links' first
    /// names with it. A copy that does not pass is an error and is
    /// left for inspection, without the marker that would let it be opened.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackupReport> {
        let path = path.as_ref();
        if path.exists() {
            return Err(Error::invalid_argument(format!(
                "the backup folder {} exists already",
                path.display()
            )));
        }
        if lies_within(path, &self.shared.options.path) {
            return Err(Error::invalid_argument(format!(
                "the backup folder {} lies in the database, and would go with it",
                path.display()
            )));
        }
        let database = self.shared.store.enter()?;
        if !self.shared.options.mode.is_read_only() {
            self.shared.store.sync(&database)?;
        }
        Store::checkpoint(&database, path)?;
        drop(database);
        let verified = self.verify_copy(path)?;
        if let Some(first) = verified.findings.first() {
            return Err(Error::corruption(
                "backup",
                &[],
                format!("the copy does not verify: {}", first.problem),
            ));
        }
        Store::publish_copy(&*self.shared.store.enter()?, path)?;
        Ok(BackupReport { path: path.to_owned(), bytes: folder_bytes(path)?, verified })
    }

    fn verify_copy(&self, path: &Path) -> Result<VerifyReport> {
        let options = StoreOptions {
            path: path.to_owned(),
            mode: OpenMode::ReadOnlyCopy,
            ..self.shared.options.clone()
        };
        let copy = Shared::open(options, Layout::MachineProcess)?;
        let database = copy.store.enter()?;
        audit::verify(&copy, &database)
    }

    /// What opening found at the end of the logs: how much was replayed, and what a crash had cut short.
    ///
    /// What was left out had not been synced. If more than that is missing, or anything else is damaged, opening fails.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = cairndb::Client::open(folder.path().join("db"))?;
    /// for torn in &client.recovery_report().torn {
    ///     println!("{}: {} bytes left out, {}", torn.file.display(), torn.bytes, torn.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery_report(&self) -> &RecoveryReport {
        self.shared.store.recovery_report()
    }

    /// The newest write, by number. Compare with [`durable_seq`](Self::durable_seq).
    pub fn written_seq(&self) -> Result<u64> {
        Ok(self.shared.store.enter()?.latest_sequence())
    }

    /// Every write up to this number is on stable storage.
    pub fn durable_seq(&self) -> u64 {
        self.shared.store.durable_sequence()
    }

    /// A ticket for everything written so far: one thread can write on, and wait for it later.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let ticket = client.durability_ticket()?;
    /// people.insert_one(doc! { "name": "Grace" }).run()?;
    /// ticket.wait()?;
    /// assert!(ticket.is_durable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability_ticket(&self) -> Result<DurabilityTicket> {
        Ok(DurabilityTicket { shared: Arc::clone(&self.shared), sequence: self.written_seq()? })
    }

    /// Returns once everything written so far is on stable storage.
    pub fn sync(&self) -> Result<()> {
        let database = self.shared.store.enter()?;
        self.shared.store.sync(&database)
    }

    /// Writes what is in memory to table files. Only of use before copying files or measuring.
    pub fn flush(&self) -> Result<()> {
        let database = self.shared.store.enter()?;
        self.shared.store.flush(&database)
    }

    /// Waits for running operations, syncs everything and closes the folder; every handle fails from then on.
    ///
    /// An error says that the last writes may not be on stable storage, or that cursors still keep the folder
    /// open ([`ErrorKind::CursorsOpen`]).
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("path", &self.shared.options.path).finish_non_exhaustive()
    }
}

/// A `list_database_names` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListDatabaseNames<'a> {
    client: &'a Client,
}

impl ListDatabaseNames<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        whole::names(&self.client.shared)
    }
}

/// A `list_databases` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListDatabases<'a> {
    client: &'a Client,
}

impl ListDatabases<'_> {
    /// Reads names and sizes.
    pub fn run(self) -> Result<Vec<DatabaseSpecification>> {
        let shared = &self.client.shared;
        let specification = |name: String| {
            let size_on_disk = whole::stored_bytes(shared, &name)?;
            Ok(DatabaseSpecification { name, size_on_disk, empty: false })
        };
        whole::names(shared)?.into_iter().map(specification).collect()
    }
}

/// Everything that was written when it was taken.
#[derive(Clone)]
pub struct DurabilityTicket {
    shared: Arc<Shared>,
    sequence: u64,
}

impl DurabilityTicket {
    /// Whether all of it is on stable storage.
    pub fn is_durable(&self) -> bool {
        self.shared.store.durable_sequence() >= self.sequence
    }

    /// Returns once all of it is on stable storage. Threads that wait share one sync.
    pub fn wait(&self) -> Result<()> {
        if self.is_durable() {
            return Ok(());
        }
        let database = self.shared.store.enter()?;
        self.shared.store.sync(&database)
    }
}

impl std::fmt::Debug for DurabilityTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurabilityTicket").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// The generator's layout of made `ObjectId`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectIdLayout {
    /// Timestamp, 3 bytes of the machine, 2 bytes of the process, counter.
    #[default]
    MachineProcess,
    /// Timestamp, 5 random bytes, counter: as MongoDB's drivers make them today.
    Random,
}

/// Options of opening.
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
    /// Bytes for what is kept of the store in memory: blocks of its files with their indexes and filters, and writes that
    /// are not yet in files (memtables), which may take half of it. 256 MiB by default, 8 MiB at least,
    /// 1 TiB at most.
    ///
    /// A process needs more: its program, the documents of calls under way, sorts and stages (up to 100 MiB each),
    /// buffers of flushes and compactions, and what the allocator holds back. Under one thread of writes and scans
    /// that is some 30 MiB with the least budget and some 60 MiB with the default, before sorts; each thread that writes
    /// large batches adds a few times its batch.
    ///
    /// A quarter of the budget, at least 1 and at most 64 MiB, is also the free space that a disk which ran full must
    /// have again before writes go on: the size of one memtable. So on a small volume the budget must be small.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// The durability of writes without a write concern of their own; buffered by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The compression of files written from now on.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Open for reading only: needs no lock, may be done beside a writer, shows the state of the moment.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether an absent or empty folder becomes a database; it does by default.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// The layout of `ObjectId`s that the engine makes.
    pub fn object_id_layout(mut self, layout: ObjectIdLayout) -> Self {
        self.object_id_layout = layout;
        self
    }

    /// Whether a witness is kept and asked, which it is by default: a small file that says how far writes are on stable
    /// storage, written once a second. With it, opening notices files that went back to an earlier state: a log that ends
    /// early, an old MANIFEST.
    ///
    /// Without it such a loss goes unnoticed, and opening warns so in the log. That is also how to open a database that lost
    /// writes for good, or its witness, once: what is left is then taken for all there is. Damage that shows in the files
    /// themselves is refused all the same.
    ///
    /// ```
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = cairndb::Client::builder().witness(false).open(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn witness(mut self, witness: bool) -> Self {
        self.witness = witness;
        self
    }

    /// Leaves out a duty, to show that the suites notice.
    #[doc(hidden)]
    pub fn planted_fault(mut self, fault: PlantedFault) -> Self {
        self.fault = fault;
        self
    }

    /// Opens the folder.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Client> {
        if let Durability::Buffered { sync_interval } = self.durability
            && (sync_interval < Duration::from_millis(1) || sync_interval > Durability::SYNC_INTERVAL_MAX)
        {
            return Err(Error::invalid_argument(format!(
                "sync_interval of {sync_interval:?} is not between 1 ms and 1 s"
            )));
        }
        let path: PathBuf = path.as_ref().to_owned();
        if path.as_os_str().is_empty() {
            return Err(Error::invalid_argument("the path of the database is empty"));
        }
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

/// Whether a path that does not exist yet is one of a folder or of what is in it.
fn lies_within(path: &Path, folder: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    whole(parent).zip(whole(folder)).is_some_and(|(parent, folder)| parent.starts_with(folder))
}

fn folder_bytes(path: &Path) -> Result<u64> {
    let sum = || {
        let mut bytes = 0;
        for entry in std::fs::read_dir(path)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    };
    sum().map_err(|error| Error::io("read the sizes of the files in", Some(path), error))
}
