//! `$graphLookup`: gives each document an array of the documents of another collection that a search along their fields
//! reaches.
//!
//! The search begins with the values of `startWith`. In each step it finds the documents whose `connectToField` has one
//! of the values, and goes on with the values of their `connectFromField`, until a step finds nothing new or `maxDepth`
//! is passed. A document is reached once, and a value asked for once, so cycles end. Null finds documents that have a null
//! and not those without the field; a missing value finds nothing. The array is in the order of depth, and within one
//! depth in that of `_id`, whether an index was asked or not.
//!
//! If an index finds the values of `connectToField`, it is asked in each step. Otherwise the other collection is read
//! once, as far as `restrictSearchWithMatch` matches, into a table that counts as memory of the stage, and goes on in a temporary
//! file if that is too little. In a pipeline of
//! `$lookup` the table is handed on from one run to the next, unless the restriction reads a variable of that `$lookup`.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::key::{Direction, encode};
use index::order::compare;
use index::path::{FieldPath, leaves};
use index::validate::{DOCUMENT_BYTES_MAX, validate};
use index::writer::StoredValue;

use crate::code::Code;
use crate::expression::{Expression, Variables};
use crate::filter::Filter;
use crate::operation::Reservation;
use crate::path::parse_path;
use crate::pipeline::correlation::{ForeignField, reads_unset};
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign::Foreign;
use crate::pipeline::foreign_table::{ForeignTable, TableBuilder};
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::options;
use crate::pipeline::put_path::PutPath;
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::raw::Operand;
use crate::value::{describe, elements, integer};

const STAGE: &str = "$graphLookup";
/// An index is asked for at most this many values at once: what a plan holds for each of them is not memory of the stage.
const VALUES_PER_FIND: usize = 1_000;
/// The cost of a reached document besides its bytes and those of its `_id`.
const NODE_BYTES: usize = 128;

/// A parsed `$graphLookup`.
#[derive(Clone, Debug)]
pub(super) struct GraphLookup {
    /// The other collection.
    pub(super) from: String,
    start: Expression,
    connect_from: FieldPath,
    connect_to: ForeignField,
    restriction: Option<Restriction>,
    /// The restriction that null means: a document that has the field, with a null in it and nothing undefined.
    has_null: Restriction,
    /// The path of the field that gets the array.
    place: PutPath,
    /// That of the field that gets the depth.
    depth_place: Option<PutPath>,
    depth_max: Option<i64>,
    /// Whether no `$lookup` around the stage can change what may be reached from one of its documents to the next.
    is_constant: bool,
    /// The place in which those runs hand the table on.
    kept: Option<KeptTable>,
}

/// The table between two runs of a stage.
type KeptTable = Arc<Mutex<Option<ForeignTable>>>;

/// A filter, parsed and as it was given: an index may answer it.
#[derive(Clone, Debug)]
struct Restriction {
    filter: Filter,
    given: RawDocumentBuf,
}

impl GraphLookup {
    /// Parses the argument.
    pub(super) fn parse(operand: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let names = [
            "from",
            "startWith",
            "connectFromField",
            "connectToField",
            "as",
            "maxDepth",
            "depthField",
            "restrictSearchWithMatch",
        ];
        let (not_object, unknown) = (Code::FAILED_TO_PARSE, Code::GRAPH_LOOKUP_UNKNOWN_ARGUMENT);
        let [from, start, connect_from, connect_to, name, depth_max, depth, restriction] =
            options(STAGE, names, operand, not_object, unknown)?;
        // MongoDB reads `from` before all others, and has other codes for it.
        let from = parse_from(from)?;
        let start = start.ok_or_else(|| missing("startWith"))?;
        let connect_to = ForeignField::new(required("connectToField", connect_to)?)?;
        let has_null = rawdoc! { "$eq": RawBson::Null, "$exists": true, "$not": { "$type": "undefined" } };
        Ok(Self {
            from,
            start: Expression::parse(start, variables)?,
            connect_from: required("connectFromField", connect_from)?,
            has_null: Restriction::of(&connect_to.with(has_null), variables)?,
            connect_to,
            restriction: restriction.map(|given| Restriction::parse(given, variables)).transpose()?,
            place: PutPath::of(&required("as", name)?),
            depth_place: depth.map(|depth| path("depthField", depth)).transpose()?.as_ref().map(PutPath::of),
            depth_max: depth_max.map(parse_depth).transpose()?,
            is_constant: restriction
                .and_then(RawBsonRef::as_document)
                .is_none_or(|given| !reads_unset(given, variables)),
            kept: None,
        })
    }

    /// Lets the clones of this stage share one table, as far as they may.
    pub(super) fn keep_table(&mut self) {
        if self.is_constant && self.kept.is_none() {
            self.kept = Some(KeptTable::default());
        }
    }

    /// Whether a document may be reached at all.
    fn admits(&self, document: &RawDocument, variables: &Variables) -> Result<bool, Fault> {
        match &self.restriction {
            Some(restriction) => Ok(restriction.filter.try_matches(document, variables)?),
            None => Ok(true),
        }
    }

    /// Whether null finds a document.
    fn has_null(&self, document: &RawDocument, variables: &Variables) -> Result<bool, Fault> {
        Ok(self.has_null.filter.try_matches(document, variables)?)
    }
}

impl Restriction {
    fn parse(given: RawBsonRef<'_>, variables: &Variables) -> Result<Self, Fault> {
        let wrong = || {
            let (expected, code) = ("an object as 'restrictSearchWithMatch'", Code::GRAPH_LOOKUP_MATCH_TYPE);
            Fault::Operand { stage: STAGE, expected, found: describe(given), code }
        };
        Self::of(given.as_document().ok_or_else(wrong)?, variables)
    }

    fn of(given: &RawDocument, variables: &Variables) -> Result<Self, Fault> {
        Ok(Self { filter: Filter::parse_with(given, variables)?, given: given.to_owned() })
    }
}

fn parse_from(from: Option<RawBsonRef<'_>>) -> Result<String, Fault> {
    let code = Code::FAILED_TO_PARSE;
    let from = from.ok_or(Fault::OptionMissing { stage: STAGE, option: "from", code })?;
    let expected = "the name of a collection as 'from'";
    let wrong = || Fault::Operand { stage: STAGE, expected, found: describe(from), code };
    from.as_str().map(str::to_owned).ok_or_else(wrong)
}

fn missing(option: &'static str) -> Fault {
    Fault::OptionMissing { stage: STAGE, option, code: Code::GRAPH_LOOKUP_OPTION_MISSING }
}

/// A path that must be given. As in MongoDB an empty one is none.
fn required(option: &'static str, given: Option<RawBsonRef<'_>>) -> Result<FieldPath, Fault> {
    let given = given.filter(|given| given.as_str() != Some("")).ok_or_else(|| missing(option))?;
    path(option, given)
}

fn path(option: &'static str, given: RawBsonRef<'_>) -> Result<FieldPath, Fault> {
    let wrong = || {
        let expected = match option {
            "as" => "a path as 'as'",
            "connectFromField" => "a path as 'connectFromField'",
            "connectToField" => "a path as 'connectToField'",
            _ => "a path as 'depthField'",
        };
        Fault::Operand { stage: STAGE, expected, found: describe(given), code: Code::GRAPH_LOOKUP_TEXT_TYPE }
    };
    let text = given.as_str().ok_or_else(wrong)?;
    let refused = |refusal| Fault::Path { stage: STAGE, path: crate::value::shorten(text), refusal };
    parse_path(text).map_err(refused)
}

/// Parses `maxDepth`: a whole number of any type, from 0 on.
fn parse_depth(given: RawBsonRef<'_>) -> Result<i64, Fault> {
    let wrong = |expected, code| Fault::Operand { stage: STAGE, expected, found: describe(given), code };
    let is_number = matches!(
        given,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_)
    );
    if !is_number {
        return Err(wrong("a number as 'maxDepth'", Code::GRAPH_LOOKUP_DEPTH_TYPE));
    }
    // A number that is cut to an integer above -1 is not negative to MongoDB, but not an integer either.
    if compare(given, RawBsonRef::Int32(-1)).is_le() {
        return Err(wrong("a 'maxDepth' of 0 or more", Code::GRAPH_LOOKUP_DEPTH_NEGATIVE));
    }
    integer(given).ok_or_else(|| wrong("an integer as 'maxDepth'", Code::GRAPH_LOOKUP_DEPTH_NOT_INTEGER))
}

/// The stream of a `$graphLookup`.
pub(super) struct GraphSearching<'i, E> {
    input: StageInput<'i, E>,
    graph: GraphLookup,
    position: usize,
    variables: Variables,
    foreign: Arc<dyn Foreign<E> + Send + Sync>,
    /// The other collection by `connectToField`. Absent as long as an index finds everything.
    table: Option<ForeignTable>,
    /// The memory of the search for one document.
    memory: StageMemory,
    room: Reservation,
    current: RawDocumentBuf,
}

/// The search for one document.
#[derive(Default)]
struct Reached {
    /// The encoded values that were asked for.
    asked: HashSet<Box<[u8]>>,
    /// The encoded `_id`s of the documents.
    visited: HashSet<Box<[u8]>>,
    documents: RawArrayBuf,
    bytes: usize,
}

/// The documents that one step finds, by their encoded `_id`s.
type Level = BTreeMap<Box<[u8]>, RawDocumentBuf>;

/// The values that a step searches for at once.
struct Wanted<'a> {
    values: &'a [RawBson],
    /// The filter that an index may answer.
    filter: RawDocumentBuf,
    is_null: bool,
}

impl<'i, E: From<Error>> GraphSearching<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        graph: GraphLookup,
        position: usize,
        variables: Variables,
        foreign: Arc<dyn Foreign<E> + Send + Sync>,
    ) -> Self {
        let operation = variables.operation();
        Self {
            memory: StageMemory::new(STAGE, STAGE_BYTES_MAX, operation),
            room: Reservation::of(operation),
            input,
            graph,
            position,
            variables,
            foreign,
            table: None,
            current: RawDocumentBuf::new(),
        }
    }

    /// Searches for the input's current document.
    fn search(&mut self) -> Result<(), E> {
        let at = at::<E>(self.position);
        // The memory of the search before is free.
        self.memory.clear();
        let start = self.graph.start.evaluate(self.input.current(), &self.variables);
        let start = start.map_err(|error| at(error.into()))?;
        let mut reached = Reached::default();
        let mut values = Vec::new();
        match start.as_ref().map(RawBson::as_raw_bson_ref) {
            // One level only: an array in an array is a value.
            Some(RawBsonRef::Array(array)) => {
                for element in elements(array) {
                    self.ask(element, &mut reached, &mut values).map_err(&at)?;
                }
            }
            Some(value) => self.ask(value, &mut reached, &mut values).map_err(&at)?,
            None => {}
        }
        let mut depth = 0;
        // Without a limit a search ends all the same: each step asks for values that no step before did.
        while !values.is_empty() && self.graph.depth_max.is_none_or(|max| depth <= max) {
            let level = self.step(&values, &reached)?;
            values = self.arrive(level, depth, &mut reached).map_err(&at)?;
            depth += 1;
        }
        self.put(&reached).map_err(at)
    }

    /// Adds a value to those of the next step, unless it was asked for before.
    fn ask(
        &mut self,
        value: RawBsonRef<'_>,
        reached: &mut Reached,
        values: &mut Vec<RawBson>,
    ) -> Result<(), Fault> {
        self.variables.operation().step()?;
        // Undefined is a legacy value that no filter can name.
        if value == RawBsonRef::Undefined {
            return Ok(());
        }
        // Values that compare as equal have the same bytes, whatever their types.
        let mut key = Vec::new();
        self.variables.collation().encode(value, Direction::Ascending, &mut key);
        if !reached.asked.contains(key.as_slice()) {
            self.memory.grow(2 * key.len() + size_of::<Box<[u8]>>() + size_of::<RawBson>())?;
            reached.asked.insert(key.into_boxed_slice());
            values.push(value.into());
        }
        Ok(())
    }

    /// The documents that have one of the values and were not reached before.
    fn step(&mut self, values: &[RawBson], reached: &Reached) -> Result<Level, E> {
        let mut level = Level::new();
        // Null has a condition of its own, which must not keep out what another value finds.
        let (nulls, others): (Vec<RawBson>, Vec<RawBson>) =
            values.iter().cloned().partition(|value| *value == RawBson::Null);
        for some in others.chunks(VALUES_PER_FIND) {
            let filter = self.graph.connect_to.filter(some);
            self.find(&Wanted { values: some, filter, is_null: false }, reached, &mut level)?;
        }
        if !nulls.is_empty() {
            let filter = self.graph.has_null.given.clone();
            self.find(&Wanted { values: &nulls, filter, is_null: true }, reached, &mut level)?;
        }
        Ok(level)
    }

    /// Adds to the level what is found for values, by an index or in the table.
    fn find(&mut self, wanted: &Wanted<'_>, reached: &Reached, level: &mut Level) -> Result<(), E> {
        let at = at::<E>(self.position);
        // The restriction is not a part of the question: an index that only it has would be read as a whole in each step.
        if self.table.is_none()
            && let Some(mut found) = self.foreign.find(&self.graph.from, &wanted.filter, &self.variables)?
        {
            while found.advance()? == Step::Document {
                let document = found.current();
                if self.graph.admits(document, &self.variables).map_err(&at)? {
                    visit(document, reached, level, &mut self.memory).map_err(&at)?;
                }
            }
            return Ok(());
        }
        // Once the table is built, it answers for all values.
        let table = match self.table.take().or_else(|| self.kept_table()) {
            Some(table) => table,
            None => self.build()?,
        };
        // Put back before anything can fail: a second table would be read for nothing.
        let table = self.table.insert(table);
        let mut found = Vec::new();
        table.find(wanted.values, &mut self.room, &mut found).map_err(&at)?;
        let mut read = RawDocumentBuf::new();
        for position in found {
            table.read(position, &mut read).map_err(&at)?;
            let document = table.document(position, &read);
            // The table has null for a missing field as well.
            if !wanted.is_null || self.graph.has_null(document, &self.variables).map_err(&at)? {
                visit(document, reached, level, &mut self.memory).map_err(&at)?;
            }
        }
        Ok(())
    }

    /// The table of the run before this one.
    fn kept_table(&self) -> Option<ForeignTable> {
        let kept = self.graph.kept.as_ref()?;
        kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads the other collection into a table, as far as it may be reached.
    fn build(&self) -> Result<ForeignTable, E> {
        let at = at::<E>(self.position);
        let mut table = TableBuilder::new(STAGE, self.variables.operation(), self.variables.collation());
        // If an index answers the restriction, only matches are read. Everything needs no index.
        let restriction = self.graph.restriction.as_ref().filter(|restriction| !restriction.given.is_empty());
        let found = match restriction {
            Some(restriction) => self.foreign.find(&self.graph.from, &restriction.given, &self.variables)?,
            None => None,
        };
        let is_restricted = found.is_none() && restriction.is_some();
        let mut documents = match found {
            Some(found) => found,
            None => self.foreign.scan(&self.graph.from, &self.variables)?,
        };
        while documents.advance()? == Step::Document {
            let document = documents.current();
            if !is_restricted || self.graph.admits(document, &self.variables).map_err(&at)? {
                table.add(document, &self.graph.connect_to.path).map_err(&at)?;
            }
        }
        // The memory for reading the collection is free for reading the table.
        drop(documents);
        table.finish().map_err(at)
    }

    /// Adds the documents of a step to the array. Returns the values that the next step asks for.
    fn arrive(&mut self, level: Level, depth: i64, reached: &mut Reached) -> Result<Vec<RawBson>, Fault> {
        let mut values = Vec::new();
        for (id, found) in level {
            // As in MongoDB the depth is there before the document is asked where it leads to.
            let document = match &self.graph.depth_place {
                Some(place) => place.put(&found, Some(Operand::new(RawBsonRef::Int64(depth)).stored()))?,
                None => found,
            };
            reached.bytes = reached.bytes.saturating_add(document.as_bytes().len());
            // They become one array of one document, so its limit of size is theirs together.
            if reached.bytes > DOCUMENT_BYTES_MAX {
                return Err(Fault::TooLarge { stage: STAGE, limit: DOCUMENT_BYTES_MAX });
            }
            reached.visited.insert(id);
            self.ask_from(&document, reached, &mut values)?;
            reached.documents.push(document);
        }
        Ok(values)
    }

    /// Adds the values that a document leads to.
    fn ask_from(
        &mut self,
        document: &RawDocument,
        reached: &mut Reached,
        values: &mut Vec<RawBson>,
    ) -> Result<(), Fault> {
        // A copy, because what is asked for is counted as memory of this stage.
        let path = self.graph.connect_from.clone();
        let mut asked = Ok(());
        let _ = leaves(document, &path, &mut |leaf| {
            asked = match leaf.value {
                // One level only: an array in an array is a value.
                Some(RawBsonRef::Array(array)) if leaf.expand => {
                    elements(array).try_for_each(|element| self.ask(element, reached, values))
                }
                Some(value) => self.ask(value, reached, values),
                None => Ok(()),
            };
            if asked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        asked
    }

    /// Makes the current document of the input's and what was reached.
    fn put(&mut self, reached: &Reached) -> Result<(), Fault> {
        // The array is copied into the document.
        self.memory.grow(reached.bytes)?;
        let array = StoredValue::array(reached.documents.as_bytes());
        self.current = self.graph.place.put(self.input.current(), Some(array))?;
        // The array adds two levels and its own bytes to documents that are valid by themselves.
        validate(self.current.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
        Ok(())
    }
}

/// Adds a found document to the level, unless it was reached before.
fn visit(
    document: &RawDocument,
    reached: &Reached,
    level: &mut Level,
    memory: &mut StageMemory,
) -> Result<(), Fault> {
    let bytes = document.as_bytes().len();
    memory.pass(bytes)?;
    let mut id = Vec::new();
    // Every stored document has an `_id`.
    let value = document.get("_id").ok().flatten().unwrap_or(RawBsonRef::Null);
    encode(value, Direction::Ascending, &mut id);
    if !reached.visited.contains(id.as_slice()) && !level.contains_key(id.as_slice()) {
        memory.grow(bytes + 2 * id.len() + NODE_BYTES)?;
        level.insert(id.into_boxed_slice(), document.to_owned());
    }
    Ok(())
}

impl<E> Drop for GraphSearching<'_, E> {
    fn drop(&mut self) {
        // For the next document of the `$lookup` around it, which would read the other collection again.
        if let (Some(kept), Some(table)) = (&self.graph.kept, self.table.take()) {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(table);
        }
    }
}

impl<E: From<Error>> Stream<E> for GraphSearching<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        let step = self.input.advance()?;
        if step == Step::Document {
            self.search()?;
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
