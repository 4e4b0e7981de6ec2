//! `writeErrors`: what single statements of a write were refused for.

use bson::{Bson, Document, doc};

use crate::error::{Error, Result, WriteError};

/// The refusals of a command's statements.
#[derive(Default)]
pub(super) struct WriteErrors {
    errors: Vec<Bson>,
}

impl WriteErrors {
    /// Takes what a statement was refused for. Failures of the storage end the command.
    pub(super) fn push(&mut self, index: usize, error: Error) -> Result<()> {
        let WriteError { code, code_name, message, details } = error.into_refusal()?;
        self.add((index, code), code_name.as_deref(), &message, details.as_ref());
        Ok(())
    }

    /// Adds one refusal.
    pub(super) fn add(
        &mut self,
        (index, code): (usize, i32),
        code_name: Option<&str>,
        message: &str,
        details: Option<&Document>,
    ) {
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let mut error = doc! { "index": index, "code": code };
        if let Some(name) = code_name {
            error.insert("codeName", name);
        }
        error.insert("errmsg", message);
        error.extend(details.cloned().unwrap_or_default());
        self.errors.push(error.into());
    }

    /// Puts them into a reply, if there are any.
    pub(super) fn report(self, reply: &mut Document) {
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors);
        }
    }
}
