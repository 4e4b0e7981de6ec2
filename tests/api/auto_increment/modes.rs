//! The treatment in each mode of a value that a document brings, by its type.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::raw::CString;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{
    Binary, Bson, DateTime, DbPointer, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp, bson,
    deserialize_from_slice, doc,
};

use super::{Numbered, sequence_refuses};

/// A value of every type but the integers, and how errors call it.
fn others() -> Vec<(Bson, &'static str)> {
    let pattern = Regex { pattern: cstr("a"), options: cstr("i") };
    let code = JavaScriptCodeWithScope { code: "f()".to_owned(), scope: doc! {} };
    vec![
        (bson!(2.0), "a double"),
        (Bson::Decimal128(decimal("2")), "a decimal"),
        (bson!("2"), "a string"),
        (bson!({ "a": 2 }), "an embedded document"),
        (bson!([2]), "an array"),
        (Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![2] }), "binary data"),
        (Bson::ObjectId(ObjectId::from_bytes([2; 12])), "an ObjectId"),
        (bson!(true), "a boolean"),
        (Bson::DateTime(DateTime::from_millis(2)), "a date"),
        (Bson::Null, "null"),
        (Bson::RegularExpression(pattern), "a regular expression"),
        (Bson::JavaScriptCode("f()".to_owned()), "code"),
        (Bson::JavaScriptCodeWithScope(code), "code with a scope"),
        (Bson::Symbol("s".to_owned()), "a symbol"),
        (Bson::Timestamp(Timestamp { time: 1, increment: 2 }), "a timestamp"),
        (Bson::Undefined, "undefined"),
        (Bson::MinKey, "the least key"),
        (Bson::MaxKey, "the greatest key"),
        (Bson::DbPointer(pointer()), "a DBPointer"),
    ]
}

fn decimal(text: &str) -> Decimal128 {
    text.parse().expect("a decimal")
}

fn cstr(text: &str) -> CString {
    text.try_into().expect("text without a zero")
}

/// The type has no constructor of its own, so it is read from the bytes of `{p: DBPointer("a", 0…)}`.
fn pointer() -> DbPointer {
    let head = [26, 0, 0, 0, 0x0c, b'p', 0, 2, 0, 0, 0, b'a', 0];
    let bytes = [head.as_slice(), &[0; 12], &[0]].concat();
    let document: Document = deserialize_from_slice(&bytes).expect("a document");
    let Some(Bson::DbPointer(pointer)) = document.get("p") else { panic!("{document}") };
    pointer.clone()
}

fn mode(generated: &str) -> Numbered {
    Numbered::n(doc! { "Generated": generated })
}

/// The document is rejected for `n`, by every way to insert one, and nothing is stored.
#[track_caller]
fn refuses(generated: &str, value: Bson, words: &str) {
    let numbered = mode(generated);
    let document = doc! { "n": value };
    sequence_refuses(numbered.things.insert_one(&document).run(), -6, words);
    sequence_refuses(numbered.things.insert_many([doc! {}, document.clone(), doc! {}]).run(), -6, words);
    let unordered = numbered.things.insert_many([doc! {}, document.clone()]).ordered(false);
    sequence_refuses(unordered.run(), -6, words);
    let upsert = numbered.things.replace_one(doc! { "x": 1 }, document).upsert(true);
    sequence_refuses(upsert.run(), -6, words);
    assert_eq!(numbered.stored(), super::NOTHING);
}

/// The document is stored as it is, and generates and moves nothing.
#[track_caller]
fn keeps(generated: &str, value: Bson) {
    let numbered = mode(generated);
    let result = numbered.insert(doc! { "n": value.clone(), "x": 1 });
    assert!(result.generated.is_empty() && result.last_generate_id.is_none(), "{result:?}");
    assert_eq!(numbered.stored(), [doc! { "n": value, "x": 1 }]);
    assert_eq!(numbered.next(), 1);
}

/// The value is dropped, and one generated at the end.
#[track_caller]
fn overwrites(options: Document, value: Bson) {
    let numbered = Numbered::n(options);
    let result = numbered.insert(doc! { "n": value, "x": 1 });
    assert_eq!((result.generated.get("n"), result.last_generate_id), (Some(1), Some(1)));
    assert_eq!(numbered.stored(), [doc! { "x": 1, "n": 1_i64 }]);
    assert_eq!(numbered.next(), 2);
}

#[test]
fn always_drops_whatever_the_document_brings() {
    for (value, _) in others() {
        overwrites(doc! { "Generated": "always" }, value);
    }
    overwrites(doc! { "Generated": "always" }, bson!(5000));
    overwrites(doc! { "Generated": "always" }, bson!(5000_i64));
}

#[test]
fn always_strict_refuses_whatever_the_document_brings() {
    let words = |found| format!("n must be absent, because its values are always generated, not {found}");
    for (value, found) in others() {
        refuses("alwaysStrict", value, &words(found));
    }
    refuses("alwaysStrict", bson!(5), &words("an integer"));
    refuses("alwaysStrict", bson!(5_i64), &words("an integer"));
    assert_eq!(mode("alwaysStrict").next(), 1);
}

#[test]
fn default_keeps_whatever_the_document_brings() {
    for (value, _) in others() {
        if value != Bson::Timestamp(Timestamp { time: 0, increment: 0 }) {
            keeps("default", value);
        }
    }
}

#[test]
fn strict_takes_integers_only() {
    for (value, found) in others() {
        refuses("strict", value, &format!("n must be a 32-bit or 64-bit integer, or absent, not {found}"));
    }
    for value in [bson!(7), bson!(7_i64)] {
        let numbered = mode("strict");
        numbered.insert(doc! { "n": value.clone() });
        assert_eq!(numbered.stored(), [doc! { "n": value }]);
        assert_eq!(numbered.next(), 8);
    }
}

#[test]
fn an_integral_double_or_decimal_moves_nothing() {
    keeps("default", bson!(5000.0));
    keeps("default", Bson::Decimal128(decimal("5000")));
}

#[test]
fn null_counts_as_absent_if_the_field_says_so() {
    let on_null = |generated: &str| doc! { "Generated": generated, "GenerateOnNull": true };
    for generated in ["default", "strict", "always", "alwaysStrict"] {
        overwrites(on_null(generated), Bson::Null);
    }
    let numbered = Numbered::n(on_null("strict"));
    sequence_refuses(numbered.things.insert_one(doc! { "n": "x" }).run(), -6, "not a string");
    let numbered = Numbered::with([doc! { "Field": "a.b", "GenerateOnNull": true }]);
    numbered.insert(doc! { "a": { "b": null, "c": 1 } });
    assert_eq!(numbered.stored(), [doc! { "a": { "c": 1, "b": 1_i64 } }]);
    sequence_refuses(
        numbered.things.insert_one(doc! { "a": null }).run(),
        -6,
        "a must be an embedded document",
    );
}

#[test]
fn a_refused_batch_takes_no_value() {
    let numbered = mode("strict");
    let batch = [doc! {}, doc! { "n": 5000 }, doc! { "n": "x" }];
    sequence_refuses(numbered.things.insert_many(batch).run(), -6, "not a string");
    numbered.shows(doc! { "Initial": true });
    assert_eq!(numbered.next(), 1);
}

#[test]
fn the_mode_changes_without_a_change_of_the_sequence() {
    let numbered = mode("default");
    assert_eq!(numbered.next(), 1);
    let before = numbered.snapshot();
    numbered.alter(doc! { "Generated": "always", "GenerateOnNull": true, "OnTruncate": "continue" });
    assert_eq!(numbered.snapshot(), before);
    numbered.insert(doc! { "n": 5000 });
    assert_eq!(numbered.numbers(), [1, 2], "the block was kept");
    let listed = numbered.things.auto_increments().run().unwrap().remove(0);
    assert_eq!((listed.generated.as_str(), listed.on_truncate.as_str()), ("always", "continue"));
    assert!(listed.generate_on_null);
    let numbered = numbered.reopened();
    assert_eq!(numbered.things.auto_increments().run().unwrap(), [listed]);
    assert_eq!(numbered.next(), 3);
}
