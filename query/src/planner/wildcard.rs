//! For which questions a wildcard index can be read, and within which bounds.
//!
//! Each path of a wildcard index is planned as an index on that path alone. But such an index has fewer entries than one
//! that is declared on the path: none for a missing field, and none for an object, apart from an empty one. So a path
//! serves only if every match must have a value there, and no bound leaves an object.
//!
//! Where documents have arrays, is known for the index as a whole: with one array anywhere, there may be arrays
//! everywhere.

use bson::RawBson;
use index::interval::{Interval, Intervals};
use index::multikey::ArrayComponents;
use index::order::TypeClass;
use index::path::FieldPath;

use crate::filter::Filter;
use crate::filter::entries::EntryBounds;

/// The limit of a filter's paths that are tried with a wildcard index.
const PATHS_MAX: usize = 32;

/// The paths of a filter that may be planned.
pub(super) fn paths(filter: Option<&Filter>) -> Vec<FieldPath> {
    filter.map(|filter| filter.paths(PATHS_MAX)).unwrap_or_default()
}

/// The components of each path at which some document may have an array, by those of the whole index.
pub(super) fn arrays_of(index: &[ArrayComponents]) -> &'static [ArrayComponents] {
    let is_shortened = |field: usize| index.get(field).is_some_and(|arrays| arrays.has_shortened());
    // Two paths with one shortened key share their entries: a document may have several of them there.
    if is_shortened(0) || !index.iter().all(|arrays| arrays.is_empty()) {
        &[ArrayComponents::ALL]
    } else if is_shortened(1) {
        &[ArrayComponents::SHORTENED]
    } else {
        &[]
    }
}

/// Whether every match has an entry at the path within the bounds.
pub(super) fn has_every_match(bounds: &EntryBounds) -> bool {
    bounds.has_value && bounds.sets.first().is_some_and(|set| set.intersection(&objects()).is_empty())
}

/// The bounds of a path as bounds on the two fields of the index.
pub(super) fn bounds_at(path: &FieldPath, sets: Vec<Intervals>) -> Vec<Intervals> {
    let path = Interval::point(RawBson::String(path.as_str().to_owned()));
    std::iter::once(Intervals::from(path)).chain(sets).collect()
}

/// All objects but the empty one.
fn objects() -> Intervals {
    let empty = Interval::point(RawBson::Document(bson::RawDocumentBuf::new()));
    Intervals::from(Interval::class(TypeClass::Object)).intersection(&Intervals::from(empty).complement())
}
