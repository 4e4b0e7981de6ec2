//! Index entries: which keys and values a document has in the indexes of its collection.
//!
//! A unique entry's key is without the document's id, so that a duplicate is one point lookup under one latch;
//! its value names the document. A plain entry's key ends with the document's encoded id.
//!
//! Beside its entries this file finds the arrays and the shortened keys of a document that the catalog does not know of yet. They are noted in
//! the catalog by the commit that writes the entries.

use base::write_error::{Refusal, WriteError};
use bson::{RawBsonRef, RawDocument};
use index::element;
use index::error::Error as IndexError;
use index::extract::{ExtractedKeys, extract};
use index::field_order::FieldOrder;
use index::key::{self, Direction};
use index::multikey::ArrayComponents;
use query::code::Code;
use store::keys::{ID_BYTES, IndexId};

use crate::catalog::indexes::{EntryDetail, Index};

/// The most bytes that the entries of one document may use in one index, and those in all of them that a write adds for it.
const ENTRY_BYTES_MAX: usize = 64 << 20;

/// One entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Position of its index among those of the collection.
    pub(crate) index: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Entry {
    /// The bytes of key and value.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// The entries of a document in the indexes of its collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    /// All entries, index by index, ascending within one.
    pub(crate) entries: Vec<Entry>,
    /// Arrays and shortened keys that the catalog does not know of; nearly always none.
    pub(crate) arrays: NewArrays,
}

/// Indexes by their position, or none for the records, each with the components of its fields' paths that led to an array, and
/// whether keys were shortened.
pub(crate) type NewArrays = Vec<(Option<usize>, Vec<ArrayComponents>)>;

/// A stored entry, split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryParts<'a> {
    /// The encoded fields.
    pub(crate) fields: &'a [u8],
    /// The encoded `_id` of the document.
    pub(crate) id: &'a [u8],
    /// The bytes that restore the fields' types. In an index of [`EntryDetail::Whole`] what restores the `_id`'s type
    /// and the order of the fields follows.
    pub(crate) types: &'a [u8],
}

/// Computes what a document puts into indexes, which are given with their positions. Rejects one that puts too much there.
pub(crate) fn entries_of<'i>(
    indexes: impl IntoIterator<Item = (usize, &'i Index)>,
    document: &RawDocument,
    encoded_id: &[u8],
) -> Result<Drawn, Refusal> {
    draw(indexes, document, encoded_id, Limited::AllIndexes)
}

/// As [`entries_of`], of a document that is stored. It may have more in all indexes than one that is inserted, since each index that
/// was made later has added to it; but not more in any of them.
pub(crate) fn stored_entries_of<'i>(
    indexes: impl IntoIterator<Item = (usize, &'i Index)>,
    document: &RawDocument,
    encoded_id: &[u8],
) -> Result<Drawn, Refusal> {
    draw(indexes, document, encoded_id, Limited::EachIndex)
}

/// Rejects entries that a write adds for one document, if they need more than they may.
pub(crate) fn check_added(bytes: usize) -> Result<(), Refusal> {
    if bytes <= ENTRY_BYTES_MAX {
        return Ok(());
    }
    Err(WriteError::boxed(
        Code::BAD_VALUE,
        format!("index entries of the document take {bytes} bytes, more than {ENTRY_BYTES_MAX}"),
    ))
}

/// The place in which the entries of a document are added up for [`ENTRY_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    AllIndexes,
    EachIndex,
}

fn draw<'i>(
    indexes: impl IntoIterator<Item = (usize, &'i Index)>,
    document: &RawDocument,
    encoded_id: &[u8],
    limited: Limited,
) -> Result<Drawn, Refusal> {
    let indexes = indexes.into_iter();
    let mut entries = Vec::with_capacity(indexes.size_hint().0);
    let mut arrays = NewArrays::new();
    let mut keys = ExtractedKeys::default();
    let mut bytes = 0_usize;
    let mut id_types = None;
    for (position, index) in indexes {
        if limited == Limited::EachIndex {
            bytes = 0;
        }
        keys.clear();
        // Before the keys are drawn: a document outside of a partial index may have any values at its fields.
        if !index.settings.holds(document) {
            continue;
        }
        extract(&index.spec, document, &mut keys).map_err(|error| refusal(&error))?;
        // Two cheap tests in front: few documents have arrays, and the catalog knows of nearly all of those.
        if !keys.array_components().is_empty() && index.arrays.misses(keys.array_components()) {
            arrays.push((Some(position), keys.array_components().to_vec()));
        }
        let details = match index.detail {
            EntryDetail::Fields => Vec::new(),
            EntryDetail::Whole => {
                // All indexes share the types of the one `_id`.
                let is_shortened = index.spec.long_keys().is_shortened(encoded_id.len());
                let id_types = id_types
                    .get_or_insert_with(|| if is_shortened { Vec::new() } else { types_of_id(document) });
                let order = FieldOrder::of(&index.spec, document);
                // The common order needs no byte, so whatever follows the types is another one.
                id_types
                    .iter()
                    .copied()
                    .chain((order != FieldOrder::AS_DECLARED).then(|| order.code()))
                    .collect()
            }
        };
        // Counted before the entries are made: a document may have more of them than memory allows.
        let ids = keys.len().saturating_mul(encoded_id.len() + details.len());
        bytes = bytes.saturating_add(
            ids + keys.iter().map(|(fields, types)| fields.len() + types.len()).sum::<usize>(),
        );
        check_added(bytes)?;
        entries.extend(keys.iter().map(|(fields, types)| {
            let parts = EntryParts { fields, id: encoded_id, types };
            entry(position, index, parts, &details)
        }));
    }
    Ok(Drawn { entries, arrays })
}

/// Splits a stored entry into its parts; `None` if its bytes are not an entry of the index.
pub(crate) fn split<'a>(index: &Index, entry_key: &'a [u8], value: &'a [u8]) -> Option<EntryParts<'a>> {
    let rest = entry_key.get(ID_BYTES..)?;
    // A unique entry has the id in its value, a plain one at the end of its key; see the header.
    if index.spec.is_unique() {
        // The id's length is not stored: its encoding says where it ends.
        let id_bytes = index.spec.long_keys().skip(value, Direction::Ascending).ok()?;
        let (id, types) = value.split_at_checked(id_bytes)?;
        return Some(EntryParts { fields: rest, id, types });
    }
    let mut fields_bytes = 0;
    for field in index.spec.fields() {
        fields_bytes += index.spec.long_keys().skip(rest.get(fields_bytes..)?, field.direction).ok()?;
    }
    let (fields, id) = rest.split_at_checked(fields_bytes)?;
    Some(EntryParts { fields, id, types: value })
}

/// The range of the keys of an index: the first key, and the end, which is not in it.
pub(crate) fn bounds(index: IndexId) -> (Vec<u8>, Option<Vec<u8>>) {
    (index.prefix().to_vec(), Some(index.end()))
}

/// The stored form of an entry. `details` are what it has besides its fields and the `_id`.
fn entry(position: usize, index: &Index, parts: EntryParts<'_>, details: &[u8]) -> Entry {
    let prefix = index.id.prefix();
    let EntryParts { fields, id, types } = parts;
    let (key, value) = if index.spec.is_unique() {
        ([&prefix[..], fields].concat(), [id, types, details].concat())
    } else {
        ([&prefix[..], fields, id].concat(), [types, details].concat())
    };
    Entry { index: position, key, value }
}

/// The bytes that restore the exact `_id` of a document from its key; none for most types.
fn types_of_id(document: &RawDocument) -> Vec<u8> {
    let mut types = Vec::new();
    // The common type has no such bytes, and then nothing is encoded.
    let id = element::field(document, "_id").filter(|id| !matches!(id, RawBsonRef::ObjectId(_)));
    if let Some(id) = id {
        key::encode_with_types(id, Direction::Ascending, &mut Vec::new(), &mut types);
    }
    types
}

#[cold]
fn refusal(error: &IndexError) -> Refusal {
    if matches!(error, IndexError::ParallelArrays { .. }) {
        return WriteError::boxed(Code::CANNOT_INDEX_PARALLEL_ARRAYS, error.to_string());
    }
    WriteError::boxed(Code::BAD_VALUE, error.to_string())
}
