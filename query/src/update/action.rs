//! The actions of operators on one field. An action holds its argument already parsed, and knows no path.

use index::collation::Collation;

use crate::filter::element_condition::ElementCondition;
use crate::numeric::Numeric;
use crate::raw::Operand;
use crate::update::arithmetic::Arithmetic;
use crate::update::bits::BitOperations;
use crate::update::context::Phase;
use crate::update::members::Members;
use crate::update::push::Push;

/// The work of one operator on one field.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Set(Operand),
    SetOnInsert(Operand),
    Unset,
    Arithmetic(Arithmetic, Numeric),
    Bits(BitOperations),
    /// `$min` and `$max`.
    Extreme(Extreme, Operand, Collation),
    CurrentDate(CurrentDate),
    /// Removes the source field of a rename.
    RenameFrom,
    /// Writes the value of a rename, which is given by its index in the list of renames.
    RenameTo(usize),
    Push(Push),
    AddToSet(Members),
    Pop(PopEnd),
    Pull(Pull),
}

/// Which of the field's value and the operand is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extreme {
    /// `$min`: the smaller of the two.
    Min,
    /// `$max`: the greater of the two.
    Max,
}

/// The type that `$currentDate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurrentDate {
    Date,
    Timestamp,
}

/// The element that `$pop` removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PopEnd {
    First,
    Last,
}

/// The elements that `$pull` and `$pullAll` remove.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    Matching(ElementCondition),
    /// The only value of a `$pull`.
    Equal(Members),
    /// All values of a `$pullAll`.
    EqualAny(Members),
}

/// The effect of an action on a missing field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// The field is created.
    Created,
    /// The document stays as it is, but it is an error if the field could not be created either.
    Checked,
    /// The document stays as it is.
    Ignored,
}

impl Action {
    /// The name of the operator, for errors.
    pub(super) fn operator(&self) -> &'static str {
        match self {
            Self::Set(_) => "$set",
            Self::SetOnInsert(_) => "$setOnInsert",
            Self::Unset => "$unset",
            Self::Arithmetic(operation, _) => operation.operator(),
            Self::Bits(_) => "$bit",
            Self::Extreme(Extreme::Min, ..) => "$min",
            Self::Extreme(Extreme::Max, ..) => "$max",
            Self::CurrentDate(_) => "$currentDate",
            Self::RenameFrom | Self::RenameTo(_) => "$rename",
            Self::Push(_) => "$push",
            Self::AddToSet(_) => "$addToSet",
            Self::Pop(_) => "$pop",
            Self::Pull(Pull::Matching(_) | Pull::Equal(_)) => "$pull",
            Self::Pull(Pull::EqualAny(_)) => "$pullAll",
        }
    }

    /// The effect of the action on a missing field. `is_renamed` says whether the rename with an index has found a
    /// value.
    pub(super) fn on_missing(&self, phase: Phase, is_renamed: impl FnOnce(usize) -> bool) -> IfMissing {
        match self {
            Self::Set(_)
            | Self::Arithmetic(_, _)
            | Self::Bits(_)
            | Self::Extreme(..)
            | Self::CurrentDate(_)
            | Self::Push(_)
            | Self::AddToSet(_) => IfMissing::Created,
            Self::SetOnInsert(_) => match phase {
                Phase::Insert => IfMissing::Created,
                Phase::Modify => IfMissing::Ignored,
            },
            Self::RenameTo(source) => {
                // MongoDB does nothing at all for a rename whose old field does not exist.
                if is_renamed(*source) { IfMissing::Created } else { IfMissing::Ignored }
            }
            // They have nothing to remove, and still reject a path through a scalar, as MongoDB does.
            Self::Pop(_) | Self::Pull(_) => IfMissing::Checked,
            Self::Unset | Self::RenameFrom => IfMissing::Ignored,
        }
    }

    /// Whether the action can create a field, in some document and phase.
    pub(super) fn can_create(&self) -> bool {
        // An insert and a rename with a value are the cases in which the most actions create a field.
        self.on_missing(Phase::Insert, |_| true) == IfMissing::Created
    }
}
