//! The errors of sequences and fields: SequoiaDB's number and name, MongoDB's number and name, and the text.

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Error, ErrorKind, SequenceOptions};

use super::Numbers;

/// Number and name of SequoiaDB's, number and name of MongoDB's, and the text.
#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, sequoia: (i32, &str), mongo: (i32, &str), text: &str) {
    let error = result.expect_err("refused");
    let ErrorKind::Sequence(refusal) = error.kind() else { panic!("{error:?}") };
    assert_eq!((refusal.sequoia_code(), refusal.sequoia_name()), sequoia);
    assert_eq!((refusal.code(), refusal.code_name()), mongo);
    assert_eq!((error.sequoia_code(), error.code()), (Some(sequoia.0), Some(mongo.0)));
    assert_eq!(refusal.to_string(), text);
    assert!(error.to_string().contains(text), "{error}");
    assert!(!error.is_duplicate_key() && !error.is_corruption() && !error.is_commit_unknown());
}

const INVALID: (i32, &str) = (-6, "SDB_INVALIDARG");
const BAD_VALUE: (i32, &str) = (2, "BadValue");
const TYPE_MISMATCH: (i32, &str) = (14, "TypeMismatch");

#[test]
fn options_and_names_are_invalid_arguments() {
    let numbers = Numbers::with(doc! {});
    let option = |options: Document| SequenceOptions::try_from(options);
    says(option(doc! { "Cycle": true }), INVALID, BAD_VALUE, "\"Cycle\" is not an option of a sequence");
    says(option(doc! { "Initial": true }), INVALID, BAD_VALUE, "Initial cannot be set by an option");
    let text = "Increment must be a 32-bit or 64-bit integer, not a double";
    says(option(doc! { "Increment": 1.0 }), INVALID, TYPE_MISMATCH, text);
    let text = "AcquireSize must be at most CacheSize 5, not 1000";
    says(numbers.try_alter(doc! { "CacheSize": 5 }), INVALID, BAD_VALUE, text);
    let text = "\"sys1\" is not allowed as the name of a sequence: names that start with SYS belong to auto-increment fields";
    says(numbers.db.create_sequence("sys1").run(), INVALID, BAD_VALUE, text);
}

#[test]
fn the_life_of_a_sequence_has_errors_of_its_own() {
    let numbers = Numbers::with(doc! { "MaxValue": 2, "CacheSize": 2, "AcquireSize": 2 });
    let text = "the sequence numbers exists";
    says(numbers.db.create_sequence("numbers").run(), (-323, "SDB_SEQUENCE_EXIST"), BAD_VALUE, text);
    let text = "there is no sequence others";
    says(numbers.db.drop_sequence("others").run(), (-324, "SDB_SEQUENCE_NOT_EXIST"), BAD_VALUE, text);
    let text = "the sequence has not been used yet";
    says(numbers.sequence.current_value().run(), (-362, "SDB_SEQUENCE_NEVER_USED"), BAD_VALUE, text);
    numbers.take(1);
    let text = "1 is not ahead of the sequence: the acquirer's next value is beyond it";
    says(numbers.sequence.set_current_value(1).run(), (-361, "SDB_SEQUENCE_VALUE_USED"), BAD_VALUE, text);
    numbers.take(1);
    let text = "the sequence has no value left: it does not go beyond 2 and is not Cycled";
    says(numbers.sequence.next_value().run(), (-325, "SDB_SEQUENCE_EXCEEDED"), BAD_VALUE, text);
}

#[test]
fn fields_have_errors_of_their_own() {
    let numbers = Numbers::with(doc! {});
    let things = numbers.db.collection::<Document>("things");
    let field = |options: Document| AutoIncrement::try_from(options).unwrap();
    things.create_auto_increment(field(doc! { "Field": "a.b", "Generated": "strict" })).run().unwrap();
    let conflict = (-332, "SDB_AUTOINCREMENT_FIELD_CONFLICT");
    let text = "the auto-increment field a conflicts with the field a.b of the collection";
    says(things.create_auto_increment(field(doc! { "Field": "a" })).run(), conflict, BAD_VALUE, text);
    let missing = (-333, "SDB_AUTOINCREMENT_FIELD_NOT_EXIST");
    let text = "c is not an auto-increment field of the collection";
    says(things.drop_auto_increment("c").run(), missing, BAD_VALUE, text);
    says(things.alter_auto_increment(field(doc! { "Field": "c" })).run(), missing, BAD_VALUE, text);
    says(things.auto_increment("c").snapshot(), missing, BAD_VALUE, text);
    says(things.create_auto_increment(field(doc! {})).run(), INVALID, BAD_VALUE, "Field is required");
    let text = "\"a..b\" is not allowed as an auto-increment field: a name in it is empty";
    says(things.create_auto_increment(field(doc! { "Field": "a..b" })).run(), INVALID, BAD_VALUE, text);
    let text = "the auto-increment field a.b must be a 32-bit or 64-bit integer, or absent, not a double";
    says(things.insert_one(doc! { "a": { "b": 1.0 } }).run(), INVALID, BAD_VALUE, text);
    let text = "a must be an embedded document, not null, because a.b is an auto-increment field";
    says(things.insert_one(doc! { "a": null }).run(), INVALID, BAD_VALUE, text);
}

#[test]
fn a_collection_has_a_bounded_number_of_fields() {
    let numbers = Numbers::with(doc! {});
    let things = numbers.db.collection::<Document>("things");
    let field = |number: i32| AutoIncrement::builder().field(format!("f{number}")).build();
    (0..64).for_each(|number| things.create_auto_increment(field(number)).run().unwrap());
    let text = "65 auto-increment fields are more than the 64 that a collection may have";
    says(things.create_auto_increment(field(64)).run(), INVALID, BAD_VALUE, text);
    things.drop_auto_increment("f0").run().unwrap();
    things.create_auto_increment(field(64)).run().unwrap();
    things.insert_one(doc! {}).run().unwrap();
    things.drop().run().unwrap();
}

#[test]
fn an_error_of_a_field_names_the_collection() {
    let numbers = Numbers::with(doc! {});
    let things = numbers.db.collection::<Document>("things");
    things.create_auto_increment(AutoIncrement::builder().field("n").build()).run().unwrap();
    let namespace = |error: Error| error.namespace().map(ToString::to_string);
    assert_eq!(namespace(things.drop_auto_increment("c").run().unwrap_err()), Some("test.things".to_owned()));
    assert_eq!(namespace(things.auto_increment("c").snapshot().unwrap_err()), Some("test.things".to_owned()));
}
