//! Joins.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::operation::{Allowance, CancellationToken, Interruption, MemoryBudget, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::{Error, Fault};
use cairndb_query::pipeline::foreign::{Documents, Foreign};
use cairndb_query::pipeline::stream::Given;
use index::collation::Collation;
use proptest::prelude::*;

use crate::spill::files::{Files, Planted};

type Outcome = Result<Vec<RawDocumentBuf>, Error>;

/// The other collection, which has no index.
struct Parts(Vec<RawDocumentBuf>);

impl Foreign<Error> for Parts {
    fn find(&self, _: &str, _: &RawDocument, _: &Variables) -> Result<Option<Documents<Error>>, Error> {
        Ok(None)
    }

    fn scan(&self, _: &str, _: &Variables) -> Result<Documents<Error>, Error> {
        Ok(Box::new(Given::new(self.0.clone().into_iter().map(Ok))))
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document")
}

fn raws(documents: &[Document]) -> Vec<RawDocumentBuf> {
    documents.iter().map(raw).collect()
}

/// Runs stages over `local`, with `parts` as every other collection.
fn run_with(
    stages: &[Document],
    local: &[Document],
    parts: &[RawDocumentBuf],
    variables: &Variables,
) -> Outcome {
    let parts: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(Parts(parts.to_vec()));
    let local = Given::new(raws(local).into_iter().map(Ok::<_, Error>));
    Pipeline::parse(&raws(stages), variables).expect("a pipeline").run_with(local, &parts).collect()
}

fn run(
    stages: &[Document],
    local: &[Document],
    parts: &[RawDocumentBuf],
    operation: &OperationContext,
) -> Outcome {
    run_with(stages, local, parts, &Variables::default().within(operation.clone()))
}

fn lookup(more: Document) -> Document {
    let mut lookup = doc! { "from": "parts", "as": "c" };
    lookup.extend(more);
    doc! { "$lookup": lookup }
}

/// The join of `a` and `x` by fields alone.
fn by_fields() -> Document {
    lookup(doc! { "localField": "a", "foreignField": "x" })
}

fn value() -> impl Strategy<Value = Option<Bson>> {
    let beginning = "the same fifty letters or more at the beginning of all of these";
    let values = [
        bson!(0),
        bson!(1),
        bson!(1_i64),
        bson!(1.0),
        bson!("1"),
        bson!("A"),
        bson!("a"),
        bson!(""),
        // The encoded forms of these are long, and differ at their ends.
        bson!(beginning),
        bson!(format!("{beginning} 1")),
        bson!(format!("{beginning} 2")),
        bson!(&beginning[..44]),
        bson!(&beginning[..45]),
        bson!(&beginning[..46]),
        bson!(&beginning[..47]),
        bson!(&beginning[..48]),
        bson!([]),
        bson!([0, 1, 1]),
        bson!([beginning, beginning, 1]),
        bson!([[0], { "x": 1 }]),
        bson!({ "x": 1 }),
        Bson::Null,
        Bson::Undefined,
    ];
    proptest::option::weighted(0.9, proptest::sample::select(values.to_vec()))
}

/// Numbered documents with random values in two fields.
fn documents(names: [&'static str; 2], most: usize) -> impl Strategy<Value = Vec<Document>> {
    proptest::collection::vec((value(), value()), 0..most).prop_map(move |values| {
        let document = |(number, (first, second)): (i32, (Option<Bson>, Option<Bson>))| {
            let mut document = doc! { "_id": number };
            let fields = names.into_iter().zip([first, second]);
            document.extend(fields.filter_map(|(name, value)| Some((name.to_owned(), value?))));
            document
        };
        (0..).zip(values).map(document).collect()
    })
}

/// Every way in which a join asks a table.
fn joins() -> Vec<Vec<Document>> {
    let unwind = doc! { "$unwind": { "path": "$c", "includeArrayIndex": "i" } };
    let equal = doc! { "$match": { "$expr": { "$eq": ["$x", "$$a"] } } };
    let correlated = |more: Vec<Document>| {
        let stages: Vec<_> = [equal.clone()].into_iter().chain(more).collect();
        lookup(doc! { "let": { "a": "$a" }, "pipeline": stages })
    };
    let selected = lookup(
        doc! { "localField": "a", "foreignField": "x", "pipeline": [{ "$match": { "y": { "$ne": 1 } } }] },
    );
    let sorted = lookup(doc! {
        "localField": "a", "foreignField": "x", "pipeline": [{ "$sort": { "_id": -1 } }, { "$limit": 3 }],
    });
    vec![
        vec![by_fields()],
        vec![lookup(doc! { "localField": "b", "foreignField": "x.x" })],
        vec![by_fields(), unwind.clone()],
        vec![by_fields(), doc! { "$unwind": "$c" }, doc! { "$match": { "c.y": { "$in": [0, 1, null] } } }],
        vec![selected.clone()],
        vec![selected, unwind],
        vec![sorted],
        vec![correlated(vec![])],
        vec![correlated(vec![doc! { "$group": { "_id": "$y", "n": { "$sum": 1 } } }])],
    ]
}

proptest! {
    #[test]
    fn a_join_beyond_memory_is_the_join_in_memory(
        local in documents(["a", "b"], 8),
        parts in documents(["x", "y"], 40),
        stages in proptest::sample::select(joins()),
        stage_bytes in 1..5000_usize,
        reading in 0..2000_usize,
        ignores_case in any::<bool>(),
    ) {
        let parts = raws(&parts);
        let collation = raw(&doc! { "locale": "en", "strength": 2 });
        let variables = || {
            // Without the feature there are no rules of languages.
            match Collation::parse(&collation) {
                Ok(collation) if ignores_case => Variables::default().with_collation(collation),
                Ok(_) | Err(_) => Variables::default(),
            }
        };
        let expected = run_with(&stages, &local, &parts, &variables()).expect("in memory");
        let files = Files::default();
        files.reading_takes(reading);
        let operation = files.operation(stage_bytes);
        let found = run_with(&stages, &local, &parts, &variables().within(operation.clone()));
        prop_assert_eq!(files.open(), 0);
        prop_assert_eq!(operation.bytes_reserved(), 0);
        prop_assert_eq!(operation.spills() > 0, files.made() > 0);
        match found {
            Ok(found) => prop_assert_eq!(found, expected),
            // A group of a pipeline may be more than its stage may hold.
            Err(error) => prop_assert_eq!(error.code().number(), 146, "{}", error),
        }
    }

    #[test]
    fn a_search_along_links_beyond_memory_is_that_in_memory(
        local in documents(["a", "b"], 6),
        parts in documents(["x", "y"], 40),
        restricts in any::<bool>(),
        is_nested in any::<bool>(),
        stage_bytes in 20_000..60_000_usize,
    ) {
        // Large, so that the documents exceed the memory and what is reached does not.
        let parts: Vec<_> = parts
            .into_iter()
            .map(|mut part| {
                part.insert("z", "z".repeat(1500));
                raw(&part)
            })
            .collect();
        let mut graph = doc! {
            "from": "parts", "startWith": "$a", "connectFromField": "y", "connectToField": "x", "as": "d",
            "maxDepth": 1, "depthField": "depth",
        };
        if restricts {
            graph.insert("restrictSearchWithMatch", doc! { "_id": { "$gte": 2 } });
        }
        let graph = doc! { "$graphLookup": graph };
        // Only the numbers of what is reached: all of it would be too large for the small stages after it.
        let numbers = doc! { "$project": { "a": 1, "d._id": 1, "d.depth": 1 } };
        let stages = if is_nested {
            let set = doc! { "$set": { "a": "$$v" } };
            let pipeline = vec![doc! { "$documents": [{ "n": 1 }] }, set, graph, numbers];
            vec![doc! { "$lookup": { "as": "c", "let": { "v": "$b" }, "pipeline": pipeline } }]
        } else {
            vec![graph, numbers]
        };
        let expected = run(&stages, &local, &parts, &OperationContext::counting()).expect("in memory");
        let files = Files::default();
        let found = run(&stages, &local, &parts, &files.operation(stage_bytes));
        prop_assert_eq!(files.open(), 0);
        match found {
            Ok(found) => prop_assert_eq!(found, expected),
            Err(error) => prop_assert_eq!(error.code().number(), 292, "{}", error),
        }
    }
}

/// Numbered documents, of which many have the same value.
fn numbered(count: i32) -> Vec<RawDocumentBuf> {
    let mixed = |number: i32| number.wrapping_mul(0x1e37_79b9).rotate_left(7).rem_euclid(50);
    (0..count).map(|number| raw(&doc! { "_id": number, "x": [mixed(number), "v"], "y": 1 })).collect()
}

/// Documents that ask for each of the values, in no order.
fn asking() -> Vec<Document> {
    (0..60).map(|number| doc! { "a": (number * 7) % 60 }).chain([doc! { "a": "v" }, doc! {}]).collect()
}

#[test]
fn a_table_many_times_its_memory_is_in_few_files() {
    let (parts, local) = (numbered(3000), asking());
    let expected = run(&[by_fields()], &local, &parts, &OperationContext::default()).expect("in memory");
    for stage_bytes in [1, 300, 20_000] {
        let files = Files::default();
        let operation = files.operation(stage_bytes);
        assert_eq!(run(&[by_fields()], &local, &parts, &operation).as_ref(), Ok(&expected));
        assert!(operation.spills() > 10, "{}", operation.spills());
        // One for the table, and one for each generation of runs.
        assert!(files.files_at_once() <= 5, "{}", files.files_at_once());
        assert_eq!((files.open(), operation.bytes_reserved()), (0, 0));
    }
}

/// One document has more values than the memory has room for, and some of them twice.
#[test]
fn a_document_of_many_values_is_moved_out_in_parts() {
    let values: Vec<i32> = (0..5000).flat_map(|value| [value, value % 7]).collect();
    let parts: Vec<_> = (0..3).map(|number| raw(&doc! { "_id": number, "x": values.clone() })).collect();
    let local: Vec<_> = [0, 6, 7, 4999, 5000].map(|value| doc! { "a": value }).to_vec();
    let stages = [by_fields(), doc! { "$project": { "a": 1, "c._id": 1 } }];
    let files = Files::default();
    let operation = files.operation(100_000);
    let found = run(&stages, &local, &parts, &operation).expect("joined");
    assert_eq!(found, run(&stages, &local, &parts, &OperationContext::default()).expect("in memory"));
    assert!(operation.spills() > 10, "{}", operation.spills());
}

/// No value is longer in a key than it has to be, so that what finds keys has a bound.
#[test]
fn long_values_are_found_by_short_keys() {
    let text = |end: i32| format!("{}{end}", "x".repeat(5000));
    let parts: Vec<_> =
        (0..200).map(|number| raw(&doc! { "_id": number, "x": text(number % 100) })).collect();
    let local: Vec<_> = [0, 99, 100].map(|end| doc! { "a": text(end) }).to_vec();
    let files = Files::default();
    let found = run(&[by_fields()], &local, &parts, &files.operation(20_000)).expect("joined");
    assert_eq!(found, run(&[by_fields()], &local, &parts, &OperationContext::default()).expect("in memory"));
    assert!(files.sorted_key_bytes_max() < 80, "{}", files.sorted_key_bytes_max());
}

#[test]
fn without_files_a_table_ends_at_its_limit() {
    let (parts, local) = (numbered(100), asking());
    let graph = doc! { "$graphLookup": {
        "from": "parts", "startWith": "$a", "connectFromField": "y", "connectToField": "x", "as": "c",
    } };
    let files = Files::default();
    for (stage, name) in [(by_fields(), "$lookup"), (graph, "$graphLookup")] {
        let operation = files.operation(1000);
        operation.keep_off_disk();
        let none = OperationContext::new(Allowance { stage_bytes: Some(1000), ..Allowance::default() });
        for operation in [operation, none] {
            let refused =
                run(std::slice::from_ref(&stage), &local, &parts, &operation).expect_err("it needs more");
            let text = format!(
                "stage 0: {name} exceeded the memory limit of 1000 bytes, and nothing is moved to disk"
            );
            assert_eq!((refused.code().number(), refused.to_string()), (292, text));
        }
    }
    assert_eq!(files.made(), 0);
}

/// Whatever call of whatever file fails, the failure is the error, and all files are gone.
#[test]
fn a_failing_file_ends_the_join_and_leaves_no_file() {
    let (parts, local) = (numbered(60), asking());
    let files = Files::default();
    run(&[by_fields()], &local, &parts, &files.operation(2000)).expect("joined");
    assert!(files.calls() > 500, "{}", files.calls());
    for call in 1..=files.calls() {
        let failing = Files::default();
        let operation = failing.failing_at(call).operation(2000);
        let failed = run(&[by_fields()], &local, &parts, &operation);
        let Err(error) = failed else { panic!("call {call}: {failed:?}") };
        let planted = error.spill().is_some_and(|failure| failure.cause().is::<Planted>());
        assert!(planted, "call {call}: {error}");
        assert_eq!((failing.open(), operation.bytes_reserved()), (0, 0), "call {call}");
    }
}

/// The caller answers for the bytes of its files, and if it is wrong, a join may be wrong. It must not panic.
#[test]
fn damaged_entries_are_no_panic() {
    let (parts, local) = (numbered(60), asking());
    let mut refused = 0;
    for seed in 0..400 {
        let files = Files::default();
        files.damaging(seed);
        for stages in joins() {
            let found = run(&stages, &local, &parts, &files.operation(2000));
            refused += usize::from(found.is_err_and(|error| error.spill().is_some()));
        }
        assert_eq!(files.open(), 0, "seed {seed}");
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_cancelled_join_leaves_no_file() {
    let (parts, local) = (numbered(2000), asking());
    for taken in [0, 1, 30] {
        let (files, token) = (Files::default(), CancellationToken::new());
        let allowance =
            Allowance { stage_bytes: Some(2000), tokens: vec![token.clone()], ..Allowance::default() };
        let variables = Variables::default().within(files.operation_of(allowance));
        let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(Parts(parts.clone()));
        let input = Given::new(raws(&local).into_iter().map(Ok::<_, Error>));
        let pipeline = Pipeline::parse(&[raw(&by_fields())], &variables).expect("a pipeline");
        let mut results = pipeline.run_with(input, &foreign);
        assert!(results.by_ref().take(taken).all(|result| result.is_ok()));
        assert_eq!(files.open() > 0, taken > 0);
        token.cancel();
        let ended = results.find_map(Result::err).expect("it is looked at");
        let fault = Fault::Interrupted(Interruption::Cancelled);
        assert_eq!(ended, Error::Stage { position: 0, fault }, "{taken} results");
        assert_eq!(files.open(), 0, "{taken} results");
    }
}

/// Other operations may hold what a table could have: it goes on in files, and the operation is not ended for it.
#[test]
fn a_table_that_finds_no_memory_left_goes_on_in_files() {
    let parts: Vec<_> =
        (0..40).map(|n| raw(&doc! { "_id": n, "x": n % 4, "text": "x".repeat(200_000) })).collect();
    let shared = MemoryBudget::new(8 << 20);
    let held = OperationContext::new(Allowance { shared: Some(shared.clone()), ..Allowance::default() })
        .reserve(3 << 20)
        .expect("nothing else is held");
    let files = Files::default();
    let operation = files.operation_of(Allowance { shared: Some(shared.clone()), ..Allowance::default() });
    let stages = [by_fields(), doc! { "$unwind": "$c" }, doc! { "$project": { "n": "$c._id" } }];
    let found = run(&stages, &[doc! { "a": 3 }], &parts, &operation).expect("joined");
    let numbers: Vec<i32> = found.iter().map(|found| found.get_i32("n").expect("a number")).collect();
    assert_eq!(numbers, (0..10).map(|n| 4 * n + 3).collect::<Vec<_>>());
    assert!(files.made() > 0);
    assert_eq!(operation.bytes_reserved(), 0);
    drop((held, operation));
    assert_eq!(shared.taken(), 0);
}

/// Memory that others hold stays short, and so each of the few runs has what a small memory holds.
#[test]
fn a_lasting_lack_of_memory_makes_few_runs() {
    let parts: Vec<_> = (0..30_000).map(|n| raw(&doc! { "_id": n, "x": n })).collect();
    let shared = MemoryBudget::new(16 << 20);
    let allowance = || Allowance { shared: Some(shared.clone()), ..Allowance::default() };
    let held = OperationContext::new(allowance()).reserve(13 << 20).expect("nothing else is held");
    let files = Files::default();
    let operation = files.operation_of(allowance());
    let found = run(&[by_fields()], &[doc! { "a": 29_999 }, doc! { "a": 7 }], &parts, &operation);
    let ids = |document: &RawDocumentBuf| {
        let found = document.get_array("c").expect("it").into_iter().map(|found| found.expect("it"));
        let found = found.map(|found| found.as_document().expect("it").get_i32("_id").expect("it"));
        found.collect::<Vec<_>>()
    };
    assert_eq!(found.expect("joined").iter().map(ids).collect::<Vec<_>>(), [[29_999], [7]]);
    assert!((2..20).contains(&operation.spills()), "{}", operation.spills());
    drop(held);
}
