//! From a complete draft to the bytes that are stored, and their key.

use base::write_error::Refusal;
use bson::{Bson, RawBsonRef, RawDocument};
use index::key::{self, LongKeys};
use smallvec::SmallVec;
use store::keys::{CollectionId, ID_BYTES};

use crate::catalog::collection::CollectionState;
use crate::catalog::record_keys::write_record_key;
use crate::document::validate::validate_size;
use crate::write::complete::{CompleteDraft, DocumentId, MadeId};

/// Room for the key of any `_id` but long strings and documents.
pub(crate) const KEY_BYTES: usize = 32;

/// The offset of a document's first element: after its length.
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

/// A document that may get a key which another one has.
#[derive(Clone, Copy)]
pub(super) struct Taker<'a> {
    pub(super) encoded_id: &'a [u8],
    pub(super) document: &'a RawDocument,
}

/// Makes the stored bytes of a draft, and its record key. `scratch` is reused from document to document.
///
/// # Errors
/// A document that is too large with what was added to it.
#[inline]
pub(super) fn prepare<'a>(
    complete: CompleteDraft<'a>,
    collection: &CollectionState,
    scratch: &mut Vec<u8>,
) -> Result<Prepared<'a>, Refusal> {
    let CompleteDraft { draft, id, timestamps } = complete;
    let (bytes, made_id) = match id {
        DocumentId::Own(element) => {
            let bytes = draft.with_own_id(element, timestamps);
            // Read after the move, where it is at a fixed place.
            let id = id_of(bytes).expect("a validated document with its _id in front");
            write_record_key(scratch, collection.id, collection.record_keys.long_keys, id);
            (bytes, None)
        }
        DocumentId::Made(MadeId::ObjectId(id)) => {
            let found = RawBsonRef::ObjectId(id.bytes().into());
            write_record_key(scratch, collection.id, collection.record_keys.long_keys, found);
            (draft.with_object_id(id, timestamps), Some(MadeId::ObjectId(id)))
        }
        DocumentId::Made(MadeId::Integer(id)) => {
            scratch.clear();
            scratch.extend_from_slice(&collection.id.prefix());
            // Without the detour over a BSON value: this is the key of every numbered `_id`.
            key::encode_integer(id, scratch);
            (draft.with_integer_id(id, timestamps), Some(MadeId::Integer(id)))
        }
    };
    // Only now: an `_id` and numbers may have brought a document that came within the limit over it.
    validate_size(bytes.len())?;
    Ok(Prepared { record_key: RecordKey::from_slice(scratch), bytes, made_id })
}

/// The `_id` of a well-formed document that starts with it.
fn id_of(document: &[u8]) -> Option<RawBsonRef<'_>> {
    index::element::value_at_offset(RawDocument::from_bytes(document).ok()?, FIRST_ELEMENT)
}

/// The record key of an `_id` in a collection.
#[inline]
pub(crate) fn record_key(collection: &CollectionState, id: RawBsonRef<'_>) -> Vec<u8> {
    record_key_of(collection.id, collection.record_keys.long_keys, id)
}

/// Collection id and encoded `_id`.
#[inline]
pub(crate) fn record_key_of(collection: CollectionId, long_keys: LongKeys, id: RawBsonRef<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    write_record_key(&mut key, collection, long_keys, id);
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
        // A made id needs no second look at the bytes.
        if let Some(made) = self.made_id {
            return made.value();
        }
        let id = id_of(self.bytes).and_then(|id| Bson::try_from(id).ok());
        id.expect("prepare() put the _id first")
    }

    /// The document as one that may get a key which another one has.
    pub(super) fn as_taker(&self) -> Taker<'_> {
        Taker { encoded_id: encoded_id(&self.record_key), document: self.document() }
    }

    /// The stored form.
    pub(crate) fn document(&self) -> &RawDocument {
        RawDocument::from_bytes(self.bytes).expect("prepare() validated the bytes")
    }
}
