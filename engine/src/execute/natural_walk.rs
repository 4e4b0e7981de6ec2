//! A walk over the documents of a capped collection in the order of their positions.

use std::sync::Arc;

use base::error::{Error, Result};
use bson::RawDocument;
use index::key::Direction;
use query::operation::OperationContext;
use store::Family;
use store::keys::{CollectionId, ID_BYTES, OrderId};
use store::snapshot::Snapshot;

use crate::catalog::capped::OrderState;
use crate::document::decode::stored;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::record_fetch::RecordFetch;
use crate::execute::rest::Rest;
use crate::plan::bounds::KeySpans;

/// A walk over documents in their insertion order. It is before the first one until `advance` is called.
pub(super) struct NaturalWalk {
    walk: KeyWalk,
    records: RecordFetch,
    record_key: Vec<u8>,
    document: Vec<u8>,
}

/// Which documents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    All(Direction),
    /// Those from a position on.
    From(u64),
}

/// The state of the collection in a snapshot.
pub(crate) fn state_in(snapshot: &Snapshot, order: OrderId) -> Result<OrderState> {
    let key = order.state_key();
    let missing = || Error::corruption(Family::Entries.name(), &key, "the state of an order is missing");
    OrderState::decode(order, &snapshot.get(Family::Entries, &key)?.ok_or_else(missing)?)
}

impl NaturalWalk {
    /// Opens a walk over documents of a collection.
    pub(super) fn open(
        snapshot: &Arc<Snapshot>,
        collection: CollectionId,
        order: OrderId,
        extent: Extent,
        operation: &OperationContext,
    ) -> Result<Self> {
        let (first, direction) = match extent {
            // From the first position on that a document can have: before it there may be very many that were removed.
            Extent::All(direction) => (state_in(snapshot, order)?.first, direction),
            Extent::From(first) => (first, Direction::Ascending),
        };
        let (start, end) = order.positions_from(first);
        // Up to the last position that the snapshot has, whatever the state says.
        let spans = KeySpans::between(start, end);
        Ok(Self {
            walk: KeyWalk::new(snapshot, Family::Entries, spans, direction, operation),
            records: RecordFetch::new(snapshot, collection, operation),
            record_key: collection.prefix().to_vec(),
            document: Vec::new(),
        })
    }

    /// Steps to the next document. Returns `false` at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.walk.advance()? == KeyStep::End {
            return Ok(false);
        }
        // The prefix of the collection stays; only the `_id` differs from position to position.
        self.record_key.truncate(ID_BYTES);
        self.record_key.extend_from_slice(self.walk.value());
        if self.records.read(&self.record_key, &mut self.document)? {
            return Ok(true);
        }
        // Both are from one snapshot and were written in one batch, so this is not a race.
        let problem = "the position's document does not exist";
        Err(Error::corruption(Family::Entries.name(), self.walk.key(), problem))
    }

    /// The record key of the current document.
    pub(super) fn record_key(&self) -> &[u8] {
        &self.record_key
    }

    /// The bytes of the current document.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.document
    }

    /// The current document.
    pub(super) fn document(&self) -> Result<&RawDocument> {
        stored(&self.record_key, &self.document)
    }

    /// Releases what the storage holds for the walk until it is advanced again.
    pub(super) fn rest(&mut self, current: Rest) {
        self.walk.rest(current);
        self.records.rest();
        if current != Rest::Keep {
            self.document = Vec::new();
        }
    }
}
