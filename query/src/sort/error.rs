//! Errors of sorts, and of sorting a document.
//!
//! MongoDB has different numbers for some of these errors in find commands and in the stage `$sort`. Both are
//! here.

use crate::code::Code;
use crate::operation::SpillFailure;
use crate::path::PathRefusal;
use crate::spill::SpillError;

/// A flaw of a sort, or of a document that it is applied to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation is to end.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// A direction is a number other than 1 and -1.
    #[error("$sort key ordering must be 1 (for ascending) or -1 (for descending): '{field}' has {found}")]
    Direction {
        /// The field's dotted path.
        field: String,
        /// The given value.
        found: String,
    },
    /// A direction is not a number.
    #[error("illegal key in $sort specification: '{field}' has {found}")]
    DirectionType {
        /// The field's dotted path.
        field: String,
        /// The given value.
        found: String,
    },
    /// An order by metadata, such as a text score.
    #[error("sorting by {expression} in '{field}' is not supported")]
    UnsupportedExpression {
        /// The name of the field with the expression.
        field: String,
        /// The expression's name.
        expression: String,
    },
    /// A direction is an object that is not `$meta`.
    #[error("$meta is the only expression that a sort may hold, and '{field}' has {found}")]
    Expression {
        /// The field's dotted path.
        field: String,
        /// The given value.
        found: String,
    },
    /// Too many fields.
    #[error("a sort has at most {limit} fields, not {count}")]
    TooManyFields {
        /// The number of fields.
        count: usize,
        /// The largest number that is accepted.
        limit: usize,
    },
    /// A field is given twice.
    #[error("$sort key must not contain duplicate keys (duplicate: '{field}')")]
    FieldTwice {
        /// The field's dotted path.
        field: String,
    },
    /// A path is malformed.
    #[error("'{field}' cannot be sorted by: {refusal}")]
    Path {
        /// The name as given.
        field: String,
        /// The reason.
        refusal: PathRefusal,
    },
    /// `$natural` with other fields.
    #[error("cannot include '$natural' in compound sort")]
    NaturalCompound,
    /// `$natural` with a value other than 1 and -1.
    #[error("$natural sort cannot be set to a value other than -1 or 1, and has {found}")]
    NaturalDirection {
        /// The given value.
        found: String,
    },
    /// The sort is not well-formed BSON.
    #[error("malformed sort: element {position} cannot be read")]
    InvalidBson {
        /// The position of the first malformed element, counted from 0.
        position: usize,
    },
    /// Two fields of the sort go through different arrays of one document.
    #[error("cannot sort with keys that are parallel arrays: {reason}")]
    ParallelArrays {
        /// The paths of the arrays.
        reason: String,
    },
    /// A numeric part of a path is both a position of an array and a field of one of its elements.
    #[error("cannot sort: {reason}")]
    AmbiguousPosition {
        /// A sentence that names the field.
        reason: String,
    },
    /// A document has too many combinations of array elements to sort by.
    #[error("cannot sort: {reason}")]
    TooManyKeys {
        /// A sentence that names the limit.
        reason: String,
    },
    /// The documents to sort exceed the limit of memory.
    #[error("sort exceeded the memory limit of {limit} bytes")]
    MemoryExceeded {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A temporary file of the sort cannot be made, written or read.
    #[error("{0}")]
    Spill(SpillFailure),
}

impl Error {
    /// MongoDB's number for the error in a find command.
    pub fn code(&self) -> Code {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::Direction { .. }
            | Self::DirectionType { .. }
            | Self::TooManyFields { .. }
            | Self::NaturalCompound
            | Self::NaturalDirection { .. }
            | Self::ParallelArrays { .. }
            | Self::TooManyKeys { .. } => Code::BAD_VALUE,
            Self::UnsupportedExpression { .. } => Code::NOT_IMPLEMENTED,
            Self::Expression { .. } => Code::SORT_EXPRESSION,
            Self::FieldTwice { .. } => Code::SORT_FIELD_TWICE,
            Self::Path { refusal, .. } => refusal.code(),
            Self::InvalidBson { .. } => Code::INVALID_BSON,
            Self::AmbiguousPosition { .. } => Code::SORT_AMBIGUOUS_POSITION,
            Self::MemoryExceeded { .. } => Code::QUERY_EXCEEDED_MEMORY_LIMIT,
            // The caller who has made the file knows a better one.
            Self::Spill(_) => Code::INTERNAL_ERROR,
        }
    }

    /// MongoDB's number for the error in the stage `$sort`.
    pub(crate) fn stage_code(&self) -> Code {
        match self {
            Self::Direction { .. } => Code::SORT_DIRECTION_VALUE,
            Self::DirectionType { .. } => Code::SORT_DIRECTION_TYPE,
            Self::Interrupted(_)
            | Self::UnsupportedExpression { .. }
            | Self::Expression { .. }
            | Self::TooManyFields { .. }
            | Self::FieldTwice { .. }
            | Self::Path { .. }
            | Self::NaturalCompound
            | Self::NaturalDirection { .. }
            | Self::InvalidBson { .. }
            | Self::ParallelArrays { .. }
            | Self::AmbiguousPosition { .. }
            | Self::TooManyKeys { .. }
            | Self::MemoryExceeded { .. }
            | Self::Spill(_) => self.code(),
        }
    }
}

impl From<SpillError> for Error {
    fn from(error: SpillError) -> Self {
        match error {
            SpillError::Interrupted(reason) => Self::Interrupted(reason),
            SpillError::Failed(failure) => Self::Spill(failure),
        }
    }
}

impl From<index::error::Error> for Error {
    /// The error of a document whose keys cannot be extracted.
    fn from(error: index::error::Error) -> Self {
        if let index::error::Error::ParallelArrays { second, first } = &error {
            return Self::ParallelArrays { reason: format!("[{second}] [{first}]") };
        }
        let reason = error.to_string();
        if matches!(error, index::error::Error::AmbiguousPosition { .. }) {
            return Self::AmbiguousPosition { reason };
        }
        Self::TooManyKeys { reason }
    }
}
