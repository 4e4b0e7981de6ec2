//! Salvage: what is whole in a folder that does not open any more, copied into a new one.
//!
//! The order: everything that is read goes through `store::salvage`, which reads past damage and decides which version of a
//! key is the newest. Here is decided what of it can be trusted. Documents and catalog are put into a new store as they
//! are; indexes are then built as any index is, and the new store is verified before it gets its name.

mod catalog;
mod records;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::error::{Error, Result};
use query::operation::{Allowance, CancellationToken, OperationContext};
use sequence::object_id::Layout;
use store::keys::split_id;
use store::pace::Pace;
use store::salvage::{DamagedFolder, PartialFolder, Unreadable};
use store::write::{Batch, CommitLevel};
use store::{Family, OpenMode, SpillOptions, Store, StoreOptions};

use crate::audit::{self, Watch};
use crate::command::repeated;
use crate::metrics::recorder::RecorderOptions;
use crate::options::{Compression, Durability, PlantedFault};
use crate::salvage::catalog::FoundCatalog;
use crate::salvage::records::Copier;
use crate::shared::Shared;
use crate::transaction::registry::Limits;
use crate::write::index_build::{self, BuildRequest, Outcome};
use crate::write::index_definition::IndexDefinition;
use crate::write::order_build::OrderBuild;

pub use self::report::{LostIndex, LostWrites, Refusal, SalvageReport, SalvagedCollection, UnreadableBytes};

/// The memory budget of the new store in bytes.
const MEMORY_BUDGET: usize = 64 << 20;
/// The bytes in which an index build sorts its keys.
const INDEX_BUILD_MEMORY: usize = 32 << 20;
/// The interval of progress reports.
const INTERVAL: Duration = Duration::from_millis(100);

type Callback<'a> = dyn FnMut(u64) + 'a;

/// Copies what is whole in the folder `from`, which may be damaged in any way, into the new folder `to`.
///
/// Use it if a folder does not open, or `verify` finds damaged files, and there is no backup. Nothing in `from` is changed, and
/// no other process may have it open. `to` must not exist, and needs space for all documents; while it is made it is called
/// `to` with `.partial` after it, and only the finished and verified folder gets the name.
///
/// - All tables and logs are read block by block and record by record, past what is damaged.
/// - Of each document the newest version that can be read is copied, if it is well-formed and stored under the key of its
///   `_id`. Documents that are known to be deleted are not.
/// - Indexes are built again. Sequences and auto-increment fields go on after every value that they had reserved, and after
///   every value that documents have.
/// - If it is not known any more which tables belong to the database, all are used. A collection whose name is lost is called
///   `salvaged.collection_` and its number.
///
/// The [report](SalvageReport) says what could not be read, and what may be older than it was. What was in a damaged place is
/// lost: restore a backup if there is one.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let (damaged, new) = (folder.path().join("db"), folder.path().join("new"));
/// # let client = Client::open(&damaged)?;
/// # client.database("app").collection("people").insert_one(doc! { "name": "Ada" }).run()?;
/// # client.close()?;
/// std::fs::remove_file(damaged.join("CURRENT"))?;
/// assert!(Client::open(&damaged).is_err_and(|error| error.is_corruption()));
///
/// let report = cairndb::salvage(&damaged, &new).run()?;
/// assert_eq!(report.collections[0].documents, 1);
///
/// let people = Client::open(&new)?.database("app").collection::<Document>("people");
/// assert_eq!(people.count_documents(doc! {}).run()?, 1);
/// # Ok(())
/// # }
/// ```
pub fn salvage<'a>(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Salvage<'a> {
    Salvage {
        from: from.as_ref().to_owned(),
        to: to.as_ref().to_owned(),
        token: CancellationToken::new(),
        progress: None,
        fault: PlantedFault::None,
    }
}

/// The action that [`salvage`] returns. [`run`](Self::run) executes it.
#[must_use = "nothing is salvaged before run()"]
pub struct Salvage<'a> {
    from: PathBuf,
    to: PathBuf,
    token: CancellationToken,
    progress: Option<Box<Callback<'a>>>,
    fault: PlantedFault,
}

impl<'a> Salvage<'a> {
    /// A token that ends the salvage from another thread. It then fails with code 11601 (`Interrupted`), and leaves nothing.
    ///
    /// ```
    /// # use cairndb::{CancellationToken, Client};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (damaged, new) = (folder.path().join("db"), folder.path().join("new"));
    /// # Client::open(&damaged)?.close()?;
    /// let token = CancellationToken::new();
    /// token.cancel();
    /// assert!(cairndb::salvage(&damaged, &new).cancellation(&token).run().is_err());
    /// assert!(!new.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancellation(self, token: &CancellationToken) -> Self {
        Self { token: token.clone(), ..self }
    }

    /// A function that receives about ten times a second how many documents were copied. It is called on the thread of
    /// [`run`](Self::run).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (damaged, new) = (folder.path().join("db"), folder.path().join("new"));
    /// # Client::open(&damaged)?.close()?;
    /// cairndb::salvage(&damaged, &new).progress(|documents| println!("{documents} documents")).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(self, tell: impl FnMut(u64) + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Plants a fault on purpose, to show that the test suites detect it.
    #[cfg(any(test, feature = "planted-faults"))]
    #[doc(hidden)]
    pub fn planted_fault(self, fault: PlantedFault) -> Self {
        Self { fault, ..self }
    }

    /// Salvages the folder, and returns what became of it.
    ///
    /// Fails if another process has the folder open, if it is of a newer format or holds no file of a database, if `to` exists
    /// or cannot be written.
    pub fn run(mut self) -> Result<SalvageReport> {
        let operation = OperationContext::new(Allowance {
            tokens: std::iter::once(self.token.clone()).collect(),
            ..Allowance::default()
        });
        let look = || Ok(operation.look()?);
        if lies_within(&self.to, &self.from) {
            let message = format!("the new folder {} lies in the damaged one", self.to.display());
            return Err(Error::invalid_argument(message));
        }
        let partial = PartialFolder::make(&self.to)?;
        let mut report = SalvageReport { path: self.to.clone(), ..SalvageReport::default() };
        let mut source = DamagedFolder::open(&self.from, &partial.scratch(), self.fault, &look)?;
        let mut catalog = FoundCatalog::of(&self.from);
        source.walk(Family::Meta, &mut |found| catalog.take(&found))?;
        catalog.separate_names();
        let options = store_options(&partial);
        report.sequences = self.copy(&options, &mut source, &mut catalog, &look)?;
        build_indexes(&options, &mut catalog, &operation, &mut report)?;
        describe(source, catalog, &mut report);
        partial.publish()?;
        Ok(report)
    }

    /// Copies the documents and the catalog. Returns the number of sequences.
    fn copy(
        &mut self,
        options: &StoreOptions,
        source: &mut DamagedFolder,
        catalog: &mut FoundCatalog,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<u64> {
        let store = Store::open(options)?;
        let sequences = {
            let database = store.enter()?;
            let mut copier = Copier::new(&store, &database);
            let mut told = Instant::now();
            source.walk(Family::Records, &mut |found| {
                look()?;
                copier.take(catalog, &found)?;
                if let Some(tell) = &mut self.progress
                    && told.elapsed() >= INTERVAL
                {
                    tell(copier.documents);
                    told = Instant::now();
                }
                Ok(())
            })?;
            if let Some(tell) = &mut self.progress {
                tell(copier.documents);
            }
            if copier.dropped > 0 {
                catalog.notes.push(format!("{} documents of dropped collections were left", copier.dropped));
            }
            // The records first, because positions count only if their documents are there.
            let orders = catalog.orders();
            if !orders.is_empty() {
                source.walk(Family::Entries, &mut |found| {
                    look()?;
                    copier.take_position(&orders, &found)
                })?;
            }
            source.walk(Family::Outcomes, &mut |found| {
                look()?;
                copier.take_outcome(&found)
            })?;
            catalog.notes.extend(copier.keep_outcomes(&catalog.generations));
            copier.finish(|batch| catalog.stage(batch))?
        };
        store.close(|| (), |_| Ok(()))?;
        Ok(sequences)
    }
}

/// Builds the indexes of all collections, verifies the new store and closes it.
fn build_indexes(
    options: &StoreOptions,
    catalog: &mut FoundCatalog,
    operation: &OperationContext,
    report: &mut SalvageReport,
) -> Result<()> {
    let shared = Shared::open(
        StoreOptions { mode: OpenMode::MustExist, ..options.clone() },
        Layout::MachineProcess,
        None,
        RecorderOptions::OFF,
        Limits::default(),
    )?;
    for collection in catalog.collections.values_mut() {
        let database = shared.store.enter()?;
        let Some(state) = shared.catalog.find(&collection.namespace) else { continue };
        // Before the indexes: the store is verified as a whole, and an order is part of its collection.
        if let Some(order) = state.order() {
            let look = || Ok(operation.look()?);
            let (storage, order) = (shared.storage(&database), order.id);
            let build = OrderBuild { storage, collection: state.id, order, operation, look: &look };
            let placed = build.run(state.id.prefix().to_vec())?;
            let mut batch = Batch::new(&database);
            placed.stage(&mut batch, order);
            shared.store.commit(batch, CommitLevel::INDEX_BUILD)?;
        }
        for index in std::mem::take(&mut collection.indexes) {
            let definition = IndexDefinition { name: index.name, spec: index.spec, settings: index.settings };
            let request = BuildRequest {
                storage: shared.storage(&database),
                catalog: &shared.catalog,
                collection: &state,
                definition: &definition,
                memory: options.index_build_memory,
                operation,
            };
            match index_build::create(request, None) {
                Ok(Outcome::Present) => collection.report.indexes.push(definition.name),
                Ok(Outcome::Changed) => {
                    let reason = "the collection changed under the build".to_owned();
                    collection.report.lost_indexes.push(LostIndex { name: definition.name, reason });
                }
                Err(error) if is_of_documents(&error) && operation.look().is_ok() => {
                    let reason = error.to_string();
                    collection.report.lost_indexes.push(LostIndex { name: definition.name, reason });
                }
                Err(error) => return Err(error),
            }
        }
    }
    let look = || Ok(operation.look()?);
    let mut watch = Watch::new(Pace::new(None, &look), operation, None);
    report.verified = audit::verify(&shared, &*shared.store.enter()?, &mut watch, repeated::damage)?;
    audit::verify_files(&shared, &mut report.verified, &mut watch)?;
    shared.close()?;
    match report.verified.findings.first() {
        None => Ok(()),
        Some(first) => {
            let problem = format!("the new folder does not verify: {}: {}", first.place, first.problem);
            Err(Error::corruption("salvage", &[], problem))
        }
    }
}

/// Whether an index was rejected for its documents. Any other failure is one of the new folder, and ends the salvage.
fn is_of_documents(error: &Error) -> bool {
    // That the disk is full has a code, too.
    error.code().is_some() && !error.is_no_space()
}

/// Puts into the report what was found on the way.
fn describe(source: DamagedFolder, catalog: FoundCatalog, report: &mut SalvageReport) {
    let all = source.unreadable.len();
    let listed = source.unreadable.iter().take(SalvageReport::LISTED_MAX);
    report.unreadable = listed.map(|damage| unreadable(damage, &catalog)).collect();
    report.unreadable_omitted = (all - report.unreadable.len()) as u64 + source.unreadable_omitted;
    report.lost_writes =
        source.lost_writes.iter().map(|(from, to)| LostWrites { from: *from, to: *to }).collect();
    report.notes = source.notes;
    report.notes.extend(catalog.notes);
    let lost: u64 = report.lost_writes.iter().map(|lost| lost.to - lost.from + 1).sum();
    if lost > 0 {
        report.notes.push(format!(
            "{lost} writes are in no log any more: documents may be older than they were, missing, or back"
        ));
    }
    report.collections = catalog.collections.into_values().map(|collection| collection.report).collect();
}

/// A damage with the collections whose keys were in it.
fn unreadable(damage: &Unreadable, catalog: &FoundCatalog) -> UnreadableBytes {
    let ids = damage.keys.as_ref().and_then(|keys| {
        let (last, _) = split_id(&keys.up_to)?;
        Some((split_id(&keys.above).map_or(last, |(first, _)| first), last))
    });
    let is_of_records = damage.family.as_deref() == Some(Family::Records.name());
    let names: Vec<&str> = ids
        .filter(|_| is_of_records)
        .into_iter()
        .flat_map(|(first, last)| catalog.collections.range(first.min(last)..=last))
        .map(|(_, collection)| collection.report.namespace.as_str())
        .take(4)
        .collect();
    let family = damage.family.as_ref().map(|family| format!("column family {family}"));
    UnreadableBytes {
        file: damage.path.clone(),
        offset: damage.offset,
        bytes: damage.bytes,
        reason: damage.reason.clone(),
        place: if names.is_empty() { family } else { Some(names.join(", ")) },
        keys: damage.entries,
    }
}

fn store_options(partial: &PartialFolder) -> StoreOptions {
    StoreOptions {
        path: partial.store(),
        mode: OpenMode::CreateIfMissing,
        memory_budget: MEMORY_BUDGET,
        record_cache: None,
        compression: Compression::default(),
        disk_quota: None,
        index_build_memory: INDEX_BUILD_MEMORY,
        spilling: SpillOptions::default(),
        durability: Durability::default(),
        witness: true,
        upgrade: true,
        fault: PlantedFault::None,
    }
}

/// Whether `path`, which does not exist yet, would be inside of `folder`.
fn lies_within(path: &Path, folder: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    whole(parent).zip(whole(folder)).is_some_and(|(parent, folder)| parent.starts_with(folder))
}
