//! Commands as statements of a transaction: `run_command` with a session.

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{
    Acknowledgment, Client, ClientSession, Database, Durability, ErrorKind, TRANSIENT_TRANSACTION_ERROR,
    WriteConcern,
};

use crate::transactions::Store;

fn database(store: &Store) -> Database {
    store.client.database("app")
}

fn run(store: &Store, session: &mut ClientSession, command: Document) -> cairndb::Result<Document> {
    database(store).run_command(command).session(session).run()
}

#[test]
fn commands_are_statements() {
    let store = Store::with(&[(1, 10), (2, 20), (3, 30)]);
    let mut session = store.begin();
    let insert = RawDocumentBuf::try_from(&doc! { "insert": "things", "documents": [{ "_id": 4, "n": 40 }] });
    let inserted = database(&store).run_raw_command(insert.expect("encoded")).session(&mut session).run();
    assert_eq!(inserted.expect("inserted"), doc! { "n": 1, "ok": 1.0 });
    let update = doc! { "update": "things", "updates": [
        { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } },
        { "q": { "_id": 2 }, "u": { "n": 21 } },
    ] };
    let reply = run(&store, &mut session, update).expect("updated");
    assert_eq!(reply, doc! { "n": 2, "nModified": 2, "ok": 1.0 });
    let delete = doc! { "delete": "things", "deletes": [{ "q": { "_id": 3 }, "limit": 1 }] };
    assert_eq!(run(&store, &mut session, delete).expect("deleted"), doc! { "n": 1, "ok": 1.0 });
    let modify = doc! { "findAndModify": "things", "query": { "_id": 4 }, "update": { "$inc": { "n": 1 } }, "new": true };
    let modified = run(&store, &mut session, modify).expect("modified");
    assert_eq!(modified.get_document("value").ok(), Some(&doc! { "_id": 4, "n": 41 }));
    let distinct = run(&store, &mut session, doc! { "distinct": "things", "key": "n" }).expect("read");
    assert_eq!(distinct.get_array("values").map(Vec::len).ok(), Some(3));
    let sum = doc! { "aggregate": "things", "pipeline": [{ "$group": { "_id": 0, "n": { "$sum": "$n" } } }], "cursor": {} };
    let sum = run(&store, &mut session, sum).expect("read");
    assert!(sum.to_string().contains("73"), "{sum}");
    let app = database(&store);
    let find = app.run_cursor_command(doc! { "find": "things", "sort": { "_id": 1 } });
    let mut cursor = find.session(&mut session).run().expect("opened");
    let found: Vec<Document> = cursor.iter(&mut session).collect::<Result<_, _>>().expect("read");
    assert_eq!(found, [doc! { "_id": 1, "n": 11 }, doc! { "_id": 2, "n": 21 }, doc! { "_id": 4, "n": 41 }]);
    assert_eq!(store.things.count_documents(doc! { "n": { "$in": [10, 20, 30] } }).run().expect("read"), 3);
    session.commit_transaction().run().expect("committed");
    assert_eq!(store.things.count_documents(doc! { "n": { "$in": [11, 21, 41] } }).run().expect("read"), 3);
    assert_eq!(store.things.count_documents(doc! {}).run().expect("read"), 3);
}

#[test]
fn all_others_are_refused_and_change_nothing() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.begin();
    for command in [
        doc! { "count": "things" },
        doc! { "drop": "things" },
        doc! { "listCollections": 1 },
        doc! { "truncate": "things" },
        doc! { "ping": 1 },
        doc! { "explain": { "find": "things" } },
        doc! { "aggregate": "things", "pipeline": [], "explain": true },
        doc! { "aggregate": 1, "pipeline": [{ "$documents": [] }], "cursor": {} },
        doc! { "aggregate": "things", "pipeline": [{ "$out": "other" }], "cursor": {} },
    ] {
        let refused = run(&store, &mut session, command.clone()).expect_err("no transaction has it");
        assert_eq!(refused.code(), Some(263), "{command}: {refused}");
    }
    // A cursor is asked for, and there is none.
    let app = database(&store);
    let listing = app.run_cursor_command(doc! { "listIndexes": "things" });
    assert_eq!(listing.session(&mut session).run().err().and_then(|error| error.code()), Some(263));
    for option in [doc! { "readConcern": { "level": "local" } }, doc! { "writeConcern": { "w": 1 } }] {
        let mut insert = doc! { "insert": "things", "documents": [{ "_id": 2 }] };
        insert.extend(option);
        let refused = run(&store, &mut session, insert).expect_err("it is the transaction's");
        assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }), "{refused}");
    }
    // None of them has reached the store, so it goes on.
    let insert = doc! { "insert": "things", "documents": [{ "_id": 3 }] };
    run(&store, &mut session, insert).expect("it is open");
    session.commit_transaction().run().expect("committed");
    let others = Store::with(&[]);
    let mut foreign = others.begin();
    let refused = run(&store, &mut foreign, doc! { "find": "things" }).expect_err("of another client");
    assert!(matches!(refused.kind(), ErrorKind::InvalidArgument { .. }), "{refused}");
    assert_eq!(database(&store).list_collection_names().run().expect("listed"), ["things"]);
}

#[test]
fn collections_and_indexes_are_made_by_commands() {
    let store = Store::with(&[]);
    let mut session = store.begin();
    run(&store, &mut session, doc! { "create": "other" }).expect("made");
    let unique = |name: &str| doc! { "createIndexes": name, "indexes": [{ "key": { "n": 1 }, "name": "n", "unique": true }] };
    let made = run(&store, &mut session, unique("other")).expect("made");
    let expected = doc! { "numIndexesBefore": 1, "numIndexesAfter": 2, "createdCollectionAutomatically": false, "ok": 1.0 };
    assert_eq!(made, expected);
    let made = run(&store, &mut session, unique("third")).expect("made");
    assert_eq!(made.get_bool("createdCollectionAutomatically").ok(), Some(true), "{made}");
    let insert = |name: &str| doc! { "insert": name, "documents": [{ "_id": 1, "n": 1 }] };
    for name in ["other", "third", "fourth"] {
        run(&store, &mut session, insert(name)).expect("inserted");
    }
    assert_eq!(database(&store).list_collection_names().run().expect("listed"), ["things"]);
    session.commit_transaction().run().expect("committed");
    let names = database(&store).list_collection_names().run().expect("listed");
    assert_eq!(names, ["fourth", "other", "things", "third"]);
    let mut session = store.begin();
    let index = doc! { "createIndexes": "things", "indexes": [{ "key": { "n": 1 }, "name": "n" }] };
    let refused = run(&store, &mut session, index).expect_err("it was there before");
    assert_eq!(refused.code(), Some(263), "{refused}");
    let taken =
        database(&store).run_command(doc! { "insert": "third", "documents": [{ "_id": 2, "n": 1 }] }).run();
    assert!(taken.expect("it is listed").contains_key("writeErrors"));
}

/// A write that a command lists as rejected has aborted the transaction, and the statements behind it were not tried.
#[test]
fn a_refused_write_ends_the_command_and_the_transaction() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    for refused in [
        doc! { "insert": "things", "ordered": false, "documents": [{ "_id": 3 }, { "_id": 1 }, { "_id": 2 }] },
        doc! { "update": "things", "ordered": false, "updates": [
            { "q": { "_id": 1 }, "u": { "$set": { "_id": 9 } } }, { "q": { "_id": 2 }, "u": { "$set": { "_id": 9 } } },
        ] },
        doc! { "update": "things", "ordered": false, "updates": [
            { "q": { "_id": 1 }, "u": { "$fly": 1 } }, { "q": { "_id": 2 }, "u": { "$fly": 1 } },
        ] },
        doc! { "delete": "things", "ordered": false, "deletes": [
            { "q": { "$fly": 1 }, "limit": 1 }, { "q": { "_id": 2 }, "limit": 1 },
        ] },
    ] {
        let mut session = store.begin();
        store.things.insert_one(doc! { "_id": 7 }).session(&mut session).run().expect("staged");
        let reply = run(&store, &mut session, refused.clone()).expect("it is listed");
        assert_eq!(reply.get_array("writeErrors").map(Vec::len).ok(), Some(1), "{refused}: {reply}");
        let late = session.commit_transaction().run().expect_err("it was aborted");
        assert_eq!(late.code(), Some(251), "{refused}");
    }
    assert_eq!(store.things.count_documents(doc! {}).run().expect("read"), 2);
}

/// An error of the transaction fails the command, with the label by which it is tried again.
#[test]
fn a_conflict_fails_the_command() {
    let store = Store::with(&[(1, 10), (2, 20)]);
    for command in [
        doc! { "update": "things", "updates": [{ "q": { "_id": 2 }, "u": { "$inc": { "n": 1 } } }], "ordered": false },
        doc! { "delete": "things", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] },
        doc! { "findAndModify": "things", "query": { "_id": 2 }, "remove": true },
    ] {
        let (mut first, mut second) = (store.begin(), store.begin());
        store.things.find_one(doc! { "_id": 1 }).session(&mut second).run().expect("read");
        let set =
            doc! { "update": "things", "updates": [{ "q": { "_id": 2 }, "u": { "$inc": { "n": 1 } } }] };
        run(&store, &mut first, set).expect("staged");
        let conflict = run(&store, &mut second, command.clone()).expect_err("the first one has it");
        assert!(
            conflict.is_write_conflict() && conflict.contains_label(TRANSIENT_TRANSACTION_ERROR),
            "{command}"
        );
        let late = run(&store, &mut second, doc! { "find": "things" }).expect_err("it was aborted");
        assert_eq!(late.code(), Some(251), "{command}");
        first.abort_transaction().run().expect("aborted");
    }
}

/// Each statement of a journaled client would else have got a write concern of its own, which no statement can have.
#[test]
fn several_writes_of_a_journaled_client_are_statements() {
    let folder = tempfile::tempdir().expect("a folder");
    let client =
        Client::builder().durability(Durability::Journaled).open(folder.path().join("db")).expect("made");
    let app = client.database("app");
    app.collection("things").insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run().expect("stored");
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    let update = doc! { "update": "things", "updates": [
        { "q": { "_id": 1 }, "u": { "$set": { "n": 1 } } }, { "q": { "_id": 2 }, "u": { "$set": { "n": 1 } } },
    ] };
    let reply = app.run_command(update).session(&mut session).run().expect("updated");
    assert_eq!(reply.get_i32("nModified").ok(), Some(2), "{reply}");
    let delete = doc! { "delete": "things", "deletes": [
        { "q": { "_id": 1 }, "limit": 1 }, { "q": { "_id": 2 }, "limit": 1 },
    ] };
    let reply = app.run_command(delete).session(&mut session).run().expect("deleted");
    assert_eq!(reply.get_i32("n").ok(), Some(2), "{reply}");
    session.commit_transaction().run().expect("committed");
    assert_eq!(app.collection::<Document>("things").count_documents(doc! {}).run().expect("read"), 0);
}

#[test]
fn a_commit_says_itself_when_it_is_acknowledged() {
    let store = Store::with(&[(1, 10)]);
    let mut session = store.begin();
    store.things.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("staged");
    let refused = session
        .commit_transaction()
        .write_concern(WriteConcern::new(Some(Acknowledgment::Nodes(0)), None, None))
        .run();
    assert!(refused.is_err(), "it would not be acknowledged");
    let mut session = store.begin();
    store.things.insert_one(doc! { "_id": 3 }).session(&mut session).run().expect("staged");
    session.commit_transaction().run().expect("committed");
    // A repetition that asks for more waits for it.
    session.commit_transaction().write_concern(WriteConcern::journaled()).run().expect("committed");
    assert_eq!(store.client.durable_seq(), store.client.written_seq().expect("open"));
}
