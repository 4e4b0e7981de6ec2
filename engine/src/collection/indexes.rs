//! `create_index`, `create_indexes`, `drop_index`, `drop_indexes`, `list_indexes`, `list_index_names`.

use std::iter;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::OperationContext;

use crate::catalog::change::{self, namespace_not_found};
use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::collection::Collection;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::options::IndexModel;
use crate::results::{CreateIndexResult, CreateIndexesResult};
use crate::storage::write::CommitLevel;
use crate::write::Target;
use crate::write::index_build::{self, IndexDefinition, Presence};

impl<T> Collection<T> {
    /// Makes an index, over the documents that are there and all that come; the collection is made if it does
    /// not exist. An index that is there already is left as it is.
    ///
    /// Writes to the collection wait for as long as the build takes. A unique index over duplicates fails with
    /// code 11000; a definition that cannot be met with 67, 85 or 86; in each case no index is made.
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
    pub fn create_index(&self, index: IndexModel) -> CreateIndex<'_, T> {
        CreateIndex { collection: self, model: index, max_time: None }
    }

    /// Makes several indexes, one after the other.
    pub fn create_indexes(&self, indexes: impl IntoIterator<Item = IndexModel>) -> CreateIndexes<'_, T> {
        CreateIndexes { collection: self, models: indexes.into_iter().collect(), max_time: None }
    }

    /// Removes the index of that name. The index on `_id` cannot be removed (code 72).
    pub fn drop_index(&self, name: impl AsRef<str>) -> DropIndex<'_, T> {
        DropIndex { collection: self, name: Some(name.as_ref().to_owned()) }
    }

    /// Removes every index but the one on `_id`.
    pub fn drop_indexes(&self) -> DropIndex<'_, T> {
        DropIndex { collection: self, name: None }
    }

    /// The definitions of all indexes, the one on `_id` first, as a cursor; an empty one if the collection does not
    /// exist.
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
    pub fn list_indexes(&self) -> ListIndexes<'_, T> {
        ListIndexes { collection: self }
    }

    /// The names of all indexes, the one on `_id` first; none if the collection does not exist.
    pub fn list_index_names(&self) -> ListIndexNames<'_, T> {
        ListIndexNames { collection: self }
    }

    /// All indexes, the one on `_id` first; nothing if the collection does not exist.
    pub(crate) fn indexes(&self) -> Result<Option<Vec<Listed>>> {
        self.read(|_, state| {
            let others = state.indexes();
            Ok(iter::once(Listed::of_id()).chain(others.iter().map(Listed::of)).collect())
        })
    }

    fn build_index(&self, model: &IndexModel, operation: &OperationContext) -> Result<String> {
        let shared = self.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let definition = index_build::parse(model)?;
        let namespace = self.valid_namespace()?;
        loop {
            let state = shared.find_or_create(&database, namespace)?;
            let Some(definition) = definition.clone() else { return Ok(ID_INDEX_NAME.to_owned()) };
            if index_build::compare(&definition, &state.indexes())? == Presence::Identical {
                return Ok(definition.name);
            }
            // The id comes before the gate: changes to the catalog lock the catalog first, then a collection.
            let storage = shared.storage(&database);
            let id = shared.catalog.begin_index(storage)?;
            let mut indexes = state.enter_alone();
            let built = (|| {
                if state.is_retired()
                    || index_build::compare(&definition, &indexes.indexes)? == Presence::Identical
                {
                    return Ok(None);
                }
                let index = index_build::index(definition.clone(), id);
                let target = Target {
                    store: &shared.store,
                    database: &database,
                    collection: &state,
                    indexes: std::slice::from_ref(&index),
                    fields: &indexes.fields,
                    acquirer: None,
                    generator: &shared.generator,
                    level: CommitLevel::INDEX_BUILD,
                    preview: None,
                    operation,
                };
                index_build::build(target)?;
                Ok(Some(index))
            })();
            let finished = built.and_then(|index| match index {
                Some(index) => change::finish_index(storage, &state, &mut indexes, index).map(|()| true),
                None => Ok(false),
            });
            if matches!(finished, Ok(true)) {
                return Ok(definition.name);
            }
            // What cannot be removed now, because the disk is full for example, is removed by the next open.
            if let Err(error) = change::abandon_index(storage, id) {
                tracing::warn!(%error, "entries of an abandoned index build stay until the next open");
            }
            // Without an error another thread was faster, or the collection is gone: look again.
            finished?;
        }
    }
}

/// A `create_index` that is done by [`run`](Self::run).
#[must_use = "the index is made by run()"]
pub struct CreateIndex<'a, T> {
    collection: &'a Collection<T>,
    model: IndexModel,
    max_time: Option<Duration>,
}

/// A `create_indexes` that is done by [`run`](Self::run).
#[must_use = "the indexes are made by run()"]
pub struct CreateIndexes<'a, T> {
    collection: &'a Collection<T>,
    models: Vec<IndexModel>,
    max_time: Option<Duration>,
}

/// A `drop_index` or `drop_indexes` that is done by [`run`](Self::run).
#[must_use = "the index is removed by run()"]
pub struct DropIndex<'a, T> {
    collection: &'a Collection<T>,
    name: Option<String>,
}

/// A `list_indexes` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListIndexes<'a, T> {
    collection: &'a Collection<T>,
}

/// A `list_index_names` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListIndexNames<'a, T> {
    collection: &'a Collection<T>,
}

impl<T> CreateIndex<'_, T> {
    /// Give up with code 50 after this long; there is no index then.
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Makes the index.
    pub fn run(self) -> Result<CreateIndexResult> {
        let operation = self.collection.begin_plain(self.max_time);
        Ok(CreateIndexResult { index_name: self.collection.build_index(&self.model, &operation)? })
    }
}

impl<T> CreateIndexes<'_, T> {
    /// Give up with code 50 after this long; indexes that were made until then stay.
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Makes the indexes.
    pub fn run(self) -> Result<CreateIndexesResult> {
        if self.models.is_empty() {
            return Err(Error::invalid_argument("create_indexes was called without indexes"));
        }
        // All definitions are checked before any index is made.
        self.models
            .iter()
            .try_for_each(|model| index_build::parse(model).map(|_: Option<IndexDefinition>| ()))?;
        let operation = self.collection.begin_plain(self.max_time);
        let names = self.models.iter().map(|model| self.collection.build_index(model, &operation));
        Ok(CreateIndexesResult { index_names: names.collect::<Result<_>>()? })
    }
}

impl<T> DropIndex<'_, T> {
    /// Removes the index or indexes.
    pub fn run(self) -> Result<()> {
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        if self.name.as_deref() == Some(ID_INDEX_NAME) {
            return Err(Error::command(Code::INVALID_OPTIONS, "cannot drop _id index"));
        }
        let keeps = |index: &Index| self.name.as_ref().is_some_and(|name| *name != index.name);
        let dropped = loop {
            let state = shared.catalog.find(namespace).ok_or_else(|| namespace_not_found(namespace))?;
            // A collection that was dropped between the look-up and here may be there again.
            if let Some(dropped) = change::drop_indexes(shared.storage(&database), &state, keeps)? {
                break dropped;
            }
        };
        match &self.name {
            Some(name) if dropped == 0 => {
                Err(Error::command(Code::INDEX_NOT_FOUND, format!("index not found with name [{name}]")))
            }
            _ => Ok(()),
        }
    }
}

impl<T> ListIndexes<'_, T> {
    /// Reads the definitions, all of them as they are now. As another type they are what MongoDB lists, with the
    /// version `v` beside what a model has.
    pub fn run(self) -> Result<Cursor<IndexModel>> {
        let indexes = self.collection.indexes()?.unwrap_or_default();
        let descriptions = indexes.iter().map(|index| RawDocumentBuf::try_from(&index.described()));
        Ok(Cursor::of_list(descriptions.collect::<std::result::Result<_, _>>()?))
    }
}

impl<T> ListIndexNames<'_, T> {
    /// Reads the names.
    pub fn run(self) -> Result<Vec<String>> {
        let indexes = self.collection.indexes()?.unwrap_or_default();
        Ok(indexes.into_iter().map(|index| index.name).collect())
    }
}

/// An index as a list shows it.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) keys: Document,
    is_unique: bool,
    is_sparse: bool,
}

impl Listed {
    fn of_id() -> Self {
        Self { name: ID_INDEX_NAME.to_owned(), keys: doc! { "_id": 1 }, is_unique: false, is_sparse: false }
    }

    fn of(index: &Index) -> Self {
        Self {
            name: index.name.clone(),
            keys: index.key_pattern(),
            is_unique: index.spec.is_unique(),
            is_sparse: index.spec.is_sparse(),
        }
    }

    /// As MongoDB describes it.
    pub(crate) fn described(&self) -> Document {
        let mut described = doc! { "v": 2, "key": &self.keys, "name": &self.name };
        if self.is_unique {
            described.insert("unique", true);
        }
        if self.is_sparse {
            described.insert("sparse", true);
        }
        described
    }
}
