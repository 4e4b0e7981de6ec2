//! Cursors of a session.

use std::sync::Arc;

use base::error::{Error, Result};
use bson::RawDocument;
use query::code::Code;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use store::fork;

use crate::cursor::{Cursor, RawCursor};
use crate::session::handle::ClientSession;
use crate::transaction::Transaction;

/// A cursor that was opened by a session. It is read with the session, and only as long as its transaction is in progress.
///
/// It shows what the transaction had written when it was opened, and not what later statements write.
pub struct SessionCursor<T> {
    cursor: Cursor<T>,
    transaction: Option<Arc<Transaction>>,
}

impl<T> SessionCursor<T> {
    pub(crate) fn of(cursor: Cursor<T>, transaction: Option<Arc<Transaction>>) -> Self {
        Self { cursor, transaction }
    }

    /// The cursor without its session: the caller reads it only as long as the transaction is in progress.
    #[doc(hidden)]
    pub fn into_cursor(self) -> Cursor<T> {
        self.cursor
    }

    /// Moves to the next document. Returns `false` at the end.
    ///
    /// Fails with code 43 (`CursorNotFound`) if its transaction has ended, or the session is another one.
    pub fn advance(&mut self, session: &mut ClientSession) -> Result<bool> {
        let Some(transaction) = &self.transaction else { return self.cursor.advance() };
        if !session.has(transaction) || !transaction.is_open() {
            // The documents that it has read would be kept as long as it is.
            self.cursor = Cursor::of(RawCursor::empty());
            let message = "the cursor is of a transaction that has ended, or of another session";
            return Err(Error::command(Code::CURSOR_NOT_FOUND, message));
        }
        let advanced = self.cursor.advance();
        // The locks of a forked child may never be free.
        if advanced.is_err() && !fork::is_child() {
            transaction.abort();
        }
        advanced
    }

    /// The current document.
    pub fn current(&self) -> &RawDocument {
        self.cursor.current()
    }

    /// The current document, decoded.
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        self.cursor.deserialize_current()
    }

    /// The next document. `None` at the end.
    pub fn next(&mut self, session: &mut ClientSession) -> Option<Result<T>>
    where
        T: DeserializeOwned,
    {
        match self.advance(session) {
            Ok(true) => Some(self.cursor.deserialize_current()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// The documents that are left.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// let mut cursor = people.find(doc! {}).session(&mut session).run()?;
    /// let found: Vec<Document> = cursor.iter(&mut session).collect::<Result<_, _>>()?;
    /// assert_eq!(found, [doc! { "_id": 1 }, doc! { "_id": 2 }]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The driver's name is `stream`, which an asynchronous program awaits.
    #[expect(
        clippy::iter_not_returning_iterator,
        reason = "it is one for every type that documents are decoded as"
    )]
    pub fn iter<'a>(&'a mut self, session: &'a mut ClientSession) -> SessionCursorIter<'a, T> {
        SessionCursorIter { cursor: self, session }
    }
}

/// The documents of a cursor: what [`SessionCursor::iter`] returns.
pub struct SessionCursorIter<'a, T> {
    cursor: &'a mut SessionCursor<T>,
    session: &'a mut ClientSession,
}

impl<T: DeserializeOwned> Iterator for SessionCursorIter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.cursor.next(self.session)
    }
}
