//! JSON whose objects keep the order of their fields, and Extended JSON as BSON.

use std::fmt;

use bson::Bson;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// First names of objects that mean a value of another type.
const WRAPPERS: [&str; 17] = [
    "$binary",
    "$code",
    "$date",
    "$dbPointer",
    "$maxKey",
    "$minKey",
    "$numberDecimal",
    "$numberDouble",
    "$numberInt",
    "$numberLong",
    "$oid",
    "$regularExpression",
    "$scope",
    "$symbol",
    "$timestamp",
    "$undefined",
    "$uuid",
];

/// A JSON value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The field of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.fields()?.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The members of a list.
    pub(crate) fn list(&self) -> Option<&[Self]> {
        if let Self::List(members) = self { Some(members) } else { None }
    }

    fn fields(&self) -> Option<&[(String, Self)]> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    /// The value that this is as Extended JSON.
    pub(crate) fn bson(&self) -> Result<Bson, String> {
        match self {
            Self::Object(fields) if !is_wrapper(fields) => {
                let fields = fields.iter().map(|(name, value)| Ok((name.clone(), value.bson()?)));
                Ok(Bson::Document(fields.collect::<Result<_, String>>()?))
            }
            Self::List(members) => Ok(Bson::Array(members.iter().map(Self::bson).collect::<Result<_, _>>()?)),
            Self::Null | Self::Boolean(_) | Self::Number(_) | Self::Text(_) | Self::Object(_) => {
                let value = self.unordered();
                Bson::try_from(value.clone()).map_err(|error| format!("{value}: {error}"))
            }
        }
    }

    /// The same without the order of fields.
    fn unordered(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(value.clone()),
            Self::Text(value) => Value::String(value.clone()),
            Self::List(members) => members.iter().map(Self::unordered).collect(),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(name, value)| (name.clone(), value.unordered())).collect())
            }
        }
    }
}

fn is_wrapper(fields: &[(String, Json)]) -> bool {
    fields.first().is_some_and(|(name, _)| WRAPPERS.contains(&name.as_str()))
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_element()? {
            list.push(member);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Bson) {
        assert_eq!(serde_json::from_str::<Json>(text).unwrap().bson(), Ok(expected), "{text}");
    }

    #[test]
    fn fields_keep_their_order() {
        check(
            r#"{ "b": 1, "a": [{ "d": null, "c": true }] }"#,
            bson::bson!({ "b": 1, "a": [{ "d": null, "c": true }] }),
        );
    }

    #[test]
    fn wrapped_values_are_what_they_stand_for() {
        check(r#"{ "a": { "$numberLong": "5" } }"#, bson::bson!({ "a": 5_i64 }));
        check(r#"{ "$minKey": 1 }"#, Bson::MinKey);
        check("-0.0", Bson::Double(-0.0));
        check("2147483648", Bson::Int64(2_147_483_648));
    }

    #[test]
    fn operators_are_names_like_any_other() {
        check(r#"{ "$gt": 1, "$lt": 5 }"#, bson::bson!({ "$gt": 1, "$lt": 5 }));
    }
}
