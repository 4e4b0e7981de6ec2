//! Events of what collections, indexes and views are declared to be, which streams show on demand.

use std::time::Duration;

use cairndb::bson::{Bson, Document, Uuid, doc};
use cairndb::{ChangeStream, Database, IndexModel, IndexOptions, OperationType, RetryableWrite};

use crate::Fixture;

/// A stream of a database that shows all events, as documents.
fn expanded(database: &Database) -> ChangeStream<Document> {
    let watch = database.watch().show_expanded_events(true).max_await_time(Duration::from_secs(30));
    watch.run().expect("opened").with_type()
}

/// The next event, without what every run has another one of.
#[track_caller]
fn next(stream: &mut ChangeStream<Document>) -> Document {
    let mut event = stream.next().expect("it waits").expect("an event");
    for field in ["_id", "clusterTime", "wallTime"] {
        assert!(event.remove(field).is_some(), "{field} of {event}");
    }
    event
}

/// Runs a command, and returns the event of it.
#[track_caller]
fn event_of(database: &Database, stream: &mut ChangeStream<Document>, command: Document) -> Document {
    database.run_command(command.clone()).run().unwrap_or_else(|error| panic!("{command}: {error}"));
    next(stream)
}

#[test]
fn changes_of_definitions_are_shown_on_demand() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let mut stream = expanded(&shop);
    let mut plain = shop.watch().max_await_time(Duration::from_millis(1)).run().expect("opened");
    let rule = doc! { "n": { "$gt": 0 } };
    let made = event_of(&shop, &mut stream, doc! { "create": "orders", "validator": rule.clone() });
    let uuid = made.get("collectionUUID").cloned().expect("a UUID");
    assert!(matches!(uuid, Bson::Binary(_)));
    let listed = shop.run_command(doc! { "listCollections": 1 }).run().expect("listed").to_string();
    assert!(listed.contains(&uuid.to_string()), "{listed}");
    let id_index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
    let ns = doc! { "db": "shop", "coll": "orders" };
    let expected = |kind: &str, fields: Document| {
        let mut event = doc! { "operationType": kind, "collectionUUID": uuid.clone(), "ns": ns.clone() };
        event.extend(fields);
        event
    };
    let described = doc! { "idIndex": id_index, "validator": rule.clone() };
    let of_create = doc! { "nsType": "collection", "operationDescription": described };
    assert_eq!(made, expected("create", of_create));

    let index = doc! { "key": { "n": 1 }, "name": "n_1", "expireAfterSeconds": 60 };
    let command = doc! { "createIndexes": "orders", "indexes": [index] };
    let index = doc! { "v": 2, "key": { "n": 1 }, "name": "n_1", "expireAfterSeconds": 60 };
    let indexes = doc! { "operationDescription": { "indexes": [index.clone()] } };
    assert_eq!(event_of(&shop, &mut stream, command), expected("createIndexes", indexes));

    let hide = doc! { "collMod": "orders", "index": { "name": "n_1", "hidden": true } };
    let before = doc! { "collectionOptions": { "uuid": uuid.clone(), "validator": rule.clone() }, "indexOptions": { "hidden": false } };
    let hidden = doc! {
        "operationDescription": { "index": { "name": "n_1", "hidden": true } },
        "stateBeforeChange": before,
    };
    assert_eq!(event_of(&shop, &mut stream, hide), expected("modify", hidden));

    let modify = doc! { "collMod": "orders", "validationLevel": "off" };
    let modified = doc! {
        "operationDescription": { "validationLevel": "off" },
        "stateBeforeChange": { "collectionOptions": { "uuid": uuid.clone(), "validator": rule.clone() } },
    };
    assert_eq!(event_of(&shop, &mut stream, modify), expected("modify", modified));
    // MongoDB shows a change that changes nothing too.
    let nothing = event_of(&shop, &mut stream, doc! { "collMod": "orders" });
    assert_eq!(nothing.get_document("operationDescription").ok(), Some(&doc! {}));
    let images = doc! { "collMod": "orders", "changeStreamPreAndPostImages": { "enabled": true } };
    let images = event_of(&shop, &mut stream, images);
    let described = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    assert_eq!(images.get_document("operationDescription").ok(), Some(&described));

    let drop_index = doc! { "dropIndexes": "orders", "index": "n_1" };
    let mut index = index;
    index.insert("hidden", true);
    let dropped = doc! { "operationDescription": { "indexes": [index] } };
    assert_eq!(event_of(&shop, &mut stream, drop_index), expected("dropIndexes", dropped));

    // Those of documents have the UUID as well.
    let orders = shop.collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 1, "n": 1 }).run().expect("stored");
    assert_eq!(next(&mut stream).get("collectionUUID"), Some(&uuid));

    // A rename names the collection that it replaces.
    let other = event_of(&shop, &mut stream, doc! { "create": "old" });
    let rename = doc! { "renameCollection": "shop.orders", "to": "shop.old", "dropTarget": true };
    fixture.client.database("admin").run_command(rename).run().expect("renamed");
    let to = doc! { "db": "shop", "coll": "old" };
    let replaced = other.get("collectionUUID").cloned();
    let described = doc! { "dropTarget": replaced, "to": to.clone() };
    let renamed = doc! { "to": to, "operationDescription": described };
    assert_eq!(next(&mut stream), expected("rename", renamed));

    // Other streams show nothing of it.
    let insert = plain.next().expect("it waits").expect("an event");
    assert_eq!((insert.operation_type, insert.collection_uuid), (OperationType::Insert, None));
    let rename = plain.next().expect("it waits").expect("an event");
    assert_eq!((rename.operation_type, rename.operation_description), (OperationType::Rename, None));
    assert_eq!(plain.next_if_any().expect("read"), None);
    fixture.verify_clean();
}

#[test]
fn views_have_events_and_end_no_stream() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let orders = shop.collection::<Document>("orders");
    let mut stream = expanded(&shop);
    let mut own = orders.watch().show_expanded_events(true).run().expect("opened");
    let view = |kind: &str, described: Document| {
        let ns = doc! { "db": "shop", "coll": "orders" };
        doc! { "operationType": kind, "ns": ns, "nsType": "view", "operationDescription": described }
    };
    let (one, two) = (doc! { "viewOn": "a", "pipeline": [] }, doc! { "viewOn": "b", "pipeline": [] });
    let made = event_of(&shop, &mut stream, doc! { "create": "orders", "viewOn": "a", "pipeline": [] });
    assert_eq!(made, view("create", one));
    let changed = event_of(&shop, &mut stream, doc! { "collMod": "orders", "viewOn": "b" });
    assert_eq!(changed, view("modify", two.clone()));
    let dropped = event_of(&shop, &mut stream, doc! { "drop": "orders" });
    assert_eq!(dropped, view("drop", two));
    orders.insert_one(doc! { "_id": 1 }).run().expect("stored");
    let kinds =
        [own.next(), own.next()].map(|event| event.expect("it waits").expect("an event").operation_type);
    assert_eq!(kinds, [OperationType::Other("create".to_owned()), OperationType::Insert]);
    fixture.verify_clean();
}

/// What is nested as deeply as a document may be has further levels around it in an event.
#[test]
fn the_deepest_validator_leaves_an_event_that_can_be_read() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let mut stream = expanded(&shop);
    let mut are_described = Vec::new();
    for depth in 10..120 {
        let rule = (0..depth).fold(doc! { "$eq": 1 }, |inner, _| doc! { "$not": inner });
        let command = doc! { "create": format!("c{depth}"), "validator": { "a": rule } };
        if shop.run_command(command).run().is_ok() {
            let described =
                next(&mut stream).get_document("operationDescription").is_ok_and(|told| !told.is_empty());
            are_described.push(described);
        }
    }
    assert!(are_described.first() == Some(&true), "{are_described:?}");
    fixture.verify_clean();
}

#[test]
fn a_transaction_shows_what_it_makes_and_the_session_of_its_driver() {
    let fixture = Fixture::new();
    let (client, shop) = (&fixture.client, fixture.client.database("shop"));
    let mut stream = expanded(&shop);
    let commit = |session: [u8; 16], number: i64| {
        let write = RetryableWrite::new(session, [0; 16], number);
        let mut session = client.start_session().run().expect("open");
        session.start_transaction().run().expect("none is in progress");
        shop.create_collection("orders").session(&mut session).run().expect("made");
        let options = IndexOptions::builder().unique(true).build();
        let model = IndexModel::builder().keys(doc! { "n": 1 }).options(options).build();
        let orders = shop.collection::<Document>("orders");
        orders.create_index(model).session(&mut session).run().expect("made");
        orders.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
        session.commit_transaction().retryable(write).run().expect("committed");
    };
    commit([7; 16], 12);
    let kinds = ["create", "createIndexes", "insert"].map(|kind| {
        let event = next(&mut stream);
        assert_eq!(event.get_str("operationType").ok(), Some(kind), "{event}");
        event
    });
    let [_, _, insert] = kinds;
    assert_eq!(insert.get_i64("txnNumber").ok(), Some(12));
    let id = Uuid::from_bytes([7; 16]);
    assert_eq!(insert.get_document("lsid").ok(), Some(&doc! { "id": id }));
    // A write that is not a part of a transaction shows none.
    shop.collection("orders").insert_one(doc! { "_id": 2, "n": 2 }).run().expect("stored");
    let plain = next(&mut stream);
    assert!(!plain.contains_key("lsid") && !plain.contains_key("txnNumber"), "{plain}");
    fixture.verify_clean();
}
