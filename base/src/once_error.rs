//! Errors of tokens for calls that are to happen exactly once.

use query::code::Code;

/// The reason why a call with a token was not run. Nothing was changed by it.
///
/// ```
/// use cairndb::{Client, ErrorKind, ExactlyOnceError, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// let client = Client::in_memory()?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_one(doc! { "_id": 1 }).exactly_once("sign-up 7").run()?;
/// let refused = people.insert_one(doc! { "_id": 2 }).exactly_once("sign-up 7").run().expect_err("another document");
/// assert!(matches!(refused.kind(), ErrorKind::ExactlyOnce(ExactlyOnceError::Reused { .. })));
/// assert_eq!(refused.code(), Some(72));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExactlyOnceError {
    /// Code 72: the token belongs to another call, or to the same one with other arguments.
    #[error("the token was given to {first}, and this call, {now}, is another one")]
    #[non_exhaustive]
    Reused {
        /// The call that the token was given to: its name, and its collection if it has one.
        first: String,
        /// This call.
        now: String,
    },
    /// Code 225: the token was made before the oldest ones that are remembered. Whether it was used is not known any more, so it is
    /// never run.
    #[error(
        "the token was made {} s before the oldest token that is remembered for sure: whether it was used is not known",
        seconds
    )]
    #[non_exhaustive]
    TooOld {
        /// By how many seconds it is too old.
        seconds: u64,
    },
    /// Code 146: the tokens that are remembered have as many bytes as they may. None is forgotten early.
    #[error("the tokens that are remembered have the {bytes_max} bytes that they may have")]
    #[non_exhaustive]
    Full {
        /// The limit of their bytes.
        bytes_max: u64,
    },
    /// Code 256: the transaction of that token is committed already.
    #[error("the transaction of this token is committed already")]
    Done,
}

#[doc(hidden)]
impl ExactlyOnceError {
    pub fn reused(first: String, now: String) -> Self {
        Self::Reused { first, now }
    }

    pub fn too_old(seconds: u64) -> Self {
        Self::TooOld { seconds }
    }

    pub fn full(bytes_max: u64) -> Self {
        Self::Full { bytes_max }
    }

    /// MongoDB's code.
    pub fn code(&self) -> Code {
        match self {
            Self::Reused { .. } => Code::INVALID_OPTIONS,
            Self::TooOld { .. } => Code::TRANSACTION_TOO_OLD,
            Self::Full { .. } => Code::EXCEEDED_MEMORY_LIMIT,
            Self::Done => Code::TRANSACTION_COMMITTED,
        }
    }
}
