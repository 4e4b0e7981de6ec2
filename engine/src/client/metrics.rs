//! `Client::metrics`: what the client has done, and how its store is.

use crate::client::handle::Client;
use crate::error::Result;
use crate::metrics::report::Metrics;

impl Client {
    /// Returns what the client has done since it was opened, and how its store is now. It costs some microseconds, and holds
    /// no one up.
    ///
    /// Calls are counted when they end, and those of cursors when the cursor is at its end or dropped. With
    /// [`ClientBuilder::metrics`](crate::ClientBuilder::metrics) off, operations, documents and searches are not counted.
    ///
    /// Fails if the client is closed.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// let client = Client::in_memory()?;
    /// let people = client.database("app").collection::<Document>("people");
    /// for id in 0..3 {
    ///     people.insert_one(doc! { "_id": id }).run()?;
    /// }
    /// let metrics = client.metrics()?;
    /// let inserts = &metrics.operations["insert_one"];
    /// assert_eq!((inserts.times.count, inserts.failed), (3, 0));
    ///
    /// // As text, for example for a log.
    /// println!("{}", cairndb::bson::serialize_to_document(&metrics)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self) -> Result<Metrics> {
        let shared = &self.shared;
        let database = shared.store.enter()?;
        // First what was done, then how things are: a call that ends in between is missed, never half counted.
        let mut metrics = shared.recorder.report();
        shared.store.measure(&database, &mut metrics);
        Ok(metrics)
    }
}
