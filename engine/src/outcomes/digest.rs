//! The digest by which two calls with one token are distinguished: SipHash-2-4 of 128 bits, with a key of zeros. It is on disk, so it never
//! changes. It guards against mistakes, and not against who looks for two calls of the same digest.

use base::error::Result;
use bson::Document;

/// The number of bytes of a digest.
pub(crate) const DIGEST_BYTES: usize = 16;
const BLOCK_BYTES: usize = 8;

/// The digest of what was written to it so far.
pub(crate) struct Digest {
    state: Words,
    /// The bytes that do not fill a block yet.
    rest: [u8; BLOCK_BYTES],
    rest_len: usize,
    len: u64,
}

/// The four words that everything is mixed into.
#[derive(Clone, Copy)]
struct Words([u64; 4]);

impl Digest {
    /// The digest of a call, without its arguments.
    pub(crate) fn of_call(name: &str) -> Self {
        let mut digest = Self::with_key([0; 2]);
        digest.part(name.as_bytes());
        digest
    }

    /// Adds bytes with their length, so that two parts are never one longer part.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.write(&(bytes.len() as u64).to_le_bytes());
        self.write(bytes);
    }

    /// Adds a document.
    pub(crate) fn document(&mut self, document: &Document) -> Result<()> {
        self.part(&document.to_vec()?);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> [u8; DIGEST_BYTES] {
        // The last block ends with the low byte of the length.
        let [.., last] = &mut self.rest;
        let [low, ..] = self.len.to_le_bytes();
        let rest_len = self.rest_len;
        *last = low;
        if let Some(unused) = self.rest.get_mut(rest_len..BLOCK_BYTES - 1) {
            unused.fill(0);
        }
        let block = u64::from_le_bytes(self.rest);
        self.state.block(block);
        let mut digest = [0; DIGEST_BYTES];
        let (low, high) = digest.split_at_mut(BLOCK_BYTES);
        for (half, mark) in [(low, (2, 0xee)), (high, (1, 0xdd))] {
            let (at, mark) = mark;
            if let Some(word) = self.state.0.get_mut(at) {
                *word ^= mark;
            }
            (0..4).for_each(|_| self.state.round());
            let sum = self.state.0.iter().fold(0, |sum, word| sum ^ word);
            half.copy_from_slice(&sum.to_le_bytes());
        }
        digest
    }

    /// The digest of nothing, with a key.
    pub(crate) fn with_key(key: [u64; 2]) -> Self {
        let [low, high] = key;
        let state = Words([
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ]);
        Self { state, rest: [0; BLOCK_BYTES], rest_len: 0, len: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        let mut bytes = bytes;
        if self.rest_len > 0 {
            let room = self.rest.get_mut(self.rest_len..).unwrap_or_default();
            let taken = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(taken);
            room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
            self.rest_len += taken;
            bytes = later;
            if self.rest_len < BLOCK_BYTES {
                return;
            }
            self.rest_len = 0;
            self.state.block(u64::from_le_bytes(self.rest));
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        // A copy of its own, which the compiler keeps in registers.
        let mut state = self.state;
        for block in blocks {
            state.block(u64::from_le_bytes(*block));
        }
        self.state = state;
        self.rest.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.rest_len = rest.len();
    }
}

impl Words {
    #[inline]
    fn block(&mut self, block: u64) {
        let [.., last] = &mut self.0;
        *last ^= block;
        self.round();
        self.round();
        let [first, ..] = &mut self.0;
        *first ^= block;
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(len: u8, parts: usize) -> String {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let mut digest = Digest::with_key(key);
        let bytes: Vec<u8> = (0..len).collect();
        bytes.chunks(parts).for_each(|part| digest.write(part));
        format!("{:032x}", u128::from_be_bytes(digest.finish()))
    }

    /// The first vectors of the reference.
    #[test]
    fn it_is_siphash_2_4_of_128_bits() {
        assert_eq!(digest(0, 1), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(digest(1, 1), "da87c1d86b99af44347659119b22fc45");
    }

    #[test]
    fn it_does_not_matter_how_bytes_come() {
        for len in 0..40 {
            for parts in 1..20 {
                assert_eq!(digest(len, parts), digest(len, 64), "{len} bytes by {parts}");
            }
        }
    }

    #[test]
    fn parts_are_told_apart() {
        let of = |first: &[u8], second: &[u8]| {
            let mut digest = Digest::of_call("a call");
            digest.part(first);
            digest.part(second);
            digest.finish()
        };
        assert_ne!(of(b"ab", b"c"), of(b"a", b"bc"));
    }
}
