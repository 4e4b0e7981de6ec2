//! Expressions over a part of a document, with constants of a stage: those of `$redact`.
//!
//! `$$CURRENT`, where paths start, is the part; `$$ROOT` stays the whole document.

use bson::{RawBsonRef, RawDocument};

use crate::expression::error::Error;
use crate::expression::node::{Node, Scope, ValueFrame};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::expression::variables::Variables;

/// An expression over a part of a document.
#[derive(Clone, Debug)]
pub(crate) struct ScopedExpression {
    root: Node,
    constants: Vec<&'static str>,
}

impl ScopedExpression {
    /// Parses an expression that may use `constants`: names of variables, each with a text as its value.
    pub(crate) fn parse(
        expression: RawBsonRef<'_>,
        constants: &[(&str, &'static str)],
        variables: &Variables,
    ) -> Result<Self, Error> {
        let names: Vec<&str> =
            ["CURRENT"].into_iter().chain(constants.iter().map(|(name, _)| *name)).collect();
        let root = Parser::new(variables).with_names(&names, |inside| inside.operand(expression))?;
        Ok(Self { root, constants: constants.iter().map(|(_, value)| *value).collect() })
    }

    /// Computes the value for a part of a document and calls `take` with it; with `None` if it is missing.
    pub(crate) fn with_value<R>(
        &self,
        root: &RawDocument,
        part: &RawDocument,
        variables: &Variables,
        take: impl FnOnce(Option<RawBsonRef<'_>>) -> R,
    ) -> Result<R, Error> {
        // In the order in which `parse` named them.
        let mut values = vec![Value::Borrowed(RawBsonRef::Document(part))];
        values.extend(self.constants.iter().map(|constant| Value::Borrowed(RawBsonRef::String(constant))));
        let scope = Scope::new(root, variables);
        let value = self.root.evaluate(scope.within(&ValueFrame { values: &values, outer: None }))?;
        Ok(take(value.get()))
    }
}
