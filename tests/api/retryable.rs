//! Writes that a client sends again: they are applied once, and are answered as the first time, also by the next opening.

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb::{Client, RetryableWrite};
use cairndb_tests::scratch::Scratch;

fn write(number: i64) -> RetryableWrite {
    RetryableWrite::new([7; 16], [0; 16], number)
}

fn run(client: &Client, command: Document, number: i64) -> cairndb::Result<Document> {
    let raw = RawDocumentBuf::try_from(&command).expect("valid");
    client.database("shop").run_raw_command(raw).retryable(write(number)).run()
}

#[track_caller]
fn done(client: &Client, command: Document, number: i64) -> Document {
    run(client, command, number).expect("it is run")
}

fn all(client: &Client, collection: &str) -> Vec<Document> {
    let collection = client.database("shop").collection::<Document>(collection);
    let found = collection.find(doc! {}).sort(doc! { "_id": 1 }).run().expect("a cursor");
    found.map(|document| document.expect("read")).collect()
}

/// Runs a command twice in this life of the store and once in the next one. Returns the first answer and the last.
#[track_caller]
fn repeated(scratch: &Scratch, command: &Document, number: i64) -> (Document, Document) {
    let client = scratch.open();
    let first = done(&client, command.clone(), number);
    let second = done(&client, command.clone(), number);
    client.close().expect("closed");
    let client = scratch.open();
    assert_eq!(done(&client, command.clone(), number), second);
    assert!(client.verify().expect("verified").is_clean());
    (first, second)
}

/// The second answer says of which statements it is a repetition, as MongoDB's does.
fn again(mut first: Document, statements: &[i32]) -> Document {
    first.remove("ok");
    first.insert("retriedStmtIds", statements.iter().copied().map(Bson::Int32).collect::<Vec<_>>());
    first.insert("ok", 1.0);
    first
}

#[test]
fn an_insert_is_done_once() {
    let scratch = Scratch::new();
    let insert = doc! { "insert": "things", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] };
    let (first, second) = repeated(&scratch, &insert, 1);
    assert_eq!(first, doc! { "n": 3, "ok": 1.0 });
    assert_eq!(second, again(first, &[0, 1, 2]));
    assert_eq!(all(&scratch.open(), "things").len(), 3);
}

#[test]
fn documents_without_an_id_are_not_stored_twice() {
    let scratch = Scratch::new();
    let insert = doc! { "insert": "things", "documents": [{ "a": 1 }, { "a": 2 }] };
    repeated(&scratch, &insert, 1);
    assert_eq!(all(&scratch.open(), "things").len(), 2);
}

#[test]
fn what_was_refused_is_tried_again_and_the_rest_is_not() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_one(doc! { "_id": 2 }).run().expect("stored");
    for (number, ordered) in [(1, false), (2, true)] {
        let id =
            |place: i32| if place == 2 { 2 } else { 100 * i32::try_from(number).expect("small") + place };
        let documents: Vec<Document> = (0..5).map(|place| doc! { "_id": id(place) }).collect();
        let insert = doc! { "insert": "things", "documents": documents, "ordered": ordered };
        let first = done(&client, insert.clone(), number);
        assert_eq!(first.get_i32("n").expect("a number"), if ordered { 2 } else { 4 });
        let refused = |reply: &Document| -> Vec<i32> {
            let errors = reply.get_array("writeErrors").cloned().unwrap_or_default();
            let errors = errors.iter().filter_map(Bson::as_document);
            errors.map(|error| error.get_i32("index").expect("a place")).collect()
        };
        assert_eq!(refused(&first), [2]);
        let second = done(&client, insert.clone(), number);
        assert_eq!((second.get_i32("n").ok(), refused(&second)), (first.get_i32("n").ok(), vec![2]));
        // The reason of the rejection goes, and the command is sent again.
        things.delete_one(doc! { "_id": 2 }).run().expect("removed");
        let third = done(&client, insert.clone(), number);
        assert_eq!((third.get_i32("n").ok(), refused(&third)), (Some(5), vec![]));
        let fourth = done(&client, insert, number);
        assert_eq!(fourth, again(doc! { "n": 5, "ok": 1.0 }, &[0, 1, 2, 3, 4]));
    }
    assert!(client.verify().expect("verified").is_clean());
}

#[test]
fn an_update_counts_once() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_many([doc! { "_id": 1, "n": 0 }, doc! { "_id": 2, "n": 0, "k": 1 }]).run().expect("stored");
    let by_k = cairndb::IndexModel::builder().keys(doc! { "k": 1 }).build();
    things.create_index(by_k).run().expect("made");
    client.close().expect("closed");
    let update = doc! { "update": "things", "updates": [
        { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } },
        { "q": { "_id": 9 }, "u": { "$inc": { "n": 1 } } },
        { "q": { "_id": 2 }, "u": { "$inc": { "n": 1, "k": 1 } } },
        { "q": { "_id": 3 }, "u": { "$set": { "n": 1 } }, "upsert": true },
        { "q": { "_id": 1 }, "u": { "$set": { "n": 1 } } },
    ] };
    let (first, second) = repeated(&scratch, &update, 5);
    // The last statement matches and changes nothing, so it leaves no row and is run again.
    let expected = doc! { "n": 4, "nModified": 2, "upserted": [{ "index": 3, "_id": 3 }], "ok": 1.0 };
    assert_eq!(first, expected);
    assert_eq!(second, again(expected, &[0, 2, 3]));
    let client = scratch.open();
    let expected = [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2, "n": 1, "k": 2 }, doc! { "_id": 3, "n": 1 }];
    assert_eq!(all(&client, "things"), expected);
    // A new number is a new command.
    assert_eq!(done(&client, update, 6).get_i32("nModified").ok(), Some(3));
}

#[test]
fn an_upsert_without_an_id_is_answered_with_its_first_id() {
    let scratch = Scratch::new();
    let upsert = doc! { "update": "things", "updates": [{ "q": { "a": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }] };
    let (first, second) = repeated(&scratch, &upsert, 1);
    assert_eq!(first.get("upserted"), second.get("upserted"));
    let things = all(&scratch.open(), "things");
    assert_eq!((things.len(), things.first().and_then(|thing| thing.get_i32("n").ok())), (1, Some(1)));
}

#[test]
fn a_delete_takes_one_document() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_many((0..5).map(|id| doc! { "_id": id })).run().expect("stored");
    client.close().expect("closed");
    let delete = doc! { "delete": "things", "deletes": [{ "q": {}, "limit": 1 }, { "q": {}, "limit": 1 }] };
    let (first, second) = repeated(&scratch, &delete, 1);
    assert_eq!(first, doc! { "n": 2, "ok": 1.0 });
    assert_eq!(second, again(first, &[0, 1]));
    assert_eq!(all(&scratch.open(), "things").len(), 3);
}

#[test]
fn a_find_and_modify_shows_the_same_document_again() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_many((0..3).map(|id| doc! { "_id": id, "n": 10 * id })).run().expect("stored");
    client.close().expect("closed");
    let commands = [
        doc! { "findAndModify": "things", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } } },
        doc! { "findAndModify": "things", "query": { "_id": 1 }, "update": { "$inc": { "n": 1 } }, "new": true, "fields": { "n": 1, "_id": 0 } },
        doc! { "findandmodify": "things", "query": {}, "sort": { "_id": 1 }, "remove": true },
        doc! { "findAndModify": "things", "query": { "k": 1 }, "update": { "$inc": { "n": 1 } }, "upsert": true, "new": true },
        doc! { "findAndModify": "things", "query": { "k": 2 }, "update": { "$inc": { "n": 1 } }, "upsert": true },
        doc! { "findAndModify": "things", "query": { "_id": 2 }, "update": { "other": 1 }, "new": true },
    ];
    for (number, command) in (1..).zip(&commands) {
        let (first, second) = repeated(&scratch, command, number);
        assert_eq!(second, again(first, &[0]), "{command}");
    }
    let client = scratch.open();
    let numbers = |filter| things_of(&client, filter);
    assert_eq!(numbers(doc! { "_id": 1 }), [doc! { "_id": 1, "n": 12 }]);
    assert_eq!(
        (numbers(doc! { "_id": 0 }).len(), numbers(doc! { "k": 1 }).len(), numbers(doc! { "k": 2 }).len()),
        (0, 1, 1)
    );
}

fn things_of(client: &Client, filter: Document) -> Vec<Document> {
    let things = client.database("shop").collection::<Document>("things");
    things.find(filter).run().expect("a cursor").map(|thing| thing.expect("read")).collect()
}

#[test]
fn capped_and_numbered_collections_take_part() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let shop = client.database("shop");
    shop.run_command(doc! { "create": "log", "capped": true, "size": 4096, "max": 3 }).run().expect("made");
    let number = doc! { "createAutoIncrement": "numbered", "autoIncrement": { "Field": "number", "Contract": "gapless" } };
    shop.run_command(doc! { "create": "numbered" }).run().expect("made");
    shop.run_command(number).run().expect("made");
    client.close().expect("closed");
    for round in 0..3_i64 {
        let log = doc! { "insert": "log", "documents": [{ "round": round }, { "round": round }] };
        repeated(&scratch, &log, 10 * round + 1);
        let one = doc! { "insert": "log", "documents": [{ "round": round }] };
        repeated(&scratch, &one, 10 * round + 2);
        let numbered = doc! { "insert": "numbered", "documents": [{ "round": round }, { "round": round }] };
        repeated(&scratch, &numbered, 10 * round + 3);
    }
    let client = scratch.open();
    assert_eq!(all(&client, "log").len(), 3);
    let mut numbers: Vec<i64> = all(&client, "numbered")
        .iter()
        .map(|document| document.get_i64("number").expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn sessions_and_users_are_apart() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let shop = client.database("shop");
    for (session, user) in [(1, 0), (2, 0), (1, 1)] {
        let insert = doc! { "insert": "things", "documents": [{}] };
        let write = RetryableWrite::new([session; 16], [user; 16], 1);
        assert_eq!(client.newest_retryable_write(&write).expect("looked up"), None);
        for _ in 0..2 {
            shop.run_command(insert.clone()).retryable(write).run().expect("stored");
        }
        let newest = client.newest_retryable_write(&write).expect("looked up").expect("it has left a row");
        assert_eq!((newest.number, newest.is_commit), (1, false));
    }
    assert_eq!(all(&client, "things").len(), 3);
}

#[test]
fn what_cannot_be_repeated_is_refused_and_changes_nothing() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let insert = |id: i32| doc! { "insert": "things", "documents": [{ "_id": id }] };
    done(&client, insert(1), 5);
    let many =
        doc! { "update": "things", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } }, "multi": true }] };
    let all_of_them = doc! { "delete": "things", "deletes": [{ "q": {}, "limit": 0 }] };
    let one = doc! { "delete": "things", "deletes": [{ "q": {}, "limit": 1 }] };
    let refused = [
        (many, 6, 72, "Cannot use retryable writes with multi=true"),
        (all_of_them, 6, 72, "Cannot use retryable writes with limit=0"),
        (doc! { "drop": "things" }, 6, 72, "'drop'"),
        (one, 5, 72, "'insert'"),
        (insert(2), 4, 225, "number 5"),
    ];
    for (command, number, code, text) in refused {
        let error = run(&client, command.clone(), number).expect_err("refused");
        assert_eq!(error.code(), Some(code), "{command}: {error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(all(&client, "things"), [doc! { "_id": 1 }]);
    assert!(client.verify().expect("verified").is_clean());
}

#[test]
fn the_commit_of_a_transaction_is_known_after_a_restart() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    things.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    session.commit_transaction().retryable(write(3)).run().expect("committed");
    drop(session);
    client.close().expect("closed");
    let client = scratch.open();
    let newest = client.newest_retryable_write(&write(3)).expect("looked up").expect("it has left a row");
    assert_eq!((newest.number, newest.is_commit), (3, true));
    assert!(client.verify().expect("verified").is_clean());
}

/// Its row would be in the place of the newer write's, which would then be done again.
#[test]
fn a_commit_after_a_newer_write_of_its_session_is_refused() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("shop").collection::<Document>("things");
    things.insert_one(doc! { "_id": 0 }).run().expect("stored");
    let mut session = client.start_session().run().expect("started");
    session.start_transaction().run().expect("started");
    things.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("staged");
    let insert = doc! { "insert": "things", "documents": [{ "n": 4 }] };
    done(&client, insert.clone(), 4);
    let refused = session.commit_transaction().retryable(write(3)).run().expect_err("it is late");
    assert_eq!(refused.code(), Some(225), "{refused}");
    done(&client, insert, 4);
    assert_eq!(things.count_documents(doc! { "n": 4 }).run().expect("counted"), 1);
    assert_eq!(things.count_documents(doc! { "_id": 1 }).run().expect("counted"), 0);
    // A commit of that transaction that comes again meets its end.
    let again = session.commit_transaction().retryable(write(3)).run().expect_err("it is over");
    assert_eq!(again.code(), Some(251), "{again}");
}

#[test]
fn threads_that_repeat_one_write_wait_for_the_first() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let inc = doc! { "update": "things", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }] };
    for number in 1..50 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| done(&client, inc.clone(), number));
            }
        });
    }
    assert_eq!(all(&client, "things"), [doc! { "_id": 1, "n": 49 }]);
}

#[test]
fn salvage_and_backups_keep_the_answers() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let insert = doc! { "insert": "things", "documents": [{}] };
    done(&client, insert.clone(), 1);
    let (copy, salvaged) = (Scratch::new(), Scratch::new());
    client.backup(copy.path()).expect("copied");
    client.close().expect("closed");
    let report = cairndb::salvage(scratch.path(), salvaged.path()).run().expect("salvaged");
    assert!(report.is_complete() && report.verified.is_clean(), "{report:?}");
    for place in [copy, salvaged] {
        let client = place.open();
        done(&client, insert.clone(), 1);
        assert_eq!(all(&client, "things").len(), 1);
    }
}
