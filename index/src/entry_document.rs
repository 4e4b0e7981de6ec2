//! Puts a document together from an entry of an index: the `_id` and some of the fields, without the stored document.
//!
//! The result is what an inclusion of these fields makes of the stored document, byte for byte. Where an entry
//! cannot say that, there is no result, and the caller reads the document. An entry cannot distinguish a missing field from
//! null, no value whose key is shortened, and not every order of fields (see [`FieldOrder`]).
//!
//! Only fields may be asked for at whose paths no document has an array: of those an entry has the whole value.

use std::ops::Range;

use bson::spec::ElementType;

use crate::error::Error;
use crate::field_order::FieldOrder;
use crate::key::{self, Direction, FIELD_BYTES_MAX, LongKeys};
use crate::spec::IndexSpec;

/// The number of bytes of a document's length.
const LENGTH_BYTES: usize = 4;

/// The parts of an entry.
///
/// For its use see [`EntryDocuments`].
#[derive(Clone, Copy, Debug)]
pub struct EntryParts<'a> {
    /// The key bytes of the fields.
    pub fields: &'a [u8],
    /// The key bytes of the document's `_id`.
    pub id: &'a [u8],
    /// The type bytes of the fields and of the `_id`, and the number of the fields' order if it is not 0.
    pub details: &'a [u8],
}

/// Makes documents of the entries of one index. Its buffers are used again for the next entry.
///
/// ```
/// use bson::{RawBsonRef, RawDocument, rawdoc};
/// use cairndb_index::entry_document::{EntryDocuments, EntryParts};
/// use cairndb_index::key::{Direction, encode_with_types};
/// use cairndb_index::spec::{IndexSpec, SpecOptions};
///
/// let spec = IndexSpec::parse(&rawdoc! { "a": 1 }, SpecOptions::default())?;
/// let (mut fields, mut id, mut details) = (Vec::new(), Vec::new(), Vec::new());
/// encode_with_types(RawBsonRef::Int64(5), Direction::Ascending, &mut fields, &mut details);
/// encode_with_types(RawBsonRef::Double(7.0), Direction::Ascending, &mut id, &mut details);
///
/// let mut documents = EntryDocuments::of(&spec, &[0], true);
/// let mut document = Vec::new();
/// let entry = EntryParts { fields: &fields, id: &id, details: &details };
/// assert!(documents.read(entry, &mut document)?);
/// assert_eq!(RawDocument::from_bytes(&document)?, &*rawdoc! { "_id": 7.0, "a": 5_i64 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EntryDocuments {
    fields: Vec<ReadField>,
    has_id: bool,
    long_keys: LongKeys,
    /// The number of requested fields.
    wanted: usize,
    /// The values of the current entry, in the order of the index, and where each one is.
    values: Vec<u8>,
    read: Vec<ReadValue>,
    /// The order of the last entry that was not in the order of the index.
    order: (FieldOrder, Vec<usize>),
    /// The embedded documents that are being written: where the length of each one is.
    open: Vec<usize>,
    /// The document of an index on one field that is not embedded, up to its value, if nothing else is wanted. The type is not filled
    /// in.
    front: Option<Vec<u8>>,
}

/// A field of the index.
#[derive(Clone, Debug)]
struct ReadField {
    direction: Direction,
    components: Vec<String>,
    is_wanted: bool,
}

/// The value of a field in the current entry.
#[derive(Clone, Debug)]
struct ReadValue {
    kind: ElementType,
    bytes: Range<usize>,
}

impl EntryDocuments {
    /// Prepares for documents with the fields at `wanted` positions of the index, and with the `_id` if `has_id` is
    /// set.
    pub fn of(spec: &IndexSpec, wanted: &[usize], has_id: bool) -> Self {
        let fields = spec.fields().iter().enumerate().map(|(at, field)| ReadField {
            direction: field.direction,
            components: field.path.components().map(str::to_owned).collect(),
            is_wanted: wanted.contains(&at),
        });
        let fields: Vec<ReadField> = fields.collect();
        let order = (FieldOrder::AS_DECLARED, (0..fields.len()).collect());
        let wanted = fields.iter().filter(|field| field.is_wanted).count();
        let (values, read, open) = (Vec::new(), Vec::with_capacity(fields.len() + 1), Vec::new());
        let long_keys = spec.long_keys();
        let front = match fields.as_slice() {
            [ReadField { components, is_wanted: true, .. }] if !has_id && components.len() == 1 => {
                let mut front = vec![0; LENGTH_BYTES];
                header(ElementType::Undefined, components.first().map_or("", String::as_str), &mut front);
                Some(front)
            }
            _ => None,
        };
        Self { fields, has_id, long_keys, wanted, values, read, order, open, front }
    }

    /// Replaces `document` by the document of an entry. Returns `false`, with an empty `document`, if the entry cannot
    /// provide it.
    ///
    /// # Errors
    /// If the bytes are not an entry of the index.
    pub fn read(&mut self, entry: EntryParts<'_>, document: &mut Vec<u8>) -> Result<bool, Error> {
        document.clear();
        if let Some(is_read) = self.read_only_field(entry, document)? {
            return Ok(is_read);
        }
        if !self.decode(entry)? {
            return Ok(false);
        }
        document.extend_from_slice(&[0; LENGTH_BYTES]);
        if self.has_id
            && let Some(id) = self.read.last()
        {
            header(id.kind, "_id", document);
            document.extend_from_slice(self.values.get(id.bytes.clone()).unwrap_or_default());
        }
        let mut before: Option<&ReadField> = None;
        for at in &self.order.1 {
            let (Some(field), Some(value)) = (self.fields.get(*at), self.read.get(*at)) else { continue };
            if !field.is_wanted {
                continue;
            }
            write_field(field, before, &mut self.open, document);
            let name = field.components.last().map(String::as_str).unwrap_or_default();
            header(value.kind, name, document);
            document.extend_from_slice(self.values.get(value.bytes.clone()).unwrap_or_default());
            before = Some(field);
        }
        while let Some(at) = self.open.pop() {
            close(at, document);
        }
        close(0, document);
        Ok(true)
    }

    /// Does what [`read`](Self::read) does for an index on one field, if nothing else is wanted. Changes nothing for other entries, and
    /// returns `None`.
    #[inline]
    fn read_only_field(
        &mut self,
        entry: EntryParts<'_>,
        document: &mut Vec<u8>,
    ) -> Result<Option<bool>, Error> {
        let EntryParts { fields: mut key, id, details: mut types } = entry;
        let (Some(front), [field]) = (&self.front, self.fields.as_slice()) else { return Ok(None) };
        if key.len() > FIELD_BYTES_MAX {
            return Ok(None);
        }
        document.extend_from_slice(front);
        let kind = key::decode_bytes(&mut key, field.direction, &mut types, document);
        let kind = kind.inspect_err(|_| document.clear())?;
        self.values.clear();
        self.read.clear();
        let is_read =
            kind != ElementType::Null && self.finish(id, types).inspect_err(|_| document.clear())?;
        match document.get_mut(LENGTH_BYTES).filter(|_| is_read) {
            Some(place) => {
                *place = kind as u8;
                close(0, document);
            }
            None => document.clear(),
        }
        Ok(Some(is_read))
    }

    /// Decodes the values of an entry, and finds the order of its fields. Returns `false` if the entry cannot determine its
    /// document.
    fn decode(&mut self, entry: EntryParts<'_>) -> Result<bool, Error> {
        let EntryParts { fields: mut key, id, details: mut types } = entry;
        self.values.clear();
        self.read.clear();
        for field in &self.fields {
            let start = self.values.len();
            if key.len() > FIELD_BYTES_MAX
                && let Some(rest) = self.after_shortened(key, field.direction)?
            {
                if field.is_wanted {
                    return Ok(false);
                }
                // It has no type bytes.
                key = rest;
                self.read.push(ReadValue { kind: ElementType::Undefined, bytes: start..start });
                continue;
            }
            // Unwanted fields are decoded too: only then it is known which type bytes are theirs.
            let kind = key::decode_bytes(&mut key, field.direction, &mut types, &mut self.values)?;
            if field.is_wanted && kind == ElementType::Null {
                return Ok(false);
            }
            self.read.push(ReadValue { kind, bytes: start..self.values.len() });
        }
        self.finish(id, types)
    }

    /// Decodes what an entry has after its fields, and finds their order. Returns `false` if the entry cannot determine its document.
    #[inline]
    fn finish(&mut self, mut id_key: &[u8], mut types: &[u8]) -> Result<bool, Error> {
        // Most entries have no more details: an `_id` of a type without type bytes, and fields in the order of the index.
        if types.is_empty() && !self.has_id && (self.wanted < 2 || self.order.0 == FieldOrder::AS_DECLARED) {
            return Ok(true);
        }
        if self.long_keys.is_shortened(id_key.len()) {
            if self.has_id {
                return Ok(false);
            }
        } else {
            let start = self.values.len();
            let kind = key::decode_bytes(&mut id_key, Direction::Ascending, &mut types, &mut self.values)?;
            self.read.push(ReadValue { kind, bytes: start..self.values.len() });
        }
        let order = match types {
            [] => FieldOrder::AS_DECLARED,
            [code] => FieldOrder::from_code(*code),
            [_, _, ..] => return Err(Error::TypesMalformed { expected: "at most one more byte" }),
        };
        // One field is in any order, but its name may be in the document twice.
        if !order.is_told() {
            return Ok(false);
        }
        // Nearly all documents have one order, so the last one is kept.
        if self.wanted > 1 && order != self.order.0 {
            let Some(positions) = order.positions(self.fields.len()) else { return Ok(false) };
            self.order = (order, positions);
        }
        Ok(true)
    }

    /// The part after the first field of a key. Returns `None` if that field is not shortened.
    #[cold]
    fn after_shortened<'k>(&self, key: &'k [u8], direction: Direction) -> Result<Option<&'k [u8]>, Error> {
        let length = self.long_keys.skip(key, direction)?;
        Ok(if self.long_keys.is_shortened(length) { key.get(length..) } else { None })
    }
}

/// Ends the embedded documents that a field is not in, and starts those that it is in.
fn write_field(field: &ReadField, before: Option<&ReadField>, open: &mut Vec<usize>, document: &mut Vec<u8>) {
    let parents = |field: &ReadField| field.components.len().saturating_sub(1);
    let common = before.map_or(0, |before| {
        let pairs = before.components.iter().zip(&field.components);
        // The last component of each is a value, and no document that could be open.
        pairs.take(parents(before).min(parents(field))).take_while(|(left, right)| left == right).count()
    });
    while open.len() > common
        && let Some(at) = open.pop()
    {
        close(at, document);
    }
    for name in field.components.iter().take(parents(field)).skip(common) {
        header(ElementType::EmbeddedDocument, name, document);
        open.push(document.len());
        document.extend_from_slice(&[0; LENGTH_BYTES]);
    }
}

/// Appends the start of an element: its type and name.
fn header(kind: ElementType, name: &str, document: &mut Vec<u8>) {
    document.push(kind as u8);
    document.extend_from_slice(name.as_bytes());
    document.push(0);
}

/// Ends a document whose length is at an offset.
fn close(at: usize, document: &mut Vec<u8>) {
    document.push(0);
    // A document of more than 31 bits of length is never stored, and neither is an entry of it.
    let length = i32::try_from(document.len() - at).unwrap_or(i32::MAX);
    if let Some(place) = document.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = length.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc, rawdoc};

    use super::*;
    use crate::extract::{ExtractedKeys, extract};
    use crate::spec::SpecOptions;

    /// The document that the entry of `stored` in an index on `keys` provides.
    fn told(keys: &Document, stored: &RawDocument, wanted: &[usize], has_id: bool) -> Option<RawDocumentBuf> {
        let keys = RawDocumentBuf::try_from(keys).unwrap();
        let spec = IndexSpec::parse(&keys, SpecOptions::default()).unwrap();
        let mut extracted = ExtractedKeys::default();
        extract(&spec, stored, &mut extracted).unwrap();
        let (fields, types) = extracted.iter().next().unwrap();
        let (mut id, mut details) = (Vec::new(), types.to_vec());
        let stored_id = stored.get("_id").unwrap().unwrap();
        key::encode_with_types(stored_id, Direction::Ascending, &mut id, &mut details);
        let order = FieldOrder::of(&spec, stored);
        details.extend((order != FieldOrder::AS_DECLARED).then(|| order.code()));
        let mut document = vec![1];
        let entry = EntryParts { fields, id: &id, details: &details };
        let is_told = EntryDocuments::of(&spec, wanted, has_id).read(entry, &mut document).unwrap();
        is_told.then(|| RawDocumentBuf::from_bytes(document).unwrap())
    }

    #[test]
    fn fields_come_in_the_order_of_the_document_with_their_types() {
        let stored = rawdoc! { "_id": 1_i64, "b": 2.0, "x": 0, "a": "text" };
        let keys = doc! { "a": 1, "b": -1 };
        assert_eq!(
            told(&keys, &stored, &[0, 1], true),
            Some(rawdoc! { "_id": 1_i64, "b": 2.0, "a": "text" })
        );
        assert_eq!(told(&keys, &stored, &[0], false), Some(rawdoc! { "a": "text" }));
        assert_eq!(told(&keys, &stored, &[], false), Some(rawdoc! {}));
    }

    #[test]
    fn fields_of_one_embedded_document_are_put_into_one() {
        let stored = rawdoc! {
            "_id": 1, "a": { "z": 0, "c": { "d": 5 }, "b": 4 }, "e": 6, "f": { "g": { "h": 7 } },
        };
        let keys = doc! { "e": 1, "a.b": 1, "f.g.h": 1, "a.c.d": -1 };
        let expected = rawdoc! { "a": { "c": { "d": 5 }, "b": 4 }, "e": 6, "f": { "g": { "h": 7 } } };
        assert_eq!(told(&keys, &stored, &[0, 1, 2, 3], false), Some(expected));
        assert_eq!(told(&keys, &stored, &[2], false), Some(rawdoc! { "f": { "g": { "h": 7 } } }));
    }

    #[test]
    fn null_and_missing_are_not_told_apart() {
        for stored in [rawdoc! { "_id": 1, "a": null, "b": 1 }, rawdoc! { "_id": 1, "b": 1 }] {
            assert_eq!(told(&doc! { "a": 1, "b": 1 }, &stored, &[0, 1], false), None);
            assert_eq!(told(&doc! { "a": 1, "b": 1 }, &stored, &[1], false), Some(rawdoc! { "b": 1 }));
        }
    }

    #[test]
    fn a_repeated_name_is_not_told() {
        let mut stored = rawdoc! { "_id": 1, "a": 1 };
        stored.append(bson::cstr!("a"), 2);
        assert_eq!(told(&doc! { "a": 1 }, &stored, &[0], false), None);
    }

    #[test]
    fn other_bytes_are_no_entry() {
        let keys = rawdoc! { "a": 1 };
        let spec = IndexSpec::parse(&keys, SpecOptions::default()).unwrap();
        let mut fields = Vec::new();
        key::encode(RawBsonRef::Boolean(true), Direction::Ascending, &mut fields);
        let entry = EntryParts { fields: &fields, id: &fields, details: &[1, 1] };
        assert!(EntryDocuments::of(&spec, &[0], false).read(entry, &mut Vec::new()).is_err());
    }
}
