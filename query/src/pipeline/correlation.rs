//! The variables and fields that the pipeline of a `$lookup` uses of the documents that it is run for, by the text of
//! its stages.
//!
//! An `$expr` of its first `$match` that compares a field with a variable bounds an index, as any filter does. If it is an
//! equality, or an `$in`, a hash table can answer it too. The equality of a filter finds at least what that of an expression
//! finds, so the `$expr` itself still decides.

use bson::raw::{CString, cstr};
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::path::FieldPath;

use crate::expression::implied::{Comparator, FieldComparison, Implied};
use crate::expression::{Expression, Variables};
use crate::filter::Filter;
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
    /// The same without the `$expr`s that every match must meet.
    pub(super) plain: RawDocumentBuf,
    /// The fields that these `$expr`s compare with a variable or a constant.
    pub(super) compared: Vec<ComparedField>,
}

/// A field of the other collection that an expression compares with what no document there changes.
#[derive(Clone, Debug)]
pub(super) struct ComparedField {
    pub(super) field: ForeignField,
    comparison: FieldComparison,
}

impl Condition {
    /// Returns `None` if the filter is too deep to be joined with another.
    pub(super) fn of(given: &RawDocument, variables: &Variables) -> Option<Self> {
        // The filter becomes one of several, which is a level more than it was given with.
        let mut branches = RawArrayBuf::new();
        branches.push(given.to_owned());
        Filter::parse_with(&rawdoc! { "$and": branches }, variables).ok()?;
        let mut compared = Vec::new();
        let plain = without_expressions(given, &mut |expression| {
            let Ok(expression) = Expression::parse(expression, variables) else { return };
            for part in expression.implied().conjuncts() {
                let Implied::Compared(comparison) = part else { continue };
                let field = ForeignField::new(comparison.path.clone());
                compared.extend(field.ok().map(|field| ComparedField { field, comparison: *comparison }));
            }
        });
        Some(Self { given: given.to_owned(), plain, compared })
    }

    /// The fields that must have one of some values.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ComparedField> {
        self.compared.iter().filter(|compared| compared.is_key())
    }

    /// Whether the `$expr`s have comparisons that an index bounds, and that no hash table can answer.
    pub(super) fn has_ranges(&self) -> bool {
        self.compared.iter().any(|compared| !compared.is_key())
    }
}

impl ComparedField {
    /// Whether the field must have one of some values.
    pub(super) fn is_key(&self) -> bool {
        match self.comparison.comparator {
            Comparator::Eq | Comparator::In => true,
            Comparator::Gt | Comparator::Gte | Comparator::Lt | Comparator::Lte => false,
        }
    }

    /// The values of which the field of a match has one, if a filter's equality finds it by them. Returns `None` for other
    /// values, and for an operand that fails: that is reported where a document is tested.
    pub(super) fn values(&self, variables: &Variables) -> Option<Vec<RawBson>> {
        let operand = self.comparison.operand(variables).ok()?;
        match self.comparison.comparator {
            Comparator::Eq => Some(vec![key_value(operand)?]),
            // Without one of the members, documents that are equal to it would be missed.
            Comparator::In => {
                elements(operand?.as_array()?).map(|member| key_value(Some(member.into()))).collect()
            }
            Comparator::Gt | Comparator::Gte | Comparator::Lt | Comparator::Lte => None,
        }
    }

    /// A value that the operand has, or one of its members, if it is known without a document of the stage.
    pub(super) fn known(&self, variables: &Variables) -> Option<RawBson> {
        let operand = self.comparison.operand(variables).ok()??;
        match self.comparison.comparator {
            Comparator::In => elements(operand.as_array()?).next().map(RawBson::from),
            Comparator::Eq | Comparator::Gt | Comparator::Gte | Comparator::Lt | Comparator::Lte => {
                Some(operand)
            }
        }
    }

    /// A filter with the comparison for an explanation, with a value for the operand. Its bounds are inclusive: those of one field
    /// with one value contradict each other in no explanation.
    pub(super) fn example(&self, value: &RawBson) -> RawDocumentBuf {
        let operator = match self.comparison.comparator {
            Comparator::Eq | Comparator::In => cstr!("$eq"),
            Comparator::Gt | Comparator::Gte => cstr!("$gte"),
            Comparator::Lt | Comparator::Lte => cstr!("$lte"),
        };
        let mut sides = RawArrayBuf::new();
        sides.push(format!("${}", self.field.path.as_str()));
        sides.push(rawdoc! { "$literal": value.clone() });
        let mut comparison = RawDocumentBuf::new();
        comparison.append(operator, sides);
        rawdoc! { "$expr": comparison }
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

/// The number of first stages of a pipeline whose results no document changes: they name no variable of
/// `definitions`, and use no random numbers. A text that only looks like a variable counts as one.
pub(super) fn constant_stages(stages: &[RawDocumentBuf], definitions: &[(String, Expression)]) -> usize {
    // Defined again, it is in every path without being named.
    if definitions.iter().any(|(name, _)| name == CURRENT) {
        return 0;
    }
    let is_defined = |text: &str| definitions.iter().any(|(name, _)| names(text, name));
    let is_constant = |stage: &&RawDocumentBuf| !mentions(RawBsonRef::Document(stage), &is_defined, &draws);
    stages.iter().take_while(is_constant).count()
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
    matches!(name, "$rand" | "$sample" | "$sampleRate" | "$createObjectId" | "$currentDate")
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

/// A filter without the `$expr`s that every match must meet, each of which `take` gets. Its bytes were validated, which bounds
/// how deep this goes.
fn without_expressions(filter: &RawDocument, take: &mut dyn FnMut(RawBsonRef<'_>)) -> RawDocumentBuf {
    let mut plain = RawDocumentBuf::new();
    for field in Fields::of(filter).flatten() {
        let (Ok(name), Ok(value)) = (CString::try_from(field.name()), field.value()) else { continue };
        // An `$expr` within `$or` or `$nor` need not be true, so it stays.
        match (field.name(), value) {
            ("$expr", expression) => take(expression),
            ("$and", RawBsonRef::Array(parts)) => {
                let mut kept = RawArrayBuf::new();
                for part in elements(parts).filter_map(RawBsonRef::as_document) {
                    kept.push(without_expressions(part, take));
                }
                plain.append(name, kept);
            }
            (_, value) => plain.append(name, value),
        }
    }
    plain
}
