//! Values as MongoDB's messages print them, in the notation of its shell.

use std::fmt::Write;

use bson::{Bson, Document};
use index::collation::key_bytes;

/// Prints fields as `{ a: 1, b: "x" }`.
pub(crate) fn print_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Bson)>) -> String {
    let mut text = String::new();
    write_fields(&mut text, fields);
    text
}

/// Prints one value.
pub(crate) fn print_value(value: &Bson) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// A value of a key that has sort keys in place of texts, with each of them as a hexadecimal number.
pub(crate) fn with_sort_keys_shown(value: Bson) -> Bson {
    // Decoded from a key, so the depth is bounded as above.
    if let Bson::String(text) | Bson::Symbol(text) = value {
        return Bson::String(sort_key(&text));
    }
    let fields = |document: Document| {
        document.into_iter().map(|(name, value)| (name, with_sort_keys_shown(value))).collect()
    };
    if let Bson::Document(document) = value {
        return Bson::Document(fields(document));
    }
    if let Bson::JavaScriptCodeWithScope(mut code) = value {
        code.scope = fields(code.scope);
        return Bson::JavaScriptCodeWithScope(code);
    }
    if let Bson::Array(items) = value {
        return Bson::Array(items.into_iter().map(with_sort_keys_shown).collect());
    }
    value
}

fn sort_key(text: &str) -> String {
    let mut shown = "0x".to_owned();
    for byte in key_bytes(text) {
        // Writing to a string cannot fail.
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

fn write_fields<'a>(text: &mut String, fields: impl IntoIterator<Item = (&'a str, &'a Bson)>) {
    let mut separator = "{ ";
    for (name, value) in fields {
        text.push_str(separator);
        text.push_str(name);
        text.push_str(": ");
        write_value(text, value);
        separator = ", ";
    }
    // Nothing was written yet: MongoDB prints an empty document without the space.
    text.push_str(if separator == "{ " { "{}" } else { " }" });
}

/// Prints a value and the values inside it. They come from validated documents, so their depth is bounded and the
/// recursion is safe.
fn write_value(text: &mut String, value: &Bson) {
    match value {
        Bson::String(string) | Bson::Symbol(string) => write_quoted(text, string),
        Bson::Document(document) => {
            write_fields(text, document.iter().map(|(name, value)| (name.as_str(), value)));
        }
        Bson::Array(items) => write_array(text, items),
        Bson::Double(_)
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
        | Bson::Decimal128(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => text.push_str(&scalar(value)),
    }
}

fn write_array(text: &mut String, items: &[Bson]) {
    let mut separator = "[ ";
    for item in items {
        text.push_str(separator);
        write_value(text, item);
        separator = ", ";
    }
    text.push_str(if separator == "[ " { "[]" } else { " ]" });
}

fn scalar(value: &Bson) -> String {
    match value {
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) => print_double(*number),
        Bson::Boolean(flag) => flag.to_string(),
        Bson::Null => "null".to_owned(),
        Bson::ObjectId(id) => format!("ObjectId('{id}')"),
        Bson::DateTime(date) => format!("new Date({})", date.timestamp_millis()),
        Bson::Timestamp(at) => format!("Timestamp({}, {})", at.time, at.increment),
        Bson::Decimal128(number) => format!("Decimal128('{number}')"),
        Bson::Binary(binary) => {
            // MongoDB's messages have the bytes as digits, unlike its shell.
            let hexadecimal = binary.bytes.iter().fold(String::new(), |mut text, byte| {
                // Writing to a `String` cannot fail.
                let _ = write!(text, "{byte:02X}");
                text
            });
            format!("BinData({}, {hexadecimal})", u8::from(binary.subtype))
        }
        Bson::RegularExpression(regex) => format!("/{}/{}", regex.pattern, regex.options),
        Bson::Undefined => "undefined".to_owned(),
        Bson::MinKey => "MinKey".to_owned(),
        Bson::MaxKey => "MaxKey".to_owned(),
        // Code and pointers in `bson`'s notation. The others are printed by `write_value`, and are named here so that a new
        // type breaks the build.
        Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::DbPointer(_)
        | Bson::String(_)
        | Bson::Symbol(_)
        | Bson::Document(_)
        | Bson::Array(_) => value.to_string(),
    }
}

fn print_double(number: f64) -> String {
    // A whole double keeps its point, so that it is distinguished from an integer.
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{number:.1}") } else { number.to_string() }
}

fn write_quoted(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use bson::{bson, oid::ObjectId};

    use super::*;

    #[track_caller]
    fn check(value: &Bson, expected: &str) {
        assert_eq!(print_fields([("a", value)]), format!("{{ a: {expected} }}"));
    }

    #[test]
    fn values_print_in_shell_notation() {
        check(&bson!(1), "1");
        check(&bson!(1.0), "1.0");
        check(&bson!(1.5), "1.5");
        check(&bson!("x\"y"), "\"x\\\"y\"");
        check(&bson!(null), "null");
        check(&bson!(true), "true");
        check(&bson!([1, "b"]), "[ 1, \"b\" ]");
        check(&bson!([]), "[]");
        check(&bson!({ "b": { "c": 1 } }), "{ b: { c: 1 } }");
        check(&Bson::ObjectId(ObjectId::from_bytes([0xab; 12])), "ObjectId('abababababababababababab')");
        check(&Bson::DateTime(bson::DateTime::from_millis(5)), "new Date(5)");
    }

    #[test]
    fn no_fields_print_as_an_empty_document() {
        assert_eq!(print_fields([]), "{}");
    }
}
