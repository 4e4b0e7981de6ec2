//! Whether calls on one thing with versions can have happened one after the other: each at a moment between its call and
//! its return, with every write making the next version.
//!
//! Versions make this simple and exact. All calls are in the order of their versions, a write before the reads of its
//! version. Such an order exists if no call that returned before another began belongs after it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::histories::history::{Record, Span};

/// The knowledge of a call about the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versioned {
    /// The call made this version.
    Made(u64),
    /// The call saw a version from `low` to `high`.
    Seen { low: u64, high: u64 },
}

impl Versioned {
    /// A read that saw exactly this version.
    pub(crate) fn seen(version: u64) -> Self {
        Self::Seen { low: version, high: version }
    }
}

/// Rejects calls that belong after a call which began only when they had returned.
pub(crate) fn check_order(what: &str, calls: &[Record<Versioned>]) -> Result<(), String> {
    let mut calls: Vec<&Record<Versioned>> = calls.iter().collect();
    calls.sort_by_key(|call| call.span.begun);
    let mut running = BinaryHeap::new();
    // The highest version that a call which has returned proves to exist.
    let mut newest: Option<(u64, Span)> = None;
    for call in calls {
        while let Some(Reverse((ended, low, begun))) = running.peek().copied() {
            if ended >= call.span.begun {
                break;
            }
            running.pop();
            if newest.is_none_or(|(version, _)| version < low) {
                newest = Some((low, Span { begun, ended }));
            }
        }
        let low = match call.event {
            Versioned::Made(version) => version,
            Versioned::Seen { low, .. } => low,
        };
        if let Some((version, by)) = newest {
            let fits = match call.event {
                Versioned::Made(made) => made > version,
                Versioned::Seen { high, .. } => high >= version,
            };
            if !fits {
                return Err(format!(
                    "{what}: {:?} at {:?} comes after version {version} had been there, by the call at {by:?}",
                    call.event, call.span
                ));
            }
        }
        running.push(Reverse((call.span.ended, low, call.span.begun)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::at;

    #[track_caller]
    fn check(calls: &[Record<Versioned>], holds: bool) {
        let checked = check_order("thing", calls);
        assert_eq!(checked.is_ok(), holds, "{checked:?}");
    }

    #[test]
    fn calls_side_by_side_may_have_any_order() {
        check(&[at(0, 9, Versioned::Made(2)), at(1, 8, Versioned::Made(1))], true);
        check(&[at(0, 9, Versioned::Made(1)), at(1, 8, Versioned::seen(0))], true);
        check(&[at(0, 9, Versioned::Made(1)), at(1, 8, Versioned::seen(1))], true);
    }

    #[test]
    fn a_read_after_a_write_sees_it() {
        check(&[at(0, 1, Versioned::Made(1)), at(2, 3, Versioned::seen(1))], true);
        check(&[at(0, 1, Versioned::Made(1)), at(2, 3, Versioned::seen(0))], false);
    }

    #[test]
    fn a_read_does_not_see_a_write_that_comes_later() {
        check(&[at(0, 1, Versioned::seen(1)), at(2, 3, Versioned::Made(1))], false);
    }

    #[test]
    fn reads_never_go_back() {
        let write = at(0, 9, Versioned::Made(1));
        check(&[write.clone(), at(1, 2, Versioned::seen(1)), at(3, 4, Versioned::seen(0))], false);
        check(&[write, at(1, 2, Versioned::seen(0)), at(3, 4, Versioned::seen(1))], true);
    }

    #[test]
    fn writes_keep_the_order_of_their_calls() {
        check(&[at(0, 1, Versioned::Made(2)), at(2, 3, Versioned::Made(1))], false);
        check(&[at(0, 1, Versioned::Made(1)), at(2, 3, Versioned::Made(1))], false);
    }

    #[test]
    fn a_range_of_versions_is_judged_by_its_ends() {
        let made = at(0, 1, Versioned::Made(5));
        check(&[made.clone(), at(2, 3, Versioned::Seen { low: 0, high: 5 })], true);
        check(&[made, at(2, 3, Versioned::Seen { low: 0, high: 4 })], false);
        // A version that was not seen for certain proves nothing to later calls.
        check(&[at(0, 1, Versioned::Seen { low: 0, high: 9 }), at(2, 3, Versioned::Made(1))], true);
    }
}
