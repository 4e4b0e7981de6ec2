//! `$unionWith`: after its input, the results of a pipeline over another collection, or over documents given in it.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::code::Code;
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::options::options;
use crate::pipeline::source::Source;
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::value::{describe, elements};

pub(super) const NAME: &str = "$unionWith";
/// The limit of pipelines of `$unionWith` and `$lookup` within each other: MongoDB's limit.
pub(super) const DEPTH_MAX: usize = 20;

/// The argument of `$unionWith`, its stages not read yet.
#[derive(Clone, Debug)]
pub(super) struct UnionArgument {
    /// The other collection. Absent if the stages begin with `$documents`.
    pub(super) from: Option<String>,
    pub(super) stages: Vec<RawDocumentBuf>,
}

impl UnionArgument {
    /// Parses the argument: the name of a collection, or an object.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        if let Some(name) = operand.as_str() {
            return Ok(Self { from: Some(name.to_owned()), stages: Vec::new() });
        }
        if operand.as_document().is_none() {
            let expected = "an object or the name of a collection";
            return Err(wrong(expected, operand, Code::FAILED_TO_PARSE));
        }
        let (not_object, unknown) = (Code::FAILED_TO_PARSE, Code::IDL_UNKNOWN_FIELD);
        let [coll, pipeline] = options(NAME, ["coll", "pipeline"], operand, not_object, unknown)?;
        let name = |coll: RawBsonRef<'_>| {
            let name = coll.as_str().map(str::to_owned);
            name.ok_or_else(|| wrong("the name of a collection as 'coll'", coll, Code::TYPE_MISMATCH))
        };
        let from = coll.map(name).transpose()?;
        Ok(Self { from, stages: pipeline.map_or_else(|| Ok(Vec::new()), stages)? })
    }

    /// The input of the union, if its stages begin with `source`. It is a collection or documents, and never both.
    pub(super) fn input(&self, source: Source) -> Result<UnionInput, Fault> {
        let refused = |found: &str, expected, code| {
            Err(Fault::Operand { stage: NAME, expected, found: found.to_owned(), code })
        };
        match (self.from.clone(), source) {
            (Some(from), Source::Collection) => Ok(UnionInput::Collection(from)),
            (None, Source::Documents(documents)) => Ok(UnionInput::Documents(documents)),
            (None, Source::Collection) => {
                let expected = "'coll', or a pipeline that begins with $documents";
                refused("neither", expected, Code::FAILED_TO_PARSE)
            }
            (Some(_), Source::Documents(_)) => {
                let expected = "'coll' or a pipeline that begins with $documents";
                refused("both", expected, Code::INVALID_NAMESPACE)
            }
            (
                _,
                source @ (Source::CollStats(_)
                | Source::IndexStats
                | Source::CurrentOp(_)
                | Source::ListLocalSessions(_)
                | Source::PlanCacheStats),
            ) => Err(Fault::InUnion { stage: source.stage().unwrap_or(NAME) }),
        }
    }
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: NAME, expected, found: describe(found), code }
}

fn stages(pipeline: RawBsonRef<'_>) -> Result<Vec<RawDocumentBuf>, Fault> {
    let array = pipeline.as_array();
    let array =
        array.ok_or_else(|| wrong("an array of stages as 'pipeline'", pipeline, Code::TYPE_MISMATCH))?;
    let stage = |stage: RawBsonRef<'_>| {
        let document = stage.as_document().map(RawDocument::to_owned);
        document.ok_or_else(|| wrong("stages that are objects", stage, Code::TYPE_MISMATCH))
    };
    elements(array).map(stage).collect()
}

/// The error of the stages.
pub(super) fn inside(error: Error) -> Fault {
    Fault::Facet { field: NAME.to_owned(), error: Box::new(error) }
}

/// The input of the pipeline of a union.
#[derive(Clone, Debug)]
pub(super) enum UnionInput {
    Collection(String),
    Documents(Vec<RawDocumentBuf>),
}

/// Opens the second part of a union.
pub(super) type OpenSecond<'i, E> = Box<dyn FnOnce() -> Result<StageInput<'i, E>, E> + Send + Sync + 'i>;

/// The stream of a `$unionWith`: its input, and what follows it.
pub(super) struct Uniting<'i, E> {
    part: StageInput<'i, E>,
    /// The second part, which is opened once the first has ended.
    open: Option<OpenSecond<'i, E>>,
}

impl<'i, E> Uniting<'i, E> {
    pub(super) fn new(input: StageInput<'i, E>, open: OpenSecond<'i, E>) -> Self {
        Self { part: input, open: Some(open) }
    }
}

impl<E> Stream<E> for Uniting<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let step = self.part.advance()?;
        if step != Step::End {
            return Ok(step);
        }
        let Some(open) = self.open.take() else { return Ok(Step::End) };
        // The memory of the first part is given back before the second one reads.
        self.part = open()?;
        self.part.advance()
    }

    fn current(&self) -> &RawDocument {
        self.part.current()
    }

    fn rest(&mut self) {
        self.part.rest();
    }
}
