//! Hidden and partial indexes: which documents they have, which searches use them, and how they are changed.

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{Hint, IndexModel, IndexOptions};
use cairndb_tests::race::race;

use crate::{Fixture, refused};

fn index(keys: Document, options: IndexOptions) -> IndexModel {
    IndexModel::builder().keys(keys).options(options).build()
}

fn partial(keys: Document, filter: Document) -> IndexModel {
    index(keys, IndexOptions::builder().partial_filter_expression(filter).build())
}

/// The text of the plan for a filter.
fn plan(fixture: &Fixture, filter: &Document) -> String {
    let namespace = fixture.things.namespace();
    let find = doc! { "find": namespace.coll.clone(), "filter": filter.clone() };
    let explain = doc! { "explain": find, "verbosity": "queryPlanner" };
    let reply = fixture.client.database(&namespace.db).run_command(explain).run().expect("explained");
    reply.get_document("queryPlanner").expect("a plan").get_document("winningPlan").expect("it").to_string()
}

#[track_caller]
fn uses_an_index(fixture: &Fixture, filter: Document, expected: bool) {
    assert_eq!(plan(fixture, &filter).contains("\"IXSCAN\""), expected, "{filter}");
}

fn run(fixture: &Fixture, command: Document) -> cairndb::Result<Document> {
    fixture.client.database(&fixture.things.namespace().db).run_command(command).run()
}

fn modify(fixture: &Fixture, index: Document) -> cairndb::Result<Document> {
    run(fixture, doc! { "collMod": fixture.things.name(), "index": index })
}

fn entries(fixture: &Fixture) -> u64 {
    let report = fixture.client.verify().expect("a report");
    assert!(report.is_clean(), "{:?}", report.findings);
    report.entries
}

#[test]
fn no_search_uses_a_hidden_index_and_every_write_keeps_it() {
    let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "a": id }));
    let options = IndexOptions::builder().unique(true).hidden(true).build();
    fixture.things.create_index(index(doc! { "a": 1 }, options)).run().expect("made");
    uses_an_index(&fixture, doc! { "a": 5 }, false);
    let by_a = || fixture.things.find(doc! { "a": 5 }).hint(Hint::Name("a_1".to_owned())).run();
    refused(by_a().map(drop), 2, "does not correspond to an existing index");
    let by_keys = fixture.things.find(doc! {}).hint(Hint::Keys(doc! { "a": 1 })).run();
    refused(by_keys.map(drop), 2, "does not correspond to an existing index");
    refused(fixture.things.insert_one(doc! { "a": 5 }).run(), 11000, "a_1");
    fixture.things.insert_one(doc! { "_id": 20, "a": 20 }).run().expect("stored");
    assert_eq!(entries(&fixture), 21);

    fixture.things.modify_index("a_1").hidden(false).run().expect("shown");
    uses_an_index(&fixture, doc! { "a": 20 }, true);
    assert_eq!(by_a().expect("a cursor").count(), 1);
    fixture.things.modify_index("a_1").hidden(true).run().expect("hidden");
    uses_an_index(&fixture, doc! { "a": 20 }, false);
}

#[test]
fn an_index_stays_hidden_after_an_open() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    fixture.things.create_index(index(doc! { "a": 1 }, IndexOptions::builder().build())).run().expect("made");
    fixture.things.modify_index("a_1").hidden(true).run().expect("hidden");
    let copy = fixture.scratch.killed();
    let client = copy.open();
    let things = cairndb_tests::scratch::things(&client);
    let listed: Vec<Bson> = things
        .list_indexes()
        .run()
        .expect("a list")
        .with_type::<Document>()
        .map(|index| index.expect("one").remove("hidden").unwrap_or(Bson::Null))
        .collect();
    assert_eq!(listed, [Bson::Null, bson!(true)]);
}

#[test]
fn collmod_hides_and_shows_by_name_and_by_keys() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": 1 }]);
    fixture.things.create_index(index(doc! { "a": 1 }, IndexOptions::default())).run().expect("made");
    let hide = |hidden: bool| doc! { "keyPattern": { "a": 1 }, "hidden": hidden };
    let reply = modify(&fixture, hide(true)).expect("hidden");
    assert_eq!(
        (reply.get_bool("hidden_old").ok(), reply.get_bool("hidden_new").ok()),
        (Some(false), Some(true))
    );
    let again = modify(&fixture, hide(true)).expect("nothing to do");
    assert!(!again.contains_key("hidden_old"), "{again}");
    let reply = modify(&fixture, doc! { "name": "a_1", "hidden": false }).expect("shown");
    assert_eq!(reply.get_bool("hidden_new").ok(), Some(false));
    refused(modify(&fixture, doc! { "name": "_id_", "hidden": true }), 2, "can't hide _id index");
    refused(modify(&fixture, doc! { "name": "b_1", "hidden": true }), 27, "b_1");
    refused(fixture.things.modify_index("b_1").hidden(true).run(), 27, "b_1");
}

#[test]
fn a_partial_index_has_the_documents_that_match_its_filter() {
    let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "a": id, "open": id % 4 == 0 }));
    fixture.things.create_index(partial(doc! { "a": 1 }, doc! { "open": true })).run().expect("made");
    assert_eq!(entries(&fixture), 5);
    fixture.things.update_one(doc! { "_id": 1 }, doc! { "$set": { "open": true } }).run().expect("changed");
    assert_eq!(entries(&fixture), 6);
    fixture
        .things
        .update_many(doc! { "a": { "$lt": 5 } }, doc! { "$unset": { "open": 1 } })
        .run()
        .expect("changed");
    assert_eq!(entries(&fixture), 3);
    fixture.things.delete_many(doc! { "open": true }).run().expect("deleted");
    assert_eq!(entries(&fixture), 0);
}

#[test]
fn a_partial_index_is_used_where_the_query_implies_its_filter() {
    let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "a": id, "n": id % 10 }));
    let filter = doc! { "n": { "$gte": 5 }, "a": { "$exists": true } };
    fixture.things.create_index(partial(doc! { "a": 1 }, filter)).run().expect("made");
    uses_an_index(&fixture, doc! { "a": 7, "n": 7 }, true);
    uses_an_index(&fixture, doc! { "a": { "$gt": 3 }, "n": { "$gt": 6, "$lt": 9 } }, true);
    uses_an_index(&fixture, doc! { "a": { "$in": [7, 8] }, "n": { "$in": [7, 8] } }, true);
    uses_an_index(&fixture, doc! { "n": 7, "$or": [{ "a": 7 }, { "a": 17 }] }, true);
    uses_an_index(&fixture, doc! { "a": 7 }, false);
    uses_an_index(&fixture, doc! { "a": 7, "n": { "$gte": 4 } }, false);
    uses_an_index(&fixture, doc! { "a": Bson::Null, "n": 7 }, false);
    uses_an_index(&fixture, doc! { "n": 7 }, false);
    // A hint does not change an answer: all records are read instead.
    let hinted = fixture.things.find(doc! { "n": 4 }).hint(Hint::Name("a_1".to_owned())).run();
    assert_eq!(hinted.expect("a cursor").count(), 2);
    let hinted = fixture.things.find(doc! { "n": 7, "a": 7 }).hint(Hint::Keys(doc! { "a": 1 })).run();
    assert_eq!(hinted.expect("a cursor").count(), 1);
    assert!(plan(&fixture, &doc! { "a": 7, "n": 7 }).contains("\"isPartial\": true"));
}

#[test]
fn only_documents_in_a_partial_index_must_differ() {
    let fixture = Fixture::new();
    let options =
        IndexOptions::builder().unique(true).partial_filter_expression(doc! { "open": true }).build();
    fixture.things.create_index(index(doc! { "a": 1 }, options)).run().expect("made");
    let insert =
        |id: i32, open: bool| fixture.things.insert_one(doc! { "_id": id, "a": 1, "open": open }).run();
    insert(1, false).expect("not in the index");
    insert(2, false).expect("not in the index");
    insert(3, true).expect("the first one");
    refused(insert(4, true), 11000, "a_1");
    let open = |id: i32| {
        let opened = doc! { "$set": { "open": true } };
        fixture.things.update_one(doc! { "_id": id }, opened).run()
    };
    refused(open(1), 11000, "a_1");
    fixture.things.delete_one(doc! { "_id": 3 }).run().expect("deleted");
    open(1).expect("the slot is free");
    assert_eq!(entries(&fixture), 1);
}

#[test]
fn eight_threads_share_the_slots_of_a_partial_unique_index() {
    let fixture = Fixture::with((0..8).map(|id| doc! { "_id": id, "a": id % 2, "open": false }));
    let options =
        IndexOptions::builder().unique(true).partial_filter_expression(doc! { "open": true }).build();
    fixture.things.create_index(index(doc! { "a": 1 }, options)).run().expect("made");
    race(0..8, |id| {
        for round in 0..60 {
            let set = |open: bool| doc! { "$set": { "open": open, "a": (id + round) % 2 } };
            let opened = fixture.things.update_one(doc! { "_id": id }, set(true)).run();
            if let Err(error) = opened {
                assert!(error.is_duplicate_key(), "{error}");
            }
            let open = fixture.things.find(doc! { "open": true }).run().expect("a cursor");
            let open: Vec<Document> = open.map(|one| one.expect("a document")).collect();
            assert!(open.len() <= 2, "{open:?}");
            fixture.things.update_one(doc! { "_id": id }, set(false)).run().expect("closed");
        }
    });
    assert_eq!(entries(&fixture), 0);
}

#[test]
fn filters_of_partial_indexes_say_what_documents_have() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let allowed = [
        doc! {},
        doc! { "a": 5 },
        doc! { "a": { "$eq": 5 }, "b": { "$exists": true } },
        doc! { "a": { "$gt": 1, "$gte": 2, "$lt": 9, "$lte": 8 } },
        doc! { "a": { "$type": "string" } },
        doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": { "$in": [1, 2] } }, { "c": 3 }] }] },
    ];
    for filter in allowed {
        fixture.things.create_index(partial(doc! { "a": 1 }, filter.clone())).run().expect("allowed");
        let listed = fixture.things.list_indexes().run().expect("a list").last().expect("two").expect("read");
        let options = listed.options.expect("options");
        assert_eq!(options.partial_filter_expression, Some(filter));
        fixture.things.drop_indexes().run().expect("dropped");
    }
    for (filter, operator) in [
        (doc! { "a": { "$ne": 5 } }, "$not"),
        (doc! { "a": { "$not": { "$gt": 5 } } }, "$not"),
        (doc! { "a": { "$exists": false } }, "$not"),
        (doc! { "$nor": [{ "a": 5 }] }, "$not"),
        (doc! { "a": { "$regex": "x" } }, "$regex"),
        (doc! { "a": { "$size": 2 } }, "$size"),
        (doc! { "a": { "$mod": [2, 1] } }, "$mod"),
        (doc! { "a": { "$elemMatch": { "b": 1 } } }, "$elemMatch"),
        (doc! { "a": { "$bitsAllSet": 1 } }, "$bitsAllSet"),
    ] {
        let refusal = fixture.things.create_index(partial(doc! { "a": 1 }, filter)).run();
        refused(refusal, 67, &format!("unsupported expression in partial index: {operator}"));
    }
    let malformed = partial(doc! { "a": 1 }, doc! { "a": { "$bogus": 1 } });
    refused(fixture.things.create_index(malformed).run(), 2, "$bogus");
    let options = IndexOptions::builder().sparse(true).partial_filter_expression(doc! { "a": 5 }).build();
    refused(fixture.things.create_index(index(doc! { "a": 1 }, options)).run(), 67, "cannot mix");
    let options = IndexOptions::builder().partial_filter_expression(doc! { "a": 5 }).build();
    let id = index(doc! { "_id": 1 }, options);
    refused(fixture.things.create_index(id).run(), 197, "partialFilterExpression");
    assert_eq!(fixture.things.list_index_names().run().expect("names"), ["_id_"]);
}

#[test]
fn partial_indexes_on_the_same_keys_differ_in_name_and_filter() {
    let fixture = Fixture::with((0..9).map(|id| doc! { "_id": id, "a": id }));
    let named = |name: &str, filter: Option<Document>| {
        let options = IndexOptions::builder().name(name.to_owned()).partial_filter_expression(filter).build();
        fixture.things.create_index(index(doc! { "a": 1 }, options)).run()
    };
    named("low", Some(doc! { "a": { "$lt": 3 } })).expect("made");
    named("low", Some(doc! { "a": { "$lt": 3.0 } })).expect("the same");
    refused(named("low", Some(doc! { "a": { "$lt": 4 } })), 86, "low");
    refused(named("low", None), 86, "low");
    refused(named("other", Some(doc! { "a": { "$lt": 3 } })), 85, "low");
    named("high", Some(doc! { "a": { "$gt": 6 } })).expect("made");
    assert_eq!(entries(&fixture), 5);
    let drop = doc! { "dropIndexes": fixture.things.name(), "index": { "a": 1 } };
    refused(run(&fixture, drop), 181, "identify by name instead");
    refused(modify(&fixture, doc! { "keyPattern": { "a": 1 }, "hidden": true }), 181, "by name");
    named("all", None).expect("made");
    // Of several the hint chooses the one with all documents.
    let hinted = fixture.things.find(doc! { "a": { "$gt": 2 } }).hint(Hint::Keys(doc! { "a": 1 })).run();
    assert_eq!(hinted.expect("a cursor").count(), 6);
}

#[test]
fn a_document_outside_of_a_partial_index_may_have_what_cannot_be_indexed() {
    let fixture = Fixture::new();
    fixture.things.create_index(partial(doc! { "a": 1, "b": 1 }, doc! { "open": true })).run().expect("made");
    let parallel = |open: bool| doc! { "a": [1, 2], "b": [1, 2], "open": open };
    fixture.things.insert_one(parallel(false)).run().expect("not in the index");
    refused(fixture.things.insert_one(parallel(true)).run(), 171, "parallel arrays");
    assert_eq!(entries(&fixture), 0);
}
