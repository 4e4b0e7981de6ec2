//! Looks at eight bytes of a name or a text at a time. Names are most of a small document, and every insert passes here.

/// `ONES` has the lowest bit of every byte set, `HIGHS` the highest, which is clear in ASCII.
const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Whether a text is ASCII, eight bytes at a time. The last bytes of a longer text are tested as one word
/// that overlaps the word before it.
#[inline]
pub(crate) fn is_ascii(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let seen = words.iter().fold(0, |seen, word| seen | u64::from_le_bytes(*word));
    let last = match text.last_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => rest.iter().fold(0, |seen, &byte| seen | u64::from(byte)),
    };
    (seen | last) & HIGHS == 0
}

/// The number of bytes of the name that `named` starts with. Returns `None` if it does not end there, or is not ASCII.
#[inline]
pub(crate) fn ascii_name_end(named: &[u8]) -> Option<usize> {
    if let Some(length) = named.first_chunk().and_then(|word| short_name_end(*word)) {
        return Some(length);
    }
    let (length, ascii) = name_end(named);
    (ascii && length < named.len()).then_some(length)
}

/// The position of the first zero byte of `word`. Returns `None` if there is no zero byte, or a byte before
/// it is not ASCII.
#[inline]
fn short_name_end(word: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(word);
    let zeros = zero_bytes(word);
    // All bits below the mark of the first zero byte: the bytes before it, and its own lower bits.
    let before = zeros.wrapping_sub(1) & !zeros;
    (zeros != 0 && word & before & HIGHS == 0).then(|| zeros.trailing_zeros() as usize / 8)
}

/// The position of the first zero byte. Returns `None` if there is none.
#[inline]
pub(crate) fn zero_position(bytes: &[u8]) -> Option<usize> {
    let (position, _is_ascii) = name_end(bytes);
    (position < bytes.len()).then_some(position)
}

/// Marks zero bytes by their highest bits. The lowest mark is right; a mark above it may be false.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    // Subtracting one sets the highest bit of a zero byte, and borrows from the next byte, which can mark
    // that one falsely. Bytes that had the bit before are masked out.
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// The number of bytes before the first zero byte (all bytes if there is none), and whether they are ASCII.
#[inline]
pub(crate) fn name_end(bytes: &[u8]) -> (usize, bool) {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut seen = 0;
    for (position, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zeros = zero_bytes(word);
        if zeros != 0 {
            let before = zeros.trailing_zeros() / 8;
            seen |= word & ((1 << (8 * before)) - 1);
            return (position * 8 + before as usize, seen & HIGHS == 0);
        }
        seen |= word;
    }
    // The bytes that are left as a word, whose other bytes are zero.
    let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let before = (zero_bytes(word).trailing_zeros() as usize / 8).min(rest.len());
    (words.len() * 8 + before, (seen | word & !(u64::MAX << (8 * before))) & HIGHS == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_its_first_zero_byte() {
        for length in 0..20 {
            for (filler, ascii) in [(b'a', true), (0x7f, true), (0x80, false), (0xff, false), (1, true)] {
                let name = vec![filler; length];
                let expected = (length, ascii || length == 0);
                assert_eq!(name_end(&name), expected);
                let followed = [name.as_slice(), b"\0", &[0xff; 9]].concat();
                assert_eq!(name_end(&followed), expected, "{followed:?}");
            }
        }
    }

    #[test]
    fn the_first_zero_byte_is_found_at_every_place() {
        for length in 0..40 {
            // Bytes that are next to zero, and those that a mark of zero bytes could be wrong for.
            let bytes: Vec<u8> = (0..length).map(|place| [0x01, 0x80, 0xff][place % 3]).collect();
            assert_eq!(zero_position(&bytes), None);
            for place in 0..length {
                let mut bytes = bytes.clone();
                bytes[place] = 0;
                assert_eq!(zero_position(&bytes), Some(place), "{bytes:?}");
                bytes[length - 1] = 0;
                assert_eq!(zero_position(&bytes), Some(place), "{bytes:?}");
            }
        }
    }

    #[test]
    fn a_short_name_ends_where_any_name_does() {
        for word in [*b"\0aaaaaaa", *b"a\0\x01\0\x80aaa", *b"name\0\xff\0\0", *b"1234567\0"] {
            assert_eq!(short_name_end(word), Some(name_end(&word).0), "{word:?}");
        }
        for word in [*b"12345678", *b"\x80\0aaaaaa", *b"aaaaaa\xff\0", [0xff; 8]] {
            assert_eq!(short_name_end(word), None, "{word:?}");
        }
    }

    #[test]
    fn ascii_is_told_from_other_bytes_at_every_place() {
        for length in 0..40 {
            let mut text = vec![0x7f; length];
            assert!(is_ascii(&text));
            for place in 0..length {
                text[place] = 0x80;
                assert!(!is_ascii(&text), "{place} of {length}");
                text[place] = 0;
            }
        }
    }
}
