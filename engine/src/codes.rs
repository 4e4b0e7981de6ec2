//! Refusals of commands, by number and text; and what the pure crates refuse, as such.

use std::fmt::Display;
use std::iter;

use query::code::Code;

use crate::error::Error;

/// A command that was refused in words of its own.
pub(crate) fn refused(code: Code, message: impl Display) -> Error {
    Error::command(code, message.to_string())
}

/// Something that MongoDB has and CairnDB leaves out.
pub(crate) fn unsupported(message: impl Display) -> Error {
    refused(Code::NOT_IMPLEMENTED, message)
}

/// What a pure crate refused, with what caused it: the reply of a command has one text.
fn with_causes(code: Code, error: &dyn std::error::Error) -> Error {
    refused(code, text_with_causes(error))
}

/// An error with what caused it.
pub(crate) fn text_with_causes(error: &dyn std::error::Error) -> String {
    let causes = iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl From<query::operation::Interruption> for Error {
    fn from(reason: query::operation::Interruption) -> Self {
        refused(reason.code(), reason)
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
        refused(error.code(), error)
    }
}

impl From<query::distinct::Error> for Error {
    fn from(error: query::distinct::Error) -> Self {
        with_causes(error.code(), &error)
    }
}
