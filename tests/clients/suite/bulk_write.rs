//! Writes on several collections by one command, as the driver of MongoDB 8.0 sends them.

use std::collections::HashMap;

use cairndb_clients::cairn::Cairn;
use mongodb::Namespace;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, PartialBulkWriteResult};
use mongodb::options::{DeleteManyModel, InsertOneModel, ReplaceOneModel, UpdateOneModel, WriteModel};

use crate::Served;
use crate::transactions::REPLICA_SET;

fn namespace(collection: &str) -> Namespace {
    Namespace::new("shop", collection)
}

fn insert(collection: &str, document: Document) -> WriteModel {
    InsertOneModel::builder().namespace(namespace(collection)).document(document).build().into()
}

fn models() -> Vec<WriteModel> {
    let update = UpdateOneModel::builder()
        .namespace(namespace("things"))
        .filter(doc! {})
        .update(doc! { "$inc": { "n": 10 } })
        .sort(doc! { "_id": -1 })
        .build();
    let replace = ReplaceOneModel::builder()
        .namespace(namespace("others"))
        .filter(doc! { "_id": 7 })
        .replacement(doc! { "n": 1 })
        .upsert(true)
        .build();
    let delete = DeleteManyModel::builder().namespace(namespace("things")).filter(doc! { "n": 0 }).build();
    vec![
        insert("others", doc! { "_id": 1 }),
        insert("things", doc! { "_id": 3, "n": 0 }),
        update.into(),
        replace.into(),
        delete.into(),
    ]
}

#[test]
fn writes_on_several_collections_are_one_command() {
    // Alone, and as a replica set, to which the driver sends it so that it may be sent again.
    for cairn in [Cairn::start(), Cairn::start_with(&REPLICA_SET)] {
        let served = Served::over(cairn);
        served.things.insert_many((1..3).map(|id| doc! { "_id": id, "n": 0 })).run().unwrap();
        let result = served.client.bulk_write(models()).verbose_results().run().unwrap();
        let counts = &result.summary;
        assert_eq!((counts.inserted_count, counts.matched_count, counts.modified_count), (2, 1, 1));
        assert_eq!((counts.upserted_count, counts.deleted_count), (1, 2));
        assert_eq!(result.insert_results[&1].inserted_id, Bson::Int32(3));
        assert_eq!(result.update_results[&3].upserted_id, Some(Bson::Int32(7)));
        assert_eq!(result.delete_results[&4].deleted_count, 2);
        assert_eq!(served.stored(), [doc! { "_id": 3, "n": 10 }]);
        served.stop();
    }
}

#[test]
fn what_was_refused_is_told_by_position() {
    let served = Served::with([doc! { "_id": 1 }]);
    let models = || [2, 1, 3].map(|id| insert("things", doc! { "_id": id }));
    let error = served.client.bulk_write(models()).run().expect_err("one is there already");
    let ErrorKind::BulkWrite(refused) = error.kind.as_ref() else { panic!("{error:?}") };
    let codes: HashMap<usize, i32> =
        refused.write_errors.iter().map(|(position, error)| (*position, error.code)).collect();
    assert_eq!(codes, HashMap::from([(1, 11000)]));
    let Some(PartialBulkWriteResult::Summary(done)) = &refused.partial_result else { panic!("{error:?}") };
    assert_eq!(done.inserted_count, 1);
    let error = served.client.bulk_write(models()).ordered(false).run().expect_err("two are there by now");
    let ErrorKind::BulkWrite(refused) = error.kind.as_ref() else { panic!("{error:?}") };
    assert_eq!(refused.write_errors.len(), 2);
    assert_eq!(served.stored().len(), 3);
    served.stop();
}

/// More operations than one message may have, and more results than one batch.
#[test]
fn long_lists_arrive_whole() {
    let served = Served::start();
    let text = "x".repeat(1 << 10);
    let models = (0..60_000).map(|id| insert("things", doc! { "_id": id, "text": &text }));
    let result = served.client.bulk_write(models).verbose_results().run().unwrap();
    assert_eq!((result.summary.inserted_count, result.insert_results.len()), (60_000, 60_000));
    assert_eq!(served.things.count_documents(doc! {}).run().unwrap(), 60_000);
    served.stop();
}
