//! `$bit`: bitwise and, or and exclusive or of integers.
//!
//! The result is a 64-bit integer if the value or an operand is one. Doubles are rejected, even those without a fraction.

use bson::RawDocument;

use crate::numeric::Numeric;
use crate::raw::Fields;
use crate::update::error::{Error, Fault};
use crate::value::describe;

/// Operations that are applied in the given order.
#[derive(Clone, Debug)]
pub(super) struct BitOperations {
    operations: Vec<(BitOperation, Integer)>,
}

#[derive(Clone, Copy, Debug)]
enum BitOperation {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
enum Integer {
    Int32(i32),
    Int64(i64),
}

impl BitOperations {
    /// Parses the operations on one field. `malformed` adds the name of the field to a fault.
    pub(super) fn parse(operand: &RawDocument, malformed: impl Fn(Fault) -> Error) -> Result<Self, Error> {
        let mut operations = Vec::new();
        for field in Fields::of(operand) {
            let field = field?;
            let operation = match field.name() {
                "and" => BitOperation::And,
                "or" => BitOperation::Or,
                "xor" => BitOperation::Xor,
                name => return Err(malformed(Fault::UnknownClause { clause: name.to_owned() })),
            };
            let value = field.value()?;
            let integer = Numeric::of(value).and_then(Integer::of).ok_or_else(|| {
                malformed(Fault::WrongType { expected: "a 32-bit or 64-bit integer", found: describe(value) })
            })?;
            operations.push((operation, integer));
        }
        // An empty object would be an update that silently does nothing; MongoDB rejects it.
        if operations.is_empty() { Err(malformed(Fault::NoBitOperation)) } else { Ok(Self { operations }) }
    }

    /// The result for a value. Returns `None` if the value is not an integer.
    pub(super) fn apply(&self, value: Numeric) -> Option<Numeric> {
        let start = Integer::of(value)?;
        let result = self
            .operations
            .iter()
            .fold(start, |value, (operation, operand)| operation.apply(value, *operand));
        Some(match result {
            Integer::Int32(value) => Numeric::Int32(value),
            Integer::Int64(value) => Numeric::Int64(value),
        })
    }
}

impl BitOperation {
    fn apply(self, left: Integer, right: Integer) -> Integer {
        // Only two 32-bit integers give a 32-bit one.
        if let (Integer::Int32(left), Integer::Int32(right)) = (left, right) {
            return Integer::Int32(match self {
                Self::And => left & right,
                Self::Or => left | right,
                Self::Xor => left ^ right,
            });
        }
        // A negative 32-bit integer is extended by its sign, so a mask of it keeps the upper bits.
        let (left, right) = (left.widen(), right.widen());
        Integer::Int64(match self {
            Self::And => left & right,
            Self::Or => left | right,
            Self::Xor => left ^ right,
        })
    }
}

impl Integer {
    fn of(value: Numeric) -> Option<Self> {
        match value {
            Numeric::Int32(value) => Some(Self::Int32(value)),
            Numeric::Int64(value) => Some(Self::Int64(value)),
            Numeric::Double(_) | Numeric::Decimal(_) => None,
        }
    }

    fn widen(self) -> i64 {
        match self {
            Self::Int32(value) => i64::from(value),
            Self::Int64(value) => value,
        }
    }
}
