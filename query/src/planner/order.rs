//! Whether a scan of an index has the order of a sort.
//!
//! Entries are sorted by the fields of the index, and entries with equal fields by `_id`. A field with one
//! value within the bounds orders nothing and is skipped. A document with an array is sorted by its lowest
//! element, and the bounds may leave out the entry of that element. So a field with arrays gives no order, and none with
//! shortened keys, which do not give the order of values with one beginning. An index with
//! another collation than the sort gives none either, and the `_id`s after the fields are in the order of their bytes.

use index::collation::Collation;
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
    /// Whether each document has one key there, which is not shortened.
    pub(super) has_exact_keys: bool,
}

/// The properties of an index's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys<'a> {
    /// Whether no two documents have the same key.
    pub(super) is_unique: bool,
    /// Their comparison of strings.
    pub(super) collation: &'a Collation,
    /// Whether those of `_id`s may be shortened.
    pub(super) has_shortened_ids: bool,
}

/// The direction in which a scan of the entries has the order of `sort`. Returns `None` if neither direction
/// has it.
pub(super) fn direction_for(sort: &Sort, fields: &[SortedField<'_>], keys: Keys<'_>) -> Option<Direction> {
    let mut rest = fields.iter();
    let mut walk = None;
    let has_order = keys.collation == sort.collation();
    // Texts with the same bytes are equal by every collation. Those with the same sort key are so by their own only.
    let is_one_to_all = has_order || keys.collation.is_simple();
    let is_constant = |path: &FieldPath| {
        is_one_to_all
            && fields.iter().any(|field| field.has_one_value && field.has_exact_keys && field.path == path)
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
            if keys.is_unique {
                break;
            }
            return (path.as_str() == ID && sort.collation().is_simple() && !keys.has_shortened_ids)
                .then(|| agreed(walk, Direction::Ascending, wanted))
                .flatten();
        };
        if field.path != path || !field.has_exact_keys || !has_order {
            return None;
        }
        walk = Some(agreed(walk, field.direction, wanted)?);
        // No two documents share an `_id`, but two may be equal by the rules of a language.
        if path.as_str() == ID && sort.collation().is_simple() {
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
