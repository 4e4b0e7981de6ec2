//! Text in UTF-16, as programs of Windows write it, turned into UTF-8 while it is read.
//!
//! What comes before damage is read: half of a character without its other half, or a byte too many at the end. The error names
//! its place in the text.

use std::io::{Error, ErrorKind, Read, Result};

use crate::compressed::Stream;

/// The order of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// The encoding of a text by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16(Order),
    /// Four bytes a character, which nothing here reads.
    Utf32,
}

impl Encoding {
    /// Reads the first four bytes: a byte order mark, or zeros beside letters, which no text in UTF-8 has.
    pub(crate) fn of(first: &[u8]) -> Self {
        let is_letter = |byte: u8| byte.is_ascii() && byte != 0;
        match *first {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Self::Utf32,
            [0xff, 0xfe, ..] => Self::Utf16(Order::Little),
            [0xfe, 0xff, ..] => Self::Utf16(Order::Big),
            [one, 0, other, 0, ..] if is_letter(one) && is_letter(other) => Self::Utf16(Order::Little),
            [0, one, 0, other, ..] if is_letter(one) && is_letter(other) => Self::Utf16(Order::Big),
            _ => Self::Utf8,
        }
    }
}

/// The place in a text that is not UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("at byte {byte} of its UTF-16 is half of a character, {unit:04X}, without the other half")]
    Half { byte: u64, unit: u16 },
    #[error("its UTF-16 ends within a character, after byte {byte}")]
    End { byte: u64 },
}

/// The text as UTF-8.
pub(crate) struct Utf16 {
    stream: Stream,
    order: Order,
    /// A byte whose unit was not read to its end.
    odd: Option<u8>,
    /// The first half of a character.
    half: Option<u16>,
    /// The number of bytes of whole units that were decoded.
    position: u64,
    /// The text that was decoded and not yet read, from `read` on.
    text: Vec<u8>,
    read: usize,
    /// The damage that ends the text after it.
    damage: Option<Damage>,
    is_at_end: bool,
}

/// The number of bytes that are decoded at once.
const BYTES: usize = 64 << 10;
const UNIT_BYTES: u64 = 2;
const MARK: char = '\u{feff}';

impl Utf16 {
    pub(crate) fn new(stream: Stream, order: Order) -> Self {
        Self {
            stream,
            order,
            odd: None,
            half: None,
            position: 0,
            text: Vec::new(),
            read: 0,
            damage: None,
            is_at_end: false,
        }
    }

    /// Decodes what is read at once.
    fn fill(&mut self) -> Result<()> {
        self.text.clear();
        self.read = 0;
        let mut bytes = vec![0; BYTES];
        let kept = usize::from(self.odd.is_some());
        if let (Some(first), Some(odd)) = (bytes.first_mut(), self.odd) {
            *first = odd;
        }
        let room = bytes.get_mut(kept..).unwrap_or_default();
        let count = self.stream.read(room)?;
        if count == 0 {
            self.is_at_end = true;
            let byte = self.position;
            self.damage = match (self.half, self.odd) {
                (Some(unit), _) => Some(Damage::Half { byte: byte - UNIT_BYTES, unit }),
                (None, Some(_)) => Some(Damage::End { byte }),
                (None, None) => None,
            };
            return Ok(());
        }
        bytes.truncate(kept + count);
        let mut units = bytes.chunks_exact(2);
        for unit in units.by_ref() {
            let unit = match (self.order, unit) {
                (Order::Little, &[low, high]) | (Order::Big, &[high, low]) => u16::from_be_bytes([high, low]),
                (Order::Little | Order::Big, _) => 0,
            };
            if !self.decode(unit) {
                self.is_at_end = true;
                return Ok(());
            }
        }
        self.odd = units.remainder().first().copied();
        Ok(())
    }

    /// Decodes a unit. Returns `false` at damage.
    fn decode(&mut self, unit: u16) -> bool {
        let byte = self.position;
        self.position += UNIT_BYTES;
        let first = self.half.take();
        if first.is_none() && (0xd800..0xdc00).contains(&unit) {
            self.half = Some(unit);
            return true;
        }
        let decoded = match first {
            Some(first) => char::decode_utf16([first, unit]).next(),
            None => char::decode_utf16([unit]).next(),
        };
        match decoded {
            Some(Ok(MARK)) if byte == 0 => true,
            Some(Ok(character)) => {
                self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                true
            }
            Some(Err(alone)) => {
                // Of two it is the first that is alone.
                let byte = if first.is_some() { byte - UNIT_BYTES } else { byte };
                self.damage = Some(Damage::Half { byte, unit: alone.unpaired_surrogate() });
                false
            }
            None => true,
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        while self.read >= self.text.len() {
            if self.is_at_end {
                let damage = self.damage.take();
                return damage.map_or(Ok(0), |damage| Err(Error::new(ErrorKind::InvalidData, damage)));
            }
            self.fill()?;
        }
        let left = self.text.get(self.read..).unwrap_or_default();
        let count = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A stream that gives a few bytes at once.
    struct Slow(Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            let len = out.len().min(self.1);
            self.0.read(&mut out[..len])
        }
    }

    fn read(bytes: &[u8], order: Order, pace: usize) -> (String, Option<Damage>) {
        let mut reader = Utf16::new(Box::new(Slow(Cursor::new(bytes.to_vec()), pace)), order);
        let mut text = Vec::new();
        let damage = reader.read_to_end(&mut text).err();
        let damage = damage.map(|error| *error.get_ref().unwrap().downcast_ref::<Damage>().unwrap());
        (String::from_utf8(text).unwrap(), damage)
    }

    fn bytes(units: &[u16], order: Order) -> Vec<u8> {
        let of = |unit: &u16| if order == Order::Little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        units.iter().flat_map(of).collect()
    }

    #[test]
    fn every_character_comes_back_however_it_is_read() {
        let text = "\u{feff}a,ü\n漢字,\u{feff}😀🦀\n".to_owned() + &"x🦀".repeat(70_000);
        let units: Vec<u16> = text.encode_utf16().collect();
        for order in [Order::Little, Order::Big] {
            for pace in [3, 4096, 1 << 20] {
                let (read, damage) = read(&bytes(&units, order), order, pace);
                assert!(read == text.strip_prefix('\u{feff}').unwrap() && damage.is_none(), "{damage:?}");
            }
        }
    }

    #[test]
    fn damage_has_its_place_and_what_is_before_it_is_read() {
        for order in [Order::Little, Order::Big] {
            let check = |units: &[u16], more: &[u8], text: &str, damage: Damage| {
                let input = [bytes(units, order), more.to_vec()].concat();
                for pace in [1, 3, 4096] {
                    assert_eq!(read(&input, order, pace), (text.to_owned(), Some(damage)), "{units:x?}");
                }
            };
            check(&[0x61, 0xd83d, 0x62], &[], "a", Damage::Half { byte: 2, unit: 0xd83d });
            check(&[0x61, 0xd83d, 0xd83d, 0xdc00], &[], "a", Damage::Half { byte: 2, unit: 0xd83d });
            check(&[0x61, 0x62, 0xdc00], &[], "ab", Damage::Half { byte: 4, unit: 0xdc00 });
            check(&[0xfeff, 0x61, 0xd83d], &[], "a", Damage::Half { byte: 4, unit: 0xd83d });
            check(&[0x61, 0x62], &[0], "ab", Damage::End { byte: 4 });
            check(&[], &[0x61], "", Damage::End { byte: 0 });
        }
    }

    #[test]
    fn the_first_bytes_say_the_encoding() {
        let of = |first: &[u8]| Encoding::of(first);
        assert_eq!(of(b"\xff\xfea\0"), Encoding::Utf16(Order::Little));
        assert_eq!(of(b"\xfe\xff\0a"), Encoding::Utf16(Order::Big));
        assert_eq!(of(b"a\0,\0"), Encoding::Utf16(Order::Little));
        assert_eq!(of(b"\0a\0,"), Encoding::Utf16(Order::Big));
        assert_eq!(of(b"\xff\xfe\0\0"), Encoding::Utf32);
        assert_eq!(of(b"\0\0\xfe\xff"), Encoding::Utf32);
        for text in [&b"a,b\n"[..], b"", b"a", b"\xef\xbb\xbfa", b"\0\0\0\0"] {
            assert_eq!(of(text), Encoding::Utf8);
        }
    }
}
