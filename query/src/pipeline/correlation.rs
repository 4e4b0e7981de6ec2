//! What the pipeline of a `$lookup` takes from the documents that it is run for, told by the text of its stages.
//!
//! An `$expr` of its first `$match` that compares a field with a variable is an equality that an index or a hash table
//! can answer. The equality of a filter finds at least what that of an expression finds, so the `$expr` itself still
//! decides.

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::path::FieldPath;

use crate::expression::{Expression, Variables};
use crate::filter::Filter;
use crate::path::parse_path;
use crate::pipeline::error::Fault;
use crate::raw::Fields;
use crate::value::elements;

/// A field of the other collection: its path, and the same path as the name of a filter's field.
#[derive(Clone, Debug)]
pub(super) struct ForeignField {
    pub(super) path: FieldPath,
    name: CString,
}

impl ForeignField {
    pub(super) fn new(path: FieldPath) -> Result<Self, Fault> {
        let name = CString::try_from(path.as_str());
        let name = name.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?;
        Ok(Self { path, name })
    }

    /// The filter for documents whose field passes `test`.
    pub(super) fn with(&self, test: RawDocumentBuf) -> RawDocumentBuf {
        let mut filter = RawDocumentBuf::new();
        filter.append(&self.name, test);
        filter
    }

    /// The filter for documents whose field has one of `values`.
    pub(super) fn filter(&self, values: &[RawBson]) -> RawDocumentBuf {
        let is = |value: &RawBson| self.with(rawdoc! { "$eq": value.clone() });
        if let [value] = values {
            return is(value);
        }
        // In `$in` a regular expression is a pattern, and here a value.
        if values.iter().any(|value| matches!(value, RawBson::RegularExpression(_))) {
            let mut branches = RawArrayBuf::new();
            for value in values {
                branches.push(is(value));
            }
            return rawdoc! { "$or": branches };
        }
        let mut list = RawArrayBuf::new();
        for value in values {
            list.push(value.clone());
        }
        self.with(rawdoc! { "$in": list })
    }
}

/// The filter of the `$match` that a pipeline begins with.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) given: RawDocumentBuf,
    /// The fields that an `$expr` compares with a variable or a constant.
    pub(super) keys: Vec<(ForeignField, Expression)>,
}

impl Condition {
    /// Returns `None` if the filter is too deep to be joined with another.
    pub(super) fn of(given: &RawDocument, variables: &Variables) -> Option<Self> {
        // The filter becomes one of several, which is a level more than it was given with.
        let mut branches = RawArrayBuf::new();
        branches.push(given.to_owned());
        Filter::parse_with(&rawdoc! { "$and": branches }, variables).ok()?;
        let mut keys = Vec::new();
        // Defined again, `CURRENT` is what every path starts from.
        if variables.names().all(|name| name != CURRENT) {
            for field in Fields::of(given).flatten().filter(|field| field.name() == "$expr") {
                if let Ok(expression) = field.value() {
                    collect_keys(expression, variables, &mut keys);
                }
            }
        }
        Some(Self { given: given.to_owned(), keys })
    }
}

/// The value of a key, if a filter's equality with it finds all that an expression's finds. In an expression an array
/// equals what a path has gathered from several objects, which a filter does not find.
pub(super) fn key_value(value: Option<RawBson>) -> Option<RawBson> {
    // To a filter a missing field is null, and only more is found.
    match value.unwrap_or(RawBson::Null) {
        RawBson::Undefined | RawBson::Null => Some(RawBson::Null),
        RawBson::Array(_)
        | RawBson::Document(_)
        | RawBson::MinKey
        | RawBson::MaxKey
        | RawBson::JavaScriptCodeWithScope(_)
        | RawBson::DbPointer(_) => None,
        value @ (RawBson::Double(_)
        | RawBson::String(_)
        | RawBson::Boolean(_)
        | RawBson::RegularExpression(_)
        | RawBson::JavaScriptCode(_)
        | RawBson::Int32(_)
        | RawBson::Int64(_)
        | RawBson::Timestamp(_)
        | RawBson::Binary(_)
        | RawBson::ObjectId(_)
        | RawBson::DateTime(_)
        | RawBson::Symbol(_)
        | RawBson::Decimal128(_)) => Some(value),
    }
}

/// Whether the results of a pipeline can differ between two documents: it names a variable of `definitions`, or draws
/// lots. A text that only looks like a variable counts as one.
pub(super) fn is_correlated(stages: &[RawDocumentBuf], definitions: &[(String, Expression)]) -> bool {
    let is_defined = |text: &str| definitions.iter().any(|(name, _)| names(text, name));
    definitions.iter().any(|(name, _)| name == CURRENT)
        || stages.iter().any(|stage| mentions(RawBsonRef::Document(stage), &is_defined, &draws))
}

/// Whether a stage names a variable that has no value.
pub(super) fn reads_unset(stage: &RawDocument, variables: &Variables) -> bool {
    let is_unset = |text: &str| variables.unset_names().any(|name| names(text, name));
    mentions(RawBsonRef::Document(stage), &is_unset, &|_| false)
}

const CURRENT: &str = "CURRENT";

/// Whether `text` is the variable `name`, or a path in it.
fn names(text: &str, name: &str) -> bool {
    let rest = text.strip_prefix("$$").and_then(|text| text.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether an operator or a stage gives something else each time.
fn draws(name: &str) -> bool {
    matches!(name, "$rand" | "$sample" | "$sampleRate")
}

/// Whether a value has a text or the name of a field that passes a test. The bytes were validated, which bounds how
/// deep this goes.
fn mentions(value: RawBsonRef<'_>, text: &dyn Fn(&str) -> bool, name: &dyn Fn(&str) -> bool) -> bool {
    // Variables are read by texts only, operators are names of fields only.
    if let Some(found) = value.as_str() {
        return text(found);
    }
    if let Some(array) = value.as_array() {
        return elements(array).any(|element| mentions(element, text, name));
    }
    value.as_document().is_some_and(|document| {
        let of_field = |field: crate::raw::Field<'_>| {
            name(field.name()) || field.value().is_ok_and(|value| mentions(value, text, name))
        };
        Fields::of(document).flatten().any(of_field)
    })
}

/// Adds the equalities that must hold if an expression is true.
fn collect_keys(
    expression: RawBsonRef<'_>,
    variables: &Variables,
    keys: &mut Vec<(ForeignField, Expression)>,
) {
    let Some(document) = expression.as_document() else { return };
    let Some(Ok(field)) = Fields::of(document).next() else { return };
    let Ok(operand) = field.value() else { return };
    let Some(array) = operand.as_array() else { return };
    // What holds for all holds for each. Of the parts of an `$or` nothing is known.
    if field.name() == "$and" {
        elements(array).for_each(|element| collect_keys(element, variables, keys));
    } else if field.name() == "$eq" {
        // The field may stand on either side.
        let mut sides = elements(array);
        let (Some(left), Some(right), None) = (sides.next(), sides.next(), sides.next()) else { return };
        keys.extend(key(left, right, variables).or_else(|| key(right, left, variables)));
    }
}

/// A comparison of a field with a variable or a constant.
fn key(
    field: RawBsonRef<'_>,
    other: RawBsonRef<'_>,
    variables: &Variables,
) -> Option<(ForeignField, Expression)> {
    // Two dollar signs are a variable and no field.
    let path = field.as_str()?.strip_prefix('$').filter(|path| !path.starts_with('$'))?;
    let is_fixed = match other {
        RawBsonRef::String(text) => !text.starts_with('$') || variables.names().any(|name| names(text, name)),
        // Operators, and objects and arrays that may hold some.
        RawBsonRef::Document(_) | RawBsonRef::Array(_) => false,
        RawBsonRef::Double(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::JavaScriptCode(_)
        | RawBsonRef::JavaScriptCodeWithScope(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Symbol(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_) => true,
    };
    if !is_fixed {
        return None;
    }
    let field = ForeignField::new(parse_path(path).ok()?).ok()?;
    Some((field, Expression::parse(other, variables).ok()?))
}
