//! Errors of projections, and of applying them to a document.

use crate::code::Code;
use crate::path::PathRefusal;
use crate::raw::Malformed;

/// A flaw of a projection, or of the document that it is applied to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation is to end.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// A part of the projection is wrong.
    #[error("{fault}: '{path}'")]
    Malformed {
        /// The dotted path of the part.
        path: String,
        /// The flaw.
        fault: Fault,
    },
    /// The stage `$project` has an empty projection.
    #[error("projection specification must have at least one field")]
    Empty,
    /// MongoDB has the operator, but CairnDB does not.
    #[error("operator {operator} of '{path}' is not supported in a projection")]
    Unsupported {
        /// The dotted path of the field with the operator.
        path: String,
        /// The operator's name.
        operator: String,
    },
    /// The condition of `$elemMatch` is rejected.
    #[error(transparent)]
    Filter(#[from] crate::error::Error),
    /// An expression is rejected, or fails for a document.
    #[error(transparent)]
    Expression(#[from] crate::expression::error::Error),
    /// The projection is not well-formed BSON.
    #[error("malformed projection: element {position} of '{path}' cannot be read")]
    InvalidBson {
        /// The dotted path of the malformed object, or an empty text for the whole projection.
        path: String,
        /// The position of the first malformed element, counted from 0.
        position: usize,
    },
    /// The document is not well-formed BSON.
    #[error("malformed document: an element cannot be read")]
    InvalidDocument,
    /// The document is nested too deeply.
    #[error("document has more than {limit} levels")]
    TooDeep {
        /// The most levels that are accepted.
        limit: usize,
    },
    /// The result is larger than a document may be.
    #[error("projected document has {length} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Its length, in bytes.
        length: usize,
        /// The largest length that is accepted, in bytes.
        limit: usize,
    },
    /// The filter matched, but not by an element of an array, so `.$` has none to return.
    #[error("positional operator '.$' couldn't find a matching element in the array: '{path}'")]
    NoPosition {
        /// The dotted path of the array.
        path: String,
    },
    /// The filter gave a position in another array, and the array of `.$` has no such element.
    #[error("positional operator '.$' element mismatch: '{path}' has no element {position}")]
    PositionMismatch {
        /// The dotted path of the array.
        path: String,
        /// The position that the filter gave, counted from 0.
        position: usize,
    },
}

/// A flaw of a part of a projection. For its use see [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The projection has the same path already, or a path below it.
    #[error("path collision")]
    Collision,
    /// The path goes through another path of the projection.
    #[error("path collision, remaining portion {rest}")]
    CollisionAbove {
        /// The rest of the path after the other one.
        rest: String,
    },
    /// A field is included, and another one is excluded.
    #[error("cannot do inclusion on a field in exclusion projection")]
    InclusionInExclusion,
    /// A field is excluded, and another one is included.
    #[error("cannot do exclusion on a field in inclusion projection")]
    ExclusionInInclusion,
    /// A field is computed, and another one is excluded.
    #[error("cannot use an expression in exclusion projection")]
    ExpressionInExclusion,
    /// A field is set to a value, and another one is excluded.
    #[error("cannot use a value in exclusion projection")]
    ValueInExclusion,
    /// An object without fields.
    #[error("an empty sub-projection is not a valid value")]
    EmptyObject,
    /// No expression has this name.
    #[error("unknown expression {operator}")]
    UnknownExpression {
        /// The name.
        operator: String,
    },
    /// More than one `.$`.
    #[error("cannot specify more than one positional projection")]
    PositionalTwice,
    /// `.$` is not at the end of its path.
    #[error("positional projection may only be used at the end of a path")]
    PositionalInside,
    /// `.$` with an exclusion.
    #[error("positional projection cannot be used with exclusion")]
    PositionalExclusion,
    /// `.$` with an object as its value.
    #[error("positional projection cannot be used with an expression or sub object")]
    PositionalObject,
    /// `.$` with a value that is neither a number nor a boolean.
    #[error("positional projection cannot be used with a literal")]
    PositionalValue,
    /// `.$` without a filter.
    #[error("projections with a positional operator require a filter")]
    PositionalWithoutFilter,
    /// `.$` in a stage.
    #[error("cannot use positional projection in aggregation projection")]
    PositionalInStage,
    /// `.$` after an `$elemMatch`.
    #[error("cannot specify positional operator after $elemMatch")]
    PositionalAfterElemMatch,
    /// `$elemMatch` after a `.$`.
    #[error("cannot specify $elemMatch after positional operator")]
    ElemMatchAfterPositional,
    /// `$elemMatch` with another value than an object.
    #[error("$elemMatch needs an object, not {found}")]
    ElemMatchType {
        /// The given value.
        found: String,
    },
    /// `$elemMatch` below the top level.
    #[error("cannot use $elemMatch projection on a nested field")]
    ElemMatchNested,
    /// `$elemMatch` in a stage.
    #[error("cannot use $elemMatch in aggregation projection")]
    ElemMatchInStage,
    /// The path is malformed.
    #[error("{0}")]
    Path(PathRefusal),
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Self::InvalidDocument
    }
}

impl Error {
    /// MongoDB's code for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::Malformed { fault, .. } => fault.code(),
            Self::Empty => Code::PROJECTION_EMPTY,
            Self::Unsupported { .. } => Code::NOT_IMPLEMENTED,
            Self::Filter(error) => error.code(),
            Self::Expression(error) => error.code(),
            Self::InvalidBson { .. } | Self::InvalidDocument => Code::INVALID_BSON,
            Self::TooDeep { .. } => Code::OVERFLOW,
            Self::TooLarge { .. } => Code::BSON_OBJECT_TOO_LARGE,
            Self::NoPosition { .. } => Code::POSITIONAL_WITHOUT_POSITION,
            Self::PositionMismatch { .. } => Code::POSITIONAL_MISMATCH,
        }
    }
}

impl Fault {
    fn code(&self) -> Code {
        match self {
            Self::Collision => Code::PROJECTION_COLLISION,
            Self::CollisionAbove { .. } => Code::PROJECTION_COLLISION_ABOVE,
            Self::InclusionInExclusion => Code::INCLUSION_IN_EXCLUSION,
            Self::ExclusionInInclusion => Code::EXCLUSION_IN_INCLUSION,
            Self::ExpressionInExclusion => Code::EXPRESSION_IN_EXCLUSION,
            Self::ValueInExclusion => Code::VALUE_IN_EXCLUSION,
            Self::EmptyObject => Code::PROJECTION_EMPTY_OBJECT,
            Self::UnknownExpression { .. } => Code::UNKNOWN_PROJECTION_EXPRESSION,
            Self::PositionalTwice => Code::POSITIONAL_TWICE,
            Self::PositionalInside => Code::POSITIONAL_INSIDE,
            Self::PositionalExclusion => Code::POSITIONAL_IN_EXCLUSION,
            Self::PositionalObject => Code::POSITIONAL_OBJECT,
            Self::PositionalValue => Code::POSITIONAL_VALUE,
            Self::PositionalWithoutFilter => Code::POSITIONAL_WITHOUT_FILTER,
            Self::PositionalInStage => Code::POSITIONAL_IN_STAGE,
            Self::PositionalAfterElemMatch => Code::POSITIONAL_AFTER_ELEM_MATCH,
            Self::ElemMatchAfterPositional => Code::ELEM_MATCH_AFTER_POSITIONAL,
            Self::ElemMatchType { .. } => Code::ELEM_MATCH_TYPE,
            Self::ElemMatchNested => Code::ELEM_MATCH_NESTED,
            Self::ElemMatchInStage => Code::INVALID_PIPELINE_OPERATOR,
            Self::Path(refusal) => refusal.code(),
        }
    }
}
