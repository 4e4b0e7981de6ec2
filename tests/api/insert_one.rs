//! `insert_one`: ids, limits, names, and what a duplicate key says.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, DateTime, Document, RawDocumentBuf, Regex, Timestamp, bson, doc, rawdoc};
use cairndb::{ErrorKind, WriteFailure};
use serde::{Deserialize, Serialize};

use crate::{Fixture, refused};

const DOCUMENT_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
    age: i32,
}

/// The `_id` is accepted, and the document is found by it.
#[track_caller]
fn accepted(id: Bson) {
    let fixture = Fixture::new();
    let result = fixture.things.insert_one(doc! { "_id": id.clone() }).run().expect("stored");
    assert_eq!(result.inserted_id, id);
    let found = fixture.things.find_one(doc! { "_id": { "$eq": id.clone() } }).run().expect("read");
    assert_eq!(found, Some(doc! { "_id": id }));
}

#[track_caller]
fn refused_id(id: Bson, code: i32, words: &str) {
    let fixture = Fixture::new();
    refused(fixture.things.insert_one(doc! { "a": 1, "_id": id }).run(), code, words);
    assert!(fixture.stored().is_empty());
}

/// A document of exactly `bytes` bytes once it is stored.
fn of_size(bytes: usize) -> Document {
    let empty = doc! { "_id": 1, "pad": "" };
    let overhead = cairndb::bson::serialize_to_vec(&empty).expect("serialized").len();
    doc! { "_id": 1, "pad": "x".repeat(bytes - overhead) }
}

/// `levels` documents within each other; the innermost is not empty, else it would not count.
fn nested(levels: usize) -> Document {
    (1..levels).fold(doc! { "a": 1 }, |inner, _| doc! { "a": inner })
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

#[test]
fn a_made_id_is_an_object_id_and_stands_first() {
    let fixture = Fixture::new();
    let id = fixture.things.insert_one(doc! { "a": 1 }).run().unwrap().inserted_id;
    assert!(id.as_object_id().is_some(), "{id:?}");
    assert_eq!(fixture.stored()[0].iter().next().unwrap(), (&"_id".to_owned(), &id));
}

#[test]
fn made_ids_ascend() {
    let fixture = Fixture::new();
    let make = || fixture.things.insert_one(doc! {}).run().unwrap().inserted_id.as_object_id().unwrap();
    let ids: Vec<ObjectId> = (0..100).map(|_| make()).collect();
    assert!(ids.is_sorted_by(|earlier, later| earlier.bytes() < later.bytes()));
}

#[test]
fn an_own_id_is_moved_to_the_front() {
    let fixture = Fixture::with([doc! { "a": 1, "_id": "x", "b": 2 }]);
    assert_eq!(fixture.stored()[0].keys().collect::<Vec<_>>(), ["_id", "a", "b"]);
}

#[test]
fn typed_and_raw_documents_are_the_same_documents() {
    let fixture = Fixture::new();
    let person = Person { name: "Ada".to_owned(), age: 36 };
    let people = fixture.things.clone_with_type::<Person>();
    let id = people.insert_one(&person).run().unwrap().inserted_id;
    assert_eq!(people.find_one(doc! { "_id": id.clone() }).run().unwrap(), Some(person));
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    let found = raw.find_one(doc! {}).run().unwrap().unwrap();
    assert_eq!(found, rawdoc! { "_id": id.as_object_id().unwrap(), "name": "Ada", "age": 36 });
    raw.insert_one(rawdoc! { "_id": 1, "name": "Grace", "age": 85 }).run().unwrap();
    assert_eq!(people.find_one(doc! { "_id": 1 }).run().unwrap().unwrap().age, 85);
}

#[test]
fn ids_of_many_types_are_accepted() {
    accepted(bson!(1));
    accepted(bson!(i64::MIN));
    accepted(bson!(f64::INFINITY));
    accepted(decimal("1.5"));
    accepted(bson!(""));
    accepted(bson!("a\u{0}b"));
    accepted(bson!(null));
    accepted(bson!(true));
    accepted(bson!({}));
    accepted(bson!({ "a": { "b": [1, 2] } }));
    accepted(Bson::ObjectId(ObjectId::from_bytes([7; 12])));
    accepted(Bson::DateTime(DateTime::from_millis(-1)));
    accepted(Bson::Timestamp(Timestamp { time: 1, increment: 2 }));
    accepted(Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] }));
    accepted(Bson::MinKey);
    accepted(Bson::MaxKey);
    accepted(Bson::Symbol("s".to_owned()));
    accepted(Bson::JavaScriptCode("f()".to_owned()));
}

#[test]
fn arrays_regular_expressions_and_undefined_are_no_ids() {
    refused_id(bson!([1]), 53, "The '_id' value cannot be of type array");
    refused_id(bson!([]), 53, "array");
    let regex = Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() };
    refused_id(Bson::RegularExpression(regex), 53, "regex");
    refused_id(Bson::Undefined, 53, "undefined");
}

#[test]
fn names_inside_an_id_are_no_operators() {
    refused_id(bson!({ "$a": 1 }), 52, "$a");
    refused_id(bson!({ "a": { "$b": 1 } }), 52, "$b");
    // Since MongoDB 5.0 they may have dots.
    let fixture = Fixture::new();
    for id in [bson!({ "a.b": 1 }), bson!({ "a": [{ "b.c": 1 }] })] {
        fixture.things.insert_one(doc! { "_id": id.clone() }).run().unwrap();
        let found = fixture.things.find_one(doc! { "_id": id.clone() }).run().unwrap();
        assert_eq!(found, Some(doc! { "_id": id }));
    }
    assert!(fixture.client.verify().unwrap().is_clean());
}

#[test]
fn equal_numbers_are_one_id() {
    let ones = [bson!(1), bson!(1.0), bson!(1_i64), decimal("1"), decimal("1.00")];
    for first in &ones {
        let fixture = Fixture::with([doc! { "_id": first.clone() }]);
        for second in &ones {
            let again = fixture.things.insert_one(doc! { "_id": second.clone() }).run();
            refused(again, 11000, "test.things index: _id_ dup key");
            let found = fixture.things.find_one(doc! { "_id": second.clone() }).run().unwrap();
            assert_eq!(found, Some(doc! { "_id": first.clone() }), "{first} by {second}");
        }
    }
}

#[test]
fn a_duplicate_key_says_what_mongodb_says() {
    let fixture = Fixture::with([doc! { "_id": "a\"b" }]);
    let error = refused(fixture.things.insert_one(doc! { "_id": "a\"b" }).run(), 11000, "");
    assert!(error.is_duplicate_key());
    assert_eq!(error.namespace().unwrap().to_string(), "test.things");
    let ErrorKind::Write(WriteFailure::WriteError(write)) = error.kind() else { panic!("{error:?}") };
    let expected =
        r#"E11000 duplicate key error collection: test.things index: _id_ dup key: { _id: "a\"b" }"#;
    assert_eq!(write.message, expected);
    assert_eq!(error.to_string(), expected);
    assert_eq!(write.code_name.as_deref(), Some("DuplicateKey"));
    let details = doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": "a\"b" } };
    assert_eq!(write.details.as_ref(), Some(&details));
}

#[test]
fn ids_are_printed_in_shell_notation() {
    let id = ObjectId::from_bytes([0xab; 12]);
    for (id, shown) in [
        (Bson::ObjectId(id), "{ _id: ObjectId('abababababababababababab') }"),
        (bson!(1.0), "{ _id: 1.0 }"),
        (bson!(null), "{ _id: null }"),
        (bson!({ "a": [1, "x"] }), "{ _id: { a: [ 1, \"x\" ] } }"),
    ] {
        let fixture = Fixture::with([doc! { "_id": id.clone() }]);
        let again = fixture.things.insert_one(doc! { "_id": id }).run();
        refused(again, 11000, &format!("dup key: {shown}"));
    }
}

#[test]
fn the_largest_document_is_accepted_and_one_byte_more_refused() {
    let fixture = Fixture::new();
    fixture.things.insert_one(of_size(DOCUMENT_BYTES_MAX)).run().unwrap();
    fixture.things.delete_one(doc! {}).run().unwrap();
    let refusal = fixture.things.insert_one(of_size(DOCUMENT_BYTES_MAX + 1)).run();
    refused(refusal, 2, "object to insert too large. size in bytes: 16777217, max size: 16777216");
    assert!(fixture.stored().is_empty());
}

#[test]
fn a_made_id_counts_towards_the_size() {
    let fixture = Fixture::new();
    let mut document = of_size(DOCUMENT_BYTES_MAX - 8);
    document.remove("_id");
    // A made `_id` uses 17 bytes where the removed one used 9.
    fixture.things.insert_one(document.clone()).run().unwrap();
    fixture.things.delete_one(doc! {}).run().unwrap();
    let pad = document.get_str("pad").unwrap();
    let refusal = fixture.things.insert_one(doc! { "pad": format!("{pad}x") }).run();
    refused(refusal, 2, "16777217");
}

#[test]
fn nesting_ends_at_180_levels() {
    let fixture = Fixture::new();
    fixture.things.insert_one(nested(180)).run().unwrap();
    refused(fixture.things.insert_one(nested(181)).run(), 15, "180");
    assert_eq!(fixture.stored().len(), 1);
}

#[test]
fn names_are_stored_as_they_come() {
    let names = ["$set", "a.b", "", "$", ".", "é", "_id.x", "$oid", "$date", "$numberLong", "$binary"];
    let mut document = doc! { "_id": 1 };
    document.extend(names.map(|name| (name.to_owned(), bson!({ name: "x" }))));
    let fixture = Fixture::with([document.clone()]);
    assert_eq!(fixture.stored(), [document]);
}

#[test]
fn duplicate_names_are_kept() {
    let fixture = Fixture::new();
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    let mut document = rawdoc! { "_id": 1, "a": 1 };
    document.append(cairndb::bson::cstr!("a"), 2);
    raw.insert_one(&document).run().unwrap();
    assert_eq!(raw.find_one(doc! { "_id": 1 }).run().unwrap(), Some(document));
}

#[test]
fn a_second_id_is_refused() {
    let fixture = Fixture::new();
    let raw = fixture.things.clone_with_type::<RawDocumentBuf>();
    let mut document = rawdoc! { "_id": 1, "a": 1 };
    document.append(cairndb::bson::cstr!("_id"), 1);
    refused(raw.insert_one(document).run(), 2, "_id");
    assert!(fixture.stored().is_empty());
}

#[test]
fn zero_timestamps_at_the_top_become_the_clock() {
    let zero = Timestamp { time: 0, increment: 0 };
    let fixture = Fixture::with([doc! { "_id": zero, "at": zero, "in": { "at": zero }, "list": [zero] }]);
    let stored = &fixture.stored()[0];
    let at = stored.get_timestamp("at").unwrap();
    let now = DateTime::now().timestamp_millis() / 1000;
    assert!((now - i64::from(at.time)).abs() <= 60 && at.increment > 0, "{at:?}");
    assert_eq!(stored.get_timestamp("_id").unwrap(), zero);
    assert_eq!(stored.get_document("in").unwrap().get_timestamp("at").unwrap(), zero);
    assert_eq!(stored.get_array("list").unwrap(), &[Bson::Timestamp(zero)]);
}

#[test]
fn options_are_taken_together_or_one_by_one() {
    let fixture = Fixture::new();
    let insert = fixture.things.insert_one(doc! { "_id": 1 }).bypass_document_validation(true);
    insert.comment(bson!("why")).write_concern(cairndb::WriteConcern::journaled()).run().unwrap();
    let mut options = cairndb::InsertOneOptions::default();
    options.write_concern = Some(cairndb::WriteConcern::buffered());
    fixture.things.insert_one(doc! { "_id": 2 }).with_options(options).run().unwrap();
    assert_eq!(fixture.stored().len(), 2);
}
