//! The effects of calls on a unique key, and on a document that may expire: the steps that
//! [`check_register`](crate::histories::register::check_register) follows.

use crate::histories::register::Call;

/// A call on a key that one document can have, which is identified by a number of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlaceCall {
    /// The document got the key.
    Taken(i64),
    /// It was rejected, because another one had it.
    Refused,
    /// The document that had the key was removed, or got another key; `None` if there was none.
    Freed(Option<i64>),
    /// The same, without a result that says which: whether there was one.
    Cleared(bool),
    /// The document got the key, whether one had it or not.
    Put {
        holder: i64,
        was_held: bool,
    },
    /// The document that had the key became another.
    Passed {
        from: i64,
        to: i64,
    },
    Read(Option<i64>),
}

impl PlaceCall {
    /// The effect of an insert that was stored or rejected.
    pub(crate) fn taken(is_stored: bool, holder: i64) -> Self {
        if is_stored { Self::Taken(holder) } else { Self::Refused }
    }
}

impl Call<Option<i64>> for PlaceCall {
    fn step(&self, state: &Option<i64>) -> Option<Option<i64>> {
        match self {
            Self::Taken(holder) => state.is_none().then_some(Some(*holder)),
            Self::Refused => state.is_some().then_some(*state),
            Self::Freed(holder) => (state == holder).then_some(None),
            Self::Cleared(was_held) => (state.is_some() == *was_held).then_some(None),
            Self::Put { holder, was_held } => (state.is_some() == *was_held).then_some(Some(*holder)),
            Self::Passed { from, to } => (*state == Some(*from)).then_some(Some(*to)),
            Self::Read(holder) => (state == holder).then_some(*state),
        }
    }

    fn only_looks(&self) -> bool {
        matches!(self, Self::Refused | Self::Freed(None) | Self::Cleared(false) | Self::Read(_))
    }
}

/// A call on a document that may expire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SessionCall {
    Insert {
        is_fresh: bool,
        is_stored: bool,
    },
    Set {
        is_fresh: bool,
        is_matched: bool,
    },
    Read(Option<bool>),
    /// A pass over all documents whose date has passed.
    Pass,
}

/// The state is whether the document is fresh or expired. An expired one is there until a pass.
impl Call<Option<bool>> for SessionCall {
    fn step(&self, state: &Option<bool>) -> Option<Option<bool>> {
        match self {
            Self::Insert { is_fresh, is_stored } => match (state, is_stored) {
                (None, true) => Some(Some(*is_fresh)),
                (Some(_), false) => Some(*state),
                (None, false) | (Some(_), true) => None,
            },
            Self::Set { is_fresh, is_matched } => {
                let after = state.map(|_| *is_fresh);
                (state.is_some() == *is_matched).then_some(after)
            }
            Self::Read(seen) => (state == seen).then_some(*state),
            Self::Pass => Some(state.filter(|is_fresh| *is_fresh)),
        }
    }

    fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Insert { is_stored: false, .. } | Self::Set { is_matched: false, .. } | Self::Read(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::{Record, at};
    use crate::histories::register::check_register;

    #[track_caller]
    fn check_place(calls: &[Record<PlaceCall>], holds: bool) {
        let checked = check_register("key", None, calls);
        assert_eq!(checked.is_ok(), holds, "{checked:?}");
    }

    #[track_caller]
    fn check_session(calls: &[Record<SessionCall>], holds: bool) {
        let checked = check_register("session", None, calls);
        assert_eq!(checked.is_ok(), holds, "{checked:?}");
    }

    #[test]
    fn a_key_has_one_holder() {
        let taken = || at(0, 1, PlaceCall::Taken(1));
        check_place(&[taken(), at(2, 3, PlaceCall::Taken(2))], false);
        check_place(&[taken(), at(2, 3, PlaceCall::Cleared(true)), at(4, 5, PlaceCall::Taken(2))], true);
        check_place(&[taken(), at(2, 3, PlaceCall::Cleared(false))], false);
        check_place(&[taken(), at(2, 3, PlaceCall::Freed(Some(2)))], false);
        check_place(&[taken(), at(2, 3, PlaceCall::Freed(None))], false);
        check_place(
            &[taken(), at(2, 3, PlaceCall::Passed { from: 1, to: 2 }), at(4, 5, PlaceCall::Read(Some(1)))],
            false,
        );
        check_place(&[taken(), at(2, 3, PlaceCall::Put { holder: 2, was_held: false })], false);
        check_place(
            &[
                taken(),
                at(2, 3, PlaceCall::Put { holder: 2, was_held: true }),
                at(4, 5, PlaceCall::Read(Some(2))),
            ],
            true,
        );
    }

    #[test]
    fn only_what_has_expired_is_removed_by_a_pass() {
        let insert = |is_fresh| at(0, 1, SessionCall::Insert { is_fresh, is_stored: true });
        let pass = || at(2, 5, SessionCall::Pass);
        check_session(&[insert(false), pass(), at(6, 7, SessionCall::Read(None))], true);
        check_session(&[insert(false), pass(), at(6, 7, SessionCall::Read(Some(false)))], false);
        check_session(&[insert(true), pass(), at(6, 7, SessionCall::Read(None))], false);
        // It was made fresh while the pass was under way: before the pass reached it, or it was gone.
        let set = |is_matched| at(3, 4, SessionCall::Set { is_fresh: true, is_matched });
        check_session(&[insert(false), pass(), set(true), at(6, 7, SessionCall::Read(Some(true)))], true);
        check_session(&[insert(false), pass(), set(true), at(6, 7, SessionCall::Read(None))], false);
        check_session(&[insert(false), pass(), set(false), at(6, 7, SessionCall::Read(None))], true);
    }
}
