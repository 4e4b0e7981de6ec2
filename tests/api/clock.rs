//! `$$NOW`: an operation reads the clock once.

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{ReturnDocument, UpdateOneModel, WriteModel};

use crate::{Fixture, all};

/// The different times in fields `a` and `b` of all documents.
#[track_caller]
fn times(fixture: &Fixture) -> Vec<DateTime> {
    let found = all(&fixture.things);
    let mut times: Vec<DateTime> = found
        .iter()
        .flat_map(|found| {
            [found.get_datetime("a").expect("a time"), found.get_datetime("b").expect("a time")]
        })
        .copied()
        .collect();
    times.sort();
    times.dedup();
    times
}

/// Enough that writing them lasts longer than the clock's millisecond.
fn many() -> Fixture {
    Fixture::with((0..3000).map(|id| doc! { "_id": id }))
}

fn stages() -> Vec<Document> {
    vec![doc! { "$set": { "a": "$$NOW" } }, doc! { "$set": { "b": "$$NOW" } }]
}

#[track_caller]
fn is_recent(time: DateTime) {
    let age = DateTime::now().timestamp_millis() - time.timestamp_millis();
    assert!((0..600_000).contains(&age), "{time}");
}

#[test]
fn all_documents_and_stages_of_an_update_get_one_time() {
    let fixture = many();
    fixture.things.update_many(doc! {}, stages()).run().unwrap();
    let times = times(&fixture);
    assert_eq!(times.len(), 1, "{times:?}");
    is_recent(times[0]);
}

#[test]
fn all_writes_of_a_bulk_get_one_time() {
    let fixture = many();
    let namespace = fixture.things.namespace();
    let model = |id: i32| -> WriteModel {
        let change = UpdateOneModel::builder().namespace(namespace.clone()).filter(doc! { "_id": id });
        change.update(stages()).build().into()
    };
    fixture.client.bulk_write((0..3000).map(model)).run().unwrap();
    assert_eq!(times(&fixture).len(), 1);
}

#[test]
fn all_statements_of_a_command_get_one_time() {
    let fixture = many();
    let statement = |id: i32| Bson::from(doc! { "q": { "_id": id }, "u": stages() });
    let statements: Vec<Bson> = (0..3000).map(statement).collect();
    let command = doc! { "update": fixture.things.name(), "updates": statements };
    fixture.client.database("test").run_command(command).run().unwrap();
    assert_eq!(times(&fixture).len(), 1);
}

#[test]
fn filter_update_and_projection_get_one_time() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    // A filter that is nothing but an `_id` has a plan of its own.
    for filter in [doc! { "_id": 1 }, doc! { "$expr": { "$gt": ["$$NOW", DateTime::from_millis(0)] } }] {
        let shown = fixture
            .things
            .find_one_and_update(filter, stages())
            .projection(doc! { "a": 1, "b": 1, "seen": "$$NOW" })
            .return_document(ReturnDocument::After)
            .run()
            .unwrap()
            .expect("the document");
        let seen = *shown.get_datetime("seen").unwrap();
        is_recent(seen);
        assert_eq!(shown, doc! { "_id": 1, "a": seen, "b": seen, "seen": seen });
    }
}

#[test]
fn a_document_found_by_its_id_shows_the_time() {
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let found = fixture.things.find_one(doc! { "_id": 1 }).projection(doc! { "now": "$$NOW" }).run().unwrap();
    is_recent(*found.expect("the document").get_datetime("now").unwrap());
}
