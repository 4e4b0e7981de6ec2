//! `$fill`: values for fields that are null or missing. It is translated into windows for the methods, and into a `$set` for
//! the values.

use bson::raw::{CStr, CString, cstr};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::code::Code;
use crate::expression::{ComputedFields, Variables};
use crate::pipeline::error::Fault;
use crate::pipeline::options::{object, options};
use crate::pipeline::sort::SortOrder;
use crate::pipeline::window::WindowFields;
use crate::raw::Fields;
use crate::value::{describe, elements, shorten};

const STAGE: &str = "$fill";

/// The stages that a `$fill` becomes.
pub(super) struct Fill {
    /// The fields with a method, and the order that they need.
    pub(super) windows: Option<(Option<SortOrder>, WindowFields)>,
    /// The fields with a value.
    pub(super) values: Option<ComputedFields>,
}

impl Fill {
    /// Parses the argument of `$fill`.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        // Methods come before values, as in MongoDB: a value does not change what is filled in between.
        let names = ["partitionBy", "partitionByFields", "sortBy", "output"];
        let [partition, partition_fields, sort_by, output] =
            options(STAGE, names, operand, Code::FAILED_TO_PARSE, Code::IDL_UNKNOWN_FIELD)?;
        let missing =
            Fault::OptionMissing { stage: STAGE, option: "output", code: Code::IDL_FAILED_TO_PARSE };
        let output = object(STAGE, output.ok_or(missing)?, Code::TYPE_MISMATCH)?;
        if output.is_empty() {
            let found = RawBsonRef::Document(output);
            return Err(wrong("at least one field as 'output'", found, Code::FILL_OUTPUT_EMPTY));
        }
        let (methods, values) = read_output(output, variables)?;
        let values = if values.is_empty() { None } else { Some(ComputedFields::parse(&values, variables)?) };
        // Both together would leave open which one counts.
        let partition = match (partition, partition_fields) {
            (Some(_), Some(both)) => {
                let expected = "either 'partitionBy' or 'partitionByFields'";
                return Err(wrong(expected, both, Code::FILL_PARTITION_TWICE));
            }
            (Some(partition), None) => Some(read_partition(partition)?),
            (None, Some(fields)) => Some(read_partition_fields(fields)?),
            (None, None) => None,
        };
        let mut windows = rawdoc! {};
        if let Some(partition) = partition {
            windows.append(cstr!("partitionBy"), partition);
        }
        if let Some(sort_by) = sort_by {
            windows.append(cstr!("sortBy"), sort_by);
        }
        let has_methods = !methods.is_empty();
        windows.append(cstr!("output"), methods);
        // Parsed in any case, so that a wrong order is rejected with values too.
        let windows = WindowFields::parse(RawBsonRef::Document(&windows), variables)?;
        Ok(Self { windows: has_methods.then_some(windows), values })
    }
}

/// The outputs of windows for the fields with a method, and the fields to set for those with a value.
fn read_output(
    output: &RawDocument,
    variables: &Variables,
) -> Result<(RawDocumentBuf, RawDocumentBuf), Fault> {
    let (mut methods, mut values) = (rawdoc! {}, rawdoc! {});
    for field in Fields::of(output) {
        variables.operation().steps(1)?;
        let field = field?;
        let given = field.value()?;
        let refused =
            |reason, code| Fault::Field { stage: STAGE, field: shorten(field.name()), reason, code };
        // The path of the field is the expression of what is there.
        let name = CString::try_from(field.name())
            .map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
        let path = format!("${}", field.name());
        let reason = "it must be an object with a 'value' or a 'method'";
        let one = given.as_document().ok_or_else(|| refused(reason, Code::FILL_OUTPUT_FIELD))?;
        let [value, method] = options(
            STAGE,
            ["value", "method"],
            RawBsonRef::Document(one),
            Code::FILL_OUTPUT_FIELD,
            Code::IDL_UNKNOWN_FIELD,
        )?;
        // Exactly one of both says how the field is filled.
        match (value, method) {
            (Some(_), Some(_)) => {
                let reason = "it has both 'value' and 'method'";
                return Err(refused(reason, Code::FILL_METHOD_WITH_VALUE));
            }
            (Some(value), None) => values.append(&name, rawdoc! { "$ifNull": [path, value] }),
            (None, Some(method)) => methods.append(&name, windowed(method, &path)?),
            (None, None) => return Err(refused(reason, Code::FILL_OUTPUT_FIELD)),
        }
    }
    Ok((methods, values))
}

/// The operator of a method.
fn windowed(method: RawBsonRef<'_>, path: &str) -> Result<RawDocumentBuf, Fault> {
    let name = method.as_str().ok_or_else(|| wrong("a string as 'method'", method, Code::TYPE_MISMATCH))?;
    let operator: &CStr = match name {
        "linear" => cstr!("$linearFill"),
        "locf" => cstr!("$locf"),
        _ => return Err(wrong("'linear' or 'locf' as 'method'", method, Code::FILL_METHOD)),
    };
    let mut windowed = RawDocumentBuf::new();
    windowed.append(operator, path);
    Ok(windowed)
}

/// `partitionBy`: a path or an object.
fn read_partition(operand: RawBsonRef<'_>) -> Result<bson::RawBson, Fault> {
    if operand.as_str().is_some() || operand.as_document().is_some() {
        return Ok(operand.into());
    }
    Err(wrong("a path or an object as 'partitionBy'", operand, Code::TYPE_MISMATCH))
}

/// `partitionByFields`: paths, which together are one key.
fn read_partition_fields(operand: RawBsonRef<'_>) -> Result<bson::RawBson, Fault> {
    let refuse = |found| wrong("an array of paths as 'partitionByFields'", found, Code::TYPE_MISMATCH);
    let array = operand.as_array().ok_or_else(|| refuse(operand))?;
    let mut key = RawDocumentBuf::new();
    for (place, field) in elements(array).enumerate() {
        let path = field.as_str().ok_or_else(|| refuse(field))?;
        // A name of the key has no dots, and none of them twice.
        let name = CString::try_from(format!("{place}"));
        let name = name.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
        key.append(&name, format!("${path}"));
    }
    Ok(key.into())
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}
