//! Whether the entries of an index come in the order of a sort.
//!
//! Entries stand in the order of the index's fields, and those with equal fields in that of `_id`. A field that
//! has one value within the bounds orders nothing and may be passed over. A document's place in a sort is that
//! of the least of its values, of which entries within bounds may lack some: so no field with arrays gives an order.

use index::key::Direction;
use index::path::FieldPath;

use crate::sort::Sort;

/// The field that documents are told apart by.
const ID: &str = "_id";

/// A field of an index within bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortedField<'a> {
    pub(super) path: &'a FieldPath,
    pub(super) direction: Direction,
    /// Whether the bounds leave one value.
    pub(super) has_one_value: bool,
    pub(super) has_arrays: bool,
}

/// Which way entries are to be walked to come in the order of `sort`, if they do in any.
pub(super) fn direction_for(sort: &Sort, fields: &[SortedField<'_>], is_unique: bool) -> Option<Direction> {
    let mut rest = fields.iter();
    let mut walk = None;
    let is_constant = |path: &FieldPath| {
        fields.iter().any(|field| field.has_one_value && !field.has_arrays && field.path == path)
    };
    for (path, wanted) in sort.fields() {
        if is_constant(path) {
            continue;
        }
        let Some(field) = rest.by_ref().find(|field| !field.has_one_value || field.path == path) else {
            // All fields are equal. Then no two documents are left in a unique index, and in another one `_id` decides.
            if is_unique {
                break;
            }
            return (path.as_str() == ID).then(|| agreed(walk, Direction::Ascending, wanted)).flatten();
        };
        if field.path != path || field.has_arrays {
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

/// The walk that turns the order of a field into the wanted one, if it is the walk so far.
fn agreed(walk: Option<Direction>, stored: Direction, wanted: Direction) -> Option<Direction> {
    let needed = if stored == wanted { Direction::Ascending } else { Direction::Descending };
    walk.is_none_or(|walk| walk == needed).then_some(needed)
}
