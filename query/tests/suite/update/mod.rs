//! Updates from outside: what operators make of documents, what they reject, and what an upsert starts from.

mod apply;
mod arrays;
mod describe;
mod fields;
mod model;
mod pipeline;
mod positional;
mod refusal;
mod upsert;

use bson::{Bson, DateTime, Decimal128, Document, RawDocumentBuf, Timestamp};
use cairndb_query::filter::Filter;
use cairndb_query::update::error::Error;
use cairndb_query::update::{Context, Phase, Update};

const NOW: DateTime = DateTime::from_millis(1_234_567);
const STAMP: Timestamp = Timestamp { time: 1_234, increment: 7 };

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().expect("a decimal"))
}

fn context(phase: Phase) -> Context {
    Context::new(phase, NOW, STAMP)
}

fn apply(update: &Document, document: &Document) -> Result<Option<Document>, Error> {
    let parsed = Update::parse(&raw(update), &[])?;
    let changed = parsed.apply(&raw(document), &context(Phase::Modify))?;
    Ok(changed.map(|changed| Document::try_from(&changed).expect("a well-formed result")))
}

/// Checks a result byte for byte, types and order included.
#[track_caller]
fn check(update: &Document, before: &Document, after: &Document) {
    match apply(update, before) {
        Ok(Some(changed)) => assert_eq!(raw(&changed), raw(after), "{update} of {before} gives {changed}"),
        Ok(None) => panic!("{update} leaves {before} as it is"),
        Err(error) => panic!("{update} of {before} is refused: {error}"),
    }
}

#[track_caller]
fn check_unchanged(update: &Document, document: &Document) {
    match apply(update, document) {
        Ok(None) => {}
        Ok(Some(changed)) => panic!("{update} of {document} gives {changed}"),
        Err(error) => panic!("{update} of {document} is refused: {error}"),
    }
}

/// Checks the code and the text of an error, be it found with or without the document.
#[track_caller]
fn check_error(update: &Document, document: &Document, code: i32, text: &str) {
    match apply(update, document) {
        Ok(changed) => panic!("{update} of {document} gives {changed:?}"),
        Err(error) => {
            assert_eq!(
                (error.code().number(), error.to_string().as_str()),
                (code, text),
                "{update} of {document}"
            );
        }
    }
}

#[track_caller]
fn filter(filter: &Document) -> Filter {
    Filter::parse(&raw(filter)).expect("a filter")
}

fn regex(pattern: &str) -> Bson {
    let text = |text: &str| bson::raw::CString::try_from(text.to_owned()).expect("no zero");
    Bson::RegularExpression(bson::Regex { pattern: text(pattern), options: text("") })
}
