//! The update operators by name, and the parsing of their arguments.

use bson::{RawBsonRef, RawDocument};

use index::collation::Collation;

use crate::filter::element_condition::ElementCondition;
use crate::numeric::Numeric;
use crate::pattern::Room;
use crate::raw::{Fields, Operand};
use crate::registry::Registry;
use crate::update::action::{Action, CurrentDate, Extreme, PopEnd, Pull};
use crate::update::arithmetic::Arithmetic;
use crate::update::bits::BitOperations;
use crate::update::error::{Error, Fault};
use crate::update::members::Members;
use crate::update::push::Push;
use crate::value::{describe, integer};

/// An update operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    AddToSet,
    Bit,
    CurrentDate,
    Inc,
    Max,
    Min,
    Mul,
    Pop,
    Pull,
    PullAll,
    Push,
    Rename,
    Set,
    SetOnInsert,
    Unset,
}

/// Ascending by name. MongoDB has no operator that is missing here.
const OPERATORS: Registry<Operator> = Registry::new(&[
    ("$addToSet", Operator::AddToSet),
    ("$bit", Operator::Bit),
    ("$currentDate", Operator::CurrentDate),
    ("$inc", Operator::Inc),
    ("$max", Operator::Max),
    ("$min", Operator::Min),
    ("$mul", Operator::Mul),
    ("$pop", Operator::Pop),
    ("$pull", Operator::Pull),
    ("$pullAll", Operator::PullAll),
    ("$push", Operator::Push),
    ("$rename", Operator::Rename),
    ("$set", Operator::Set),
    ("$setOnInsert", Operator::SetOnInsert),
    ("$unset", Operator::Unset),
]);

/// One operator with one field and its argument. Errors name operator and field.
#[derive(Clone, Copy)]
pub(super) struct OperatorCall<'c> {
    pub(super) operator: &'static str,
    pub(super) path: &'c str,
    pub(super) operand: RawBsonRef<'c>,
    /// The memory that compiled patterns may use, shared by the whole update.
    pub(super) room: &'c Room,
    /// The comparison of strings.
    pub(super) collation: &'c Collation,
}

/// The operator with a name, and the name as a constant. Returns `None` if no such operator exists.
pub(super) fn operator(name: &str) -> Option<(&'static str, Operator)> {
    OPERATORS.entry(name).copied()
}

impl OperatorCall<'_> {
    /// Parses the argument. Returns `None` for a rename, which is two actions on two fields.
    pub(super) fn action(self, operator: Operator) -> Result<Option<Action>, Error> {
        // `$unset` accepts any argument, as in MongoDB: it says only that the field is to go.
        let operand = self.operand;
        Ok(Some(match operator {
            Operator::Set => Action::Set(Operand::new(operand)),
            Operator::SetOnInsert => Action::SetOnInsert(Operand::new(operand)),
            Operator::Unset => Action::Unset,
            Operator::Inc => Action::Arithmetic(Arithmetic::Add, self.number()?),
            Operator::Mul => Action::Arithmetic(Arithmetic::Multiply, self.number()?),
            Operator::Min => Action::Extreme(Extreme::Min, Operand::new(operand), self.collation.clone()),
            Operator::Max => Action::Extreme(Extreme::Max, Operand::new(operand), self.collation.clone()),
            Operator::CurrentDate => Action::CurrentDate(self.clock()?),
            Operator::Push => {
                // Only a `$sort` compares.
                let push = Push::parse(operand, |fault| self.malformed(fault))?;
                Action::Push(push.with_collation(self.collation))
            }
            Operator::AddToSet => {
                let malformed = |fault| self.malformed(fault);
                Action::AddToSet(Members::parse_additions(operand, self.collation, malformed)?)
            }
            Operator::Pop => Action::Pop(self.end()?),
            Operator::Pull => Action::Pull(self.pull()?),
            Operator::PullAll => Action::Pull(self.pull_all()?),
            Operator::Bit => {
                let operations = self.document("an object of 'and', 'or' and 'xor'")?;
                Action::Bits(BitOperations::parse(operations, |fault| self.malformed(fault))?)
            }
            // Its argument is a path, which the caller parses and adds as a second action.
            Operator::Rename => return Ok(None),
        }))
    }

    /// The error for an argument with a fault.
    pub(super) fn malformed(self, fault: Fault) -> Error {
        Error::Malformed { operator: self.operator, path: self.path.to_owned(), fault }
    }

    /// The error for an argument of another type than `expected`.
    pub(super) fn wrong_type(self, expected: &'static str) -> Error {
        self.malformed(Fault::WrongType { expected, found: describe(self.operand) })
    }

    fn document(&self, expected: &'static str) -> Result<&RawDocument, Error> {
        self.operand.as_document().ok_or_else(|| self.wrong_type(expected))
    }

    fn number(self) -> Result<Numeric, Error> {
        let fault = || Fault::NotNumber { found: describe(self.operand) };
        Numeric::of(self.operand).ok_or_else(|| self.malformed(fault()))
    }

    fn clock(self) -> Result<CurrentDate, Error> {
        // MongoDB accepts `false` like `true`: both represent the date.
        if self.operand.as_bool().is_some() {
            return Ok(CurrentDate::Date);
        }
        let mut clock = None;
        for field in Fields::of(self.document("true or an object with $type")?) {
            let field = field?;
            if field.name() != "$type" {
                return Err(self.malformed(Fault::UnknownClause { clause: field.name().to_owned() }));
            }
            let value = field.value()?;
            clock = Some(match value.as_str() {
                Some("date") => CurrentDate::Date,
                Some("timestamp") => CurrentDate::Timestamp,
                Some(_) | None => return Err(self.malformed(Fault::DateType { found: describe(value) })),
            });
        }
        clock.ok_or_else(|| self.malformed(Fault::DateType { found: "nothing".to_owned() }))
    }

    fn end(self) -> Result<PopEnd, Error> {
        // Any number type will do, so `1.0` is 1.
        match integer(self.operand) {
            Some(1) => Ok(PopEnd::Last),
            Some(-1) => Ok(PopEnd::First),
            Some(_) | None => Err(self.malformed(Fault::PopEnd { found: describe(self.operand) })),
        }
    }

    fn pull(self) -> Result<Pull, Error> {
        // An object is a condition on elements, as is a regular expression; any other value is compared with them.
        let parsed = ElementCondition::parse(self.operand, self.room, self.collation);
        let parsed = parsed.map_err(|source| Error::Condition {
            operator: self.operator,
            path: self.path.to_owned(),
            source: Box::new(source),
        })?;
        Ok(match parsed {
            Some(condition) => Pull::Matching(condition),
            None => Pull::Equal(Members::of_value(self.operand, self.collation)),
        })
    }

    fn pull_all(self) -> Result<Pull, Error> {
        // Unlike `$pull`, it accepts values only: an object in the list is compared, not evaluated.
        match self.operand.as_array() {
            Some(list) => Ok(Pull::EqualAny(Members::of_array(list, self.collation)?)),
            None => Err(self.wrong_type("an array")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_known_by_their_whole_name() {
        assert_eq!(operator("$inc"), Some(("$inc", Operator::Inc)));
        assert_eq!(operator("$foo"), None);
        assert_eq!(operator("set"), None);
    }
}
