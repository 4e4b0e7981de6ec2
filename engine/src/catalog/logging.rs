//! Switching the log of changes on, for a collection, a database, or everything; and off again, for all of it.
//!
//! The name is stored first, so that collections which are made or renamed meanwhile are logged. Then each collection that is there
//! is changed while its gate is held alone: no write that began before is under way then, and none that begins after misses the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::codes::refused;
use base::error::Result;
use base::lock_order::{self, Place};
use base::namespace::Namespace;
use base::sync::{lock_for, sleep};
use bson::Uuid;
use query::code::Code;
use query::operation::{Allowance, CancellationToken, OperationContext};
use store::Family;
use store::handles::Storage;
use store::keys::{CollectionId, META_LOG};
use store::write::{Batch, CommitLevel};

use crate::catalog::collection::{CollectionState, Definition};
use crate::catalog::names::Catalog;
use crate::catalog::stage::stage_entry;
use crate::changes::event::{Event, EventKind};
use crate::changes::log::{ChangeLog, LogId, scope_key};
use crate::changes::scopes::Scope;
use crate::options::{ChangeLogging, PlantedFault};

/// How long the first stream waits for writes of other collections that were under way when it was opened.
const WRITES_WAIT_MAX: Duration = Duration::from_secs(1);

impl Catalog {
    /// Where changes of a collection with this name are logged. Absent if they are not.
    pub(super) fn log_of(&self, namespace: &Namespace) -> Option<Arc<ChangeLog>> {
        self.log.covers(namespace).then(|| Arc::clone(&self.log))
    }

    /// Logs the changes of a scope from now on, if they are not logged already. Writes that begin after this has returned are logged.
    pub(crate) fn log_changes(
        &self,
        storage: Storage<'_>,
        scope: &Scope,
        operation: &OperationContext,
    ) -> Result<()> {
        if self.log.began(scope).is_some() {
            return Ok(());
        }
        storage.store.admit_write()?;
        if self.log.logging() == ChangeLogging::Never {
            let message =
                format!("changes of {scope} are not logged: the store was opened so that none ever are");
            return Err(refused(Code::ILLEGAL_OPERATION, message));
        }
        let _place = lock_order::take(Place::Logging);
        let _switching = lock_for(operation, &self.switching)?;
        if self.log.began(scope).is_some() {
            return Ok(());
        }
        let name = scope.name();
        {
            let _changes = self.lock_ids();
            let mut batch = Batch::new(storage.database);
            batch.put(Family::Meta, &scope_key(&name), &0_u64.to_be_bytes());
            // All of them are logged again from now on: the next opening must not mistake them for never interrupted.
            for unknown in self.log.unknown_scopes() {
                batch.put(Family::Meta, &scope_key(&unknown), &0_u64.to_be_bytes());
            }
            let id = self.log.id().unwrap_or_else(new_id);
            batch.put(Family::Meta, META_LOG, &id);
            storage.store.commit_definition(batch)?;
            self.log.set_id(id);
            self.log.set_scope(&name, 0);
        }
        for collection in self.collections().iter().filter(|state| scope.covers(&state.namespace)) {
            self.log_collection(storage, collection, operation)?;
        }
        let began = self.log.take_position(storage)?;
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &scope_key(&name), &began.to_be_bytes());
        storage.store.commit_definition(batch)?;
        self.log.set_scope(&name, began);
        storage.store.sync_written(storage.database)?;
        // Times that are reported from now on are not before it, unless another write lasts very long.
        let waiting = Instant::now();
        while self.log.watermark() < began && waiting.elapsed() < WRITES_WAIT_MAX {
            operation.look()?;
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Gives the log of a copy an id of its own, before anything else is written: the tokens of the original are refused, whose log goes
    /// another way.
    pub(crate) fn part_from_original(&self, storage: Storage<'_>) -> Result<()> {
        if !storage.store.is_of_copy() {
            return Ok(());
        }
        if self.log.id().is_some() {
            let id = new_id();
            let mut batch = Batch::new(storage.database);
            batch.put(Family::Meta, META_LOG, &id);
            storage.store.commit(batch, CommitLevel::Journaled)?;
            self.log.set_id(id);
        }
        // Afterwards: a process that is killed in between leaves a copy that gets another id.
        storage.store.settle_copy()
    }

    /// Logs or forgets what the store is opened to log or not to log at all.
    pub(crate) fn log_as_opened(&self, storage: Storage<'_>) -> Result<()> {
        let operation = OperationContext::unlimited();
        match self.log.logging() {
            ChangeLogging::Always => self.log_changes(storage, &Scope::Client, &operation),
            ChangeLogging::Never if self.log.is_used() => self.stop_logging(storage, &operation),
            ChangeLogging::Watched | ChangeLogging::Never => Ok(()),
        }
    }

    /// Logs the changes of a scope no more. Its streams are lost. It is not an error if they are not logged.
    ///
    /// # Errors
    /// With code 72 if they are logged with a larger scope.
    pub(crate) fn stop_logging_of(
        &self,
        storage: Storage<'_>,
        scope: &Scope,
        operation: &OperationContext,
    ) -> Result<()> {
        let _place = lock_order::take(Place::Logging);
        let _switching = lock_for(operation, &self.switching)?;
        let name = scope.name();
        if let Some(larger) =
            scope.names().into_iter().find(|other| *other != name && self.log.has_scope(other))
        {
            let larger =
                if larger.is_empty() { "all databases".to_owned() } else { format!("the database {larger}") };
            let message = format!("the changes of {scope} are logged with those of {larger}");
            return Err(refused(Code::INVALID_OPTIONS, message));
        }
        if !self.log.has_scope(&name) {
            return Ok(());
        }
        let collections = {
            // A collection that is made or renamed meanwhile is in the list, or finds nothing logged.
            let _changes = self.lock_ids();
            self.log.forget_scope(&name);
            self.collections()
        };
        let mut stopped = self.forget_collections(storage, scope, &collections, operation);
        if stopped.is_ok() && !self.log.is_used() {
            // No stream can read them any more.
            stopped = self.log.forget_all(storage);
        }
        if stopped.is_err() {
            // As if it were being switched on: the next stream does that.
            self.log.set_scope(&name, 0);
        }
        // Those that wait learn that they are lost.
        self.log.rounds.wake();
        stopped
    }

    fn forget_collections(
        &self,
        storage: Storage<'_>,
        scope: &Scope,
        collections: &[Arc<CollectionState>],
        operation: &OperationContext,
    ) -> Result<()> {
        let key = scope_key(&scope.name());
        // First: if not all of it is done, what was logged has a hole.
        let mut batch = Batch::new(storage.database);
        batch.put(Family::Meta, &key, &0_u64.to_be_bytes());
        storage.store.commit_definition(batch)?;
        for collection in collections.iter().filter(|collection| scope.covers(&collection.namespace)) {
            let mut definition = collection.enter_alone(operation)?;
            let is_in_another = self.log.covers(&collection.namespace);
            if !collection.is_retired() && definition.log.is_some() && !is_in_another {
                set_log(storage, collection, &mut definition, None)?;
            }
        }
        let mut batch = Batch::new(storage.database);
        batch.delete(Family::Meta, &key);
        storage.store.commit_definition(batch)?;
        storage.store.sync_written(storage.database)
    }

    /// Logs no changes any more and forgets those that were, unless a stream is open.
    pub(crate) fn stop_logging(&self, storage: Storage<'_>, operation: &OperationContext) -> Result<()> {
        let _place = lock_order::take(Place::Logging);
        let _switching = lock_for(operation, &self.switching)?;
        let (names, collections) = {
            // A collection that is made or renamed meanwhile is in the list, or finds nothing logged.
            let _changes = self.lock_ids();
            let Some(names) = self.log.take_scopes() else { return Ok(()) };
            (names, self.collections())
        };
        let stopped = self.stop_logging_all(storage, &names, &collections, operation);
        if stopped.is_err() {
            // Tried again later. Until then it is as if it were being switched on: the next stream does that.
            for name in &names {
                self.log.set_scope(name, 0);
            }
        }
        stopped
    }

    fn stop_logging_all(
        &self,
        storage: Storage<'_>,
        names: &[String],
        collections: &[Arc<CollectionState>],
        operation: &OperationContext,
    ) -> Result<()> {
        // First: if not all of it is done, what was logged has a hole.
        let mut batch = Batch::new(storage.database);
        for name in names {
            batch.put(Family::Meta, &scope_key(name), &0_u64.to_be_bytes());
        }
        storage.store.commit_definition(batch)?;
        for collection in collections {
            let mut definition = collection.enter_alone(operation)?;
            if collection.is_retired() || definition.log.is_none() {
                continue;
            }
            set_log(storage, collection, &mut definition, None)?;
        }
        let mut batch = Batch::new(storage.database);
        for name in names {
            batch.delete(Family::Meta, &scope_key(name));
        }
        storage.store.commit_definition(batch)?;
        self.log.forget_all(storage)?;
        storage.store.sync_written(storage.database)
    }

    /// Logs that a database was dropped, if streams on databases learn of it. Its collections are gone.
    pub(crate) fn log_drop_of_database(&self, storage: Storage<'_>, db: &str) -> Result<()> {
        let _changes = self.lock_ids();
        if !self.log.covers_database(db) {
            return Ok(());
        }
        let mut batch = Batch::new(storage.database);
        batch.add_event(Event::new(EventKind::DropDatabase, CollectionId(0), db).encode());
        self.log.commit_definition(storage, batch)
    }

    fn log_collection(
        &self,
        storage: Storage<'_>,
        collection: &CollectionState,
        operation: &OperationContext,
    ) -> Result<()> {
        let mut definition = match collection.enter_alone(&patience_of(storage, operation)) {
            Err(_) if storage.database.fault() == PlantedFault::CollectionsPassedBy => return Ok(()),
            entered => entered?,
        };
        // One that was renamed meanwhile was looked at under its new name.
        if collection.is_retired() || definition.log.is_some() {
            return Ok(());
        }
        set_log(storage, collection, &mut definition, Some(Arc::clone(&self.log)))
    }
}

/// Logs the changes of a collection, or no more. The caller holds the gate alone.
fn set_log(
    storage: Storage<'_>,
    collection: &CollectionState,
    definition: &mut Definition,
    log: Option<Arc<ChangeLog>>,
) -> Result<()> {
    let changed = definition.with_log(log);
    let mut batch = Batch::new(storage.database);
    stage_entry(&mut batch, collection.id, &collection.namespace, &changed)?;
    storage.store.commit_definition(batch)?;
    collection.publish(storage.database, definition, changed);
    Ok(())
}

/// For how long writers in a collection are waited for: as long as the operation lasts, unless a fault is planted.
fn patience_of(storage: Storage<'_>, operation: &OperationContext) -> OperationContext {
    if storage.database.fault() != PlantedFault::CollectionsPassedBy {
        return operation.clone();
    }
    let token = CancellationToken::new();
    token.cancel();
    OperationContext::new(Allowance { tokens: vec![token], ..Allowance::default() })
}

/// The id of a new log.
fn new_id() -> LogId {
    let random = Uuid::new().bytes();
    random.first_chunk().copied().unwrap_or_default()
}
