//! The arguments of an operator's function: evaluated on demand, read as integers or arrays, and named in errors.
//!
//! The type itself is part of the tree, in `node`.

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node};
use crate::expression::value::{ArrayBuilder, Value, elements_bytes};
use crate::operation::OperationContext;
use crate::value::integer;

impl<'d> Arguments<'_, 'd> {
    /// The limits of the operation that evaluates.
    pub(super) fn operation(&self) -> &'d OperationContext {
        self.scope.operation()
    }

    /// The number of arguments, absent ones included.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The value of an argument; a missing value if the argument was not given.
    pub(super) fn value(&self, at: usize) -> Result<Value<'d>, Error> {
        Ok(self.given(at)?.unwrap_or(Value::Missing))
    }

    /// The value of an argument. Returns `None` if the argument was not given.
    pub(super) fn given(&self, at: usize) -> Result<Option<Value<'d>>, Error> {
        self.nodes.get(at).and_then(Option::as_ref).map(|node| self.evaluate(node)).transpose()
    }

    /// Whether an argument was given, whatever its value is.
    pub(super) fn is_given(&self, at: usize) -> bool {
        self.nodes.get(at).is_some_and(Option::is_some)
    }

    /// The values of all arguments, each evaluated when the iterator reaches it.
    pub(super) fn values(&self) -> impl Iterator<Item = Result<Value<'d>, Error>> {
        self.nodes.iter().flatten().map(|node| self.evaluate(node))
    }

    fn evaluate(&self, node: &Node) -> Result<Value<'d>, Error> {
        let value = node.evaluate(self.scope)?;
        // Counted here for all operators: they go through texts and arrays of many megabytes, and are one node.
        self.operation().pass_within(value.content_bytes())?;
        Ok(value)
    }

    /// The error of this operator for a fault.
    pub(super) fn fault(&self, code: Code, fault: Fault) -> Error {
        Error::Argument { operator: self.operator, fault, code }
    }

    /// The error for a value of the wrong type.
    pub(super) fn wrong_type(
        &self,
        code: Code,
        argument: &'static str,
        expected: &'static str,
        found: &Value<'_>,
    ) -> Error {
        self.fault(code, Fault::WrongType { argument, expected, found: found.type_name() })
    }

    /// The error for a value of the right type that the operator does not accept.
    pub(super) fn wrong_value(
        &self,
        code: Code,
        argument: &'static str,
        expected: &'static str,
        found: &Value<'_>,
    ) -> Error {
        self.fault(code, Fault::WrongValue { argument, expected, found: found.describe() })
    }

    /// The elements of an array. `code` is the number for a value that is not an array.
    pub(super) fn elements(
        &self,
        code: Code,
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<Vec<Value<'d>>, Error> {
        let elements = value.elements().ok_or_else(|| self.wrong_type(code, argument, "an array", value))?;
        self.operation().steps(elements.len() as u64)?;
        // The elements are dropped before the operator returns, so it is enough that there is room for them now.
        self.operation().reserve(elements_bytes(value, elements.len()))?;
        Ok(elements)
    }

    /// An integer of 32 bits. The first of `codes` is for a value that is not a number, the second for a number that
    /// is not an integer of 32 bits.
    pub(super) fn int(
        &self,
        codes: (Code, Code),
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<i32, Error> {
        let (type_code, value_code) = codes;
        if !value.is_number() {
            return Err(self.wrong_type(type_code, argument, "a number", value));
        }
        // A number counts by its value and not by its type: the double 3.0 is an integer.
        let found = integer(value.or_null()).and_then(|integer| i32::try_from(integer).ok());
        found.ok_or_else(|| self.wrong_value(value_code, argument, "an integer of 32 bits", value))
    }

    /// An integer of 64 bits. `code` is the number for every other value.
    pub(super) fn long(&self, code: Code, argument: &'static str, value: &Value<'d>) -> Result<i64, Error> {
        integer(value.or_null()).ok_or_else(|| self.wrong_value(code, argument, "an integer", value))
    }

    /// A position that is not negative. The first of `codes` is for a value that is not an integer of 32 bits, the
    /// second for a negative one.
    pub(super) fn position(
        &self,
        codes: (Code, Code),
        argument: &'static str,
        value: &Value<'d>,
    ) -> Result<usize, Error> {
        let (type_code, value_code) = codes;
        // MongoDB has one number for every value that is not an int32 here, and another for a negative one.
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
