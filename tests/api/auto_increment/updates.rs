//! Replacements and upserts of numbered documents.

use cairndb::bson::{Document, doc};
use cairndb::{Contract, InsertOneModel, ReplaceOneModel};

use super::Numbered;

/// Replaces a document by another; what is stored then, without its `_id`.
#[track_caller]
fn replaced(fields: &[&str], document: Document, replacement: Document, expected: Document) {
    let numbered = Numbered::with(fields.iter().map(|field| doc! { "Field": *field }));
    numbered.insert(document);
    let sequences = || numbered.client.database("test").snapshot_sequences().run().expect("snapshots");
    let before = sequences();
    let result = numbered.things.replace_one(doc! {}, replacement).run().expect("replaced");
    assert_eq!(result.matched_count, 1);
    assert_eq!(numbered.stored(), [expected]);
    assert_eq!(sequences(), before);
}

#[test]
fn a_field_that_the_replacement_does_not_name_is_kept() {
    replaced(&["n"], doc! { "x": 1 }, doc! { "y": 2 }, doc! { "y": 2, "n": 1_i64 });
    replaced(&["n"], doc! { "n": "own" }, doc! {}, doc! { "n": "own" });
    replaced(&["b", "a"], doc! {}, doc! { "y": 2 }, doc! { "y": 2, "a": 1_i64, "b": 1_i64 });
}

#[test]
fn a_field_that_the_replacement_names_is_the_replacement_s() {
    replaced(&["n"], doc! {}, doc! { "n": 77 }, doc! { "n": 77 });
    replaced(&["n"], doc! {}, doc! { "n": "text", "y": 2 }, doc! { "n": "text", "y": 2 });
    replaced(&["n"], doc! {}, doc! { "n": null }, doc! { "n": null });
}

#[test]
fn a_nested_field_is_kept_with_its_outermost_parent_or_lost() {
    replaced(
        &["a.b"],
        doc! { "a": { "x": 1 } },
        doc! { "y": 2 },
        doc! { "y": 2, "a": { "x": 1, "b": 1_i64 } },
    );
    replaced(&["a.b"], doc! { "a": { "x": 1 } }, doc! { "a": { "z": 1 } }, doc! { "a": { "z": 1 } });
    replaced(&["a.b", "a.c"], doc! {}, doc! {}, doc! { "a": { "b": 1_i64, "c": 1_i64 } });
    replaced(&["a.b"], doc! {}, doc! { "a": 5 }, doc! { "a": 5 });
}

/// Whichever verb replaces.
#[test]
fn every_replacement_keeps_the_field() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    let before = numbered.snapshot();
    let found = numbered.things.find_one_and_replace(doc! {}, doc! { "x": 1 }).run().unwrap();
    assert_eq!(found.and_then(|found| found.get_i64("n").ok()), Some(1));
    assert_eq!(numbered.stored(), [doc! { "x": 1, "n": 1_i64 }]);
    let replacement = ReplaceOneModel::builder()
        .namespace(numbered.things.namespace())
        .filter(doc! {})
        .replacement(doc! { "x": 2 })
        .build();
    numbered.client.bulk_write([replacement]).run().unwrap();
    assert_eq!(numbered.stored(), [doc! { "x": 2, "n": 1_i64 }]);
    assert_eq!(numbered.snapshot(), before);
}

#[test]
fn inserts_of_a_bulk_write_are_numbered() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "Contract": contract.name() });
        let insert = |document: Document| {
            InsertOneModel::builder().namespace(numbered.things.namespace()).document(document).build()
        };
        let writes = [doc! {}, doc! { "n": 10 }, doc! {}].map(insert);
        let done = numbered.client.bulk_write(writes).verbose_results().run().unwrap();
        let generated = |write: usize| done.insert_results[&write].last_generate_id;
        assert_eq!([generated(0), generated(1), generated(2)], [Some(1), None, Some(11)]);
        assert_eq!(numbered.numbers(), [1, 10, 11]);
    }
}

#[test]
fn a_replacement_in_any_mode_moves_nothing() {
    for generated in ["always", "alwaysStrict", "default", "strict"] {
        let numbered = Numbered::n(doc! { "Generated": generated });
        numbered.next();
        numbered.things.replace_one(doc! {}, doc! { "n": 5000 }).run().unwrap();
        assert_eq!(numbered.next(), 2);
        assert_eq!(numbered.numbers(), [5000, 2]);
    }
}

#[test]
fn a_document_without_the_field_stays_without_it() {
    let numbered = Numbered::with([]);
    numbered.insert(doc! { "x": 1 });
    numbered.things.create_auto_increment(super::field(doc! { "Field": "n" })).run().unwrap();
    numbered.things.replace_one(doc! {}, doc! { "y": 1 }).run().unwrap();
    assert_eq!(numbered.stored(), [doc! { "y": 1 }]);
}

#[test]
fn an_upsert_that_inserts_is_numbered() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "Contract": contract.name() });
        let upsert = |filter: Document, replacement: Document| {
            numbered.things.replace_one(filter, replacement).upsert(true).run().expect("an upsert")
        };
        assert_eq!(upsert(doc! { "_id": 5 }, doc! { "x": 1 }).upserted_id, Some(5.into()));
        upsert(doc! { "_id": 6 }, doc! { "n": 10 });
        upsert(doc! { "_id": 7 }, doc! {});
        upsert(doc! { "_id": 5 }, doc! { "x": 2 });
        let expected = [
            doc! { "_id": 5, "x": 2, "n": 1_i64 },
            doc! { "_id": 6, "n": 10 },
            doc! { "_id": 7, "n": 11_i64 },
        ];
        assert_eq!(crate::all(&numbered.things), expected);
    }
}

#[test]
fn an_upsert_numbers_its_own_id() {
    let numbered = Numbered::with([doc! { "Field": "_id" }]);
    let upsert =
        |filter: Document| numbered.things.replace_one(filter, doc! { "x": 1 }).upsert(true).run().unwrap();
    assert_eq!(upsert(doc! { "x": 5 }).upserted_id, Some(1_i64.into()));
    assert_eq!(upsert(doc! { "_id": 50 }).upserted_id, Some(50.into()));
    assert_eq!(upsert(doc! { "x": 5 }).upserted_id, Some(51_i64.into()));
}

#[test]
fn a_conflict_of_an_upsert_is_tried_once_more() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "n": 1 });
    numbered.next();
    numbered.next();
    numbered.alter(doc! { "CurrentValue": 1 });
    numbered.things.replace_one(doc! { "_id": 7 }, doc! {}).upsert(true).run().unwrap();
    let stored = numbered.things.find_one(doc! { "_id": 7 }).run().unwrap();
    assert_eq!(stored, Some(doc! { "_id": 7, "n": 1002_i64 }));
}

/// An upsert by `_id` looks again when another writer took the `_id` in between. Any duplicate made it look again, so
/// that one of another index drew a value a hundred times.
#[test]
fn an_upsert_that_meets_an_unrelated_duplicate_takes_one_value() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "k": 1 });
    numbered.insert(doc! { "k": 0 });
    let upsert = numbered.things.replace_one(doc! { "_id": 7 }, doc! { "k": 0 }).upsert(true);
    assert!(upsert.run().expect_err("a duplicate").is_duplicate_key());
    assert_eq!(numbered.insert(doc! { "k": 1 }).last_generate_id, Some(3));
}

#[test]
fn deletes_leave_the_sequence_alone() {
    let numbered = Numbered::n(doc! {});
    numbered.next();
    numbered.next();
    numbered.things.delete_many(doc! {}).run().unwrap();
    assert_eq!(numbered.next(), 3);
    numbered.things.delete_one(doc! {}).run().unwrap();
    let numbered = numbered.reopened();
    assert_eq!(numbered.next(), 4);
}

#[test]
fn an_update_in_any_mode_moves_nothing() {
    for generated in ["always", "alwaysStrict", "default", "strict"] {
        let numbered = Numbered::n(doc! { "Generated": generated });
        numbered.next();
        let before = numbered.snapshot();
        for update in
            [doc! { "$set": { "n": 5000 } }, doc! { "$inc": { "n": 1 } }, doc! { "$unset": { "n": "" } }]
        {
            assert_eq!(numbered.things.update_one(doc! {}, update).run().unwrap().modified_count, 1);
        }
        assert_eq!(numbered.snapshot(), before);
        assert_eq!(numbered.stored(), [doc! {}]);
        assert_eq!(numbered.next(), 2);
    }
}

#[test]
fn an_update_that_inserts_is_numbered_from_all_its_parts() {
    for contract in Contract::ALL {
        let numbered = Numbered::n(doc! { "Contract": contract.name() });
        let upsert = |filter: Document, update: Document| {
            numbered.things.update_one(filter, update).upsert(true).run().expect("an upsert");
        };
        upsert(doc! { "_id": 1, "k": 5 }, doc! { "$set": { "x": 1 } });
        upsert(doc! { "_id": 2 }, doc! { "$setOnInsert": { "n": 10 } });
        upsert(doc! { "_id": 3, "n": 20 }, doc! { "$set": { "x": 1 } });
        upsert(doc! { "_id": 4 }, doc! { "$set": { "x": 1 } });
        upsert(doc! { "_id": 4 }, doc! { "$set": { "x": 2 } });
        assert_eq!(numbered.numbers(), [1, 10, 20, 21]);
        assert_eq!(numbered.next(), 22);
    }
}

#[test]
fn an_update_that_inserts_is_refused_as_an_insert_is() {
    let numbered = Numbered::n(doc! { "Generated": "strict" });
    let upsert = numbered.things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": "x" } }).upsert(true);
    super::sequence_refuses(upsert.run(), -6, "not a string");
    let numbered = Numbered::n(doc! { "Generated": "always" });
    numbered.things.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 50 } }).upsert(true).run().unwrap();
    assert_eq!(numbered.numbers(), [1]);
}
