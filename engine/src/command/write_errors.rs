//! `writeErrors` of a reply: the statements of a write that were refused, and why.

use base::error::{Error, Result};
use base::insert_error::{DetailsRoom, IndexedWriteError};
use bson::{Bson, Document, doc};
use query::code::Code;

/// The refused statements of one command.
#[derive(Default)]
pub(super) struct WriteErrors {
    errors: Vec<Bson>,
    details: DetailsRoom,
}

impl WriteErrors {
    /// Adds the error of the statement at `index`. An error that is no refusal, such as a full disk, is returned: it ends
    /// the command.
    pub(super) fn push(&mut self, index: usize, error: Error) -> Result<()> {
        self.add(error.into_refusal()?.at(index));
        Ok(())
    }

    /// Adds a refused statement.
    pub(super) fn add(&mut self, refused: IndexedWriteError) {
        // By all its fields, so that a new one cannot be forgotten in the reply.
        let (index, code, code_name, message, details) = refused.into_parts();
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let mut error = doc! { "index": index, "code": code };
        if let Some(name) = code_name {
            error.insert("codeName", name);
        }
        error.insert("errmsg", message);
        error.extend(self.shown(code, details.unwrap_or_default()));
        self.errors.push(error.into());
    }

    /// The details of an error as fields of a reply: `keyPattern` and `keyValue` of a duplicate key stand beside the
    /// message, those of an invalid document in `errInfo`, as in MongoDB.
    fn shown(&mut self, code: i32, details: Document) -> Document {
        if Code::DOCUMENT_VALIDATION_FAILURE != code {
            return details;
        }
        // A large batch can be refused as a whole, each document with details of a mebibyte.
        match self.details.admit(details) {
            Some(details) => doc! { "errInfo": details },
            None => Document::new(),
        }
    }

    /// Adds the field `writeErrors` to `reply`. Without a refusal the field is left out, as clients expect.
    pub(super) fn report(self, reply: &mut Document) {
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors);
        }
    }
}
