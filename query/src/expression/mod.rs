//! Expressions: values computed from a document, as `$expr`, computed fields and pipelines use them.
//!
//! [`Expression::parse`] checks everything that can be checked without a document, and replaces what is constant by
//! its value. What an operator means stands in the file of its family; comparison and paths are the `index`
//! crate's. Evaluation reads raw values where they lie.

pub(crate) mod accumulate;
mod arguments;
mod arithmetic;
mod array;
mod bind;
mod bits;
#[cfg(test)]
mod cases;
mod condition;
mod convert;
mod date;
pub mod error;
pub mod fields;
mod node;
mod object;
mod operator;
mod order;
mod parse;
mod power;
mod regex;
mod round;
mod search;
mod sequence;
mod set;
mod switch;
#[cfg(test)]
mod tests;
mod text;
mod total;
mod trigonometry;
mod value;
mod variables;

use bson::{RawBson, RawBsonRef, RawDocument};

pub use self::fields::ComputedFields;
pub use self::variables::Variables;
use crate::expression::error::Error;
use crate::expression::node::{Node, Scope};
use crate::expression::value::Value;

/// An expression, parsed once and evaluated over any number of documents from any number of threads.
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
    /// Reads an expression and checks its operators, its paths, and that the variables that it uses are defined.
    ///
    /// # Errors
    /// What is wrong with it. A constant part that has no value, such as a division by zero, is no error before it
    /// is evaluated.
    pub fn parse(expression: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Error> {
        Ok(Self { root: parse::parse(expression, variables)? })
    }

    /// The value for a document; `None` where it is missing.
    ///
    /// `variables` must define what was defined when the expression was parsed, perhaps with other values.
    ///
    /// # Errors
    /// What an operator cannot do with the values that it met.
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

    /// Hands the value for a document to `take` where it lies; nothing where it is missing.
    pub(crate) fn with_value<R>(
        &self,
        document: &RawDocument,
        variables: &Variables,
        take: impl FnOnce(Option<RawBsonRef<'_>>) -> R,
    ) -> Result<R, Error> {
        Ok(take(self.value(document, variables)?.get()))
    }

    /// Whether a value counts as true: all but a missing one, null, undefined, false and zero.
    pub fn is_true(value: Option<RawBsonRef<'_>>) -> bool {
        value.is_some_and(crate::value::is_true)
    }

    /// The value, if it depends on nothing; the value itself is `None` if it is missing.
    pub fn constant(&self) -> Option<Option<RawBsonRef<'_>>> {
        self.root.constant().map(Value::get)
    }

    fn value<'d>(&self, document: &'d RawDocument, variables: &'d Variables) -> Result<Value<'d>, Error> {
        self.root.evaluate(Scope::new(document, variables))
    }
}
