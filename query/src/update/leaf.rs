//! The value that an action writes at the end of its path, for a field that exists and for one that is missing.
//!
//! Nothing here goes deeper into the document: the walk finds the field and calls `change` or `create_value`.

use index::writer::Writer;

use crate::numeric::Numeric;
use crate::operation::OperationContext;
use crate::raw::{FIRST_ELEMENT, Field, Fields, Operand};
use crate::update::action::{Action, CurrentDate, Extreme, PopEnd, Pull};
use crate::update::arithmetic::Arithmetic;
use crate::update::bits::BitOperations;
use crate::update::context::{Context, Phase};
use crate::update::error::Error;
use crate::update::walk::{ParentKind, Trail, UpdateWalk};
use crate::value::describe;
use bson::RawDocument;
use bson::spec::ElementType;

impl UpdateWalk<'_> {
    /// Writes an existing field with its new value, or leaves it out if the action removes it.
    pub(super) fn change(
        &mut self,
        action: &Action,
        field: &Field<'_>,
        container: ParentKind,
        trail: Trail<'_>,
    ) -> Result<(), Error> {
        let name = field.name();
        match action {
            Action::Set(operand) => self.writer.stored(name, operand.stored()),
            Action::SetOnInsert(operand) => match self.context.phase {
                Phase::Insert => self.writer.stored(name, operand.stored()),
                Phase::Modify => self.writer.copy(field.whole()),
            },
            // An element becomes null, because the elements after it must keep their positions.
            Action::Unset => match container {
                ParentKind::Document => {}
                ParentKind::Array => self.writer.header(ElementType::Null, name),
            },
            Action::Arithmetic(operation, operand) => {
                let value = field.value()?;
                let start = Numeric::of(value).ok_or_else(|| mismatch(action, trail, &describe(value)))?;
                let result = calculate(*operation, start, *operand, trail)?;
                self.number(name, result);
            }
            Action::Bits(operations) => {
                let value = field.value()?;
                let result = Numeric::of(value).and_then(|value| operations.apply(value));
                self.number(name, result.ok_or_else(|| mismatch(action, trail, &describe(value)))?);
            }
            Action::Extreme(bound, operand, collation) => {
                let ordering = collation.compare(field.value()?, operand.value());
                let is_replaced = match bound {
                    Extreme::Min => ordering.is_gt(),
                    Extreme::Max => ordering.is_lt(),
                };
                // Equal values of different types (1 and 1.0) are left as they are stored.
                if is_replaced {
                    self.writer.stored(name, operand.stored());
                } else {
                    self.writer.copy(field.whole());
                }
            }
            Action::CurrentDate(clock) => self.clock(name, *clock),
            // A field that is not written is removed. The old field of a rename is never in an array.
            Action::RenameFrom => {}
            Action::RenameTo(number) => self.renamed(name, *number, Some(field)),
            // Unlike a missing field, null is not an empty array: MongoDB rejects it.
            Action::Push(_) | Action::AddToSet(_) | Action::Pop(_) | Action::Pull(_) => {
                if field.kind() != ElementType::Array {
                    return Err(mismatch(action, trail, &describe(field.value()?)));
                }
                self.writer.header(ElementType::Array, name);
                change_array(action, field.container()?, self.context, &mut self.writer)?;
            }
        }
        Ok(())
    }

    /// Writes a field that was missing. Actions that create nothing write nothing.
    pub(super) fn create_value(&mut self, action: &Action, name: &str) -> Result<(), Error> {
        match action {
            Action::Set(operand) | Action::SetOnInsert(operand) | Action::Extreme(_, operand, _) => {
                self.writer.stored(name, operand.stored());
            }
            Action::Arithmetic(operation, operand) => self.number(name, operation.start(*operand)),
            Action::Bits(operations) => self.number(name, start_bits(operations)),
            Action::CurrentDate(clock) => self.clock(name, *clock),
            Action::RenameTo(number) => self.renamed(name, *number, None),
            Action::Push(_) | Action::AddToSet(_) => {
                // Starting from an empty array keeps `$slice` and `$sort` of a `$push` in one function.
                self.writer.header(ElementType::Array, name);
                change_array(action, &bson::RawDocumentBuf::new(), self.context, &mut self.writer)?;
            }
            Action::Unset | Action::RenameFrom | Action::Pop(_) | Action::Pull(_) => {}
        }
        Ok(())
    }

    fn number(&mut self, name: &str, number: Numeric) {
        self.writer.header(number.kind(), name);
        number.with_bytes(|bytes| self.writer.copy(bytes));
    }

    fn clock(&mut self, name: &str, clock: CurrentDate) {
        match clock {
            CurrentDate::Date => {
                self.writer.header(ElementType::DateTime, name);
                self.writer.copy(&self.context.now.timestamp_millis().to_le_bytes());
            }
            CurrentDate::Timestamp => {
                // BSON stores the increment in the lower half of the 64 bits, so it comes first.
                let timestamp = self.context.timestamp;
                self.writer.header(ElementType::Timestamp, name);
                self.writer.copy(&timestamp.increment.to_le_bytes());
                self.writer.copy(&timestamp.time.to_le_bytes());
            }
        }
    }

    /// Writes the value of a rename under its new name. If the rename has found no value, an existing field stays.
    fn renamed(&mut self, name: &str, number: usize, field: Option<&Field<'_>>) {
        // The walk asks `on_missing` before it creates a field, so the last case does not occur.
        match (self.sources.get(number).copied().flatten(), field) {
            (Some(source), _) => {
                self.writer.header(source.kind, name);
                self.writer.copy(source.bytes);
            }
            (None, Some(field)) => self.writer.copy(field.whole()),
            (None, None) => {}
        }
    }
}

impl Action {
    /// The number of levels of the deepest value that the action may write. A parsed update adds it to the length of the
    /// path to know whether a result can be nested too deeply.
    pub(super) fn levels(&self) -> usize {
        let in_array = |values: &[Operand]| 1 + values.iter().map(Operand::levels).max().unwrap_or(0);
        match self {
            Self::Set(operand) | Self::SetOnInsert(operand) | Self::Extreme(_, operand, _) => operand.levels(),
            Self::Push(push) => in_array(push.values()),
            Self::AddToSet(members) => in_array(members.values()),
            Self::Unset
            | Self::Arithmetic(_, _)
            | Self::Bits(_)
            | Self::CurrentDate(_)
            | Self::RenameFrom
            // The depth of a renamed value is known only with the document; `parse` assumes the worst.
            | Self::RenameTo(_)
            | Self::Pop(_)
            | Self::Pull(_) => 0,
        }
    }
}

/// Writes an array as changed by an action on arrays. Any other action copies it.
fn change_array(
    action: &Action,
    array: &RawDocument,
    context: &Context,
    writer: &mut Writer,
) -> Result<(), Error> {
    match action {
        Action::Push(push) => push.write(array, writer),
        Action::AddToSet(members) => members.write_added(array, writer),
        Action::Pop(end) => pop(*end, array, writer),
        Action::Pull(pull) => {
            keep(array, writer, |element| Ok(!is_pulled(pull, element, &context.operation)?))
        }
        // The callers pass none of these; they are listed so that a new action cannot be forgotten here.
        Action::Set(_)
        | Action::SetOnInsert(_)
        | Action::Unset
        | Action::Arithmetic(_, _)
        | Action::Bits(_)
        | Action::Extreme(..)
        | Action::CurrentDate(_)
        | Action::RenameFrom
        | Action::RenameTo(_) => {
            writer.copy(array.as_bytes());
            Ok(())
        }
    }
}

/// Whether `$pull` or `$pullAll` removes an element.
fn is_pulled(pull: &Pull, element: &Field<'_>, operation: &OperationContext) -> Result<bool, Error> {
    // An array can hold millions of elements, so each counts as a step that may be interrupted.
    operation.step()?;
    Ok(match pull {
        Pull::Matching(condition) => {
            condition.matches(element.kind(), element.bytes(), operation).map_err(Error::unanswered)?
        }
        Pull::Equal(members) | Pull::EqualAny(members) => members.contains(element.value()?),
    })
}

/// Writes an array without its first or last element.
fn pop(end: PopEnd, array: &RawDocument, writer: &mut Writer) -> Result<(), Error> {
    match end {
        PopEnd::First => {
            let mut is_first = true;
            keep(array, writer, |_| Ok(!std::mem::take(&mut is_first)))
        }
        PopEnd::Last => {
            let mut last = FIRST_ELEMENT;
            for element in Fields::of(array) {
                last = element?.start();
            }
            // The elements before the last keep their positions, so their bytes are copied as they are.
            let mark = writer.open();
            writer.copy(array.as_bytes().get(FIRST_ELEMENT..last).unwrap_or_default());
            writer.close(mark);
            Ok(())
        }
    }
}

/// Writes an array with those elements for which `is_kept` returns `true`.
fn keep(
    array: &RawDocument,
    writer: &mut Writer,
    mut is_kept: impl FnMut(&Field<'_>) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mark = writer.open();
    let (mut count, mut kept) = (0, 0);
    for element in Fields::of(array) {
        let element = element?;
        if is_kept(&element)? {
            writer.indexed_header(element.kind(), kept);
            writer.copy(element.bytes());
            kept += 1;
        }
        count += 1;
    }
    // Stored names of elements need not be their positions. If nothing is removed, they are left as they are, so that
    // the document counts as not modified.
    if kept == count {
        writer.revert(mark);
        writer.copy(array.as_bytes());
    } else {
        writer.close(mark);
    }
    Ok(())
}

/// The result of `$inc` or `$mul`, or the error of an overflow.
fn calculate(
    operation: Arithmetic,
    start: Numeric,
    operand: Numeric,
    trail: Trail<'_>,
) -> Result<Numeric, Error> {
    let overflow = || Error::IntegerOverflow { operator: operation.operator(), path: trail.to_text() };
    operation.apply(start, operand).ok_or_else(overflow)
}

/// The value that `$bit` gives to a missing field: MongoDB starts from a 32-bit 0.
fn start_bits(operations: &BitOperations) -> Numeric {
    let zero = Numeric::Int32(0);
    operations.apply(zero).unwrap_or(zero)
}

fn mismatch(action: &Action, trail: Trail<'_>, found: &str) -> Error {
    Error::Mismatch { operator: action.operator(), path: trail.to_text(), found: found.to_owned() }
}
