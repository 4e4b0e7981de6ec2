//! Arguments of stages that are objects, and those that are objects of named options.

use bson::{RawBsonRef, RawDocument};

use crate::code::Code;
use crate::pipeline::error::Fault;
use crate::raw::Fields;
use crate::value::describe;

/// The values of the options in the order of `names`, `None` for those that are not given. `not_object` is MongoDB's
/// number for an argument that is not an object, `unknown` that for an option that is not among `names`.
pub(super) fn options<'b, const N: usize>(
    stage: &'static str,
    names: [&'static str; N],
    operand: RawBsonRef<'b>,
    not_object: Code,
    unknown: Code,
) -> Result<[Option<RawBsonRef<'b>>; N], Fault> {
    let document = object(stage, operand, not_object)?;
    let mut given = [None; N];
    for field in Fields::of(document) {
        let field = field?;
        let index = names.iter().position(|name| *name == field.name());
        let Some(slot) = index.and_then(|index| given.get_mut(index)) else {
            let option = crate::value::shorten(field.name());
            return Err(Fault::OptionUnknown { stage, option, code: unknown });
        };
        // If an option is given twice, the last value counts.
        *slot = Some(field.value()?);
    }
    Ok(given)
}

/// The argument as an object. Anything else is rejected with MongoDB's number `code`.
pub(super) fn object<'b>(
    stage: &'static str,
    operand: RawBsonRef<'b>,
    code: Code,
) -> Result<&'b RawDocument, Fault> {
    let expected = "an object";
    operand.as_document().ok_or_else(|| Fault::Operand { stage, expected, found: describe(operand), code })
}
