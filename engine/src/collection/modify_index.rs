//! `modify_index`: changes the settings of an index that do not change its entries.

use std::time::Duration;

use base::codes::{refused, unsupported};
use base::error::Result;
use base::namespace::Namespace;
use bson::{Document, doc};
use query::code::Code;

use crate::catalog::change;
use crate::catalog::indexes::{ID_INDEX_NAME, Index, are_same_keys};
use crate::catalog::settings::IndexSettings;
use crate::collection::definition::Changing;
use crate::collection::handle::{Collection, Handle};
use crate::expiry;
use crate::plan::bounds::ID_FIELD;
use crate::shared::Shared;
use crate::write::index_settings;

impl<T> Collection<T> {
    /// Changes the index with this name: hides it from searches or shows it again, or changes after what time documents
    /// expire. Its entries stay as they are, so this lasts no longer for a large collection.
    ///
    /// Fails with code 27 (`IndexNotFound`) if no such index exists. The index on `_id` cannot be changed.
    ///
    /// ```
    /// # use cairndb::{Client, Hint, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// people.modify_index("email_1").hidden(true).run()?;
    /// let by_email = || people.find(doc! {}).hint(Hint::Name("email_1".to_owned())).run();
    /// assert!(by_email().is_err());
    /// people.modify_index("email_1").hidden(false).run()?;
    /// assert!(by_email().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify_index(&self, name: impl AsRef<str>) -> ModifyIndex<'_> {
        ModifyIndex {
            collection: &self.handle,
            name: name.as_ref().to_owned(),
            change: IndexChange::default(),
        }
    }
}

/// The action that [`Collection::modify_index`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let sessions = client.database("app").collection::<Document>("sessions");
/// let hour = IndexOptions::builder().expire_after(Duration::from_secs(3600)).build();
/// sessions.create_index(IndexModel::builder().keys(doc! { "used": 1 }).options(hour).build()).run()?;
/// sessions.modify_index("used_1").expire_after(Duration::from_secs(60)).run()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the index is changed by run()"]
pub struct ModifyIndex<'a> {
    collection: &'a Handle,
    name: String,
    change: IndexChange,
}

/// The change of an index. What is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexChange {
    pub(crate) hidden: Option<bool>,
    pub(crate) expire_after: Option<Duration>,
    /// Whether the index must be unique: a caller asked for it, and it cannot be changed.
    pub(crate) is_unique: bool,
}

/// The name of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IndexSelector<'a> {
    Name(&'a str),
    Keys(&'a Document),
}

/// The settings of an index before and after a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedSettings {
    pub(crate) before: IndexSettings,
    pub(crate) after: IndexSettings,
}

impl ModifyIndex<'_> {
    /// Whether searches pass the index by. Hidden indexes are kept up to date, and unique ones stay unique.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).build()).run()?;
    /// people.modify_index("email_1").hidden(true).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hidden(mut self, hidden: bool) -> Self {
        self.change.hidden = Some(hidden);
        self
    }

    /// Sets the time after the date in its field at which a document expires. An index on one field that was none
    /// becomes a TTL index by this.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let events = client.database("app").collection::<Document>("events");
    /// events.create_index(IndexModel::builder().keys(doc! { "at": 1 }).build()).run()?;
    /// events.modify_index("at_1").expire_after(std::time::Duration::from_secs(86_400)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire_after(mut self, time: Duration) -> Self {
        self.change.expire_after = Some(time);
        self
    }

    /// Changes the index. A change to what it is already succeeds.
    pub fn run(self) -> Result<()> {
        let namespace = self.collection.valid_namespace()?;
        let index = IndexSelector::Name(&self.name);
        let changing = Changing { namespace, operation: &self.collection.begin_plain(None) };
        apply(self.collection.shared(), changing, index, self.change).map(|_: ChangedSettings| ())
    }
}

/// Changes an index of a collection.
pub(crate) fn apply(
    shared: &Shared,
    changing: Changing<'_>,
    selector: IndexSelector<'_>,
    change: IndexChange,
) -> Result<ChangedSettings> {
    let Changing { namespace, operation } = changing;
    let database = shared.store.enter()?;
    shared.store.admit_write()?;
    loop {
        let state = shared.catalog.find(namespace).ok_or_else(|| shared.catalog.absent(namespace))?;
        // The index on `_id` is not in the list, and is unique always.
        if selector.selects(ID_INDEX_NAME, &doc! { ID_FIELD: 1 }) {
            return change.check_of_id().map(|()| ChangedSettings::default());
        }
        let mut modified = ChangedSettings::default();
        let find = |indexes: &[Index]| selector.find(namespace, indexes);
        let modify = |index: &mut Index| {
            modified = change.apply(index)?;
            let ChangedSettings { before, after } = &modified;
            Ok((before.hidden, before.expire_after_seconds) != (after.hidden, after.expire_after_seconds))
        };
        let changed = shared
            .define(&database, |storage| change::modify_index(storage, &state, operation, find, modify))?;
        // `None`: the collection was dropped since it was found, and may have been created again.
        if changed.is_some() {
            expiry::start_if_needed(shared)?;
            return Ok(modified);
        }
    }
}

impl IndexSelector<'_> {
    fn selects(&self, name: &str, keys: &Document) -> bool {
        match self {
            Self::Name(wanted) => *wanted == name,
            Self::Keys(wanted) => are_same_keys(wanted, keys),
        }
    }

    /// The position of the selected index.
    fn find(&self, namespace: &Namespace, indexes: &[Index]) -> Result<usize> {
        let all = indexes.iter().enumerate();
        let mut found = all.filter(|(_, index)| self.selects(&index.name, &index.key_pattern()));
        let shown = || match self {
            Self::Name(name) => (*name).to_owned(),
            Self::Keys(keys) => keys.to_string(),
        };
        let first = found.next().ok_or_else(|| {
            refused(Code::INDEX_NOT_FOUND, format!("cannot find index {} for ns {namespace}", shown()))
        })?;
        // Only keys can be those of several indexes: partial ones with different filters.
        if found.next().is_some() {
            let message =
                format!("index keyPattern {} matches several indexes, identify by name instead", shown());
            return Err(refused(Code::AMBIGUOUS_INDEX_KEY_PATTERN, message));
        }
        Ok(first.0)
    }
}

impl IndexChange {
    /// Rejects what cannot be changed of the index on `_id`.
    fn check_of_id(self) -> Result<()> {
        if self.hidden == Some(true) {
            return Err(refused(Code::BAD_VALUE, "can't hide _id index"));
        }
        if self.expire_after.is_some() {
            return Err(refused(Code::INVALID_OPTIONS, "the _id field does not support TTL indexes"));
        }
        Ok(())
    }

    /// Changes an index in memory.
    fn apply(self, index: &mut Index) -> Result<ChangedSettings> {
        // MongoDB would convert it, by a look at all entries. Here `unique` is given when an index is made.
        if self.is_unique && !index.spec.is_unique() {
            let message = "the field 'unique' of 'collMod.index' is not supported: create the index again";
            return Err(unsupported(message));
        }
        let before = index.settings.clone();
        if let Some(time) = self.expire_after {
            // MongoDB rejects a change by another code than a creation.
            let seconds = index_settings::expiry(time, &index.spec)
                .map_err(|error| refused(Code::INVALID_OPTIONS, error))?;
            index.settings.expire_after_seconds = Some(seconds);
        }
        index.settings.hidden = self.hidden.unwrap_or(before.hidden);
        Ok(ChangedSettings { before, after: index.settings.clone() })
    }
}
