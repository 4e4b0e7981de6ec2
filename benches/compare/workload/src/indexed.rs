//! Reads by an index on `number`: one order, orders of a range, the last orders, and numbers alone.

use std::time::Instant;

use crate::durability::Result;
use crate::random::Random;
use crate::store::{DocumentStore, Seen, expect_seen, report};
use crate::warm::warm;

/// The number of orders that a range has.
const RANGE: u64 = 100;
/// The number of numbers that are read out of the index at once.
const NUMBERS: u64 = 1_000;
/// The number of orders that are the last ones.
const LAST: u64 = 100;

/// A read that an index answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The order of that number.
    One(i64),
    /// The orders from the first number to the second, both included.
    Range(i64, i64),
    /// So many orders of the highest numbers, from the highest on.
    Last(u64),
    /// The numbers from the first to the second, both included, and nothing else of their orders.
    Numbers(i64, i64),
}

/// A kind of [`Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Read::One`].
    One,
    /// [`Read::Range`].
    Range,
    /// [`Read::Last`].
    Last,
    /// [`Read::Numbers`].
    Numbers,
}

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Self; 4] = [Self::One, Self::Range, Self::Last, Self::Numbers];

    /// The name of the figure, and that of the same where each document is asked for about four times.
    fn figures(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::One => ("find_by_index", Some("find_by_index_warm")),
            Self::Range => ("range_by_index", Some("range_by_index_warm")),
            Self::Last => ("sort_by_index", None),
            Self::Numbers => ("covered", None),
        }
    }

    /// The number of orders or numbers that a read gives, where there are at least `stored`.
    fn size(self, stored: u64) -> u64 {
        let size = match self {
            Self::One => 1,
            Self::Range => RANGE,
            Self::Last => LAST,
            Self::Numbers => NUMBERS,
        };
        size.min(stored)
    }

    fn at(self, first: u64, size: u64) -> Read {
        let number = |n| i64::try_from(n).unwrap_or(i64::MAX);
        let (first, last) = (number(first), number(first + size - 1));
        match self {
            Self::One => Read::One(first),
            Self::Range => Read::Range(first, last),
            Self::Last => Read::Last(size),
            Self::Numbers => Read::Numbers(first, last),
        }
    }
}

/// A store that can have an index on a field of its documents.
pub trait IndexedStore: DocumentStore {
    /// The reads that it answers by the index. It is left out of others.
    const KINDS: &'static [Kind];

    /// Creates an index on `number`, which the documents that are there are in when it returns.
    fn create_index(&mut self) -> Result<()>;
    /// Shows what is read to `seen`, found by the index: orders, or trees of one field that are their numbers.
    fn read_by_index(&self, read: Read, seen: &mut Seen) -> Result<()>;
}

/// Creates the index and reads by it. The rates are those of documents or numbers.
pub(crate) fn perform<S: IndexedStore>(store: &mut S, stored: u64, count: u64) -> Result<()> {
    let start = Instant::now();
    store.create_index()?;
    report("create_index", stored, start);
    for kind in S::KINDS {
        let size = kind.size(stored);
        let reads = count.div_ceil(size);
        let (figure, warm_figure) = kind.figures();
        let firsts = usize::try_from(stored - size + 1).unwrap_or(usize::MAX);
        let warm = warm_figure.map(|figure| (figure, warm(firsts as u64, reads * size)));
        for (figure, firsts) in [(figure, firsts)].into_iter().chain(warm) {
            let mut random = Random::new(3);
            let mut seen = Seen::default();
            let start = Instant::now();
            for _ in 0..reads {
                store.read_by_index(kind.at(random.below(firsts) as u64, size), &mut seen)?;
            }
            report(figure, reads * size, start);
            expect_seen(figure, &seen, reads * size)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_have_as_many_orders_as_their_kind_says() {
        let check = |kind: Kind, stored, read| assert_eq!(kind.at(5, kind.size(stored)), read);
        check(Kind::One, 10_000, Read::One(5));
        check(Kind::Range, 10_000, Read::Range(5, 104));
        check(Kind::Range, 20, Read::Range(5, 24));
        check(Kind::Last, 10_000, Read::Last(100));
        check(Kind::Numbers, 10_000, Read::Numbers(5, 1_004));
    }
}
