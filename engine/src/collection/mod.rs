//! `Collection<T>`: the handle, and one file for each verb or family of verbs.
//!
//! A verb takes its required arguments and returns an action; every option is a setter; `run` does it. A verb
//! holds no logic of storage: it resolves the collection, opens what the layers below need, and shapes the result.

#[macro_use]
mod setters;

mod aggregate;
mod auto_increment;
mod bulk_write;
mod count;
mod delete;
mod distinct;
mod explain;
mod find;
mod find_and_modify;
pub(crate) mod indexes;
mod insert_many;
mod insert_one;
mod manage;
mod replace;
mod size;
mod update;
pub(crate) mod whole;

pub use self::aggregate::Aggregate;
pub(crate) use self::aggregate::ExplainedPipeline;
pub use self::auto_increment::{
    AlterAutoIncrement, AutoIncrementField, CreateAutoIncrement, DropAutoIncrement, ListAutoIncrements,
};
pub use self::bulk_write::BulkWrite;
pub use self::count::{CountDocuments, EstimatedDocumentCount};
pub use self::delete::Delete;
pub use self::distinct::Distinct;
pub use self::find::{Find, FindOne};
pub(crate) use self::find_and_modify::Modified;
pub use self::find_and_modify::{FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate};
pub use self::indexes::{CreateIndex, CreateIndexes, DropIndex, ListIndexNames, ListIndexes};
pub use self::insert_many::InsertMany;
pub use self::insert_one::InsertOne;
pub use self::manage::{DropCollection, RenameCollection, TruncateCollection};
pub use self::replace::ReplaceOne;
pub(crate) use self::size::Size;
pub use self::update::Update;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use query::operation::{CancellationToken, OperationContext};

use bson::RawBsonRef;

use crate::catalog::change::namespace_not_found;
use crate::catalog::collection::CollectionState;
use crate::error::{Error, Result};
use crate::execute::read_view::{FoundRecord, ReadView, look_up};
use crate::namespace::{Namespace, SystemCollection};
use crate::options::WriteConcern;
use crate::plan::selector::Selector;
use crate::shared::{Caller, Shared};
use crate::storage::Database as StorageDatabase;
use crate::storage::fork::refuse_child;
use crate::storage::handles::Storage;
use crate::write::Target;
use crate::write::prepare::record_key;

/// A collection of documents of the type `T`: any serde type, `bson::Document`, or `bson::RawDocumentBuf` for
/// bytes as they are.
///
/// A handle is cheap to clone and may be used from many threads. The collection itself comes to be with its first
/// write.
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
    handle: Arc<Handle>,
    row: PhantomData<fn() -> T>,
}

struct Handle {
    shared: Arc<Shared>,
    caller: Caller,
    /// Absent when the names are not allowed; the verbs report why.
    namespace: std::result::Result<Namespace, Error>,
    shown: Namespace,
    /// The collection as first resolved. A look at its `retired` flag tells whether it still is the one.
    resolved: OnceLock<Arc<CollectionState>>,
}

/// A collection that is read, in memory and on the disk.
struct Viewed<'a> {
    database: &'a Arc<StorageDatabase>,
    state: &'a CollectionState,
    view: ReadView,
}

/// What a write does when its collection does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Create,
    Skip,
}

/// On which terms a write is done.
#[derive(Clone, Copy)]
struct Terms<'a> {
    /// When it counts as done.
    concern: Option<&'a WriteConcern>,
    /// What it may use.
    operation: &'a OperationContext,
}

impl<T> Collection<T> {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, db: &str, coll: &str) -> Self {
        let handle = Handle {
            shared,
            caller,
            namespace: Namespace::parse(db, coll),
            shown: Namespace { db: db.to_owned(), coll: coll.to_owned() },
            resolved: OnceLock::new(),
        };
        Self { handle: Arc::new(handle), row: PhantomData }
    }

    pub(crate) fn of_system(shared: Arc<Shared>, system: SystemCollection) -> Self {
        let shown = system.namespace();
        let handle = Handle {
            shared,
            caller: Caller::default(),
            namespace: Ok(shown.clone()),
            shown,
            resolved: OnceLock::new(),
        };
        Self { handle: Arc::new(handle), row: PhantomData }
    }

    /// The collection's name.
    pub fn name(&self) -> &str {
        &self.handle.shown.coll
    }

    /// `database.collection`.
    pub fn namespace(&self) -> Namespace {
        self.handle.shown.clone()
    }

    /// The same collection, with documents as another type.
    pub fn clone_with_type<U>(&self) -> Collection<U> {
        Collection { handle: Arc::clone(&self.handle), row: PhantomData }
    }

    /// A handle to the same collection, whose operations `token` ends; see
    /// [`Client::with_cancellation`](crate::Client::with_cancellation).
    pub fn with_cancellation(&self, token: &CancellationToken) -> Self {
        self.for_caller(self.handle.caller.with_cancellation(token))
    }

    fn for_caller(&self, caller: Caller) -> Self {
        let Handle { shared, namespace, shown, resolved, caller: _ } = &*self.handle;
        let handle = Handle {
            shared: Arc::clone(shared),
            caller,
            namespace: namespace.clone(),
            shown: shown.clone(),
            resolved: resolved.clone(),
        };
        Self { handle: Arc::new(handle), row: PhantomData }
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// What an operation of this handle may use, which begins now.
    fn begin(&self, max_time: Option<Duration>) -> OperationContext {
        self.shared().operation(&self.handle.caller, max_time)
    }

    /// What a write that computes nothing may use.
    fn begin_plain(&self, max_time: Option<Duration>) -> OperationContext {
        self.shared().plain_operation(&self.handle.caller, max_time)
    }

    fn valid_namespace(&self) -> Result<&Namespace> {
        self.handle.namespace.as_ref().map_err(Clone::clone)
    }

    /// The collection, if it exists.
    #[inline]
    fn find_state(&self) -> Result<Option<Cow<'_, Arc<CollectionState>>>> {
        if let Some(state) = self.handle.resolved.get()
            && !state.is_retired()
        {
            // Borrowed: threads that share a handle must not share a reference count as well.
            return Ok(Some(Cow::Borrowed(state)));
        }
        let found = self.shared().catalog.find(self.valid_namespace()?);
        if let Some(state) = &found {
            // Only the first resolution is kept; after a drop or rename the catalog is asked every time.
            let _ = self.handle.resolved.set(Arc::clone(state));
        }
        Ok(found.map(Cow::Owned))
    }

    /// Runs `check` if a write would have to make the collection: a refused insert leaves no trace, so one that is
    /// refused whatever the collection holds must be refused before.
    #[inline]
    fn check_before_creation(&self, check: impl FnOnce() -> Result<()>) -> Result<()> {
        refuse_child()?;
        if self.handle.resolved.get().is_some_and(|state| !state.is_retired()) || self.find_state()?.is_some()
        {
            return Ok(());
        }
        check().map_err(|error| error.in_namespace(&self.handle.shown))
    }

    /// Runs a write on the collection, which is made first if it does not exist.
    fn write<R>(&self, terms: Terms<'_>, operation: impl FnOnce(Target<'_>) -> Result<R>) -> Result<R> {
        let written = self.write_if(Missing::Create, terms, operation)?;
        Ok(written.expect("a missing collection was made"))
    }

    /// Runs a write on the collection if it exists.
    fn write_existing<R>(
        &self,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.write_if(Missing::Skip, terms, operation)
    }

    #[inline]
    fn write_if<R>(
        &self,
        missing: Missing,
        terms: Terms<'_>,
        operation: impl FnOnce(Target<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let shared = self.shared();
        let level = shared.commit_level(terms.concern)?;
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        loop {
            let state = match (self.find_state()?, missing) {
                (Some(state), _) => state,
                (None, Missing::Skip) => return Ok(None),
                (None, Missing::Create) => {
                    Cow::Owned(shared.find_or_create(&database, self.valid_namespace()?)?)
                }
            };
            // A collection that was dropped between the look-up and here is looked up, and made, again.
            let Some(definition) = state.enter() else { continue };
            let target = Target {
                store: &shared.store,
                database: &database,
                collection: &state,
                indexes: &definition.indexes,
                fields: &definition.fields,
                acquirer: self.handle.caller.acquirer.as_deref(),
                generator: &shared.generator,
                level,
                preview: None,
                operation: terms.operation,
            };
            return operation(target).map(Some).map_err(|error| error.in_namespace(&state.namespace));
        }
    }

    /// Runs a change on the collection itself, which must exist.
    fn change_existing<R>(&self, change: impl Fn(&CollectionState, Storage<'_>) -> Result<R>) -> Result<R> {
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.valid_namespace()?;
        loop {
            let state = shared.catalog.find(namespace).ok_or_else(|| namespace_not_found(namespace))?;
            match change(&state, shared.storage(&database)) {
                // Dropped or renamed between the look-up and the change: another may have the name now.
                Err(_) if state.is_retired() => {}
                done => return done.map_err(|error| error.in_namespace(namespace)),
            }
        }
    }

    /// Runs a search on the collection if it exists, in a view of this moment.
    fn search<R>(
        &self,
        selector: &Selector,
        operation: impl FnOnce(ReadView) -> Result<R>,
    ) -> Result<Option<R>> {
        let database = self.shared().store.enter()?;
        let taken = ReadView::for_search(&database, || self.find_state(), selector)?;
        let Some((state, view)) = taken else { return Ok(None) };
        operation(view).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }

    /// Runs a read of all of the collection if it exists, in a view of this moment.
    fn view<R>(&self, operation: impl FnOnce(Viewed<'_>) -> Result<R>) -> Result<Option<R>> {
        let database = self.shared().store.enter()?;
        let Some((state, view)) = ReadView::take(&database, || self.find_state())? else { return Ok(None) };
        let viewed = Viewed { database: &database, state: &state, view };
        operation(viewed).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }

    /// Looks up the record of an `_id`, if there is a collection.
    #[inline]
    fn look_up(&self, id: RawBsonRef<'_>) -> Result<Option<FoundRecord<Vec<u8>>>> {
        let database = self.shared().store.enter()?;
        let found = look_up(&database, || self.find_state(), |collection| record_key(collection, id));
        Ok(found.map_err(|error| error.in_namespace(&self.handle.shown))?.map(|(_, record)| record))
    }

    /// Runs a read of what is known of the collection, if it exists. Who reads documents takes a view.
    fn read<R>(
        &self,
        operation: impl FnOnce(&Arc<StorageDatabase>, &CollectionState) -> Result<R>,
    ) -> Result<Option<R>> {
        let database = self.shared().store.enter()?;
        let Some(state) = self.find_state()? else { return Ok(None) };
        operation(&database, &state).map(Some).map_err(|error| error.in_namespace(&state.namespace))
    }
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), row: PhantomData }
    }
}

impl<T> std::fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection").field("namespace", &self.handle.shown).finish_non_exhaustive()
    }
}
