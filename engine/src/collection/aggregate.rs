//! `aggregate`, on a collection and on a database.

use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use query::expression::Variables;
use query::pipeline::writer::WritingStage;
use query::pipeline::{Pipeline, Source};

use crate::catalog::views::{Resolved, is_a_view};
use crate::collection::handle::{Collection, Handle};
use crate::collection::others::{Others, refuse_override};
use crate::collection::scope::Scope;
use crate::collection::sources::{foreign_views, on_collection, on_database};
use crate::collection::write_results::Written;
use crate::cursor::{Cursor, RawCursor};
use crate::execute::explain::{Depth, Explained};
use crate::execute::foreign::ForeignViews;
use crate::execute::leading::leading;
use crate::execute::piped::Piped;
use crate::execute::read_view::ReadView;
use crate::execute::rows::{Rows, WorkReport};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::metrics::watch::{CursorRequest, Watch};
use crate::options::declare::setters;
use crate::options::reads::aggregate_option;
use crate::options::{AggregateOptions, Collation, Hint, WriteConcern};
use crate::plan::order::check_hint;
use crate::plan::selector::{Moment, Selector, variables};
use crate::session::{ClientSession, SessionCursor};
use crate::shared::{Caller, Shared};
use crate::transaction::Transaction;

impl<T> Collection<T> {
    /// Runs an aggregation pipeline over the documents, as they are when `run` is called.
    ///
    /// `$match`, `$sort`, `$skip` and `$limit` at the start of the pipeline are executed as by [`find`](Self::find), with
    /// indexes. Stages that need all documents before they return one, such as `$sort` and `$group`, work when the cursor is
    /// first advanced. Sorts, groups and joins that need more than 100 MiB go on in temporary files, unless `allow_disk_use` is `false`. Then,
    /// and for stages that cannot, the pipeline fails with code 292 (`QueryExceededMemoryLimitNoDiskUseAllowed`).
    ///
    /// `$lookup` joins by `localField` and `foreignField`, by a `pipeline` that may use the variables of `let`, or by both. It
    /// reads the other collection at the same moment, by an index on the foreign field or, without one, once as a whole. A `$match`
    /// at the start of its pipeline uses an index too. A pipeline of `$lookup` without any equality reads the other collection for
    /// each document. The stages at its start that name no variable of `let` run once, as long as their results fit into 100 MiB.
    /// An `$unwind` of its array right after it makes both one stage: the array is never made, and may be larger than a document. Of a
    /// `$match` after that, conditions on fields of what is found are looked up with it.
    /// `$graphLookup` follows documents of another collection along their fields, at the same moment too. An index on
    /// `connectToField` is asked in each step; without one the collection is read once, as far as `restrictSearchWithMatch`
    /// matches. What is reached must fit one document.
    /// `$unionWith` reads another collection, also at the same moment, after the documents before it; a `$match` at the start of its
    /// pipeline uses an index.
    ///
    /// `$out` and `$merge` write their documents before `run` returns, and the cursor is empty. `$out` puts them in place of a
    /// collection in one step, with its indexes: readers see the old documents or the new ones, and if the pipeline fails, the
    /// old ones stay. `$merge` writes each document by itself, and what was written before an error stays.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let shop = client.database("shop");
    /// shop.collection("pens").insert_one(doc! { "_id": 7, "color": "blue" }).run()?;
    /// let orders = shop.collection::<Document>("orders");
    /// orders.insert_one(doc! { "_id": 1, "pen": 7 }).run()?;
    ///
    /// let join = doc! { "$lookup": { "from": "pens", "localField": "pen", "foreignField": "_id", "as": "pens" } };
    /// let joined = orders.aggregate([join]).run()?.next().transpose()?;
    /// assert_eq!(joined, Some(doc! { "_id": 1, "pen": 7, "pens": [{ "_id": 7, "color": "blue" }] }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An unknown stage, and one that MongoDB has and CairnDB has not, is an error that names the stage.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let orders = client.database("shop").collection::<Document>("orders");
    /// orders.insert_many([
    ///     doc! { "item": "pen", "count": 2 },
    ///     doc! { "item": "ink", "count": 1 },
    ///     doc! { "item": "ink", "count": 5 },
    /// ]).run()?;
    ///
    /// let sold = orders.aggregate([
    ///     doc! { "$group": { "_id": "$item", "sold": { "$sum": "$count" } } },
    ///     doc! { "$sort": { "sold": -1 } },
    /// ]);
    /// let sold: Vec<Document> = sold.run()?.collect::<Result<_, _>>()?;
    /// assert_eq!(sold, [doc! { "_id": "ink", "sold": 6 }, doc! { "_id": "pen", "sold": 2 }]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn aggregate(&self, pipeline: impl IntoIterator<Item = Document>) -> Aggregate<'_> {
        Aggregate::on_collection(&self.handle, pipeline.into_iter().collect())
    }
}

/// The action that [`Collection::aggregate`] and [`Database::aggregate`](crate::Database::aggregate) return.
/// [`run`](Self::run) executes it.
///
/// ```
/// # use cairndb::{Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
/// let first = doc! { "$group": { "_id": { "$substrCP": ["$name", 0, 1] } } };
/// let mut letters = people.aggregate([first, doc! { "$sort": { "_id": 1 } }]).run()?;
/// assert_eq!(letters.next().transpose()?, Some(doc! { "_id": "A" }));
/// # Ok(())
/// # }
/// ```
#[must_use = "the pipeline is run by run()"]
pub struct Aggregate<'a, T = Document> {
    target: Target<'a>,
    pipeline: Vec<Document>,
    options: AggregateOptions,
    row: PhantomData<fn() -> T>,
}

/// The target of a pipeline.
enum Target<'a> {
    Collection(Scope<'a>),
    Database { shared: &'a Arc<Shared>, caller: Caller, name: &'a str },
}

setters!(Aggregate<'a, T>, AggregateOptions, aggregate_option);

impl<'a> Aggregate<'a> {
    /// A pipeline that runs on a collection.
    pub(super) fn on_collection(collection: &'a Handle, pipeline: Vec<Document>) -> Self {
        Self::new(Target::Collection(Scope::of(collection)), pipeline)
    }

    /// A pipeline that runs on a database.
    pub(crate) fn on_database(
        shared: &'a Arc<Shared>,
        caller: Caller,
        name: &'a str,
        pipeline: Vec<Document>,
    ) -> Self {
        Self::new(Target::Database { shared, caller, name }, pipeline)
    }

    fn new(target: Target<'a>, pipeline: Vec<Document>) -> Self {
        Self { target, pipeline, options: AggregateOptions::default(), row: PhantomData }
    }
}

impl<'a, T> Aggregate<'a, T> {
    /// Sets the type that the results are decoded as.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// #[derive(serde::Deserialize)]
    /// struct Total {
    ///     people: i32,
    /// }
    ///
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let mut totals = people.aggregate([doc! { "$count": "people" }]).with_type::<Total>().run()?;
    /// assert_eq!(totals.next().transpose()?.map(|total| total.people), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_type<U>(self) -> Aggregate<'a, U> {
        let Self { target, pipeline, options, row: _ } = self;
        Aggregate { target, pipeline, options, row: PhantomData }
    }

    /// Makes the pipeline a statement of a session. Its cursor is read with the session.
    ///
    /// Within a transaction it cannot have the stages `$out`, `$merge`, `$unionWith`, or those that describe collections, and cannot run on a
    /// database: that fails with code 263 (`OperationNotSupportedInTransaction`).
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
    /// people.insert_one(doc! { "_id": 2 }).session(&mut session).run()?;
    /// let mut counted = people.aggregate([doc! { "$count": "people" }]).session(&mut session).run()?;
    /// assert_eq!(counted.next(&mut session).transpose()?, Some(doc! { "people": 2 }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(self, session: &'a mut ClientSession) -> SessionAggregate<'a, T> {
        let Self { target, pipeline, options, row } = self;
        let (target, transaction, refused) = match target {
            Target::Collection(collection) => {
                let collection = collection.within(session);
                let transaction = collection.transaction().cloned();
                (Target::Collection(collection), transaction, None)
            }
            Target::Database { shared, caller, name } => {
                let refused = match session.statement_of(shared) {
                    Ok(None) => None,
                    Ok(Some(transaction)) => Some(transaction.refused("a pipeline on a database")),
                    Err(refused) => Some(refused),
                };
                (Target::Database { shared, caller, name }, None, refused)
            }
        };
        SessionAggregate { aggregate: Self { target, pipeline, options, row }, transaction, refused }
    }

    /// Opens a cursor over the results.
    ///
    /// ```
    /// # use cairndb::{Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "born": 1815 }, doc! { "_id": 2, "born": 1906 }]).run()?;
    ///
    /// let age = doc! { "$project": { "age": { "$subtract": [2000, "$born"] } } };
    /// for person in people.aggregate([age]).run()? {
    ///     assert!(person?.get_i32("age").is_ok());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(self) -> Result<Cursor<T>> {
        // Only the cursor knows `T`: what opens it is compiled once.
        self.with_type::<Document>().open_watched().map(Cursor::of)
    }
}

impl Aggregate<'_> {
    /// Opens a cursor that is measured.
    fn open_watched(self) -> Result<RawCursor> {
        let (recorder, namespace) = match &self.target {
            Target::Collection(collection) => collection.measured(),
            Target::Database { shared, name, .. } => {
                (Arc::clone(&shared.recorder), Arc::new(Namespace::new(*name, "$cmd.aggregate")))
            }
        };
        // Owned, because the target is moved into the cursor's request.
        let watch = Watch::start(&recorder, &namespace, Verb::Aggregate);
        match self.open() {
            Ok(cursor) => {
                let pipeline = Some(self.pipeline);
                Ok(cursor.watched(watch, CursorRequest { pipeline, ..CursorRequest::default() }))
            }
            refused => {
                watch.end(refused, || Requested { pipeline: Some(&self.pipeline), ..Requested::default() })
            }
        }
    }

    /// Opens the cursor, without measuring it.
    pub(super) fn open(&self) -> Result<RawCursor> {
        let own = self.parse(&self.pipeline)?;
        if let Target::Collection(collection) = &self.target
            && collection.transaction().is_some()
        {
            refuse_stages(collection, &self.pipeline, &own)?;
        }
        if let Some(stage) = own.writer().cloned() {
            let variables = own.variables().clone();
            self.written(&stage, &variables)?.run(|| self.results(own))?;
            return Ok(RawCursor::empty());
        }
        match &self.target {
            Target::Collection(collection) => self.on_base(collection, own, |base, pipeline, _| {
                // A pipeline over documents begins with a search, so that its first stages can use indexes.
                if *pipeline.source() == Source::Collection {
                    return search(base, pipeline, &self.options);
                }
                on_collection(base, pipeline).map(RawCursor::piped)
            }),
            Target::Database { shared, name, .. } => Ok(RawCursor::piped(on_database(shared, name, own)?)),
        }
    }

    /// Plans the pipeline for `explain`, and at [`Depth::Execution`] reads to the end of its cursor.
    pub(crate) fn explain(self, depth: Depth) -> Result<ExplainedPipeline> {
        let own = self.parse(&self.pipeline)?;
        if let Some(stage) = own.writer() {
            self.written(stage, own.variables())?.check(depth)?;
        }
        // Their joins are looked at by themselves: a source has no snapshot that they could share.
        let piped =
            |shared: &Shared, db: &str, pipeline: &Pipeline, piped: Piped, stages: &[Document], namespace| {
                let foreign = foreign_views(shared, db, pipeline)?;
                let stages = executed(pipeline, stages, 0, (&foreign, db))?;
                let done = drained(piped, depth)?;
                Ok(ExplainedPipeline { namespace, views: Vec::new(), search: None, stages, done })
            };
        match &self.target {
            // Only a pipeline over documents has a plan. The other sources choose nothing.
            Target::Collection(collection) => self.on_base(collection, own, |base, pipeline, given| {
                if *pipeline.source() == Source::Collection {
                    return explain_search(base, pipeline, given, &self.options, depth);
                }
                let (shared, db) = (base.shared(), base.valid_namespace()?.db.as_str());
                let (parsed, namespace) = (pipeline.clone(), Some(Namespace::clone(&base.given)));
                piped(shared, db, &parsed, on_collection(base, pipeline)?, given.stages, namespace)
            }),
            Target::Database { shared, name, .. } => {
                piped(shared, name, &own.clone(), on_database(shared, name, own)?, &self.pipeline, None)
            }
        }
    }

    /// The stage that writes the results, with what it needs.
    fn written<'s>(&'s self, stage: &'s WritingStage, variables: &'s Variables) -> Result<Written<'s>> {
        let (shared, caller, db) = match &self.target {
            Target::Collection(collection) => {
                (collection.shared(), collection.caller(), collection.valid_namespace()?.db.as_str())
            }
            Target::Database { shared, caller, name } => (*shared, caller, *name),
        };
        // It can only be the last stage.
        let position = self.pipeline.len().saturating_sub(1);
        let concern = self.options.write_concern.as_ref();
        let bypass = self.options.bypass_document_validation;
        Ok(Written { stage, position, shared, caller, db, variables, concern, bypass })
    }

    /// The results of the stages before the one that writes.
    fn results(&self, own: Pipeline) -> Result<Piped> {
        let collection = match &self.target {
            Target::Collection(collection) => collection,
            Target::Database { shared, name, .. } => return on_database(shared, name, own),
        };
        // Opened only, and not read: it may be opened again for a view that was changed, and nothing is written twice.
        self.on_base(collection, own, |base, mut pipeline, _| {
            if *pipeline.source() != Source::Collection {
                return on_collection(base, pipeline);
            }
            // As for a cursor, but for a pipeline that is only a search: its rows are a stream here too.
            let (selector, open) = leading_rows(&mut pipeline, &self.options)?;
            piped(base, pipeline, &selector, open)
        })
    }

    /// Calls `read` with the collection, the pipeline and its stages. Of a view it is the collection that the view comes down
    /// to, and the stages of the view come before `own`.
    fn on_base<R>(
        &self,
        collection: &Handle,
        own: Pipeline,
        read: impl Fn(&Handle, Pipeline, Given<'_>) -> Result<R>,
    ) -> Result<R> {
        let plain = Given { stages: &self.pipeline, views: &[] };
        let Some(mut views) = collection.views()? else { return read(collection, own, plain) };
        // A source describes a collection, or replaces it, and a view is none.
        if *own.source() != Source::Collection {
            return Err(is_a_view(&collection.given));
        }
        loop {
            let Some(resolved) = views.resolve(&collection.given.coll)? else {
                return read(collection, own, plain);
            };
            let Resolved { base, views: names, mut stages, collation } = resolved;
            refuse_override(own.variables(), &collation)?;
            stages.extend(self.pipeline.iter().cloned());
            let given = Given { stages: &stages, views: &names };
            let done = read(&collection.beside(&base), self.parse(&stages)?, given)?;
            // The snapshot was taken in between. The old definition may have read what only a new one explains.
            let now = collection.views()?;
            if now.as_ref().is_some_and(|now| now.is_same(&views)) {
                return Ok(done);
            }
            own.variables().operation().look()?;
            let Some(now) = now else { return read(collection, own, plain) };
            views = now;
        }
    }

    fn parse(&self, stages: &[Document]) -> Result<Pipeline> {
        let given = self.options.collation.as_ref();
        let (collation, operation) = match &self.target {
            Target::Collection(collection) => {
                (collection.rules(given)?, collection.begin(self.options.max_time))
            }
            Target::Database { shared, caller, .. } => {
                (Collation::rules(given)?, shared.operation(caller, self.options.max_time))
            }
        };
        if self.options.allow_disk_use == Some(false) {
            operation.keep_off_disk();
        }
        let moment = Moment { now: DateTime::now(), operation, collation };
        // All stages share these variables, and so the search and a `$project` after it have one `$$NOW`.
        let variables = variables(self.options.let_vars.as_ref(), moment)?;
        let stages = stages.iter().map(|stage| Ok(RawDocumentBuf::try_from(stage)?));
        Ok(Pipeline::parse(&stages.collect::<Result<Vec<_>>>()?, &variables)?)
    }
}

/// A pipeline within a session: the action that [`Aggregate::session`] returns. [`run`](Self::run) executes it.
#[must_use = "the pipeline is run by run()"]
pub struct SessionAggregate<'a, T = Document> {
    aggregate: Aggregate<'a, T>,
    transaction: Option<Arc<Transaction>>,
    /// The reason why it cannot be a part of the session.
    refused: Option<Error>,
}

impl<T> SessionAggregate<'_, T> {
    /// Opens a cursor over the results.
    pub fn run(self) -> Result<SessionCursor<T>> {
        self.refused.map_or(Ok(()), Err)?;
        let opened = self.aggregate.run();
        let opened = opened.map_err(|error| match &self.transaction {
            Some(transaction) => transaction.reason_of(error),
            None => error,
        });
        Ok(SessionCursor::of(opened?, self.transaction))
    }
}

/// Rejects a pipeline that no transaction can have.
fn refuse_stages(collection: &Handle, stages: &[Document], parsed: &Pipeline) -> Result<()> {
    if let Some(stage) = stages.iter().find_map(stage_outside_of_transactions) {
        return collection.refuse_in_transaction(&format!("the stage {stage}"));
    }
    if *parsed.source() != Source::Collection {
        return collection
            .refuse_in_transaction("a pipeline that does not begin with the documents of a collection");
    }
    Ok(())
}

/// The stage of a pipeline, or of one within it, that no transaction can have.
fn stage_outside_of_transactions(stage: &Document) -> Option<&str> {
    let (name, argument) = stage.iter().next()?;
    if ["$out", "$merge", "$unionWith"].contains(&name.as_str()) {
        return Some(name);
    }
    // `$lookup` has one pipeline, `$facet` several.
    let inner = argument.as_document()?.values().filter_map(Bson::as_array).flatten();
    inner.filter_map(Bson::as_document).find_map(stage_outside_of_transactions)
}

/// The explanation of a pipeline.
pub(crate) struct ExplainedPipeline {
    /// The collection that is read: of a view the one that it comes down to. `None` if there is none.
    pub(crate) namespace: Option<Namespace>,
    /// The views that it goes through, from the one that was named down.
    pub(crate) views: Vec<Namespace>,
    /// The search at its start. `None` if its documents do not come from the collection.
    pub(crate) search: Option<Explained>,
    /// The stages that are not part of the search.
    pub(crate) stages: Vec<Document>,
    /// The work of the pipeline, if it was executed.
    pub(crate) done: Option<PipelineWork>,
}

/// The stages of a pipeline as they were given, those of views first, and the names of these views.
#[derive(Clone, Copy)]
struct Given<'g> {
    stages: &'g [Document],
    views: &'g [String],
}

/// The work of a pipeline. Moves of a sort, a group or a join to a file, those of the search included, are its
/// `spills`.
#[derive(Clone, Copy)]
pub(crate) struct PipelineWork {
    pub(crate) rows: u64,
    pub(crate) spills: u64,
}

/// Opens the search at the start of the pipeline, with the other stages after it.
fn search(collection: &Handle, mut pipeline: Pipeline, options: &AggregateOptions) -> Result<RawCursor> {
    let (selector, open) = leading_rows(&mut pipeline, options)?;
    // Without further stages the cursor reads the rows directly.
    if pipeline.is_empty() {
        return Ok(collection.search(&selector, open)?.map_or_else(RawCursor::empty, RawCursor::new));
    }
    // The stages run without a collection too: a `$facet` over nothing gives one document.
    Ok(RawCursor::piped(piped(collection, pipeline, &selector, open)?))
}

/// Splits the search off the start of the pipeline: what it looks for, and what opens its rows.
fn leading_rows<'o>(
    pipeline: &mut Pipeline,
    options: &'o AggregateOptions,
) -> Result<(Selector, impl FnOnce(ReadView) -> Result<Rows> + use<'o>)> {
    let (search, _) = leading(pipeline, options.hint.as_ref())?;
    let selector = search.selector.clone();
    let open = move |view: ReadView| {
        // The view's own indexes: the plan can use these and no others.
        check_hint(options.hint.as_ref(), view.indexes())?;
        Rows::open(view, search)
    };
    Ok((selector, open))
}

/// Opens the rows of a search with the stages after it.
fn piped(
    collection: &Handle,
    pipeline: Pipeline,
    selector: &Selector,
    open: impl FnOnce(ReadView) -> Result<Rows>,
) -> Result<Piped> {
    let others = Others::of(&pipeline);
    // A pipeline over one collection may look its only record up, without a snapshot.
    let (rows, foreign) = if others.is_empty() {
        (collection.search(selector, open)?, ForeignViews::default())
    } else {
        collection.search_with(&others, open)?
    };
    Ok(Piped::over_rows(pipeline, rows, foreign))
}

fn explain_search(
    collection: &Handle,
    mut pipeline: Pipeline,
    given: Given<'_>,
    options: &AggregateOptions,
    depth: Depth,
) -> Result<ExplainedPipeline> {
    let stages = given.stages;
    let views = given.views.iter().map(|name| Namespace::new(&*collection.given.db, name)).collect();
    let (search, filter) = leading(&mut pipeline, options.hint.as_ref())?;
    let hint = options.hint.as_ref();
    // The stage that writes is the last one, and not among those that give documents.
    let writer = pipeline.writer().map(|_| stages.len().saturating_sub(1));
    let namespace = Some(Namespace::clone(&collection.given));
    // A pipeline that is only a search is explained as a `find` is.
    let Some(first) = pipeline.first_position().or(writer) else {
        let explained = collection.explain_search(&filter, hint, search, depth)?;
        let (search, stages) = (Some(explained), Vec::new());
        return Ok(ExplainedPipeline { namespace, views, search, stages, done: None });
    };
    // The stages that became the search are shown by its plan. Only the stages after it are listed.
    let db = &collection.valid_namespace()?.db;
    let others = Others::of(&pipeline);
    let foreign = if others.is_empty() {
        ForeignViews::default()
    } else {
        collection.search_with(&others, |_| Ok(()))?.1
    };
    let stages = executed(&pipeline, stages, first, (&foreign, db))?;
    if depth == Depth::Plan {
        let explained = collection.explain_search(&filter, hint, search, depth)?;
        return Ok(ExplainedPipeline { namespace, views, search: Some(explained), stages, done: None });
    }
    // The stages are executed to their end, and the search reports its work through `report`: a `$limit` among the stages
    // can end it early.
    let (start, skip, report) = (Instant::now(), search.skip, WorkReport::default());
    // This stays the answer if the collection does not exist. MongoDB's plan for it is EOF.
    let mut explained = Explained::without_reading(&filter, "EOF", depth);
    let selector = search.selector.clone();
    let open = |view: ReadView| {
        check_hint(hint, view.indexes())?;
        explained = Explained::of(&filter, &search, &view)?;
        Ok(Rows::open(view, search)?.reporting_to(&report))
    };
    let done = drained(piped(collection, pipeline, &selector, open)?, depth)?;
    // `drained` has dropped the rows, and their drop filled the report.
    let work = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let explained = explained.executed(&work, skip, start.elapsed());
    Ok(ExplainedPipeline { namespace, views, search: Some(explained), stages, done })
}

/// The stages from the position `first` on, as they are executed. Each `$lookup` says how it finds documents of `foreign`, which are
/// of one database.
fn executed(
    pipeline: &Pipeline,
    stages: &[Document],
    first: usize,
    foreign: (&ForeignViews, &str),
) -> Result<Vec<Document>> {
    let (foreign, db) = foreign;
    let joins = pipeline.joins();
    let stages = (0..).zip(stages).skip(first);
    let stages = stages.filter_map(|(position, stage)| {
        let shown = |stage: RawDocumentBuf| pipeline.executed_stage(position, &stage);
        let shown = RawDocumentBuf::try_from(stage).map(shown).transpose()?;
        Some((position, shown))
    });
    let told = |(position, stage): (usize, bson::error::Result<RawDocumentBuf>)| {
        let mut stage = Document::try_from(&stage?)?;
        if let Some(join) = joins.iter().find(|join| join.position == position) {
            stage.extend(foreign.strategy(db, join)?);
        }
        Ok(stage)
    };
    stages.map(told).collect()
}

/// Executes the pipeline to its end, if `depth` asks for that, and returns what it did.
fn drained(mut piped: Piped, depth: Depth) -> Result<Option<PipelineWork>> {
    let mut rows = 0;
    while depth == Depth::Execution && piped.advance()? {
        rows += 1;
    }
    let spills = piped.operation().spills();
    Ok((depth == Depth::Execution).then_some(PipelineWork { rows, spills }))
}
