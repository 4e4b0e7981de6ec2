//! `find`, `count_documents` and `distinct` on a view: each is a pipeline after that of the view.
//!
//! As in MongoDB a projection is then the stage `$project`, which has no `$`, `$elemMatch` and `$slice` of projections, and what
//! is about the keys of an index is rejected.

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::sort::Sort;

use crate::collection::aggregate::Aggregate;
use crate::collection::handle::Handle;
use crate::cursor::RawCursor;
use crate::options::{AggregateOptions, CountOptions, DistinctOptions, FindOptions, Hint};

/// The field that the count of a view is in.
const COUNT: &str = "n";

/// A pipeline in place of another verb.
pub(crate) struct AsPipeline {
    pub(crate) stages: Vec<Document>,
    pub(crate) options: AggregateOptions,
}

impl AsPipeline {
    /// The pipeline of a search. `limit` is that of the verb.
    pub(crate) fn of_find(filter: &Document, options: &FindOptions, limit: Option<u64>) -> Result<Self> {
        let FindOptions { min, max, return_key, show_record_id, .. } = options;
        let keys = [
            (min.is_some(), "min"),
            (max.is_some(), "max"),
            (*return_key == Some(true), "returnKey"),
            (*show_record_id == Some(true), "showRecordId"),
        ];
        if let Some((_, option)) = keys.into_iter().find(|(is_given, _)| *is_given) {
            let message = format!("Option {option} not supported in aggregation.");
            return Err(refused(Code::INVALID_PIPELINE_OPERATOR, message));
        }
        let mut stages = vec![doc! { "$match": filter.clone() }];
        // In this order, as a search applies them.
        let sort = options.sort.as_ref().filter(|sort| !sort.is_empty());
        let natural = sort.map(natural).transpose()?.flatten();
        if let (Some(sort), None) = (sort, &natural) {
            stages.push(doc! { "$sort": sort.clone() });
        }
        stages.extend(skip_and_limit(options.skip, limit));
        // An empty projection leaves documents as they are, and an empty stage is rejected.
        if let Some(projection) = options.projection.as_ref().filter(|projection| !projection.is_empty()) {
            stages.push(doc! { "$project": projection.clone() });
        }
        // A hint is for the collection below the view, and is checked there.
        let options = AggregateOptions {
            allow_disk_use: options.allow_disk_use,
            collation: options.collation.clone(),
            // The order of storage is that of the collection below the view. It wins over another hint, as in a search.
            hint: natural.or_else(|| options.hint.clone()),
            let_vars: options.let_vars.clone(),
            max_time: options.max_time,
            ..AggregateOptions::default()
        };
        Ok(Self { stages, options })
    }

    /// The pipeline of a count: one document with the number, or none.
    pub(crate) fn of_count(filter: &Document, options: &CountOptions) -> Self {
        // The verb has rejected a limit of 0 before.
        let mut stages = vec![doc! { "$match": filter.clone() }];
        stages.extend(skip_and_limit(options.skip, options.limit));
        stages.push(doc! { "$count": COUNT });
        let options = AggregateOptions {
            collation: options.collation.clone(),
            hint: options.hint.clone(),
            max_time: options.max_time,
            ..AggregateOptions::default()
        };
        Self { stages, options }
    }

    /// The pipeline of the documents whose different values are asked for.
    pub(crate) fn of_distinct(filter: &Document, options: &DistinctOptions) -> Self {
        let options = AggregateOptions {
            collation: options.collation.clone(),
            hint: options.hint.clone(),
            max_time: options.max_time,
            ..AggregateOptions::default()
        };
        Self { stages: vec![doc! { "$match": filter.clone() }], options }
    }

    /// Opens the pipeline on a view. The verb that it means is what is measured.
    pub(super) fn open(self, view: &Handle) -> Result<RawCursor> {
        Aggregate::on_collection(view, self.stages).with_options(self.options).open()
    }

    /// Counts by the pipeline of a count.
    pub(super) fn count(self, view: &Handle) -> Result<u64> {
        let mut cursor = self.open(view)?;
        // Without a document there is no group that could be counted.
        if !cursor.advance()? {
            return Ok(0);
        }
        let counted = Document::try_from(cursor.current())?;
        let number = counted.get(COUNT).and_then(|count| count.as_i64().or(count.as_i32().map(i64::from)));
        Ok(number.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
    }

    /// Calls `each` with every document of the pipeline.
    pub(super) fn each(self, view: &Handle, mut each: impl FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        let mut cursor = self.open(view)?;
        while cursor.advance()? {
            each(cursor.current())?;
        }
        Ok(())
    }
}

/// The hint that a sort by `$natural` is, because the results of a stage have no order of storage. Returns `None` for a sort by
/// fields, which is checked with its stage.
fn natural(sort: &Document) -> Result<Option<Hint>> {
    if !sort.contains_key("$natural") {
        return Ok(None);
    }
    Sort::parse(&RawDocumentBuf::try_from(sort)?)?;
    Ok(Some(Hint::Keys(sort.clone())))
}

/// The stages for a skip and a limit. A stage of neither is rejected as 0, and means nothing.
fn skip_and_limit(skip: Option<u64>, limit: Option<u64>) -> Vec<Document> {
    let stage = |name: &str, count: u64| {
        let mut stage = Document::new();
        stage.insert(name, Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)));
        stage
    };
    let skip = skip.filter(|skip| *skip > 0).map(|skip| stage("$skip", skip));
    let limit = limit.filter(|limit| *limit > 0).map(|limit| stage("$limit", limit));
    skip.into_iter().chain(limit).collect()
}
