//! `create_collection`.

use base::error::Result;
use base::namespace::Namespace;
use bson::Document;

use crate::auto_increment::AutoIncrement;
use crate::collection::definition::{self, Declaration};
use crate::database::handle::Database;
use crate::options::{
    ChangeStreamPreAndPostImages, ClusteredIndex, Collation, ValidationAction, ValidationLevel,
};
use crate::session::ClientSession;
use crate::shared::Caller;

impl Database {
    /// Creates an empty collection, or a view. This is only needed for views, auto-increment fields, collations and validators,
    /// because the first write to a collection creates it.
    ///
    /// It is not an error if the collection exists and was declared alike. Otherwise the call fails with code 48
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
        CreateCollection { database: self, name: name.into(), new: Declaration::default(), session: None }
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
    new: Declaration,
    session: Option<&'a ClientSession>,
}

impl<'a> CreateCollection<'a> {
    /// Makes the action a statement of a session: a part of its transaction, if it has started one. Others see the collection after the
    /// commit. A view, a capped collection and one with auto-increment fields cannot be made so.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// shop.create_collection("orders").session(&mut session).run()?;
    /// shop.collection::<Document>("orders").insert_one(doc! { "item": "lamp" }).session(&mut session).run()?;
    /// assert!(shop.list_collection_names().run()?.is_empty());
    /// session.commit_transaction().run()?;
    /// assert_eq!(shop.list_collection_names().run()?, ["orders"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        self.session = Some(session);
        self
    }

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
        self.new.collection.fields.push(field.options);
        self
    }

    /// Whether the log of changes has documents as they were before their changes, and as updates have left them. Streams show them by
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
    /// shop.create_collection("orders").change_stream_pre_and_post_images(images).run()?;
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
        self.new.collection.keeps_images = images.enabled;
        self
    }

    /// Whether the changes of the collection are logged from the beginning, and not only once a stream watches it.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("orders").change_log(true).run()?;
    /// let began = client.operation_time()?;
    /// let orders = shop.collection::<Document>("orders");
    /// orders.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut stream = orders.watch().start_at_operation_time(began).run()?;
    /// assert_eq!(stream.next().expect("it waits")?.document_key, Some(doc! { "_id": 1 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_log(mut self, is_logged: bool) -> Self {
        self.new.is_logged = Some(is_logged);
        self
    }

    /// Sets the filter that documents of the collection must match: any filter, also one with `$jsonSchema` or
    /// `$expr`. A document that does not is rejected with code 121 (`DocumentValidationFailure`), and the error's
    /// details say which rule it breaks.
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
        self.new.collection.validation.validator = Some(validator);
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
        self.new.collection.validation.level = Some(level);
        self
    }

    /// Sets the treatment of a document that the validator does not accept. The default is that it is rejected.
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
        self.new.collection.validation.action = Some(action);
        self
    }

    /// Sets the collation of the collection or the view, for operations that do not name one. Its indexes have this
    /// collation too, unless they are made with another one. It cannot be changed. The default is that bytes are
    /// compared.
    ///
    /// An operation on a view cannot have another collation than the view (167, `OptionNotSupportedOnView`). `_id`s stay unique
    /// by their bytes, so several documents may have `_id`s that are equal to the language.
    ///
    /// ```
    /// # use cairndb::{Client, Collation, CollationStrength, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let app = client.database("app");
    /// let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
    /// app.create_collection("people").collation(any_case).run()?;
    ///
    /// let people = app.collection::<Document>("people");
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert!(people.find_one(doc! { "name": "ADA" }).run()?.is_some());
    /// let by_bytes = people.find_one(doc! { "name": "ADA" }).collation(Collation::simple());
    /// assert_eq!(by_bytes.run()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collation(mut self, collation: Collation) -> Self {
        self.new.collation = Some(collation);
        self
    }

    /// Declares that the collection is stored in the order of its `_id`s, as every collection here is. So this changes only how
    /// the collection and its index on `_id` are described, which may have another name than `_id_`.
    ///
    /// ```
    /// # use cairndb::{Client, ClusteredIndex, bson::Document};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let app = client.database("app");
    /// app.create_collection("events").clustered_index(ClusteredIndex::default().with_name("by id")).run()?;
    /// assert_eq!(app.collection::<Document>("events").list_index_names().run()?, ["by id"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clustered_index(mut self, index: ClusteredIndex) -> Self {
        self.new.clustered = Some(index);
        self
    }

    /// Makes a capped collection: it keeps its documents in the order in which they were inserted, and removes the oldest ones
    /// when it would become larger than [`size`](Self::size), or get more documents than [`max`](Self::max).
    ///
    /// Without a sort its documents are found in that order. Writes to it take turns. It cannot have TTL indexes, and `$out`
    /// does not write to it. See [`CursorType`](crate::CursorType) for readers that follow it.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let db = client.database("app");
    /// db.create_collection("log").capped(true).size(1 << 20).max(2).run()?;
    /// let log = db.collection::<Document>("log");
    /// log.insert_many([doc! { "_id": 9 }, doc! { "_id": 5 }, doc! { "_id": 7 }]).run()?;
    /// let found = log.find(doc! {}).run()?.collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(found, [doc! { "_id": 5 }, doc! { "_id": 7 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn capped(mut self, capped: bool) -> Self {
        self.new.capped.capped = capped;
        self
    }

    /// The most bytes that the documents of a capped collection have together, rounded up to a multiple of 256. It must be given,
    /// and at most 1 PiB. A document that has more is rejected with code 2 (`BadValue`).
    ///
    /// The example of [`capped`](Self::capped) sets it.
    pub fn size(mut self, size: u64) -> Self {
        self.new.capped.size = Some(i64::try_from(size).unwrap_or(i64::MAX));
        self
    }

    /// The most documents of a capped collection, fewer than 2^31. With 0 only their size is limited.
    ///
    /// The example of [`capped`](Self::capped) sets it.
    pub fn max(mut self, max: u64) -> Self {
        self.new.capped.max = Some(i64::try_from(max).unwrap_or(i64::MAX));
        self
    }

    /// Makes a view in place of a collection: its documents are those of `source`, a collection or another view of the same
    /// database, after the stages of [`pipeline`](Self::pipeline). The source need not exist, and is empty then.
    ///
    /// A view stores nothing. Every read of it runs its pipeline on the documents as they are then, with the indexes of the
    /// source; writes are rejected with code 166 (`CommandNotSupportedOnView`).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.create_collection("open").view_on("orders").pipeline([doc! { "$match": { "paid": false } }]).run()?;
    ///
    /// let orders = shop.collection::<Document>("orders");
    /// orders.insert_many([doc! { "_id": 1, "paid": true }, doc! { "_id": 2, "paid": false }]).run()?;
    /// let open = shop.collection::<Document>("open");
    /// assert_eq!(open.find_one(doc! {}).run()?, Some(doc! { "_id": 2, "paid": false }));
    /// assert_eq!(open.insert_one(doc! { "_id": 3 }).run().unwrap_err().code(), Some(166));
    /// # Ok(())
    /// # }
    /// ```
    pub fn view_on(mut self, source: impl Into<String>) -> Self {
        self.new.view_on = Some(source.into());
        self
    }

    /// The stages of a view. Without them the view shows its source as it is. Stages that write are rejected.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("orders").insert_one(doc! { "_id": 1, "item": "pen", "count": 3 }).run()?;
    /// let sold = doc! { "$group": { "_id": "$item", "sold": { "$sum": "$count" } } };
    /// shop.create_collection("sold").view_on("orders").pipeline([sold]).run()?;
    /// let pens = shop.collection::<Document>("sold").find_one(doc! { "_id": "pen" }).run()?;
    /// assert_eq!(pens, Some(doc! { "_id": "pen", "sold": 3 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipeline(mut self, pipeline: impl IntoIterator<Item = Document>) -> Self {
        self.new.pipeline = Some(pipeline.into_iter().collect());
        self
    }

    /// Creates the collection or the view.
    pub fn run(self) -> Result<()> {
        let namespace = Namespace::parse(&self.database.name, &self.name)?;
        let shared = &self.database.shared;
        let caller = match self.session {
            None => self.database.caller.clone(),
            Some(session) => {
                let transaction = session.statement_of(shared)?;
                Caller { transaction, ..self.database.caller.clone() }
            }
        };
        definition::create(shared, &caller, namespace, &self.new)
    }
}
