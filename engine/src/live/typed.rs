//! The public live query: an iterator of batches with documents of type `T`. It only decodes.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use base::error::Result;
use serde::de::DeserializeOwned;

use crate::live::change::{Batch, LiveChange};
use crate::live::raw::RawLive;
use crate::streams::{Followed, StreamWaker};

/// The result of a search that is kept up to date, as [`live`](crate::action::Find::live) opens it.
///
/// It is an iterator of batches. The first one is the result, also if it is empty: every document of it has
/// [`Entered`](LiveChange::Entered), in the order of the search. Each later one is what has changed since, and has at least one change.
/// After every batch the documents that have entered and not left are the result of the search at one moment. A batch may have several
/// changes of one document, in their order.
///
/// It waits for the next batch. It ends after an error, and with [`Invalidated`](LiveChange::Invalidated) when the collection is dropped
/// or renamed. [`next_if_any`](Self::next_if_any) waits for a while only.
///
/// - What was shown is on stable storage. No crash undoes it.
/// - A live query holds the `_id` and a digest of each document of its result, and neither a snapshot nor a lock while it waits. One
///   that [`next_if_any`](Self::next_if_any) has left in the middle of many changes gives its snapshot back within a second. It does not
///   keep the client open.
///
/// ```
/// # use cairndb::{Client, LiveChange, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let orders = client.database("shop").collection::<Document>("orders");
/// orders.insert_one(doc! { "_id": 1, "open": true }).run()?;
/// let mut open = orders.find(doc! { "open": true }).live()?;
/// assert_eq!(open.next().expect("the result")?, [LiveChange::Entered(doc! { "_id": 1, "open": true })]);
///
/// orders.update_one(doc! { "_id": 1 }, doc! { "$set": { "open": false } }).run()?;
/// assert_eq!(open.next().expect("it waits")?, [LiveChange::Left(1.into())]);
/// # Ok(())
/// # }
/// ```
pub struct LiveQuery<T> {
    pub(super) raw: RawLive,
    await_time: Duration,
    // A function type, so that the query is `Send` whatever `T` is.
    row: PhantomData<fn() -> T>,
}

impl<T> LiveQuery<T> {
    pub(crate) fn of(raw: RawLive, await_time: Duration) -> Self {
        Self { raw, await_time, row: PhantomData }
    }

    /// Whether there may be more batches.
    ///
    /// ```
    /// # use cairndb::{Client, LiveChange, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut all = people.find(doc! {}).live()?;
    /// all.next().expect("the result")?;
    /// people.drop().run()?;
    /// assert_eq!(all.next().expect("it waits")?, [LiveChange::Invalidated]);
    /// assert!(!all.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_alive(&self) -> bool {
        self.raw.is_alive()
    }

    /// A handle that ends the waiting of the query from another thread.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut all = people.find(doc! {}).live()?;
    /// let waker = all.wake_handle();
    /// // Only the result, which is empty.
    /// let reader = std::thread::spawn(move || all.by_ref().count());
    /// waker.stop();
    /// assert_eq!(reader.join().unwrap(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wake_handle(&self) -> StreamWaker {
        StreamWaker::of(self.raw.is_stopped(), self.raw.rounds())
    }
}

impl<T: DeserializeOwned + 'static> LiveQuery<T> {
    /// The next batch, for which it waits for a while: see [`max_await_time`](crate::action::Find::max_await_time). Returns `None` if there
    /// is none; [`is_alive`](Self::is_alive) says whether there may be one later.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let mut all = people.find(doc! {}).max_await_time(Duration::from_millis(10)).live()?;
    /// assert_eq!(all.next_if_any()?, Some(Vec::new()));
    /// assert_eq!(all.next_if_any()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_if_any(&mut self) -> Result<Option<Vec<LiveChange<T>>>> {
        // A time that no clock can show is one without end.
        let batch = self.raw.advance_until(Instant::now().checked_add(self.await_time))?;
        batch.map(|batch| self.decode(batch)).transpose()
    }

    fn decode(&mut self, batch: Batch) -> Result<Vec<LiveChange<T>>> {
        let decoded = batch.decode();
        if decoded.is_err() {
            // The caller does not know what the batch has changed.
            self.raw.end();
        }
        decoded
    }
}

impl<T: DeserializeOwned + 'static> Iterator for LiveQuery<T> {
    type Item = Result<Vec<LiveChange<T>>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.raw.advance_until(None).transpose()?;
        Some(batch.and_then(|batch| self.decode(batch)))
    }
}
