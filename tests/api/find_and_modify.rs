//! `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`.

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, ErrorKind, IndexModel, IndexOptions, ReturnDocument};

use crate::{Fixture, refused};

fn three() -> Fixture {
    Fixture::with([doc! { "_id": 1, "n": 10 }, doc! { "_id": 2, "n": 20 }, doc! { "_id": 3, "n": 30 }])
}

#[test]
fn the_state_that_was_asked_for_is_given() {
    let fixture = three();
    let add = || fixture.things.find_one_and_update(doc! { "_id": 2 }, doc! { "$inc": { "n": 1 } });
    assert_eq!(add().run().unwrap(), Some(doc! { "_id": 2, "n": 20 }));
    assert_eq!(
        add().return_document(ReturnDocument::Before).run().unwrap(),
        Some(doc! { "_id": 2, "n": 21 })
    );
    assert_eq!(add().return_document(ReturnDocument::After).run().unwrap(), Some(doc! { "_id": 2, "n": 23 }));
    let shown = add().return_document(ReturnDocument::After).projection(doc! { "_id": 0, "n": 1 });
    assert_eq!(shown.run().unwrap(), Some(doc! { "n": 24 }));
    let nothing = fixture.things.find_one_and_update(doc! { "_id": 9 }, doc! { "$inc": { "n": 1 } }).run();
    assert_eq!(nothing.unwrap(), None);
}

#[test]
fn a_document_that_stays_the_same_is_given_as_well() {
    let fixture = three();
    let same = fixture.things.find_one_and_update(doc! { "_id": 2 }, doc! { "$set": { "n": 20 } });
    assert_eq!(same.return_document(ReturnDocument::After).run().unwrap(), Some(doc! { "_id": 2, "n": 20 }));
}

#[test]
fn a_sort_decides_which_document_is_found() {
    let fixture = three();
    let found =
        fixture.things.find_one_and_update(doc! {}, doc! { "$set": { "n": 0 } }).sort(doc! { "n": -1 });
    assert_eq!(found.run().unwrap(), Some(doc! { "_id": 3, "n": 30 }));
    let deleted = fixture.things.find_one_and_delete(doc! {}).sort(doc! { "n": 1 }).run().unwrap();
    assert_eq!(deleted, Some(doc! { "_id": 3, "n": 0 }));
    let deleted = fixture.things.find_one_and_delete(doc! {}).sort(doc! { "_id": -1 }).run().unwrap();
    assert_eq!(deleted, Some(doc! { "_id": 2, "n": 20 }));
    assert_eq!(fixture.stored(), [doc! { "_id": 1, "n": 10 }]);
}

#[test]
fn an_upsert_gives_nothing_before_and_the_document_after() {
    let fixture = Fixture::new();
    let upsert = |id: i32| {
        fixture.things.find_one_and_update(doc! { "_id": id }, doc! { "$inc": { "n": 1 } }).upsert(true)
    };
    assert_eq!(upsert(1).run().unwrap(), None);
    assert_eq!(
        upsert(2).return_document(ReturnDocument::After).run().unwrap(),
        Some(doc! { "_id": 2, "n": 1 })
    );
    let made = fixture.things.find_one_and_update(doc! { "k": 1 }, doc! { "$set": { "n": 1 } }).upsert(true);
    let made = made.return_document(ReturnDocument::After).run().unwrap().expect("the new document");
    assert_eq!(fixture.things.find_one(doc! { "k": 1 }).run().unwrap(), Some(made));
}

#[test]
fn the_document_of_an_upsert_shows_the_numbers_that_were_generated() {
    let fixture = Fixture::new();
    let db = fixture.client.database("numbered");
    for field in ["number", "_id"] {
        let numbers = AutoIncrement::builder().field(field).build();
        db.create_collection(field).auto_increment(numbers).run().expect("a collection");
        let things = db.collection::<Document>(field);
        let upsert = things.find_one_and_update(doc! { "k": 1 }, doc! { "$set": { "n": 1 } }).upsert(true);
        let made = upsert.return_document(ReturnDocument::After).run().unwrap().expect("the new document");
        assert_eq!(made.get_i64(field).ok(), Some(1));
        assert_eq!(things.find_one(doc! {}).run().unwrap(), Some(made));
    }
}

#[test]
fn a_replacement_keeps_the_id() {
    let fixture = three();
    let replaced = fixture.things.find_one_and_replace(doc! { "n": 20 }, doc! { "x": 1 }).run().unwrap();
    assert_eq!(replaced, Some(doc! { "_id": 2, "n": 20 }));
    let upsert = fixture.things.find_one_and_replace(doc! { "_id": 7 }, doc! { "x": 1 }).upsert(true);
    let made = upsert.return_document(ReturnDocument::After).run().unwrap();
    assert_eq!(made, Some(doc! { "_id": 7, "x": 1 }));
    refused(fixture.things.find_one_and_replace(doc! {}, doc! { "_id": 9 }).run(), 66, "_id: 9");
}

#[test]
fn a_delete_gives_what_it_removed() {
    let fixture = three();
    let deleted = fixture.things.find_one_and_delete(doc! { "_id": 2 }).projection(doc! { "n": 1, "_id": 0 });
    assert_eq!(deleted.run().unwrap(), Some(doc! { "n": 20 }));
    assert_eq!(fixture.things.find_one_and_delete(doc! { "_id": 2 }).run().unwrap(), None);
    assert_eq!(fixture.stored().len(), 2);
    fixture.verify_clean();
}

#[test]
fn a_taken_key_is_an_error_of_the_command_with_its_details() {
    let fixture = three();
    let unique = IndexOptions::builder().unique(true).build();
    fixture
        .things
        .create_index(IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build())
        .run()
        .unwrap();
    let taken = fixture.things.find_one_and_update(doc! { "_id": 2 }, doc! { "$set": { "n": 30 } }).run();
    let error = refused(taken, 11000, "dup key: { n: 30 }");
    let ErrorKind::Command(command) = error.kind() else { panic!("{error:?}") };
    let details = doc! { "keyPattern": { "n": 1 }, "keyValue": { "n": 30 } };
    assert_eq!(command.details, Some(details));
}

#[test]
fn a_limit_of_time_is_refused() {
    let fixture = three();
    let limited = fixture.things.find_one_and_delete(doc! {}).max_time(std::time::Duration::from_nanos(1));
    refused(limited.run(), 50, "time limit");
    assert_eq!(fixture.stored().len(), 3);
}

/// The returned document was made after the commit, so that a projection that has no value for the document gave an
/// error, and the document was gone or another all the same.
#[test]
fn a_projection_without_value_changes_nothing() {
    for is_indexed in [false, true] {
        let fixture = three();
        if is_indexed {
            fixture.things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().unwrap();
        }
        let before = fixture.stored();
        let divide = doc! { "x": { "$divide": [1, { "$subtract": ["$n", 20] }] } };
        let after = doc! { "x": { "$divide": [1, { "$subtract": ["$n", 21] }] } };
        let things = &fixture.things;
        let add = || things.find_one_and_update(doc! { "_id": 2 }, doc! { "$inc": { "n": 1 } });
        let replace = || things.find_one_and_replace(doc! { "_id": 2 }, doc! { "n": 21 });
        let delete = things.find_one_and_delete(doc! { "_id": 2 }).projection(divide.clone()).run();
        let refusals = [
            delete,
            add().projection(divide.clone()).run(),
            add().projection(after.clone()).return_document(ReturnDocument::After).run(),
            replace().projection(divide.clone()).run(),
            replace().projection(after.clone()).return_document(ReturnDocument::After).run(),
        ];
        for refusal in refusals {
            refused(refusal, 2, "divide by zero");
            assert_eq!(fixture.stored(), before);
        }
        // The other state has a value.
        assert_eq!(add().projection(after).run().unwrap(), Some(doc! { "_id": 2, "x": -1.0 }));
    }
}

#[test]
fn a_projection_without_value_inserts_nothing() {
    let divide = doc! { "x": { "$divide": [1, { "$subtract": ["$n", 1] }] } };
    let fixture = Fixture::new();
    fixture.things.insert_one(doc! { "_id": 1, "n": 5 }).run().unwrap();
    let things = &fixture.things;
    let upsert = || things.find_one_and_update(doc! { "_id": 2 }, doc! { "$inc": { "n": 1 } }).upsert(true);
    let replace = || things.find_one_and_replace(doc! { "_id": 2 }, doc! { "n": 1 }).upsert(true);
    let refusals = [
        upsert().projection(divide.clone()).return_document(ReturnDocument::After).run(),
        replace().projection(divide.clone()).return_document(ReturnDocument::After).run(),
    ];
    for refusal in refusals {
        refused(refusal, 2, "divide by zero");
        assert_eq!(things.count_documents(doc! {}).run().unwrap(), 1);
        assert_eq!(things.estimated_document_count().run().unwrap(), 1);
    }
    // Nothing is shown of the state before.
    assert_eq!(upsert().projection(divide).run().unwrap(), None);
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), 2);
}

#[test]
fn a_projection_without_value_for_a_generated_number_inserts_nothing() {
    let fixture = Fixture::new();
    let db = fixture.client.database("numbered");
    let numbers = AutoIncrement::builder().field("serial").build();
    db.create_collection("things").auto_increment(numbers).run().expect("a collection");
    let things = db.collection::<Document>("things");
    let upsert = |name: &str| {
        let update = doc! { "$set": { "name": name } };
        things
            .find_one_and_update(doc! { "k": name }, update)
            .upsert(true)
            .return_document(ReturnDocument::After)
    };
    let divide = doc! { "_id": 0, "x": { "$divide": [1, { "$subtract": ["$serial", 1] }] } };
    refused(upsert("a").projection(divide.clone()).run(), 2, "divide by zero");
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), 0);
    let made = upsert("b").projection(divide).run().unwrap().expect("the new document");
    assert_eq!(made, doc! { "x": 1.0 });
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), 1);
}

#[test]
fn a_positional_projection_and_the_new_document_are_refused_before_the_write() {
    let fixture = Fixture::with([doc! { "_id": 1, "a": [1, 2] }]);
    let before = fixture.stored();
    let change = || {
        let update = doc! { "$set": { "a": [] } };
        fixture.things.find_one_and_update(doc! { "a": 2 }, update).projection(doc! { "a.$": 1 })
    };
    refused(change().return_document(ReturnDocument::After).run(), 2, "positional projection");
    assert_eq!(fixture.stored(), before);
    assert_eq!(change().run().unwrap(), Some(doc! { "_id": 1, "a": [2] }));
}
