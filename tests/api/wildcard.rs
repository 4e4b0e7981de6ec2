//! Wildcard indexes: which paths they have, which questions they answer, and what they cannot be.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Hint, IndexModel, IndexOptions};

use crate::{Fixture, refused};

fn index(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

fn all() -> IndexModel {
    index(doc! { "$**": 1 }, IndexOptions::default())
}

fn projected(projection: Document) -> IndexModel {
    index(doc! { "$**": 1 }, IndexOptions::builder().wildcard_projection(projection).build())
}

/// Twenty documents with scalars, objects and nulls, without arrays.
fn twenty() -> Fixture {
    Fixture::with((0..20).map(|id| {
        let mut document = doc! { "_id": id, "a": { "b": id % 5, "c": format!("k{id}") }, "n": id };
        if id % 4 == 0 {
            document.insert("o", Bson::Null);
        }
        document
    }))
}

fn explain(fixture: &Fixture, filter: &Document, sort: Option<Document>) -> Document {
    let namespace = fixture.things.namespace();
    let mut find = doc! { "find": namespace.coll.clone(), "filter": filter.clone() };
    find.extend(sort.map(|sort| ("sort".to_owned(), Bson::Document(sort))));
    let explain = doc! { "explain": find, "verbosity": "executionStats" };
    fixture.client.database(&namespace.db).run_command(explain).run().expect("explained")
}

/// The keys that a search examines by the index, or nothing if it uses none.
#[track_caller]
fn check(fixture: &Fixture, filter: Document, keys: Option<i32>) {
    let reply = explain(fixture, &filter, None);
    let is_used = reply.to_string().contains("\"IXSCAN\"");
    let examined =
        reply.get_document("executionStats").expect("run").get_i32("totalKeysExamined").expect("keys");
    assert_eq!(is_used.then_some(examined), keys, "{filter}: {reply}");
}

fn entries(fixture: &Fixture) -> u64 {
    let report = fixture.client.verify().expect("a report");
    assert!(report.is_clean(), "{:?}", report.findings);
    report.entries
}

#[test]
fn a_path_that_every_match_has_is_read_by_the_wildcard_index() {
    let fixture = twenty();
    fixture.things.create_index(all()).run().expect("made");
    assert_eq!(entries(&fixture), 65);
    check(&fixture, doc! { "n": 5 }, Some(1));
    check(&fixture, doc! { "a.b": 3 }, Some(4));
    check(&fixture, doc! { "a.b": { "$gte": 3 }, "n": { "$lt": 1000 } }, Some(8));
    check(&fixture, doc! { "a.c": { "$in": ["k1", "k2", "x"] } }, Some(2));
    check(&fixture, doc! { "$or": [{ "n": 5 }, { "a.b": 3 }] }, Some(5));
    check(&fixture, doc! { "o": { "$type": "null" } }, Some(5));
    check(&fixture, doc! { "n": { "$gt": 5, "$ne": 7 } }, Some(13));
}

#[test]
fn what_may_have_no_entry_is_not_read_by_it() {
    let fixture = twenty();
    fixture.things.create_index(all()).run().expect("made");
    for filter in [
        doc! {},
        doc! { "_id": { "$gt": 3 } },
        doc! { "o": Bson::Null },
        doc! { "o": { "$exists": false } },
        doc! { "n": { "$ne": 5 } },
        doc! { "n": { "$exists": true } },
        doc! { "a": { "b": 1, "c": "k1" } },
        doc! { "a": { "$gt": {} } },
        doc! { "a": { "$type": "object" } },
        doc! { "o": { "$in": [1, Bson::Null] } },
        doc! { "$or": [{ "n": 5 }, { "o": Bson::Null }] },
    ] {
        check(&fixture, filter, None);
    }
    // A hint changes no answer either.
    let hint = || Hint::Keys(doc! { "$**": 1 });
    let count = |filter: Document| fixture.things.find(filter).hint(hint()).run().expect("a cursor").count();
    assert_eq!(count(doc! { "o": Bson::Null }), 20);
    assert_eq!(count(doc! {}), 20);
    assert_eq!(count(doc! { "a.b": 3 }), 4);
}

#[test]
fn arrays_are_found_by_their_elements() {
    let fixture = twenty();
    fixture.things.create_index(all()).run().expect("made");
    fixture
        .things
        .insert_one(doc! { "_id": 20, "n": [5, { "x": 7 }, [8]], "e": [], "a": {} })
        .run()
        .expect("stored");
    let count = |filter: Document| fixture.things.count_documents(filter).run().expect("counted");
    check(&fixture, doc! { "n": 5 }, Some(2));
    check(&fixture, doc! { "n.x": 7 }, Some(1));
    assert_eq!(count(doc! { "n": { "$elemMatch": { "x": 7 } } }), 1);
    assert_eq!(count(doc! { "n": [8] }), 1);
    assert_eq!(count(doc! { "n": [5, { "x": 7 }, [8]] }), 1);
    assert_eq!(count(doc! { "e": [] }), 1);
    assert_eq!(count(doc! { "a": {} }), 1);
    check(&fixture, doc! { "n.0": 5 }, None);
    assert_eq!(count(doc! { "n.0": 5 }), 1);
    assert_eq!(count(doc! { "n": { "$gt": 4, "$lt": 6 } }), 2);
    entries(&fixture);
}

#[test]
fn one_path_is_sorted_by_it_until_there_are_arrays() {
    let fixture = twenty();
    fixture.things.create_index(all()).run().expect("made");
    let sorts = |filter: &Document| {
        explain(&fixture, filter, Some(doc! { "n": -1 })).to_string().contains("\"SORT\"")
    };
    assert!(!sorts(&doc! { "n": { "$gte": 0 } }));
    assert!(sorts(&doc! { "a.b": 3 }));
    assert!(sorts(&doc! {}));
    fixture.things.insert_one(doc! { "_id": 20, "z": [1] }).run().expect("stored");
    assert!(sorts(&doc! { "n": { "$gte": 0 } }));
}

#[test]
fn declared_paths_and_projections_bound_the_index() {
    let fixture = twenty();
    fixture.things.create_index(index(doc! { "a.$**": -1 }, IndexOptions::default())).run().expect("made");
    assert_eq!(entries(&fixture), 40);
    check(&fixture, doc! { "a.b": 3 }, Some(4));
    check(&fixture, doc! { "n": 3 }, None);
    fixture.things.drop_indexes().run().expect("dropped");
    fixture.things.create_index(projected(doc! { "a.c": 0, "o": 0 })).run().expect("made");
    assert_eq!(entries(&fixture), 40);
    check(&fixture, doc! { "a.b": 3 }, Some(4));
    check(&fixture, doc! { "a.c": "k3" }, None);
    let listed = fixture.things.list_indexes().run().expect("a list").last().expect("two").expect("read");
    assert_eq!(listed.options.expect("options").wildcard_projection, Some(doc! { "a.c": 0, "o": 0 }));
    // It is kept with the index.
    let copy = fixture.scratch.killed();
    let client = copy.open();
    crate::verify_clean(&client);
    fixture.things.drop_indexes().run().expect("dropped");
    fixture.things.create_index(projected(doc! { "n": 1, "_id": 1 })).run().expect("made");
    assert_eq!(entries(&fixture), 40);
}

#[test]
fn a_wildcard_index_can_be_partial_and_hidden() {
    let fixture = twenty();
    let options = IndexOptions::builder().partial_filter_expression(doc! { "n": { "$gte": 10 } }).build();
    fixture.things.create_index(index(doc! { "$**": 1 }, options)).run().expect("made");
    check(&fixture, doc! { "a.b": 3, "n": { "$gt": 11 } }, Some(2));
    check(&fixture, doc! { "a.b": 3 }, None);
    fixture.things.modify_index("$**_1").hidden(true).run().expect("hidden");
    check(&fixture, doc! { "a.b": 3, "n": { "$gt": 11 } }, None);
}

#[test]
fn a_wildcard_index_has_no_other_kind() {
    let fixture = twenty();
    let create =
        |keys: Document, options: IndexOptions| fixture.things.create_index(index(keys, options)).run();
    let unique = || IndexOptions::builder().unique(true).build();
    let sparse = || IndexOptions::builder().sparse(true).build();
    let ttl = || IndexOptions::builder().expire_after(std::time::Duration::from_secs(5)).build();
    refused(create(doc! { "$**": 1 }, unique()), 67, "does not support the unique option");
    refused(create(doc! { "a.$**": 1 }, sparse()), 67, "does not support the sparse option");
    refused(create(doc! { "$**": 1 }, ttl()), 67, "does not support TTL");
    refused(create(doc! { "a": 1, "$**": 1 }, IndexOptions::default()), 67, "compound wildcard");
    refused(create(doc! { "$**": "x" }, IndexOptions::default()), 67, "needs a non-zero number");
    let with = |projection: Document| IndexOptions::builder().wildcard_projection(projection).build();
    refused(create(doc! { "a": 1 }, with(doc! { "a": 1 })), 2, "wildcardProjection");
    refused(create(doc! { "a.$**": 1 }, with(doc! { "b": 1 })), 2, "wildcardProjection");
    refused(create(doc! { "$**": 1 }, with(doc! {})), 2, "it has no fields");
    refused(create(doc! { "$**": 1 }, with(doc! { "a": 1, "b": 0 })), 2, "in and fields that are out");
    fixture.things.create_index(all()).run().expect("made");
    fixture.things.create_index(all()).run().expect("the same");
    refused(create(doc! { "$**": 1 }, with(doc! { "a": 1 })), 86, "$**_1");
    let modified = fixture.things.modify_index("$**_1").expire_after(std::time::Duration::ZERO).run();
    refused(modified, 72, "does not support TTL");
}

#[test]
fn every_write_keeps_the_entries_of_all_paths() {
    let fixture = twenty();
    fixture.things.create_index(all()).run().expect("made");
    fixture
        .things
        .update_many(doc! {}, doc! { "$set": { "a.d": { "e": 1 } }, "$unset": { "a.b": 1 } })
        .run()
        .unwrap();
    assert_eq!(entries(&fixture), 65);
    check(&fixture, doc! { "a.d.e": 1 }, Some(20));
    fixture.things.delete_many(doc! { "n": { "$gte": 10 } }).run().expect("deleted");
    fixture.things.replace_one(doc! { "n": 3 }, doc! { "z": [1, 2, 2] }).run().expect("replaced");
    assert_eq!(fixture.things.count_documents(doc! { "z": 2 }).run().expect("counted"), 1);
    entries(&fixture);
    // A document with more values than an index accepts is rejected, and leaves nothing.
    let many: Vec<i32> = (0..100_001).collect();
    assert!(fixture.things.insert_one(doc! { "_id": 99, "m": many }).run().is_err());
    entries(&fixture);
}
