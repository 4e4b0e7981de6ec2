//! Documents that are read in a row, which come from leaves of their collection in memory after a few times, are those that are there.

use cairndb::bson::{Document, doc};
use cairndb::{ClientBuilder, Collection, IndexModel, IndexOptions, PlantedFault};
use cairndb_tests::scratch::{Scratch, small, things};

/// The number of times that a search is repeated. The second time leaves are wanted, and the third they are made.
const TIMES: usize = 6;

/// A join by the `_id` asks for documents one after the other. Those that are missing are inserted without a batch.
#[test]
fn documents_that_come_between_others_are_found_by_a_join() {
    let wrong_joins = |open: ClientBuilder| {
        let scratch = Scratch::new();
        let client = scratch.open_with(open);
        let things = things(&client);
        let asked = client.database("test").collection::<Document>("asked");
        asked.insert_many((0..100).map(|id| doc! { "_id": id })).run().expect("inserted");
        things.insert_many((0..100).step_by(2).map(|id| doc! { "_id": id })).run().expect("inserted");
        let mut wrong = 0;
        for (stored, id) in (50..).zip((1..100).step_by(2)) {
            wrong += joined(&asked).iter().filter(|found| **found != stored).count();
            things.insert_one(doc! { "_id": id }).run().expect("inserted");
        }
        wrong + usize::from(joined(&asked) != [100; TIMES])
    };
    assert_eq!(wrong_joins(small()), 0);
    let wrong = wrong_joins(small().planted_fault(PlantedFault::LeavesNotNoted));
    assert!(wrong > 100, "{wrong} answers from leaves");
}

/// Counts the documents that a join by the `_id` finds for a hundred ids, again and again.
fn joined(asked: &Collection<Document>) -> [i32; TIMES] {
    let lookup =
        doc! { "$lookup": { "from": "things", "localField": "_id", "foreignField": "_id", "as": "t" } };
    let pipeline = [lookup, doc! { "$unwind": "$t" }, doc! { "$count": "n" }];
    [(); TIMES].map(|()| {
        let mut found = asked.aggregate(pipeline.clone()).run().expect("joined");
        found.next().map_or(0, |found| found.expect("read").get_i32("n").expect("a number"))
    })
}

#[test]
fn documents_that_are_removed_at_once_are_in_no_leaf() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    let asked = client.database("test").collection::<Document>("asked");
    asked.insert_many((0..100).map(|id| doc! { "_id": id })).run().expect("inserted");
    let insert = |ids: std::ops::Range<i32>, bytes: usize| {
        let documents = ids.map(|id| doc! { "_id": id, "x": "x".repeat(bytes) });
        things.insert_many(documents).run().expect("inserted");
    };
    insert(0..100, 0);
    assert_eq!(joined(&asked), [100; TIMES]);
    things.truncate().run().expect("emptied");
    assert_eq!(joined(&asked), [0; TIMES]);
    // So large that a leaf has few of them, or none.
    insert(0..30, 5_000);
    insert(30..60, 20_000);
    insert(60..90, 200);
    assert_eq!(joined(&asked), [90; TIMES]);
    things.delete_many(doc! {}).run().expect("emptied");
    insert(50..100, 0);
    assert_eq!(joined(&asked), [50; TIMES]);
    let convert = doc! { "convertToCapped": things.name(), "size": 4096 };
    client.database("test").run_command(convert).run().expect("converted");
    assert_eq!(joined(&asked), [50; TIMES]);
    // They are pushed out.
    insert(1_000..1_200, 100);
    assert_eq!(joined(&asked), [0; TIMES]);
    client.database("test").run_command(doc! { "create": "others" }).run().expect("made");
    let others = client.database("test").collection::<Document>("others");
    others.insert_many((0..70).map(|id| doc! { "_id": id })).run().expect("inserted");
    others.rename("things").drop_target(true).run().expect("renamed");
    assert_eq!(joined(&asked), [70; TIMES]);
}

#[test]
fn a_transaction_sees_its_own_documents_and_no_leaf_has_them() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
    things.insert_many((0..20).map(|id| doc! { "_id": id, "a": id, "b": 0 })).run().expect("inserted");
    let sum =
        |found: Vec<Document>| -> i32 { found.iter().map(|one| one.get_i32("b").expect("a number")).sum() };
    let read = || {
        [(); TIMES].map(|()| {
            let found = things.find(doc! { "a": { "$gte": 0 } }).run().expect("a cursor");
            sum(found.map(|one| one.expect("read")).collect())
        })
    };
    assert_eq!(read(), [0; TIMES]);
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    let raise = doc! { "$inc": { "b": 1 } };
    things.update_many(doc! { "a": { "$lt": 10 } }, raise).session(&mut session).run().expect("updated");
    for _ in 0..TIMES {
        let mut cursor =
            things.find(doc! { "a": { "$gte": 0 } }).session(&mut session).run().expect("a cursor");
        let mut found = Vec::new();
        while let Some(one) = cursor.next(&mut session) {
            found.push(one.expect("read"));
        }
        assert_eq!(sum(found), 10);
        assert_eq!(read(), [0; TIMES]);
    }
    session.commit_transaction().run().expect("committed");
    assert_eq!(read(), [10; TIMES]);
}

/// Values that follow each other in an index are found where the last one ended, if one document has each.
#[test]
fn a_join_by_an_index_finds_each_value_as_often_as_it_is_there() {
    const VALUES: i32 = 600;
    for is_unique in [false, true] {
        let scratch = Scratch::new();
        let client = scratch.open_with(small());
        let things = things(&client);
        let options = IndexOptions::builder().unique(is_unique).build();
        let index = IndexModel::builder().keys(doc! { "v": 1 }).options(options).build();
        things.create_index(index).run().expect("made");
        let times = |value: i32| match value * 7919 % 5 {
            0 => 0,
            3 if !is_unique => 2,
            _ => 1,
        };
        let stored = (0..VALUES).flat_map(|value| (0..times(value)).map(move |_| doc! { "v": value }));
        things.insert_many(stored).run().expect("inserted");
        let asked = client.database("test").collection::<Document>("asked");
        asked.insert_many((0..VALUES).map(|id| doc! { "_id": id, "w": id })).run().expect("inserted");
        for round in 0..TIMES {
            let lookup =
                doc! { "$lookup": { "from": "things", "localField": "w", "foreignField": "v", "as": "t" } };
            let sort = doc! { "$sort": { "_id": if round % 2 == 0 { 1 } else { -1 } } };
            let found = asked.aggregate([sort, lookup]).run().expect("joined");
            let mut count = 0;
            for document in found {
                let document = document.expect("read");
                let value = document.get_i32("w").expect("a number");
                let joined = document.get_array("t").expect("an array");
                let is_right = joined
                    .iter()
                    .all(|one| one.as_document().and_then(|one| one.get_i32("v").ok()) == Some(value));
                assert!(is_right && joined.len() == times(value), "{value}, {round}: {joined:?}");
                count += 1;
            }
            assert_eq!(count, VALUES);
        }
    }
}
