//! The commands of mongodump and mongorestore, one by one, from one server to another: the second store must then be
//! the first. The tools themselves are in no registry that a suite could get them from.

use std::collections::BTreeMap;

use cairndb_clients::cairn::Cairn;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, doc};
use mongodb::sync::Client;

use crate::{Served, refused};

/// The number of documents that mongorestore inserts at once.
const BATCH: usize = 1000;

/// One collection as a dump has it.
#[derive(Debug, PartialEq)]
struct Dumped {
    options: Document,
    id_index: Document,
    indexes: Vec<Document>,
    documents: Vec<Document>,
}

/// By database and name.
type Dump = BTreeMap<(String, String), Dumped>;

fn run(client: &Client, db: &str, command: impl Into<Document>) -> Document {
    let command: Document = command.into();
    let reply = client.database(db).run_command(command.clone()).run();
    reply.unwrap_or_else(|error| panic!("{command}: {error}"))
}

fn read(client: &Client, db: &str, command: impl Into<Document>) -> Vec<Document> {
    let command: Document = command.into();
    let cursor = client.database(db).run_cursor_command(command.clone()).run();
    let found = cursor.and_then(Iterator::collect::<Result<Vec<Document>, _>>);
    found.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The dumping side.
fn dump(client: &Client) -> Dump {
    run(client, "admin", doc! { "ping": 1 });
    refused(client.database("admin").run_command(doc! { "atlasVersion": 1 }).run(), 59, "atlasVersion");
    assert!(run(client, "admin", doc! { "buildInfo": 1 }).get_array("versionArray").is_ok());
    let databases = run(client, "admin", doc! { "listDatabases": 1, "filter": {}, "nameOnly": true });
    let mut dump = Dump::new();
    for database in databases.get_array("databases").expect("a list") {
        let db = database.as_document().expect("a database").get_str("name").expect("a name");
        for collection in read(client, db, doc! { "listCollections": 1, "filter": {}, "cursor": {} }) {
            let name = collection.get_str("name").expect("a name");
            assert_eq!(collection.get_str("type").ok(), Some("collection"));
            dump.insert((db.to_owned(), name.to_owned()), dumped(client, (db, name), &collection));
        }
    }
    dump
}

fn dumped(client: &Client, (db, name): (&str, &str), collection: &Document) -> Dumped {
    let count = run(client, db, doc! { "count": name, "query": {} }).get_i32("n").expect("a count");
    let indexes = read(client, db, doc! { "listIndexes": name, "cursor": {} });
    let find =
        doc! { "find": name, "filter": {}, "hint": { "_id": 1 }, "noCursorTimeout": true, "batchSize": 300 };
    let documents = read(client, db, find);
    assert_eq!(documents.len(), usize::try_from(count).expect("not negative"), "{db}.{name}");
    let part = |field: &str| collection.get_document(field).expect(field).clone();
    Dumped { options: part("options"), id_index: part("idIndex"), indexes, documents }
}

/// The restoring side, over whatever is there.
fn restore(client: &Client, dump: &Dump) {
    for ((db, name), dumped) in dump {
        run(client, db, doc! { "drop": name, "writeConcern": { "w": "majority" } });
        let mut id_index = dumped.id_index.clone();
        // The tool removes the version, and adds the namespace that older servers asked for.
        id_index.remove("v");
        id_index.insert("ns", format!("{db}.{name}"));
        let mut create = doc! { "create": name, "idIndex": id_index };
        create.extend(dumped.options.clone());
        run(client, db, create);
        for batch in dumped.documents.chunks(BATCH) {
            let insert = doc! {
                "insert": name,
                "documents": batch,
                "ordered": false,
                "bypassDocumentValidation": true,
                "writeConcern": { "w": "majority" },
            };
            let reply = run(client, db, insert);
            assert_eq!(reply.get_i32("n").ok(), i32::try_from(batch.len()).ok(), "{reply}");
        }
        let others = dumped.indexes.iter().filter(|index| index.get_str("name").ok() != Some("_id_"));
        let indexes: Vec<Document> = others.cloned().collect();
        if !indexes.is_empty() {
            let create = doc! {
                "createIndexes": name,
                "indexes": indexes,
                "ignoreUnknownIndexOptions": true,
                "writeConcern": { "w": "majority" },
            };
            run(client, db, create);
        }
        run(client, db, doc! { "collMod": name });
    }
}

/// A value of every kind that a driver writes.
fn kinds() -> Document {
    doc! {
        "_id": ObjectId::parse_str("507f1f77bcf86cd799439011").expect("an id"),
        "int": 1,
        "long": 1_i64 << 40,
        "double": f64::MIN_POSITIVE,
        "decimal": "1.50".parse::<Decimal128>().expect("a decimal"),
        "text": "n\u{e4}her\0weiter",
        "bytes": Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] },
        "date": DateTime::from_millis(-1),
        "stamp": Timestamp { time: 5, increment: 6 },
        "pattern": Regex { pattern: "^a".try_into().expect("no NUL"), options: "i".try_into().expect("no NUL") },
        "list": [1, [Bson::Null, {}], Bson::MinKey, Bson::MaxKey],
        "$dollar.dot": { "": true },
        "code": Bson::JavaScriptCode("f()".to_owned()),
    }
}

#[test]
fn a_store_is_dumped_and_restored_by_the_commands_of_mongodbs_tools() {
    let first = Served::with((0..2_500).map(|id| doc! { "_id": id, "a": id % 7, "text": "x".repeat(40) }));
    let client = &first.client;
    let index = |key: Document, name: &str| doc! { "key": key, "name": name };
    let mut unique = index(doc! { "text": 1, "_id": -1 }, "text_id");
    unique.insert("unique", true);
    let mut sparse = index(doc! { "b.c": 1 }, "sparse");
    sparse.insert("sparse", true);
    run(
        client,
        "shop",
        doc! { "createIndexes": "things", "indexes": [index(doc! { "a": 1 }, "a_1"), unique, sparse] },
    );
    run(client, "shop", doc! { "create": "empty" });
    let number = doc! { "Field": "number", "Contract": "gapless", "Generated": "always" };
    run(client, "shop", doc! { "create": "invoices", "autoIncrement": number });
    run(
        client,
        "shop",
        doc! { "insert": "invoices", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] },
    );
    run(client, "shop", doc! { "delete": "invoices", "deletes": [{ "q": { "_id": 3 }, "limit": 1 }] });
    let kinds =
        [kinds(), doc! { "_id": { "b": 1, "a": 2 } }, doc! { "_id": Bson::Null }, doc! { "_id": 2.5 }];
    run(client, "other", doc! { "insert": "kinds", "documents": &kinds[..] });
    let dumped = dump(client);
    let names: Vec<String> = dumped.keys().map(|(db, name)| format!("{db}.{name}")).collect();
    assert_eq!(names, ["other.kinds", "shop.empty", "shop.invoices", "shop.things"]);
    let things = dumped.get(&("shop".to_owned(), "things".to_owned())).expect("dumped");
    assert_eq!((things.documents.len(), things.indexes.len()), (2_500, 4));

    let second = Served::over(Cairn::start());
    run(&second.client, "shop", doc! { "insert": "things", "documents": [{ "_id": -1 }] });
    for _ in 0..2 {
        restore(&second.client, &dumped);
        assert_eq!(dump(&second.client), dumped);
    }
    // Numbers go on behind the last one that was given, though no document has it any more.
    let invoice = doc! { "insert": "invoices", "documents": [{ "_id": 4 }] };
    let reply = run(&second.client, "shop", invoice);
    assert_eq!(reply.get_i64("lastGenerateID").ok(), Some(4), "{reply}");
    // A document that is there twice is reported, and the rest of an unordered batch is inserted.
    let again = doc! { "insert": "things", "documents": [{ "_id": 1 }, { "_id": 9_999 }], "ordered": false };
    let reply = run(&second.client, "shop", again);
    assert_eq!(
        (reply.get_i32("n").ok(), reply.get_array("writeErrors").map(Vec::len).ok()),
        (Some(1), Some(1))
    );
    second.stop();
    first.stop();
}

/// Once there was a user, a dump of the whole store failed: `listCollections` named the collections of users and keys, and
/// counting them is rejected, even to `root`.
#[test]
fn a_store_with_users_is_dumped_by_root_and_without_its_users() {
    let cairn = Cairn::start_for_user("ada", "pencil", &[]);
    let uri = format!("mongodb://ada:pencil@{}/?directConnection=true&authSource=admin", cairn.address());
    let client = Client::with_uri_str(uri).expect("the URI is one");
    let things = client.database("shop").collection::<Document>("things");
    things.insert_many((0..3).map(|id| doc! { "_id": id })).run().expect("they are new");
    let dumped = dump(&client);
    let names: Vec<String> = dumped.keys().map(|(db, name)| format!("{db}.{name}")).collect();
    assert_eq!(names, ["shop.things"]);

    // A restore into a store with users leaves them as they are.
    run(&client, "shop", doc! { "dropDatabase": 1 });
    restore(&client, &dumped);
    assert_eq!(dump(&client), dumped);
    let users = run(&client, "admin", doc! { "usersInfo": 1 });
    assert_eq!(users.get_array("users").map(Vec::len).ok(), Some(1), "{users}");
    client.shutdown().run();
    cairn.stop();
}
