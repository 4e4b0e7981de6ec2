//! The first stages of a `$lookup`'s pipeline whose results no document changes: they are run once, and what is found is what it is
//! if they run for each document.

use std::collections::HashSet;
use std::sync::Arc;

use bson::{Document, doc};
use cairndb_query::operation::{Allowance, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::foreign::Foreign;
use cairndb_query::pipeline::stream::{Given, Step, Stream};
use proptest::prelude::*;

use crate::pipeline::others::Others;
use crate::pipeline::{raws, variables};

/// The results of a join, the number of its searches, and of the documents that it read.
#[derive(Debug, PartialEq)]
struct Joined {
    documents: Vec<Document>,
    opened: usize,
    read: usize,
}

fn join(
    stages: &[Document],
    local: &[Document],
    parts: &[Document],
    has_index: bool,
    operation: OperationContext,
) -> Result<Joined, Error> {
    let parts = Others::new(raws(parts), has_index);
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::clone(&parts) as _;
    let pipeline = Pipeline::parse(&raws(stages), &variables().within(operation))?;
    let results = pipeline.run_with(Given::new(raws(local).into_iter().map(Ok::<_, Error>)), &foreign);
    let documents = results.map(|result| Ok(Document::try_from(&result?).expect("a document")));
    let documents = documents.collect::<Result<_, Error>>()?;
    Ok(Joined { documents, opened: parts.opened(), read: parts.read() })
}

/// A `$lookup` whose first stages are constant, or not for the reason that `first` names the variable.
fn lookup(first: &[Document], then: &[Document]) -> Document {
    let pipeline: Vec<_> = first.iter().chain(then).cloned().collect();
    doc! { "$lookup": { "from": "parts", "let": { "v": "$a" }, "pipeline": pipeline, "as": "c" } }
}

/// The same, where the first stage names the variable to no effect, so that all run for each document.
fn lookup_anew(first: &[Document], then: &[Document]) -> Document {
    let naming = [doc! { "$match": { "$expr": { "$ne": ["$$v", "no such value"] } } }];
    lookup(&[&naming, first].concat(), then)
}

fn numbered(count: i32) -> Vec<Document> {
    (0..count).map(|n| doc! { "_id": n, "x": n % 5, "y": [n % 3, n % 7] }).collect()
}

fn asking(count: i32) -> Vec<Document> {
    (0..count).map(|n| doc! { "_id": n, "a": n % 6 }).collect()
}

/// Stages whose results no document changes.
fn constant() -> Vec<Vec<Document>> {
    let inner = doc! { "$lookup": { "from": "parts", "localField": "x", "foreignField": "y", "as": "d" } };
    vec![
        vec![doc! { "$match": { "x": { "$gte": 2 } } }],
        vec![doc! { "$match": { "$expr": { "$eq": ["$x", 3] } } }],
        vec![doc! { "$match": { "y": 1 } }, doc! { "$project": { "x": 1 } }],
        vec![doc! { "$group": { "_id": "$x", "x": { "$sum": 1 }, "all": { "$push": "$y" } } }],
        vec![doc! { "$sort": { "x": -1, "_id": 1 } }, doc! { "$limit": 7 }],
        vec![doc! { "$unwind": "$y" }, doc! { "$set": { "x": { "$add": ["$x", "$y"] } } }],
        vec![inner, doc! { "$unwind": "$d" }, doc! { "$match": { "d.x": { "$ne": 4 } } }],
        vec![doc! { "$unionWith": { "coll": "parts", "pipeline": [{ "$match": { "x": 1 } }] } }],
        vec![
            doc! { "$facet": { "f": [{ "$sortByCount": "$x" }] } },
            doc! { "$unwind": "$f" },
            doc! { "$set": { "x": "$f._id" } },
        ],
    ]
}

/// Stages that give something else for each document.
fn varying() -> Vec<Vec<Document>> {
    let equal = doc! { "$match": { "$expr": { "$eq": ["$x", "$$v"] } } };
    vec![
        vec![equal.clone()],
        vec![equal, doc! { "$limit": 1 }],
        vec![doc! { "$match": { "$expr": { "$gt": ["$x", "$$v"] } } }],
        vec![doc! { "$set": { "v": "$$v" } }],
        vec![
            doc! { "$group": { "_id": { "$gt": ["$x", "$$v"] }, "n": { "$sum": 1 } } },
            doc! { "$sort": { "_id": 1 } },
        ],
    ]
}

/// Stages after the join.
fn following() -> Vec<Vec<Document>> {
    let unwind = |more: Document| {
        let mut unwind = doc! { "path": "$c" };
        unwind.extend(more);
        doc! { "$unwind": unwind }
    };
    vec![
        vec![],
        vec![unwind(doc! {})],
        vec![unwind(doc! { "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i" })],
        vec![unwind(doc! {}), doc! { "$match": { "c.x": { "$gte": 3 } } }],
    ]
}

proptest! {
    #[test]
    fn kept_results_are_those_of_stages_that_run_anew(
        first in proptest::sample::select(constant()),
        then in proptest::sample::select(varying()),
        after in proptest::sample::select(following()),
        counts in (0..8, 0..30),
        has_index in any::<bool>(),
        stage_bytes in prop::option::of(0..20_000_usize),
    ) {
        let (local, parts) = (asking(counts.0), numbered(counts.1));
        let anew = [&[lookup_anew(&first, &then)], after.as_slice()].concat();
        let expected = join(&anew, &local, &parts, has_index, OperationContext::counting()).expect("joined");
        let kept = [&[lookup(&first, &then)], after.as_slice()].concat();
        // With little memory they are given up on the way.
        let bytes = stage_bytes.map(|bytes| Allowance { stage_bytes: Some(bytes), ..Allowance::default() });
        let operation = OperationContext::new(bytes.unwrap_or_default());
        match join(&kept, &local, &parts, has_index, operation.clone()) {
            Ok(found) => prop_assert_eq!(found.documents, expected.documents),
            // Other stages have as little memory.
            Err(error) => prop_assert!(stage_bytes.is_some() && [146, 292].contains(&error.code().number())),
        }
        prop_assert_eq!(operation.bytes_reserved(), 0);
    }
}

#[test]
fn constant_stages_read_the_other_collection_once() {
    let (local, parts) = (asking(10), numbered(100));
    for has_index in [false, true] {
        // Those at the end read more than one collection.
        for first in &constant()[..6] {
            for then in [&varying()[0], &varying()[2], &varying()[4]] {
                let counted = |stage| join(&[stage], &local, &parts, has_index, OperationContext::counting());
                let found = counted(lookup(first, then)).expect("joined");
                assert_eq!(found.opened, 1, "{first:?}");
                assert!(found.read <= 100, "{first:?}: {}", found.read);
                let anew = counted(lookup_anew(first, then)).expect("joined");
                assert_eq!((anew.opened, anew.documents), (10, found.documents), "{first:?}");
            }
        }
    }
}

/// An equality applies before the pipeline, so its stages have other documents each time.
#[test]
fn with_an_equality_nothing_is_constant() {
    let stages = |pipeline: Vec<Document>| {
        doc! { "$lookup": {
            "from": "parts", "localField": "a", "foreignField": "x", "let": { "v": "$a" }, "pipeline": pipeline, "as": "c",
        } }
    };
    let group = doc! { "$group": { "_id": null, "n": { "$sum": 1 }, "x": { "$first": "$x" } } };
    let set = doc! { "$set": { "v": "$$v" } };
    let parts = numbered(25);
    let found = join(&[stages(vec![group, set])], &asking(6), &parts, true, OperationContext::counting());
    let found = found.expect("joined");
    assert_eq!(found.opened, 6);
    for document in found.documents {
        let (a, joined) = (document.get_i32("a").expect("it"), document.get_array("c").expect("an array"));
        let one = doc! { "_id": null, "n": 5, "x": a, "v": a };
        assert_eq!(*joined, if a < 5 { vec![one.into()] } else { vec![] });
    }
}

/// A first `$match` that an index answers together with its equality is asked of the index for each document.
#[test]
fn a_condition_with_an_equality_stays_one_for_the_index() {
    let both = doc! { "$match": { "y": 1, "$expr": { "$eq": ["$_id", "$$v"] } } };
    let set = doc! { "$set": { "z": 1 } };
    let found =
        join(&[lookup(&[both, set], &[])], &asking(6), &numbered(1000), true, OperationContext::counting());
    let found = found.expect("joined");
    // One document at most for each of those that ask.
    assert!(found.opened == 6 && found.read <= 6, "{} in {}", found.read, found.opened);
}

/// Nothing is read before it is asked for, and the next document goes on from there.
#[test]
fn constant_stages_read_no_more_than_they_would_anew() {
    let first = [doc! { "$match": { "x": { "$gte": 0 } } }];
    let then = [doc! { "$match": { "$expr": { "$gte": ["$_id", "$$v"] } } }, doc! { "$limit": 1 }];
    let local = [doc! { "a": 10 }, doc! { "a": 5 }, doc! { "a": 20 }];
    let found = join(&[lookup(&first, &then)], &local, &numbered(1000), false, OperationContext::counting());
    let found = found.expect("joined");
    assert_eq!((found.opened, found.read), (1, 21));
    let ids: Vec<_> =
        found.documents.iter().map(|found| found.get_array("c").expect("it")[0].clone()).collect();
    let ids: Vec<i32> =
        ids.iter().map(|found| found.as_document().expect("it").get_i32("_id").expect("it")).collect();
    assert_eq!(ids, [10, 5, 20]);
}

/// Results that do not fit are given up: the document that reads them reads on, and later ones have the stages run.
#[test]
fn results_that_do_not_fit_are_not_kept() {
    let first = [doc! { "$match": { "x": { "$gte": 0 } } }];
    let (local, parts) = (asking(5), numbered(1000));
    let bounded = |bytes| Allowance { stage_bytes: Some(bytes), ..Allowance::default() };
    let of = |allowance| {
        let stages = [lookup(&first, &varying()[0])];
        join(&stages, &local, &parts, false, OperationContext::new(allowance)).expect("joined")
    };
    let fits = of(bounded(1 << 20));
    assert_eq!((fits.opened, fits.read), (1, 1000));
    // The first document reads all in one go.
    let given_up = of(bounded(10_000));
    assert_eq!((given_up.opened, given_up.read), (5, 5000));
    assert_eq!(given_up.documents, fits.documents);
    // The memory of the operation is a bound too, and no error.
    let given_up = of(Allowance { bytes: Some(40_000), ..Allowance::default() });
    assert_eq!((given_up.opened, given_up.documents == fits.documents), (5, true));
}

#[test]
fn lots_are_drawn_for_each_document() {
    let then = [doc! { "$project": { "r": 1, "v": "$$v" } }];
    for operator in ["$rand", "$createObjectId"] {
        let draw = [doc! { "$set": { "r": { operator: {} } } }];
        // With stages that name a variable behind them, and alone.
        for then in [&then[..], &[]] {
            let joined =
                join(&[lookup(&draw, then)], &asking(20), &numbered(1), false, OperationContext::counting());
            let found = joined.expect("joined");
            let drawn = |document: &Document| {
                let joined = document.get_array("c").expect("the joined ones");
                joined[0].as_document().expect("one").get("r").expect("drawn").to_string()
            };
            let different: HashSet<String> = found.documents.iter().map(drawn).collect();
            assert!(found.opened == 20 && different.len() == 20, "{operator}: {different:?}");
        }
    }
}

/// An error of a constant stage is the error of the pipeline, and it is one for the first document.
#[test]
fn an_error_of_a_constant_stage_ends_the_pipeline() {
    let divides = [doc! { "$set": { "x": { "$divide": [1, { "$subtract": ["$x", 3] }] } } }];
    let stages = [lookup(&divides, &varying()[0])];
    let refused =
        |local: &[Document]| join(&stages, local, &numbered(10), false, OperationContext::counting());
    assert_eq!(refused(&asking(3)).expect_err("it divides by zero").code().number(), 2);
    assert_eq!(refused(&[]).expect("nothing asks").documents, Vec::<Document>::new());
}

#[test]
fn what_runs_once_is_told() {
    let told = |stage: Document| {
        let pipeline = Pipeline::parse(&raws(&[stage]), &variables()).expect("a pipeline");
        let joins = pipeline.joins();
        (joins[0].runs_once, joins[0].stages_run_once)
    };
    let (first, then) = (constant()[2].clone(), varying()[0].clone());
    assert_eq!(told(lookup(&first, &then)), (false, 2));
    assert_eq!(told(lookup(&first, &[])), (true, 0));
    assert_eq!(told(lookup(&then, &first)), (false, 0));
}

/// Between two results the storage is let go of, and the results go on after it.
#[test]
fn kept_results_rest_with_their_join() {
    let parts = Others::new(raws(&numbered(30)), false);
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::clone(&parts) as _;
    let stages = [lookup(&constant()[0], &varying()[2]), doc! { "$unwind": "$c" }];
    let pipeline = Pipeline::parse(&raws(&stages), &variables()).expect("a pipeline");
    let mut results =
        pipeline.run_with(Given::new(raws(&asking(4)).into_iter().map(Ok::<_, Error>)), &foreign);
    let mut count = 0;
    while results.advance().expect("a result") == Step::Document {
        results.rest();
        count += 1;
    }
    // Of each value from 2 to 4 there are six.
    assert_eq!((count, parts.opened()), (18 + 18 + 12 + 6, 1));
}
