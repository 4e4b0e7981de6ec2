//! `$meta`: what is known of a document besides its fields. Here it is the key by which it was found, the id of its record, what it
//! was sorted by, and the number by which it was drawn.
//!
//! A keyword becomes a variable whose name no text of an expression can have. Where documents come from a search that returns their
//! metadata, these variables are defined, and get their values for each document; everywhere else `$meta` is rejected.

use bson::raw::cstr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::expression::error::{Error, Fault};
use crate::expression::node::{Node, PathStart};
use crate::expression::parser::Parser;
use crate::expression::value::Value;
use crate::expression::variables::Variables;
use crate::raw::Fields;
use crate::registry::Registry;
use crate::value::elements;

/// The metadata of a document.
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
    /// The values that the document was sorted by. Absent if it was not sorted.
    pub sort_key: Option<RawArrayBuf>,
    /// The random number of a document that was drawn.
    pub rand_val: Option<f64>,
}

impl Metadata {
    /// The metadata as a document, in which [`restore`](Self::restore) finds them again.
    pub fn stored(&self) -> RawDocumentBuf {
        let mut stored = RawDocumentBuf::new();
        if let Some(index_key) = &self.index_key {
            stored.append(cstr!("indexKey"), index_key.clone());
        }
        if let Some(record_id) = &self.record_id {
            stored.append(cstr!("recordId"), record_id.clone());
        }
        if let Some(sort_key) = &self.sort_key {
            stored.append(cstr!("sortKey"), sort_key.clone());
        }
        if let Some(rand_val) = self.rand_val {
            stored.append(cstr!("randVal"), rand_val);
        }
        stored
    }

    /// The metadata that [`stored`](Self::stored) has made a document of. What is missing, or another value, is unknown.
    pub fn restore(stored: &RawDocument) -> Self {
        // It may come from a temporary file, so nothing of it is mistaken for granted.
        Self {
            index_key: stored.get_document("indexKey").ok().map(RawDocument::to_owned),
            record_id: stored.get("recordId").ok().flatten().map(RawBson::from),
            sort_key: stored.get_array("sortKey").ok().map(RawArray::to_owned),
            rand_val: stored.get_f64("randVal").ok(),
        }
    }
}

/// Whether an operand, or anything in it, is `$meta`: then the documents need their metadata. It may be a text that only looks so.
pub fn reads_metadata(operand: &RawDocument) -> bool {
    // Of bytes that are malformed something else is rejected. The others were validated, which bounds how deep this goes.
    Fields::of(operand).flatten().any(|field| {
        field.name() == OPERATOR || field.value().is_ok_and(|value| value_holds(value, reads_metadata))
    })
}

/// Whether an operand, or anything in it, is `$meta` with `sortKey`: then the documents must have been sorted.
pub fn reads_sort_key(operand: &RawDocument) -> bool {
    Fields::of(operand).flatten().any(|field| {
        field.value().is_ok_and(|value| {
            let is_it = field.name() == OPERATOR && value.as_str() == Some("sortKey");
            is_it || value_holds(value, reads_sort_key)
        })
    })
}

pub(super) const OPERATOR: &str = "$meta";

/// The names of the variables. A space is in no name that can be written.
const INDEX_KEY: &str = "the key of the index";
const RECORD_ID: &str = "the id of the record";
const SORT_KEY: &str = "the values of the sort";
const RAND_VAL: &str = "the random number";

/// The keywords, each with its variable if there is such metadata here.
const KEYWORDS: Registry<Option<&str>> = Registry::new(&[
    ("geoNearDistance", None),
    ("geoNearPoint", None),
    ("indexKey", Some(INDEX_KEY)),
    ("randVal", Some(RAND_VAL)),
    ("recordId", Some(RECORD_ID)),
    ("score", None),
    ("scoreDetails", None),
    ("searchHighlights", None),
    ("searchScore", None),
    ("searchScoreDetails", None),
    ("searchSequenceToken", None),
    ("sortKey", Some(SORT_KEY)),
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
    /// Lets `$meta` be used: documents have no metadata until [`set_metadata`](Self::set_metadata) sets it.
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
        let Metadata { index_key, record_id, sort_key, rand_val } = metadata.unwrap_or_default();
        // All are set each time, so that neither keeps what the document before had.
        let value = |value: Option<RawBson>| value.map_or(Value::Missing, Value::computed);
        self.define(INDEX_KEY, value(index_key.map(RawBson::Document)));
        self.define(RECORD_ID, value(record_id));
        self.define(SORT_KEY, value(sort_key.map(RawBson::Array)));
        self.define(RAND_VAL, value(rand_val.map(RawBson::Double)));
    }

    /// The variables without metadata: for what is evaluated over documents that have none.
    pub(crate) fn without_metadata(&self) -> Self {
        let mut variables = self.clone();
        if self.has_metadata() {
            for name in [INDEX_KEY, RECORD_ID, SORT_KEY, RAND_VAL] {
                variables.undefine(name);
            }
        }
        variables
    }
}

/// Whether a value is, or has elements that are, a document of which `holds` says so.
fn value_holds(value: RawBsonRef<'_>, holds: fn(&RawDocument) -> bool) -> bool {
    if let Some(array) = value.as_array() {
        return elements(array).any(|element| value_holds(element, holds));
    }
    value.as_document().is_some_and(holds)
}
