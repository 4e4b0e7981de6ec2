//! JSON to BSON and back: plain JSON, and MongoDB's Extended JSON (version 2) in both of its forms.
//!
//! Fields keep their order, which a `serde_json::Value` would lose. An object whose first field starts with `$` can stand for
//! a value, such as `{"$oid": ".."}` for an `ObjectId`; the `bson` crate knows which do, and refuses malformed ones. A field
//! that occurs twice, or an integer of more than 64 bits, is refused.

use cairndb::bson::{self, Bson, Document, RawDocumentBuf};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// One value of JSON text.
pub(crate) struct Json(pub(crate) Bson);

/// Parses a line of text to a document. The error is the reason why it is not one.
pub(crate) fn parse(text: &[u8]) -> Result<RawDocumentBuf, String> {
    let Json(value) = serde_json::from_slice(text).map_err(|error| on_one_line(&error))?;
    let Bson::Document(document) = value else {
        return Err("it is a single value, not a document".to_owned());
    };
    RawDocumentBuf::try_from(&document).map_err(|error| reason(&error))
}

/// The reason of an error, without its kind.
fn reason(error: &bson::error::Error) -> String {
    error.message.clone().unwrap_or_else(|| error.to_string())
}

/// The text of an error without the line number, which would always be 1.
fn on_one_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

/// Writes Extended JSON in its relaxed form, with fields in their order.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Shown(&self.0).serialize(serializer)
    }
}

struct Shown<'a>(&'a Bson);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Bson::Document(document) = self.0 {
            serializer.collect_map(document.iter().map(|(name, value)| (name, Shown(value))))
        } else if let Bson::Array(elements) = self.0 {
            serializer.collect_seq(elements.iter().map(Shown))
        } else {
            self.0.clone().into_relaxed_extjson().serialize(serializer)
        }
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Bson;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Bson, E> {
        Ok(Bson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Bson, E> {
        Ok(Bson::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Bson, E> {
        Ok(i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Bson, E> {
        let signed = i64::try_from(value);
        self.visit_i64(signed.map_err(|_| E::custom(format_args!("{value} is beyond 64-bit integers")))?)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Bson, E> {
        Ok(Bson::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Bson, E> {
        Ok(Bson::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Bson, E> {
        Ok(Bson::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Bson, A::Error> {
        let mut array = Vec::new();
        while let Some(Json(element)) = elements.next_element()? {
            array.push(element);
        }
        Ok(Bson::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Bson, A::Error> {
        let mut document = Document::new();
        while let Some(name) = fields.next_key::<String>()? {
            if document.is_empty() && name.starts_with('$') {
                return extended(name, fields);
            }
            if document.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the field {name:?} occurs twice")));
            }
            let Json(value) = fields.next_value()?;
            document.insert(name, value);
        }
        Ok(Bson::Document(document))
    }
}

/// The value that an object with the first field `name` stands for.
fn extended<'de, A: MapAccess<'de>>(name: String, mut fields: A) -> Result<Bson, A::Error> {
    let mut object = Map::new();
    object.insert(name, fields.next_value()?);
    while let Some((name, value)) = fields.next_entry::<String, Value>()? {
        object.insert(name, value);
    }
    Bson::try_from(object).map_err(|error| A::Error::custom(reason(&error)))
}
