//! Tests of one value by its type and by the remainder of a division: `$type` and `$mod`. Here is also what
//! decides whether a document is made of operators.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use index::number::{Decimal, unpack};

use crate::error::Fault;
use crate::registry::Registry;
use crate::value::{describe, elements, integer};

/// The operand of `$type`: the types that a value may have.
#[derive(Clone, Debug)]
pub(super) struct TypeSet {
    types: Vec<ElementType>,
}

/// The names of types, with the types that each one means.
const NAMES: Registry<&[ElementType]> = Registry::new(&[
    ("array", &[ElementType::Array]),
    ("binData", &[ElementType::Binary]),
    ("bool", &[ElementType::Boolean]),
    ("date", &[ElementType::DateTime]),
    ("dbPointer", &[ElementType::DbPointer]),
    ("decimal", &[ElementType::Decimal128]),
    ("double", &[ElementType::Double]),
    ("int", &[ElementType::Int32]),
    ("javascript", &[ElementType::JavaScriptCode]),
    ("javascriptWithScope", &[ElementType::JavaScriptCodeWithScope]),
    ("long", &[ElementType::Int64]),
    ("maxKey", &[ElementType::MaxKey]),
    ("minKey", &[ElementType::MinKey]),
    ("null", &[ElementType::Null]),
    ("number", &[ElementType::Double, ElementType::Int32, ElementType::Int64, ElementType::Decimal128]),
    ("object", &[ElementType::EmbeddedDocument]),
    ("objectId", &[ElementType::ObjectId]),
    ("regex", &[ElementType::RegularExpression]),
    ("string", &[ElementType::String]),
    ("symbol", &[ElementType::Symbol]),
    ("timestamp", &[ElementType::Timestamp]),
    ("undefined", &[ElementType::Undefined]),
]);

impl TypeSet {
    /// Parses a type or an array of types. Each is a name or a number.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        let mut types = Vec::new();
        match operand.as_array() {
            Some(list) => {
                for member in elements(list) {
                    types.extend(parse_type(member)?);
                }
            }
            None => types.extend(parse_type(operand)?),
        }
        if types.is_empty() { Err(Fault::TypesEmpty) } else { Ok(Self { types }) }
    }

    /// The types, in the order of the operand.
    pub(super) fn types(&self) -> &[ElementType] {
        &self.types
    }

    /// Whether the type of a value is one of them.
    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        self.types.contains(&value.element_type())
    }
}

/// The operand of `$mod`: a divisor, which is not 0, and the remainder that a number must leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulo {
    divisor: i64,
    remainder: i64,
}

impl Modulo {
    /// Parses `[divisor, remainder]`. Fractions are truncated.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        let Some(array) = operand.as_array() else {
            return Err(Fault::WrongType { expected: "an array", found: describe(operand) });
        };
        let parts = elements(array).collect::<Vec<_>>();
        let [divisor, remainder] = parts.as_slice() else {
            return Err(Fault::ModuloLength { count: parts.len() });
        };
        let part =
            |part, value| truncated(value).ok_or_else(|| Fault::ModuloPart { part, found: describe(value) });
        let modulo = Self { divisor: part("divisor", *divisor)?, remainder: part("remainder", *remainder)? };
        if modulo.divisor == 0 { Err(Fault::DivisorZero) } else { Ok(modulo) }
    }

    /// Whether a value is a number that leaves the remainder. Its fraction is truncated first.
    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        // One division overflows: the lowest integer by -1. Its remainder is 0, which wrapping gives as well.
        truncated(value).is_some_and(|value| value.wrapping_rem(self.divisor) == self.remainder)
    }
}

/// Whether a document below a field is made of operators, and not a value to equal.
pub(super) fn is_operators(document: &RawDocument) -> bool {
    // As in MongoDB the first name decides. A database reference (`{$ref, $id}`) is a value in spite of its
    // names.
    starts_with_dollar(document) && !(has(document, "$ref") && has(document, "$id"))
}

/// Whether the operand of `$elemMatch` is made of operators, and not a filter of objects.
pub(super) fn is_element_operators(document: &RawDocument) -> bool {
    // Here one part of a database reference is enough: it is a field to filter by.
    starts_with_dollar(document) && !["$ref", "$id", "$db"].into_iter().any(|name| has(document, name))
}

/// The types that a name means.
pub(super) fn named_types(name: &str) -> Option<&'static [ElementType]> {
    NAMES.get(name).copied()
}

/// The name of a type.
pub(super) fn type_name(wanted: ElementType) -> &'static str {
    let is_it = |name: &&str| matches!(NAMES.get(name), Some([only]) if *only == wanted);
    NAMES.names().find(is_it).unwrap_or("missing")
}

/// The name of a document's first field.
pub(super) fn first_name(document: &RawDocument) -> Option<&str> {
    Some(document.iter_elements().next()?.ok()?.key().as_str())
}

fn starts_with_dollar(document: &RawDocument) -> bool {
    first_name(document).is_some_and(|name| name.starts_with('$'))
}

/// Whether a document has a field of this name.
fn has(document: &RawDocument, name: &str) -> bool {
    document.iter_elements().map_while(Result::ok).any(|element| element.key().as_str() == name)
}

/// The types that one member of the operand means.
fn parse_type(operand: RawBsonRef<'_>) -> Result<Vec<ElementType>, Fault> {
    if let Some(name) = operand.as_str() {
        let types = named_types(name).map(<[_]>::to_vec);
        return types.ok_or_else(|| Fault::TypeName { found: describe(operand) });
    }
    if index::number::Number::of(operand).is_none() {
        return Err(Fault::TypeOperand { found: describe(operand) });
    }
    let number = match integer(operand) {
        // BSON stores the type of the lowest key as 255, and MongoDB's queries call it -1. So 255 is no
        // number of a type.
        Some(-1) => Some(ElementType::MinKey as u8),
        Some(number) => u8::try_from(number).ok().filter(|number| *number != ElementType::MinKey as u8),
        None => None,
    };
    match number.and_then(ElementType::from) {
        Some(found) => Ok(vec![found]),
        None => Err(Fault::TypeNumber { found: describe(operand) }),
    }
}

/// A number truncated to an integer. Returns `None` unless it is finite and within 64 bits.
fn truncated(value: RawBsonRef<'_>) -> Option<i64> {
    if let Some(double) = value.as_f64() {
        return integer(RawBsonRef::Double(double.trunc()));
    }
    // `integer` accepts no decimal with a fraction, so the fraction is divided away here.
    let RawBsonRef::Decimal128(decimal) = value else { return integer(value) };
    match unpack(decimal) {
        Decimal::Finite { negative, coefficient, exponent: exponent @ ..0 } => {
            let unit = 10_u128.checked_pow(exponent.unsigned_abs());
            // If the power of ten exceeds 128 bits, it exceeds every coefficient, and the integer part is 0.
            let magnitude = unit.map_or(0, |unit| coefficient / unit);
            let magnitude = i128::try_from(magnitude).ok()?;
            i64::try_from(if negative { -magnitude } else { magnitude }).ok()
        }
        Decimal::Finite { .. } | Decimal::Infinity { .. } | Decimal::Nan => integer(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_truncated(value: &str, expected: Option<i64>) {
        let decimal = value.parse::<bson::Decimal128>().unwrap();
        assert_eq!(truncated(RawBsonRef::Decimal128(decimal)), expected);
    }

    #[test]
    fn decimals_are_cut_off_toward_zero() {
        check_truncated("12.99", Some(12));
        check_truncated("-12.99", Some(-12));
        check_truncated("1E-6176", Some(0));
        check_truncated("9.9E+3", Some(9_900));
        check_truncated("9223372036854775807.9", Some(i64::MAX));
        check_truncated("-9223372036854775808.9", Some(i64::MIN));
        check_truncated("9223372036854775808", None);
        check_truncated("1E+6000", None);
        check_truncated("NaN", None);
        check_truncated("-Infinity", None);
    }
}
