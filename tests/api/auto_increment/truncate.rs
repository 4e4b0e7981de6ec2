//! `truncate`: no document stays, and sequences start again unless a field says otherwise.

use cairndb::bson::{Document, doc};

use super::{Numbered, field};

#[test]
fn sequences_start_again_as_new() {
    let options = doc! { "StartValue": 2, "MaxValue": 4, "CacheSize": 1, "AcquireSize": 1, "Cycled": true };
    let numbered = Numbered::n(options);
    assert_eq!([(); 5].map(|()| numbered.next()), [2, 3, 4, 1, 2]);
    let version = numbered.snapshot().version;
    assert_eq!(numbered.things.truncate().run().unwrap().deleted_count, 5);
    let new = doc! { "CurrentValue": 2_i64, "Initial": true, "CycledCount": 0, "Exhausted": false, "Version": version + 1 };
    numbered.shows(new);
    assert_eq!(numbered.stored(), super::NOTHING);
    assert_eq!((numbered.next(), numbered.next()), (2, 3));
}

#[test]
fn an_exhausted_sequence_starts_again() {
    let numbered = Numbered::n(doc! { "MaxValue": 1000 });
    numbered.insert(doc! { "n": 1000 });
    assert!(numbered.things.insert_one(doc! {}).run().is_err());
    numbered.things.truncate().run().unwrap();
    assert_eq!(numbered.next(), 1);
}

#[test]
fn a_field_may_go_on() {
    let numbered = Numbered::with([doc! { "Field": "n", "OnTruncate": "continue" }, doc! { "Field": "m" }]);
    numbered.insert(doc! {});
    let before = numbered.snapshot();
    numbered.things.truncate().run().unwrap();
    assert_eq!(numbered.snapshot(), before);
    let generated = numbered.insert(doc! {}).generated;
    assert_eq!(generated.iter().collect::<Vec<_>>(), [("m", 1), ("n", 2)]);
    numbered.alter(doc! { "OnTruncate": "restart" });
    numbered.things.truncate().run().unwrap();
    assert_eq!(numbered.next(), 1);
}

#[test]
fn every_acquirer_starts_again() {
    let numbered = Numbered::n(doc! { "AcquireSize": 10, "CacheSize": 100 });
    let other = numbered.client.acquirer().database("test").collection::<Document>("things");
    numbered.next();
    other.insert_one(doc! {}).run().unwrap();
    numbered.things.truncate().run().unwrap();
    assert_eq!(other.insert_one(doc! {}).run().unwrap().last_generate_id, Some(1));
    assert_eq!(numbered.next(), 11);
}

#[test]
fn indexes_stay_and_forget() {
    let numbered = Numbered::n(doc! {});
    numbered.unique(doc! { "n": 1 });
    numbered.unique(doc! { "k": -1 });
    numbered.insert(doc! { "k": 1 });
    numbered.things.truncate().run().unwrap();
    numbered.insert(doc! { "k": 1 });
    assert_eq!(numbered.stored(), [doc! { "k": 1, "n": 1_i64 }]);
    assert!(numbered.things.insert_one(doc! { "k": 1 }).run().unwrap_err().is_duplicate_key());
    assert_eq!(numbered.things.list_index_names().run().unwrap().len(), 3);
}

#[test]
fn ids_start_again_with_their_sequence() {
    let numbered = Numbered::with([doc! { "Field": "_id" }]);
    let fill = || numbered.things.insert_many(vec![doc! {}; 30]).run().unwrap();
    fill();
    numbered.things.truncate().run().unwrap();
    fill();
    assert_eq!(super::numbers(&numbered.things, "_id"), (1..=30).collect::<Vec<_>>());
    numbered.insert(doc! { "_id": 500 });
    assert!(numbered.things.insert_one(doc! { "_id": 30 }).run().unwrap_err().is_duplicate_key());
    numbered.things.truncate().run().unwrap();
    numbered.insert(doc! { "_id": 30 });
    let numbered = numbered.reopened();
    assert_eq!(super::numbers(&numbered.things, "_id"), [30]);
    assert_eq!(numbered.things.estimated_document_count().run().unwrap(), 1);
}

#[test]
fn the_collection_must_exist() {
    let numbered = Numbered::with([]);
    let absent = numbered.client.database("test").collection::<Document>("absent");
    crate::refused(absent.truncate().run(), 26, "ns not found: test.absent");
    assert_eq!(numbered.client.database("test").list_collection_names().run().unwrap(), ["things"]);
}

#[test]
fn documents_are_counted_also_after_a_kill() {
    let numbered = Numbered::n(doc! {});
    numbered.things.insert_many(vec![doc! {}; 7]).run().unwrap();
    let killed = numbered.killed();
    assert_eq!(killed.things.truncate().run().unwrap().deleted_count, 7);
    assert_eq!(killed.things.estimated_document_count().run().unwrap(), 0);
    assert_eq!(killed.things.truncate().run().unwrap().deleted_count, 0);
    let again = killed.killed();
    assert_eq!(again.stored(), super::NOTHING);
    assert_eq!(again.next(), 1);
}

#[test]
fn a_truncation_lists_what_it_gave_up() {
    let numbered = Numbered::n(doc! { "AcquireSize": 10, "CacheSize": 100 });
    numbered.next();
    numbered.things.truncate().run().unwrap();
    let gaps = numbered.things.auto_increment("n").gaps().unwrap();
    let seen: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.last, gap.cause.as_str())).collect();
    assert_eq!(seen, [(2, 10, "restart")]);
}

#[test]
fn a_cursor_shows_the_documents_of_its_moment() {
    let numbered = Numbered::n(doc! {});
    numbered.things.insert_many(vec![doc! {}; 300]).run().unwrap();
    let cursor = numbered.things.find(doc! {}).run().unwrap();
    numbered.things.truncate().run().unwrap();
    numbered.next();
    assert_eq!(cursor.count(), 300);
}

#[test]
fn a_collection_without_fields_is_truncated_too() {
    let numbered = Numbered::with([]);
    numbered.insert(doc! { "x": 1 });
    assert_eq!(numbered.things.truncate().run().unwrap().deleted_count, 1);
    assert_eq!(numbered.things.auto_increments().run().unwrap(), []);
    numbered.things.create_auto_increment(field(doc! { "Field": "n" })).run().unwrap();
    assert_eq!(numbered.next(), 1);
}
