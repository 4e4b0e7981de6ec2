//! Pipelines against naive ones over decoded documents, and against the functions that `find` uses.

use std::cmp::Ordering;

use bson::{Bson, Document, RawBson, RawDocumentBuf, bson, doc};
use cairndb_query::filter::Filter;
use cairndb_query::pipeline::Pipeline;
use cairndb_query::sort::Sort;
use cairndb_query::sort::collect::Sorter;
use proptest::prelude::*;

use crate::pipeline::{parse, raw, raws, run, run_parsed, variables};

fn compare(left: &Bson, right: &Bson) -> Ordering {
    let [left, right] =
        [left, right].map(|value| RawBson::try_from(value.clone()).expect("a value that can be written"));
    index::order::compare(left.as_raw_bson_ref(), right.as_raw_bson_ref())
}

fn is_nullish(value: &Bson) -> bool {
    matches!(value, Bson::Null | Bson::Undefined)
}

/// One group of the naive store, with exact sums: integers only.
struct Naive {
    id: Bson,
    count: i32,
    sum: i64,
    least: Bson,
    greatest: Bson,
}

fn naive_groups(documents: &[Document]) -> Vec<Naive> {
    let mut groups: Vec<Naive> = Vec::new();
    for document in documents {
        let id = document.get("k").cloned().unwrap_or(Bson::Null);
        let place = groups.iter().position(|group| compare(&group.id, &id).is_eq()).unwrap_or_else(|| {
            groups.push(Naive { id, count: 0, sum: 0, least: Bson::Null, greatest: Bson::Null });
            groups.len() - 1
        });
        let group = groups.get_mut(place).expect("it was found or added");
        group.count += 1;
        let value = document.get("v").cloned().unwrap_or(Bson::Null);
        group.sum += value.as_i32().map(i64::from).or(value.as_i64()).unwrap_or(0);
        if is_nullish(&value) {
            continue;
        }
        if is_nullish(&group.least) || compare(&value, &group.least).is_lt() {
            group.least = value.clone();
        }
        if is_nullish(&group.greatest) || compare(&value, &group.greatest).is_gt() {
            group.greatest = value;
        }
    }
    groups
}

fn scalar() -> impl Strategy<Value = Bson> {
    let values = [
        bson!(0),
        bson!(1),
        bson!(1_i64),
        bson!(-7_i64),
        bson!(i32::MAX),
        bson!(""),
        bson!("a"),
        bson!(true),
        bson!([1, 2]),
        bson!({ "a": 1 }),
        Bson::Null,
        Bson::Undefined,
        Bson::MaxKey,
    ];
    proptest::sample::select(values.to_vec())
}

fn document() -> impl Strategy<Value = Document> {
    let field = || proptest::option::of(scalar());
    (field(), field(), 0..4_i32).prop_map(|(k, v, n)| {
        let mut document = doc! {};
        document.extend(k.map(|k| ("k".to_owned(), k)));
        document.extend(v.map(|v| ("v".to_owned(), v)));
        document.insert("n", n);
        document
    })
}

fn stage() -> impl Strategy<Value = Document> {
    let stages = [
        doc! { "$match": { "n": { "$gt": 0 } } },
        doc! { "$match": { "$expr": { "$ne": ["$k", "$v"] } } },
        doc! { "$sort": { "v": -1, "n": 1 } },
        doc! { "$sort": { "n": 1 } },
        doc! { "$skip": 2 },
        doc! { "$skip": 5 },
        doc! { "$limit": 3 },
        doc! { "$limit": 8 },
        doc! { "$set": { "m": "$n" } },
        doc! { "$unwind": "$v" },
        doc! { "$group": { "_id": "$n", "k": { "$last": "$k" }, "v": { "$addToSet": "$v" } } },
        doc! { "$sortByCount": "$k" },
    ];
    proptest::sample::select(stages.to_vec())
}

/// The search at the front by the functions of `find`, and the rest behind it.
fn planned(stages: &[Document], documents: &[Document]) -> Vec<Document> {
    let mut pipeline = parse(stages).expect("a pipeline");
    let leading = pipeline.take_leading();
    let filter = Filter::parse_with(&leading.filter, &variables()).expect("a filter");
    let found = raws(documents).into_iter();
    let mut found: Vec<RawDocumentBuf> =
        found.filter(|document| filter.try_matches(document, &variables()).expect("an answer")).collect();
    if let Some(sort) = &leading.sort {
        let mut sorter = Sorter::new(Sort::parse(sort).expect("a sort"), None, 1 << 30);
        for document in &found {
            sorter.push(document, || document.clone()).expect("room");
        }
        found = sorter.into_sorted_iter().collect();
    }
    let (skip, limit) = (usize::try_from(leading.skip), usize::try_from(leading.limit.unwrap_or(u64::MAX)));
    let shown: Vec<_> = found.into_iter().skip(skip.expect("few")).take(limit.expect("few")).collect();
    run_parsed(pipeline, &shown).expect("results")
}

/// Stages that are each run over what the one before gave as a whole: no stage knows of another.
fn one_by_one(stages: &[Document], documents: &[Document]) -> Vec<Document> {
    stages.iter().fold(documents.to_vec(), |documents, stage| {
        run(std::slice::from_ref(stage), &documents).expect("results")
    })
}

proptest! {
    #[test]
    fn groups_equal_naive_ones(documents in proptest::collection::vec(document(), 0..40)) {
        let group = doc! { "$group": {
            "_id": "$k",
            "count": { "$count": {} },
            "sum": { "$sum": "$v" },
            "least": { "$min": "$v" },
            "greatest": { "$max": "$v" },
        } };
        let found = run(&[group], &documents).expect("groups");
        let expected = naive_groups(&documents);
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found.get("_id"), Some(&expected.id));
            prop_assert_eq!(found.get("count"), Some(&Bson::Int32(expected.count)));
            let sum = found.get("sum").expect("a sum");
            prop_assert!(compare(sum, &Bson::Int64(expected.sum)).is_eq(), "{} of {}", sum, expected.id);
            prop_assert_eq!(found.get("least"), Some(&expected.least));
            prop_assert_eq!(found.get("greatest"), Some(&expected.greatest));
        }
    }

    #[test]
    fn what_is_left_to_the_reader_changes_nothing(
        stages in proptest::collection::vec(stage(), 0..6),
        documents in proptest::collection::vec(document(), 0..30),
    ) {
        let expected = one_by_one(&stages, &documents);
        prop_assert_eq!(&run(&stages, &documents).expect("results"), &expected);
        prop_assert_eq!(&planned(&stages, &documents), &expected);
    }

    #[test]
    fn a_facet_gives_what_its_parts_give(
        stages in proptest::collection::vec(stage(), 0..4),
        documents in proptest::collection::vec(document(), 0..30),
    ) {
        let facet = doc! { "$facet": { "x": stages.clone(), "y": [] } };
        let found = run(&[facet], &documents).expect("a document");
        let expected = one_by_one(&stages, &documents);
        prop_assert_eq!(found, [doc! { "x": expected, "y": documents }]);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(name in proptest::sample::select(NAMES.to_vec()), value in scalar()) {
        for value in [value.clone(), bson!([value.clone()]), bson!({ "a": value.clone() }), bson!({ "path": value })] {
            let stage = raw(&doc! { name: value });
            match Pipeline::parse(&[stage], &variables()) {
                Ok(pipeline) => drop(run_parsed(pipeline, &raws(&[doc! { "a": [1], "k": 2 }]))),
                Err(error) => prop_assert!(error.code().number() > 0 && !error.to_string().is_empty()),
            }
        }
    }
}

const NAMES: [&str; 24] = [
    "$addFields",
    "$bucket",
    "$collStats",
    "$count",
    "$currentOp",
    "$documents",
    "$facet",
    "$group",
    "$indexStats",
    "$limit",
    "$lookup",
    "$match",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unset",
    "$unwind",
    "$nothing",
    "",
];
