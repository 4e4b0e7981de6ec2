//! Indexes made, listed, enforced and dropped.

use std::thread;

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::IndexOptions;

use crate::{Served, refused};

fn unique(keys: mongodb::bson::Document) -> IndexModel {
    IndexModel::builder().keys(keys).options(IndexOptions::builder().unique(true).build()).build()
}

#[test]
fn indexes_are_made_listed_and_dropped() {
    let served = Served::with([doc! { "_id": 1, "a": 1, "b": 2 }]);
    let things = &served.things;
    let plain = IndexModel::builder().keys(doc! { "a": 1, "b": -1 }).build();
    let made = things.create_indexes([plain, unique(doc! { "c": 1 })]).run().unwrap();
    assert_eq!(made.index_names, ["a_1_b_-1", "c_1"]);
    assert_eq!(things.list_index_names().run().unwrap(), ["_id_", "a_1_b_-1", "c_1"]);
    let listed: Vec<IndexModel> = things.list_indexes().run().unwrap().map(Result::unwrap).collect();
    let of_c =
        listed.iter().find(|index| index.keys == doc! { "c": 1 }).and_then(|index| index.options.as_ref());
    assert_eq!(of_c.and_then(|options| options.unique), Some(true));
    things.drop_index("c_1").run().unwrap();
    assert_eq!(things.list_index_names().run().unwrap(), ["_id_", "a_1_b_-1"]);
    things.drop_indexes().run().unwrap();
    assert_eq!(things.list_index_names().run().unwrap(), ["_id_"]);
    refused(things.drop_index("c_1").run(), 27, "index not found with name [c_1]");
    served.stop();
}

#[test]
fn a_unique_index_refuses_and_tells_pattern_and_value() {
    let served = Served::start();
    served.things.create_index(unique(doc! { "mail": 1, "shop": -1 })).run().unwrap();
    served.things.insert_one(doc! { "_id": 1, "mail": "a@b.c", "shop": 5 }).run().unwrap();
    let again = served.things.insert_one(doc! { "_id": 2, "mail": "a@b.c", "shop": 5 }).run();
    let error = again.expect_err("the pair is there");
    let ErrorKind::Write(WriteFailure::WriteError(refusal)) = error.kind.as_ref() else {
        panic!("{error:?}")
    };
    assert_eq!(refusal.code, 11000);
    assert_eq!(
        refusal.message,
        "E11000 duplicate key error collection: shop.things index: mail_1_shop_-1 dup key: { mail: \"a@b.c\", shop: 5 }"
    );
    // The driver keeps pattern and value to itself, so the reply is looked at as it came.
    let insert = doc! { "insert": "things", "documents": [{ "_id": 3, "mail": "a@b.c", "shop": 5 }] };
    let reply = served.client.database("shop").run_command(insert).run().unwrap();
    let refusal = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!(refusal.get_document("keyPattern").unwrap(), &doc! { "mail": 1, "shop": -1 });
    assert_eq!(refusal.get_document("keyValue").unwrap(), &doc! { "mail": "a@b.c", "shop": 5 });
    assert_eq!(reply.get_i32("n").unwrap(), 0);
    served.stop();
}

#[test]
fn find_and_modify_refuses_a_duplicate_as_a_command() {
    let served = Served::with([doc! { "_id": 1, "mail": "a" }, doc! { "_id": 2, "mail": "b" }]);
    served.things.create_index(unique(doc! { "mail": 1 })).run().unwrap();
    let update = doc! { "$set": { "mail": "a" } };
    refused(
        served.things.find_one_and_update(doc! { "_id": 2 }, update).run(),
        11000,
        "index: mail_1 dup key: { mail: \"a\" }",
    );
    served.stop();
}

#[test]
fn an_index_that_is_violated_is_not_made() {
    let served = Served::with([doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 1 }]);
    refused(served.things.create_index(unique(doc! { "a": 1 })).run(), 11000, "{ a: 1 }");
    assert_eq!(served.things.list_index_names().run().unwrap(), ["_id_"]);
    served.stop();
}

/// `currentOp` and `$currentOp` say how far a build is while it runs, and forget it afterwards.
#[test]
fn a_build_that_runs_tells_how_far_it_is() {
    const DOCUMENTS: i32 = 20_000;
    const BUILDS_MAX: usize = 20;
    let tags = |id: i32| (0..8).map(move |tag| (id * 31 + tag * 7) % 5000).collect::<Vec<_>>();
    let served = Served::with((0..DOCUMENTS).map(|id| doc! { "_id": id, "a": id, "tags": tags(id) }));
    let (things, admin) = (&served.things, served.client.database("admin"));
    let by_command = || -> Vec<Document> {
        let reply = admin.run_command(doc! { "currentOp": 1, "ns": "shop.things" }).run().unwrap();
        let operations = reply.get_array("inprog").unwrap().iter();
        operations.map(|operation| operation.as_document().unwrap().clone()).collect()
    };
    let by_stage = || -> Vec<Document> {
        let stages = [doc! { "$currentOp": {} }, doc! { "$match": { "ns": "shop.things" } }];
        admin.aggregate(stages).run().unwrap().map(Result::unwrap).collect()
    };
    let mut told = Vec::new();
    // A fast machine may build an index between two questions.
    for _ in 0..BUILDS_MAX {
        thread::scope(|scope| {
            let keys = doc! { "tags": 1, "a": -1 };
            let build = scope.spawn(|| things.create_index(IndexModel::builder().keys(keys).build()).run());
            while !build.is_finished() {
                let operations = if told.len() % 2 == 0 { by_command() } else { by_stage() };
                told.extend(operations.into_iter().filter(|operation| operation.contains_key("progress")));
            }
            assert_eq!(build.join().unwrap().unwrap().index_name, "tags_1_a_-1");
        });
        if told.len() > 3 {
            break;
        }
        things.drop_index("tags_1_a_-1").run().unwrap();
    }
    assert!(told.len() > 3, "{BUILDS_MAX} builds were not seen");
    for operation in &told {
        assert!(operation.get_document("command").unwrap().contains_key("createIndexes"), "{operation}");
        let progress = operation.get_document("progress").unwrap();
        let (done, total) = (progress.get_i64("done").unwrap(), progress.get_i64("total").unwrap());
        assert!(done <= total, "{operation}");
        let msg = operation.get_str("msg").unwrap();
        assert!(msg.starts_with("Index Build: ") && msg.ends_with(" tags_1_a_-1"), "{operation}");
        if msg.contains("scanning") {
            assert_eq!(total, i64::from(DOCUMENTS), "{operation}");
        }
    }
    let steps = told.iter().map(|operation| (operation.get("msg"), operation.get("progress")));
    assert!(steps.collect::<Vec<_>>().windows(2).any(|pair| pair[0] != pair[1]), "it stood still: {told:?}");
    assert_eq!(by_command(), [] as [Document; 0]);
    assert_eq!(by_stage(), [] as [Document; 0]);
    served.stop();
}
