//! The rejections before there is a document, what a document rejects, and limits of the result.

use bson::{Bson, Document, RawDocument, bson, doc};
use cairndb_query::update::error::Error;
use cairndb_query::update::{Phase, Update, is_replacement};

use crate::update::{check, check_error, check_unchanged, context, raw};

#[track_caller]
fn check_replacement(update: &Document, expected: Result<bool, i32>) {
    assert_eq!(is_replacement(&raw(update)).map_err(|error| error.code().number()), expected, "{update}");
}

#[test]
fn replacements_have_plain_fields() {
    check_replacement(&doc! {}, Ok(true));
    check_replacement(&doc! { "a": 1, "b": { "$set": 1 } }, Ok(true));
    check_replacement(&doc! { "a": 1, "$id": 1 }, Ok(true));
    check_replacement(&doc! { "$set": {} }, Ok(false));
    check_replacement(&doc! { "a": 1, "$set": {} }, Err(52));
    check_replacement(&doc! { "$set": {}, "a": 1 }, Err(9));
}

#[test]
fn updates_have_operators() {
    check_error(&doc! {}, &doc! {}, 9, "the update has no operators, so that it is a replacement");
    check_error(&doc! { "$foo": { "a": 1 } }, &doc! {}, 9, "unknown modifier: $foo");
    check_error(&doc! { "$set": {}, "b": 1 }, &doc! {}, 9, "unknown modifier: b");
    check_error(&doc! { "$set": 5 }, &doc! {}, 9, "modifiers operate on fields but $set was given 5");
    check_error(
        &doc! { "$inc": [{ "a": 1 }] },
        &doc! {},
        9,
        "modifiers operate on fields but $inc was given an array",
    );
}

#[test]
fn paths_are_checked() {
    let text = |path: &str, fault: &str| format!("the update path '{path}' {fault}");
    check_error(&doc! { "$set": { "": 1 } }, &doc! {}, 56, &text("", "is empty"));
    let empty = "contains an empty field name, which is not allowed";
    check_error(&doc! { "$unset": { "a..b": 1 } }, &doc! {}, 56, &text("a..b", empty));
    check_error(&doc! { "$inc": { "a.": 1 } }, &doc! {}, 56, &text("a.", empty));
    let twice = "has too many positional (i.e. '$') elements";
    check_error(&doc! { "$set": { "a.$.b.$": 1 } }, &doc! {}, 2, &text("a.$.b.$", twice));
    let first = "has a positional element or an array filter identifier in the first position";
    check_error(&doc! { "$set": { "$.a": 1 } }, &doc! {}, 2, &text("$.a", first));
    check_error(&doc! { "$set": { "$[]": 1 } }, &doc! {}, 2, &text("$[]", first));
}

#[test]
fn top_level_fields_get_no_dollar_sign() {
    let text = "the dollar ($) prefixed field '$a' is not valid for storage";
    check_error(&doc! { "$set": { "$a": 1 } }, &doc! {}, 52, text);
    check_error(&doc! { "$inc": { "$a.b": 1 } }, &doc! {}, 52, text);
    check_error(&doc! { "$rename": { "b": "$a" } }, &doc! {}, 52, text);
    check(&doc! { "$unset": { "$a": 1 } }, &doc! { "$a": 1, "b": 2 }, &doc! { "b": 2 });
    check(&doc! { "$set": { "a.$b": 1 } }, &doc! {}, &doc! { "a": { "$b": 1 } });
}

#[test]
fn a_field_is_updated_once() {
    let conflict =
        |path: &str, at: &str| format!("Updating the path '{path}' would create a conflict at '{at}'");
    check_error(&doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } }, &doc! {}, 40, &conflict("a", "a"));
    check_error(&doc! { "$set": { "a.b": 1, "a": 1 } }, &doc! {}, 40, &conflict("a", "a"));
    check_error(&doc! { "$set": { "a": 1, "a.b": 1 } }, &doc! {}, 40, &conflict("a.b", "a"));
    check_error(
        &doc! { "$set": { "a.b.c": 1 }, "$unset": { "a.b.c": 1 } },
        &doc! {},
        40,
        &conflict("a.b.c", "a.b.c"),
    );
    check_error(&doc! { "$rename": { "a": "b" }, "$set": { "a": 1 } }, &doc! {}, 40, &conflict("a", "a"));
    check_error(&doc! { "$rename": { "a": "b" }, "$set": { "b.c": 1 } }, &doc! {}, 40, &conflict("b.c", "b"));
    check_error(&doc! { "$set": { "a.$[]": 0, "a.$": 0 } }, &doc! {}, 40, &conflict("a.$", "a"));
    check_error(&doc! { "$set": { "a.$[]": 0, "a.0": 0 } }, &doc! {}, 40, &conflict("a.0", "a"));
}

#[test]
fn the_id_stays() {
    let text = |path: &str| {
        format!("Performing an update on the path '{path}' would modify the immutable field '_id'")
    };
    let document = doc! { "_id": 1, "a": 2 };
    check_error(&doc! { "$set": { "_id": 2 } }, &document, 66, &text("_id"));
    check_error(&doc! { "$set": { "_id": 1_i64 } }, &document, 66, &text("_id"));
    check_error(&doc! { "$inc": { "_id": 1 } }, &document, 66, &text("_id"));
    check_error(&doc! { "$unset": { "_id": 1 } }, &document, 66, &text("_id"));
    check_error(&doc! { "$rename": { "_id": "b" } }, &document, 66, &text("_id"));
    check_error(&doc! { "$rename": { "a": "_id" } }, &document, 66, &text("_id"));
    check_error(&doc! { "$set": { "_id.b": 2 } }, &doc! { "_id": { "b": 1 } }, 66, &text("_id.b"));
    check_unchanged(&doc! { "$set": { "_id": 1 } }, &document);
    check_unchanged(&doc! { "$set": { "_id.b": 1 } }, &doc! { "_id": { "b": 1 } });
    check(&doc! { "$set": { "_id": 1, "a": 3 } }, &document, &doc! { "_id": 1, "a": 3 });
    check(&doc! { "$set": { "a._id": 3 } }, &doc! { "_id": 1 }, &doc! { "_id": 1, "a": { "_id": 3 } });
    let parsed = Update::parse(&raw(&doc! { "$setOnInsert": { "_id": 5 } }), &[]).unwrap();
    let inserted = parsed.apply(&raw(&doc! {}), &context(Phase::Insert)).unwrap();
    assert_eq!(inserted, Some(raw(&doc! { "_id": 5 })));
}

#[test]
fn dates_are_checked() {
    let check_operand = |operand: Bson, fault: &str| {
        let text = format!("malformed $currentDate of 'a': {fault}");
        check_error(&doc! { "$currentDate": { "a": operand } }, &doc! {}, 2, &text);
    };
    check_operand(bson!(1), "true or an object with $type is needed, not 1");
    check_operand(bson!({}), "$type must be 'date' or 'timestamp', not nothing");
    check_operand(bson!({ "$type": "time" }), "$type must be 'date' or 'timestamp', not \"time\"");
    check_operand(bson!({ "$foo": 1 }), "unrecognized clause $foo");
}

/// An array in an array, so many levels deep.
fn nested(levels: usize) -> Bson {
    (0..levels).fold(bson!(1), |inner, _| Bson::Array(vec![inner]))
}

#[test]
fn results_have_a_limit_of_levels() {
    let text = "the updated document would have more than 180 levels";
    check(&doc! { "$set": { "a.b": nested(100) } }, &doc! {}, &doc! { "a": { "b": nested(100) } });
    let path = vec!["a"; 100].join(".");
    check_error(&doc! { "$set": { &path: nested(81) } }, &doc! {}, 15, text);
    let parsed = Update::parse(&raw(&doc! { "$set": { &path: nested(80) } }), &[]).unwrap();
    assert!(parsed.apply(&raw(&doc! {}), &context(Phase::Modify)).is_ok());
    check_error(&doc! { "$push": { &path: nested(80) } }, &doc! {}, 15, text);
    check_error(&doc! { "$rename": { "b": &path } }, &doc! { "b": nested(81) }, 15, text);
    // A value that is not written does no harm.
    let greatest = (0..99).fold(doc! { "a": Bson::MaxKey }, |inner, _| doc! { "a": inner });
    check_unchanged(&doc! { "$max": { &path: nested(100) } }, &greatest);
}

#[test]
fn results_have_a_limit_of_bytes() {
    let text = "the updated document would be larger than 16777216 bytes";
    let half = "x".repeat(9 * 1024 * 1024);
    check_error(&doc! { "$set": { "b": &half } }, &doc! { "a": &half }, 17_419, text);
    let many = (0..10_000).map(Bson::Int32).collect::<Vec<_>>();
    check_error(&doc! { "$set": { "a.$[]": "x".repeat(1024 * 1024) } }, &doc! { "a": many }, 17_419, text);
    let parsed = Update::parse(&raw(&doc! { "$set": { "b": &half } }), &[]).unwrap();
    let error = parsed.apply(&raw(&doc! { "a": &half }), &context(Phase::Insert)).unwrap_err();
    assert_eq!((error.code().number(), error.to_string().as_str()), (17_420, text));
}

#[test]
fn malformed_bytes_are_errors() {
    let broken = b"\x0c\0\0\0\x10a\0\x01\0\0\0\x01".map(|byte| if byte == 1 { 0 } else { byte });
    let broken = RawDocument::from_bytes(&broken).unwrap();
    assert!(matches!(Update::parse(broken, &[]), Err(Error::Replacement | Error::InvalidBson { .. })));
    // A string that is longer than the document.
    let stored = b"\x10\0\0\0\x02a\0\xff\0\0\0xyz\0\0";
    let stored = RawDocument::from_bytes(stored).unwrap();
    let parsed = Update::parse(&raw(&doc! { "$set": { "b": 1 } }), &[]).unwrap();
    assert_eq!(parsed.apply(stored, &context(Phase::Modify)).map_err(|error| error.code().number()), Err(22));
}
