//! `create_index`, `create_indexes`, `drop_index`, `drop_indexes`, `list_indexes`, `list_index_names`.

use std::iter;
use std::time::Duration;

use base::error::{Error, Result};
use bson::{Document, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::OperationContext;

use crate::catalog::builds::BuildEnd;
use crate::catalog::change;
use crate::catalog::clustered::Clustered;
use crate::catalog::collection::CollectionState;
use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::collection::handle::{Collection, Handle};
use crate::collection::scope::Scope;
use crate::cursor::{Cursor, RawCursor};
use crate::expiry;
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::one_line::OneLine;
use crate::options::IndexModel;
use crate::progress::IndexBuildProgress;
use crate::results::{CreateIndexResult, CreateIndexesResult};
use crate::session::ClientSession;
use crate::write::index_build::{self, BuildRequest, Callback, Outcome};
use crate::write::index_definition::{self, IndexDefinition};

/// The interval in which a drop checks whether a build that is to end has ended.
const END_INTERVAL: Duration = Duration::from_millis(50);

impl<T> Collection<T> {
    /// Creates an index. A collection that does not exist is created first. It is not an error if the index exists.
    ///
    /// The call returns when the index is built. Meanwhile other threads read and write the collection; reads use the index
    /// from the end of the build on. [`progress`](CreateIndex::progress) says how far it is. A call for an index that another
    /// thread builds waits for that build. A process that dies during a build leaves nothing of it.
    ///
    /// Fails with code 11000 (`DuplicateKey`) if the index is unique and documents have the same key when the build begins or
    /// ends. Writes are not rejected by an index that is being built. Fails with code 67 (`CannotCreateIndex`) if the definition
    /// is not valid, with code 85 (`IndexOptionsConflict`) or 86 (`IndexKeySpecsConflict`) if it contradicts another index, and
    /// with code 276 (`IndexBuildAborted`) if the index or its collection is dropped meanwhile. In each case no index is
    /// created.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let users = client.database("app").collection::<Document>("users");
    /// let unique = IndexOptions::builder().unique(true).build();
    /// users.create_index(IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build()).run()?;
    ///
    /// users.insert_one(doc! { "email": "ada@example.org" }).run()?;
    /// let refused = users.insert_one(doc! { "email": "ada@example.org" }).run();
    /// assert!(refused.is_err_and(|error| error.is_duplicate_key()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_> {
        CreateIndex { collection: Scope::of(&self.handle), model: index, max_time: None, progress: None }
    }

    /// Creates several indexes, one after the other. All definitions are checked before the first index is built.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let [email, name] = ["email", "name"].map(|field| IndexModel::builder().keys(doc! { field: 1 }).build());
    /// let created = people.create_indexes([email, name]).run()?;
    /// assert_eq!(created.index_names, ["email_1", "name_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_indexes(&self, indexes: impl IntoIterator<Item = IndexModel>) -> CreateIndexes<'_> {
        let models = indexes.into_iter().collect();
        CreateIndexes { collection: Scope::of(&self.handle), models, max_time: None }
    }

    /// Removes the index with this name.
    ///
    /// Fails with code 27 (`IndexNotFound`) if no such index exists, and with code 72 (`InvalidOptions`) for the index on
    /// `_id`, which cannot be removed.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// people.drop_index("email_1").run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_> {
        DropIndex { collection: &self.handle, name: Some(name.as_ref().to_owned()), max_time: None }
    }

    /// Removes every index except the one on `_id`.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// people.drop_indexes().run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_indexes(&self) -> DropIndex<'_> {
        DropIndex::all(&self.handle)
    }

    /// Lists the definitions of all indexes, as a cursor. The index on `_id` comes first. The cursor is empty if the
    /// collection does not exist.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let users = client.database("app").collection::<Document>("users");
    /// users.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// let keys = users.list_indexes().run()?.map(|index| Ok(index?.keys));
    /// assert_eq!(keys.collect::<cairndb::Result<Vec<_>>>()?, [doc! { "_id": 1 }, doc! { "email": 1 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_indexes(&self) -> ListIndexes<'_> {
        ListIndexes { collection: &self.handle }
    }

    /// Lists the names of all indexes. The index on `_id` comes first. The list is empty if the collection does not exist.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_", "email_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_index_names(&self) -> ListIndexNames<'_> {
        ListIndexNames { collection: &self.handle }
    }
}

impl Handle {
    /// Returns all indexes, the one on `_id` first. Returns `None` if the collection does not exist.
    pub(crate) fn indexes(&self) -> Result<Option<Vec<Listed>>> {
        self.read(|_, state| {
            let others = state.indexes();
            // The records are the index on `_id`, so the state does not list it. MongoDB lists it first.
            Ok(iter::once(Listed::of_id(state.definition().clustered.as_ref()))
                .chain(others.iter().map(Listed::of))
                .collect())
        })
    }

    /// The name of the index on `_id` of a collection that was declared to be clustered, if the model asks for this one. Fails if
    /// there is none.
    fn clustered_name(&self, model: &IndexModel) -> Result<Option<String>> {
        if model.options.as_ref().and_then(|options| options.clustered) != Some(true) {
            return Ok(None);
        }
        let (catalog, namespace) = (&self.shared().catalog, self.valid_namespace()?);
        catalog.refuse_view(namespace)?;
        let present = self.find_state()?.map(|state| state.definition().clustered);
        let name = index_definition::check_clustered(model, present.as_ref());
        name.map(|name| Some(name.to_string())).map_err(|error| error.in_namespace(namespace))
    }

    /// Builds an index and returns its name. An index that exists is not built again.
    fn build_index(
        &self,
        model: &IndexModel,
        operation: &OperationContext,
        mut callback: Option<&mut Callback<'_>>,
    ) -> Result<String> {
        if let Some(transaction) = self.transaction() {
            // Wrong arguments leave the transaction open.
            if let Some(name) = self.clustered_name(model)? {
                return Ok(name);
            }
            index_definition::parse(model, &self.rules(None)?)?;
            return self.stage_index(transaction, model, operation);
        }
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.valid_namespace()?;
        // It is never built: only a collection that was declared so has it.
        if let Some(name) = self.clustered_name(model)? {
            return Ok(name);
        }
        // Before the collection is made: a bad definition must not leave an empty one.
        index_definition::parse(model, &self.rules(None)?)?;
        loop {
            let state = shared.find_or_create(&database, namespace)?;
            let definition = index_definition::parse(model, &state.collation)?;
            // The index on `_id` always exists: asking for it only creates the collection.
            let Some(definition) = &definition else {
                // Another thread may have created it, and not have synced it yet.
                shared.store.sync_written(&database)?;
                return Ok(ID_INDEX_NAME.to_owned());
            };
            let request = BuildRequest {
                storage: shared.storage(&database),
                catalog: &shared.catalog,
                collection: &state,
                definition,
                memory: shared.options.index_build_memory,
                operation,
            };
            match index_build::create(request, callback.as_deref_mut())? {
                Outcome::Present => {
                    // Another thread may have built it, and not have synced it yet.
                    shared.store.sync_written(&database)?;
                    // Its error is not a reason to deny the index, which is there; the next open starts the thread.
                    if let Err(error) = expiry::start_if_needed(shared) {
                        tracing::warn!(error = %OneLine(error), "the thread that deletes expired documents could not be started");
                    }
                    return Ok(definition.name.clone());
                }
                Outcome::Changed => {}
            }
        }
    }
}

/// The action that [`Collection::create_index`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
/// let created = people.create_index(by_email).max_time(Duration::from_secs(60)).run()?;
/// assert_eq!(created.index_name, "email_1");
/// # Ok(())
/// # }
/// ```
#[must_use = "the index is created by run()"]
pub struct CreateIndex<'a> {
    collection: Scope<'a>,
    model: IndexModel,
    max_time: Option<Duration>,
    progress: Option<Box<Callback<'a>>>,
}

/// The action that [`Collection::create_indexes`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
/// let created = people.create_indexes([by_email]).max_time(Duration::from_secs(60)).run()?;
/// assert_eq!(created.index_names, ["email_1"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "the indexes are created by run()"]
pub struct CreateIndexes<'a> {
    collection: Scope<'a>,
    models: Vec<IndexModel>,
    max_time: Option<Duration>,
}

/// The action that [`Collection::drop_index`] and [`Collection::drop_indexes`] return. [`run`](Self::run) executes it.
#[must_use = "the index is removed by run()"]
pub struct DropIndex<'a> {
    collection: &'a Handle,
    name: Option<String>,
    max_time: Option<Duration>,
}

/// The action that [`Collection::list_indexes`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListIndexes<'a> {
    collection: &'a Handle,
}

/// The action that [`Collection::list_index_names`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListIndexNames<'a> {
    collection: &'a Handle,
}

impl<'a> CreateIndex<'a> {
    /// Makes the action a statement of a session: a part of its transaction, if it has started one. A transaction can create indexes
    /// only on a collection that it has made itself, and before it writes there. A collection that does not exist is made by it.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.create_index(by_email).session(&mut session).run()?;
    /// people.insert_one(doc! { "email": "ada@example.org" }).session(&mut session).run()?;
    /// session.commit_transaction().run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_", "email_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        self.collection = self.collection.within(session);
        self
    }

    /// The time limit of the build. When it is over the call fails with code 50 (`MaxTimeMSExpired`), and there is no index.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
    /// people.create_index(by_email).max_time(std::time::Duration::from_secs(60)).run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_", "email_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// A function that receives the progress of the build: at the beginning and the end of each of its phases, and in between about
    /// ten times a second. It is called on the thread of [`run`](Self::run). The build goes on when it returns; writers do not
    /// wait for it. It must not drop the index or its collection, as a drop waits for the end of the build.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many((0..100).map(|age| doc! { "age": age })).run()?;
    /// let by_age = IndexModel::builder().keys(doc! { "age": 1 }).build();
    /// let mut lines = Vec::new();
    /// let told = people.create_index(by_age).progress(|at| lines.push(format!("{}: {}/{}", at.phase, at.done, at.total)));
    /// told.run()?;
    /// assert_eq!(lines.first().map(String::as_str), Some("scanning collection: 0/100"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(self, tell: impl FnMut(&IndexBuildProgress) + Send + 'a) -> Self {
        Self { progress: Some(Box::new(tell)), ..self }
    }

    /// Creates the index and returns its name.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// assert_eq!(people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?.index_name, "email_1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(mut self) -> Result<CreateIndexResult> {
        let watch = self.collection.watch(Verb::CreateIndexes);
        let operation = self.collection.begin_plain(self.max_time);
        let built = self.collection.build_index(&self.model, &operation, self.progress.as_deref_mut());
        Ok(CreateIndexResult { index_name: watch.end(built, Requested::default)? })
    }
}

impl<'a> CreateIndexes<'a> {
    /// Makes the action a statement of a session: a part of its transaction, if it has started one. A transaction can create indexes
    /// only on a collection that it has made itself, and before it writes there. A collection that does not exist is made by it.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// people.create_indexes([by_email]).session(&mut session).run()?;
    /// people.insert_one(doc! { "email": "ada@example.org" }).session(&mut session).run()?;
    /// session.commit_transaction().run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_", "email_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        self.collection = self.collection.within(session);
        self
    }

    /// The time limit of all builds together. When it is over the call fails with code 50 (`MaxTimeMSExpired`). Indexes that
    /// were built by then stay.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).build();
    /// people.create_indexes([by_email]).max_time(std::time::Duration::from_secs(60)).run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_", "email_1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Creates the indexes and returns their names.
    pub fn run(self) -> Result<CreateIndexesResult> {
        if self.models.is_empty() {
            return Err(Error::invalid_argument("create_indexes was called without indexes"));
        }
        // A build can be slow, so all definitions are checked before the first.
        let default = self.collection.rules(None)?;
        let check = |model| match self.collection.clustered_name(model)? {
            Some(_) => Ok(()),
            None => index_definition::parse(model, &default).map(|_: Option<IndexDefinition>| ()),
        };
        self.models.iter().try_for_each(check)?;
        let operation = self.collection.begin_plain(self.max_time);
        // Lazy, so the first build that fails ends the call. Indexes that were built before it stay.
        // One call, however many indexes it builds.
        let watch = self.collection.watch(Verb::CreateIndexes);
        let names = self.models.iter().map(|model| self.collection.build_index(model, &operation, None));
        Ok(CreateIndexesResult { index_names: watch.end(names.collect(), Requested::default)? })
    }
}

impl<'a> DropIndex<'a> {
    /// Removes all indexes but the one on `_id`.
    pub(super) fn all(collection: &'a Handle) -> Self {
        Self { collection, name: None, max_time: None }
    }

    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`), and no index is removed. Builds of the
    /// indexes are ended before the removal, and stay ended; waiting for them is what can need time.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// people.drop_index("email_1").max_time(std::time::Duration::from_secs(60)).run()?;
    /// assert_eq!(people.list_index_names().run()?, ["_id_"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Removes the index or indexes.
    pub fn run(self) -> Result<()> {
        let watch = self.collection.watch(Verb::DropIndexes);
        watch.end(self.drop_named(), Requested::default)
    }

    fn drop_named(&self) -> Result<()> {
        let operation = self.collection.begin_plain(self.max_time);
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        // It cannot be removed: the records are this index. The code is MongoDB's.
        if self.name.as_deref() == Some(ID_INDEX_NAME) {
            return Err(Error::command(Code::INVALID_OPTIONS, "cannot drop _id index"));
        }
        let clustered = shared.catalog.find(namespace).and_then(|state| state.definition().clustered);
        if clustered.is_some_and(|index| self.name.as_deref() == Some(&*index.name)) {
            return Err(Error::command(Code::CLUSTERED_DROP, "It is illegal to drop the clusteredIndex"));
        }
        // Before the builds: a call that is over already ends none.
        operation.look()?;
        // A build of it ends first. What was built in spite of that is dropped below.
        let ended = self.end_builds(shared.catalog.find(namespace).as_deref(), &operation)?;
        // Without a name all indexes of the list go. The one on `_id` is not in it.
        let keeps = |index: &Index| self.name.as_ref().is_some_and(|name| *name != index.name);
        let dropped = loop {
            let state = shared.catalog.find(namespace).ok_or_else(|| shared.catalog.absent(namespace))?;
            // `None`: the collection was dropped since it was resolved, and may have been created again.
            let dropped =
                shared.define(&database, |storage| change::drop_indexes(storage, &state, &operation, keeps));
            if let Some(dropped) = dropped? {
                break dropped;
            }
        };
        match &self.name {
            // Only a name can be wrong. As in MongoDB, to drop all of no indexes succeeds.
            Some(name) if dropped == 0 && !ended => {
                Err(Error::command(Code::INDEX_NOT_FOUND, format!("index not found with name [{name}]")))
            }
            _ => Ok(()),
        }
    }

    /// Ends the builds of what is to be removed, and returns whether there were any.
    fn end_builds(&self, state: Option<&CollectionState>, operation: &OperationContext) -> Result<bool> {
        let Some(state) = state else { return Ok(false) };
        let is_meant = |index: &Index| self.name.as_ref().is_none_or(|name| *name == index.name);
        let ended = state.builds.end(BuildEnd::IndexDropped, is_meant);
        for build in &ended {
            while state.builds.has(build) {
                operation.look()?;
                state.builds.wait(build, END_INTERVAL);
            }
        }
        Ok(!ended.is_empty())
    }
}

impl ListIndexes<'_> {
    /// Reads the definitions. All of them are read now, so a later change does not show.
    ///
    /// [`Cursor::with_type`] gives them as documents like those of MongoDB, which also have the version `v`.
    pub fn run(self) -> Result<Cursor<IndexModel>> {
        let watch = self.collection.watch(Verb::ListIndexes);
        // A missing collection has an empty list here. The command rejects it, as MongoDB's does.
        let indexes = watch.end(self.collection.indexes(), Requested::default)?.unwrap_or_default();
        let descriptions = indexes.iter().map(|index| RawDocumentBuf::try_from(&index.described()));
        Ok(Cursor::of(RawCursor::of_list(descriptions.collect::<std::result::Result<_, _>>()?)))
    }
}

impl ListIndexNames<'_> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        let watch = self.collection.watch(Verb::ListIndexes);
        let indexes = watch.end(self.collection.indexes(), Requested::default)?.unwrap_or_default();
        Ok(indexes.into_iter().map(|index| index.name).collect())
    }
}

/// An index as the lists describe it.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) keys: Document,
    /// Its declaration, without the version.
    description: Document,
}

impl Listed {
    fn of_id(clustered: Option<&Clustered>) -> Self {
        if let Some(clustered) = clustered {
            let (name, description) = (clustered.name.to_string(), clustered.describe_index());
            return Self { name, keys: doc! { "_id": 1 }, description };
        }
        // It is unique by its nature, and MongoDB's description of it does not say so either.
        let keys = doc! { "_id": 1 };
        let description = doc! { "key": keys.clone(), "name": ID_INDEX_NAME };
        Self { name: ID_INDEX_NAME.to_owned(), keys, description }
    }

    fn of(index: &Index) -> Self {
        Self { name: index.name.clone(), keys: index.key_pattern(), description: index.describe() }
    }

    /// The document that MongoDB's `listIndexes` has for it.
    pub(crate) fn described(&self) -> Document {
        // The only version that `createIndexes` accepts, so a description can be given back to it.
        let mut described = doc! { "v": 2 };
        described.extend(self.description.clone());
        described
    }
}
