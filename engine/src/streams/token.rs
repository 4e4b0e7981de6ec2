//! Resume tokens: where in the log a stream has been.

use base::codes::refused;
use base::error::{Error, NON_RESUMABLE_CHANGE_STREAM_ERROR, Result};
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use index::writer::Writer;
use query::code::Code;
use serde::{Deserialize, Serialize};

use crate::changes::log::LogId;

const VERSION: u8 = 1;
/// The only field of a token.
const DATA_FIELD: &str = "_data";
/// Of the log's id.
const ID_BYTES: usize = 4;
const TOKEN_BYTES: usize = 1 + 8 + 4 + 1 + ID_BYTES;

/// Where a change stream has been: a later stream goes on after it.
///
/// It can be stored like any document, with serde. A program that stores the token of an event together with what it makes of the event
/// goes on just there after a crash.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let mut stream = orders.watch().run()?;
/// orders.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run()?;
/// let first = stream.next().expect("a stream has no end")?;
/// drop(stream);
///
/// let mut stream = orders.watch().resume_after(first.id).run()?;
/// let second = stream.next().expect("a stream has no end")?;
/// assert_eq!(second.document_key, Some(doc! { "_id": 2 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResumeToken {
    #[serde(rename = "_data")]
    data: String,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TokenKind {
    /// An event.
    Event,
    /// The end of the stream after an event.
    Invalidate,
    /// No event: everything up to its position was seen.
    Watermark,
}

/// A token, split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) position: u64,
    pub(super) ordinal: u32,
    pub(super) kind: TokenKind,
}

impl Place {
    pub(super) fn event(position: u64, ordinal: u32) -> Self {
        Self { position, ordinal, kind: TokenKind::Event }
    }

    /// After everything up to a position.
    pub(super) fn watermark(position: u64) -> Self {
        Self { position, ordinal: u32::MAX, kind: TokenKind::Watermark }
    }

    /// The token of the place in a log.
    pub(super) fn token(self, log: LogId) -> ResumeToken {
        ResumeToken { data: self.digits(log).as_str().to_owned() }
    }

    /// The string of the token. It is made for each event, so without the machinery of formats, and without memory of its own.
    pub(super) fn digits(self, log: LogId) -> TokenDigits {
        let kind: u8 = match self.kind {
            TokenKind::Event => 0,
            TokenKind::Invalidate => 1,
            TokenKind::Watermark => 2,
        };
        let [a, b, c, d, ..] = log;
        let id = u32::from_be_bytes([a, b, c, d]);
        let front = u128::from(VERSION) << 120
            | u128::from(self.position) << 56
            | u128::from(self.ordinal) << 24
            | u128::from(kind) << 16
            | u128::from(id >> 16);
        let mut digits = [0; 2 * TOKEN_BYTES];
        let (eights, end) = digits.as_chunks_mut();
        for (eight, word) in eights.iter_mut().zip(front.to_be_bytes().as_chunks().0) {
            *eight = eight_digits(u32::from_be_bytes(*word));
        }
        for (digit, of_id) in end.iter_mut().zip(eight_digits(id << 16)) {
            *digit = of_id;
        }
        TokenDigits(digits)
    }
}

/// The hexadecimal digits of a word.
fn eight_digits(word: u32) -> [u8; 8] {
    // A half of a byte in each of eight bytes.
    let mut halves = u64::from(word);
    halves = (halves | halves << 16) & 0x0000_FFFF_0000_FFFF;
    halves = (halves | halves << 8) & 0x00FF_00FF_00FF_00FF;
    halves = (halves | halves << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    // Those of ten and more reach sixteen, and are letters: seven further on.
    let letters = ((halves + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (halves + 0x3030_3030_3030_3030 + letters * 7).to_be_bytes()
}

/// The string of a token: hexadecimal digits.
#[derive(Clone, Copy)]
pub(super) struct TokenDigits([u8; 2 * TOKEN_BYTES]);

impl TokenDigits {
    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Appends the token, which is a document, as a field.
    pub(super) fn write(&self, name: &str, out: &mut Writer) {
        out.document_of(name, |out| out.string(DATA_FIELD, self.as_str()));
    }

    /// Whether a document is the token.
    pub(super) fn is(&self, document: &RawDocument) -> bool {
        let mut fields = document.iter();
        let data = fields.next().and_then(std::result::Result::ok);
        let is_data =
            data.is_some_and(|(name, value)| name == DATA_FIELD && value.as_str() == Some(self.as_str()));
        is_data && fields.next().is_none()
    }
}

impl ResumeToken {
    /// The token as a document.
    pub(crate) fn to_document(&self) -> RawDocumentBuf {
        rawdoc! { "_data": self.data.as_str() }
    }

    /// The place of the token in a log.
    ///
    /// # Errors
    /// With code 260, if it is not a token, or one of another log.
    pub(super) fn place(&self, log: LogId) -> Result<Place> {
        let bytes = self.bytes().ok_or_else(|| self.refused("it is not 18 bytes in hexadecimal digits"))?;
        let [version, rest @ ..] = bytes;
        if version != VERSION {
            return Err(self.refused(&format!("its version is {version}")));
        }
        let (position, rest) =
            rest.split_first_chunk::<8>().ok_or_else(|| self.refused("it is too short"))?;
        let (ordinal, rest) = rest.split_first_chunk::<4>().ok_or_else(|| self.refused("it is too short"))?;
        let kind = match rest.first() {
            Some(0) => TokenKind::Event,
            Some(1) => TokenKind::Invalidate,
            Some(2) => TokenKind::Watermark,
            Some(_) | None => return Err(self.refused("it is of no kind of token")),
        };
        if rest.get(1..) != log.get(..ID_BYTES) {
            return Err(self.refused("it is of another store, or of a copy that goes its own way"));
        }
        let (position, ordinal) = (u64::from_be_bytes(*position), u32::from_be_bytes(*ordinal));
        Ok(Place { position, ordinal, kind })
    }

    fn bytes(&self) -> Option<[u8; TOKEN_BYTES]> {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pairs = self.data.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        // A longer one is refused before it is read.
        let is_long = self.data.len() > 2 * TOKEN_BYTES;
        bytes.take_while(|_| !is_long).collect::<Option<Vec<_>>>()?.try_into().ok()
    }

    #[cold]
    pub(super) fn refused(&self, why: &str) -> Error {
        let shown: String = self.data.chars().take(2 * TOKEN_BYTES).collect();
        refused(Code::INVALID_RESUME_TOKEN, format!("the resume token '{shown}' cannot be used: {why}"))
    }
}

/// The error of a stream that cannot be continued.
#[cold]
pub(super) fn lost(why: &str) -> Error {
    let message = format!("the change stream cannot be continued from this point of the log: {why}");
    refused(Code::CHANGE_STREAM_HISTORY_LOST, message).with_label(NON_RESUMABLE_CHANGE_STREAM_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = [1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn tokens_come_back_and_sort_as_their_places() {
        let kinds = [TokenKind::Event, TokenKind::Invalidate, TokenKind::Watermark];
        let mut tokens = Vec::new();
        for position in [0, 1, 255, 256, u64::MAX] {
            for ordinal in [0, 1, u32::MAX] {
                for kind in kinds {
                    let place = Place { position, ordinal, kind };
                    let token = place.token(LOG);
                    assert_eq!(token.place(LOG).expect("a token"), place);
                    tokens.push(token.data);
                }
            }
        }
        assert!(tokens.is_sorted());
    }

    #[test]
    fn every_other_text_is_refused() {
        let token = Place::event(7, 1).token(LOG);
        assert_eq!(token.place([9; 8]).expect_err("another log").code(), Some(260));
        for data in ["", "01", "no digits at all", "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1", "Ä"] {
            let refused = ResumeToken { data: data.to_owned() }.place(LOG).expect_err(data);
            assert_eq!(refused.code(), Some(260), "{data}");
        }
        for at in [0, 27] {
            let mut data = token.data.clone();
            data.replace_range(at..=at, "F");
            assert_eq!(ResumeToken { data }.place(LOG).expect_err("changed").code(), Some(260), "{at}");
        }
        let long = ResumeToken { data: "00".repeat(1 << 20) };
        assert!(long.place(LOG).expect_err("long").to_string().len() < 200);
    }
}
