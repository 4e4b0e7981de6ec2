//! The answers of entries without documents: for each rule of the planner a question, its stages, and exactly how
//! many keys and documents it looks at.
//!
//! The documents and indexes are those of `index_plans`: `n` and `_id` ascend together, `kind` goes from 0 to 3, `s` from `k0`
//! to `k9`, `m` from 0 to 2, and `tags` are arrays.

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb::{Collection, Hint, IndexModel};

use crate::Fixture;
use crate::index_plans::{check_command, check_statistics, explain, hundred};

#[track_caller]
fn check_find(filter: Document, rest: Document, stages: &str, expected: [i32; 3]) {
    let mut command = doc! { "find": "a", "filter": filter };
    command.extend(rest);
    check_command(&command, stages, expected);
}

#[test]
fn fields_of_an_index_are_shown_without_documents() {
    let covered = "PROJECTION_COVERED < IXSCAN kind forward";
    let shown = doc! { "projection": { "_id": 0, "kind": 1, "n": 1 } };
    check_find(doc! { "kind": 1 }, shown.clone(), covered, [25, 25, 0]);
    check_find(doc! { "kind": 1, "n": { "$lt": 200 } }, shown, covered, [5, 5, 0]);
    // The entry knows the `_id` and its type.
    check_find(doc! { "kind": 1 }, doc! { "projection": { "n": 1 } }, covered, [25, 25, 0]);
    check_find(doc! { "kind": 1 }, doc! { "projection": { "_id": 1 } }, covered, [25, 25, 0]);
    let counted = doc! { "projection": { "n": 1 }, "sort": { "n": -1 }, "limit": 3 };
    check_find(doc! { "kind": 1 }, counted, "PROJECTION_COVERED < LIMIT < IXSCAN kind forward", [3, 3, 0]);
    let sorted = doc! { "projection": { "n": 1 }, "sort": { "_id": -1 }, "hint": "n" };
    check_find(
        doc! { "n": { "$lt": 50 } },
        sorted,
        "PROJECTION_COVERED < SORT < IXSCAN n forward",
        [5, 5, 0],
    );
}

#[test]
fn documents_are_read_for_what_entries_do_not_have() {
    let fetched = "PROJECTION_DEFAULT < FETCH < IXSCAN kind forward";
    check_find(doc! { "kind": 1 }, doc! { "projection": { "s": 1 } }, fetched, [25, 25, 25]);
    check_find(doc! { "kind": 1 }, doc! { "projection": { "s": 0 } }, fetched, [25, 25, 25]);
    check_find(
        doc! { "kind": 1, "s": "k1" },
        doc! { "projection": { "m": 1 }, "hint": "kind" },
        fetched,
        [5, 25, 25],
    );
    // `tags` are arrays, of which an entry has one element. `kind` beside them has its whole value.
    let hinted = |shown: Document| doc! { "projection": shown, "hint": "tags_kind" };
    check_find(
        doc! { "tags": 3, "kind": 1 },
        hinted(doc! { "kind": 1 }),
        "PROJECTION_DEFAULT < FETCH < IXSCAN tags_kind forward",
        [10, 10, 10],
    );
    check_find(
        doc! { "kind": 1 },
        hinted(doc! { "kind": 1 }),
        "PROJECTION_COVERED < IXSCAN tags_kind forward",
        [25, 200, 0],
    );
}

#[test]
fn conditions_on_later_fields_are_tested_on_the_entry() {
    let fetched = "FETCH < IXSCAN s forward";
    let filter = doc! { "s": { "$gte": "k5" }, "m": { "$mod": [2, 0] } };
    check_find(filter.clone(), doc! {}, fetched, [34, 50, 34]);
    let covered = "PROJECTION_COVERED < IXSCAN s forward";
    check_find(filter, doc! { "projection": { "m": 1 } }, covered, [34, 50, 0]);
    check_find(doc! { "s": { "$regex": "[37]" } }, doc! {}, fetched, [20, 100, 20]);
    check_find(
        doc! { "s": { "$gte": "k5" }, "_id": { "$mod": [50, 5] } },
        doc! { "hint": "s" },
        fetched,
        [2, 50, 2],
    );
    check_find(
        doc! { "s": { "$gte": "k5" }, "$or": [{ "m": 5 }, { "s": "k9" }] },
        doc! {},
        fetched,
        [10, 50, 10],
    );
}

// A condition without a field left nothing to read of an entry, which was then mistaken for a match as it is: every document
// came back empty.
#[test]
fn a_condition_without_a_field_gives_whole_documents() {
    let filter = doc! { "kind": 1, "m": { "$not": { "$all": [] } } };
    check_find(filter.clone(), doc! { "hint": "kind" }, "FETCH < IXSCAN kind forward", [25, 25, 25]);
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let found = shop.find(filter).run().expect("a cursor").map(|document| document.expect("a document"));
    assert!(found.into_iter().all(|document| document.contains_key("tags")));
    check_find(doc! { "kind": 1, "m": { "$all": [] } }, doc! {}, "EOF", [0, 0, 0]);
}

#[test]
fn matches_are_counted_by_their_entries() {
    let count = |query: Document| doc! { "count": "a", "query": query };
    check_command(&count(doc! { "n": { "$lt": 30 } }), "COUNT < COUNT_SCAN n forward", [0, 3, 0]);
    check_command(&count(doc! { "kind": { "$in": [1, 2] } }), "COUNT < COUNT_SCAN kind forward", [0, 50, 0]);
    check_command(&count(doc! { "n": { "$mod": [500, 0] } }), "COUNT < IXSCAN n forward", [0, 100, 0]);
    check_command(&count(doc! { "kind": 1, "s": "k1" }), "COUNT < FETCH < IXSCAN s forward", [0, 10, 10]);
    // Two elements of one array may be within the bounds.
    check_command(&count(doc! { "tags": 3 }), "COUNT < FETCH < IXSCAN tags forward", [0, 40, 40]);
}

#[test]
fn different_values_are_read_once_each() {
    let distinct = |key: &str, query: Document| doc! { "distinct": "a", "key": key, "query": query };
    check_command(&distinct("kind", doc! {}), "DISTINCT_SCAN kind forward", [4, 4, 0]);
    check_command(&distinct("kind", doc! { "kind": { "$gt": 1 } }), "DISTINCT_SCAN kind forward", [2, 2, 0]);
    check_command(&distinct("n", doc! { "kind": 1 }), "DISTINCT_SCAN kind forward", [25, 25, 0]);
    check_command(&distinct("s", doc! { "m": 1 }), "DISTINCT_SCAN s forward", [10, 44, 0]);
    // Elements of arrays are values too, and an index may have equal ones of one document.
    check_command(
        &distinct("tags", doc! { "tags": { "$gt": 4 } }),
        "FETCH < IXSCAN tags forward",
        [20, 20, 20],
    );
}

/// Checks the search at the start of a pipeline.
#[track_caller]
fn check_pipeline(stages: &[Document], plan: &str, expected: [i32; 3]) {
    let reply =
        explain(&hundred(), &doc! { "aggregate": "a", "pipeline": stages, "cursor": {}, "hint": "kind" });
    let first = reply.get_array("stages").expect("stages").first().and_then(Bson::as_document);
    let cursor = first.and_then(|first| first.get_document("$cursor").ok()).expect("a search");
    check_statistics(cursor, plan, expected);
}

#[test]
fn one_document_of_a_group_is_read_if_the_first_is_enough() {
    let first = |of: &str| doc! { "$group": { "_id": "$kind", "value": { "$first": of } } };
    let (newest, oldest) =
        (doc! { "$sort": { "kind": 1, "n": -1 } }, doc! { "$sort": { "kind": -1, "n": 1 } });
    check_pipeline(&[newest.clone(), first("$n")], "DISTINCT_SCAN kind forward", [4, 4, 0]);
    check_pipeline(&[oldest, first("$_id")], "DISTINCT_SCAN kind backward", [4, 4, 0]);
    let fetched = "FETCH < DISTINCT_SCAN kind forward";
    check_pipeline(&[newest.clone(), first("$m")], fetched, [4, 4, 4]);
    // Only a match is enough: of the even kind there is none.
    let some = doc! { "$match": { "kind": { "$gt": 1 }, "s": "k3" } };
    check_pipeline(&[some, newest.clone(), first("$$ROOT")], fetched, [1, 30, 30]);
    let kinds = doc! { "$group": { "_id": "$kind" } };
    check_pipeline(std::slice::from_ref(&kinds), "DISTINCT_SCAN kind forward", [4, 4, 0]);
    // A document that is left out could not be counted, and without a sort any document could be the first one.
    let all = "IXSCAN kind forward";
    check_pipeline(&[newest.clone(), doc! { "$limit": 50 }, kinds], &format!("LIMIT < {all}"), [50, 50, 0]);
    check_pipeline(&[first("$n")], all, [100, 100, 0]);
    let last = doc! { "$group": { "_id": "$kind", "value": { "$last": "$n" } } };
    check_pipeline(&[newest.clone(), last], all, [100, 100, 0]);
    let computed = doc! { "$group": { "_id": { "$add": ["$kind", 1] }, "value": { "$first": "$n" } } };
    check_pipeline(&[newest, computed], all, [100, 100, 0]);
}

#[test]
fn the_order_of_a_sort_is_merged_from_a_scan_for_each_value() {
    let by_n = doc! { "sort": { "n": -1 }, "limit": 3 };
    let scan = |direction: &str| format!("FETCH < IXSCAN kind {direction}");
    let merged = format!("LIMIT < SORT_MERGE ({}, {})", scan("forward"), scan("forward"));
    // Each scan is one entry ahead; a document is read only when its turn comes.
    check_find(doc! { "kind": { "$in": [1, 2] } }, by_n.clone(), &merged, [3, 4, 3]);
    let ascending = doc! { "sort": { "n": 1 }, "limit": 3 };
    let merged = merged.replace("forward", "backward");
    check_find(doc! { "kind": { "$in": [1, 2] } }, ascending, &merged, [3, 4, 3]);
    let alternatives = doc! { "$or": [{ "kind": 1 }, { "n": { "$lt": 30 } }] };
    let merged = "LIMIT < SORT_MERGE (FETCH < IXSCAN kind forward, FETCH < IXSCAN n backward)";
    check_find(alternatives, by_n, merged, [3, 4, 4]);
}

// A scan of a unique index for one value has one document, which is in any order. Several of them were merged by the rest
// of their keys, which had nothing of the sort.
#[test]
fn single_documents_of_a_unique_index_are_merged_by_the_sort() {
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let sorted = |hint: Hint| -> Vec<Document> {
        let find = shop.find(doc! { "n": { "$in": [90, 20, 70, 40, 50] } }).sort(doc! { "m": -1, "_id": 1 });
        find.hint(hint).run().expect("a cursor").map(|document| document.expect("a document")).collect()
    };
    let plain = sorted(Hint::Keys(doc! { "$natural": 1 }));
    assert_eq!(sorted(Hint::Keys(doc! { "n": 1 })), plain);
    assert_eq!(plain.iter().map(|shown| shown.get_i32("_id").unwrap()).collect::<Vec<_>>(), [2, 5, 4, 7, 9]);
}

#[test]
fn stages_that_read_few_fields_are_covered() {
    let fixture = hundred();
    for (stages, expected) in [
        (vec![doc! { "$count": "n" }], 0),
        (vec![doc! { "$group": { "_id": "$kind", "sum": { "$sum": "$n" } } }], 0),
        (vec![doc! { "$project": { "n": 1 } }], 0),
        (vec![doc! { "$group": { "_id": "$kind", "s": { "$first": "$s" } } }], 50),
        (vec![doc! { "$set": { "z": 1 } }, doc! { "$count": "n" }], 50),
    ] {
        let pipeline = [vec![doc! { "$match": { "kind": { "$gt": 1 } } }], stages].concat();
        let reply = explain(&fixture, &doc! { "aggregate": "a", "pipeline": pipeline.clone(), "cursor": {} });
        assert!(
            reply.to_string().contains(&format!("\"totalDocsExamined\": {expected}")),
            "{pipeline:?} {reply}"
        );
    }
}

/// The answers with the index and without are the same bytes.
#[track_caller]
fn check_same(documents: &[RawDocumentBuf], keys: Document, projection: Document, documents_read: i32) {
    let fixture = crate::Fixture::new();
    let shop: Collection<RawDocumentBuf> = fixture.client.database("shop").collection("a");
    shop.insert_many(documents).run().expect("they are new");
    shop.create_index(IndexModel::builder().keys(keys.clone()).build()).run().expect("made");
    let shown = |hint: Hint| -> Vec<RawDocumentBuf> {
        let find = shop.find(doc! {}).projection(projection.clone()).hint(hint);
        find.run().expect("a cursor").map(|document| document.expect("a document")).collect()
    };
    let mut covered = shown(Hint::Keys(keys.clone()));
    let mut plain = shown(Hint::Keys(doc! { "$natural": 1 }));
    covered.sort_by_key(|document| document.as_bytes().to_vec());
    plain.sort_by_key(|document| document.as_bytes().to_vec());
    assert_eq!(covered, plain);
    let find = doc! { "find": "a", "projection": projection, "hint": keys };
    let reply = explain(&fixture, &find);
    let statistics = reply.get_document("executionStats").expect("it was run");
    assert_eq!(statistics.get_i32("totalDocsExamined").ok(), Some(documents_read), "{statistics}");
}

#[test]
fn what_an_entry_cannot_tell_is_read() {
    let raw = |documents: Vec<Document>| -> Vec<RawDocumentBuf> {
        documents.iter().map(|document| RawDocumentBuf::try_from(document).expect("a document")).collect()
    };
    // Null and missing are one key; so are an embedded document without the field, and a value that is not a document.
    let absent = raw(vec![
        doc! { "a": { "b": Bson::Null } },
        doc! { "a": {} },
        doc! { "a": 5 },
        doc! {},
        doc! { "a": { "b": 7, "c": 8 } },
    ]);
    check_same(&absent, doc! { "a.b": 1 }, doc! { "a.b": 1 }, 4);
    check_same(&absent, doc! { "a.b": 1 }, doc! { "_id": 1 }, 0);
    // The fields come in the order of the document.
    let orders = raw(vec![
        doc! { "_id": 1, "a": 1, "b": 1, "c": 1 },
        doc! { "_id": 2_i64, "c": 2, "b": 2.0, "a": 2 },
        doc! { "_id": 3.0, "b": { "x": 1 }, "z": 0, "c": "text", "a": false },
        doc! { "_id": "four", "c": 4, "a": 4_i64, "b": Bson::Undefined },
    ]);
    check_same(&orders, doc! { "b": 1, "a": -1, "c": 1 }, doc! { "a": 1, "b": 1, "c": 1 }, 0);
    // Of a repeated name an index has the first value, and a projection shows all.
    let mut twice = RawDocumentBuf::try_from(&doc! { "_id": 1, "a": 1 }).expect("a document");
    twice.append(cairndb::bson::cstr!("a"), 2);
    check_same(&[twice], doc! { "a": 1 }, doc! { "a": 1 }, 1);
    // Every type comes back as it was.
    let types = raw(vec![
        doc! { "a": 1 },
        doc! { "a": 1.0 },
        doc! { "a": 1_i64 },
        doc! { "a": -0.0 },
        doc! { "a": f64::NAN },
        doc! { "a": Bson::Symbol("s".into()) },
        doc! { "a": { "x": [1, 2.0, { "y": 3_i64 }] } },
        doc! { "a": Bson::MinKey },
    ]);
    check_same(&types, doc! { "a": -1 }, doc! { "_id": 0, "a": 1 }, 0);
}

#[test]
fn an_array_that_comes_later_ends_the_covering() {
    let fixture = crate::Fixture::new();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    shop.create_index(IndexModel::builder().keys(doc! { "a": 1, "b": 1 }).build()).run().expect("made");
    shop.insert_one(doc! { "_id": 1, "a": 1, "b": 1 }).run().expect("stored");
    let shown = || {
        let find = shop.find(doc! { "a": { "$gte": 0 } }).projection(doc! { "_id": 0, "b": 1 });
        find.run().expect("a cursor").map(|document| document.expect("a document")).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [doc! { "b": 1 }]);
    shop.insert_one(doc! { "_id": 2, "a": 2, "b": [1, 2] }).run().expect("stored");
    assert_eq!(shown(), [doc! { "b": 1 }, doc! { "b": [1, 2] }]);
}

/// A field and one inside of it were both read from the entry, so the document had the outer one twice.
#[test]
fn a_field_inside_of_another_one_is_shown_once() {
    let fixture = Fixture::new();
    let things = &fixture.things;
    things.create_index(IndexModel::builder().keys(doc! { "a.x": 1, "a": 1 }).build()).run().expect("built");
    things
        .insert_many([doc! { "_id": 1, "a": { "x": 5, "y": 1 } }, doc! { "_id": 2, "a": { "x": 3 } }])
        .run()
        .expect("new");
    let found = things
        .find(doc! { "a.x": { "$lt": 9 } })
        .sort(doc! { "a.x": 1 })
        .projection(doc! { "_id": 0, "a": 1 });
    let found: Vec<Document> = found.run().expect("a cursor").collect::<Result<_, _>>().expect("documents");
    assert_eq!(found, [doc! { "a": { "x": 3 } }, doc! { "a": { "x": 5, "y": 1 } }]);
}

/// Records are stepped to, or looked up, as they lie: in the order of the entries, against it, with gaps between them, or
/// scattered.
#[test]
fn records_are_found_however_they_lie() {
    let scattered = |id: i32| (id * 7919) % 1009;
    let gaps = |id: i32| if id % 10 == 0 { id } else { 10_000 + id };
    let documents = (0..1000)
        .map(|id| {
            doc! { "_id": id, "up": id, "down": -id, "gaps": gaps(id), "scattered": scattered(id), "runs": scattered(id / 20) }
        });
    let fixture = Fixture::with(documents);
    let collection: Collection<RawDocumentBuf> = fixture.things.clone_with_type();
    for removed in (100..400).filter(|id| id % 3 != 0) {
        collection.delete_one(doc! { "_id": removed }).run().expect("deleted");
    }
    for field in ["up", "down", "gaps", "scattered", "runs"] {
        collection.create_index(IndexModel::builder().keys(doc! { field: 1 }).build()).run().expect("built");
        for direction in [1, -1] {
            let found = |hint: Hint| -> Vec<RawDocumentBuf> {
                let search = collection
                    .find(doc! { field: { "$gte": -2000 } })
                    .sort(doc! { field: direction, "_id": 1 });
                // Batches, between which the cursor keeps nothing of the storage.
                let cursor = search.hint(hint).batch_size(37).run().expect("found");
                cursor.map(|document| document.expect("read")).collect()
            };
            let by_index = found(Hint::Keys(doc! { field: 1 }));
            assert_eq!(by_index.len(), 800);
            assert_eq!(by_index, found(Hint::Keys(doc! { "$natural": 1 })), "{field} {direction}");
        }
    }
}
