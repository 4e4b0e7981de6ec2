//! `find`: projection, sort, variables, collation and the limit of time.

use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{Collation, Hint};
use cairndb_tests::race::pause;

use crate::{Fixture, refused};

fn five() -> Fixture {
    Fixture::with(
        [(1, 3), (2, 1), (3, 2), (4, 3), (5, 1)].map(|(id, n)| doc! { "_id": id, "n": n, "t": [n, id] }),
    )
}

/// The `_id`s in the order of a sort, of which some are skipped and a number returned.
#[track_caller]
fn check(sort: Document, (skip, limit): (u64, i64), expected: &[i32]) {
    let fixture = five();
    let found =
        fixture.things.find(doc! {}).sort(sort.clone()).skip(skip).limit(limit).run().expect("a cursor");
    let ids: Vec<i32> =
        found.map(|document| document.expect("it is there").get_i32("_id").expect("it is there")).collect();
    assert_eq!(ids, expected, "{sort}");
    let first = fixture.things.find_one(doc! {}).sort(sort.clone()).skip(skip).run().expect("a read");
    assert_eq!(
        first.map(|document| document.get_i32("_id").expect("it is there")).as_ref(),
        expected.first(),
        "{sort}"
    );
}

#[test]
fn documents_come_in_the_order_of_the_sort() {
    check(doc! { "n": 1, "_id": 1 }, (0, 0), &[2, 5, 3, 1, 4]);
    check(doc! { "n": -1, "_id": -1 }, (0, 0), &[4, 1, 3, 5, 2]);
    check(doc! { "n": 1, "_id": 1 }, (1, 2), &[5, 3]);
    check(doc! { "n": 1, "_id": 1 }, (9, 2), &[]);
    check(doc! { "_id": -1 }, (0, 0), &[5, 4, 3, 2, 1]);
    check(doc! { "_id": -1 }, (1, 2), &[4, 3]);
    check(doc! { "$natural": -1 }, (0, 1), &[5]);
    check(doc! { "t": -1 }, (0, 1), &[5]);
    check(doc! {}, (3, 0), &[4, 5]);
}

#[test]
fn a_range_of_ids_can_be_walked_backwards() {
    let fixture = five();
    let filter = doc! { "$or": [{ "_id": { "$lt": 3 } }, { "_id": 5 }] };
    let found = fixture.things.find(filter).sort(doc! { "_id": -1 }).run().expect("a cursor");
    let ids: Vec<i32> = found.map(|document| document.unwrap().get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [5, 2, 1]);
    let hinted = fixture.things.find_one(doc! {}).hint(Hint::Keys(doc! { "$natural": -1 })).run().unwrap();
    assert_eq!(hinted.unwrap().get_i32("_id").ok(), Some(5));
}

#[test]
fn a_projection_shows_parts() {
    let fixture = five();
    let one = |projection: Document| {
        fixture.things.find_one(doc! { "_id": 3, "t": 3 }).projection(projection).run().map(Option::unwrap)
    };
    assert_eq!(one(doc! { "n": 1 }).unwrap(), doc! { "_id": 3, "n": 2 });
    assert_eq!(one(doc! { "t": 0 }).unwrap(), doc! { "_id": 3, "n": 2 });
    assert_eq!(one(doc! { "_id": 0, "t.$": 1 }).unwrap(), doc! { "t": [3] });
    assert_eq!(one(doc! { "_id": 0, "m": { "$add": ["$n", 1] } }).unwrap(), doc! { "m": 3 });
    assert_eq!(one(doc! {}).unwrap().len(), 3);
    refused(one(doc! { "a": 1, "b": 0 }), 31254, "");
    let mut cursor =
        fixture.things.find(doc! {}).projection(doc! { "n": 1 }).sort(doc! { "n": 1 }).run().unwrap();
    assert!(cursor.advance().unwrap());
    assert_eq!(Document::try_from(cursor.current()).unwrap(), doc! { "_id": 2, "n": 1 });
}

#[test]
fn variables_of_let_are_seen() {
    let fixture = five();
    let filter = doc! { "$expr": { "$gte": ["$n", "$$least"] } };
    let found = fixture.things.find(filter).let_vars(doc! { "least": 3 }).projection(doc! { "l": "$$least" });
    let found: Vec<Document> = found.run().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [doc! { "_id": 1, "l": 3 }, doc! { "_id": 4, "l": 3 }]);
    refused(fixture.things.find(doc! { "$expr": "$$none" }).run(), 17276, "none");
}

#[test]
fn an_expression_that_fails_at_a_document_is_an_error_of_the_cursor() {
    let fixture = Fixture::with([doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 0 }]);
    let mut found = fixture.things.find(doc! { "$expr": { "$divide": [1, "$n"] } }).run().expect("a cursor");
    assert!(found.next().expect("a document").is_ok());
    refused(found.next().expect("an error"), 2, "");
    assert!(found.next().is_none());
    refused(fixture.things.count_documents(doc! { "$expr": { "$divide": [1, "$n"] } }).run(), 2, "");
}

#[test]
fn a_sort_that_takes_too_much_memory_is_refused() {
    let fixture = Fixture::new();
    for id in 0..12 {
        fixture.things.insert_one(doc! { "_id": id, "n": -id, "text": "x".repeat(10 << 20) }).run().unwrap();
    }
    let all = fixture.things.find(doc! {}).sort(doc! { "n": 1 }).allow_disk_use(false);
    refused(all.run().map(|_| ()), 292, "memory");
    let first = fixture.things.find(doc! {}).sort(doc! { "n": 1 }).limit(2).run().expect("a cursor");
    assert_eq!(first.count(), 2);
    assert_eq!(fixture.things.find(doc! {}).sort(doc! { "_id": -1 }).run().expect("a walk").count(), 12);
}

#[test]
fn malformed_sorts_and_unknown_collations_are_refused() {
    let fixture = five();
    let sorted = |sort: Document| fixture.things.find(doc! {}).sort(sort).run().map(|_| ());
    refused(sorted(doc! { "a": 2 }), 2, "");
    refused(sorted(doc! { "a": { "$meta": "textScore" } }), 238, "$meta");
    refused(sorted(doc! { "$natural": 1, "a": 1 }), 2, "");
    let elvish = fixture.things.find(doc! {}).collation(Collation::with_locale("elvish")).run();
    refused(elvish.map(|_| ()), 2, "'elvish'");
    assert_eq!(fixture.things.find(doc! {}).collation(Collation::simple()).run().unwrap().count(), 5);
}

/// A cursor used to give up once the time since its opening was over, also if its user had done something else all
/// the while.
#[test]
fn the_time_between_two_calls_of_a_cursor_does_not_count() {
    let fixture = Fixture::with((0..1000).map(|id| doc! { "_id": id }));
    // Much longer than the documents take on a busy machine.
    let limit = Duration::from_secs(2);
    let mut cursor = fixture.things.find(doc! {}).max_time(limit).run().expect("a cursor");
    assert!(cursor.advance().unwrap());
    let opened = Instant::now();
    while opened.elapsed() < 2 * limit {
        pause();
    }
    let rest: Vec<Document> = cursor.map(|document| document.expect("within the limit")).collect();
    assert_eq!(rest.len(), 999);
}
