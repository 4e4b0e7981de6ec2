//! The integers and lengths of RocksDB's encodings.

/// Appends a number, seven bits to a byte, lowest first; the high bit says that another byte follows.
#[inline]
pub(crate) fn push(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

/// The bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    left: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.left
    }

    /// The next byte, which stays to be read.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.left.first().copied()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(*first)
    }

    pub(crate) fn fixed32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(crate) fn fixed64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Reads seven bits from each byte, lowest first; the high bit says that another byte follows. Returns
    /// `None` for a number that does not fit 64 bits.
    pub(crate) fn varint64(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn varint32(&mut self) -> Option<u32> {
        self.varint64().and_then(|number| u32::try_from(number).ok())
    }

    /// Reads bytes that follow their length.
    pub(crate) fn slice(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<u64>) {
        assert_eq!(Input::new(bytes).varint64(), expected);
    }

    #[test]
    fn varints_are_seven_bits_a_byte_lowest_first() {
        check(&[0], Some(0));
        check(&[0x7f], Some(127));
        check(&[0x80, 1], Some(128));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Some(u64::MAX));
    }

    #[test]
    fn cut_and_oversized_varints_are_refused() {
        check(&[], None);
        check(&[0x80], None);
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], None);
        check(&[0x80; 11], None);
        assert_eq!(Input::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
    }

    #[test]
    fn a_slice_is_as_long_as_it_says_or_refused() {
        let mut input = Input::new(&[2, 7, 8, 9]);
        assert_eq!(input.slice(), Some([7, 8].as_slice()));
        assert_eq!(input.take(1), Some([9].as_slice()));
        assert!(input.is_empty());
        assert_eq!(Input::new(&[3, 7, 8]).slice(), None);
    }
}
