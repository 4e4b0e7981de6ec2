//! The cursor: an owned walk over the documents of a result, as an iterator of `T` or over raw bytes.

use std::marker::PhantomData;
use std::task::Waker;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use bson::{RawDocument, RawDocumentBuf};
use query::operation::OperationContext;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::document::decode::{EMPTY, decode};
use crate::error::{Error, ErrorKind, Result};
use crate::execute::piped::Piped;
use crate::execute::rest::Rest;
use crate::execute::rows::Rows;
use crate::metrics::watch::{CursorRequest, CursorWatch, Returned, Watch};
use crate::storage::fork::{is_child, refuse_child};
use crate::tail::{Tail, Waiting, sleep_until, thread_waker};

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
    /// `None` at the end.
    source: Option<Source>,
    /// The limits of the walk. Its time counts only during calls.
    operation: OperationContext,
    /// Whether `advance` has moved to a document.
    has_current: bool,
    next: Next,
    returned: Returned,
    /// Measures the cursor, and is ended before the operation is.
    watch: Option<Box<CursorWatch>>,
    row: PhantomData<fn() -> T>,
}

/// What the next `advance` does.
enum Next {
    /// It reads a document and is timed, because sorts and groups do their work in the first call.
    First,
    /// It reads a document.
    Read,
    /// It returns the same document again, which the source has kept.
    Repeat,
    /// It tells why the source is gone.
    Refuse(Error),
}

#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost every find an allocation, and nearly all cursors are of rows"
)]
enum Source {
    Rows(Rows),
    Piped(Piped),
    /// Boxed, so that other cursors do not take its size.
    Tail(Box<Tail>),
    /// Documents that are all in memory, such as a list of indexes.
    List {
        rest: IntoIter<RawDocumentBuf>,
        current: RawDocumentBuf,
    },
}

impl<T> Cursor<T> {
    pub(crate) fn new(rows: Rows) -> Self {
        Self::of(rows.operation().clone(), Source::Rows(rows))
    }

    pub(crate) fn piped(piped: Piped) -> Self {
        Self::of(piped.operation().clone(), Source::Piped(piped))
    }

    pub(crate) fn tailing(tail: Tail) -> Self {
        Self::of(tail.operation().clone(), Source::Tail(Box::new(tail)))
    }

    pub(crate) fn of_list(documents: Vec<RawDocumentBuf>) -> Self {
        let list = Source::List { rest: documents.into_iter(), current: RawDocumentBuf::new() };
        Self::of(OperationContext::default(), list)
    }

    pub(crate) fn empty() -> Self {
        Self::with(OperationContext::default(), None)
    }

    fn of(operation: OperationContext, source: Source) -> Self {
        // The time limit counts only during calls of the cursor.
        operation.pause();
        Self::with(operation, Some(source))
    }

    fn with(operation: OperationContext, source: Option<Source>) -> Self {
        let (has_current, next, returned) = (false, Next::First, Returned::default());
        Self { source, operation, has_current, next, returned, watch: None, row: PhantomData }
    }

    /// Measures the cursor, which the call of `watch` has opened.
    pub(crate) fn watched(mut self, watch: Watch<'_>, request: CursorRequest) -> Self {
        self.watch = watch.into_cursor(request);
        self
    }

    /// Ends the measurement. What the cursor reads from must be dropped before.
    fn end_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            if is_child() {
                // Its meters may be locked by a thread that does not exist in a forked child.
                std::mem::forget(watch);
                return;
            }
            watch.end(self.returned, self.between_looks());
        }
    }

    fn between_looks(&self) -> u64 {
        u64::try_from(self.operation.time_between_looks().as_nanos()).unwrap_or(u64::MAX)
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
        // A forked child must not touch the iterators of its parent's store.
        refuse_child()?;
        let begin = match self.next {
            Next::Read => None,
            Next::First => self.begin(),
            Next::Repeat | Next::Refuse(_) => return self.advance_without_reading(),
        };
        // After the end and after an error, each call says that there is nothing more.
        let Some(source) = &mut self.source else { return self.end(Ok(false)) };
        self.operation.resume();
        let stepped = source.step();
        self.operation.pause();
        let is_tail = matches!(source, Source::Tail(_));
        if let Some(begin) = begin {
            self.started(begin);
        }
        if is_tail && matches!(stepped, Ok(None)) {
            return self.wait_until(None);
        }
        self.arrive(stepped)
    }

    /// Moves to the next document, and waits at most `time` for it. Returns `false` if there is none: a tailable cursor may
    /// still have one later, as [`is_alive`](Self::is_alive) tells. Only tailable cursors wait.
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
        refuse_child()?;
        if !matches!((&self.source, &self.next), (Some(Source::Tail(_)), Next::First | Next::Read)) {
            return self.advance();
        }
        // Measured like `advance`: the first call alone.
        let begin = if matches!(self.next, Next::First) { self.begin() } else { None };
        // A time that no clock can tell is one without end.
        let moment = Instant::now().checked_add(time);
        let moved = self.wait_until(Some(moment).filter(|_| time != Duration::MAX).flatten());
        if let Some(begin) = begin {
            self.started(begin);
        }
        moved
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
        matches!(&self.source, Some(Source::Tail(tail)) if !tail.is_exhausted())
    }

    /// Wakes by `waker` when a tailable cursor may have another document, or fails, until what is returned is dropped. What came
    /// before need not wake: look for a document after the call. For a program that waits for many cursors without a
    /// thread for each of them.
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
        match &self.source {
            Some(Source::Tail(tail)) => WaitingCursor { _waiting: tail.wait(waker) },
            Some(Source::Rows(_) | Source::Piped(_) | Source::List { .. }) | None => {
                WaitingCursor { _waiting: None }
            }
        }
    }

    /// Moves a tailable cursor to its next document. Waits until `moment`, or without end.
    fn wait_until(&mut self, moment: Option<Instant>) -> Result<bool> {
        let mut waiting: Option<(WaitingCursor, Waker)> = None;
        loop {
            let Some(Source::Tail(tail)) = &mut self.source else { return self.end(Ok(false)) };
            self.operation.resume();
            let stepped = tail.advance();
            self.operation.pause();
            match stepped {
                Ok(false) if !tail.is_exhausted() => {}
                stepped => {
                    let stepped = stepped.map(|found| found.then(|| tail.bytes().len()));
                    return self.arrive(stepped);
                }
            }
            // The round gave its snapshot back, and with it the document.
            self.has_current = false;
            if moment.is_some_and(|moment| Instant::now() >= moment) {
                return Ok(false);
            }
            // The first time it looks again: what came before it was woken by nothing.
            if waiting.is_some() {
                sleep_until(moment);
            } else {
                let waker = thread_waker();
                waiting = Some((self.wake_when_more(&waker), waker));
            }
        }
    }

    /// Ends a call that moved to a document, or found that there are no more.
    #[inline]
    fn arrive(&mut self, stepped: Result<Option<usize>>) -> Result<bool> {
        match stepped {
            Ok(Some(bytes)) => {
                self.has_current = true;
                self.returned.add(bytes);
                Ok(true)
            }
            ended => self.end(ended.map(|_| false)),
        }
    }

    /// Begins the first call. Returns the time, if the cursor is measured.
    #[cold]
    fn begin(&mut self) -> Option<u64> {
        self.next = Next::Read;
        // Later calls are not timed: reading the clock costs a tenth of reading a document.
        self.watch.as_ref().map(|watch| watch.begin())
    }

    /// The first call is over.
    #[cold]
    fn started(&mut self, begin: u64) {
        let measured = self.between_looks();
        if let Some(watch) = &mut self.watch {
            watch.started(begin, measured);
        }
    }

    #[cold]
    fn advance_without_reading(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.next, Next::Read) {
            Next::Refuse(error) => Err(error),
            Next::Repeat | Next::First | Next::Read => {
                // The source has kept the document, which was counted when it was read.
                self.has_current = self.source.is_some();
                Ok(self.has_current)
            }
        }
    }

    /// Ends the cursor, which has no more documents or has failed.
    #[cold]
    fn end(&mut self, ended: Result<bool>) -> Result<bool> {
        self.has_current = false;
        // Frees the snapshot now, even if the cursor is kept. And a caller that ignores an error must not take what follows for
        // the whole result.
        self.source = None;
        if let (Err(_), Some(watch)) = (&ended, &mut self.watch) {
            watch.failed();
        }
        self.end_watch();
        ended
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
        match &self.source {
            None => !matches!(self.next, Next::Refuse(_)),
            Some(Source::Rows(rows)) => rows.is_exhausted(),
            // A stage may still filter out all documents that are left.
            Some(Source::Piped(_)) => false,
            Some(Source::Tail(tail)) => tail.is_exhausted(),
            Some(Source::List { rest, .. }) => rest.len() == 0 && !matches!(self.next, Next::Repeat),
        }
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
    #[expect(clippy::missing_panics_doc, reason = "sources check a document before they move to it")]
    pub fn current(&self) -> &RawDocument {
        let current = self.source.as_ref().filter(|_| self.has_current).map(Source::bytes);
        RawDocument::from_bytes(current.unwrap_or(EMPTY)).expect("advance() checked the bytes")
    }

    /// Frees memory until [`advance`](Self::advance) is called again. Use it before a cursor waits for a long time. The
    /// snapshot and sorted documents are kept. There is no current document then; [`step_back`](Self::step_back) is for
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
        self.has_current = false;
        self.release(Rest::Release);
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
        let current = if std::mem::take(&mut self.has_current) { Rest::Repeat } else { Rest::Release };
        self.release(current);
    }

    fn release(&mut self, current: Rest) {
        let kept = match &mut self.source {
            Some(Source::Rows(rows)) => {
                rows.rest(current);
                return;
            }
            Some(Source::Tail(tail)) => {
                tail.rest(current);
                return;
            }
            Some(Source::Piped(piped)) => piped.rest(),
            // A list reads no storage, so it holds no memory of it.
            Some(Source::List { .. }) | None => Ok(()),
        };
        if current == Rest::Repeat {
            self.next = Next::Repeat;
        }
        if let Err(refused) = kept {
            (self.source, self.next) = (None, Next::Refuse(refused));
        }
    }

    /// Decodes the current document. With a type that borrows, strings are not copied.
    ///
    /// Fails if there is no current document: before the first [`advance`](Self::advance), and after the end.
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
        if !self.has_current {
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
    pub fn with_type<U>(mut self) -> Cursor<U> {
        // The operation goes along: its limits, and the memory that it holds, belong to the search.
        let (source, operation) = (self.source.take(), std::mem::take(&mut self.operation));
        let (next, watch) = (std::mem::replace(&mut self.next, Next::Read), self.watch.take());
        let Self { has_current, returned, .. } = self;
        Cursor { source, operation, has_current, next, returned, watch, row: PhantomData }
    }
}

impl Source {
    /// Steps to the next document. Returns how many bytes it has.
    #[inline]
    fn step(&mut self) -> Result<Option<usize>> {
        match self {
            // With the length, so that the caller does not ask the source a second time.
            Self::Rows(rows) => Ok(rows.advance()?.then(|| rows.bytes().len())),
            Self::Piped(piped) => Ok(piped.advance()?.then(|| piped.bytes().len())),
            Self::Tail(tail) => Ok(tail.advance()?.then(|| tail.bytes().len())),
            Self::List { rest, current } => Ok(rest.next().map(|next| {
                *current = next;
                current.as_bytes().len()
            })),
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Piped(piped) => piped.bytes(),
            Self::Tail(tail) => tail.bytes(),
            Self::List { current, .. } => current.as_bytes(),
        }
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
        let time = match &self.source {
            Some(Source::Tail(tail)) => tail.await_time,
            Some(Source::Rows(_) | Source::Piped(_) | Source::List { .. }) | None => Duration::ZERO,
        };
        if self.advance_within(time)? { decode(self.current()).map(Some) } else { Ok(None) }
    }
}

/// Keeps the waker of [`Cursor::wake_when_more`] until it is dropped.
#[must_use = "nothing is woken after it was dropped"]
pub struct WaitingCursor {
    _waiting: Option<Waiting>,
}

impl std::fmt::Debug for WaitingCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitingCursor").finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + 'static> Iterator for Cursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.advance() {
            Ok(true) => Some(decode(self.current())),
            Ok(false) => None,
            // `advance` has ended the cursor, so a loop that goes on gets `None` next.
            Err(error) => Some(Err(error)),
        }
    }
}

impl<T> Drop for Cursor<T> {
    fn drop(&mut self) {
        // In this order: what is dropped notes what it has read.
        self.source = None;
        self.end_watch();
    }
}

impl<T> std::fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("open", &self.source.is_some()).finish_non_exhaustive()
    }
}
