//! Keys of unique indexes: which entries have them, the latches that protect them, and the rejection of one that is in use.

use base::error::Result;
use base::namespace::Namespace;
use base::write_error::Refusal;
use bson::{Bson, Document, RawBson, RawDocument, doc};
use index::element;
use index::extract::key_values;
use index::order::compare;
use store::keys::{CollectionId, ID_BYTES};
use store::latch::LatchSet;
use store::{Database, Family};

use crate::catalog::given_keys::filters::Absence;
use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::options::PlantedFault;
use crate::plan::bounds::ID_FIELD;
use crate::write::entries::{Entry, split};
use crate::write::prepare::{Prepared, Taker, encoded_id};
use crate::write::{Target, duplicate};

/// Those of the entries whose index is unique.
pub(super) fn unique_entries<'a>(
    target: Target<'_>,
    entries: &'a [Entry],
) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(move |entry| is_unique(target, entry))
}

/// Whether the entry's index is unique.
pub(super) fn is_unique(target: Target<'_>, entry: &Entry) -> bool {
    target.indexes.get(entry.index).is_some_and(|index| index.spec.is_unique())
}

/// Adds the latches of the unique keys among the entries.
pub(super) fn add_unique_latches(latches: &mut LatchSet, target: Target<'_>, entries: &[Entry]) {
    if target.database.fault() == PlantedFault::UniqueNotLatched {
        return;
    }
    for entry in unique_entries(target, entries) {
        latches.add(&entry.key);
    }
}

/// Whether a document has the key of a unique entry, whose latch is held: what is absent now stays absent until the commit.
#[inline]
pub(super) fn is_taken(target: Target<'_>, entry: &Entry) -> Result<bool> {
    // In this order: the key must be among the given ones before its absence is relied on.
    Ok(target.admit_unique(entry)? == Absence::Unproven && target.exists(Family::Entries, &entry.key)?)
}

/// The rejection of a document whose unique key another document has: `staged`, or one that is stored.
pub(super) fn taken_entry(
    target: Target<'_>,
    entry: &Entry,
    taker: Taker<'_>,
    staged: Option<&RawDocument>,
) -> Result<Refusal> {
    let index = target.indexes.get(entry.index).expect("entries are made from these indexes");
    let namespace = &target.collection.namespace;
    if !may_be_shortened(index, &entry.key) {
        // The value of a unique entry is the id and then the type bytes.
        let types = entry.value.strip_prefix(taker.encoded_id).unwrap_or_default();
        return Ok(duplicate::of_entry(namespace, index, &entry.key, types));
    }
    let stored = match staged {
        Some(_) => None,
        None => holder(target.database, target.collection.id, index, &entry.key)?,
    };
    let stored = stored.as_deref().and_then(|bytes| RawDocument::from_bytes(bytes).ok());
    Ok(of_values(namespace, index, &entry.key, taker.document, staged.or(stored)))
}

/// The rejection of a document whose `_id` another document has, or one with the same shortened key: `staged`, or one that is stored.
pub(super) fn taken_id(
    target: Target<'_>,
    prepared: &Prepared<'_>,
    staged: Option<&RawDocument>,
) -> Result<Refusal> {
    let (namespace, id) = (&target.collection.namespace, prepared.id());
    if !target.collection.record_keys.is_shortened(encoded_id(&prepared.record_key)) {
        return Ok(duplicate::of_id(namespace, &id));
    }
    let stored = match staged {
        Some(_) => None,
        None => target.database.record(&prepared.record_key)?,
    };
    let stored = stored.as_deref().and_then(|bytes| RawDocument::from_bytes(bytes).ok());
    let id_of = |document: &RawDocument| element::field(document, ID_FIELD).map(RawBson::from);
    let own = id_of(prepared.document());
    let other = staged.or(stored).and_then(id_of);
    let is_other = own.zip(other).is_some_and(|(own, other)| !are_equal(&[own], &[other]));
    let id = doc! { ID_FIELD: id };
    Ok(if is_other {
        duplicate::of_other_value(namespace, ID_INDEX_NAME, &id)
    } else {
        duplicate::of_id(namespace, id.get(ID_FIELD).unwrap_or(&Bson::Null))
    })
}

/// Whether a field of a unique entry may be shortened.
pub(super) fn may_be_shortened(index: &Index, entry_key: &[u8]) -> bool {
    index.spec.long_keys().is_shortened(entry_key.len().saturating_sub(ID_BYTES))
}

/// The rejection of a document by the values of its key. The key is that of `other` too, if that could be read.
pub(super) fn of_values(
    namespace: &Namespace,
    index: &Index,
    entry_key: &[u8],
    document: &RawDocument,
    other: Option<&RawDocument>,
) -> Refusal {
    let fields = entry_key.get(ID_BYTES..).unwrap_or_default();
    let values = |document: &RawDocument| key_values(&index.spec, document, fields).ok().flatten();
    // A key that the document does not have any more must not hide the duplicate.
    let own = values(document).unwrap_or_default();
    let is_other = other.and_then(values).is_some_and(|other| !are_equal(&own, &other));
    let shown = index.spec.fields().iter().zip(&own).map(|(field, value)| {
        let value = Bson::try_from(value.clone()).unwrap_or(Bson::Undefined);
        (field.path.as_str().to_owned(), value)
    });
    let shown: Document = shown.collect();
    if is_other {
        duplicate::of_other_value(namespace, &index.name, &shown)
    } else {
        duplicate::of_values(namespace, index, shown)
    }
}

/// The document that a unique entry names. Returns `None` if the entry is gone.
pub(super) fn holder(
    database: &Database,
    collection: CollectionId,
    index: &Index,
    entry_key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let Some(value) = database.get(Family::Entries, entry_key)? else { return Ok(None) };
    document_of(database, collection, index, (entry_key, &value))
}

/// The document of a unique entry. Returns `None` if it does not exist any more.
pub(super) fn document_of(
    database: &Database,
    collection: CollectionId,
    index: &Index,
    entry: (&[u8], &[u8]),
) -> Result<Option<Vec<u8>>> {
    let (key, value) = entry;
    let Some(parts) = split(index, key, value) else { return Ok(None) };
    database.record(&[&collection.prefix()[..], parts.id].concat())
}

fn are_equal(one: &[RawBson], other: &[RawBson]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.all(|(one, other)| compare(one.as_raw_bson_ref(), other.as_raw_bson_ref()).is_eq())
}
