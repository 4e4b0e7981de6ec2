//! The values that documents have already in a field that is to number itself.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use sequence::attributes::Attributes;

use crate::catalog::collection::CollectionState;
use crate::document::decode::stored;
use crate::error::Result;
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::{Database, Family};

/// The integer furthest along the sequence's direction that a document of the collection has at the path.
pub(crate) fn furthest(
    database: &Arc<Database>,
    collection: &CollectionState,
    path: &str,
    attributes: &Attributes,
) -> Result<Option<i64>> {
    let bounds = (collection.id.prefix().to_vec(), Some(collection.id.end()));
    let mut scan = Scan::open(&Snapshot::take(database), Family::Records, bounds, CacheUse::Bypass);
    let mut furthest = None;
    while scan.advance()? {
        let Some(value) = integer_at(stored(scan.key(), scan.value())?, path) else { continue };
        furthest = Some(match furthest {
            None => value,
            Some(known) if attributes.increment() > 0 => value.max(known),
            Some(known) => value.min(known),
        });
    }
    Ok(furthest)
}

fn integer_at(document: &RawDocument, path: &str) -> Option<i64> {
    let mut level = document;
    let mut segments = path.split('.').peekable();
    while let Some(segment) = segments.next() {
        let value = level.get(segment).ok().flatten()?;
        if segments.peek().is_some() {
            level = value.as_document()?;
            continue;
        }
        if let RawBsonRef::Int32(value) = value {
            return Some(value.into());
        }
        return value.as_i64();
    }
    None
}
