//! Strategies for arbitrary BSON values of every type, shared by the property tests of this crate.
//!
//! Values are drawn from small pools and their neighborhoods, so that two of them often are equal
//! or nearly so; the rest is drawn evenly from everything that there is.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{
    Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, RawBsonRef, RawDocument,
    RawDocumentBuf, Regex, Timestamp,
};
use proptest::prelude::*;
use proptest::sample::select;

/// A value in its stored form.
#[derive(Clone, Debug)]
pub(crate) struct Raw(RawDocumentBuf);

impl Raw {
    pub(crate) fn new(value: &Bson) -> Self {
        let document: Document = [(String::new(), value.clone())].into_iter().collect();
        Self(RawDocumentBuf::try_from(&document).unwrap())
    }

    pub(crate) fn value(&self) -> RawBsonRef<'_> {
        self.0.iter().next().unwrap().unwrap().1
    }
}

/// A deprecated pointer, which `bson` makes only from stored bytes.
pub(crate) fn db_pointer(namespace: &str, id: [u8; 12]) -> Bson {
    let len = i32::try_from(namespace.len()).unwrap();
    let mut bytes = (4 + 2 + 4 + len + 1 + 12 + 1).to_le_bytes().to_vec();
    bytes.extend([0x0c, 0]);
    bytes.extend((len + 1).to_le_bytes());
    bytes.extend(namespace.as_bytes());
    bytes.push(0);
    bytes.extend(id);
    bytes.push(0);
    let value = RawDocument::from_bytes(&bytes).unwrap().iter().next().unwrap().unwrap().1;
    Bson::try_from(value).unwrap()
}

/// Documents (or arrays) that contain one another `levels` times, in stored form.
pub(crate) fn nested(levels: usize, element_type: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in (1..=levels).rev() {
        bytes.extend(i32::try_from(5 + 7 * level).unwrap().to_le_bytes());
        bytes.extend([element_type, 0]);
    }
    bytes.extend([5, 0, 0, 0, 0]);
    bytes.extend(vec![0; levels]);
    bytes
}

pub(crate) fn any_int64() -> impl Strategy<Value = i64> {
    let edges = vec![0, 1, 10, 1 << 24, 1 << 29, 1 << 31, 1 << 53, 1 << 54, 1 << 60, 1 << 62, i64::MAX - 1];
    let near = (select(edges), -2..=2_i64, any::<bool>());
    prop_oneof![
        3 => near.prop_map(|(edge, step, negate)| {
            let value = edge.wrapping_add(step);
            if negate { value.wrapping_neg() } else { value }
        }),
        2 => -20..20_i64,
        1 => any::<i64>(),
        1 => (any::<i64>(), 0..63).prop_map(|(value, shift)| value >> shift),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "any double will do")]
pub(crate) fn any_double() -> impl Strategy<Value = f64> {
    let edges = vec![
        0.0,
        0.1,
        0.5,
        1.0,
        1e15,
        1e22,
        1e23,
        9_007_199_254_740_992.0,
        9_223_372_036_854_775_808.0,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        f64::MAX,
        f64::INFINITY,
    ];
    let near = (select(edges), -2..=2_i64, any::<bool>());
    prop_oneof![
        3 => near.prop_map(|(edge, step, negate)| {
            let value = f64::from_bits(edge.to_bits().saturating_add_signed(step));
            if negate { -value } else { value }
        }),
        2 => any_int64().prop_map(|value| value as f64),
        2 => (-2000..2000_i32).prop_map(|value| f64::from(value) / 100.0),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => select(vec![0x7ff8_0000_0000_0000, 0xfff8_0000_0000_0001, 0x7ff0_0000_0000_0001]).prop_map(f64::from_bits),
    ]
}

pub(crate) fn any_decimal() -> impl Strategy<Value = Decimal128> {
    let special = vec!["NaN", "Infinity", "-Infinity", "0", "-0", "0E+6111", "-0.00"];
    let exponents = prop_oneof![
        4 => -20..5_i32,
        2 => -400..400_i32,
        1 => select(vec![-6176, -6175, -6143, 6111, 6110, -324, -323, -358, 308, 309, 275]),
        1 => -6176..=6111_i32,
    ];
    let coefficients = prop_oneof![
        3 => 0..2000_u128,
        2 => any_int64().prop_map(|value| u128::from(value.unsigned_abs())),
        2 => (1..10_u128, 0..34_u32, -1..=1_i8).prop_map(|(digit, zeros, step)| {
            (digit * 10_u128.pow(zeros)).saturating_add_signed(step.into())
        }),
        2 => 0..=crate::number::COEFFICIENT_MAX,
    ];
    prop_oneof![
        1 => select(special).prop_map(|text| text.parse().unwrap()),
        1 => any::<[u8; 16]>().prop_map(Decimal128::from_bytes),
        4 => (any::<bool>(), coefficients, exponents).prop_map(|(negative, coefficient, exponent)| {
            let coefficient = coefficient.min(crate::number::COEFFICIENT_MAX);
            crate::number::pack(negative, coefficient, exponent).unwrap()
        }),
        4 => (any_double(), 0..34_usize).prop_map(|(value, digits)| near_double(value, digits)),
    ]
}

/// The decimal that a double is, or is close to when cut to so many digits.
fn near_double(value: f64, digits: usize) -> Decimal128 {
    if value.is_finite() { format!("{value:.digits$e}").parse().unwrap() } else { "NaN".parse().unwrap() }
}

pub(crate) fn any_number() -> impl Strategy<Value = Bson> {
    prop_oneof![
        1 => (-20..20_i32).prop_map(Bson::Int32),
        1 => any::<i32>().prop_map(Bson::Int32),
        2 => any_int64().prop_map(Bson::Int64),
        3 => any_double().prop_map(Bson::Double),
        3 => any_decimal().prop_map(Bson::Decimal128),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => select(vec!["", "a", "b", "ab", "\0", "\u{1}", "a\0", "a\u{1}", "a\u{2}", "\u{7f}", "\u{80}", "\u{10ffff}"])
            .prop_map(String::from),
        1 => "[\0\u{1}\u{2}a]{0,5}",
        1 => any::<String>(),
        1 => "[ab]{14,18}",
    ]
}

fn any_cstring() -> impl Strategy<Value = String> {
    any_text().prop_map(|text| text.replace('\0', "0"))
}

fn any_binary() -> impl Strategy<Value = Binary> {
    let subtypes = prop_oneof![select(vec![0_u8, 2, 4, 0x80]), any::<u8>()];
    let bytes = prop_oneof![
        4 => prop::collection::vec(select(vec![0_u8, 1, 0x7f, 0xff]), 0..7),
        1 => prop::collection::vec(any::<u8>(), 248..260),
    ];
    (subtypes, bytes).prop_map(|(subtype, bytes)| Binary { subtype: BinarySubtype::from(subtype), bytes })
}

fn any_scalar() -> impl Strategy<Value = Bson> {
    let constants = vec![Bson::MinKey, Bson::MaxKey, Bson::Null, Bson::Undefined, false.into(), true.into()];
    let ids = prop_oneof![select(vec![[0; 12], [1; 12], [0xff; 12]]), any::<[u8; 12]>()];
    let timestamps = (prop_oneof![0..3_u32, any::<u32>()], prop_oneof![0..3_u32, any::<u32>()]);
    prop_oneof![
        2 => select(constants),
        4 => any_number(),
        2 => any_text().prop_map(Bson::String),
        1 => any_text().prop_map(Bson::Symbol),
        1 => any_binary().prop_map(Bson::Binary),
        1 => ids.clone().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        1 => any_int64().prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis))),
        1 => timestamps.prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        1 => (any_cstring(), "i?l?m?s?u?x?").prop_map(|(pattern, options)| {
            let (pattern, options) = (pattern.try_into().unwrap(), options.try_into().unwrap());
            Bson::RegularExpression(Regex { pattern, options })
        }),
        1 => (any_text(), ids).prop_map(|(namespace, id)| db_pointer(&namespace, id)),
        1 => any_text().prop_map(Bson::JavaScriptCode),
    ]
}

/// Values of every type, nested a few levels deep.
pub(crate) fn any_value() -> impl Strategy<Value = Bson> {
    any_scalar().prop_recursive(4, 24, 4, |inner| {
        let pairs = prop::collection::vec((any_cstring(), inner.clone()), 0..4);
        let documents = pairs.prop_map(Document::from_iter).boxed();
        prop_oneof![
            2 => documents.clone().prop_map(Bson::Document),
            2 => prop::collection::vec(inner, 0..4).prop_map(Bson::Array),
            1 => (any_text(), documents).prop_map(|(code, scope)| {
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
            }),
        ]
    })
}

/// Values whose encodings have about as many bytes as a key has of one, with twins that differ just before and after there.
pub(crate) fn long_value() -> impl Strategy<Value = Bson> {
    let text = (1018..=1028_usize, select(vec![0, 1, 2, 3, 1500]), select(vec!["", "a", "b"]));
    let text = text.prop_map(|(len, more, last)| format!("{}{}{last}", "x".repeat(len), "y".repeat(more)));
    let binary = (1016..=1022_usize, 0..2_u8).prop_map(|(len, last)| {
        let bytes = [vec![7; len], vec![last]].concat();
        Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes })
    });
    let scalar = prop_oneof![4 => text.prop_map(Bson::String), 1 => binary];
    scalar.prop_flat_map(|value| {
        let nested: Document =
            [("a".to_owned(), value.clone()), ("b".to_owned(), Bson::Int32(1))].into_iter().collect();
        select(vec![
            value.clone(),
            value.clone(),
            Bson::Document(nested),
            Bson::Array(vec![value, Bson::Null]),
        ])
    })
}

/// Values of every length.
pub(crate) fn value_of_any_length() -> impl Strategy<Value = Bson> {
    prop_oneof![3 => long_value(), 1 => any_value()]
}
