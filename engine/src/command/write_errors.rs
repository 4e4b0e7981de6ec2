//! `writeErrors` of a reply: the statements of a write that were refused, and why.

use bson::{Bson, Document, doc};

use crate::error::{Error, Result};
use crate::insert_error::IndexedWriteError;

/// The refused statements of one command.
#[derive(Default)]
pub(super) struct WriteErrors {
    errors: Vec<Bson>,
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
        let IndexedWriteError { index, code, code_name, message, details } = refused;
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let mut error = doc! { "index": index, "code": code };
        if let Some(name) = code_name {
            error.insert("codeName", name);
        }
        error.insert("errmsg", message);
        // `keyPattern` and `keyValue` of a duplicate key stand beside the message, as in MongoDB.
        error.extend(details.unwrap_or_default());
        self.errors.push(error.into());
    }

    /// Adds the field `writeErrors` to `reply`. Without a refusal the field is left out, as clients expect.
    pub(super) fn report(self, reply: &mut Document) {
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors);
        }
    }
}
