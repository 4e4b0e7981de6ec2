//! Eviction from a full table that all users share: of the user who has most in it, the oldest entries first.
//!
//! So a user who fills a table loses its own entries, and a user who comes late finds room. `root` may have twice as much as a
//! reader before it gives.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

/// One entry goes for each of so many that the user has: the whole table is looked at for it, so it is not done for each new entry
/// of a large one.
const ENTRIES_FOR_EACH_GIVEN_UP: usize = 256;

/// A user's share of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    OfReader,
    OfRoot,
}

/// An entry of a table.
pub(crate) struct TableEntry<K, U> {
    pub(crate) key: K,
    pub(crate) user: U,
    pub(crate) portion: Portion,
    /// The time of its last use. `None` while it is in use: then it stays.
    pub(crate) used: Option<Instant>,
}

/// The entries that go, so that one more has room. There are none if all entries are in use.
pub(crate) fn given_up<K, U: Eq + Hash>(entries: impl Iterator<Item = TableEntry<K, U>>) -> Vec<K> {
    let mut users: HashMap<U, Entries<K>> = HashMap::new();
    for entry in entries {
        let of_user = users.entry(entry.user).or_insert(Entries { weight: 0, idle: Vec::new() });
        of_user.weight += match entry.portion {
            Portion::OfReader => 2,
            Portion::OfRoot => 1,
        };
        of_user.idle.extend(entry.used.map(|used| (used, entry.key)));
    }
    let may_give = users.into_values().filter(|of_user| !of_user.idle.is_empty());
    let Some(Entries { mut idle, .. }) = may_give.max_by_key(|of_user| of_user.weight) else {
        return Vec::new();
    };
    let count = (idle.len() / ENTRIES_FOR_EACH_GIVEN_UP).max(1);
    idle.select_nth_unstable_by_key(count - 1, |(used, _)| *used);
    idle.truncate(count);
    idle.into_iter().map(|(_, key)| key).collect()
}

/// The entries of one user in a table.
struct Entries<K> {
    weight: usize,
    idle: Vec<(Instant, K)>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Checks which entries are evicted, written as the user's name and the second of their last use, `-` for those
    /// in use.
    #[track_caller]
    fn check(entries: &str, expected: &str) {
        let begin = Instant::now();
        let entries = entries.split(' ').map(|entry| {
            let (user, second) = entry.split_at(1);
            let portion = if user == "R" { Portion::OfRoot } else { Portion::OfReader };
            let at = second.parse().ok().map(|second| begin + Duration::from_secs(second));
            TableEntry { key: entry, user, portion, used: at }
        });
        assert_eq!(given_up(entries).join(" "), expected);
    }

    #[test]
    fn the_oldest_of_the_user_who_has_most_goes() {
        check("a3 a1 a2 b0", "a1");
        // Entries in use count, and stay.
        check("a- a- a7 b1 b2", "a7");
        check("a- a- a- b3 b2", "b2");
        check("a- b-", "");
        // `root` gives when it has more than twice as many.
        check("R1 R2 a4 a3", "a3");
        check("R1 R2 R3 a4", "R1");
    }

    #[test]
    fn of_many_several_go_at_once() {
        let begin = Instant::now();
        let entries = (0..1024_u64).rev().map(|number| {
            let used = Some(begin + Duration::from_secs(number));
            TableEntry { key: number, user: "a", portion: Portion::OfReader, used }
        });
        let mut given = given_up(entries);
        given.sort_unstable();
        assert_eq!(given, [0, 1, 2, 3]);
    }
}
