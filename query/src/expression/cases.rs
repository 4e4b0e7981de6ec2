//! The common parts of the tables of cases: one document, and checks of one line.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, RawBson, RawDocumentBuf, Regex, doc};

use crate::expression::error::Error;
use crate::expression::{Expression, Variables};

/// The document that all cases are evaluated for.
pub(crate) fn document() -> RawDocumentBuf {
    let document = doc! {
        "_id": bson::oid::ObjectId::parse_str("64b7f0c0a1b2c3d4e5f60718").unwrap(),
        "n": 5,
        "zero": 0,
        "null": null,
        "text": "Héllo",
        "pattern": "^H",
        "list": [3, 1, 2],
        "object": { "a": 1, "b": 2, "c": { "d": [1, 2] } },
        "items": [{ "price": 2, "tags": ["x", "y"] }, { "price": 3 }, 7, [{ "price": 9 }]],
        "a.b": "dotted",
        "$price": 9,
    };
    RawDocumentBuf::try_from(&document).unwrap()
}

pub(crate) fn evaluate(expression: &Bson) -> Result<Option<RawBson>, Error> {
    let expression = RawBson::try_from(expression.clone()).unwrap();
    let variables = Variables::new(DateTime::from_millis(1_000));
    Expression::parse(expression.as_raw_bson_ref(), &variables)?.evaluate(&document(), &variables)
}

/// Compares bytes, because comparing values would not distinguish types, NaNs and zeros.
#[track_caller]
pub(crate) fn check(expression: impl Into<Bson>, expected: impl Into<Bson>) {
    let (expression, expected) = (expression.into(), RawBson::try_from(expected.into()).unwrap());
    let found = evaluate(&expression);
    let found = found.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let shown = found.clone().map(|value| Bson::try_from(value).unwrap().to_string());
    assert_eq!(format!("{found:?}"), format!("{:?}", Some(expected)), "{expression} is {shown:?}");
}

#[track_caller]
pub(crate) fn check_missing(expression: impl Into<Bson>) {
    let expression = expression.into();
    assert_eq!(evaluate(&expression).unwrap(), None, "{expression}");
}

#[track_caller]
pub(crate) fn check_error(expression: impl Into<Bson>, code: i32) {
    let expression = expression.into();
    match evaluate(&expression) {
        Ok(value) => panic!("{expression} is {value:?}"),
        Err(error) => {
            assert_eq!(error.code(), code, "{expression}: {error}");
            assert!(error.to_string().len() < 2_000, "{error}");
        }
    }
}

pub(crate) fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().unwrap())
}

pub(crate) fn millis(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}

pub(crate) fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

pub(crate) fn regex(pattern: &str, options: &str) -> Bson {
    let text = |text: &str| bson::raw::CString::try_from(text.to_owned()).unwrap();
    Bson::RegularExpression(Regex { pattern: text(pattern), options: text(options) })
}
