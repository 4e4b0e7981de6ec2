//! Figures that are called warm: each document is asked for a few times.

/// The number of times.
pub(crate) const WARM_READS: u64 = 4;

/// The number of stored documents that so many reads are spread over.
pub(crate) fn warm(stored: u64, reads: u64) -> usize {
    usize::try_from((reads / WARM_READS).clamp(1, stored)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_about_four_times() {
        assert_eq!((warm(1_000, 400), warm(50, 400), warm(1_000, 1)), (100, 50, 1));
    }
}
