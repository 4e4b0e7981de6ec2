//! What filters ask of an array as a whole: its length, and whether one element meets everything.

use bson::{RawBsonRef, RawDocument};

use crate::error::Fault;
use crate::value::{describe, document_or_array, elements, integer};

/// Reads the operand of `$size`.
pub(super) fn parse_length(operand: RawBsonRef<'_>) -> Result<usize, Fault> {
    let length = integer(operand).and_then(|length| usize::try_from(length).ok());
    length.ok_or_else(|| Fault::Length { found: describe(operand) })
}

/// Whether a value is an array of exactly `length` elements.
pub(super) fn has_length(value: RawBsonRef<'_>, length: usize) -> bool {
    value.as_array().is_some_and(|array| elements(array).take(length.saturating_add(1)).count() == length)
}

/// Whether a value is an array with an element that meets `test`.
pub(super) fn any_element(value: RawBsonRef<'_>, mut test: impl FnMut(RawBsonRef<'_>) -> bool) -> bool {
    value.as_array().is_some_and(|array| elements(array).any(&mut test))
}

/// Whether a value is an array with an object, or an array looked at as one, that meets `test`.
pub(super) fn any_object(value: RawBsonRef<'_>, test: impl Fn(&RawDocument) -> bool) -> bool {
    any_element(value, |element| document_or_array(element).is_some_and(&test))
}
