//! Errors of pipelines, and of running them over a document.
//!
//! A stage that does not exist, one that exists in MongoDB but not here, and one with a wrong argument are three
//! different faults. Many of MongoDB's codes belong to a single check: the check names the code, and the error
//! carries it.

use crate::code::Code;
use crate::operation::SpillFailure;
use crate::spill::SpillError;

/// A flaw of a pipeline, or of a document that it was run over.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A stage is malformed, or failed for a document.
    #[error("stage {position}: {fault}")]
    Stage {
        /// The position of the stage, counted from 0.
        position: usize,
        /// The flaw of the stage.
        fault: Fault,
    },
    /// The pipeline has too many stages.
    #[error("Pipeline length must be no longer than {limit} stages, not {count}")]
    TooLong {
        /// The number of given ones.
        count: usize,
        /// The limit.
        limit: usize,
    },
}

/// A flaw of a stage, or of a document that it was given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The operation was interrupted.
    #[error("{0}")]
    Interrupted(#[from] crate::operation::Interruption),
    /// The stage does not have exactly one field.
    #[error("a pipeline stage specification object must contain exactly one field")]
    FieldCount,
    /// No such stage exists.
    #[error("Unrecognized pipeline stage name: '{stage}'")]
    Unknown {
        /// The name.
        stage: String,
    },
    /// MongoDB has the stage, and CairnDB does not.
    #[error("stage {stage} is not supported")]
    Unsupported {
        /// The name.
        stage: String,
    },
    /// A stage that gives documents comes after another stage.
    #[error("{stage} is only valid as the first stage in a pipeline")]
    NotFirst {
        /// The name.
        stage: &'static str,
    },
    /// A stage that writes comes before another stage.
    #[error("{stage} can only be the final stage in the pipeline")]
    NotLast {
        /// The name.
        stage: &'static str,
    },
    /// The stage is not allowed in a `$lookup`.
    #[error("{stage} is not allowed within a $lookup's sub-pipeline")]
    InLookup {
        /// The name.
        stage: &'static str,
    },
    /// The modes of a `$merge` say together that nothing is ever written.
    #[error(
        "Combination of $merge modes 'whenMatched: {when_matched}' and 'whenNotMatched: {when_not_matched}' is not supported"
    )]
    MergeModes {
        /// The first mode.
        when_matched: &'static str,
        /// The second mode.
        when_not_matched: &'static str,
    },
    /// A document cannot be merged by a field.
    #[error("$merge write error: 'on' field '{field}' {reason}")]
    OnField {
        /// The field.
        field: String,
        /// The flaw of its value.
        reason: &'static str,
        /// MongoDB's code.
        code: Code,
    },
    /// The stage is not allowed in a `$facet`.
    #[error("{stage} is not allowed to be used within a $facet stage")]
    InFacet {
        /// The name.
        stage: &'static str,
    },
    /// The stage is not allowed in a `$unionWith`.
    #[error("{stage} is not allowed within a $unionWith's sub-pipeline")]
    InUnion {
        /// The name.
        stage: &'static str,
    },
    /// Pipelines lie in each other too deep.
    #[error("pipelines of {stage} lie more than {limit} deep in each other")]
    TooManyNested {
        /// The name.
        stage: &'static str,
        /// The limit of their depth.
        limit: usize,
    },
    /// The argument of the stage is wrong.
    #[error("{stage} needs {expected}, not {found}")]
    Operand {
        /// The name.
        stage: &'static str,
        /// The argument that the stage accepts.
        expected: &'static str,
        /// The given value.
        found: String,
        /// MongoDB's code.
        code: Code,
    },
    /// The stage has no such option.
    #[error("unrecognized option to {stage}: '{option}'")]
    OptionUnknown {
        /// The name.
        stage: &'static str,
        /// The option.
        option: String,
        /// MongoDB's code.
        code: Code,
    },
    /// A required option is missing.
    #[error("{stage} needs '{option}'")]
    OptionMissing {
        /// The name.
        stage: &'static str,
        /// The option.
        option: &'static str,
        /// MongoDB's code.
        code: Code,
    },
    /// The stage cannot create a field.
    #[error("{stage} cannot make the field '{field}': {reason}")]
    Field {
        /// The name.
        stage: &'static str,
        /// The field's name.
        field: String,
        /// The reason.
        reason: &'static str,
        /// MongoDB's code.
        code: Code,
    },
    /// No such accumulator exists.
    #[error("unknown group operator '{operator}'")]
    UnknownAccumulator {
        /// Its name.
        operator: String,
    },
    /// No such operator of windows exists.
    #[error("Unrecognized window function, {operator}")]
    UnknownWindowOperator {
        /// Its name.
        operator: String,
    },
    /// MongoDB has the accumulator, and CairnDB does not.
    #[error("accumulator {operator} is not supported")]
    UnsupportedAccumulator {
        /// Its name.
        operator: String,
    },
    /// A path in the argument of the stage is malformed.
    #[error("{stage} cannot use the path '{path}': {refusal}")]
    Path {
        /// The name.
        stage: &'static str,
        /// The path.
        path: String,
        /// The reason.
        refusal: crate::path::PathRefusal,
    },
    /// The value that is to replace the document is not an object.
    #[error("the new root must be an object, not {found}")]
    RootNotObject {
        /// The value.
        found: String,
    },
    /// The accumulator does not accept a value of a document.
    #[error("{operator} needs {expected}, not {found}")]
    Value {
        /// The accumulator.
        operator: &'static str,
        /// The argument that the accumulator accepts.
        expected: &'static str,
        /// The value.
        found: String,
        /// MongoDB's code.
        code: Code,
    },
    /// The stage needs more memory than it may hold.
    #[error("{stage} exceeded the memory limit of {limit} bytes, and nothing is moved to disk")]
    MemoryExceeded {
        /// The name.
        stage: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// One group needs more memory than all of them may have.
    #[error("{stage} exceeded the memory limit of {limit} bytes by one group")]
    GroupTooLarge {
        /// The name.
        stage: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A temporary file of the stage cannot be made, written or read.
    #[error("{0}")]
    Spill(SpillFailure),
    /// The stage makes too many documents.
    #[error("{stage} makes more than {limit} documents")]
    TooManyGenerated {
        /// The name.
        stage: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The documents of another collection that were found for one document are too large together.
    #[error("{stage} found documents of more than {limit} bytes in '{from}' for one document")]
    JoinTooLarge {
        /// The name.
        stage: &'static str,
        /// The other collection.
        from: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Another collection cannot be read. The error of the read says why.
    #[error("another collection cannot be read")]
    ForeignUnreadable,
    /// A document made by the stage is too large.
    #[error("{stage} makes a document of more than {limit} bytes")]
    TooLarge {
        /// The name.
        stage: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A document made by the stage is nested too deeply.
    #[error("{stage} makes a document of more than {limit} levels")]
    TooDeep {
        /// The name.
        stage: &'static str,
        /// The limit of levels.
        limit: usize,
    },
    /// The bytes of a stage or a document are not BSON.
    #[error("malformed BSON: {reason}")]
    InvalidBson {
        /// The reason.
        reason: String,
    },
    /// A pipeline inside a `$facet`, a `$lookup` or a `$unionWith` is malformed, or failed for a document.
    #[error("in '{field}', {error}")]
    Facet {
        /// The field of this pipeline, or the stage.
        field: String,
        /// The flaw of the pipeline.
        error: Box<Error>,
    },
    /// A filter is malformed, or cannot be evaluated for a document.
    #[error("{0}")]
    Filter(Box<crate::error::Error>),
    /// An expression is malformed, or cannot be evaluated for a document.
    #[error("{0}")]
    Expression(Box<crate::expression::error::Error>),
    /// A projection is malformed, or cannot be applied to a document.
    #[error("{0}")]
    Projection(Box<crate::projection::error::Error>),
    /// A sort is malformed, or a document cannot be sorted.
    #[error("{0}")]
    Sort(Box<crate::sort::error::Error>),
}

impl Error {
    /// MongoDB's code for the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Stage { fault, .. } => fault.code(),
            Self::TooLong { .. } => Code::PIPELINE_TOO_LONG,
        }
    }

    /// The failure of a temporary file, if that is what has happened: its cause is an error of the caller.
    pub fn spill(&self) -> Option<&SpillFailure> {
        let Self::Stage { fault, .. } = self else { return None };
        if let Fault::Facet { error, .. } = fault {
            return error.spill();
        }
        if let Fault::Spill(failure) = fault { Some(failure) } else { None }
    }
}

impl Fault {
    /// MongoDB's code for the fault.
    pub fn code(&self) -> Code {
        match self {
            Self::Interrupted(interruption) => interruption.code(),
            Self::FieldCount => Code::STAGE_FIELD_COUNT,
            Self::Unknown { .. } => Code::UNKNOWN_STAGE,
            Self::Unsupported { .. } | Self::UnsupportedAccumulator { .. } => Code::NOT_IMPLEMENTED,
            Self::NotFirst { .. } => Code::STAGE_NOT_FIRST,
            Self::NotLast { .. } => Code::STAGE_NOT_LAST,
            Self::InLookup { .. } => Code::STAGE_IN_LOOKUP,
            Self::MergeModes { .. } => Code::MERGE_MODES,
            Self::InFacet { .. } => Code::STAGE_IN_FACET,
            Self::InUnion { .. } => Code::STAGE_IN_UNION,
            Self::TooManyNested { .. } => Code::MAX_SUB_PIPELINE_DEPTH_EXCEEDED,
            Self::Operand { code, .. }
            | Self::OptionUnknown { code, .. }
            | Self::OptionMissing { code, .. }
            | Self::Field { code, .. }
            | Self::OnField { code, .. }
            | Self::Value { code, .. } => *code,
            Self::UnknownAccumulator { .. } => Code::UNKNOWN_ACCUMULATOR,
            Self::UnknownWindowOperator { .. } => Code::FAILED_TO_PARSE,
            Self::Path { refusal, .. } => refusal.code(),
            Self::RootNotObject { .. } => Code::NEW_ROOT_NOT_OBJECT,
            Self::MemoryExceeded { .. } => Code::QUERY_EXCEEDED_MEMORY_LIMIT,
            Self::GroupTooLarge { .. } => Code::EXCEEDED_MEMORY_LIMIT,
            Self::TooManyGenerated { .. } => Code::DENSIFY_TOO_MANY,
            Self::JoinTooLarge { .. } => Code::JOIN_TOO_LARGE,
            // The caller who has made the file knows a better one.
            Self::ForeignUnreadable | Self::Spill(_) => Code::INTERNAL_ERROR,
            Self::TooLarge { .. } => Code::BSON_OBJECT_TOO_LARGE,
            Self::TooDeep { .. } => Code::OVERFLOW,
            Self::InvalidBson { .. } => Code::INVALID_BSON,
            Self::Facet { error, .. } => error.code(),
            Self::Filter(error) => error.code(),
            Self::Expression(error) => error.code(),
            Self::Projection(error) => error.code(),
            // A stage has other numbers for the faults of a sort than a find has.
            Self::Sort(error) => error.stage_code(),
        }
    }

    /// The fault of a stage that has made an invalid document.
    pub(crate) fn of_result(stage: &'static str, error: &index::error::Error) -> Self {
        // Limits have numbers of their own; anything else is a defect of the bytes.
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
        // All stages report this limit in the same words.
        if let crate::sort::error::Error::MemoryExceeded { limit } = error {
            return Self::MemoryExceeded { stage: "$sort", limit };
        }
        if let crate::sort::error::Error::Spill(failure) = error {
            return Self::Spill(failure);
        }
        Self::Sort(Box::new(error))
    }
}

impl From<SpillError> for Fault {
    fn from(error: SpillError) -> Self {
        match error {
            SpillError::Interrupted(reason) => Self::Interrupted(reason),
            SpillError::Failed(failure) => Self::Spill(failure),
        }
    }
}

impl From<crate::raw::Malformed> for Fault {
    fn from(malformed: crate::raw::Malformed) -> Self {
        Self::InvalidBson { reason: malformed.reason }
    }
}
