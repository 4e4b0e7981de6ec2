//! `$lookup` by equality: gives each document an array of the documents of another collection whose `foreignField` has
//! a value of its `localField`.
//!
//! A document's values are the elements of an array, not the array itself; null and no value at all ask for null. In
//! the other collection values match as in a filter: an array matches by each element and as a whole, a missing
//! field as null. What an index finds is looked up for each document. Otherwise the other collection is read once,
//! into a hash table that counts as memory of the stage.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use index::key::{Direction, encode};
use index::path::{FieldPath, leaves};
use index::validate::{DOCUMENT_BYTES_MAX, validate};

use crate::code::Code;
use crate::expression::Variables;
use crate::operation::Reservation;
use crate::path::parse_path;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::foreign::Foreign;
use crate::pipeline::memory::{STAGE_BYTES_MAX, StageMemory};
use crate::pipeline::options::options;
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::pipeline::unwind::put;
use crate::raw::Operand;
use crate::value::{describe, elements};

pub(super) const STAGE: &str = "$lookup";

/// The argument of `$lookup`.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// The other collection.
    pub(super) from: String,
    local: FieldPath,
    foreign: FieldPath,
    /// The same path as the name of a filter's field.
    foreign_name: CString,
    /// The components of the path of the field that gets the array.
    names: Vec<String>,
}

impl Lookup {
    /// Parses the argument.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        let names = ["from", "localField", "foreignField", "as", "let", "pipeline"];
        let code = Code::FAILED_TO_PARSE;
        let [from, local, foreign, name, variables, pipeline] = options(STAGE, names, operand, code, code)?;
        for (option, given) in [("let", variables), ("pipeline", pipeline)] {
            if given.is_some() {
                return Err(Fault::Unsupported { stage: format!("{STAGE} with '{option}'") });
            }
        }
        let foreign = path("foreignField", "a path as 'foreignField'", foreign)?;
        let foreign_name = CString::try_from(foreign.as_str());
        Ok(Self {
            foreign_name: foreign_name.map_err(|error| Fault::InvalidBson { reason: error.to_string() })?,
            foreign,
            names: path("as", "a path as 'as'", name)?.components().map(str::to_owned).collect(),
            from: text("from", "the name of a collection as 'from'", from)?.to_owned(),
            local: path("localField", "a path as 'localField'", local)?,
        })
    }

    /// The values that are looked up for a document.
    fn values(&self, document: &RawDocument) -> Vec<RawBson> {
        let mut values = Vec::new();
        let _ = leaves(document, &self.local, &mut |leaf| {
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

    /// The filter for documents of the other collection with one of `values`.
    fn filter(&self, values: &[RawBson]) -> RawDocumentBuf {
        let of_field = |test: RawDocumentBuf| {
            let mut filter = RawDocumentBuf::new();
            filter.append(&self.foreign_name, test);
            filter
        };
        let is = |value: &RawBson| of_field(rawdoc! { "$eq": value.clone() });
        if let [value] = values {
            return is(value);
        }
        // In `$in` a regular expression is a pattern, and here a value.
        if values.iter().any(|value| matches!(value, RawBson::RegularExpression(_))) {
            let mut branches = RawArrayBuf::new();
            for value in values {
                branches.push(is(value));
            }
            return rawdoc! { "$or": branches };
        }
        let mut list = RawArrayBuf::new();
        for value in values {
            list.push(value.clone());
        }
        of_field(rawdoc! { "$in": list })
    }
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

/// The stream of a `$lookup`.
pub(super) struct Joining<'i, E> {
    input: StageInput<'i, E>,
    lookup: Lookup,
    position: usize,
    variables: Variables,
    foreign: Arc<dyn Foreign<E> + Send + Sync>,
    /// The other collection in memory. Absent as long as an index finds everything.
    table: Option<Table>,
    /// The memory of the documents that were found for the current one.
    room: Reservation,
    current: RawDocumentBuf,
}

/// The documents of the other collection by the encoded values of their field.
struct Table {
    documents: Vec<RawDocumentBuf>,
    /// Indexes into `documents`, ascending.
    indexes: HashMap<Box<[u8]>, Vec<usize>>,
    memory: StageMemory,
}

/// The documents that were found for one document.
struct Found {
    documents: RawArrayBuf,
    bytes: usize,
}

impl<'i, E: From<Error>> Joining<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        lookup: Lookup,
        position: usize,
        variables: Variables,
        foreign: Arc<dyn Foreign<E> + Send + Sync>,
    ) -> Self {
        let room = Reservation::of(variables.operation());
        Self {
            input,
            lookup,
            position,
            variables,
            foreign,
            table: None,
            room,
            current: RawDocumentBuf::new(),
        }
    }

    /// Joins the input's current document.
    fn join(&mut self) -> Result<(), E> {
        let at = at::<E>(self.position);
        let values = self.lookup.values(self.input.current());
        let mut found = Found { documents: RawArrayBuf::new(), bytes: 0 };
        if self.table.is_none() {
            let filter = self.lookup.filter(&values);
            let Self { lookup, foreign, variables, .. } = self;
            match foreign.find(&lookup.from, &filter, variables)? {
                Some(mut documents) => {
                    while documents.advance()? == Step::Document {
                        self.add(&mut found, documents.current()).map_err(&at)?;
                    }
                    return self.put(&found).map_err(at);
                }
                // Once the table is built, it answers for all documents.
                None => self.table = Some(self.build()?),
            }
        }
        let Some(table) = self.table.take() else { return Ok(()) };
        let added = self.find_in(&table, &values, &mut found);
        self.table = Some(table);
        added.map_err(&at)?;
        self.put(&found).map_err(at)
    }

    /// Reads the other collection into a table.
    fn build(&self) -> Result<Table, E> {
        let memory = StageMemory::new(STAGE, STAGE_BYTES_MAX, self.variables.operation());
        let mut table = Table { documents: Vec::new(), indexes: HashMap::new(), memory };
        let mut documents = self.foreign.scan(&self.lookup.from, &self.variables)?;
        while documents.advance()? == Step::Document {
            let added = table.add(documents.current(), &self.lookup.foreign);
            added.map_err(at::<E>(self.position))?;
        }
        Ok(table)
    }

    /// Adds the documents of the table that have one of the values.
    fn find_in(&mut self, table: &Table, values: &[RawBson], found: &mut Found) -> Result<(), Fault> {
        let mut indexes = Vec::new();
        let mut key = Vec::new();
        for value in values {
            self.variables.operation().step()?;
            key.clear();
            encode(value.as_raw_bson_ref(), Direction::Ascending, &mut key);
            let with_value = table.indexes.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
            self.variables.operation().steps(with_value.len() as u64)?;
            self.room.grow_by_steps((indexes.len() + with_value.len()) * size_of::<usize>())?;
            indexes.extend_from_slice(with_value);
        }
        // In the order of the collection, and a document with two of the values once.
        indexes.sort_unstable();
        indexes.dedup();
        for document in indexes.into_iter().filter_map(|index| table.documents.get(index)) {
            self.add(found, document)?;
        }
        Ok(())
    }

    fn add(&mut self, found: &mut Found, document: &RawDocument) -> Result<(), Fault> {
        let bytes = document.as_bytes().len();
        self.variables.operation().pass(bytes)?;
        found.bytes = found.bytes.saturating_add(bytes);
        if found.bytes > DOCUMENT_BYTES_MAX {
            let from = crate::value::shorten(&self.lookup.from);
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

impl<E: From<Error>> Stream<E> for Joining<'_, E> {
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

impl Table {
    /// Adds a document under all values that a filter would find it by.
    fn add(&mut self, document: &RawDocument, path: &FieldPath) -> Result<(), Fault> {
        let index = self.documents.len();
        let mut added = Ok(());
        let _ = leaves(document, path, &mut |leaf| {
            added = self.add_value(leaf.value, index);
            if let (Ok(()), Some(RawBsonRef::Array(array)), true) = (&added, leaf.value, leaf.expand) {
                added = elements(array).try_for_each(|element| self.add_value(Some(element), index));
            }
            if added.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        added?;
        self.memory.grow(document.as_bytes().len() + size_of::<RawDocumentBuf>())?;
        self.documents.push(document.to_owned());
        Ok(())
    }

    fn add_value(&mut self, value: Option<RawBsonRef<'_>>, index: usize) -> Result<(), Fault> {
        let mut key = Vec::new();
        // A missing field and undefined match null.
        let value = value.filter(|value| *value != RawBsonRef::Undefined).unwrap_or(RawBsonRef::Null);
        encode(value, Direction::Ascending, &mut key);
        if let Some(indexes) = self.indexes.get_mut(key.as_slice()) {
            if indexes.last() != Some(&index) {
                self.memory.grow(2 * size_of::<usize>())?;
                indexes.push(index);
            }
            return Ok(());
        }
        self.memory.grow(key.len() + size_of::<(Box<[u8]>, Vec<usize>)>() + 4 * size_of::<usize>())?;
        self.indexes.insert(key.into_boxed_slice(), vec![index]);
        Ok(())
    }
}
