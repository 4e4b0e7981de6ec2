//! Documents on their way into the store: serialized bytes with room in front for an `_id`, and the stored form of
//! them, which has the `_id` first and zero timestamps filled in.
//!
//! An insert is serialized once, into a draft. Everything after that happens in place, so that no document is copied
//! on its way to the write batch.

use std::cell::Cell;
use std::ops::Range;

use base::error;
use bson::spec::ElementType;
use index::validate::ValidDocument;
use sequence::object_id::ObjectId;
use serde::Serialize;
use smallvec::{SmallVec, smallvec};

use crate::document::length::{LENGTH_BYTES, write_length};
use crate::document::timestamp::Timestamps;

const OBJECT_ID_ELEMENT: [u8; 5] = [ElementType::ObjectId as u8, b'_', b'i', b'd', 0];
const INTEGER_ID_ELEMENT: [u8; 5] = [ElementType::Int64 as u8, b'_', b'i', b'd', 0];
/// Bytes that a made `_id` adds to a document: the room that a draft leaves in front.
pub(crate) const HEADROOM: usize = OBJECT_ID_ELEMENT.len() + 12;
/// The largest buffer that a thread keeps for its next insert.
const SPARE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The buffers of the thread's last insert, as serialized and as copied. They are kept because a fresh buffer of a
    /// batch's size costs more page faults than copying does.
    static SPARE: Cell<[Vec<u8>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// A document on its way into the store, after room for an `_id`.
pub(crate) struct Draft<'a> {
    bytes: &'a mut [u8],
    facts: Option<Facts>,
}

/// Drafts of many documents in one buffer.
pub(crate) struct Drafts {
    buffer: Vec<u8>,
    ends: SmallVec<[usize; 1]>,
    /// The summary of each document. `None`, or no element at all, for one that was not validated yet.
    facts: SmallVec<[Option<Facts>; 1]>,
}

/// The summary of a document that a validation makes.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) timestamps: Timestamps,
    /// The place of the `_id` element, from its type byte to the end of its value.
    pub(crate) id: Option<Range<usize>>,
}

impl Facts {
    #[inline]
    pub(crate) fn of(document: &ValidDocument<'_>) -> Self {
        Self { timestamps: Timestamps::of(document), id: document.id_element() }
    }
}

impl Default for Drafts {
    fn default() -> Self {
        let mut buffer = Vec::new();
        // A thread that is ending has none.
        let _ = SPARE.try_with(|spare| {
            // The second moves up: a call that also copies its documents uses it for the copies.
            let [first, second] = spare.take();
            buffer = first;
            spare.set([second, Vec::new()]);
        });
        buffer.clear();
        Self { buffer, ends: SmallVec::new(), facts: SmallVec::new() }
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        // A larger one is freed: one large batch must not hold memory in a thread for good.
        if self.buffer.capacity() <= SPARE_BYTES_MAX {
            let buffer = std::mem::take(&mut self.buffer);
            // A thread that is ending keeps nothing.
            let _ = SPARE.try_with(|spare| {
                // Two are kept, and the older of those that were there goes.
                let [first, _] = spare.take();
                spare.set([buffer, first]);
            });
        }
    }
}

impl Drafts {
    /// Serializes one document.
    pub(crate) fn of_one<T: Serialize>(document: &T) -> error::Result<Self> {
        let mut drafts = Self::default();
        drafts.push(document)?;
        Ok(drafts)
    }

    /// Accepts one document that is serialized already.
    pub(crate) fn of_bytes(document: &[u8]) -> Self {
        let buffer = [&[0; HEADROOM], document].concat();
        Self { ends: smallvec![buffer.len()], buffer, facts: SmallVec::new() }
    }

    /// Serializes one document more.
    #[inline]
    pub(crate) fn push<T: Serialize>(&mut self, document: &T) -> error::Result<()> {
        self.buffer.extend_from_slice(&[0; HEADROOM]);
        // Straight to bytes: a tree of the document would cost nearly as much as RocksDB's put.
        bson::serialize_to_buffer(document, &mut self.buffer)?;
        // No element of `facts` is added: `know` adds those that are missing, if it is ever called.
        self.ends.push(self.buffer.len());
        Ok(())
    }

    /// Accepts one document more that is serialized already.
    pub(crate) fn push_bytes(&mut self, document: &[u8]) {
        self.buffer.extend_from_slice(&[0; HEADROOM]);
        self.buffer.extend_from_slice(document);
        self.know(None);
    }

    /// Adds the document that `write` appends to the buffer, which has room for `room` bytes of it. The document must be
    /// well-formed, and `write` returns what is known of it. Where `write` fails, nothing is added.
    pub(crate) fn push_with<E>(
        &mut self,
        room: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<Facts, E>,
    ) -> Result<(), E> {
        let start = self.buffer.len();
        self.buffer.reserve(HEADROOM + room);
        self.buffer.extend_from_slice(&[0; HEADROOM]);
        match write(&mut self.buffer) {
            Ok(facts) => self.know(Some(facts)),
            Err(error) => {
                // The call goes on without this document, so its bytes must not come before the next one's.
                self.buffer.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    fn know(&mut self, facts: Option<Facts>) {
        // Documents that were serialized without a look at them have no element here yet.
        self.facts.resize(self.ends.len(), None);
        self.facts.push(facts);
        self.ends.push(self.buffer.len());
    }

    /// Appends a 64-bit integer to the fields of the only document, which is not prepared yet. Returns the offset of the
    /// value in the buffer.
    pub(crate) fn append_integer(&mut self, name: &str, value: i64) -> usize {
        // The terminator, which is written again after the field.
        self.buffer.pop();
        self.buffer.push(ElementType::Int64 as u8);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
        let offset = self.buffer.len();
        self.buffer.extend_from_slice(&value.to_le_bytes());
        self.buffer.push(0);
        if let Some(end) = self.ends.last_mut() {
            *end = self.buffer.len();
        }
        // The document grew in place. Its length is at the front, as the room in front of it is not filled yet.
        write_length(self.buffer.get_mut(HEADROOM..).unwrap_or_default());
        offset
    }

    /// Overwrites the 64-bit integer at an offset of the buffer.
    #[inline]
    pub(crate) fn write_value(&mut self, offset: usize, value: i64) {
        if let Some(bytes) = self.buffer.get_mut(offset..offset + 8) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// The 64-bit integer at an offset of the buffer.
    pub(crate) fn value(&self, offset: usize) -> i64 {
        let bytes = self.buffer.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i64::from_le_bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The documents as they were serialized.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &[u8]> {
        self.documents_from(0)
    }

    /// The documents from a position on, as they were serialized.
    pub(crate) fn documents_from(&self, position: usize) -> impl Iterator<Item = &[u8]> {
        let start = position.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let ends = self.ends.get(position..).unwrap_or_default();
        let starts = std::iter::once(start).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, &end)| self.buffer.get(start + HEADROOM..end).unwrap_or_default())
    }

    /// The drafts in the order of their documents.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Draft<'_>> {
        let mut rest = self.buffer.as_mut_slice();
        let mut start = 0;
        let mut facts = self.facts.iter_mut();
        self.ends.iter().map(move |&end| {
            // Each draft borrows its own part of the buffer, so that all of them may be prepared before the first is stored.
            let (bytes, behind) = std::mem::take(&mut rest).split_at_mut(end - start);
            rest = behind;
            start = end;
            Draft { bytes, facts: facts.next().and_then(Option::take) }
        })
    }
}

impl<'a> Draft<'a> {
    /// The document as it was serialized.
    #[inline]
    pub(crate) fn document(&self) -> &[u8] {
        self.bytes.get(HEADROOM..).unwrap_or_default()
    }

    /// The summary of the document; `None` if it was not validated yet.
    #[inline]
    pub(crate) fn take_facts(&mut self) -> Option<Facts> {
        self.facts.take()
    }

    /// Bytes of the draft, with the room in front.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The document with `id` as its `_id`. It must not have one.
    #[inline]
    pub(crate) fn with_object_id(self, id: ObjectId, timestamps: Timestamps) -> &'a [u8] {
        let bytes = self.bytes;
        if let Some(element) = bytes.get_mut(LENGTH_BYTES..LENGTH_BYTES + HEADROOM) {
            let (name, value) = element.split_at_mut(OBJECT_ID_ELEMENT.len());
            name.copy_from_slice(&OBJECT_ID_ELEMENT);
            value.copy_from_slice(&id.bytes());
        }
        // The document starts further in front now, and the element lies where its length was.
        write_length(bytes);
        timestamps.fill(bytes);
        bytes
    }

    /// The document with an integer as its `_id`. It must not have one.
    #[inline]
    pub(crate) fn with_integer_id(self, id: i64, timestamps: Timestamps) -> &'a [u8] {
        const ELEMENT: usize = INTEGER_ID_ELEMENT.len() + 8;
        // An integer is shorter than an `ObjectId`, so the document starts a few bytes further back in the same headroom.
        let bytes = self.bytes.get_mut(HEADROOM - ELEMENT..).unwrap_or_default();
        if let Some(element) = bytes.get_mut(LENGTH_BYTES..LENGTH_BYTES + ELEMENT) {
            let (name, value) = element.split_at_mut(INTEGER_ID_ELEMENT.len());
            name.copy_from_slice(&INTEGER_ID_ELEMENT);
            value.copy_from_slice(&id.to_le_bytes());
        }
        write_length(bytes);
        timestamps.fill(bytes);
        bytes
    }

    /// The document with the `_id` that it has at `id` moved to the front.
    #[inline]
    pub(crate) fn with_own_id(self, id: Range<usize>, timestamps: Timestamps) -> &'a [u8] {
        let bytes = self.bytes.get_mut(HEADROOM..).unwrap_or_default();
        // A document that starts with its `_id`, as those of most drivers do, is not touched.
        if id.start > LENGTH_BYTES
            && let Some(front) = bytes.get_mut(LENGTH_BYTES..id.end)
        {
            // In place: the fields before it move back by its length, and nothing is copied.
            front.rotate_right(id.len());
        }
        timestamps.fill(bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use index::validate::validate;

    use super::*;

    /// The stored form of a document with an `_id` of its own.
    #[track_caller]
    fn stored(document: &RawDocumentBuf) -> RawDocumentBuf {
        let mut drafts = Drafts::of_one(document).expect("serialized");
        let draft = drafts.iter_mut().next().expect("one draft");
        let valid = validate(draft.document()).expect("well-formed");
        let (element, timestamps) = (valid.id_element().expect("has an id"), Timestamps::of(&valid));
        RawDocumentBuf::from_bytes(draft.with_own_id(element, timestamps).to_vec()).expect("well-formed")
    }

    #[test]
    fn a_made_id_stands_first() {
        let document = rawdoc! { "a": 1, "b": "two" };
        let mut drafts = Drafts::of_one(&document).expect("serialized");
        let draft = drafts.iter_mut().next().expect("one draft");
        let bytes = draft.with_object_id(ObjectId::from_bytes([7; 12]), Timestamps::AsTheyAre);
        let expected = rawdoc! { "_id": bson::oid::ObjectId::from_bytes([7; 12]), "a": 1, "b": "two" };
        assert_eq!(bytes, expected.as_bytes());
    }

    #[test]
    fn a_numbered_id_stands_first_and_a_numbered_field_last() {
        let mut drafts = Drafts::of_one(&rawdoc! { "a": 1 }).expect("serialized");
        let offset = drafts.append_integer("n", 8);
        assert_eq!(drafts.documents().next().expect("a document"), rawdoc! { "a": 1, "n": 8_i64 }.as_bytes());
        for id in [5_i64, 6] {
            drafts.write_value(offset, id);
            let draft = drafts.iter_mut().next().expect("one draft");
            let bytes = draft.with_integer_id(id, Timestamps::AsTheyAre);
            assert_eq!(bytes, rawdoc! { "_id": id, "a": 1, "n": id }.as_bytes());
        }
    }

    #[test]
    fn an_own_id_is_moved_to_the_front() {
        let moved = stored(&rawdoc! { "a": 1, "_id": "x", "b": 2 });
        assert_eq!(moved, rawdoc! { "_id": "x", "a": 1, "b": 2 });
        assert_eq!(stored(&moved), moved);
    }

    #[test]
    fn many_drafts_keep_their_documents_apart() {
        let mut drafts = Drafts::default();
        for number in 0..3 {
            drafts.push(&rawdoc! { "n": number }).expect("serialized");
        }
        let documents: Vec<Vec<u8>> = drafts.iter_mut().map(|draft| draft.document().to_vec()).collect();
        assert_eq!(documents, [0, 1, 2].map(|number| rawdoc! { "n": number }.into_bytes()));
        for from in 0..=3 {
            assert_eq!(drafts.documents_from(from).collect::<Vec<_>>(), documents[from..]);
        }
    }
}
