//! `$unwind`: makes a document for each element of an array.
//!
//! The path leads through objects only, never through arrays. A value that is not an array counts as an array of this value.
//! Null, a missing field and an empty array have no elements; their document is dropped, or kept if
//! `preserveNullAndEmptyArrays` is set.

use std::vec::IntoIter;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use index::path::{FieldPath, value_at};
use index::validate::validate;

use crate::code::Code;
use crate::expression::Metadata;
use crate::operation::{OperationContext, Reservation};
use crate::path::parse_path;
use crate::pipeline::error::{Error, Fault, at};
use crate::pipeline::options::options;
use crate::pipeline::put_path::PutPath;
use crate::pipeline::stream::{StageInput, Step, Stream};
use crate::raw::Operand;
use crate::value::{describe, elements};

const STAGE: &str = "$unwind";
/// The minimum size of an array's element: its type, a name of one digit, and the zero byte.
const ELEMENT_BYTES_MIN: usize = 3;

/// The argument of `$unwind`.
#[derive(Clone, Debug)]
pub(super) struct Unwind {
    path: FieldPath,
    /// The same, at whose end the elements come.
    place: PutPath,
    /// The path of the field that gets the element's position.
    index: Option<PutPath>,
    empty: Empty,
}

/// The treatment of a document without elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Dropped,
    Kept,
}

impl Unwind {
    /// Parses the argument: a path, or an object of options.
    pub(super) fn parse(operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        // MongoDB has a number of its own for each of the faults below.
        if operand.as_str().is_none() && operand.as_document().is_none() {
            return Err(wrong("a path or an object of options", operand, Code::UNWIND_OPERAND_TYPE));
        }
        // A path alone is short for the option `path`.
        let [path, index, empty] = if operand.as_str().is_some() {
            [Some(operand), None, None]
        } else {
            let names = ["path", "includeArrayIndex", "preserveNullAndEmptyArrays"];
            options(STAGE, names, operand, Code::UNWIND_OPERAND_TYPE, Code::UNWIND_UNKNOWN_OPTION)?
        };
        let path = path.ok_or(Fault::OptionMissing {
            stage: STAGE,
            option: "path",
            code: Code::UNWIND_PATH_MISSING,
        })?;
        let text = path.as_str().ok_or_else(|| wrong("a string as path", path, Code::UNWIND_PATH_TYPE))?;
        let text = text.strip_prefix('$');
        let text = text
            .ok_or_else(|| wrong("a path that starts with a dollar sign", path, Code::UNWIND_PATH_DOLLAR))?;
        let path = field_path(text)?;
        // MongoDB accepts no number for this option.
        let empty = match empty {
            None | Some(RawBsonRef::Boolean(false)) => Empty::Dropped,
            Some(RawBsonRef::Boolean(true)) => Empty::Kept,
            Some(other) => {
                return Err(wrong(
                    "true or false as 'preserveNullAndEmptyArrays'",
                    other,
                    Code::UNWIND_PRESERVE_TYPE,
                ));
            }
        };
        let index = index.map(parse_index).transpose()?;
        Ok(Self { place: PutPath::of(&path), path, index, empty })
    }

    /// The components of the path.
    pub(super) fn names(&self) -> &[String] {
        self.place.names()
    }

    /// The path of the field that gets the element's position. Returns `None` if no field does.
    pub(super) fn index_path(&self) -> Option<String> {
        self.index.as_ref().map(PutPath::joined)
    }

    /// Whether a document without elements is kept.
    pub(super) fn keeps_empty(&self) -> bool {
        self.empty == Empty::Kept
    }

    /// Adds the position of the element to a document, if it is asked for.
    pub(super) fn set_index(
        &self,
        document: &mut RawDocumentBuf,
        index: RawBsonRef<'_>,
    ) -> Result<(), Fault> {
        let Some(path) = &self.index else { return Ok(()) };
        *document = path.put(document, Some(Operand::new(index).stored()))?;
        // An element is smaller than its array, so only this field can make a document larger or deeper.
        validate(document.as_bytes()).map_err(|error| Fault::of_result(STAGE, &error))?;
        Ok(())
    }
}

/// Parses `includeArrayIndex`. It names a field, so unlike `path` it has no dollar sign.
fn parse_index(index: RawBsonRef<'_>) -> Result<PutPath, Fault> {
    let text = index.as_str().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| wrong("a name as 'includeArrayIndex'", index, Code::UNWIND_INDEX_TYPE))?;
    if text.starts_with('$') {
        let expected = "a name without a dollar sign as 'includeArrayIndex'";
        return Err(wrong(expected, index, Code::UNWIND_INDEX_DOLLAR));
    }
    Ok(PutPath::of(&field_path(text)?))
}

/// Parses a path without its dollar sign.
fn field_path(text: &str) -> Result<FieldPath, Fault> {
    parse_path(text).map_err(|refusal| Fault::Path {
        stage: STAGE,
        path: crate::value::shorten(text),
        refusal,
    })
}

/// The error for a wrong argument.
fn wrong(expected: &'static str, found: RawBsonRef<'_>, code: Code) -> Fault {
    Fault::Operand { stage: STAGE, expected, found: describe(found), code }
}

/// The stream of a `$unwind`.
pub(super) struct Unwinding<'i, E> {
    input: StageInput<'i, E>,
    unwind: Unwind,
    position: usize,
    /// The document whose array is unwound, and the elements that are left of it.
    whole: RawDocumentBuf,
    elements: IntoIter<RawBson>,
    /// The memory of the two.
    room: Reservation,
    /// The position of the next element.
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

    /// Reads the input's current document. Returns `true` if it is a result as a whole, and `false` if its elements are
    /// next, or if it is dropped.
    fn open(&mut self) -> Result<bool, Fault> {
        let document = self.input.current();
        let found = value_at(document, &self.unwind.path);
        let array = found.and_then(RawBsonRef::as_array);
        // A value that is not an array passes as it is; undefined is a legacy null.
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
                // The caller reads the elements one by one, before it advances the input again.
                self.next = 0;
                return Ok(false);
            }
            // MongoDB removes an empty array from a document that is kept, and leaves null as it is.
            Some(_) => self.current = self.unwind.place.put(document, None)?,
            None => self.current = document.to_owned(),
        }
        if is_empty && !self.unwind.keeps_empty() {
            return Ok(false);
        }
        // There is no element, so there is no position either; MongoDB sets the field to null.
        self.unwind.set_index(&mut self.current, RawBsonRef::Null)?;
        Ok(true)
    }

    /// Makes the current document for one element.
    fn take(&mut self, element: &RawBson) -> Result<(), Fault> {
        // The whole document is copied for each element: without counting, a small pipeline could copy for hours.
        self.room.operation().pass(self.whole.as_bytes().len())?;
        let element = Operand::new(element.as_raw_bson_ref());
        self.current = self.unwind.place.put(&self.whole, Some(element.stored()))?;
        // MongoDB gives positions as 64-bit integers.
        self.unwind.set_index(&mut self.current, RawBsonRef::Int64(self.next))?;
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

    fn metadata(&self) -> Option<Metadata> {
        self.input.metadata()
    }

    fn rest(&mut self) {
        self.input.rest();
    }
}
