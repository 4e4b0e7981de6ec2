//! Why a pipeline was refused, or could not go on over the documents that it met.
//!
//! A stage that does not exist, one that exists in MongoDB but not here, and one whose argument is wrong are three
//! different faults. Where MongoDB has a number of its own for a fault it stands with the check and travels in the
//! error.

/// What is wrong with a pipeline, or with a document that a stage met.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A stage is wrong, or cannot do what it should.
    #[error("stage {position}: {fault}")]
    Stage {
        /// Where the stage stands, counted from 0.
        position: usize,
        /// What is wrong.
        fault: Fault,
    },
    /// Too many stages.
    #[error("Pipeline length must be no longer than {limit} stages, not {count}")]
    TooLong {
        /// How many were given.
        count: usize,
        /// How many are accepted.
        limit: usize,
    },
}

/// What is wrong with a stage, or with what it met.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The operation is to end.
    #[error("{0}")]
    Interrupted(#[from] crate::operation::Interruption),
    /// A stage is an object of one field.
    #[error("a pipeline stage specification object must contain exactly one field")]
    FieldCount,
    /// No such stage is known.
    #[error("Unrecognized pipeline stage name: '{stage}'")]
    Unknown {
        /// The name.
        stage: String,
    },
    /// MongoDB has the stage, this store has not.
    #[error("stage {stage} is not supported")]
    Unsupported {
        /// The name.
        stage: String,
    },
    /// A source of documents behind another stage.
    #[error("{stage} is only valid as the first stage in a pipeline")]
    NotFirst {
        /// The name.
        stage: &'static str,
    },
    /// A stage that may not stand in a part of `$facet`.
    #[error("{stage} is not allowed to be used within a $facet stage")]
    InFacet {
        /// The name.
        stage: &'static str,
    },
    /// The argument of a stage is wrong.
    #[error("{stage} needs {expected}, not {found}")]
    Operand {
        /// The name.
        stage: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
        /// MongoDB's number.
        code: i32,
    },
    /// A stage was given an option that it does not know.
    #[error("unrecognized option to {stage}: '{option}'")]
    OptionUnknown {
        /// The name.
        stage: &'static str,
        /// The option.
        option: String,
        /// MongoDB's number.
        code: i32,
    },
    /// An option that must be given is not.
    #[error("{stage} needs '{option}'")]
    OptionMissing {
        /// The name.
        stage: &'static str,
        /// The option.
        option: &'static str,
        /// MongoDB's number.
        code: i32,
    },
    /// A field that a stage makes cannot be made.
    #[error("{stage} cannot make the field '{field}': {reason}")]
    Field {
        /// The name.
        stage: &'static str,
        /// The field's name.
        field: String,
        /// What is wrong with it.
        reason: &'static str,
        /// MongoDB's number.
        code: i32,
    },
    /// No such accumulator is known.
    #[error("unknown group operator '{operator}'")]
    UnknownAccumulator {
        /// Its name.
        operator: String,
    },
    /// MongoDB has the accumulator, this store has not.
    #[error("accumulator {operator} is not supported")]
    UnsupportedAccumulator {
        /// Its name.
        operator: String,
    },
    /// A path that a stage names is none.
    #[error("{stage} cannot use the path '{path}': {refusal}")]
    Path {
        /// The name.
        stage: &'static str,
        /// The path.
        path: String,
        /// What is wrong with it.
        refusal: crate::path::PathRefusal,
    },
    /// What is to be the document is none.
    #[error("the new root must be an object, not {found}")]
    RootNotObject {
        /// What it is.
        found: String,
    },
    /// A value that a document gives to an accumulator is wrong.
    #[error("{operator} needs {expected}, not {found}")]
    Value {
        /// The accumulator.
        operator: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What the document gave.
        found: String,
        /// MongoDB's number.
        code: i32,
    },
    /// What a stage holds does not fit into memory.
    #[error("{stage} exceeded the memory limit of {limit} bytes, and nothing is moved to disk")]
    MemoryExceeded {
        /// The name.
        stage: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A document that a stage makes is too large.
    #[error("{stage} makes a document of more than {limit} bytes")]
    TooLarge {
        /// The name.
        stage: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A document that a stage makes is nested too deeply.
    #[error("{stage} makes a document of more than {limit} levels")]
    TooDeep {
        /// The name.
        stage: &'static str,
        /// How many levels are accepted.
        limit: usize,
    },
    /// Bytes that are no BSON.
    #[error("malformed BSON: {reason}")]
    InvalidBson {
        /// What is wrong with them.
        reason: String,
    },
    /// A part of `$facet` is wrong.
    #[error("in '{field}', {error}")]
    Facet {
        /// The part's name.
        field: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// A filter is refused, or cannot be asked of a document.
    #[error("{0}")]
    Filter(Box<crate::error::Error>),
    /// An expression is refused, or has no value for a document.
    #[error("{0}")]
    Expression(Box<crate::expression::error::Error>),
    /// A projection is refused, or has no result for a document.
    #[error("{0}")]
    Projection(Box<crate::projection::error::Error>),
    /// A sort is refused, or a document cannot be sorted.
    #[error("{0}")]
    Sort(Box<crate::sort::error::Error>),
}

const OVERFLOW: i32 = 15;
const INVALID_BSON: i32 = 22;
const NOT_IMPLEMENTED: i32 = 238;
const MEMORY_EXCEEDED: i32 = 292;
const TOO_LARGE: i32 = 10_334;
const UNKNOWN_ACCUMULATOR: i32 = 15_952;
const ROOT_NOT_OBJECT: i32 = 40_228;
const FIELD_COUNT: i32 = 40_323;
const UNKNOWN: i32 = 40_324;
const IN_FACET: i32 = 40_600;
const NOT_FIRST: i32 = 40_602;
const TOO_LONG: i32 = 7_749_501;

impl Error {
    /// MongoDB's number for the error.
    pub fn code(&self) -> i32 {
        match self {
            Self::Stage { fault, .. } => fault.code(),
            Self::TooLong { .. } => TOO_LONG,
        }
    }
}

impl Fault {
    /// MongoDB's number for the fault.
    pub fn code(&self) -> i32 {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::FieldCount => FIELD_COUNT,
            Self::Unknown { .. } => UNKNOWN,
            Self::Unsupported { .. } | Self::UnsupportedAccumulator { .. } => NOT_IMPLEMENTED,
            Self::NotFirst { .. } => NOT_FIRST,
            Self::InFacet { .. } => IN_FACET,
            Self::Operand { code, .. }
            | Self::OptionUnknown { code, .. }
            | Self::OptionMissing { code, .. }
            | Self::Field { code, .. }
            | Self::Value { code, .. } => *code,
            Self::UnknownAccumulator { .. } => UNKNOWN_ACCUMULATOR,
            Self::Path { refusal, .. } => refusal.code(),
            Self::RootNotObject { .. } => ROOT_NOT_OBJECT,
            Self::MemoryExceeded { .. } => MEMORY_EXCEEDED,
            Self::TooLarge { .. } => TOO_LARGE,
            Self::TooDeep { .. } => OVERFLOW,
            Self::InvalidBson { .. } => INVALID_BSON,
            Self::Facet { error, .. } => error.code(),
            Self::Filter(error) => error.code(),
            Self::Expression(error) => error.code(),
            Self::Projection(error) => error.code(),
            Self::Sort(error) => error.stage_code(),
        }
    }

    /// What makes a result no document that can be stored or shown.
    pub(crate) fn of_result(stage: &'static str, error: &index::error::Error) -> Self {
        use index::error::Error::{DocumentTooDeep, DocumentTooLarge};
        if let DocumentTooLarge { limit, .. } = error {
            return Self::TooLarge { stage, limit: *limit };
        }
        if let DocumentTooDeep { limit, .. } = error {
            return Self::TooDeep { stage, limit: *limit };
        }
        Self::InvalidBson { reason: error.to_string() }
    }
}

/// Turns a fault of the stage at `position` into an error.
pub(super) fn at<E: From<Error>>(position: usize) -> impl Fn(Fault) -> E {
    move |fault| E::from(Error::Stage { position, fault })
}

impl From<crate::error::Error> for Fault {
    fn from(error: crate::error::Error) -> Self {
        Self::Filter(Box::new(error))
    }
}

impl From<crate::expression::error::Error> for Fault {
    fn from(error: crate::expression::error::Error) -> Self {
        Self::Expression(Box::new(error))
    }
}

impl From<crate::projection::error::Error> for Fault {
    fn from(error: crate::projection::error::Error) -> Self {
        Self::Projection(Box::new(error))
    }
}

impl From<crate::sort::error::Error> for Fault {
    fn from(error: crate::sort::error::Error) -> Self {
        if let crate::sort::error::Error::MemoryExceeded { limit } = error {
            return Self::MemoryExceeded { stage: "$sort", limit };
        }
        Self::Sort(Box::new(error))
    }
}

impl From<crate::raw::Malformed> for Fault {
    fn from(malformed: crate::raw::Malformed) -> Self {
        Self::InvalidBson { reason: malformed.reason }
    }
}
