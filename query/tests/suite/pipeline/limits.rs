//! The limits of pipelines: memory, size, depth and length have their bounds.

use bson::{Document, doc};
use cairndb_query::expression::Variables;
use cairndb_query::operation::OperationContext;
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::stream::Given;

use crate::pipeline::{check, check_error, parse, raw};

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
    for operator in ["$concatArrays", "$setUnion"] {
        check_memory(
            doc! { "$group": { "_id": 1, "x": { operator: { "$concatArrays": [["$v"]] } } } },
            "$group",
        );
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
    let error = crate::pipeline::run(&replaced, &[doc! {}]).expect_err("too deep");
    assert_eq!(error.code(), 15);
    let pushed = nest(|| doc! { "$group": { "_id": 1, "x": { "$push": "$$ROOT" } } });
    assert_eq!(crate::pipeline::run(&pushed, &[doc! {}]).expect_err("too deep").code(), 15);
    let path = vec!["a"; 200].join(".");
    let unwound = [doc! { "$unwind": { "path": "$x", "includeArrayIndex": path } }];
    assert_eq!(crate::pipeline::run(&unwound, &[doc! { "x": 1 }]).expect_err("too deep").code(), 15);
}

#[test]
fn a_pipeline_has_a_length() {
    let stages = vec![doc! { "$skip": 0 }; 1_001];
    check(&stages[1..], &[doc! {}], &[doc! {}]);
    check_error(&stages, &[], 7_749_501, "Pipeline length must be no longer than 1000 stages, not 1001");
}

#[test]
fn windows_hold_what_they_reach() {
    let windows = |output: Document| doc! { "$setWindowFields": { "output": { "x": output } } };
    // The whole partition, because the window has no end.
    check_memory(windows(doc! { "$count": {} }), "$setWindowFields");
    check_memory(
        windows(doc! { "$first": "$n", "window": { "documents": ["unbounded", "unbounded"] } }),
        "$setWindowFields",
    );
    let push = doc! { "$push": "$v", "window": { "documents": ["unbounded", "unbounded"] } };
    check_memory(windows(push), "$setWindowFields");
    check_memory(doc! { "$bucketAuto": { "groupBy": "$n", "buckets": 2 } }, "$bucketAuto");
}

#[test]
fn windows_let_go_of_what_has_left() {
    // Without an order there is no sort, which would hold all documents.
    let fill = doc! { "$fill": { "output": { "v": { "method": "locf" } } } };
    assert_eq!(run_large(fill), Ok(20));
    let windows = doc! { "$setWindowFields": { "output": { "x": { "$locf": "$n" } } } };
    assert_eq!(run_large(windows), Ok(20));
}

#[test]
fn a_window_of_a_million_costs_no_more_for_each_document_than_a_small_one() {
    let documents: Vec<Document> = (0..2_000).map(|n| doc! { "t": n, "v": n % 7 }).collect();
    let steps = |window: Document, operator: &str| {
        let operation = OperationContext::counting();
        let variables = Variables::default().within(operation.clone());
        let output = doc! { operator: "$v", "window": window };
        let stage = raw(&doc! { "$setWindowFields": { "sortBy": { "t": 1 }, "output": { "x": output } } });
        let pipeline = Pipeline::parse(&[stage], &variables).expect("a pipeline");
        let found =
            crate::pipeline::run_parsed(pipeline, &crate::pipeline::raws(&documents)).expect("windows");
        assert_eq!(found.len(), documents.len());
        operation.steps_taken()
    };
    for operator in ["$sum", "$avg", "$min", "$max", "$stdDevPop"] {
        let small = steps(doc! { "documents": [-3, 0] }, operator);
        let large = steps(doc! { "documents": [-1_000_000, 0] }, operator);
        assert!(large < small * 2, "{operator}: {large} steps and not about {small}");
    }
}

#[test]
fn values_as_large_as_their_window_are_counted_each_time() {
    let documents: Vec<Document> = (0..300).map(|n| doc! { "t": n, "v": "x".repeat(1_000) }).collect();
    let operation = OperationContext::counting();
    let variables = Variables::default().within(operation.clone());
    let stage = raw(&doc! { "$setWindowFields": {
        "sortBy": { "t": 1 }, "output": { "x": { "$push": "$v", "window": { "documents": ["unbounded", "current"] } } },
    } });
    let pipeline = Pipeline::parse(&[stage], &variables).expect("a pipeline");
    let found = crate::pipeline::run_parsed(pipeline, &crate::pipeline::raws(&documents)).expect("windows");
    let bytes: usize = found.iter().map(|document| raw(document).as_bytes().len()).sum();
    let steps = usize::try_from(operation.steps_taken()).expect("few steps");
    assert!(steps > bytes / 10_000, "{steps} steps for {bytes} bytes");
}

#[test]
fn values_of_many_fields_are_no_more_than_a_document() {
    let names: Vec<String> = (0..1_000).map(|n| format!("f{n}")).collect();
    let output: Document = names.iter().map(|name| (name.clone(), doc! { "$locf": "$v" }.into())).collect();
    let windows = run_large(doc! { "$setWindowFields": { "output": output } }).expect_err("too large");
    assert_eq!(windows.code(), 10_334);
}

#[test]
fn many_fields_are_set_as_few_are() {
    let names: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
    let output: Document = names.iter().map(|name| (name.clone(), doc! { "$count": {} }.into())).collect();
    let mut expected = doc! { "f3": 1, "a": 5 };
    expected.extend(names.iter().filter(|name| *name != "f3").map(|name| (name.clone(), 1.into())));
    check(&[doc! { "$setWindowFields": { "output": output } }], &[doc! { "f3": 9, "a": 5 }], &[expected]);
}
