//! The keys that a document has in an index, by MongoDB's rules for arrays, missing fields and sparse indexes.
//!
//! Each kind of index is a `KeyExtractor`: it makes a document into any number of entries, each a key and a small value.
//!
//! The invariant: every value that [`leaves`](crate::path::leaves) offers for a field has a key, so a scan of
//! the index finds every document that a filter matches. The planner knows three exceptions: an array as a
//! whole has no key of its own, only its elements have; an empty array has the key of undefined; and a path
//! with a position has no key for elements without a field of that name.

mod fields;
mod sought;
mod wildcard;

use bson::{RawBson, RawBsonRef, RawDocument};

use crate::collation::Collation;
use crate::error::Error;
use crate::interval::Intervals;
use crate::key;
use crate::multikey::ArrayComponents;
use crate::spec::IndexSpec;
use fields::FieldKeys;
use sought::SoughtKey;
use wildcard::WildcardKeys;

/// The limit of a document's keys in one index, before equal ones are merged.
pub(crate) const KEYS_MAX: usize = 100_000;

/// The limit of the bytes of a document's keys in one index.
///
/// Only a document that repeats a long value for every element of a long array reaches it.
pub(crate) const KEY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The keys of one document in one index. The buffers are used again for the next document.
#[derive(Clone, Debug, Default)]
pub struct ExtractedKeys {
    bytes: Vec<u8>,
    types: Vec<u8>,
    ends: Vec<Ends>,
    /// For each field of the index; empty if no array was met and no key was shortened.
    arrays: Vec<ArrayComponents>,
    /// For each field of the index the value whose key was shortened last; empty if none was.
    shortened: Vec<ShortenedValue>,
    /// The number of bytes that were encoded for keys that are shortened.
    encoded: usize,
    /// The key whose values are looked for.
    sought: Option<SoughtKey>,
}

/// A value within the document, and its shortened key.
#[derive(Clone, Debug, Default)]
struct ShortenedValue {
    /// The place of the value in memory. It is only compared, and only while the keys of one document are made.
    place: Option<(usize, usize)>,
    key: Vec<u8>,
}

/// The begin and end of a key in both buffers.
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
        self.shortened.clear();
        self.encoded = 0;
        self.sought = None;
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
        self.arrays.iter().any(|arrays| !arrays.is_empty())
    }

    /// For each field of the index, the components of its path that led to an array, and whether a key was shortened. Empty if
    /// there is no array and no shortened key.
    pub fn array_components(&self) -> &[ArrayComponents] {
        &self.arrays
    }

    fn key_bytes(&self, ends: Ends) -> &[u8] {
        self.bytes.get(ends.bytes.0..ends.bytes.1).unwrap_or_default()
    }

    fn key_types(&self, ends: Ends) -> &[u8] {
        self.types.get(ends.types.0..ends.types.1).unwrap_or_default()
    }

    /// The begin of the next key in both buffers.
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

    /// Appends a value of the field at a position of the index, which compares texts by a collation.
    #[inline]
    fn append(&mut self, value: RawBsonRef<'_>, at: usize, spec: &IndexSpec, collation: &Collation) {
        let start = self.bytes.len();
        if self.shortened.is_empty() || !self.append_again(value, at) {
            self.append_anew(value, at, spec, collation);
        }
        if let Some(sought) = &mut self.sought {
            let place = if is_made_path(spec, at) { None } else { place_of(value) };
            sought.add(at, self.bytes.get(start..).unwrap_or_default(), (place, value), collation);
        }
    }

    #[inline]
    fn append_anew(&mut self, value: RawBsonRef<'_>, at: usize, spec: &IndexSpec, collation: &Collation) {
        let Some(field) = spec.fields().get(at) else { return };
        let (start, types) = (self.bytes.len(), self.types.len());
        if collation.is_simple() {
            key::encode_with_types(value, field.direction, &mut self.bytes, &mut self.types);
        } else {
            let form = collation.key_form(value);
            key::encode_with_types(form.value(), field.direction, &mut self.bytes, &mut self.types);
        }
        let whole = self.bytes.len() - start;
        if spec.long_keys().shorten(start, &mut self.bytes) {
            // The document has the value; its entries do not say it.
            self.types.truncate(types);
            self.encoded += whole;
            self.note_shortened(value, at, spec);
        }
    }

    /// Appends the shortened key of a value if it is the one whose key was made last. A document may need it for each element of
    /// an array, and it needs as long to make as the value is long.
    #[cold]
    fn append_again(&mut self, value: RawBsonRef<'_>, at: usize) -> bool {
        let Some(last) = self.shortened.get(at).filter(|last| !last.key.is_empty()) else { return false };
        if last.place.is_none() || place_of(value) != last.place {
            return false;
        }
        self.bytes.extend_from_slice(&last.key);
        true
    }

    /// Notes that the key of a value, which was written last, was shortened.
    #[cold]
    fn note_shortened(&mut self, value: RawBsonRef<'_>, at: usize, spec: &IndexSpec) {
        let fields = spec.fields().len();
        self.arrays.resize(fields, ArrayComponents::NONE);
        self.shortened.resize_with(fields, ShortenedValue::default);
        let start = self.bytes.len().saturating_sub(key::SHORTENED_BYTES);
        let key = self.bytes.get(start..).unwrap_or_default();
        if let (Some(arrays), Some(last)) = (self.arrays.get_mut(at), self.shortened.get_mut(at)) {
            arrays.insert_shortened();
            last.place = if is_made_path(spec, at) { None } else { place_of(value) };
            key.clone_into(&mut last.key);
        }
    }

    /// Ends the key that was written. A key equal to the one before it is dropped.
    fn finish(&mut self) -> Result<(), Error> {
        if let Some(sought) = &mut self.sought {
            sought.end_key();
        }
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
        // Encoding without keeping costs as much time.
        if self.bytes.len() + self.encoded > KEY_BYTES_MAX {
            return Err(Error::KeysTooLarge { limit: KEY_BYTES_MAX });
        }
        self.ends.push(ends);
        Ok(())
    }

    fn sort(&mut self) {
        let mut ends = std::mem::take(&mut self.ends);
        // The type bytes participate in the order, so `dedup`, which keeps the first of equal keys, keeps the
        // one with the smallest type bytes, in whatever order the elements came.
        ends.sort_unstable_by_key(|ends| (self.key_bytes(*ends), self.key_types(*ends)));
        ends.dedup_by_key(|ends| self.key_bytes(*ends));
        self.ends = ends;
    }
}
/// Whether a field is the path of a wildcard index, which is not a part of the document: others are made in the same place.
fn is_made_path(spec: &IndexSpec, at: usize) -> bool {
    at == 0 && spec.wildcard().is_some()
}

/// The place of a value in memory, and its length, if it may be long.
fn place_of(value: RawBsonRef<'_>) -> Option<(usize, usize)> {
    let bytes = match value {
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            text.as_bytes()
        }
        RawBsonRef::Document(document) => document.as_bytes(),
        RawBsonRef::Array(array) => array.as_bytes(),
        RawBsonRef::Binary(binary) => binary.bytes,
        RawBsonRef::RegularExpression(expression) => expression.pattern.as_str().as_bytes(),
        RawBsonRef::JavaScriptCodeWithScope(code) => code.scope.as_bytes(),
        // The namespace of a pointer is not to be had. The others are never long.
        RawBsonRef::DbPointer(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey => return None,
    };
    Some((bytes.as_ptr().addr(), bytes.len()))
}

/// The extraction of entries from a document, for one kind of index.
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
    extract_into(spec, document, keys)
}

fn extract_into(spec: &IndexSpec, document: &RawDocument, keys: &mut ExtractedKeys) -> Result<(), Error> {
    let outcome = match spec.wildcard() {
        Some(paths) => WildcardKeys { spec, paths }.extract(document, keys),
        None => FieldKeys { spec }.extract(document, keys),
    };
    if outcome.is_err() {
        keys.clear();
    }
    outcome
}

/// The values of a document at the fields of an index, of which the bytes of one of its keys were made. In an index with a
/// collation they are the key forms of the values. Returns `None` if the document has no such key.
///
/// A shortened key does not give its values. Two documents may have values there that are not equal.
///
/// # Errors
/// Those of [`extract`], and [`Error::KeyTruncated`] or [`Error::KeyMalformed`] if `fields` are not the bytes of a key.
///
/// # Examples
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_index::extract::{ExtractedKeys, extract, key_values};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "tags": 1 }, SpecOptions::default())?;
/// let (document, mut keys) = (rawdoc! { "tags": ["b", "a"] }, ExtractedKeys::default());
/// extract(&spec, &document, &mut keys)?;
/// let (first, _) = keys.iter().next().unwrap();
/// assert_eq!(key_values(&spec, &document, first)?, Some(vec![RawBson::String("a".to_owned())]));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
pub fn key_values(
    spec: &IndexSpec,
    document: &RawDocument,
    fields: &[u8],
) -> Result<Option<Vec<RawBson>>, Error> {
    let found = sought(SoughtKey::parse(spec, fields, &[])?, spec, document)?;
    Ok(found.into_values())
}

/// Whether a document has values at the fields of an index that lie in `sets`, a set for each field, and of which the bytes of one
/// of its keys were made. Returns `None` if the document has no such key. In an index with a collation the sets are of key forms.
///
/// More than one value of a document may have the same shortened key.
///
/// # Errors
/// Those of [`key_values`].
pub fn has_values_within(
    spec: &IndexSpec,
    document: &RawDocument,
    fields: &[u8],
    sets: &[Intervals],
) -> Result<Option<bool>, Error> {
    let found = sought(SoughtKey::parse(spec, fields, sets)?, spec, document)?;
    Ok(found.is_within())
}

/// Looks for a key in a document.
fn sought(key: SoughtKey, spec: &IndexSpec, document: &RawDocument) -> Result<SoughtKey, Error> {
    let mut keys = ExtractedKeys { sought: Some(key), ..ExtractedKeys::default() };
    extract_into(spec, document, &mut keys)?;
    Ok(keys.sought.take().unwrap_or_default())
}

#[cfg(test)]
mod tests;
