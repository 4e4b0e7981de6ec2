//! Stages whose argument is an object of named options.

use bson::{RawBsonRef, RawDocument};

use crate::pipeline::error::Fault;
use crate::raw::Fields;
use crate::value::describe;

/// The values of options by the order of `names`. The numbers are MongoDB's for an argument that is no object, and for
/// an unknown option.
pub(super) fn options<'b, const N: usize>(
    stage: &'static str,
    names: [&'static str; N],
    operand: RawBsonRef<'b>,
    (not_object, unknown): (i32, i32),
) -> Result<[Option<RawBsonRef<'b>>; N], Fault> {
    let document = object(stage, operand, not_object)?;
    let mut given = [None; N];
    for field in Fields::of(document) {
        let field = field?;
        let place = names.iter().position(|name| *name == field.name());
        let Some(slot) = place.and_then(|place| given.get_mut(place)) else {
            let option = crate::value::shorten(field.name());
            return Err(Fault::OptionUnknown { stage, option, code: unknown });
        };
        *slot = Some(field.value()?);
    }
    Ok(given)
}

/// An argument that must be an object.
pub(super) fn object<'b>(
    stage: &'static str,
    operand: RawBsonRef<'b>,
    code: i32,
) -> Result<&'b RawDocument, Fault> {
    let expected = "an object";
    operand.as_document().ok_or_else(|| Fault::Operand { stage, expected, found: describe(operand), code })
}
