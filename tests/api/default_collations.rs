//! Default collations of collections and views: what inherits them, and that they stay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{
    Client, Collation, Collection, Database, Hint, IndexModel, IndexOptions, ReturnDocument, salvage,
};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::{Scratch, small};

use crate::collation::{any_case, ids};
use crate::{refused, verify_clean};

/// A database with an empty collection `words` whose default collation is English without case.
struct Words {
    // Dropped first: the folder goes last.
    client: Client,
    stored: Collection<Document>,
    scratch: Scratch,
}

impl Words {
    fn with(documents: impl IntoIterator<Item = Document>) -> Self {
        let scratch = Scratch::new();
        let client = scratch.open();
        client.database("app").create_collection("words").collation(any_case()).run().expect("made");
        let words = client.database("app").collection("words");
        words.insert_many(documents).run().expect("stored");
        Self { client, stored: words, scratch }
    }

    fn run(&self, command: Document) -> cairndb::Result<Document> {
        self.client.database("app").run_command(command).run()
    }

    /// The options of a name in `listCollections`.
    fn options(&self, name: &str) -> Document {
        let listed = self.run(doc! { "listCollections": 1, "filter": { "name": name } }).expect("listed");
        let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let first = batch.expect("a batch").first().and_then(Bson::as_document).expect("it is listed");
        first.get_document("options").expect("options").clone()
    }

    fn plan(&self, command: Document) -> String {
        let explain = doc! { "explain": command, "verbosity": "queryPlanner" };
        self.run(explain).expect("explained").get_document("queryPlanner").expect("it is told").to_string()
    }
}

fn three() -> [Document; 3] {
    [doc! { "_id": 0, "w": "Ada" }, doc! { "_id": 1, "w": "ADA" }, doc! { "_id": 2, "w": "bob" }]
}

#[test]
fn every_operation_inherits_it_and_may_have_another_one() {
    let fixture = Words::with(three());
    let words = &fixture.stored;
    let ada = || doc! { "w": "ada" };
    assert_eq!(ids(words.find(ada()).run()), [0, 1]);
    assert!(ids(words.find(ada()).collation(Collation::simple()).run()).is_empty());
    assert_eq!(words.count_documents(ada()).run().unwrap(), 2);
    assert!(words.find_one(ada()).run().unwrap().is_some());
    assert_eq!(words.distinct("w", doc! {}).run().unwrap().len(), 2);
    assert_eq!(words.distinct("w", doc! {}).collation(Collation::simple()).run().unwrap().len(), 3);
    assert_eq!(ids(words.find(doc! {}).sort(doc! { "w": -1, "_id": 1 }).run()), [2, 0, 1]);
    assert_eq!(
        ids(words.find(doc! {}).sort(doc! { "w": 1 }).collation(Collation::simple()).run()),
        [1, 0, 2]
    );
    let groups =
        words.aggregate([doc! { "$match": ada() }, doc! { "$group": { "_id": "$w" } }]).run().unwrap();
    assert_eq!(groups.count(), 1);
    let looked_up = words.aggregate([
        doc! { "$match": { "_id": 0 } },
        doc! { "$lookup": { "from": "words", "localField": "w", "foreignField": "w", "as": "all" } },
    ]);
    let looked_up = looked_up.run().unwrap().next().unwrap().unwrap();
    assert_eq!(looked_up.get_array("all").unwrap().len(), 2);
    let set = || doc! { "$set": { "n": 1 } };
    assert_eq!(
        words.update_many(ada(), set()).collation(Collation::simple()).run().unwrap().matched_count,
        0
    );
    assert_eq!(words.update_many(ada(), set()).run().unwrap().matched_count, 2);
    let changed = words.find_one_and_update(ada(), doc! { "$inc": { "n": 1 } }).sort(doc! { "_id": -1 });
    let changed = changed.return_document(ReturnDocument::After).run().unwrap();
    assert_eq!(changed, Some(doc! { "_id": 1, "w": "ADA", "n": 2 }));
    assert_eq!(words.replace_one(doc! { "w": "BOB" }, doc! { "w": "Bob" }).run().unwrap().modified_count, 1);
    assert!(words.find_one_and_delete(doc! { "w": "BOB" }).run().unwrap().is_some());
    assert_eq!(words.delete_many(ada()).run().unwrap().deleted_count, 2);
    // By commands too, where an empty document is not a collation.
    fixture.run(doc! { "insert": "words", "documents": [{ "_id": 9, "w": "Zoe" }] }).unwrap();
    let deletes = [doc! { "q": { "w": "ZOE" }, "limit": 0, "collation": {} }];
    assert_eq!(fixture.run(doc! { "delete": "words", "deletes": deletes }).unwrap().get_i32("n").unwrap(), 1);
    verify_clean(&fixture.client);
}

#[test]
fn ids_are_unique_by_their_bytes_and_found_by_the_collation() {
    let fixture = Words::with([doc! { "_id": "Ada", "n": 1 }, doc! { "_id": "bob" }, doc! { "_id": 7 }]);
    let words = &fixture.stored;
    // Nothing else than the `_id` is asked for: no lookup by bytes may answer.
    assert_eq!(words.find_one(doc! { "_id": "ADA" }).run().unwrap(), Some(doc! { "_id": "Ada", "n": 1 }));
    assert_eq!(words.find_one(doc! { "_id": 7 }).run().unwrap(), Some(doc! { "_id": 7 }));
    let simple = words.find_one(doc! { "_id": "ADA" }).collation(Collation::simple()).run();
    assert_eq!(simple.unwrap(), None);
    assert_eq!(
        words.update_one(doc! { "_id": "BOB" }, doc! { "$set": { "n": 5 } }).run().unwrap().modified_count,
        1
    );
    words.insert_one(doc! { "_id": "ADA", "n": 2 }).run().expect("other bytes");
    assert_eq!(words.count_documents(doc! { "_id": "ada" }).run().unwrap(), 2);
    assert!(words.insert_one(doc! { "_id": "ADA" }).run().unwrap_err().is_duplicate_key());
    let sorted = words.find(doc! { "_id": { "$type": "string" } }).sort(doc! { "_id": -1 }).run().unwrap();
    let sorted: Vec<Bson> = sorted.map(|one| one.unwrap().remove("_id").unwrap()).collect();
    assert_eq!(sorted[0], "bob".into());
    let range = words.find(doc! {}).min(doc! { "_id": "ADA" }).hint(Hint::Keys(doc! { "_id": 1 })).run();
    refused(range.map(drop), 51_174, "collation");
    verify_clean(&fixture.client);
}

#[test]
fn indexes_inherit_it_unless_they_say_otherwise() {
    let fixture = Words::with(three());
    let index = |keys: Document, options: IndexOptions| {
        fixture.stored.create_index(IndexModel::builder().keys(keys).options(options).build()).run()
    };
    index(doc! { "w": 1 }, IndexOptions::default()).unwrap();
    index(
        doc! { "v": 1 },
        IndexOptions::builder().collation(Collation::simple()).unique(true).sparse(true).build(),
    )
    .unwrap();
    let listed = fixture.run(doc! { "listIndexes": "words" }).unwrap().to_string();
    assert_eq!(listed.matches("\"collation\"").count(), 1, "{listed}");
    let find = |filter: Document| fixture.plan(doc! { "find": "words", "filter": filter });
    assert!(find(doc! { "w": "ADA" }).contains("CollationKey("), "by the default");
    assert!(!find(doc! { "v": "x" }).contains("[\\\"x\\\""), "in another order");
    assert_eq!(
        ids(fixture.stored.find(doc! { "w": "aDA" }).hint(Hint::Name("w_1".to_owned())).run()),
        [0, 1]
    );
    // A field with a unique index is found without a plan; not by the bytes of a text here.
    fixture.stored.update_one(doc! { "_id": 0 }, doc! { "$set": { "v": "X" } }).run().unwrap();
    assert!(fixture.stored.find_one(doc! { "v": "x" }).run().unwrap().is_some());
    fixture.stored.insert_one(doc! { "_id": 5, "v": "x" }).run().expect("unique by its bytes");
    // The index that is there is that of the default.
    index(doc! { "w": 1 }, IndexOptions::builder().collation(any_case()).build()).expect("the same");
    refused(
        index(doc! { "w": 1 }, IndexOptions::builder().collation(Collation::simple()).build()),
        86,
        "w_1",
    );
    let unique = index(doc! { "w": 1, "n": 1 }, IndexOptions::builder().unique(true).build());
    assert!(unique.unwrap_err().is_duplicate_key(), "two are equal to the language");
    index(doc! { "_id": 1 }, IndexOptions::builder().collation(any_case()).build())
        .expect("that of the collection");
    let other = IndexOptions::builder().collation(Collation::with_locale("sv")).build();
    refused(index(doc! { "_id": 1 }, other), 2, "_id index must have the same collation");
    verify_clean(&fixture.client);
}

#[test]
fn a_validator_compares_by_it() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let app = client.database("app");
    let open = doc! { "state": { "$in": ["open", "paid"] } };
    app.create_collection("orders").collation(any_case()).validator(open).run().unwrap();
    let orders = app.collection::<Document>("orders");
    orders.insert_one(doc! { "state": "OPEN" }).run().expect("valid");
    refused(orders.insert_one(doc! { "state": "lost" }).run(), 121, "");
    let changed = doc! { "$expr": { "$eq": ["$state", "new"] } };
    app.modify_collection("orders").validator(changed).run().unwrap();
    orders.insert_one(doc! { "state": "NEW" }).run().expect("valid");
}

#[test]
fn it_is_told_kept_and_compared() {
    let fixture = Words::with(three());
    let listed = fixture.options("words");
    let collation = listed.get_document("collation").unwrap();
    assert_eq!((collation.get_str("locale").unwrap(), collation.get_i32("strength").unwrap()), ("en", 2));
    let app = fixture.client.database("app");
    app.create_collection("words").collation(any_case()).run().expect("declared alike");
    refused(app.create_collection("words").run(), 48, "different options");
    refused(
        app.create_collection("words").collation(Collation::with_locale("en")).run(),
        48,
        "different options",
    );
    // The listed options make the same collection.
    let mut create = doc! { "create": "copy" };
    create.extend(listed.clone());
    fixture.run(create).unwrap();
    assert_eq!(fixture.options("copy"), listed);
    // A rename, `$out` and a copy as a capped collection keep it.
    fixture.stored.rename("terms").run().unwrap();
    assert_eq!(fixture.options("terms"), listed);
    let terms = app.collection::<Document>("terms");
    assert_eq!(terms.count_documents(doc! { "w": "ada" }).run().unwrap(), 2);
    assert_eq!(fixture.stored.count_documents(doc! { "w": "ada" }).run().unwrap(), 0);
    terms.aggregate([doc! { "$out": "copy" }]).run().unwrap();
    assert_eq!(fixture.options("copy"), listed);
    let copy = app.collection::<Document>("copy");
    assert_eq!(copy.count_documents(doc! { "w": "ada" }).run().unwrap(), 2);
    terms.aggregate([doc! { "$out": "new" }]).run().unwrap();
    assert!(fixture.options("new").is_empty(), "as in MongoDB a new one has none");
    fixture.run(doc! { "cloneCollectionAsCapped": "terms", "toCollection": "capped", "size": 4096 }).unwrap();
    assert!(fixture.options("capped").contains_key("collation"));
    // Dropped and made again it is another collection, whatever handles remember.
    terms.drop().run().unwrap();
    terms.insert_one(doc! { "w": "Ada" }).run().unwrap();
    assert_eq!(terms.find_one(doc! { "w": "ADA" }).run().unwrap(), None);
    verify_clean(&fixture.client);
}

#[test]
fn it_is_there_after_an_open_a_kill_and_a_salvage() {
    let fixture = Words::with(three());
    fixture.stored.create_index(IndexModel::builder().keys(doc! { "w": 1 }).build()).run().unwrap();
    let app = fixture.client.database("app");
    app.create_collection("shown").view_on("words").collation(any_case()).run().unwrap();
    let Words { client, stored: words, scratch } = fixture;
    drop(words);
    let killed = scratch.killed();
    client.close().unwrap();
    let salvaged = scratch.folder().join("salvaged");
    salvage(scratch.path(), &salvaged).run().expect("salvaged");
    for client in [scratch.open(), killed.open(), small().open(&salvaged).expect("opened")] {
        let words = client.database("app").collection::<Document>("words");
        assert_eq!(ids(words.find(doc! { "w": "ada" }).run()), [0, 1]);
        assert_eq!(ids(words.find(doc! { "w": "ada" }).hint(Hint::Name("w_1".to_owned())).run()), [0, 1]);
        let shown = client.database("app").collection::<Document>("shown");
        assert_eq!(shown.count_documents(doc! { "w": "BOB" }).run().unwrap(), 1);
        verify_clean(&client);
    }
}

#[test]
fn a_view_has_its_own() {
    let fixture = Words::with(three());
    let app = fixture.client.database("app");
    let view = |name: &str| app.collection::<Document>(name);
    app.create_collection("plain").view_on("words").run().unwrap();
    let upper = [doc! { "$match": { "w": "ADA" } }];
    app.create_collection("cased").view_on("words").pipeline(upper).collation(any_case()).run().unwrap();
    // The base has one and the view none, and the other way round.
    assert_eq!(view("plain").count_documents(doc! { "w": "ada" }).run().unwrap(), 0);
    assert_eq!(ids(view("cased").find(doc! {}).run()), [0, 1]);
    assert_eq!(view("cased").count_documents(doc! { "w": "aDa" }).run().unwrap(), 2);
    assert_eq!(view("cased").distinct("w", doc! {}).run().unwrap().len(), 1);
    // The same one may be given, and no other.
    assert_eq!(view("cased").count_documents(doc! {}).collation(any_case()).run().unwrap(), 2);
    for (name, other) in
        [("plain", any_case()), ("cased", Collation::simple()), ("cased", Collation::with_locale("sv"))]
    {
        let counted = view(name).count_documents(doc! {}).collation(other.clone()).run();
        refused(counted, 167, "Cannot override a view's default collation");
        let piped = view(name).aggregate([doc! { "$count": "n" }]).collation(other).run();
        refused(piped.map(drop), 167, "Cannot override");
    }
    let lookup = doc! { "$lookup": { "from": "cased", "localField": "w", "foreignField": "w", "as": "all" } };
    assert!(fixture.stored.aggregate([lookup.clone()]).run().is_ok());
    let simple = fixture.stored.aggregate([lookup]).collation(Collation::simple()).run();
    refused(simple.map(drop), 167, "Cannot override");
    // Views over each other have the same.
    let above = |name: &str| app.create_collection(name).view_on("cased");
    above("same").collation(any_case()).run().unwrap();
    refused(above("other").run(), 167, "conflicts with the collation of view app.cased");
    app.create_collection("early").view_on("late").run().unwrap();
    let late = app.create_collection("late").view_on("words").collation(any_case()).run();
    refused(late, 167, "View app.early has a collation that conflicts");
    let changed = app.modify_collection("plain").view_on("cased").run();
    refused(changed, 167, "conflicts");
    assert!(fixture.options("cased").contains_key("collation"));
    app.create_collection("cased")
        .view_on("words")
        .pipeline([doc! { "$match": { "w": "ADA" } }])
        .collation(any_case())
        .run()
        .expect("declared alike");
    refused(
        app.create_collection("plain").view_on("words").collation(any_case()).run(),
        48,
        "different options",
    );
}

#[test]
fn what_is_wrong_is_named_at_every_door() {
    let fixture = Words::with(three());
    let create = |fields: Document| {
        let mut create = doc! { "create": "new" };
        create.extend(fields);
        fixture.run(create).map(drop)
    };
    for (collation, code, words) in [
        (bson!({ "locale": "elvish" }), 2, "elvish"),
        (bson!({ "locale": "en", "strong": 1 }), 40_415, "strong"),
        (bson!({ "locale": "en", "strength": -1 }), 2, "strength"),
        (bson!({ "locale": "en", "version": "1" }), 161, "1"),
        (bson!(5), 14, "collation"),
    ] {
        refused(create(doc! { "collation": collation.clone() }), code, words);
        refused(
            create(doc! { "viewOn": "words", "pipeline": [], "collation": collation.clone() }),
            code,
            words,
        );
        let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "collation": collation };
        refused(create(doc! { "idIndex": index }), code, words);
    }
    let app = fixture.client.database("app");
    let elvish = app.create_collection("new").collation(Collation::with_locale("elvish"));
    refused(elvish.run(), 2, "elvish");
    let index = |locale: &str| doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "collation": { "locale": locale } };
    refused(create(doc! { "idIndex": index("sv") }), 2, "_id index must have the same collation");
    refused(create(doc! { "collation": { "locale": "en" }, "idIndex": index("sv") }), 2, "same collation");
    assert_eq!(fixture.client.database("app").list_collection_names().run().unwrap(), ["words"]);
    create(doc! { "collation": { "locale": "sv" }, "idIndex": index("sv") }).expect("the same");
}

/// Finds and deletes by the collation of a collection that comes and goes, until the time is over.
#[track_caller]
fn find_by_language(app: &Database, is_over: &AtomicBool) {
    let words = app.collection::<Document>("passing");
    let filter = || doc! { "w": "ADA" };
    while !is_over.load(Ordering::Relaxed) {
        for found in [words.find_one(filter()).run(), words.find_one_and_delete(filter()).run()] {
            match found {
                Ok(found) => {
                    assert!(found.is_none_or(|found| found.get_str("by").expect("a text") == "language"));
                }
                // It was noticed.
                Err(error) => assert_eq!(error.code(), Some(175), "{error}"),
            }
        }
    }
}

/// An operation asks for the default before it reads. Between the two the name may have passed to another collection, whose
/// documents must not be found, and above all not be deleted, by the language of the old one.
#[test]
fn no_operation_uses_the_default_of_a_collection_that_is_gone() {
    const ROUNDS: usize = 150;
    let fixture = Words::with(three());
    let app = fixture.client.database("app");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| find_by_language(&app, &is_over))).collect();
        for round in 0..ROUNDS {
            let create = app.create_collection("passing");
            let (create, by) =
                if round % 2 == 0 { (create.collation(any_case()), "language") } else { (create, "bytes") };
            create.run().expect("made");
            let words = app.collection::<Document>("passing");
            words
                .insert_many([doc! { "w": "Ada", "by": by }, doc! { "w": "Ada", "by": by }])
                .run()
                .expect("stored");
            words.drop().run().expect("dropped");
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no answer by another collation");
        }
    });
}
