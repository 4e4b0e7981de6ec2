//! `$meta`: the key by which a document was found and the id of its record, in projections and in pipelines.

use std::path::Path;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, IndexModel};
use cairndb_tests::scratch::small;

fn things(client: &Client) -> Collection<Document> {
    let things = client.database("app").collection::<Document>("things");
    let documents = (0..6).map(|number| doc! { "_id": number, "a": [number % 3, 7], "b": 5 - number });
    things.insert_many(documents).run().expect("documents");
    for keys in [doc! { "a": 1 }, doc! { "b": -1 }] {
        things.create_index(IndexModel::builder().keys(keys).build()).run().expect("an index");
    }
    things
}

fn both() -> Document {
    doc! { "_id": 0, "k": { "$meta": "indexKey" }, "r": { "$meta": "recordId" } }
}

fn found(things: &Collection<Document>, filter: Document, sort: Option<Document>) -> Vec<Document> {
    let mut found = things.find(filter).projection(both());
    if let Some(sort) = sort {
        found = found.sort(sort);
    }
    let fields = |document: Result<Document, cairndb::Error>| {
        let document = document.expect("a document");
        let shown = document.into_iter().filter(|(name, _)| matches!(name.as_str(), "k" | "r"));
        shown.collect()
    };
    found.run().expect("a cursor").map(fields).collect()
}

/// 500 documents whose sort does not fit the memory of a stage.
fn larger_than_a_stage(folder: &Path) -> Collection<Document> {
    let client = Client::builder().stage_memory(64 << 10).open(folder.join("db")).expect("a database");
    let large = client.database("app").collection("large");
    let text = "x".repeat(1 << 10);
    large
        .insert_many((0..500).map(|id| doc! { "_id": id, "n": id * 7 % 500, "text": &text }))
        .run()
        .expect("stored");
    large
}

#[test]
fn a_projection_shows_the_key_by_which_a_document_was_found() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let by_a = [doc! { "k": { "a": 1 }, "r": 1 }, doc! { "k": { "a": 1 }, "r": 4 }];
    assert_eq!(found(&things, doc! { "a": 1 }, None), by_a);
    // The key of the index that gives the order, and of a record that is found by its `_id`.
    let sorted = found(&things, doc! { "b": { "$gte": 4 } }, Some(doc! { "b": -1 }));
    assert_eq!(sorted, [doc! { "k": { "b": 5 }, "r": 0 }, doc! { "k": { "b": 4 }, "r": 1 }]);
    assert_eq!(found(&things, doc! { "_id": 3 }, None), [doc! { "k": { "_id": 3 }, "r": 3 }]);
    // All documents are read.
    let all: Vec<Document> = (0..6).map(|number| doc! { "r": number }).collect();
    assert_eq!(found(&things, doc! {}, None), all);
}

#[test]
fn a_sort_keeps_what_is_known_of_its_documents() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let sorted = found(&things, doc! { "a": 1 }, Some(doc! { "_id": -1, "x": 1 }));
    assert_eq!(sorted, [doc! { "k": { "a": 1 }, "r": 4 }, doc! { "k": { "a": 1 }, "r": 1 }]);
    // The documents themselves come out unchanged.
    let whole = things.find(doc! { "a": 1 }).sort(doc! { "_id": -1, "x": 1 });
    let whole = whole.projection(doc! { "r": { "$meta": "recordId" } }).run().expect("a cursor");
    let whole: Vec<Document> = whole.collect::<Result<_, _>>().expect("documents");
    let expected = |id: i32| doc! { "_id": id, "a": [1, 7], "b": 5 - id, "r": id };
    assert_eq!(whole, [expected(4), expected(1)]);

    // In temporary files too.
    let folder = tempfile::tempdir().expect("a folder");
    let large = larger_than_a_stage(folder.path());
    let sorted = large.find(doc! { "_id": { "$gte": 0 } }).sort(doc! { "n": 1 }).projection(both());
    let mut last = -1;
    for shown in sorted.run().expect("a cursor") {
        let shown = shown.expect("a document");
        let id = shown.get_i32("r").expect("an id");
        assert_eq!(shown.get_document("k").expect("a key"), &doc! { "_id": id });
        assert!(id * 7 % 500 > last);
        last = id * 7 % 500;
    }
    assert_eq!(last, 499);
}

#[test]
fn stages_hand_on_what_is_known_of_their_documents() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let results = |stages: Vec<Document>| {
        let results = things.aggregate(stages).run().expect("a pipeline");
        results.collect::<Result<Vec<_>, _>>().expect("documents")
    };
    let select = doc! { "$match": { "a": 1 } };
    let expected = [doc! { "k": { "a": 1 }, "r": 1 }, doc! { "k": { "a": 1 }, "r": 4 }];
    assert_eq!(results(vec![select.clone(), doc! { "$project": both() }]), expected);
    let set = doc! { "$set": { "r": { "$meta": "recordId" } } };
    let twice: Vec<Bson> = [1, 1, 4, 4].map(Bson::Int32).to_vec();
    let unwound = results(vec![select.clone(), doc! { "$unwind": "$a" }, doc! { "$skip": 0 }, set.clone()]);
    assert_eq!(
        unwound.iter().map(|shown| shown.get("r").cloned().expect("an id")).collect::<Vec<_>>(),
        twice
    );
    let lookup =
        doc! { "$lookup": { "from": "things", "localField": "b", "foreignField": "_id", "as": "other" } };
    let joined = [lookup.clone(), doc! { "$unwind": "$other" }, doc! { "$project": both() }];
    assert_eq!(results([vec![select.clone()], joined.to_vec()].concat()), expected);
    // A new document is none of those that it was made of.
    let group = doc! { "$group": { "_id": "$b" } };
    assert_eq!(
        results(vec![select, group, doc! { "$sort": { "_id": 1 } }, set]),
        [doc! { "_id": 1 }, doc! { "_id": 4 }]
    );
}

#[test]
fn a_sort_tells_what_documents_were_sorted_by() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let key = doc! { "s": { "$meta": "sortKey" }, "_id": 1 };
    let find = |sort: Document| {
        let found = things.find(doc! {}).sort(sort).projection(key.clone()).run().expect("a cursor");
        found.collect::<Result<Vec<_>, _>>().expect("documents")
    };
    let first = |shown: Vec<Document>| shown.into_iter().next().expect("a document");
    // By an index, and in memory. Of an array the element counts that it is sorted by.
    assert_eq!(first(find(doc! { "b": -1 })), doc! { "_id": 0, "s": [5] });
    assert_eq!(first(find(doc! { "a": 1 })), doc! { "_id": 0, "s": [0] });
    assert_eq!(first(find(doc! { "a": -1, "b": 1 })), doc! { "_id": 5, "s": [7, 0] });
    assert_eq!(first(find(doc! { "none": 1, "_id": -1 })), doc! { "_id": 5, "s": [Bson::Null, 5] });
    let unsorted = things.find(doc! {}).projection(key.clone()).run().map(drop);
    let error = unsorted.expect_err("there is no sort");
    assert_eq!(error.code(), Some(2), "{error}");

    let results = |stages: Vec<Document>| {
        let results = things.aggregate(stages).run().expect("a pipeline");
        results.collect::<Result<Vec<_>, _>>().expect("documents")
    };
    let show = doc! { "$project": { "s": { "$meta": "sortKey" }, "r": { "$meta": "recordId" } } };
    let by = |fields: Document| doc! { "$sort": fields };
    // A sort that the search includes, one after a stage, and one after the other: the last one counts.
    let expected = [doc! { "_id": 5, "s": [0], "r": 5 }, doc! { "_id": 4, "s": [1], "r": 4 }];
    let limit = doc! { "$limit": 2 };
    assert_eq!(results(vec![by(doc! { "b": 1 }), limit.clone(), show.clone()]), expected);
    let set = doc! { "$set": { "c": "$b" } };
    assert_eq!(results(vec![set.clone(), by(doc! { "c": 1 }), limit.clone(), show.clone()]), expected);
    let twice = vec![by(doc! { "b": -1 }), set.clone(), by(doc! { "c": 1 }), limit.clone(), show.clone()];
    assert_eq!(results(twice), expected);
    // The key of the index is known beyond a sort in memory.
    let select = doc! { "$match": { "a": 1 } };
    let both = vec![select, set, by(doc! { "c": 1 }), doc! { "$project": both() }];
    assert_eq!(results(both), [doc! { "k": { "a": 1 }, "r": 4 }, doc! { "k": { "a": 1 }, "r": 1 }]);
    // Without a sort it is missing, and so it is after a stage that makes one document of several.
    assert_eq!(
        results(vec![limit.clone(), show.clone()]),
        [doc! { "_id": 0, "r": 0 }, doc! { "_id": 1, "r": 1 }]
    );
    let group = doc! { "$group": { "_id": "$b" } };
    let grouped = vec![by(doc! { "b": 1 }), group, doc! { "$limit": 1 }, show];
    assert_eq!(results(grouped), [doc! { "_id": 0 }]);
}

#[test]
fn a_sort_beyond_memory_keeps_what_is_known_of_its_documents() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = larger_than_a_stage(folder.path());
    let show = doc! { "s": { "$meta": "sortKey" }, "r": { "$meta": "recordId" } };
    let stages = [
        doc! { "$set": { "m": { "$add": ["$n", 1] } } },
        doc! { "$sort": { "m": -1 } },
        doc! { "$project": show },
    ];
    let mut expected = 500;
    for shown in large.aggregate(stages).run().expect("a pipeline") {
        let shown = shown.expect("a document");
        assert_eq!(shown.get_array("s").expect("a key"), &vec![Bson::Int32(expected)]);
        assert_eq!(shown.get_i32("r").expect("an id") * 7 % 500, expected - 1);
        expected -= 1;
    }
    assert_eq!(expected, 0);
}

#[test]
fn a_sample_tells_its_random_numbers() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    for size in [3, 6, 9] {
        let show = doc! { "v": { "$meta": "randVal" }, "r": { "$meta": "recordId" } };
        let stages = [doc! { "$sample": { "size": size } }, doc! { "$project": show }];
        let mut last = 1.0;
        let mut count = 0;
        for shown in things.aggregate(stages).run().expect("a pipeline") {
            let shown = shown.expect("a document");
            let number = shown.get_f64("v").expect("a number");
            assert!((0.0..=last).contains(&number), "{number} after {last}");
            assert_eq!(shown.get("r"), shown.get("_id"));
            (last, count) = (number, count + 1);
        }
        assert_eq!(count, size.min(6));
    }
}

#[test]
fn a_cursor_that_rests_still_knows_its_document() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let stages = [doc! { "$match": { "a": 7 } }, doc! { "$unwind": "$a" }, doc! { "$project": both() }];
    let mut cursor = things.aggregate(stages).run().expect("a pipeline");
    let mut seen = Vec::new();
    while cursor.advance().expect("a result") {
        seen.push(cursor.deserialize_current().expect("a document").get_i32("r").expect("an id"));
        cursor.rest();
    }
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
}

#[test]
fn where_nothing_is_known_of_documents_it_is_refused() {
    let client = small().in_memory(true).open("").expect("made");
    let things = things(&client);
    let record_id = || doc! { "$meta": "recordId" };
    let refused = |result: Result<(), cairndb::Error>| {
        let error = result.expect_err("it is refused");
        assert_eq!(error.code(), Some(238), "{error}");
        assert!(error.to_string().contains("$meta of 'recordId'"), "{error}");
    };
    let set = vec![doc! { "$set": { "r": record_id() } }];
    refused(things.update_one(doc! {}, set.clone()).run().map(drop));
    let lookup = doc! { "$lookup": { "from": "things", "pipeline": set, "as": "others" } };
    refused(things.aggregate([lookup]).run().map(drop));
    refused(things.find(doc! { "$expr": record_id() }).run().map(drop));
    let changed = things.find_one_and_update(doc! {}, doc! { "$set": { "x": 1 } });
    refused(changed.projection(doc! { "r": record_id() }).run().map(drop));
}
