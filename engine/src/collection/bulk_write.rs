//! `bulk_write`: many writes to any number of collections in one call.
//!
//! It is not a transaction. The writes are executed in order, each by the verb of its kind.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, ErrorKind, Result};
use base::insert_error::DetailsRoom;
use base::namespace::Namespace;
use base::write_error::{BulkWriteError, WriteError};
use bson::{Bson, DateTime, Document, doc};
use query::code::Code;
use serde::Serialize;

use crate::collection::answers::Answer;
use crate::collection::exactly_once::{Asked, Whole};
use crate::collection::handle::Collection;
use crate::collection::one_sync::OneSync;
use crate::metrics::verb::Verb;
use crate::metrics::watch::Watch;
use crate::options::argument::argument;
use crate::options::bulk::bulk_write_option;
use crate::options::declare::setters;
use crate::options::{
    BulkWriteOptions, Collation, DeleteManyModel, DeleteOneModel, DeleteOptions, Hint, InsertOneModel,
    InsertOneOptions, ReplaceOneModel, ReplaceOptions, UpdateManyModel, UpdateOneModel, UpdateOptions,
    WriteConcern, WriteModel,
};
use crate::outcomes::once::Undamaged;
use crate::outcomes::token::Token;
use crate::results::{
    DeleteResult, InsertOneResult, PartialBulkWriteResult, SummaryBulkWriteResult, UpdateResult,
    VerboseBulkWriteResult,
};
use crate::session::ClientSession;
use crate::shared::{Caller, Shared};

impl<T> Collection<T> {
    /// Executes many writes to this collection, one after the other. See
    /// [`Client::bulk_write`](crate::Client::bulk_write). A write to another collection is rejected.
    ///
    /// ```
    /// # use cairndb::{Client, WriteModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let writes: [WriteModel; 2] = [
    ///     people.insert_one_model(doc! { "_id": 1 })?.into(),
    ///     people.replace_one_model(doc! { "_id": 1 }, doc! { "name": "Ada" })?.into(),
    /// ];
    /// let result = people.bulk_write(writes).run()?;
    /// assert_eq!((result.inserted_count, result.modified_count), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        let handle = &self.handle;
        BulkWrite::new(handle.shared(), handle.caller().clone(), models, Some(&handle.given))
    }
}

impl<T: Serialize> Collection<T> {
    /// Makes the model of an insert into this collection, for [`bulk_write`](Self::bulk_write). Fails if the document
    /// cannot be serialized.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let write = people.insert_one_model(doc! { "name": "Ada" })?;
    /// assert_eq!(people.bulk_write([write]).run()?.inserted_count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_one_model(&self, document: impl std::borrow::Borrow<T>) -> Result<InsertOneModel> {
        let document = bson::serialize_to_document(document.borrow())?;
        Ok(InsertOneModel::builder().namespace(self.namespace()).document(document).build())
    }

    /// Makes the model of a replacement of one document of this collection, for [`bulk_write`](Self::bulk_write). Fails if
    /// the replacement cannot be serialized.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let mut write = people.replace_one_model(doc! { "_id": 1 }, doc! { "name": "Ada" })?;
    /// write.upsert = Some(true);
    /// assert_eq!(people.bulk_write([write]).run()?.upserted_count, 1);
    /// # Ok(())
    /// # }
    /// ```
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

/// The action that [`Collection::bulk_write`] and [`Client::bulk_write`](crate::Client::bulk_write) return. `run` executes
/// it.
///
/// `R` is the type of the result: sums, or after [`verbose_results`](Self::verbose_results) the result of each write.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 2 })?];
/// let result = people.bulk_write(writes).ordered(false).verbose_results().run()?;
/// assert_eq!(result.summary.inserted_count, 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "the writes are executed by run()"]
pub struct BulkWrite<'a, R> {
    shared: &'a Arc<Shared>,
    caller: Caller,
    models: Vec<WriteModel>,
    /// The collection that all writes must be for, if the action is a collection's.
    only: Option<&'a Namespace>,
    options: BulkWriteOptions,
    /// The reason why it cannot be a part of the session that it was given.
    refused: Option<Error>,
    /// The token of the call, if it is to happen exactly once.
    token: Option<Token>,
    result: PhantomData<fn() -> R>,
}

impl<'a, R> BulkWrite<'a, R> {
    /// Makes the writes statements of a session: parts of its transaction, if it has started one. A rejected write aborts it.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().run()?;
    /// let writes = [people.insert_one_model(doc! { "_id": 2 })?, people.insert_one_model(doc! { "_id": 3 })?];
    /// people.bulk_write(writes).session(&mut session).run()?;
    /// session.abort_transaction().run()?;
    /// assert_eq!(people.count_documents(doc! {}).run()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(mut self, session: &'a mut ClientSession) -> Self {
        match session.statement_of(self.shared) {
            Ok(Some(transaction)) => self.caller = self.caller.in_transaction(&transaction),
            Ok(None) => self.caller.transaction = None,
            Err(refused) => self.refused = Some(refused),
        }
        self
    }
}

impl<R> BulkWrite<'_, R> {
    /// Gives the call a token: its writes happen once, however often it is made with this token, also after a crash. A call that has
    /// happened before changes nothing, and returns what it returned the first time.
    ///
    /// The writes are one transaction then. If one of them is rejected none is done, and the token is not spent.
    ///
    /// ```
    /// # use cairndb::{Client, WriteModel, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let write = || -> cairndb::Result<_> {
    ///     let writes = [people.insert_one_model(doc! { "name": "Ada" })?, people.insert_one_model(doc! { "name": "Grace" })?];
    ///     people.bulk_write(writes).exactly_once("import 3").run()
    /// };
    /// assert_eq!((write()?.was_replayed, write()?.was_replayed), (false, true));
    /// assert_eq!(people.count_documents(doc! {}).run()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn exactly_once(mut self, token: impl Into<Token>) -> Self {
        self.token = Some(token.into());
        self
    }
}

setters!(BulkWrite<'a, R>, BulkWriteOptions, bulk_write_option);

impl<'a> BulkWrite<'a, SummaryBulkWriteResult> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        caller: Caller,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
        only: Option<&'a Namespace>,
    ) -> Self {
        let models = models.into_iter().map(Into::into).collect();
        let options = BulkWriteOptions::default();
        Self { shared, caller, models, only, options, refused: None, token: None, result: PhantomData }
    }

    /// Makes [`run`](BulkWrite::run) return the result of each write.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 2 })?];
    /// let result = people.bulk_write(writes).verbose_results().run()?;
    /// assert_eq!(result.insert_results[&1].inserted_id, 2.into());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verbose_results(self) -> BulkWrite<'a, VerboseBulkWriteResult> {
        // Only the type changes: the results of all writes are collected in any case.
        let Self { shared, caller, models, only, options, refused, token, .. } = self;
        BulkWrite { shared, caller, models, only, options, refused, token, result: PhantomData }
    }

    /// Executes the writes and returns how many documents were inserted, changed and removed.
    ///
    /// If writes are rejected the call fails with [`ErrorKind::BulkWrite`]. It lists the rejected writes with their positions,
    /// and has the results of the others.
    ///
    /// ```
    /// # use cairndb::{Client, ErrorKind, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "_id": 1 }).run()?;
    /// let writes = [people.insert_one_model(doc! { "_id": 0 })?, people.insert_one_model(doc! { "_id": 1 })?];
    /// let error = people.bulk_write(writes).run().expect_err("1 is taken");
    /// match error.kind() {
    ///     ErrorKind::BulkWrite(refused) => assert_eq!(refused.write_errors[&1].code, 11000),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<SummaryBulkWriteResult> {
        let outcome = self.verbose_results().write_all()?;
        outcome.into_result(|done| PartialBulkWriteResult::Summary(done.summary)).map(|done| done.summary)
    }
}

impl BulkWrite<'_, VerboseBulkWriteResult> {
    /// Executes the writes and returns the result of each.
    ///
    /// If writes are rejected the call fails with [`ErrorKind::BulkWrite`]. It lists the rejected writes with their positions,
    /// and has the results of the others.
    pub fn run(self) -> Result<VerboseBulkWriteResult> {
        self.write_all()?.into_result(PartialBulkWriteResult::Verbose)
    }
}

/// The results of the writes that succeeded, and the errors of those that were rejected.
#[derive(Default)]
pub(crate) struct Outcome {
    done: VerboseBulkWriteResult,
    refused: BulkWriteError,
    /// For what the rejected writes report together.
    details: DetailsRoom,
}

/// The result of one write.
enum Single {
    Insert(InsertOneResult),
    Update(UpdateResult),
    Delete(DeleteResult),
}

impl BulkWrite<'_, VerboseBulkWriteResult> {
    fn write_all(self) -> Result<Outcome> {
        let recorder = Arc::clone(&self.shared.recorder);
        // Its writes may be in any collection. The name is MongoDB's.
        let namespace = Arc::new(Namespace::new("admin", "$cmd.bulkWrite"));
        let watch = Watch::start(&recorder, &namespace, Verb::BulkWrite);
        // Each write is counted by its own verb, too.
        let outcome = self.write_each();
        watch.end_with_refusals(outcome, |outcome| !outcome.refused.write_errors.is_empty())
    }

    fn write_each(self) -> Result<Outcome> {
        // Both checks come before the first write, so that a call with such a mistake writes nothing.
        if self.models.is_empty() {
            return Err(Error::invalid_argument("bulk_write was called without writes"));
        }
        let only = self.only;
        if let Some((only, other)) = self.foreign() {
            let message = format!("bulk_write on {only} was given a write to {other}");
            return Err(Error::invalid_argument(message));
        }
        let Self { shared, caller, models, options, refused, token, .. } = self;
        refused.map_or(Ok(()), Err)?;
        let Some(token) = token else { return run_all(shared, &caller, models, options) };
        let verb = Verb::BulkWrite.name();
        let name = only.map_or_else(|| verb.to_owned(), |only| format!("{verb} {only}"));
        let mut asked = Asked::of(name, &token, options.write_concern.as_ref());
        for model in &models {
            asked = asked.options([("write", argument(Some(model)))])?;
        }
        let asked = asked.options([
            ("ordered", argument(options.ordered.as_ref())),
            ("bypassDocumentValidation", argument(options.bypass_document_validation.as_ref())),
            ("let", argument(options.let_vars.as_ref())),
        ])?;
        let whole = Whole { shared, caller: &caller, max_time: options.max_time, row: None };
        let mut outcome =
            whole.run(asked, |caller| run_all(shared, &caller, models.clone(), options.clone()))?;
        if outcome.is_refusal() {
            // The writes before it were undone.
            outcome.done = VerboseBulkWriteResult::default();
        }
        Ok(outcome)
    }

    /// Returns the collection that all writes must be for, and the other one that a write is for.
    fn foreign(&self) -> Option<(&Namespace, &Namespace)> {
        let only = self.only?;
        let other = self.models.iter().map(WriteModel::namespace).find(|namespace| *namespace != only)?;
        Some((only, other))
    }
}

/// Executes the writes, one after the other.
fn run_all(
    shared: &Arc<Shared>,
    caller: &Caller,
    models: Vec<WriteModel>,
    mut options: BulkWriteOptions,
) -> Result<Outcome> {
    let is_ordered = options.ordered.unwrap_or(true);
    // In a transaction there is one sync, that of its commit.
    let sync = match &caller.transaction {
        None => Some(OneSync::of(shared, &mut options.write_concern, models.len())?),
        Some(_) => None,
    };
    // `$$NOW` is the same in all writes.
    let now = DateTime::now();
    // All writes are one operation: the time limit is for all of them together.
    let operation = shared.operation(caller, options.max_time);
    let caller = caller.within(&operation);
    let mut outcome = Outcome::default();
    for (index, model) in models.into_iter().enumerate() {
        // Between two writes the call can be cancelled; what was written stays. Statements of a transaction look by themselves.
        if caller.transaction.is_none() {
            operation.look()?;
        }
        let Namespace { db, coll } = model.namespace();
        // This caller carries the operation. Another one would begin an operation for each write.
        let collection = Collection::new(Arc::clone(shared), caller.clone(), db, coll);
        match write_one(&collection, model, &options, now) {
            Ok(single) => outcome.add(index, single),
            Err(error) => {
                // The error of a whole transaction is not the rejection of one write.
                if !error.labels().is_empty() {
                    return Err(error);
                }
                // Only a rejection is the error of one write. Any other error, such as a full disk, ends the call.
                outcome.refuse(index, error.into_refusal()?);
                // It has aborted the transaction of which it is a part.
                if is_ordered || caller.transaction.is_some() {
                    break;
                }
            }
        }
    }
    sync.map_or(Ok(()), |sync| sync.end(shared))?;
    Ok(outcome)
}

impl Answer for Outcome {
    fn to_answer(&self) -> Result<Document> {
        let VerboseBulkWriteResult { insert_results, update_results, delete_results, .. } = &self.done;
        let count = insert_results.len() + update_results.len() + delete_results.len();
        let result = |index| -> Result<Document> {
            if let Some(result) = insert_results.get(&index) {
                return Ok(doc! { "insert": result.to_answer()? });
            }
            if let Some(result) = update_results.get(&index) {
                return Ok(doc! { "update": result.to_answer()? });
            }
            let deleted = delete_results.get(&index).copied().unwrap_or_default();
            Ok(doc! { "delete": deleted.to_answer()? })
        };
        // None was rejected, so each of them has a result.
        Ok(doc! { "r": (0..count).map(result).collect::<Result<Vec<_>>>()? })
    }

    fn of_answer(answer: Document) -> Undamaged<Self> {
        let mut outcome = Self::default();
        outcome.done.summary.was_replayed = true;
        let results = answer.get_array("r").map_err(|_| "it has no results")?;
        for (index, result) in results.iter().enumerate() {
            let result = result.as_document().and_then(|result| result.iter().next());
            let (kind, result) = result.ok_or("a result is not a document")?;
            let result = result.as_document().cloned().ok_or("a result is not a document")?;
            let single = match kind.as_str() {
                "insert" => Single::Insert(InsertOneResult::of_answer(result)?),
                "update" => Single::Update(UpdateResult::of_answer(result)?),
                _ => Single::Delete(DeleteResult::of_answer(result)?),
            };
            outcome.add(index, single);
        }
        Ok(outcome)
    }

    fn is_refusal(&self) -> bool {
        !self.refused.write_errors.is_empty()
    }
}

impl Outcome {
    fn add(&mut self, index: usize, single: Single) {
        let VerboseBulkWriteResult { summary, insert_results, update_results, delete_results, .. } =
            &mut self.done;
        // The sums are signed, as in MongoDB's driver.
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match single {
            Single::Insert(result) => {
                summary.inserted_count += 1;
                insert_results.insert(index, result);
            }
            Single::Update(result) => {
                // The other two counts are 0 after an upsert, so no document is counted twice.
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

    fn refuse(&mut self, index: usize, mut refusal: WriteError) {
        if Code::DOCUMENT_VALIDATION_FAILURE == refusal.code {
            // Each write of a large call may be rejected, and its details may need a mebibyte.
            refusal.details = refusal.details.and_then(|details| self.details.admit(details));
        }
        self.refused.write_errors.insert(index, refusal);
    }

    fn into_result(
        self,
        partial: impl FnOnce(VerboseBulkWriteResult) -> PartialBulkWriteResult,
    ) -> Result<VerboseBulkWriteResult> {
        let Self { done, mut refused, details: _ } = self;
        if refused.write_errors.is_empty() {
            return Ok(done);
        }
        // Earlier writes stay, so the error has their results too.
        refused.partial_result = Some(partial(done));
        Err(Error::new(ErrorKind::BulkWrite(refused)))
    }
}

fn write_one(
    collection: &Collection<Document>,
    model: WriteModel,
    options: &BulkWriteOptions,
    now: DateTime,
) -> Result<Single> {
    match model {
        WriteModel::InsertOne(model) => {
            // An insert has no variables. `max_time` is not passed on to any write: the operation around them has it.
            let write_concern = options.write_concern.clone();
            let bypass_document_validation = options.bypass_document_validation;
            let options =
                InsertOneOptions { bypass_document_validation, write_concern, ..InsertOneOptions::default() };
            collection.insert_one(model.document).with_options(options).run().map(Single::Insert)
        }
        WriteModel::UpdateOne(model) => update_one(collection, model, options, now).map(Single::Update),
        WriteModel::UpdateMany(model) => update_many(collection, model, options, now).map(Single::Update),
        WriteModel::ReplaceOne(model) => replace_one(collection, model, options, now).map(Single::Update),
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
    options: &BulkWriteOptions,
    now: DateTime,
) -> Result<UpdateResult> {
    let options = UpdateOptions {
        array_filters: model.array_filters,
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        sort: model.sort,
        bypass_document_validation: options.bypass_document_validation,
        write_concern: options.write_concern.clone(),
        ..UpdateOptions::default()
    };
    collection.update_one(model.filter, model.update).with_options(options).at(now).run()
}

fn update_many(
    collection: &Collection<Document>,
    model: UpdateManyModel,
    options: &BulkWriteOptions,
    now: DateTime,
) -> Result<UpdateResult> {
    // There is no `sort` to pass on: MongoDB rejects one where many documents are updated.
    let options = UpdateOptions {
        array_filters: model.array_filters,
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        bypass_document_validation: options.bypass_document_validation,
        write_concern: options.write_concern.clone(),
        ..UpdateOptions::default()
    };
    collection.update_many(model.filter, model.update).with_options(options).at(now).run()
}

fn replace_one(
    collection: &Collection<Document>,
    model: ReplaceOneModel,
    options: &BulkWriteOptions,
    now: DateTime,
) -> Result<UpdateResult> {
    let options = ReplaceOptions {
        upsert: model.upsert,
        collation: model.collation,
        hint: model.hint,
        let_vars: options.let_vars.clone(),
        sort: model.sort,
        bypass_document_validation: options.bypass_document_validation,
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
