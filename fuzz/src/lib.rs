//! From the fuzzer's bytes to BSON values of every type, shared by all targets.
//!
//! Each byte decides something: a type, a length, a digit. Any input gives valid values, and a small
//! change of the input a small change of a value, so that the fuzzer can approach two values that
//! are almost equal. When the input ends, everything that is still asked for is empty or zero.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Decimal128, RawBsonRef};

/// The deepest nesting that is made.
const DEPTH_MAX: u32 = 40;

/// The unread rest of the fuzzer's bytes.
pub struct Input<'a> {
    bytes: &'a [u8],
}

/// A BSON value in its stored form.
#[derive(Clone, PartialEq)]
pub struct Value {
    document: RawDocumentBuf,
}

impl Value {
    /// The value.
    pub fn get(&self) -> RawBsonRef<'_> {
        let first = self.document.iter().next().expect("a value stands in a document of one field");
        first.expect("only valid values are made").1
    }

    /// The document of one field, with the empty name, that holds the value.
    pub fn document(&self) -> &RawDocument {
        &self.document
    }

    fn new(element_type: u8, bytes: &[u8]) -> Self {
        let mut document = vec![0, 0, 0, 0, element_type, 0];
        document.extend(bytes);
        end_document(&mut document, 0);
        let document = RawDocumentBuf::from_bytes(document).expect("the length is filled in");
        Self { document }
    }
}

impl<'a> Input<'a> {
    /// An input of all bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The unread part.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next byte, zero behind the end.
    pub fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// The next bytes, zeros behind the end.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (taken, rest) = self.bytes.split_at(N.min(self.bytes.len()));
        self.bytes = rest;
        for (place, byte) in array.iter_mut().zip(taken) {
            *place = *byte;
        }
        array
    }

    /// A value of any type.
    pub fn value(&mut self) -> Value {
        let mut bytes = Vec::new();
        let element_type = self.write_value(&mut bytes, 0);
        Value::new(element_type, &bytes)
    }

    /// A document with any fields.
    pub fn document(&mut self) -> RawDocumentBuf {
        let mut bytes = Vec::new();
        self.write_document(&mut bytes, 0);
        RawDocumentBuf::from_bytes(bytes).expect("the length is filled in")
    }

    /// Appends a value and gives the type that is before its name.
    fn write_value(&mut self, out: &mut Vec<u8>, depth: u32) -> u8 {
        let choice = self.byte();
        match choice % 32 {
            0 => return 0xff,
            1 => return 0x7f,
            2 => return 0x06,
            3 => return 0x0a,
            4..=8 => return self.write_number(out),
            9 | 10 => return self.write_text(0x02, out),
            11 => return self.write_text(0x0e, out),
            12 => return self.write_text(0x0d, out),
            13..=16 if depth < DEPTH_MAX => {
                self.write_document(out, depth + 1);
                return 0x03;
            }
            17..=20 if depth < DEPTH_MAX => {
                self.write_array(out, depth + 1);
                return 0x04;
            }
            21 if depth < DEPTH_MAX => {
                let start = out.len();
                out.extend([0; 4]);
                self.write_text(0x02, out);
                self.write_document(out, depth + 1);
                let len = out.len() - start;
                fill_len(out, start, len);
                return 0x0f;
            }
            22 => return self.write_binary(out),
            23 => {
                let id: [u8; 12] = self.array();
                out.extend(id);
                return 0x07;
            }
            24 => {
                let id = [self.byte(); 12];
                out.extend(id);
                return 0x07;
            }
            25 => {
                out.push(self.byte() & 1);
                return 0x08;
            }
            26 => out.extend(self.integer().to_le_bytes()),
            27 => {
                let timestamp: [u8; 8] = self.array();
                out.extend(timestamp);
                return 0x11;
            }
            28 => {
                self.write_cstring(out);
                let options = self.byte();
                out.extend(
                    b"ilmsux".iter().enumerate().filter(|(at, _)| options >> at & 1 == 1).map(|(_, c)| c),
                );
                out.push(0);
                return 0x0b;
            }
            29 => {
                self.write_text(0x02, out);
                let id = [self.byte(); 12];
                out.extend(id);
                return 0x0c;
            }
            _ => return self.write_number(out),
        }
        0x09
    }

    fn write_number(&mut self, out: &mut Vec<u8>) -> u8 {
        match self.byte() % 8 {
            0 => {
                let integer: [u8; 4] = self.array();
                out.extend(integer);
                0x10
            }
            1 => {
                out.extend(i32::from(self.byte().cast_signed()).to_le_bytes());
                0x10
            }
            2 => {
                out.extend(self.integer().to_le_bytes());
                0x12
            }
            3 => {
                #[expect(clippy::cast_precision_loss, reason = "any double will do")]
                let double = self.integer() as f64;
                let step = i64::from(self.byte().cast_signed() / 32);
                out.extend(double.to_bits().saturating_add_signed(step).to_le_bytes());
                0x01
            }
            4 => {
                let bits: [u8; 8] = self.array();
                out.extend(bits);
                0x01
            }
            5 => {
                let bits: [u8; 16] = self.array();
                out.extend(bits);
                0x13
            }
            6 => {
                // A decimal right at a double, or one digit away from it.
                let double = f64::from_le_bytes(self.array());
                let digits = usize::from(self.byte() % 34);
                let text =
                    if double.is_finite() { format!("{double:.digits$e}") } else { double.to_string() };
                out.extend(text.parse().unwrap_or(Decimal128::from_bytes([0x7c; 16])).bytes());
                0x13
            }
            _ => {
                let coefficient = u128::from(self.integer().unsigned_abs());
                let zeros = 10_u128.pow(u32::from(self.byte() % 15));
                let exponent = i64::from(i16::from_le_bytes(self.array())) % 6177;
                let sign = u128::from(self.byte() & 1);
                let biased = u128::from((exponent + 6176).unsigned_abs().min(12_287));
                out.extend((sign << 127 | biased << 113 | coefficient * zeros).to_le_bytes());
                0x13
            }
        }
    }

    /// An integer of any size, often close to a power of two.
    fn integer(&mut self) -> i64 {
        let [form, shift, step] = self.array();
        let step = i64::from(step.cast_signed());
        match form % 4 {
            0 => step,
            1 => (1_i64 << (shift % 64)).wrapping_add(step),
            2 => (1_i64 << (shift % 64)).wrapping_neg().wrapping_add(step),
            _ => i64::from_le_bytes(self.array()),
        }
    }

    fn write_binary(&mut self, out: &mut Vec<u8>) -> u8 {
        let [len, subtype] = self.array();
        let len = if len == 0xff { 300 } else { usize::from(len % 16) };
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        let inner = if subtype == 2 { 4 } else { 0 };
        let start = out.len();
        out.extend([0; 4]);
        fill_len(out, start, taken.len() + inner);
        out.push(subtype);
        if inner > 0 {
            let start = out.len();
            out.extend([0; 4]);
            fill_len(out, start, taken.len());
        }
        out.extend(taken);
        0x05
    }

    /// Text of up to fifteen bytes, each a character below 128, or a few larger ones.
    fn characters(&mut self) -> String {
        let len = self.byte() % 16;
        (0..len)
            .map(|_| match self.byte() {
                byte @ 0..0x80 => char::from(byte),
                byte @ 0x80..0xf0 => char::from_u32(u32::from(byte) << 5).unwrap_or('\u{ffff}'),
                byte => char::from_u32(u32::from(byte) << 12).unwrap_or('\u{10ffff}'),
            })
            .collect()
    }

    fn write_text(&mut self, element_type: u8, out: &mut Vec<u8>) -> u8 {
        let text = self.characters();
        let start = out.len();
        out.extend([0; 4]);
        fill_len(out, start, text.len() + 1);
        out.extend(text.as_bytes());
        out.push(0);
        element_type
    }

    fn write_cstring(&mut self, out: &mut Vec<u8>) {
        let text = self.characters();
        out.extend(text.bytes().filter(|byte| *byte != 0));
        out.push(0);
    }

    fn write_document(&mut self, out: &mut Vec<u8>, depth: u32) {
        let start = out.len();
        out.extend([0; 4]);
        for _ in 0..self.byte() % 6 {
            let type_at = out.len();
            out.push(0);
            self.write_cstring(out);
            let element_type = self.write_value(out, depth);
            fill(out, type_at, &[element_type]);
        }
        end_document(out, start);
    }

    fn write_array(&mut self, out: &mut Vec<u8>, depth: u32) {
        let start = out.len();
        out.extend([0; 4]);
        for position in 0..self.byte() % 6 {
            let type_at = out.len();
            out.extend([0, b'0' + position, 0]);
            let element_type = self.write_value(out, depth);
            fill(out, type_at, &[element_type]);
        }
        end_document(out, start);
    }
}

fn end_document(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let len = out.len() - start;
    fill_len(out, start, len);
}

fn fill_len(out: &mut [u8], at: usize, len: usize) {
    let len = i32::try_from(len).expect("the fuzzer's inputs are short");
    fill(out, at, &len.to_le_bytes());
}

fn fill(out: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in out.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}
