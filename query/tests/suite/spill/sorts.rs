//! Sorts.

use bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb_query::expression::Variables;
use cairndb_query::operation::{Allowance, CancellationToken, Interruption, MemoryBudget, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error as PipelineError;
use cairndb_query::pipeline::stream::Given;
use cairndb_query::sort::Sort;
use cairndb_query::sort::error::Error;
use cairndb_query::sort::spilling::SpillingSorter;
use proptest::prelude::*;

use crate::spill::files::{Files, Planted};

/// The sorted documents of a cursor stayed in memory as long as it was idle: forty of them held 828 MB.
#[test]
fn what_is_left_of_a_sort_rests_in_a_file() {
    let budget = MemoryBudget::new(64 << 20);
    let documents: Vec<_> = (0..600)
        .map(|number| raw(&doc! { "number": number, "a": (number * 7) % 60, "text": "x".repeat(10_000) }))
        .collect();
    let expected =
        sorted(&doc! { "a": 1 }, None, &documents, &OperationContext::default()).expect("in memory");
    for (has_files, kept, is_moved) in [(true, 600, true), (true, 300, false), (false, 600, false)] {
        let files = Files::default();
        let allowance = Allowance { shared: Some(budget.clone()), ..Allowance::default() };
        let operation =
            if has_files { files.operation_of(allowance) } else { OperationContext::new(allowance) };
        let sort = Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
        let mut sorter = SpillingSorter::new(sort, None, 1 << 24, &operation);
        for document in &documents {
            sorter.push(document, || document.clone()).expect("room");
        }
        let mut payloads = sorter.sort().expect("sorted");
        let (mut found, held) = (Vec::new(), budget.taken());
        while found.len() < 600 - kept {
            found.extend(payloads.next().expect("read"));
        }
        payloads.rest();
        assert_eq!((files.open() > 0, budget.taken() < held / 2), (is_moved, is_moved), "{kept}");
        // At any place, and as often as the cursor rests.
        while let Some(next) = payloads.next().expect("read") {
            found.push(next);
            payloads.rest();
        }
        assert!(found == expected, "{kept}");
        drop((payloads, operation));
        assert_eq!((files.open(), budget.taken()), (0, 0));
    }
    // A disk that is full keeps it in memory.
    let files = Files::default();
    files.failing_at(1);
    assert_eq!(rested(&documents, &files.operation(1 << 24)), expected);
}

/// Sorts by `a`, and rests before the results are taken.
fn rested(documents: &[RawDocumentBuf], operation: &OperationContext) -> Vec<RawDocumentBuf> {
    let sort = Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
    let mut sorter = SpillingSorter::new(sort, None, 1 << 24, operation);
    for document in documents {
        sorter.push(document, || document.clone()).expect("room");
    }
    let mut payloads = sorter.sort().expect("sorted");
    payloads.rest();
    std::iter::from_fn(|| payloads.next().expect("read")).collect()
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document")
}

/// Sorts by an operation, and takes the results one by one.
fn sorted(
    sort: &Document,
    limit: Option<usize>,
    documents: &[RawDocumentBuf],
    operation: &OperationContext,
) -> Result<Vec<RawDocumentBuf>, Error> {
    let sort = Sort::parse(&raw(sort)).expect("a sort");
    let mut sorter = SpillingSorter::new(sort, limit, 1 << 24, operation);
    for document in documents {
        sorter.push(document, || document.clone())?;
    }
    let mut payloads = sorter.sort()?;
    let mut found = Vec::new();
    let mut left = payloads.len();
    while let Some(next) = payloads.next()? {
        found.push(next);
        left -= 1;
        assert_eq!(payloads.len(), left);
    }
    assert_eq!(left, 0);
    Ok(found)
}

/// Documents with few different values, so that many are equal, numbered in their order.
fn numbered(count: i32) -> Vec<RawDocumentBuf> {
    let mixed = |number: i32| number.wrapping_mul(0x1e37_79b9).rotate_left(7).rem_euclid(50);
    (0..count)
        .map(|number| raw(&doc! { "number": number, "a": mixed(number), "b": [1, mixed(number)] }))
        .collect()
}

proptest! {
    #[test]
    fn a_sort_beyond_memory_is_the_sort_in_memory(
        values in prop::collection::vec(prop_oneof![
            (-3..3).prop_map(Bson::Int32),
            (-3..3).prop_map(|number| Bson::Double(f64::from(number))),
            "[ab]{0,2}".prop_map(Bson::String),
            prop::collection::vec((-2..2).prop_map(Bson::Int32), 0..3).prop_map(Bson::Array),
            Just(Bson::Null),
        ], 0..60),
        ascends in any::<bool>(),
        limit in prop::option::of(0..70_usize),
        stage_bytes in 1..2000_usize,
        reading in 0..2000_usize,
    ) {
        let documents: Vec<_> = (0_i32..).zip(values).map(|(n, value)| raw(&doc! { "n": n, "a": value })).collect();
        let sort = doc! { "a": if ascends { 1 } else { -1 } };
        let expected = sorted(&sort, limit, &documents, &OperationContext::default()).expect("in memory");
        let files = Files::default();
        files.reading_takes(reading);
        let found = sorted(&sort, limit, &documents, &files.operation(stage_bytes)).expect("with files");
        prop_assert_eq!(found, expected);
        prop_assert_eq!(files.open(), 0);
    }
}

/// More than a thousand runs are merged in two generations before they are read.
#[test]
fn many_runs_are_merged_before_they_are_read() {
    let (files, documents, sort) = (Files::default(), numbered(3000), doc! { "a": 1 });
    let found = sorted(&sort, None, &documents, &files.operation(1)).expect("sorted");
    assert_eq!(found, sorted(&sort, None, &documents, &OperationContext::default()).expect("in memory"));
    assert!(files.made() > 3000, "{}", files.made());
    assert!(files.read_at_once() <= 3 * 32, "{}", files.read_at_once());
    // One for each generation.
    assert_eq!(files.files_at_once(), 3);
    assert_eq!(files.open(), 0);
}

#[test]
fn large_entries_are_read_from_few_runs_at_a_time() {
    let (files, documents, sort) = (Files::default(), numbered(300), doc! { "a": -1 });
    // Reading three runs takes all that the sort may have.
    files.reading_takes(1000);
    let found = sorted(&sort, None, &documents, &files.operation(3000)).expect("sorted");
    assert_eq!(found, sorted(&sort, None, &documents, &OperationContext::default()).expect("in memory"));
    assert!(files.made() > 10 && files.read_at_once() <= 3, "{} of {}", files.read_at_once(), files.made());
}

#[test]
fn a_limit_keeps_its_first_documents_across_runs() {
    let (documents, sort) = (numbered(500), doc! { "a": 1 });
    for limit in [0, 1, 7, 100, 499, 500, 501] {
        let files = Files::default();
        let found = sorted(&sort, Some(limit), &documents, &files.operation(600)).expect("sorted");
        let all = sorted(&sort, Some(limit), &documents, &OperationContext::default()).expect("in memory");
        assert_eq!((found, files.open()), (all, 0), "limit {limit}");
    }
}

#[test]
fn without_files_a_sort_ends_at_its_limit() {
    let (documents, sort) = (numbered(100), doc! { "a": 1 });
    let files = Files::default();
    let operation = files.operation(1000);
    operation.keep_off_disk();
    let none = OperationContext::new(Allowance { stage_bytes: Some(1000), ..Allowance::default() });
    for operation in [operation, none] {
        let refused = sorted(&sort, None, &documents, &operation).expect_err("it needs more");
        assert_eq!(refused, Error::MemoryExceeded { limit: 1000 });
    }
    assert_eq!(files.made(), 0);
}

/// Whatever call of whatever file fails, the failure is the error, and all files are gone.
#[test]
fn a_failing_file_ends_the_sort_and_leaves_no_file() {
    let (documents, sort) = (numbered(150), doc! { "a": 1 });
    let files = Files::default();
    sorted(&sort, None, &documents, &files.operation(400)).expect("sorted");
    for call in 1..=files.calls() {
        let failing = Files::default();
        let failed = sorted(&sort, None, &documents, &failing.failing_at(call).operation(400));
        let Err(Error::Spill(failure)) = failed else { panic!("call {call}: {failed:?}") };
        assert!(failure.cause().downcast_ref::<Planted>().is_some(), "{failure}");
        assert_eq!(failing.open(), 0, "call {call}");
    }
}

#[test]
fn a_cancelled_sort_leaves_no_file() {
    let documents = numbered(2000);
    for pushed in [10, 500, 1999, 2000] {
        let (files, token) = (Files::default(), CancellationToken::new());
        let allowance =
            Allowance { stage_bytes: Some(2000), tokens: vec![token.clone()], ..Allowance::default() };
        let sort = Sort::parse(&raw(&doc! { "a": 1 })).expect("a sort");
        let mut sorter = SpillingSorter::new(sort, None, 1 << 24, &files.operation_of(allowance));
        for document in documents.iter().take(pushed) {
            sorter.push(document, || document.clone()).expect("not cancelled yet");
        }
        token.cancel();
        let rest =
            documents.iter().skip(pushed).try_for_each(|document| sorter.push(document, || document.clone()));
        let read_all = || {
            let mut payloads = sorter.sort()?;
            while payloads.next()?.is_some() {}
            Ok(())
        };
        let ended = rest.and_then(|()| read_all());
        assert_eq!(ended, Err(Error::Interrupted(Interruption::Cancelled)), "{pushed} documents");
        assert_eq!(files.open(), 0, "{pushed} documents");
    }
}

/// Other operations may hold what a sort could have: it goes on in files, and the operation is not ended for it.
#[test]
fn a_sort_that_finds_no_memory_left_goes_on_in_files() {
    let documents: Vec<_> =
        (0..40).map(|n| raw(&doc! { "a": (n * 7) % 40, "text": "x".repeat(200_000) })).collect();
    let shared = MemoryBudget::new(6 << 20);
    let held = OperationContext::new(Allowance { shared: Some(shared.clone()), ..Allowance::default() })
        .reserve(3 << 20)
        .expect("nothing else is held");
    let files = Files::default();
    let operation = files.operation_of(Allowance { shared: Some(shared.clone()), ..Allowance::default() });
    let found = sorted(&doc! { "a": 1 }, None, &documents, &operation).expect("sorted");
    let order: Vec<i32> = found.iter().map(|document| document.get_i32("a").expect("a number")).collect();
    assert_eq!(order, (0..40).collect::<Vec<_>>());
    assert!(files.made() >= 3, "{}", files.made());
    assert_eq!(operation.bytes_reserved(), 0);
    drop((held, operation));
    assert_eq!(shared.taken(), 0);
}

/// The stage, and the sort that a `$setWindowFields` begins with.
#[test]
fn stages_sort_beyond_memory() {
    let documents = numbered(400);
    let window = doc! {
        "partitionBy": "$a",
        "sortBy": { "number": -1 },
        "output": { "rank": { "$documentNumber": {} } },
    };
    for stage in [doc! { "$sort": { "a": 1 } }, doc! { "$setWindowFields": window }] {
        let run = |operation: &OperationContext| {
            let variables = Variables::default().within(operation.clone());
            let pipeline = Pipeline::parse(&[raw(&stage)], &variables).expect("a pipeline");
            let input = Given::new(documents.clone().into_iter().map(Ok::<_, PipelineError>));
            pipeline.run(input).collect::<Result<Vec<_>, _>>()
        };
        let files = Files::default();
        assert_eq!(run(&files.operation(2000)), run(&OperationContext::default()), "{stage}");
        assert!(files.made() > 10 && files.open() == 0, "{stage}");
        let failing = Files::default();
        let failed = run(&failing.failing_at(5).operation(2000)).expect_err("a file fails");
        assert!(failed.spill().is_some() && failing.open() == 0, "{failed}");
    }
}
