//! Reasons why a document does not match a filter, in the form in which MongoDB shows them for the validator of a
//! collection.
//!
//! The filter is read as it was given, because the details repeat its parts. Each part is parsed and evaluated by the
//! functions that evaluate filters, so the details cannot disagree with the verdict. All of this is done once a document
//! has failed; nothing here costs a document that is valid.

mod clause;
mod considered;
mod leaf;
mod report;
mod schema;

use bson::{Bson, Document, RawDocument, doc};
use index::validate::NESTING_MAX;

use crate::error::Error;
use crate::expression::Variables;
use crate::filter::failure::report::{Form, Report};

/// The levels that a reply puts around the details of a write that failed.
const LEVELS_AROUND: usize = 8;

/// About how many bytes are reported in short.
const LOGGED_BYTES_MAX: usize = 4 << 10;

/// Says why `document` does not match `validator`: MongoDB's `errInfo`, with the `_id` of the document and `details`.
///
/// The details need at most about `bytes_max` bytes. Where they would need more, the parts that repeat the validator and
/// the document are left out first, and then all of them.
///
/// ```
/// use bson::{doc, rawdoc};
/// use cairndb_query::expression::Variables;
/// use cairndb_query::filter::failure::describe_failure;
///
/// let validator = rawdoc! { "age": { "$gte": 18 } };
/// let told = describe_failure(&validator, &rawdoc! { "_id": 1, "age": 7 }, &Variables::default(), 1 << 20)?;
/// let details = doc! {
///     "operatorName": "$gte",
///     "specifiedAs": { "age": { "$gte": 18 } },
///     "reason": "comparison failed",
///     "consideredValue": 7,
/// };
/// assert_eq!(told, doc! { "failingDocumentId": 1, "details": details });
/// # Ok::<(), cairndb_query::error::Error>(())
/// ```
///
/// # Errors
/// [`Error::Interrupted`] if the operation is to end. Whatever else goes wrong is reported in the document.
pub fn describe_failure(
    validator: &RawDocument,
    document: &RawDocument,
    variables: &Variables,
    bytes_max: usize,
) -> Result<Document, Error> {
    describe(validator, document, &Limits { variables, forms: &[Form::Whole, Form::Truncated], bytes_max })
}

/// Says in short why `document` does not match `validator`, for a log: the `_id` of the document and the rules, without what
/// they say and without other values.
///
/// # Errors
/// [`Error::Interrupted`] if the operation is to end. Whatever else goes wrong is reported in the document.
pub fn describe_briefly(
    validator: &RawDocument,
    document: &RawDocument,
    variables: &Variables,
) -> Result<Document, Error> {
    let mut told = describe(
        validator,
        document,
        &Limits { variables, forms: &[Form::Truncated], bytes_max: LOGGED_BYTES_MAX },
    )?;
    told.remove("truncated");
    Ok(told)
}

/// The parts that are explained, and their limits.
struct Limits<'a> {
    variables: &'a Variables,
    /// The forms that are tried one after the other.
    forms: &'a [Form],
    bytes_max: usize,
}

fn describe(validator: &RawDocument, document: &RawDocument, limits: &Limits<'_>) -> Result<Document, Error> {
    let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    let too_large = |mut told: Document| {
        told.insert("note", "detailed error was too large");
        told
    };
    let mut told: Document = id.map(|id| ("failingDocumentId".to_owned(), id)).into_iter().collect();
    // Without room nothing is read either.
    if limits.bytes_max == 0 {
        return Ok(too_large(told));
    }
    for form in limits.forms.iter().copied() {
        let report = Report::new(limits.variables, form, limits.bytes_max);
        let described = clause::of_filter(&report, validator, document, clause::Wanted::Match);
        match report.outcome(described) {
            // The first try repeats too much: the second leaves out what grows with validator and document.
            Ok(None) => {}
            Ok(Some(details)) => {
                // So that a reader does not mistake the rest for all that there is.
                if form == Form::Truncated {
                    told.insert("truncated", true);
                }
                told.insert("details", details);
                // Bytes that are nested too deeply could be neither sent nor read.
                if depth(&told) + LEVELS_AROUND > NESTING_MAX {
                    return Ok(doc! { "reason": "generated error was too deeply nested", "truncated": true });
                }
                return Ok(told);
            }
            Err(error @ Error::Interrupted(_)) => return Err(error),
            // The write is rejected all the same, so this is reported in place of the details.
            Err(error) => {
                let code = error.code();
                told.insert("note", "failed to generate document validation error");
                told.insert(
                    "details",
                    doc! { "code": code.number(), "codeName": code.name().as_ref(), "errmsg": error.to_string() },
                );
                return Ok(told);
            }
        }
    }
    Ok(too_large(told))
}

/// The depth of a document: 1 if no value is a document or an array.
fn depth(document: &Document) -> usize {
    let mut deepest = 0;
    // A list in place of recursion: details of a deep schema are three times as deep as the schema.
    let mut waiting: Vec<(usize, &Bson)> = document.values().map(|value| (1, value)).collect();
    while let Some((level, value)) = waiting.pop() {
        deepest = deepest.max(level);
        if let Bson::Document(inner) = value {
            waiting.extend(inner.values().map(|value| (level + 1, value)));
        } else if let Bson::Array(inner) = value {
            waiting.extend(inner.iter().map(|value| (level + 1, value)));
        }
    }
    deepest
}
