//! What the function of an operator does with its arguments: it evaluates them on demand, reads them as integers or
//! arrays, and makes its errors.
//!
//! The type itself is part of the tree, in `node`.

use crate::expression::error::{Error, Fault};
use crate::expression::node::Arguments;
use crate::expression::value::{ArrayBuilder, Value, elements_bytes};
use crate::operation::OperationContext;
use crate::value::integer;

impl<'d> Arguments<'_, 'd> {
    /// What the operation that evaluates may use.
    pub(super) fn operation(&self) -> &'d OperationContext {
        self.scope.operation()
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The value of an argument; missing if it was not given.
    pub(super) fn value(&self, at: usize) -> Result<Value<'d>, Error> {
        Ok(self.given(at)?.unwrap_or(Value::Missing))
    }

    /// The value of an argument, if it was given.
    pub(super) fn given(&self, at: usize) -> Result<Option<Value<'d>>, Error> {
        self.nodes.get(at).and_then(Option::as_ref).map(|node| node.evaluate(self.scope)).transpose()
    }

    pub(super) fn is_given(&self, at: usize) -> bool {
        self.nodes.get(at).is_some_and(Option::is_some)
    }

    /// The values of all arguments in turn.
    pub(super) fn values(&self) -> impl Iterator<Item = Result<Value<'d>, Error>> {
        self.nodes.iter().flatten().map(|node| node.evaluate(self.scope))
    }

    pub(super) fn fault(&self, code: i32, fault: Fault) -> Error {
        Error::Argument { operator: self.operator, fault, code }
    }

    pub(super) fn wrong_type(
        &self,
        code: i32,
        argument: &'static str,
        expected: &'static str,
        found: &Value<'_>,
    ) -> Error {
        self.fault(code, Fault::WrongType { argument, expected, found: found.type_name() })
    }

    pub(super) fn wrong_value(
        &self,
        code: i32,
        argument: &'static str,
        expected: &'static str,
        found: &Value<'_>,
    ) -> Error {
        self.fault(code, Fault::WrongValue { argument, expected, found: found.describe() })
    }

    pub(super) fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::UnsupportedUse { operator: self.operator, feature: feature.into() }
    }

    /// The elements of an array, or an error with `code`.
    pub(super) fn elements(
        &self,
        code: i32,
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<Vec<Value<'d>>, Error> {
        let elements = value.elements().ok_or_else(|| self.wrong_type(code, argument, "an array", value))?;
        self.operation().steps(elements.len() as u64)?;
        // They are dropped before the operator gives its result, so it is enough that there is room now.
        self.operation().reserve(elements_bytes(value, elements.len()))?;
        Ok(elements)
    }

    /// An integer of 32 bits: what is no number has one code, a number that is no such integer another.
    pub(super) fn int(
        &self,
        (type_code, value_code): (i32, i32),
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<i32, Error> {
        if !value.is_number() {
            return Err(self.wrong_type(type_code, argument, "a number", value));
        }
        let found = integer(value.or_null()).and_then(|integer| i32::try_from(integer).ok());
        found.ok_or_else(|| self.wrong_value(value_code, argument, "an integer of 32 bits", value))
    }

    /// An integer of 64 bits, or an error with `code`.
    pub(super) fn long(&self, code: i32, argument: &'static str, value: &Value<'d>) -> Result<i64, Error> {
        integer(value.or_null()).ok_or_else(|| self.wrong_value(code, argument, "an integer", value))
    }

    /// A position that is not negative.
    pub(super) fn position(
        &self,
        (type_code, value_code): (i32, i32),
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<usize, Error> {
        let found = self.int((type_code, type_code), argument, value)?;
        usize::try_from(found).map_err(|_| self.wrong_value(value_code, argument, "0 or more", value))
    }

    /// An array of `values`, with null for each that is missing.
    pub(super) fn array(&self, values: impl IntoIterator<Item = Value<'d>>) -> Result<Value<'d>, Error> {
        let mut array = ArrayBuilder::new(self.operator, self.operation());
        for value in values {
            array.push(value.or_null())?;
        }
        Ok(array.finish())
    }
}
