//! Errors of filters.
//!
//! An operator that does not exist, one that exists in MongoDB but not here, and one whose argument is wrong are
//! three different variants, because callers react to them differently. Variants name the path and the operator that
//! they are about, and have MongoDB's number.

use crate::code::Code;
use crate::pattern::Unanswered;

/// A flaw of a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such operator exists, or not at this place of a filter.
    #[error("unknown {}operator: {operator}{}", level(path), of(path))]
    UnknownOperator {
        /// The path of the field that the operator belongs to; empty at the top level.
        path: String,
        /// The operator's name.
        operator: String,
    },
    /// MongoDB has the operator, and CairnDB does not.
    #[error("operator {operator}{} is not supported", of(path))]
    UnsupportedOperator {
        /// The path of the field that the operator belongs to; empty at the top level.
        path: String,
        /// The operator's name.
        operator: String,
    },
    /// The operator exists, and is not allowed in this filter: one of array elements, or within an update.
    #[error("{operator} is not allowed in this context")]
    NotAllowed {
        /// The operator's name.
        operator: String,
    },
    /// A search by a regular expression reached one of its limits. (MongoDB counts that as no match.)
    #[error("the regular expression \"{pattern}\" could not be evaluated: {reason}")]
    PatternFailed {
        /// The pattern, shortened.
        pattern: String,
        /// Which limit was reached.
        reason: String,
    },
    /// The operator's argument is wrong.
    #[error("malformed {operator}{}: {fault}", of(path))]
    Malformed {
        /// The path of the field that the operator belongs to; empty at the top level.
        path: String,
        /// The operator's name; `$eq` for a value without operator.
        operator: String,
        /// The flaw.
        fault: Fault,
    },
    /// An expression was rejected, or has no value for a document.
    #[error(transparent)]
    Expression(#[from] Box<crate::expression::error::Error>),
    /// The operation that evaluates the filter must end.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// The filter is not well-formed BSON.
    #[error("malformed filter{}: {reason}", of(path))]
    InvalidBson {
        /// The field under which the bytes are broken; empty at the top level.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// A flaw of an operator's argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The argument has the wrong type.
    #[error("{expected} is needed, not {found}")]
    WrongType {
        /// The argument that the operator accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// A member of the argument has the wrong type or form.
    #[error("member {position} must be {expected}, not {found}")]
    WrongMember {
        /// The position of the member, from 0.
        position: usize,
        /// The argument that the operator accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// A list or object that needs members has none.
    #[error("{expected} must not be empty")]
    Empty {
        /// The argument that the operator accepts.
        expected: &'static str,
    },
    /// A comparison with undefined.
    #[error("cannot compare to undefined")]
    Undefined,
    /// An operator other than equality was given a regular expression.
    #[error("cannot compare to a regular expression")]
    Regex,
    /// An operator in a place where only values are allowed.
    #[error("member {position} holds {operator}, and operators are not allowed there")]
    NestedOperator {
        /// The position of the member, from 0.
        position: usize,
        /// The operator.
        operator: String,
    },
    /// Some members of `$all` are `$elemMatch` and some are not.
    #[error("either all members or none must be $elemMatch, and member {position} differs")]
    MixedMembers {
        /// The first member that differs from the ones before, counted from 0.
        position: usize,
    },
    /// A length that is not an integer of 0 or more.
    #[error("a length of 0 or more is needed, not {found}")]
    Length {
        /// The given value.
        found: String,
    },
    /// A bit mask that is not an integer of 0 or more within 64 bits.
    #[error("a mask must be an integer from 0 to 9223372036854775807, not {found}")]
    Mask {
        /// The given value.
        found: String,
    },
    /// A bit position that is not an integer of 0 or more within 32 bits.
    #[error("bit position {position} of the list must be an integer from 0 to 2147483647, not {found}")]
    BitPosition {
        /// Its position in the list, from 0.
        position: usize,
        /// The given value.
        found: String,
    },
    /// `$mod` without exactly a divisor and a remainder.
    #[error("a divisor and a remainder are needed, not {count} values")]
    ModuloLength {
        /// The number of given values.
        count: usize,
    },
    /// A divisor or remainder that is not a finite number within 64 bits.
    #[error("the {part} must be a number within 64 bits, not {found}")]
    ModuloPart {
        /// `divisor` or `remainder`.
        part: &'static str,
        /// The given value.
        found: String,
    },
    /// A divisor of zero.
    #[error("divisor cannot be 0")]
    DivisorZero,
    /// A type that is neither a number nor a name.
    #[error("a type is a number or a name, not {found}")]
    TypeOperand {
        /// The given value.
        found: String,
    },
    /// A number that is not the number of a type.
    #[error("{found} is not the number of a type")]
    TypeNumber {
        /// The given value.
        found: String,
    },
    /// A name that is not the name of a type.
    #[error("{found} is not the name of a type")]
    TypeName {
        /// The given value.
        found: String,
    },
    /// No type at all.
    #[error("at least one type is needed")]
    TypesEmpty,
    /// `$alwaysTrue` or `$alwaysFalse` with another argument than 1.
    #[error("the argument must be 1, not {found}")]
    NotOne {
        /// The given value.
        found: String,
    },
    /// `$options` without `$regex`.
    #[error("$options needs a $regex")]
    OptionsAlone,
    /// Options given with the pattern after `$options` gave some.
    #[error("options are set in both $regex and $options")]
    OptionsBeforePattern,
    /// `$options` after a pattern that has options of its own.
    #[error("options are set in both $regex and $options")]
    OptionsAfterPattern,
    /// A letter that is not an option of a regular expression.
    #[error("'{option}' is not an option of a regular expression")]
    OptionUnknown {
        /// The letter.
        option: char,
    },
    /// A regular expression that holds a zero character.
    #[error("a regular expression cannot hold a zero character")]
    PatternZero,
    /// A regular expression that is too long.
    #[error("a regular expression of {length} bytes is longer than the limit of {limit}")]
    PatternTooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest one accepted.
        limit: usize,
    },
    /// All regular expressions of a request together use too much memory.
    #[error("the regular expressions take more than {limit} bytes together")]
    PatternsTooMany {
        /// The most that they may use.
        limit: usize,
    },
    /// A regular expression that does not compile.
    #[error("the regular expression \"{pattern}\" is invalid: {reason}")]
    PatternInvalid {
        /// The pattern, shortened.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// An expression in a filter of array elements.
    #[error("$expr can only be applied to the top-level document")]
    NotTopLevel,
    /// Operators are nested too deeply.
    #[error("operators are nested more than {limit} levels deep")]
    TooDeep {
        /// The limit of levels.
        limit: usize,
    },
    /// A schema that is not an object.
    #[error("a schema is an object, not {found}")]
    SchemaType {
        /// The given value.
        found: String,
    },
    /// A keyword of a schema is wrong.
    #[error("keyword '{keyword}': {fault}")]
    Keyword {
        /// The keyword.
        keyword: String,
        /// The reason.
        fault: KeywordFault,
    },
    /// The field's name cannot be a path.
    #[error("{reason}")]
    Path {
        /// The reason.
        reason: String,
    },
}

/// A flaw of a schema's keyword.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeywordFault {
    /// No such keyword exists.
    #[error("it is unknown")]
    Unknown,
    /// JSON Schema has the keyword, and MongoDB's dialect does not.
    #[error("it is not supported")]
    Refused,
    /// The keyword was given twice.
    #[error("it was given twice")]
    Twice,
    /// The value has the wrong type.
    #[error("{expected} is needed, not {found}")]
    WrongType {
        /// The value that the keyword accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// A member of the value has the wrong type.
    #[error("each member must be {expected}, not {found}")]
    WrongMember {
        /// The value that the keyword accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// A list that needs members has none.
    #[error("the array must not be empty")]
    Empty,
    /// A list of schemas is empty.
    #[error("at least one schema is needed")]
    NoAlternatives,
    /// A member was given twice.
    #[error("{found} was given twice")]
    MemberTwice {
        /// The member.
        found: String,
    },
    /// A count that is not an integer of 0 or more.
    #[error("an integer of 0 or more is needed, not {found}")]
    Count {
        /// The given value.
        found: String,
    },
    /// A divisor of zero or less.
    #[error("a number greater than 0 is needed, not {found}")]
    NotPositive {
        /// The given value.
        found: String,
    },
    /// A name that is not the name of a type.
    #[error("{found} is not the name of a type")]
    TypeName {
        /// The given value.
        found: String,
    },
    /// The type `integer`, which MongoDB's dialect does not have.
    #[error("the type \"integer\" is not supported")]
    TypeInteger,
    /// Both `type` and `bsonType`.
    #[error("it cannot be combined with 'type'")]
    TypeTwice,
    /// A bound was called exclusive and was not given.
    #[error("it needs '{keyword}'")]
    BoundMissing {
        /// The bound's keyword.
        keyword: &'static str,
    },
}

impl From<crate::expression::error::Error> for Error {
    fn from(error: crate::expression::error::Error) -> Self {
        Self::Expression(Box::new(error))
    }
}

impl From<Unanswered> for Error {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Interrupted(interruption) => Self::Interrupted(interruption),
            Unanswered::Search { pattern, error } => {
                Self::PatternFailed { pattern, reason: error.to_string() }
            }
        }
    }
}

impl Error {
    /// MongoDB's number for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownOperator { .. } => Code::BAD_VALUE,
            // Distinguished from an unknown operator: MongoDB has this one.
            Self::UnsupportedOperator { .. } => Code::NOT_IMPLEMENTED,
            Self::PatternFailed { .. } => Code::PATTERN_FAILED,
            Self::NotAllowed { .. } => Code::QUERY_FEATURE_NOT_ALLOWED,
            Self::Malformed { fault, .. } => fault.code(),
            Self::Expression(error) => error.code(),
            Self::Interrupted(interruption) => interruption.code(),
            Self::InvalidBson { .. } => Code::INVALID_BSON,
        }
    }

    /// The dotted path of the field that the error is about; empty at the top level.
    pub fn path(&self) -> &str {
        match self {
            Self::UnknownOperator { path, .. }
            | Self::UnsupportedOperator { path, .. }
            | Self::Malformed { path, .. }
            | Self::InvalidBson { path, .. } => path,
            Self::NotAllowed { .. }
            | Self::PatternFailed { .. }
            | Self::Expression(_)
            | Self::Interrupted(_) => "",
        }
    }

    /// The operator that the error is about. Returns `None` for an error that is about no operator.
    pub fn operator(&self) -> Option<&str> {
        match self {
            Self::UnknownOperator { operator, .. }
            | Self::UnsupportedOperator { operator, .. }
            | Self::NotAllowed { operator }
            | Self::Malformed { operator, .. } => Some(operator),
            // An expression names its operators itself; in the filter the operator is the one that holds it.
            Self::Expression(_) => Some("$expr"),
            Self::PatternFailed { .. } => Some("$regex"),
            Self::InvalidBson { .. } | Self::Interrupted(_) => None,
        }
    }
}

impl Fault {
    fn code(&self) -> Code {
        match self {
            Self::WrongType { .. }
            | Self::WrongMember { .. }
            | Self::Empty { .. }
            | Self::Undefined
            | Self::Regex
            | Self::NestedOperator { .. }
            | Self::MixedMembers { .. }
            | Self::Length { .. }
            | Self::BitPosition { .. }
            | Self::ModuloLength { .. }
            | Self::ModuloPart { .. }
            | Self::DivisorZero
            | Self::TypeNumber { .. }
            | Self::TypeName { .. }
            | Self::OptionsAlone
            | Self::PatternZero
            | Self::NotTopLevel
            | Self::TooDeep { .. }
            | Self::Path { .. } => Code::BAD_VALUE,
            Self::Mask { .. } | Self::TypesEmpty | Self::NotOne { .. } => Code::FAILED_TO_PARSE,
            Self::TypeOperand { .. } | Self::SchemaType { .. } => Code::TYPE_MISMATCH,
            Self::Keyword { fault, .. } => fault.code(),
            Self::PatternTooLong { .. } | Self::PatternsTooMany { .. } | Self::PatternInvalid { .. } => {
                Code::PATTERN_INVALID
            }
            Self::OptionsBeforePattern => Code::OPTIONS_BEFORE_PATTERN,
            Self::OptionsAfterPattern => Code::OPTIONS_AFTER_PATTERN,
            Self::OptionUnknown { .. } => Code::PATTERN_OPTION_UNKNOWN,
        }
    }
}

impl KeywordFault {
    fn code(&self) -> Code {
        match self {
            Self::TypeName { .. } | Self::NoAlternatives => Code::BAD_VALUE,
            Self::WrongType { .. } | Self::WrongMember { .. } => Code::TYPE_MISMATCH,
            Self::Unknown
            | Self::Refused
            | Self::Twice
            | Self::Empty
            | Self::MemberTwice { .. }
            | Self::Count { .. }
            | Self::NotPositive { .. }
            | Self::TypeInteger
            | Self::TypeTwice
            | Self::BoundMissing { .. } => Code::FAILED_TO_PARSE,
        }
    }
}

/// ` of 'path'`, or no text at the top level.
fn of(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" of '{path}'") }
}

/// The words that MongoDB adds for an operator in place of a field; clients look for them in the message.
fn level(path: &str) -> &'static str {
    if path.is_empty() { "top level " } else { "" }
}
