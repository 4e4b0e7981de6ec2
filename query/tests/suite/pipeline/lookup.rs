//! `$lookup` against naive joins that compare every document with every other one, and its limit of depth.

use bson::{Bson, Document, doc};
use proptest::prelude::*;

use crate::pipeline::naive::{is_equal, joins};
use crate::pipeline::{parse, run};

/// Whether `$eq` of an expression holds: a missing value equals nothing but another one.
fn equals(local: Option<&Bson>, foreign: Option<&Bson>) -> bool {
    match (local, foreign) {
        (None, None) => true,
        (Some(local), Some(foreign)) => is_equal(local, foreign),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn value() -> impl Strategy<Value = Option<Bson>> {
    let scalars = [Bson::Null, Bson::Int32(0), Bson::Int64(1), Bson::Double(1.0), Bson::Int32(2), "1".into()];
    let scalar = prop::sample::select(scalars.to_vec());
    let array = prop::collection::vec(scalar.clone(), 0..3).prop_map(Bson::Array);
    let nested = array.clone().prop_map(|inner| Bson::Array(vec![inner, Bson::Int32(2)]));
    let object = scalar.clone().prop_map(|value| Bson::Document(doc! { "x": value }));
    prop_oneof![
        6 => scalar.prop_map(Some),
        3 => array.prop_map(Some),
        1 => nested.prop_map(Some),
        1 => object.prop_map(Some),
        1 => Just(None),
    ]
}

/// Numbered documents with the values in `field`.
fn documents(field: &str, values: Vec<Option<Bson>>) -> Vec<Document> {
    let document = |(value, number): (Option<Bson>, i32)| {
        let mut document = doc! { "_id": number };
        document.extend(value.map(|value| (field.to_owned(), value)));
        document
    };
    values.into_iter().zip(0..).map(document).collect()
}

/// Each local document with those foreign ones that `matches` selects.
fn naive(
    local: &[Document],
    foreign: &[Document],
    matches: impl Fn(&Document, &Document) -> bool,
) -> Vec<Document> {
    let join = |document: &Document| {
        let found = foreign.iter().filter(|foreign| matches(document, foreign)).cloned();
        let mut joined = document.clone();
        joined.insert("c", found.collect::<Vec<_>>());
        joined
    };
    local.iter().map(join).collect()
}

proptest! {
    #[test]
    fn joins_give_what_naive_ones_give(
        left in prop::collection::vec(value(), 0..8),
        right in prop::collection::vec(value(), 0..8),
        least in 0..4,
    ) {
        let (local, foreign) = (documents("a", left), documents("b", right));
        // The documents hold no operators, so they are constants.
        let first = doc! { "$documents": foreign.clone() };
        let id = |document: &Document| document.get_i32("_id").expect("a number");
        let by_fields = doc! { "$lookup": {
            "localField": "a", "foreignField": "b", "as": "c", "pipeline": [first.clone()],
        } };
        let joined = naive(&local, &foreign, |local, foreign| joins(local.get("a"), foreign.get("b")));
        prop_assert_eq!(run(&[by_fields], &local).expect("a join"), joined);

        let equal = doc! { "$match": { "$expr": { "$eq": ["$b", "$$v"] } } };
        let by_expression = doc! { "$lookup": {
            "let": { "v": "$a" }, "as": "c", "pipeline": [first.clone(), equal],
        } };
        let joined = naive(&local, &foreign, |local, foreign| equals(local.get("a"), foreign.get("b")));
        prop_assert_eq!(run(&[by_expression], &local).expect("a join"), joined);

        let both = doc! { "$lookup": {
            "localField": "a", "foreignField": "b", "let": { "id": "$_id" }, "as": "c",
            "pipeline": [first.clone(), { "$match": { "$expr": { "$gte": ["$_id", "$$id"] } } }],
        } };
        let joined = naive(&local, &foreign, |local, foreign| {
            joins(local.get("a"), foreign.get("b")) && id(foreign) >= id(local)
        });
        prop_assert_eq!(run(&[both], &local).expect("a join"), joined);

        let same = doc! { "$lookup": {
            "as": "c", "pipeline": [first, { "$match": { "_id": { "$gte": least } } }],
        } };
        let joined = naive(&local, &foreign, |_, foreign| id(foreign) >= least);
        prop_assert_eq!(run(&[same], &local).expect("a join"), joined);
    }
}

/// Pipelines of `$lookup` and `$unionWith` in turn, each in the one before.
fn nested(depth: usize) -> Vec<Document> {
    (0..depth).fold(Vec::new(), |inner, level| {
        vec![if level % 2 == 0 {
            doc! { "$lookup": { "from": "none", "pipeline": inner, "as": "c" } }
        } else {
            doc! { "$unionWith": { "coll": "none", "pipeline": inner } }
        }]
    })
}

#[test]
fn pipelines_of_all_stages_together_are_20_deep() {
    parse(&nested(20)).expect("as deep as allowed");
    assert_eq!(parse(&nested(21)).expect_err("too deep").code().number(), 232);
}

#[test]
fn collections_of_nested_pipelines_are_named() {
    let inner = doc! { "$lookup": { "from": "b", "localField": "x", "foreignField": "y", "as": "c" } };
    let union = doc! { "$unionWith": { "coll": "u", "pipeline": [inner.clone()] } };
    let outer = doc! { "$lookup": { "from": "a", "pipeline": [inner, union], "as": "c" } };
    assert_eq!(parse(&[outer]).expect("a pipeline").foreign_collections(), ["a", "b", "u"]);
}
