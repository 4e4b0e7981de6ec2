//! The error of an `insert_many` that was not stored as a whole.

use std::collections::HashMap;

use bson::{Bson, Document};

use crate::generated::GeneratedValues;

/// The most bytes of the details of all rejected writes in the result of one call.
const DETAILS_BYTES_MAX: usize = 4 << 20;

/// Which documents of an `insert_many` were rejected, and which are stored.
///
/// ```
/// use cairndb::{Client, ErrorKind, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let users = client.database("app").collection::<Document>("users");
/// let error = users.insert_many([doc! { "_id": 1 }, doc! { "_id": 1 }]).run().expect_err("1 is there twice");
/// let ErrorKind::InsertMany(partly) = error.kind() else { panic!("{error}") };
/// assert_eq!(partly.inserted_ids.len(), 1);
/// assert_eq!(partly.write_errors.as_ref().map(|errors| errors[0].index), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, thiserror::Error)]
#[error("{}", summary(write_errors.as_deref()))]
#[non_exhaustive]
pub struct InsertManyError {
    /// One entry for each rejected document, in the order of the call. An ordered call stops at the first.
    pub write_errors: Option<Vec<IndexedWriteError>>,
    /// The `_id`s of the documents that are stored, by position in the call.
    pub inserted_ids: HashMap<usize, Bson>,
    /// The generated values of the documents that are stored, by position in the call.
    pub generated: HashMap<usize, GeneratedValues>,
}

/// A rejected document of an `insert_many`, with its position.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct IndexedWriteError {
    /// The document's position in the call, from 0.
    pub index: usize,
    /// MongoDB's code.
    pub code: i32,
    /// MongoDB's name of the code.
    pub code_name: Option<String>,
    /// The message, in one sentence.
    pub message: String,
    /// For code 11000: `{keyPattern: {..}, keyValue: {..}}`. For code 121: which rule the document breaks, as MongoDB's
    /// `errInfo` describes it; left out where the documents of one call have more than 4 MiB. For an error of a sequence or an auto-increment field:
    /// `{sequoiaCode: .., sequoiaName: ..}`.
    pub details: Option<Document>,
}

#[doc(hidden)]
impl InsertManyError {
    pub fn new(
        write_errors: Vec<IndexedWriteError>,
        inserted_ids: HashMap<usize, Bson>,
        generated: HashMap<usize, GeneratedValues>,
    ) -> Self {
        Self { write_errors: Some(write_errors), inserted_ids, generated }
    }
}

#[doc(hidden)]
impl IndexedWriteError {
    /// All fields in their order, so that none can be forgotten in a reply.
    pub fn into_parts(self) -> (usize, i32, Option<String>, String, Option<Document>) {
        let Self { index, code, code_name, message, details } = self;
        (index, code, code_name, message, details)
    }
}

/// The space that is left for the details of rejected writes, in the result of one call.
#[derive(Debug)]
pub struct DetailsRoom {
    left: usize,
}

impl Default for DetailsRoom {
    fn default() -> Self {
        Self { left: DETAILS_BYTES_MAX }
    }
}

impl DetailsRoom {
    /// Returns the details if there is room for them.
    pub fn admit(&mut self, details: Document) -> Option<Document> {
        // Once there is no room for one, smaller ones may still fit.
        let bytes = details.to_vec().map_or(usize::MAX, |bytes| bytes.len());
        self.left = self.left.checked_sub(bytes)?;
        Some(details)
    }
}

fn summary(errors: Option<&[IndexedWriteError]>) -> String {
    let errors = errors.unwrap_or_default();
    match errors {
        [] => "no document was refused".to_owned(),
        [only] => format!("document {} was rejected: {}", only.index, only.message),
        [first, ..] => format!(
            "{} documents were rejected, the first at position {}: {}",
            errors.len(),
            first.index,
            first.message
        ),
    }
}
