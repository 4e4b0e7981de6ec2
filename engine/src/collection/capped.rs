//! `convert_to_capped` and `clone_as_capped`.

use base::codes::refused;
use base::error::Result;
use base::namespace::Namespace;
use bson::Document;
use query::code::Code;

use crate::catalog::capped::{CappedLimits, SIZE, checked_size};
use crate::catalog::change::modify_limits;
use crate::collection::find::open_watched;
use crate::collection::handle::{Collection, Handle, Terms};
use crate::collection::indexes::DropIndex;
use crate::collection::out::Aside;
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::FindOptions;
use crate::write::capped::trim;
use crate::write::convert::{Conversion, Converted, convert};

impl<T> Collection<T> {
    /// Makes the collection a capped one of at most `size` bytes, which are rounded up to a multiple of 256. The insertion order
    /// of its documents is that of their `_id`s; documents that have no room are removed, those with the lowest `_id`s.
    ///
    /// As in MongoDB the collection loses all indexes but that on `_id`. Its validator and its auto-increment fields stay. Of a
    /// collection that is capped already the size is changed, its indexes go, and its oldest documents as far as needed.
    ///
    /// Writes to the collection wait meanwhile, reads do not. Fails with code 26 (`NamespaceNotFound`) if the collection does not
    /// exist, and with code 12587 while an index of it is being built.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let log = client.database("app").collection::<Document>("log");
    /// log.insert_many((0..1000).map(|id| doc! { "_id": id })).run()?;
    /// log.convert_to_capped(1024).run()?;
    /// // A document has 14 bytes.
    /// assert_eq!(log.count_documents(doc! {}).run()?, 73);
    /// assert_eq!(log.find_one(doc! {}).run()?, Some(doc! { "_id": 927 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn convert_to_capped(&self, size: u64) -> ConvertToCapped<'_> {
        ConvertToCapped { collection: &self.handle, size: i64::try_from(size).unwrap_or(i64::MAX) }
    }

    /// Copies the documents into a new capped collection `name` of the same database, of at most `size` bytes, in the order in
    /// which a search finds them. The copy has the validator of this collection, and no index but that on `_id`; the oldest
    /// documents are left out if not all of them have room.
    ///
    /// The copy has its name once it is whole. Fails with code 26 (`NamespaceNotFound`) if this collection does not exist, and with
    /// code 48 (`NamespaceExists`) if the other one does.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.collection("log").insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run()?;
    /// db.collection::<Document>("log").clone_as_capped("recent", 4096).run()?;
    /// assert_eq!(db.collection::<Document>("recent").count_documents(doc! {}).run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clone_as_capped(&self, name: impl Into<String>, size: u64) -> CloneAsCapped<'_> {
        CloneAsCapped {
            collection: &self.handle,
            name: name.into(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
        }
    }
}

impl Handle {
    /// The limits of the collection. Returns `None` if it is not capped, or does not exist.
    pub(crate) fn capped_limits(&self) -> Result<Option<CappedLimits>> {
        let limits = self.read(|_, state| Ok(state.definition().capped.map(|capped| capped.limits)))?;
        Ok(limits.flatten())
    }
}

/// The action that [`Collection::convert_to_capped`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is converted by run()"]
pub struct ConvertToCapped<'a> {
    collection: &'a Handle,
    size: i64,
}

impl ConvertToCapped<'_> {
    /// The action with a size that a command has, which may be one that no collection can have.
    pub(crate) fn of_size(self, size: i64) -> Self {
        Self { size, ..self }
    }

    /// Converts the collection, and returns when that is on stable storage.
    pub fn run(self) -> Result<()> {
        let watch = self.collection.watch(Verb::CreateCollection);
        watch.end(self.convert(), Requested::default)
    }

    fn convert(&self) -> Result<()> {
        let (collection, shared) = (self.collection, self.collection.shared());
        let size = checked_size(SIZE, self.size)?;
        let operation = collection.begin(None);
        let look = || {
            operation.step()?;
            shared.store.refuse_closing()
        };
        // As in MongoDB a conversion names no number of documents.
        let limits = CappedLimits { size, documents_max: None };
        loop {
            let converted = collection.change_existing(|state, storage, operation| {
                let conversion = Conversion { limits, operation, look: &look };
                convert(storage, &shared.catalog, state, conversion)
            })?;
            match converted {
                Converted::Done => return Ok(()),
                // Another thread may have dropped it, and made it again.
                Converted::Gone => {}
                Converted::Capped => break,
            }
        }
        // One after the other: each is a change of its own that holds, and the same call makes what is missing.
        let resize = |before: Option<CappedLimits>| {
            let refuse = || refused(Code::INVALID_OPTIONS, "Collection must be capped.");
            Ok(CappedLimits { size, ..before.ok_or_else(refuse)? })
        };
        collection
            .change_existing(|state, storage, operation| modify_limits(storage, state, operation, resize))?;
        DropIndex::all(collection).run()?;
        collection.write_existing(Terms { concern: None, operation: &operation }, trim)?;
        Ok(())
    }
}

/// The action that [`Collection::clone_as_capped`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is copied by run()"]
pub struct CloneAsCapped<'a> {
    collection: &'a Handle,
    name: String,
    size: i64,
}

impl CloneAsCapped<'_> {
    /// The action with a size that a command has, which may be one that no collection can have.
    pub(crate) fn of_size(self, size: i64) -> Self {
        Self { size, ..self }
    }

    /// Copies the collection, and returns when the copy is on stable storage.
    pub fn run(self) -> Result<()> {
        let watch = self.collection.watch(Verb::CreateCollection);
        watch.end(self.copy(), Requested::default)
    }

    fn copy(&self) -> Result<()> {
        let (collection, shared) = (self.collection, self.collection.shared());
        let size = checked_size(SIZE, self.size)?;
        let source = collection.valid_namespace()?;
        let target = Namespace::parse(&source.db, &self.name)?;
        if shared.catalog.occupant(&target).is_some() {
            let message =
                format!("cloneCollectionAsCapped failed - destination collection {target} already exists");
            return Err(refused(Code::NAMESPACE_EXISTS, message).in_namespace(&target));
        }
        let state = shared.catalog.find(source).ok_or_else(|| shared.catalog.absent(source))?;
        let like = state.definition();
        let documents_max = like.capped.and_then(|capped| capped.limits.documents_max);
        let limits = CappedLimits { size, documents_max };
        let mut documents = open_watched(collection, Document::new(), FindOptions::default())?;
        // After the snapshot of the search, so that what is copied is of one moment.
        let aside = Aside::begin_capped(shared, &target, &like, limits)?;
        aside.fill(&mut documents, &collection.begin(None))
    }
}
