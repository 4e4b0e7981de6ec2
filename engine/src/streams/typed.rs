//! The public stream: an iterator of `T` over documents of events. It only decodes.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::Result;
use base::sync::AtomicBool;
use bson::RawDocumentBuf;
use serde::de::DeserializeOwned;
use store::fork::is_child;

use crate::changes::rounds::Rounds;
use crate::document::decode::decode_owned;
use crate::streams::stream::RawStream;
use crate::streams::token::ResumeToken;
use crate::streams::walk::Followed;

/// The changes of a collection, a database or a client, one after the other, as
/// [`watch`](crate::Collection::watch) opens it.
///
/// It is an iterator that waits for the next event. It ends after an error, and when what it watches is dropped or renamed.
/// [`next_if_any`](Self::next_if_any) waits for a while only.
///
/// - Each commit is shown once, in the order of all commits. The events of a transaction follow each other.
/// - What was shown is on stable storage. No crash undoes it. With buffered writes an event is therefore shown with the next
///   sync, within a tenth of a second unless the client was opened otherwise; with journaled ones at once.
/// - A stream that waits holds no snapshot and no lock, and does not keep the client open.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// let mut stream = orders.watch().max_await_time(Duration::from_millis(10)).run()?;
/// assert!(stream.next_if_any()?.is_none());
/// orders.insert_one(doc! { "_id": 1 }).run()?;
/// let event = stream.next().expect("it waits")?;
/// assert_eq!(event.full_document, Some(doc! { "_id": 1 }));
/// # Ok(())
/// # }
/// ```
pub struct ChangeStream<T> {
    raw: RawStream,
    await_time: Duration,
    // A function type, so that the stream is `Send` whatever `T` is.
    row: PhantomData<fn() -> T>,
}

/// Ends the waiting of a stream from another thread. Cheap to clone.
#[derive(Clone)]
pub struct StreamWaker {
    is_stopped: Arc<AtomicBool>,
    rounds: Arc<Rounds>,
}

impl<T> ChangeStream<T> {
    pub(super) fn of(raw: RawStream, await_time: Duration) -> Self {
        Self { raw, await_time, row: PhantomData }
    }

    /// The token after which a later stream goes on where this one is. Store it with what was made of the events.
    ///
    /// It is always there; the option is that of MongoDB's driver.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let token = orders.watch().run()?.resume_token();
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// let event = orders.watch().resume_after(token).run()?.next().expect("it waits")?;
    /// assert_eq!(event.full_document, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume_token(&self) -> Option<ResumeToken> {
        Some(self.raw.token())
    }

    /// Whether there may be more events.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, Collation, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut stream = people.watch().run()?;
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// people.drop().run()?;
    /// // The document, the drop, and the end.
    /// assert_eq!(stream.by_ref().count(), 3);
    /// assert!(!stream.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_alive(&self) -> bool {
        self.raw.is_alive()
    }

    /// The stream with its events as another type.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut stream = orders.watch().run()?.with_type::<Document>();
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// let event = stream.next().expect("it waits")?;
    /// assert_eq!(event.get_str("operationType").ok(), Some("insert"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<U>(self) -> ChangeStream<U> {
        ChangeStream { raw: self.raw, await_time: self.await_time, row: PhantomData }
    }

    /// A handle that ends the waiting of the stream from another thread.
    ///
    /// ```
    /// # use cairndb::{Client, bson::Document};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let mut stream = client.database("shop").collection::<Document>("orders").watch().run()?;
    /// let waker = stream.wake_handle();
    /// let reader = std::thread::spawn(move || stream.next().is_none());
    /// waker.stop();
    /// assert!(reader.join().unwrap());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake_handle(&self) -> StreamWaker {
        StreamWaker::of(self.raw.is_stopped(), self.raw.rounds())
    }
}

impl<T: DeserializeOwned + 'static> ChangeStream<T> {
    /// The next event, for which it waits for a while: see [`max_await_time`](crate::action::Watch::max_await_time). Returns `None` if
    /// there is none; [`is_alive`](Self::is_alive) says whether there may be one later.
    pub fn next_if_any(&mut self) -> Result<Option<T>> {
        // A time that no clock can show is one without end.
        let moment = Instant::now().checked_add(self.await_time);
        loop {
            match self.raw.advance_until(moment)? {
                Some(event) => return self.decode(event).map(Some),
                // Events of others are passed without waiting, however many there are.
                None if self.raw.is_behind() => {}
                None => return Ok(None),
            }
        }
    }

    /// An event as the type of the stream, which ends before one that is no such value.
    fn decode(&mut self, event: RawDocumentBuf) -> Result<T> {
        decode_owned(event).inspect_err(|_| self.raw.end_before())
    }
}

impl<T: DeserializeOwned + 'static> Iterator for ChangeStream<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.raw.advance_until(None) {
            Ok(event) => event.map(|event| self.decode(event)),
            Err(error) => Some(Err(error)),
        }
    }
}

impl StreamWaker {
    pub(crate) fn of(is_stopped: &Arc<AtomicBool>, rounds: &Arc<Rounds>) -> Self {
        Self { is_stopped: Arc::clone(is_stopped), rounds: Arc::clone(rounds) }
    }

    /// Lets the stream wait no more: it is at its end once it has shown the events that are there.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // In a forked child a lock may be held by a thread that does not exist there, and no stream waits.
        if !is_child() {
            self.rounds.wake();
        }
    }
}
