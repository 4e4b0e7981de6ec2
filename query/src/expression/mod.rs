//! Expressions: values computed from a document, for `$expr`, computed fields and pipelines.
//!
//! [`Expression::parse`] checks everything that can be checked without a document, and replaces constant parts by
//! their value. What an operator means is in the file of its family; comparison and paths are the `index` crate's.
//! Raw values are read in place.
//!
//! The files, from the lowest: `value` and `variables`, `node` (the tree as data),
//! `parser` (a place in an expression), `arguments` and `signature`, `scalar` and `tree` (what conversions share), the families of operators, `operator` (their
//! table), `parse` and `evaluate`. The recursion of parsing and evaluation is in methods of `Parser` and `Node`.

pub(crate) mod accumulate;
mod arguments;
mod arithmetic;
mod array;
mod binary;
mod bind;
mod bits;
#[cfg(test)]
mod cases;
mod condition;
mod convert;
pub(crate) mod covariance;
pub(crate) mod date;
pub mod error;
mod evaluate;
mod extended_json;
pub mod fields;
mod hash;
mod identity;
pub(crate) mod implied;
mod json;
mod let_document;
mod meta;
mod node;
mod object;
mod operator;
mod order;
mod parse;
mod parser;
mod percentile;
mod power;
mod regex;
mod round;
mod scalar;
pub(crate) mod scoped;
mod search;
mod sequence;
mod set;
mod signature;
mod similarity;
mod switch;
#[cfg(test)]
mod tests;
mod text;
mod total;
mod tree;
mod trigonometry;
mod value;
mod variables;
mod vector;

use bson::{RawBson, RawBsonRef, RawDocument};

pub use self::fields::ComputedFields;
pub use self::meta::{Metadata, reads_metadata, reads_sort_key};
pub use self::variables::Variables;
use index::path::FieldPath;

use crate::expression::error::Error;
use crate::expression::implied::Implied;
use crate::expression::node::{Node, Scope};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::percentile::PercentileRequest;

/// An expression: parsed once, and evaluated over any number of documents from any number of threads.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_query::expression::{Expression, Variables};
///
/// let total = rawdoc! { "total": { "$multiply": ["$price", { "$sum": "$items.count" }] } };
/// let variables = Variables::default();
/// let expression = Expression::parse(total.get("total").unwrap().unwrap(), &variables)?;
/// let order = rawdoc! { "price": 2.5, "items": [{ "count": 3 }, { "count": 1 }] };
/// assert_eq!(expression.evaluate(&order, &variables)?, Some(RawBson::Double(10.0)));
/// # Ok::<(), cairndb_query::expression::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expression {
    root: Node,
}

impl Expression {
    /// Parses an expression: checks its operators, its paths, and that the variables that it uses are defined.
    ///
    /// # Errors
    /// What is wrong with it. A constant part that has no value, such as a division by zero, is an error only when it
    /// is evaluated.
    pub fn parse(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Error> {
        Ok(Self { root: parse::parse(expression, variables)? })
    }

    /// Parses the key of groups, which is null where it is missing, also if it is the only field of an object.
    pub(crate) fn parse_group_key(key: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Error> {
        Ok(Self { root: parse::parse_group_key(key, variables)? })
    }

    /// Parses the argument of the accumulator `$percentile` or `$median`: the input, and what is wanted.
    pub(crate) fn parse_percentile(
        operator: &'static str,
        operand: RawBsonRef<'_>,
        variables: &Variables,
    ) -> Result<(Self, PercentileRequest), Error> {
        let (root, request) = percentile::parse_accumulator(Parser::new(variables), operator, operand)?;
        Ok((Self { root }, request))
    }

    /// Computes the value for a document. Returns `None` if the value is missing.
    ///
    /// `variables` must define what was defined when the expression was parsed; the values may be others.
    ///
    /// # Errors
    /// What an operator cannot do with the values that it met, or a limit of the operation.
    pub fn evaluate(&self, document: &RawDocument, variables: &Variables) -> Result<Option<RawBson>, Error> {
        Ok(self.value(document, variables)?.into_raw())
    }

    /// Whether the value for a document counts as true, without building it.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn matches(&self, document: &RawDocument, variables: &Variables) -> Result<bool, Error> {
        Ok(self.value(document, variables)?.is_true())
    }

    /// Adds the paths of the fields that the expression reads. Returns `None` if it may read any field.
    pub(crate) fn collect_fields(&self, paths: &mut Vec<FieldPath>) -> Option<()> {
        self.root.collect_fields(paths)
    }

    /// The field that the expression is, such as `"$a.b"`.
    pub(crate) fn field(&self) -> Option<FieldPath> {
        self.root.field()
    }

    /// The conditions on single fields that hold in every document for which the expression is true.
    pub(crate) fn implied(&self) -> Implied {
        implied::implied(&self.root)
    }

    /// Computes the value for a document and calls `take` with it, without copying it; with `None` if it is missing.
    pub(crate) fn with_value<R>(
        &self,
        document: &RawDocument,
        variables: &Variables,
        take: impl FnOnce(Option<RawBsonRef<'_>>) -> R,
    ) -> Result<R, Error> {
        Ok(take(self.value(document, variables)?.get()))
    }

    /// Whether a value counts as true: every value except a missing one, null, undefined, false and zero.
    pub fn is_true(value: Option<RawBsonRef<'_>>) -> bool {
        value.is_some_and(crate::value::is_true)
    }

    /// The value of an expression that depends neither on a document nor on variables. Returns `None` if it depends on
    /// one, and `Some(None)` if the value is missing.
    pub fn constant(&self) -> Option<Option<RawBsonRef<'_>>> {
        self.root.constant().map(Value::get)
    }

    fn value<'d>(&self, document: &'d RawDocument, variables: &'d Variables) -> Result<Value<'d>, Error> {
        self.root.evaluate(Scope::new(document, variables))
    }
}
