//! Whether calls on one small thing can have happened one after the other, each at a moment between its call and its
//! return.
//!
//! The calls are followed in time, with all states that the thing may have: for each, which of the running calls have
//! been applied already. A return leaves only the states in which that call has been applied. If none is left, no order
//! explains what was returned.

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::histories::history::Record;

/// The most states that are followed at once. Where more are possible, the history is too dense to be judged.
const POSSIBLE_MAX: usize = 100_000;

/// A state that the thing may have, and the running calls that have been applied, as bits.
type Possible<S> = (S, u64);

/// A call on the thing, which has one of the states `S`.
pub(crate) trait Call<S>: Debug {
    /// The state after the call; `None` if it cannot have returned what it did in that state.
    fn step(&self, state: &S) -> Option<S>;

    /// Whether the call changes no state.
    fn only_looks(&self) -> bool;
}

/// Rejects calls that no order explains.
pub(crate) fn check_register<S: Clone + Ord + Debug, E: Call<S>>(
    what: &str,
    start: S,
    calls: &[Record<E>],
) -> Result<(), String> {
    let mut moments: Vec<(u64, &Record<E>)> = Vec::with_capacity(2 * calls.len());
    for call in calls {
        moments.extend([(call.span.begun, call), (call.span.ended, call)]);
    }
    moments.sort_unstable_by_key(|(moment, _)| *moment);
    let mut running: Vec<Option<&Record<E>>> = Vec::new();
    let mut possible: BTreeSet<Possible<S>> = BTreeSet::from([(start, 0)]);
    for (moment, call) in moments {
        if moment == call.span.begun {
            // The lowest free bit is the call's until it returns.
            match running.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(call),
                None => running.push(Some(call)),
            }
            assert!(running.len() <= 64, "more calls at once than threads");
            continue;
        }
        let is_call = |other: Option<&Record<E>>| other.is_some_and(|other| std::ptr::eq(other, call));
        let bit = running.iter().position(|other| is_call(*other)).expect("the call has begun");
        let before = possible.clone();
        possible = closure(possible, &running)?;
        possible.retain(|(_, done)| done >> bit & 1 == 1);
        possible = possible.into_iter().map(|(state, done)| (state, done & !(1 << bit))).collect();
        if possible.is_empty() {
            let states: BTreeSet<&S> = before.iter().map(|(state, _)| state).collect();
            let beside: Vec<&Record<E>> = running.iter().flatten().copied().collect();
            return Err(format!("{what}: no order explains {call:?} in one of {states:?} beside {beside:?}"));
        }
        running.iter_mut().skip(bit).take(1).for_each(|place| *place = None);
    }
    Ok(())
}

/// All states that running calls can lead to.
fn closure<S: Clone + Ord, E: Call<S>>(
    possible: BTreeSet<Possible<S>>,
    running: &[Option<&Record<E>>],
) -> Result<BTreeSet<Possible<S>>, String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<Possible<S>> = possible.into_iter().collect();
    while let Some((state, mut done)) = open.pop() {
        let calls = || running.iter().enumerate().filter_map(|(bit, call)| Some((bit, &(*call)?.event)));
        // A call that looks, and fits, has been applied: to let it wait would explain nothing more. One that could change
        // something may wait even if it changes nothing now: another call may come between.
        for (bit, call) in calls() {
            done |= u64::from(call.only_looks() && call.step(&state).is_some()) << bit;
        }
        let waiting = calls().filter(|(bit, call)| done >> bit & 1 == 0 && !call.only_looks());
        let next: Vec<Possible<S>> =
            waiting.filter_map(|(bit, call)| Some((call.step(&state)?, done | 1 << bit))).collect();
        if reached.insert((state, done)) {
            open.extend(next.into_iter().filter(|next| !reached.contains(next)));
        }
        if reached.len() > POSSIBLE_MAX {
            return Err(format!("undecided: more than {POSSIBLE_MAX} states are possible at once"));
        }
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::at;

    /// A place for one holder.
    #[derive(Clone, Copy, Debug)]
    enum Place {
        Take(u8),
        Refused,
        Free(u8),
        /// Gets it from any holder.
        Set(u8),
        Read(Option<u8>),
    }

    impl Call<Option<u8>> for Place {
        fn step(&self, state: &Option<u8>) -> Option<Option<u8>> {
            match self {
                Self::Take(holder) => state.is_none().then_some(Some(*holder)),
                Self::Refused => state.is_some().then_some(*state),
                Self::Free(holder) => (*state == Some(*holder)).then_some(None),
                Self::Set(holder) => Some(Some(*holder)),
                Self::Read(seen) => (state == seen).then_some(*state),
            }
        }

        fn only_looks(&self) -> bool {
            matches!(self, Self::Refused | Self::Read(_))
        }
    }

    #[track_caller]
    fn check(calls: &[Record<Place>], holds: bool) {
        let checked = check_register("place", None, calls);
        assert_eq!(checked.is_ok(), holds, "{checked:?}");
    }

    #[test]
    fn one_of_two_takes_it() {
        check(&[at(0, 3, Place::Take(1)), at(1, 2, Place::Refused)], true);
        check(&[at(0, 3, Place::Take(1)), at(1, 2, Place::Take(2))], false);
    }

    #[test]
    fn a_refusal_needs_a_holder_meanwhile() {
        check(&[at(0, 1, Place::Refused)], false);
        check(&[at(0, 1, Place::Take(1)), at(2, 3, Place::Free(1)), at(4, 5, Place::Refused)], false);
        check(&[at(0, 1, Place::Take(1)), at(2, 5, Place::Free(1)), at(3, 4, Place::Refused)], true);
        // It returned before the one that got the place had begun.
        check(&[at(0, 1, Place::Refused), at(2, 3, Place::Take(1))], false);
    }

    #[test]
    fn it_is_taken_again_only_when_it_is_free() {
        check(&[at(0, 1, Place::Take(1)), at(2, 7, Place::Free(1)), at(3, 6, Place::Take(2))], true);
        check(&[at(0, 1, Place::Take(1)), at(2, 3, Place::Take(2)), at(4, 5, Place::Free(1))], false);
        check(&[at(0, 1, Place::Take(1)), at(2, 9, Place::Free(1)), at(3, 8, Place::Free(1))], false);
    }

    #[test]
    fn reads_see_the_present() {
        check(&[at(0, 1, Place::Take(1)), at(2, 3, Place::Read(Some(1)))], true);
        check(&[at(0, 1, Place::Take(1)), at(2, 3, Place::Read(None))], false);
        let (take, free) = (at(0, 20, Place::Take(1)), at(1, 21, Place::Free(1)));
        check(
            &[take.clone(), free.clone(), at(2, 3, Place::Read(Some(1))), at(4, 5, Place::Read(None))],
            true,
        );
        check(
            &[
                take,
                free,
                at(2, 3, Place::Read(Some(1))),
                at(4, 5, Place::Read(None)),
                at(6, 7, Place::Refused),
            ],
            false,
        );
    }

    #[test]
    fn what_changes_nothing_at_once_may_change_something_later() {
        let (one, other) = (at(2, 9, Place::Set(1)), at(3, 8, Place::Set(2)));
        for last in [1, 2] {
            let read = at(10, 11, Place::Read(Some(last)));
            check(&[at(0, 1, Place::Take(1)), one.clone(), other.clone(), read], true);
        }
        check(&[at(0, 1, Place::Take(1)), one, other, at(10, 11, Place::Read(Some(3)))], false);
    }
}
