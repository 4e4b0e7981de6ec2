//! The struct `Collection`, and how its verbs reach the store: resolving the name, entering the store, and the checks that
//! come before a write.
//!
//! The verbs are in the files beside this one. They import it, and it imports none of them.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::error::{Error, Result};
use base::namespace::{Namespace, SystemCollection};
use index::collation::Collation as Rules;
use query::operation::{CancellationToken, OperationContext};
use store::Database as StorageDatabase;
use store::InUse;
use store::fork::refuse_child;
use store::handles::Storage;
use store::write::CommitLevel;

use crate::catalog::collection::CollectionState;
use crate::catalog::views::ViewSet;
use crate::collection::others::{Others, Own};
use crate::execute::foreign::ForeignViews;
use crate::execute::read_view::{ReadView, check_default};
use crate::metrics::recorder::Recorder;
use crate::metrics::verb::Verb;
use crate::metrics::watch::Watch;
use crate::options::{Collation, WriteConcern};
use crate::plan::selector::Selector;
use crate::session::ClientSession;
use crate::shared::{Caller, Shared};
use crate::transaction::{Transaction, names_changed};
use crate::write::Target;
use crate::write::find::Walk;
use crate::write::validation::Checks;

/// A collection of documents of the type `T`: any serde type, [`bson::Document`] for documents without a schema, or
/// [`bson::RawDocumentBuf`] for raw bytes.
///
/// A handle comes from [`Database::collection`](crate::Database::collection). It is cheap to clone and can be used from
/// many threads. The first write creates the collection.
///
/// Every verb returns an action. Set its options with the action's methods and execute it with `run()`.
///
/// ```
/// use cairndb::{Client, bson::doc};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Person {
///     name: String,
///     age: i32,
/// }
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Person>("people");
/// people.insert_one(Person { name: "Ada".to_owned(), age: 36 }).run()?;
/// let found = people.find_one(doc! { "age": { "$gt": 30 } }).run()?;
/// assert_eq!(found.expect("Ada is there").name, "Ada");
/// # Ok(())
/// # }
/// ```
pub struct Collection<T> {
    /// The handle that reaches the store. `T` is only what documents are turned into and made from.
    pub(crate) handle: Arc<Handle>,
    // A function type, so that the handle is `Send` and `Sync` whatever `T` is.
    row: PhantomData<fn() -> T>,
}

/// A collection without the type of its documents. The clones of a [`Collection`] share it, and the actions borrow it: so the verbs
/// are compiled once, and not again in each program for each type.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    caller: Caller,
    /// The name as the caller gave it.
    pub(super) given: Arc<Namespace>,
    /// The error that every verb returns, because the name is not allowed for example.
    refusal: Option<Error>,
    /// The collection as first resolved. It is stale once its state is retired, that is after a drop or a rename.
    resolved: OnceLock<Arc<CollectionState>>,
    /// Whether operations compare texts by their bytes unless they say otherwise, whatever the collection does.
    pub(super) is_by_bytes: bool,
}

/// A collection that is being read: its state in memory, and a snapshot of its documents.
pub(super) struct Viewed<'a> {
    pub(super) database: &'a Arc<StorageDatabase>,
    pub(super) state: &'a CollectionState,
    pub(super) view: ReadView,
}

/// The action of a write if its collection does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Skip,
}

/// The open store, as a write uses it: `close` waits for the end of this.
struct Entered<'a> {
    database: InUse<'a>,
    level: CommitLevel,
}

/// The settings of a write: its concern and its limits.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// The write concern. `None` means as the client was opened.
    pub(super) concern: Option<&'a WriteConcern>,
    /// The time, memory and cancellation of the operation.
    pub(super) operation: &'a OperationContext,
}

impl<T> Collection<T> {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, db: &str, coll: &str) -> Self {
        Self::of(Handle::new(shared, caller, db, coll))
    }

    pub(crate) fn of_system(shared: Arc<Shared>, system: SystemCollection) -> Self {
        Self::of(Handle::of_system(shared, system))
    }

    fn of(handle: Handle) -> Self {
        Self { handle: Arc::new(handle), row: PhantomData }
    }

    /// Returns the name of the collection, without the database's.
    ///
    /// ```
    /// # use cairndb::{Client, bson::Document};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// assert_eq!(people.name(), "people");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.handle.given.coll
    }

    /// Returns the names of database and collection.
    ///
    /// ```
    /// # use cairndb::{Client, bson::Document};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// assert_eq!(people.namespace().to_string(), "app.people");
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(&self) -> Namespace {
        Namespace::clone(&self.handle.given)
    }

    /// Returns a handle to this collection that reads and writes documents as another type.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, RawDocumentBuf, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// let raw = people.clone_with_type::<RawDocumentBuf>();
    /// let ada = raw.find_one(doc! {}).run()?.expect("inserted above");
    /// assert_eq!(ada.get_str("name").ok(), Some("Ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clone_with_type<U>(&self) -> Collection<U> {
        Collection { handle: Arc::clone(&self.handle), row: PhantomData }
    }

    /// Returns a handle to this collection whose operations end when `token` is cancelled. They fail with code 11601
    /// (`Interrupted`).
    ///
    /// [`Client::with_cancellation`](crate::Client::with_cancellation) describes what is ended and what stays.
    ///
    /// ```
    /// # use cairndb::{CancellationToken, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// let token = CancellationToken::new();
    /// let report = people.with_cancellation(&token);
    /// token.cancel();
    /// assert_eq!(report.count_documents(doc! {}).run().unwrap_err().code(), Some(11_601));
    /// // The other handle does not know the token.
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        let caller = self.handle.caller.with_cancellation(token);
        // The resolved collection is handed on, so that the new handle needs no lookup.
        Self::of(self.handle.called_by(caller))
    }

    /// The same handle, whose operations compare texts by their bytes unless they say otherwise, whatever the collection does.
    pub(crate) fn by_bytes(&self) -> Self {
        let handle = self.handle.called_by(self.handle.caller.clone());
        Self::of(Handle { is_by_bytes: true, ..handle })
    }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, caller: Caller, db: &str, coll: &str) -> Self {
        Self {
            shared,
            caller,
            given: Arc::new(Namespace { db: db.to_owned(), coll: coll.to_owned() }),
            // As in MongoDB's driver, to make a handle is not an error. The verbs report a bad name.
            refusal: Namespace::parse(db, coll).err(),
            resolved: OnceLock::new(),
            is_by_bytes: false,
        }
    }

    fn of_system(shared: Arc<Shared>, system: SystemCollection) -> Self {
        Self {
            shared,
            caller: Caller::default(),
            given: Arc::new(system.namespace()),
            // `Namespace::parse` rejects system collections, so that no other handle reaches them.
            refusal: None,
            resolved: OnceLock::new(),
            is_by_bytes: false,
        }
    }

    /// The same collection for another caller. What is resolved already is handed on, so that it needs no look-up.
    pub(super) fn called_by(&self, caller: Caller) -> Self {
        let Self { shared, caller: _, given, refusal, resolved, is_by_bytes } = self;
        Self {
            shared: Arc::clone(shared),
            caller,
            given: Arc::clone(given),
            refusal: refusal.clone(),
            resolved: resolved.clone(),
            is_by_bytes: *is_by_bytes,
        }
    }

    /// The same collection for the statements of a session.
    pub(super) fn in_session(&self, session: &ClientSession) -> Self {
        let mut handle = self.called_by(self.caller.clone());
        match session.statement_of(&self.shared) {
            Ok(Some(transaction)) => handle.caller = handle.caller.in_transaction(&transaction),
            Ok(None) => handle.caller.transaction = None,
            Err(refused) => {
                // Every verb reports it, as it does a name that is not allowed.
                handle.refusal = Some(refused);
                handle.resolved = OnceLock::new();
            }
        }
        handle
    }

    /// The transaction that operations are statements of.
    pub(super) fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.caller.transaction.as_ref()
    }

    /// A handle to another collection of the same database, for the same caller.
    pub(super) fn beside(&self, name: &str) -> Self {
        Self::new(Arc::clone(&self.shared), self.caller.clone(), &self.given.db, name)
    }

    /// State shared by all handles of the client.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The caller context.
    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Begins to measure a call of a verb.
    #[inline]
    pub(super) fn watch(&self, verb: Verb) -> Watch<'_> {
        Watch::start(&self.shared.recorder, &self.given, verb)
    }

    /// The meters of calls, and the name that they are logged with.
    pub(super) fn measured(&self) -> (Arc<Recorder>, Arc<Namespace>) {
        (Arc::clone(&self.shared.recorder), Arc::clone(&self.given))
    }

    /// Starts an operation of this handle. Its time counts from now.
    pub(super) fn begin(&self, max_time: Option<Duration>) -> OperationContext {
        self.shared.operation(&self.caller, max_time)
    }

    /// Starts an operation that evaluates no expressions, such as an insert.
    pub(super) fn begin_plain(&self, max_time: Option<Duration>) -> OperationContext {
        self.shared.plain_operation(&self.caller, max_time)
    }

    /// Returns the checked name, or the error that says why it is not allowed.
    pub(super) fn valid_namespace(&self) -> Result<&Namespace> {
        self.refusal.as_ref().map_or(Ok(&*self.given), |refusal| Err(refusal.clone()))
    }

    /// Resolves the collection. Returns `None` if it does not exist.
    #[inline]
    pub(super) fn find_state(&self) -> Result<Option<Cow<'_, Arc<CollectionState>>>> {
        if let Some(state) = self.resolved.get()
            && !state.is_retired()
        {
            // Borrowed, because a clone would make all threads of this handle write to one reference count.
            return Ok(Some(Cow::Borrowed(state)));
        }
        if let Some(made) = self.made_state()? {
            return Ok(Some(Cow::Owned(made)));
        }
        let found = self.shared.catalog.find(self.valid_namespace()?);
        if let Some(state) = &found {
            // Only the first resolution is kept; after a drop or rename the catalog is asked every time.
            let _ = self.resolved.set(Arc::clone(state));
        }
        Ok(found.map(Cow::Owned))
    }

    /// The view with this name, and all views that it leads to. Returns `None` if it is not a view.
    #[inline]
    pub(super) fn views(&self) -> Result<Option<ViewSet>> {
        // Nearly always a collection, and then its state is known already.
        if self.resolved.get().is_some_and(|state| !state.is_retired()) {
            return Ok(None);
        }
        // Before the catalog is asked: a forked child would wait for its lock for ever.
        let in_use = self.shared.store.enter()?;
        if self.find_state()?.is_some() {
            return Ok(None);
        }
        let Namespace { db, coll } = self.valid_namespace()?;
        let views = self.shared.catalog.views_among(db, [coll.as_str()]);
        if let (Some(transaction), false) = (&self.caller.transaction, views.is_empty()) {
            transaction.statement(&in_use, &OperationContext::default(), |open| {
                if !self.shared.catalog.names_are_as_of(open.sequence()) {
                    return Err(names_changed());
                }
                open.note_view()
            })?;
        }
        Ok((!views.is_empty()).then_some(views))
    }

    /// The comparison of strings in an operation: its own, else the default of the collection or the view.
    #[inline]
    pub(super) fn rules(&self, given: Option<&Collation>) -> Result<Rules> {
        if given.is_some() {
            return Collation::rules(given);
        }
        // Nearly always a collection that is known already.
        match self.resolved.get().filter(|state| !state.is_retired()) {
            Some(state) if !self.is_by_bytes => Ok(state.collation.clone().as_default()),
            Some(_) => Ok(Rules::simple()),
            None => self.default_rules(),
        }
    }

    /// The default comparison of strings of the collection or the view of this name. What does not exist compares
    /// bytes.
    fn default_rules(&self) -> Result<Rules> {
        // Before the catalog is asked: a forked child would wait for its lock for ever. The store is not entered: the
        // caller may have entered it, and would wait for itself if it is being closed.
        refuse_child()?;
        self.shared.store.refuse_closing()?;
        let state = self.find_state()?;
        if self.is_by_bytes {
            return Ok(Rules::simple());
        }
        if let Some(state) = state {
            return Ok(state.collation.clone().as_default());
        }
        let view = self.shared.catalog.find_view(self.valid_namespace()?);
        Ok(view.map(|view| view.definition.collation.clone()).unwrap_or_default())
    }

    /// Whether the name is that of a view.
    pub(crate) fn is_view(&self) -> Result<bool> {
        Ok(self.views()?.is_some())
    }

    /// Runs `check` if a write would have to create the collection.
    ///
    /// A rejected write must not leave an empty collection. So what can be rejected without looking at stored documents is
    /// rejected before the collection is created.
    #[inline]
    pub(super) fn check_before_creation(&self, check: impl FnOnce() -> Result<()>) -> Result<()> {
        // First of all, because in a forked child even a look-up could wait for a lock of a thread that is not there.
        refuse_child()?;
        if self.resolved.get().is_some_and(|state| !state.is_retired()) || self.find_state()?.is_some() {
            return Ok(());
        }
        check().map_err(|error| error.in_namespace(&self.given))
    }

    /// Runs a write on the collection. A collection that does not exist is created first.
    pub(super) fn write<R>(
        &self,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<R> {
        let written = self.write_if(Missing::Create, terms, operation)?;
        Ok(written.expect("a missing collection was created"))
    }

    /// Runs a write on the collection that returns `None` when it is to leave the collection's gate for a moment, and is called again
    /// then. A collection that does not exist is created first, each time.
    pub(super) fn write_in_parts<R>(
        &self,
        terms: Terms<'_>,
        mut part: impl FnMut(Target<'_>) -> Result<Option<R>>,
    ) -> Result<R> {
        if let Some(transaction) = &self.caller.transaction {
            // It never pauses: it has entered no gate.
            let done = self.stage(transaction, Missing::Create, terms, part)?.flatten();
            return Ok(done.expect("a missing collection is refused"));
        }
        // Held to the end: `close` waits for the whole write.
        let entered = self.enter_to_write(terms)?;
        loop {
            if let Some(Some(done)) = self.in_gate(&entered, Missing::Create, terms, &mut part)? {
                return Ok(done);
            }
        }
    }

    /// Runs a write on the collection. Returns `None` if the collection does not exist.
    pub(super) fn write_existing<R>(
        &self,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.write_if(Missing::Skip, terms, operation)
    }

    /// Runs a write that searches for its documents. It leaves the collection's gate when somebody wants to be alone there, and then
    /// `operation` is called again to go on with its walk. Returns `None` if the collection does not exist.
    pub(super) fn write_found<R>(
        &self,
        missing: Missing,
        terms: Terms<'_>,
        mut operation: impl FnMut(Target<'_>, &mut Walk) -> Result<R>,
    ) -> Result<Option<R>> {
        if let Some(transaction) = &self.caller.transaction {
            return self.stage(transaction, missing, terms, |target| operation(target, &mut Walk::default()));
        }
        // Held to the end: `close` waits for the whole write.
        let entered = self.enter_to_write(terms)?;
        let mut walk = Walk::default();
        loop {
            // One that was dropped since the walk began is not made again.
            let missing = if walk.has_begun() { Missing::Skip } else { missing };
            match self.in_gate(&entered, missing, terms, |target| operation(target, &mut walk)) {
                Err(_) if walk.resume() => {}
                Ok(None) if walk.has_begun() => return Err(Walk::is_gone().in_namespace(&self.given)),
                done => return done,
            }
        }
    }

    #[inline]
    fn write_if<R>(
        &self,
        missing: Missing,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        if let Some(transaction) = &self.caller.transaction {
            return self.stage(transaction, missing, terms, operation);
        }
        let entered = self.enter_to_write(terms)?;
        self.in_gate(&entered, missing, terms, operation)
    }

    /// Enters the store to write.
    #[inline]
    fn enter_to_write(&self, terms: Terms<'_>) -> Result<Entered<'_>> {
        let shared = &self.shared;
        // An invalid write concern is the caller's mistake, and is reported whatever the state of the store is.
        let level = shared.commit_level(terms.concern)?;
        // Once before anything is made: a small write may end without another look.
        terms.operation.look()?;
        // Held until the commit has returned: `close` waits for it.
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        Ok(Entered { database, level })
    }

    /// Runs a write in the gate of the collection.
    #[inline]
    fn in_gate<R>(
        &self,
        entered: &Entered<'_>,
        missing: Missing,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let (shared, Entered { database, level }) = (&self.shared, entered);
        let level = *level;
        loop {
            let state = match (self.find_state()?, missing) {
                (Some(state), _) => state,
                (None, Missing::Skip) => {
                    shared.catalog.refuse_view(self.valid_namespace()?)?;
                    // Its drop may not be as safe yet.
                    shared.store.reach(database, level)?;
                    return Ok(None);
                }
                (None, Missing::Create) => {
                    Cow::Owned(shared.find_or_create(database, self.valid_namespace()?)?)
                }
            };
            // The gate keeps the definition until the write is committed. If the collection was dropped, it is resolved, or made, again.
            let Some(definition) = state.enter(terms.operation)? else { continue };
            let validation = definition.validation.as_deref();
            let checks = Checks::of(&state.namespace, validation, || self.checking(terms.operation));
            let storage = shared.storage(database);
            let target =
                Target::within(storage, &state, &definition, &shared.generator, (level, terms.operation));
            let Caller { acquirer, retryable, once, .. } = &self.caller;
            let target = Target {
                acquirer: acquirer.as_deref(),
                retryable: retryable.as_deref(),
                once: once.as_deref(),
                checks: checks.as_ref(),
                ..target
            };
            return operation(target).map(Some).map_err(|error| error.in_namespace(&state.namespace));
        }
    }

    /// The operation that a validator is evaluated in. An insert computes nothing, and so has no limits of its own; an expression
    /// of a validator can need any time and memory.
    #[cold]
    pub(super) fn checking(&self, operation: &OperationContext) -> OperationContext {
        if operation.is_unlimited() { self.begin(None) } else { operation.clone() }
    }

    /// Runs a change of the collection's definition. Fails with code 26 if the collection does not exist.
    pub(super) fn change_existing<R>(
        &self,
        change: impl Fn(&CollectionState, Storage<'_>, &OperationContext) -> Result<R>,
    ) -> Result<R> {
        let operation = self.begin_plain(None);
        let shared = &self.shared;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.valid_namespace()?;
        loop {
            // Asked in every round: after a drop or a rename the state that failed stays retired.
            let state = shared.catalog.find(namespace).ok_or_else(|| shared.catalog.absent(namespace))?;
            match shared.define(&database, |storage| change(&state, storage, &operation)) {
                // Dropped or renamed since it was resolved: another collection may have the name now. A change that was made
                // and could not be synced is not made again.
                Err(error) if state.is_retired() && !error.is_commit_unknown() => {}
                done => return done.map_err(|error| error.in_namespace(namespace)),
            }
        }
    }

    /// Runs a search on a snapshot of this moment. Returns `None` if the collection does not exist.
    pub(super) fn search<R>(
        &self,
        selector: &Selector,
        operation: impl FnOnce(ReadView) -> Result<R>,
    ) -> Result<Option<R>> {
        if let Some(transaction) = &self.caller.transaction {
            return self.search_within(transaction, selector, operation);
        }
        let database = self.shared.store.enter()?;
        // A closure, because the view looks up again if a drop or a rename was announced meanwhile.
        let taken = ReadView::for_search(&database, || self.find_state(), selector)?;
        let Some((state, view)) = taken else { return Ok(None) };
        operation(view).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }

    /// Runs a search on a read view of the moment that the other collections of `others` are read at too. The search is not
    /// run if the collection does not exist; the others are returned in both cases.
    pub(super) fn search_with<R>(
        &self,
        others: &Others<'_>,
        operation: impl FnOnce(ReadView) -> Result<R>,
    ) -> Result<(Option<R>, ForeignViews)> {
        let database = self.shared.store.enter()?;
        let db = &self.valid_namespace()?.db;
        let (catalog, find) = (&self.shared.catalog, || self.find_state());
        let run = |first: Own<'_>, views| {
            let Some((state, view)) = first else { return Ok((None, views)) };
            check_default(others.collation(), &state)?;
            let found = operation(view).map_err(|error| error.in_namespace(&state.namespace))?;
            Ok((Some(found), views))
        };
        let Some(transaction) = &self.caller.transaction else {
            let (first, views) = others.take(catalog, &database, db, &find)?;
            return run(first, views);
        };
        transaction.statement(&database, others.operation(), |open| {
            let (first, views) = others.take_within(catalog, open, db, &find)?;
            run(first, views)
        })
    }

    /// Runs a read of the whole collection on a snapshot of this moment. Returns `None` if the collection does not exist. Fails with
    /// code 166 if a view has the name.
    pub(super) fn view<R>(&self, operation: impl FnOnce(Viewed<'_>) -> Result<R>) -> Result<Option<R>> {
        self.refuse_in_transaction("to read a whole collection")?;
        let database = self.shared.store.enter()?;
        let Some((state, view)) = ReadView::take(&database, || self.find_state())? else {
            self.shared.catalog.refuse_view(self.valid_namespace()?)?;
            return Ok(None);
        };
        let viewed = Viewed { database: &database, state: &state, view };
        operation(viewed).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }

    /// Runs a read of the collection's state in memory. Returns `None` if the collection does not exist. Fails with code 166 if
    /// a view has the name.
    ///
    /// To read documents use [`view`](Self::view), which makes a snapshot.
    pub(super) fn read<R>(
        &self,
        operation: impl FnOnce(&Arc<StorageDatabase>, &CollectionState) -> Result<R>,
    ) -> Result<Option<R>> {
        let database = self.shared.store.enter()?;
        let Some(state) = self.find_state()? else {
            self.shared.catalog.refuse_view(self.valid_namespace()?)?;
            return Ok(None);
        };
        operation(&database, &state).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }
}

impl<T> Clone for Collection<T> {
    // Not derived, because that would require `T: Clone`.
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), row: PhantomData }
    }
}

impl<T> std::fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection").field("namespace", &self.handle.given).finish_non_exhaustive()
    }
}
