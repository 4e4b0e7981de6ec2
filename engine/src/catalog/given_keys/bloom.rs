//! A Bloom filter with all bits of a key in one line of the processor's cache, so that a question waits for memory once.
//!
//! Filters of libraries spread the bits of a key over the whole filter: with ten million keys each of them is a wait.

use store::latch::hash_of;

/// The number of bits of a filter for each key that it is made for: one question in 300 about a key that was never
/// given is answered wrongly then, and one in 5,000 by a small filter, whose memory counts for little.
const BITS_PER_KEY: u64 = 12;
const BITS_PER_KEY_SMALL: u64 = 20;
/// The limit of keys of a small filter.
const KEYS_SMALL: u64 = 512 << 10;
/// The 64-bit words of a line. A key sets one bit in each.
const WORDS: usize = 8;

/// Hashes of keys, of which each was inserted or, rarely, only seems so.
pub(super) struct BloomFilter {
    lines: Box<[Line]>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; WORDS]);

impl BloomFilter {
    /// An empty filter for `keys` keys. It accepts more, with more wrong answers.
    pub(super) fn for_keys(keys: u64) -> Self {
        let lines = usize::try_from(Self::lines_for(keys)).unwrap_or(usize::MAX);
        Self { lines: vec![Line([0; WORDS]); lines].into() }
    }

    /// The size of a filter for `keys` keys, in bytes.
    pub(super) fn bytes_for(keys: u64) -> u64 {
        Self::lines_for(keys) * size_of::<Line>() as u64
    }

    fn lines_for(keys: u64) -> u64 {
        let bits = if keys > KEYS_SMALL { BITS_PER_KEY } else { BITS_PER_KEY_SMALL };
        keys.saturating_mul(bits).div_ceil(8 * size_of::<Line>() as u64).max(1)
    }

    /// Inserts a [hash](hash_of_key). Returns `true` if it was certainly never inserted before.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64) -> bool {
        let line = self.line_of(hash);
        let Some(Line(words)) = self.lines.get_mut(line) else { return false };
        let mut is_new = false;
        for (word, bit) in words.iter_mut().zip(bits(hash)) {
            is_new |= *word & bit == 0;
            *word |= bit;
        }
        is_new
    }

    /// Whether a hash may have been inserted.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let Some(Line(words)) = self.lines.get(self.line_of(hash)) else { return true };
        words.iter().zip(bits(hash)).all(|(word, bit)| word & bit != 0)
    }

    /// The product with the number of lines, divided by 2^64: the high bits decide which line it is.
    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        let product = u128::from(hash) * self.lines.len() as u128;
        // Less than the number of lines.
        usize::try_from(product >> 64).unwrap_or(usize::MAX)
    }
}

/// The bit of each word. The high bits of a product with the hash decide, which depend on all of its bits: keys of one line
/// share the high bits of their hashes.
#[inline]
fn bits(hash: u64) -> impl Iterator<Item = u64> {
    let places = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 6 * WORDS);
    (0..WORDS).map(move |word| 1 << (places >> (6 * word) & 63))
}

/// The hash of a key for filters. Keys that are numbers in a row have hashes in a pattern, which a filter must not show, so all
/// bits are spread once more, by the last steps of the generator `SplitMix64`.
#[inline]
pub(super) fn hash_of_key(key: &[u8]) -> u64 {
    let hash = hash_of(key);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_inserted_key_is_ever_new_again_and_few_others_are_taken_for_inserted() {
        const KEYS: u32 = 100_000;
        // As record keys are: a collection, a type, and numbers, random bytes or texts.
        let key_of = |form: u32, number: u32| match form {
            0 => [&[0, 0, 0, 7, 40], &number.to_be_bytes()[..]].concat(),
            1 => [&[0, 0, 0, 7, 70], &hash_of(&number.to_be_bytes()).to_be_bytes()[..], &[0; 4]].concat(),
            _ => [&[0, 0, 0, 7, 60], format!("user-{number}@example.com").as_bytes()].concat(),
        };
        // As many as a small filter has, and as one of millions has for each key.
        let full = BloomFilter::for_keys(u64::from(KEYS) * BITS_PER_KEY / BITS_PER_KEY_SMALL);
        for form in 0..3 {
            let mut filter = BloomFilter { lines: full.lines.clone() };
            let wrong = |filter: &mut BloomFilter, numbers: std::ops::Range<u32>| {
                numbers.filter(|number| !filter.insert(hash_of_key(&key_of(form, *number)))).count()
            };
            // While it fills, fewer than one in 500 seems to be there, and all are at the second time.
            let absent = (0..KEYS).filter(|number| filter.may_have(hash_of_key(&key_of(form, *number))));
            assert_eq!(absent.count(), 0, "form {form}: an empty filter has nothing");
            let early = wrong(&mut filter, 0..KEYS);
            assert!(early < KEYS as usize / 500, "form {form}: {early} of {KEYS} seemed to be there");
            assert_eq!(wrong(&mut filter, 0..KEYS), KEYS as usize, "form {form}");
            assert!((0..KEYS).all(|number| filter.may_have(hash_of_key(&key_of(form, number)))));
            let late = wrong(&mut filter, KEYS..KEYS + KEYS / 10);
            assert!(late < KEYS as usize / 10 / 100, "form {form}: {late} seemed to be in a full filter");
        }
    }

    #[test]
    fn a_filter_of_no_key_has_a_line_and_bytes_follow_the_keys() {
        assert!(BloomFilter::for_keys(0).insert(u64::MAX));
        assert_eq!(BloomFilter::bytes_for(0), 64);
        assert_eq!(BloomFilter::bytes_for(1 << 20), 3 << 19);
        assert_eq!(BloomFilter::bytes_for(1 << 19), 5 << 18);
        assert_eq!(BloomFilter::for_keys(1000).lines.len() as u64 * 64, BloomFilter::bytes_for(1000));
    }
}
