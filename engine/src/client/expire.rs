//! `expire_documents`: one pass over the TTL indexes, made now.

use std::time::Duration;

use base::error::Result;
use bson::DateTime;

use crate::client::handle::Client;
use crate::expiry::{self, Expired};
use crate::results::DeleteResult;

impl Client {
    /// Deletes the documents of all collections that have expired by a TTL index, and returns how many those were.
    ///
    /// A thread of the client does this once a minute, or as
    /// [`ttl_interval`](crate::ClientBuilder::ttl_interval) says. Call it where that is too seldom, or where the thread is
    /// switched off.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{DateTime, Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let events = client.database("app").collection::<Document>("events");
    /// let day = IndexOptions::builder().expire_after(Duration::from_secs(86_400)).build();
    /// events.create_index(IndexModel::builder().keys(doc! { "at": 1 }).options(day).build()).run()?;
    /// events.insert_one(doc! { "at": DateTime::now() }).run()?;
    /// events.insert_one(doc! { "at": DateTime::from_millis(0) }).run()?;
    /// assert_eq!(client.expire_documents().run()?.deleted_count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire_documents(&self) -> ExpireDocuments<'_> {
        ExpireDocuments { client: self, now: None, max_time: None }
    }
}

/// The action that [`Client::expire_documents`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::Client;
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// assert_eq!(client.expire_documents().max_time(Duration::from_secs(5)).run()?.deleted_count, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "documents are deleted by run()"]
pub struct ExpireDocuments<'a> {
    client: &'a Client,
    now: Option<DateTime>,
    max_time: Option<Duration>,
}

impl ExpireDocuments<'_> {
    /// The time that dates are compared with, in place of the clock's. With a later one, documents expire early.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{DateTime, Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let events = client.database("app").collection::<Document>("events");
    /// # let minute = IndexOptions::builder().expire_after(Duration::from_secs(60)).build();
    /// # events.create_index(IndexModel::builder().keys(doc! { "at": 1 }).options(minute).build()).run()?;
    /// let now = DateTime::now();
    /// events.insert_one(doc! { "at": now }).run()?;
    /// let in_an_hour = DateTime::from_millis(now.timestamp_millis() + 3_600_000);
    /// assert_eq!(client.expire_documents().now(in_an_hour).run()?.deleted_count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn now(self, now: DateTime) -> Self {
        Self { now: Some(now), ..self }
    }

    /// The time limit of the call. When it is over the call fails with code 50 (`MaxTimeMSExpired`). What was deleted by
    /// then stays deleted.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.expire_documents().max_time(std::time::Duration::from_secs(1)).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time: Some(max_time), ..self }
    }

    /// Deletes what has expired, and returns the number of documents.
    pub fn run(self) -> Result<DeleteResult> {
        let Client { shared, caller } = self.client;
        let operation = shared.operation(caller, self.max_time);
        // Asked before the first collection: a store that rejects writes does so even if nothing has expired.
        drop(shared.store.enter()?);
        shared.store.admit_write()?;
        let Expired { deleted } =
            expiry::pass(shared.engine(), self.now.unwrap_or_else(DateTime::now), &operation)?;
        Ok(DeleteResult::new(deleted))
    }
}
