//! Collections that are declared to be clustered: what can be declared, how it is shown, and that it stays.

use cairndb::bson::{Document, doc};
use cairndb::{Client, ClusteredIndex, Cursor, Database, IndexModel, IndexOptions};
use cairndb_tests::scratch::{Scratch, small};

use crate::refused;

fn create(database: &Database, options: Document) -> cairndb::Result<Document> {
    let mut command = doc! { "create": "c" };
    command.extend(options);
    database.run_command(command).run()
}

fn listed(database: &Database, command: Document) -> Vec<Document> {
    let reply = database.run_command(command).run().expect("a list");
    let batch =
        reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    batch.iter().map(|row| row.as_document().expect("a document").clone()).collect()
}

#[track_caller]
fn rows(found: cairndb::Result<Cursor<Document>>) -> Vec<Document> {
    found.expect("a cursor").collect::<Result<_, _>>().expect("documents")
}

/// The way in which a collection and its indexes are described.
fn described(database: &Database, name: &str) -> (Document, Vec<Document>) {
    let mut found = listed(database, doc! { "listCollections": 1, "filter": { "name": name } });
    (found.pop().expect("a collection"), listed(database, doc! { "listIndexes": name }))
}

#[test]
fn a_clustered_collection_is_described_as_it_was_declared() {
    let client = small().in_memory(true).open("").expect("made");
    let database = client.database("app");
    let clustered = doc! { "key": { "_id": 1 }, "unique": true };
    create(&database, doc! { "clusteredIndex": clustered.clone() }).expect("made");
    let (collection, indexes) = described(&database, "c");
    let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "unique": true };
    assert_eq!(collection.get_document("options").expect("options"), &doc! { "clusteredIndex": index });
    assert!(!collection.contains_key("idIndex"), "{collection}");
    let index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "unique": true, "clustered": true };
    assert_eq!(indexes, [index]);

    // The description makes the same again, and another one does not.
    let options = collection.get_document("options").expect("options").clone();
    create(&database, options).expect("it is there and alike");
    refused(create(&database, doc! {}), 48, "different options");
    let named = doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true, "name": "other" } };
    refused(create(&database, named), 48, "different options");

    let plain = database.create_collection("plain");
    plain.run().expect("made");
    let (collection, indexes) = described(&database, "plain");
    assert!(collection.contains_key("idIndex"));
    assert_eq!(indexes, [doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }]);
}

#[test]
fn what_no_collection_is_clustered_by_is_refused() {
    let client = small().in_memory(true).open("").expect("made");
    let database = client.database("app");
    let with = |index: Document| create(&database, doc! { "clusteredIndex": index });
    refused(with(doc! { "key": { "_id": 1 }, "unique": false }), 5_979_700, "unique: true");
    for key in [doc! { "a": 1 }, doc! { "_id": -1 }, doc! { "_id": 1, "a": 1 }, doc! {}, doc! { "_id": 1.5 }]
    {
        refused(with(doc! { "key": key, "unique": true }), 197, "{_id: 1}");
    }
    refused(with(doc! { "key": { "_id": 1 }, "unique": true, "v": 1 }), 5_979_704, "v=1");
    refused(with(doc! { "key": { "_id": 1 } }), 40414, "unique");
    refused(with(doc! { "unique": true }), 40414, "key");
    refused(with(doc! { "key": { "_id": 1 }, "unique": true, "sparse": true }), 40415, "sparse");
    refused(with(doc! { "key": { "_id": 1 }, "unique": true, "name": "" }), 67, "empty");
    refused(with(doc! { "key": { "_id": 1 }, "unique": true, "name": "*" }), 2, "'*'");
    refused(create(&database, doc! { "clusteredIndex": true }), 5_979_703, "legacy");
    refused(create(&database, doc! { "clusteredIndex": "yes" }), 5_979_702, "boolean or object");
    let clustered = doc! { "key": { "_id": 1 }, "unique": true };
    let beside = |other: Document| {
        let mut options = doc! { "clusteredIndex": clustered.clone() };
        options.extend(other);
        create(&database, options)
    };
    refused(beside(doc! { "capped": true, "size": 4096 }), 6_127_800, "capped");
    refused(beside(doc! { "viewOn": "d", "pipeline": [] }), 72, "view");
    refused(beside(doc! { "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" } }), 72, "idIndex");
    refused(beside(doc! { "expireAfterSeconds": 60 }), 238, "expireAfterSeconds");
    assert!(database.list_collection_names().run().expect("names").is_empty(), "nothing was made");
    create(&database, doc! { "clusteredIndex": false }).expect("as without it");
    assert!(described(&database, "c").0.contains_key("idIndex"));
}

#[test]
fn the_index_of_a_clustered_collection_is_only_asked_for_where_it_is() {
    let client = small().in_memory(true).open("").expect("made");
    let database = client.database("app");
    let model = |keys: Document, unique| {
        let options = IndexOptions::builder().unique(unique).clustered(true).build();
        IndexModel::builder().keys(keys).options(options).build()
    };
    let collection = database.collection::<Document>("c");
    refused(collection.create_index(model(doc! { "_id": 1 }, true)).run().map(drop), 6_100_900, "implicitly");
    assert!(database.list_collection_names().run().expect("names").is_empty());
    database.create_collection("plain").run().expect("made");
    let plain = database.collection::<Document>("plain");
    refused(plain.create_index(model(doc! { "_id": 1 }, true)).run().map(drop), 6_243_700, "clustered");
    database.create_collection("view").view_on("plain").run().expect("made");
    let view = database.collection::<Document>("view");
    refused(view.create_index(model(doc! { "_id": 1 }, true)).run().map(drop), 166, "view");

    let index = ClusteredIndex::default().with_name("by id");
    database.create_collection("c").clustered_index(index).run().expect("made");
    collection.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    let made = collection.create_index(model(doc! { "_id": 1 }, true)).run().expect("it is there");
    assert_eq!(made.index_name, "by id");
    let plain_again = IndexModel::builder().keys(doc! { "_id": 1 }).build();
    collection.create_index(plain_again).run().expect("it is there");
    refused(collection.create_index(model(doc! { "_id": 1 }, false)).run().map(drop), 67, "unique");
    refused(collection.create_index(model(doc! { "a": 1 }, true)).run().map(drop), 6_243_700, "clustered");
    let spec = doc! { "key": { "_id": 1 }, "name": "_id_", "clustered": true, "unique": true };
    let reply =
        database.run_command(doc! { "createIndexes": "c", "indexes": [spec] }).run().expect("a reply");
    assert_eq!(reply.get_str("note").ok(), Some("all indexes already exist"));
    let others = doc! { "key": { "a": 1 }, "name": "a_1", "clustered": false };
    database.run_command(doc! { "createIndexes": "c", "indexes": [others] }).run().expect("made");

    assert_eq!(collection.list_index_names().run().expect("names"), ["by id", "a_1"]);
    let described = collection.list_indexes().run().expect("a list").next().expect("one").expect("it");
    assert_eq!(described.options.and_then(|options| options.clustered), Some(true));
    let stats = rows(collection.aggregate([doc! { "$indexStats": {} }]).run());
    let names: Vec<_> = stats.iter().filter_map(|index| index.get_str("name").ok()).collect();
    assert_eq!(names, ["by id", "a_1"]);
    refused(collection.drop_index("by id").run(), 5_979_800, "clusteredIndex");
    refused(collection.drop_index("_id_").run(), 72, "_id");
    collection.drop_indexes().run().expect("the others are gone");
    assert_eq!(collection.list_index_names().run().expect("names"), ["by id"]);
}

#[test]
fn a_declaration_stays_over_opens_renames_and_out() {
    let scratch = Scratch::new();
    let path = scratch.path();
    let client = Client::open(&path).expect("opened");
    let database = client.database("app");
    let index = ClusteredIndex::default().with_name("by id");
    database.create_collection("c").clustered_index(index).run().expect("made");
    let named = database.collection::<Document>("c");
    named.insert_one(doc! { "_id": 1 }).run().expect("stored");
    named.rename("d").run().expect("renamed");
    let out = [doc! { "$documents": [{ "_id": 5 }] }, doc! { "$out": "d" }];
    database.aggregate(out).run().expect("put in place");
    client.close().expect("closed");

    let client = Client::open(&path).expect("opened");
    let database = client.database("app");
    let collection = database.collection::<Document>("d");
    assert_eq!(collection.list_index_names().run().expect("names"), ["by id"]);
    assert_eq!(rows(collection.find(doc! {}).run()), [doc! { "_id": 5 }]);
    assert!(client.verify().expect("a report").is_clean());
    // In the order of its inserts from now on, and so no longer clustered.
    collection.convert_to_capped(1 << 20).run().expect("converted");
    assert_eq!(collection.list_index_names().run().expect("names"), ["_id_"]);
    assert!(client.verify().expect("a report").is_clean());
}
