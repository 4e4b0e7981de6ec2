//! Whether a scan of an index has the order of a sort.
//!
//! Entries are sorted by the fields of the index, and entries with equal fields by `_id`. A field with one
//! value within the bounds orders nothing and is skipped. A document with an array is sorted by its lowest
//! element, and the bounds may leave out the entry of that element. So a field with arrays gives no order.

use index::key::Direction;
use index::path::FieldPath;

use crate::sort::Sort;

/// The field that is different in every document.
const ID: &str = "_id";

/// A field of an index within bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortedField<'a> {
    pub(super) path: &'a FieldPath,
    pub(super) direction: Direction,
    /// Whether the bounds leave only one value.
    pub(super) has_one_value: bool,
    pub(super) has_arrays: bool,
}

/// The direction in which a scan of the entries has the order of `sort`. Returns `None` if neither direction
/// has it.
pub(super) fn direction_for(sort: &Sort, fields: &[SortedField<'_>], is_unique: bool) -> Option<Direction> {
    let mut rest = fields.iter();
    let mut walk = None;
    let is_constant = |path: &FieldPath| {
        fields.iter().any(|field| field.has_one_value && !field.has_arrays && field.path == path)
    };
    // Both lists are read together: the sort must follow the fields of the index, apart from constant ones.
    for (path, wanted) in sort.fields() {
        // All documents are equal in this field, so it changes no order wherever it is in the sort.
        if is_constant(path) {
            continue;
        }
        let Some(field) = rest.by_ref().find(|field| !field.has_one_value || field.path == path) else {
            // The index has no more fields. If it is unique, no two documents are equal up to here. Otherwise
            // entries that are equal up to here are sorted by `_id`.
            if is_unique {
                break;
            }
            return (path.as_str() == ID && sort.collation().is_simple())
                .then(|| agreed(walk, Direction::Ascending, wanted))
                .flatten();
        };
        // Entries are in the order of bytes.
        if field.path != path || field.has_arrays || !sort.collation().is_simple() {
            return None;
        }
        walk = Some(agreed(walk, field.direction, wanted)?);
        // No two documents share an `_id`.
        if path.as_str() == ID {
            break;
        }
    }
    Some(walk.unwrap_or(Direction::Ascending))
}

/// The direction of a scan that turns the order of a field into the wanted one. Returns `None` if the earlier
/// fields need the other direction.
fn agreed(walk: Option<Direction>, stored: Direction, wanted: Direction) -> Option<Direction> {
    let needed = if stored == wanted { Direction::Ascending } else { Direction::Descending };
    walk.is_none_or(|walk| walk == needed).then_some(needed)
}
