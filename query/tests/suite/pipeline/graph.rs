//! `$graphLookup` against a naive search that compares every document with every value, by an index and by a table; and
//! what a search may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Bson, Document, RawDocument, RawDocumentBuf, bson, doc};
use cairndb_query::expression::Variables;
use cairndb_query::operation::{Allowance, CancellationToken, OperationContext};
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::foreign::{Documents, Foreign};
use cairndb_query::pipeline::stream::Given;
use proptest::prelude::*;

use crate::pipeline::naive::reached;
use crate::pipeline::others::Others;
use crate::pipeline::{raw, raws, variables};

/// Runs stages over documents, with the nodes as every other collection.
fn search(
    stages: &[Document],
    documents: &[Document],
    nodes: Arc<Others>,
    variables: &Variables,
) -> Result<Vec<Document>, Error> {
    let pipeline = Pipeline::parse(&raws(stages), variables)?;
    let input = Given::new(raws(documents).into_iter().map(Ok::<_, Error>));
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = nodes;
    let found = pipeline.run_with(input, &foreign);
    found.map(|document| Ok(Document::try_from(document?).expect("a result is well-formed"))).collect()
}

fn value() -> impl Strategy<Value = Option<Bson>> {
    let scalars =
        [Bson::Null, bson!(0), bson!(1_i64), bson!(1.0), bson!(2), bson!(3), bson!("1"), bson!({ "x": 1 })];
    let scalar = prop::sample::select(scalars.to_vec());
    let array = prop::collection::vec(scalar.clone(), 0..3).prop_map(Bson::Array);
    let nested = array.clone().prop_map(|inner| Bson::Array(vec![inner, bson!(2)]));
    prop_oneof![
        6 => scalar.prop_map(Some),
        3 => array.prop_map(Some),
        1 => nested.prop_map(Some),
        1 => Just(None),
    ]
}

fn node() -> impl Strategy<Value = Document> {
    (value(), value(), 0..3).prop_map(|(to, next, k)| {
        let mut node = doc! { "k": k };
        node.extend(to.map(|to| ("to".to_owned(), to)));
        node.extend(next.map(|next| ("next".to_owned(), next)));
        node
    })
}

fn numbered(documents: Vec<Document>) -> Vec<Document> {
    let numbered = documents.into_iter().zip(0..).map(|(document, number)| {
        let mut numbered = doc! { "_id": number };
        numbered.extend(document);
        numbered
    });
    numbered.collect()
}

proptest! {
    #[test]
    fn a_search_reaches_what_a_naive_one_reaches(
        nodes in prop::collection::vec(node(), 0..12),
        starts in prop::collection::vec(value(), 1..4),
        depth_max in prop::option::of(0..4_i64),
        least in 0..2,
    ) {
        let nodes = numbered(nodes);
        let starts = numbered(starts.into_iter().map(|start| {
            start.map(|start| doc! { "a": start }).unwrap_or_default()
        }).collect());
        let mut stage = doc! {
            "from": "nodes", "startWith": "$a", "connectFromField": "next", "connectToField": "to", "as": "found",
            "depthField": "depth", "restrictSearchWithMatch": { "k": { "$gte": least } },
        };
        stage.extend(depth_max.map(|max| ("maxDepth".to_owned(), max.into())));
        let stage = doc! { "$graphLookup": stage };
        let expected: Vec<Document> = starts.iter().map(|start| {
            let mut joined = start.clone();
            joined.insert("found", reached(start.get("a"), &nodes, depth_max, least));
            joined
        }).collect();
        for is_indexed in [false, true] {
            let nodes = Others::reversed(raws(&nodes), is_indexed);
            let found = search(std::slice::from_ref(&stage), &starts, nodes, &variables()).expect("a search");
            prop_assert_eq!(&found, &expected, "indexed: {}", is_indexed);
        }
    }
}

fn along(field: &str) -> Document {
    doc! { "$graphLookup": {
        "from": "nodes", "startWith": 0, "connectFromField": field, "connectToField": "_id", "as": "found",
    } }
}

/// Searches from one document, with what an operation may use. Returns the number of documents reached.
fn reach(
    stage: Document,
    documents: Vec<RawDocumentBuf>,
    operation: &OperationContext,
) -> Result<usize, Error> {
    let variables = variables().within(operation.clone());
    let counted = doc! { "$project": { "n": { "$size": "$found" } } };
    let nodes = Others::new(documents, false);
    let found = search(&[stage, counted], &[doc! {}], nodes, &variables)?;
    let reached = found.first().and_then(|found| found.get_i32("n").ok()).expect("a number");
    Ok(usize::try_from(reached).expect("not negative"))
}

#[test]
fn a_chain_of_100_000_documents_is_followed_to_its_end() {
    let chain = (0..100_000).map(|id| raw(&doc! { "_id": id, "next": id + 1 })).collect();
    let operation = OperationContext::counting();
    assert_eq!(reach(along("next"), chain, &operation), Ok(100_000));
    // Each document is read, asked for and added, and no part of the work grows with what was found before.
    assert!(operation.steps_taken() < 2_000_000, "{} steps", operation.steps_taken());
}

#[test]
fn a_graph_in_which_every_document_leads_to_every_other_costs_its_links() {
    let all: Vec<i32> = (0..700).collect();
    let graph = all.iter().map(|id| raw(&doc! { "_id": id, "next": &all })).collect();
    let operation = OperationContext::counting();
    assert_eq!(reach(along("next"), graph, &operation), Ok(700));
    assert!(operation.steps_taken() < 2 * 700 * 700, "{} steps", operation.steps_taken());
}

#[test]
fn a_tree_of_two_branches_each_does_not_multiply_by_its_ways() {
    // Two ways from each document to the next: 2^200 ways to the end.
    let ladder = (0..200).map(|id| raw(&doc! { "_id": id, "next": [id + 1, id + 1, id + 2] })).collect();
    let operation = OperationContext::counting();
    assert_eq!(reach(along("next"), ladder, &operation), Ok(200));
    assert!(operation.steps_taken() < 5_000, "{} steps", operation.steps_taken());
}

#[test]
fn what_is_reached_fits_one_document() {
    let text = "x".repeat(1 << 20);
    let chain = (0..20).map(|id| raw(&doc! { "_id": id, "next": id + 1, "text": &text })).collect();
    let error = reach(along("next"), chain, &OperationContext::counting()).expect_err("20 MiB");
    assert_eq!(error.code().number(), 10_334, "{error}");
}

#[test]
fn the_table_is_memory_of_the_stage_and_of_the_operation() {
    let text = "x".repeat(4 << 20);
    let many: Vec<_> = (0..30).map(|id| raw(&doc! { "_id": id, "text": &text })).collect();
    let error = reach(along("next"), many.clone(), &OperationContext::counting()).expect_err("120 MiB");
    assert_eq!(error.code().number(), 292, "{error}");
    let allowance = Allowance { bytes: Some(10 << 20), ..Allowance::default() };
    let error =
        reach(along("next"), many, &OperationContext::new(allowance)).expect_err("10 MiB are allowed");
    assert_eq!(error.code().number(), 146, "{error}");
}

#[test]
fn a_search_ends_when_its_operation_does() {
    let token = CancellationToken::new();
    let allowance = Allowance { tokens: vec![token.clone()], ..Allowance::default() };
    let operation = OperationContext::new(allowance);
    operation.look().expect("nothing ended it yet");
    token.cancel();
    let chain = (0..100_000).map(|id| raw(&doc! { "_id": id, "next": id + 1 })).collect();
    let error = reach(along("next"), chain, &operation).expect_err("it was cancelled");
    assert_eq!(error.code().number(), 11_601, "{error}");
}

/// The number of times that the other collection is read as a whole by a pipeline of `$lookup` that is run for ten
/// documents.
fn scans(restriction: &Document) -> usize {
    let counting = Arc::new(CountedScans { scans: AtomicUsize::new(0) });
    let graph = doc! { "$graphLookup": {
        "from": "nodes", "startWith": "$$start", "connectFromField": "next", "connectToField": "_id", "as": "found",
        "restrictSearchWithMatch": restriction,
    } };
    let inner = vec![doc! { "$documents": [{}] }, doc! { "$facet": { "f": [graph] } }];
    let outer = doc! { "$lookup": { "let": { "start": "$_id" }, "pipeline": inner, "as": "c" } };
    let pipeline = Pipeline::parse(&raws(&[outer]), &variables()).expect("a pipeline");
    let starts = (0..10).map(|id| Ok::<_, Error>(raw(&doc! { "_id": id })));
    let foreign: Arc<dyn Foreign<Error> + Send + Sync> = Arc::clone(&counting) as _;
    let found: Vec<_> =
        pipeline.run_with(Given::new(starts), &foreign).map(|found| found.expect("a document")).collect();
    for (id, found) in found.iter().enumerate() {
        let found = Document::try_from(&**found).expect("a result is well-formed");
        assert!(found.to_string().contains(&format!(r#""reached": {id}"#)), "{found}");
    }
    counting.scans.load(Ordering::Relaxed)
}

/// A collection without an index that counts how often it is read.
struct CountedScans {
    scans: AtomicUsize,
}

impl Foreign<Error> for CountedScans {
    fn find(&self, _: &str, _: &RawDocument, _: &Variables) -> Result<Option<Documents<Error>>, Error> {
        Ok(None)
    }

    fn scan(&self, _: &str, _: &Variables) -> Result<Documents<Error>, Error> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        let nodes = (0..10).map(|id| Ok(raw(&doc! { "_id": id, "reached": id })));
        Ok(Box::new(Given::new(nodes)))
    }
}

#[test]
fn a_pipeline_of_lookup_reads_the_other_collection_once() {
    assert_eq!(scans(&doc! { "_id": { "$gte": 0 } }), 1);
    // The reachable documents are another set for each document.
    assert_eq!(scans(&doc! { "$expr": { "$gte": ["$_id", "$$start"] } }), 10);
}
