//! Filters through the public API: what they match, what they reject, and which bounds they give.

mod bounds;
mod by_key;
mod entries;
mod expression;
mod failure;
mod implied;
mod matching;
mod model;
mod planner;
mod refusal;

use bson::{Bson, Decimal128, Document, RawDocumentBuf, Regex};
use cairndb_query::filter::Filter;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("a document that can be written")
}

#[track_caller]
fn parse(filter: &Document) -> Filter {
    match Filter::parse(&raw(filter)) {
        Ok(parsed) => parsed,
        Err(error) => panic!("{filter} is refused: {error}"),
    }
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse::<Decimal128>().expect("a decimal"))
}

fn regex(pattern: &str, options: &str) -> Bson {
    let text = |text: &str| bson::raw::CString::try_from(text.to_owned()).expect("no zero");
    Bson::RegularExpression(Regex { pattern: text(pattern), options: text(options) })
}

fn binary(bytes: &[u8]) -> Bson {
    Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() })
}
