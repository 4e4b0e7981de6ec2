//! `$bucket`: groups by ranges of a value. It is translated into a `$group` by a `$switch` over the boundaries; the table
//! of stages adds the `$sort` by `_id`.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::order::type_class;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::pipeline::error::Fault;
use crate::pipeline::group::Group;
use crate::pipeline::options::{object, options};
use crate::value::{describe, elements};

const STAGE: &str = "$bucket";

/// Parses the argument of `$bucket` into the group that finds each document's bucket. The groups are not sorted.
pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Group, Fault> {
    let names = ["groupBy", "boundaries", "default", "output"];
    let [group_by, boundaries, default, output] =
        options(STAGE, names, operand, Code::BUCKET_NOT_OBJECT, Code::BUCKET_UNKNOWN_OPTION)?;
    let missing = |option| Fault::OptionMissing { stage: STAGE, option, code: Code::BUCKET_OPTION_MISSING };
    let group_by = group_by.ok_or_else(|| missing("groupBy"))?;
    let boundaries = boundaries.ok_or_else(|| missing("boundaries"))?;
    // A constant would put all documents into one bucket; MongoDB rejects it.
    let is_path = group_by.as_str().is_some_and(|text| text.starts_with('$'));
    if !is_path && group_by.as_document().is_none() {
        return Err(wrong("a path or an expression as 'groupBy'", group_by, Code::BUCKET_GROUP_BY));
    }
    // The boundaries come first: a default is checked against them.
    let boundaries = read_boundaries(boundaries, variables)?;
    let default = default.map(|default| read_default(default, &boundaries, variables)).transpose()?;
    let output = output.map(|output| object(STAGE, output, Code::BUCKET_OUTPUT_TYPE)).transpose()?;
    // MongoDB counts by default.
    let output = output.map_or_else(|| rawdoc! { "count": { "$sum": 1 } }, RawDocument::to_owned);
    let id = bucket_of(&RawBson::from(group_by), &boundaries, default.as_ref());
    Group::by(RawBsonRef::Document(&id), &output, variables)
}

/// Parses the boundaries: at least two, constant, of one type, ascending.
fn read_boundaries(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Vec<RawBson>, Fault> {
    let array = operand.as_array();
    let array =
        array.ok_or_else(|| wrong("an array as 'boundaries'", operand, Code::BUCKET_BOUNDARIES_TYPE))?;
    let constant = |boundary| {
        let value = constant(boundary, variables)?;
        value.ok_or_else(|| wrong("constant boundaries", boundary, Code::BUCKET_BOUNDARY_NOT_CONSTANT))
    };
    let boundaries = elements(array).map(constant).collect::<Result<Vec<_>, _>>()?;
    if boundaries.len() < 2 {
        return Err(wrong("at least two boundaries", operand, Code::BUCKET_BOUNDARIES_TOO_FEW));
    }
    for (lower, upper) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        let (lower, upper) = (lower.as_raw_bson_ref(), upper.as_raw_bson_ref());
        // Numbers of different types are one class, so `[1, 2.5]` is accepted.
        if type_class(lower) != type_class(upper) {
            return Err(wrong("boundaries of one type", upper, Code::BUCKET_BOUNDARIES_MIXED_TYPES));
        }
        if variables.collation().compare(lower, upper).is_ge() {
            return Err(wrong("ascending boundaries", upper, Code::BUCKET_BOUNDARIES_ORDER));
        }
    }
    Ok(boundaries)
}

/// Parses the default bucket. A value between the boundaries is rejected, because it could be the `_id` of another bucket.
fn read_default(
    operand: RawBsonRef<'_>,
    boundaries: &[RawBson],
    variables: &Variables,
) -> Result<RawBson, Fault> {
    let default = constant(operand, variables)?;
    let default =
        default.ok_or_else(|| wrong("a constant 'default'", operand, Code::BUCKET_DEFAULT_NOT_CONSTANT))?;
    let collation = variables.collation();
    let below =
        |boundary: &RawBson| collation.compare(default.as_raw_bson_ref(), boundary.as_raw_bson_ref()).is_lt();
    // The last boundary is exclusive, so it may be the default.
    if boundaries.first().is_some_and(|first| !below(first)) && boundaries.last().is_some_and(below) {
        return Err(wrong("a 'default' outside of the boundaries", operand, Code::BUCKET_DEFAULT_IN_RANGE));
    }
    Ok(default)
}

/// The value of an expression that depends on no document. Returns `None` if it depends on one, or has no value.
fn constant(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Option<RawBson>, Fault> {
    let expression = Expression::parse(operand, variables)?;
    Ok(expression.constant().flatten().map(RawBson::from))
}

/// The expression whose value is the lower boundary of a document's bucket.
fn bucket_of(group_by: &RawBson, boundaries: &[RawBson], default: Option<&RawBson>) -> RawDocumentBuf {
    // A boundary can be a text that starts with a dollar sign, which would be a path without `$literal`.
    let literal = |value: &RawBson| rawdoc! { "$literal": value.clone() };
    let mut branches = RawArrayBuf::new();
    for (lower, upper) in boundaries.iter().zip(boundaries.iter().skip(1)) {
        // A bucket includes its lower boundary and excludes its upper one.
        let case = rawdoc! { "$and": [
            { "$gte": [group_by.clone(), literal(lower)] },
            { "$lt": [group_by.clone(), literal(upper)] },
        ] };
        branches.push(rawdoc! { "case": case, "then": literal(lower) });
    }
    // Without a default, `$switch` fails for a value outside of the boundaries, and so does `$bucket`.
    let mut switch = rawdoc! { "branches": branches };
    if let Some(default) = default {
        switch.append(cstr!("default"), literal(default));
    }
    rawdoc! { "$switch": switch }
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}
