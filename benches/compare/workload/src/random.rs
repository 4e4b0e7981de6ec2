//! Numbers that look random and are the same in every run: Marsaglia's xorshift with 64 bits of
//! state. Not for anything but choosing documents.

/// A generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Neighboring seeds give unrelated numbers.
    pub(crate) fn new(seed: u64) -> Self {
        // A state of zero would stay zero; an odd multiplier spreads small seeds over all bits.
        let mut random = Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number below `limit`; 0 when the limit is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The low bits of a xorshift are its weakest.
        ((self.next() >> 16) % (limit as u64).max(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_with_the_seed_and_stay_below_the_limit() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for _ in 0..1_000 {
            let number = one.below(13);
            assert_eq!(number, other.below(13));
            assert!(number < 13);
        }
        assert_eq!(Random::new(0).below(0), 0);
    }
}
