//! `watch`.

use crate::collection::handle::Collection;
use crate::streams::{Watch, Watched};

impl<T> Collection<T> {
    /// Opens a stream of the collection's changes. The collection need not exist yet.
    ///
    /// The first stream on a collection switches the log of its changes on: from then on each write to it also writes what it has changed.
    /// See [the page on change streams](crate::guide::change_streams).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let mut stream = orders.watch().run()?;
    /// orders.insert_one(doc! { "_id": 1, "item": "lamp" }).run()?;
    /// let event = stream.next().expect("it waits")?;
    /// assert_eq!(event.full_document, Some(doc! { "_id": 1, "item": "lamp" }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<'_, T> {
        let handle = &self.handle;
        let namespace = handle.valid_namespace().cloned();
        Watch::new(handle.shared(), handle.caller().clone(), Watched::Collection(namespace))
    }
}
