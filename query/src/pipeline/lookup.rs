//! `$lookup`: gives each document an array of the documents of another collection whose `foreignField` has a value of
//! its `localField`, or of the results of a pipeline over them.
//!
//! A document's values are the elements of an array, not the array itself; null and no value at all ask for null. In
//! the other collection values match as in a filter: an array matches by each element and as a whole, a missing
//! field as null. What an index finds is looked up for each document. Otherwise the other collection is read once,
//! into a hash table that counts as memory of the stage. A pipeline without any equality reads it for each document, and
//! one that needs nothing of the documents runs once.

use std::ops::ControlFlow;
use std::sync::Arc;

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::path::{FieldPath, leaves};
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::operation::Reservation;
use crate::path::parse_path;
use crate::pipeline::correlation::{Condition, ForeignField, is_correlated, key_value};
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign::Foreign;
use crate::pipeline::foreign_table::ForeignTable;
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::options;
use crate::pipeline::source::Source;
use crate::pipeline::stream::{Given, StageInput, Step, Stream, nothing};
use crate::pipeline::unwind::put;
use crate::raw::{Fields, Operand};
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
    /// The other collection. Absent if `documents` take its place.
    pub(super) from: Option<String>,
    documents: Vec<RawDocumentBuf>,
    equality: Option<Equality>,
    /// The variables of `let`.
    definitions: Vec<(String, Expression)>,
    /// Whether the pipeline can give something else for each document.
    is_correlated: bool,
    /// The condition that the pipeline begins with.
    condition: Option<Condition>,
    /// The components of the path of the field that gets the array.
    names: Vec<String>,
}

/// `localField` and `foreignField`.
#[derive(Clone, Debug)]
struct Equality {
    local: FieldPath,
    foreign: ForeignField,
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
        let lookup = Lookup {
            is_correlated: is_correlated(&stages, &definitions),
            names: path("as", "a path as 'as'", name)?.components().map(str::to_owned).collect(),
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
            (_, source @ (Source::CollStats(_) | Source::IndexStats | Source::CurrentOp(_))) => {
                let stage = format!("{} in {STAGE}", source.stage().unwrap_or(STAGE));
                return Err(Fault::Unsupported { stage });
            }
        }
        lookup.condition = first.and_then(|first| Condition::of(first, &variables));
        Ok(lookup)
    }
}

impl Lookup {
    /// The variables of the pipeline for a document.
    fn variables(&self, document: &RawDocument, outer: &Variables) -> Result<Variables, Fault> {
        let mut variables = outer.clone();
        for (name, expression) in &self.definitions {
            // Each sees the variables around the stage, and none of the same `let`.
            variables = variables.with(name, expression.evaluate(document, outer)?)?;
        }
        Ok(variables)
    }

    /// What documents of the other collection must have for a document, and the filter that an index may answer.
    fn wanted(&self, document: &RawDocument, variables: &Variables) -> Result<Wanted, Fault> {
        let mut conditions = Vec::new();
        // As long as nothing is known to be equal, no table could answer.
        let mut keyed = Keyed::Never;
        if let Some(Equality { local, foreign }) = &self.equality {
            let values = local_values(document, local);
            conditions.push(foreign.filter(&values));
            keyed = Keyed::By(foreign.clone(), values);
        }
        if let Some(condition) = &self.condition {
            conditions.push(condition.given.clone());
            for (position, (field, expression)) in condition.keys.iter().enumerate() {
                // Keys are constants and variables: no document is read for them.
                let value = key_value(expression.evaluate(nothing(), variables)?);
                let values: Vec<RawBson> = value.into_iter().collect();
                if !values.is_empty() {
                    conditions.push(field.filter(&values));
                }
                // A table has one field: that of the first equality.
                if position == 0 && self.equality.is_none() && !values.is_empty() {
                    keyed = Keyed::By(field.clone(), values);
                }
            }
        }
        Ok(Wanted { filter: all_of(conditions), keyed })
    }
}

/// What one document asks of the other collection.
struct Wanted {
    filter: RawDocumentBuf,
    keyed: Keyed,
}

/// The values that a hash table can be asked for.
enum Keyed {
    Never,
    By(ForeignField, Vec<RawBson>),
}

/// A filter for what matches all conditions.
fn all_of(mut conditions: Vec<RawDocumentBuf>) -> RawDocumentBuf {
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

/// Runs the stages of a pipeline, without as many of the first ones, over documents.
pub(super) type RunStages<'i, E> =
    Box<dyn Fn(StageInput<'i, E>, &Variables, usize) -> StageInput<'i, E> + Send + Sync + 'i>;

/// The stream of a `$lookup`.
pub(super) struct Joining<'i, E> {
    input: StageInput<'i, E>,
    lookup: Lookup,
    /// Absent if the pipeline has no stages.
    run: Option<RunStages<'i, E>>,
    position: usize,
    variables: Variables,
    foreign: Arc<dyn Foreign<E> + Send + Sync>,
    /// The other collection in memory. Absent as long as an index finds everything.
    table: Option<ForeignTable>,
    /// The results of a pipeline that needs nothing of the documents.
    constant: Option<Found>,
    /// The memory of the documents that were found for the current one.
    room: Reservation,
    current: RawDocumentBuf,
}

/// The documents that were found for one document.
struct Found {
    documents: RawArrayBuf,
    bytes: usize,
}

impl<'i, E: From<Error> + 'i> Joining<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        lookup: Lookup,
        run: Option<RunStages<'i, E>>,
        at: (usize, Variables),
        foreign: Arc<dyn Foreign<E> + Send + Sync>,
    ) -> Self {
        let (position, variables) = at;
        let room = Reservation::of(variables.operation());
        Self {
            input,
            lookup,
            run,
            position,
            variables,
            foreign,
            table: None,
            constant: None,
            room,
            current: RawDocumentBuf::new(),
        }
    }

    /// Joins the input's current document.
    fn join(&mut self) -> Result<(), E> {
        let at = at::<E>(self.position);
        // Taken out and put back, because what is found must not be borrowed from the stage that it changes.
        if let Some(found) = self.constant.take() {
            let put = self.put(&found);
            self.constant = Some(found);
            return put.map_err(at);
        }
        let variables = self.lookup.variables(self.input.current(), &self.variables).map_err(&at)?;
        let (documents, matched) = self.documents(&variables)?;
        let mut results = match &self.run {
            Some(run) => run(documents, &variables, matched),
            None => documents,
        };
        let mut found = Found { documents: RawArrayBuf::new(), bytes: 0 };
        while results.advance()? == Step::Document {
            self.add(&mut found, results.current()).map_err(&at)?;
        }
        // The stages let go of their memory before the result takes its own.
        drop(results);
        self.put(&found).map_err(at)?;
        // The results of one document are bounded, so they can be kept.
        if self.lookup.equality.is_none() && !self.lookup.is_correlated {
            self.constant = Some(found);
        }
        Ok(())
    }

    /// What the pipeline reads for the current document, and how many of its first stages that has done already.
    fn documents(&mut self, variables: &Variables) -> Result<(StageInput<'i, E>, usize), E> {
        let at = at::<E>(self.position);
        let Wanted { filter, keyed } = self.lookup.wanted(self.input.current(), variables).map_err(&at)?;
        // Without a value for the table, another condition may still have an index.
        if self.table.is_none() || matches!(keyed, Keyed::Never) {
            // A filter for everything is a scan, which no index would make shorter.
            let found = match &self.lookup.from {
                Some(from) if !filter.is_empty() => self.foreign.find(from, &filter, variables)?,
                Some(_) | None => None,
            };
            if let Some(found) = found {
                return Ok((found, usize::from(self.lookup.condition.is_some())));
            }
        }
        let Keyed::By(field, values) = keyed else { return Ok((self.scan(variables)?, 0)) };
        // Once the table is built, it answers for all documents.
        let table = match self.table.take() {
            Some(table) => table,
            None => self.build(&field.path)?,
        };
        let found = table.find(&values, &mut self.room);
        self.table = Some(table);
        // The table found by one equality only, so all stages run, the first `$match` too.
        let found = found.map_err(at)?.into_iter().map(|document| RawDocumentBuf::clone(&document));
        Ok((self.given(found), 0))
    }

    /// All documents of the other collection, or those given in the pipeline.
    fn scan(&self, variables: &Variables) -> Result<StageInput<'i, E>, E> {
        match &self.lookup.from {
            Some(from) => Ok(self.foreign.scan(from, variables)?),
            None => Ok(self.given(self.lookup.documents.clone().into_iter())),
        }
    }

    /// A stream of documents in memory. Rows are counted where they are read, and these are read nowhere.
    fn given(&self, documents: impl Iterator<Item = RawDocumentBuf> + Send + Sync + 'i) -> StageInput<'i, E> {
        let (operation, position) = (self.variables.operation().clone(), self.position);
        Box::new(Given::new(documents.map(move |document| {
            operation.pass(document.as_bytes().len()).map_err(Fault::from).map_err(at::<E>(position))?;
            Ok(document)
        })))
    }

    /// Reads the other collection into a table.
    fn build(&self, field: &FieldPath) -> Result<ForeignTable, E> {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, self.variables.operation());
        let mut table = ForeignTable::new(memory, self.variables.collation().clone());
        let mut documents = self.scan(&self.variables)?;
        while documents.advance()? == Step::Document {
            let added = table.add(documents.current(), field);
            added.map_err(at::<E>(self.position))?;
        }
        Ok(table)
    }

    fn add(&mut self, found: &mut Found, document: &RawDocument) -> Result<(), Fault> {
        let bytes = document.as_bytes().len();
        self.variables.operation().pass(bytes)?;
        found.bytes = found.bytes.saturating_add(bytes);
        if found.bytes > DOCUMENT_BYTES_MAX {
            let from = crate::value::shorten(self.lookup.from.as_deref().unwrap_or("$documents"));
            return Err(Fault::JoinTooLarge { stage: STAGE, from, limit: DOCUMENT_BYTES_MAX });
        }
        self.room.grow_by_steps(found.bytes)?;
        found.documents.push(document.to_owned());
        Ok(())
    }

    /// Makes the current document of the input's and what was found for it.
    fn put(&mut self, found: &Found) -> Result<(), Fault> {
        let array = Operand::new(RawBsonRef::Array(&found.documents));
        self.current = put(self.input.current(), &self.lookup.names, Some(&array))?;
        validate(self.current.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
        Ok(())
    }
}

impl<'i, E: From<Error> + 'i> Stream<E> for Joining<'i, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let step = self.input.advance()?;
        if step == Step::Document {
            self.join()?;
        }
        Ok(step)
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}
