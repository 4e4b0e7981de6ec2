//! `count_documents` and `estimated_document_count`.

use cairndb::bson::{Document, doc};
use cairndb_tests::scratch::things;

use crate::{Fixture, refused};

fn ten() -> Vec<Document> {
    (0..10).map(|id| doc! { "_id": id, "even": id % 2 == 0 }).collect()
}

#[test]
fn counts_have_skip_and_limit() {
    let fixture = Fixture::with(ten());
    let even = || fixture.things.count_documents(doc! { "even": true });
    assert_eq!(even().run().unwrap(), 5);
    assert_eq!(even().skip(2).run().unwrap(), 3);
    assert_eq!(even().limit(4).run().unwrap(), 4);
    assert_eq!(even().skip(4).limit(4).run().unwrap(), 1);
    assert_eq!(even().skip(u64::MAX).limit(u64::MAX).run().unwrap(), 0);
    refused(even().limit(0).run(), 15958, "the limit must be positive");
}

#[test]
fn the_counter_follows_every_write() {
    let fixture = Fixture::new();
    let counted = || fixture.things.estimated_document_count().run().unwrap();
    assert_eq!(counted(), 0);
    fixture.things.insert_many(ten()).run().unwrap();
    assert_eq!(counted(), 10);
    fixture.things.insert_one(doc! { "_id": 3 }).run().expect_err("refused");
    fixture.things.replace_one(doc! { "_id": 3 }, doc! { "a": 1 }).run().unwrap();
    assert_eq!(counted(), 10);
    fixture.things.replace_one(doc! { "_id": 10 }, doc! {}).upsert(true).run().unwrap();
    assert_eq!(counted(), 11);
    fixture.things.delete_many(doc! { "even": true }).run().unwrap();
    assert_eq!(counted(), 6);
    fixture.things.drop().run().unwrap();
    assert_eq!(counted(), 0);
    fixture.things.insert_one(doc! {}).run().unwrap();
    assert_eq!(counted(), 1);
    fixture.verify_clean();
}

#[test]
fn the_counter_survives_a_close_and_a_drop() {
    let fixture = Fixture::with(ten());
    let Fixture { client, things: first, scratch } = fixture;
    drop(first);
    client.close().unwrap();
    let client = scratch.open();
    assert_eq!(things(&client).estimated_document_count().run().unwrap(), 10);
    things(&client).insert_one(doc! {}).run().unwrap();
    drop(client);
    let client = scratch.open();
    things(&client).insert_one(doc! {}).run().unwrap();
    assert_eq!(things(&client).estimated_document_count().run().unwrap(), 12);
    crate::verify_clean(&client);
}
