//! `OP_QUERY` of the legacy protocol, of which only commands are left.

use bytes::Bytes;

use crate::frame::header::HEADER_BYTES;
use crate::frame::{FrameError, take_document, take_i32, take_name};

/// A query of the legacy protocol.
///
/// ```
/// use cairndb::bson::rawdoc;
/// use cairndb_server::frame::query::Query;
///
/// let document = rawdoc! { "isMaster": 1 }.into_bytes();
/// // 16 bytes of header, then flags, namespace, the numbers to skip and to return, and the command.
/// let message = [&[0; 20][..], b"admin.$cmd\0", &[0; 8], &document].concat();
/// assert_eq!(Query::parse(&message.into())?.command_database(), Some("admin"));
/// # Ok::<(), cairndb_server::frame::FrameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// `database.collection`. The namespace of a command ends with `.$cmd`.
    pub namespace: String,
    /// The query. Only its length was checked.
    pub document: Bytes,
}

impl Query {
    /// Reads a whole message, its header included.
    ///
    /// # Errors
    /// The message ends within a part, or bytes follow its end.
    ///
    /// The example of [`Query`] reads one.
    pub fn parse(message: &Bytes) -> Result<Self, FrameError> {
        let mut rest = message.get(HEADER_BYTES..).ok_or(FrameError::Truncated("the header"))?;
        // None of the flags, nor of the numbers below, means anything for a command.
        take_i32(&mut rest, "the flags")?;
        let namespace = take_name(&mut rest, "the namespace")?.to_owned();
        take_i32(&mut rest, "the number to skip")?;
        take_i32(&mut rest, "the number to return")?;
        let document = message.slice_ref(take_document(&mut rest, "the query")?);
        if !rest.is_empty() {
            // A projection, which a command does not have. It is read to find out whether bytes follow it.
            take_document(&mut rest, "the fields")?;
        }
        if rest.is_empty() { Ok(Self { namespace, document }) } else { Err(FrameError::Trailing(rest.len())) }
    }

    /// The database of a command. Returns `None` for a query of a collection.
    pub fn command_database(&self) -> Option<&str> {
        self.namespace.strip_suffix(".$cmd")
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::rawdoc;

    use super::*;

    fn query(following: &[u8]) -> Bytes {
        let document = rawdoc! { "ismaster": 1 }.into_bytes();
        let numbers = [0, 0, 0, 0, 255, 255, 255, 255];
        let parts: [&[u8]; 6] =
            [&[0; HEADER_BYTES], &[0; 4], b"admin.$cmd\0", &numbers, &document, following];
        parts.concat().into()
    }

    #[test]
    fn a_command_is_read() {
        let read = Query::parse(&query(&[])).expect("a query");
        assert_eq!(read.command_database(), Some("admin"));
        assert_eq!(read.document, rawdoc! { "ismaster": 1 }.into_bytes());
        assert!(Query::parse(&query(rawdoc! {}.as_bytes())).is_ok());
    }

    #[test]
    fn every_truncation_is_refused() {
        let whole = query(&[]);
        for length in 0..whole.len() {
            assert!(Query::parse(&whole.slice(..length)).is_err(), "{length}");
        }
        assert_eq!(Query::parse(&query(&[5, 0, 0, 0, 0, 1])), Err(FrameError::Trailing(1)));
    }
}
