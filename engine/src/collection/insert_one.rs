//! `insert_one`.

use std::borrow::Borrow;
use std::time::Duration;

use bson::Bson;
use serde::Serialize;

use crate::collection::{Collection, Terms};
use crate::document::draft::Drafts;
use crate::error::Result;
use crate::options::{InsertOneOptions, WriteConcern};
use crate::results::InsertOneResult;
use crate::write::insert;

impl<T: Serialize> Collection<T> {
    /// Stores one document. An `_id` that it lacks is made: an `ObjectId`, put first. Auto-increment fields that it
    /// lacks are filled in; the result names their values.
    ///
    /// Fails with a duplicate key (code 11000) when its `_id`, or a key of a unique index, is taken; nothing
    /// is changed then.
    pub fn insert_one<D: Borrow<T>>(&self, document: D) -> InsertOne<'_, T, D> {
        InsertOne { collection: self, document, options: InsertOneOptions::default() }
    }
}

/// An `insert_one` that is done by [`run`](Self::run).
#[must_use = "the insert is done by run()"]
pub struct InsertOne<'a, T, D> {
    collection: &'a Collection<T>,
    document: D,
    options: InsertOneOptions,
}

setters!(InsertOne<'a, T, D>, InsertOneOptions, {
    /// Keeps the value that a document brings for an auto-increment field, whatever the field's mode is, as for a document
    /// of a dump. There are no validators yet that it could bypass.
    bypass_document_validation: bool,
    /// Give up with code 50 after this long; nothing is stored then.
    max_time: Duration,
    /// When the write counts as done.
    write_concern: WriteConcern,
    /// Kept with the operation for tracing.
    comment: Bson,
});

impl<T: Serialize, D: Borrow<T>> InsertOne<'_, T, D> {
    /// Stores the document.
    pub fn run(self) -> Result<InsertOneResult> {
        let mut draft = Drafts::of_one(self.document.borrow())?;
        let collection = self.collection;
        collection.check_before_creation(|| insert::check_one(&draft))?;
        let operation = collection.begin_plain(self.options.max_time);
        let terms = Terms { concern: self.options.write_concern.as_ref(), operation: &operation };
        let inserted = collection.write(terms, |target| {
            let target = target.bypassing(self.options.bypass_document_validation);
            insert::insert_one(target, &mut draft)
        })?;
        let last_generate_id = inserted.generated.first();
        Ok(InsertOneResult { inserted_id: inserted.id, generated: inserted.generated, last_generate_id })
    }
}
