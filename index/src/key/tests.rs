//! The layout by golden vectors, which `docs/format.md` shows too, and the laws by properties.

use std::cmp::Ordering;
use std::fmt::Write;

use bson::oid::ObjectId;
use bson::{
    Binary, Bson, DateTime, Decimal128, JavaScriptCodeWithScope, RawBsonRef, RawDocument, Regex, Timestamp,
    bson, doc,
};
use proptest::prelude::*;

use super::layout::{
    CLASS_MASK, DECODE_DEPTH_MAX, TYPE_DECIMAL, TYPE_DECIMAL_ZERO, TYPE_DOUBLE, TYPE_DOUBLE_NEGATIVE_ZERO,
    TYPE_INT32, TYPE_INT64, TYPE_STRING, first_bytes,
};
use super::*;
use crate::number::Number;
use crate::order::{TypeClass, compare, type_class};
use crate::proptest_support::{Raw, any_double, any_number, any_value, db_pointer, nested};

const BOTH: [Direction; 2] = [Direction::Ascending, Direction::Descending];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn encoded(value: &Bson, direction: Direction) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut types) = (Vec::new(), Vec::new());
    encode_with_types(Raw::new(value).value(), direction, &mut key, &mut types);
    (key, types)
}

/// Checks the key and the type bytes of an ascending field, that they give the value back, and that
/// the documentation shows them.
#[track_caller]
fn check(label: &str, value: impl Into<Bson>, key: &str, types: &str) {
    check_direction(label, Direction::Ascending, &value.into(), (key, types));
}

#[track_caller]
fn check_direction(label: &str, direction: Direction, value: &Bson, (key, types): (&str, &str)) {
    let found = encoded(value, direction);
    assert_eq!((hex(&found.0), hex(&found.1)), (key.replace(' ', ""), types.replace(' ', "")), "{label}");
    check_round_trip(value, direction);
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/linked/format.md")).unwrap();
    let types = if types.is_empty() { "none".to_owned() } else { format!("`{types}`") };
    let row = format!("| {label} | `{key}` | {types} |");
    assert!(document.contains(&row), "docs/format.md lacks the row: {row}");
}

#[track_caller]
fn check_round_trip(value: &Bson, direction: Direction) {
    let (key, types) = encoded(value, direction);
    let (mut key_rest, mut types_rest) = (&key[..], &types[..]);
    let decoded = decode(&mut key_rest, direction, &mut types_rest).unwrap();
    assert!(key_rest.is_empty() && types_rest.is_empty());
    // Stored bytes, because doubles that are NaN do not equal themselves.
    let stored = |value: &Bson| bson::serialize_to_vec(&doc! { "": value.clone() }).unwrap();
    assert_eq!(stored(&decoded), stored(value), "{decoded:?} instead of {value:?}");
    assert_eq!(skip(&key, direction), Ok(key.len()));
    let canonical = decode_canonical(&mut &key[..], direction).unwrap();
    assert_eq!(encoded(&canonical, direction).0, key);
    assert_eq!(compare(Raw::new(&canonical).value(), Raw::new(value).value()), Ordering::Equal);
}

#[track_caller]
fn check_order(left: &[Bson], right: &[Bson], directions: &[Direction]) {
    let mut expected = Ordering::Equal;
    let (mut left_key, mut right_key) = (Vec::new(), Vec::new());
    for ((left, right), direction) in left.iter().zip(right).zip(directions) {
        let (left, right) = (Raw::new(left), Raw::new(right));
        let ordering = compare(left.value(), right.value());
        expected =
            expected.then(if *direction == Direction::Ascending { ordering } else { ordering.reverse() });
        encode(left.value(), *direction, &mut left_key);
        encode(right.value(), *direction, &mut right_key);
    }
    assert_eq!(left_key.cmp(&right_key), expected, "{left:?} and {right:?}, {directions:?}");
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

#[test]
fn constants_are_one_byte() {
    check("MinKey", Bson::MinKey, "08", "");
    check("undefined", Bson::Undefined, "10", "");
    check("null", Bson::Null, "18", "");
    check("false", false, "50", "");
    check("true", true, "51", "");
    check("MaxKey", Bson::MaxKey, "f0", "");
}

#[test]
fn numbers_have_these_bytes() {
    check("int32 0", 0, "22", "00");
    check("double -0.0", -0.0, "22", "03");
    check("decimal 0.00", decimal("0.00"), "22", "05 181e");
    check("int32 1", 1, "23 7fe0000000", "00");
    check("int64 1", 1_i64, "23 7fe0000000", "01");
    check("double 1.0", 1.0, "23 7fe0000000", "02");
    check("decimal 1", decimal("1"), "23 7fe0000000", "10");
    check("decimal 1.00", decimal("1.00"), "23 7fe0000000", "12");
    check("int32 -1", -1, "21 801fffffff", "00");
    check("double 0.1", 0.1, "23 7f73333333 99999a 00", "02");
    check("decimal 0.1", decimal("0.1"), "23 7f73333333 999999 01 181f 0bebc200", "10");
    check("int64 2^53 + 1", 9_007_199_254_740_993_i64, "23 8680000001 000000 0002", "01");
    check("int64 -2^53 - 1", -9_007_199_254_740_993_i64, "21 797ffffffe ffffff fffd", "01");
    check("double infinity", f64::INFINITY, "23 ffe0000000", "02");
    check("double NaN", f64::from_bits(0x7ff8_0000_0000_0000), "20", "04 000000000000f87f");
    check("decimal NaN", decimal("NaN"), "20", "06 0000000000000000000000000000007c");
    let long = decimal("9007199254740993.000000000000000001");
    check(
        "decimal 2^53 + 1 + 10^-18",
        long,
        "23 8680000001 000000 0003 182f 6b5fca6b 38845cc9 00000001 000000c8",
        "10",
    );
}

#[test]
fn other_scalars_have_these_bytes() {
    check("string \"a\"", "a", "28 61 00", "40");
    check("symbol \"a\"", Bson::Symbol("a".to_owned()), "28 61 00", "41");
    check("string 00 01 02", "\0\u{1}\u{2}", "28 0101 0102 02 00", "40");
    let binary = |subtype: u8, bytes: &[u8]| Binary { subtype: subtype.into(), bytes: bytes.to_vec() };
    check("binary aa bb, subtype 0", binary(0, &[0xaa, 0xbb]), "40 02 00 aabb", "");
    check("binary aa bb, subtype 2", binary(2, &[0xaa, 0xbb]), "40 06 02 aabb", "");
    let id = ObjectId::parse_str("0123456789abcdef01234567").unwrap();
    check("ObjectId 0123456789abcdef01234567", id, "48 0123456789abcdef01234567", "");
    check("date 0", DateTime::from_millis(0), "58 8000000000000000", "");
    check("timestamp 1, 2", Timestamp { time: 1, increment: 2 }, "60 0000000100000002", "");
    let expression =
        Regex { pattern: "a".to_owned().try_into().unwrap(), options: "i".to_owned().try_into().unwrap() };
    check("regex /a/i", expression, "68 61 00 69 00", "");
    check("DBPointer \"a\", 00…00", db_pointer("a", [0; 12]), "70 01 61 000000000000000000000000", "");
    check("code \"a\"", Bson::JavaScriptCode("a".to_owned()), "78 61 00", "");
}

#[test]
fn containers_have_these_bytes() {
    check("{}", bson!({}), "30 00", "");
    check(
        "{ a: 1, b: \"x\" }",
        bson!({ "a": 1, "b": "x" }),
        "30 20 61 00 23 7fe0000000 28 62 00 28 78 00 00",
        "00 40",
    );
    check("[]", bson!([]), "38 00", "");
    check("[ null, [ true ] ]", bson!([null, [true]]), "38 18 38 51 00 00", "");
    let scoped = JavaScriptCodeWithScope { code: "a".to_owned(), scope: doc! { "b": null } };
    check("code \"a\" with scope { b: null }", scoped, "80 61 00 18 62 00 18 00", "");
}

#[test]
fn descending_fields_are_complements() {
    check_direction("int32 1, descending", Direction::Descending, &1.into(), ("dc 801fffffff", "00"));
    check_direction("string \"a\", descending", Direction::Descending, &"a".into(), ("d7 9e ff", "40"));
}

#[test]
fn every_decimal_cohort_comes_back() {
    for text in
        ["1", "10", "1.0", "1E+6144", "1E-6176", "9E+6111", "-0", "0E+6111", "0E-6176", "-Infinity", "120E+2"]
    {
        check_round_trip(&decimal(text), Direction::Ascending);
    }
    for bytes in [[0xff; 16], [0x6f; 16], [0x78; 16], [0xf8; 16]] {
        check_round_trip(&Bson::Decimal128(Decimal128::from_bytes(bytes)), Direction::Descending);
    }
}

#[test]
fn types_of_one_value_share_a_key() {
    let equal = [5.into(), 5_i64.into(), 5.0.into(), decimal("5"), decimal("0.50E+1")];
    for value in &equal {
        assert_eq!(encoded(value, Direction::Ascending).0, encoded(&equal[0], Direction::Ascending).0);
    }
}

#[test]
fn canonical_values_have_the_smallest_type() {
    let canonical = |value: Bson| {
        let (key, _) = encoded(&value, Direction::Ascending);
        decode_canonical(&mut &key[..], Direction::Ascending).unwrap()
    };
    assert_eq!(canonical(decimal("7.0")), Bson::Int32(7));
    assert_eq!(canonical(decimal("4294967296")), Bson::Int64(1 << 32));
    assert_eq!(canonical(decimal("0.5")), Bson::Double(0.5));
    assert_eq!(canonical(decimal("0.10")), decimal("0.1"));
    assert_eq!(canonical(decimal("1E+6144")), decimal("1000000000000000000000000000000000E+6111"));
    assert_eq!(canonical(Bson::Symbol("a".to_owned())), Bson::String("a".to_owned()));
}

#[test]
fn fields_are_taken_from_the_front() {
    let (mut key, mut types) = (Vec::new(), Vec::new());
    encode_with_types(RawBsonRef::String("a"), Direction::Ascending, &mut key, &mut types);
    encode_with_types(RawBsonRef::Int64(-9), Direction::Descending, &mut key, &mut types);
    let (mut key, mut types) = (&key[..], &types[..]);
    assert_eq!(skip(key, Direction::Ascending), Ok(3));
    assert_eq!(decode(&mut key, Direction::Ascending, &mut types), Ok(Bson::String("a".to_owned())));
    assert_eq!(decode(&mut key, Direction::Descending, &mut types), Ok(Bson::Int64(-9)));
    assert!(key.is_empty() && types.is_empty());
}

#[test]
fn an_error_moves_nothing() {
    let (key, types) = encoded(&bson!(["a", 1]), Direction::Ascending);
    let short = &key[..key.len() - 1];
    let (mut key_rest, mut types_rest, mut document) = (short, &types[..], vec![7]);
    let error = decode_bytes(&mut key_rest, Direction::Ascending, &mut types_rest, &mut document);
    assert_eq!(error, Err(Error::KeyTruncated));
    assert_eq!((key_rest, types_rest, document), (short, &types[..], vec![7]));
}

#[test]
fn fields_of_one_name_come_back_as_bytes() {
    let bytes = b"\x0f\x00\x00\x00\x08a\x00\x00\x08a\x00\x01\x00";
    let bytes = [&13_i32.to_le_bytes()[..], &bytes[4..]].concat();
    let document = RawDocument::from_bytes(&bytes).unwrap();
    let (mut key, mut types, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    encode_with_types(RawBsonRef::Document(document), Direction::Ascending, &mut key, &mut types);
    let element = decode_bytes(&mut &key[..], Direction::Ascending, &mut &types[..], &mut decoded);
    assert_eq!((element, decoded), (Ok(ElementType::EmbeddedDocument), bytes));
}

#[track_caller]
fn check_malformed(key: &[u8], expected: &Error) {
    assert_eq!(decode_canonical(&mut &key[..], Direction::Ascending).as_ref(), Err(expected));
    let complement: Vec<u8> = key.iter().map(|byte| !byte).collect();
    assert_eq!(decode_canonical(&mut &complement[..], Direction::Descending).as_ref(), Err(expected));
}

#[test]
fn malformed_keys_are_errors() {
    let malformed = |expected, value| Error::KeyMalformed { expected, value };
    check_malformed(b"", &Error::KeyTruncated);
    check_malformed(b"\x00", &malformed("a tag", 0x00));
    check_malformed(b"\x24", &malformed("a tag", 0x24));
    check_malformed(b"\x28a", &Error::KeyTruncated);
    check_malformed(b"\x28\xff\x00", &malformed("UTF-8", 0xff));
    check_malformed(b"\x30\x18\x01\x01\x00\x18\x00", &malformed("a name or pattern without zeros", 0));
    check_malformed(b"\x30\x20a\x00\x18\x00", &malformed("a value of the class before its name", 0x18));
    check_malformed(b"\x40\x03\x02abc", &malformed("a length of at least 4", 2));
    check_malformed(b"\x40\xff\x7f\xff\xff\xff\x00", &Error::KeyTruncated);
    check_malformed(b"\x40\xff\xff\xff\xff\xff\x00", &malformed("a length below 2 GiB", 0xff));
    check_malformed(b"\x23\x00\x00\x00\x00\x00", &malformed("a number in its one form", 0x23));
    check_malformed(b"\x23\xff\xe0\x00\x00\x02", &malformed("a number in its one form", 0x23));
    check_malformed(b"\x23\x7f\xe0\x00\x00\x01\x00\x00\x00\x00", &malformed("more of a number", 0x23));
    check_malformed(b"\x23\x7f\xe0\x00\x00\x01\x00\x00\x01\x02", &malformed("0 or 1 after a double", 2));
}

#[test]
fn numbers_are_read_in_one_form_only() {
    // The value 1 with digits, which are for what no double is.
    let digits = b"\x23\x7f\xe0\x00\x00\x01\x00\x00\x00\x01\x18\x20\x0b\xeb\xc2\x00";
    check_malformed(digits, &Error::KeyMalformed { expected: "a number in its one form", value: 0x23 });
    // 2^53 and two units, which is the next double.
    let units = b"\x23\x86\x80\x00\x00\x01\x00\x00\x00\x00\x04";
    check_malformed(units, &Error::KeyMalformed { expected: "a number in its one form", value: 0x23 });
    // A number of five groups of digits.
    let mut groups = b"\x23\x7f\x73\x33\x33\x33\x99\x99\x99\x01\x18\x1f".to_vec();
    groups.extend([0x0b, 0xeb, 0xc2, 0x01].repeat(5));
    check_malformed(&groups, &Error::KeyMalformed { expected: "a group of nine digits", value: 0x0b });
    // The decimal 1E+6145, which is beyond all decimals.
    let beyond = b"\x23\xff\xdf\xff\xff\xff\xff\xff\xff\x01\x30\x21\x0b\xeb\xc2\x00";
    check_malformed(beyond, &Error::KeyNumberUnrepresentable);
}

#[test]
fn type_bytes_that_do_not_fit_are_errors() {
    let check = |value: Bson, types: &[u8], expected| {
        let (key, _) = encoded(&value, Direction::Ascending);
        let decoded = decode(&mut &key[..], Direction::Ascending, &mut &types[..]);
        assert_eq!(decoded, Err(Error::TypesMalformed { expected }));
    };
    check(1.into(), &[], "more of them");
    check(1.into(), &[TYPE_STRING], "a type of number");
    check(1.into(), &[0x0f], "a type of number");
    check(1.into(), &[TYPE_DECIMAL + 34], "a type of number");
    check(1.into(), &[TYPE_DOUBLE_NEGATIVE_ZERO], "a double of equal value");
    check(1.into(), &[TYPE_DECIMAL_ZERO, 0, 0], "a decimal of equal value");
    check(0.into(), &[TYPE_DECIMAL_ZERO, 0x70, 0], "a decimal zero");
    check(0.into(), &[TYPE_DECIMAL], "a decimal");
    check(decimal("9999999999999999999999999999999999"), &[TYPE_DECIMAL + 1], "a decimal");
    check(1.5.into(), &[TYPE_INT32], "an int32");
    check(3_000_000_000_i64.into(), &[TYPE_INT32], "an int32");
    check(1.5.into(), &[TYPE_INT64], "an int64");
    check(decimal("0.1"), &[TYPE_DOUBLE], "a double");
    check(f64::NAN.into(), &[TYPE_DOUBLE], "a double");
    check("a".into(), &[TYPE_INT32], "string or symbol");
}

#[test]
fn deep_nesting_is_encoded_and_refused_by_decode() {
    for element_type in [0x03, 0x04] {
        let bytes = nested(100_000, element_type);
        let document = RawDocument::from_bytes(&bytes).unwrap();
        let (mut key, mut types) = (Vec::new(), Vec::new());
        encode_with_types(RawBsonRef::Document(document), Direction::Ascending, &mut key, &mut types);
        assert_eq!(skip(&key, Direction::Ascending), Ok(key.len()));
        let refused = decode(&mut &key[..], Direction::Ascending, &mut &types[..]);
        assert_eq!(refused, Err(Error::KeyTooDeep { limit: DECODE_DEPTH_MAX }));
        let deepest = nested(DECODE_DEPTH_MAX - 1, element_type);
        let deepest = RawDocument::from_bytes(&deepest).unwrap();
        let (mut key, mut types) = (Vec::new(), Vec::new());
        encode_with_types(RawBsonRef::Document(deepest), Direction::Ascending, &mut key, &mut types);
        decode(&mut &key[..], Direction::Ascending, &mut &types[..]).unwrap();
    }
}

#[test]
fn first_bytes_follow_the_classes() {
    let mut previous = 0;
    for class in CLASSES {
        let range = first_bytes(class);
        assert!(previous < *range.start() && range.start() <= range.end());
        assert_eq!(range.start() & CLASS_MASK, range.end() & CLASS_MASK);
        previous = *range.end();
    }
    assert!(previous < 0xff);
}

const CLASSES: [TypeClass; 17] = [
    TypeClass::MinKey,
    TypeClass::Undefined,
    TypeClass::Null,
    TypeClass::Number,
    TypeClass::String,
    TypeClass::Object,
    TypeClass::Array,
    TypeClass::Binary,
    TypeClass::ObjectId,
    TypeClass::Boolean,
    TypeClass::Date,
    TypeClass::Timestamp,
    TypeClass::RegularExpression,
    TypeClass::DbPointer,
    TypeClass::Code,
    TypeClass::CodeWithScope,
    TypeClass::MaxKey,
];

proptest! {
    #[test]
    fn keys_sort_as_values(left in any_value(), right in any_value()) {
        check_order(std::slice::from_ref(&left), std::slice::from_ref(&right), &[Direction::Ascending]);
        check_order(&[left], &[right], &[Direction::Descending]);
    }

    #[test]
    fn keys_of_numbers_sort_as_numbers(left in any_number(), right in any_number()) {
        check_order(std::slice::from_ref(&left), std::slice::from_ref(&right), &[Direction::Ascending]);
        check_order(&[left], &[right], &[Direction::Descending]);
    }

    #[test]
    fn compound_keys_sort_field_by_field(
        left in prop::collection::vec(any_value(), 3),
        mut right in prop::collection::vec(any_value(), 3),
        shared in 0..3_usize,
        directions in prop::collection::vec(prop::sample::select(BOTH.to_vec()), 3),
    ) {
        right[..shared].clone_from_slice(&left[..shared]);
        check_order(&left, &right, &directions);
    }

    #[test]
    fn no_key_is_a_prefix_of_another(left in any_value(), right in any_value()) {
        let (left, right) = (encoded(&left, Direction::Ascending).0, encoded(&right, Direction::Ascending).0);
        prop_assert!(left == right || !(left.starts_with(&right) || right.starts_with(&left)));
    }

    #[test]
    fn values_come_back_exactly(value in any_value()) {
        check_round_trip(&value, Direction::Ascending);
        check_round_trip(&value, Direction::Descending);
    }

    #[test]
    fn numbers_come_back_exactly(value in any_number()) {
        check_round_trip(&value, Direction::Ascending);
        check_round_trip(&value, Direction::Descending);
    }

    #[test]
    fn keys_do_not_depend_on_the_types(value in any_value()) {
        let raw = Raw::new(&value);
        let mut key = Vec::new();
        encode(raw.value(), Direction::Ascending, &mut key);
        prop_assert!(first_bytes(type_class(raw.value())).contains(&key[0]));
        prop_assert_eq!(key, encoded(&value, Direction::Ascending).0);
    }

    #[test]
    fn an_integer_by_itself_has_the_same_key(integer in prop_oneof![any::<i64>(), -3_i64..3, -1_i64 << 30..1 << 30]) {
        let mut key = Vec::new();
        encode_integer(integer, &mut key);
        prop_assert_eq!(key, encoded(&integer.into(), Direction::Ascending).0);
        let mut of_number = Vec::new();
        number::write_number(Number::from_i64(integer), &mut of_number);
        prop_assert_eq!(of_number, encoded(&integer.into(), Direction::Ascending).0);
    }

    #[test]
    fn common_numbers_are_short(value in any_double(), integer: i64) {
        prop_assert!(encoded(&value.into(), Direction::Ascending).0.len() <= 11);
        prop_assert!(encoded(&integer.into(), Direction::Ascending).0.len() <= 11);
    }

    #[test]
    fn any_bytes_decode_without_a_panic(
        key in prop::collection::vec(any::<u8>(), 0..40),
        types in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        for direction in BOTH {
            check_decodes_safely(&key, &types, direction);
        }
    }

    #[test]
    fn damaged_keys_decode_without_a_panic(
        value in any_value(),
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (mut key, types) = encoded(&value, Direction::Ascending);
        let len = key.len();
        for (place, byte) in faults {
            key[place.index(len)] = byte;
        }
        check_decodes_safely(&key, &types, Direction::Ascending);
    }
}

/// Bytes that decode at all decode to a value whose key is these bytes.
fn check_decodes_safely(key: &[u8], types: &[u8], direction: Direction) {
    let mut rest = key;
    if let Ok(value) = decode_canonical(&mut rest, direction) {
        let read = key.len() - rest.len();
        assert_eq!(skip(key, direction), Ok(read));
        let again = encoded(&value, direction).0;
        let duplicates =
            matches!(value, Bson::Document(_) | Bson::Array(_) | Bson::JavaScriptCodeWithScope(_));
        // A tree keeps one value of two under one name, and options in alphabetical order.
        assert!(again == key[..read] || duplicates || matches!(value, Bson::RegularExpression(_)));
    }
    let (mut rest, mut types, mut document) = (key, types, Vec::new());
    if decode_bytes(&mut rest, direction, &mut types, &mut document).is_ok() {
        assert_eq!(skip(key, direction), Ok(key.len() - rest.len()));
        assert!(document.len() <= 16 + 12 * key.len());
    }
}
