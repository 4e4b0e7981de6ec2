//! The checker of counters and of sequences: values that each come once, in the order of the calls.

use std::collections::{BTreeMap, BTreeSet};

use crate::histories::history::Record;
use crate::histories::order::{Versioned, check_order};

/// A call of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CounterCall {
    /// Added `by`, and was shown the sum.
    Added {
        by: u64,
        sum: u64,
    },
    /// Added `by`, and was shown nothing.
    AddedUnseen {
        by: u64,
    },
    Read(u64),
}

/// Rejects sums that are shown twice, calls in another order than their sums, and an end that is not the sum of all.
pub(crate) fn check_counter(what: &str, calls: &[Record<CounterCall>], end: u64) -> Result<(), String> {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let mut versions = Vec::new();
    let mut total = 0;
    for call in calls {
        match call.event {
            CounterCall::Added { by, sum } => {
                total += by;
                if sums.insert(sum, by).is_some() {
                    return Err(format!("{what}: the sum {sum} came twice"));
                }
                versions.push(call.with(Versioned::Made(sum)));
            }
            CounterCall::AddedUnseen { by } => total += by,
            CounterCall::Read(sum) => versions.push(call.with(Versioned::seen(sum))),
        }
    }
    if total != end {
        return Err(format!("{what}: {total} was added, and {end} is there"));
    }
    let mut reached = 0;
    for (sum, by) in sums {
        // Additions that were shown nothing may lie in between, but no two overlap.
        if sum < reached + by {
            return Err(format!("{what}: the addition that made {sum} from {} overlaps {reached}", sum - by));
        }
        reached = sum;
    }
    check_order(what, &versions)
}

/// Rejects values of a sequence that come twice, or in another order than their calls.
pub(crate) fn check_sequence(what: &str, calls: &[Record<i64>]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    if let Some(call) = calls.iter().find(|call| !seen.insert(call.event)) {
        return Err(format!("{what}: the value {} came twice, again at {:?}", call.event, call.span));
    }
    let made = |call: &Record<i64>| call.with(Versioned::Made(call.event.cast_unsigned()));
    check_order(what, &calls.iter().map(made).collect::<Vec<_>>())
}

/// Rejects a snapshot of numbered documents that lacks a number below one that it has, though that is there at the end.
pub(crate) fn check_polls(
    what: &str,
    polls: &[Record<BTreeSet<i64>>],
    end: &BTreeSet<i64>,
) -> Result<(), String> {
    for poll in polls {
        let Some(highest) = poll.event.last() else { continue };
        if let Some(number) = end.range(..highest).find(|number| !poll.event.contains(number)) {
            return Err(format!(
                "{what}: a reader at {:?} saw {highest}, and {number} became visible only later",
                poll.span
            ));
        }
        if let Some(number) = poll.event.difference(end).next() {
            return Err(format!(
                "{what}: a reader at {:?} saw {number}, which is gone at the end",
                poll.span
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histories::history::at;

    #[track_caller]
    fn check(result: Result<(), String>, words: &str) {
        match result {
            Ok(()) => assert_eq!(words, "", "nothing was found"),
            Err(found) => assert!(!words.is_empty() && found.contains(words), "{found}"),
        }
    }

    #[test]
    fn a_counter_shows_each_sum_once_and_ends_with_all() {
        let added = |begun, by, sum| at(begun, begun + 1, CounterCall::Added { by, sum });
        let unseen = at(0, 9, CounterCall::AddedUnseen { by: 1 });
        check(check_counter("c", &[added(0, 1, 1), added(2, 2, 3)], 3), "");
        check(check_counter("c", &[added(0, 1, 1), added(2, 2, 3)], 2), "3 was added, and 2 is there");
        check(check_counter("c", &[added(0, 1, 1), added(2, 1, 1)], 2), "came twice");
        check(check_counter("c", &[added(0, 1, 2), added(2, 2, 3)], 3), "overlaps");
        check(check_counter("c", &[added(0, 1, 2), added(2, 1, 1)], 2), "had been there");
        check(check_counter("c", &[unseen.clone(), added(2, 2, 3)], 3), "");
        let stale = at(4, 5, CounterCall::Read(1));
        check(check_counter("c", &[unseen, added(2, 2, 3), stale], 3), "had been there");
    }

    #[test]
    fn a_sequence_never_repeats_or_turns_back() {
        check(check_sequence("s", &[at(0, 1, 1), at(2, 3, 5)]), "");
        check(check_sequence("s", &[at(0, 3, 5), at(1, 2, 1)]), "");
        check(check_sequence("s", &[at(0, 1, 5), at(2, 3, 1)]), "had been there");
        check(check_sequence("s", &[at(0, 3, 5), at(1, 2, 5)]), "twice");
    }

    #[test]
    fn numbers_become_visible_in_their_order() {
        let poll = |numbers: &[i64]| vec![at(0, 1, numbers.iter().copied().collect::<BTreeSet<i64>>())];
        let end = BTreeSet::from([1, 2, 4]);
        check(check_polls("n", &poll(&[1, 2]), &end), "");
        check(check_polls("n", &poll(&[]), &end), "");
        check(check_polls("n", &poll(&[1, 4]), &end), "only later");
        check(check_polls("n", &poll(&[1, 2, 4, 5]), &end), "gone at the end");
    }
}
