//! Dotted paths that a query names: what is allowed in them, and MongoDB's numbers for what is not.
//!
//! How a path walks a document is the `index` crate's rule; here text only becomes a path or an error.

use index::error::{Error, PathFault};
use index::path::FieldPath;

use crate::code::Code;

/// The most components that a path may have.
pub(crate) const COMPONENTS_MAX: usize = 200;

/// The reason why a string is not a path that a query may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRefusal {
    /// The path has no characters.
    #[error("the path is empty")]
    Empty,
    /// The path ends with a dot.
    #[error("the path ends with a dot")]
    TrailingDot,
    /// A part between two dots is empty.
    #[error("a part of the path is empty")]
    ComponentEmpty,
    /// A part starts with a dollar sign and is not a part of a database reference.
    #[error("a part of the path starts with a dollar sign")]
    ComponentDollar,
    /// The path holds a zero byte.
    #[error("the path holds a zero byte")]
    ZeroByte,
    /// The path has too many parts.
    #[error("the path has more than {COMPONENTS_MAX} parts")]
    TooLong,
}

impl PathRefusal {
    /// MongoDB's number for the rejection.
    pub fn code(self) -> Code {
        match self {
            Self::Empty => Code::FIELD_PATH_EMPTY,
            Self::TrailingDot => Code::FIELD_PATH_TRAILING_DOT,
            Self::ComponentEmpty => Code::FIELD_NAME_EMPTY,
            Self::ComponentDollar => Code::FIELD_NAME_DOLLAR,
            Self::ZeroByte => Code::FIELD_NAME_ZERO_BYTE,
            Self::TooLong => Code::OVERFLOW,
        }
    }
}

/// Reads a path that a sort or a projection names.
pub(crate) fn parse_path(text: &str) -> Result<FieldPath, PathRefusal> {
    // A zero byte is the only fault that this can find. All others are found below.
    let path = FieldPath::parse(text).map_err(|_| PathRefusal::ZeroByte)?;
    // `nth` stops at the limit, however long the text is.
    if path.components().nth(COMPONENTS_MAX).is_some() {
        return Err(PathRefusal::TooLong);
    }
    match path.validate_names() {
        Ok(()) => Ok(path),
        Err(Error::PathInvalid { fault: PathFault::Empty, .. }) => Err(PathRefusal::Empty),
        Err(Error::PathInvalid { fault: PathFault::DollarComponent { .. }, .. }) => {
            Err(PathRefusal::ComponentDollar)
        }
        // A trailing dot is an empty component as well; MongoDB has a number of its own for it, so it is
        // asked first.
        Err(_) if text.ends_with('.') => Err(PathRefusal::TrailingDot),
        Err(_) => Err(PathRefusal::ComponentEmpty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: Option<i32>) {
        assert_eq!(parse_path(text).err().map(|refusal| refusal.code().number()), code, "{text}");
    }

    #[test]
    fn paths_are_names_between_dots() {
        check("a", None);
        check("a.0.b c", None);
        check("a.$id", None);
        check(&["a"; COMPONENTS_MAX].join("."), None);
    }

    #[test]
    fn refusals_have_numbers() {
        check("", Some(40_352));
        check("a.", Some(40_353));
        check("a..b", Some(15_998));
        check(".a", Some(15_998));
        check("$a", Some(16_410));
        check("a.$b", Some(16_410));
        check("a\0", Some(16_411));
        check(&["a"; COMPONENTS_MAX + 1].join("."), Some(15));
    }
}
