//! The rows of tokens, and their keys.

use base::error::{Error, Result};
use bson::{Document, RawDocument, RawDocumentBuf};
use store::Family;

use crate::outcomes::digest::DIGEST_BYTES;
use crate::outcomes::token::{Token, TokenKind};

/// The first byte of the keys of rows of tokens.
const TAG_TOKEN: u8 = 1;
/// The layout of the values.
const LAYOUT: u8 = 1;
const GENERATION_BYTES: usize = 4;
/// The length of what is before the result in a value.
const HEAD_BYTES: usize = 1 + DIGEST_BYTES + 8;

/// The key of the row of a token in a generation.
pub(crate) fn key(token: &Token, generation: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + GENERATION_BYTES + token.bytes().len());
    key.push(TAG_TOKEN);
    key.extend(generation.to_be_bytes());
    key.push(token.kind().code());
    key.extend(token.bytes());
    key
}

/// The keys of all rows of tokens, or of those of one generation: from the first one on, and before the second one.
pub(crate) fn keys_of(generation: Option<u32>) -> (Vec<u8>, Vec<u8>) {
    let tagged = |generation: u32| [&[TAG_TOKEN][..], &generation.to_be_bytes()].concat();
    let after_all = vec![TAG_TOKEN + 1];
    match generation {
        None => (vec![TAG_TOKEN], after_all),
        Some(generation) => (tagged(generation), generation.checked_add(1).map_or(after_all, tagged)),
    }
}

/// Whether a key is that of a row of a token, or a damaged one of it.
pub(crate) fn is_of_token(key: &[u8]) -> bool {
    key.first() == Some(&TAG_TOKEN)
}

/// The generation of a key of a row. `None` if no row has such a key.
pub(crate) fn generation_of(key: &[u8]) -> Option<u32> {
    let (tag, rest) = key.split_first()?;
    let (generation, rest) = rest.split_first_chunk::<GENERATION_BYTES>()?;
    let (kind, token) = rest.split_first()?;
    TokenKind::of_code(*kind)?;
    ((*tag, token.is_empty()) == (TAG_TOKEN, false)).then(|| u32::from_be_bytes(*generation))
}

/// The row by which a call with a token is answered when it comes again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenRow {
    /// The digest of the call and its arguments.
    pub(crate) digest: [u8; DIGEST_BYTES],
    /// The time of its creation, in milliseconds since 1970.
    pub(crate) millis: u64,
    /// Its result. See `once`.
    pub(crate) result: RawDocumentBuf,
}

impl TokenRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let result = self.result.as_bytes();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + result.len());
        bytes.push(LAYOUT);
        bytes.extend(self.digest);
        bytes.extend(self.millis.to_be_bytes());
        bytes.extend(result);
        bytes
    }

    /// Reads a row. Stored bytes that are none are a corruption, whatever they are.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let damaged = |reason: &str| Error::corruption(Family::Outcomes.name(), key, reason.to_owned());
        if generation_of(key).is_none() {
            return Err(damaged("the key is not a generation and a token"));
        }
        let parts = || {
            let (layout, rest) = value.split_first()?;
            let (digest, rest) = rest.split_first_chunk()?;
            let (millis, result) = rest.split_first_chunk()?;
            Some((*layout, *digest, u64::from_be_bytes(*millis), result))
        };
        let (layout, digest, millis, result) = parts().ok_or_else(|| damaged("the row is too short"))?;
        if layout != LAYOUT {
            return Err(damaged("the row has an unknown layout"));
        }
        let result = RawDocument::from_bytes(result)
            .and_then(|result| Document::try_from(result).map(|_| result.to_owned()))
            .map_err(|_| damaged("the result of the row is not BSON"))?;
        Ok(Self { digest, millis, result })
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let key = key(&"a token".into(), 7);
        let row = TokenRow { digest: [3; 16], millis: 12, result: rawdoc! { "n": 1_i64 } };
        assert_eq!(TokenRow::decode(&key, &row.encode()).expect("read"), row);
        assert_eq!(generation_of(&key), Some(7));
        let (first, end) = keys_of(Some(7));
        assert!(first <= key && key < end);
        let (first, end) = keys_of(None);
        assert!(first <= key && key < end && keys_of(Some(u32::MAX)).1 == end);
    }

    #[test]
    fn no_bytes_are_read_as_a_row_that_was_not_written() {
        let key = key(&"a token".into(), 7);
        let row = TokenRow { digest: [3; 16], millis: 12, result: rawdoc! { "n": 1_i64 } };
        let bytes = row.encode();
        for end in 0..bytes.len() {
            assert!(TokenRow::decode(&key, &bytes[..end]).expect_err("it is cut").is_corruption());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            if let Err(error) = TokenRow::decode(&key, &damaged) {
                assert!(error.is_corruption(), "{error:?}");
            }
        }
        for key in [&b""[..], &key[1..], &key[..6], &[1, 0, 0, 0, 1, 9, 1]] {
            assert!(TokenRow::decode(key, &bytes).expect_err("no key").is_corruption());
        }
    }
}
