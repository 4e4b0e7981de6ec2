//! The primitives of keys: self-delimiting texts, lengths, and a reader that undoes the complement of a
//! descending field.
//!
//! A text is written as its bytes, with 0x00 as 01 01 and 0x01 as 01 02, and a closing 0x00. The closing
//! byte is smaller than any byte that may come in its place, and the two escapes sort as the bytes they
//! represent. So texts sort as their bytes do, a proper prefix first, and none is a prefix of another.

use super::layout::{Direction, END, ESCAPE, LONG_LENGTH};
use crate::error::Error;

/// Appends a text of any bytes.
#[inline]
pub(super) fn write_text(text: &[u8], key: &mut Vec<u8>) {
    key.reserve(text.len() + 1);
    let mut rest = text;
    // Bytes of 0 and 1 are rare, so the stretches between them are copied whole.
    while let Some((clean, &low, after)) = split_at_low_byte(rest) {
        key.extend_from_slice(clean);
        key.extend_from_slice(&[ESCAPE, low + 1]);
        rest = after;
    }
    key.extend_from_slice(rest);
    key.push(END);
}

/// The text before the first byte that needs an escape, that byte, and the text after it.
#[inline]
fn split_at_low_byte(text: &[u8]) -> Option<(&[u8], &u8, &[u8])> {
    // Sixteen bytes at a time find the chunk; only that one is searched byte by byte.
    let (chunks, _) = text.as_chunks::<16>();
    let mut position = 16 * chunks.iter().take_while(|chunk| !has_low_byte(chunk)).count();
    let (_, rest) = text.split_at_checked(position)?;
    position += rest.iter().position(|&byte| byte <= ESCAPE)?;
    let (clean, rest) = text.split_at_checked(position)?;
    let (low, after) = rest.split_first()?;
    Some((clean, low, after))
}

/// Whether any byte needs an escape: whether the smallest one does, which is found without a branch.
#[inline]
fn has_low_byte(chunk: &[u8; 16]) -> bool {
    chunk.iter().fold(u8::MAX, |smallest, &byte| smallest.min(byte)) <= ESCAPE
}

/// Appends a length, so that lengths sort by value.
pub(super) fn write_len(len: usize, key: &mut Vec<u8>) {
    // The marker of a long length is above every short one, so long lengths sort after all short ones.
    match u8::try_from(len) {
        Ok(short) if short < LONG_LENGTH => key.push(short),
        Ok(_) | Err(_) => {
            let long = u32::try_from(len).expect("BSON lengths have 31 bits");
            key.push(LONG_LENGTH);
            key.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// Reads the bytes of one field, with the complement of a descending field undone.
#[derive(Clone, Copy)]
pub(super) struct Reader<'k> {
    bytes: &'k [u8],
    mask: u8,
}

impl<'k> Reader<'k> {
    pub(super) fn new(bytes: &'k [u8], direction: Direction) -> Self {
        let mask = match direction {
            Direction::Ascending => 0x00,
            Direction::Descending => 0xff,
        };
        Self { bytes, mask }
    }

    /// The unread part, as it is stored.
    pub(super) fn rest(&self) -> &'k [u8] {
        self.bytes
    }

    pub(super) fn peek(&self) -> Result<u8, Error> {
        self.bytes.first().map(|byte| byte ^ self.mask).ok_or(Error::KeyTruncated)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Error::KeyTruncated)?;
        self.bytes = rest;
        Ok(taken.map(|byte| byte ^ self.mask))
    }

    /// Appends the next `len` bytes to `out`.
    pub(super) fn take(&mut self, len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Error::KeyTruncated)?;
        self.bytes = rest;
        out.extend(taken.iter().map(|byte| byte ^ self.mask));
        Ok(())
    }

    pub(super) fn skip(&mut self, len: usize) -> Result<(), Error> {
        let (_, rest) = self.bytes.split_at_checked(len).ok_or(Error::KeyTruncated)?;
        self.bytes = rest;
        Ok(())
    }

    /// Appends the next text, without escapes and end, to `out`.
    pub(super) fn text(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            match self.byte()? {
                END => return Ok(()),
                ESCAPE => out.push(self.escaped()?),
                byte => out.push(byte),
            }
        }
    }

    pub(super) fn skip_text(&mut self) -> Result<(), Error> {
        // An escape never holds the closing byte, so the first such byte is the end.
        let end = self.mask ^ END;
        let len = self.bytes.iter().position(|&byte| byte == end).ok_or(Error::KeyTruncated)?;
        self.skip(len + 1)
    }

    fn escaped(&mut self) -> Result<u8, Error> {
        match self.byte()? {
            byte @ (1 | 2) => Ok(byte - 1),
            value => Err(Error::KeyMalformed { expected: "an escaped byte", value }),
        }
    }

    pub(super) fn len(&mut self) -> Result<usize, Error> {
        let first = self.byte()?;
        if first < LONG_LENGTH {
            return Ok(usize::from(first));
        }
        let long = u32::from_be_bytes(self.array()?);
        // A short length in the long form would give one value two keys.
        match usize::try_from(long) {
            Ok(len) if len >= usize::from(LONG_LENGTH) => Ok(len),
            Ok(_) | Err(_) => Err(Error::KeyMalformed { expected: "a length of at least 255", value: first }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &[u8], expected: &[u8]) {
        let mut key = Vec::new();
        write_text(text, &mut key);
        assert_eq!(key, expected);
        for direction in [Direction::Ascending, Direction::Descending] {
            let stored: Vec<u8> = match direction {
                Direction::Ascending => key.clone(),
                Direction::Descending => key.iter().map(|byte| !byte).collect(),
            };
            let mut reader = Reader::new(&stored, direction);
            let mut decoded = Vec::new();
            reader.text(&mut decoded).unwrap();
            assert_eq!(decoded, text);
            assert!(reader.rest().is_empty());
            let mut reader = Reader::new(&stored, direction);
            reader.skip_text().unwrap();
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn texts_end_themselves() {
        check_text(b"", b"\x00");
        check_text(b"a", b"a\x00");
        check_text(b"\x00", b"\x01\x01\x00");
        check_text(b"\x01\x00\x02", b"\x01\x02\x01\x01\x02\x00");
    }

    #[test]
    fn low_bytes_are_found_at_every_position() {
        for len in 1..40 {
            for position in 0..len {
                let mut text = vec![b'x'; len];
                text[position] = 1;
                let mut expected = vec![b'x'; position];
                expected.extend([1, 2]);
                expected.extend(vec![b'x'; len - position - 1]);
                expected.push(0);
                check_text(&text, &expected);
            }
        }
    }

    #[test]
    fn lengths_sort_by_value() {
        let lengths = [0, 1, 254, 255, 256, 65_536, 16_777_216];
        let keys = lengths.map(|len| {
            let mut key = Vec::new();
            write_len(len, &mut key);
            assert_eq!(Reader::new(&key, Direction::Ascending).len(), Ok(len));
            key
        });
        assert!(keys.is_sorted());
    }

    #[test]
    fn broken_primitives_are_errors() {
        let reader = |bytes| Reader::new(bytes, Direction::Ascending);
        assert_eq!(reader(b"abc").text(&mut Vec::new()), Err(Error::KeyTruncated));
        assert_eq!(reader(b"abc").skip_text(), Err(Error::KeyTruncated));
        assert_eq!(reader(b"\x01").text(&mut Vec::new()), Err(Error::KeyTruncated));
        let expected = Error::KeyMalformed { expected: "an escaped byte", value: 3 };
        assert_eq!(reader(b"\x01\x03\x00").text(&mut Vec::new()), Err(expected));
        assert_eq!(reader(b"\xff\x00\x00").len(), Err(Error::KeyTruncated));
        let expected = Error::KeyMalformed { expected: "a length of at least 255", value: 0xff };
        assert_eq!(reader(b"\xff\x00\x00\x00\xfe").len(), Err(expected));
        assert_eq!(reader(b"ab").take(3, &mut Vec::new()), Err(Error::KeyTruncated));
    }
}
