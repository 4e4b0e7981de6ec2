//! From a draft to the bytes that are stored, and their key.

use std::ops::Range;

use bson::{Bson, RawBsonRef, RawDocument};
use bytes::BufMut;
use index::key::{self, Direction};
use sequence::generator::Generator;
use sequence::object_id::ObjectId;
use smallvec::SmallVec;

use crate::document::draft::{Draft, Timestamps};
use crate::document::validate::{validate, validate_size};
use crate::error::Refusal;
use crate::storage::keys::{CollectionId, ID_BYTES};

/// Room for the key of any `_id` but long strings and documents.
pub(crate) const KEY_BYTES: usize = 32;

/// Where a document's first element starts: behind the length.
const FIRST_ELEMENT: usize = 4;

/// A record key. Those of `ObjectId`s and numbers need no allocation: a batch holds a thousand of them.
pub(crate) type RecordKey = SmallVec<[u8; 24]>;

/// A document that is ready to be staged.
pub(crate) struct Prepared<'a> {
    pub(crate) record_key: RecordKey,
    /// With `_id` first.
    pub(crate) bytes: &'a [u8],
    made_id: Option<MadeId>,
}

/// An `_id` that the document did not bring.
#[derive(Clone, Copy)]
pub(super) enum MadeId {
    ObjectId(ObjectId),
    Integer(i64),
}

impl MadeId {
    #[inline]
    pub(super) fn object_id(generator: &Generator) -> Self {
        Self::ObjectId(generator.generate())
    }

    #[inline]
    pub(super) fn value(self) -> Bson {
        match self {
            Self::ObjectId(made) => Bson::ObjectId(made.bytes().into()),
            Self::Integer(made) => Bson::Int64(made),
        }
    }
}

/// Checks a document for insertion and gives it an `_id` if it has none.
#[inline]
pub(crate) fn prepare<'a>(
    mut draft: Draft<'a>,
    collection: CollectionId,
    generator: &Generator,
    scratch: &mut Vec<u8>,
) -> Result<Prepared<'a>, Refusal> {
    let known = draft.take_facts();
    let (timestamps, id) = if let Some(facts) = known {
        (facts.timestamps, id_at(draft.document(), facts.id))
    } else {
        let document = validate(draft.document())?;
        (Timestamps::of(&document), document.id().zip(document.id_element()))
    };
    let Some((id, element)) = id else {
        return prepare_made(draft, (MadeId::object_id(generator), timestamps), collection, scratch);
    };
    write_record_key(scratch, collection, id);
    let bytes = draft.with_own_id(element, timestamps);
    validate_size(bytes.len())?;
    Ok(Prepared { record_key: RecordKey::from_slice(scratch), bytes, made_id: None })
}

/// Gives an `_id` to a document that was checked, and has none.
#[expect(clippy::inline_always, reason = "every insert passes here, and a call costs a hundredth of one")]
#[inline(always)]
pub(super) fn prepare_made<'a>(
    draft: Draft<'a>,
    (id, timestamps): (MadeId, Timestamps),
    collection: CollectionId,
    scratch: &mut Vec<u8>,
) -> Result<Prepared<'a>, Refusal> {
    let bytes = match id {
        MadeId::ObjectId(id) => {
            write_record_key(scratch, collection, RawBsonRef::ObjectId(id.bytes().into()));
            draft.with_object_id(id, timestamps)
        }
        MadeId::Integer(id) => {
            begin_record_key(scratch, collection);
            key::encode_integer(id, scratch);
            draft.with_integer_id(id, timestamps)
        }
    };
    validate_size(bytes.len())?;
    Ok(Prepared { record_key: RecordKey::from_slice(scratch), bytes, made_id: Some(id) })
}

/// The `_id` whose element is known to stand at `place` of a well-formed document.
fn id_at(document: &[u8], place: Option<Range<usize>>) -> Option<(RawBsonRef<'_>, Range<usize>)> {
    let place = place?;
    let document = RawDocument::from_bytes(document).ok()?;
    Some((index::element::value_at_offset(document, place.start)?, place))
}

/// Collection id and encoded `_id`.
#[inline]
pub(crate) fn record_key(collection: CollectionId, id: RawBsonRef<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    write_record_key(&mut key, collection, id);
    key
}

/// The encoded `_id` within a record key.
#[inline]
pub(crate) fn encoded_id(record_key: &[u8]) -> &[u8] {
    record_key.get(ID_BYTES..).unwrap_or_default()
}

impl Prepared<'_> {
    /// The document's `_id`, made or its own.
    #[inline]
    pub(crate) fn id(&self) -> Bson {
        if let Some(made) = self.made_id {
            return made.value();
        }
        let first = index::element::value_at_offset(self.document(), FIRST_ELEMENT);
        first.and_then(|id| Bson::try_from(id).ok()).expect("prepare() put the _id first")
    }

    /// The stored form.
    pub(crate) fn document(&self) -> &RawDocument {
        RawDocument::from_bytes(self.bytes).expect("prepare() validated the bytes")
    }
}

#[inline]
fn write_record_key(key: &mut Vec<u8>, collection: CollectionId, id: RawBsonRef<'_>) {
    begin_record_key(key, collection);
    key::encode(id, Direction::Ascending, key);
}

#[inline]
fn begin_record_key(key: &mut Vec<u8>, collection: CollectionId) {
    key.clear();
    key.put_u32(collection.0);
}
