//! Updates by a pipeline: each stage makes a new document out of the one before.
//!
//! Only stages that look at one document and give one are allowed. Whatever they make, the `_id` of a stored document
//! stays and comes first.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::order::compare;
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::expression::{ComputedFields, Expression, Variables};
use crate::projection::Projection;
use crate::raw::{Fields, Writer};
use crate::update::error::{Error, StageFault};
use crate::update::{Phase, malformed};
use crate::value::describe;

/// Stages, ready to be applied.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    stages: Vec<Stage>,
    variables: Variables,
}

#[derive(Clone, Debug)]
enum Stage {
    /// `$set`, which is `$addFields`.
    Set(ComputedFields),
    /// `$project`, and `$unset` as one that excludes.
    Project(Projection),
    /// `$replaceWith`, and `$replaceRoot`.
    Replace(Expression),
}

/// What is known of a stage.
#[derive(Clone, Copy, Debug)]
enum Known {
    Set,
    Unset,
    Project,
    ReplaceRoot,
    ReplaceWith,
    /// MongoDB has it in updates as well.
    Unsupported,
    /// MongoDB has it, but not in updates.
    Elsewhere,
}

/// Ascending by name.
const STAGES: &[(&str, Known)] = &[
    ("$addFields", Known::Set),
    ("$bucket", Known::Elsewhere),
    ("$bucketAuto", Known::Elsewhere),
    ("$changeStream", Known::Elsewhere),
    ("$changeStreamSplitLargeEvent", Known::Elsewhere),
    ("$collStats", Known::Elsewhere),
    ("$count", Known::Elsewhere),
    ("$currentOp", Known::Elsewhere),
    ("$densify", Known::Elsewhere),
    ("$documents", Known::Elsewhere),
    ("$facet", Known::Elsewhere),
    ("$fill", Known::Unsupported),
    ("$geoNear", Known::Elsewhere),
    ("$graphLookup", Known::Elsewhere),
    ("$group", Known::Elsewhere),
    ("$indexStats", Known::Elsewhere),
    ("$limit", Known::Elsewhere),
    ("$listLocalSessions", Known::Elsewhere),
    ("$listSampledQueries", Known::Elsewhere),
    ("$listSearchIndexes", Known::Elsewhere),
    ("$listSessions", Known::Elsewhere),
    ("$lookup", Known::Elsewhere),
    ("$match", Known::Elsewhere),
    ("$merge", Known::Elsewhere),
    ("$out", Known::Elsewhere),
    ("$planCacheStats", Known::Elsewhere),
    ("$project", Known::Project),
    ("$querySettings", Known::Elsewhere),
    ("$redact", Known::Elsewhere),
    ("$replaceRoot", Known::ReplaceRoot),
    ("$replaceWith", Known::ReplaceWith),
    ("$sample", Known::Elsewhere),
    ("$search", Known::Elsewhere),
    ("$searchMeta", Known::Elsewhere),
    ("$set", Known::Set),
    ("$setWindowFields", Known::Elsewhere),
    ("$shardedDataDistribution", Known::Elsewhere),
    ("$skip", Known::Elsewhere),
    ("$sort", Known::Elsewhere),
    ("$sortByCount", Known::Elsewhere),
    ("$unionWith", Known::Elsewhere),
    ("$unset", Known::Unset),
    ("$unwind", Known::Elsewhere),
    ("$vectorSearch", Known::Elsewhere),
];

impl Pipeline {
    pub(super) fn parse(stages: &[RawDocumentBuf], variables: &Variables) -> Result<Self, Error> {
        let parse = |(position, stage): (usize, &RawDocumentBuf)| {
            validate(stage.as_bytes()).map_err(|error| malformed(&error))?;
            parse_stage(stage, variables)?.map_err(|fault| Error::Stage { position, fault })
        };
        let stages = stages.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { stages, variables: variables.clone() })
    }

    /// The document that the last stage makes, with the `_id` in its place.
    pub(super) fn apply(&self, document: &RawDocument, phase: Phase) -> Result<Vec<u8>, Error> {
        let mut current: Option<RawDocumentBuf> = None;
        for (position, stage) in self.stages.iter().enumerate() {
            let before = current.as_deref().unwrap_or(document);
            let after = stage.apply(before, &self.variables);
            current = Some(after.map_err(|fault| Error::Stage { position, fault })?);
        }
        let Some(made) = current else { return Ok(document.as_bytes().to_vec()) };
        let bytes = with_id(document, &made)?;
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::TooLarge { limit: DOCUMENT_BYTES_MAX, phase });
        }
        validate(&bytes).map_err(|error| malformed(&error))?;
        Ok(bytes)
    }
}

impl Stage {
    fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf, StageFault> {
        match self {
            Self::Set(fields) => fields.apply(document, variables).map_err(in_expression),
            Self::Project(projection) => projection.apply(document, variables).map_err(in_projection),
            Self::Replace(root) => match root.evaluate(document, variables).map_err(in_expression)? {
                Some(RawBson::Document(root)) => Ok(root),
                Some(other) => Err(StageFault::RootNotObject { found: describe(other.as_raw_bson_ref()) }),
                None => Err(StageFault::RootNotObject { found: "nothing".to_owned() }),
            },
        }
    }
}

/// A document made out of another one, with that one's `_id` in front; a different one is refused.
fn with_id(before: &RawDocument, made: &RawDocument) -> Result<Vec<u8>, Error> {
    let id = |document| Fields::of(document).map_while(Result::ok).find(|field| field.name() == "_id");
    let (old, new) = (id(before), id(made));
    if let (Some(old), Some(new)) = (&old, &new)
        && compare(old.value()?, new.value()?).is_ne()
    {
        return Err(Error::ImmutableId { path: "_id".to_owned() });
    }
    let mut writer = Writer::with_capacity(made.as_bytes().len());
    let mark = writer.open();
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

/// Reads one stage. The outer error is of bytes.
fn parse_stage(stage: &RawDocument, variables: &Variables) -> Result<Result<Stage, StageFault>, Error> {
    let fields = Fields::of(stage).collect::<Result<Vec<_>, _>>()?;
    let [field] = fields.as_slice() else { return Ok(Err(StageFault::FieldCount)) };
    let (name, operand) = (field.name(), field.value()?);
    let place = STAGES.binary_search_by_key(&name, |(known, _)| known).ok();
    let Some((stage, known)) = place.and_then(|place| STAGES.get(place)) else {
        return Ok(Err(StageFault::Unknown { stage: name.to_owned() }));
    };
    Ok(match known {
        Known::Set => set(stage, operand, variables),
        Known::Unset => unset(operand, variables),
        Known::Project => project(operand, variables),
        Known::ReplaceRoot => replace_root(operand, variables),
        Known::ReplaceWith => replace_with(operand, variables),
        Known::Unsupported => Err(StageFault::Unsupported { stage: name.to_owned() }),
        Known::Elsewhere => Err(StageFault::NotInUpdates { stage: name.to_owned() }),
    })
}

fn set(stage: &'static str, operand: RawBsonRef<'_>, variables: &Variables) -> Result<Stage, StageFault> {
    let fields =
        operand.as_document().ok_or_else(|| wrong_type(stage, "an object", operand, SET_NOT_OBJECT))?;
    ComputedFields::parse(fields, variables).map(Stage::Set).map_err(in_expression)
}

fn project(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Stage, StageFault> {
    let fields = operand
        .as_document()
        .ok_or_else(|| wrong_type("$project", "an object", operand, PROJECT_NOT_OBJECT))?;
    Projection::parse_stage(fields, variables).map(Stage::Project).map_err(in_projection)
}

/// Names of fields to be left out: a projection that excludes them.
fn unset(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Stage, StageFault> {
    let fault = |code| wrong_type("$unset", "a field's name or an array of such", operand, code);
    let mut excluded = RawDocumentBuf::new();
    let mut exclude = |name: &str| {
        let name = bson::raw::CString::try_from(name.to_owned()).map_err(|_| fault(UNSET_NAME))?;
        excluded.append(&name, 0);
        Ok(())
    };
    match (operand.as_str(), operand.as_array()) {
        (Some(name), _) => exclude(name)?,
        (None, Some(names)) => {
            for name in names {
                let name = name.ok().and_then(RawBsonRef::as_str).ok_or_else(|| fault(UNSET_NAME))?;
                exclude(name)?;
            }
        }
        (None, None) => return Err(fault(UNSET_TYPE)),
    }
    if excluded.is_empty() {
        return Err(fault(UNSET_EMPTY));
    }
    Projection::parse_stage(&excluded, variables).map(Stage::Project).map_err(in_projection)
}

fn replace_root(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Stage, StageFault> {
    let fault = |code| wrong_type("$replaceRoot", "an object with nothing but 'newRoot'", operand, code);
    let options = operand.as_document().ok_or_else(|| fault(REPLACE_ROOT_NOT_OBJECT))?;
    let mut root = None;
    for field in Fields::of(options).map_while(Result::ok) {
        if field.name() != "newRoot" {
            return Err(fault(REPLACE_ROOT_OPTION));
        }
        root = field.value().ok();
    }
    replace_with(root.ok_or_else(|| fault(REPLACE_ROOT_MISSING))?, variables)
}

fn replace_with(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Stage, StageFault> {
    Expression::parse(operand, variables).map(Stage::Replace).map_err(in_expression)
}

const PROJECT_NOT_OBJECT: i32 = 15_969;
const SET_NOT_OBJECT: i32 = 40_272;
const UNSET_TYPE: i32 = 31_002;
const UNSET_EMPTY: i32 = 31_119;
const UNSET_NAME: i32 = 31_120;
const REPLACE_ROOT_NOT_OBJECT: i32 = 40_229;
const REPLACE_ROOT_OPTION: i32 = 40_415;
const REPLACE_ROOT_MISSING: i32 = 40_414;

fn wrong_type(stage: &'static str, expected: &'static str, operand: RawBsonRef<'_>, code: i32) -> StageFault {
    StageFault::Operand { stage, expected, found: describe(operand), code }
}

fn in_expression(error: crate::expression::error::Error) -> StageFault {
    StageFault::Expression(Box::new(error))
}

fn in_projection(error: crate::projection::error::Error) -> StageFault {
    StageFault::Projection(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends() {
        assert!(STAGES.is_sorted_by(|(left, _), (right, _)| left < right));
    }
}
