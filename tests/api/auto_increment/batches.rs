//! Batches, and what results and errors say of generated values.

use std::collections::HashMap;

use cairndb::bson::{Document, doc};
use cairndb::{Contract, ErrorKind, GeneratedValues, InsertManyError};

use super::{Numbered, sequence_refuses};

const CONTRACTS: [Contract; 3] = Contract::ALL;

fn with(contract: Contract) -> Numbered {
    Numbered::n(doc! { "Contract": contract.name() })
}

/// Inserts the documents by one call; their numbers.
#[track_caller]
fn numbers(contract: Contract, documents: &[Document], expected: &[i64]) {
    let numbered = with(contract);
    let result = numbered.things.insert_many(documents).run().expect("stored");
    assert_eq!(numbered.numbers(), expected);
    for (position, document) in documents.iter().enumerate() {
        let generated = (!document.contains_key("n")).then(|| expected.get(position).copied()).flatten();
        assert_eq!(result.generated.get(&position).and_then(|values| values.get("n")), generated);
    }
    let first = documents.iter().position(|document| !document.contains_key("n"));
    assert_eq!(result.last_generate_id, first.and_then(|position| expected.get(position).copied()));
}

#[test]
fn documents_are_numbered_in_their_order_whatever_they_bring() {
    for contract in CONTRACTS {
        numbers(contract, &[doc! {}, doc! { "n": 5000 }, doc! {}], &[1, 5000, 5001]);
        numbers(contract, &[doc! { "n": 3 }, doc! {}, doc! { "n": 1 }, doc! {}], &[3, 4, 1, 5]);
        numbers(contract, &[doc! { "n": 7 }, doc! { "n": 9_i64 }], &[7, 9]);
        numbers(contract, &vec![doc! {}; 2500], &(1..=2500).collect::<Vec<_>>());
    }
}

#[test]
fn a_single_insert_tells_its_value() {
    for contract in CONTRACTS {
        let numbered = with(contract);
        numbered.insert(doc! { "n": 3 });
        let result = numbered.insert(doc! {});
        assert_eq!((result.generated.get("n"), result.last_generate_id), (Some(4), Some(4)));
        assert_eq!(result.generated.iter().collect::<Vec<_>>(), [("n", 4)]);
        let result = numbered.insert(doc! { "n": "explicit" });
        assert!(result.generated.is_empty() && result.last_generate_id.is_none());
    }
}

#[test]
fn values_of_several_fields_ascend_by_field() {
    let fields = [doc! { "Field": "b", "StartValue": 20 }, doc! { "Field": "a.c", "StartValue": 30 }];
    let numbered = Numbered::with(fields);
    let result = numbered.insert(doc! { "a": { "x": 1 } });
    assert_eq!(result.generated.iter().collect::<Vec<_>>(), [("a.c", 30), ("b", 20)]);
    assert_eq!((result.generated.len(), result.last_generate_id), (2, Some(30)));
    let result = numbered
        .things
        .insert_many([doc! { "a": { "c": 1 }, "b": 2 }, doc! { "a": { "c": 5 } }, doc! {}])
        .run()
        .unwrap();
    assert_eq!(result.last_generate_id, Some(21), "the first value of the first document that lacked one");
    assert!(!result.generated.contains_key(&0));
    let shown = cairndb::bson::serialize_to_bson(&result.generated[&2]).unwrap();
    assert_eq!(shown, doc! { "a.c": 31_i64, "b": 22_i64 }.into());
}

#[test]
fn a_batch_without_enough_values_stores_nothing() {
    for contract in CONTRACTS {
        let numbered = Numbered::n(
            doc! { "MaxValue": 3, "CacheSize": 2, "AcquireSize": 2, "Contract": contract.name() },
        );
        sequence_refuses(numbered.things.insert_many(vec![doc! {}; 4]).run(), -325, "no value left");
        assert_eq!(numbered.stored(), super::NOTHING);
        // Only a gapless sequence recovers what it gave.
        let left = if contract == Contract::Gapless { vec![1, 2, 3] } else { vec![] };
        let next: Vec<i64> =
            std::iter::from_fn(|| numbered.things.insert_one(doc! {}).run().ok()?.last_generate_id).collect();
        assert_eq!(next, left);
    }
}

#[track_caller]
fn refusals(result: Result<cairndb::InsertManyResult, cairndb::Error>) -> InsertManyError {
    let error = result.expect_err("some are refused");
    let ErrorKind::InsertMany(details) = error.kind() else { panic!("{error:?}") };
    details.clone()
}

fn values(generated: &HashMap<usize, GeneratedValues>) -> Vec<(usize, i64)> {
    let mut values: Vec<(usize, i64)> =
        generated.iter().map(|(position, values)| (*position, values.get("n").expect("a value"))).collect();
    values.sort_unstable();
    values
}

/// Every second of six documents is a duplicate; what the error says, and what is stored.
#[track_caller]
fn half_refused(contract: Contract, ordered: bool, told: &[(usize, i64)], next: i64) {
    let numbered = with(contract);
    numbered.unique(doc! { "k": 1 });
    let batch = [0, 0, 1, 1, 2, 2].map(|k| doc! { "k": k });
    let details = refusals(numbered.things.insert_many(batch).ordered(ordered).run());
    assert_eq!(values(&details.generated), told);
    assert_eq!(numbered.numbers(), told.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    assert_eq!(details.inserted_ids.len(), told.len());
    let refused: Vec<usize> = details.write_errors.iter().flatten().map(|error| error.index).collect();
    assert_eq!(refused, if ordered { vec![1] } else { vec![1, 3, 5] });
    assert_eq!(numbered.insert(doc! { "k": 9 }).last_generate_id, Some(next));
}

#[test]
fn the_error_of_a_batch_tells_the_values_of_stored_documents() {
    for contract in [Contract::Fast, Contract::Ordered] {
        half_refused(contract, true, &[(0, 1)], 7);
        half_refused(contract, false, &[(0, 1), (2, 3), (4, 5)], 7);
    }
    half_refused(Contract::Gapless, true, &[(0, 1)], 2);
    half_refused(Contract::Gapless, false, &[(0, 1), (2, 2), (4, 3)], 4);
}

#[test]
fn a_malformed_document_takes_no_gapless_value() {
    let numbered = with(Contract::Gapless);
    let batch = [doc! {}, doc! { "_id": [1] }, doc! {}];
    let details = refusals(numbered.things.insert_many(batch.clone()).ordered(false).run());
    assert_eq!(values(&details.generated), [(0, 1), (2, 2)]);
    let details = refusals(numbered.things.insert_many(batch).run());
    assert_eq!(values(&details.generated), [(0, 3)]);
    numbered.things.insert_one(doc! { "_id": [1] }).run().expect_err("an array is no _id");
    assert_eq!(numbered.next(), 4);
}

#[test]
fn batches_of_more_than_a_commit_are_numbered_in_order() {
    for contract in CONTRACTS {
        let numbered = with(contract);
        let pad = "p".repeat(1 << 20);
        let batch: Vec<Document> = (0..20).map(|id| doc! { "_id": id, "pad": &pad }).collect();
        let result = numbered.things.insert_many(&batch).run().unwrap();
        assert_eq!(values(&result.generated), (0..20).zip(1..=20).collect::<Vec<_>>());
        assert_eq!(numbered.numbers(), (1..=20).collect::<Vec<_>>());
    }
}

/// Every rejected document had all behind it completed and numbered again: this lasted minutes, while others waited.
#[test]
fn many_refused_documents_of_a_gapless_batch_leave_no_gap() {
    let numbered = with(Contract::Gapless);
    let batch: Vec<Document> = (0..40_000).map(|id| doc! { "_id": id / 2 }).collect();
    let details = refusals(numbered.things.insert_many(&batch).ordered(false).run());
    assert_eq!(details.write_errors.map(|errors| errors.len()), Some(20_000));
    assert_eq!(values(&details.generated).len(), 20_000);
    assert_eq!(numbered.numbers(), (1..=20_000).collect::<Vec<_>>());
}
