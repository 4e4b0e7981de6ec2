//! `watch`.

use base::error::Result;
use bson::Document;

use crate::database::handle::Database;
use crate::streams::{Watch, Watched, scope_of};

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

    /// Logs the changes of all collections of the database from now on, as a stream on the database would, or no more.
    ///
    /// # Errors
    /// With code 72 if they are logged with all databases and shall not be, with code 20 if the store was opened with
    /// [`ChangeLogging::Never`](crate::ChangeLogging::Never), and with code 73 for a database of the system.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.change_log(true)?;
    /// let began = client.operation_time()?;
    /// let orders = shop.collection::<Document>("orders");
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut stream = orders.watch().start_at_operation_time(began).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log(&self, is_logged: bool) -> Result<()> {
        let scope = scope_of(Watched::Database(self.name.clone()))?;
        let operation = self.shared.operation(&self.caller, None);
        let database = self.shared.store.enter()?;
        self.shared.switch_log(&database, &scope, is_logged, &operation)
    }
}
