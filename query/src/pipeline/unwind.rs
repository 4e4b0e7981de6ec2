//! `$unwind`: a document for each element of an array.
//!
//! The path goes through objects only. What is no array is its own only element; null, missing and an empty array have
//! none, and their document goes on only if it is asked for.

use std::vec::IntoIter;

use bson::spec::ElementType;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::{FieldPath, value_at};
use index::validate::validate;

use crate::operation::{OperationContext, Reservation};
use crate::path::parse_path;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::options::options;
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::raw::{Fields, Malformed, Operand, Writer};
use crate::value::{describe, elements};

const STAGE: &str = "$unwind";
/// The least that an element of an array takes in it.
const ELEMENT_BYTES_MIN: usize = 3;
const OPERAND: i32 = 15_981;
const PATH_TYPE: i32 = 28_808;
const PRESERVE_TYPE: i32 = 28_809;
const INDEX_TYPE: i32 = 28_810;
const OPTION: i32 = 28_811;
const PATH_MISSING: i32 = 28_812;
const PATH_DOLLAR: i32 = 28_818;
const INDEX_DOLLAR: i32 = 28_822;

/// Which array is taken apart, and how.
#[derive(Clone, Debug)]
pub(super) struct Unwind {
    path: FieldPath,
    names: Vec<String>,
    /// Where the element's position goes.
    index: Option<Vec<String>>,
    empty: Empty,
}

/// What becomes of a document without an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Dropped,
    Kept,
}

impl Unwind {
    /// Reads a path, or an object of options.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        if operand.as_str().is_none() && operand.as_document().is_none() {
            return Err(wrong("a path or an object of options", operand, OPERAND));
        }
        let [path, index, empty] = if operand.as_str().is_some() {
            [Some(operand), None, None]
        } else {
            let names = ["path", "includeArrayIndex", "preserveNullAndEmptyArrays"];
            options(STAGE, names, operand, OPERAND, OPTION)?
        };
        let path = path.ok_or(Fault::OptionMissing { stage: STAGE, option: "path", code: PATH_MISSING })?;
        let text = path.as_str().ok_or_else(|| wrong("a text as path", path, PATH_TYPE))?;
        let text = text.strip_prefix('$');
        let text = text.ok_or_else(|| wrong("a path that starts with a dollar sign", path, PATH_DOLLAR))?;
        let path = field_path(text)?;
        let empty = match empty {
            None | Some(RawBsonRef::Boolean(false)) => Empty::Dropped,
            Some(RawBsonRef::Boolean(true)) => Empty::Kept,
            Some(other) => {
                return Err(wrong("true or false as 'preserveNullAndEmptyArrays'", other, PRESERVE_TYPE));
            }
        };
        let index = index.map(parse_index).transpose()?;
        Ok(Self { names: names(&path), path, index, empty })
    }
}

fn parse_index(index: RawBsonRef<'_>) -> Result<Vec<String>, Fault> {
    let text = index.as_str().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| wrong("a name as 'includeArrayIndex'", index, INDEX_TYPE))?;
    if text.starts_with('$') {
        let expected = "a name without a dollar sign as 'includeArrayIndex'";
        return Err(wrong(expected, index, INDEX_DOLLAR));
    }
    Ok(names(&field_path(text)?))
}

fn field_path(text: &str) -> Result<FieldPath, Fault> {
    parse_path(text).map_err(|refusal| Fault::Path {
        stage: STAGE,
        path: crate::value::shorten(text),
        refusal,
    })
}

fn names(path: &FieldPath) -> Vec<String> {
    path.components().map(str::to_owned).collect()
}

fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: i32) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}

pub(super) struct Unwinding<'i, E> {
    input: StageInput<'i, E>,
    unwind: Unwind,
    position: usize,
    /// The document that is taken apart, and what is left of its array.
    whole: RawDocumentBuf,
    elements: IntoIter<RawBson>,
    /// Held while the array is taken apart.
    room: Reservation,
    next: i64,
    current: RawDocumentBuf,
}

impl<'i, E: From<Error>> Unwinding<'i, E> {
    pub(super) fn new(
        input: StageInput<'i, E>,
        unwind: Unwind,
        position: usize,
        operation: &OperationContext,
    ) -> Self {
        let room = Reservation::of(operation);
        let elements = Vec::new().into_iter();
        let (whole, current) = (RawDocumentBuf::new(), RawDocumentBuf::new());
        Self { input, unwind, position, whole, elements, room, next: 0, current }
    }

    /// Starts with the next document; whether it goes on as a whole.
    fn open(&mut self) -> Result<bool, Fault> {
        let document = self.input.current();
        let found = value_at(document, &self.unwind.path);
        let array = found.and_then(RawBsonRef::as_array);
        let is_empty = match (array, found) {
            (Some(array), _) => array.is_empty(),
            (None, found) => matches!(found, None | Some(RawBsonRef::Null | RawBsonRef::Undefined)),
        };
        match array {
            Some(array) if !is_empty => {
                // Each element becomes a value with a buffer of its own.
                let elements_max = array.as_bytes().len() / ELEMENT_BYTES_MIN;
                let bytes = document.as_bytes().len() + array.as_bytes().len();
                self.room.grow_by_steps(bytes.saturating_add(elements_max * size_of::<RawBson>()))?;
                self.whole = document.to_owned();
                self.elements = elements(array).map(RawBson::from).collect::<Vec<_>>().into_iter();
                self.next = 0;
                return Ok(false);
            }
            Some(_) => self.current = put(document, &self.unwind.names, None)?,
            None => self.current = document.to_owned(),
        }
        if is_empty && self.unwind.empty == Empty::Dropped {
            return Ok(false);
        }
        self.set_index(RawBsonRef::Null)?;
        Ok(true)
    }

    fn set_index(&mut self, index: RawBsonRef<'_>) -> Result<(), Fault> {
        let Some(names) = &self.unwind.index else { return Ok(()) };
        self.current = put(&self.current, names, Some(&Operand::new(index)))?;
        // The only way in which this stage makes a document larger or deeper.
        validate(self.current.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
        Ok(())
    }

    fn take(&mut self, element: &RawBson) -> Result<(), Fault> {
        self.room.operation().pass(self.whole.as_bytes().len())?;
        let element = Operand::new(element.as_raw_bson_ref());
        self.current = put(&self.whole, &self.unwind.names, Some(&element))?;
        self.set_index(RawBsonRef::Int64(self.next))?;
        self.next += 1;
        Ok(())
    }
}

impl<E: From<Error>> Stream<E> for Unwinding<'_, E> {
    fn advance(&mut self) -> Result<Step, E> {
        loop {
            if let Some(element) = self.elements.next() {
                self.take(&element).map_err(at::<E>(self.position))?;
                return Ok(Step::Document);
            }
            let step = self.input.advance()?;
            if step != Step::Document {
                return Ok(step);
            }
            if self.open().map_err(at::<E>(self.position))? {
                return Ok(Step::Document);
            }
        }
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}

/// A copy of a document with another value at the end of a path, or with none. Objects are made on the way where there
/// are none.
fn put(document: &RawDocument, path: &[String], value: Option<&Operand>) -> Result<RawDocumentBuf, Fault> {
    let mut out = Writer::with_capacity(document.as_bytes().len());
    write(&mut out, Some(document), path, value)?;
    let made = RawDocumentBuf::from_bytes(out.into_bytes());
    made.map_err(|error| Fault::InvalidBson { reason: error.to_string() })
}

/// Paths have a limited length, so the recursion ends.
fn write(
    out: &mut Writer,
    document: Option<&RawDocument>,
    path: &[String],
    value: Option<&Operand>,
) -> Result<(), Malformed> {
    let mark = out.open();
    let Some((name, rest)) = path.split_first() else {
        out.close(mark);
        return Ok(());
    };
    let mut is_found = false;
    for field in document.into_iter().flat_map(Fields::of) {
        let field = field?;
        if is_found || field.name() != name {
            out.copy(field.whole());
            continue;
        }
        is_found = true;
        let is_object = field.kind() == ElementType::EmbeddedDocument;
        match (value, rest) {
            (Some(value), []) => out.operand(name, value),
            (None, []) => {}
            (None, _) if !is_object => out.copy(field.whole()),
            (_, _) => {
                let inside = if is_object { Some(field.container()?) } else { None };
                out.header(ElementType::EmbeddedDocument, name);
                write(out, inside, rest, value)?;
            }
        }
    }
    match (is_found, value, rest) {
        (true, _, _) | (_, None, _) => {}
        (false, Some(value), []) => out.operand(name, value),
        (false, Some(_), _) => {
            out.header(ElementType::EmbeddedDocument, name);
            write(out, None, rest, value)?;
        }
    }
    out.close(mark);
    Ok(())
}
