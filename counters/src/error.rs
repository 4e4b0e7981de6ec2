//! The error of a call. What a sequence rejects has SequoiaDB's numbers, as in the engine; everything else is the
//! error of the store or of MongoDB's driver.

use sequence::error::SequenceError;

/// The result of every fallible call.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a call. It is one word.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of failures.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A sequence, or an auto-increment field, rejects the call.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// A contract that there is no counterpart for.
    #[error("{0}")]
    Unsupported(String),
    /// A document that is not a document, or a counter that is none.
    #[error("{0}")]
    Bson(String),
    /// The store of CairnDB failed.
    #[cfg(feature = "cairndb")]
    #[error(transparent)]
    Store(#[from] cairndb::Error),
    /// MongoDB's driver failed.
    #[cfg(feature = "mongodb")]
    #[error(transparent)]
    Driver(#[from] mongodb::error::Error),
}

impl Error {
    /// The kind of failure, for `match`.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// SequoiaDB's number of what a sequence rejects: -325 where no value is left, -324 where no such sequence exists, -6
    /// for a value that a field rejects. Returns `None` for other failures.
    ///
    /// ```
    /// # #[cfg(feature = "cairndb")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cairndb_counters::Numbers;
    /// # let folder = tempfile::tempdir()?;
    /// # let db = cairndb::Client::open(folder.path().join("db"))?.database("shop");
    ///
    /// assert_eq!(db.next_value("tickets").unwrap_err().sequoia_code(), Some(-324));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cairndb"))]
    /// # fn main() {}
    /// ```
    pub fn sequoia_code(&self) -> Option<i32> {
        match &*self.kind {
            ErrorKind::Sequence(error) => Some(error.sequoia_code()),
            #[cfg(feature = "cairndb")]
            ErrorKind::Store(error) => error.sequoia_code(),
            #[cfg(feature = "mongodb")]
            ErrorKind::Driver(_) => None,
            ErrorKind::Unsupported(_) | ErrorKind::Bson(_) => None,
        }
    }

    /// Whether another document has the `_id` or a unique key.
    pub fn is_duplicate_key(&self) -> bool {
        match &*self.kind {
            #[cfg(feature = "cairndb")]
            ErrorKind::Store(error) => error.is_duplicate_key(),
            #[cfg(feature = "mongodb")]
            ErrorKind::Driver(error) => crate::taken::is_duplicate_key(error),
            ErrorKind::Sequence(_) | ErrorKind::Unsupported(_) | ErrorKind::Bson(_) => false,
        }
    }
}

impl<E> From<E> for Error
where
    ErrorKind: From<E>,
{
    fn from(error: E) -> Self {
        Self { kind: Box::new(ErrorKind::from(error)) }
    }
}
