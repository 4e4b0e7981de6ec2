//! `insert_one`.

use std::borrow::Borrow;
use std::time::Duration;

use base::error::Result;
use bson::Bson;
use serde::Serialize;

use crate::collection::handle::{Collection, Handle, Terms};
use crate::collection::scope::Scope;
use crate::document::draft::Drafts;
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::insert_one_option;
use crate::options::{InsertOneOptions, WriteConcern};
use crate::outcomes::token::Token;
use crate::results::InsertOneResult;
use crate::write::insert;

impl<T: Serialize> Collection<T> {
    /// Stores one document.
    ///
    /// If it has no `_id`, a new `ObjectId` becomes its first field. Auto-increment fields that it does not have get their
    /// next values. The result has the `_id` and the generated values.
    ///
    /// Fails with code 11000 (`DuplicateKey`) if the `_id` or a key of a unique index is in use. Then nothing is stored.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let inserted = people.insert_one(doc! { "name": "Ada" }).run()?;
    ///
    /// let ada = people.find_one(doc! { "name": "Ada" }).run()?.expect("inserted above");
    /// assert_eq!(ada.get("_id"), Some(&inserted.inserted_id));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_one<D: Borrow<T>>(&self, document: D) -> InsertOne<'_> {
        // Serialized here, so that what inserts it need not know its type. `run` reports the error.
        let draft = Drafts::of_one(document.borrow());
        InsertOne { collection: Scope::of(&self.handle), draft, options: InsertOneOptions::default() }
    }
}

/// The action that [`Collection::insert_one`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use std::time::Duration;
/// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let insert = people.insert_one(doc! { "name": "Ada" });
/// insert.write_concern(WriteConcern::journaled()).max_time(Duration::from_secs(1)).run()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the insert is done by run()"]
pub struct InsertOne<'a> {
    collection: Scope<'a>,
    draft: Result<Drafts>,
    options: InsertOneOptions,
}

in_session!(InsertOne<'a> = r#"people.insert_one(doc! { "_id": 2 })"#);

exactly_once!(InsertOne<'a> = r#"people.insert_one(doc! { "name": "Grace" })"#);

setters!(InsertOne<'a>, InsertOneOptions, insert_one_option);

impl InsertOne<'_> {
    /// Stores the document.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let refused = people.insert_one(doc! { "_id": 1 }).run();
    /// assert!(refused.is_err_and(|error| error.is_duplicate_key()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<InsertOneResult> {
        let Self { collection, draft, options } = self;
        let watch = collection.watch(Verb::InsertOne);
        let inserted = match collection.token() {
            None => insert(&collection, draft, &options),
            Some(token) => insert_once(&collection, token, draft, &options),
        };
        // By reference: to hand the result through would copy it.
        watch.count(&inserted, Requested::default);
        inserted
    }
}

#[cold]
fn insert_once(
    collection: &Handle,
    token: &Token,
    draft: Result<Drafts>,
    options: &InsertOneOptions,
) -> Result<InsertOneResult> {
    let draft = draft?;
    let mut asked = collection.asked("insert_one", token, options.write_concern.as_ref());
    for document in draft.documents() {
        asked = asked.bytes(document);
    }
    let bypass = argument(options.bypass_document_validation.as_ref());
    let asked = asked.options([("bypassDocumentValidation", bypass)])?;
    collection.once(asked, |collection| insert(collection, Ok(draft), options))
}

#[inline]
fn insert(collection: &Handle, draft: Result<Drafts>, options: &InsertOneOptions) -> Result<InsertOneResult> {
    let mut draft = draft?;
    // This finds only what no collection could store. Duplicates are found under the latches.
    collection.check_before_creation(|| insert::check_one(&draft))?;
    // An insert evaluates no expressions. So without limits its operation allocates nothing.
    let operation = collection.begin_plain(options.max_time);
    let terms = Terms { concern: options.write_concern.as_ref(), operation: &operation };
    let inserted = collection.write(terms, |target| {
        let target = target.bypassing(options.bypass_document_validation);
        insert::insert_one(target, &mut draft)
    })?;
    let last_generate_id = inserted.generated.first();
    Ok(InsertOneResult::new(inserted.id, inserted.generated, last_generate_id))
}
