//! No pipeline and no document panics; results are well-formed; a second run gives the same; what is left to the
//! reader of the documents gives what the whole pipeline gives; and joins, searches of graphs, windows and fillings give what
//! naive versions of them give.

#![no_main]

#[path = "../../query/tests/suite/pipeline/naive.rs"]
mod naive;

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawBson, RawBsonRef, RawDocument, doc};
use cairndb_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use query::expression::Variables;
use query::filter::{Arrays, Filter};
use query::pipeline::Pipeline;
use query::pipeline::error::Error;
use query::pipeline::foreign::{Documents, Foreign};
use query::pipeline::stream::Given;
use query::sort::Sort;
use query::sort::collect::Sorter;

const STAGES: [&str; 32] = [
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
    "$nothing",
];
const WINDOW_OPERATORS: [&str; 20] = [
    "$addToSet",
    "$avg",
    "$covariancePop",
    "$derivative",
    "$documentNumber",
    "$first",
    "$integral",
    "$linearFill",
    "$locf",
    "$max",
    "$minN",
    "$push",
    "$rank",
    "$shift",
    "$stdDevSamp",
    "$sum",
    "$median",
    "$percentile",
    "$concatArrays",
    "$setUnion",
];
const NAMES: [&str; 52] = [
    "$addToSet",
    "$avg",
    "$bottom",
    "$bottomN",
    "$count",
    "$first",
    "$firstN",
    "$last",
    "$lastN",
    "$max",
    "$maxN",
    "$mergeObjects",
    "$min",
    "$minN",
    "$push",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$top",
    "$topN",
    "$add",
    "$concatArrays",
    "$eq",
    "$expr",
    "$gt",
    "$literal",
    "$median",
    "_id",
    "a",
    "a.b",
    "a.b.c",
    "b",
    "c",
    "boundaries",
    "count",
    "default",
    "groupBy",
    "includeArrayIndex",
    "input",
    "n",
    "newRoot",
    "output",
    "path",
    "preserveNullAndEmptyArrays",
    "size",
    "sortBy",
    "storageStats",
    "",
    "$percentile",
    "$setUnion",
    "method",
    "p",
];
const TEXTS: [&str; 15] = [
    "$a",
    "$b",
    "$a.b",
    "$_id",
    "$$ROOT",
    "$$NOW",
    "$$REMOVE",
    "a",
    "b",
    "a.b",
    "c.d",
    "",
    "approximate",
    "continuous",
    "discrete",
];
const DEPTH_MAX: u32 = 6;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    if input.byte() == 0xff {
        return check_malformed(input.rest());
    }
    let stages: Vec<_> = (0..input.byte() % 6).map(|_| raw(&stage(&mut input))).collect();
    let documents: Vec<_> = (0..input.byte() % 8).map(|_| raw(&fields(&mut input, 2))).collect();
    // Read last, so that inputs that were found before it was there still mean the same.
    let others: Vec<_> = (0..input.byte() % 8).map(|_| raw(&fields(&mut input, 2))).collect();
    check_join(&documents, &others);
    check(&stages, &documents, &others);
    check_graph(&mut input);
    check_windows(&mut input);
});

/// The other collection of all stages, whatever its name is.
struct Others(Vec<RawDocumentBuf>);

impl Foreign<Error> for Others {
    /// Finds as an index on `a` would: only documents within the bounds of the filter are looked at. Without bounds everything
    /// is read.
    fn find(
        &self,
        _: &str,
        filter: &RawDocument,
        variables: &Variables,
    ) -> Result<Option<Documents<Error>>, Error> {
        let Ok(parsed) = Filter::parse_with(filter, variables) else { return Ok(None) };
        let is_array =
            |document: &RawDocumentBuf| matches!(document.get("a"), Ok(Some(RawBsonRef::Array(_))));
        let arrays = if self.0.iter().any(is_array) { Arrays::Possible } else { Arrays::Absent };
        let bounds = parsed.intervals("a", arrays);
        if bounds.is_all() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for document in &self.0 {
            let is_within = match document.get("a") {
                Ok(Some(RawBsonRef::Array(array))) => {
                    let mut entries = array.into_iter().map_while(Result::ok).peekable();
                    let is_empty = entries.peek().is_none();
                    entries.any(|entry| bounds.contains(entry))
                        || is_empty && bounds.contains(RawBsonRef::Undefined)
                }
                Ok(Some(value)) => bounds.contains(value),
                Ok(None) => bounds.contains(RawBsonRef::Null),
                Err(_) => return Ok(None),
            };
            // A filter that fails for a document is left to the pipeline, which fails for it too.
            let Ok(is_match) = parsed.try_matches(document, variables) else { return Ok(None) };
            assert!(is_within || !is_match, "{filter:?} has no bounds for {document:?}: {bounds:?}");
            if is_match {
                found.push(document.clone());
            }
        }
        Ok(Some(Box::new(Given::new(found.into_iter().map(Ok)))))
    }

    fn scan(&self, _: &str, _: &Variables) -> Result<Documents<Error>, Error> {
        Ok(Box::new(Given::new(self.0.clone().into_iter().map(Ok))))
    }
}

/// Compares a `$lookup` by equality with one that compares every document with every other one.
fn check_join(documents: &[RawDocumentBuf], others: &[RawDocumentBuf]) {
    let decoded = |all: &[RawDocumentBuf]| {
        all.iter().map(|document| Document::try_from(document).ok()).collect::<Option<Vec<_>>>()
    };
    let (Some(local), Some(foreign)) = (decoded(documents), decoded(others)) else { return };
    // It is a legacy null, with rules of its own.
    let is_legacy = |document: &Document| document.to_string().contains("undefined");
    if local.iter().chain(&foreign).any(is_legacy) {
        return;
    }
    let lookup =
        doc! { "$lookup": { "from": "other", "localField": "a", "foreignField": "b", "as": "found" } };
    let pipeline = Pipeline::parse(&[raw(&lookup)], &Variables::default()).expect("a pipeline");
    // The found documents may be too large for a document.
    let Ok(joined) = run(pipeline, documents, others) else { return };
    assert_eq!(joined.len(), local.len());
    for (joined, local) in joined.iter().zip(&local) {
        let finds = |foreign: &&RawDocumentBuf| {
            let foreign = Document::try_from(*foreign).unwrap_or_default();
            naive::joins(local.get("a"), foreign.get("b"))
        };
        let found = joined.get_array("found").expect("an array").into_iter();
        let found: Vec<_> =
            found.map(|found| found.expect("it").as_document().expect("one").to_owned()).collect();
        assert_eq!(found, others.iter().filter(finds).cloned().collect::<Vec<_>>());
    }
}

/// Compares a `$graphLookup` with one that compares every document with every value.
fn check_graph(input: &mut Input<'_>) {
    let count = i32::from(input.byte() % 12);
    let nodes: Vec<Document> = (0..count).map(|id| node(input, id)).collect();
    let start = node(input, 0).remove("next");
    let (least, depth_max) =
        (i32::from(input.byte() % 2), Some(i64::from(input.byte() % 5)).filter(|max| *max < 4));
    let mut search = doc! {
        "from": "nodes", "startWith": "$a", "connectFromField": "next", "connectToField": "to", "as": "found",
        "depthField": "depth", "restrictSearchWithMatch": { "k": { "$gte": least } },
    };
    search.extend(depth_max.map(|max| ("maxDepth".to_owned(), max.into())));
    let document = start.clone().map(|start| doc! { "a": start }).unwrap_or_default();
    let found = run_stage(doc! { "$graphLookup": search }, &[document], &nodes);
    let found = found.first().and_then(|found| found.get_array("found").ok()).expect("an array");
    let reached = naive::reached(start.as_ref(), &nodes, depth_max, least);
    assert_eq!(*found, reached.into_iter().map(Bson::Document).collect::<Vec<_>>());
}

/// Compares windows and fillings with those of a naive version.
fn check_windows(input: &mut Input<'_>) {
    let count = i32::from(input.byte() % 24);
    let rows: Vec<Document> = (0..count).map(|n| row(input, n)).collect();
    let operator =
        naive::OPERATORS.get(usize::from(input.byte()) % naive::OPERATORS.len()).expect("one of them");
    let mut bound = || Some(i64::from(input.byte() % 10) - 4).filter(|bound| *bound < 5);
    let (one, other) = (bound(), bound());
    let (lower, upper) = match (one, other) {
        (Some(one), Some(other)) => (Some(one.min(other)), Some(one.max(other))),
        bounds => bounds,
    };
    let window = if input.byte() & 1 == 0 {
        naive::Window::Documents(lower, upper)
    } else {
        naive::Window::Range(lower, upper)
    };
    let output = doc! { *operator: naive::argument(operator), "window": window.given() };
    let windows = doc! { "$setWindowFields": { "partitionBy": { "$add": ["$k", 0] }, "sortBy": { "t": 1 }, "output": { "x": output } } };
    let mut found = run_stage(windows, &rows, &[]).into_iter();
    let line = doc! { "$fill": { "partitionByFields": ["k"], "sortBy": { "n": 1 }, "output": { "v": { "method": "linear" } } } };
    let mut lined = run_stage(line, &rows, &[]).into_iter();
    for sorted in naive::partitions(&rows) {
        for current in 0..sorted.len() {
            let inside: Vec<&Document> = sorted
                .iter()
                .enumerate()
                .filter(|(other, _)| window.holds(&sorted, current, *other))
                .map(|(_, row)| row)
                .collect();
            let mut x = found.next().and_then(|mut found| found.remove("x")).expect("it was computed");
            // The order of a set is not specified.
            if let (Bson::Array(values), "$addToSet" | "$setUnion") = (&mut x, *operator) {
                values.sort_by(naive::compare);
            }
            let expected = naive::of_window(operator, &inside);
            assert!(naive::is_same(&x, &expected), "{operator} {window:?}: {x} and not {expected}");
        }
    }
    for k in 0..3 {
        let of = |row: &&Document| row.get_i32("k").is_ok_and(|of| of == k);
        let sorted: Vec<&Document> = rows.iter().filter(of).collect();
        for current in 0..sorted.len() {
            let v = lined.next().and_then(|mut lined| lined.remove("v")).expect("it was filled");
            let expected = naive::line(&sorted, current);
            assert!(naive::is_same(&v, &expected), "{v} and not {expected}");
        }
    }
    assert!(found.next().is_none() && lined.next().is_none());
}

/// Runs one stage that takes what it is given.
fn run_stage(stage: Document, documents: &[Document], others: &[Document]) -> Vec<Document> {
    let raws = |all: &[Document]| all.iter().map(raw).collect::<Vec<_>>();
    let pipeline = Pipeline::parse(&[raw(&stage)], &Variables::default()).expect("a pipeline");
    let found = run(pipeline, &raws(documents), &raws(others)).expect("a result");
    found.iter().map(|document| Document::try_from(document).expect("a document")).collect()
}

/// A document of a graph: what it is found by, and what it leads to, each anything of a few values, or nothing.
fn node(input: &mut Input<'_>, id: i32) -> Document {
    let mut node = doc! { "_id": id, "k": i32::from(input.byte() % 3) };
    for name in ["to", "next"] {
        let value = match input.byte() % 8 {
            0 => continue,
            1 | 2 => Bson::Array((0..input.byte() % 3).map(|_| link(input)).collect()),
            3 => Bson::Array(vec![Bson::Array(vec![link(input)]), Bson::Int32(2)]),
            _ => link(input),
        };
        node.insert(name, value);
    }
    node
}

fn link(input: &mut Input<'_>) -> Bson {
    match input.byte() % 8 {
        0 => Bson::Null,
        1 => Bson::Int64(1),
        2 => Bson::Double(1.0),
        3 => Bson::from("1"),
        4 => doc! { "x": 1 }.into(),
        number => Bson::Int32(i32::from(number) - 5),
    }
}

/// A row of a table with partitions `k`, times `t`, and values `v` that may be null or missing.
fn row(input: &mut Input<'_>, n: i32) -> Document {
    let mut row = doc! { "n": n, "k": i32::from(input.byte() % 3), "t": i64::from(input.byte() % 12) };
    match input.byte() % 12 {
        0 => {}
        1 => drop(row.insert("v", Bson::Null)),
        number => drop(row.insert("v", i32::from(number) - 7)),
    }
    row
}

fn check(stages: &[RawDocumentBuf], documents: &[RawDocumentBuf], others: &[RawDocumentBuf]) {
    let variables = Variables::default();
    let mut pipeline = match Pipeline::parse(stages, &variables) {
        Ok(pipeline) => pipeline,
        Err(error) => return check_error(&error),
    };
    let found = match run(pipeline.clone(), documents, others) {
        Ok(found) => found,
        Err(error) => return check_error(&error),
    };
    for document in &found {
        assert!(index::validate::validate(document.as_bytes()).is_ok());
    }
    if draws_sample(stages) {
        return;
    }
    assert!(run(pipeline.clone(), documents, others).is_ok_and(|again| again == found));
    let leading = pipeline.take_leading();
    let filter = Filter::parse_with(&leading.filter, &variables).expect("it was read before");
    let matching = documents.iter().filter(|document| filter.try_matches(document, &variables) == Ok(true));
    let mut matching: Vec<RawDocumentBuf> = matching.cloned().collect();
    if let Some(sort) = &leading.sort {
        let mut sorter = Sorter::new(Sort::parse(sort).expect("it was read before"), None, 1 << 26);
        for document in &matching {
            // Sorted by the pipeline, so it can be sorted.
            if sorter.push(document, || document.clone()).is_err() {
                return;
            }
        }
        matching = sorter.into_sorted_iter().collect();
    }
    let skip = usize::try_from(leading.skip).unwrap_or(usize::MAX);
    let limit = leading.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let shown: Vec<_> = matching.into_iter().skip(skip).take(limit).collect();
    assert!(run(pipeline, &shown, others).is_ok_and(|planned| planned == found));
}

/// Whether a stage, or a part of one, draws a sample.
fn draws_sample(stages: &[RawDocumentBuf]) -> bool {
    stages
        .iter()
        .filter_map(|stage| Document::try_from(stage).ok())
        .any(|stage| stage.to_string().contains("$sample"))
}

fn run(
    pipeline: Pipeline,
    documents: &[RawDocumentBuf],
    others: &[RawDocumentBuf],
) -> Result<Vec<RawDocumentBuf>, Error> {
    let others: Arc<dyn Foreign<Error> + Send + Sync> = Arc::new(Others(others.to_vec()));
    pipeline.run_with(Given::new(documents.iter().cloned().map(Ok::<_, Error>)), &others).collect()
}

fn check_error(error: &Error) {
    assert!(error.code().number() > 0);
    assert!(error.to_string().len() < 4_000, "{error}");
}

/// Bytes as stage and as document, framed so that the outside is whole.
fn check_malformed(elements: &[u8]) {
    let Ok(length) = i32::try_from(elements.len() + 5) else { return };
    let bytes = [length.to_le_bytes().as_slice(), elements, &[0]].concat();
    let Ok(document) = RawDocument::from_bytes(&bytes) else { return };
    let documents = [document.to_owned(), document.to_owned()];
    let variables = Variables::default();
    if let Ok(pipeline) = Pipeline::parse(&[document.to_owned()], &variables) {
        let _ = run(pipeline, &documents, &documents);
    }
    for stage in [
        doc! { "$unwind": { "path": "$a", "includeArrayIndex": "b.c", "preserveNullAndEmptyArrays": true } },
        doc! { "$group": { "_id": "$a", "x": { "$push": "$$ROOT" }, "y": { "$mergeObjects": "$b" } } },
        doc! { "$facet": { "x": [{ "$sort": { "a": 1, "b.c": -1 } }], "y": [{ "$sortByCount": "$a" }] } },
        doc! { "$bucket": { "groupBy": "$a", "boundaries": [0, 10], "default": "x" } },
        doc! { "$lookup": { "from": "other", "localField": "a", "foreignField": "b.c", "as": "a.x" } },
        doc! { "$unionWith": { "coll": "other", "pipeline": [{ "$match": { "a": 1 } }] } },
    ] {
        let pipeline = Pipeline::parse(&[raw(&stage)], &variables).expect("a pipeline");
        let _ = run(pipeline, &documents, &documents);
    }
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

fn pick(input: &mut Input<'_>, list: &[&str]) -> String {
    list.get(usize::from(input.byte()) % list.len()).copied().unwrap_or_default().to_owned()
}

/// Some stages as they should be, so that the fuzzer gets behind the parser, and some of anything.
fn stage(input: &mut Input<'_>) -> Document {
    match input.byte() % 19 {
        0 => doc! { "$match": fields(input, 3) },
        1 => {
            doc! { "$sort": { pick(input, &["a", "b", "a.b", "_id"]): if input.byte() & 1 == 0 { 1 } else { -1 } } }
        }
        2 => doc! { "$skip": i32::from(input.byte() % 6) },
        3 => doc! { "$limit": i32::from(input.byte() % 6) + 1 },
        4 => doc! { "$unwind": pick(input, &["$a", "$b", "$a.b"]) },
        5 => doc! { "$group": { "_id": value(input, 3), "x": { pick(input, &NAMES): value(input, 3) } } },
        6 => doc! { "$group": { "_id": pick(input, &TEXTS), "x": { pick(input, &NAMES): {
            "n": i32::from(input.byte() % 4), "input": value(input, 4), "output": value(input, 4), "sortBy": { "a": 1 },
        } } } },
        7 => doc! { "$facet": { "x": [stage(input)], "y": [] } },
        8 => doc! { "$set": fields(input, 3) },
        9 => doc! { "$sortByCount": pick(input, &TEXTS) },
        10 => {
            let mut output = doc! { pick(input, &WINDOW_OPERATORS): value(input, 4) };
            if input.byte() & 1 == 0 {
                output.insert("window", window(input));
            }
            let mut stage =
                doc! { "output": { "x": output }, "sortBy": { pick(input, &["a", "b", "_id"]): 1 } };
            if input.byte() & 1 == 0 {
                stage.insert("partitionBy", value(input, 4));
            }
            doc! { "$setWindowFields": stage }
        }
        11 => doc! { "$fill": {
            "sortBy": { pick(input, &["a", "_id"]): 1 }, "partitionByFields": [pick(input, &["b", "a.b"])],
            "output": { "a": { "method": pick(input, &["locf", "linear"]) }, "b": { "value": value(input, 4) } },
        } },
        12 => doc! { "$densify": { "field": pick(input, &["a", "b"]), "partitionByFields": ["c"],
            "range": { "step": value(input, 4), "bounds": pick(input, &["full", "partition"]) },
        } },
        13 => doc! { "$bucketAuto": {
            "groupBy": value(input, 4), "buckets": i32::from(input.byte()), "granularity": pick(input, &["R5", "POWERSOF2"]),
        } },
        14 => doc! { "$graphLookup": {
            "from": "other", "startWith": value(input, 4), "connectFromField": pick(input, &["a", "a.b"]), "connectToField": "b",
            "as": pick(input, &["a", "c.d"]), "maxDepth": value(input, 5), "restrictSearchWithMatch": fields(input, 3),
        } },
        15 => doc! { "$lookup": {
            "from": "other", "localField": pick(input, &["a", "b", "a.b"]), "foreignField": pick(input, &["a", "b", "a.b"]),
            "as": pick(input, &["a", "c.d", "x"]),
        } },
        16 => doc! { "$lookup": {
            "from": "other", "let": { "v": value(input, 4) }, "as": pick(input, &["a", "c.d", "x"]),
            "pipeline": [{ "$match": { "$expr": condition(input) } }, stage(input)],
        } },
        17 => doc! { "$unionWith": { "coll": "other", "pipeline": [stage(input)] } },
        _ => Document::from_iter([(pick(input, &STAGES), value(input, 0))]),
    }
}

/// A comparison with the variable of a `$lookup`, or several.
fn condition(input: &mut Input<'_>) -> Document {
    let operator = pick(input, &["$eq", "$eq", "$gt", "$gte", "$lt", "$lte", "$in"]);
    let field = pick(input, &["$a", "$b", "$a.b", "$$ROOT.b"]);
    let operand = pick(input, &["$$v", "$$v.b", "$b"]);
    match input.byte() % 4 {
        0 => doc! { operator: [operand, field] },
        1 => {
            doc! { pick(input, &["$and", "$or"]): [{ operator: [field, operand] }, condition_of_two(input)] }
        }
        _ => doc! { operator: [field, operand] },
    }
}

fn condition_of_two(input: &mut Input<'_>) -> Document {
    doc! { pick(input, &["$lt", "$gte", "$eq"]): ["$a", value(input, 4)] }
}

/// A window whose bounds may be rejected.
fn window(input: &mut Input<'_>) -> Document {
    let mut bound = || match input.byte() % 8 {
        0 => Bson::from("unbounded"),
        1 => Bson::from("current"),
        distance => Bson::Int32(i32::from(distance) - 5),
    };
    let bounds = [bound(), bound()];
    let kind = if input.byte() & 1 == 0 { "documents" } else { "range" };
    doc! { kind: bounds.to_vec() }
}

fn fields(input: &mut Input<'_>, depth: u32) -> Document {
    let count = input.byte() % 4;
    (0..count).map(|_| (pick(input, &NAMES), value(input, depth))).collect()
}

fn value(input: &mut Input<'_>, depth: u32) -> Bson {
    match input.byte() % 10 {
        0..=2 if depth < DEPTH_MAX => Bson::Document(fields(input, depth + 1)),
        3 | 4 if depth < DEPTH_MAX => {
            let count = input.byte() % 4;
            Bson::Array((0..count).map(|_| value(input, depth + 1)).collect())
        }
        5 => Bson::Int32(i32::from(input.byte()) % 5 - 1),
        6 => Bson::Boolean(input.byte() & 1 == 1),
        7 | 8 => Bson::String(pick(input, &TEXTS)),
        _ => Bson::try_from(RawBson::from(input.value().get())).unwrap_or(Bson::Null),
    }
}
