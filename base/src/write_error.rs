//! Errors of writes: of one, or of some of many.

use bson::Document;
use query::code::Code;

use crate::insert_error::IndexedWriteError;
use crate::results::PartialBulkWriteResult;

/// The reason of a failed single write. It has one variant now; the type is open as in the `mongodb` crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteFailure {
    /// The document was rejected.
    #[error("{0}")]
    WriteError(WriteError),
}

/// A rejected write: MongoDB's code, its name, a text, and for a duplicate key (code 11000) the details `keyPattern` and
/// `keyValue`.
///
/// ```
/// use cairndb::{Client, ErrorKind, WriteFailure, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let users = client.database("app").collection::<Document>("users");
/// users.insert_one(doc! { "_id": 7 }).run()?;
/// let error = users.insert_one(doc! { "_id": 7 }).run().expect_err("7 is taken");
/// let ErrorKind::Write(WriteFailure::WriteError(refused)) = error.kind() else { panic!("{error}") };
/// let details = refused.details.clone().expect("a duplicate key has some");
/// assert_eq!(details, doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": 7 } });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct WriteError {
    /// MongoDB's code.
    pub code: i32,
    /// MongoDB's name of the code.
    pub code_name: Option<String>,
    /// The message, in one sentence.
    pub message: String,
    /// For code 11000: `{keyPattern: {..}, keyValue: {..}}`. For code 121: which rule the document breaks, as MongoDB's
    /// `errInfo` describes it. For an error of a sequence or an auto-increment field: `{sequoiaCode: .., sequoiaName: ..}`.
    pub details: Option<Document>,
}

/// A rejected write, boxed: every step of an insert returns one, almost never with an error in it, and one word is cheap to
/// return.
pub type Refusal = Box<WriteError>;

impl WriteError {
    #[doc(hidden)]
    pub fn boxed(code: Code, message: impl Into<String>) -> Refusal {
        let code_name = Some(code.name().into_owned());
        Box::new(Self { code: code.number(), code_name, message: message.into(), details: None })
    }

    #[doc(hidden)]
    pub fn at(self, index: usize) -> IndexedWriteError {
        IndexedWriteError {
            index,
            code: self.code,
            code_name: self.code_name,
            message: self.message,
            details: self.details,
        }
    }
}

/// Which writes of a `bulk_write` were rejected, and what was done.
#[derive(Clone, Debug, Default, PartialEq, thiserror::Error)]
#[error("{} writes failed, the first: {}", write_errors.len(), self.first().map_or("none", |error| &error.message))]
#[non_exhaustive]
pub struct BulkWriteError {
    /// The rejected writes by position in the call. An ordered call stops at the first.
    pub write_errors: std::collections::HashMap<usize, WriteError>,
    /// The result of the other writes.
    pub partial_result: Option<PartialBulkWriteResult>,
}

impl BulkWriteError {
    /// The rejected write that came first.
    pub(crate) fn first(&self) -> Option<&WriteError> {
        self.write_errors.iter().min_by_key(|&(index, _)| index).map(|(_, error)| error)
    }
}
