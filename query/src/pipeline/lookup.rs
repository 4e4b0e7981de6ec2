//! `$lookup`: gives each document an array of the documents of another collection whose `foreignField` has a value of
//! its `localField`, or of the results of a pipeline over them.
//!
//! A document's values are the elements of an array, not the array itself; null and no value at all ask for null. In
//! the other collection values match as in a filter: an array matches by each element and as a whole, a missing
//! field as null. What an index finds is looked up for each document. Otherwise the other collection is read once,
//! into a table that counts as memory of the stage, and goes on in a temporary file if that is too little. A pipeline
//! without any equality or index reads it for each document. Stages at its start that need nothing of the documents run once,
//! and a pipeline of nothing else does as a whole.
//!
//! Here is the input of the stage, and its question for a document. How that is found is in `foreign_search`, what becomes
//! of it in `joining`.

use std::ops::ControlFlow;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::path::{FieldPath, leaves, value_at};

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::path::parse_path;
use crate::pipeline::correlation::{Condition, ForeignField, constant_stages};
use crate::pipeline::error::{Error, Fault};
use crate::pipeline::options::options;
use crate::pipeline::put_path::PutPath;
use crate::pipeline::source::Source;
use crate::raw::Fields;
use crate::value::{describe, elements};

pub(super) const STAGE: &str = "$lookup";

/// The argument of `$lookup`, the stages of its pipeline not read yet.
#[derive(Clone, Debug)]
pub(super) struct LookupArgument {
    lookup: Lookup,
    pub(super) stages: Vec<RawDocumentBuf>,
    /// The variables that the stages may use. Those of `let` have no values yet.
    pub(super) variables: Variables,
}

/// A `$lookup` without the stages of its pipeline.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// The other collection. Absent if `documents` replace it.
    pub(super) from: Option<String>,
    pub(super) documents: Vec<RawDocumentBuf>,
    pub(super) equality: Option<Equality>,
    /// The variables of `let`.
    definitions: Vec<(String, Expression)>,
    /// The number of first stages of the pipeline, as they were given, whose results no document changes.
    constant: usize,
    /// Whether these are all stages.
    is_constant: bool,
    /// The condition that the pipeline begins with.
    pub(super) condition: Option<Condition>,
    /// The path of the field that gets the array.
    pub(super) place: PutPath,
}

/// `localField` and `foreignField`.
#[derive(Clone, Debug)]
pub(super) struct Equality {
    pub(super) local: FieldPath,
    pub(super) foreign: ForeignField,
}

impl LookupArgument {
    /// Parses the argument.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let names = ["from", "localField", "foreignField", "as", "let", "pipeline"];
        let code = Code::FAILED_TO_PARSE;
        let [from, local, foreign, name, defined, pipeline] = options(STAGE, names, operand, code, code)?;
        // Without a pipeline both fields are required, and with one they come together.
        let equality = if pipeline.is_none() || local.is_some() || foreign.is_some() {
            let foreign = path("foreignField", "a path as 'foreignField'", foreign)?;
            let local = path("localField", "a path as 'localField'", local)?;
            Some(Equality { local, foreign: ForeignField::new(foreign)? })
        } else {
            None
        };
        // Variables without a pipeline could be read by nothing.
        let (definitions, inner) = match (defined, pipeline) {
            (Some(_), None) => return Err(Fault::OptionMissing { stage: STAGE, option: "pipeline", code }),
            (defined, _) => define(defined, variables)?,
        };
        let from = match (from, pipeline) {
            // The first stage must then be `$documents`.
            (None, Some(_)) => None,
            (from, _) => Some(text("from", "the name of a collection as 'from'", from)?.to_owned()),
        };
        let stages = pipeline.map_or_else(|| Ok(Vec::new()), stages)?;
        // An equality finds something else for each document, and comes before all stages.
        let constant = if equality.is_none() { constant_stages(&stages, &definitions) } else { 0 };
        let lookup = Lookup {
            constant,
            is_constant: equality.is_none() && constant == stages.len(),
            place: PutPath::of(&path("as", "a path as 'as'", name)?),
            from,
            documents: Vec::new(),
            equality,
            definitions,
            condition: None,
        };
        Ok(Self { lookup, stages, variables: inner })
    }

    /// The lookup, after its stages were read: `source` is what they begin with, `first` the filter of a `$match` that
    /// comes first.
    pub(super) fn finish(self, source: Source, first: Option<&RawDocument>) -> Result<Lookup, Fault> {
        let Self { mut lookup, variables, .. } = self;
        let code = Code::FAILED_TO_PARSE;
        // Either a collection or documents given in the pipeline, never both and never neither.
        match (&lookup.from, source) {
            (Some(_), Source::Collection) => {}
            (None, Source::Documents(documents)) => {
                lookup.documents = documents;
            }
            (None, Source::Collection) => {
                return Err(Fault::OptionMissing { stage: STAGE, option: "from", code });
            }
            (Some(_), Source::Documents(_)) => {
                let expected = "'from' or a pipeline that begins with $documents";
                let (found, code) = ("both".to_owned(), Code::INVALID_NAMESPACE);
                return Err(Fault::Operand { stage: STAGE, expected, found, code });
            }
            (
                _,
                source @ (Source::CollStats(_)
                | Source::IndexStats
                | Source::CurrentOp(_)
                | Source::ListLocalSessions(_)
                | Source::PlanCacheStats),
            ) => {
                let stage = format!("{} in {STAGE}", source.stage().unwrap_or(STAGE));
                return Err(Fault::Unsupported { stage });
            }
        }
        lookup.condition = first.and_then(|first| Condition::of(first, &variables));
        Ok(lookup)
    }
}

impl Lookup {
    /// Whether each document gets the same.
    pub(super) fn is_constant(&self) -> bool {
        self.is_constant
    }

    /// The number of first stages of the pipeline that are run once for all documents, and whose results are kept.
    /// The stages are counted as they were given, and 0 where each document gets the same: then the results of all of
    /// them are kept.
    pub(super) fn kept_stages(&self) -> usize {
        if self.is_constant { 0 } else { self.constant }
    }

    /// The equality, if the documents that it finds are all that the stage asks for.
    pub(super) fn only_equality(&self) -> Option<&Equality> {
        self.equality.as_ref().filter(|_| self.condition.is_none())
    }

    /// The variables of the pipeline for a document.
    pub(super) fn variables(&self, document: &RawDocument, outer: &Variables) -> Result<Variables, Fault> {
        let mut variables = outer.clone();
        for (name, expression) in &self.definitions {
            // Each sees the variables around the stage, and none of the same `let`.
            variables = variables.with(name, expression.evaluate(document, outer)?)?;
        }
        Ok(variables)
    }

    /// The conditions for documents of the other collection, for one document, and the filter that an index may
    /// answer.
    pub(super) fn wanted(&self, document: &RawDocument, variables: &Variables) -> Wanted {
        let mut conditions = Vec::new();
        // As long as nothing is known to be equal, no table could answer.
        let mut keyed = Keyed::Never;
        if let Some(Equality { local, foreign }) = &self.equality {
            let values = local_values(document, local);
            conditions.push(foreign.filter(&values));
            keyed = Keyed::By(foreign.clone(), values);
        }
        let Some(condition) = &self.condition else {
            return Wanted { conditions, equalities: None, keyed };
        };
        // Only where ranges could hide that no index is on a key.
        let mut equalities = condition.has_ranges().then(|| conditions.clone());
        if let Some(equalities) = &mut equalities {
            equalities.push(condition.plain.clone());
        }
        for (position, key) in condition.keys().enumerate() {
            let Some(values) = key.values(variables) else { continue };
            if let Some(equalities) = &mut equalities {
                equalities.push(key.field.filter(&values));
            }
            // A table has one field: that of the first equality.
            if position == 0 && self.equality.is_none() {
                keyed = Keyed::By(key.field.clone(), values);
            }
        }
        // With its `$expr`s, from which the search derives bounds by itself.
        conditions.push(condition.given.clone());
        Wanted { conditions, equalities, keyed }
    }
}

/// The request of one document to the other collection.
pub(super) struct Wanted {
    /// The filters that must all match.
    pub(super) conditions: Vec<RawDocumentBuf>,
    /// The rest of these without the ranges of expressions. Absent if there are no ranges.
    pub(super) equalities: Option<Vec<RawDocumentBuf>>,
    pub(super) keyed: Keyed,
}

/// The values that a hash table can be asked for.
pub(super) enum Keyed {
    Never,
    By(ForeignField, Vec<RawBson>),
}

/// A filter for what matches all conditions. Without any it is the empty one.
pub(super) fn all_of(mut conditions: Vec<RawDocumentBuf>) -> RawDocumentBuf {
    // One filter stays as it is: the planner recognizes a lookup by `_id` in it.
    if conditions.len() < 2 {
        return conditions.pop().unwrap_or_default();
    }
    let mut branches = RawArrayBuf::new();
    for condition in conditions {
        branches.push(condition);
    }
    rawdoc! { "$and": branches }
}

/// The values that are looked up for a document.
fn local_values(document: &RawDocument, local: &FieldPath) -> Vec<RawBson> {
    let mut values = Vec::new();
    let _ = leaves(document, local, &mut |leaf| {
        match leaf.value {
            // One level only: an array in an array is a value.
            Some(RawBsonRef::Array(array)) if leaf.expand => values.extend(elements(array).map(wanted)),
            Some(value) => values.push(wanted(value)),
            None => {}
        }
        ControlFlow::Continue(())
    });
    // Also for an empty array: MongoDB's rule.
    if values.is_empty() {
        values.push(RawBson::Null);
    }
    values
}

/// The value that is looked up for a document. Returns `None` if there are several.
pub(super) fn local_value<'d>(document: &'d RawDocument, local: &FieldPath) -> Option<RawBsonRef<'d>> {
    let asked = |value| if value == RawBsonRef::Undefined { RawBsonRef::Null } else { value };
    // The common case: no array on the path, and none at its end.
    if let Some(value) = value_at(document, local).filter(|value| value.as_array().is_none()) {
        return Some(asked(value));
    }
    let (mut count, mut last) = (0_u32, RawBsonRef::Null);
    let mut add = |value: RawBsonRef<'d>| {
        count += 1;
        last = asked(value);
        if count > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let is_one = leaves(document, local, &mut |leaf| match leaf.value {
        Some(RawBsonRef::Array(array)) if leaf.expand => elements(array).try_for_each(&mut add),
        Some(value) => add(value),
        None => ControlFlow::Continue(()),
    });
    is_one.is_continue().then_some(last)
}

/// Parses `let`: the definitions, and the variables of the pipeline.
fn define(
    defined: Option<RawBsonRef<'_>>,
    variables: &Variables,
) -> Result<(Vec<(String, Expression)>, Variables), Fault> {
    let (mut definitions, mut inner) = (Vec::new(), variables.clone());
    let Some(defined) = defined else { return Ok((definitions, inner)) };
    let expected = "an object as 'let'";
    let code = Code::FAILED_TO_PARSE;
    let wrong = || Fault::Operand { stage: STAGE, expected, found: describe(defined), code };
    for field in Fields::of(defined.as_document().ok_or_else(wrong)?) {
        let field = field?;
        // For parsing the name is enough. The value is another one for each document.
        inner = inner.with(field.name(), None)?;
        definitions.push((field.name().to_owned(), Expression::parse(field.value()?, variables)?));
    }
    Ok((definitions, inner))
}

fn stages(pipeline: RawBsonRef<'_>) -> Result<Vec<RawDocumentBuf>, Fault> {
    let wrong = |expected, found: RawBsonRef<'_>| {
        let code = Code::TYPE_MISMATCH;
        Fault::Operand { stage: STAGE, expected, found: describe(found), code }
    };
    let array = pipeline.as_array().ok_or_else(|| wrong("an array of stages as 'pipeline'", pipeline))?;
    let stage = |stage: RawBsonRef<'_>| {
        let document = stage.as_document().map(RawDocument::to_owned);
        document.ok_or_else(|| wrong("stages that are objects", stage))
    };
    elements(array).map(stage).collect()
}

/// A value as it is looked up: undefined is a legacy null, which no filter may name.
fn wanted(value: RawBsonRef<'_>) -> RawBson {
    if value == RawBsonRef::Undefined { RawBson::Null } else { value.into() }
}

fn text<'b>(
    option: &'static str,
    expected: &'static str,
    given: Option<RawBsonRef<'b>>,
) -> Result<&'b str, Fault> {
    let code = Code::FAILED_TO_PARSE;
    let given = given.ok_or(Fault::OptionMissing { stage: STAGE, option, code })?;
    let wrong = || Fault::Operand { stage: STAGE, expected, found: describe(given), code };
    given.as_str().ok_or_else(wrong)
}

fn path(
    option: &'static str,
    expected: &'static str,
    given: Option<RawBsonRef<'_>>,
) -> Result<FieldPath, Fault> {
    let text = text(option, expected, given)?;
    let refused = |refusal| Fault::Path { stage: STAGE, path: crate::value::shorten(text), refusal };
    parse_path(text).map_err(refused)
}

/// The error of the stages.
pub(super) fn inside(error: Error) -> Fault {
    Fault::Facet { field: STAGE.to_owned(), error: Box::new(error) }
}
