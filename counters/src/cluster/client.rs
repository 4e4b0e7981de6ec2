//! A client of a cluster that holds blocks of numbers, and its databases.

use std::ops::Deref;
use std::sync::Arc;

use mongodb::sync;

use crate::cluster::collection::Collection;
use crate::cluster::held::Held;
use crate::error::Result;
use crate::numbers::Numbers;

/// A client of MongoDB's driver, and the numbers that it has drawn ahead. Clones share them; what is left of them when the
/// last one is dropped is lost, as it is in a process that dies.
///
/// ```no_run
/// use cairndb_counters::Numbers;
/// use cairndb_counters::cluster::Client;
///
/// # fn main() -> cairndb_counters::Result<()> {
/// let client = Client::with_uri_str("mongodb://db.example/")?;
/// let ticket = client.database("shop").next_value("tickets")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    held: Held,
}

impl Client {
    /// A client that draws numbers by one of the driver.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let driver = mongodb::sync::Client::with_uri_str("mongodb://db.example/")?;
    /// let client = cairndb_counters::cluster::Client::new(driver);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(driver: sync::Client) -> Self {
        Self { held: Held { driver, blocks: Arc::default(), counters: None } }
    }

    /// A client for a URI.
    ///
    /// ```no_run
    /// # fn main() -> cairndb_counters::Result<()> {
    /// let client = cairndb_counters::cluster::Client::with_uri_str("mongodb://db.example/")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_uri_str(uri: impl AsRef<str>) -> Result<Self> {
        Ok(Self::new(sync::Client::with_uri_str(uri)?))
    }

    /// Looks for all counters in one collection: what `cairn migrate` was given by `--counters`. Without it those of a database
    /// are in its collection `counters`.
    ///
    /// ```no_run
    /// # fn main() -> cairndb_counters::Result<()> {
    /// let client = cairndb_counters::cluster::Client::with_uri_str("mongodb://db.example/")?;
    /// let client = client.with_counters("numbers", "all");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_counters(mut self, database: &str, collection: &str) -> Self {
        self.held.counters = Some((database.to_owned(), collection.to_owned()));
        self
    }

    /// A database.
    ///
    /// ```no_run
    /// # fn main() -> cairndb_counters::Result<()> {
    /// # let client = cairndb_counters::cluster::Client::with_uri_str("mongodb://db.example/")?;
    /// let shop = client.database("shop");
    /// assert_eq!(shop.name(), "shop");
    /// # Ok(())
    /// # }
    /// ```
    pub fn database(&self, name: &str) -> Database {
        Database { driver: self.held.driver.database(name), held: self.held.clone() }
    }
}

impl Deref for Client {
    type Target = sync::Client;

    fn deref(&self) -> &sync::Client {
        &self.held.driver
    }
}

/// A database of a cluster, whose counters are its sequences.
#[derive(Clone, Debug)]
pub struct Database {
    driver: sync::Database,
    held: Held,
}

impl Database {
    /// A collection.
    ///
    /// ```no_run
    /// # use bson::Document;
    /// # fn main() -> cairndb_counters::Result<()> {
    /// # let client = cairndb_counters::cluster::Client::with_uri_str("mongodb://db.example/")?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// assert_eq!(orders.name(), "orders");
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        Collection::of(self.driver.collection(name), self.driver.name(), self.held.clone())
    }
}

impl Deref for Database {
    type Target = sync::Database;

    fn deref(&self) -> &sync::Database {
        &self.driver
    }
}

impl Numbers for Database {
    fn next_value(&self, sequence: &str) -> Result<i64> {
        let values = self.fetch(sequence, 1)?;
        // At least one is taken, or it is an error.
        Ok(values.first().copied().unwrap_or_default())
    }

    fn fetch(&self, sequence: &str, count: u32) -> Result<Vec<i64>> {
        let counters = self.held.counters_of(self.name());
        self.held.blocks.take(&counters, sequence, u64::from(count), None)
    }
}
