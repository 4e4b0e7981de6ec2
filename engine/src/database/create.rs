//! `create_collection`.

use bson::Document;

use crate::auto_increment::AutoIncrement;
use crate::catalog::change::NewCollection;
use crate::collection::definition;
use crate::database::handle::Database;
use crate::error::Result;
use crate::namespace::Namespace;
use crate::options::{ValidationAction, ValidationLevel};

impl Database {
    /// Creates an empty collection. This is only needed for auto-increment fields and validators, because the first write to a
    /// collection creates it.
    ///
    /// It is no error if the collection exists and was declared alike. Otherwise the call fails with code 48
    /// (`NamespaceExists`).
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("orders").run()?;
    /// assert_eq!(shop.list_collection_names().run()?, ["orders"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_collection(&self, name: impl Into<String>) -> CreateCollection<'_> {
        CreateCollection { database: self, name: name.into(), new: NewCollection::default() }
    }
}

/// The action that [`Database::create_collection`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{AutoIncrement, Client};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let fields = ["number", "position"].map(|field| AutoIncrement::builder().field(field).build());
/// let [number, position] = fields;
/// client.database("shop").create_collection("orders").auto_increment(number).auto_increment(position).run()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the collection is created by run()"]
pub struct CreateCollection<'a> {
    database: &'a Database,
    name: String,
    new: NewCollection,
}

impl CreateCollection<'_> {
    /// Adds an auto-increment field: the engine numbers the documents in it. Call it once for each field.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let number = AutoIncrement::builder().field("number").build();
    /// shop.create_collection("orders").auto_increment(number).run()?;
    ///
    /// let inserted = shop.collection::<Document>("orders").insert_one(doc! { "item": "pen" }).run()?;
    /// assert_eq!(inserted.generated.get("number"), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn auto_increment(mut self, field: AutoIncrement) -> Self {
        self.new.fields.push(field.options);
        self
    }

    /// What documents of the collection must match: any filter, also one with `$jsonSchema` or `$expr`. A document that does
    /// not is refused with code 121 (`DocumentValidationFailure`), and the error's details tell which rule it breaks.
    ///
    /// Documents are checked as they are stored: with their `_id` and with values of auto-increment fields.
    ///
    /// ```
    /// # use cairndb::{Client, ErrorKind, WriteFailure, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let priced = doc! { "price": { "$gt": 0 } };
    /// shop.create_collection("items").validator(priced).run()?;
    ///
    /// let items = shop.collection::<Document>("items");
    /// let error = items.insert_one(doc! { "_id": 1, "price": -2 }).run().expect_err("refused");
    /// let ErrorKind::Write(WriteFailure::WriteError(refused)) = error.kind() else { panic!("{error}") };
    /// let rule = doc! {
    ///     "operatorName": "$gt",
    ///     "specifiedAs": { "price": { "$gt": 0 } },
    ///     "reason": "comparison failed",
    ///     "consideredValue": -2,
    /// };
    /// assert_eq!(refused.code, 121);
    /// assert_eq!(refused.details, Some(doc! { "failingDocumentId": 1, "details": rule }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn validator(mut self, validator: Document) -> Self {
        self.new.validation.validator = Some(validator);
        self
    }

    /// Which writes are checked by the validator. The default is every write.
    ///
    /// ```
    /// # use cairndb::{Client, ValidationLevel, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let create = shop.create_collection("items").validator(doc! { "price": { "$gt": 0 } });
    /// create.validation_level(ValidationLevel::Off).run()?;
    /// shop.collection("items").insert_one(doc! { "price": -2 }).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn validation_level(mut self, level: ValidationLevel) -> Self {
        self.new.validation.level = Some(level);
        self
    }

    /// What becomes of a document that the validator does not accept. The default is that it is refused.
    ///
    /// ```
    /// # use cairndb::{Client, ValidationAction, bson::doc};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let create = shop.create_collection("items").validator(doc! { "price": { "$gt": 0 } });
    /// create.validation_action(ValidationAction::Warn).run()?;
    /// shop.collection("items").insert_one(doc! { "price": -2 }).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn validation_action(mut self, action: ValidationAction) -> Self {
        self.new.validation.action = Some(action);
        self
    }

    /// Creates the collection.
    pub fn run(self) -> Result<()> {
        let namespace = Namespace::parse(&self.database.name, &self.name)?;
        definition::create(&self.database.shared, &namespace, &self.new)
    }
}
