//! `watch`, and the time of the log of changes.

use base::error::Result;
use base::namespace::Namespace;
use bson::{Document, Timestamp};

use crate::changes::scopes::Scope;
use crate::client::builder::ClientBuilder;
use crate::client::handle::Client;
use crate::options::ChangeLogging;
use crate::streams::{Watch, Watched};

impl Client {
    /// Opens a stream of the changes of all databases but those of the system.
    ///
    /// It switches the log of changes on for all collections. See [the page on change streams](crate::guide::change_streams).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let mut stream = client.watch().run()?;
    /// client.database("shop").collection("orders").insert_one(doc! { "_id": 1 }).run()?;
    /// let event = stream.next().expect("it waits")?;
    /// assert_eq!(event.ns.map(|ns| ns.db).as_deref(), Some("shop"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Watch<'_, Document> {
        Watch::new(&self.shared, self.caller.clone(), Watched::Client)
    }

    /// Logs the changes of all databases from now on, as a stream on the client would, or no more.
    ///
    /// # Errors
    /// With code 20 if the store was opened with [`ChangeLogging::Never`], and with `ReadOnly` if it was opened for reading.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// client.change_log(true)?;
    /// let began = client.operation_time()?;
    /// client.database("shop").collection("orders").insert_one(doc! { "_id": 1 }).run()?;
    /// // Nothing watched meanwhile.
    /// let mut stream = client.watch().start_at_operation_time(began).run()?;
    /// # while stream.next().expect("it waits")?.document_key != Some(doc! { "_id": 1 }) {}
    /// drop(stream);
    /// client.change_log(false)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log(&self, is_logged: bool) -> Result<()> {
        let operation = self.shared.operation(&self.caller, None);
        let database = self.shared.store.enter()?;
        self.shared.switch_log(&database, &Scope::Client, is_logged, &operation)
    }

    /// The time of this moment, by the clock that the changes of the store have: a stream that begins at it shows every later change.
    /// Servers put it into their replies.
    #[doc(hidden)]
    pub fn time(&self) -> Timestamp {
        self.shared.catalog.log.time()
    }

    /// Whether the changes of a database or of one of its collections are logged, so that a stream of them switches nothing on. Without
    /// a database those of the client.
    #[doc(hidden)]
    pub fn logs_changes(&self, database: Option<&str>, collection: Option<&str>) -> bool {
        let scope = match (database, collection) {
            (None, _) => Scope::Client,
            (Some(db), None) => Scope::Database(db.to_owned()),
            (Some(db), Some(coll)) => {
                Scope::Collection(Namespace { db: db.to_owned(), coll: coll.to_owned() })
            }
        };
        self.shared.catalog.log.began(&scope).is_some()
    }

    /// The time up to which every change that was logged can be read. A stream that
    /// [starts](crate::action::Watch::start_at_operation_time) at a time that was taken before a collection was read misses no change of
    /// it; it may show some that the reader has seen already.
    ///
    /// Something must be watched before: nothing is logged otherwise, and the time stands still.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.watch().run()?;
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    ///
    /// let time = client.operation_time()?;
    /// let read = orders.find(doc! {}).run()?.collect::<cairndb::Result<Vec<_>>>()?;
    /// orders.insert_one(doc! { "_id": 2 }).run()?;
    /// let mut stream = orders.watch().start_at_operation_time(time).run()?;
    /// # assert_eq!(read.len(), 1);
    /// # while stream.next().expect("it waits")?.document_key != Some(doc! { "_id": 2 }) {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation_time(&self) -> Result<Timestamp> {
        // A closed store has no time.
        let _in_use = self.shared.store.enter()?;
        Ok(self.shared.catalog.log.operation_time())
    }
}

impl ClientBuilder {
    /// The collections whose changes are logged. The default is [`ChangeLogging::Watched`].
    ///
    /// ```
    /// # use cairndb::{ChangeLogging, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().change_log(ChangeLogging::Always).open(&path)?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// let began = client.operation_time()?;
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut stream = orders.watch().start_at_operation_time(began).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log(mut self, logging: ChangeLogging) -> Self {
        self.transactions.log.logging = logging;
        self
    }
}
