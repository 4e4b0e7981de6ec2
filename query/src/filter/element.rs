//! Tests of one value by its type and by the remainder of a division: `$type` and `$mod`.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use index::number::{Decimal, unpack};

use crate::error::Fault;
use crate::value::{describe, elements, integer};

/// The types that a value may have.
#[derive(Clone, Debug)]
pub(super) struct TypeSet {
    types: Vec<ElementType>,
}

/// Names of types, ascending, with the types that they stand for.
const NAMES: &[(&str, &[ElementType])] = &[
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
];

impl TypeSet {
    /// Reads a type, or a list of types, each a name or a number.
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

    pub(super) fn types(&self) -> &[ElementType] {
        &self.types
    }

    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        self.types.contains(&value.element_type())
    }
}

/// What a number must leave when it is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulo {
    divisor: i64,
    remainder: i64,
}

impl Modulo {
    /// Reads `[divisor, remainder]`; fractions are cut off.
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

    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        // The one division that overflows, of the least integer by -1, leaves nothing; so does wrapping.
        truncated(value).is_some_and(|value| value.wrapping_rem(self.divisor) == self.remainder)
    }
}

/// Whether a document below a field is made of operators: its first name starts with a dollar sign, and it is no
/// database reference.
pub(super) fn is_operators(document: &RawDocument) -> bool {
    starts_with_dollar(document) && !(has(document, "$ref") && has(document, "$id"))
}

/// Whether the operand of `$elemMatch` is made of operators. Here any part of a reference makes it one.
pub(super) fn is_element_operators(document: &RawDocument) -> bool {
    starts_with_dollar(document) && !["$ref", "$id", "$db"].into_iter().any(|name| has(document, name))
}

/// The types that a name stands for.
pub(super) fn named_types(name: &str) -> Option<&'static [ElementType]> {
    let place = NAMES.binary_search_by_key(&name, |(known, _)| known).ok()?;
    NAMES.get(place).map(|(_, types)| *types)
}

/// The name of a document's first field.
pub(super) fn first_name(document: &RawDocument) -> Option<&str> {
    Some(document.iter_elements().next()?.ok()?.key().as_str())
}

fn starts_with_dollar(document: &RawDocument) -> bool {
    first_name(document).is_some_and(|name| name.starts_with('$'))
}

fn has(document: &RawDocument, name: &str) -> bool {
    document.iter_elements().map_while(Result::ok).any(|element| element.key().as_str() == name)
}

fn parse_type(operand: RawBsonRef<'_>) -> Result<Vec<ElementType>, Fault> {
    if let Some(name) = operand.as_str() {
        let types = named_types(name).map(<[_]>::to_vec);
        return types.ok_or_else(|| Fault::TypeName { found: describe(operand) });
    }
    if index::number::Number::of(operand).is_none() {
        return Err(Fault::TypeOperand { found: describe(operand) });
    }
    let number = match integer(operand) {
        // BSON stores the least key as 255; queries know it by its sign.
        Some(-1) => Some(ElementType::MinKey as u8),
        Some(number) => u8::try_from(number).ok().filter(|number| *number != ElementType::MinKey as u8),
        None => None,
    };
    match number.and_then(ElementType::from) {
        Some(found) => Ok(vec![found]),
        None => Err(Fault::TypeNumber { found: describe(operand) }),
    }
}

/// A number cut off to an integer, if it is finite and the integer has 64 bits.
fn truncated(value: RawBsonRef<'_>) -> Option<i64> {
    if let Some(double) = value.as_f64() {
        return integer(RawBsonRef::Double(double.trunc()));
    }
    let RawBsonRef::Decimal128(decimal) = value else { return integer(value) };
    match unpack(decimal) {
        Decimal::Finite { negative, coefficient, exponent: exponent @ ..0 } => {
            let unit = 10_u128.checked_pow(exponent.unsigned_abs());
            // A unit beyond 128 bits is greater than any coefficient.
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

    #[test]
    fn type_names_ascend() {
        assert!(NAMES.is_sorted_by(|(left, _), (right, _)| left < right));
    }

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
