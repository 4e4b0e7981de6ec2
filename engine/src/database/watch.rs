//! `watch`.

use bson::Document;

use crate::database::handle::Database;
use crate::streams::{Watch, Watched};

impl Database {
    /// Opens a stream of the changes of all collections of the database, those that are made later included.
    ///
    /// It switches the log of changes on for all of them. See [the page on change streams](crate::guide::change_streams).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let mut stream = shop.watch().run()?;
    /// shop.collection("orders").insert_one(doc! { "_id": 1 }).run()?;
    /// let event = stream.next().expect("it waits")?;
    /// assert_eq!(event.ns.and_then(|ns| ns.coll).as_deref(), Some("orders"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<'_, Document> {
        Watch::new(&self.shared, self.caller.clone(), Watched::Database(self.name.clone()))
    }
}
