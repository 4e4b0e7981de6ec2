//! The operators below a field: what each is applied to, and the reason that is reported when it decides.

use bson::spec::ElementType;
use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::FieldPath;

use crate::error::Error;
use crate::filter::Filter;
use crate::filter::failure::considered::{Arrays, Considered, tell_names};
use crate::filter::failure::report::{Report, append, named};
use crate::filter::operator::{Operator, OperatorSupport, operator};
use crate::value::is_true;

const NUMBERS: [ElementType; 4] =
    [ElementType::Double, ElementType::Int32, ElementType::Int64, ElementType::Decimal128];
const NUMBERS_AND_BINARY: [ElementType; 5] = [
    ElementType::Double,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::Decimal128,
    ElementType::Binary,
];
const TEXTS: [ElementType; 3] = [ElementType::String, ElementType::Symbol, ElementType::RegularExpression];

/// An operator below a field, or a value in its place.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'f> {
    pub(super) path: &'f str,
    /// `None` for a value, or a regular expression, without an operator.
    pub(super) operator: Option<&'f str>,
    pub(super) operand: RawBsonRef<'f>,
    /// The document that has the operator.
    pub(super) siblings: Option<&'f RawDocument>,
}

/// The explanation of an operator.
struct Telling {
    /// The reason if no value meets the operator's test, and if one does.
    reasons: [&'static str; 2],
    arrays: Arrays,
    /// The only types that can meet the test; empty if all can.
    types: &'static [ElementType],
    tells_types: bool,
}

const COMPARISON: [&str; 2] = ["comparison failed", "comparison succeeded"];
const MEMBERSHIP: [&str; 2] = ["no matching value found in array", "matching value found in array"];
const EXISTENCE: [&str; 2] = ["path does not exist", "path does exist"];
const TYPE: [&str; 2] = ["type did not match", "type did match"];
const MODULO: [&str; 2] =
    ["$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder"];
const SIZE: [&str; 2] = ["array length was not equal to given size", "array length was equal to given size"];
const BITS: [&str; 2] = ["bitwise operator failed to match", "bitwise operator matched successfully"];
const ALL: [&str; 2] =
    ["array did not contain all specified values", "array did contain all specified values"];
const ELEMENT: [&str; 2] =
    ["array did not satisfy the child predicate", "array did satisfy the child predicate"];
const PATTERN: [&str; 2] = ["regular expression did not match", "regular expression did match"];

impl Telling {
    fn of(operator: Operator) -> Self {
        let (reasons, arrays, types): (_, _, &'static [ElementType]) = match operator {
            Operator::Eq | Operator::Ne | Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte => {
                (COMPARISON, Arrays::Elements, &[])
            }
            Operator::In | Operator::Nin => (MEMBERSHIP, Arrays::Elements, &[]),
            Operator::Exists => (EXISTENCE, Arrays::Whole, &[]),
            Operator::Type => (TYPE, Arrays::Elements, &[]),
            Operator::Mod => (MODULO, Arrays::Elements, &NUMBERS),
            Operator::Size => (SIZE, Arrays::Whole, &[ElementType::Array]),
            Operator::BitsAllSet | Operator::BitsAllClear | Operator::BitsAnySet | Operator::BitsAnyClear => {
                (BITS, Arrays::Elements, &NUMBERS_AND_BINARY)
            }
            Operator::All => (ALL, Arrays::Whole, &[]),
            Operator::ElemMatch => (ELEMENT, Arrays::Whole, &[ElementType::Array]),
            // `$not` holds other operators, which are reported; `$options` belongs to `$regex`.
            Operator::Regex | Operator::Options | Operator::Not => (PATTERN, Arrays::Elements, &TEXTS),
        };
        Self { reasons, arrays, types, tells_types: operator == Operator::Type }
    }
}

impl Leaf<'_> {
    /// Whether a document matches.
    pub(super) fn matches(&self, report: &Report<'_>, document: &RawDocument) -> Result<bool, Error> {
        Filter::parse_with(&self.given(), report.variables)?.try_matches(document, report.variables)
    }

    /// The details. `is_match` says whether the document matches, which is not what was wanted.
    pub(super) fn details(&self, report: &Report<'_>, document: &RawDocument, is_match: bool) -> Document {
        let name = self.operator.unwrap_or(if self.operand.as_regex().is_some() { "$regex" } else { "$eq" });
        let kind = match operator(name) {
            Some(OperatorSupport::Supported(kind)) => kind,
            // The filter was parsed, so there is no other operator.
            Some(OperatorSupport::Unsupported) | None => Operator::Eq,
        };
        // In MongoDB's order of fields, which its documentation shows.
        let mut details = report.begin(name);
        report.specify(&mut details, &self.given());
        let telling = Telling::of(kind);
        // It was parsed with the filter, so it is a path.
        let path = FieldPath::parse(self.path).ok();
        let considered = path.and_then(|path| Considered::at(document, &path, telling.arrays));
        // A negation is met where its test is not, and the reason is that of the test.
        let is_negation = match kind {
            Operator::Ne | Operator::Nin => true,
            Operator::Exists => !is_true(self.operand),
            Operator::All
            | Operator::BitsAllClear
            | Operator::BitsAllSet
            | Operator::BitsAnyClear
            | Operator::BitsAnySet
            | Operator::ElemMatch
            | Operator::Eq
            | Operator::Gt
            | Operator::Gte
            | Operator::In
            | Operator::Lt
            | Operator::Lte
            | Operator::Mod
            | Operator::Not
            | Operator::Options
            | Operator::Regex
            | Operator::Size
            | Operator::Type => false,
        };
        let [unmet, met] = telling.reasons;
        let reason = if is_match == is_negation { unmet } else { met };
        // The values of a field do not show whether it exists.
        if kind == Operator::Exists {
            details.insert("reason", reason);
            return details;
        }
        // An operator that could not be applied says so, and not that it failed.
        match &considered {
            None => drop(details.insert("reason", "field was missing")),
            Some(considered) if !telling.types.is_empty() && !considered.has_type(telling.types) => {
                details.insert("reason", "type did not match");
                considered.tell_types(&mut details);
                tell_names(&mut details, ("expectedType", "expectedTypes"), telling.types);
            }
            Some(_) => drop(details.insert("reason", reason)),
        }
        report.consider(&mut details, considered.as_ref());
        if telling.tells_types
            && let Some(considered) = &considered
        {
            considered.tell_types(&mut details);
        }
        details
    }

    /// The filter that has this operator alone.
    fn given(&self) -> RawDocumentBuf {
        let Some(operator) = self.operator else { return named(self.path, self.operand) };
        let mut operators = named(operator, self.operand);
        // A pattern and its options are one operator, in whatever order they were given.
        if operator == "$regex"
            && let Some(options) = self.siblings.and_then(|siblings| siblings.get("$options").ok().flatten())
        {
            append(&mut operators, "$options", options);
        }
        named(self.path, RawBsonRef::Document(&operators))
    }
}
