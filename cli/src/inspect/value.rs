//! The `_id` that a command line names: Extended JSON, or as MongoDB's shell writes it.

use cairndb::bson::Bson;
use cairndb::bson::oid::ObjectId;
use formats::parse::json_value;

use crate::failure::Failure;

/// Reads an `_id`.
pub(super) fn id(text: &str) -> Result<Bson, Failure> {
    let text = text.trim();
    // Before JSON: of digits alone it would be a number that no one has as an `_id`.
    if let Ok(id) = ObjectId::parse_str(text) {
        return Ok(Bson::ObjectId(id));
    }
    let json = call(text).unwrap_or_else(|| text.to_owned());
    json_value(&json).map_err(|error| {
        Failure::usage(format!(
            "--id is not a value: {error}: {text}; a string needs quotes within those of the command line, as in --id '\"{}\"'",
            text.trim_matches(['"', '\''])
        ))
    })
}

/// A call of the shell's language as Extended JSON.
fn call(text: &str) -> Option<String> {
    let (name, argument) = text.strip_suffix(')')?.split_once('(')?;
    let argument = argument.trim();
    let bare = argument.trim_matches(['"', '\'']);
    // Whatever else is in it would end the text of JSON.
    if bare.contains(['"', '\\', '\'']) {
        return None;
    }
    match name.trim() {
        "ObjectId" => Some(format!("{{\"$oid\":\"{bare}\"}}")),
        "UUID" => Some(format!("{{\"$uuid\":\"{bare}\"}}")),
        "ISODate" | "Date" => Some(format!("{{\"$date\":\"{bare}\"}}")),
        "NumberDecimal" | "Decimal128" => Some(format!("{{\"$numberDecimal\":\"{bare}\"}}")),
        "NumberLong" | "Long" => Some(format!("{{\"$numberLong\":\"{bare}\"}}")),
        "NumberInt" | "Int32" => Some(format!("{{\"$numberInt\":\"{bare}\"}}")),
        "Double" => Some(format!("{{\"$numberDouble\":\"{bare}\"}}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn an_id_is_extended_json_or_as_the_shell_writes_it() {
        let oid = ObjectId::from_bytes([0x67; 12]);
        let check = |text: &str, expected: Bson| assert_eq!(id(text).ok(), Some(expected), "{text}");
        check("4711", Bson::Int32(4711));
        check("-1", Bson::Int32(-1));
        check("1.5", Bson::Double(1.5));
        check("\"a b\"", Bson::String("a b".to_owned()));
        check("null", Bson::Null);
        check("{\"a\": 1}", Bson::Document(doc! { "a": 1 }));
        check("676767676767676767676767", oid.into());
        check("ObjectId('676767676767676767676767')", oid.into());
        check("{\"$oid\": \"676767676767676767676767\"}", oid.into());
        check("NumberLong(5)", Bson::Int64(5));
        check("NumberDecimal(\"1.5\")", Bson::Decimal128("1.5".parse().unwrap()));
        check("ISODate(\"1970-01-01T00:00:00.001Z\")", DateTime::from_millis(1).into());
        for text in [
            "",
            "abc",
            "NumberDecimal(\"\")",
            "NumberDecimal(\"++1\")",
            "ObjectId('6767')",
            "ObjectId(",
            "f(1)",
            "{",
            "ObjectId(\"a\\\"\")",
        ] {
            assert!(id(text).is_err(), "{text}");
        }
    }
}
