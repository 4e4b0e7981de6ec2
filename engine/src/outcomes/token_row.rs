//! The rows of tokens, and their keys.

use base::error::{Error, Result};
use bson::{Document, RawDocument, RawDocumentBuf};
use index::writer::{Mark, Writer};
use store::Family;

use crate::outcomes::digest::DIGEST_BYTES;
use crate::outcomes::token::{Token, TokenKind};

/// The first byte of the keys of rows of tokens.
const TAG_TOKEN: u8 = 1;
/// The layout of the values.
const LAYOUT: u8 = 1;
const GENERATION_BYTES: usize = 4;
/// The length of what is before the result in a value.
const HEAD_BYTES: usize = 1 + DIGEST_BYTES + size_of::<u64>();
/// About how many bytes the result of a write of one document has.
const RESULT_BYTES: usize = 96;

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
    split_key(key).map(|(generation, _, _)| generation)
}

/// The generation of a key of a row, the kind of its token, and its bytes. `None` if no row has such a key.
pub(crate) fn split_key(key: &[u8]) -> Option<(u32, TokenKind, &[u8])> {
    let (tag, rest) = key.split_first()?;
    let (generation, rest) = rest.split_first_chunk::<GENERATION_BYTES>()?;
    let (kind, token) = rest.split_first()?;
    let is_row = (*tag, token.is_empty()) == (TAG_TOKEN, false);
    Some((u32::from_be_bytes(*generation), TokenKind::of_code(*kind)?, token)).filter(|_| is_row)
}

/// The row by which a call with a token is answered when it comes again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenRow {
    pub(crate) key: Vec<u8>,
    /// The digest of the call and its arguments.
    pub(crate) digest: [u8; DIGEST_BYTES],
    /// The time of its creation, in milliseconds since 1970.
    pub(crate) millis: u64,
    /// Its result. See `once`.
    pub(crate) result: RawDocumentBuf,
}

/// The stored form of a row that is being written: its result is not whole yet.
pub(crate) struct RowWriter {
    out: Writer,
    result: Mark,
}

impl RowWriter {
    /// A row of a call with a digest, without any field in its result.
    pub(crate) fn new(digest: &[u8; DIGEST_BYTES]) -> Self {
        let mut out = Writer::with_capacity(HEAD_BYTES + RESULT_BYTES);
        out.copy(&[LAYOUT]);
        out.copy(digest);
        // `finish` writes the time over these.
        out.copy(&[0; size_of::<u64>()]);
        let result = out.open();
        Self { out, result }
    }

    /// The fields of the result.
    pub(crate) fn fields(&mut self) -> &mut Writer {
        &mut self.out
    }

    /// Ends a row of a time, in milliseconds since 1970.
    pub(crate) fn finish(mut self, millis: u64) -> Vec<u8> {
        self.out.close(self.result);
        let mut bytes = self.out.into_bytes();
        if let Some(place) = bytes.get_mut(HEAD_BYTES - size_of::<u64>()..HEAD_BYTES) {
            place.copy_from_slice(&millis.to_be_bytes());
        }
        bytes
    }
}

impl TokenRow {
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
        Ok(Self { key: key.to_vec(), digest, millis, result })
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use bson::spec::ElementType;

    use super::*;

    /// A row of the call `3`, at 12, that changed a document.
    fn bytes() -> Vec<u8> {
        let mut row = RowWriter::new(&[3; DIGEST_BYTES]);
        row.fields().eight_bytes(ElementType::Int64, "n", 1_i64.to_le_bytes());
        row.finish(12)
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let key = key(&"a token".into(), 7);
        let row = TokenRow { key: key.clone(), digest: [3; 16], millis: 12, result: rawdoc! { "n": 1_i64 } };
        assert_eq!(TokenRow::decode(&key, &bytes()).expect("read"), row);
        assert_eq!(generation_of(&key), Some(7));
        let (first, end) = keys_of(Some(7));
        assert!(first <= key && key < end);
        let (first, end) = keys_of(None);
        assert!(first <= key && key < end && keys_of(Some(u32::MAX)).1 == end);
    }

    #[test]
    fn no_bytes_are_read_as_a_row_that_was_not_written() {
        let key = key(&"a token".into(), 7);
        let bytes = bytes();
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
