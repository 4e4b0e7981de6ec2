//! Random numbers for `$rand` and `$sample`.
//!
//! They come from the keys of the standard library's hasher, which are random for each thread and differ from call
//! to call. That is good enough for samples, and needs no state. It is not good enough for secrets.

use std::hash::{BuildHasher as _, RandomState};

/// A number of at least 0 and below 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds exactly")]
pub(crate) fn random() -> f64 {
    // A double has 53 bits of precision: more bits would be rounded, at worst to 1.
    (bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `bound`; 0 if that is 0.
pub(crate) fn random_below(bound: u64) -> u64 {
    // The high half of a product of 128 bits: no result is more likely than another by more than `bound` in 2^64.
    let product = u128::from(bits()) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or_default()
}

fn bits() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_vary() {
        assert_eq!(random_below(0), 0);
        assert_eq!(random_below(1), 0);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random())));
        let drawn: std::collections::BTreeSet<u64> = (0..1_000).map(|_| random_below(4)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
