//! The keys that a document has in an index, by MongoDB's rules for arrays, missing fields and sparse indexes.
//!
//! Each kind of index is a `KeyExtractor`: it makes a document into any number of entries, each a key and a small value.
//!
//! The invariant: every value that [`leaves`](crate::path::leaves) offers for a field has a key, so a scan of
//! the index finds every document that a filter matches. The planner knows three exceptions: an array as a
//! whole has no key of its own, only its elements have; an empty array has the key of undefined; and a path
//! with a position has no key for elements without a field of that name.

mod fields;
mod wildcard;

use bson::{RawBsonRef, RawDocument};

use crate::collation::Collation;
use crate::error::Error;
use crate::key;
use crate::multikey::ArrayComponents;
use crate::spec::{IndexField, IndexSpec};
use fields::FieldKeys;
use wildcard::WildcardKeys;

/// How many keys a document may have in one index, before equal ones are merged.
pub(crate) const KEYS_MAX: usize = 100_000;

/// How many bytes the keys of a document may take in one index.
///
/// Only a document that repeats a long value for every element of a long array reaches it.
pub(crate) const KEY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The keys of one document in one index. The buffers are used again for the next document.
#[derive(Clone, Debug, Default)]
pub struct ExtractedKeys {
    bytes: Vec<u8>,
    types: Vec<u8>,
    ends: Vec<Ends>,
    /// For each field of the index; empty if no array was met.
    arrays: Vec<ArrayComponents>,
}

/// Where a key starts and ends in both buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    bytes: (usize, usize),
    types: (usize, usize),
}

impl ExtractedKeys {
    /// Removes all keys but keeps the memory of the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.types.clear();
        self.ends.clear();
        self.arrays.clear();
    }

    /// The key bytes and type bytes of every key, in ascending order of the key bytes, each key once.
    ///
    /// If elements of an array are equal but differ in type, as `1` and `1.0`, the smaller type bytes are
    /// kept.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.ends.iter().map(|ends| (self.key_bytes(*ends), self.key_types(*ends)))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the document has no key. Only a sparse index has documents without a key.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether the path of any field led to an array, even if that gave a single key.
    ///
    /// Bounds on an index with such documents must not be intersected: different elements may satisfy them.
    pub fn is_multikey(&self) -> bool {
        !self.arrays.is_empty()
    }

    /// For each field of the index, the components of its path that led to an array. Empty if no array was
    /// found.
    pub fn array_components(&self) -> &[ArrayComponents] {
        &self.arrays
    }

    fn key_bytes(&self, ends: Ends) -> &[u8] {
        self.bytes.get(ends.bytes.0..ends.bytes.1).unwrap_or_default()
    }

    fn key_types(&self, ends: Ends) -> &[u8] {
        self.types.get(ends.types.0..ends.types.1).unwrap_or_default()
    }

    /// Where the next key starts in both buffers.
    fn start(&self) -> Ends {
        let last = self.ends.last().copied().unwrap_or_default();
        Ends { bytes: (last.bytes.1, last.bytes.1), types: (last.types.1, last.types.1) }
    }

    /// Removes the bytes that were written since the last finished key.
    fn discard_unfinished(&mut self) {
        let start = self.start();
        self.bytes.truncate(start.bytes.0);
        self.types.truncate(start.types.0);
    }

    #[inline]
    fn append(&mut self, value: RawBsonRef<'_>, field: &IndexField, collation: &Collation) {
        if collation.is_simple() {
            key::encode_with_types(value, field.direction, &mut self.bytes, &mut self.types);
        } else {
            let form = collation.key_form(value);
            key::encode_with_types(form.value(), field.direction, &mut self.bytes, &mut self.types);
        }
    }

    /// Ends the key that was written. A key equal to the one before it is dropped.
    fn finish(&mut self) -> Result<(), Error> {
        let start = self.start();
        let ends =
            Ends { bytes: (start.bytes.0, self.bytes.len()), types: (start.types.0, self.types.len()) };
        // Only the neighbor is compared: that keeps a long run of equal elements below the limits. Equal keys
        // that are further apart meet in `sort`.
        let is_repeated = self.ends.last().is_some_and(|last| {
            self.key_bytes(*last) == self.key_bytes(ends) && self.key_types(*last) == self.key_types(ends)
        });
        if is_repeated {
            self.discard_unfinished();
            return Ok(());
        }
        if self.ends.len() == KEYS_MAX {
            return Err(Error::TooManyKeys { limit: KEYS_MAX });
        }
        // Checked after each key, so the buffer outgrows the limit by one key at most.
        if self.bytes.len() > KEY_BYTES_MAX {
            return Err(Error::KeysTooLarge { limit: KEY_BYTES_MAX });
        }
        self.ends.push(ends);
        Ok(())
    }

    fn sort(&mut self) {
        let mut ends = std::mem::take(&mut self.ends);
        // The type bytes take part in the order, so `dedup`, which keeps the first of equal keys, keeps the
        // one with the smallest type bytes, in whatever order the elements came.
        ends.sort_unstable_by_key(|ends| (self.key_bytes(*ends), self.key_types(*ends)));
        ends.dedup_by_key(|ends| self.key_bytes(*ends));
        self.ends = ends;
    }
}
/// How a kind of index makes a document into entries.
///
/// An entry is a key, by which it is found and sorted, and a small value that is stored beside it. Here the value is the type
/// bytes, with which a number is given back as it was stored; another kind of index may put there what it needs.
trait KeyExtractor {
    /// Adds the entries of a document to `keys`, which are empty, in ascending order and each key once.
    ///
    /// After an error `keys` may have any content.
    fn extract(&self, document: &RawDocument, keys: &mut ExtractedKeys) -> Result<(), Error>;
}

/// Replaces `keys` by the keys that a well-formed document has in an index.
///
/// * A missing field counts as null, an empty array as undefined.
/// * An array gives a key for each element, and none for itself. If the path goes on below the array, it
///   follows each element that is an object; for any other element the rest of the path counts as missing.
/// * A component `0`, `1`, … picks the element at that position if the array has it. If the path ends there and
///   the element is itself an array, that array is one value.
/// * A wildcard index has a key for each value that [`WildcardPaths`](crate::wildcard::WildcardPaths) says, which starts with its path.
/// * A sparse index has no key for a document, or an element, in which all fields are missing.
///
/// # Errors
/// [`Error::ParallelArrays`] if fields of a compound index meet different arrays,
/// [`Error::AmbiguousPosition`] if a numeric component is a position and a field at once,
/// [`Error::TooManyKeys`] and [`Error::KeysTooLarge`] beyond the limits. After an error `keys` is empty.
///
/// # Examples
/// ```
/// use bson::rawdoc;
/// use cairndb_index::extract::{ExtractedKeys, extract};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "tags": 1 }, SpecOptions::default())?;
/// let mut keys = ExtractedKeys::default();
/// extract(&spec, &rawdoc! { "tags": ["b", "a", "b"] }, &mut keys)?;
/// assert_eq!(keys.len(), 2);
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn extract(spec: &IndexSpec, document: &RawDocument, keys: &mut ExtractedKeys) -> Result<(), Error> {
    keys.clear();
    let outcome = match spec.wildcard() {
        Some(paths) => WildcardKeys { spec, paths }.extract(document, keys),
        None => FieldKeys { spec }.extract(document, keys),
    };
    if outcome.is_err() {
        keys.clear();
    }
    outcome
}

#[cfg(test)]
mod tests;
