//! `writeErrors` of a reply: the statements of a write that were rejected, and why.

use std::borrow::Cow;

use base::codes::refused;
use base::error::{Error, Result};
use base::insert_error::{DetailsRoom, IndexedWriteError};
use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use query::code::{Code, cut_message};

use crate::command::context::CommandContext;

/// Rejects a command that may be repeated if a statement of it may have several documents: its `field` is true, or 0.
pub(super) fn refuse_many(statements: &[Cow<'_, RawDocument>], field: &str, message: &str) -> Result<()> {
    let is_many = |statement: &Cow<'_, RawDocument>| match statement.get(field) {
        Ok(Some(RawBsonRef::Boolean(is_many))) => is_many,
        Ok(Some(limit)) => {
            [RawBsonRef::Int32(0), RawBsonRef::Int64(0), RawBsonRef::Double(0.0)].contains(&limit)
        }
        // An unreadable value is rejected when its turn comes.
        Ok(None) | Err(_) => false,
    };
    if statements.iter().any(is_many) {
        return Err(refused(Code::INVALID_OPTIONS, message));
    }
    Ok(())
}

/// The statements of a command that was sent before which had been done then.
#[derive(Default)]
pub(super) struct Repeated {
    statements: Vec<Bson>,
}

impl Repeated {
    /// All statements of a command but some, which ascend.
    pub(super) fn without(rest: &[usize], count: usize) -> Self {
        let mut repeated = Self::default();
        (0..count).filter(|place| rest.binary_search(place).is_err()).for_each(|place| repeated.add(place));
        repeated
    }

    pub(super) fn add(&mut self, statement: usize) {
        self.statements.push(i32::try_from(statement).unwrap_or(i32::MAX).into());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// The number of errors.
    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.statements.len()).unwrap_or(i32::MAX)
    }

    /// Adds the field `retriedStmtIds` to `reply`, as MongoDB does, if there are any.
    pub(super) fn report(self, reply: &mut Document) {
        if !self.is_empty() {
            reply.insert("retriedStmtIds", self.statements);
        }
    }
}

/// Errors of a transaction, and not of one write of it: they fail the command.
const OF_TRANSACTION: [Code; 9] = [
    Code::LOCK_TIMEOUT,
    Code::WRITE_CONFLICT,
    Code::EXCEEDED_MEMORY_LIMIT,
    Code::SNAPSHOT_UNAVAILABLE,
    Code::NO_SUCH_TRANSACTION,
    Code::TRANSACTION_COMMITTED,
    Code::TRANSACTION_TOO_LARGE,
    Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
    Code::TRANSACTION_EXCEEDED_LIFETIME,
];

/// Once the messages in one reply have this many bytes, the messages of further errors are empty, as in MongoDB.
const MESSAGES_BYTES_MAX: usize = 1 << 20;

/// The rejected statements of one command.
///
/// An error may contain values that the statement computed. Each message is cut, all messages together have about
/// [`MESSAGES_BYTES_MAX`] bytes, and all details together have the bytes of [`DetailsRoom`].
pub(super) struct WriteErrors<'a> {
    context: &'a CommandContext<'a>,
    errors: Vec<Bson>,
    details: DetailsRoom,
    /// The bytes of the messages so far.
    message_bytes: usize,
}

impl<'a> WriteErrors<'a> {
    pub(super) fn of(context: &'a CommandContext<'a>) -> Self {
        Self { context, errors: Vec::new(), details: DetailsRoom::default(), message_bytes: 0 }
    }

    /// Adds the error of the statement at `index`. An error that is not a rejection, such as a full disk, is returned: it ends
    /// the command. So is one of the whole transaction, with its labels.
    pub(super) fn push(&mut self, index: usize, error: Error) -> Result<()> {
        let refusal = self.refusal(index, error)?;
        self.add(refusal);
        Ok(())
    }

    /// The rejection that an error of the statement at `index` is. An error that is none is returned, as by [`push`](Self::push).
    pub(super) fn refusal(&self, index: usize, error: Error) -> Result<IndexedWriteError> {
        if self.context.is_in_transaction() {
            // As in MongoDB, what was rejected ends the transaction, however the statement was rejected.
            self.context.abort_transaction();
            if error.code().is_some_and(|code| OF_TRANSACTION.contains(&Code::of(code))) {
                return Err(error.into_command());
            }
        }
        Ok(error.into_refusal()?.at(index))
    }

    /// Whether the command ends at the first rejection, whatever it asks for: a transaction that was aborted accepts no more writes.
    pub(super) fn end_command(&self) -> bool {
        self.context.is_in_transaction()
    }

    /// Adds a rejected statement.
    pub(super) fn add(&mut self, refused: IndexedWriteError) {
        let shown = self.shown(refused);
        self.errors.push(shown.into());
    }

    /// A rejected statement as replies show it.
    pub(super) fn shown(&mut self, refused: IndexedWriteError) -> Document {
        // By all its fields, so that a new one cannot be forgotten in the reply.
        let (index, code, code_name, message, details) = refused.into_parts();
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let mut error = doc! { "index": index, "code": code };
        if let Some(name) = code_name {
            error.insert("codeName", name);
        }
        error.insert("errmsg", self.message(message));
        error.extend(self.details(code, details.unwrap_or_default()));
        error
    }

    /// The message of an error, as replies show it.
    fn message(&mut self, message: String) -> String {
        if self.message_bytes >= MESSAGES_BYTES_MAX {
            return String::new();
        }
        let message = cut_message(message);
        self.message_bytes += message.len();
        message
    }

    /// The details of an error as fields of a reply: `keyPattern` and `keyValue` of a duplicate key are beside the
    /// message, those of an invalid document in `errInfo`, as in MongoDB.
    fn details(&mut self, code: i32, details: Document) -> Document {
        let is_invalid = Code::DOCUMENT_VALIDATION_FAILURE == code;
        if details.is_empty() && !is_invalid {
            return details;
        }
        // A large batch can be rejected as a whole, each document with details of a mebibyte.
        match self.details.admit(details) {
            Some(details) if is_invalid => doc! { "errInfo": details },
            Some(details) => details,
            None => Document::new(),
        }
    }

    /// Gives the rejections the places in the command that their statements have: `places`, by the number of the statement among those
    /// that were run.
    pub(super) fn place(&mut self, places: &[usize]) {
        for error in self.errors.iter_mut().filter_map(Bson::as_document_mut) {
            let run = error.get_i32("index").ok().and_then(|index| usize::try_from(index).ok());
            if let Some(place) = run.and_then(|run| places.get(run)) {
                error.insert("index", i32::try_from(*place).unwrap_or(i32::MAX));
            }
        }
    }

    /// Adds the field `writeErrors` to `reply`. Without a rejection the field is left out, as clients expect.
    pub(super) fn report(self, reply: &mut Document) {
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors);
        }
    }
}
