//! What pipelines do not hold: memory, size, depth and length have their bounds.

use bson::{Document, doc};
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::stream::Given;

use crate::{check, check_error, parse, raw};

const LARGE: usize = 8 << 20;

/// Runs over twenty documents of 8 MiB each, which are not there at once.
fn run_large(stage: Document) -> Result<usize, Error> {
    let documents = (0..20).map(|n| {
        let letter = char::from(b'a' + n);
        Ok::<_, Error>(raw(&doc! { "n": i32::from(n), "v": letter.to_string().repeat(LARGE) }))
    });
    let output = parse(&[stage])?.run(Given::new(documents));
    output.map(|document| document.map(drop)).try_fold(0, |count, document| document.map(|()| count + 1))
}

#[track_caller]
fn check_memory(stage: Document, name: &str) {
    let error = run_large(stage).expect_err("more than fits");
    let text =
        format!("stage 0: {name} exceeded the memory limit of 104857600 bytes, and nothing is moved to disk");
    assert_eq!((error.code().number(), error.to_string()), (292, text));
}

#[test]
fn stages_that_hold_documents_give_up() {
    check_memory(doc! { "$sort": { "n": 1 } }, "$sort");
    check_memory(doc! { "$sample": { "size": 20 } }, "$sample");
    check_memory(doc! { "$group": { "_id": "$v" } }, "$group");
    check_memory(doc! { "$sortByCount": "$v" }, "$sortByCount");
    for operator in ["$push", "$addToSet"] {
        check_memory(doc! { "$group": { "_id": 1, "x": { operator: "$v" } } }, "$group");
    }
    for operator in ["$firstN", "$lastN", "$minN", "$maxN"] {
        let some = doc! { "n": 20, "input": "$v" };
        check_memory(doc! { "$group": { "_id": 1, "x": { operator: some } } }, "$group");
    }
}

#[test]
fn what_is_let_go_does_not_count() {
    for operator in ["$first", "$last", "$min", "$max"] {
        assert_eq!(run_large(doc! { "$group": { "_id": 1, "x": { operator: "$v" } } }), Ok(1), "{operator}");
    }
    let best = doc! { "$bottom": { "output": "$v", "sortBy": { "n": 1 } } };
    assert_eq!(run_large(doc! { "$group": { "_id": 1, "x": best } }), Ok(1));
    assert_eq!(run_large(doc! { "$sample": { "size": 2 } }), Ok(2));
    assert_eq!(run_large(doc! { "$unwind": "$v" }), Ok(20));
    assert_eq!(run_large(doc! { "$facet": { "n": [{ "$count": "n" }] } }), Ok(1));
}

#[test]
fn a_sort_keeps_what_the_limit_behind_it_asks_for() {
    let documents = (0..20).map(|n| Ok::<_, Error>(raw(&doc! { "n": n, "v": "x".repeat(LARGE) })));
    let stages = [
        doc! { "$set": { "m": 1 } },
        doc! { "$sort": { "n": -1 } },
        doc! { "$skip": 1 },
        doc! { "$limit": 2 },
    ];
    let output = parse(&stages).expect("a pipeline").run(Given::new(documents));
    let numbers: Vec<i32> =
        output.map(|document| document.expect("a document").get_i32("n").expect("a number")).collect();
    assert_eq!(numbers, [18, 17]);
}

#[test]
fn results_have_a_size() {
    let text = "x".repeat(LARGE);
    let documents = [doc! { "v": text.clone() }, doc! { "v": text.clone() }, doc! { "v": text }];
    let push = [doc! { "$group": { "_id": 1, "x": { "$push": "$v" } } }];
    check_error(&push, &documents, 10_334, "stage 0: $group makes a document of more than 16777216 bytes");
    let facet = [doc! { "$facet": { "x": [] } }];
    check_error(&facet, &documents, 10_334, "stage 0: $facet makes a document of more than 16777216 bytes");
    let set = run_large(doc! { "$set": { "w": ["$v", "$v"] } }).expect_err("too large");
    assert_eq!(set.code(), 10_334);
}

#[test]
fn results_have_a_depth() {
    let nest = |stage: fn() -> Document| (0..200).map(|_| stage()).collect::<Vec<_>>();
    let replaced = nest(|| doc! { "$replaceWith": { "a": "$$ROOT" } });
    let error = crate::run(&replaced, &[doc! {}]).expect_err("too deep");
    assert_eq!(error.code(), 15);
    let pushed = nest(|| doc! { "$group": { "_id": 1, "x": { "$push": "$$ROOT" } } });
    assert_eq!(crate::run(&pushed, &[doc! {}]).expect_err("too deep").code(), 15);
    let path = vec!["a"; 200].join(".");
    let unwound = [doc! { "$unwind": { "path": "$x", "includeArrayIndex": path } }];
    assert_eq!(crate::run(&unwound, &[doc! { "x": 1 }]).expect_err("too deep").code(), 15);
}

#[test]
fn a_pipeline_has_a_length() {
    let stages = vec![doc! { "$skip": 0 }; 1_001];
    check(&stages[1..], &[doc! {}], &[doc! {}]);
    check_error(&stages, &[], 7_749_501, "Pipeline length must be no longer than 1000 stages, not 1001");
}
