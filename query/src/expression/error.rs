//! Errors of expressions, and of evaluating them for a document.
//!
//! An operator that does not exist, one that exists in MongoDB but not here, and one whose argument is wrong are three
//! different variants. MongoDB has a number of its own for almost every fault of every operator; the check that finds
//! the fault names the number, and the error carries it.

use crate::code::Code;

/// A flaw of an expression, or of a value that it met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation that evaluates the expression must end.
    #[error(transparent)]
    Interrupted(#[from] crate::operation::Interruption),
    /// No such operator exists.
    #[error("Unrecognized expression '{operator}'")]
    UnknownOperator {
        /// The operator's name.
        operator: String,
    },
    /// MongoDB has the operator, and CairnDB does not.
    #[error("expression {operator} is not supported")]
    UnsupportedOperator {
        /// The operator's name.
        operator: String,
    },
    /// MongoDB accepts what the operator was given, and CairnDB does not.
    #[error("{operator} of {feature} is not supported")]
    UnsupportedUse {
        /// The operator's name.
        operator: &'static str,
        /// The feature that it was given.
        feature: String,
    },
    /// A variable that is not defined.
    #[error("Use of undefined variable: {name}")]
    UndefinedVariable {
        /// Its name, without the dollar signs.
        name: String,
    },
    /// A variable that MongoDB defines, and CairnDB does not.
    #[error("the variable $${name} is not supported")]
    UnsupportedVariable {
        /// Its name, without the dollar signs.
        name: String,
    },
    /// A name that a variable cannot have.
    #[error("'{name}' cannot be the name of a variable: {reason}")]
    VariableName {
        /// The name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// A variable of a command's `let` reads a field, and there is no document yet.
    #[error("the variable {name} must be a constant, and it reads a field")]
    VariableNotConstant {
        /// Its name.
        name: String,
    },
    /// Text that cannot be a path or the name of a field.
    #[error("'{path}' is not a path: {reason}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        reason: &'static str,
        /// MongoDB's number.
        code: Code,
    },
    /// An object with an operator and another field.
    #[error("an object with the operator {operator} must have no other field, and has {found}")]
    NotAlone {
        /// The operator's name.
        operator: String,
        /// The number of fields of the object.
        found: usize,
    },
    /// An operator got too many or too few arguments.
    #[error("Expression {operator} takes {expected} arguments, and {found} were passed in")]
    ArgumentCount {
        /// The operator's name.
        operator: &'static str,
        /// The number that it accepts.
        expected: String,
        /// The number that it got.
        found: usize,
        /// MongoDB's number.
        code: Code,
    },
    /// An argument of an operator is wrong.
    #[error("{operator}: {fault}")]
    Argument {
        /// The operator's name.
        operator: &'static str,
        /// The flaw.
        fault: Fault,
        /// MongoDB's number.
        code: Code,
    },
    /// Expressions are nested too deeply.
    #[error("expressions are nested more than {limit} levels deep")]
    TooDeep {
        /// The limit of levels.
        limit: usize,
    },
    /// A value became too large.
    #[error("{operator} makes a value of more than {limit} bytes")]
    TooLarge {
        /// The operator's name.
        operator: &'static str,
        /// The limit of a value, in bytes.
        limit: usize,
    },
    /// Bytes that are not BSON.
    #[error("malformed expression: {reason}")]
    InvalidBson {
        /// The reason.
        reason: String,
    },
}

/// A flaw of an operator's argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The argument has the wrong type.
    #[error("{argument} must be {expected}, not {found}")]
    WrongType {
        /// Which argument.
        argument: &'static str,
        /// The argument that the operator accepts.
        expected: &'static str,
        /// The type of what was given.
        found: &'static str,
    },
    /// The argument has the right type, and a value that the operator does not accept.
    #[error("{argument} must be {expected}, not {found}")]
    WrongValue {
        /// Which argument.
        argument: &'static str,
        /// The argument that the operator accepts.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// The argument is not an object of named arguments.
    #[error("an object of arguments is needed, not {found}")]
    NotAnObject {
        /// The type of what was given.
        found: &'static str,
    },
    /// A named argument is missing.
    #[error("missing '{argument}'")]
    Missing {
        /// Its name.
        argument: &'static str,
    },
    /// A named argument that the operator does not accept.
    #[error("unrecognized argument '{argument}'")]
    Unknown {
        /// Its name.
        argument: String,
    },
    /// Two named arguments that exclude each other.
    #[error("{first} and {second} exclude each other")]
    Exclusive {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A name that an object has twice.
    #[error("duplicate field name '{name}'")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The operator has no result for the types it was given.
    #[error("it does not accept {left} and {right}")]
    Types {
        /// The type of the first.
        left: &'static str,
        /// The type of the second.
        right: &'static str,
    },
    /// A divisor of zero.
    #[error("can't divide by zero")]
    DivisorZero,
    /// The result is outside of its type's range.
    #[error("the {kind} overflows")]
    Overflow {
        /// The result's type.
        kind: &'static str,
    },
    /// More than one date in a sum.
    #[error("only one date is allowed in a sum")]
    SecondDate,
    /// No branch of `$switch` applies, and there is no default.
    #[error("no branch applies and there is no default")]
    NoBranch,
    /// A value that cannot be converted.
    #[error("cannot convert {found} to {target}: {reason}")]
    Conversion {
        /// The given value.
        found: String,
        /// The type that is wanted.
        target: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// Text that is not a date.
    #[error("\"{text}\" is not a date: {reason}")]
    DateText {
        /// The text, shortened.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// A format of dates that is wrong.
    #[error("{reason} in the format \"{format}\"")]
    DateFormat {
        /// The format, shortened.
        format: String,
        /// The reason.
        reason: &'static str,
    },
    /// A name that is not a time zone.
    #[error("unrecognized time zone identifier: \"{name}\"")]
    TimeZone {
        /// The name, shortened.
        name: String,
    },
    /// A regular expression that does not compile.
    #[error("invalid regular expression \"{pattern}\": {reason}")]
    Pattern {
        /// The pattern, shortened.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// A search by a regular expression reached one of its limits.
    #[error("the regular expression \"{pattern}\" could not be evaluated: {reason}")]
    PatternFailed {
        /// The pattern, shortened.
        pattern: String,
        /// Which limit was reached.
        reason: String,
    },
    /// Options were given both in a regular expression and in `options`.
    #[error("options are set both in the regular expression and in 'options'")]
    OptionsTwice,
}

impl Error {
    /// MongoDB's number for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::UnknownOperator { .. } => Code::INVALID_PIPELINE_OPERATOR,
            Self::UnsupportedOperator { .. }
            | Self::UnsupportedUse { .. }
            | Self::UnsupportedVariable { .. } => Code::NOT_IMPLEMENTED,
            Self::UndefinedVariable { .. } => Code::UNDEFINED_VARIABLE,
            Self::VariableName { .. } => Code::FAILED_TO_PARSE,
            Self::VariableNotConstant { .. } => Code::LET_VARIABLE_NOT_CONSTANT,
            Self::NotAlone { .. } => Code::EXPRESSION_NOT_ALONE,
            Self::Path { code, .. } | Self::ArgumentCount { code, .. } | Self::Argument { code, .. } => *code,
            Self::TooDeep { .. } => Code::OVERFLOW,
            Self::TooLarge { .. } => Code::BSON_OBJECT_TOO_LARGE,
            Self::InvalidBson { .. } => Code::INVALID_BSON,
        }
    }

    /// The operator that the error is about. Returns `None` for an error that is about no operator.
    pub fn operator(&self) -> Option<&str> {
        match self {
            Self::UnknownOperator { operator }
            | Self::UnsupportedOperator { operator }
            | Self::NotAlone { operator, .. } => Some(operator),
            Self::UnsupportedUse { operator, .. }
            | Self::ArgumentCount { operator, .. }
            | Self::Argument { operator, .. }
            | Self::TooLarge { operator, .. } => Some(operator),
            Self::UndefinedVariable { .. }
            | Self::UnsupportedVariable { .. }
            | Self::VariableName { .. }
            | Self::VariableNotConstant { .. }
            | Self::Path { .. }
            | Self::TooDeep { .. }
            | Self::Interrupted(_)
            | Self::InvalidBson { .. } => None,
        }
    }

    /// Whether a value could not be converted: the errors that `onError` of `$convert` catches.
    pub(super) fn is_conversion(&self) -> bool {
        self.code() == Code::CONVERSION_FAILURE
    }
}
