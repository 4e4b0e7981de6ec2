//! Commands with the field `exactlyOnce`.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, Uuid, doc};
use cairndb::{Client, RetryableWrite};
use cairndb_tests::scratch::Scratch;

fn run(client: &Client, command: &Document, token: impl Into<Bson>) -> cairndb::Result<Document> {
    let mut command = command.clone();
    command.insert("exactlyOnce", token.into());
    client.database("app").run_command(command).run()
}

fn all(client: &Client) -> Vec<Document> {
    let things = client.database("app").collection::<Document>("things");
    things
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .run()
        .expect("a cursor")
        .map(|document| document.expect("read"))
        .collect()
}

fn filled() -> (Scratch, Client) {
    let scratch = Scratch::new();
    let client = scratch.open();
    let things = client.database("app").collection::<Document>("things");
    things.insert_many((1..4).map(|id| doc! { "_id": id, "n": 0 })).run().expect("stored");
    (scratch, client)
}

#[track_caller]
fn check(command: &Document) {
    let (scratch, client) = filled();
    let first = run(&client, command, "t").expect("done");
    assert!(!first.contains_key("replayed") && !first.contains_key("writeErrors"), "{first}");
    let after = all(&client);
    let again = |client: &Client| {
        let mut again = run(client, command, "t").expect("answered");
        assert_eq!(again.remove("replayed"), Some(true.into()), "{again}");
        assert_eq!(again, first);
        assert_eq!(all(client), after);
    };
    again(&client);
    client.close().expect("closed");
    let client = scratch.open();
    again(&client);
    assert!(client.verify().expect("verified").is_clean());
}

#[test]
fn each_write_happens_once() {
    let increase = doc! { "$inc": { "n": 1 } };
    let one = |id: i32| doc! { "q": { "_id": id }, "u": &increase };
    let all = doc! { "q": {}, "u": &increase, "multi": true };
    let upsert = doc! { "q": { "a": 1 }, "u": &increase, "upsert": true };
    for command in [
        doc! { "insert": "things", "documents": [{ "a": 1 }] },
        doc! { "insert": "things", "documents": [{ "a": 1 }, { "a": 2 }] },
        doc! { "update": "things", "updates": [one(1)] },
        doc! { "update": "things", "updates": [all.clone()] },
        doc! { "update": "things", "updates": [upsert.clone()] },
        doc! { "update": "things", "updates": [one(1), all, upsert, one(3)] },
        doc! { "update": "things", "updates": [one(1), one(2)], "writeConcern": { "j": true } },
        doc! { "delete": "things", "deletes": [{ "q": {}, "limit": 1 }] },
        doc! { "delete": "things", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }, { "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "things", "query": { "_id": 1 }, "update": &increase, "new": true },
        doc! { "findAndModify": "things", "query": { "_id": 9 }, "update": &increase, "upsert": true },
        doc! { "findAndModify": "things", "query": {}, "remove": true },
    ] {
        check(&command);
    }
}

#[test]
fn of_several_statements_all_are_done_or_none() {
    let (_scratch, client) = filled();
    let update = doc! { "update": "things", "ordered": false, "updates": [
        { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } },
        { "q": { "_id": 2 }, "u": { "$set": { "_id": 7 } } },
        { "q": { "_id": 3 }, "u": { "$inc": { "n": 1 } } },
    ] };
    let before = all(&client);
    for _ in 0..2 {
        let refused = run(&client, &update, "t").expect("a reply");
        assert_eq!(
            (refused.get_i32("n").ok(), refused.get_i32("nModified").ok()),
            (Some(0), Some(0)),
            "{refused}"
        );
        assert_eq!(refused.get_array("writeErrors").expect("refused").len(), 1);
        assert_eq!(all(&client), before);
    }
    // Its token is not spent. The array is another one, so this is another command with a token that is free.
    let one = doc! { "update": "things", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }] };
    assert_eq!(run(&client, &one, "t").expect("done").get_i32("n").ok(), Some(1));
    assert_eq!(run(&client, &update, "t").expect_err("the token of another").code(), Some(72));
}

#[test]
fn values_that_are_no_tokens_are_refused() {
    let (_scratch, client) = filled();
    let insert = doc! { "insert": "things", "documents": [{ "a": 1 }] };
    assert_eq!(run(&client, &insert, 1).expect_err("a number").code(), Some(14));
    assert!(run(&client, &insert, "").is_err());
    let find = doc! { "find": "things" };
    assert_eq!(run(&client, &find, "a").expect_err("no write").code(), Some(40_415));
    assert_eq!(all(&client).len(), 3);
    for token in [Bson::from(ObjectId::new()), Uuid::new().into(), "text".into()] {
        assert_eq!(run(&client, &insert, token.clone()).expect("done").get_i32("n").ok(), Some(1));
        assert_eq!(run(&client, &insert, token).expect("answered").get_bool("replayed").ok(), Some(true));
    }
    assert_eq!(all(&client).len(), 6);
}

#[test]
fn a_token_decides_beside_a_number_and_both_are_stored() {
    let increase = doc! { "$inc": { "n": 1 } };
    let one = |id: i32| doc! { "q": { "_id": id }, "u": &increase };
    for updates in [vec![one(1)], vec![one(1), one(2)]] {
        let (_scratch, client) = filled();
        let command = |token: Option<&str>, number: i64| {
            let mut command = doc! { "update": "things", "updates": updates.clone() };
            command.extend(token.map(|token| ("exactlyOnce".to_owned(), token.into())));
            let write = RetryableWrite::new([7; 16], [0; 16], number);
            client.database("app").run_command(command).retryable(write).run()
        };
        assert!(!command(Some("t"), 1).expect("done").contains_key("replayed"));
        let after = all(&client);
        // By the token, whatever the number: the same one, a later one, and one that is too old.
        for number in [1, 5, 0] {
            assert_eq!(
                command(Some("t"), number).expect("answered").get_bool("replayed").ok(),
                Some(true),
                "{number}"
            );
        }
        // By the number alone.
        let by_number = command(None, 1).expect("answered");
        assert_eq!(
            by_number.get_array("retriedStmtIds").map(Vec::len).ok(),
            Some(updates.len()),
            "{by_number}"
        );
        assert_eq!(command(None, 0).expect_err("too old").code(), Some(225));
        assert_eq!(all(&client), after);
        // A later number alone is a new command.
        assert!(!command(None, 2).expect("done").contains_key("retriedStmtIds"));
        assert_ne!(all(&client), after);
        assert!(client.verify().expect("verified").is_clean());
    }
}
