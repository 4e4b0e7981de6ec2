//! The common parts of the parsers of filters and of schemas: reading the fields and members of an operand, the
//! errors for what cannot be read, and the limit on nesting.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::error::{Error, Fault};
use crate::pattern::PatternError;

/// The limit of nested operators.
pub(super) const DEPTH_MAX: usize = 100;

/// The names and values of a document's fields, in order.
///
/// # Errors
/// [`Error::InvalidBson`] for an element that is malformed. `path` is the field that the error names.
pub(super) fn fields<'d>(
    document: &'d RawDocument,
    path: &str,
) -> impl Iterator<Item = Result<(&'d str, RawBsonRef<'d>), Error>> {
    // A value may be malformed while its name is not, so both are read before either is used.
    document.iter_elements().enumerate().map(move |(at, element)| {
        let field = element.and_then(|element| Ok((element.key().as_str(), element.value()?)));
        field.map_err(|_| invalid(path, at))
    })
}

/// All members of an array.
///
/// # Errors
/// [`Error::InvalidBson`] if a member is malformed. `path` is the field that the error names.
pub(super) fn members<'d>(array: &'d RawArray, path: &str) -> Result<Vec<RawBsonRef<'d>>, Error> {
    let members = array.into_iter().enumerate();
    members.map(|(at, member)| member.map_err(|_| invalid(path, at))).collect()
}

/// The error for a regular expression that is the operand of `operator`, in the field at `path`.
pub(super) fn pattern_error(path: &str, operator: &str, error: PatternError) -> Error {
    let (path, operator) = (path.to_owned(), operator.to_owned());
    // `pattern` serves expressions as well, which have errors of their own. So it names no operator itself.
    let fault = match error {
        PatternError::Zero => Fault::PatternZero,
        PatternError::TooLong { length, limit } => Fault::PatternTooLong { length, limit },
        PatternError::OptionUnknown { option } => Fault::OptionUnknown { option },
        PatternError::Invalid { pattern, reason } => Fault::PatternInvalid { pattern, reason },
        PatternError::TooMany { limit } => Fault::PatternsTooMany { limit },
    };
    Error::Malformed { path, operator, fault }
}

fn invalid(path: &str, at: usize) -> Error {
    Error::InvalidBson { path: path.to_owned(), reason: format!("element {at} cannot be read") }
}
