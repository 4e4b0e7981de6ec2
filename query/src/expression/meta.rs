//! `$meta`: what is known of a document besides its fields. Here it is the key by which it was found, and the id of its record.
//!
//! A keyword becomes a variable whose name no text of an expression can have. Where documents come from a search that tells their
//! metadata, these variables are defined, and get their values for each document; everywhere else `$meta` is refused.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, PathStart};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::expression::variables::Variables;
use crate::raw::Fields;
use crate::registry::Registry;
use crate::value::elements;

/// What is known of a document besides its fields.
///
/// ```
/// use bson::{RawBson, rawdoc};
/// use cairndb_query::expression::{Expression, Metadata, Variables};
///
/// let mut variables = Variables::default().with_metadata();
/// let shown = rawdoc! { "shown": { "$meta": "recordId" } };
/// let expression = Expression::parse(shown.get("shown").unwrap().unwrap(), &variables)?;
/// variables.set_metadata(Some(Metadata { record_id: Some(RawBson::Int32(7)), ..Metadata::default() }));
/// assert_eq!(expression.evaluate(&rawdoc! { "n": 1 }, &variables)?, Some(RawBson::Int32(7)));
/// # Ok::<(), cairndb_query::expression::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The key of the index by which the document was found. Absent if it was found by none.
    pub index_key: Option<RawDocumentBuf>,
    /// The id of the record.
    pub record_id: Option<RawBson>,
}

/// Whether an operand, or anything in it, is `$meta`: then the documents need their metadata. It may be a text that only looks so.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_query::expression::reads_metadata;
///
/// assert!(reads_metadata(&rawdoc! { "key": { "$meta": "indexKey" } }));
/// assert!(!reads_metadata(&rawdoc! { "meta": 1 }));
/// ```
pub fn reads_metadata(operand: &RawDocument) -> bool {
    // Of bytes that are malformed something else is refused. The others were validated, which bounds how deep this goes.
    Fields::of(operand)
        .flatten()
        .any(|field| field.name() == OPERATOR || field.value().is_ok_and(|value| value_reads_metadata(value)))
}

pub(super) const OPERATOR: &str = "$meta";

/// The names of the variables. A space is in no name that can be written.
const INDEX_KEY: &str = "the key of the index";
const RECORD_ID: &str = "the id of the record";

/// The keywords, each with its variable if there is such metadata here.
const KEYWORDS: Registry<Option<&str>> = Registry::new(&[
    ("geoNearDistance", None),
    ("geoNearPoint", None),
    ("indexKey", Some(INDEX_KEY)),
    ("randVal", None),
    ("recordId", Some(RECORD_ID)),
    ("score", None),
    ("scoreDetails", None),
    ("searchHighlights", None),
    ("searchScore", None),
    ("searchScoreDetails", None),
    ("searchSequenceToken", None),
    ("sortKey", None),
    ("stream", None),
    ("textScore", None),
    ("timeseriesBucketMaxTime", None),
    ("timeseriesBucketMinTime", None),
    ("vectorSearchScore", None),
]);

/// Parses `$meta`, whose operand is a keyword.
pub(super) fn parse(
    parser: Parser<'_>,
    operator: &'static str,
    operand: RawBsonRef<'_>,
) -> Result<Node, Error> {
    let wrong = |expected, code| {
        let found = Value::Borrowed(operand).describe();
        let fault = Fault::WrongValue { argument: "the argument", expected, found };
        Error::Argument { operator, fault, code }
    };
    let keyword = operand.as_str().ok_or_else(|| wrong("a string", Code::META_TYPE))?;
    // All is decided here, so that no evaluation can fail.
    match KEYWORDS.get(keyword) {
        None => Err(wrong("a keyword of MongoDB", Code::META_KEYWORD)),
        Some(None) => Err(Error::UnsupportedUse { operator, feature: format!("'{keyword}'") }),
        Some(Some(variable)) if parser.variables().has_metadata() => {
            Ok(Node::Path(PathStart::User((*variable).to_owned()), Vec::new()))
        }
        Some(Some(_)) => {
            let feature = format!("'{keyword}' outside of a projection, $project, $set and $replaceWith");
            Err(Error::UnsupportedUse { operator, feature })
        }
    }
}

impl Variables {
    /// Lets `$meta` be used: documents have no metadata until [`set_metadata`](Self::set_metadata) tells it.
    #[must_use]
    pub fn with_metadata(mut self) -> Self {
        self.set_metadata(None);
        self
    }

    /// Whether `$meta` can be used.
    pub fn has_metadata(&self) -> bool {
        self.value(RECORD_ID).is_some()
    }

    /// Sets the metadata of the document that is evaluated next.
    pub fn set_metadata(&mut self, metadata: Option<Metadata>) {
        let Metadata { index_key, record_id } = metadata.unwrap_or_default();
        // Both are set each time, so that neither keeps what the document before had.
        let value = |value: Option<RawBson>| value.map_or(Value::Missing, Value::computed);
        self.define(INDEX_KEY, value(index_key.map(RawBson::Document)));
        self.define(RECORD_ID, value(record_id));
    }

    /// The variables without metadata: for what is evaluated over documents that have none.
    pub(crate) fn without_metadata(&self) -> Self {
        let mut variables = self.clone();
        if self.has_metadata() {
            variables.undefine(INDEX_KEY);
            variables.undefine(RECORD_ID);
        }
        variables
    }
}

fn value_reads_metadata(value: RawBsonRef<'_>) -> bool {
    if let Some(array) = value.as_array() {
        return elements(array).any(value_reads_metadata);
    }
    value.as_document().is_some_and(reads_metadata)
}
