//! The keys that a document has in an index, by MongoDB's rules for arrays, missing fields and sparse
//! indexes.
//!
//! A document without arrays on the paths of the fields has one key, written directly into a reused
//! buffer. Otherwise the fields are followed together, array by array, because fields below one array
//! are paired element by element.
//!
//! The invariant: every value that [`leaves`](crate::path::leaves) offers for a field has a key, so a scan of
//! the index finds every document that a filter matches. The planner knows three exceptions: an array as a
//! whole has no key of its own, only its elements have; an empty array has the key of undefined; and a path
//! with a position has no key for elements without a field of that name.

use std::ptr;

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::element;
use crate::error::Error;
use crate::key;
use crate::multikey::ArrayComponents;
use crate::path;
use crate::spec::{IndexField, IndexSpec};
use crate::wildcard::WildcardPaths;

/// How many keys a document may have in one index, before equal ones are merged.
pub(crate) const KEYS_MAX: usize = 100_000;

/// How many bytes the keys of a document may take in one index.
///
/// Only a document that repeats a long value for every element of a long array reaches it.
pub(crate) const KEY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The keys of one document in one index. The buffers are used again for the next document.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::extract::{ExtractedKeys, extract};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "a": 1 }, SpecOptions::default())?;
/// let mut keys = ExtractedKeys::default();
/// for document in [rawdoc! { "a": 1 }, rawdoc! { "a": [1, 2] }] {
///     extract(&spec, &document, &mut keys)?;
/// }
/// assert_eq!((keys.len(), keys.is_multikey()), (2, true));
/// # Ok::<(), cairndb_index::error::Error>(())
/// ```
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
    ///
    /// ```
    /// let mut keys = cairndb_index::extract::ExtractedKeys::default();
    /// keys.clear();
    /// assert!(keys.is_empty());
    /// ```
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
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_index::extract::{ExtractedKeys, extract};
    /// use cairndb_index::spec::{IndexSpec, SpecOptions};
    ///
    /// let spec = IndexSpec::parse(&rawdoc! { "a": 1 }, SpecOptions::default())?;
    /// let mut keys = ExtractedKeys::default();
    /// extract(&spec, &rawdoc! { "a": [2, 1, 2] }, &mut keys)?;
    /// assert!(keys.iter().map(|(bytes, _)| bytes).is_sorted());
    /// assert_eq!(keys.iter().len(), 2);
    /// # Ok::<(), cairndb_index::error::Error>(())
    /// ```
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
    ///
    /// ```
    /// use bson::rawdoc;
    /// use cairndb_index::extract::{ExtractedKeys, extract};
    /// use cairndb_index::spec::{IndexSpec, SpecOptions};
    ///
    /// let spec = IndexSpec::parse(&rawdoc! { "a.b": 1 }, SpecOptions::default())?;
    /// let mut keys = ExtractedKeys::default();
    /// extract(&spec, &rawdoc! { "a": { "b": [1, 2] } }, &mut keys)?;
    /// let arrays = keys.array_components()[0];
    /// assert!(arrays.contains(1) && !arrays.contains(0));
    /// # Ok::<(), cairndb_index::error::Error>(())
    /// ```
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

    fn append(&mut self, value: RawBsonRef<'_>, field: &IndexField) {
        key::encode_with_types(value, field.direction, &mut self.bytes, &mut self.types);
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

/// Replaces `keys` by the keys that a well-formed document has in an index.
///
/// * A missing field counts as null, an empty array as undefined.
/// * An array gives a key for each element, and none for itself. If the path goes on below the array, it
///   follows each element that is an object; for any other element the rest of the path counts as missing.
/// * A component `0`, `1`, … picks the element at that position if the array has it. If the path ends there and
///   the element is itself an array, that array is one value.
/// * A wildcard index has a key for each value that [`WildcardPaths`] says, which starts with its path.
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
    if let Some(paths) = spec.wildcard() {
        return extract_wildcard(spec, paths, document, keys);
    }
    // Most documents have no array here. Their one key needs no slots and no sorting.
    if let Some(missing) = append_without_arrays(spec, document, keys) {
        if spec.is_sparse() && missing == spec.fields().len() {
            keys.discard_unfinished();
            return Ok(());
        }
        return keys.finish();
    }
    // An array was met. The fields written so far belong into the key of every element, so all start again.
    keys.discard_unfinished();
    keys.arrays.resize(spec.fields().len(), ArrayComponents::NONE);
    let slots = spec.fields().iter().map(|field| Slot::Open { rest: field.path.as_str(), chosen: None });
    let outcome = expand(spec, keys, Some(document), slots.collect());
    if let Err(error) = outcome {
        keys.clear();
        return Err(error);
    }
    keys.sort();
    Ok(())
}

/// Writes the keys of a document in a wildcard index: a path and a value each.
fn extract_wildcard(
    spec: &IndexSpec,
    paths: &WildcardPaths,
    document: &RawDocument,
    keys: &mut ExtractedKeys,
) -> Result<(), Error> {
    let [path_field, value_field] = spec.fields() else { return Ok(()) };
    let mut has_arrays = false;
    let outcome = paths.visit(document, &mut || has_arrays = true, &mut |path, value| {
        keys.append(RawBsonRef::String(path), path_field);
        keys.append(value, value_field);
        keys.finish()
    });
    if let Err(error) = outcome {
        keys.clear();
        return Err(error);
    }
    keys.sort();
    if has_arrays {
        // One mark for all paths: an index with a mark for each could grow without bounds.
        let mut anywhere = ArrayComponents::NONE;
        anywhere.insert(0);
        keys.arrays.extend([ArrayComponents::NONE, anywhere]);
    }
    Ok(())
}

/// Writes the one key of a document in which no field meets an array, and returns the number of missing
/// fields. Returns `None` if a field meets an array.
fn append_without_arrays(
    spec: &IndexSpec,
    document: &RawDocument,
    keys: &mut ExtractedKeys,
) -> Option<usize> {
    let mut missing = 0;
    for field in spec.fields() {
        let value = match follow(document, field.path.as_str()) {
            Found::Value(value) => value,
            Found::Missing => {
                missing += 1;
                RawBsonRef::Null
            }
            Found::Array { .. } => return None,
        };
        keys.append(value, field);
    }
    Some(missing)
}

/// What a path leads to before it has to choose an element of an array.
#[derive(Clone, Copy)]
enum Found<'a> {
    Missing,
    Value(RawBsonRef<'a>),
    Array {
        array: &'a RawArray,
        /// The last component before the array.
        name: &'a str,
        /// The components after `name`, if there are any.
        rest: Option<&'a str>,
    },
}

/// How far one field of the index has been followed.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// The rest of the path starts at the current element.
    Open {
        rest: &'a str,
        /// If `rest` starts with a position that the array around the element has: what lies there.
        chosen: Option<Chosen<'a>>,
    },
    /// The path leads nowhere; counts as null.
    Missing,
    /// The path has ended.
    Value(RawBsonRef<'a>),
}

/// What a path leads to through an explicit position of an array.
#[derive(Clone, Copy)]
struct Chosen<'a> {
    found: Found<'a>,
    /// Whether the element at the position is an array itself, which is not expanded if the path ends there.
    is_array: bool,
}

/// The array that is expanded next, and the fields that go through it.
struct Crossing<'a> {
    array: &'a RawArray,
    name: &'a str,
    /// Whether fields that end here take the array as one value.
    as_whole: bool,
    /// For each field of the index, how it meets the array.
    routes: Vec<Route<'a>>,
}

/// How a field of the index meets an array.
#[derive(Clone, Copy)]
enum Route<'a> {
    /// The path of the field does not lead to the array.
    Elsewhere,
    /// The path ends at the array.
    Ends,
    /// The rest of the path goes on from each element.
    Through(&'a str),
}

/// Follows the open fields through one element, and writes the keys that result.
fn expand<'a>(
    spec: &'a IndexSpec,
    keys: &mut ExtractedKeys,
    element: Option<&'a RawDocument>,
    mut slots: Vec<Slot<'a>>,
) -> Result<(), Error> {
    match advance(element, &mut slots)? {
        None => append_slots(spec, keys, &slots),
        Some(crossing) => cross(spec, keys, &crossing, &slots),
    }
}

/// Follows every open field up to its end or to an array, which must be the same one for all.
fn advance<'a>(
    element: Option<&'a RawDocument>,
    slots: &mut [Slot<'a>],
) -> Result<Option<Crossing<'a>>, Error> {
    let mut crossing: Option<Crossing<'a>> = None;
    let count = slots.len();
    for (at, slot) in slots.iter_mut().enumerate() {
        let Slot::Open { rest, chosen } = *slot else { continue };
        let found = step(element, rest, chosen)?;
        let (array, name, rest) = match found {
            Found::Missing => {
                *slot = Slot::Missing;
                continue;
            }
            Found::Value(value) => {
                *slot = Slot::Value(value);
                continue;
            }
            Found::Array { array, name, rest } => (array, name, rest),
        };
        let shared = crossing.get_or_insert_with(|| Crossing {
            array,
            name,
            as_whole: false,
            routes: vec![Route::Elsewhere; count],
        });
        // Fields below one array are paired element by element. Two arrays would give a key for each pair of
        // their elements, a product that MongoDB refuses too. Nothing is copied, so an array has one address.
        if !ptr::eq(shared.array, array) {
            return Err(Error::ParallelArrays { second: name.to_owned(), first: shared.name.to_owned() });
        }
        shared.as_whole |= chosen.is_some_and(|chosen| chosen.is_array);
        if let Some(route) = shared.routes.get_mut(at) {
            *route = rest.map_or(Route::Ends, Route::Through);
        }
    }
    Ok(crossing)
}

/// What one open field finds in the current element.
fn step<'a>(
    element: Option<&'a RawDocument>,
    rest: &'a str,
    chosen: Option<Chosen<'a>>,
) -> Result<Found<'a>, Error> {
    let Some(chosen) = chosen else {
        return Ok(element.map_or(Found::Missing, |document| follow(document, rest)));
    };
    let name = path::split(rest).0;
    // As in MongoDB: a name that is both a position and a field has two meanings, and neither is preferred.
    if element.is_some_and(|document| element::field(document, name).is_some()) {
        return Err(Error::AmbiguousPosition { field: name.to_owned() });
    }
    Ok(chosen.found)
}

/// Expands an array: every element continues the fields that go through it.
fn cross<'a>(
    spec: &'a IndexSpec,
    keys: &mut ExtractedKeys,
    crossing: &Crossing<'a>,
    slots: &[Slot<'a>],
) -> Result<(), Error> {
    let routes = crossing.routes.as_slice();
    note_arrays(spec, keys, routes);
    let mut elements = crossing.array.into_iter().map_while(Result::ok).peekable();
    // MongoDB gives an empty array the key of undefined: it has no element that could give a key, and without
    // one a scan of the index would miss the document.
    if elements.peek().is_none() {
        let ended = Slot::Value(RawBsonRef::Undefined);
        let slots = routes.iter().zip(slots).map(|(route, slot)| continued(*route, *slot, ended, None));
        return expand(spec, keys, None, slots.collect());
    }
    let chosen: Vec<_> = routes.iter().map(|route| choose(crossing.array, *route)).collect();
    // A field that took a position of the array finds the same under every element. If all fields do, one
    // element gives all keys; otherwise a position in a long array of arrays would be followed once for each
    // element, which is quadratic.
    let depends_on_element = routes.iter().zip(&chosen).any(|(route, chosen)| match route {
        Route::Elsewhere => false,
        Route::Ends => !crossing.as_whole,
        Route::Through(_) => chosen.is_none(),
    });
    let mut is_first = true;
    for element in elements {
        let ended = Slot::Value(if crossing.as_whole { RawBsonRef::Array(crossing.array) } else { element });
        let next = routes.iter().zip(slots).zip(&chosen);
        let mut next: Vec<_> =
            next.map(|((route, slot), chosen)| continued(*route, *slot, ended, *chosen)).collect();
        if depends_on_element || is_first {
            expand(spec, keys, element.as_document(), next)?;
        } else {
            // The keys are written already, but this element may still make a position ambiguous.
            advance(element.as_document(), &mut next)?;
        }
        is_first = false;
    }
    Ok(())
}

/// Records for each field that meets the array which component of its path led there.
fn note_arrays(spec: &IndexSpec, keys: &mut ExtractedKeys, routes: &[Route<'_>]) {
    for ((field, arrays), route) in spec.fields().iter().zip(&mut keys.arrays).zip(routes) {
        let remaining = match route {
            Route::Elsewhere => continue,
            Route::Ends => 0,
            Route::Through(rest) => rest.split('.').count(),
        };
        // The array is the value of the last component that is not in the rest.
        arrays.insert(field.path.components().count() - remaining - 1);
    }
}

/// A field's slot for one element of an array. Unchanged if the field's path does not lead to the array.
fn continued<'a>(route: Route<'a>, slot: Slot<'a>, ended: Slot<'a>, chosen: Option<Chosen<'a>>) -> Slot<'a> {
    match route {
        Route::Elsewhere => slot,
        Route::Ends => ended,
        Route::Through(rest) => Slot::Open { rest, chosen },
    }
}

/// What the path finds at a position of the array. Returns `None` unless the rest of the path starts with a
/// position that the array has.
fn choose<'a>(array: &'a RawArray, route: Route<'a>) -> Option<Chosen<'a>> {
    let Route::Through(rest) = route else { return None };
    let (name, tail) = path::split(rest);
    let value = array.into_iter().nth(path::array_index(name)?)?.ok()?;
    let nested = value.as_array();
    let found = match (nested, tail) {
        (Some(array), _) => Found::Array { array, name, rest: tail },
        (None, None) => Found::Value(value),
        (None, Some(tail)) => value.as_document().map_or(Found::Missing, |document| follow(document, tail)),
    };
    Some(Chosen { found, is_array: nested.is_some() })
}

/// Follows a path through objects, up to its end or to an array.
fn follow<'a>(document: &'a RawDocument, path: &'a str) -> Found<'a> {
    let mut document = document;
    let (mut name, mut tail) = path::split(path);
    loop {
        let Some(value) = element::field(document, name) else { return Found::Missing };
        if let Some(array) = value.as_array() {
            return Found::Array { array, name, rest: tail };
        }
        let Some(rest) = tail else { return Found::Value(value) };
        let Some(embedded) = value.as_document() else { return Found::Missing };
        document = embedded;
        (name, tail) = path::split(rest);
    }
}

fn append_slots(spec: &IndexSpec, keys: &mut ExtractedKeys, slots: &[Slot<'_>]) -> Result<(), Error> {
    if spec.is_sparse() && slots.iter().all(|slot| matches!(slot, Slot::Missing)) {
        return Ok(());
    }
    for (slot, field) in slots.iter().zip(spec.fields()) {
        let value = match slot {
            Slot::Value(value) => *value,
            // No slot is open here: `advance` found no array, so it closed them all.
            Slot::Missing | Slot::Open { .. } => RawBsonRef::Null,
        };
        keys.append(value, field);
    }
    keys.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    use super::*;
    use crate::path::{FieldPath, leaves};
    use crate::proptest_support::any_value;
    use crate::spec::{Sparseness, SpecOptions};
    use bson::{Bson, Document, RawDocumentBuf, doc};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn spec(keys: &Document, sparseness: Sparseness) -> IndexSpec {
        let options = SpecOptions { sparseness, ..SpecOptions::default() };
        IndexSpec::parse(&RawDocumentBuf::try_from(keys).unwrap(), options).unwrap()
    }

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn encoded(spec: &IndexSpec, values: &[Bson]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (value, field) in values.iter().zip(spec.fields()) {
            key::encode(
                bson::RawBson::try_from(value.clone()).unwrap().as_raw_bson_ref(),
                field.direction,
                &mut bytes,
            );
        }
        bytes
    }

    fn extracted(spec: &IndexSpec, document: &Document) -> Result<ExtractedKeys, Error> {
        let mut keys = ExtractedKeys::default();
        extract(spec, &raw(document), &mut keys)?;
        Ok(keys)
    }

    #[track_caller]
    fn check_sparse(sparseness: Sparseness, fields: &Document, document: &Document, expected: &[&[Bson]]) {
        let spec = spec(fields, sparseness);
        let keys = extracted(&spec, document).unwrap();
        let expected: BTreeSet<_> = expected.iter().map(|values| encoded(&spec, values)).collect();
        assert_eq!(
            keys.iter().map(|(bytes, _)| bytes.to_vec()).collect::<Vec<_>>(),
            Vec::from_iter(expected)
        );
    }

    #[test]
    fn a_wildcard_index_has_keys_of_paths_and_values() {
        let all = doc! { "$**": -1 };
        check(&all, &doc! { "_id": 1, "a": { "b": 2 } }, &[&["a.b".into(), 2.into()]]);
        check(&all, &doc! { "a": [1, 1.0, 2] }, &[&["a".into(), 1.into()], &["a".into(), 2.into()]]);
        check(&all, &doc! { "_id": 1 }, &[]);
        let arrays = |document: Document| {
            let keys = extracted(&spec(&all, Sparseness::NotSparse), &document).unwrap();
            keys.array_components().iter().map(|arrays| arrays.bits()).collect::<Vec<_>>()
        };
        assert_eq!(arrays(doc! { "a": { "b": [1] } }), [0, 1]);
        assert_eq!(arrays(doc! { "a": { "b": 1 } }), [0_u64; 0]);
        assert_eq!(arrays(doc! { "_id": 1, "a": [] }), [0, 1]);
    }

    #[track_caller]
    fn check(fields: &Document, document: &Document, expected: &[&[Bson]]) {
        check_sparse(Sparseness::NotSparse, fields, document, expected);
    }

    #[track_caller]
    fn check_refused(fields: &Document, document: &Document, error: Error) {
        let mut keys = ExtractedKeys::default();
        let refused = extract(&spec(fields, Sparseness::NotSparse), &raw(document), &mut keys);
        assert_eq!((refused, keys.len()), (Err(error), 0));
    }

    fn int(value: i32) -> Bson {
        Bson::Int32(value)
    }

    #[test]
    fn scalars_have_one_key() {
        check(&doc! { "a": 1 }, &doc! { "a": 5 }, &[&[int(5)]]);
        check(&doc! { "a.b": -1 }, &doc! { "a": { "b": "x" } }, &[&["x".into()]]);
        check(&doc! { "a": 1, "b": -1 }, &doc! { "b": 2, "a": 1 }, &[&[int(1), int(2)]]);
    }

    #[test]
    fn documents_are_indexed_as_a_whole() {
        check(&doc! { "a": 1 }, &doc! { "a": { "b": [1] } }, &[&[doc! { "b": [1] }.into()]]);
    }

    #[test]
    fn missing_fields_are_null() {
        check(&doc! { "a": 1 }, &doc! {}, &[&[Bson::Null]]);
        check(&doc! { "a.b": 1 }, &doc! { "a": 5 }, &[&[Bson::Null]]);
        check(&doc! { "a": 1, "b": 1 }, &doc! { "b": 1 }, &[&[Bson::Null, int(1)]]);
    }

    #[test]
    fn every_distinct_element_has_a_key() {
        check(&doc! { "a": 1 }, &doc! { "a": [3, 1, 3, 2] }, &[&[int(1)], &[int(2)], &[int(3)]]);
        check(&doc! { "a": -1 }, &doc! { "a": [3, 1] }, &[&[int(3)], &[int(1)]]);
        check(&doc! { "a": 1 }, &doc! { "a": [[1, 2], 3] }, &[&[vec![int(1), int(2)].into()], &[int(3)]]);
        check(
            &doc! { "a": 1, "b": 1 },
            &doc! { "a": [1, 2], "b": 7 },
            &[&[int(1), int(7)], &[int(2), int(7)]],
        );
    }

    #[test]
    fn equal_elements_of_different_types_are_one_key() {
        let spec = spec(&doc! { "a": 1 }, Sparseness::NotSparse);
        let keys = extracted(&spec, &doc! { "a": [1.0, 1, 1_i64] }).unwrap();
        let int32 = extracted(&spec, &doc! { "a": [1] }).unwrap();
        assert_eq!(keys.iter().collect::<Vec<_>>(), int32.iter().collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_array_is_undefined() {
        check(&doc! { "a": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined]]);
        check(&doc! { "a.b": 1 }, &doc! { "a": [] }, &[&[Bson::Null]]);
        check(&doc! { "a": 1, "a.b": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined, Bson::Null]]);
        check(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": [] }, { "b": 1 }] }, &[&[Bson::Undefined], &[int(1)]]);
    }

    #[test]
    fn paths_go_through_arrays_of_objects() {
        check(
            &doc! { "a.b": 1 },
            &doc! { "a": [{ "b": 1 }, { "b": [2, 3] }] },
            &[&[int(1)], &[int(2)], &[int(3)]],
        );
        check(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 1 }, {}] }, &[&[int(1)], &[Bson::Null]]);
        check(&doc! { "a.b": 1 }, &doc! { "a": [5] }, &[&[Bson::Null]]);
        check(&doc! { "a.b": 1 }, &doc! { "a": [[{ "b": 1 }]] }, &[&[Bson::Null]]);
    }

    #[test]
    fn fields_below_one_array_are_paired() {
        let document = doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3, "c": 4 }, { "c": 5 }] };
        let expected: [&[Bson]; 3] = [&[int(1), int(2)], &[int(3), int(4)], &[Bson::Null, int(5)]];
        check(&doc! { "a.b": 1, "a.c": 1 }, &document, &expected);
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let parallel =
            |second: &str, first: &str| Error::ParallelArrays { second: second.into(), first: first.into() };
        check_refused(&doc! { "a": 1, "b": 1 }, &doc! { "a": [1], "b": [2] }, parallel("b", "a"));
        check_refused(&doc! { "x.a": 1, "x.b": 1 }, &doc! { "x": { "a": [], "b": [] } }, parallel("b", "a"));
        check_refused(
            &doc! { "x.a": 1, "x.b": 1 },
            &doc! { "x": [{ "a": [1], "b": [1] }] },
            parallel("b", "a"),
        );
        let message = parallel("b", "a").to_string();
        assert_eq!(message, "cannot index parallel arrays [b] [a]");
    }

    #[test]
    fn arrays_of_different_elements_are_not_parallel() {
        let document = doc! { "x": [{ "a": [1, 2], "b": 3 }, { "a": 4, "b": [5] }] };
        let expected: [&[Bson]; 3] = [&[int(1), int(3)], &[int(2), int(3)], &[int(4), int(5)]];
        check(&doc! { "x.a": 1, "x.b": 1 }, &document, &expected);
    }

    #[test]
    fn positions_pick_an_element() {
        check(&doc! { "a.0": 1 }, &doc! { "a": [1, 2] }, &[&[int(1)]]);
        check(&doc! { "a.1.b": 1 }, &doc! { "a": [{ "b": 1 }, { "b": 2 }] }, &[&[int(2)]]);
        check(&doc! { "a.5": 1 }, &doc! { "a": [1, 2] }, &[&[Bson::Null]]);
        check(&doc! { "a.0": 1 }, &doc! { "a": { "0": 7 } }, &[&[int(7)]]);
        check(&doc! { "a.0.b": 1 }, &doc! { "a": [[{ "b": 1 }, { "b": 2 }]] }, &[&[int(1)], &[int(2)]]);
        check(&doc! { "a": 1, "a.0": 1 }, &doc! { "a": [1, 2] }, &[&[int(1), int(1)], &[int(2), int(1)]]);
    }

    #[test]
    fn an_array_at_a_position_is_one_value() {
        check(&doc! { "a.0": 1 }, &doc! { "a": [[1, 2], 3] }, &[&[vec![int(1), int(2)].into()]]);
        check(&doc! { "a.0": 1 }, &doc! { "a": [[]] }, &[&[Bson::Undefined]]);
        check(&doc! { "a.0.b": 1 }, &doc! { "a": [{ "b": [1, 2] }] }, &[&[int(1)], &[int(2)]]);
    }

    #[test]
    fn a_position_that_is_a_field_too_is_refused() {
        let ambiguous = Error::AmbiguousPosition { field: "0".into() };
        check_refused(&doc! { "a.0": 1 }, &doc! { "a": [{ "0": 1 }] }, ambiguous.clone());
        check_refused(&doc! { "a.0": 1 }, &doc! { "a": [5, { "0": 1 }] }, ambiguous);
        check(&doc! { "a.1": 1 }, &doc! { "a": [{ "1": 9 }] }, &[&[int(9)]]);
    }

    #[test]
    fn a_sparse_index_leaves_out_what_lacks_all_fields() {
        let sparse = |fields: &Document, document: &Document, expected: &[&[Bson]]| {
            check_sparse(Sparseness::Sparse, fields, document, expected);
        };
        sparse(&doc! { "a": 1 }, &doc! { "b": 1 }, &[]);
        sparse(&doc! { "a": 1 }, &doc! { "a": Bson::Null }, &[&[Bson::Null]]);
        sparse(&doc! { "a": 1 }, &doc! { "a": [] }, &[&[Bson::Undefined]]);
        sparse(&doc! { "a.b": 1 }, &doc! { "a": [] }, &[]);
        sparse(&doc! { "a.b": 1 }, &doc! { "a": [{ "b": 1 }, {}] }, &[&[int(1)]]);
        sparse(&doc! { "a": 1, "b": 1 }, &doc! { "b": 1 }, &[&[Bson::Null, int(1)]]);
        sparse(&doc! { "a": 1, "b": 1 }, &doc! { "c": 1 }, &[]);
    }

    #[test]
    fn arrays_make_a_document_multikey() {
        let is_multikey = |document| {
            extracted(&spec(&doc! { "a.b": 1 }, Sparseness::NotSparse), &document).unwrap().is_multikey()
        };
        assert!(is_multikey(doc! { "a": [{ "b": 1 }] }) && is_multikey(doc! { "a": [] }));
        assert!(!is_multikey(doc! { "a": { "b": 1 }, "c": [1] }) && !is_multikey(doc! {}));
    }

    #[test]
    fn each_field_tells_which_components_met_an_array() {
        let components = |fields: Document, document: Document| -> Vec<u64> {
            let keys = extracted(&spec(&fields, Sparseness::NotSparse), &document).unwrap();
            keys.array_components().iter().map(|arrays| arrays.bits()).collect()
        };
        let fields = doc! { "a.b": 1, "c": 1 };
        assert_eq!(components(fields.clone(), doc! { "a": { "b": 1 }, "c": 1 }), [0; 0]);
        assert_eq!(components(fields.clone(), doc! { "a": [], "c": 1 }), [0b01, 0]);
        assert_eq!(components(fields.clone(), doc! { "a": { "b": [1] } }), [0b10, 0]);
        assert_eq!(components(fields.clone(), doc! { "a": [{ "b": 1 }, { "b": [] }] }), [0b11, 0]);
        assert_eq!(components(fields, doc! { "a": 1, "c": [1] }), [0, 0b1]);
        assert_eq!(components(doc! { "a.0": 1 }, doc! { "a": [5, [6]] }), [0b01]);
        assert_eq!(components(doc! { "a.1": 1 }, doc! { "a": [5, [6]] }), [0b11]);
    }

    #[test]
    fn buffers_forget_the_last_document() {
        let spec = spec(&doc! { "a": 1 }, Sparseness::Sparse);
        let mut keys = extracted(&spec, &doc! { "a": [1, 2, 3] }).unwrap();
        extract(&spec, &raw(&doc! { "a": 1 }), &mut keys).unwrap();
        assert_eq!((keys.len(), keys.is_multikey()), (1, false));
        extract(&spec, &raw(&doc! {}), &mut keys).unwrap();
        assert!(keys.is_empty());
    }

    #[test]
    fn there_is_a_limit_of_keys() {
        let spec = spec(&doc! { "a": 1 }, Sparseness::NotSparse);
        let elements = |count: i32| doc! { "a": (0..count).collect::<Vec<i32>>() };
        assert_eq!(extracted(&spec, &elements(100_000)).unwrap().len(), KEYS_MAX);
        assert_eq!(extracted(&spec, &elements(100_001)).unwrap_err(), Error::TooManyKeys { limit: KEYS_MAX });
        assert_eq!(extracted(&spec, &doc! { "a": vec![7; 200_000] }).unwrap().len(), 1);
    }

    #[test]
    fn there_is_a_limit_of_key_bytes() {
        let spec = spec(&doc! { "text": 1, "a": 1 }, Sparseness::NotSparse);
        let document = doc! { "text": "x".repeat(1 << 20), "a": (0..100).collect::<Vec<i32>>() };
        assert_eq!(extracted(&spec, &document).unwrap_err(), Error::KeysTooLarge { limit: KEY_BYTES_MAX });
    }

    #[test]
    fn a_position_in_a_long_array_of_arrays_is_followed_once() {
        let inner = Bson::Array((0..3_000).map(Bson::Int32).collect());
        let document = doc! { "a": vec![inner; 300] };
        let spec = spec(&doc! { "a.0": 1 }, Sparseness::NotSparse);
        assert_eq!(extracted(&spec, &document).unwrap().len(), 1);
    }

    /// The rules once more, over decoded documents and without any regard to cost. Arrays are told
    /// apart by where they lie.
    mod naive {
        use super::*;

        #[derive(Clone)]
        pub(super) enum Field {
            Rest(Vec<String>, Option<Picked>),
            Absent,
            Is(Bson),
        }

        impl Field {
            fn value(self) -> Bson {
                match self {
                    Self::Is(value) => value,
                    Self::Absent | Self::Rest(..) => Bson::Null,
                }
            }
        }

        /// What lies at an explicit position of the list that was met last.
        #[derive(Clone)]
        pub(super) struct Picked {
            met: Met,
            is_list: bool,
        }

        #[derive(Clone)]
        pub(super) enum Met {
            Nothing,
            Scalar(Bson),
            List { place: Vec<String>, elements: Vec<Bson>, rest: Vec<String> },
        }

        #[derive(Debug)]
        pub(super) struct Refused;

        fn walk(value: &Bson, rest: &[String], place: &[String]) -> Met {
            match (value, rest) {
                (Bson::Array(elements), _) => {
                    Met::List { place: place.to_vec(), elements: elements.clone(), rest: rest.to_vec() }
                }
                (value, []) => Met::Scalar(value.clone()),
                (Bson::Document(document), [name, rest @ ..]) => match document.get(name) {
                    Some(value) => walk(value, rest, &[place, std::slice::from_ref(name)].concat()),
                    None => Met::Nothing,
                },
                _ => Met::Nothing,
            }
        }

        /// What an open field meets from the current element.
        fn meet(
            current: &Bson,
            rest: &[String],
            picked: Option<&Picked>,
            place: &[String],
        ) -> Result<Met, Refused> {
            let has_field = current.as_document().is_some_and(|document| document.contains_key(&rest[0]));
            match picked {
                Some(_) if has_field => Err(Refused),
                Some(picked) => Ok(picked.met.clone()),
                None if current.as_document().is_some() => Ok(walk(current, rest, place)),
                None => Ok(Met::Nothing),
            }
        }

        pub(super) fn keys(
            fields: &[Field],
            current: &Bson,
            place: &[String],
            is_sparse: bool,
        ) -> Result<Vec<Vec<Bson>>, Refused> {
            let mut fields = fields.to_vec();
            let mut list: Option<List> = None;
            for (at, field) in fields.iter_mut().enumerate() {
                let Field::Rest(rest, picked) = field.clone() else { continue };
                match meet(current, &rest, picked.as_ref(), place)? {
                    Met::Nothing => *field = Field::Absent,
                    Met::Scalar(value) => *field = Field::Is(value),
                    Met::List { place, .. } if list.as_ref().is_some_and(|list| list.place != place) => {
                        return Err(Refused);
                    }
                    Met::List { place, elements, rest } => {
                        let list = list.get_or_insert(List { place, elements, rests: vec![], whole: false });
                        list.rests.push((at, rest));
                        list.whole |= picked.is_some_and(|picked| picked.is_list);
                    }
                }
            }
            match list {
                Some(list) => list.expand(&fields, is_sparse),
                None if is_sparse && fields.iter().all(|field| matches!(field, Field::Absent)) => Ok(vec![]),
                None => Ok(vec![fields.into_iter().map(Field::value).collect()]),
            }
        }

        struct List {
            place: Vec<String>,
            elements: Vec<Bson>,
            /// Which fields go through, and what follows.
            rests: Vec<(usize, Vec<String>)>,
            whole: bool,
        }

        impl List {
            fn expand(&self, fields: &[Field], is_sparse: bool) -> Result<Vec<Vec<Bson>>, Refused> {
                let nothing = [Bson::Undefined];
                let visited = if self.elements.is_empty() { &nothing } else { self.elements.as_slice() };
                let mut rows = Vec::new();
                for (index, element) in visited.iter().enumerate() {
                    let mut next = fields.to_vec();
                    self.rests.iter().for_each(|(at, rest)| next[*at] = self.next_field(rest, element));
                    let place = [self.place.as_slice(), &[index.to_string()]].concat();
                    rows.extend(keys(&next, element, &place, is_sparse)?);
                }
                Ok(rows)
            }

            fn next_field(&self, rest: &[String], element: &Bson) -> Field {
                let Some((name, tail)) = rest.split_first() else {
                    let is_whole = self.whole && !self.elements.is_empty();
                    let list = is_whole.then(|| Bson::Array(self.elements.clone()));
                    return Field::Is(list.unwrap_or_else(|| element.clone()));
                };
                let mut places = self.elements.iter().enumerate();
                let picked = places.find(|(index, _)| index.to_string() == *name).map(|(_, value)| {
                    let place = [self.place.as_slice(), &rest[..1]].concat();
                    Picked { met: walk(value, tail, &place), is_list: value.as_array().is_some() }
                });
                Field::Rest(rest.to_vec(), picked)
            }
        }
    }

    fn small_value() -> impl Strategy<Value = Bson> {
        let leaf = prop_oneof![
            4 => (0..3).prop_map(Bson::Int32),
            1 => Just(Bson::Null),
            1 => Just(Bson::Double(1.0)),
            1 => any_value(),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let pairs =
                vec((select(vec!["a", "b", "c", "0", "1"]).prop_map(String::from), inner.clone()), 0..4);
            let objects = pairs.prop_map(|pairs| Bson::Document(pairs.into_iter().collect()));
            prop_oneof![
                2 => objects.clone(),
                3 => vec(objects, 0..3).prop_map(Bson::Array),
                2 => vec(inner, 0..4).prop_map(Bson::Array),
            ]
        })
    }

    fn small_document() -> impl Strategy<Value = Document> {
        let names = select(vec!["a", "b", "c"]).prop_map(String::from);
        vec((names, small_value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
    }

    fn small_path() -> impl Strategy<Value = String> {
        let tail = vec(select(vec!["a", "b", "c", "0", "1"]), 0..3);
        (select(vec!["a", "a", "b", "c"]), tail)
            .prop_map(|(first, tail)| [vec![first], tail].concat().join("."))
    }

    fn small_spec() -> impl Strategy<Value = IndexSpec> {
        let fields = vec((small_path(), select(vec![1, -1])), 1..4);
        (fields, select(vec![Sparseness::NotSparse, Sparseness::Sparse])).prop_map(|(fields, sparseness)| {
            let keys = fields.into_iter().map(|(path, direction)| (path, Bson::Int32(direction))).collect();
            spec(&keys, sparseness)
        })
    }

    proptest! {
        #[test]
        fn keys_are_those_of_the_naive_reference(spec in small_spec(), document in small_document()) {
            let parts = |field: &IndexField| field.path.components().map(String::from).collect();
            let fields: Vec<_> = spec.fields().iter().map(|field| naive::Field::Rest(parts(field), None)).collect();
            let rows = naive::keys(&fields, &Bson::Document(document.clone()), &[], spec.is_sparse());
            match (rows, extracted(&spec, &document)) {
                (Ok(rows), Ok(keys)) => {
                    let expected: BTreeSet<_> = rows.iter().map(|row| encoded(&spec, row)).collect();
                    let found: Vec<_> = keys.iter().map(|(bytes, _)| bytes.to_vec()).collect();
                    prop_assert_eq!(found, Vec::from_iter(expected));
                }
                (Err(naive::Refused), Err(Error::ParallelArrays { .. } | Error::AmbiguousPosition { .. })) => {}
                (rows, keys) => prop_assert!(false, "{:?} and {:?}", rows, keys),
            }
        }

        #[test]
        fn components_with_arrays_are_those_that_a_filter_finds(spec in small_spec(), document in small_document()) {
            let Ok(keys) = extracted(&spec, &document) else { return Ok(()) };
            let stored = raw(&document);
            for (at, field) in spec.fields().iter().enumerate() {
                let told = keys.array_components().get(at).copied().unwrap_or_default();
                let names: Vec<&str> = field.path.components().collect();
                for component in 0..names.len() {
                    let front = FieldPath::parse(&names[..=component].join(".")).unwrap();
                    let found = leaves(&stored, &front, &mut |leaf| match leaf.value {
                        Some(RawBsonRef::Array(_)) => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    });
                    prop_assert_eq!(told.contains(component), found.is_break(), "{} of {:?}", component, names);
                }
            }
        }

        #[test]
        fn keys_restore_a_row_of_values(spec in small_spec(), document in small_document()) {
            if let Ok(keys) = extracted(&spec, &document) {
                for (mut bytes, mut types) in keys.iter() {
                    let whole = bytes;
                    let mut row = Vec::new();
                    for field in spec.fields() {
                        row.push(key::decode(&mut bytes, field.direction, &mut types).unwrap());
                    }
                    prop_assert!(bytes.is_empty() && types.is_empty());
                    prop_assert_eq!(encoded(&spec, &row), whole);
                }
            }
        }

        #[test]
        fn what_a_filter_sees_is_found_by_its_key(text in small_path(), document in small_document()) {
            let spec = spec(&doc! { &text: 1 }, Sparseness::NotSparse);
            let Ok(keys) = extracted(&spec, &document) else { return Ok(()) };
            let keys: BTreeSet<_> = keys.iter().map(|(bytes, _)| bytes.to_vec()).collect();
            let has_position = text.split('.').any(|name| path::array_index(name).is_some());
            let mut offered = Vec::new();
            let stored = raw(&document);
            let _ = leaves(&stored, &FieldPath::parse(&text).unwrap(), &mut |leaf| {
                match (leaf.value.map(|value| Bson::try_from(value).unwrap()), leaf.expand) {
                    (Some(Bson::Array(elements)), _) if elements.is_empty() => offered.push(Bson::Undefined),
                    (Some(Bson::Array(elements)), true) => offered.extend(elements),
                    (Some(value), _) => offered.push(value),
                    (None, _) if has_position => {}
                    (None, _) => offered.push(Bson::Null),
                }
                ControlFlow::Continue(())
            });
            for value in offered {
                prop_assert!(keys.contains(&encoded(&spec, std::slice::from_ref(&value))), "{}", value);
            }
        }
    }
}
