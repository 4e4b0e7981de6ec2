//! `find` and `find_one`: what matches, in which order, and the options.

use std::time::Duration;

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb::{ErrorKind, Hint, IndexModel, IndexOptions};

use crate::{Fixture, refused};

/// Documents `_id` 1 to 9 with `a` counting down, in one collection with an index on `a`.
fn nine() -> Fixture {
    let fixture = Fixture::with((1..=9).map(|id| doc! { "_id": id, "a": 10 - id }));
    let by_a = cairndb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    fixture.things.create_index(by_a).run().expect("an index");
    fixture
}

#[track_caller]
fn ids(found: impl Iterator<Item = cairndb::Result<Document>>) -> Vec<i32> {
    found.map(|document| document.expect("a document").get_i32("_id").expect("an id")).collect()
}

#[track_caller]
fn check(filter: Document, expected: &[i32]) {
    let fixture = nine();
    // Without a sort, documents come as the index has them.
    let mut found = ids(fixture.things.find(filter.clone()).run().expect("a cursor"));
    found.sort_unstable();
    assert_eq!(found, expected, "{filter}");
    let one = fixture.things.find_one(filter.clone()).run().expect("a read");
    let one = one.map(|document| document.get_i32("_id").expect("an id"));
    assert!(one.map_or(expected.is_empty(), |one| expected.contains(&one)), "{filter}");
    let sorted = fixture.things.find_one(filter.clone()).sort(doc! { "_id": 1 }).run().expect("a read");
    let first = sorted.map(|document| document.get_i32("_id").expect("an id"));
    assert_eq!(first.as_ref(), expected.first(), "{filter}");
    let counted = fixture.things.count_documents(filter.clone()).run().expect("a count");
    assert_eq!(counted, expected.len() as u64, "{filter}");
}

#[test]
fn equality_and_ranges_select() {
    check(doc! {}, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    check(doc! { "_id": 4 }, &[4]);
    check(doc! { "_id": 4.0 }, &[4]);
    check(doc! { "_id": 10 }, &[]);
    check(doc! { "_id": "4" }, &[]);
    check(doc! { "a": 4 }, &[6]);
    check(doc! { "_id": { "$gt": 3, "$lte": 6 } }, &[4, 5, 6]);
    check(doc! { "_id": { "$gte": 8.5 } }, &[9]);
    check(doc! { "a": { "$lt": 3 } }, &[8, 9]);
    check(doc! { "_id": { "$gt": 3 }, "a": { "$gt": 4 } }, &[4, 5]);
    check(doc! { "_id": { "$in": [9, 1, 5] } }, &[1, 5, 9]);
    check(doc! { "$or": [{ "_id": 2 }, { "a": 2 }] }, &[2, 8]);
    check(doc! { "_id": { "$gt": 6, "$lt": 5 } }, &[]);
    check(doc! { "missing": null }, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// `find_one` looks a value up in a unique index on its field. What it finds is what a search finds.
#[test]
fn a_look_up_by_a_unique_index_finds_what_a_search_finds() {
    let date = cairndb::bson::DateTime::from_millis(5);
    let values = [
        bson!(1),
        bson!(2_i64),
        bson!(2.5),
        bson!("text"),
        bson!(true),
        bson!([7, 8]),
        bson!([[9]]),
        Bson::DateTime(date),
        bson!({ "x": 1 }),
        Bson::Null,
        Bson::Double(f64::NAN),
        bson!(-0.0),
    ];
    let questions = [
        bson!(1),
        bson!(1.0),
        bson!(2),
        bson!(2.5),
        bson!(3),
        bson!("text"),
        bson!("other"),
        bson!(true),
        bson!(false),
        bson!(7),
        bson!(8),
        bson!(9),
        bson!([7, 8]),
        Bson::DateTime(date),
        bson!({ "x": 1 }),
        Bson::Null,
        Bson::Double(f64::NAN),
        bson!(0),
        bson!({ "$gt": 100 }),
    ];
    for keys in [doc! { "k": 1 }, doc! { "k": -1 }] {
        let fixture =
            Fixture::with((0..).zip(&values).map(|(id, value)| doc! { "_id": id, "k": value.clone() }));
        let unique = IndexOptions::builder().unique(true).build();
        let ask = |value: &Bson| fixture.things.find_one(doc! { "k": value.clone() }).run().expect("read");
        let expected: Vec<_> = questions.iter().map(ask).collect();
        assert!(expected.iter().flatten().count() > 10);
        fixture
            .things
            .create_index(IndexModel::builder().keys(keys.clone()).options(unique).build())
            .run()
            .expect("made");
        let found: Vec<_> = questions.iter().map(ask).collect();
        // NaN is not equal to itself for the assertion.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{keys}");
    }
}

#[test]
fn a_look_up_asks_only_an_index_with_every_match() {
    let fixture = Fixture::with((0..20).map(|id| doc! { "_id": id, "k": id, "a.b": id, "n": { "k": id } }));
    let things = &fixture.things;
    let model = |keys: Document, partial: Option<Document>, hidden: bool| {
        let options = IndexOptions::builder().unique(true).partial_filter_expression(partial).hidden(hidden);
        IndexModel::builder().keys(keys).options(options.build()).build()
    };
    things
        .create_index(model(doc! { "k": 1 }, Some(doc! { "_id": { "$lt": 10 } }), false))
        .run()
        .expect("made");
    assert!(things.find_one(doc! { "k": 15 }).run().expect("read").is_some());
    things.drop_index("k_1").run().expect("dropped");
    things.create_index(model(doc! { "k": 1 }, None, true)).run().expect("made");
    things.create_index(model(doc! { "n.k": 1 }, None, false)).run().expect("made");
    for field in ["k", "n.k"] {
        assert!(things.find_one(doc! { field: 15 }).run().expect("read").is_some(), "{field}");
        assert!(things.find_one(doc! { field: 25 }).run().expect("read").is_none(), "{field}");
    }
    // A field whose name has a dot is not a path, and no filter finds it.
    assert!(things.find_one(doc! { "a.b": 5 }).run().expect("read").is_none());
}

#[test]
fn an_absent_collection_has_no_documents() {
    let fixture = Fixture::new();
    assert!(fixture.stored().is_empty());
    assert_eq!(fixture.things.find_one(doc! {}).run().unwrap(), None);
    assert_eq!(fixture.things.find_one(doc! { "_id": 1 }).run().unwrap(), None);
    assert!(fixture.client.list_database_names().run().unwrap().is_empty());
}

#[test]
fn documents_come_in_the_order_of_ids() {
    let ids = [
        bson!("b"),
        bson!(2),
        bson!(true),
        Bson::MinKey,
        bson!(1.5),
        bson!("a"),
        bson!({ "x": 1 }),
        bson!(null),
    ];
    let fixture = Fixture::with(ids.map(|id| doc! { "_id": id }));
    let found: Vec<Bson> =
        fixture.stored().into_iter().filter_map(|mut stored| stored.remove("_id")).collect();
    let expected = [
        Bson::MinKey,
        bson!(null),
        bson!(1.5),
        bson!(2),
        bson!("a"),
        bson!("b"),
        bson!({ "x": 1 }),
        bson!(true),
    ];
    assert_eq!(found, expected);
}

#[test]
fn skip_and_limit_cut_a_window() {
    let fixture = nine();
    let window = |skip, limit| ids(fixture.things.find(doc! {}).skip(skip).limit(limit).run().unwrap());
    assert_eq!(window(2, 3), [3, 4, 5]);
    assert_eq!(window(0, -2), [1, 2]);
    assert_eq!(window(7, 0), [8, 9]);
    assert_eq!(window(7, i64::MAX), [8, 9]);
    assert_eq!(window(9, 1), [] as [i32; 0]);
    assert_eq!(window(u64::MAX, i64::MIN), [] as [i32; 0]);
    let third = fixture.things.find_one(doc! {}).skip(2).run().unwrap().unwrap();
    assert_eq!(third, doc! { "_id": 3, "a": 7 });
}

#[test]
fn what_a_filter_cannot_mean_is_an_error() {
    let fixture = nine();
    let error = refused(fixture.things.find(doc! { "a": { "$near": 1 } }).run(), 238, "$near");
    let ErrorKind::Command(command) = error.kind() else { panic!("{error:?}") };
    assert_eq!(command.code_name, "NotImplemented");
    refused(fixture.things.find(doc! { "a": { "$nonsense": 1 } }).run(), 2, "$nonsense");
    refused(fixture.things.find_one(doc! { "$where": "true" }).run(), 238, "$where");
    refused(fixture.things.count_documents(doc! { "a": { "$in": 1 } }).run(), 2, "$in");
    refused(fixture.things.delete_many(doc! { "$nonsense": 1 }).run(), 2, "$nonsense");
    refused(fixture.things.replace_one(doc! { "a": { "$gt": 1, "b": 1 } }, doc! {}).run(), 2, "b");
    assert_eq!(fixture.stored().len(), 9);
}

#[test]
fn only_hints_that_can_be_honored_are_accepted() {
    let fixture = nine();
    for hint in
        [Hint::Name("_id_".to_owned()), Hint::Keys(doc! { "_id": 1 }), Hint::Keys(doc! { "$natural": 1 })]
    {
        assert_eq!(ids(fixture.things.find(doc! { "a": 1 }).hint(hint.clone()).run().unwrap()), [9]);
        assert_eq!(fixture.things.count_documents(doc! {}).hint(hint).run().unwrap(), 9);
    }
    let unknown = || Hint::Name("b_1".to_owned());
    refused(
        fixture.things.find(doc! {}).hint(unknown()).run(),
        2,
        "does not correspond to an existing index",
    );
    refused(fixture.things.find_one(doc! { "_id": 1 }).hint(unknown()).run(), 2, "b_1");
    refused(fixture.things.count_documents(doc! {}).hint(unknown()).run(), 2, "b_1");
    refused(fixture.things.delete_one(doc! {}).hint(unknown()).run(), 2, "b_1");
    refused(fixture.things.replace_one(doc! {}, doc! {}).hint(unknown()).run(), 2, "b_1");
}

#[test]
fn a_search_without_time_gives_up() {
    let fixture = Fixture::with((0..5000).map(|id| doc! { "_id": id }));
    // The time may be over when the search is planned, or with its first documents.
    let search = fixture.things.find(doc! { "a": 1 }).max_time(Duration::from_nanos(1)).run();
    let outcome = search.and_then(Iterator::collect::<cairndb::Result<Vec<_>>>);
    refused(outcome, 50, "time limit");
    refused(fixture.things.count_documents(doc! { "a": 1 }).max_time(Duration::from_nanos(1)).run(), 50, "");
    refused(fixture.things.find_one(doc! { "a": 1 }).max_time(Duration::from_nanos(1)).run(), 50, "");
    let unlimited = fixture.things.count_documents(doc! { "a": 1 }).max_time(Duration::ZERO);
    assert_eq!(unlimited.run().unwrap(), 0);
}
