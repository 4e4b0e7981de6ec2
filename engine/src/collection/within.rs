//! The operations as statements of a transaction.

use std::borrow::Cow;
use std::sync::Arc;

use base::error::{Error, Result};
use base::metrics::notes;
use base::namespace::Namespace;
use bson::RawBsonRef;
use query::code::Code;
use query::operation::OperationContext;
use store::write::CommitLevel;
use store::{Database, Family};

use crate::catalog::change::{NewCollection, refuse_expiry};
use crate::catalog::collection::CollectionState;
use crate::catalog::entry;
use crate::catalog::indexes::ID_INDEX_NAME;
use crate::catalog::names::Catalog;
use crate::collection::handle::{Handle, Missing, Terms};
use crate::collection::look_up::is_by_key;
use crate::execute::read_view::{FoundRecord, ReadView};
use crate::options::IndexModel;
use crate::plan::selector::Selector;
use crate::shared::Shared;
use crate::transaction::{Open, Staging, Transaction, conflict, names_changed, refused_within};
use crate::write::Target;
use crate::write::index_definition::{self, Presence};
use crate::write::prepare::record_key;
use crate::write::validation::Checks;

impl Handle {
    /// Aborts the transaction, if there is one, after an error that was met outside of a statement.
    pub(super) fn abort_on_error<R>(&self, done: Result<R>) -> Result<R> {
        let Some(transaction) = self.transaction() else { return done };
        done.map_err(|error| {
            transaction.abort();
            transaction.reason_of(error)
        })
    }

    /// Rejects a call that no transaction can have.
    pub(super) fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        self.transaction().map_or(Ok(()), |transaction| Err(transaction.refused(what)))
    }

    /// The collection, if the transaction has made it. It is not kept: the transaction may abort.
    pub(super) fn made_state(&self) -> Result<Option<Arc<CollectionState>>> {
        let Some(transaction) = self.transaction() else { return Ok(None) };
        Ok(transaction.made().find(self.valid_namespace()?))
    }

    /// Resolves the collection for a statement. The caller checks what it found after it has looked up what it goes by.
    fn find_within(&self, open: &Open) -> Result<Option<Cow<'_, Arc<CollectionState>>>> {
        let found = self.find_state()?;
        if found.is_none() {
            if !self.shared().catalog.names_are_as_of(open.sequence()) {
                return Err(names_changed());
            }
            open.note_absent(self.valid_namespace()?)?;
        }
        Ok(found)
    }

    /// Makes the collection for the transaction alone. The caller has looked for it.
    fn make_within(&self, open: &Open, database: &Arc<Database>) -> Result<Arc<CollectionState>> {
        let shared = self.shared();
        make(open, shared, database, (self.valid_namespace()?, &NewCollection::default()))
    }

    /// Adds an index to a collection that the transaction has made, as a statement. Returns the index's name.
    pub(super) fn stage_index(
        &self,
        transaction: &Arc<Transaction>,
        model: &IndexModel,
        operation: &OperationContext,
    ) -> Result<String> {
        transaction.admit_write("to create an index")?;
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        transaction.statement(&database, operation, |open| {
            let state = match self.find_within(open)? {
                Some(state) => state.into_owned(),
                None => self.make_within(open, &database)?,
            };
            let added = add_index(open, &shared.catalog, &state, (model, operation));
            added.map_err(|error| error.in_namespace(&state.namespace))
        })
    }

    /// Runs a search as a statement.
    pub(super) fn search_within<R>(
        &self,
        transaction: &Arc<Transaction>,
        selector: &Selector,
        operation: impl FnOnce(ReadView) -> Result<R>,
    ) -> Result<Option<R>> {
        let database = self.shared().store.enter()?;
        transaction.statement(&database, selector.variables().operation(), |open| {
            let Some(state) = self.find_within(open)? else { return Ok(None) };
            let view = ReadView::at(open.snapshot(), &state, selector)?;
            open.check(&state)?;
            open.note_read(&state, view.record_key())?;
            operation(view).map(Some).map_err(|error| error.in_namespace(&state.namespace))
        })
    }

    /// Reads the record with an `_id` as a statement. Returns `None` if only a search can determine it.
    pub(super) fn look_up_within(
        &self,
        transaction: &Arc<Transaction>,
        id: RawBsonRef<'_>,
    ) -> Result<Option<FoundRecord<Vec<u8>>>> {
        let database = self.shared().store.enter()?;
        transaction.statement(&database, transaction.operation(), |open| {
            let Some(state) = self.find_state()? else { return Ok(None) };
            let key = record_key(&state, id);
            if !is_by_key(&state, id, &key) {
                return Ok(None);
            }
            notes::looked_up();
            let bytes =
                open.get(Family::Records, &key).map_err(|error| error.in_namespace(&state.namespace))?;
            open.check(&state)?;
            open.note_read(&state, Some(&key))?;
            Ok(Some(FoundRecord { key, bytes }))
        })
    }

    /// Stages a write as a statement. Returns `None` if the collection does not exist.
    pub(super) fn stage<R>(
        &self,
        transaction: &Arc<Transaction>,
        missing: Missing,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        transaction.admit_write("a write")?;
        // The commit of a call that is a transaction by itself has its concern.
        if terms.concern.is_some() && self.caller().once.is_none() {
            let message = "a write concern is given when a transaction is started, and not to its statements";
            return Err(Error::invalid_argument(message));
        }
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        transaction.statement(&database, terms.operation, |open| {
            terms.operation.look()?;
            let state = match (self.find_within(open)?, missing) {
                (Some(state), _) => state,
                (None, Missing::Skip) => {
                    shared.catalog.refuse_view(self.valid_namespace()?)?;
                    return Ok(None);
                }
                (None, Missing::Create) => Cow::Owned(self.make_within(open, &database)?),
            };
            // Without the gate, which the commit enters: it makes sure that the definition is still this one.
            let definition = state.definition();
            open.check(&state)?;
            if definition.capped.is_some() {
                return Err(refused_within(&format!("a write to the capped collection {}", state.namespace)));
            }
            let validation = definition.validation.as_deref();
            let checks = Checks::of(&state.namespace, validation, || self.checking(terms.operation));
            let (storage, level) = (shared.storage(&database), CommitLevel::Delayed);
            let target =
                Target::within(storage, &state, &definition, &shared.generator, (level, terms.operation));
            let target = Target {
                acquirer: self.caller().acquirer.as_deref(),
                checks: checks.as_ref(),
                staging: Some(Staging { open, state: &state }),
                once: self.caller().once.as_deref(),
                ..target
            };
            operation(target).map(Some).map_err(|error| error.in_namespace(&state.namespace))
        })
    }
}

/// Makes a collection for a transaction alone, whose name was looked for. The commit puts it into the catalog.
pub(super) fn make(
    open: &Open,
    shared: &Shared,
    database: &Arc<Database>,
    declared: (&Namespace, &NewCollection),
) -> Result<Arc<CollectionState>> {
    let (namespace, new) = declared;
    shared.catalog.refuse_view(namespace)?;
    if open.made.has_case_clash(&namespace.db) {
        let message =
            format!("the transaction has made a database '{}' whose name differs only in case", namespace.db);
        return Err(Error::command(Code::DATABASE_DIFFER_CASE, message));
    }
    let made = shared.catalog.make_unpublished(shared.storage(database), namespace, new)?;
    let made = made.ok_or_else(conflict)?;
    charge(open, &made)?;
    open.made.add(Arc::clone(&made));
    Ok(made)
}

/// Counts the memory of what was made: it is as bounded as what is staged.
fn charge(open: &Open, made: &CollectionState) -> Result<()> {
    let declared = entry::encode(&made.namespace, &made.definition())?.len();
    open.change(|stage| stage.add_made(declared))
}

/// Adds an index to a collection that the transaction has made, and in which it has written nothing.
fn add_index(
    open: &Open,
    catalog: &Catalog,
    state: &Arc<CollectionState>,
    wanted: (&IndexModel, &OperationContext),
) -> Result<String> {
    let (model, operation) = wanted;
    let namespace = &state.namespace;
    if !open.made.has(state) {
        return Err(refused_within(&format!(
            "to create an index on {namespace}, which it has not made itself"
        )));
    }
    // The index on `_id` is always there.
    let Some(definition) = index_definition::parse(model, &state.collation)? else {
        return Ok(ID_INDEX_NAME.to_owned());
    };
    refuse_expiry(state, definition.settings.expire_after_seconds)?;
    let name = definition.name.clone();
    if index_definition::compare(&definition, &state.indexes())? == Presence::Identical {
        return Ok(name);
    }
    if open.stage().has_touched(state.id) {
        return Err(refused_within(&format!("to create an index on {namespace} after it has written there")));
    }
    let id = catalog.take_index_id()?.ok_or_else(conflict)?;
    let index = index_definition::index(definition, id, state.record_keys.long_keys);
    state.add_first_index(index, operation)?;
    charge(open, state)?;
    Ok(name)
}
