//! `$push`: appends values to an array, or inserts them at a position; then sorts the array, then cuts it.
//!
//! The three steps have this order whatever the order of the modifiers is, as in MongoDB.

use std::cmp::Ordering;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};
use index::collation::Collation;
use index::key::Direction;
use index::writer::Writer;

use crate::code::Code;
use crate::raw::{FIRST_ELEMENT, Fields, Operand};
use crate::update::error::{Error, Fault};
use crate::update::path::UpdatePath;
use crate::value::{describe, document_or_array, integer};

/// The values that are pushed, and the modifiers.
#[derive(Clone, Debug)]
pub(super) struct Push {
    values: Vec<Operand>,
    /// The position of the first value, counted from the end if negative. Absent for the end.
    position: Option<i64>,
    sort: Option<ElementOrder>,
    /// The number of first elements that are kept, or of last ones if negative. Absent for all.
    slice: Option<i64>,
    /// `$sort`'s comparison of strings.
    collation: Collation,
}

/// The order of `$sort`.
#[derive(Clone, Debug)]
enum ElementOrder {
    /// By the whole elements.
    Whole(Direction),
    /// By fields of the elements: paths by their components.
    Fields(Vec<(Vec<String>, Direction)>),
}

/// An element of the new array, borrowed from the stored array or from the operand.
#[derive(Clone, Copy)]
struct PushedElement<'a> {
    kind: ElementType,
    bytes: &'a [u8],
    value: RawBsonRef<'a>,
}

impl Push {
    /// Parses the operand: a value, or an object with `$each` and other modifiers. `malformed` adds the name of the field
    /// to a fault.
    pub(super) fn parse(operand: RawBsonRef<'_>, malformed: impl Fn(Fault) -> Error) -> Result<Self, Error> {
        let collation = Collation::simple();
        let mut push = Self { values: Vec::new(), position: None, sort: None, slice: None, collation };
        let has_each = |document: &RawDocument| {
            Fields::of(document).map_while(Result::ok).any(|field| field.name() == "$each")
        };
        // An object without `$each` is a value, even if its fields are named like the other modifiers.
        let Some(document) = operand.as_document().filter(|document| has_each(document)) else {
            push.values.push(Operand::new(operand));
            return Ok(push);
        };
        // There are four modifiers and all other names are rejected, so this list stays short.
        let mut seen: Vec<&str> = Vec::new();
        for field in Fields::of(document) {
            let field = field?;
            if seen.contains(&field.name()) {
                return Err(malformed(Fault::ClauseTwice { clause: field.name().to_owned() }));
            }
            let value = field.value()?;
            match field.name() {
                "$each" => push.values = each(value, &malformed)?,
                "$position" => push.position = Some(whole_number("$position", value, &malformed)?),
                "$slice" => push.slice = Some(whole_number("$slice", value, &malformed)?),
                "$sort" => push.sort = Some(ElementOrder::parse(value, &malformed)?),
                name => return Err(malformed(Fault::UnknownClause { clause: name.to_owned() })),
            }
            seen.push(field.name());
        }
        Ok(push)
    }

    /// Makes `$sort` order texts by a collation.
    pub(super) fn with_collation(self, collation: &Collation) -> Self {
        Self { collation: collation.clone(), ..self }
    }

    /// The values that are pushed.
    pub(super) fn values(&self) -> &[Operand] {
        &self.values
    }

    /// Writes the array with the values pushed.
    pub(super) fn write(&self, array: &RawDocument, writer: &mut Writer) -> Result<(), Error> {
        // The common push copies the array as bytes and never splits it.
        if self.position.is_none() && self.sort.is_none() && self.slice.is_none() {
            return self.write_appended(array, writer);
        }
        // The values are read once here, because a sort compares each of them many times.
        let mut elements = Vec::new();
        for field in Fields::of(array) {
            let field = field?;
            elements.push(PushedElement { kind: field.kind(), bytes: field.bytes(), value: field.value()? });
        }
        let pushed = self.values.iter();
        let pushed = pushed.map(|value| PushedElement {
            kind: value.kind(),
            bytes: value.bytes(),
            value: value.value(),
        });
        let at = self.insertion_index(elements.len());
        elements.splice(at..at, pushed);
        if let Some(sort) = &self.sort {
            // The sort is stable: equal elements keep their order.
            elements.sort_by(|left, right| sort.compare(left.value, right.value, &self.collation));
        }
        let mark = writer.open();
        for (index, element) in self.kept(&elements).iter().enumerate() {
            writer.indexed_header(element.kind, index);
            writer.copy(element.bytes);
        }
        writer.close(mark);
        Ok(())
    }

    /// Writes the array followed by the values.
    fn write_appended(&self, array: &RawDocument, writer: &mut Writer) -> Result<(), Error> {
        let mut count = 0;
        for field in Fields::of(array) {
            field?;
            count += 1;
        }
        // All elements without the closing zero byte, which `close` writes after the last new one.
        let mark = writer.open();
        let bytes = array.as_bytes();
        writer.copy(bytes.get(FIRST_ELEMENT..bytes.len() - 1).unwrap_or_default());
        for (index, value) in (count..).zip(&self.values) {
            writer.indexed_header(value.kind(), index);
            writer.copy(value.bytes());
        }
        writer.close(mark);
        Ok(())
    }

    /// The index at which the values are inserted into an array of this length.
    fn insertion_index(&self, length: usize) -> usize {
        let Some(position) = self.position else { return length };
        // A position beyond either end represents that end.
        let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        if position < 0 { length.saturating_sub(distance) } else { distance.min(length) }
    }

    /// The elements that `$slice` keeps.
    fn kept<'e, 'a>(&self, elements: &'e [PushedElement<'a>]) -> &'e [PushedElement<'a>] {
        let Some(slice) = self.slice else { return elements };
        let count = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX).min(elements.len());
        // A slice of 0 is accepted, and empties the array.
        let start = if slice < 0 { elements.len() - count } else { 0 };
        elements.get(start..start + count).unwrap_or_default()
    }
}

impl ElementOrder {
    fn parse(operand: RawBsonRef<'_>, malformed: &impl Fn(Fault) -> Error) -> Result<Self, Error> {
        let fault = |found: RawBsonRef<'_>| {
            let expected = "1 or -1, or an object of fields with 1 or -1";
            malformed(Fault::Clause { clause: "$sort", expected, found: describe(found) })
        };
        let Some(document) = operand.as_document() else {
            return direction(operand).map(Self::Whole).ok_or_else(|| fault(operand));
        };
        let mut fields = Vec::new();
        for field in Fields::of(document) {
            let field = field?;
            let value = field.value()?;
            let towards = direction(value).ok_or_else(|| fault(value))?;
            // The limit of a path's length is that of updates. Their placeholders mean nothing here: `$` is a name.
            let name = field.name();
            if name.split('.').any(str::is_empty)
                || UpdatePath::parse(name).is_err_and(|error| error.code() == Code::OVERFLOW)
            {
                let expected = "an object of paths without empty parts";
                return Err(malformed(Fault::Clause {
                    clause: "$sort",
                    expected,
                    found: format!("'{name}'"),
                }));
            }
            fields.push((name.split('.').map(str::to_owned).collect(), towards));
        }
        // An empty object would leave the order as it is; MongoDB rejects it.
        if fields.is_empty() { Err(fault(operand)) } else { Ok(Self::Fields(fields)) }
    }

    /// Compares two elements.
    fn compare(&self, left: RawBsonRef<'_>, right: RawBsonRef<'_>, collation: &Collation) -> Ordering {
        match self {
            Self::Whole(direction) => directed(collation.compare(left, right), *direction),
            Self::Fields(fields) => {
                let by_field = |(path, direction): &(Vec<String>, Direction)| {
                    directed(collation.compare(part(left, path), part(right, path)), *direction)
                };
                fields.iter().map(by_field).find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
            }
        }
    }
}

/// The direction that a value of `$sort` represents.
fn direction(operand: RawBsonRef<'_>) -> Option<Direction> {
    match integer(operand) {
        Some(1) => Some(Direction::Ascending),
        Some(-1) => Some(Direction::Descending),
        Some(_) | None => None,
    }
}

fn directed(ordering: Ordering, direction: Direction) -> Ordering {
    match direction {
        Direction::Ascending => ordering,
        Direction::Descending => ordering.reverse(),
    }
}

/// The value of an element at a path, or null if it has none. A number is a position in an array; any other name finds
/// nothing in an array.
fn part<'a>(element: RawBsonRef<'a>, path: &[String]) -> RawBsonRef<'a> {
    let step = |value: RawBsonRef<'a>, name: &String| document_or_array(value)?.get(name).ok().flatten();
    // Only documents have fields to sort by: an element that is an array itself sorts as null, even by a number.
    let mut names = path.iter();
    let start = element.as_document().zip(names.next());
    let first = start.and_then(|(document, name)| document.get(name).ok().flatten());
    first.and_then(|first| names.try_fold(first, step)).unwrap_or(RawBsonRef::Null)
}

/// Parses the values of `$each`.
fn each(value: RawBsonRef<'_>, malformed: &impl Fn(Fault) -> Error) -> Result<Vec<Operand>, Error> {
    let Some(list) = value.as_array() else {
        let fault = Fault::Clause { clause: "$each", expected: "an array", found: describe(value) };
        return Err(malformed(fault));
    };
    let read = |value: Result<RawBsonRef<'_>, bson::error::Error>| match value {
        Ok(value) => Ok(Operand::new(value)),
        Err(error) => Err(Error::InvalidBson { reason: error.to_string() }),
    };
    list.into_iter().map(read).collect()
}

/// Parses the integer of `$position` or `$slice`. A double without a fraction is one.
fn whole_number(
    clause: &'static str,
    value: RawBsonRef<'_>,
    malformed: &impl Fn(Fault) -> Error,
) -> Result<i64, Error> {
    let fault = || Fault::Clause { clause, expected: "an integer", found: describe(value) };
    integer(value).ok_or_else(|| malformed(fault()))
}
