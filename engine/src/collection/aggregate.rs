//! `aggregate`, on a collection and on a database.

use std::marker::PhantomData;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use query::code::Code;
use query::pipeline::{Pipeline, Source};

use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::codes::{refused, unsupported};
use crate::collection::{Collection, Viewed};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::execute::explain::{Depth, Explained};
use crate::execute::matches::Matches;
use crate::execute::piped::Piped;
use crate::execute::rows::{Rows, Search, WorkReport};
use crate::namespace::validate_database;
use crate::options::{AggregateOptions, Collation, Hint};
use crate::plan::order::{Order, check_collation, check_hint};
use crate::plan::selector::{Moment, Selector, variables};
use crate::shared::{Caller, Shared};

impl<T> Collection<T> {
    /// Runs an aggregation pipeline over the documents, as they are when `run` is called.
    ///
    /// `$match`, `$sort`, `$skip` and `$limit` at the front of the pipeline are done as by [`find`](Self::find). Stages
    /// that must see all documents before they give one (`$sort`, `$group` and the like) hold at most 100 MiB each (code
    /// 292), and do their work when the cursor is first asked. A stage that is unknown, and one that MongoDB has and
    /// CairnDB has not, are errors that name it.
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
        Aggregate::new(Target::Collection(self.clone_with_type()), pipeline.into_iter().collect())
    }
}

/// An `aggregate` that is done by [`run`](Self::run).
#[must_use = "the pipeline is run by run()"]
pub struct Aggregate<'a, T = Document> {
    target: Target<'a>,
    pipeline: Vec<Document>,
    options: AggregateOptions,
    row: PhantomData<fn() -> T>,
}

/// What a pipeline is run on.
enum Target<'a> {
    Collection(Collection<RawDocumentBuf>),
    Database { shared: &'a Shared, caller: Caller, name: &'a str },
}

setters!(Aggregate<'a, T>, AggregateOptions, {
    /// Accepted, as it only allows: nothing is ever moved to disk. A stage that holds more than 100 MiB fails with code
    /// 292 either way.
    allow_disk_use: bool,
    /// Accepted: documents are read one by one, so there are no batches to size.
    batch_size: u32,
    /// Accepted: no stage writes, so there is nothing to validate.
    bypass_document_validation: bool,
    /// How texts compare; only the simple collation is there.
    collation: Collation,
    /// Kept with the operation for tracing.
    comment: Bson,
    /// The index to use, by keys or by name.
    hint: Hint,
    /// Variables for expressions, as `$$name`.
    let_vars: Document,
    /// Give up with code 50 after this long. Time between two calls of the cursor does not count.
    max_time: Duration,
});

impl<'a> Aggregate<'a> {
    /// A pipeline on a database.
    pub(crate) fn on_database(
        (shared, caller): (&'a Shared, Caller),
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
    /// The same pipeline, with results as another type.
    pub fn with_type<U>(self) -> Aggregate<'a, U> {
        let Self { target, pipeline, options, row: _ } = self;
        Aggregate { target, pipeline, options, row: PhantomData }
    }

    /// Opens a cursor.
    pub fn run(self) -> Result<Cursor<T>> {
        let pipeline = self.parse()?;
        let piped = match &self.target {
            Target::Collection(collection) => {
                if *pipeline.source() == Source::Collection {
                    return search(collection, pipeline, &self.options);
                }
                on_collection(collection, pipeline)
            }
            Target::Database { shared, name, .. } => on_database(shared, name, pipeline),
        };
        Ok(Cursor::piped(piped?))
    }

    /// What `run`, and a walk to the end of its cursor, does.
    pub(crate) fn explain(self, depth: Depth) -> Result<ExplainedPipeline> {
        let pipeline = self.parse()?;
        let piped = match &self.target {
            Target::Collection(collection) if *pipeline.source() == Source::Collection => {
                return explain_search(collection, pipeline, (&self.pipeline, &self.options), depth);
            }
            Target::Collection(collection) => on_collection(collection, pipeline),
            Target::Database { shared, name, .. } => on_database(shared, name, pipeline),
        };
        let rows = drained(piped?, depth)?;
        Ok(ExplainedPipeline { search: None, stages: self.pipeline, rows })
    }

    fn parse(&self) -> Result<Pipeline> {
        check_collation(self.options.collation.as_ref())?;
        let operation = match &self.target {
            Target::Collection(collection) => collection.begin(self.options.max_time),
            Target::Database { shared, caller, .. } => shared.operation(caller, self.options.max_time),
        };
        let moment = Moment { now: DateTime::now(), operation };
        let variables = variables(self.options.let_vars.as_ref(), moment)?;
        let stages = self.pipeline.iter().map(|stage| Ok(RawDocumentBuf::try_from(stage)?));
        Ok(Pipeline::parse(&stages.collect::<Result<Vec<_>>>()?, &variables)?)
    }
}

/// A pipeline explained.
pub(crate) struct ExplainedPipeline {
    /// The search at its front, unless it has another source.
    pub(crate) search: Option<Explained>,
    /// The stages that are not part of the search.
    pub(crate) stages: Vec<Document>,
    /// How many documents came out of the last of them, if it was run.
    pub(crate) rows: Option<u64>,
}

/// A pipeline that tells of the collection instead of reading it.
fn on_collection(collection: &Collection<RawDocumentBuf>, pipeline: Pipeline) -> Result<Piped> {
    let documents = match pipeline.source() {
        Source::Collection => Vec::new(),
        Source::IndexStats => collection.read(|_, state| index_stats(&state.indexes()))?.unwrap_or_default(),
        Source::CollStats(asked) => {
            let asked = Asked::parse(&Document::try_from(asked)?)?;
            let count = if asked.count { collection.known_count()? } else { None };
            let stats = collection.view(|viewed| asked.stats(viewed, count))?;
            vec![stats.ok_or_else(|| {
                let namespace = collection.namespace();
                refused(
                    Code::NAMESPACE_NOT_FOUND,
                    format!("$collStats: collection {namespace} does not exist"),
                )
            })?]
        }
        Source::Documents(_) | Source::CurrentOp(_) => {
            let (stage, name) = (pipeline.source().stage().unwrap_or_default(), collection.name());
            return Err(refused(
                Code::INVALID_NAMESPACE,
                format!("{{aggregate: '{name}'}} is not valid for '{stage}'; a database is required."),
            ));
        }
    };
    Ok(Piped::over_documents(pipeline, documents))
}

/// The search at the front of a pipeline, which is taken off it, and its filter.
fn leading(pipeline: &mut Pipeline, options: &AggregateOptions) -> Result<(Search, Document)> {
    let leading = pipeline.take_leading();
    let sort = leading.sort.as_deref().map(Document::try_from).transpose()?;
    let filter = Document::try_from(&leading.filter)?;
    let search = Search {
        selector: Selector::with_variables(&filter, pipeline.variables().clone())?,
        order: Order::of(sort.as_ref(), options.hint.as_ref())?,
        skip: leading.skip,
        limit: leading.limit,
        projection: None,
    };
    Ok((search, filter))
}

/// The search, and the rest of the pipeline behind it.
fn search<T>(
    collection: &Collection<RawDocumentBuf>,
    mut pipeline: Pipeline,
    options: &AggregateOptions,
) -> Result<Cursor<T>> {
    let (search, _) = leading(&mut pipeline, options)?;
    let selector = search.selector.clone();
    let open = || {
        collection.search(&selector, |view| {
            check_hint(options.hint.as_ref(), view.indexes())?;
            Rows::open(view, search)
        })
    };
    if pipeline.is_empty() {
        return Ok(open()?.map_or_else(Cursor::empty, Cursor::new));
    }
    Ok(Cursor::piped(Piped::over_rows(pipeline, open()?)))
}

fn explain_search(
    collection: &Collection<RawDocumentBuf>,
    mut pipeline: Pipeline,
    (stages, options): (&[Document], &AggregateOptions),
    depth: Depth,
) -> Result<ExplainedPipeline> {
    let (search, filter) = leading(&mut pipeline, options)?;
    let hint = options.hint.as_ref();
    let Some(first) = pipeline.first_position() else {
        let explained = collection.explain_search((&filter, hint), search, depth)?;
        return Ok(ExplainedPipeline { search: Some(explained), stages: Vec::new(), rows: None });
    };
    let stages = stages.iter().skip(first).cloned().collect();
    if depth == Depth::Plan {
        let explained = collection.explain_search((&filter, hint), search, depth)?;
        return Ok(ExplainedPipeline { search: Some(explained), stages, rows: None });
    }
    let (start, skip, report) = (Instant::now(), search.skip, WorkReport::default());
    let mut explained = Explained::without_reading(&filter, "EOF", depth);
    let selector = search.selector.clone();
    let open = || {
        collection.search(&selector, |view| {
            check_hint(hint, view.indexes())?;
            explained = Explained::of(&filter, &search, &view)?;
            Ok(Rows::open(view, search)?.reporting_to(&report))
        })
    };
    let rows = drained(Piped::over_rows(pipeline, open()?), depth)?;
    let work = report.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let explained = explained.executed(&work, skip, start.elapsed());
    Ok(ExplainedPipeline { search: Some(explained), stages, rows })
}

/// How many documents come out of a pipeline, if it is to be run.
fn drained(mut piped: Piped, depth: Depth) -> Result<Option<u64>> {
    let mut rows = 0;
    while depth == Depth::Execution && piped.advance()? {
        rows += 1;
    }
    Ok((depth == Depth::Execution).then_some(rows))
}

fn on_database(shared: &Shared, name: &str, pipeline: Pipeline) -> Result<Piped> {
    validate_database(name)?;
    let _in_use = shared.store.enter()?;
    match pipeline.source() {
        Source::Documents(documents) => {
            let documents = documents.clone();
            Ok(Piped::over_documents(pipeline, documents))
        }
        // An empty list would say that nothing is going on.
        Source::CurrentOp(_) => {
            Err(unsupported("stage $currentOp is not supported: operations are recorded by a server only"))
        }
        Source::Collection | Source::CollStats(_) | Source::IndexStats => {
            let stage = pipeline.source().stage().or(pipeline.first_stage());
            let stage = stage.map_or_else(|| "an empty pipeline".to_owned(), |stage| format!("'{stage}'"));
            Err(refused(
                Code::INVALID_NAMESPACE,
                format!("{{aggregate: 1}} is not valid for {stage}; a collection is required."),
            ))
        }
    }
}

/// Names and keys. How often an index was used is not counted, so it is not told.
fn index_stats(indexes: &[Index]) -> Result<Vec<RawDocumentBuf>> {
    let id = doc! { "name": ID_INDEX_NAME, "key": { "_id": 1 }, "spec": { "key": { "_id": 1 }, "name": ID_INDEX_NAME } };
    let others = indexes.iter().map(|index| {
        let mut spec = doc! { "key": index.key_pattern(), "name": &index.name };
        if index.spec.is_unique() {
            spec.insert("unique", true);
        }
        if index.spec.is_sparse() {
            spec.insert("sparse", true);
        }
        doc! { "name": &index.name, "key": index.key_pattern(), "spec": spec }
    });
    std::iter::once(id).chain(others).map(|stats| Ok(RawDocumentBuf::try_from(&stats)?)).collect()
}

/// What `$collStats` is asked for.
struct Asked {
    count: bool,
    /// What sizes are divided by, if they are asked for.
    storage: Option<i64>,
}

impl Asked {
    fn parse(options: &Document) -> Result<Self> {
        let mut asked = Self { count: false, storage: None };
        for (option, value) in options {
            let wrong = || {
                refused(
                    Code::FAILED_TO_PARSE,
                    format!("$collStats needs an object as '{option}', not {value}"),
                )
            };
            match option.as_str() {
                "count" => {
                    value.as_document().filter(|given| given.is_empty()).ok_or_else(wrong)?;
                    asked.count = true;
                }
                "storageStats" => asked.storage = Some(scale(value.as_document().ok_or_else(wrong)?)?),
                "latencyStats" | "queryExecStats" | "operationStats" => {
                    return Err(unsupported(format!("'{option}' of $collStats is not supported")));
                }
                _ => {
                    let message = format!("BSON field '$collStats.{option}' is an unknown field.");
                    return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(asked)
    }

    /// What is asked for and can be told. Sizes are summed up by reading every document.
    fn stats(&self, viewed: Viewed<'_>, count: Option<u64>) -> Result<RawDocumentBuf> {
        let Viewed { database: _, state, view } = viewed;
        let mut told = doc! { "ns": state.namespace.to_string(), "localTime": DateTime::now() };
        if let Some(scale) = self.storage {
            let indexes = i32::try_from(view.indexes().len()).unwrap_or(i32::MAX);
            let mut matches = Matches::open(view, Selector::everything()?, &Order::default())?;
            let (mut count, mut size) = (0_i64, 0_i64);
            while matches.advance()? {
                count += 1;
                size = size.saturating_add(i64::try_from(matches.bytes().len()).unwrap_or(i64::MAX));
            }
            let mut storage = doc! { "size": size / scale, "count": count };
            if count > 0 {
                storage.insert("avgObjSize", size / count);
            }
            storage.extend(
                doc! { "capped": false, "nindexes": indexes.saturating_add(1), "scaleFactor": scale },
            );
            told.insert("storageStats", storage);
        }
        if let Some(count) = count {
            told.insert("count", i64::try_from(count).unwrap_or(i64::MAX));
        }
        Ok(RawDocumentBuf::try_from(&told)?)
    }
}

fn scale(options: &Document) -> Result<i64> {
    if let Some(option) = options.keys().find(|option| *option != "scale") {
        let message = format!("BSON field '$collStats.storageStats.{option}' is an unknown field.");
        return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
    }
    let Some(scale) = options.get("scale") else { return Ok(1) };
    let given = scale.as_i32().map(i64::from).or(scale.as_i64());
    let given = given.filter(|given| *given > 0);
    given.ok_or_else(|| {
        refused(Code::FAILED_TO_PARSE, format!("$collStats needs an integer above 0 as 'scale', not {scale}"))
    })
}
