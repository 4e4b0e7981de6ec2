//! The places of generated values in a document, and the parts that pass untouched.

use cairndb::bson::{Document, doc};

use super::{Numbered, sequence_refuses};

/// The document is stored as `expected`, behind an `_id`.
#[track_caller]
fn completes(fields: &[&str], document: Document, expected: Document) {
    let numbered = Numbered::with(fields.iter().map(|field| doc! { "Field": *field }));
    numbered.insert(document.clone());
    assert_eq!(numbered.stored(), std::slice::from_ref(&expected));
    let many = Numbered::with(fields.iter().map(|field| doc! { "Field": *field }));
    many.things.insert_many([document]).run().expect("stored");
    assert_eq!(many.stored(), [expected]);
}

/// The parent of a field is not a document, so the insert is rejected in every mode.
#[track_caller]
fn refuses(fields: &[&str], document: Document, words: &str) {
    for generated in ["always", "alwaysStrict", "default", "strict"] {
        let numbered =
            Numbered::with(fields.iter().map(|field| doc! { "Field": *field, "Generated": generated }));
        sequence_refuses(numbered.things.insert_one(&document).run(), -6, words);
        let batch = [doc! {}, document.clone()];
        sequence_refuses(numbered.things.insert_many(batch.clone()).run(), -6, words);
        sequence_refuses(numbered.things.insert_many(batch).ordered(false).run(), -6, words);
        assert_eq!(numbered.stored(), super::NOTHING);
    }
}

#[test]
fn a_missing_field_is_appended_as_a_64_bit_integer() {
    completes(&["n"], doc! {}, doc! { "n": 1_i64 });
    completes(&["n"], doc! { "x": 1, "y": 2 }, doc! { "x": 1, "y": 2, "n": 1_i64 });
    completes(&["id$7"], doc! {}, doc! { "id$7": 1_i64 });
    completes(&["id 8"], doc! {}, doc! { "id 8": 1_i64 });
    completes(&["1a"], doc! {}, doc! { "1a": 1_i64 });
    completes(&["序"], doc! {}, doc! { "序": 1_i64 });
}

#[test]
fn fields_of_a_level_are_appended_in_byte_order() {
    completes(&["b", "a", "B"], doc! { "x": 1 }, doc! { "x": 1, "B": 1_i64, "a": 1_i64, "b": 1_i64 });
    completes(&["a10", "a2"], doc! {}, doc! { "a10": 1_i64, "a2": 1_i64 });
    completes(&["é", "z"], doc! {}, doc! { "z": 1_i64, "é": 1_i64 });
}

#[test]
fn nested_fields_are_appended_to_their_parent() {
    completes(
        &["a.bb", "a.aa"],
        doc! { "a": { "cc": 2 }, "x": 1 },
        doc! { "a": { "cc": 2, "aa": 1_i64, "bb": 1_i64 }, "x": 1 },
    );
    completes(
        &["a.aa", "a.bb"],
        doc! { "a": { "bb": { "bbb": 3 } } },
        doc! { "a": { "bb": { "bbb": 3 }, "aa": 1_i64 } },
    );
}

#[test]
fn missing_parents_are_made() {
    completes(&["a.b.c"], doc! { "x": 1 }, doc! { "x": 1, "a": { "b": { "c": 1_i64 } } });
    completes(&["a.b.c"], doc! { "a": {} }, doc! { "a": { "b": { "c": 1_i64 } } });
    completes(&["a.b.c"], doc! { "a": { "b": { "x": 1 } } }, doc! { "a": { "b": { "x": 1, "c": 1_i64 } } });
    completes(&["a.c", "a.b.d", "b"], doc! {}, doc! { "a": { "b": { "d": 1_i64 }, "c": 1_i64 }, "b": 1_i64 });
}

#[test]
fn a_field_may_lie_as_deep_as_a_document_reaches() {
    let path = vec!["a"; 180].join(".");
    let numbered = Numbered::with([doc! { "Field": &path }]);
    assert_eq!(numbered.insert(doc! {}).generated.get(&path), Some(1));
    let mut level = numbered.stored().remove(0);
    for _ in 1..180 {
        level = level.get_document("a").unwrap().clone();
    }
    assert_eq!(level, doc! { "a": 1_i64 });
}

/// A document was completed after it had been checked, so that a field could carry it beyond the deepest that is read.
#[test]
fn a_field_that_lies_deeper_is_refused() {
    let numbered = Numbered::with([]);
    let deep = super::field(doc! { "Field": vec!["a"; 181].join(".") });
    let created = numbered.things.create_auto_increment(deep).run();
    sequence_refuses(created, -6, "it lies deeper than a document reaches");
}

#[test]
fn a_present_value_stays_in_its_place() {
    completes(&["n"], doc! { "n": 7, "x": 1 }, doc! { "n": 7, "x": 1 });
    completes(&["n"], doc! { "n": null, "x": 1 }, doc! { "n": null, "x": 1 });
    completes(&["a.b"], doc! { "a": { "b": [1], "c": 2 } }, doc! { "a": { "b": [1], "c": 2 } });
}

#[test]
fn a_name_with_a_dot_is_no_path() {
    completes(&["a.b"], doc! { "a.b": 5 }, doc! { "a.b": 5, "a": { "b": 1_i64 } });
    completes(&["a.b"], doc! { "a": { "b.c": 1 } }, doc! { "a": { "b.c": 1, "b": 1_i64 } });
    let numbered = Numbered::with([doc! { "Field": "a.b" }]);
    numbered.insert(doc! { "a.b": 5000 });
    assert_eq!(numbered.insert(doc! {}).last_generate_id, Some(2), "it moves no sequence either");
}

#[test]
fn a_parent_that_is_no_document_is_refused_in_every_mode() {
    refuses(&["a.b"], doc! { "a": 1 }, "a must be an embedded document, not an integer");
    refuses(&["a.b"], doc! { "a": null }, "a must be an embedded document, not null");
    refuses(&["a.b"], doc! { "a": "x" }, "a must be an embedded document, not a string");
    refuses(&["a.b"], doc! { "a": [{ "b": 1 }] }, "a must be an embedded document, not an array");
    refuses(
        &["id.a.b.c"],
        doc! { "id": { "a": { "b": 1 } } },
        "id.a.b must be an embedded document, not an integer",
    );
    refuses(&["a.b", "x"], doc! { "a": 1 }, "because a.b is an auto-increment field");
}

#[test]
fn an_id_stands_first() {
    let numbered = Numbered::n(doc! {});
    numbered.insert(doc! { "x": 1, "_id": 7 });
    assert_eq!(crate::all(&numbered.things), [doc! { "_id": 7, "x": 1, "n": 1_i64 }]);
}

/// A document of a collection whose `_id` numbers itself.
#[track_caller]
fn identified(options: Document, document: Document, expected: Document) {
    let numbered = Numbered::with([doc! { "Field": "_id" }.into_iter().chain(options).collect()]);
    let generated = numbered.insert(document);
    assert_eq!(Some(&generated.inserted_id), expected.get("_id"));
    assert_eq!(crate::all(&numbered.things), [expected]);
}

#[test]
fn an_id_numbers_itself() {
    identified(doc! {}, doc! { "x": 1 }, doc! { "_id": 1_i64, "x": 1 });
    identified(doc! {}, doc! { "x": 1, "_id": 7 }, doc! { "_id": 7, "x": 1 });
    identified(doc! {}, doc! { "x": 1, "_id": "own" }, doc! { "_id": "own", "x": 1 });
    identified(doc! { "Generated": "always" }, doc! { "x": 1, "_id": 7 }, doc! { "_id": 1_i64, "x": 1 });
    identified(doc! { "GenerateOnNull": true }, doc! { "x": 1, "_id": null }, doc! { "_id": 1_i64, "x": 1 });
    identified(doc! { "StartValue": -5, "MinValue": -9 }, doc! {}, doc! { "_id": -5_i64 });
}

#[test]
fn ids_that_number_themselves_come_back_after_a_reopen() {
    let numbered = Numbered::with([doc! { "Field": "_id" }]);
    let result = numbered.things.insert_many([doc! {}, doc! { "_id": 5000 }, doc! {}]).run().unwrap();
    assert_eq!(result.inserted_ids[&2], 5001_i64.into());
    let numbered = numbered.reopened();
    assert_eq!(numbered.insert(doc! {}).inserted_id, 5002_i64.into());
    let ids: Vec<i64> = super::numbers(&numbered.things, "_id");
    assert_eq!(ids, [1, 5000, 5001, 5002]);
}

#[test]
fn a_typed_value_is_completed_too() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Order {
        item: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        n: Option<i64>,
    }
    let numbered = Numbered::n(doc! {});
    let orders = numbered.things.clone_with_type::<Order>();
    let lamp = Order { item: "lamp".to_owned(), n: None };
    assert_eq!(orders.insert_one(&lamp).run().unwrap().last_generate_id, Some(1));
    assert_eq!(orders.find_one(doc! {}).run().unwrap().unwrap().n, Some(1));
}
