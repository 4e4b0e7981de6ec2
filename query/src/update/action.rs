//! What an operator does to one field, once it has been read.

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
    Extreme(Extreme, Operand),
    CurrentDate(CurrentDate),
    /// The old place of a renamed field.
    RenameFrom,
    /// The new place of a renamed field, by its number among the renames.
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

/// What `$currentDate` writes.
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

/// What `$pull` and `$pullAll` remove.
#[derive(Clone, Debug)]
pub(super) enum Pull {
    Matching(ElementCondition),
    /// One value of `$pull`.
    Equal(Members),
    /// The values of `$pullAll`.
    EqualAny(Members),
}

/// What a missing field, or a path that leads nowhere, is to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// The field is made.
    Created,
    /// Nothing happens, but the path must be one that could be made.
    Checked,
    /// Nothing happens.
    Ignored,
}

impl Action {
    pub(super) fn operator(&self) -> &'static str {
        match self {
            Self::Set(_) => "$set",
            Self::SetOnInsert(_) => "$setOnInsert",
            Self::Unset => "$unset",
            Self::Arithmetic(operation, _) => operation.operator(),
            Self::Bits(_) => "$bit",
            Self::Extreme(Extreme::Min, _) => "$min",
            Self::Extreme(Extreme::Max, _) => "$max",
            Self::CurrentDate(_) => "$currentDate",
            Self::RenameFrom | Self::RenameTo(_) => "$rename",
            Self::Push(_) => "$push",
            Self::AddToSet(_) => "$addToSet",
            Self::Pop(_) => "$pop",
            Self::Pull(Pull::Matching(_) | Pull::Equal(_)) => "$pull",
            Self::Pull(Pull::EqualAny(_)) => "$pullAll",
        }
    }

    /// What the action does where there is no field; `is_renamed` tells whether a rename has a source.
    pub(super) fn on_missing(&self, phase: Phase, is_renamed: impl FnOnce(usize) -> bool) -> IfMissing {
        match self {
            Self::Set(_)
            | Self::Arithmetic(_, _)
            | Self::Bits(_)
            | Self::Extreme(_, _)
            | Self::CurrentDate(_)
            | Self::Push(_)
            | Self::AddToSet(_) => IfMissing::Created,
            Self::SetOnInsert(_) => match phase {
                Phase::Insert => IfMissing::Created,
                Phase::Modify => IfMissing::Ignored,
            },
            Self::RenameTo(source) => {
                if is_renamed(*source) {
                    IfMissing::Created
                } else {
                    IfMissing::Ignored
                }
            }
            Self::Pop(_) | Self::Pull(_) => IfMissing::Checked,
            Self::Unset | Self::RenameFrom => IfMissing::Ignored,
        }
    }

    /// Whether the action can give a field a value where there was none.
    pub(super) fn can_create(&self) -> bool {
        self.on_missing(Phase::Insert, |_| true) == IfMissing::Created
    }
}
