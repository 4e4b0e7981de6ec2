//! The options in `listCollections` of a collection make the same one by `create`: its auto-increment fields, and the
//! positions of their sequences.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, SystemCollection};
use cairndb_tests::scratch::Scratch;

use crate::refused;

fn run(client: &Client, db: &str, command: Document) -> Document {
    let shown = command.to_string();
    client.database(db).run_command(command).run().unwrap_or_else(|error| panic!("{shown}: {error}"))
}

/// The options of a collection in `listCollections`.
#[track_caller]
fn options(client: &Client, name: &str) -> Document {
    let listed = run(client, "shop", doc! { "listCollections": 1, "filter": { "name": name } });
    let batch =
        listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    let [only] = batch.as_slice() else { panic!("one collection: {batch:?}") };
    only.as_document().and_then(|one| one.get_document("options").ok()).expect("options").clone()
}

#[track_caller]
fn stored(client: &Client, name: &str) -> Vec<Document> {
    crate::all(&client.database("shop").collection(name))
}

/// Dumps a collection and restores it elsewhere, as mongorestore does when its options say to bypass validation.
#[track_caller]
fn restored(from: &Client, name: &str) -> (Client, Scratch) {
    let scratch = Scratch::new();
    let to = scratch.open();
    let mut create = doc! { "create": name };
    create.extend(options(from, name));
    run(&to, "shop", create);
    let documents = stored(from, name);
    if !documents.is_empty() {
        let insert = doc! { "insert": name, "documents": documents, "ordered": false, "bypassDocumentValidation": true };
        let reply = run(&to, "shop", insert);
        assert!(!reply.contains_key("writeErrors"), "{reply}");
    }
    (to, scratch)
}

#[track_caller]
fn next(client: &Client, name: &str) -> Document {
    let inserted =
        client.database("shop").collection::<Document>(name).insert_one(doc! {}).run().expect("stored");
    inserted.generated.iter().map(|(field, value)| (field.to_owned(), Bson::Int64(value))).collect()
}

/// The copy has the same documents and options, and numbers on with the same values.
#[track_caller]
fn check(fields: Bson, documents: &[Document]) {
    let scratch = Scratch::new();
    let first = scratch.open();
    let shown = format!("{fields}");
    run(&first, "shop", doc! { "create": "a", "autoIncrement": fields });
    if !documents.is_empty() {
        run(&first, "shop", doc! { "insert": "a", "documents": documents });
    }
    // The last values are in no document that a dump has.
    let a = first.database("shop").collection::<Document>("a");
    for _ in documents {
        let last = a.insert_one(doc! {}).run().expect("stored").inserted_id;
        a.delete_one(doc! { "_id": last }).run().expect("deleted");
    }
    let (second, _folder) = restored(&first, "a");
    assert_eq!(stored(&second, "a"), stored(&first, "a"), "{shown}");
    assert_eq!(options(&second, "a"), options(&first, "a"), "{shown}");
    for _ in 0..3 {
        assert_eq!(next(&second, "a"), next(&first, "a"), "{shown}");
    }
    crate::verify_clean(&second);
}

#[test]
fn a_restored_collection_numbers_on_where_the_dumped_one_stood() {
    for contract in ["fast", "ordered", "gapless"] {
        let field = |options: Document| -> Bson {
            doc! { "Field": "n", "Contract": contract }
                .into_iter()
                .chain(options)
                .collect::<Document>()
                .into()
        };
        check(field(doc! {}), &[]);
        check(field(doc! {}), &[doc! {}, doc! {}]);
        check(
            field(doc! { "Increment": -7, "CacheSize": 20, "AcquireSize": 3, "OnTruncate": "continue" }),
            &[doc! {}],
        );
        check(
            field(
                doc! { "Increment": 5, "StartValue": 100, "MaxValue": 200, "CacheSize": 3, "AcquireSize": 1 },
            ),
            &[doc! {}],
        );
        check(field(doc! { "Cycled": true, "MaxValue": 4, "CacheSize": 2, "AcquireSize": 2 }), &[doc! {}]);
        check(
            field(doc! { "MinValue": -5, "GenerateOnNull": true }),
            &[doc! { "n": null }, doc! { "n": -3 }],
        );
    }
    let two = Bson::Array(vec![
        doc! { "Field": "a.b" }.into(),
        doc! { "Field": "_id", "Contract": "gapless" }.into(),
    ]);
    check(two, &[doc! {}, doc! { "a": { "b": 70 } }]);
}

/// These modes reject or replace what a document brings, which would renumber what a dump restores.
#[test]
fn documents_of_a_dump_keep_their_numbers_in_every_mode() {
    for mode in ["always", "alwaysStrict", "strict", "default"] {
        check(doc! { "Field": "n", "Generated": mode }.into(), &[doc! {}, doc! {}]);
    }
}

#[test]
fn without_the_bypass_modes_are_as_they_always_are() {
    let scratch = Scratch::new();
    let client = scratch.open();
    run(&client, "shop", doc! { "create": "a", "autoIncrement": { "Field": "n", "Generated": "always" } });
    let brought = |bypass: Option<bool>| {
        let mut insert = doc! { "insert": "a", "documents": [{ "n": 50 }] };
        insert.extend(bypass.map(|bypass| ("bypassDocumentValidation".to_owned(), Bson::Boolean(bypass))));
        run(&client, "shop", insert).get_i64("lastGenerateID").ok()
    };
    assert_eq!((brought(None), brought(Some(false))), (Some(1), Some(2)));
    assert_eq!(brought(Some(true)), None, "it stays");
    assert_eq!(brought(None), Some(51), "and the sequence goes on beyond it");
    let a = client.database("shop").collection::<Document>("a");
    a.insert_one(doc! { "_id": 1, "n": 7 }).bypass_document_validation(true).run().unwrap();
    a.insert_many([doc! { "_id": 2, "n": 8 }, doc! { "_id": 3, "n": 9 }])
        .bypass_document_validation(true)
        .run()
        .unwrap();
    let mut numbers = crate::auto_increment::numbers(&a, "n");
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 7, 8, 9, 50, 51]);
}

#[test]
fn used_up_to_is_checked() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let create = |value: Bson| {
        let field =
            doc! { "Field": "n", "MaxValue": 10, "CacheSize": 1, "AcquireSize": 1, "UsedUpTo": value };
        client.database("shop").run_command(doc! { "create": "a", "autoIncrement": field }).run()
    };
    refused(create(0.into()), 2, "UsedUpTo must be within MinValue 1 and MaxValue 10, not 0");
    refused(create(11.into()), 2, "UsedUpTo must be within");
    refused(create(1.5.into()), 14, "UsedUpTo must be a 32-bit or 64-bit integer, not a double");
    assert!(client.database("shop").list_collection_names().run().unwrap().is_empty());
    create(9.into()).unwrap();
    create(9.into()).expect("it is that collection already");
    create(4.into()).expect("4 counts as used");
    refused(create(10.into()), 48, "already exists, but with different options");
    let alter = doc! { "alterAutoIncrement": "a", "autoIncrement": { "Field": "n", "UsedUpTo": 3 } };
    refused(
        client.database("shop").run_command(alter).run(),
        2,
        "UsedUpTo cannot be set when a field is changed",
    );
    assert_eq!(next(&client, "a"), doc! { "n": 10_i64 });
    let full = client.database("shop").collection::<Document>("a").insert_one(doc! {}).run();
    assert!(full.is_err_and(|error| error.sequoia_code() == Some(-325)));
}

/// A dump counts and reads whatever is listed, and no command can read these by commands.
#[test]
fn collections_of_the_system_are_not_listed() {
    let scratch = Scratch::new();
    let client = scratch.open();
    for system in [SystemCollection::Users, SystemCollection::Keys] {
        client.system_collection::<Document>(system).insert_one(doc! { "_id": "root" }).run().unwrap();
    }
    client.database("admin").collection::<Document>("own").insert_one(doc! {}).run().unwrap();
    let listed = run(&client, "admin", doc! { "listCollections": 1, "nameOnly": true });
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).unwrap();
    assert_eq!(batch, &[Bson::Document(doc! { "name": "own", "type": "collection" })]);
    assert_eq!(client.database("admin").list_collection_names().run().unwrap(), ["own"]);
    assert_eq!(run(&client, "admin", doc! { "dbStats": 1 }).get_i64("collections").ok(), Some(1));
    for name in ["system.users", "system.keys"] {
        refused(client.database("admin").run_command(doc! { "count": name }).run(), 73, "reserved");
    }
    assert_eq!(
        client.system_collection::<Document>(SystemCollection::Users).count_documents(doc! {}).run().unwrap(),
        1
    );
}
