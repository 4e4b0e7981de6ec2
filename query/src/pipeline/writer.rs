//! `$out` and `$merge`, the last stages that write what comes out of a pipeline. Here they are read; writing is the
//! caller's task.
//!
//! Neither gives documents to another stage, so they are not streams: a pipeline names its [`WritingStage`], and runs without it.

use bson::RawBsonRef;

use crate::code::Code;
use crate::pipeline::error::Fault;
use crate::pipeline::merge::{MERGE, Merge};
use crate::pipeline::options::options;
use crate::pipeline::write_target::{WriteTarget, name};

const OUT: &str = "$out";

/// The stage that writes what comes out of a pipeline.
#[derive(Clone, Debug)]
pub enum WritingStage {
    /// `$out`: the documents replace those of a collection.
    Out(WriteTarget),
    /// `$merge`: each document is merged into a collection.
    Merge(Box<Merge>),
}

impl WritingStage {
    /// The name of the stage.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Out(_) => OUT,
            Self::Merge(_) => MERGE,
        }
    }

    /// The collection that is written to.
    pub fn target(&self) -> &WriteTarget {
        match self {
            Self::Out(target) => target,
            Self::Merge(merge) => merge.target(),
        }
    }
}

/// Parses `$out`: the name of a collection, or an object with the names of database and collection.
pub(super) fn parse_out(operand: RawBsonRef<'_>) -> Result<WriteTarget, Fault> {
    if let Some(coll) = operand.as_str() {
        return Ok(WriteTarget { db: None, coll: coll.to_owned() });
    }
    let (not_object, unknown) = (Code::OUT_OPERAND, Code::IDL_UNKNOWN_FIELD);
    let [db, coll, timeseries] = options(OUT, ["db", "coll", "timeseries"], operand, not_object, unknown)?;
    if timeseries.is_some() {
        return Err(Fault::Unsupported { stage: format!("{OUT} with 'timeseries'") });
    }
    // As an object both are required, even if the database is that of the pipeline.
    let required = |option, given: Option<RawBsonRef<'_>>| {
        let code = Code::IDL_FAILED_TO_PARSE;
        name(OUT, option, given.ok_or(Fault::OptionMissing { stage: OUT, option, code })?)
    };
    Ok(WriteTarget { coll: required("coll", coll)?, db: Some(required("db", db)?) })
}
