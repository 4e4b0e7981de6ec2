//! Tokens: what a call is known by that is to happen exactly once.

use std::fmt;

use base::error::{Error, Result};
use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Uuid};
use smallvec::SmallVec;

use crate::arguments::{Arguments, FromArgument};

/// The limit of a token's bytes.
const BYTES_MAX: usize = 64;
const OBJECT_ID_BYTES: usize = 12;
const UUID_BYTES: usize = 16;

/// The name of a call that is to happen exactly once: an `ObjectId`, a UUID, a text or bytes, of 1 to 64 bytes.
///
/// [`Client::token`](crate::Client::token) makes one. A call and each repetition of it have the same token, and no other call has it. A text
/// and the bytes of its UTF-8 are one token.
///
/// A token that says when it was made, an `ObjectId` or a UUID of version 7, is rejected once it may have been forgotten; any other
/// one would be run again then. See [the page on exactly once](crate::guide::exactly_once).
///
/// ```
/// use cairndb::{Client, Token, bson::{Document, Uuid, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// let client = Client::in_memory()?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// for token in [client.token(), Uuid::new().into(), Token::from("order of cart 17")] {
///     let first = orders.insert_one(doc! { "item": "lamp" }).exactly_once(token.clone()).run()?;
///     let again = orders.insert_one(doc! { "item": "lamp" }).exactly_once(token).run()?;
///     assert_eq!((again.inserted_id, again.was_replayed), (first.inserted_id, true));
/// }
/// assert_eq!(orders.count_documents(doc! {}).run()?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    kind: TokenKind,
    /// Those with a time need no memory of their own.
    bytes: SmallVec<[u8; UUID_BYTES]>,
}

/// The information in a token beside being different from others. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TokenKind {
    /// An `ObjectId`, which begins with its seconds.
    ObjectId,
    /// A UUID of version 7, which begins with its milliseconds.
    TimedUuid,
    /// One without a time.
    Other,
}

impl TokenKind {
    pub(crate) const ALL: [Self; 3] = [Self::ObjectId, Self::TimedUuid, Self::Other];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::ObjectId => 1,
            Self::TimedUuid => 2,
            Self::Other => 3,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl FromArgument for Token {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        let Some(value) = arguments.given(field) else { return Ok(None) };
        let token = Self::of_bson(value).ok_or_else(|| {
            arguments.wrong_type(field, Some(value), "an ObjectId, a string or binary data")
        })?;
        token.check()?;
        Ok(Some(token))
    }
}

impl Token {
    /// A token as a command has it. Returns `None` if a value of that type is none.
    #[doc(hidden)]
    pub fn of_bson(value: &Bson) -> Option<Self> {
        if let Bson::ObjectId(id) = value {
            return Some((*id).into());
        }
        if let Bson::String(text) = value {
            return Some(text.as_str().into());
        }
        let Bson::Binary(Binary { subtype, bytes }) = value else { return None };
        match <[u8; UUID_BYTES]>::try_from(bytes.as_slice()) {
            Ok(uuid) if *subtype == BinarySubtype::Uuid => Some(Uuid::from_bytes(uuid).into()),
            Ok(_) | Err(_) => Some(bytes.as_slice().into()),
        }
    }

    pub(crate) fn kind(&self) -> TokenKind {
        self.kind
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Rejects a token that is empty or too long.
    pub(crate) fn check(&self) -> Result<()> {
        let len = self.bytes.len();
        if (1..=BYTES_MAX).contains(&len) {
            return Ok(());
        }
        let message = format!("a token of {len} bytes is none: one has 1 to {BYTES_MAX}");
        Err(Error::invalid_argument(message))
    }

    /// The time of the token, in milliseconds since 1970, if it has one.
    pub(crate) fn millis(&self) -> Option<u64> {
        match self.kind {
            TokenKind::ObjectId => {
                let seconds = self.bytes.first_chunk::<4>()?;
                Some(u64::from(u32::from_be_bytes(*seconds)) * 1000)
            }
            TokenKind::TimedUuid => {
                let millis = self.bytes.first_chunk::<6>()?;
                Some(millis.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            }
            TokenKind::Other => None,
        }
    }

    fn of(kind: TokenKind, bytes: &[u8]) -> Self {
        Self { kind, bytes: SmallVec::from_slice(bytes) }
    }
}

impl From<ObjectId> for Token {
    fn from(id: ObjectId) -> Self {
        debug_assert_eq!(id.bytes().len(), OBJECT_ID_BYTES);
        Self::of(TokenKind::ObjectId, &id.bytes())
    }
}

impl From<Uuid> for Token {
    fn from(uuid: Uuid) -> Self {
        let bytes = uuid.bytes();
        let version = bytes.get(6).map(|byte| byte >> 4);
        let kind = if version == Some(7) { TokenKind::TimedUuid } else { TokenKind::Other };
        Self::of(kind, &bytes)
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self::of(TokenKind::Other, text.as_bytes())
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&[u8]> for Token {
    fn from(bytes: &[u8]) -> Self {
        Self::of(TokenKind::Other, bytes)
    }
}

impl From<Vec<u8>> for Token {
    fn from(bytes: Vec<u8>) -> Self {
        Self { kind: TokenKind::Other, bytes: bytes.into() }
    }
}

impl From<&Token> for Token {
    fn from(token: &Token) -> Self {
        token.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?}, {})", self.kind, self.bytes.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_tell_when_they_were_made_if_they_know() {
        let id = ObjectId::from_bytes([0, 0, 1, 0, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(Token::from(id).millis(), Some(256_000));
        let mut bytes = [0; 16];
        bytes[4] = 1;
        bytes[6] = 0x7f;
        assert_eq!(Token::from(Uuid::from_bytes(bytes)).millis(), Some(256));
        bytes[6] = 0x4f;
        assert_eq!(Token::from(Uuid::from_bytes(bytes)).millis(), None);
        assert_eq!(Token::from("a text").millis(), None);
        assert_eq!(Token::from("a text"), Token::from(b"a text".to_vec()));
    }

    #[test]
    fn a_token_has_1_to_64_bytes() {
        for (len, is_one) in [(0, false), (1, true), (64, true), (65, false)] {
            assert_eq!(Token::from("x".repeat(len)).check().is_ok(), is_one, "{len}");
        }
    }

    #[test]
    fn values_of_commands_are_tokens_if_they_can_be() {
        let (id, uuid) = (ObjectId::from_bytes([1; 12]), Uuid::from_bytes([7; 16]));
        assert_eq!(Token::of_bson(&id.into()), Some(id.into()));
        assert_eq!(Token::of_bson(&uuid.into()), Some(uuid.into()));
        assert_eq!(Token::of_bson(&"a".into()), Some("a".into()));
        let generic = Binary { subtype: BinarySubtype::Generic, bytes: vec![7; 16] };
        assert_eq!(Token::of_bson(&generic.into()), Some(vec![7; 16].into()));
        assert_eq!(Token::of_bson(&Bson::Int32(1)), None);
    }
}
