//! Auto-increment fields of a collection: create, alter, drop, list, and a look at each.

use std::sync::Arc;

use bson::{Document, doc};
use sequence::attributes::Attributes;
use sequence::auto_increment::FieldOptions;
use sequence::error::SequenceError;

use crate::auto_increment::AutoIncrement;
use crate::catalog::collection::CollectionState;
use crate::catalog::fields::check_fields;
use crate::catalog::sequence_change::alter_fields;
use crate::catalog::sequences::AutoField;
use crate::collection::Collection;
use crate::error::Result;
use crate::results::{AutoIncrementSpecification, SequenceGap, SequenceSnapshot};
use crate::sequences::{gaps_of, snapshot_of};
use crate::storage::Database as StorageDatabase;
use crate::write::auto_increment::stored_values::furthest;

impl<T> Collection<T> {
    /// Makes a field number itself from now on. Documents that are there keep what they have; the sequence starts
    /// at `StartValue` unless the field asks for `start_from_existing`. The collection is made if it does not exist.
    ///
    /// Fails with -332 (`SDB_AUTOINCREMENT_FIELD_CONFLICT`) if the field numbers itself already, or lies in one that
    /// does or around it, and with -6 (`SDB_INVALIDARG`) for a path or option that is not allowed.
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
    pub fn create_auto_increment(&self, field: AutoIncrement) -> CreateAutoIncrement<'_, T> {
        self.create_auto_increments([field])
    }

    /// Makes several fields number themselves, all or none.
    pub fn create_auto_increments(
        &self,
        fields: impl IntoIterator<Item = AutoIncrement>,
    ) -> CreateAutoIncrement<'_, T> {
        CreateAutoIncrement { collection: self, fields: options_of(fields) }
    }

    /// Changes a field and its sequence; what is not given stays. When it returns, no insert hands out a value of the
    /// state that was before.
    ///
    /// Fails with -333 (`SDB_AUTOINCREMENT_FIELD_NOT_EXIST`) if the field does not number itself.
    pub fn alter_auto_increment(&self, field: AutoIncrement) -> AlterAutoIncrement<'_, T> {
        self.alter_auto_increments([field])
    }

    /// Changes several fields, all or none.
    pub fn alter_auto_increments(
        &self,
        fields: impl IntoIterator<Item = AutoIncrement>,
    ) -> AlterAutoIncrement<'_, T> {
        AlterAutoIncrement { collection: self, fields: options_of(fields) }
    }

    /// Ends the numbering of a field. Stored values stay; made again, it starts anew.
    ///
    /// Fails with -333 if the field does not number itself.
    pub fn drop_auto_increment(&self, field: impl Into<String>) -> DropAutoIncrement<'_, T> {
        self.drop_auto_increments([field.into()])
    }

    /// Ends the numbering of several fields, all or none.
    pub fn drop_auto_increments(&self, fields: impl IntoIterator<Item = String>) -> DropAutoIncrement<'_, T> {
        DropAutoIncrement { collection: self, fields: fields.into_iter().collect() }
    }

    /// The fields that number themselves, ascending by path.
    pub fn auto_increments(&self) -> ListAutoIncrements<'_, T> {
        ListAutoIncrements { collection: self }
    }

    /// The options that make the same fields in an empty collection; none if the collection does not exist.
    pub(crate) fn auto_increment_options(&self) -> Result<Vec<Document>> {
        let options = self.read(|_, state| {
            let definition = state.definition();
            Ok(definition.fields.iter().map(options_as_made).collect())
        })?;
        Ok(options.unwrap_or_default())
    }

    /// The sequence behind a field: its snapshot, its gaps, its safe watermark.
    pub fn auto_increment(&self, field: impl Into<String>) -> AutoIncrementField<'_, T> {
        AutoIncrementField { collection: self, field: field.into() }
    }
}

/// A `create_auto_increment` that is done by [`run`](Self::run).
#[must_use = "the fields are made by run()"]
pub struct CreateAutoIncrement<'a, T> {
    collection: &'a Collection<T>,
    fields: Vec<FieldOptions>,
}

/// An `alter_auto_increment` that is done by [`run`](Self::run).
#[must_use = "the fields are changed by run()"]
pub struct AlterAutoIncrement<'a, T> {
    collection: &'a Collection<T>,
    fields: Vec<FieldOptions>,
}

/// A `drop_auto_increment` that is done by [`run`](Self::run).
#[must_use = "the fields are dropped by run()"]
pub struct DropAutoIncrement<'a, T> {
    collection: &'a Collection<T>,
    fields: Vec<String>,
}

/// An `auto_increments` that is done by [`run`](Self::run).
#[must_use = "the list is read by run()"]
pub struct ListAutoIncrements<'a, T> {
    collection: &'a Collection<T>,
}

/// The sequence behind an auto-increment field. Every call looks it up; -333 if the field does not number itself.
pub struct AutoIncrementField<'a, T> {
    collection: &'a Collection<T>,
    field: String,
}

impl<T> CreateAutoIncrement<'_, T> {
    /// Makes the fields.
    pub fn run(self) -> Result<()> {
        self.collection.check_before_creation(|| check_fields(&self.fields))?;
        let shared = self.collection.shared();
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let namespace = self.collection.valid_namespace()?;
        let furthest = |collection: &CollectionState, path: &str, attributes: &Attributes| {
            furthest(&database, collection, path, attributes)
        };
        loop {
            let state = shared.find_or_create(&database, namespace)?;
            match shared.catalog.add_fields(shared.storage(&database), &state, &self.fields, &furthest) {
                // Dropped or renamed between the look-up and the change.
                Err(_) if state.is_retired() => {}
                added => return added.map_err(|error| error.in_namespace(namespace)),
            }
        }
    }
}

impl<T> AlterAutoIncrement<'_, T> {
    /// Changes the fields.
    pub fn run(self) -> Result<()> {
        self.collection.change_existing(|state, storage| alter_fields(storage, state, &self.fields))
    }
}

impl<T> DropAutoIncrement<'_, T> {
    /// Drops the fields.
    pub fn run(self) -> Result<()> {
        let catalog = &self.collection.shared().catalog;
        self.collection.change_existing(|state, storage| catalog.drop_fields(storage, state, &self.fields))
    }
}

impl<T> ListAutoIncrements<'_, T> {
    /// Reads the list; it is empty if the collection does not exist.
    pub fn run(self) -> Result<Vec<AutoIncrementSpecification>> {
        let listed = self.collection.read(|_, state| {
            let definition = state.definition();
            Ok(definition.fields.iter().map(specification).collect())
        })?;
        Ok(listed.unwrap_or_default())
    }
}

impl<T> AutoIncrementField<'_, T> {
    /// Attributes and state of the sequence at this moment.
    pub fn snapshot(&self) -> Result<SequenceSnapshot> {
        self.on_field(|field, _| Ok(snapshot_of(&field.state)))
    }

    /// Values that nobody will get, and why; see [`Sequence::gaps`](crate::Sequence::gaps).
    pub fn gaps(&self) -> Result<Vec<SequenceGap>> {
        self.on_field(|field, database| gaps_of(&field.state, database))
    }

    /// The highest value, in the sequence's order, such that no insert under way can still make a value up to it
    /// visible; absent while even the first can.
    ///
    /// A consumer that reads documents "above the last value seen" of a fast sequence misses none if it takes the
    /// watermark first and reads no further than it.
    pub fn safe_watermark(&self) -> Result<Option<i64>> {
        self.on_field(|field, _| Ok(field.state.sequence.safe_watermark()))
    }

    fn on_field<R>(&self, look: impl FnOnce(&AutoField, &Arc<StorageDatabase>) -> Result<R>) -> Result<R> {
        let unknown = || SequenceError::FieldNotFound { field: self.field.clone() };
        let looked = self.collection.read(|database, state| {
            let definition = state.definition();
            look(definition.fields.find(&self.field).ok_or_else(unknown)?, database)
        })?;
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

/// What makes the field again, with its sequence where it stands.
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
    if let Some(value) = field.state.sequence.used_up_to() {
        options.insert("UsedUpTo", value);
    }
    options
}
