//! Auto-increment fields of a collection: create, alter, drop, list, and reading the state of one.

use std::sync::Arc;

use base::error::Result;
use bson::{Document, doc};
use sequence::attributes::Attributes;
use sequence::auto_increment::FieldOptions;
use sequence::error::SequenceError;
use store::Database as StorageDatabase;

use crate::auto_increment::AutoIncrement;
use crate::catalog::collection::CollectionState;
use crate::catalog::fields::{NewFields, check_fields};
use crate::catalog::sequence_change::alter_fields;
use crate::catalog::sequences::AutoField;
use crate::collection::handle::{Collection, Handle};
use crate::results::{AutoIncrementSpecification, SequenceGap, SequenceSnapshot};
use crate::sequences::{ValueTrace, gaps_of, snapshot_of, trace_of};
use crate::write::auto_increment::stored_values::furthest;

impl<T> Collection<T> {
    /// Makes a field an auto-increment field: inserts from now on number their documents in it. A collection that
    /// does not exist is created first.
    ///
    /// Stored documents stay as they are. The first value is the field's start value, or with
    /// [`start_from_existing(true)`](crate::AutoIncrementBuilder::start_from_existing) the one after the largest stored
    /// value.
    ///
    /// Fails with SequoiaDB's code -332 (`SDB_AUTOINCREMENT_FIELD_CONFLICT`) if the field, a field inside it or a
    /// field around it is an auto-increment field. Fails with SequoiaDB's code -6 (`SDB_INVALIDARG`) if the path or
    /// an option is not allowed.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let posts = client.database("blog").collection::<Document>("posts");
    /// posts.insert_many([doc! { "number": 7 }, doc! { "number": 3 }]).run()?;
    /// posts
    ///     .create_auto_increment(AutoIncrement::builder().field("number").start_from_existing(true).build())
    ///     .run()?;
    /// assert_eq!(posts.insert_one(doc! {}).run()?.generated.get("number"), Some(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_auto_increment(&self, field: AutoIncrement) -> CreateAutoIncrement<'_> {
        self.create_auto_increments([field])
    }

    /// Makes several fields auto-increment fields, all or none of them.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let fields = ["number", "position"].map(|field| AutoIncrement::builder().field(field).build());
    /// people.create_auto_increments(fields).run()?;
    /// assert_eq!(people.auto_increments().run()?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_auto_increments(
        &self,
        fields: impl IntoIterator<Item = AutoIncrement>,
    ) -> CreateAutoIncrement<'_> {
        CreateAutoIncrement { collection: &self.handle, fields: options_of(fields) }
    }

    /// Changes the options of an auto-increment field and of its sequence. Options that are not given stay. Once the call
    /// has returned, inserts use the new options.
    ///
    /// Fails with SequoiaDB's code -333 (`SDB_AUTOINCREMENT_FIELD_NOT_EXIST`) if it is not an auto-increment field.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// let by_tens = AutoIncrement::builder().field("number").increment(10).start_value(100);
    /// people.alter_auto_increment(by_tens.build()).run()?;
    /// assert_eq!(people.auto_increment("number").snapshot()?.increment, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter_auto_increment(&self, field: AutoIncrement) -> AlterAutoIncrement<'_> {
        self.alter_auto_increments([field])
    }

    /// Changes several auto-increment fields, all or none of them. See
    /// [`alter_auto_increment`](Self::alter_auto_increment).
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// let smaller = AutoIncrement::builder().field("number").cache_size(10).acquire_size(10).build();
    /// people.alter_auto_increments([smaller]).run()?;
    /// assert_eq!(people.auto_increment("number").snapshot()?.cache_size, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter_auto_increments(
        &self,
        fields: impl IntoIterator<Item = AutoIncrement>,
    ) -> AlterAutoIncrement<'_> {
        AlterAutoIncrement { collection: &self.handle, fields: options_of(fields) }
    }

    /// Makes an auto-increment field a plain one and removes its sequence. Stored values stay. If the field is created
    /// again, its sequence starts again.
    ///
    /// Fails with SequoiaDB's code -333 (`SDB_AUTOINCREMENT_FIELD_NOT_EXIST`) if it is not an auto-increment field.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// people.drop_auto_increment("number").run()?;
    /// assert!(people.auto_increments().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_auto_increment(&self, field: impl Into<String>) -> DropAutoIncrement<'_> {
        self.drop_auto_increments([field.into()])
    }

    /// Makes several auto-increment fields plain ones, all or none of them. See
    /// [`drop_auto_increment`](Self::drop_auto_increment).
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// people.drop_auto_increments(["number".to_owned()]).run()?;
    /// assert!(people.auto_increments().run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_auto_increments(&self, fields: impl IntoIterator<Item = String>) -> DropAutoIncrement<'_> {
        DropAutoIncrement { collection: &self.handle, fields: fields.into_iter().collect() }
    }

    /// Lists the auto-increment fields, ascending by path.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// assert_eq!(people.auto_increments().run()?[0].field, "number");
    /// # Ok(())
    /// # }
    /// ```
    pub fn auto_increments(&self) -> ListAutoIncrements<'_> {
        ListAutoIncrements { collection: &self.handle }
    }

    /// Returns a handle to an auto-increment field, to read the state of its sequence.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert_eq!(people.auto_increment("number").snapshot()?.last_used, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn auto_increment(&self, field: impl Into<String>) -> AutoIncrementField<'_> {
        AutoIncrementField { collection: &self.handle, field: field.into() }
    }
}

impl Handle {
    /// Returns the options that create the same fields in an empty collection. The list is empty if the collection
    /// does not exist.
    pub(crate) fn auto_increment_options(&self) -> Result<Vec<Document>> {
        let options = self.read(|_, state| {
            let definition = state.definition();
            Ok(definition.fields.iter().map(options_as_made).collect())
        })?;
        Ok(options.unwrap_or_default())
    }
}

/// The action that [`Collection::create_auto_increment`] and [`Collection::create_auto_increments`] return.
/// [`run`](Self::run) executes it.
#[must_use = "the fields are created by run()"]
pub struct CreateAutoIncrement<'a> {
    collection: &'a Handle,
    fields: Vec<FieldOptions>,
}

/// The action that [`Collection::alter_auto_increment`] and [`Collection::alter_auto_increments`] return.
/// [`run`](Self::run) executes it.
#[must_use = "the fields are changed by run()"]
pub struct AlterAutoIncrement<'a> {
    collection: &'a Handle,
    fields: Vec<FieldOptions>,
}

/// The action that [`Collection::drop_auto_increment`] and [`Collection::drop_auto_increments`] return.
/// [`run`](Self::run) executes it.
#[must_use = "the fields are dropped by run()"]
pub struct DropAutoIncrement<'a> {
    collection: &'a Handle,
    fields: Vec<String>,
}

/// The action that [`Collection::auto_increments`] returns. [`run`](Self::run) executes it.
#[must_use = "the list is read by run()"]
pub struct ListAutoIncrements<'a> {
    collection: &'a Handle,
}

/// A handle to an auto-increment field, which [`Collection::auto_increment`] returns.
///
/// Every call looks the field up, and fails with SequoiaDB's code -333 (`SDB_AUTOINCREMENT_FIELD_NOT_EXIST`) if it is
/// not an auto-increment field.
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let number = AutoIncrement::builder().field("number").build();
/// people.create_auto_increment(number).run()?;
///
/// let number = people.auto_increment("number");
/// assert_eq!(number.snapshot()?.last_used, None);
/// assert!(number.gaps()?.is_empty());
/// assert_eq!(number.safe_watermark()?, None);
/// # Ok(())
/// # }
/// ```
pub struct AutoIncrementField<'a> {
    collection: &'a Handle,
    field: String,
}

impl CreateAutoIncrement<'_> {
    /// Creates the fields.
    pub fn run(self) -> Result<()> {
        // Fields that no collection can have must not leave an empty collection.
        self.collection.check_before_creation(|| check_fields(&self.fields))?;
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        // Only called for a field that starts after the existing values: it may read the whole collection.
        let operation = self.collection.begin_plain(None);
        let furthest = |collection: &CollectionState, path: &str, attributes: &Attributes| {
            // The catalog calls it under the exclusive gate: no insert adds a value that the scan would miss.
            furthest(&database, collection, path, attributes, &operation)
        };
        loop {
            let state = shared.find_or_create(&database, namespace)?;
            let new = NewFields { options: &self.fields, furthest: &furthest };
            let add = |storage| shared.catalog.add_fields(storage, &state, &operation, new);
            match shared.define(&database, add) {
                // Dropped or renamed since it was resolved: another collection may have the name now. A change that was made
                // and could not be synced is not made again.
                Err(error) if state.is_retired() && !error.is_commit_unknown() => {}
                added => return added.map_err(|error| error.in_namespace(namespace)),
            }
        }
    }
}

impl AlterAutoIncrement<'_> {
    /// Changes the fields.
    pub fn run(self) -> Result<()> {
        self.collection.change_existing(|state, storage, operation| {
            alter_fields(storage, state, operation, &self.fields)
        })
    }
}

impl DropAutoIncrement<'_> {
    /// Drops the fields.
    pub fn run(self) -> Result<()> {
        let catalog = &self.collection.shared().catalog;
        self.collection.change_existing(|state, storage, operation| {
            catalog.drop_fields(storage, state, operation, &self.fields)
        })
    }
}

impl ListAutoIncrements<'_> {
    /// Reads the list. It is empty if the collection does not exist.
    pub fn run(self) -> Result<Vec<AutoIncrementSpecification>> {
        let listed = self.collection.read(|_, state| {
            let definition = state.definition();
            Ok(definition.fields.iter().map(specification).collect())
        })?;
        Ok(listed.unwrap_or_default())
    }
}

impl AutoIncrementField<'_> {
    /// Reads attributes and state of the sequence.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// let snapshot = people.auto_increment("number").snapshot()?;
    /// assert_eq!((snapshot.start_value, snapshot.increment, snapshot.initial), (1, 1, true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Result<SequenceSnapshot> {
        self.on_field(|field, _| Ok(snapshot_of(&field.state)))
    }

    /// Lists the values that no document will get, with the cause. See [`Sequence::gaps`](crate::Sequence::gaps).
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// // A document that brings 5 makes the sequence skip the values up to it.
    /// people.insert_one(doc! { "number": 5 }).run()?;
    /// let gaps = people.auto_increment("number").gaps()?;
    /// assert_eq!((gaps[0].first, gaps[0].cause.as_str()), (1, "explicitValue"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn gaps(&self) -> Result<Vec<SequenceGap>> {
        self.on_field(|field, database| gaps_of(&field.state, database))
    }

    /// Traces a value: the reason why a number is missing. A document that has the value is not looked for. See
    /// [`Sequence::trace`](crate::Sequence::trace).
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, ValueVerdict, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// people.delete_one(doc! { "number": 1 }).run()?;
    /// assert_eq!(people.auto_increment("number").trace(1)?.verdict, ValueVerdict::Used);
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace(&self, value: i64) -> Result<ValueTrace> {
        self.on_field(|field, database| trace_of(&field.state, database, value))
    }

    /// Returns the safe watermark: documents with values up to it are all visible, or will never be. Returns `None` if an
    /// insert in progress may still make the first value visible.
    ///
    /// A [fast](crate::Contract::Fast) sequence can make a larger value visible before a smaller one. So a consumer that
    /// polls for documents "after the last value seen" reads the watermark first, and reads up to it.
    ///
    /// A recipe: [a queue that is polled](crate::guide::recipes#a-queue-that-is-polled).
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").build();
    /// people.create_auto_increment(number).run()?;
    /// people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }]).run()?;
    /// let safe = people.auto_increment("number").safe_watermark()?;
    /// let new = people.find(doc! { "number": { "$gt": 0, "$lte": safe } }).run()?;
    /// assert_eq!(new.count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn safe_watermark(&self) -> Result<Option<i64>> {
        self.on_field(|field, _| Ok(field.state.sequence.safe_watermark()))
    }

    fn on_field<R>(&self, look: impl FnOnce(&AutoField, &Arc<StorageDatabase>) -> Result<R>) -> Result<R> {
        let unknown = || SequenceError::FieldNotFound { field: self.field.clone() };
        let looked = self.collection.read(|database, state| {
            let definition = state.definition();
            // `definition` is a copy, so no gate is held while `look` reads the store.
            look(definition.fields.find(&self.field).ok_or_else(unknown)?, database)
        })?;
        // A collection that does not exist has no fields.
        looked.ok_or_else(|| unknown().into())
    }
}

fn options_of(fields: impl IntoIterator<Item = AutoIncrement>) -> Vec<FieldOptions> {
    fields.into_iter().map(|field| field.options).collect()
}

fn specification(field: &AutoField) -> AutoIncrementSpecification {
    AutoIncrementSpecification {
        sequence_name: field.state.identity.name.clone(),
        field: field.field.path().to_owned(),
        generated: field.field.generated.name().to_owned(),
        generate_on_null: field.field.generate_on_null,
        on_truncate: field.field.on_truncate.name().to_owned(),
        sequence_id: field.state.identity.id.0.cast_signed(),
    }
}

/// The options that create the field again with the next value of its sequence. A dump has them.
fn options_as_made(field: &AutoField) -> Document {
    let snapshot = snapshot_of(&field.state);
    let mut options = doc! {
        "Field": field.field.path(),
        "Generated": field.field.generated.name(),
        "GenerateOnNull": field.field.generate_on_null,
        "OnTruncate": field.field.on_truncate.name(),
        "Increment": snapshot.increment,
        "StartValue": snapshot.start_value,
        "MinValue": snapshot.min_value,
        "MaxValue": snapshot.max_value,
        "CacheSize": snapshot.cache_size,
        "AcquireSize": snapshot.acquire_size,
        "Cycled": snapshot.cycled,
        "Contract": snapshot.contract,
    };
    // Not the current value, because what blocks still hold is unused. A new sequence has used nothing.
    if let Some(value) = field.state.sequence.used_up_to() {
        options.insert("UsedUpTo", value);
    }
    options
}
