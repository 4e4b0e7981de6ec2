//! The public cursor: an owned walk over matching documents, as an iterator of `T` or over raw bytes.

use std::marker::PhantomData;
use std::vec::IntoIter;

use bson::{RawDocument, RawDocumentBuf};
use query::operation::OperationContext;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::document::decode::decode;
use crate::error::{Error, ErrorKind, Result};
use crate::execute::piped::Piped;
use crate::execute::rows::Rows;
use crate::storage::fork::refuse_child;

/// The documents that a `find` matched, as they were when `run` was called: in the order of their `_id`s, unless a sort
/// was asked for. Or what a pipeline made of them.
///
/// It is an iterator of `Result<T>`. [`advance`](Self::advance) with [`current`](Self::current) walks the raw
/// bytes without copying them. A cursor keeps its snapshot, and the folder, until it is dropped.
///
/// What happens after the cursor was opened does not show in it, also if the collection is dropped, renamed or
/// truncated, or loses its indexes: the cursor goes on to its end. (MongoDB ends such a cursor with an error, code 175
/// `QueryPlanKilled`. Here it has all that it needs; what was dropped takes room on the disk until it is done.)
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// let mut cursor = people.find(doc! {}).run()?;
/// while cursor.advance()? {
///     assert!(cursor.current().get_str("name").is_ok());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Cursor<T> {
    /// Absent at the end.
    source: Option<Source>,
    /// What the walk may use; its time goes on only while it is asked to.
    operation: OperationContext,
    row: PhantomData<fn() -> T>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost every find an allocation, and nearly all cursors are of rows"
)]
enum Source {
    Rows(Rows),
    Piped(Piped),
    /// Documents that were all made before: a list of collections, for one.
    List {
        rest: IntoIter<RawDocumentBuf>,
        current: RawDocumentBuf,
    },
}

const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

impl<T> Cursor<T> {
    pub(crate) fn new(rows: Rows) -> Self {
        Self::of(rows.operation().clone(), Source::Rows(rows))
    }

    pub(crate) fn piped(piped: Piped) -> Self {
        Self::of(piped.operation().clone(), Source::Piped(piped))
    }

    pub(crate) fn of_list(documents: Vec<RawDocumentBuf>) -> Self {
        let list = Source::List { rest: documents.into_iter(), current: RawDocumentBuf::new() };
        Self::of(OperationContext::default(), list)
    }

    pub(crate) fn empty() -> Self {
        Self { source: None, operation: OperationContext::default(), row: PhantomData }
    }

    fn of(operation: OperationContext, source: Source) -> Self {
        operation.pause();
        Self { source: Some(source), operation, row: PhantomData }
    }

    /// Steps to the next document; `false` at the end. After an error the cursor is at its end.
    pub fn advance(&mut self) -> Result<bool> {
        refuse_child()?;
        let Some(source) = &mut self.source else { return Ok(false) };
        self.operation.resume();
        let advanced = source.advance();
        self.operation.pause();
        match advanced {
            Ok(true) => Ok(true),
            Ok(false) => {
                self.source = None;
                Ok(false)
            }
            Err(error) => {
                self.source = None;
                Err(error)
            }
        }
    }

    /// Whether it is known, without looking, that no document follows. A walk that has no limit learns of its end only
    /// by [`advance`](Self::advance).
    pub fn is_exhausted(&self) -> bool {
        match &self.source {
            None => true,
            Some(Source::Rows(rows)) => rows.is_exhausted(),
            // The last stage learns of its end only by being asked.
            Some(Source::Piped(_)) => false,
            Some(Source::List { rest, .. }) => rest.len() == 0,
        }
    }

    /// The document stood on, borrowed from the storage; empty before the first `advance` and after the end.
    ///
    /// # Panics
    /// Never: `advance` looked at the bytes before it stood on them.
    pub fn current(&self) -> &RawDocument {
        let standing = self.source.as_ref().map(Source::bytes).filter(|bytes| !bytes.is_empty());
        RawDocument::from_bytes(standing.unwrap_or(EMPTY_DOCUMENT)).expect("advance() looked at the bytes")
    }

    /// Lets go of what the storage holds for the walk, until [`advance`](Self::advance) is called again: memory that
    /// would otherwise stay for as long as the cursor waits. The snapshot and the current document are kept, and so is
    /// what was sorted.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run()?;
    /// let mut cursor = people.find(doc! {}).run()?;
    /// assert!(cursor.advance()?);
    /// // The user reads the first page.
    /// cursor.rest();
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(1));
    /// assert!(cursor.advance()?);
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rest(&mut self) {
        match &mut self.source {
            Some(Source::Rows(rows)) => rows.rest(),
            Some(Source::Piped(piped)) => piped.rest(),
            Some(Source::List { .. }) | None => {}
        }
    }

    /// The document stood on, as a `T`.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        if self.source.is_none() {
            return Err(Error::new(ErrorKind::InvalidArgument {
                message: "the cursor does not stand on a document".to_owned(),
            }));
        }
        Ok(bson::deserialize_from_slice(self.current().as_bytes())?)
    }

    /// The same walk, with documents as another type.
    pub fn with_type<U>(self) -> Cursor<U> {
        Cursor { source: self.source, operation: self.operation, row: PhantomData }
    }
}

impl Source {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Rows(rows) => rows.advance(),
            Self::Piped(piped) => piped.advance(),
            Self::List { rest, current } => match rest.next() {
                Some(next) => {
                    *current = next;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Piped(piped) => piped.bytes(),
            Self::List { current, .. } => current.as_bytes(),
        }
    }
}

impl<T: DeserializeOwned + 'static> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.advance() {
            Ok(true) => Some(decode(self.current())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<T> std::fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("open", &self.source.is_some()).finish_non_exhaustive()
    }
}
