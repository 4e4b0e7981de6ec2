//! `insert_many`: order, positions, and what is stored beside a rejection.

use std::collections::HashMap;

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{Error, ErrorKind, InsertManyError};

use crate::{Fixture, refused};

/// The rejected positions with their codes, and the stored positions, both ascending.
#[track_caller]
fn parts(error: &Error) -> (Vec<(usize, i32)>, Vec<usize>) {
    let InsertManyError { write_errors, inserted_ids, .. } = details(error);
    let refused = write_errors.iter().flatten().map(|error| (error.index, error.code)).collect();
    let mut stored: Vec<usize> = inserted_ids.keys().copied().collect();
    stored.sort_unstable();
    (refused, stored)
}

#[track_caller]
fn details(error: &Error) -> &InsertManyError {
    let ErrorKind::InsertMany(details) = error.kind() else { panic!("{error:?}") };
    details
}

fn ids(documents: &[Document]) -> Vec<Bson> {
    documents.iter().filter_map(|document| document.get("_id").cloned()).collect()
}

/// Inserts into a collection that holds the `_id` 7, under a unique index on `k`.
#[track_caller]
fn check(documents: &[Document], ordered: bool, refusals: &[(usize, i32)], stored: &[usize]) {
    let fixture = Fixture::with([doc! { "_id": 7, "k": 7 }]);
    let options = cairndb::IndexOptions::builder().unique(true).build();
    let unique = cairndb::IndexModel::builder().keys(doc! { "k": 1 }).options(options).build();
    fixture.things.create_index(unique).run().expect("an index");
    let error = fixture.things.insert_many(documents).ordered(ordered).run().expect_err("refused");
    assert_eq!(parts(&error), (refusals.to_vec(), stored.to_vec()));
    assert_eq!(fixture.stored().len(), 1 + stored.len());
    fixture.verify_clean();
}

#[test]
fn ids_come_back_by_position() {
    let fixture = Fixture::new();
    let result = fixture.things.insert_many([doc! { "_id": "x" }, doc! {}, doc! { "_id": 3 }]).run().unwrap();
    assert_eq!(result.inserted_ids.len(), 3);
    assert_eq!((&result.inserted_ids[&0], &result.inserted_ids[&2]), (&bson!("x"), &bson!(3)));
    assert!(result.inserted_ids[&1].as_object_id().is_some());
    assert_eq!(ids(&fixture.stored()), [bson!(3), bson!("x"), result.inserted_ids[&1].clone()]);
}

#[test]
fn an_ordered_call_stops_at_the_first_refusal() {
    let documents = [doc! { "_id": 1, "k": 1 }, doc! { "_id": 7, "k": 2 }, doc! { "_id": 3, "k": 3 }];
    check(&documents, true, &[(1, 11000)], &[0]);
}

#[test]
fn an_unordered_call_tries_all() {
    let documents = [
        doc! { "_id": 1, "k": 1 },
        doc! { "_id": 7, "k": 2 },
        doc! { "_id": [], "k": 4 },
        doc! { "_id": 3, "k": 3 },
        doc! { "_id": 5, "k": 7 },
    ];
    check(&documents, false, &[(1, 11000), (2, 53), (4, 11000)], &[0, 3]);
}

#[test]
fn duplicates_within_one_call_are_refused() {
    let by_id = [doc! { "_id": 1, "k": 1 }, doc! { "_id": 1.0, "k": 2 }, doc! { "_id": 2, "k": 3 }];
    check(&by_id, false, &[(1, 11000)], &[0, 2]);
    let by_key = [doc! { "_id": 1, "k": 1 }, doc! { "_id": 2, "k": 1.0 }, doc! { "_id": 3, "k": 3 }];
    check(&by_key, false, &[(1, 11000)], &[0, 2]);
    check(&by_key, true, &[(1, 11000)], &[0]);
}

#[test]
fn a_refused_document_does_not_take_its_keys() {
    let documents = [doc! { "_id": 7, "k": 1 }, doc! { "_id": 1, "k": 7 }, doc! { "_id": 1, "k": 1 }];
    check(&documents, false, &[(0, 11000), (1, 11000)], &[2]);
}

#[test]
fn a_malformed_document_behind_a_duplicate_is_not_reached_in_order() {
    let documents = [doc! { "_id": 7, "k": 1 }, doc! { "_id": [], "k": 2 }];
    check(&documents, true, &[(0, 11000)], &[]);
    check(&documents, false, &[(0, 11000), (1, 53)], &[]);
}

#[test]
fn each_refusal_has_its_details() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let error =
        fixture.things.insert_many([doc! { "_id": 2 }, doc! { "_id": 1 }]).run().expect_err("refused");
    assert!(error.is_duplicate_key());
    assert_eq!(
        (error.code(), error.namespace().unwrap().to_string()),
        (Some(11000), "test.things".to_owned())
    );
    let refused = &details(&error).write_errors.as_ref().unwrap()[0];
    assert_eq!(refused.index, 1);
    assert_eq!(
        refused.message,
        "E11000 duplicate key error collection: test.things index: _id_ dup key: { _id: 1 }"
    );
    assert_eq!(refused.details, Some(doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": 1 } }));
    assert_eq!(details(&error).inserted_ids, HashMap::from([(0, bson!(2))]));
}

#[test]
fn no_documents_at_all_are_an_error() {
    let fixture = Fixture::new();
    let error = fixture.things.insert_many(Vec::<Document>::new()).run().expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
}

#[test]
fn a_call_larger_than_one_commit_keeps_its_positions() {
    // Three documents of 3 MiB fill a commit; ten of them make several.
    let big = |id: i32| doc! { "_id": id, "pad": "x".repeat(3 << 20) };
    let fixture = Fixture::with([doc! { "_id": 8 }]);
    let error = fixture.things.insert_many((0..10).map(big)).ordered(false).run().expect_err("refused");
    assert_eq!(parts(&error), (vec![(8, 11000)], vec![0, 1, 2, 3, 4, 5, 6, 7, 9]));
    assert_eq!(fixture.things.count_documents(doc! {}).run().unwrap(), 10);
    let fixture = Fixture::with([doc! { "_id": 8 }]);
    let error = fixture.things.insert_many((0..10).map(big)).run().expect_err("refused");
    assert_eq!(parts(&error), (vec![(8, 11000)], (0..8).collect()));
}

#[test]
fn unmet_write_concerns_store_nothing() {
    let fixture = Fixture::new();
    let mut concern = cairndb::WriteConcern::default();
    concern.w = Some(cairndb::Acknowledgment::Nodes(2));
    refused(fixture.things.insert_many([doc! {}]).write_concern(concern).run(), 2, "'w' > 1");
    assert!(fixture.stored().is_empty());
}
