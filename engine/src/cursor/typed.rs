//! The public cursor: an iterator of `T` over what the cursor of bytes reads. It only decodes.

use std::marker::PhantomData;
use std::task::Waker;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use base::error::{Error, ErrorKind, Result};

use crate::cursor::raw::{RawCursor, WaitingCursor};
use crate::document::decode::decode;

/// The results of a [`find`](crate::Collection::find) or an [`aggregate`](crate::Collection::aggregate), one at a time.
///
/// It is an iterator of `Result<T>`. To read raw bytes without copying or decoding them, use [`advance`](Self::advance) and
/// [`current`](Self::current).
///
/// A cursor reads from a snapshot: the documents as they were when `run` was called. Later changes do not show, even if the
/// collection is dropped, renamed or truncated, or loses its indexes. (MongoDB ends such a cursor with code 175,
/// `QueryPlanKilled`.) The snapshot keeps old data on disk, and keeps the folder open, so drop a cursor that is not needed.
///
/// # Tailable cursors
///
/// A [tailable](crate::CursorType) cursor reads a capped collection: its documents in the order in which they were inserted, and
/// then each that is inserted later, once. It holds no snapshot while it waits. [`advance`](Self::advance), and a loop over
/// the cursor, wait for the next document without end; [`next_if_any`](Self::next_if_any) waits for a while.
///
/// - If the collection has no document, or does not exist, the cursor is at its end from the beginning.
/// - A reader that is so slow that documents were removed before it saw them gets code 136 (`CappedPositionLost`).
/// - If the collection is dropped or renamed, it gets code 175 (`QueryPlanKilled`).
/// - A token of [`with_cancellation`](crate::Collection::with_cancellation) ends the waiting, and so does closing the client or
///   dropping its last handle.
///
/// ```
/// # use cairndb::{Client, CursorType, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let db = client.database("app");
/// db.create_collection("log").capped(true).size(1 << 20).run()?;
/// let log = db.collection::<Document>("log");
/// log.insert_one(doc! { "_id": 0 }).run()?;
///
/// let cursor = log.find(doc! {}).cursor_type(CursorType::TailableAwait).run()?;
/// let reader = std::thread::spawn(move || cursor.take(3).collect::<cairndb::Result<Vec<_>>>());
/// log.insert_many([doc! { "_id": 2 }, doc! { "_id": 1 }]).run()?;
/// assert_eq!(reader.join().unwrap()?, [doc! { "_id": 0 }, doc! { "_id": 2 }, doc! { "_id": 1 }]);
/// # Ok(())
/// # }
/// ```
///
/// # Any cursor
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
///
/// for person in people.find(doc! {}).run()? {
///     println!("{}", person?);
/// }
/// // The same without decoding.
/// let mut cursor = people.find(doc! {}).run()?;
/// while cursor.advance()? {
///     assert!(cursor.current().get_str("name").is_ok());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Cursor<T> {
    raw: RawCursor,
    // A function type, so that the cursor is `Send` whatever `T` is.
    row: PhantomData<fn() -> T>,
}

impl<T> Cursor<T> {
    pub(crate) fn of(raw: RawCursor) -> Self {
        Self { raw, row: PhantomData }
    }

    /// A cursor of documents that a server has: the results of a `bulkWrite`.
    #[doc(hidden)]
    pub fn of_documents(documents: Vec<RawDocumentBuf>) -> Self {
        Self::of(RawCursor::of_list(documents))
    }

    /// Moves to the next document. Returns `false` at the end. After an error the cursor is at its end. A tailable cursor waits
    /// for the next document.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut cursor = people.find(doc! {}).run()?;
    /// assert!(cursor.advance()?);
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(1));
    /// assert!(!cursor.advance()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&mut self) -> Result<bool> {
        self.raw.advance()
    }

    /// Moves to the next document, and waits at most `time` for it. Returns `false` if there is none: a tailable cursor may
    /// still have one later, as [`is_alive`](Self::is_alive) says. Only tailable cursors wait.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, CursorType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(1 << 20).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut cursor = log.find(doc! {}).cursor_type(CursorType::Tailable).run()?;
    /// assert!(cursor.advance_within(Duration::ZERO)?);
    /// assert!(!cursor.advance_within(Duration::from_millis(5))? && cursor.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance_within(&mut self, time: Duration) -> Result<bool> {
        self.raw.advance_within(time)
    }

    /// Moves from document to document without waiting, and lends each to `take`, until that returns `false` or there is none now.
    /// Returns `false` in the second case; in the first the document that was lent last is the current one.
    #[doc(hidden)]
    pub fn advance_while(&mut self, mut take: impl FnMut(&RawDocument) -> bool) -> Result<bool> {
        self.raw.advance_while(&mut take)
    }

    /// Whether the cursor may have another document, now or later.
    ///
    /// The example of [`advance_within`](Self::advance_within) asks it.
    pub fn is_alive(&self) -> bool {
        !self.is_exhausted()
    }

    /// Whether the cursor goes on after the last document that there is now.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// assert!(!people.find(doc! {}).run()?.is_tailing());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_tailing(&self) -> bool {
        self.raw.is_tailing()
    }

    /// The token after which a later change stream goes on where this one is, if the cursor is one: see
    /// [`run_cursor_command`](crate::Database::run_cursor_command) of an `aggregate` with `$changeStream`.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("shop");
    /// let watch = doc! { "aggregate": "orders", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    /// let mut events = db.run_cursor_command(watch).run()?;
    /// db.collection::<Document>("orders").insert_one(doc! { "_id": 1 }).run()?;
    /// assert!(events.advance()?);
    /// assert!(events.resume_token().is_some_and(|token| token.get_str("_data").is_ok()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume_token(&self) -> Option<RawDocumentBuf> {
        self.raw.resume_token()
    }

    /// Whether the last step of a change stream has looked at a part only of what is there: another one goes on.
    #[doc(hidden)]
    pub fn is_behind(&self) -> bool {
        self.raw.is_behind()
    }

    /// Wakes by `waker`, once, when a tailable cursor may have another document, or fails, unless what is returned is dropped
    /// before. What came before need not wake: look for a document after the call. A reader that was woken, finds none and
    /// waits on calls it again before it looks. For a program that waits for many cursors without a thread for each of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::task::Waker;
    /// # use cairndb::{Client, CursorType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(1 << 20).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut cursor = log.find(doc! {}).cursor_type(CursorType::Tailable).run()?;
    /// // A runtime brings a waker of its own.
    /// let waiting = cursor.wake_when_more(Waker::noop());
    /// assert!(cursor.advance_within(Duration::ZERO)?);
    /// drop(waiting);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake_when_more(&self, waker: &Waker) -> WaitingCursor {
        self.raw.wake_when_more(waker)
    }

    /// Whether the cursor is known to be at its end, without reading. A cursor without a limit often knows this only after
    /// [`advance`](Self::advance) has returned `false`.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut cursor = people.find(doc! {}).limit(1).run()?;
    /// assert!(!cursor.is_exhausted());
    /// cursor.advance()?;
    /// assert!(cursor.is_exhausted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_exhausted(&self) -> bool {
        self.raw.is_exhausted()
    }

    /// Returns the current document, borrowed from the cursor. It is empty before the first [`advance`](Self::advance) and
    /// after the end.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
    /// let mut cursor = people.find(doc! {}).run()?;
    /// assert!(cursor.current().is_empty());
    /// cursor.advance()?;
    /// assert_eq!(cursor.current().get_str("name").ok(), Some("Ada"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn current(&self) -> &RawDocument {
        self.raw.current()
    }

    /// Frees memory until [`advance`](Self::advance) is called again. Use it before a cursor waits for a long time. The
    /// snapshot and sorted documents are kept. No document is current then; [`step_back`](Self::step_back) is for
    /// a reader who still needs it.
    ///
    /// A pipeline keeps its current document, which counts as memory of the operation. If that is not allowed so much, the
    /// next `advance` fails.
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
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(1));
    /// cursor.rest();
    /// assert!(cursor.advance()?);
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rest(&mut self) {
        self.raw.rest();
    }

    /// Steps back before the current document, and rests: the next [`advance`](Self::advance) returns it again.
    ///
    /// For a reader who finds no room for a document, and goes on later. Without a current document it only
    /// [rests](Self::rest).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }]).run()?;
    /// let mut cursor = people.find(doc! {}).run()?;
    /// assert!(cursor.advance()?);
    /// // The page is full.
    /// cursor.step_back();
    /// assert!(cursor.advance()?);
    /// assert_eq!(cursor.current().get_i32("_id").ok(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_back(&mut self) {
        self.raw.step_back();
    }

    /// Decodes the current document. With a type that borrows, strings are not copied.
    ///
    /// Fails if no document is current: before the first [`advance`](Self::advance), and after the end.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// #[derive(serde::Deserialize)]
    /// struct Person<'a> {
    ///     name: &'a str,
    /// }
    ///
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let mut cursor = people.clone_with_type::<Person>().find(doc! {}).run()?;
    /// while cursor.advance()? {
    ///     assert_eq!(cursor.deserialize_current()?.name, "Ada");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deserialize_current<'a>(&'a self) -> Result<T>
    where
        T: Deserialize<'a>,
    {
        if !self.raw.has_current() {
            return Err(Error::new(ErrorKind::InvalidArgument {
                message: "the cursor has no current document".to_owned(),
            }));
        }
        Ok(bson::deserialize_from_slice(self.current().as_bytes())?)
    }

    /// Sets the type that the documents are decoded as.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, RawDocumentBuf, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let cursor = people.find(doc! {}).run()?;
    /// for person in cursor.with_type::<RawDocumentBuf>() {
    ///     assert_eq!(person?.get_str("name").ok(), Some("Ada"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<U>(self) -> Cursor<U> {
        Cursor::of(self.raw)
    }
}

impl<T: DeserializeOwned + 'static> Cursor<T> {
    /// Returns the next document, or `None` if there is none. A cursor of [`TailableAwait`](crate::CursorType::TailableAwait)
    /// waits at most `max_await_time` for one, a second if nothing was said; any other does not wait.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, CursorType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(1 << 20).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_one(doc! { "_id": 1 }).run()?;
    /// let tail = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    /// let mut cursor = tail.max_await_time(Duration::from_millis(10)).run()?;
    /// assert_eq!(cursor.next_if_any()?, Some(doc! { "_id": 1 }));
    /// assert_eq!(cursor.next_if_any()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_if_any(&mut self) -> Result<Option<T>> {
        if self.raw.advance_within(self.raw.await_time())? {
            decode(self.current()).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<T: DeserializeOwned + 'static> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.raw.advance() {
            Ok(true) => Some(decode(self.raw.current())),
            Ok(false) => None,
            // `advance` has ended the cursor, so a loop that goes on gets `None` next.
            Err(error) => Some(Err(error)),
        }
    }
}

impl<T> std::fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.raw, f)
    }
}
