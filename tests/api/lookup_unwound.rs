//! `$lookup` with the `$unwind` of its array in one stage, and the index that a `$lookup` asks for each document.

use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, DateTime, Document, Timestamp, doc};
use cairndb::{Client, Collation, Collection, Cursor, Database, IndexModel, IndexOptions};
use cairndb_tests::scratch::small;

use crate::collation::any_case;

fn numbered(values: impl IntoIterator<Item = Document>) -> Vec<Document> {
    let number = |(document, number): (Document, i32)| {
        let mut numbered = doc! { "_id": number };
        numbered.extend(document);
        numbered
    };
    values.into_iter().zip(0..).map(number).collect()
}

fn database(client: &Client, local: Vec<Document>, foreign: Vec<Document>) -> Database {
    let database = client.database("app");
    database.collection::<Document>("local").insert_many(numbered(local)).run().expect("documents");
    database.collection::<Document>("foreign").insert_many(numbered(foreign)).run().expect("documents");
    database
}

fn results(local: &Collection<Document>, stages: &[Document]) -> Vec<Document> {
    let cursor = local.aggregate(stages.to_vec()).run().expect("a pipeline");
    cursor.map(|document| document.expect("a document")).collect()
}

/// The stages of a join by `a` and `b`, whose filter concerns what is found.
fn join() -> [Document; 3] {
    [
        doc! { "$lookup": { "from": "foreign", "localField": "a", "foreignField": "b", "as": "found" } },
        doc! { "$unwind": "$found" },
        doc! { "$match": { "found.n": { "$lt": 3 } } },
    ]
}

/// Values of the types that can be compared, several of them equal.
fn values() -> Vec<Bson> {
    let binary = |bytes: &[u8]| {
        Bson::Binary(cairndb::bson::Binary {
            subtype: cairndb::bson::spec::BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        })
    };
    vec![
        Bson::Null,
        Bson::Int32(1),
        Bson::Int64(1),
        Bson::Double(1.0),
        Bson::Double(f64::NAN),
        Bson::Double(-0.0),
        Bson::Int32(0),
        Bson::Decimal128("1.0".parse().expect("a decimal")),
        Bson::Boolean(true),
        "".into(),
        "a".into(),
        "A".into(),
        "a\u{0}".into(),
        Bson::Symbol("a".into()),
        ObjectId::from_bytes([7; 12]).into(),
        DateTime::from_millis(1).into(),
        Timestamp { time: 0, increment: 1 }.into(),
        binary(&[1, 2]),
        binary(&[]),
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Undefined,
        doc! {}.into(),
        doc! { "x": 1 }.into(),
        Bson::Array(vec![]),
        Bson::Array(vec![1.into(), "a".into()]),
        Bson::Array(vec![Bson::Array(vec![1.into()]), Bson::Null]),
    ]
}

/// Documents with all values in a field, and one without it.
fn of_all_values(field: &str) -> Vec<Document> {
    let documents = values().into_iter().map(|value| doc! { field: value, "n": 1 });
    documents.chain([doc! { "n": 1 }]).collect()
}

/// The indexes on `b` that a join may ask, and some that it must not trust for everything.
fn indexes() -> Vec<IndexModel> {
    let of =
        |keys: Document, options: IndexOptions| IndexModel::builder().keys(keys).options(options).build();
    vec![
        of(doc! { "b": 1 }, IndexOptions::default()),
        of(doc! { "b": -1 }, IndexOptions::default()),
        of(doc! { "b": 1, "n": 1 }, IndexOptions::default()),
        of(doc! { "b": 1 }, IndexOptions::builder().sparse(true).build()),
        of(doc! { "b": 1 }, IndexOptions::builder().hidden(true).build()),
        of(
            doc! { "b": 1 },
            IndexOptions::builder().partial_filter_expression(doc! { "n": { "$gt": 5 } }).build(),
        ),
        of(doc! { "b": 1 }, IndexOptions::builder().collation(any_case()).build()),
        of(doc! { "$**": 1 }, IndexOptions::default()),
    ]
}

#[test]
fn every_index_finds_what_is_found_without() {
    let client = small().in_memory(true).open("").expect("made");
    let database = database(&client, of_all_values("a"), of_all_values("b"));
    let (local, foreign) =
        (database.collection::<Document>("local"), database.collection::<Document>("foreign"));
    let [lookup, unwind, filter] = join();
    let any_case = any_case();
    let pipelines =
        [vec![lookup.clone()], vec![lookup.clone(), unwind.clone()], vec![lookup, unwind, filter]];
    // Which index is used decides in which order documents are found.
    let found = |stages: &[Document], collation: Option<&Collation>| {
        let mut cursor = local.aggregate(stages.to_vec());
        if let Some(collation) = collation {
            cursor = cursor.collation(collation.clone());
        }
        let mut pairs = Vec::new();
        for document in cursor.run().expect("a pipeline") {
            let document = document.expect("a document");
            let id = document.get_i32("_id").expect("a number");
            let of_one =
                |found: &Bson| found.as_document().expect("an object").get_i32("_id").expect("a number");
            let field = document.get("found").expect("the field");
            let found = field.as_array().map_or(std::slice::from_ref(field), Vec::as_slice);
            pairs.extend(found.iter().map(|found| (id, of_one(found))));
        }
        pairs.sort_unstable();
        pairs
    };
    for stages in &pipelines {
        for collation in [None, Some(&any_case)] {
            let expected = found(stages, collation);
            assert!(expected.len() > values().len(), "{expected:?}");
            for index in indexes() {
                let name = foreign.create_index(index.clone()).run().expect("an index").index_name;
                assert_eq!(found(stages, collation), expected, "{index:?} for {stages:?}");
                foreign.drop_index(name).run().expect("dropped");
            }
        }
    }
}

#[test]
fn a_unique_index_and_the_id_find_one_document() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign = (0..50).map(|number| doc! { "b": [number, f64::from(number) + 0.5], "n": number });
    let local = [doc! { "a": 3.5 }, doc! { "a": 99 }, doc! { "a": [1, 1.5] }, doc! { "a": 49_i64 }];
    let database = database(&client, local.to_vec(), foreign.collect());
    let local = database.collection::<Document>("local");
    let [lookup, unwind, _] = join();
    let shown = doc! { "$project": { "n": "$found.n" } };
    let expected = [doc! { "_id": 0, "n": 3 }, doc! { "_id": 2, "n": 1 }, doc! { "_id": 3, "n": 49 }];
    assert_eq!(results(&local, &[lookup.clone(), unwind.clone(), shown.clone()]), expected);
    let unique = IndexOptions::builder().unique(true).build();
    let unique = IndexModel::builder().keys(doc! { "b": 1 }).options(unique).build();
    database.collection::<Document>("foreign").create_index(unique).run().expect("an index");
    assert_eq!(results(&local, &[lookup, unwind.clone(), shown.clone()]), expected);
    let by_id =
        doc! { "$lookup": { "from": "foreign", "localField": "_id", "foreignField": "_id", "as": "found" } };
    let expected: Vec<Document> = (0..4).map(|number| doc! { "_id": number, "n": number }).collect();
    assert_eq!(results(&local, &[by_id, unwind, shown]), expected);
}

/// The results of a cursor that rests after each `rests_each` of them.
fn read_resting(mut cursor: Cursor<Document>, rests_each: usize) -> Vec<Document> {
    let mut seen = Vec::new();
    while cursor.advance().expect("a result") {
        seen.push(cursor.deserialize_current().expect("a document"));
        if seen.len().is_multiple_of(rests_each) {
            cursor.rest();
        }
    }
    seen
}

/// Between two results the cursor gives back what it holds of the storage, and must go on where it was.
#[test]
fn a_cursor_that_rests_goes_on_where_it_was() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign: Vec<Document> = (0..40).map(|number| doc! { "b": number % 4, "n": number % 5 }).collect();
    let local: Vec<Document> = (0..6).map(|number| doc! { "a": number }).collect();
    let database = database(&client, local, foreign);
    let (local, foreign) =
        (database.collection::<Document>("local"), database.collection::<Document>("foreign"));
    let check = |with: &str| {
        for stages in [&join()[..1], &join()[..2], &join()[..]] {
            let whole = results(&local, stages);
            for rests_each in [1, 2, 3] {
                let cursor = local.aggregate(stages.to_vec()).run().expect("a pipeline");
                assert_eq!(read_resting(cursor, rests_each), whole, "{with}, {stages:?}");
            }
        }
    };
    check("in a table");
    let index =
        foreign.create_index(IndexModel::builder().keys(doc! { "b": 1 }).build()).run().expect("an index");
    check("by an index");
    foreign.drop_index(index.index_name).run().expect("dropped");
    foreign
        .create_index(IndexModel::builder().keys(doc! { "b": -1, "n": 1 }).build())
        .run()
        .expect("an index");
    check("by an index on two fields");
}

#[test]
fn a_filter_of_what_is_found_uses_an_index_with_the_equality() {
    let client = small().in_memory(true).open("").expect("made");
    let foreign: Vec<Document> = (0..1_000).map(|number| doc! { "b": number % 2, "n": number }).collect();
    let database = database(&client, vec![doc! { "a": 0 }, doc! { "a": 1 }, doc! {}], foreign);
    let (local, foreign) =
        (database.collection::<Document>("local"), database.collection::<Document>("foreign"));
    let expected = [0, 2, 1];
    let found = || {
        let found = results(&local, &join());
        found
            .iter()
            .map(|found| found.get_document("found").expect("one").get_i32("n").expect("n"))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(), expected);
    // An index on the filter alone finds what the table is made of, once and not for each document.
    foreign.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("an index");
    let uses = |name: &str| {
        let usage = foreign.aggregate([doc! { "$indexStats": {} }]).run().expect("usage");
        let mut usage = usage.map(|usage| usage.expect("usage"));
        let of_name = usage.find(|usage| usage.get_str("name").is_ok_and(|known| known == name));
        of_name
            .expect("the index")
            .get_document("accesses")
            .expect("accesses")
            .get_i64("ops")
            .expect("a count")
    };
    let before = uses("n_1");
    assert_eq!(found(), expected);
    assert_eq!(uses("n_1") - before, 1);
    foreign
        .create_index(IndexModel::builder().keys(doc! { "b": 1, "n": 1 }).build())
        .run()
        .expect("an index");
    let before = uses("b_1_n_1");
    assert_eq!(found(), expected);
    assert!(uses("b_1_n_1") - before >= 3);
}

#[test]
fn an_explanation_shows_what_became_one_stage() {
    let client = small().in_memory(true).open("").expect("made");
    let database = database(&client, vec![doc! { "a": 1 }], vec![doc! { "b": 1, "n": 2 }]);
    let explained = |stages: Vec<Document>| {
        let aggregate = doc! { "aggregate": "local", "pipeline": stages, "cursor": {} };
        let explain = doc! { "explain": aggregate, "verbosity": "executionStats" };
        database.run_command(explain).run().expect("explained")
    };
    let [lookup, unwind, filter] = join();
    let mut joined = lookup.get_document("$lookup").expect("an object").clone();
    joined.insert("unwinding", doc! { "preserveNullAndEmptyArrays": false });
    joined.insert("matching", doc! { "n": { "$lt": 3 } });
    let told = explained(vec![doc! { "$match": { "a": 1 } }, lookup, unwind, filter, doc! { "$limit": 5 }]);
    let stages: Vec<&Document> =
        told.get_array("stages").expect("stages").iter().filter_map(Bson::as_document).collect();
    assert_eq!(stages.len(), 3, "{told}");
    assert!(stages[0].contains_key("$cursor"));
    assert_eq!(stages[1].get_document("$lookup").expect("an object"), &joined);
    assert!(stages[2].contains_key("$limit"));
}

#[test]
fn a_join_beyond_the_size_of_a_document_is_read_and_ends_at_its_time_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::open(folder.path().join("db")).expect("a database");
    let large = doc! { "b": 1, "n": 1, "text": "x".repeat(6 << 20) };
    let database = database(&client, vec![doc! { "a": 1 }], vec![large.clone(), large.clone(), large]);
    let local = database.collection::<Document>("local");
    let [lookup, unwind, _] = join();
    assert_eq!(results(&local, &[lookup, unwind]).len(), 3);

    let same: Vec<Document> = (0..2_000).map(|_| doc! { "a": 1, "b": 1 }).collect();
    let many = client.database("many");
    many.collection::<Document>("local").insert_many(&same).run().expect("documents");
    let cross =
        doc! { "$lookup": { "from": "local", "localField": "a", "foreignField": "b", "as": "found" } };
    let again = doc! { "$lookup": { "from": "local", "pipeline": [], "as": "again" } };
    let stages =
        [cross, doc! { "$unwind": "$found" }, again, doc! { "$unwind": "$again" }, doc! { "$count": "n" }];
    let local = many.collection::<Document>("local");
    // On a busy machine the time may be over before there is a cursor.
    let cursor = local.aggregate(stages).max_time(Duration::from_millis(300)).run();
    let first = cursor.and_then(|mut cursor| cursor.next().expect("an error"));
    assert_eq!(first.expect_err("too late").code(), Some(50));
}
