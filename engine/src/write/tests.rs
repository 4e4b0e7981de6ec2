//! The locks and latches that commits hold: counted here, because the public API shows only that they were done.

use std::collections::HashMap;

use base::error::Result;
use bson::{Bson, Document, RawBsonRef, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::OperationContext;
use store::Family;
use store::keys::{META_GAP, META_MARK};
use store::scan::{CacheUse, Scan};
use store::snapshot::Snapshot;
use store::write::{Batch, CommitLevel};

use crate::auto_increment::AutoIncrement;
use crate::client::Client;
use crate::collection::Collection;
use crate::document::draft::Drafts;
use crate::execute::matches::Matches;
use crate::fixture::Fixture;
use crate::options::{IndexModel, IndexOptions};
use crate::plan::order::Order;
use crate::plan::selector::Selector;
use crate::write::Target;
use crate::write::delete::{Done, delete_batch, delete_many};
use crate::write::find::{DocumentSearch, Walk};
use crate::write::insert::InsertingMany;
use crate::write::outcome::InsertOrder;
use crate::write::prepare::record_key;

const DOCUMENTS: i32 = 6;

/// A document of a thousand entries of 4,000 bytes each.
fn of_many_entries(id: i32) -> Document {
    // Each field of a key has about a thousand bytes at most.
    let text = "x".repeat(1000);
    let each: Vec<i32> = (0..1000).collect();
    doc! { "_id": id, "a": &text, "b": &text, "c": &text, "d": &text, "each": each }
}

/// A thousand documents were removed in one commit, whatever entries they had: gigabytes of it at the limits.
#[test]
fn a_commit_of_a_delete_ends_where_it_is_large_enough() {
    let fixture = Fixture::filled(|client| {
        let things = client.database("test").collection("things");
        things.insert_many((0..DOCUMENTS).map(of_many_entries)).run().expect("stored");
        let keys = doc! { "a": 1, "b": 1, "c": 1, "d": 1, "each": 1 };
        things.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
    });
    let Fixture { shared, database, .. } = &fixture;
    let state = fixture.collection("things").expect("the collection");
    let definition = state.enter(&OperationContext::default()).expect("unlimited").expect("not dropped");
    let operation = OperationContext::default();
    let terms = (CommitLevel::Buffered, &operation);
    let target = Target::within(shared.storage(database), &state, &definition, &shared.generator, terms);
    let everything = Selector::everything().expect("a filter");
    let found = || {
        let view = target.view(&everything).expect("a view");
        let mut matches = Matches::open(view, &everything, &Order::default()).expect("a walk");
        let mut found = Vec::new();
        while matches.advance().expect("a step") {
            found.push(matches.record_key().to_vec());
        }
        found
    };
    let all = found();
    // Two documents have nearly 8 MiB of entries, and the third passes the limit.
    let done = delete_batch(target, &everything, &all).expect("deleted");
    assert_eq!(done, Done { looked_at: 3, deleted: 3 });
    assert_eq!(found(), all[3..]);
    // Removed documents are checked, and cost nothing.
    let done = delete_batch(target, &everything, &all).expect("deleted");
    assert_eq!(done, Done { looked_at: 6, deleted: 3 });
    assert_eq!(state.count.known(), Some(0));
}

/// Every key that the store has, with its value, but for how far its sequences are: those move with what is rejected.
fn key_space(client: &Client) -> Vec<(Family, Vec<u8>, Vec<u8>)> {
    let database = client.shared().store.enter().expect("open");
    let snapshot = Snapshot::take(&database);
    let mut found = Vec::new();
    for family in Family::ALL {
        let mut scan = Scan::open(
            &snapshot,
            family,
            (Vec::new(), None),
            CacheUse::Bypass,
            &OperationContext::unlimited(),
        );
        while scan.advance().expect("a step") {
            let is_of_sequence = matches!(scan.key().first(), Some(&(META_MARK | META_GAP)));
            if family != Family::Meta || !is_of_sequence {
                found.push((family, scan.key().to_vec(), scan.value().to_vec()));
            }
        }
    }
    found
}

type Refused = Box<dyn Fn(&Collection<Document>) -> Result<()>>;

/// Writes that are rejected for what they ask.
fn refused_writes() -> Vec<(&'static str, Refused)> {
    fn insert(document: Document) -> Refused {
        Box::new(move |things| things.insert_one(&document).run().map(|_| ()))
    }
    fn update(filter: Document, update: Document) -> Refused {
        Box::new(move |things| {
            things.update_many(filter.clone(), update.clone()).upsert(true).run().map(|_| ())
        })
    }
    let deep = || (0..200).fold(Bson::Null, |inner, _| Bson::Document(doc! { "a": inner }));
    vec![
        ("an _id that is taken", insert(doc! { "_id": 1, "k": 9 })),
        ("an _id that is taken, of another type", insert(doc! { "_id": 1.0, "k": 9 })),
        ("a unique key that is taken", insert(doc! { "_id": 9, "k": 1.0, "m": 1 })),
        ("one of several keys that is taken", insert(doc! { "_id": 9, "k": [7, 8, 3] })),
        ("two fields of an index with arrays", insert(doc! { "_id": 9, "k": [4], "m": [5] })),
        ("an _id that is an array", insert(doc! { "_id": [9] })),
        ("too deep", insert(doc! { "_id": 9, "k": 9, "deep": deep() })),
        ("too long", insert(doc! { "_id": 9, "k": 9, "pad": "x".repeat(16 << 20) })),
        ("what the validator forbids", insert(doc! { "_id": 9, "k": 9, "bad": true })),
        (
            "a batch of nothing but refused ones",
            Box::new(|things| {
                let documents = [doc! { "_id": 1 }, doc! { "_id": 9, "k": 2 }, doc! { "bad": true }];
                things.insert_many(documents).ordered(false).run().map(|_| ())
            }),
        ),
        ("an update into a key that is taken", update(doc! { "_id": 1 }, doc! { "$set": { "k": [9, 2] } })),
        ("an update that changes the _id", update(doc! { "_id": 1 }, doc! { "$set": { "_id": 5 } })),
        (
            "an update that cannot add",
            update(doc! { "_id": 2 }, doc! { "$set": { "m": 1 }, "$inc": { "k": 1 } }),
        ),
        ("an upsert into a key that is taken", update(doc! { "_id": 9 }, doc! { "$set": { "k": 2 } })),
        ("an upsert that the validator forbids", update(doc! { "_id": 9 }, doc! { "$set": { "bad": 1 } })),
    ]
}

/// The public API shows what documents and indexes are; here nothing at all may be left, to the byte.
#[test]
fn refused_writes_leave_every_key_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("made");
    let database = client.database("test");
    let field = AutoIncrement::builder().field("number").build();
    let create = database.create_collection("things").validator(doc! { "bad": { "$exists": false } });
    create.auto_increment(field).run().expect("made");
    let things = database.collection::<Document>("things");
    let unique = IndexOptions::builder().unique(true).build();
    let by_k = IndexModel::builder().keys(doc! { "k": 1 }).options(unique).build();
    let by_two = IndexModel::builder().keys(doc! { "k": 1, "m": 1 }).build();
    things.create_indexes([by_k, by_two]).run().expect("made");
    things.insert_many([doc! { "_id": 1, "k": 1 }, doc! { "_id": 2, "k": [2, 3] }]).run().expect("stored");
    let before = key_space(&client);
    assert_eq!(before.iter().filter(|(family, ..)| *family == Family::Records).count(), 2);
    for (what, write) in refused_writes() {
        let error = write(&things).expect_err(what);
        assert!(key_space(&client) == before, "{what} left a trace: {error}");
    }
    // Stored documents are seen.
    things.insert_one(doc! { "_id": 3, "k": 9 }).run().expect("stored");
    assert!(key_space(&client) != before);
}

/// A delete that failed when it was to pause was mistaken for one that pauses, and went on behind the documents that it had found.
#[test]
fn a_delete_that_fails_before_a_pause_fails() {
    let fixture = Fixture::filled(|client| {
        let things = client.database("test").collection("things");
        things.insert_one(doc! { "_id": 1 }).run().expect("stored");
        let keys = doc! { "k": 1, "m": 1 };
        things.create_index(IndexModel::builder().keys(keys).build()).run().expect("made");
    });
    let Fixture { shared, database, .. } = &fixture;
    let state = fixture.collection("things").expect("the collection");
    // No write stores a document of which no entries can be made.
    let refused = RawDocumentBuf::try_from(&doc! { "_id": 0, "k": [1], "m": [1] }).expect("encoded");
    let mut batch = Batch::new(database);
    batch.put(Family::Records, &record_key(&state, RawBsonRef::Int32(0)), refused.as_bytes());
    shared.store.commit(batch, CommitLevel::Buffered).expect("written");
    let operation = OperationContext::default();
    let everything = Selector::everything().expect("a filter");
    let search = DocumentSearch { selector: &everything, order: &Order::default() };
    std::thread::scope(|scope| {
        let definition = state.enter(&operation).expect("unlimited").expect("not dropped");
        let terms = (CommitLevel::Buffered, &operation);
        let target = Target::within(shared.storage(database), &state, &definition, &shared.generator, terms);
        scope.spawn(|| drop(state.enter_alone(&operation)));
        while !state.is_wanted_alone() {
            std::thread::yield_now();
        }
        let (mut walk, mut deleted) = (Walk::default(), 0);
        let error = delete_many(target, search, &mut walk, &mut deleted).expect_err("it cannot be removed");
        assert!(!walk.resume() && deleted == 0, "{error}");
        assert_eq!(error.code(), Some(Code::CANNOT_INDEX_PARALLEL_ARRAYS.number()), "{error}");
    });
}

/// A change of the collection waited for the whole call, and all other writers behind it.
#[test]
fn an_insert_of_many_lets_a_change_of_the_collection_go_first() {
    let fixture = Fixture::filled(|client| {
        client.database("test").collection("things").insert_one(doc! { "_id": 700 }).run().expect("stored");
    });
    let Fixture { shared, database, .. } = &fixture;
    let state = fixture.collection("things").expect("the collection");
    let operation = OperationContext::default();
    let mut drafts = Drafts::default();
    for id in 0..1000 {
        drafts.push(&doc! { "_id": id }).expect("a document");
    }
    let mut inserting: InsertingMany<'_, HashMap<usize, Bson>> =
        InsertingMany::new(&mut drafts, InsertOrder::Unordered);
    std::thread::scope(|scope| {
        // It waits for this reader, and the insert begins meanwhile.
        let definition = state.enter(&operation).expect("unlimited").expect("not dropped");
        let terms = (CommitLevel::Buffered, &operation);
        let target = Target::within(shared.storage(database), &state, &definition, &shared.generator, terms);
        let alone = scope.spawn(|| drop(state.enter_alone(&operation)));
        while !state.is_wanted_alone() {
            std::thread::yield_now();
        }
        assert!(inserting.go_on(target).expect("stored").is_none(), "it is to leave the gate");
        drop(definition);
        alone.join().expect("no panic");
    });
    let definition = state.enter(&operation).expect("unlimited").expect("not dropped");
    let terms = (CommitLevel::Buffered, &operation);
    let target = Target::within(shared.storage(database), &state, &definition, &shared.generator, terms);
    let outcome = inserting.go_on(target).expect("stored").expect("none wants to be alone");
    // All of them by their positions in the call, and the one that was there before.
    assert_eq!(outcome.inserted.len(), 999);
    assert!(outcome.inserted.iter().all(|(position, id)| id.as_i32() == i32::try_from(*position).ok()));
    assert_eq!(outcome.refused.iter().map(|refused| refused.index).collect::<Vec<_>>(), [700]);
}
