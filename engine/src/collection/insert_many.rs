//! `insert_many`.

use std::borrow::Borrow;
use std::time::Duration;

use bson::Bson;
use serde::Serialize;

use crate::collection::{Collection, Terms};
use crate::document::draft::Drafts;
use crate::error::{Error, ErrorKind, InsertManyError, Result};
use crate::options::{InsertManyOptions, WriteConcern};
use crate::results::InsertManyResult;
use crate::write::insert;
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};

impl<T: Serialize> Collection<T> {
    /// Stores many documents in one commit (one for each 8 MiB of them).
    ///
    /// Auto-increment fields take their values in the order of the documents. What a field refuses refuses the call
    /// before anything is stored.
    ///
    /// A single document is inserted as by [`insert_one`](Self::insert_one): a generated value that is in use is passed
    /// once. A batch does not try again.
    ///
    /// Refused documents are listed in [`ErrorKind::InsertMany`] with their positions. An ordered call (the
    /// default) stops at the first; what stands before it is stored. An unordered call tries all. No documents
    /// at all is an error.
    pub fn insert_many<D: Borrow<T>>(&self, documents: impl IntoIterator<Item = D>) -> InsertMany<'_, T> {
        let mut drafts = Drafts::default();
        let pushed = documents.into_iter().try_for_each(|document| drafts.push(document.borrow()));
        let documents = pushed.map(|()| drafts);
        InsertMany { collection: self, documents, options: InsertManyOptions::default() }
    }
}

impl<T> Collection<T> {
    /// Stores documents that are drafts already.
    pub(crate) fn insert_drafts(&self, drafts: Drafts) -> InsertMany<'_, T> {
        InsertMany { collection: self, documents: Ok(drafts), options: InsertManyOptions::default() }
    }
}

/// An `insert_many` that is done by [`run`](Self::run).
#[must_use = "the insert is done by run()"]
pub struct InsertMany<'a, T> {
    collection: &'a Collection<T>,
    documents: Result<Drafts>,
    options: InsertManyOptions,
}

setters!(InsertMany<'a, T>, InsertManyOptions, {
    /// Keeps the value that a document brings for an auto-increment field, whatever the field's mode is, as for a document
    /// of a dump. There are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// `true` (the default): stop at the first refused document. `false`: try all.
    ordered: bool,
    /// Give up with code 50 after this long; what was stored until then stays.
    max_time: Duration,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T> InsertMany<'_, T> {
    /// Stores the documents.
    pub fn run(self) -> Result<InsertManyResult> {
        let collection = self.collection;
        let InsertOutcome { inserted, refused, generated, last_generate_id } = self.store()?;
        if refused.is_empty() {
            return Ok(InsertManyResult { inserted_ids: inserted, generated, last_generate_id });
        }
        let refused = InsertManyError { write_errors: Some(refused), inserted_ids: inserted, generated };
        Err(Error::new(ErrorKind::InsertMany(refused)).in_namespace(&collection.namespace()))
    }

    /// Stores the documents; what was refused of them is told, and no error unless none can be stored anywhere.
    pub(crate) fn store<S: InsertedSet>(self) -> Result<InsertOutcome<S>> {
        let mut documents = self.documents?;
        if documents.len() == 0 {
            return Err(Error::invalid_argument("insert_many was called without documents"));
        }
        let order = match self.options.ordered {
            None | Some(true) => InsertOrder::Ordered,
            Some(false) => InsertOrder::Unordered,
        };
        let collection = self.collection;
        collection.check_before_creation(|| match insert::refuse_all(&documents, order) {
            refused if refused.is_empty() => Ok(()),
            refused => Err(Error::new(ErrorKind::InsertMany(InsertManyError {
                write_errors: Some(refused),
                ..InsertManyError::default()
            }))),
        })?;
        let operation = collection.begin_plain(self.options.max_time);
        let terms = Terms { concern: self.options.write_concern.as_ref(), operation: &operation };
        collection.write(terms, |target| {
            let target = target.bypassing(self.options.bypass_document_validation);
            insert::insert_many(target, &mut documents, order)
        })
    }
}
