//! `aggregate`.

use bson::{Bson, Document};
use query::code::Code;

use crate::codes::refused;
use crate::collection::Aggregate;
use crate::command::arguments::Arguments;
use crate::command::explain::Plan;
use crate::command::{Opened, Place};
use crate::error::Result;
use crate::execute::explain::Depth;
use crate::options::AggregateOptions;

const KNOWN: [&str; 8] =
    ["allowDiskUse", "bypassDocumentValidation", "collation", "cursor", "explain", "hint", "let", "pipeline"];

/// What is sent of a cursor at once is its holder's to decide, so `batchSize` is read and changes nothing.
pub(super) fn aggregate(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    let (pipeline, options) = read(arguments)?;
    if asks_for_plan(arguments)? {
        return Err(refused(
            Code::FAILED_TO_PARSE,
            "an aggregation that is explained gives no cursor: use run_command",
        ));
    }
    if arguments.given("cursor").is_none() {
        let message = "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(refused(Code::FAILED_TO_PARSE, message));
    }
    if !is_database(arguments) {
        let collection = place.collection(arguments.target()?);
        let namespace = collection.namespace().to_string();
        let cursor = collection.aggregate(pipeline).with_options(options).run()?.with_type();
        return Ok(Opened { cursor, namespace });
    }
    let on_database = Aggregate::on_database(place.shared, place.caller.clone(), place.db, pipeline);
    let cursor = on_database.with_options(options).run()?.with_type();
    Ok(Opened { cursor, namespace: database_namespace(place) })
}

/// Whether the command asks by a field of its own to be explained.
pub(super) fn asks_for_plan(arguments: &Arguments<'_>) -> Result<bool> {
    Ok(arguments.boolean("explain")?.unwrap_or(false))
}

pub(super) fn explain(place: &Place<'_>, arguments: &Arguments<'_>, depth: Depth) -> Result<Plan> {
    let (pipeline, options) = read(arguments)?;
    if !is_database(arguments) {
        let collection = place.collection(arguments.target()?);
        let explained = collection.aggregate(pipeline).with_options(options).explain(depth)?;
        return Ok(Plan::of_pipeline(collection.namespace().to_string(), explained));
    }
    let on_database = Aggregate::on_database(place.shared, place.caller.clone(), place.db, pipeline);
    let explained = on_database.with_options(options).explain(depth)?;
    Ok(Plan::of_pipeline(database_namespace(place), explained))
}

fn database_namespace(place: &Place<'_>) -> String {
    format!("{}.$cmd.aggregate", place.db)
}

fn read(arguments: &Arguments<'_>) -> Result<(Vec<Document>, AggregateOptions)> {
    arguments.allow(&KNOWN)?;
    let pipeline = arguments.documents("pipeline")?.ok_or_else(|| arguments.missing("pipeline"))?;
    if pipeline.first().is_some_and(|stage| stage.contains_key("$changeStream")) {
        return Err(refused(
            Code::CHANGE_STREAM_WITHOUT_REPLICA_SET,
            "The $changeStream stage is only supported on replica sets",
        ));
    }
    let pipeline: Vec<Document> = pipeline.into_iter().cloned().collect();
    read_cursor(arguments)?;
    let options = AggregateOptions {
        allow_disk_use: arguments.boolean("allowDiskUse")?,
        bypass_document_validation: arguments.boolean("bypassDocumentValidation")?,
        collation: arguments.collation()?,
        hint: arguments.hint()?,
        let_vars: arguments.document("let")?.cloned(),
        ..AggregateOptions::default()
    };
    Ok((pipeline, options))
}

/// Whether the command's target is 1, which is the database.
fn is_database(arguments: &Arguments<'_>) -> bool {
    match arguments.given("aggregate") {
        Some(Bson::Int32(target)) => *target == 1,
        Some(Bson::Int64(target)) => *target == 1,
        Some(Bson::Double(target)) => target.total_cmp(&1.0).is_eq(),
        Some(_) | None => false,
    }
}

/// The cursor's options.
fn read_cursor(arguments: &Arguments<'_>) -> Result<()> {
    let Some(cursor) = arguments.document("cursor")? else { return Ok(()) };
    let of = Arguments::of("cursor", cursor);
    of.allow_in_statement(&["batchSize"])?;
    of.count("batchSize")?;
    Ok(())
}
