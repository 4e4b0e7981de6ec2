//! `modify_collection`.

use base::error::Result;
use base::namespace::Namespace;
use bson::Document;

use crate::collection::definition::{self, Changing, DeclarationChange};
use crate::database::handle::Database;
use crate::options::{ChangeStreamPreAndPostImages, ValidationAction, ValidationLevel};

impl Database {
    /// Changes how a collection checks its documents, or what a view shows. Documents that are stored stay as they are, valid or
    /// not.
    ///
    /// Fails with code 26 (`NamespaceNotFound`) if there is neither such a collection nor such a view.
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
        ModifyCollection { database: self, name: name.into(), change: DeclarationChange::default() }
    }
}

/// The action that [`Database::modify_collection`] returns. [`run`](Self::run) executes it. What is not set stays as it is.
#[must_use = "the collection is changed by run()"]
pub struct ModifyCollection<'a> {
    database: &'a Database,
    name: String,
    change: DeclarationChange,
}

impl ModifyCollection<'_> {
    /// Sets the filter that documents must match from now on. An empty filter removes the validator.
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
        self.change.validation.validator = Some(validator);
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
        self.change.validation.level = Some(level);
        self
    }

    /// Sets the treatment of invalid documents from now on.
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
        self.change.validation.action = Some(action);
        self
    }

    /// Whether the log of changes is to have documents as they were before their changes, and as updates have left them. Streams show them by
    /// [`full_document_before_change`](crate::action::Watch::full_document_before_change) and
    /// [`full_document`](crate::action::Watch::full_document). It costs nothing while the collection is not watched, and then twice
    /// the document with each change.
    ///
    /// ```
    /// # use cairndb::{ChangeStreamPreAndPostImages, Client, FullDocumentBeforeChangeType, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let images = ChangeStreamPreAndPostImages { enabled: true };
    /// shop.create_collection("orders").run()?;
    /// shop.modify_collection("orders").change_stream_pre_and_post_images(images).run()?;
    /// let orders = shop.collection::<Document>("orders");
    /// orders.insert_one(doc! { "_id": 1, "item": "lamp" }).run()?;
    /// let before = FullDocumentBeforeChangeType::Required;
    /// let mut stream = orders.watch().full_document_before_change(before).run()?;
    /// orders.delete_one(doc! { "_id": 1 }).run()?;
    /// let event = stream.next().expect("it waits")?;
    /// assert_eq!(event.full_document_before_change, Some(doc! { "_id": 1, "item": "lamp" }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_stream_pre_and_post_images(mut self, images: ChangeStreamPreAndPostImages) -> Self {
        self.change.keeps_images = Some(images.enabled);
        self
    }

    /// Whether the changes of the collection are logged from now on. Streams of it are lost once they are not (code 286).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let orders = shop.collection::<Document>("orders");
    /// let token = orders.watch().run()?.resume_token();
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// shop.modify_collection("orders").change_log(false).run()?;
    /// let lost = orders.watch().resume_after(token).run().map(drop);
    /// assert_eq!(lost.expect_err("nothing is logged").code(), Some(286));
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log(mut self, is_logged: bool) -> Self {
        self.change.is_logged = Some(is_logged);
        self
    }

    /// The most bytes of a capped collection from now on. If it has more, the next insert removes the oldest documents.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(4096).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_many((0..100).map(|id| doc! { "_id": id })).run()?;
    /// // A document has 14 bytes.
    /// db.modify_collection("log").capped_size(256).run()?;
    /// assert_eq!(log.count_documents(doc! {}).run()?, 100);
    /// log.insert_one(doc! { "_id": 100 }).run()?;
    /// assert_eq!(log.count_documents(doc! {}).run()?, 18);
    /// # Ok(())
    /// # }
    /// ```
    pub fn capped_size(mut self, size: u64) -> Self {
        self.change.capped.size = Some(i64::try_from(size).unwrap_or(i64::MAX));
        self
    }

    /// The most documents of a capped collection from now on; with 0 only their size is limited. If it has more, the next insert
    /// removes the oldest ones.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(4096).run()?;
    /// db.modify_collection("log").capped_max(2).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_many((0..100).map(|id| doc! { "_id": id })).run()?;
    /// assert_eq!(log.count_documents(doc! {}).run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn capped_max(mut self, max: u64) -> Self {
        self.change.capped.max = Some(i64::try_from(max).unwrap_or(i64::MAX));
        self
    }

    /// Sets the source of a view from now on. A reader sees the old definition or the new one, whole.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("current").view_on("prices.2025").run()?;
    /// shop.collection("prices.2026").insert_one(doc! { "_id": "pen", "price": 3 }).run()?;
    /// shop.modify_collection("current").view_on("prices.2026").run()?;
    /// assert_eq!(shop.collection::<Document>("current").count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn view_on(mut self, source: impl Into<String>) -> Self {
        self.change.view.on = Some(source.into());
        self
    }

    /// The stages of a view from now on.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("orders").insert_one(doc! { "_id": 1, "paid": true }).run()?;
    /// shop.create_collection("open").view_on("orders").run()?;
    /// shop.modify_collection("open").pipeline([doc! { "$match": { "paid": false } }]).run()?;
    /// assert_eq!(shop.collection::<Document>("open").count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipeline(mut self, pipeline: impl IntoIterator<Item = Document>) -> Self {
        self.change.view.pipeline = Some(pipeline.into_iter().collect());
        self
    }

    /// Changes the collection, in one synced commit. It waits for writes that run, and writes that come meanwhile wait for it.
    pub fn run(self) -> Result<()> {
        let namespace = Namespace::parse(&self.database.name, &self.name)?;
        let operation = self.database.shared.plain_operation(&self.database.caller, None);
        let changing = Changing { namespace: &namespace, operation: &operation };
        definition::modify(&self.database.shared, changing, &self.change)
    }
}
