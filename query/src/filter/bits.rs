//! Tests of single bits: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet` and `$bitsAnyClear`.
//!
//! Bit 0 is the lowest. Above its own bits an integer repeats its sign, and binary data has zeros. A double
//! or decimal is tested if it is an integer of 64 bits, and does not match otherwise.

use bson::{RawBinaryRef, RawBsonRef};

use crate::error::Fault;
use crate::value::{describe, elements, integer};

/// The condition on the selected bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitTest {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

/// A test of selected bits of a value.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    test: BitTest,
    /// The selected bits. Words without any are left out, so that distant positions (up to 2^31) use no
    /// memory.
    words: Vec<Word>,
}

/// 64 bits of a value, and which of them are selected.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// The number of the word, counted from the lowest bits.
    at: usize,
    mask: u64,
}

const WORD_BITS: u32 = 64;
const WORD_BYTES: usize = 8;

impl Bits {
    /// Parses the bits as a mask (a number or binary data) or as an array of positions.
    pub(super) fn parse(test: BitTest, operand: RawBsonRef<'_>) -> Result<Self, Fault> {
        let words = if let Some(positions) = operand.as_array() {
            let positions = elements(positions).enumerate().map(|(at, position)| bit_position(at, position));
            words_of_positions(positions.collect::<Result<_, _>>()?)
        } else if let Some(binary) = operand.as_binary() {
            let masks = binary.bytes.chunks(WORD_BYTES).map(word_of_bytes).enumerate();
            masks.filter(|(_, mask)| *mask != 0).map(|(at, mask)| Word { at, mask }).collect()
        } else if index::number::Number::of(operand).is_some() {
            let mask = integer(operand).and_then(|mask| u64::try_from(mask).ok());
            let mask = mask.ok_or_else(|| Fault::Mask { found: describe(operand) })?;
            if mask == 0 { Vec::new() } else { vec![Word { at: 0, mask }] }
        } else {
            let expected = "a number, binary data or an array of positions";
            return Err(Fault::WrongType { expected, found: describe(operand) });
        };
        Ok(Self { test, words })
    }

    /// The operator that the test was parsed from.
    pub(super) fn operator(&self) -> &'static str {
        match self.test {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }

    /// Whether a value is a number or binary data whose bits meet the test.
    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        if let Some(binary) = value.as_binary() {
            return self.is_met(|at| binary_word(binary, at));
        }
        let Some(value) = integer(value) else { return false };
        // Two's complement goes on with the sign, so a mask longer than the number tests that.
        let sign = if value < 0 { u64::MAX } else { 0 };
        self.is_met(|at| if at == 0 { value.cast_unsigned() } else { sign })
    }

    /// Whether the test is met by a value whose words `bits` returns by number.
    fn is_met(&self, bits: impl Fn(usize) -> u64) -> bool {
        let mut words = self.words.iter();
        match self.test {
            BitTest::AllSet => words.all(|word| bits(word.at) & word.mask == word.mask),
            BitTest::AllClear => words.all(|word| bits(word.at) & word.mask == 0),
            BitTest::AnySet => words.any(|word| bits(word.at) & word.mask != 0),
            BitTest::AnyClear => words.any(|word| bits(word.at) & word.mask != word.mask),
        }
    }
}

/// One position of the array, which is the member `at`.
fn bit_position(at: usize, position: RawBsonRef<'_>) -> Result<u32, Fault> {
    // MongoDB reads positions as signed 32-bit integers, so 2^31 is rejected although it would fit below.
    let bit = integer(position).and_then(|position| i32::try_from(position).ok());
    let bit = bit.and_then(|bit| u32::try_from(bit).ok());
    bit.ok_or_else(|| Fault::BitPosition { position: at, found: describe(position) })
}

/// The words in which bits are selected by their positions.
fn words_of_positions(mut positions: Vec<u32>) -> Vec<Word> {
    // In ascending order all positions of a word come together, so looking at the last word is enough.
    positions.sort_unstable();
    let mut words: Vec<Word> = Vec::new();
    for position in positions {
        let (at, mask) = ((position / WORD_BITS) as usize, 1 << (position % WORD_BITS));
        match words.last_mut() {
            Some(last) if last.at == at => last.mask |= mask,
            Some(_) | None => words.push(Word { at, mask }),
        }
    }
    words
}

/// The word of binary data at a number, zero after its end.
fn binary_word(binary: RawBinaryRef<'_>, at: usize) -> u64 {
    let rest = at.checked_mul(WORD_BYTES).and_then(|start| binary.bytes.get(start..));
    rest.map_or(0, word_of_bytes)
}

/// The first eight bytes as a number, the lowest byte first. Missing bytes count as zero.
fn word_of_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    for (target, byte) in word.iter_mut().zip(bytes) {
        *target = *byte;
    }
    u64::from_le_bytes(word)
}
