//! `bulk_write`: many writes in one call, and what they did.

use cairndb::bson::{Document, doc};
use cairndb::{
    DeleteManyModel, DeleteOneModel, ErrorKind, InsertOneModel, Namespace, PartialBulkWriteResult,
    ReplaceOneModel, UpdateManyModel, UpdateOneModel, WriteModel,
};

use crate::{Fixture, refused};

fn namespace(coll: &str) -> Namespace {
    Namespace::new("bulk", coll)
}

fn insert(coll: &str, document: Document) -> WriteModel {
    InsertOneModel::builder().namespace(namespace(coll)).document(document).build().into()
}

fn update(coll: &str, filter: Document, update: Document) -> WriteModel {
    UpdateOneModel::builder().namespace(namespace(coll)).filter(filter).update(update).build().into()
}

#[test]
fn writes_of_all_kinds_go_to_several_collections() {
    let fixture = Fixture::new();
    let models: Vec<WriteModel> = vec![
        insert("a", doc! { "_id": 1, "n": 1 }),
        insert("b", doc! { "_id": 1, "n": 1 }),
        insert("b", doc! { "_id": 2, "n": 1 }),
        update("a", doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }),
        UpdateManyModel::builder()
            .namespace(namespace("b"))
            .filter(doc! {})
            .update(vec![doc! { "$set": { "n": 5 } }])
            .build()
            .into(),
        ReplaceOneModel::builder()
            .namespace(namespace("a"))
            .filter(doc! { "_id": 9 })
            .replacement(doc! { "n": 9 })
            .upsert(true)
            .build()
            .into(),
        DeleteOneModel::builder().namespace(namespace("b")).filter(doc! { "_id": 1 }).build().into(),
        DeleteManyModel::builder().namespace(namespace("b")).filter(doc! { "n": 7 }).build().into(),
    ];
    let result = fixture.client.bulk_write(models).verbose_results().run().expect("all are done");
    let summary = result.summary;
    assert_eq!((summary.inserted_count, summary.upserted_count, summary.deleted_count), (3, 1, 1));
    assert_eq!((summary.matched_count, summary.modified_count), (3, 3));
    assert_eq!(result.insert_results[&1].inserted_id, 1.into());
    assert_eq!(result.update_results[&5].upserted_id, Some(9.into()));
    assert_eq!(result.delete_results[&7].deleted_count, 0);
    let stored = crate::all(&fixture.client.database("bulk").collection("a"));
    assert_eq!(stored, [doc! { "_id": 1, "n": 2 }, doc! { "_id": 9, "n": 9 }]);
    fixture.verify_clean();
}

/// Two rejected writes among four: how many documents are there, and which writes were rejected.
#[track_caller]
fn check(ordered: bool, stored: i64, expected: &[usize]) {
    let fixture = Fixture::new();
    let models = [
        insert("a", doc! { "_id": 1 }),
        insert("a", doc! { "_id": 1 }),
        update("a", doc! { "_id": 1 }, doc! { "$bogus": {} }),
        insert("a", doc! { "_id": 2 }),
    ];
    let error = refused(fixture.client.bulk_write(models).ordered(ordered).run(), 11000, "E11000");
    let ErrorKind::BulkWrite(bulk) = error.kind() else { panic!("{error:?}") };
    let mut positions: Vec<usize> = bulk.write_errors.keys().copied().collect();
    positions.sort_unstable();
    assert_eq!(positions, expected);
    let Some(PartialBulkWriteResult::Summary(summary)) = &bulk.partial_result else { panic!("{bulk:?}") };
    assert_eq!(summary.inserted_count, stored);
}

#[test]
fn an_ordered_call_stops_and_an_unordered_one_goes_on() {
    check(true, 1, &[1]);
    check(false, 2, &[1, 2]);
}

#[test]
fn a_collection_writes_to_itself() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    let model = things.insert_one_model(doc! { "_id": 1 }).expect("a model");
    assert_eq!(things.bulk_write([model]).run().expect("done").inserted_count, 1);
    let model = things.replace_one_model(doc! { "_id": 1 }, doc! { "a": 1 }).expect("a model");
    assert_eq!(things.bulk_write([model]).run().expect("done").modified_count, 1);
    assert_eq!(fixture.stored(), [doc! { "_id": 1, "a": 1 }]);
    assert!(things.bulk_write([insert("elsewhere", doc! {})]).run().is_err());
}

#[test]
fn no_writes_and_no_collection_are_refused() {
    let fixture = Fixture::new();
    assert!(fixture.client.bulk_write(Vec::<WriteModel>::new()).run().is_err());
    let nowhere = InsertOneModel::builder().document(doc! {}).build();
    refused(fixture.client.bulk_write([nowhere]).run(), 73, "empty");
}
