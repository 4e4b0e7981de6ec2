//! Tests of single bits: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet` and `$bitsAnyClear`.
//!
//! Bit 0 is the lowest. Integers go on with their sign for ever, binary data with zeros. A double or decimal is
//! looked at if it is an integer of 64 bits, and never matches otherwise.

use bson::{RawBinaryRef, RawBsonRef};

use crate::error::Fault;
use crate::value::{describe, elements, integer};

/// What is asked of the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitTest {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

/// A question to some of a value's bits.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    test: BitTest,
    /// The bits in question, 64 to a word, only words that hold any. Lists of distant positions stay short so.
    words: Vec<Word>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    /// Which 64 bits.
    place: usize,
    mask: u64,
}

const WORD_BITS: u32 = 64;
const WORD_BYTES: usize = 8;

impl Bits {
    /// Reads a mask, as a number or binary data, or a list of positions.
    pub(super) fn parse(test: BitTest, operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        let words = if let Some(positions) = operand.as_array() {
            let positions = elements(positions).enumerate().map(|(at, position)| bit_position(at, position));
            words_of_positions(positions.collect::<Result<_, _>>()?)
        } else if let Some(binary) = operand.as_binary() {
            let masks = binary.bytes.chunks(WORD_BYTES).map(word_of_bytes).enumerate();
            masks.filter(|(_, mask)| *mask != 0).map(|(place, mask)| Word { place, mask }).collect()
        } else if index::number::Number::of(operand).is_some() {
            let mask = integer(operand).and_then(|mask| u64::try_from(mask).ok());
            let mask = mask.ok_or_else(|| Fault::Mask { found: describe(operand) })?;
            if mask == 0 { Vec::new() } else { vec![Word { place: 0, mask }] }
        } else {
            let expected = "a number, binary data or an array of positions";
            return Err(Fault::WrongType { expected, found: describe(operand) });
        };
        Ok(Self { test, words })
    }

    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        if let Some(binary) = value.as_binary() {
            return self.ask(|place| binary_word(binary, place));
        }
        let Some(value) = integer(value) else { return false };
        let sign = if value < 0 { u64::MAX } else { 0 };
        self.ask(|place| if place == 0 { value.cast_unsigned() } else { sign })
    }

    fn ask(&self, bits: impl Fn(usize) -> u64) -> bool {
        let mut words = self.words.iter();
        match self.test {
            BitTest::AllSet => words.all(|word| bits(word.place) & word.mask == word.mask),
            BitTest::AllClear => words.all(|word| bits(word.place) & word.mask == 0),
            BitTest::AnySet => words.any(|word| bits(word.place) & word.mask != 0),
            BitTest::AnyClear => words.any(|word| bits(word.place) & word.mask != word.mask),
        }
    }
}

fn bit_position(at: usize, position: RawBsonRef<'_>) -> Result<u32, Fault> {
    let place = integer(position).and_then(|position| i32::try_from(position).ok());
    let place = place.and_then(|place| u32::try_from(place).ok());
    place.ok_or_else(|| Fault::BitPosition { position: at, found: describe(position) })
}

fn words_of_positions(mut positions: Vec<u32>) -> Vec<Word> {
    positions.sort_unstable();
    let mut words: Vec<Word> = Vec::new();
    for position in positions {
        let (place, mask) = ((position / WORD_BITS) as usize, 1 << (position % WORD_BITS));
        match words.last_mut() {
            Some(last) if last.place == place => last.mask |= mask,
            Some(_) | None => words.push(Word { place, mask }),
        }
    }
    words
}

fn binary_word(binary: RawBinaryRef<'_>, place: usize) -> u64 {
    let rest = place.checked_mul(WORD_BYTES).and_then(|start| binary.bytes.get(start..));
    rest.map_or(0, word_of_bytes)
}

/// Up to eight bytes as a number, the lowest first.
fn word_of_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    for (place, byte) in word.iter_mut().zip(bytes) {
        *place = *byte;
    }
    u64::from_le_bytes(word)
}
