//! A draft whose `_id` is decided: the document's own, or one that was made for it.

use std::ops::Range;

use base::write_error::Refusal;
use bson::Bson;
use sequence::generator::Generator;
use sequence::object_id::ObjectId;

use crate::document::draft::{Draft, Facts};
use crate::document::timestamp::Timestamps;
use crate::document::validate::validate;

/// A validated draft with its numbers and a decided `_id`: `prepare` makes the stored bytes of it.
pub(super) struct CompleteDraft<'a> {
    pub(super) draft: Draft<'a>,
    pub(super) id: DocumentId,
    pub(super) timestamps: Timestamps,
}

/// The source of a document's `_id`.
pub(super) enum DocumentId {
    /// The document brings it, as the element at this place of its bytes.
    Own(Range<usize>),
    /// The document lacks it.
    Made(MadeId),
}

/// An `_id` that the engine made.
#[derive(Clone, Copy)]
pub(super) enum MadeId {
    ObjectId(ObjectId),
    /// A value of the auto-increment field `_id`.
    Integer(i64),
}

impl<'a> CompleteDraft<'a> {
    /// Completes a draft by an `ObjectId` if it has no `_id`. A draft that was validated is not read again.
    #[inline]
    pub(super) fn of(mut draft: Draft<'a>, generator: &Generator) -> Result<Self, Refusal> {
        // A copy was validated before it was made, and what was seen then holds for it.
        let facts = match draft.take_facts() {
            Some(facts) => facts,
            None => Facts::of(&validate(draft.document())?),
        };
        let id = facts.id.map_or_else(|| DocumentId::Made(MadeId::object_id(generator)), DocumentId::Own);
        Ok(Self { draft, id, timestamps: facts.timestamps })
    }
}

impl MadeId {
    /// A new `ObjectId`.
    #[inline]
    pub(super) fn object_id(generator: &Generator) -> Self {
        Self::ObjectId(generator.generate())
    }

    /// The `_id` as results show it.
    #[inline]
    pub(super) fn value(self) -> Bson {
        match self {
            Self::ObjectId(made) => Bson::ObjectId(made.bytes().into()),
            Self::Integer(made) => Bson::Int64(made),
        }
    }
}
