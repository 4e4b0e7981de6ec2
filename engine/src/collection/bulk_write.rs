//! `bulk_write`: many writes to any number of collections in one call.
//!
//! It is no transaction: each write is done by itself, in order, as the verb of its kind does it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime, Document};
use serde::Serialize;

use crate::collection::Collection;
use crate::error::{BulkWriteError, Error, ErrorKind, Result};
use crate::namespace::Namespace;
use crate::options::{
    BulkWriteOptions, Collation, DeleteManyModel, DeleteOneModel, DeleteOptions, Hint, InsertOneModel,
    InsertOneOptions, ReplaceOneModel, ReplaceOptions, UpdateManyModel, UpdateOneModel, UpdateOptions,
    WriteConcern, WriteModel,
};
use crate::results::{
    DeleteResult, InsertOneResult, PartialBulkWriteResult, SummaryBulkWriteResult, UpdateResult,
    VerboseBulkWriteResult,
};
use crate::shared::{Caller, Shared};

impl<T> Collection<T> {
    /// Does many writes to this collection, one after the other; see
    /// [`Client::bulk_write`](crate::Client::bulk_write). A write to another collection is refused.
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        let handle = &self.handle;
        let only = Some(&handle.shown);
        BulkWrite::new((&handle.shared, handle.caller.clone()), models, only)
    }
}

impl<T: Serialize> Collection<T> {
    /// A model that inserts the document into this collection.
    pub fn insert_one_model(&self, document: impl std::borrow::Borrow<T>) -> Result<InsertOneModel> {
        let document = bson::serialize_to_document(document.borrow())?;
        Ok(InsertOneModel::builder().namespace(self.namespace()).document(document).build())
    }

    /// A model that replaces the first document of this collection that matches.
    pub fn replace_one_model(
        &self,
        filter: Document,
        replacement: impl std::borrow::Borrow<T>,
    ) -> Result<ReplaceOneModel> {
        let replacement = bson::serialize_to_document(replacement.borrow())?;
        let model = ReplaceOneModel::builder().namespace(self.namespace());
        Ok(model.filter(filter).replacement(replacement).build())
    }
}

/// A `bulk_write` that is done by [`run`](BulkWrite::run).
#[must_use = "the writes are done by run()"]
pub struct BulkWrite<'a, R> {
    shared: &'a Arc<Shared>,
    caller: Caller,
    models: Vec<WriteModel>,
    /// The collection that all writes must be to.
    only: Option<&'a Namespace>,
    options: BulkWriteOptions,
    result: PhantomData<fn() -> R>,
}

setters!(BulkWrite<'a, R>, BulkWriteOptions, {
    /// `true` (the default): stop at the first refused write. `false`: try all.
    ordered: bool,
    /// As for [`insert_one`](Collection::insert_one); of the other writes there is nothing that it could bypass.
    bypass_document_validation: bool,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Give up with code 50 after this long; what was written until then stays.
    max_time: Duration,
    /// When the writes count as done.
    write_concern: WriteConcern,
});

impl<'a> BulkWrite<'a, SummaryBulkWriteResult> {
    pub(crate) fn new(
        (shared, caller): (&'a Arc<Shared>, Caller),
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
        only: Option<&'a Namespace>,
    ) -> Self {
        let models = models.into_iter().map(Into::into).collect();
        let options = BulkWriteOptions::default();
        Self { shared, caller, models, only, options, result: PhantomData }
    }

    /// Asks for the result of each write.
    pub fn verbose_results(self) -> BulkWrite<'a, VerboseBulkWriteResult> {
        let Self { shared, caller, models, only, options, .. } = self;
        BulkWrite { shared, caller, models, only, options, result: PhantomData }
    }

    /// Does the writes, and says how many documents they concerned.
    ///
    /// Refused writes are listed in [`ErrorKind::BulkWrite`] with their positions, beside what was done.
    pub fn run(self) -> Result<SummaryBulkWriteResult> {
        let outcome = self.write_all()?;
        outcome.into_result(|done| PartialBulkWriteResult::Summary(done.summary)).map(|done| done.summary)
    }
}

impl BulkWrite<'_, VerboseBulkWriteResult> {
    /// Does the writes, and gives the result of each.
    ///
    /// Refused writes are listed in [`ErrorKind::BulkWrite`] with their positions, beside what was done.
    pub fn run(self) -> Result<VerboseBulkWriteResult> {
        self.write_all()?.into_result(PartialBulkWriteResult::Verbose)
    }
}

/// What became of the writes.
#[derive(Default)]
struct Outcome {
    done: VerboseBulkWriteResult,
    refused: BulkWriteError,
}

/// The result of one write.
enum Single {
    Insert(InsertOneResult),
    Update(UpdateResult),
    Delete(DeleteResult),
}

impl<R> BulkWrite<'_, R> {
    fn write_all(self) -> Result<Outcome> {
        if self.models.is_empty() {
            return Err(Error::invalid_argument("bulk_write was called without writes"));
        }
        if let Some((only, other)) = self.foreign() {
            let message = format!("bulk_write on {only} was given a write to {other}");
            return Err(Error::invalid_argument(message));
        }
        let is_ordered = self.options.ordered.unwrap_or(true);
        let Self { shared, caller, models, options, .. } = self;
        let now = DateTime::now();
        // All writes are one operation, with one limit of time.
        let operation = shared.operation(&caller, options.max_time);
        let caller = caller.within(&operation);
        let mut outcome = Outcome::default();
        for (index, model) in models.into_iter().enumerate() {
            operation.look()?;
            let Namespace { db, coll } = model.namespace();
            let collection = Collection::new(Arc::clone(shared), caller.clone(), db, coll);
            match write_one(&collection, model, (&options, now)) {
                Ok(single) => outcome.add(index, single),
                Err(error) => {
                    outcome.refused.write_errors.insert(index, error.into_refusal()?);
                    if is_ordered {
                        break;
                    }
                }
            }
        }
        Ok(outcome)
    }

    fn foreign(&self) -> Option<(&Namespace, &Namespace)> {
        let only = self.only?;
        let other = self.models.iter().map(WriteModel::namespace).find(|namespace| *namespace != only)?;
        Some((only, other))
    }
}

impl Outcome {
    fn add(&mut self, index: usize, single: Single) {
        let VerboseBulkWriteResult { summary, insert_results, update_results, delete_results } =
            &mut self.done;
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match single {
            Single::Insert(result) => {
                summary.inserted_count += 1;
                insert_results.insert(index, result);
            }
            Single::Update(result) => {
                summary.upserted_count += i64::from(result.upserted_id.is_some());
                summary.matched_count += number(result.matched_count);
                summary.modified_count += number(result.modified_count);
                update_results.insert(index, result);
            }
            Single::Delete(result) => {
                summary.deleted_count += number(result.deleted_count);
                delete_results.insert(index, result);
            }
        }
    }

    fn into_result(
        self,
        partial: impl FnOnce(VerboseBulkWriteResult) -> PartialBulkWriteResult,
    ) -> Result<VerboseBulkWriteResult> {
        let Self { done, mut refused } = self;
        if refused.write_errors.is_empty() {
            return Ok(done);
        }
        refused.partial_result = Some(partial(done));
        Err(Error::new(ErrorKind::BulkWrite(refused)))
    }
}

fn write_one(
    collection: &Collection<Document>,
    model: WriteModel,
    (options, now): (&BulkWriteOptions, DateTime),
) -> Result<Single> {
    match model {
        WriteModel::InsertOne(model) => {
            let write_concern = options.write_concern.clone();
            let bypass_document_validation = options.bypass_document_validation;
            let options =
                InsertOneOptions { bypass_document_validation, write_concern, ..InsertOneOptions::default() };
            collection.insert_one(model.document).with_options(options).run().map(Single::Insert)
        }
        WriteModel::UpdateOne(model) => update_one(collection, model, (options, now)).map(Single::Update),
        WriteModel::UpdateMany(model) => update_many(collection, model, (options, now)).map(Single::Update),
        WriteModel::ReplaceOne(model) => replace_one(collection, model, (options, now)).map(Single::Update),
        WriteModel::DeleteOne(DeleteOneModel { filter, collation, hint, .. }) => {
            let options = delete_options(collation, hint, options);
            collection.delete_one(filter).with_options(options).at(now).run().map(Single::Delete)
        }
        WriteModel::DeleteMany(DeleteManyModel { filter, collation, hint, .. }) => {
            let options = delete_options(collation, hint, options);
            collection.delete_many(filter).with_options(options).at(now).run().map(Single::Delete)
        }
    }
}

fn update_one(
    collection: &Collection<Document>,
    model: UpdateOneModel,
    (options, now): (&BulkWriteOptions, DateTime),
) -> Result<UpdateResult> {
    let options = UpdateOptions {
        array_filters: model.array_filters,
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        sort: model.sort,
        write_concern: options.write_concern.clone(),
        ..UpdateOptions::default()
    };
    collection.update_one(model.filter, model.update).with_options(options).at(now).run()
}

fn update_many(
    collection: &Collection<Document>,
    model: UpdateManyModel,
    (options, now): (&BulkWriteOptions, DateTime),
) -> Result<UpdateResult> {
    let options = UpdateOptions {
        array_filters: model.array_filters,
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        write_concern: options.write_concern.clone(),
        ..UpdateOptions::default()
    };
    collection.update_many(model.filter, model.update).with_options(options).at(now).run()
}

fn replace_one(
    collection: &Collection<Document>,
    model: ReplaceOneModel,
    (options, now): (&BulkWriteOptions, DateTime),
) -> Result<UpdateResult> {
    let options = ReplaceOptions {
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        sort: model.sort,
        write_concern: options.write_concern.clone(),
        ..ReplaceOptions::default()
    };
    collection.replace_one(model.filter, model.replacement).with_options(options).at(now).run()
}

fn delete_options(
    collation: Option<Collation>,
    hint: Option<Hint>,
    options: &BulkWriteOptions,
) -> DeleteOptions {
    DeleteOptions {
        collation,
        hint,
        let_vars: options.let_vars.clone(),
        write_concern: options.write_concern.clone(),
        ..DeleteOptions::default()
    }
}
