//! The rows of writes that may be repeated, and their keys.

use std::time::{SystemTime, UNIX_EPOCH};

use base::error::{Error, Result};
use bson::{Document, RawDocument, RawDocumentBuf};
use store::Family;

/// The first byte of the keys of rows of sessions.
const TAG_SESSION: u8 = 2;
/// The layout of the values.
const LAYOUT: u8 = 1;
/// The length of what stands before the slot in a key.
pub(crate) const SESSION_KEY_BYTES: usize = 33;
/// The length of what stands before the results in a value.
const HEAD_BYTES: usize = 26;
/// The length of a number of a slot or a statement.
const SLOT_BYTES: usize = 4;

/// A session and its user, as the keys of its rows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey([u8; SESSION_KEY_BYTES]);

impl SessionKey {
    pub(crate) fn new(session: [u8; 16], user: [u8; 16]) -> Self {
        let mut key = [TAG_SESSION; SESSION_KEY_BYTES];
        let parts = session.into_iter().chain(user);
        key.iter_mut().skip(1).zip(parts).for_each(|(byte, part)| *byte = part);
        Self(key)
    }

    /// The session that a key of a row is of. `None` if no row has such a key.
    pub(crate) fn of_row(key: &[u8]) -> Option<Self> {
        let (session, _) = split_key(key)?;
        Some(Self(session))
    }

    /// The id that the client gave the session.
    pub(crate) fn id(&self) -> &[u8] {
        self.0.get(1..17).unwrap_or_default()
    }

    /// Before the rows of all sessions, and after those of tokens.
    pub(crate) fn first_row() -> Vec<u8> {
        vec![TAG_SESSION]
    }

    /// The key of a row of the session.
    pub(crate) fn row(&self, slot: u32) -> Vec<u8> {
        [&self.0[..], &slot.to_be_bytes()].concat()
    }

    /// The keys of its rows: from the first one on, and before the second one.
    pub(crate) fn rows(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut end = self.0.to_vec();
        // The tag is no 0xff, so there is a byte to count up.
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (self.0.to_vec(), Some(end))
    }
}

fn split_key(key: &[u8]) -> Option<([u8; SESSION_KEY_BYTES], u32)> {
    let (session, slot) = key.split_first_chunk::<SESSION_KEY_BYTES>()?;
    let slot = u32::from_be_bytes(<[u8; SLOT_BYTES]>::try_from(slot).ok()?);
    (session.first() == Some(&TAG_SESSION)).then_some((*session, slot))
}

/// What a command does that has rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Delete,
    FindAndModify,
    /// The commit of a transaction.
    Commit,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Insert, Self::Update, Self::Delete, Self::FindAndModify, Self::Commit];

    fn code(self) -> u8 {
        match self {
            Self::Insert => 1,
            Self::Update => 2,
            Self::Delete => 3,
            Self::FindAndModify => 4,
            Self::Commit => 5,
        }
    }

    /// The name of the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::FindAndModify => "findAndModify",
            Self::Commit => "commitTransaction",
        }
    }

    /// Whether one command can have rows of both kinds: a `bulkWrite` inserts, updates and deletes.
    pub(crate) fn can_be_with(self, other: Self) -> bool {
        let is_of_bulk = |kind| [Self::Insert, Self::Update, Self::Delete].contains(&kind);
        self == other || (is_of_bulk(self) && is_of_bulk(other))
    }
}

/// What one commit of a command has done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The number that the client gave the command.
    pub(crate) number: i64,
    /// When it was made, in milliseconds since 1970.
    pub(crate) millis: u64,
    /// The statements of the command that were done: the first and the last.
    pub(crate) statements: (u32, u32),
    pub(crate) kind: Kind,
    /// What the reply says of them. See `retryable::Effect`.
    pub(crate) results: RawDocumentBuf,
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (first, last) = self.statements;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.results.as_bytes().len());
        bytes.push(LAYOUT);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.millis.to_be_bytes());
        bytes.extend(first.to_be_bytes());
        bytes.extend(last.to_be_bytes());
        bytes.push(self.kind.code());
        bytes.extend(self.results.as_bytes());
        bytes
    }

    /// Reads a row. Stored bytes that are none are a corruption, whatever they are.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let damaged = |reason: &str| Error::corruption(Family::Outcomes.name(), key, reason.to_owned());
        if split_key(key).is_none() {
            return Err(damaged("the key is not a session and a slot"));
        }
        let (head, results) =
            value.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| damaged("the row is too short"))?;
        let (layout, rest) = head.split_first().ok_or_else(|| damaged("the row is too short"))?;
        if *layout != LAYOUT {
            return Err(damaged("the row has an unknown layout"));
        }
        let numbers = || {
            let (number, rest) = rest.split_first_chunk()?;
            let (millis, rest) = rest.split_first_chunk()?;
            let (first, rest) = rest.split_first_chunk()?;
            let (last, rest) = rest.split_first_chunk()?;
            let statements = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
            Some((i64::from_be_bytes(*number), u64::from_be_bytes(*millis), statements, *rest.first()?))
        };
        let (number, millis, statements, kind) = numbers().ok_or_else(|| damaged("the row is too short"))?;
        let kind = Kind::ALL.into_iter().find(|known| known.code() == kind);
        let kind = kind.ok_or_else(|| damaged("the row is of an unknown command"))?;
        if statements.0 > statements.1 || number < 0 {
            return Err(damaged("the row names no statements"));
        }
        let results = RawDocument::from_bytes(results)
            .and_then(|results| Document::try_from(results).map(|_| results.to_owned()))
            .map_err(|_| damaged("the results of the row are not BSON"))?;
        Ok(Self { number, millis, statements, kind, results })
    }

    /// How long ago it was made. Nothing, if the clock was set back.
    pub(crate) fn age_millis(&self) -> u64 {
        now_millis().saturating_sub(self.millis)
    }
}

/// The time in milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn row() -> Row {
        Row { number: 7, millis: 12, statements: (3, 4), kind: Kind::Update, results: rawdoc! { "a": 1 } }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let key = SessionKey::new([1; 16], [u8::MAX; 16]);
        for kind in Kind::ALL {
            let row = Row { kind, ..row() };
            assert_eq!(Row::decode(&key.row(5), &row.encode()).expect("a row"), row);
        }
        assert_eq!(SessionKey::of_row(&key.row(5)), Some(key));
        let (first, end) = key.rows();
        assert!(first <= key.row(0) && Some(key.row(u32::MAX)) < end);
        // The next session begins behind it.
        assert!(end <= Some(SessionKey::new([2; 16], [0; 16]).row(0)));
    }

    #[test]
    fn no_bytes_are_read_as_a_row_that_was_not_written() {
        let key = SessionKey::new([1; 16], [2; 16]).row(0);
        let bytes = row().encode();
        for end in 0..bytes.len() {
            let error = Row::decode(&key, &bytes[..end]).expect_err("it is cut");
            assert!(error.is_corruption(), "{error:?}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            // Whatever it is, it is not a panic.
            if let Err(error) = Row::decode(&key, &damaged) {
                assert!(error.is_corruption(), "{error:?}");
            }
        }
        for key in [&b""[..], &key[1..], &[&key[..], &[0]].concat()] {
            assert!(Row::decode(key, &bytes).expect_err("no key").is_corruption());
        }
    }
}
