//! The results of stages, where one works upon another.

use bson::{Bson, RawBson, doc};
use cairndb_query::operation::SpillFailure;
use cairndb_query::pipeline::Source;
use cairndb_query::pipeline::error::{Error, Fault};
use cairndb_query::pipeline::writer::WritingStage;

use crate::pipeline::{check, check_error, decimal, parse, raw, run};

#[test]
fn no_stage_passes_everything() {
    check(&[], &[doc! { "a": 1 }, doc! {}], &[doc! { "a": 1 }, doc! {}]);
}

#[test]
fn stages_follow_each_other() {
    let orders = [
        doc! { "item": "pen", "lines": [2, 3] },
        doc! { "item": "ink", "lines": [4] },
        doc! { "item": "pen", "lines": [] },
        doc! { "item": "pad" },
    ];
    let stages = [
        doc! { "$unwind": "$lines" },
        doc! { "$group": { "_id": "$item", "sold": { "$sum": "$lines" } } },
        doc! { "$sort": { "sold": -1 } },
        doc! { "$project": { "_id": 0, "item": "$_id", "sold": 1 } },
        doc! { "$match": { "sold": { "$gt": 0 } } },
    ];
    check(&stages, &orders, &[doc! { "sold": 5, "item": "pen" }, doc! { "sold": 4, "item": "ink" }]);
}

#[test]
fn groups_are_told_apart_by_the_order_of_values() {
    let documents = [
        doc! { "k": 1 },
        doc! { "k": "1" },
        doc! { "k": 1.0 },
        doc! { "k": decimal("1.00") },
        doc! {},
        doc! { "k": Bson::Null },
        doc! { "k": Bson::Undefined },
        doc! { "k": [1] },
    ];
    let expected = [
        doc! { "_id": 1, "n": 3 },
        doc! { "_id": "1", "n": 1 },
        doc! { "_id": Bson::Null, "n": 2 },
        doc! { "_id": Bson::Undefined, "n": 1 },
        doc! { "_id": [1], "n": 1 },
    ];
    check(&[doc! { "$group": { "_id": "$k", "n": { "$count": {} } } }], &documents, &expected);
}

#[test]
fn the_number_of_kept_values_may_depend_on_the_key() {
    let documents =
        [doc! { "k": 1, "v": 1 }, doc! { "k": 1, "v": 2 }, doc! { "k": 2, "v": 3 }, doc! { "k": 2, "v": 4 }];
    let stages = [doc! { "$group": {
        "_id": { "k": "$k" },
        "first": { "$firstN": { "n": { "$cond": [{ "$eq": ["$k", 1] }, 1, 5] }, "input": "$v" } },
    } }];
    let expected = [doc! { "_id": { "k": 1 }, "first": [1] }, doc! { "_id": { "k": 2 }, "first": [3, 4] }];
    check(&stages, &documents, &expected);
    let negative = [doc! { "$group": { "_id": "$k", "x": { "$lastN": { "n": "$k", "input": 1 } } } }];
    check_error(&negative, &[doc! { "k": -1 }], 5_787_902, "stage 0: $lastN needs a number as 'n', not null");
}

#[test]
fn of_equal_documents_the_ends_are_by_arrival() {
    let documents = [doc! { "s": 1, "v": "a" }, doc! { "s": 1, "v": "b" }, doc! { "s": 1, "v": "c" }];
    let best = |operator: &str| {
        let two = doc! { "n": 2, "output": "$v", "sortBy": { "s": 1 } };
        doc! { "$group": { "_id": Bson::Null, "x": { operator: two } } }
    };
    check(&[best("$topN")], &documents, &[doc! { "_id": Bson::Null, "x": ["a", "b"] }]);
    check(&[best("$bottomN")], &documents, &[doc! { "_id": Bson::Null, "x": ["b", "c"] }]);
}

#[test]
fn the_parts_of_a_facet_see_the_same_documents() {
    let documents: Vec<_> = (0..2_500).map(|n| doc! { "n": n }).collect();
    let stages = [doc! { "$facet": {
        "count": [{ "$count": "n" }],
        "first": [{ "$limit": 2 }],
        "last": [{ "$sort": { "n": -1 } }, { "$limit": 1 }],
        "behind": [{ "$skip": 2_498 }],
        "sum": [{ "$group": { "_id": Bson::Null, "s": { "$sum": "$n" } } }, { "$project": { "_id": 0 } }],
        "nothing": [{ "$match": { "n": -1 } }],
    } }];
    let expected = doc! {
        "count": [{ "n": 2_500 }],
        "first": [{ "n": 0 }, { "n": 1 }],
        "last": [{ "n": 2_499 }],
        "behind": [{ "n": 2_498 }, { "n": 2_499 }],
        "sum": [{ "s": 3_123_750 }],
        "nothing": [],
    };
    check(&stages, &documents, &[expected]);
    let empty = doc! { "$facet": { "a": [], "b": [{ "$count": "n" }] } };
    check(&[empty], &[], &[doc! { "a": [], "b": [] }]);
}

#[test]
fn a_sample_is_a_part_of_what_came() {
    let documents: Vec<_> = (0..100).map(|n| doc! { "n": n }).collect();
    let sample = run(&[doc! { "$sample": { "size": 10 } }], &documents).expect("a sample");
    let numbers: std::collections::BTreeSet<i32> =
        sample.iter().map(|document| document.get_i32("n").expect("a number")).collect();
    assert_eq!(numbers.len(), 10);
    let all = run(&[doc! { "$sample": { "size": 1_000 } }], &documents).expect("a sample");
    assert_eq!(all.len(), 100);
    // The chance that 100 documents keep their order is none.
    assert_ne!(all, documents);
}

#[test]
fn every_document_can_be_in_a_sample() {
    let documents: Vec<_> = (0..8).map(|n| doc! { "n": n }).collect();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1_000 {
        let sample = run(&[doc! { "$sample": { "size": 2 } }], &documents).expect("a sample");
        seen.extend(sample.iter().map(|document| document.get_i32("n").expect("a number")));
    }
    assert_eq!(seen.len(), 8);
}

#[test]
fn sources_are_handed_to_the_caller() {
    let source = |stage| parse(&[stage]).expect("a source").source().clone();
    let documents = doc! { "$documents": [{ "a": { "$add": ["$$five", 1] } }, {}] };
    assert_eq!(source(documents), Source::Documents(vec![raw(&doc! { "a": 6 }), raw(&doc! {})]));
    assert_eq!(source(doc! { "$indexStats": {} }), Source::IndexStats);
    let options = doc! { "count": {} };
    assert_eq!(source(doc! { "$collStats": options.clone() }), Source::CollStats(raw(&options)));
    assert_eq!(source(doc! { "$currentOp": {} }), Source::CurrentOp(raw(&doc! {})));
    let pipeline = parse(&[doc! { "$indexStats": {} }, doc! { "$limit": 1 }]).expect("a pipeline");
    assert_eq!((pipeline.source().stage(), pipeline.first_stage()), (Some("$indexStats"), Some("$limit")));
}

#[test]
fn an_error_ends_the_stream_and_names_its_stage() {
    let stages = [doc! { "$match": {} }, doc! { "$set": { "q": { "$divide": [1, "$a"] } } }];
    check_error(&stages, &[doc! { "a": 1 }, doc! { "a": 0 }], 2, "stage 1: $divide: can't divide by zero");
    let facet = [doc! { "$facet": { "x": [stages[1].clone()] } }];
    let text = "stage 0: in 'x', stage 0: $divide: can't divide by zero";
    check_error(&facet, &[doc! { "a": 0 }], 2, text);
}

#[test]
fn a_pipeline_tells_where_it_writes() {
    let stages =
        [doc! { "$merge": { "into": { "db": "reports", "coll": "totals" }, "on": ["day", "shop.city"] } }];
    let merging = parse(&stages).expect("a pipeline");
    let writer = merging.writer().expect("it writes");
    let target = writer.target();
    assert_eq!((target.db.as_deref(), target.coll.as_str()), (Some("reports"), "totals"));
    assert_eq!(writer.stage(), "$merge");
    let WritingStage::Merge(merge) = writer else { panic!("another stage") };
    let key = merge.key(&raw(&doc! { "shop": { "city": "Ulm" }, "day": 5 })).expect("both fields");
    assert_eq!(key, [RawBson::Int32(5), RawBson::String("Ulm".to_owned())]);
    assert_eq!(merge.key(&raw(&doc! { "day": 5 })).expect_err("a field is missing").code(), 51_132);

    let writing = parse(&[doc! { "$out": "totals" }]).expect("a pipeline");
    assert!(matches!(writing.writer(), Some(WritingStage::Out(target)) if target.db.is_none()));
    assert_eq!(writing.writer().map(WritingStage::stage), Some("$out"));
}

#[test]
fn a_pipeline_tells_what_it_reads() {
    let join =
        doc! { "$lookup": { "from": "pens", "localField": "pen", "foreignField": "_id", "as": "pen" } };
    let joining = parse(&[join.clone(), join]).expect("a pipeline");
    assert_eq!(joining.foreign_collections(), ["pens"]);
    assert!(joining.writer().is_none() && !joining.reads_metadata());
    let joins = joining.joins();
    assert_eq!((joins[1].position, joins[1].collection, joins[1].is_keyed), (1, Some("pens"), true));
    let keyed = parse(&[doc! { "$set": { "key": { "$meta": "indexKey" } } }]).expect("a pipeline");
    assert!(keyed.reads_metadata());
    let given = parse(&[doc! { "$documents": [] }, doc! { "$skip": 1 }]).expect("a pipeline");
    assert_eq!((given.first_stage(), given.first_position()), (Some("$skip"), Some(1)));
    assert_eq!((Source::IndexStats.stage(), Source::Collection.stage()), (Some("$indexStats"), None));
}

#[test]
fn a_failure_of_a_temporary_file_keeps_its_cause() {
    let failure = SpillFailure::new(std::io::Error::other("the disk is full"));
    assert_eq!(failure.to_string(), "the disk is full");
    assert!(failure.cause().downcast_ref::<std::io::Error>().is_some());
    let error = Error::Stage { position: 0, fault: Fault::Spill(failure.clone()) };
    assert_eq!(error.spill(), Some(&failure));
}
