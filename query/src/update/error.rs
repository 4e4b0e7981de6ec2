//! Why an update was refused, when it was read or when it met a document.
//!
//! Words that MongoDB's users match on are kept as they are, numbers are MongoDB's. What an embedded filter is refused
//! for is passed on as it came.

use crate::raw::Malformed;
use crate::update::context::Phase;

/// What is wrong with an update, or with applying it to a document.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation that updates is to end.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// The document has no operators: it is a replacement.
    #[error("the update has no operators, so that it is a replacement")]
    Replacement,
    /// No such operator is known, or a plain field stands among operators.
    #[error("unknown modifier: {operator}")]
    UnknownOperator {
        /// The name.
        operator: String,
    },
    /// A top-level field would get a name that starts with a dollar sign.
    #[error("the dollar ($) prefixed field '{name}' is not valid for storage")]
    DollarField {
        /// The field's name.
        name: String,
    },
    /// An operator has no object of fields.
    #[error("modifiers operate on fields but {operator} was given {found}")]
    OperandNotObject {
        /// The operator.
        operator: String,
        /// What was given.
        found: String,
    },
    /// The argument of an operator is wrong.
    #[error("malformed {operator} of '{path}': {fault}")]
    Malformed {
        /// The operator.
        operator: &'static str,
        /// The field that it stands beside.
        path: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A path cannot be updated.
    #[error("the update path '{path}' {fault}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// Two operators name the same field, or a field and a part of it.
    #[error("Updating the path '{path}' would create a conflict at '{at}'")]
    Conflict {
        /// The later path.
        path: String,
        /// Where it meets an earlier one.
        at: String,
    },
    /// Two placeholders lead to one element.
    #[error("Update created a conflict at '{at}'")]
    ElementConflict {
        /// The element.
        at: String,
    },
    /// No array filter has the identifier of a path.
    #[error("No array filter found for identifier '{identifier}' in path '{path}'")]
    IdentifierUnknown {
        /// The identifier.
        identifier: String,
        /// The path.
        path: String,
    },
    /// An array filter is wrong, or does not go with the paths.
    #[error("array filter {position}: {fault}")]
    ArrayFilter {
        /// Where it stands in the list, counted from 0.
        position: usize,
        /// What is wrong with it.
        fault: ArrayFilterFault,
    },
    /// A condition of `$pull` cannot be read.
    #[error("malformed {operator} of '{path}'")]
    Condition {
        /// The operator.
        operator: &'static str,
        /// The field that it stands beside.
        path: String,
        /// What is wrong with the condition.
        source: Box<crate::error::Error>,
    },
    /// A condition on the elements of an array has no answer for one of them.
    #[error(transparent)]
    Unanswered {
        /// Why it has none.
        source: Box<crate::error::Error>,
    },
    /// A stage of a pipeline cannot be read or applied.
    #[error("stage {position} of the update: {fault}")]
    Stage {
        /// Where it stands, counted from 0.
        position: usize,
        /// What is wrong with it.
        fault: StageFault,
    },
    /// Array filters were given beside a pipeline.
    #[error("arrayFilters may not be specified for pipeline-style updates")]
    ArrayFiltersOfPipeline,
    /// A path leads through a value that has no fields, or through an array by a name.
    #[error("Cannot create field '{field}' in element {{{name}: {value}}}")]
    NotViable {
        /// The first component that leads nowhere.
        field: String,
        /// The name of what it stands behind.
        name: String,
        /// What stands there.
        value: String,
    },
    /// The same for an operator that creates nothing.
    #[error("cannot use the part ({field}) of ({path}) to traverse the element {{{name}: {value}}}")]
    NotTraversable {
        /// The first component that leads nowhere.
        field: String,
        /// The path up to and with it.
        path: String,
        /// The name of what it stands behind.
        name: String,
        /// What stands there.
        value: String,
    },
    /// A field has a type that the operator cannot work on.
    #[error("{}", mismatch(operator, path, found))]
    Mismatch {
        /// The operator.
        operator: &'static str,
        /// The field's path.
        path: String,
        /// What stands there.
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
    /// `$` stands in a path, and the filter matched no array element.
    #[error("The positional operator did not find the match needed from the query.")]
    PositionMissing,
    /// The array of `$[]` or `$[name]` is not there.
    #[error("The path '{path}' must exist in the document in order to apply array updates.")]
    ElementsMissing {
        /// The path.
        path: String,
    },
    /// What stands before `$[]` or `$[name]` is no array.
    #[error("Cannot apply array updates to non-array element {name}: {value}")]
    ElementsOfScalar {
        /// The name of what it stands behind.
        name: String,
        /// What stands there.
        value: String,
    },
    /// A position is too far beyond the end of an array.
    #[error("cannot pad the array '{path}' by {count} elements, where {limit} are the limit")]
    Padding {
        /// The array's path.
        path: String,
        /// How many elements would be needed.
        count: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// A field to be renamed, or its new place, lies in an array.
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
        /// How many levels are accepted.
        limit: usize,
    },
    /// The result would be too large.
    #[error("the updated document would be larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// Whether it was to be inserted.
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
        /// The same path, or the beginning of it that is matched as well.
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
        /// What is wrong with the bytes.
        reason: String,
    },
}

/// What is wrong with an operator's argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// `$inc` or `$mul` by what is no number.
    #[error("a number is needed, not {found}")]
    NotNumber {
        /// What was given.
        found: String,
    },
    /// The argument has the wrong type.
    #[error("{expected} is needed, not {found}")]
    WrongType {
        /// What the operator takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// `$each` of `$addToSet` without a list.
    #[error("$each needs an array, not {found}")]
    EachNotArray {
        /// What was given.
        found: String,
    },
    /// A clause that the operator has not.
    #[error("unrecognized clause {clause}")]
    UnknownClause {
        /// The clause.
        clause: String,
    },
    /// A clause that stands twice.
    #[error("only one {clause} is supported")]
    ClauseTwice {
        /// The clause.
        clause: String,
    },
    /// A clause with a wrong value.
    #[error("{clause} must be {expected}, not {found}")]
    Clause {
        /// The clause.
        clause: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// `$pop` by anything but 1 and -1.
    #[error("1 or -1 is needed, not {found}")]
    PopEnd {
        /// What was given.
        found: String,
    },
    /// `$currentDate` without a known type.
    #[error("$type must be 'date' or 'timestamp', not {found}")]
    DateType {
        /// What was given.
        found: String,
    },
    /// `$bit` without an operation.
    #[error("at least one of 'and', 'or' and 'xor' is needed")]
    NoBitOperation,
    /// `$rename` to the same name.
    #[error("source and target must differ")]
    SameName,
    /// `$rename` into itself, or to what holds it.
    #[error("source and target '{target}' must not be on the same path")]
    SamePath {
        /// The target.
        target: String,
    },
    /// `$rename` with a placeholder.
    #[error("the {part} field '{path}' may not be dynamic")]
    Dynamic {
        /// `source` or `destination`.
        part: &'static str,
        /// Its path.
        path: String,
    },
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// The path is empty.
    #[error("is empty")]
    Empty,
    /// Between two dots, or beside one, is nothing.
    #[error("contains an empty field name, which is not allowed")]
    EmptyComponent,
    /// The path holds a zero character.
    #[error("contains a zero character")]
    ZeroByte,
    /// More components than a document may have levels.
    #[error("has more than {limit} components")]
    TooLong {
        /// How many are accepted.
        limit: usize,
    },
    /// `$` stands in the path twice.
    #[error("has too many positional (i.e. '$') elements")]
    PositionTwice,
    /// A placeholder stands where no array can be.
    #[error("has a positional element or an array filter identifier in the first position")]
    PositionFirst,
}

/// What is wrong with an array filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayFilterFault {
    /// The filter speaks of no field.
    #[error("no top-level field name is used")]
    Empty,
    /// The filter speaks of two top-level fields.
    #[error("expected a single top-level field name, found '{first}' and '{second}'")]
    Several {
        /// The first one.
        first: String,
        /// Another one.
        second: String,
    },
    /// The filter is more than conditions on a field.
    #[error("{operator} is not supported in an array filter")]
    Operator {
        /// The operator.
        operator: &'static str,
    },
    /// The top-level field's name is no identifier.
    #[error(
        "the top-level field name must be alphanumeric and begin with a lowercase letter, found '{found}'"
    )]
    Identifier {
        /// What was found.
        found: String,
    },
    /// Two filters have one identifier.
    #[error("Found multiple array filters with the same top-level field name {identifier}")]
    Twice {
        /// The identifier.
        identifier: String,
    },
    /// No path has the identifier.
    #[error("The array filter for identifier '{identifier}' was not used in the update")]
    Unused {
        /// The identifier.
        identifier: String,
    },
    /// The filter cannot be read.
    #[error("{0}")]
    Filter(Box<crate::error::Error>),
}

/// What is wrong with a stage of a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StageFault {
    /// A stage is an object of one field.
    #[error("a pipeline stage specification object must contain exactly one field")]
    FieldCount,
    /// No such stage is known.
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
    /// MongoDB has the stage in updates, this store has not.
    #[error("stage {stage} is not supported")]
    Unsupported {
        /// The name.
        stage: String,
    },
    /// The argument of a stage is wrong, or it cannot do what it should with a document.
    #[error(transparent)]
    Shape(#[from] Box<crate::pipeline::error::Fault>),
}

impl From<crate::pipeline::error::Fault> for StageFault {
    fn from(fault: crate::pipeline::error::Fault) -> Self {
        Self::Shape(Box::new(fault))
    }
}

const BAD_VALUE: i32 = 2;
const FAILED_TO_PARSE: i32 = 9;
const TYPE_MISMATCH: i32 = 14;
const OVERFLOW: i32 = 15;
const INVALID_BSON: i32 = 22;
const PATH_NOT_VIABLE: i32 = 28;
const CANNOT_BACKFILL_ARRAY: i32 = 34;
const CONFLICTING_OPERATORS: i32 = 40;
const DOLLAR_PREFIXED_FIELD: i32 = 52;
const NOT_SINGLE_VALUE_FIELD: i32 = 54;
const EMPTY_FIELD_NAME: i32 = 56;
const IMMUTABLE_FIELD: i32 = 66;
const INVALID_OPTIONS: i32 = 72;
const NOT_EXACT_VALUE_FIELD: i32 = 111;
const QUERY_FEATURE_NOT_ALLOWED: i32 = 224;
const NOT_IMPLEMENTED: i32 = 238;
const UPDATED_TOO_LARGE: i32 = 17_419;
const UPSERTED_TOO_LARGE: i32 = 17_420;
const STAGE_FIELD_COUNT: i32 = 40_323;
const STAGE_UNKNOWN: i32 = 40_324;

impl From<Malformed> for Error {
    fn from(Malformed { reason }: Malformed) -> Self {
        Self::InvalidBson { reason }
    }
}

impl Error {
    /// The error for bytes that are no valid document.
    pub(super) fn malformed(error: &index::error::Error) -> Self {
        // MongoDB has a number of its own for documents that are nested too deeply.
        if let index::error::Error::DocumentTooDeep { limit, .. } = error {
            return Self::TooDeep { limit: *limit };
        }
        Self::InvalidBson { reason: error.to_string() }
    }

    /// A condition that could not be asked: a search without answer, or an operation that is to end.
    pub(super) fn unanswered(source: crate::error::Error) -> Self {
        if let crate::error::Error::Interrupted(reason) = source {
            return Self::Interrupted(reason);
        }
        Self::Unanswered { source: Box::new(source) }
    }

    /// MongoDB's number for the error.
    pub fn code(&self) -> i32 {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::Replacement
            | Self::UnknownOperator { .. }
            | Self::OperandNotObject { .. }
            | Self::ArrayFiltersOfPipeline => FAILED_TO_PARSE,
            Self::DollarField { .. } => DOLLAR_PREFIXED_FIELD,
            Self::Malformed { fault, .. } => fault.code(),
            Self::Path { fault, .. } => fault.code(),
            Self::Conflict { .. } | Self::ElementConflict { .. } => CONFLICTING_OPERATORS,
            Self::ArrayFilter { fault, .. } => fault.code(),
            Self::Condition { source, .. } | Self::Unanswered { source } => source.code(),
            Self::Stage { fault, .. } => fault.code(),
            Self::NotViable { .. } | Self::NotTraversable { .. } => PATH_NOT_VIABLE,
            Self::Mismatch { operator, .. } => match *operator {
                "$inc" | "$mul" | "$pop" => TYPE_MISMATCH,
                _ => BAD_VALUE,
            },
            Self::IdentifierUnknown { .. }
            | Self::IntegerOverflow { .. }
            | Self::PositionMissing
            | Self::ElementsMissing { .. }
            | Self::ElementsOfScalar { .. }
            | Self::RenameInArray { .. } => BAD_VALUE,
            Self::Padding { .. } => CANNOT_BACKFILL_ARRAY,
            Self::ImmutableId { .. } => IMMUTABLE_FIELD,
            Self::TooDeep { .. } => OVERFLOW,
            Self::TooLarge { phase: Phase::Modify, .. } => UPDATED_TOO_LARGE,
            Self::TooLarge { phase: Phase::Insert, .. } => UPSERTED_TOO_LARGE,
            Self::ExpressionInUpsert => QUERY_FEATURE_NOT_ALLOWED,
            Self::EqualityTwice { .. } => NOT_SINGLE_VALUE_FIELD,
            Self::IdInParts { .. } => NOT_EXACT_VALUE_FIELD,
            Self::InvalidBson { .. } => INVALID_BSON,
        }
    }
}

impl Fault {
    fn code(&self) -> i32 {
        match self {
            Self::NotNumber { .. } | Self::EachNotArray { .. } => TYPE_MISMATCH,
            Self::PopEnd { .. } => FAILED_TO_PARSE,
            Self::WrongType { .. }
            | Self::UnknownClause { .. }
            | Self::ClauseTwice { .. }
            | Self::Clause { .. }
            | Self::DateType { .. }
            | Self::NoBitOperation
            | Self::SameName
            | Self::SamePath { .. }
            | Self::Dynamic { .. } => BAD_VALUE,
        }
    }
}

impl PathFault {
    fn code(self) -> i32 {
        match self {
            Self::Empty | Self::EmptyComponent => EMPTY_FIELD_NAME,
            Self::TooLong { .. } => OVERFLOW,
            Self::ZeroByte | Self::PositionTwice | Self::PositionFirst => BAD_VALUE,
        }
    }
}

impl ArrayFilterFault {
    fn code(&self) -> i32 {
        match self {
            Self::Empty
            | Self::Several { .. }
            | Self::Operator { .. }
            | Self::Twice { .. }
            | Self::Unused { .. } => FAILED_TO_PARSE,
            Self::Identifier { .. } => BAD_VALUE,
            Self::Filter(source) => source.code(),
        }
    }
}

impl StageFault {
    fn code(&self) -> i32 {
        match self {
            Self::FieldCount => STAGE_FIELD_COUNT,
            Self::Unknown { .. } => STAGE_UNKNOWN,
            Self::NotInUpdates { .. } => INVALID_OPTIONS,
            Self::Unsupported { .. } => NOT_IMPLEMENTED,
            Self::Shape(fault) => fault.code(),
        }
    }
}

/// MongoDB's clients look for these words where a number is needed.
fn mismatch(operator: &str, path: &str, found: &str) -> String {
    match operator {
        "$inc" | "$mul" => {
            format!("Cannot apply {operator} to a value of non-numeric type: '{path}' is {found}")
        }
        "$bit" => format!("Cannot apply $bit to a value of non-integral type: '{path}' is {found}"),
        _ => format!("{operator} needs an array, but '{path}' is {found}"),
    }
}

fn twice(path: &str, other: &str) -> String {
    if path == other {
        format!("path '{path}' is matched twice")
    } else {
        format!("both paths '{path}' and '{other}' are matched")
    }
}
