//! Groups, with every accumulator.

use bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb_query::expression::Variables;
use cairndb_query::operation::{Allowance, CancellationToken, Interruption, MemoryBudget, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::{Error, Fault};
use cairndb_query::pipeline::stream::Given;
use proptest::prelude::*;

use crate::spill::files::{Files, Planted};

type Outcome = Result<Vec<RawDocumentBuf>, Error>;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document")
}

fn run(stages: &[Document], documents: &[RawDocumentBuf], operation: &OperationContext) -> Outcome {
    let variables = Variables::default().within(operation.clone());
    let stages: Vec<_> = stages.iter().map(raw).collect();
    let pipeline = Pipeline::parse(&stages, &variables).expect("a pipeline");
    let input = Given::new(documents.iter().cloned().map(Ok::<_, Error>));
    pipeline.run(input).collect()
}

/// All accumulators that there are, each of which keeps something else.
fn every_accumulator() -> Document {
    let top = doc! { "n": 3, "sortBy": { "v": -1, "n": 1 }, "output": ["$n", "$v"] };
    let of = |operand: Document| doc! { "sortBy": operand, "output": "$n" };
    doc! {
        "addToSet": { "$addToSet": "$v" },
        "avg": { "$avg": "$v" },
        "bottom": { "$bottom": of(doc! { "v": 1 }) },
        "bottomN": { "$bottomN": top.clone() },
        "concatArrays": { "$concatArrays": { "$range": [0, { "$mod": ["$n", 4] }] } },
        "count": { "$count": {} },
        "first": { "$first": "$v" },
        "firstN": { "$firstN": { "n": 3, "input": "$v" } },
        "last": { "$last": "$n" },
        "lastN": { "$lastN": { "n": "$kept", "input": "$v" } },
        "max": { "$max": "$v" },
        "maxN": { "$maxN": { "n": 2, "input": "$v" } },
        "median": { "$median": { "input": "$v", "method": "approximate" } },
        "mergeObjects": { "$mergeObjects": "$o" },
        "min": { "$min": "$v" },
        "minN": { "$minN": { "n": 4, "input": "$n" } },
        "percentile": { "$percentile": { "input": "$v", "p": [0.1, 0.9], "method": "continuous" } },
        "push": { "$push": { "n": "$n", "v": "$v" } },
        "setUnion": { "$setUnion": { "$range": [0, { "$mod": ["$n", 9] }] } },
        "stdDevPop": { "$stdDevPop": "$v" },
        "stdDevSamp": { "$stdDevSamp": "$n" },
        "sum": { "$sum": "$v" },
        "sumOfCounts": { "$sum": 1 },
        "top": { "$top": of(doc! { "v": -1 }) },
        "topN": { "$topN": top },
    }
}

/// The stage `$group` by an object, on whose field the `n` of an accumulator depends.
fn by_key() -> Document {
    let mut group = doc! { "_id": { "k": "$k", "kept": { "$literal": 2 } } };
    group.extend(every_accumulator());
    doc! { "$group": group }
}

/// Documents with keys of which some are equal and not the same, and values of many types.
fn mixed(count: i32) -> Vec<RawDocumentBuf> {
    let document = |n: i32| {
        let mixed = n.wrapping_mul(0x1e37_79b9).rotate_left(9);
        let key = match mixed.rem_euclid(3) {
            0 => Bson::Int32(mixed.rem_euclid(40)),
            1 => Bson::Double(f64::from(mixed.rem_euclid(40))),
            _ => Bson::String(format!("key {}", mixed.rem_euclid(40))),
        };
        let value = match mixed.rem_euclid(7) {
            0 => Bson::Int32(mixed),
            1 => Bson::Int64(i64::from(mixed) << 33),
            2 => Bson::Double(f64::from(mixed) / 7.0),
            3 => Bson::String("text".repeat(usize::try_from(mixed.rem_euclid(5)).expect("small"))),
            4 => Bson::Decimal128(format!("{mixed}.125").parse().expect("a decimal")),
            5 => Bson::Null,
            _ => Bson::Array(vec![mixed.rem_euclid(3).into(), "a".into()]),
        };
        let name = format!("f{}", mixed.rem_euclid(4));
        raw(&doc! { "n": n, "k": key, "v": value, "o": { name: n }, "unread": "y".repeat(50) })
    };
    (0..count).map(document).collect()
}

#[test]
fn every_accumulator_gives_in_files_what_it_gives_in_memory() {
    let (documents, stages) = (mixed(4000), [by_key()]);
    let expected = run(&stages, &documents, &OperationContext::default()).expect("in memory");
    // Some parts go out early and some late, some are divided again, and in the end nearly all was in files.
    for stage_bytes in [1 << 20, 300 << 10, 100 << 10, 50 << 10, 30 << 10] {
        let files = Files::default();
        let operation = files.operation(stage_bytes);
        let found = run(&stages, &documents, &operation).expect("in files");
        assert_eq!(found, expected, "{stage_bytes} bytes");
        assert!(files.made() > 0 || stage_bytes == 1 << 20, "{stage_bytes} bytes");
        assert_eq!((files.open(), operation.bytes_reserved()), (0, 0), "{stage_bytes} bytes");
        assert_eq!(operation.spills() > 0, files.made() > 0);
        // One for each level, and one for the results.
        assert!(files.files_at_once() <= 5, "{}", files.files_at_once());
    }
}

proptest! {
    #[test]
    fn groups_beyond_memory_are_the_groups_in_memory(
        values in prop::collection::vec((0..30_i32, prop_oneof![
            (-9..9).prop_map(Bson::Int32),
            any::<f64>().prop_map(Bson::Double),
            "[ab]{0,20}".prop_map(Bson::String),
            Just(Bson::Null),
        ]), 0..200),
        stage_bytes in 2000..40_000_usize,
    ) {
        let documents: Vec<_> = (0_i32..)
            .zip(values)
            .map(|(n, (key, value))| raw(&doc! { "n": n, "k": key, "v": value, "o": { "f": n } }))
            .collect();
        let stages = [by_key()];
        let files = Files::default();
        let found = run(&stages, &documents, &files.operation(stage_bytes));
        prop_assert_eq!(files.open(), 0);
        match found {
            // Compared as bytes: there may be NaN among the values.
            Ok(found) => {
                let expected = run(&stages, &documents, &OperationContext::default()).expect("in memory");
                let bytes = |documents: &[RawDocumentBuf]| -> Vec<Vec<u8>> {
                    documents.iter().map(|document| document.as_bytes().to_vec()).collect()
                };
                prop_assert_eq!(bytes(&found), bytes(&expected));
            }
            Err(error) => prop_assert!(error.code().number() == 146, "{}", error),
        }
    }
}

/// The stages that are translated into a group.
#[test]
fn buckets_and_counts_group_beyond_memory() {
    let documents: Vec<_> = (0..3000).map(|n| raw(&doc! { "n": n, "v": (n * 7) % 1000 })).collect();
    let boundaries: Vec<i32> = (0..=500).map(|bound| bound * 2).collect();
    let bucket = doc! { "groupBy": "$v", "boundaries": boundaries, "output": { "all": { "$push": "$n" } } };
    for stage in
        [doc! { "$sortByCount": "$v" }, doc! { "$bucket": bucket }, doc! { "$group": { "_id": "$v" } }]
    {
        let files = Files::default();
        let found =
            run(std::slice::from_ref(&stage), &documents, &files.operation(20_000)).expect("in files");
        let expected = run(std::slice::from_ref(&stage), &documents, &OperationContext::default());
        assert_eq!(found, expected.expect("in memory"), "{stage}");
        assert!(files.made() > 3 && files.open() == 0, "{stage}");
    }
}

/// Both the documents and those of each bucket are sorted in files.
#[test]
fn automatic_buckets_sort_beyond_memory() {
    let documents: Vec<_> =
        (0..3000).map(|n| raw(&doc! { "n": n, "v": (n * 7) % 1000, "t": "t".repeat(50) })).collect();
    let output = doc! { "first": { "$first": "$n" }, "last": { "$last": "$n" }, "count": { "$sum": 1 } };
    for granularity in [None, Some("R5"), Some("POWERSOF2")] {
        let mut stage = doc! { "groupBy": "$v", "buckets": 7, "output": output.clone() };
        stage.extend(granularity.map(|granularity| ("granularity".to_owned(), granularity.into())));
        let stages = [doc! { "$bucketAuto": stage }];
        let files = Files::default();
        let operation = files.operation(20_000);
        let found = run(&stages, &documents, &operation).expect("in files");
        let expected = run(&stages, &documents, &OperationContext::default()).expect("in memory");
        assert_eq!(found, expected, "{granularity:?}");
        assert!(expected.len() > 2 && files.made() > 20, "{granularity:?}: {}", files.made());
        assert_eq!((files.open(), operation.bytes_reserved()), (0, 0));
        let refused = files.operation(20_000);
        refused.keep_off_disk();
        let refused = run(&stages, &documents, &refused).expect_err("they need more");
        assert_eq!(refused.code().number(), 292, "{refused}");
        assert!(refused.to_string().contains("$bucketAuto"), "{refused}");
    }
}

#[test]
fn a_group_that_needs_all_memory_is_an_error() {
    let documents = mixed(2000);
    let all = doc! { "$group": { "_id": Bson::Null, "all": { "$push": "$$ROOT" } } };
    let files = Files::default();
    let refused = run(&[all], &documents, &files.operation(50_000)).expect_err("it is too large");
    let fault = Fault::GroupTooLarge { stage: "$group", limit: 50_000 };
    assert_eq!(refused, Error::Stage { position: 0, fault });
    assert_eq!((refused.code().number(), files.made()), (146, 0));
    // One of many, which are moved to files first.
    let one = doc! { "$cond": [{ "$lt": ["$n", 400] }, "$n", "large"] };
    let some = doc! { "$group": { "_id": one, "all": { "$push": "$$ROOT" } } };
    let refused = run(&[some], &documents, &files.operation(50_000)).expect_err("it is too large");
    assert_eq!(refused.code().number(), 146, "{refused}");
    assert!(files.made() > 0 && files.open() == 0, "{}", files.made());
}

#[test]
fn without_files_groups_end_at_their_limit() {
    let (documents, files) = (mixed(2000), Files::default());
    let operation = files.operation(20_000);
    operation.keep_off_disk();
    let refused = run(&[by_key()], &documents, &operation).expect_err("they need more");
    assert_eq!((refused.code().number(), files.made()), (292, 0), "{refused}");
}

/// Only what the group reads is written.
#[test]
fn fields_that_no_accumulator_reads_stay_out_of_files() {
    let documents: Vec<_> =
        (0..500).map(|n| raw(&doc! { "unread": "y".repeat(5000), "n": n % 250, "o": { "f": n } })).collect();
    let bytes_max = |stage: Document| {
        let files = Files::default();
        run(&[stage], &documents, &files.operation(10_000)).expect("in files");
        files.value_bytes_max()
    };
    assert!(bytes_max(doc! { "$group": { "_id": "$n", "sum": { "$sum": "$o.f" } } }) < 1000);
    let whole = doc! { "$size": { "$objectToArray": "$$ROOT" } };
    assert!(bytes_max(doc! { "$group": { "_id": "$n", "last": { "$last": whole } } }) > 5000);
}

/// Whatever call of whatever file fails, the failure is the error, and all files are gone.
#[test]
fn a_failing_file_ends_the_groups_and_leaves_no_file() {
    let (documents, stages) = (mixed(120), [doc! { "$group": { "_id": "$n", "all": { "$push": "$v" } } }]);
    let files = Files::default();
    run(&stages, &documents, &files.operation(4000)).expect("in files");
    assert!(files.calls() > 100, "{}", files.calls());
    for call in 1..=files.calls() {
        let failing = Files::default();
        let failed = run(&stages, &documents, &failing.failing_at(call).operation(4000));
        // Parts are hashed by chance, so the last calls of one run may not come in another.
        let Err(error) = failed else {
            assert!(call > files.calls() / 2, "call {call}");
            continue;
        };
        let failure = error.spill().unwrap_or_else(|| panic!("call {call}: {error}"));
        assert!(failure.cause().downcast_ref::<Planted>().is_some(), "{failure}");
        assert_eq!(failing.open(), 0, "call {call}");
    }
}

/// A file gives back other bytes than were written to it, which the engine's checksums would have found.
#[test]
fn no_damage_of_files_is_a_panic() {
    let (documents, stages, mut failures) = (mixed(400), [by_key()], 0);
    for seed in 0..300 {
        let files = Files::default();
        files.damaging(seed);
        // The read bytes may still be a document, or a state.
        let ended = run(&stages, &documents, &files.operation(30_000));
        failures += usize::from(ended.is_err());
        assert_eq!(files.open(), 0, "seed {seed}");
    }
    assert!(failures > 30, "{failures}");
}

#[test]
fn cancelled_groups_leave_no_file() {
    let (documents, stages) = (mixed(4000), [by_key()]);
    let token = CancellationToken::new();
    let files = Files::default();
    let allowance =
        Allowance { stage_bytes: Some(40_000), tokens: vec![token.clone()], ..Allowance::default() };
    let variables = Variables::default().within(files.operation_of(allowance));
    let parsed: Vec<_> = stages.iter().map(raw).collect();
    let pipeline = Pipeline::parse(&parsed, &variables).expect("a pipeline");
    let (cancelled, seen) = (token.clone(), files.clone());
    // In the middle of the documents, when some of them are in files.
    let input = Given::new(documents.into_iter().enumerate().map(move |(at, document)| {
        if at == 3000 {
            assert!(seen.open() > 0);
            cancelled.cancel();
        }
        Ok::<_, Error>(document)
    }));
    let ended: Outcome = pipeline.run(input).collect();
    let code = ended.expect_err("it was cancelled").code();
    assert_eq!(code, Interruption::Cancelled.code());
    assert_eq!(files.open(), 0);
}

/// Other operations may hold what the groups could have: they go on in files.
#[test]
fn groups_that_find_no_memory_left_go_on_in_files() {
    let documents: Vec<_> =
        (0..60).map(|n| raw(&doc! { "n": n % 30, "text": format!("{n}").repeat(50_000) })).collect();
    let shared = MemoryBudget::new(8 << 20);
    let held = OperationContext::new(Allowance { shared: Some(shared.clone()), ..Allowance::default() })
        .reserve(3 << 20)
        .expect("nothing else is held");
    let files = Files::default();
    let operation = files.operation_of(Allowance { shared: Some(shared.clone()), ..Allowance::default() });
    let stages = [doc! { "$group": { "_id": "$n", "all": { "$push": "$text" } } }];
    let found = run(&stages, &documents, &operation).expect("in files");
    assert_eq!(found, run(&stages, &documents, &OperationContext::default()).expect("in memory"));
    assert!(files.made() > 0 && files.open() == 0, "{}", files.made());
    drop((held, operation));
    assert_eq!(shared.taken(), 0);
}
