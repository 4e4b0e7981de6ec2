//! `modify_collection`.

use bson::Document;

use crate::catalog::validation::ValidationChange;
use crate::collection::definition;
use crate::database::handle::Database;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::options::{ValidationAction, ValidationLevel};

impl Database {
    /// Changes how a collection checks its documents. Documents that are stored stay as they are, valid or not.
    ///
    /// Fails with code 26 (`NamespaceNotFound`) if there is no such collection.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let items = shop.collection::<Document>("items");
    /// items.insert_one(doc! { "_id": 1, "price": -2 }).run()?;
    ///
    /// let schema = doc! { "$jsonSchema": { "required": ["price"], "properties": { "price": { "minimum": 0 } } } };
    /// shop.modify_collection("items").validator(schema).run()?;
    /// assert_eq!(items.insert_one(doc! { "_id": 2 }).run().unwrap_err().code(), Some(121));
    /// assert_eq!(items.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify_collection(&self, name: impl Into<String>) -> ModifyCollection<'_> {
        ModifyCollection { database: self, name: name.into(), change: ValidationChange::default() }
    }
}

/// The action that [`Database::modify_collection`] returns. [`run`](Self::run) executes it. What is not set stays as it is.
#[must_use = "the collection is changed by run()"]
pub struct ModifyCollection<'a> {
    database: &'a Database,
    name: String,
    change: ValidationChange,
}

impl ModifyCollection<'_> {
    /// What documents must match from now on. An empty filter takes the validator away.
    ///
    /// ```
    /// # use cairndb::{Client, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("items").validator(doc! { "price": { "$gt": 0 } }).run()?;
    /// shop.modify_collection("items").validator(doc! {}).run()?;
    /// shop.collection("items").insert_one(doc! { "price": -2 }).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn validator(mut self, validator: Document) -> Self {
        self.change.validator = Some(validator);
        self
    }

    /// Which writes are checked by the validator from now on.
    ///
    /// ```
    /// # use cairndb::{Client, ValidationLevel, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("items").validator(doc! { "price": { "$gt": 0 } }).run()?;
    /// shop.modify_collection("items").validation_level(ValidationLevel::Off).run()?;
    /// shop.collection("items").insert_one(doc! { "price": -2 }).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn validation_level(mut self, level: ValidationLevel) -> Self {
        self.change.level = Some(level);
        self
    }

    /// What becomes of documents that are not valid from now on.
    ///
    /// ```
    /// # use cairndb::{Client, ValidationAction, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("items").validator(doc! { "price": { "$gt": 0 } }).run()?;
    /// shop.modify_collection("items").validation_action(ValidationAction::Warn).run()?;
    /// shop.collection("items").insert_one(doc! { "price": -2 }).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn validation_action(mut self, action: ValidationAction) -> Self {
        self.change.action = Some(action);
        self
    }

    /// Changes the collection, in one synced commit. It waits for writes that run, and writes that come meanwhile wait for it.
    pub fn run(self) -> Result<()> {
        let namespace = Namespace::parse(&self.database.name, &self.name)?;
        definition::modify(&self.database.shared, &namespace, &self.change)
    }
}
