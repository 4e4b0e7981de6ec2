//! Errors of commands, made of a code and a text, and the errors of the pure crates turned into them.

use std::fmt::Display;
use std::iter;

use index::collation::error::Error as RefusedCollation;
use query::code::Code;
use query::operation::SpillFailure;

use crate::error::{CommandError, Error, ErrorKind};
use crate::insert_error::IndexedWriteError;

/// The error of a command, with a code of MongoDB's and a text.
pub fn refused(code: Code, message: impl Display) -> Error {
    Error::command(code, message.to_string())
}

/// The error for what only MongoDB supports.
pub fn unsupported(message: impl Display) -> Error {
    refused(Code::NOT_IMPLEMENTED, message)
}

/// The rejection of a write as that of the command that made it.
pub fn of_write(refused: IndexedWriteError) -> Error {
    let (_, code, code_name, message, details) = refused.into_parts();
    let code_name = code_name.unwrap_or_default();
    Error::new(ErrorKind::Command(CommandError { code, code_name, message, details }))
}

/// The error of a pure crate together with its causes, because the reply to a command has room for one text only.
fn with_causes(code: Code, error: &dyn std::error::Error) -> Error {
    refused(code, text_with_causes(error))
}

/// The text of an error, followed by the texts of its causes.
pub fn text_with_causes(error: &dyn std::error::Error) -> String {
    let causes = iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The error of a temporary file, which the engine has made itself.
fn spilled(failure: &SpillFailure) -> Error {
    match failure.cause().downcast_ref::<Error>() {
        // As if there were no pure crate in between: a full disk stays a full disk to the caller.
        Some(own) => own.clone(),
        // A run gave back what is none of its entries.
        None => refused(Code::INTERNAL_ERROR, failure),
    }
}

impl From<query::operation::Interruption> for Error {
    fn from(reason: query::operation::Interruption) -> Self {
        refused(reason.code(), reason)
    }
}

impl From<RefusedCollation> for Error {
    fn from(error: RefusedCollation) -> Self {
        let code = match &error {
            RefusedCollation::LocaleMissing => Code::IDL_FAILED_TO_PARSE,
            RefusedCollation::UnknownField { .. } => Code::IDL_UNKNOWN_FIELD,
            RefusedCollation::WrongType { .. } => Code::TYPE_MISMATCH,
            RefusedCollation::SimpleWithOptions { .. } => Code::FAILED_TO_PARSE,
            RefusedCollation::Version { .. } => Code::INCOMPATIBLE_COLLATION_VERSION,
            RefusedCollation::Unsupported { .. } => Code::NOT_IMPLEMENTED,
            RefusedCollation::Value { .. }
            | RefusedCollation::UnknownLocale { .. }
            | RefusedCollation::Combination { .. } => Code::BAD_VALUE,
        };
        refused(code, error)
    }
}

impl From<query::error::Error> for Error {
    fn from(error: query::error::Error) -> Self {
        with_causes(error.code(), &error)
    }
}

impl From<query::expression::error::Error> for Error {
    fn from(error: query::expression::error::Error) -> Self {
        with_causes(error.code(), &error)
    }
}

impl From<query::projection::error::Error> for Error {
    fn from(error: query::projection::error::Error) -> Self {
        with_causes(error.code(), &error)
    }
}

impl From<query::sort::error::Error> for Error {
    fn from(error: query::sort::error::Error) -> Self {
        if let query::sort::error::Error::Spill(failure) = &error {
            return spilled(failure);
        }
        with_causes(error.code(), &error)
    }
}

impl From<query::update::error::Error> for Error {
    fn from(error: query::update::error::Error) -> Self {
        with_causes(error.code(), &error)
    }
}

impl From<query::pipeline::error::Error> for Error {
    fn from(error: query::pipeline::error::Error) -> Self {
        if let Some(failure) = error.spill() {
            return spilled(failure);
        }
        refused(error.code(), error)
    }
}

impl From<query::distinct::Error> for Error {
    fn from(error: query::distinct::Error) -> Self {
        with_causes(error.code(), &error)
    }
}
