//! Tests of an array as a whole: its length (`$size`), and whether one element meets all conditions
//! (`$elemMatch`).

use bson::{RawBsonRef, RawDocument};

use crate::error::Fault;
use crate::value::{describe, document_or_array, elements, integer};

/// Parses the operand of `$size`: an integer of 0 or more, of any numeric type.
pub(super) fn parse_length(operand: RawBsonRef<'_>) -> Result<usize, Fault> {
    let length = integer(operand).and_then(|length| usize::try_from(length).ok());
    length.ok_or_else(|| Fault::Length { found: describe(operand) })
}

/// Whether a value is an array of exactly `length` elements.
pub(super) fn has_length(value: RawBsonRef<'_>, length: usize) -> bool {
    // An array's length is not stored. Reading one element more than needed distinguishes a longer array from an
    // equal one.
    value.as_array().is_some_and(|array| elements(array).take(length.saturating_add(1)).count() == length)
}

/// Whether a value is an array with an element that meets `test`.
pub(super) fn any_element(value: RawBsonRef<'_>, mut test: impl FnMut(RawBsonRef<'_>) -> bool) -> bool {
    value.as_array().is_some_and(|array| elements(array).any(&mut test))
}

/// Whether a value is an array with an object, or an array treated as one, that meets `test`.
pub(super) fn any_object(value: RawBsonRef<'_>, test: impl Fn(&RawDocument) -> bool) -> bool {
    any_element(value, |element| document_or_array(element).is_some_and(&test))
}
