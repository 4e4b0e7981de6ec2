//! Pipelines from outside: what they give, what they reject, what they leave to others, and what they hold.

mod graph;
mod leading;
mod limits;
mod lookup;
mod model;
mod naive;
mod others;
mod percentiles;
mod prefix;
mod refusal;
mod stages;
mod unwound;
mod windows;

use bson::{Bson, DateTime, Document, RawDocumentBuf};
use cairndb_query::expression::Variables;
use cairndb_query::pipeline::Pipeline;
use cairndb_query::pipeline::error::Error;
use cairndb_query::pipeline::stream::Given;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

fn raws(documents: &[Document]) -> Vec<RawDocumentBuf> {
    documents.iter().map(raw).collect()
}

fn variables() -> Variables {
    let variables = Variables::new(DateTime::from_millis(1_000));
    variables.with_let(&raw(&bson::doc! { "five": 5 })).expect("a variable")
}

fn parse(stages: &[Document]) -> Result<Pipeline, Error> {
    Pipeline::parse(&raws(stages), &variables())
}

fn run_parsed(pipeline: Pipeline, documents: &[RawDocumentBuf]) -> Result<Vec<Document>, Error> {
    let input = Given::new(documents.iter().cloned().map(Ok::<_, Error>));
    let output = pipeline.run(input);
    output.map(|document| Ok(Document::try_from(document?).expect("a result is well-formed"))).collect()
}

fn run(stages: &[Document], documents: &[Document]) -> Result<Vec<Document>, Error> {
    run_parsed(parse(stages)?, &raws(documents))
}

#[track_caller]
fn check(stages: &[Document], documents: &[Document], expected: &[Document]) {
    match run(stages, documents) {
        Ok(found) => assert_eq!(found, expected, "{stages:?}"),
        Err(error) => panic!("{stages:?} is refused: {error}"),
    }
}

#[track_caller]
fn check_error(stages: &[Document], documents: &[Document], code: i32, text: &str) {
    let error = run(stages, documents).expect_err("a pipeline that is refused");
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text), "{stages:?}");
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}
