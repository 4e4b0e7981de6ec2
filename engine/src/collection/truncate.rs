//! `truncate`.

use base::error::Result;

use crate::catalog::sequence_change::truncate;
use crate::collection::handle::{Collection, Handle};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::results::TruncateResult;

impl<T> Collection<T> {
    /// Removes all documents in one step. Indexes and auto-increment fields stay.
    ///
    /// The sequences of auto-increment fields restart, except those of fields that were created with
    /// [`OnTruncate::Continue`](crate::OnTruncate::Continue). To keep all sequences as they are, use
    /// [`delete_many`](Self::delete_many) with an empty filter.
    ///
    /// Fails with code 26 if the collection does not exist.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.create_auto_increment(AutoIncrement::builder().field("number").build()).run()?;
    /// orders.insert_many([doc! { "item": "pen" }, doc! { "item": "ink" }]).run()?;
    ///
    /// assert_eq!(orders.truncate().run()?.deleted_count, 2);
    /// assert_eq!(orders.insert_one(doc! { "item": "cap" }).run()?.last_generate_id, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn truncate(&self) -> TruncateCollection<'_> {
        TruncateCollection { collection: &self.handle }
    }
}

/// The action that [`Collection::truncate`] returns. [`run`](Self::run) executes it.
#[must_use = "the collection is truncated by run()"]
pub struct TruncateCollection<'a> {
    collection: &'a Handle,
}

impl TruncateCollection<'_> {
    /// Truncates the collection.
    pub fn run(self) -> Result<TruncateResult> {
        let watch = self.collection.watch(Verb::Truncate);
        watch.end(self.truncate(), Requested::default)
    }

    fn truncate(&self) -> Result<TruncateResult> {
        loop {
            // The result needs the number of documents. They are counted before `truncate` excludes writers, because a
            // count can be slow.
            self.collection.known_count(&self.collection.begin_plain(None))?;
            let truncated = self
                .collection
                .change_existing(|state, storage, operation| truncate(storage, state, operation))?;
            // `None` if another collection has the name by now, whose documents are not counted yet.
            if let Some(deleted_count) = truncated {
                return Ok(TruncateResult { deleted_count });
            }
        }
    }
}
