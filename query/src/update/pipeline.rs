//! Updates by a pipeline: each stage makes a new document out of the one before it.
//!
//! Only stages that make one document out of one are allowed. Whatever they make, the `_id` of a stored document stays
//! and comes first.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use index::order::compare;
use index::validate::{DOCUMENT_BYTES_MAX, validate};
use index::writer::Writer;

use crate::expression::Variables;
use crate::pipeline::{NamedStage, Shape, named};
use crate::raw::Fields;
use crate::update::context::Phase;
use crate::update::error::{Error, StageFault};

/// The stages of an update, parsed, with the variables of their expressions.
#[derive(Clone, Debug)]
pub(super) struct UpdatePipeline {
    stages: Arc<[Shape]>,
    variables: Variables,
}

/// The one stage that MongoDB allows in updates and CairnDB does not support at all. It gets the error of an unsupported
/// stage, not that of a stage which updates never have.
const UNSUPPORTED: &str = "$fill";

impl UpdatePipeline {
    /// Parses the stages.
    pub(super) fn parse(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        let parse = |(position, stage): (usize, &RawDocumentBuf)| {
            validate(stage.as_bytes()).map_err(|error| Error::malformed(&error))?;
            parse_stage(stage, variables)?.map_err(|fault| Error::Stage { position, fault })
        };
        let stages = stages.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { stages, variables: variables.clone() })
    }

    /// The same stages, with other values of the variables that they were parsed with.
    pub(super) fn with_variables(&self, variables: &Variables) -> Self {
        Self { stages: Arc::clone(&self.stages), variables: variables.clone() }
    }

    /// The bytes of the document that the last stage makes, with the `_id` in front.
    pub(super) fn apply(&self, document: &RawDocument, phase: Phase) -> Result<Vec<u8>, Error> {
        let mut current: Option<RawDocumentBuf> = None;
        for (position, stage) in self.stages.iter().enumerate() {
            let before = current.as_deref().unwrap_or(document);
            let after = stage.apply(before, &self.variables);
            current = Some(after.map_err(|fault| Error::Stage { position, fault: fault.into() })?);
        }
        // An empty pipeline changes nothing, and is not an error.
        let Some(made) = current else { return Ok(document.as_bytes().to_vec()) };
        let bytes = with_id(document, &made)?;
        // Only the result must keep the limits; a stage in between may exceed them. The size is checked first, because
        // MongoDB has numbers of its own for updates that become too large.
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge { limit: DOCUMENT_BYTES_MAX, phase });
        }
        validate(&bytes).map_err(|error| Error::malformed(&error))?;
        Ok(bytes)
    }
}

/// The first name that is not a stage of MongoDB at all. Returns `None` if all are stages, whether updates may have them or
/// not.
pub fn unknown_stage<'a>(stages: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    stages.into_iter().find(|stage| named(stage).is_none())
}

/// The bytes of `made` with the `_id` of `before` in front. If both have an `_id`, they must be equal.
fn with_id(before: &RawDocument, made: &RawDocument) -> Result<Vec<u8>, Error> {
    let id = |document| Fields::of(document).map_while(Result::ok).find(|field| field.name() == "_id");
    // A pipeline that leaves out the `_id` does not remove it.
    let (old, new) = (id(before), id(made));
    if let (Some(old), Some(new)) = (&old, &new)
        && compare(old.value()?, new.value()?).is_ne()
    {
        return Err(Error::ImmutableId { path: "_id".to_owned() });
    }
    let mut writer = Writer::with_capacity(made.as_bytes().len());
    let mark = writer.open();
    // Of two equal ids the stored one is kept, so that `1` does not become `1.0`.
    if let Some(id) = old.or(new) {
        writer.copy(id.whole());
    }
    for field in Fields::of(made) {
        let field = field?;
        if field.name() != "_id" {
            writer.copy(field.whole());
        }
    }
    writer.close(mark);
    Ok(writer.into_bytes())
}

/// Parses one stage. The outer error is for malformed bytes, the inner for a stage that is rejected.
fn parse_stage(stage: &RawDocument, variables: &Variables) -> Result<Result<Shape, StageFault>, Error> {
    let fields = Fields::of(stage).collect::<Result<Vec<_>, _>>()?;
    let [field] = fields.as_slice() else { return Ok(Err(StageFault::FieldCount)) };
    // The table is that of aggregations, so a stage means the same in both.
    let operand = field.value()?;
    Ok(match named(field.name()) {
        None => Err(StageFault::Unknown { stage: field.name().to_owned() }),
        Some(NamedStage::Shape(stage, parse)) => parse(stage, operand, variables).map_err(StageFault::from),
        Some(NamedStage::Other(UNSUPPORTED)) => {
            Err(StageFault::Unsupported { stage: UNSUPPORTED.to_owned() })
        }
        Some(NamedStage::Other(stage)) => Err(StageFault::NotInUpdates { stage: stage.to_owned() }),
    })
}
