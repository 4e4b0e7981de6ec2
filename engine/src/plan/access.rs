//! How the records that can match are reached. Whoever reads asks here, and so does whoever explains a read.

use index::interval::Intervals;
use query::filter::Arrays;

use crate::error::Result;
use crate::plan::bounds::{ID_FIELD, RecordRanges};
use crate::plan::selector::{PointKey, Selector};
use crate::storage::keys::CollectionId;

/// The way to the records.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Looking up the only record that can match.
    Point(PointKey),
    /// Walking the records whose `_id`s lie within bounds: disjoint ranges of record keys, ascending. There are none if
    /// nothing can match.
    Bounded { ids: Intervals, ranges: RecordRanges },
    /// Walking all records.
    Everything(RecordRanges),
}

impl Access {
    /// The way for a filter.
    pub(crate) fn of(selector: &Selector, collection: CollectionId) -> Result<Self> {
        if let Some(key) = selector.record_key(collection) {
            return Ok(Self::Point(key));
        }
        let ids = selector.filter().map(|filter| filter.intervals(ID_FIELD, Arrays::Absent));
        match ids.filter(|ids| !ids.is_all()) {
            Some(ids) => Ok(Self::Bounded { ranges: RecordRanges::of(&ids, collection)?, ids }),
            None => Ok(Self::Everything(RecordRanges::all(collection))),
        }
    }
}
