//! The two traits: numbers of a database's sequences, and documents whose fields number themselves.

use std::borrow::Borrow;

use serde::Serialize;

use crate::error::Result;
use crate::results::{InsertedMany, InsertedOne};

/// A database whose sequences give numbers.
pub trait Numbers {
    /// Draws the next value of a sequence. No other call gets the same, in whatever process.
    ///
    /// Fails with -324 if no such sequence exists, and with -325 if no value is left.
    ///
    /// ```
    /// # #[cfg(feature = "cairndb")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cairndb_counters::Numbers;
    /// # let folder = tempfile::tempdir()?;
    /// # let db = cairndb::Client::open(folder.path().join("db"))?.database("shop");
    /// # db.create_sequence("tickets").run()?;
    ///
    /// assert_eq!(db.next_value("tickets")?, 1);
    /// assert_eq!(db.next_value("tickets")?, 2);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cairndb"))]
    /// # fn main() {}
    /// ```
    fn next_value(&self, sequence: &str) -> Result<i64>;

    /// Draws the next `count` values, or fewer if the block of this process has fewer left, and at least one.
    ///
    /// Fails with -6 for a count of 0, else as [`next_value`](Self::next_value).
    ///
    /// ```
    /// # #[cfg(feature = "cairndb")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cairndb_counters::Numbers;
    /// # let folder = tempfile::tempdir()?;
    /// # let db = cairndb::Client::open(folder.path().join("db"))?.database("shop");
    /// # db.create_sequence("tickets").run()?;
    ///
    /// assert_eq!(db.fetch("tickets", 3)?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cairndb"))]
    /// # fn main() {}
    /// ```
    fn fetch(&self, sequence: &str, count: u32) -> Result<Vec<i64>>;
}

/// A collection whose fields may number themselves.
pub trait Numbered<T> {
    /// Inserts a document. An auto-increment field gets a number if the document lacks it; what becomes of a value that
    /// the document brings is for the field's mode to say.
    ///
    /// ```
    /// # #[cfg(feature = "cairndb")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cairndb_counters::Numbered;
    /// # use cairndb::bson::{Document, doc};
    /// # let folder = tempfile::tempdir()?;
    /// # let db = cairndb::Client::open(folder.path().join("db"))?.database("shop");
    /// # db.create_collection("orders").auto_increment(cairndb::AutoIncrement::builder().field("number").build()).run()?;
    ///
    /// let inserted = db.collection::<Document>("orders").insert_one_numbered(doc! { "total": 20 })?;
    /// assert_eq!(inserted.generated.get("number"), Some(&1));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cairndb"))]
    /// # fn main() {}
    /// ```
    fn insert_one_numbered(&self, document: impl Borrow<T>) -> Result<InsertedOne>
    where
        T: Serialize;

    /// Inserts documents in their order, numbered as by [`insert_one_numbered`](Self::insert_one_numbered).
    ///
    /// The first rejected document ends the call; those before it are stored. In a cluster a field of the contract gapless
    /// makes the call one transaction, of which all is stored or nothing.
    ///
    /// ```
    /// # #[cfg(feature = "cairndb")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cairndb_counters::Numbered;
    /// # use cairndb::bson::{Document, doc};
    /// # let folder = tempfile::tempdir()?;
    /// # let db = cairndb::Client::open(folder.path().join("db"))?.database("shop");
    /// # db.create_collection("orders").auto_increment(cairndb::AutoIncrement::builder().field("number").build()).run()?;
    ///
    /// let inserted = db.collection::<Document>("orders").insert_many_numbered([doc! {}, doc! { "number": 7 }])?;
    /// assert_eq!((inserted.inserted_ids.len(), inserted.generated.len()), (2, 1));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cairndb"))]
    /// # fn main() {}
    /// ```
    fn insert_many_numbered(
        &self,
        documents: impl IntoIterator<Item = impl Borrow<T>>,
    ) -> Result<InsertedMany>
    where
        T: Serialize;
}
