//! Values of cases: from Extended JSON to BSON, and when two are the same.
//!
//! Same means the same bytes: an int32 is not an int64, 0 is not -0, a decimal keeps its zeros, and fields keep their
//! order. Only a NaN is every NaN.

use bson::{Bson, Decimal128, Document, RawDocumentBuf};

use crate::conformance::json::Json;

/// Stands for the value of an expression that has none.
const MISSING: &str = "$missing";

/// A document from Extended JSON.
pub(crate) fn document(value: &Json) -> Result<Document, String> {
    let value = value.bson()?;
    value.as_document().cloned().ok_or_else(|| format!("{value} is no document"))
}

/// A value, or none where the case says that it is missing.
pub(crate) fn optional(value: &Json) -> Result<Option<Bson>, String> {
    if value.get(MISSING).is_some() { Ok(None) } else { value.bson().map(Some) }
}

/// A document as bytes.
pub(crate) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("cases have documents that can be written")
}

/// Whether two values are the same by type, value and order of fields.
pub(crate) fn is_same(left: &Bson, right: &Bson) -> bool {
    let bytes = |value: &Bson| raw(&bson::doc! { "": normal(value) }).into_bytes();
    bytes(left) == bytes(right)
}

/// A value as Extended JSON in which every type shows.
pub(crate) fn show(value: &Bson) -> String {
    value.clone().into_canonical_extjson().to_string()
}

/// The value with one NaN for all.
fn normal(value: &Bson) -> Bson {
    match value {
        Bson::Double(number) if number.is_nan() => Bson::Double(f64::NAN),
        Bson::Decimal128(number) if number.to_string() == "NaN" => {
            Bson::Decimal128("NaN".parse::<Decimal128>().expect("a decimal"))
        }
        Bson::Array(elements) => Bson::Array(elements.iter().map(normal).collect()),
        Bson::Document(fields) => {
            Bson::Document(fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect())
        }
        Bson::Double(_)
        | Bson::Decimal128(_)
        | Bson::String(_)
        | Bson::Boolean(_)
        | Bson::Null
        | Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Int32(_)
        | Bson::Int64(_)
        | Bson::Timestamp(_)
        | Bson::Binary(_)
        | Bson::ObjectId(_)
        | Bson::DateTime(_)
        | Bson::Symbol(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[track_caller]
    fn check(left: &str, right: &str, expected: bool) {
        assert_eq!(
            is_same(&json(left).bson().unwrap(), &json(right).bson().unwrap()),
            expected,
            "{left} and {right}"
        );
    }

    #[test]
    fn types_and_order_count() {
        check("1", r#"{ "$numberInt": "1" }"#, true);
        check("1", r#"{ "$numberLong": "1" }"#, false);
        check("1", "1.0", false);
        check("0.0", "-0.0", false);
        check(r#"{ "a": 1, "b": 2 }"#, r#"{ "b": 2, "a": 1 }"#, false);
        check(r#"{ "$numberDecimal": "1.0" }"#, r#"{ "$numberDecimal": "1.00" }"#, false);
    }

    #[test]
    fn a_nan_is_every_nan() {
        let negative = Bson::Array(vec![Bson::Double(-f64::NAN)]);
        assert!(is_same(&negative, &json(r#"[{ "$numberDouble": "NaN" }]"#).bson().unwrap()));
    }

    #[test]
    fn a_missing_value_is_no_value() {
        assert_eq!(optional(&json(r#"{ "$missing": true }"#)), Ok(None));
        assert_eq!(optional(&json("null")), Ok(Some(Bson::Null)));
    }
}
