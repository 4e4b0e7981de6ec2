//! `insert_many`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bson::Bson;
use serde::Serialize;

use base::error::{Error, ErrorKind, Result};
use base::insert_error::InsertManyError;

use crate::collection::handle::{Collection, Handle, Terms};
use crate::collection::scope::Scope;
use crate::document::draft::Drafts;
use crate::metrics::verb::Verb;
use crate::options::argument::argument;
use crate::options::declare::setters;
use crate::options::writes::insert_many_option;
use crate::options::{InsertManyOptions, WriteConcern};
use crate::outcomes::token::Token;
use crate::results::InsertManyResult;
use crate::write::insert::{self, InsertingMany};
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};

impl<T: Serialize> Collection<T> {
    /// Stores many documents, in one commit for each 8 MiB of them.
    ///
    /// An ordered call, the default, stops at the first rejected document; the documents before it are stored. An unordered
    /// call tries all documents. Rejected documents are listed in [`ErrorKind::InsertMany`] with their positions. A call
    /// without documents is an error.
    ///
    /// Auto-increment fields get their values in the order of the documents. If a field rejects a value that a document
    /// brings, the whole call fails and nothing is stored. If a generated value is in use already, a call with one document
    /// tries the next value once, as [`insert_one`](Self::insert_one) does; a call with several documents does not.
    ///
    /// A recipe: [from files to a store, and from `SQLite`](crate::guide::data#from-files-to-a-store-and-from-sqlite).
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let names = ["Ada", "Grace"].map(|name| doc! { "name": name });
    /// let inserted = people.insert_many(names).run()?;
    /// assert_eq!(inserted.inserted_ids.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many<D: Borrow<T>>(&self, documents: impl IntoIterator<Item = D>) -> InsertMany<'_> {
        // Serialized here, so that the action does not borrow the documents. `run` reports the error.
        let mut drafts = Drafts::default();
        // The first document that cannot be serialized fails the whole call: nothing is stored yet.
        let pushed = documents.into_iter().try_for_each(|document| drafts.push(document.borrow()));
        let documents = pushed.map(|()| drafts);
        InsertMany { collection: Scope::of(&self.handle), documents, options: InsertManyOptions::default() }
    }
}

impl Handle {
    /// Stores documents that are serialized into drafts already.
    pub(crate) fn insert_drafts(&self, drafts: Drafts) -> InsertMany<'_> {
        InsertMany {
            collection: Scope::of(self),
            documents: Ok(drafts),
            options: InsertManyOptions::default(),
        }
    }
}

/// The action that [`Collection::insert_many`] returns. [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, WriteConcern, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let insert = people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }]);
/// let inserted = insert.ordered(false).write_concern(WriteConcern::journaled()).run()?;
/// assert_eq!(inserted.inserted_ids.len(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "the insert is done by run()"]
pub struct InsertMany<'a> {
    collection: Scope<'a>,
    documents: Result<Drafts>,
    options: InsertManyOptions,
}

in_session!(InsertMany<'a> = r#"people.insert_many([doc! { "_id": 2 }, doc! { "_id": 3 }])"#);

exactly_once!(InsertMany<'a> = r#"people.insert_many([doc! { "name": "Grace" }, doc! { "name": "Edith" }])"#);

setters!(InsertMany<'a>, InsertManyOptions, insert_many_option);

impl InsertMany<'_> {
    /// Stores the documents.
    ///
    /// ```
    /// # use cairndb::{Client, ErrorKind, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    ///
    /// let documents = [doc! { "_id": 0 }, doc! { "_id": 1 }, doc! { "_id": 2 }];
    /// let error = people.insert_many(documents).run().expect_err("1 is taken");
    /// match error.kind() {
    ///     ErrorKind::InsertMany(refused) => assert_eq!(refused.write_errors.as_ref().unwrap()[0].index, 1),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert_eq!(people.count_documents(doc! {}).run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<InsertManyResult> {
        let given = Arc::clone(&self.collection.given);
        let InsertOutcome { inserted, refused, generated, last_generate_id, was_replayed } = self.store()?;
        if refused.is_empty() {
            let result = InsertManyResult::new(inserted, generated, last_generate_id);
            return Ok(if was_replayed { result.replayed() } else { result });
        }
        // The error has the ids as well, because the documents that were not rejected stay.
        let refused = InsertManyError::new(refused, inserted, generated);
        Err(Error::new(ErrorKind::InsertMany(refused)).in_namespace(&given))
    }

    /// Stores the documents. Rejected documents are part of the outcome; the call fails only if no collection could store
    /// any of them.
    pub(crate) fn store<S: InsertedSet>(self) -> Result<InsertOutcome<S>> {
        let Self { collection, documents, options } = self;
        let watch = collection.watch(Verb::InsertMany);
        // Documents that were rejected are a failure of the call, though others were stored.
        let stored = match collection.token() {
            None => documents.and_then(|documents| insert(&collection, documents, &options)),
            Some(token) => {
                documents.and_then(|documents| insert_once(&collection, token, &documents, &options))
            }
        };
        watch.end_with_refusals(stored, |outcome: &InsertOutcome<S>| !outcome.refused.is_empty())
    }
}

/// Stores the documents of a call with a token: one commits by itself, several are a transaction.
#[cold]
fn insert_once<S: InsertedSet>(
    collection: &Handle,
    token: &Token,
    documents: &Drafts,
    options: &InsertManyOptions,
) -> Result<InsertOutcome<S>> {
    let mut asked = collection.asked("insert_many", token, options.write_concern.as_ref());
    for document in documents.documents() {
        asked = asked.bytes(document);
    }
    let asked = asked.options([
        ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
        ("ordered", argument(options.ordered.as_ref())),
    ])?;
    // Numbering and preparing change a draft, and a transaction may have to be tried again.
    let copy = || {
        let mut copy = Drafts::default();
        for document in documents.documents() {
            copy.push_bytes(document);
        }
        copy
    };
    match documents.len() {
        1 => collection.once(asked, |collection| insert(collection, copy(), options)),
        _ => collection.whole_once(asked, options.max_time, |collection| insert(collection, copy(), options)),
    }
}

fn insert<S: InsertedSet>(
    collection: &Handle,
    mut documents: Drafts,
    options: &InsertManyOptions,
) -> Result<InsertOutcome<S>> {
    if documents.len() == 0 {
        return Err(Error::invalid_argument("insert_many was called without documents"));
    }
    // MongoDB's inserts are ordered unless the caller says otherwise.
    let order = match options.ordered {
        None | Some(true) => InsertOrder::Ordered,
        Some(false) => InsertOrder::Unordered,
    };
    // If every document would be rejected by any collection, the collection is not created.
    collection.check_before_creation(|| match insert::refuse_all(&documents, order) {
        refused if refused.is_empty() => Ok(()),
        refused => {
            let nothing_stored = InsertManyError::new(refused, HashMap::new(), HashMap::new());
            Err(Error::new(ErrorKind::InsertMany(nothing_stored)))
        }
    })?;
    // An insert evaluates no expressions. So without limits its operation allocates nothing.
    let operation = collection.begin_plain(options.max_time);
    let terms = Terms { concern: options.write_concern.as_ref(), operation: &operation };
    let mut inserting = InsertingMany::<S>::new(&mut documents, order);
    let outcome = collection.write_in_parts(terms, |target| {
        inserting.go_on(target.bypassing(options.bypass_document_validation))
    })?;
    // A rejected document is an error of the statement, which ends its transaction, unless the call is one by itself.
    if let (Some(transaction), false, None) =
        (collection.transaction(), outcome.refused.is_empty(), &collection.caller().once)
    {
        transaction.abort();
    }
    Ok(outcome)
}
