//! `maxTimeMS` of writes: they are given up between two documents, with an error that is the whole command's. What was
//! written until then stays.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, ErrorKind};

use crate::{Fixture, refused};

/// More documents than any machine writes within a millisecond.
const MANY: i32 = 30_000;

fn many() -> Fixture {
    let fixture = Fixture::new();
    fixture
        .client
        .database("shop")
        .collection("a")
        .insert_many((0..MANY).map(|id| doc! { "_id": id }))
        .run()
        .expect("they are new");
    fixture
}

fn count(client: &Client, filter: Document) -> i32 {
    let count = client.database("shop").collection::<Document>("a").count_documents(filter).run();
    i32::try_from(count.expect("a count")).expect("few")
}

/// The command is given up.
#[track_caller]
fn give_up(fixture: &Fixture, mut command: Document) {
    command.insert("maxTimeMS", 1);
    let error = refused(fixture.client.database("shop").run_command(command).run(), 50, "time limit");
    let ErrorKind::Command(error) = error.kind() else { panic!("it is not the command's: {error:?}") };
    assert_eq!(error.code_name, "MaxTimeMSExpired");
    fixture.verify_clean();
}

#[test]
fn an_update_of_many_keeps_the_first_ones() {
    let fixture = many();
    let updates = vec![doc! { "q": {}, "u": { "$set": { "done": true } }, "multi": true }];
    give_up(&fixture, doc! { "update": "a", "updates": updates });
    let done = count(&fixture.client, doc! { "done": true });
    assert!(done < MANY);
    assert_eq!(count(&fixture.client, doc! { "_id": { "$lt": done }, "done": true }), done);
}

#[test]
fn a_batch_of_updates_keeps_the_first_ones_even_if_it_is_unordered() {
    let fixture = many();
    let one = |id: i32| doc! { "q": { "_id": id }, "u": { "$set": { "done": true } } };
    let updates: Vec<Document> = (0..MANY).map(one).collect();
    give_up(&fixture, doc! { "update": "a", "updates": updates, "ordered": false });
    let done = count(&fixture.client, doc! { "done": true });
    assert!(done < MANY);
    assert_eq!(count(&fixture.client, doc! { "_id": { "$lt": done }, "done": true }), done);
}

#[test]
fn a_delete_of_many_keeps_the_last_ones() {
    let fixture = many();
    give_up(&fixture, doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 0 }] });
    let left = count(&fixture.client, doc! {});
    assert!(left > 0);
    assert_eq!(count(&fixture.client, doc! { "_id": { "$gte": MANY - left } }), left);
}

#[test]
fn an_insert_of_many_keeps_the_first_ones() {
    let fixture = Fixture::new();
    let documents: Vec<Document> = (0..MANY).map(|id| doc! { "_id": id }).collect();
    give_up(&fixture, doc! { "insert": "a", "documents": documents });
    let left = count(&fixture.client, doc! {});
    assert!(left < MANY);
    assert_eq!(count(&fixture.client, doc! { "_id": { "$lt": left } }), left);
}

#[test]
fn find_and_modify_is_given_up_while_it_searches() {
    let fixture = many();
    give_up(
        &fixture,
        doc! { "findAndModify": "a", "query": { "n": 1 }, "update": { "n": 2 }, "upsert": true },
    );
    give_up(&fixture, doc! { "findAndModify": "a", "sort": { "n": 1 }, "remove": true });
    assert_eq!(count(&fixture.client, doc! {}), MANY);
}

#[test]
fn an_insert_within_its_time_is_numbered_and_refused_as_any_other() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(doc! { "create": "a", "autoIncrement": { "Field": "number" } }).run().expect("made");
    let documents: Vec<Document> =
        (0..2_500).map(|place| doc! { "_id": if place == 2_100 { 0 } else { place } }).collect();
    let insert = doc! { "insert": "a", "documents": documents, "maxTimeMS": 3_600_000 };
    let reply = db.run_command(insert.clone()).run().expect("a reply");
    assert_eq!(reply.get_i32("n").ok(), Some(2_100));
    let generated = reply.get_array("generated").expect("numbers");
    assert_eq!((generated.len(), generated.last()), (2_100, Some(&Bson::from(doc! { "number": 2_100_i64 }))));
    let errors = reply.get_array("writeErrors").expect("one");
    let positions: Vec<_> =
        errors.iter().map(|error| error.as_document().unwrap().get_i32("index").ok()).collect();
    assert_eq!(positions, [Some(2_100)]);
    let mut rest = insert;
    rest.insert("ordered", false);
    let reply = db.run_command(rest).run().expect("a reply");
    assert_eq!((reply.get_i32("n").ok(), reply.get_array("writeErrors").unwrap().len()), (Some(399), 2_101));
    fixture.verify_clean();
}
