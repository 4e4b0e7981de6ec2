//! The examples of MongoDB's tutorials in these verbs, with many threads; the examples show it at length.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use cairndb::{Collection, Result};
use cairndb_tests::race::race;

use crate::Fixture;

const THREADS: i64 = 8;
const EACH: i64 = 50;

fn insert_next(things: &Collection<Document>) -> Result<i64> {
    loop {
        let last = things.find(doc! {}).sort(doc! { "_id": -1 }).limit(1).run()?.next().transpose()?;
        let next = last.map_or(Ok(0), |last| last.get_i64("_id"))? + 1;
        match things.insert_one(doc! { "_id": next }).run() {
            Ok(_) => return Ok(next),
            Err(error) if error.is_duplicate_key() => {}
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn the_optimistic_loop_numbers_without_gaps() {
    let fixture = Fixture::new();
    race(0..THREADS, |_| {
        for _ in 0..EACH {
            insert_next(&fixture.things).expect("a number");
        }
    });
    let ids: Vec<i64> = fixture.stored().iter().map(|thing| thing.get_i64("_id").unwrap()).collect();
    assert_eq!(ids, (1..=THREADS * EACH).collect::<Vec<_>>());
}

#[test]
fn a_pending_token_makes_counting_repeatable() {
    let fixture = Fixture::with([doc! { "_id": 1, "n": 0 }]);
    race(0..THREADS, |_| {
        for _ in 0..EACH {
            let token = ObjectId::new();
            for _ in 0..2 {
                let note = doc! { "$addToSet": { "pending": token } };
                fixture.things.update_one(doc! { "_id": 1 }, note).run().unwrap();
            }
            for repetition in 0..2 {
                let count = doc! { "$pull": { "pending": token }, "$inc": { "n": 1 } };
                let counted =
                    fixture.things.update_one(doc! { "_id": 1, "pending": token }, count).run().unwrap();
                assert_eq!(counted.modified_count, 1 - repetition);
            }
        }
    });
    assert_eq!(
        fixture.stored(),
        [doc! { "_id": 1, "n": i32::try_from(THREADS * EACH).unwrap(), "pending": [] }]
    );
}
