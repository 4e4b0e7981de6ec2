//! The source of the decisions of a random suite: a seed, or the bytes of a fuzzer.
//!
//! The same seed, or the same bytes, give the same decisions on every machine and in every version.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// The environment variable that replays a run.
pub const SEED_VARIABLE: &str = "CAIRNDB_SEED";

/// A stream of decisions.
pub struct Choices {
    source: Source,
}

enum Source {
    Seed(u64),
    Bytes { rest: VecDeque<u8> },
}

impl Choices {
    /// Decisions from a seed; there is no end of them.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seed(seed) }
    }

    /// Decisions from bytes; once they are used up, every decision is the first one possible.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { source: Source::Bytes { rest: bytes.iter().copied().collect() } }
    }

    /// Whether the bytes are used up; never for a seed.
    pub fn is_exhausted(&self) -> bool {
        match &self.source {
            Source::Seed(_) => false,
            Source::Bytes { rest } => rest.is_empty(),
        }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        match &mut self.source {
            Source::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(*state)
            }
            Source::Bytes { rest } => {
                (0..8).fold(0, |number, _| (number << 8) | u64::from(rest.pop_front().unwrap_or(0)))
            }
        }
    }

    /// A number from 0 to `limit`, without `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        match &mut self.source {
            Source::Bytes { rest } if limit <= 256 => u64::from(rest.pop_front().unwrap_or(0)) % limit,
            Source::Seed(_) | Source::Bytes { .. } => self.number() % limit,
        }
    }

    /// The same as a length or a position.
    pub fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).expect("a remainder is below its divisor")
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == times - 1
    }

    /// One of the items, of which there must be some.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let position = self.index(items.len());
        items.get(position).expect("a position below the length")
    }
}

/// The seed of a run: from the environment, or any.
pub fn seed() -> u64 {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text.trim().parse().unwrap_or_else(|error| panic!("{SEED_VARIABLE}={text:?}: {error}")),
        Err(_) => RandomState::new().hash_one(std::process::id()) >> 16,
    }
}

/// A number from the environment variable `name`, or `default`.
pub fn number_from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|error| panic!("{name}={text:?}: {error}")),
        Err(_) => default,
    }
}

/// The seed of the part `number` of a run. Runs whose seeds are neighbours have no part in common.
pub fn part(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number))
}

/// A number in which every bit depends on every bit of the argument.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbouring_seeds_have_no_part_in_common() {
        let parts: HashSet<u64> =
            (1001..1011).flat_map(|seed| (0..2000).map(move |number| part(seed, number))).collect();
        assert_eq!(parts.len(), 20_000);
    }

    #[test]
    fn the_same_seed_makes_the_same_decisions() {
        let decide = |seed| {
            let mut choices = Choices::seeded(seed);
            (0..50).map(|_| choices.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(decide(7), decide(7));
        assert_ne!(decide(7), decide(8));
    }

    #[test]
    fn bytes_end_in_first_decisions() {
        let mut choices = Choices::from_bytes(&[5, 200]);
        assert_eq!((choices.below(10), choices.below(256)), (5, 200));
        assert!(choices.is_exhausted());
        assert_eq!((choices.below(10), choices.number()), (0, 0));
    }
}
