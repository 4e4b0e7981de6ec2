//! State shared by all handles of a client: the store, the catalog, the id generator, and the threads that delete
//! expired documents and read files for damage.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use base::error::Result;
use base::namespace::Namespace;
use base::sync::{AtomicBool, Mutex};
use query::operation::{
    Allowance, CancellationToken, MemoryBudget, OperationContext, Reservation, TemporaryFiles,
};
use sequence::acquirer::Acquirer;
use sequence::generator::Generator;
use sequence::object_id::Layout;
use store::cache_reads;
use store::fork;
use store::handles::Storage;
use store::spill::SpillFiles;
use store::write::CommitLevel;
use store::{Database, Store, StoreOptions};

use crate::catalog::change::{Created, NewCollection};
use crate::catalog::collection::CollectionState;
use crate::catalog::load::discard_unfinished_builds;
use crate::catalog::names::Catalog;
use crate::changes::rounds::RoundMaker;
use crate::changes::scopes::Scope;
use crate::metrics::recorder::{BlockReads, Recorder, RecorderOptions};
use crate::options::WriteConcern;
use crate::outcomes::generations::Generations;
use crate::outcomes::once::Once;
use crate::outcomes::retryable::Retryable;
use crate::outcomes::turns::Turns;
use crate::outcomes::upkeep;
use crate::periodic::PeriodicThread;
use crate::progress::ScrubStatus;
use crate::transaction::Transaction;
use crate::transaction::registry::{Limits, Transactions};
use crate::uploads::Uploads;

/// The limit of one operation's memory for values, sorts, groups and joins, and of a cursor between two calls.
const OPERATION_BYTES_MAX: usize = 256 << 20;
/// The time that writers leave notes for transactions after the last one has ended: the next one begins faster then.
const NOTING_REST: Duration = Duration::from_secs(1);
/// The interval in which transactions that may last too long are checked.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(250);
/// After how many of these looks it is looked for old rows of retryable writes: ten minutes.
const ROUNDS_OF_OUTCOMES: u32 = 2400;
/// The limit of the memory of all of them together.
const OPERATIONS_BYTES_MAX: usize = 1 << 30;

/// The caller context: the settings of a client's handles. A handle passes it on to those that are made from it.
/// Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    /// The acquirer whose blocks values come from. `None` means the shared one.
    pub(crate) acquirer: Option<Arc<Acquirer>>,
    /// The token that ends the caller's operations.
    pub(crate) cancellation: Option<CancellationToken>,
    /// The transaction that the operations are statements of.
    pub(crate) transaction: Option<Arc<Transaction>>,
    /// The command that may have run before, whose writes leave rows.
    pub(crate) retryable: Option<Arc<Retryable>>,
    /// The call with a token that the operations are.
    pub(crate) once: Option<Arc<Once>>,
    /// The operation that the handles are used in: that of a command, whose verbs are parts of it.
    pub(crate) operation: Option<OperationContext>,
}

impl Caller {
    /// The caller with a token that ends its operations, in place of the one it may have.
    pub(crate) fn with_cancellation(&self, token: &CancellationToken) -> Self {
        Self { cancellation: Some(token.clone()), ..self.clone() }
    }

    /// The caller whose operations are statements of a transaction.
    pub(crate) fn in_transaction(&self, transaction: &Arc<Transaction>) -> Self {
        Self { transaction: Some(Arc::clone(transaction)), ..self.clone() }
    }

    /// The tokens that end the caller's operations.
    fn tokens(&self) -> Vec<CancellationToken> {
        let of_transaction = self.transaction.as_deref().map(Transaction::token);
        self.cancellation.iter().chain(of_transaction).cloned().collect()
    }

    /// The caller whose verbs are parts of an operation.
    pub(crate) fn within(&self, operation: &OperationContext) -> Self {
        Self { operation: Some(operation.clone()), ..self.clone() }
    }
}

/// State shared by all handles of a client: the open database, and the threads that work on it in the background.
pub(crate) struct Shared {
    /// Apart from the threads: they keep the database only while they work, and only handles keep the threads.
    engine: Arc<Engine>,
    /// Started when the first TTL index is there.
    pub(crate) expiry: Mutex<Option<PeriodicThread>>,
    /// Started if the builder asks for it.
    pub(crate) scrub: Mutex<Option<PeriodicThread>>,
    /// Ends transactions that last too long. Started with the first session.
    pub(crate) upkeep: Mutex<Option<PeriodicThread>>,
}

/// An open database: the store, the catalog and the id generator.
pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) generator: Generator,
    pub(crate) options: StoreOptions,
    /// The interval in which expired documents are deleted. `None`: not by itself.
    pub(crate) ttl_interval: Option<Duration>,
    /// Whether an independent backup is being made.
    pub(crate) is_backing_up: AtomicBool,
    /// The state of the scrub.
    pub(crate) scrub: Mutex<ScrubStatus>,
    /// The meters of the operations of the client's handles.
    pub(crate) recorder: Arc<Recorder>,
    /// The uploads and removals of chunks of files that run by the API now.
    pub(crate) uploads: Arc<Uploads>,
    /// The open transactions.
    pub(crate) transactions: Arc<Transactions>,
    /// The sessions whose retryable commands run.
    pub(crate) turns: Turns,
    /// Which tokens are remembered.
    pub(crate) tokens: Arc<Generations>,
    /// The memory that operations and cursors of all callers together may hold, apart from the store's own.
    memory: MemoryBudget,
    /// The files in which sorts, groups and joins continue beyond their memory. Absent in a store in memory, and
    /// where they may have no bytes.
    files: Option<Arc<dyn TemporaryFiles>>,
}

impl Shared {
    pub(crate) fn open(
        options: StoreOptions,
        layout: Layout,
        ttl_interval: Option<Duration>,
        recording: RecorderOptions,
        limits: Limits,
    ) -> Result<Self> {
        let engine = Arc::new(Engine::open(options, layout, ttl_interval, recording, limits)?);
        Ok(Self { engine, expiry: Mutex::new(None), scrub: Mutex::new(None), upkeep: Mutex::new(None) })
    }

    /// The open database, for a thread that must not keep the client open.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Switches the log of changes of a scope on or off.
    pub(crate) fn switch_log(
        &self,
        database: &Arc<Database>,
        scope: &Scope,
        is_on: bool,
        operation: &OperationContext,
    ) -> Result<()> {
        self.store.admit_write()?;
        if !is_on {
            return self.catalog.stop_logging_of(self.storage(database), scope, operation);
        }
        self.log_changes(database, scope, operation)
    }

    /// Logs the changes of a scope from now on, if they are not logged already.
    pub(crate) fn log_changes(
        &self,
        database: &Arc<Database>,
        scope: &Scope,
        operation: &OperationContext,
    ) -> Result<()> {
        self.catalog.log.note_use();
        // First: what is logged must be forgotten some time, also if switching ends half way.
        self.start_upkeep()?;
        self.catalog.log_changes(self.storage(database), scope, operation)
    }

    /// Starts the thread that ends transactions which last too long, and removes old rows, unless it runs.
    pub(crate) fn start_upkeep(&self) -> Result<()> {
        let mut upkeep = self.upkeep.lock();
        if upkeep.is_none() {
            let engine = Arc::downgrade(&self.engine);
            let mut rounds: u32 = 0;
            *upkeep = Some(PeriodicThread::start("cairndb-upkeep", UPKEEP_INTERVAL, move |_| {
                if let Some(engine) = engine.upgrade() {
                    engine.look_after_transactions();
                    engine.look_after_outcomes(rounds);
                    engine.look_after_changes();
                    rounds = rounds.wrapping_add(1);
                }
            })?);
        }
        Ok(())
    }

    /// Closes the store: waits for running operations, syncs, and releases the folder. Closing again does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        // The store rejects too, but the sequences below have locks that may be held by threads that a child
        // does not have.
        fork::refuse_child()?;
        // First, because its pass is a running operation, and may be slow. Dropping the handle waits for its end.
        drop(self.expiry.lock().take());
        drop(self.scrub.lock().take());
        // A transaction would keep the folder open, and writers that wait for its turn.
        self.engine.transactions.close();
        let closed = self.engine.close();
        // After that: one that was running a statement may have to be ended once more.
        drop(self.upkeep.lock().take());
        closed
    }
}

impl Deref for Shared {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Engine {
    fn open(
        options: StoreOptions,
        layout: Layout,
        ttl_interval: Option<Duration>,
        recording: RecorderOptions,
        limits: Limits,
    ) -> Result<Self> {
        let store = Store::open(&options)?;
        let (catalog, files, tokens) = {
            let database = store.enter()?;
            let catalog = Catalog::load(&database, limits.log, options.mode)?;
            // A store that is opened for reading writes nothing, not even the removal of entries that no index has.
            if !options.mode.is_read_only() {
                let storage = Storage { store: &store, database: &database };
                catalog.part_from_original(storage)?;
                catalog.log_as_opened(storage)?;
                discard_unfinished_builds(&store, &database)?;
                catalog.discard_asides(storage)?;
            }
            // Nothing of a store in memory reaches a disk.
            let files = (!options.mode.is_in_memory() && options.spilling.space > 0)
                .then(|| SpillFiles::of(&database));
            let tokens = Generations::load(&database, limits.tokens)?;
            (catalog, files.map(|files| Arc::new(files) as Arc<dyn TemporaryFiles>), Arc::new(tokens))
        };
        {
            let database = store.enter()?;
            let rounds = Arc::clone(&catalog.log.rounds);
            store.watch_syncs(Arc::new(RoundMaker { rounds, database: Arc::downgrade(&database) }));
        }
        let memory = MemoryBudget::new(OPERATIONS_BYTES_MAX);
        let (generator, scrub) = (Generator::new(layout), Mutex::default());
        // Shared with cursors, which may outlive the client.
        let block_reads = BlockReads { begin: cache_reads::begin, take: cache_reads::take };
        let recorder = Arc::new(Recorder::new(recording, block_reads));
        let (uploads, is_backing_up) = (Arc::default(), AtomicBool::new(false));
        Ok(Self {
            store,
            catalog,
            generator,
            options,
            ttl_interval,
            is_backing_up,
            scrub,
            recorder,
            uploads,
            transactions: Arc::new(Transactions::new(limits)),
            turns: Turns::default(),
            tokens,
            memory,
            files,
        })
    }

    /// Ends transactions that have lasted too long, and lets writers leave no more notes once none was open for a while.
    pub(crate) fn look_after_transactions(&self) {
        self.transactions.expire();
        self.store.latches.stop_noting_after(NOTING_REST);
    }

    /// Removes what no client asks for any more, in some of the rounds.
    fn look_after_outcomes(&self, round: u32) {
        // A reader removes nothing, and its folder may be of a format without such rows.
        if self.options.mode.is_read_only() || !round.is_multiple_of(ROUNDS_OF_OUTCOMES) {
            return;
        }
        let removed = self.store.enter().and_then(|database| {
            upkeep::remove_old(&self.turns, self.storage(&database))?;
            self.tokens.turn_if_due(self.storage(&database))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "old rows of repeated writes could not be removed");
        }
    }

    /// Forgets the oldest changes, if the log has too many.
    fn look_after_changes(&self) {
        // Within the store: closing it waits until what is given back is gone.
        if let Ok(_database) = self.store.enter() {
            self.catalog.log.rounds.give_back_unread();
        }
        if self.options.mode.is_read_only() || !self.catalog.log.is_used() {
            return;
        }
        let forgotten = self.store.enter().and_then(|database| {
            let (log, storage) = (&self.catalog.log, self.storage(&database));
            if !log.is_unused() {
                return log.forget_old(storage);
            }
            // Not longer: transactions wait for this thread to end them.
            let time = Some(UPKEEP_INTERVAL);
            let operation = OperationContext::new(Allowance { time, ..Allowance::default() });
            self.catalog.stop_logging(storage, &operation)
        });
        if let Err(error) = forgotten {
            tracing::warn!(%error, "the oldest changes of the log could not be removed");
        }
    }

    /// The bytes that operations and cursors of all callers hold.
    pub(crate) fn operation_bytes(&self) -> u64 {
        self.memory.taken() as u64
    }

    /// The limits of a caller's operation. It begins now, unless it is part of an operation that has begun.
    pub(crate) fn operation(&self, caller: &Caller, max_time: Option<Duration>) -> OperationContext {
        // Within a command the limits of the command hold, and all its verbs use them up together.
        if let Some(operation) = &caller.operation {
            return operation.clone();
        }
        OperationContext::new(Allowance {
            tokens: caller.tokens(),
            time: max_time,
            bytes: Some(OPERATION_BYTES_MAX),
            shared: Some(self.memory.clone()),
            stage_bytes: Some(self.options.spilling.stage_memory),
            files: self.files.clone(),
        })
    }

    /// Reserves memory for a request that is about to be decoded; `None` for a small one.
    ///
    /// # Errors
    /// If one operation, or all together, may not have so much.
    pub(crate) fn reserve_for_request(&self, bytes: usize) -> Result<Option<Reservation>> {
        if bytes == 0 {
            return Ok(None);
        }
        // Its operation does not exist yet: how long it may last is in the request.
        let request = OperationContext::new(Allowance {
            bytes: Some(OPERATION_BYTES_MAX),
            shared: Some(self.memory.clone()),
            ..Allowance::default()
        });
        Ok(Some(request.reserve(bytes)?))
    }

    /// The limits of an insert, which computes nothing. Without a limit this allocates nothing.
    pub(crate) fn plain_operation(&self, caller: &Caller, max_time: Option<Duration>) -> OperationContext {
        if caller.operation.is_some() || caller.cancellation.is_some() || max_time.is_some() {
            return self.operation(caller, max_time);
        }
        caller.transaction.as_ref().map(|transaction| transaction.operation().clone()).unwrap_or_default()
    }

    /// Closes the store. Closing again does nothing.
    fn close(&self) -> Result<()> {
        let ends = || {
            // Those that were running a statement before.
            self.transactions.close();
            // Streams that wait learn that the store is closed, and hold no snapshot.
            self.catalog.log.rounds.close();
        };
        // Saved while the store is open and its operations have ended: no later write makes the marks wrong.
        let closed = self.store.close(ends, |database| self.catalog.save(&self.store, database));
        for state in self.catalog.collections() {
            // Readers that wait learn that the store is closed.
            if let Some(order) = state.order() {
                order.wake();
            }
            // Handles may outlive the store, and filters of keys have memory of its block cache.
            state.forget_keys(&state.definition());
        }
        // Even if nothing could be written: the values left in blocks must not be handed out any more.
        self.catalog.sequences.all().iter().for_each(|state| state.sequence.retire());
        closed
    }

    /// The level of a write's commits, by the rule of `store::durability`.
    pub(crate) fn commit_level(&self, concern: Option<&WriteConcern>) -> Result<CommitLevel> {
        CommitLevel::of(concern, self.options.durability)
    }

    /// The collection of that name. It is made if it does not exist, as MongoDB does for writes.
    pub(crate) fn find_or_create(
        &self,
        database: &Arc<Database>,
        namespace: &Namespace,
    ) -> Result<Arc<CollectionState>> {
        // Nearly every write finds it, and `create` acquires the lock of all changes of the catalog.
        if let Some(collection) = self.catalog.find(namespace) {
            return Ok(collection);
        }
        // Another thread may have made it since: that one is as good.
        let create = |storage| self.catalog.create(storage, namespace, &NewCollection::default());
        match self.define(database, create)? {
            Created::New(collection) | Created::Existing(collection) => Ok(collection),
        }
    }

    /// Changes what exists, by a call of the catalog, and returns once the change is on stable storage. The sync comes after the
    /// change, so that no reader waits for it; if it fails, the change was made all the same.
    pub(crate) fn define<'a, R>(
        &'a self,
        database: &'a Arc<Database>,
        change: impl FnOnce(Storage<'a>) -> Result<R>,
    ) -> Result<R> {
        let changed = change(self.storage(database))?;
        self.store.sync_written(database)?;
        Ok(changed)
    }

    pub(crate) fn storage<'a>(&'a self, database: &'a Arc<Database>) -> Storage<'a> {
        Storage { store: &self.store, database }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child leaves everything to its parent.
        if !fork::is_child()
            && let Err(error) = self.close()
        {
            // A destructor cannot return the error.
            tracing::error!(%error, "the database could not be closed in order; what was synced is safe");
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use sequence::attributes::Contract;
    use store::OpenMode;

    use super::*;
    use crate::auto_increment::AutoIncrement;
    use crate::cursor::Cursor;
    use crate::database;
    use crate::fixture::{self, Fixture};
    use crate::session::StartSession;

    const LARGE: usize = 1 << 20;

    /// Others wait for the turn of a sequence, so a transaction that keeps one may last less long than one that does not.
    #[test]
    fn a_turn_is_kept_for_a_shorter_time() {
        let limits = Limits { turn_lifetime: Duration::from_secs(2), ..Limits::default() };
        let folder = tempfile::tempdir().expect("a folder");
        let options = fixture::options(folder.path().join("db"), OpenMode::CreateIfMissing);
        let shared = Shared::open(options, Layout::MachineProcess, None, RecorderOptions::OFF, limits);
        let shared = Arc::new(shared.expect("made"));
        let database = database::Database::new(Arc::clone(&shared), Caller::default(), "test");
        let number = AutoIncrement::builder().field("n").contract(Contract::Gapless).build();
        database.create_collection("numbered").auto_increment(number).run().expect("made");
        let (numbered, plain) = (database.collection::<Document>("numbered"), database.collection("plain"));
        plain.insert_one(doc! {}).run().expect("stored");
        let begin = || {
            let mut session = StartSession::of(&shared, &Caller::default()).run().expect("started");
            session.start_transaction().run().expect("started");
            session
        };
        let (mut long, mut short) = (begin(), begin());
        plain.insert_one(doc! {}).session(&mut long).run().expect("staged");
        let staged = numbered.insert_one(doc! {}).session(&mut short).run().expect("staged");
        // It waits until the time of the turn is over, without a call of that session.
        let stored = numbered.insert_one(doc! {}).run().expect("stored");
        assert_eq!((staged.generated.get("n"), stored.generated.get("n")), (Some(1), Some(1)));
        assert_eq!(short.commit_transaction().run().expect_err("it is over").code(), Some(251));
        long.commit_transaction().run().expect("its time is longer");
    }

    /// The memory that sorts had collected for idle cursors was charged to nothing: forty of them held 820 MB.
    #[test]
    fn sorted_cursors_at_rest_share_one_budget() {
        let fixture = Fixture::filled(|client| {
            let things = client.database("test").collection("things");
            let large = (0..3).map(|n| doc! { "n": n, "text": "x".repeat(LARGE) });
            things.insert_many(large).run().expect("stored");
        });
        let shared = Arc::new(fixture.shared);
        // Another operation has used nearly all. Only its account is large.
        let allowance = Allowance { shared: Some(shared.memory.clone()), ..Allowance::default() };
        let _taken = OperationContext::new(allowance)
            .reserve(OPERATIONS_BYTES_MAX - 9 * LARGE)
            .expect("nothing else runs");
        let database = database::Database::new(Arc::clone(&shared), Caller::default(), "test");
        let things = database.collection::<Document>("things");
        let open = || -> Result<Cursor<Document>> {
            // In memory, where it has to be held.
            let sorted = things.find(doc! {}).sort(doc! { "n": 1 }).allow_disk_use(false);
            let mut cursor = sorted.run()?;
            cursor.advance()?;
            cursor.rest();
            Ok(cursor)
        };
        let mut resting = Vec::new();
        let refused = (0..9).find_map(|_| open().map(|cursor| resting.push(cursor)).err());
        assert_eq!(refused.expect("the budget ends").code(), Some(146));
        assert!(resting.len() >= 2, "{} cursors of three documents", resting.len());
        // One that ends makes room for another, and the others go on.
        drop(resting.pop());
        resting.push(open().expect("there is room again"));
        assert!(resting.into_iter().all(|cursor| cursor.count() == 2));
    }
}
