//! The values that documents already have in a field that becomes an auto-increment field.

use std::sync::Arc;

use base::error::{Error, Result};
use index::path::{FieldPath, value_at};
use query::operation::OperationContext;
use sequence::attributes::Attributes;
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::{Database, Family};

use crate::catalog::collection::CollectionState;
use crate::document::decode::stored;

/// Returns the last integer, in the direction of the sequence, that a document of the collection has at the path: the
/// greatest for a positive increment, else the least. `None` if no document has an integer there.
pub(crate) fn furthest(
    database: &Arc<Database>,
    collection: &CollectionState,
    path: &str,
    attributes: &Attributes,
    operation: &OperationContext,
) -> Result<Option<i64>> {
    let path = FieldPath::parse(path).map_err(|error| Error::invalid_argument(error.to_string()))?;
    let bounds = (collection.id.prefix().to_vec(), Some(collection.id.end()));
    let snapshot = Snapshot::take(database);
    let mut scan = Scan::open(&snapshot, Family::Records, bounds, CacheUse::Bypass, operation);
    let mut furthest = None;
    while scan.advance()? {
        operation.pass(scan.value().len())?;
        let found = value_at(stored(scan.key(), scan.value())?, &path);
        // A sequence counts integers only: doubles and decimals mean as little to it as texts do.
        let integer = found.and_then(|found| found.as_i64().or(found.as_i32().map(i64::from)));
        let Some(value) = integer else { continue };
        furthest = Some(match furthest {
            None => value,
            Some(known) if attributes.increment() > 0 => value.max(known),
            Some(known) => value.min(known),
        });
    }
    Ok(furthest)
}
