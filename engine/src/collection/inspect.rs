//! `inspect_document`: what is stored of one document, and which entries it should have and has in each index.
//!
//! The entries that it has besides are found by reading each index to its end, because an entry is stored under its fields
//! and not under its document.

use std::collections::BTreeMap;
use std::time::Duration;

use base::error::Result;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, cstr};
use index::extract::key_values;
use index::key;
use index::validate::validate;
use query::operation::OperationContext;
use store::Family;
use store::scan::{CacheUse, Scan};

use crate::catalog::indexes::Index;
use crate::collection::handle::{Collection, Handle, Viewed};
use crate::document::print::with_sort_keys_shown;
use crate::write::entries::{EntryParts, bounds, split, stored_entries_of};
use crate::write::prepare::{encoded_id, record_key};

/// The number of entries that are read between two checks of the limits of the call.
const ENTRIES_A_LOOK: u32 = 256;

/// The stored form of a document: the result of [`Collection::inspect_document`].
///
/// ```
/// # use cairndb::{Client, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).build()).run()?;
/// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
/// let found = people.inspect_document(1).run()?.expect("it is there");
/// assert!(found.is_whole());
/// assert_eq!(found.indexes[0].entries[0].fields, Some(doc! { "name": "Ada" }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentInspection {
    /// The key under which the document is stored: the number of the collection, and the encoded `_id`.
    pub record_key: Vec<u8>,
    /// The number of bytes that are stored under that key. `None` if there are none: then only entries are left of
    /// the document.
    pub stored_bytes: Option<u64>,
    /// The document. `None` if there is none, or what is stored is none.
    pub document: Option<RawDocumentBuf>,
    /// The reason why the stored bytes are not a document, or cannot be indexed.
    pub problem: Option<String>,
    /// The indexes of the collection, without the one on `_id`, which has no entries.
    pub indexes: Vec<IndexInspection>,
}

impl DocumentInspection {
    /// Whether the document is there, with every entry that it should have and no other.
    pub fn is_whole(&self) -> bool {
        let mut entries = self.indexes.iter().flat_map(|index| &index.entries);
        self.document.is_some()
            && self.problem.is_none()
            && entries.all(|entry| entry.state == EntryState::Present)
    }
}

/// The entries that a document should have and has in an index.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexInspection {
    /// The name of the index.
    pub name: String,
    /// The entries, ascending by their keys. A document outside of a partial index has none.
    pub entries: Vec<EntryInspection>,
}

/// An entry that a document should have, or has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EntryInspection {
    /// Whether it should be there, and is.
    pub state: EntryState,
    /// The values of the index's fields. `None` if they cannot be read.
    pub fields: Option<Document>,
    /// The key under which the entry is, or should be, stored.
    pub key: Vec<u8>,
    /// The value as it is stored; of a missing entry as it should be.
    pub value: Vec<u8>,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryState {
    /// It is there, as it should be.
    Present,
    /// It is not there.
    Missing,
    /// Another value is there: of another document, or with other types.
    Different,
    /// It is there, and the document does not have it.
    Surplus,
}

impl EntryState {
    /// The name, as tools show it.
    ///
    /// ```
    /// assert_eq!(cairndb::EntryState::Missing.name(), "missing");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Surplus => "surplus",
        }
    }
}

impl<T> Collection<T> {
    /// Looks at what is stored of the document with this `_id`, and at its entries in all indexes, hidden ones too. For
    /// finding out what is wrong with a document that [`verify`](crate::Client::verify) names, or that a search does not
    /// find.
    ///
    /// Every index is read to its end, so this is slow in a large collection.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// let found = people.inspect_document(1).run()?.expect("it is there");
    /// assert_eq!(found.stored_bytes, Some(28));
    /// assert_eq!(people.inspect_document(2).run()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect_document(&self, id: impl Into<Bson>) -> InspectDocument<'_> {
        InspectDocument { collection: &self.handle, id: id.into(), max_time: None }
    }
}

/// The action that [`Collection::inspect_document`] returns. [`run`](Self::run) executes it.
#[must_use = "the document is looked at by run()"]
pub struct InspectDocument<'a> {
    collection: &'a Handle,
    id: Bson,
    max_time: Option<Duration>,
}

impl InspectDocument<'_> {
    /// The time limit. When it is over the call fails with code 50 (`MaxTimeMSExpired`).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let found = people.inspect_document(1).max_time(std::time::Duration::from_secs(60)).run()?;
    /// assert!(found.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Looks at the document. Returns `None` if neither it nor an entry of it is there, or the collection is not.
    pub fn run(self) -> Result<Option<DocumentInspection>> {
        let mut id = RawDocumentBuf::new();
        id.append(cstr!("_id"), bson::RawBson::try_from(self.id)?);
        let operation = self.collection.begin(self.max_time);
        let found = self.collection.view(|viewed| inspect(&viewed, &id, &operation))?;
        let is_there = |found: &DocumentInspection| {
            found.stored_bytes.is_some() || found.indexes.iter().any(|index| !index.entries.is_empty())
        };
        Ok(found.filter(is_there))
    }
}

/// Looks at the document whose `_id` is the field of `id`.
fn inspect(
    viewed: &Viewed<'_>,
    id: &RawDocument,
    operation: &OperationContext,
) -> Result<DocumentInspection> {
    let Viewed { state, view, .. } = viewed;
    let snapshot = view.snapshot().expect("a view of a whole collection has a snapshot");
    let id = id.get("_id")?.expect("it was appended");
    let record_key = record_key(state, id);
    let record = snapshot.get(Family::Records, &record_key)?;
    // Hidden ones too. Of the others only those of the view: the snapshot has all their entries.
    let is_readable =
        |index: &Index| index.settings.hidden || view.indexes().iter().any(|one| one.id == index.id);
    let indexes: Vec<Index> = state.indexes().iter().filter(|index| is_readable(index)).cloned().collect();
    let (mut document, mut problem, mut expected) = (None, None, Vec::new());
    if let Some(record) = &record {
        match validate(record) {
            Ok(valid) => {
                match stored_entries_of(indexes.iter().enumerate(), valid.as_raw(), encoded_id(&record_key)) {
                    Ok(drawn) => expected = drawn.entries,
                    Err(error) => problem = Some(format!("the document cannot be indexed: {error}")),
                }
            }
            Err(error) => problem = Some(error.to_string()),
        }
        document = RawDocumentBuf::from_bytes(record.clone()).ok();
    }
    let mut inspected = Vec::with_capacity(indexes.len());
    for (position, index) in indexes.iter().enumerate() {
        let own = expected.iter().filter(|entry| entry.index == position);
        let mut missing: BTreeMap<&[u8], &[u8]> = own.map(|entry| (&*entry.key, &*entry.value)).collect();
        let mut entries = Vec::new();
        let bounds = bounds(index.id);
        let mut scan = Scan::open(snapshot, Family::Entries, bounds, CacheUse::Bypass, operation);
        let mut read = 0_u32;
        while scan.advance()? {
            read = read.wrapping_add(1);
            if read.is_multiple_of(ENTRIES_A_LOOK) {
                operation.look()?;
            }
            let state = match missing.remove(scan.key()) {
                Some(value) if value == scan.value() => EntryState::Present,
                Some(_) => EntryState::Different,
                None => match split(index, scan.key(), scan.value()) {
                    Some(parts) if parts.id == encoded_id(&record_key) => EntryState::Surplus,
                    // Of another document, or damaged, which `verify` says.
                    Some(_) | None => continue,
                },
            };
            entries.push(entry(index, state, (scan.key(), scan.value()), document.as_deref()));
        }
        let document = document.as_deref();
        entries.extend(missing.into_iter().map(|stored| entry(index, EntryState::Missing, stored, document)));
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        inspected.push(IndexInspection { name: index.name.clone(), entries });
    }
    Ok(DocumentInspection {
        stored_bytes: record.map(|record| record.len() as u64),
        record_key,
        document,
        problem,
        indexes: inspected,
    })
}

/// An entry with this key and value.
fn entry(
    index: &Index,
    state: EntryState,
    stored: (&[u8], &[u8]),
    document: Option<&RawDocument>,
) -> EntryInspection {
    let (key, value) = stored;
    let fields = split(index, key, value).and_then(|parts| fields(index, parts, document));
    EntryInspection { state, fields, key: key.to_vec(), value: value.to_vec() }
}

/// The values of the fields of an entry, which those of shortened keys are if the document has them. Returns `None` if its bytes are
/// damaged.
fn fields(index: &Index, parts: EntryParts<'_>, document: Option<&RawDocument>) -> Option<Document> {
    let (mut key, mut types) = (parts.fields, parts.types);
    let (mut fields, mut path) = (Document::new(), None);
    let is_collated = !index.spec.collation().is_simple();
    let long_keys = index.spec.long_keys();
    let known = document.filter(|_| long_keys.is_shortened(key.len()));
    let known = known.and_then(|document| key_values(&index.spec, document, key).ok().flatten());
    for (at, field) in index.spec.fields().iter().enumerate() {
        let length = long_keys.skip(key, field.direction).ok()?;
        let value = if long_keys.is_shortened(length) {
            key = key.get(length..)?;
            let known = known.as_ref().and_then(|known| known.get(at));
            known.and_then(|value| Bson::try_from(value.clone()).ok()).unwrap_or(Bson::Undefined)
        } else {
            key::decode(&mut key, field.direction, &mut types).ok()?
        };
        let name = path.take().unwrap_or_else(|| field.path.as_str().to_owned());
        // In a wildcard index the first field gives the name of the second.
        if index.spec.wildcard().is_some() && fields.is_empty() {
            path = value.as_str().map(str::to_owned);
            // A path is not a text that a collation would be about.
            fields.insert(name, value);
            continue;
        }
        fields.insert(name, if is_collated { with_sort_keys_shown(value) } else { value });
    }
    Some(fields)
}
