//! The bytes that are stored: `_id` first, made if absent, and zero timestamps filled in.
//!
//! An insert is serialized once, into a draft that leaves room in front for an `_id`; everything after that happens
//! in place, so that no document is copied on its way to the write batch.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bson::RawDocument;
use bson::spec::ElementType;
use index::element::elements;
use index::validate::ValidDocument;
use sequence::object_id::ObjectId;
use serde::Serialize;
use smallvec::{SmallVec, smallvec};

use crate::error;

const LENGTH_BYTES: usize = 4;
const OBJECT_ID_ELEMENT: [u8; 5] = [ElementType::ObjectId as u8, b'_', b'i', b'd', 0];
const INTEGER_ID_ELEMENT: [u8; 5] = [ElementType::Int64 as u8, b'_', b'i', b'd', 0];
/// Bytes that a made `_id` adds to a document: the room that a draft leaves in front.
pub(crate) const HEADROOM: usize = OBJECT_ID_ELEMENT.len() + 12;
/// The largest buffer that a thread keeps for its next insert.
const SPARE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The buffers of the thread's last insert, as serialized and as completed: a fresh one of a batch's size costs more
    /// page faults than copying.
    static SPARE: Cell<[Vec<u8>; 2]> = const { Cell::new([Vec::new(), Vec::new()]) };
}

/// A document that is being made ready, behind room for an `_id`.
pub(crate) struct Draft<'a> {
    bytes: &'a mut [u8],
    facts: Option<Facts>,
}

/// Drafts of many documents in one buffer.
pub(crate) struct Drafts {
    buffer: Vec<u8>,
    ends: SmallVec<[usize; 1]>,
    /// What is known of each document; nothing before it is validated.
    facts: SmallVec<[Option<Facts>; 1]>,
}

/// What a validation saw of a document.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) timestamps: Timestamps,
    /// Where the `_id` element stands, from its type byte to the end of its value.
    pub(crate) id: Option<Range<usize>>,
}

impl Default for Drafts {
    fn default() -> Self {
        let mut buffer = Vec::new();
        // A thread that is ending has none.
        let _ = SPARE.try_with(|spare| {
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
        if self.buffer.capacity() <= SPARE_BYTES_MAX {
            let buffer = std::mem::take(&mut self.buffer);
            // A thread that is ending keeps nothing.
            let _ = SPARE.try_with(|spare| {
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

    /// Takes one document that is serialized already.
    pub(crate) fn of_bytes(document: &[u8]) -> Self {
        let buffer = [&[0; HEADROOM], document].concat();
        Self { ends: smallvec![buffer.len()], buffer, facts: SmallVec::new() }
    }

    /// Serializes one document more.
    #[inline]
    pub(crate) fn push<T: Serialize>(&mut self, document: &T) -> error::Result<()> {
        self.buffer.extend_from_slice(&[0; HEADROOM]);
        bson::serialize_to_buffer(document, &mut self.buffer)?;
        self.ends.push(self.buffer.len());
        Ok(())
    }

    /// Takes one document more that is serialized already.
    pub(crate) fn push_bytes(&mut self, document: &[u8]) {
        self.buffer.extend_from_slice(&[0; HEADROOM]);
        self.buffer.extend_from_slice(document);
        self.know(None);
    }

    /// Adds the document that `write` appends to the buffer, in which it finds room for so many bytes; nothing if it
    /// fails. The document is well-formed, and what `write` gives is known of it.
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
                self.buffer.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    fn know(&mut self, facts: Option<Facts>) {
        self.facts.resize(self.ends.len(), None);
        self.facts.push(facts);
        self.ends.push(self.buffer.len());
    }

    /// Puts a 64-bit integer behind the fields of the single document, which is not prepared yet. Gives the place of the
    /// value.
    pub(crate) fn append_integer(&mut self, name: &str, value: i64) -> usize {
        self.buffer.pop();
        self.buffer.push(ElementType::Int64 as u8);
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.push(0);
        let place = self.buffer.len();
        self.buffer.extend_from_slice(&value.to_le_bytes());
        self.buffer.push(0);
        if let Some(end) = self.ends.last_mut() {
            *end = self.buffer.len();
        }
        write_length(self.buffer.get_mut(HEADROOM..).unwrap_or_default());
        place
    }

    /// Writes the 64-bit integer that stands at `place` of the buffer.
    #[inline]
    pub(crate) fn write_value(&mut self, place: usize, value: i64) {
        if let Some(bytes) = self.buffer.get_mut(place..place + 8) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// The 64-bit integer that stands at `place` of the buffer.
    pub(crate) fn value(&self, place: usize) -> i64 {
        let bytes = self.buffer.get(place..place + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i64::from_le_bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The documents as they were serialized.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.buffer.get(start + HEADROOM..end).unwrap_or_default())
    }

    /// The drafts in the order of their documents.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Draft<'_>> {
        let mut rest = self.buffer.as_mut_slice();
        let mut start = 0;
        let mut facts = self.facts.iter_mut();
        self.ends.iter().map(move |&end| {
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

    /// What is known of the document; nothing if it was not validated yet.
    #[inline]
    pub(crate) fn take_facts(&mut self) -> Option<Facts> {
        self.facts.take()
    }

    /// How many bytes the draft takes.
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
        write_length(bytes);
        finish(bytes, timestamps)
    }

    /// The document with an integer as its `_id`. It must not have one.
    #[inline]
    pub(crate) fn with_integer_id(self, id: i64, timestamps: Timestamps) -> &'a [u8] {
        const ELEMENT: usize = INTEGER_ID_ELEMENT.len() + 8;
        let bytes = self.bytes.get_mut(HEADROOM - ELEMENT..).unwrap_or_default();
        if let Some(element) = bytes.get_mut(LENGTH_BYTES..LENGTH_BYTES + ELEMENT) {
            let (name, value) = element.split_at_mut(INTEGER_ID_ELEMENT.len());
            name.copy_from_slice(&INTEGER_ID_ELEMENT);
            value.copy_from_slice(&id.to_le_bytes());
        }
        write_length(bytes);
        finish(bytes, timestamps)
    }

    /// The document with the `_id` that it has at `id` moved to the front.
    #[inline]
    pub(crate) fn with_own_id(self, id: Range<usize>, timestamps: Timestamps) -> &'a [u8] {
        let bytes = self.bytes.get_mut(HEADROOM..).unwrap_or_default();
        if id.start > LENGTH_BYTES
            && let Some(front) = bytes.get_mut(LENGTH_BYTES..id.end)
        {
            front.rotate_right(id.len());
        }
        finish(bytes, timestamps)
    }
}

/// Whether zero timestamps are to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timestamps {
    AsTheyAre,
    FillZeros,
}

impl Timestamps {
    pub(crate) fn of(document: &ValidDocument<'_>) -> Self {
        if document.has_zero_timestamp() { Self::FillZeros } else { Self::AsTheyAre }
    }
}

/// A replacement with the element `id` (type byte, name, value) as its `_id`, in the place of the one it may have.
pub(crate) fn with_id_element(replacement: &ValidDocument<'_>, id: &[u8]) -> Vec<u8> {
    let whole = replacement.as_bytes();
    let own = replacement.id_element().unwrap_or(LENGTH_BYTES..LENGTH_BYTES);
    let before = whole.get(LENGTH_BYTES..own.start).unwrap_or_default();
    let after = whole.get(own.end..).unwrap_or_default();
    let mut bytes = [&[0; LENGTH_BYTES], id, before, after].concat();
    write_length(&mut bytes);
    finish(&mut bytes, Timestamps::of(replacement));
    bytes
}

/// An element of a document as it stands there: type byte, name, value.
pub(crate) fn element<'a>(document: &'a RawDocument, name: &str) -> Option<&'a [u8]> {
    let mut elements = elements(document.as_bytes());
    elements.find(|element| element.name == name.as_bytes()).map(|element| element.whole)
}

/// Puts whole elements behind those of a document.
pub(crate) fn append_elements(document: &mut Vec<u8>, elements: &[u8]) {
    document.pop();
    document.extend_from_slice(elements);
    document.push(0);
    write_length(document);
}

fn write_length(bytes: &mut [u8]) {
    // A length over the limit of the format is refused by the size check that follows every build.
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    if let Some(front) = bytes.first_chunk_mut::<LENGTH_BYTES>() {
        *front = length.to_le_bytes();
    }
}

#[inline]
fn finish(bytes: &mut [u8], timestamps: Timestamps) -> &[u8] {
    if timestamps == Timestamps::FillZeros {
        fill_timestamps(bytes);
    }
    bytes
}

/// Replaces top-level `Timestamp(0, 0)` by the clock, as MongoDB does on insert; `_id` is left as it is.
fn fill_timestamps(bytes: &mut [u8]) {
    let mut place = LENGTH_BYTES;
    let mut found = Vec::new();
    for element in elements(bytes) {
        place += element.whole.len();
        if element.kind == ElementType::Timestamp && element.name != b"_id" {
            found.push(place - element.value.len()..place);
        }
    }
    for timestamp in found {
        if let Some(field) = bytes.get_mut(timestamp)
            && field.iter().all(|&byte| byte == 0)
        {
            field.copy_from_slice(&next_timestamp().to_le_bytes());
        }
    }
}

/// Seconds and increment as one number, never the same twice in a process.
pub(crate) fn next_timestamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let now = seconds << 32 | 1;
    let previous = LAST
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)))
        .unwrap_or_else(|last| last);
    now.max(previous + 1)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocument, RawDocumentBuf, Timestamp, rawdoc};
    use index::validate::validate;

    use super::*;

    /// What becomes of a document with an `_id` of its own.
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
        let place = drafts.append_integer("n", 8);
        assert_eq!(drafts.documents().next().expect("a document"), rawdoc! { "a": 1, "n": 8_i64 }.as_bytes());
        for id in [5_i64, 6] {
            drafts.write_value(place, id);
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
    }

    #[test]
    fn an_id_element_takes_the_place_of_the_own_one() {
        let id = rawdoc! { "_id": 1.0 };
        let element = id.as_bytes().get(4..id.as_bytes().len() - 1).expect("an element");
        for replacement in [rawdoc! { "a": 1, "_id": 1 }, rawdoc! { "a": 1 }] {
            let valid = validate(replacement.as_bytes()).expect("well-formed");
            assert_eq!(with_id_element(&valid, element), rawdoc! { "_id": 1.0, "a": 1 }.as_bytes());
        }
    }

    #[test]
    fn zero_timestamps_become_the_clock_and_differ() {
        let zero = Timestamp { time: 0, increment: 0 };
        let document = stored(&rawdoc! { "_id": zero, "a": zero, "n": { "b": zero }, "c": zero, "d": 1 });
        let document: &RawDocument = &document;
        let at = |name| document.get_timestamp(name).expect("a timestamp");
        assert_eq!(at("_id"), zero);
        assert!(at("a").time > 0 && at("c").time > 0 && at("a") != at("c"));
        let nested = document.get_document("n").expect("a document").get_timestamp("b").expect("a timestamp");
        assert_eq!(nested, zero, "only top-level timestamps are filled in");
        assert_eq!(document.get_i32("d").ok(), Some(1));
    }
}
