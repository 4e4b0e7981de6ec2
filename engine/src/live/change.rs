//! The changes of a result, as callers get them.

use base::error::Result;
use bson::{Bson, RawDocumentBuf};
use query::operation::Reservation;
use serde::de::DeserializeOwned;

use crate::document::decode::decode_owned;

/// A change of the result of a live query. `T` is the type of the collection's documents.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveChange<T> {
    /// A document belongs to the result now.
    Entered(T),
    /// A document of the result is another one now.
    Changed(T),
    /// The document with this `_id` does not belong to the result any more.
    Left(Bson),
    /// The collection was dropped or renamed, and this is the end of the query.
    Invalidated,
}

/// The changes of a round.
pub(crate) struct Batch {
    pub(super) changes: Vec<LiveChange<RawDocumentBuf>>,
    /// Kept until the caller has the batch.
    pub(super) memory: Reservation,
}

impl Batch {
    pub(super) fn decode<T: DeserializeOwned + 'static>(self) -> Result<Vec<LiveChange<T>>> {
        let decoded = self.changes.into_iter().map(|change| {
            Ok(match change {
                LiveChange::Entered(document) => LiveChange::Entered(decode_owned(document)?),
                LiveChange::Changed(document) => LiveChange::Changed(decode_owned(document)?),
                LiveChange::Left(id) => LiveChange::Left(id),
                LiveChange::Invalidated => LiveChange::Invalidated,
            })
        });
        decoded.collect()
    }
}
