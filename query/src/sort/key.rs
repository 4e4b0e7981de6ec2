//! The sort key of a document, as bytes.
//!
//! Nearly every document has no array on the paths of the sort, or one array at the end of one path. Its key
//! is written directly into a buffer that is used again. For any other document [`index::extract`] gives the
//! keys that an index on the same fields has, and the lowest one is the sort key.

use std::sync::OnceLock;

use bson::raw::CString;
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};
use index::collation::Collation;
use index::element::field;
use index::extract::{ExtractedKeys, extract};
use index::key::{Direction, encode};
use index::path::FieldPath;
use index::spec::{IndexSpec, SpecOptions};

use crate::sort::error::Error;
use crate::value::elements;

/// The order of documents.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// By their order in storage, in this direction.
    Natural(Direction),
    /// By fields. Documents with equal fields keep the order in which they came.
    Fields { fields: Vec<Field>, index: FieldsIndex },
}

/// An index on the fields of a sort, for documents whose key cannot be written directly. It is made for the first of them: most sorts
/// meet none.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldsIndex(OnceLock<IndexSpec>);

impl FieldsIndex {
    pub(super) fn of(&self, fields: &[Field]) -> Result<&IndexSpec, Error> {
        if let Some(spec) = self.0.get() {
            return Ok(spec);
        }
        let mut keys = RawDocumentBuf::new();
        for field in fields {
            let name = CString::try_from(field.path.as_str());
            let name = name.map_err(|_| Error::InvalidBson { position: 0 })?;
            keys.append(&name, if field.direction == Direction::Ascending { 1 } else { -1 });
        }
        let spec = IndexSpec::parse(&keys, SpecOptions::default())?;
        let collation = fields.first().map_or_else(Collation::simple, |field| field.collation.clone());
        Ok(self.0.get_or_init(|| spec.with_collation(collation)))
    }
}

/// One field of a sort.
#[derive(Clone, Debug)]
pub(super) struct Field {
    path: FieldPath,
    /// The components of the path, split once for all documents.
    names: Vec<String>,
    direction: Direction,
    collation: Collation,
}

/// Encodes sort keys into buffers that it uses again for each document.
#[derive(Debug, Default)]
pub(super) struct KeyEncoder {
    key: Vec<u8>,
    extracted: ExtractedKeys,
}

impl Field {
    pub(super) fn new(path: FieldPath, direction: Direction) -> Self {
        let names = path.components().map(str::to_owned).collect();
        Self { path, names, direction, collation: Collation::simple() }
    }

    pub(super) fn path(&self) -> &FieldPath {
        &self.path
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Appends the document's value to the key.
    ///
    /// Returns `false` if it cannot: an array is on the path before its end, or at its end while `has_array`
    /// says that the key has one already.
    #[inline]
    fn append(&self, document: &RawDocument, has_array: &mut bool, key: &mut Vec<u8>) -> bool {
        let mut names = self.names.iter();
        let Some(mut name) = names.next() else { return false };
        // The loop reads one component ahead, so that `name` is the last one after it.
        let mut level = document;
        for below in names {
            match field(level, name) {
                Some(RawBsonRef::Document(document)) => level = document,
                Some(RawBsonRef::Array(_)) => return false,
                Some(_) | None => {
                    // A missing field sorts as null.
                    encode(RawBsonRef::Null, self.direction, key);
                    return true;
                }
            }
            name = below;
        }
        match field(level, name) {
            None => encode(RawBsonRef::Null, self.direction, key),
            // With two arrays the lowest key is not that of the lowest elements: they may be the same array
            // or, which is an error, different ones.
            Some(RawBsonRef::Array(_)) if *has_array => return false,
            Some(RawBsonRef::Array(array)) => {
                *has_array = true;
                self.encode_first(array, key);
            }
            Some(value) => self.collation.encode(value, self.direction, key),
        }
        true
    }

    /// Appends the element of an array that comes first in the direction of the field, or undefined for an empty array.
    fn encode_first(&self, array: &RawArray, key: &mut Vec<u8>) {
        let start = key.len();
        for element in elements(array) {
            // Each element is encoded after the best one so far, and whichever comes later in the order is cut
            // away.
            let best = key.len();
            self.collation.encode(element, self.direction, key);
            let (before, candidate) = key.split_at(best);
            if best == start {
                continue;
            }
            if candidate < before.get(start..).unwrap_or_default() {
                key.drain(start..best);
            } else {
                key.truncate(best);
            }
        }
        if key.len() == start {
            encode(RawBsonRef::Undefined, self.direction, key);
        }
    }

    /// Orders texts by a collation.
    pub(super) fn with_collation(&mut self, collation: &Collation) {
        self.collation = collation.clone();
    }
}

impl KeyEncoder {
    /// Encodes the key of a document. [`key`](Self::key) returns it.
    #[inline]
    pub(super) fn encode(&mut self, order: &Order, document: &RawDocument) -> Result<(), Error> {
        // Without bytes that come first there is nothing to copy.
        self.key.clear();
        self.append(0, order, document)
    }

    /// Encodes the key of a document after bytes that come first.
    #[inline]
    pub(super) fn encode_after(
        &mut self,
        prefix: &[u8],
        order: &Order,
        document: &RawDocument,
    ) -> Result<(), Error> {
        self.key.clear();
        self.key.extend_from_slice(prefix);
        self.append(prefix.len(), order, document)
    }

    /// Appends the key of a document to the first `start` bytes, which are there.
    #[inline]
    fn append(&mut self, start: usize, order: &Order, document: &RawDocument) -> Result<(), Error> {
        // With `$natural`, or without fields, all keys stay empty and thus equal.
        if let Order::Fields { fields, index } = order
            && !self.append_directly(fields, document)
        {
            self.extract(start, index.of(fields)?, document)?;
        }
        Ok(())
    }

    /// Appends the key of a document with at most one array, at the end of a path. Returns `false` for other
    /// documents.
    #[inline]
    fn append_directly(&mut self, fields: &[Field], document: &RawDocument) -> bool {
        let mut has_array = false;
        fields.iter().all(|field| field.append(document, &mut has_array, &mut self.key))
    }

    /// The key that was encoded last.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The key that was encoded last.
    pub(super) fn into_key(self) -> Vec<u8> {
        self.key
    }

    /// Exchanges the key with another one, whose buffer serves the next document. This saves an allocation
    /// for each document that a sorter keeps.
    pub(super) fn swap_key(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.key, other);
    }

    /// Encodes the lowest of the keys that an index on the same fields has of the document.
    fn extract(&mut self, start: usize, spec: &IndexSpec, document: &RawDocument) -> Result<(), Error> {
        extract(spec, document, &mut self.extracted)?;
        // The attempt to encode it directly may have left some bytes.
        self.key.truncate(start);
        let first = self.extracted.iter().next();
        self.key.extend_from_slice(first.map(|(key, _)| key).unwrap_or_default());
        Ok(())
    }
}
