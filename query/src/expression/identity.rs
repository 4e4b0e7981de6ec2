//! Values that identify something: `$createObjectId`, `$toUUID`, and the hash by which MongoDB's hashed indexes find a
//! value, `$toHashedIndexKey`.

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use md5::{Digest, Md5};

use crate::code::Code;
use crate::decimal::{self, Rounding};
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Arguments, Node};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::numeric::Numeric;
use crate::operation::OperationContext;
use crate::raw::{Field, Fields, Malformed};
use crate::value::{content_bytes, document_or_array};

/// Parses `$createObjectId`, which is given an empty object.
pub(super) fn parse_object_id(
    _: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    if operand.as_document().is_some_and(RawDocument::is_empty) {
        return Ok(Node::NewObjectId);
    }
    let found = Value::Borrowed(operand).describe();
    let fault = Fault::WrongValue { argument: "the argument", expected: "an empty object", found };
    Err(Error::Argument { operator, fault, code: Code::FAILED_TO_PARSE })
}

/// `$toUUID`: a text of 32 hexadecimal digits with hyphens as a UUID. A UUID stays what it is.
pub(super) fn to_uuid<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    if input.is_nullish() {
        return Ok(Value::NULL);
    }
    let failed = |reason| {
        let fault = Fault::Conversion { found: input.describe(), target: "a UUID", reason };
        arguments.fault(Code::CONVERSION_FAILURE, fault)
    };
    let value = input.or_null();
    // A subtype says what bytes mean, so that of others is not changed.
    if let RawBsonRef::Binary(binary) = value {
        let is_uuid = binary.subtype == BinarySubtype::Uuid;
        return if is_uuid { Ok(input.clone()) } else { Err(failed("it has another subtype")) };
    }
    let text = value.as_str().ok_or_else(|| failed("there is no such conversion"))?;
    let bytes = parse_uuid(text).ok_or_else(|| failed("it is not written as a UUID"))?;
    Ok(Value::computed(RawBson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes })))
}

/// The bytes of a UUID that is written in groups of 8, 4, 4, 4 and 12 digits.
pub(super) fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    // The lengths are looked at before the digits: they distinguish a UUID from any other text.
    let groups: Vec<&str> = text.split('-').collect();
    if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits = groups.concat();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = digits.bytes().map(digit).collect::<Option<Vec<_>>>()?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// Parses `$toHashedIndexKey`. An array is the value that is hashed, and no list of arguments.
pub(super) fn parse_hash(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let arguments = vec![Some(parser.operand(operand)?)];
    Ok(Node::Call { operator, evaluate: hashed_index_key, arguments })
}

/// `$toHashedIndexKey`: the number by which a hashed index of MongoDB knows a value. A missing value counts as null.
fn hashed_index_key<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let input = arguments.value(0)?;
    // MongoDB's hash starts from a seed, which has always been 0.
    let mut hash = Md5::new_with_prefix(0_i32.to_le_bytes());
    add_value(&mut hash, input.or_null(), arguments.operation())?;
    // The first eight of sixteen bytes are the number.
    let digest = hash.finalize();
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    Ok(Value::long(i64::from_le_bytes(first)))
}

/// Adds a value to the hash, and all that is in it. Values that are open wait on a list, so that no nesting overflows the
/// thread's stack.
fn add_value(hash: &mut Md5, value: RawBsonRef<'_>, operation: &OperationContext) -> Result<(), Error> {
    let mut open: Vec<Fields<'_>> = add_start(hash, value, None, operation)?.into_iter().collect();
    while let Some(fields) = open.last_mut() {
        let Some(field) = fields.next() else {
            // The end of a value counts as well: `[[], []]` is not `[[[]]]`.
            hash.update(0_i32.to_le_bytes());
            open.pop();
            continue;
        };
        let field = field.map_err(malformed)?;
        // By name, so that two objects with the same values differ.
        let value = field.value().map_err(malformed)?;
        open.extend(add_start(hash, value, Some(field.name()), operation)?);
    }
    Ok(())
}

/// Adds a value without what is in it: the place of its type in MongoDB's order, its name if it is part of another value, and
/// what it holds. Numbers of all types count as integers, so that equal numbers have one hash. Returns the fields that follow.
fn add_start<'v>(
    hash: &mut Md5,
    value: RawBsonRef<'v>,
    name: Option<&str>,
    operation: &OperationContext,
) -> Result<Option<Fields<'v>>, Error> {
    operation.step()?;
    // All numbers have one place, and so have texts and symbols.
    hash.update(place_of_type(value).to_le_bytes());
    if let Some(name) = name {
        hash.update(name);
        hash.update([0]);
    }
    if let Some(number) = Numeric::of(value) {
        hash.update(whole(number).to_le_bytes());
        return Ok(None);
    }
    match value {
        // An array lies in memory as a document whose names are positions.
        RawBsonRef::Document(_) | RawBsonRef::Array(_) => {
            return Ok(document_or_array(value).map(Fields::of));
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            // The code without its length, unlike a text: MongoDB has it so.
            hash.update(code.code);
            hash.update([0]);
            return Ok(Some(Fields::of(code.scope)));
        }
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            let length = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
            hash.update(length.to_le_bytes());
            hash.update(text);
            hash.update([0]);
        }
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_)
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Null
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::Timestamp(_)
        | RawBsonRef::Binary(_)
        | RawBsonRef::ObjectId(_)
        | RawBsonRef::DateTime(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MaxKey
        | RawBsonRef::MinKey
        | RawBsonRef::DbPointer(_) => {
            // Written once more, because a value by itself does not give its bytes.
            let _held = operation.reserve(content_bytes(value))?;
            let mut document = RawDocumentBuf::new();
            document.append(cstr!(""), value);
            let written = Fields::of(&document).next().transpose().map_err(malformed)?;
            hash.update(written.as_ref().map(Field::bytes).unwrap_or_default());
        }
    }
    Ok(None)
}

fn malformed(error: Malformed) -> Error {
    Error::InvalidBson { reason: error.reason }
}

/// The integer that a number counts as. Doubles are cut off, decimals rounded, and what is too large is the largest.
fn whole(number: Numeric) -> i64 {
    match number {
        Numeric::Int32(value) => i64::from(value),
        Numeric::Int64(value) => value,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too large is cut to the range, and NaN is 0"
        )]
        Numeric::Double(value) => {
            // Kept by MongoDB for legacy indexes: the one number above the range that is next to it.
            const BEYOND: f64 = 9_223_372_036_854_775_808.0;
            if value.total_cmp(&BEYOND).is_eq() { i64::MIN } else { value as i64 }
        }
        Numeric::Decimal(value) => {
            // A double is enough to see on which side of the range a decimal lies.
            let double = decimal::to_double(value);
            let limit = if double < 0.0 { i64::MIN } else { i64::MAX };
            if double.is_nan() { 0 } else { decimal::to_integer(value, Rounding::HalfEven).unwrap_or(limit) }
        }
    }
}

/// MongoDB's place for the values of a type in its order: a number that the hash is made of.
fn place_of_type(value: RawBsonRef<'_>) -> i32 {
    match value {
        RawBsonRef::MinKey => -1,
        RawBsonRef::Undefined => 0,
        RawBsonRef::Null => 5,
        RawBsonRef::Double(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Decimal128(_) => 10,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => 15,
        RawBsonRef::Document(_) => 20,
        RawBsonRef::Array(_) => 25,
        RawBsonRef::Binary(_) => 30,
        RawBsonRef::ObjectId(_) => 35,
        RawBsonRef::Boolean(_) => 40,
        RawBsonRef::DateTime(_) => 45,
        RawBsonRef::Timestamp(_) => 47,
        RawBsonRef::RegularExpression(_) => 50,
        RawBsonRef::DbPointer(_) => 55,
        RawBsonRef::JavaScriptCode(_) => 60,
        RawBsonRef::JavaScriptCodeWithScope(_) => 65,
        RawBsonRef::MaxKey => 127,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, Timestamp, bson};

    use super::*;
    use crate::expression::cases::{binary, check, check_error, decimal, evaluate, millis};

    fn uuid(bytes: [u8; 16]) -> Bson {
        Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: bytes.to_vec() })
    }

    #[test]
    fn every_object_id_is_another() {
        let made: Vec<_> =
            (0..3).map(|_| evaluate(&bson!({ "$createObjectId": {} })).unwrap().unwrap()).collect();
        assert!(made.iter().all(|id| id.as_object_id().is_some()));
        assert!(made[0] != made[1] && made[1] != made[2]);
        for wrong in [bson!(1), bson!([]), bson!({ "a": 1 }), Bson::Null] {
            check_error(bson!({ "$createObjectId": wrong }), 9);
        }
    }

    #[test]
    fn uuids_are_read_from_text() {
        let bytes = [0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255];
        check(bson!({ "$toUUID": "00112233-4455-6677-8899-aAbBccddeeff" }), uuid(bytes));
        check(bson!({ "$toUUID": (uuid(bytes)) }), uuid(bytes));
        check(bson!({ "$toUUID": "$missing" }), Bson::Null);
        for wrong in [
            bson!("00112233445566778899aabbccddeeff"),
            bson!("00112233-4455-6677-8899-aabbccddeef"),
            bson!("00112233-4455-6677-8899-aabbccddeefg"),
            bson!("0011223-34455-6677-8899-aabbccddeeff"),
            bson!("é011223-4455-6677-8899-aabbccddeeff"),
            bson!(""),
            bson!(1),
            binary(&bytes),
        ] {
            check_error(bson!({ "$toUUID": wrong }), 241);
        }
    }

    /// The hashes that MongoDB's own tests state.
    #[test]
    fn hashes_are_those_of_mongodb() {
        let id = bson::oid::ObjectId::parse_str("47cc67093475061e3d95369d").unwrap();
        for (value, hash) in [
            (bson!("hashThisStringLiteral"), -5_776_344_739_422_278_694_i64),
            (bson!(123), -6_548_868_637_522_515_075),
            (bson!(42), -944_302_157_085_130_861),
            (Bson::Timestamp(Timestamp { time: 0, increment: 0 }), -7_867_208_682_377_458_672),
            (Bson::ObjectId(id), 1_576_265_281_381_834_298),
            (millis(0), -1_178_696_894_582_842_035),
            (bson!("$missing"), 2_338_878_944_348_059_895),
            (Bson::Null, 2_338_878_944_348_059_895),
            (bson!({ "$pow": [2, 4] }), 2_598_032_665_634_823_220),
            (Bson::Undefined, 40_158_834_000_849_533),
        ] {
            check(bson!({ "$toHashedIndexKey": value }), bson!(hash));
        }
    }

    #[test]
    fn equal_numbers_have_one_hash() {
        let hash = |value: Bson| evaluate(&bson!({ "$toHashedIndexKey": value })).unwrap();
        for equal in [bson!(3), bson!(3_i64), bson!(3.0), bson!(3.9), decimal("3"), decimal("2.5001")] {
            assert_eq!(hash(equal), hash(bson!(3)));
        }
        assert_eq!(hash(decimal("2.5")), hash(bson!(2)));
        assert_eq!(hash(bson!(f64::NAN)), hash(bson!(0)));
        assert_eq!(hash(decimal("NaN")), hash(bson!(0)));
        assert_eq!(hash(bson!(1e300)), hash(bson!(i64::MAX)));
        assert_eq!(hash(decimal("1E+300")), hash(bson!(i64::MAX)));
        assert_eq!(hash(decimal("-Infinity")), hash(bson!(i64::MIN)));
        assert_eq!(hash(bson!(9_223_372_036_854_775_808.0)), hash(bson!(i64::MIN)));
        assert_eq!(hash(bson!({ "a": [1, { "b": 2.2 }] })), hash(bson!({ "a": [1_i64, { "b": 2 }] })));
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deeper = |levels: i32| {
            bson!({ "$reduce": {
            "input": { "$range": [0, levels] }, "initialValue": [], "in": ["$$value"],
        } })
        };
        let hash = |levels| evaluate(&bson!({ "$toHashedIndexKey": (deeper(levels)) })).unwrap();
        assert_ne!(format!("{:?}", hash(5_000)), format!("{:?}", hash(5_001)));
    }

    #[test]
    fn names_and_types_are_part_of_a_hash() {
        let hash = |value: Bson| evaluate(&bson!({ "$toHashedIndexKey": value })).unwrap();
        let values = [
            bson!({ "a": 1 }),
            bson!({ "b": 1 }),
            bson!([1]),
            bson!({ "0": 1 }),
            bson!("1"),
            bson!(true),
            bson!([]),
            bson!({}),
            bson!([[], []]),
            bson!([[[]]]),
            binary(b"1"),
        ];
        let hashes: std::collections::BTreeSet<_> =
            values.iter().map(|value| format!("{:?}", hash(value.clone()))).collect();
        assert_eq!(hashes.len(), values.len());
    }
}
