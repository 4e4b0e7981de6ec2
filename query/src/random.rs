//! Random numbers for `$rand` and `$sample`.
//!
//! A hasher's keys are random for each thread and differ from call to call, and the hash mixes them well: for samples
//! and jitter that is enough, and it needs no generator to be kept anywhere. For secrets it is not.

use std::hash::{BuildHasher as _, RandomState};

/// A number of at least 0 and below 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double holds exactly")]
pub(crate) fn random() -> f64 {
    (bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `bound`; 0 if that is 0.
pub(crate) fn random_below(bound: u64) -> u64 {
    // The high half of the product: even but for what 64 bits cannot tell.
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
