//! Documents in, changed, counted and out again.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, cstr, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::ReturnDocument;

use crate::Served;

#[test]
fn documents_are_inserted_found_changed_and_deleted() {
    let served = Served::start();
    let things = &served.things;
    let id = things.insert_one(doc! { "name": "pen", "stock": 3 }).run().unwrap().inserted_id;
    assert!(matches!(id, Bson::ObjectId(_)), "the driver makes the _id");
    let pen = doc! { "_id": id.clone(), "name": "pen", "stock": 3 };
    assert_eq!(things.find_one(doc! { "_id": id.clone() }).run().unwrap(), Some(pen));

    let updated = things.update_one(doc! { "name": "pen" }, doc! { "$inc": { "stock": 2 } }).run().unwrap();
    assert_eq!((updated.matched_count, updated.modified_count), (1, 1));
    let unchanged = things.update_one(doc! { "name": "pen" }, doc! { "$set": { "stock": 5 } }).run().unwrap();
    assert_eq!((unchanged.matched_count, unchanged.modified_count), (1, 0));
    let upserted =
        things.update_one(doc! { "_id": 7 }, doc! { "$set": { "name": "ink" } }).upsert(true).run();
    assert_eq!(upserted.unwrap().upserted_id, Some(Bson::Int32(7)));
    things.replace_one(doc! { "_id": 7 }, doc! { "name": "ink", "stock": 1 }).run().unwrap();
    assert_eq!(served.stored().first(), Some(&doc! { "_id": 7, "name": "ink", "stock": 1 }));
    let all = things.update_many(doc! {}, doc! { "$set": { "seen": true } }).run().unwrap();
    assert_eq!(all.modified_count, 2);

    assert_eq!(things.delete_one(doc! { "name": "pen" }).run().unwrap().deleted_count, 1);
    assert_eq!(things.delete_many(doc! {}).run().unwrap().deleted_count, 1);
    assert_eq!(served.stored(), [] as [Document; 0]);
    served.stop();
}

#[test]
fn every_type_comes_back_as_it_was() {
    let served = Served::start();
    let thing = doc! {
        "_id": ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap(),
        "double": 1.5,
        "text": "näher",
        "document": { "a": { "b": [] } },
        "array": [1, "two", Bson::Null],
        "binary": mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] },
        "bool": false,
        "date": mongodb::bson::DateTime::from_millis(-1),
        "null": Bson::Null,
        "pattern": mongodb::bson::Regex { pattern: cstr!("^a").into(), options: cstr!("i").into() },
        "code": Bson::JavaScriptCode("f()".to_owned()),
        "int32": i32::MIN,
        "timestamp": mongodb::bson::Timestamp { time: 5, increment: 6 },
        "int64": i64::MAX,
        "decimal": "1.50".parse::<mongodb::bson::Decimal128>().unwrap(),
        "least": Bson::MinKey,
        "greatest": Bson::MaxKey,
    };
    served.things.insert_one(&thing).run().unwrap();
    assert_eq!(served.stored(), [thing]);
    served.stop();
}

#[test]
fn a_batch_tells_which_documents_were_refused() {
    let served = Served::with([doc! { "_id": 2 }]);
    let batch = || [1, 2, 3, 2].map(|id| doc! { "_id": id });
    let error = served.things.insert_many(batch()).ordered(false).run().expect_err("two are refused");
    let ErrorKind::InsertMany(refused) = error.kind.as_ref() else { panic!("{error:?}") };
    let refused = refused.write_errors.as_ref().expect("by the server");
    assert_eq!(
        refused.iter().map(|error| (error.index, error.code)).collect::<Vec<_>>(),
        [(1, 11000), (3, 11000)]
    );
    assert_eq!(served.stored().len(), 3);
    let batch = [4, 1, 5].map(|id| doc! { "_id": id });
    assert!(served.things.insert_many(batch).run().is_err(), "an ordered batch ends at the first refusal");
    assert_eq!(served.stored().len(), 4);
    served.stop();
}

/// Longer than what a message may have: the driver cuts it in several.
#[test]
fn a_batch_larger_than_a_message_arrives_whole() {
    let served = Served::start();
    let text = "x".repeat(1 << 20);
    let inserted =
        served.things.insert_many((0..52).map(|id| doc! { "_id": id, "text": &text })).run().unwrap();
    assert_eq!(inserted.inserted_ids.len(), 52);
    let found =
        served.things.find(doc! {}).run().unwrap().map(|thing| thing.unwrap().get_str("text").unwrap().len());
    assert_eq!(found.sum::<usize>(), 52 << 20);
    served.stop();
}

#[test]
fn one_document_is_found_and_changed_in_one_step() {
    let served = Served::with([doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 2 }]);
    let things = &served.things;
    let before = things.find_one_and_update(doc! { "n": 1 }, doc! { "$inc": { "n": 10 } }).run().unwrap();
    assert_eq!(before, Some(doc! { "_id": 1, "n": 1 }));
    let after = things
        .find_one_and_update(doc! {}, doc! { "$inc": { "n": 10 } })
        .sort(doc! { "n": -1 })
        .projection(doc! { "_id": 0 })
        .return_document(ReturnDocument::After)
        .run();
    assert_eq!(after.unwrap(), Some(doc! { "n": 21 }));
    let made = things
        .find_one_and_update(doc! { "_id": "user" }, doc! { "$inc": { "n": 1 } })
        .upsert(true)
        .return_document(ReturnDocument::After)
        .run();
    assert_eq!(made.unwrap(), Some(doc! { "_id": "user", "n": 1 }));
    let replaced = things.find_one_and_replace(doc! { "_id": 2 }, doc! { "m": 0 }).run().unwrap();
    assert_eq!(replaced, Some(doc! { "_id": 2, "n": 2 }));
    assert_eq!(things.find_one_and_delete(doc! { "m": 0 }).run().unwrap(), Some(doc! { "_id": 2, "m": 0 }));
    assert_eq!(things.find_one_and_delete(doc! { "m": 0 }).run().unwrap(), None);
    served.stop();
}

#[test]
fn documents_are_counted_and_their_values_listed() {
    let served = Served::with((0..10).map(|id| doc! { "_id": id, "kind": id % 3 }));
    let things = &served.things;
    assert_eq!(things.count_documents(doc! { "kind": 0 }).run().unwrap(), 4);
    assert_eq!(things.count_documents(doc! {}).skip(2).limit(5).run().unwrap(), 5);
    assert_eq!(things.count_documents(doc! { "kind": 9 }).run().unwrap(), 0);
    assert_eq!(things.estimated_document_count().run().unwrap(), 10);
    let kinds = things.distinct("kind", doc! { "_id": { "$gt": 0 } }).run().unwrap();
    assert_eq!(kinds, [1, 2, 0].map(Bson::Int32));
    served.stop();
}

#[test]
fn a_pipeline_groups_documents() {
    let served = Served::with((0..10).map(|id| doc! { "_id": id, "kind": id % 3 }));
    let pipeline = [
        doc! { "$match": { "_id": { "$gte": 1 } } },
        doc! { "$group": { "_id": "$kind", "n": { "$sum": 1 } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let groups: Vec<Document> =
        served.things.aggregate(pipeline).run().unwrap().map(Result::unwrap).collect();
    assert_eq!(groups, [0, 1, 2].map(|kind| doc! { "_id": kind, "n": 3 }));
    served.stop();
}

#[test]
fn a_duplicate_key_names_the_index_and_the_value() {
    let served = Served::with([doc! { "_id": 1 }]);
    let error = served.things.insert_one(doc! { "_id": 1 }).run().expect_err("it is there");
    let ErrorKind::Write(WriteFailure::WriteError(refusal)) = error.kind.as_ref() else {
        panic!("{error:?}")
    };
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (11000, "E11000 duplicate key error collection: shop.things index: _id_ dup key: { _id: 1 }")
    );
    served.stop();
}
