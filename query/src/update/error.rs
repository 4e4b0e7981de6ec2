//! Errors of updates, while they are parsed or applied to a document.
//!
//! Numbers are MongoDB's, and so is the wording that programs are known to search for. The error of a filter inside an
//! update is passed on unchanged.

use crate::code::Code;
use crate::raw::Malformed;
use crate::update::context::Phase;

/// A flaw of an update, or of applying it to a document.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation was interrupted.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// The document has no operators, so it is a replacement.
    #[error("the update has no operators, so that it is a replacement")]
    Replacement,
    /// No such operator exists, or a plain field follows an operator.
    #[error("unknown modifier: {operator}")]
    UnknownOperator {
        /// The name.
        operator: String,
    },
    /// The name of a top-level field would start with a dollar sign.
    #[error("the dollar ($) prefixed field '{name}' is not valid for storage")]
    DollarField {
        /// The field's name.
        name: String,
    },
    /// The argument of an operator is not an object of fields.
    #[error("modifiers operate on fields but {operator} was given {found}")]
    OperandNotObject {
        /// The operator.
        operator: String,
        /// The given value.
        found: String,
    },
    /// The argument of an operator is malformed.
    #[error("malformed {operator} of '{path}': {fault}")]
    Malformed {
        /// The operator.
        operator: &'static str,
        /// The path of the field.
        path: String,
        /// The flaw of the argument.
        fault: Fault,
    },
    /// A path cannot be updated.
    #[error("the update path '{path}' {fault}")]
    Path {
        /// The path.
        path: String,
        /// The flaw.
        fault: PathFault,
    },
    /// Two operators name the same field, or a field and a part of it.
    #[error("Updating the path '{path}' would create a conflict at '{at}'")]
    Conflict {
        /// The later path.
        path: String,
        /// The path of an earlier one that it meets.
        at: String,
    },
    /// Two placeholders represent one element, and their updates conflict.
    #[error("Update created a conflict at '{at}'")]
    ElementConflict {
        /// The path of the conflict.
        at: String,
    },
    /// A path refers to an array filter that was not given.
    #[error("No array filter found for identifier '{identifier}' in path '{path}'")]
    IdentifierUnknown {
        /// The identifier.
        identifier: String,
        /// The path.
        path: String,
    },
    /// An array filter is malformed, or no path refers to it.
    #[error("array filter {position}: {fault}")]
    ArrayFilter {
        /// Its position in the list, counted from 0.
        position: usize,
        /// The flaw.
        fault: ArrayFilterFault,
    },
    /// The condition of a `$pull` is malformed.
    #[error("malformed {operator} of '{path}'")]
    Condition {
        /// The operator.
        operator: &'static str,
        /// The path of the field.
        path: String,
        /// The flaw of the condition.
        source: Box<crate::error::Error>,
    },
    /// A condition could not be evaluated for an element of an array.
    #[error(transparent)]
    Unanswered {
        /// The reason.
        source: Box<crate::error::Error>,
    },
    /// A stage of a pipeline is malformed, or cannot be applied.
    #[error("stage {position} of the update: {fault}")]
    Stage {
        /// The position of the stage, counted from 0.
        position: usize,
        /// The flaw of the stage.
        fault: StageFault,
    },
    /// Array filters were given for a pipeline.
    #[error("arrayFilters may not be specified for pipeline-style updates")]
    ArrayFiltersOfPipeline,
    /// A field cannot be created inside a scalar, or in an array under a name that is not a position.
    #[error("Cannot create field '{field}' in element {{{name}: {value}}}")]
    NotViable {
        /// The component of the path that cannot be followed.
        field: String,
        /// The name of the field before it.
        name: String,
        /// The value of the field before it.
        value: String,
    },
    /// A path leads through a scalar, or through an array by a name that is not a position. The operator would not create
    /// a field.
    #[error("cannot use the part ({field}) of ({path}) to traverse the element {{{name}: {value}}}")]
    NotTraversable {
        /// The component of the path that cannot be followed.
        field: String,
        /// The path up to this component, inclusive.
        path: String,
        /// The name of the field before it.
        name: String,
        /// The value of the field before it.
        value: String,
    },
    /// The value of a field has a type that the operator does not accept.
    #[error("{}", mismatch(operator, path, found))]
    Mismatch {
        /// The operator.
        operator: &'static str,
        /// The field's path.
        path: String,
        /// The field's value.
        found: String,
    },
    /// A 64-bit integer overflowed.
    #[error("{operator} of '{path}' overflows a 64-bit integer")]
    IntegerOverflow {
        /// The operator.
        operator: &'static str,
        /// The field's path.
        path: String,
    },
    /// A path has the placeholder `$`, and the filter matched no array element.
    #[error("The positional operator did not find the match needed from the query.")]
    PositionMissing,
    /// The array before `$[]` or `$[name]` is missing.
    #[error("The path '{path}' must exist in the document in order to apply array updates.")]
    ElementsMissing {
        /// The path.
        path: String,
    },
    /// The value before `$[]` or `$[name]` is not an array.
    #[error("Cannot apply array updates to non-array element {name}: {value}")]
    ElementsOfScalar {
        /// The name of the field.
        name: String,
        /// The field's value.
        value: String,
    },
    /// A position is too far beyond the end of an array.
    #[error("cannot pad the array '{path}' by {count} elements, where {limit} are the limit")]
    Padding {
        /// The array's path.
        path: String,
        /// The number of elements that would be needed.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The old or the new path of a rename leads into an array.
    #[error("the {part} field of $rename cannot be an array element, and '{path}' is one")]
    RenameInArray {
        /// `source` or `destination`.
        part: &'static str,
        /// The path.
        path: String,
    },
    /// The `_id` would change.
    #[error("Performing an update on the path '{path}' would modify the immutable field '_id'")]
    ImmutableId {
        /// The path of the operator, or `_id`.
        path: String,
    },
    /// The result would be nested too deeply.
    #[error("the updated document would have more than {limit} levels")]
    TooDeep {
        /// The limit of levels.
        limit: usize,
    },
    /// The result would be too large.
    #[error("the updated document would be larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// Whether the document was to be modified or inserted.
        phase: Phase,
    },
    /// The filter of an upsert has an expression.
    #[error("$expr is not allowed in the query predicate for an upsert")]
    ExpressionInUpsert,
    /// The filter of an upsert gives one field two values.
    #[error("cannot infer query fields to set, {}", twice(path, other))]
    EqualityTwice {
        /// A path.
        path: String,
        /// The same path, or a beginning of it that the filter fixes as well.
        other: String,
    },
    /// The filter of an upsert gives a part of the `_id`.
    #[error("the field '_id' must be exactly specified, and the query gives its part '{path}'")]
    IdInParts {
        /// The path of the part.
        path: String,
    },
    /// The update or the document is not well-formed BSON.
    #[error("malformed document: {reason}")]
    InvalidBson {
        /// The reason.
        reason: String,
    },
}

/// A flaw of an operator's argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The argument of `$inc` or `$mul` is not a number.
    #[error("a number is needed, not {found}")]
    NotNumber {
        /// The given value.
        found: String,
    },
    /// The argument has the wrong type.
    #[error("{expected} is needed, not {found}")]
    WrongType {
        /// The argument that the operator accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// The `$each` of an `$addToSet` is not an array.
    #[error("$each needs an array, not {found}")]
    EachNotArray {
        /// The given value.
        found: String,
    },
    /// The operator has no such modifier.
    #[error("unrecognized clause {clause}")]
    UnknownClause {
        /// The clause.
        clause: String,
    },
    /// A modifier is given twice.
    #[error("only one {clause} is supported")]
    ClauseTwice {
        /// The clause.
        clause: String,
    },
    /// A modifier has a wrong value.
    #[error("{clause} must be {expected}, not {found}")]
    Clause {
        /// The clause.
        clause: &'static str,
        /// The value that the modifier accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// The argument of `$pop` is neither 1 nor -1.
    #[error("1 or -1 is needed, not {found}")]
    PopEnd {
        /// The given value.
        found: String,
    },
    /// The argument of `$currentDate` has no `$type`, or an unknown one.
    #[error("$type must be 'date' or 'timestamp', not {found}")]
    DateType {
        /// The given value.
        found: String,
    },
    /// The argument of `$bit` has no operation.
    #[error("at least one of 'and', 'or' and 'xor' is needed")]
    NoBitOperation,
    /// A field is renamed to its own name.
    #[error("source and target must differ")]
    SameName,
    /// One of the two paths of a rename leads into the value of the other.
    #[error("source and target '{target}' must not be on the same path")]
    SamePath {
        /// The target.
        target: String,
    },
    /// A path of a rename has a placeholder.
    #[error("the {part} field '{path}' may not be dynamic")]
    Dynamic {
        /// `source` or `destination`.
        part: &'static str,
        /// Its path.
        path: String,
    },
}

/// A flaw of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// The path is empty.
    #[error("is empty")]
    Empty,
    /// The path starts or ends with a dot, or has two dots in a row.
    #[error("contains an empty field name, which is not allowed")]
    EmptyComponent,
    /// The path contains a zero character.
    #[error("contains a zero character")]
    ZeroByte,
    /// The path has more components than a document may have levels.
    #[error("has more than {limit} components")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The path has the placeholder `$` more than once.
    #[error("has too many positional (i.e. '$') elements")]
    PositionTwice,
    /// The path starts with a placeholder, but the top level is not an array.
    #[error("has a positional element or an array filter identifier in the first position")]
    PositionFirst,
}

/// A flaw of an array filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayFilterFault {
    /// The filter has no condition on a field.
    #[error("no top-level field name is used")]
    Empty,
    /// The filter has conditions on several top-level fields.
    #[error("expected a single top-level field name, found '{first}' and '{second}'")]
    Several {
        /// The first one.
        first: String,
        /// Another one.
        second: String,
    },
    /// The filter has an operator on whole documents.
    #[error("{operator} is not supported in an array filter")]
    Operator {
        /// The operator.
        operator: &'static str,
    },
    /// The name of the top-level field is not an identifier.
    #[error(
        "the top-level field name must be alphanumeric and begin with a lowercase letter, found '{found}'"
    )]
    Identifier {
        /// The found value.
        found: String,
    },
    /// Two filters have the same identifier.
    #[error("Found multiple array filters with the same top-level field name {identifier}")]
    Twice {
        /// The identifier.
        identifier: String,
    },
    /// No path refers to the identifier.
    #[error("The array filter for identifier '{identifier}' was not used in the update")]
    Unused {
        /// The identifier.
        identifier: String,
    },
    /// The filter is malformed.
    #[error("{0}")]
    Filter(Box<crate::error::Error>),
}

/// A flaw of a stage of a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StageFault {
    /// The stage does not have exactly one field.
    #[error("a pipeline stage specification object must contain exactly one field")]
    FieldCount,
    /// No such stage exists.
    #[error("Unrecognized pipeline stage name: '{stage}'")]
    Unknown {
        /// The name.
        stage: String,
    },
    /// MongoDB has the stage, but not in an update.
    #[error("{stage} is not allowed to be used within an update")]
    NotInUpdates {
        /// The name.
        stage: String,
    },
    /// MongoDB has the stage in updates, and CairnDB does not.
    #[error("stage {stage} is not supported")]
    Unsupported {
        /// The name.
        stage: String,
    },
    /// The argument of a stage is wrong, or the stage cannot be applied to a document.
    #[error(transparent)]
    Shape(#[from] Box<crate::pipeline::error::Fault>),
}

impl From<crate::pipeline::error::Fault> for StageFault {
    fn from(fault: crate::pipeline::error::Fault) -> Self {
        Self::Shape(Box::new(fault))
    }
}

impl From<Malformed> for Error {
    fn from(Malformed { reason }: Malformed) -> Self {
        Self::InvalidBson { reason }
    }
}

impl Error {
    /// The error for bytes that are not a valid document.
    pub(super) fn malformed(error: &index::error::Error) -> Self {
        // MongoDB has a number of its own for documents that are nested too deeply.
        if let index::error::Error::DocumentTooDeep { limit, .. } = error {
            return Self::TooDeep { limit: *limit };
        }
        Self::InvalidBson { reason: error.to_string() }
    }

    /// The error for a condition that could not be evaluated.
    pub(super) fn unanswered(source: crate::error::Error) -> Self {
        // An interruption is not the fault of the condition, and has a number of its own.
        if let crate::error::Error::Interrupted(reason) = source {
            return Self::Interrupted(reason);
        }
        Self::Unanswered { source: Box::new(source) }
    }

    /// MongoDB's code for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::Replacement
            | Self::UnknownOperator { .. }
            | Self::OperandNotObject { .. }
            | Self::ArrayFiltersOfPipeline => Code::FAILED_TO_PARSE,
            Self::DollarField { .. } => Code::DOLLAR_PREFIXED_FIELD_NAME,
            Self::Malformed { fault, .. } => fault.code(),
            Self::Path { fault, .. } => fault.code(),
            Self::Conflict { .. } | Self::ElementConflict { .. } => Code::CONFLICTING_UPDATE_OPERATORS,
            Self::ArrayFilter { fault, .. } => fault.code(),
            Self::Condition { source, .. } | Self::Unanswered { source } => source.code(),
            Self::Stage { fault, .. } => fault.code(),
            Self::NotViable { .. } | Self::NotTraversable { .. } => Code::PATH_NOT_VIABLE,
            Self::Mismatch { operator, .. } => match *operator {
                "$inc" | "$mul" | "$pop" => Code::TYPE_MISMATCH,
                _ => Code::BAD_VALUE,
            },
            Self::IdentifierUnknown { .. }
            | Self::IntegerOverflow { .. }
            | Self::PositionMissing
            | Self::ElementsMissing { .. }
            | Self::ElementsOfScalar { .. }
            | Self::RenameInArray { .. } => Code::BAD_VALUE,
            Self::Padding { .. } => Code::CANNOT_BACKFILL_ARRAY,
            Self::ImmutableId { .. } => Code::IMMUTABLE_FIELD,
            Self::TooDeep { .. } => Code::OVERFLOW,
            Self::TooLarge { phase: Phase::Modify, .. } => Code::UPDATED_TOO_LARGE,
            Self::TooLarge { phase: Phase::Insert, .. } => Code::UPSERTED_TOO_LARGE,
            Self::ExpressionInUpsert => Code::QUERY_FEATURE_NOT_ALLOWED,
            Self::EqualityTwice { .. } => Code::NOT_SINGLE_VALUE_FIELD,
            Self::IdInParts { .. } => Code::NOT_EXACT_VALUE_FIELD,
            Self::InvalidBson { .. } => Code::INVALID_BSON,
        }
    }
}

impl Fault {
    fn code(&self) -> Code {
        match self {
            Self::NotNumber { .. } | Self::EachNotArray { .. } => Code::TYPE_MISMATCH,
            Self::PopEnd { .. } => Code::FAILED_TO_PARSE,
            Self::WrongType { .. }
            | Self::UnknownClause { .. }
            | Self::ClauseTwice { .. }
            | Self::Clause { .. }
            | Self::DateType { .. }
            | Self::NoBitOperation
            | Self::SameName
            | Self::SamePath { .. }
            | Self::Dynamic { .. } => Code::BAD_VALUE,
        }
    }
}

impl PathFault {
    fn code(self) -> Code {
        match self {
            Self::Empty | Self::EmptyComponent => Code::EMPTY_FIELD_NAME,
            Self::TooLong { .. } => Code::OVERFLOW,
            Self::ZeroByte | Self::PositionTwice | Self::PositionFirst => Code::BAD_VALUE,
        }
    }
}

impl ArrayFilterFault {
    fn code(&self) -> Code {
        match self {
            Self::Empty
            | Self::Several { .. }
            | Self::Operator { .. }
            | Self::Twice { .. }
            | Self::Unused { .. } => Code::FAILED_TO_PARSE,
            Self::Identifier { .. } => Code::BAD_VALUE,
            Self::Filter(source) => source.code(),
        }
    }
}

impl StageFault {
    fn code(&self) -> Code {
        match self {
            Self::FieldCount => Code::STAGE_FIELD_COUNT,
            Self::Unknown { .. } => Code::UNKNOWN_STAGE,
            Self::NotInUpdates { .. } => Code::INVALID_OPTIONS,
            Self::Unsupported { .. } => Code::NOT_IMPLEMENTED,
            Self::Shape(fault) => fault.code(),
        }
    }
}

/// The text of a type mismatch. MongoDB's clients search for the wording about numbers.
fn mismatch(operator: &str, path: &str, found: &str) -> String {
    match operator {
        "$inc" | "$mul" => {
            format!("Cannot apply {operator} to a value of non-numeric type: '{path}' is {found}")
        }
        "$bit" => format!("Cannot apply $bit to a value of non-integral type: '{path}' is {found}"),
        _ => format!("{operator} needs an array, but '{path}' is {found}"),
    }
}

/// The error for a field that the filter of an upsert fixes twice.
fn twice(path: &str, other: &str) -> String {
    if path == other {
        format!("path '{path}' is matched twice")
    } else {
        format!("both paths '{path}' and '{other}' are matched")
    }
}
