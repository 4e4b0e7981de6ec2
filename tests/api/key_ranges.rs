//! `min` and `max` of `find`: a range of the keys of the hinted index, in its order.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Hint, IndexModel, IndexOptions};

use crate::index_plans::explain;
use crate::{Fixture, refused};

/// Twenty-five documents in `shop.a`, one for each `a` and `b` below five, and indexes on them. The `_id` is ten times `a`
/// and `b`.
fn grid() -> Fixture {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop").collection("a");
    let documents = (0..25).map(|n| {
        let (a, b) = (n / 5, n % 5);
        doc! { "_id": a * 10 + b, "a": a, "b": b, "tags": [a, b], "text": format!("{a}{b}") }
    });
    shop.insert_many(documents).run().expect("they are new");
    let odd = doc! { "b": { "$gt": 2 } };
    for (keys, name, partial) in [
        (doc! { "a": 1, "b": -1 }, "grid", None),
        (doc! { "tags": 1, "a": 1 }, "tags", None),
        (doc! { "a": 1 }, "partial", Some(odd)),
        (doc! { "$**": 1 }, "wild", None),
    ] {
        let options =
            IndexOptions::builder().name(name.to_owned()).partial_filter_expression(partial).build();
        shop.create_index(IndexModel::builder().keys(keys).options(options).build()).run().expect("made");
    }
    fixture
}

/// The `_id`s that a `find` with a hint and these fields returns, in order, and how many keys and documents it looks at.
#[track_caller]
fn check(hint: &str, fields: Document, expected: &[i32], examined: [i32; 2]) {
    let fixture = grid();
    let mut command = doc! { "find": "a", "hint": hint };
    command.extend(fields);
    let reply = explain(&fixture, &command);
    let statistics = reply.get_document("executionStats").expect("it was run");
    let told =
        ["totalKeysExamined", "totalDocsExamined"].map(|name| statistics.get_i32(name).expect("a number"));
    let run = fixture.client.database("shop").run_command(command.clone()).run().expect("a reply");
    let found = run.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("rows");
    let id = |row: &Bson| row.as_document().and_then(|row| row.get_i32("_id").ok()).expect("an _id");
    let found: Vec<i32> = found.iter().map(id).collect();
    assert_eq!((found.as_slice(), told), (expected, examined), "{command}: {reply}");
}

#[test]
fn keys_are_compared_field_by_field_in_the_order_of_the_index() {
    // `b` runs downwards: from 1 there are 1 and 0, then all of the next `a`, then those above 2.
    let both = doc! { "min": { "a": 1, "b": 1 }, "max": { "a": 3, "b": 2 } };
    check("grid", both, &[11, 10, 24, 23, 22, 21, 20, 34, 33], [9, 9]);
    check("grid", doc! { "min": { "a": 4, "b": 1 } }, &[41, 40], [2, 2]);
    check("grid", doc! { "max": { "a": 0, "b": 2 } }, &[4, 3], [2, 2]);
    check("grid", doc! { "min": { "a": 2, "b": 3 }, "max": { "a": 2, "b": 1 } }, &[23, 22], [2, 2]);
    check("grid", doc! { "min": { "a": 2, "b": 9 }, "max": { "a": 2, "b": 3 } }, &[24], [1, 1]);
    check("grid", doc! { "min": { "a": 9, "b": 9 } }, &[], [0, 0]);
    check("grid", doc! { "min": {}, "max": {} , "limit": 1 }, &[4], [1, 1]);
}

#[test]
fn keys_of_all_types_are_compared() {
    check("grid", doc! { "min": { "a": "x", "b": 0 } }, &[], [0, 0]);
    check("grid", doc! { "max": { "a": "x", "b": 0 }, "min": { "a": 4.0, "b": 1_i64 } }, &[41, 40], [2, 2]);
    check("grid", doc! { "min": { "a": Bson::Null, "b": 0 }, "max": { "a": 0, "b": 3 } }, &[4], [1, 1]);
    check("grid", doc! { "min": { "a": 4, "b": Bson::MaxKey }, "max": { "a": 4, "b": 3 } }, &[44], [1, 1]);
}

#[test]
fn the_ids_are_an_index_as_well() {
    check("_id_", doc! { "min": { "_id": 3 }, "max": { "_id": 12 } }, &[3, 4, 10, 11], [0, 4]);
    let backwards = doc! { "min": { "_id": 3 }, "max": { "_id": 12 }, "sort": { "_id": -1 } };
    check("_id_", backwards, &[11, 10, 4, 3], [0, 4]);
    check("_id_", doc! { "filter": { "_id": 11 }, "max": { "_id": 12 } }, &[11], [0, 1]);
    check("_id_", doc! { "filter": { "_id": 12 }, "max": { "_id": 12 } }, &[], [0, 0]);
}

#[test]
fn the_filter_narrows_a_range() {
    let range = doc! { "min": { "a": 1, "b": 1 }, "max": { "a": 3, "b": 2 } };
    let with = |fields: Document| range.clone().into_iter().chain(fields).collect::<Document>();
    check("grid", with(doc! { "filter": { "a": 1 } }), &[11, 10], [2, 2]);
    check("grid", with(doc! { "filter": { "a": { "$gte": 2 }, "text": "33" } }), &[33], [7, 7]);
    check("grid", with(doc! { "filter": { "a": 4 } }), &[], [0, 0]);
    // A document by its `_id` is found only within the range.
    check("grid", with(doc! { "filter": { "_id": 24 } }), &[24], [9, 1]);
    check("grid", with(doc! { "filter": { "_id": 44 } }), &[], [9, 0]);
}

#[test]
fn a_range_is_sorted_by_its_index_or_in_memory() {
    let range = doc! { "min": { "a": 1, "b": 1 }, "max": { "a": 2, "b": 2 } };
    let with = |fields: Document| range.clone().into_iter().chain(fields).collect::<Document>();
    check("grid", with(doc! { "sort": { "a": 1, "b": -1 } }), &[11, 10, 24, 23], [4, 4]);
    check("grid", with(doc! { "sort": { "a": -1, "b": 1 }, "limit": 3 }), &[23, 24, 10], [3, 3]);
    check("grid", with(doc! { "sort": { "b": 1 }, "limit": 3 }), &[10, 11, 23], [4, 4]);
    // Within one `a` the keys are sorted by `b` alone.
    let within =
        doc! { "min": { "a": 1, "b": 3 }, "max": { "a": 1, "b": 0 }, "sort": { "b": 1 }, "limit": 2 };
    check("grid", within, &[11, 12], [2, 2]);
    let sorted = |fields: Document| {
        let mut command = doc! { "find": "a", "hint": "grid" };
        command.extend(with(fields));
        explain(&grid(), &command).to_string().contains("\"SORT\"")
    };
    assert!(!sorted(doc! { "sort": { "a": -1, "b": 1 } }));
    assert!(sorted(doc! { "sort": { "b": 1 } }));
}

#[test]
fn a_range_is_covered_by_its_entries() {
    let range = doc! { "min": { "a": 1, "b": 1 }, "max": { "a": 2, "b": 2 } };
    let shown = doc! { "projection": { "_id": 1, "a": 1, "b": 1 } };
    check("grid", range.into_iter().chain(shown).collect(), &[11, 10, 24, 23], [4, 0]);
}

/// A filter is met by any element, and the range may have the entry of another one.
#[test]
fn a_document_with_arrays_is_found_once_by_any_of_its_keys() {
    let range = |min: i32, max: i32| doc! { "min": { "tags": min, "a": 0 }, "max": { "tags": max, "a": 0 } };
    check("tags", range(4, 5), &[4, 14, 24, 34, 40, 41, 42, 43, 44], [9, 9]);
    let filter = doc! { "filter": { "tags": { "$lt": 2 } } };
    check("tags", range(4, 5).into_iter().chain(filter).collect(), &[4, 14, 40, 41], [9, 9]);
    let all = grid().client.database("shop").collection::<Document>("a").find(doc! {}).run().expect("rows");
    let all = all.count();
    let fixture = grid();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let found = shop.find(doc! {}).hint(Hint::Name("tags".to_owned())).min(doc! { "tags": 0, "a": 0 });
    assert_eq!(found.run().expect("a cursor").count(), all);
}

/// Without a range such an index cannot be read for this filter, because it does not have all matches.
#[test]
fn documents_without_an_entry_are_in_no_range() {
    check("partial", doc! { "min": { "a": 3 } }, &[33, 34, 43, 44], [4, 4]);
    check("partial", doc! { "max": { "a": 1 }, "filter": { "b": 4 } }, &[4], [2, 2]);
}

#[test]
fn ranges_that_mean_nothing_are_refused() {
    let fixture = grid();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let named = |name: &str| Some(Hint::Name(name.to_owned()));
    let natural = || Some(Hint::Keys(doc! { "$natural": 1 }));
    let key = |a: i32, b: i32| doc! { "a": a, "b": b };
    for (hint, min, max, code, words) in [
        (None, Some(key(1, 1)), None, 51_173, "hint"),
        (None, None, Some(key(1, 1)), 51_173, "hint"),
        (named("grid"), Some(doc! { "a": 1 }), None, 51_174, "a, b"),
        (named("grid"), None, Some(doc! { "b": 1, "a": 1 }), 51_174, "a, b"),
        (named("grid"), None, Some(doc! { "a": 1, "b": 1, "c": 1 }), 51_174, "a, b"),
        (named("wild"), Some(doc! { "$**": 1 }), None, 51_174, "$**"),
        (named("_id_"), Some(doc! { "a": 1 }), None, 51_174, "_id"),
        (named("grid"), Some(key(1, 1)), Some(key(1, 1)), 51_175, "before"),
        (named("grid"), Some(key(1, 1)), Some(key(1, 2)), 51_175, "before"),
        (named("grid"), Some(key(2, 1)), Some(key(1, 1)), 51_175, "before"),
        (named("grid"), Some(key(1, 1)), Some(doc! { "a": 2 }), 51_176, "same"),
        (natural(), Some(doc! { "_id": 1 }), None, 291, "$natural"),
        (named("none"), Some(key(1, 1)), None, 2, "none"),
    ] {
        let (mut one, mut all) = (shop.find_one(doc! {}), shop.find(doc! { "_id": 1 }));
        if let Some(hint) = hint {
            (one, all) = (one.hint(hint.clone()), all.hint(hint));
        }
        if let Some(min) = min {
            (one, all) = (one.min(min.clone()), all.min(min));
        }
        if let Some(max) = max {
            (one, all) = (one.max(max.clone()), all.max(max));
        }
        refused(one.run(), code, words);
        refused(all.run().map(|_| ()), code, words);
    }
    let sorted = shop.find(doc! {}).sort(doc! { "$natural": -1 }).hint(Hint::Name("grid".to_owned()));
    refused(sorted.min(key(1, 1)).run().map(|_| ()), 291, "$natural");
}

#[test]
fn a_single_document_is_found_in_a_range() {
    let fixture = grid();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let hint = || Hint::Keys(doc! { "a": 1, "b": -1 });
    let first = shop.find_one(doc! {}).hint(hint()).min(doc! { "a": 2, "b": 2 }).run().expect("a read");
    assert_eq!(first.and_then(|first| first.get_i32("_id").ok()), Some(22));
    let outside = shop.find_one(doc! { "_id": 11 }).hint(hint()).min(doc! { "a": 2, "b": 2 }).run();
    assert_eq!(outside.expect("a read"), None);
    // A collection that does not exist has no index to compare with.
    let none = fixture.client.database("shop").collection::<Document>("none");
    assert_eq!(none.find(doc! {}).min(doc! { "a": 2 }).run().expect("a cursor").count(), 0);
}
