//! `find`, `count` and `distinct`.

use base::error::Result;
use bson::{Document, RawDocumentBuf, doc};

use crate::arguments::Arguments;
use crate::collection::{AsPipeline, Collection};
use crate::command::context::CommandContext;
use crate::command::cursor::Opened;
use crate::command::plan::Plan;
use crate::execute::explain::Depth;
use crate::options::declare::Options;
use crate::options::{CountOptions, DistinctOptions, FindOptions};
use crate::results::number;

/// Opens the cursor of `find`.
///
/// How much of it is sent at once is for the server to decide, so `batchSize`, `singleBatch` and `noCursorTimeout` are
/// checked and change nothing. `allowPartialResults` permits what the engine never does.
pub(super) fn find(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    let (collection, filter, options) = find_arguments(context, arguments)?;
    let cursor = collection.find(filter).with_options(options).run()?;
    Ok(Opened { cursor, namespace: collection.namespace().to_string() })
}

pub(super) fn explain_find(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    depth: Depth,
) -> Result<Plan> {
    let (collection, filter, options) = find_arguments(context, arguments)?;
    let find = collection.find(filter).with_options(options);
    if collection.handle.is_view()? {
        return of_view(&collection, find.as_pipeline()?, depth);
    }
    Ok(Plan::of(&collection, find.explain(depth)?))
}

/// The plan of a verb on a view, which is that of a pipeline.
fn of_view(collection: &Collection<RawDocumentBuf>, verb: AsPipeline, depth: Depth) -> Result<Plan> {
    let AsPipeline { stages, options } = verb;
    let explained = collection.aggregate(stages).with_options(options).explain(depth)?;
    Ok(Plan::of_pipeline(collection.namespace().to_string(), explained))
}

/// A read of a collection: its filter and its options.
type Asked<O> = (Collection<RawDocumentBuf>, Document, O);

fn find_arguments(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Asked<FindOptions>> {
    let others =
        ["allowPartialResults", "awaitData", "batchSize", "filter", "noCursorTimeout", "singleBatch"];
    arguments.allow_options(FindOptions::FIELDS, &others)?;
    arguments.count("batchSize")?;
    for flag in ["allowPartialResults", "noCursorTimeout", "singleBatch"] {
        arguments.boolean(flag)?;
    }
    // No limit of time: the operation of the command has it already.
    let options = FindOptions::read(arguments)?;
    let filter = arguments.document("filter")?.cloned().unwrap_or_default();
    Ok((context.collection(arguments.target()?), filter, options))
}

pub(super) fn count(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (collection, filter, options) = count_arguments(context, arguments)?;
    let count = match options {
        // Nothing restricts the count, so the counter answers and no document is read.
        None => collection.estimated_document_count().run()?,
        Some(options) => collection.count_documents(filter).with_options(options).run()?,
    };
    Ok(doc! { "n": number(count) })
}

pub(super) fn explain_count(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    depth: Depth,
) -> Result<Plan> {
    let (collection, filter, options) = count_arguments(context, arguments)?;
    if collection.handle.is_view()? {
        let count = collection.count_documents(filter).with_options(options);
        return of_view(&collection, count.as_pipeline(), depth);
    }
    // The choice that `count` makes, so that the explained plan is the one that would run.
    let explained = match options {
        None => collection.estimated_document_count().explain(depth)?,
        Some(options) => collection.count_documents(filter).with_options(options).explain(depth)?,
    };
    Ok(Plan::of(&collection, explained))
}

/// Reads `count`. Without options, when the collection's counter has the answer.
fn count_arguments(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
) -> Result<Asked<Option<CountOptions>>> {
    arguments.allow_options(CountOptions::FIELDS, &["fields", "limit", "query"])?;
    // As in MongoDB: 0 is not a limit, and a negative limit counts like a positive one.
    let limit = arguments.integer("limit")?.map(i64::unsigned_abs).filter(|&limit| limit > 0);
    let options = CountOptions { limit, ..CountOptions::read(arguments)? };
    let filter = arguments.document("query")?.cloned().unwrap_or_default();
    let collection = context.collection(arguments.target()?);
    // The counter knows all documents, and nothing of a part of them; a hint has to be checked.
    let is_plain = filter.is_empty() && options.skip.is_none_or(|skip| skip == 0) && options.limit.is_none();
    let is_counter = is_plain && options.collation.is_none() && options.hint.is_none();
    Ok((collection, filter, (!is_counter).then_some(options)))
}

pub(super) fn distinct(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let (key, (collection, filter, options)) = distinct_arguments(context, arguments)?;
    // The verb has rejected more values than one document holds, so they fit into the reply.
    Ok(doc! { "values": collection.distinct(key, filter).with_options(options).run()? })
}

pub(super) fn explain_distinct(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    depth: Depth,
) -> Result<Plan> {
    let (key, (collection, filter, options)) = distinct_arguments(context, arguments)?;
    let distinct = collection.distinct(key, filter).with_options(options);
    if collection.handle.is_view()? {
        return of_view(&collection, distinct.as_pipeline(), depth);
    }
    Ok(Plan::of(&collection, distinct.explain(depth)?))
}

fn distinct_arguments<'a>(
    context: &CommandContext<'_>,
    arguments: &Arguments<'a>,
) -> Result<(&'a str, Asked<DistinctOptions>)> {
    arguments.allow_options(DistinctOptions::FIELDS, &["key", "query"])?;
    let options = DistinctOptions::read(arguments)?;
    let key = arguments.text("key")?.ok_or_else(|| arguments.missing("key"))?;
    let filter = arguments.document("query")?.cloned().unwrap_or_default();
    Ok((key, (context.collection(arguments.target()?), filter, options)))
}
