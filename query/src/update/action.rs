//! What an operator does to one field, once it has been read.

use crate::filter::element_condition::ElementCondition;
use crate::numeric::Numeric;
use crate::raw::Operand;
use crate::update::Phase;
use crate::update::arithmetic::Operation;
use crate::update::bits::BitOperations;
use crate::update::members::Members;
use crate::update::push::Push;

/// The work of one operator on one field.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Set(Operand),
    SetOnInsert(Operand),
    Unset,
    Arithmetic(Operation, Numeric),
    Bits(BitOperations),
    /// `$min` and `$max`.
    Limit(Bound, Operand),
    CurrentDate(Clock),
    /// The old place of a renamed field.
    RenameFrom,
    /// The new place of a renamed field, by its number among the renames.
    RenameTo(usize),
    Push(Push),
    AddToSet(Members),
    Pop(End),
    Pull(Pull),
}

/// On which side of the operand a value must not lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// `$min`: the value becomes the operand if it is greater.
    Greatest,
    /// `$max`: the value becomes the operand if it is smaller.
    Least,
}

/// What `$currentDate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Date,
    Timestamp,
}

/// The element that `$pop` removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
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
pub(super) enum Missing {
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
            Self::Limit(Bound::Greatest, _) => "$min",
            Self::Limit(Bound::Least, _) => "$max",
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
    pub(super) fn on_missing(&self, phase: Phase, is_renamed: impl FnOnce(usize) -> bool) -> Missing {
        match self {
            Self::Set(_)
            | Self::Arithmetic(_, _)
            | Self::Bits(_)
            | Self::Limit(_, _)
            | Self::CurrentDate(_)
            | Self::Push(_)
            | Self::AddToSet(_) => Missing::Created,
            Self::SetOnInsert(_) => match phase {
                Phase::Insert => Missing::Created,
                Phase::Modify => Missing::Ignored,
            },
            Self::RenameTo(source) => {
                if is_renamed(*source) {
                    Missing::Created
                } else {
                    Missing::Ignored
                }
            }
            Self::Pop(_) | Self::Pull(_) => Missing::Checked,
            Self::Unset | Self::RenameFrom => Missing::Ignored,
        }
    }

    /// Whether the action can give a field a value where there was none.
    pub(super) fn can_create(&self) -> bool {
        self.on_missing(Phase::Insert, |_| true) == Missing::Created
    }
}
