//! `$expr` answered by indexes: which plans it gets, and that no index changes its answer.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, DateTime, Document, Regex, Timestamp, bson, doc};
use cairndb::{Client, Collation, Collection, Hint, IndexModel, IndexOptions};
use cairndb_tests::scratch::small;

use crate::collation::any_case;
use crate::index_plans::{check_command, explain, hundred};

/// Checks the plan of a `find` by an expression: its stages, and how many rows came of how many keys and documents.
#[track_caller]
fn check(expression: impl Into<Bson>, stages: &str, expected: [i32; 3]) {
    let filter = doc! { "$expr": expression.into() };
    check_command(&doc! { "find": "a", "filter": filter }, stages, expected);
}

#[test]
fn comparisons_with_a_constant_bound_an_index() {
    check(bson!({ "$eq": ["$n", 50] }), "FETCH < IXSCAN n forward", [1, 1, 1]);
    check(bson!({ "$gte": ["$n", 900] }), "FETCH < IXSCAN n forward", [10, 10, 10]);
    check(bson!({ "$gt": [100, "$n"] }), "FETCH < IXSCAN n forward", [10, 10, 10]);
    check(bson!({ "$in": ["$n", [10, 20, 25]] }), "FETCH < IXSCAN n forward", [2, 2, 2]);
    check(bson!({ "$lt": ["$$ROOT.n", { "$multiply": [10, 5] }] }), "FETCH < IXSCAN n forward", [5, 5, 5]);
    check(
        bson!({ "$and": [{ "$gte": ["$n", 100] }, { "$lt": ["$n", 200] }, { "$eq": ["$m", 1] }] }),
        "FETCH < IXSCAN n forward",
        [4, 10, 10],
    );
    check(
        bson!({ "$and": [{ "$eq": ["$kind", 1] }, { "$gt": ["$n", 500] }] }),
        "FETCH < IXSCAN kind forward",
        [12, 12, 12],
    );
    check(bson!({ "$ne": ["$n", 50] }), "COLLSCAN", [99, 0, 100]);
    check(bson!({ "$eq": ["$n", "$_id"] }), "COLLSCAN", [1, 0, 100]);
    check(bson!({ "$gt": [{ "$abs": "$n" }, 900] }), "COLLSCAN", [9, 0, 100]);
}

#[test]
fn an_id_is_looked_up_by_its_record() {
    check(bson!({ "$eq": ["$_id", 7] }), "CLUSTERED_IXSCAN", [1, 0, 1]);
    check(bson!({ "$gte": ["$_id", 95] }), "CLUSTERED_IXSCAN", [5, 0, 5]);
    check(bson!({ "$in": ["$_id", [3, 4, 500]] }), "CLUSTERED_IXSCAN", [2, 0, 2]);
}

#[test]
fn branches_are_joined_if_each_has_bounds() {
    let either = bson!({ "$or": [{ "$eq": ["$n", 50] }, { "$eq": ["$s", "k1"] }] });
    check(either, "OR (FETCH < IXSCAN n forward, FETCH < IXSCAN s forward)", [11, 11, 11]);
    check(bson!({ "$or": [{ "$eq": ["$n", 50] }, "$m"] }), "COLLSCAN", [66, 0, 100]);
}

/// The index on `tags` is over arrays, which an expression compares as a whole.
#[test]
fn an_index_over_arrays_serves_what_no_array_meets() {
    check(bson!({ "$eq": ["$tags", [1, 2]] }), "COLLSCAN", [20, 0, 100]);
    check(bson!({ "$gte": ["$tags", 1] }), "COLLSCAN", [100, 0, 100]);
    check(bson!({ "$lt": ["$tags", 1] }), "FETCH < IXSCAN tags forward", [0, 20, 20]);
    check(bson!({ "$eq": ["$tags", 1] }), "FETCH < IXSCAN tags forward", [0, 40, 40]);
}

/// The index on `e` is sparse: 10 of the documents have the field.
#[test]
fn a_sparse_index_serves_what_no_missing_field_meets() {
    check(bson!({ "$gte": ["$e", 5] }), "FETCH < IXSCAN e forward", [5, 5, 5]);
    check(bson!({ "$gt": ["$e", null] }), "FETCH < IXSCAN e forward", [10, 10, 10]);
    // To an expression a missing field is not null.
    check(bson!({ "$eq": ["$e", null] }), "FETCH < IXSCAN e forward", [0, 0, 0]);
    check(bson!({ "$lt": ["$e", 5] }), "COLLSCAN", [95, 0, 100]);
    check(bson!({ "$lte": ["$e", null] }), "COLLSCAN", [90, 0, 100]);
}

#[test]
fn all_verbs_use_the_index() {
    let filter = doc! { "$expr": { "$gte": ["$n", "$$least"] } };
    let least = doc! { "least": { "$add": [900, 50] } };
    let planned = |command: Document| {
        let explained = explain(&hundred(), &command);
        let statistics = explained.get_document("executionStats").expect("it was run");
        assert!(statistics.to_string().contains("IXSCAN"), "{statistics}");
        statistics.get_i32("totalDocsExamined").expect("a number")
    };
    assert_eq!(planned(doc! { "find": "a", "filter": filter.clone(), "let": least.clone() }), 5);
    let update = doc! { "q": filter.clone(), "u": { "$set": { "z": 1 } }, "multi": true };
    assert_eq!(planned(doc! { "update": "a", "updates": [update], "let": least.clone() }), 5);
    let delete = doc! { "q": filter.clone(), "limit": 0 };
    assert_eq!(planned(doc! { "delete": "a", "deletes": [delete], "let": least.clone() }), 5);
    let change = doc! { "findAndModify": "a", "query": filter.clone(), "remove": true, "let": least.clone() };
    assert_eq!(planned(change), 1);
    assert_eq!(
        planned(doc! { "distinct": "a", "key": "m", "query": { "$expr": { "$gte": ["$n", 950] } } }),
        5
    );
    let pipeline = [doc! { "$match": filter }, doc! { "$group": { "_id": "$m" } }];
    let aggregate = doc! { "aggregate": "a", "pipeline": pipeline.to_vec(), "cursor": {}, "let": least };
    let explained = explain(&hundred(), &aggregate).to_string();
    assert!(explained.contains("IXSCAN") && explained.contains("\"totalDocsExamined\": 5"), "{explained}");
}

/// Bounds have more than what an expression is true of, so entries alone are not an answer.
#[test]
fn a_count_reads_the_documents() {
    let count = |query: Document| doc! { "count": "a", "query": query };
    check_command(
        &count(doc! { "$expr": { "$gte": ["$n", 900] } }),
        "COUNT < FETCH < IXSCAN n forward",
        [0, 10, 10],
    );
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    // Of `e` an entry cannot distinguish a null from a missing field.
    shop.insert_many([doc! { "_id": 200, "n": 5, "w": Bson::Null }, doc! { "_id": 201, "n": 6 }])
        .run()
        .expect("new");
    shop.create_index(IndexModel::builder().keys(doc! { "w": 1 }).build()).run().expect("an index");
    let counted =
        |expression: Bson| shop.count_documents(doc! { "$expr": expression }).run().expect("a count");
    assert_eq!(counted(bson!({ "$eq": ["$w", null] })), 1);
    assert_eq!(counted(bson!({ "$lt": ["$w", null] })), 101);
    assert_eq!(counted(bson!({ "$lte": ["$w", null] })), 102);
    let shown = shop.find(doc! { "$expr": { "$eq": ["$w", null] } }).projection(doc! { "w": 1, "_id": 0 });
    assert_eq!(shown.run().expect("a cursor").count(), 1);
}

#[test]
fn explain_tells_the_bounds_and_the_expression() {
    let fixture = hundred();
    let winning = |filter: Document| {
        let find = doc! { "find": "a", "filter": filter, "sort": { "n": -1 }, "hint": "n" };
        let explained = explain(&fixture, &find);
        let planner = explained.get_document("queryPlanner").expect("a planner");
        planner.get_document("winningPlan").expect("a plan").clone()
    };
    let decided = winning(doc! { "n": { "$gte": 900 } });
    // The bounds are all of this filter.
    assert!(decided.get_str("stage").is_ok_and(|stage| stage == "FETCH") && !decided.contains_key("filter"));
    let plan = winning(doc! { "$expr": { "$gte": ["$n", 900] } });
    assert_eq!(plan.get_str("stage").expect("a stage"), "FETCH");
    assert!(plan.get_document("filter").expect("a filter").contains_key("$expr"), "{plan}");
    let scan = plan.get_document("inputStage").expect("a scan");
    assert_eq!(scan.get_document("indexBounds").expect("bounds"), &doc! { "n": ["[MaxKey, 900]"] });
}

/// A value of each type, some of which are equal, and arrays and objects of several.
fn values() -> Vec<Bson> {
    let mut values = vec![
        Bson::MinKey,
        Bson::Undefined,
        Bson::Null,
        bson!(f64::NAN),
        bson!(-0.0),
        bson!(0),
        bson!(1),
        bson!(1_i64),
        bson!(1.5),
        Bson::Decimal128("1.50".parse().expect("a decimal")),
        Bson::Decimal128("NaN".parse().expect("a decimal")),
        bson!(""),
        bson!("p"),
        bson!("P"),
        Bson::Symbol("p".to_owned()),
        bson!({}),
        bson!({ "x": 1 }),
        bson!({ "x": [1, "p"] }),
        Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: vec![1] }),
        Bson::ObjectId(ObjectId::from_bytes([1; 12])),
        bson!(false),
        bson!(true),
        Bson::DateTime(DateTime::from_millis(0)),
        Bson::Timestamp(Timestamp { time: 0, increment: 1 }),
        pattern(),
        Bson::JavaScriptCode("p".to_owned()),
        Bson::MaxKey,
    ];
    let single = values.clone();
    values.extend([
        bson!([]),
        bson!([[]]),
        bson!([[1]]),
        bson!([1, "p"]),
        bson!([{ "x": 1 }, { "x": "p" }]),
        bson!([{}]),
    ]);
    values.extend(single.into_iter().map(|value| bson!([value])));
    values
}

fn pattern() -> Bson {
    let text = |text: &str| cairndb::bson::raw::CString::try_from(text.to_owned()).expect("no zero byte");
    Bson::RegularExpression(Regex { pattern: text("p"), options: text("") })
}

/// Indexes of all kinds on a path.
fn models(path: &str) -> Vec<IndexModel> {
    let options = IndexOptions::builder;
    let kinds = [
        (doc! { path: 1 }, options().build()),
        (doc! { path: -1, "_id": 1 }, options().build()),
        (doc! { path: 1 }, options().sparse(true).build()),
        (doc! { path: 1 }, options().collation(any_case()).build()),
        (doc! { path: 1 }, options().partial_filter_expression(doc! { path: { "$exists": true } }).build()),
        (doc! { path: 1 }, options().partial_filter_expression(doc! { path: { "$gte": 1 } }).build()),
        (doc! { path: -1 }, options().partial_filter_expression(doc! { path: { "$lte": "p" } }).build()),
        (doc! { "$**": 1 }, options().build()),
    ];
    let named = kinds.into_iter().zip(0..).map(|((keys, mut options), number)| {
        options.name = Some(format!("index{number}"));
        IndexModel::builder().keys(keys).options(options).build()
    });
    named.collect()
}

/// The `_id`s of the documents that a filter finds.
fn found(
    collection: &Collection<Document>,
    filter: &Document,
    hint: Option<&str>,
    collation: Collation,
) -> Vec<Option<i32>> {
    let find = collection.find(filter.clone()).collation(collation).projection(doc! { "_id": 1 });
    let find = match hint {
        Some(name) => find.hint(Hint::Name(name.to_owned())),
        None => find,
    };
    let documents = find.run().expect("a cursor").map(|document| document.expect("a document"));
    let mut ids: Vec<_> = documents.map(|document| document.get_i32("_id").ok()).collect();
    ids.sort_unstable();
    ids
}

/// Every comparison of a field with every value, over documents with every value, gives the same with each index as without any.
#[track_caller]
fn check_all(path: &str, documents: impl Fn(Bson) -> Document, has_arrays: bool) {
    let client: Client = small().in_memory(true).open("").expect("made");
    let database = client.database("shop");
    let (plain, indexed) = (database.collection("plain"), database.collection("indexed"));
    let values: Vec<Bson> =
        values().into_iter().filter(|value| has_arrays || !matches!(value, Bson::Array(_))).collect();
    let mut all: Vec<Document> = values.iter().cloned().map(documents).collect();
    all.push(doc! {});
    for (document, id) in all.iter_mut().zip(0..) {
        document.insert("_id", id);
    }
    plain.insert_many(&all).run().expect("documents");
    indexed.insert_many(&all).run().expect("documents");
    let field = format!("${path}");
    let literal = |value: &Bson| bson!({ "$literal": value.clone() });
    let mut expressions = Vec::new();
    for value in &values {
        for operator in ["$eq", "$gt", "$gte", "$lt", "$lte"] {
            expressions.push(bson!({ operator: [&field, literal(value)] }));
        }
        expressions.push(bson!({ "$gt": [literal(value), &field] }));
        expressions.push(bson!({ "$in": [&field, [literal(value), 1]] }));
        expressions
            .push(bson!({ "$and": [{ "$gt": [&field, null] }, { "$lte": [&field, literal(value)] }] }));
        expressions.push(bson!({ "$or": [{ "$eq": [&field, literal(value)] }, { "$lt": [&field, null] }] }));
    }
    for operator in ["$eq", "$gt", "$gte", "$lt", "$lte"] {
        expressions.push(bson!({ operator: [&field, "$$REMOVE"] }));
    }
    let filters = expressions.into_iter().map(|expression| doc! { "$expr": expression });
    let filters: Vec<Document> = filters
        .flat_map(|filter| [filter.clone(), doc! { "$and": [filter, { path: { "$gte": 1 } }] }])
        .collect();
    let answers = |collection: &Collection<Document>, filter: &Document, hint: Option<&str>| {
        [Collation::simple(), any_case()].map(|collation| found(collection, filter, hint, collation))
    };
    let expected: Vec<_> = filters.iter().map(|filter| answers(&plain, filter, None)).collect();
    for model in models(path) {
        let name = model.options.as_ref().and_then(|options| options.name.clone()).expect("a name");
        indexed.create_index(model.clone()).run().expect("an index");
        for (filter, expected) in filters.iter().zip(&expected) {
            assert_eq!(answers(&indexed, filter, None), *expected, "{filter} with {model:?}");
            assert_eq!(answers(&indexed, filter, Some(&name)), *expected, "{filter} hints {model:?}");
        }
        indexed.drop_index(&name).run().expect("it is there");
    }
}

#[test]
fn no_index_on_a_field_changes_an_answer() {
    check_all("a", |value| doc! { "a": value }, true);
}

#[test]
fn no_index_on_a_field_without_arrays_changes_an_answer() {
    check_all("a", |value| doc! { "a": value }, false);
}

#[test]
fn no_index_on_a_path_changes_an_answer() {
    check_all("a.x", |value| doc! { "a": { "x": value } }, true);
    check_all("a.x", |value| doc! { "a": { "x": value } }, false);
}

#[test]
fn no_index_on_a_path_through_arrays_changes_an_answer() {
    check_all("a.x", |value| doc! { "a": [{ "x": value }, 1, {}] }, true);
    check_all("a.x", |value| doc! { "a": value }, true);
    check_all("a.0", |value| doc! { "a": value }, true);
}

#[test]
fn an_index_with_a_collation_serves_the_expressions_of_its_own() {
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let options = IndexOptions::builder().name("any_case".to_owned()).collation(any_case()).build();
    shop.drop_index("s").run().expect("it is there");
    shop.create_index(IndexModel::builder().keys(doc! { "s": 1 }).options(options).build())
        .run()
        .expect("an index");
    let find = |value: Bson| doc! { "find": "a", "filter": { "$expr": { "$gte": ["$s", value] } } };
    let collated = |value: Bson| {
        let mut find = find(value);
        find.insert("collation", doc! { "locale": "en", "strength": 2 });
        explain(&fixture, &find).to_string()
    };
    assert!(collated(bson!("K8")).contains("\"totalDocsExamined\": 20"));
    assert!(explain(&fixture, &find(bson!("k8"))).to_string().contains("COLLSCAN"));
    // A number is below all texts, however these are ordered.
    let numbers = doc! { "find": "a", "filter": { "$expr": { "$lt": ["$s", 5] } } };
    assert!(explain(&fixture, &numbers).to_string().contains("\"totalDocsExamined\": 0"));
}

/// An index that leaves documents out is read only where the expression asks for none of those.
#[test]
fn a_partial_index_needs_more_than_a_bound() {
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    shop.drop_index("n").run().expect("it is there");
    let partial = doc! { "n": { "$gte": 500 } };
    let options = IndexOptions::builder().name("high".to_owned()).partial_filter_expression(partial).build();
    shop.create_index(IndexModel::builder().keys(doc! { "n": 1 }).options(options).build())
        .run()
        .expect("an index");
    let plan = |expression: Bson| {
        let find = doc! { "find": "a", "filter": { "$expr": expression } };
        explain(&fixture, &find).get_document("queryPlanner").expect("a planner").to_string()
    };
    assert!(plan(bson!({ "$eq": ["$n", 600] })).contains("IXSCAN"));
    assert!(plan(bson!({ "$and": [{ "$gte": ["$n", 600] }, { "$lt": ["$n", 700] }] })).contains("IXSCAN"));
    // Texts are above 600 too, and not in the index.
    assert!(plan(bson!({ "$gte": ["$n", 600] })).contains("COLLSCAN"));
    assert!(plan(bson!({ "$eq": ["$n", 400] })).contains("COLLSCAN"));
    shop.insert_one(doc! { "_id": 300, "n": "text" }).run().expect("new");
    let found = shop.count_documents(doc! { "$expr": { "$gte": ["$n", 600] } }).run().expect("a count");
    assert_eq!(found, 41);
}

/// A document that an index keeps from being evaluated does not fail, as beside any other condition.
#[test]
fn documents_out_of_bounds_are_not_evaluated() {
    let fixture = hundred();
    let shop = fixture.client.database("shop").collection::<Document>("a");
    let failing = |n: i32| {
        let filter = doc! { "$expr": { "$and": [{ "$divide": [1, "$kind"] }, { "$eq": ["$n", n] }] } };
        shop.find(filter).run().and_then(Iterator::collect::<Result<Vec<_>, _>>)
    };
    assert_eq!(failing(10).expect("no document with kind 0 is read").len(), 1);
    assert_eq!(failing(40).expect_err("a division by zero").code(), Some(2));
}
