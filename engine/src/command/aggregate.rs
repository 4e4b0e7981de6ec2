//! `aggregate`.

use base::codes::refused;
use base::error::Result;
use bson::Document;
use query::code::Code;

use crate::arguments::{Arguments, is_database};
use crate::collection::Aggregate;
use crate::command::change_stream;
use crate::command::context::CommandContext;
use crate::command::cursor::Opened;
use crate::command::plan::Plan;
use crate::execute::explain::Depth;
use crate::options::AggregateOptions;
use crate::options::declare::Options;
use crate::transaction::refused_within;

/// Opens the cursor of `aggregate`. How much of it is sent at once is for the server to decide, so `batchSize` is checked
/// and changes nothing.
pub(super) fn aggregate(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    let (pipeline, options) = read(arguments)?;
    // `run` answers an explained aggregation by itself, so this is a caller that asked for a cursor.
    if asks_for_plan(arguments)? {
        return Err(refused(
            Code::FAILED_TO_PARSE,
            "an aggregation that is explained gives no cursor: use run_command",
        ));
    }
    // MongoDB requires the field, even if it is empty.
    if arguments.given("cursor").is_none() {
        let message = "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(refused(Code::FAILED_TO_PARSE, message));
    }
    if let Some(opened) = change_stream::open(context, arguments)? {
        return Ok(opened);
    }
    if !is_database(arguments) {
        let collection = context.collection(arguments.target()?);
        let namespace = collection.namespace().to_string();
        let cursor = collection.aggregate(pipeline).with_options(options).run()?.with_type();
        return Ok(Opened { cursor, namespace });
    }
    if context.is_in_transaction() {
        return Err(refused_within("a pipeline on a database"));
    }
    // No collection is looked up: the documents come from the first stage, such as `$documents`.
    let on_database = Aggregate::on_database(context.shared, context.caller.clone(), context.db, pipeline);
    let cursor = on_database.with_options(options).run()?.with_type();
    Ok(Opened { cursor, namespace: database_namespace(context) })
}

/// Whether the command has `explain: true`.
pub(super) fn asks_for_plan(arguments: &Arguments<'_>) -> Result<bool> {
    Ok(arguments.boolean("explain")?.unwrap_or(false))
}

pub(super) fn explain(context: &CommandContext<'_>, arguments: &Arguments<'_>, depth: Depth) -> Result<Plan> {
    let (pipeline, options) = read(arguments)?;
    // In the order of `aggregate`, so that an explanation fails with the error of the command.
    if !is_database(arguments) {
        let collection = context.collection(arguments.target()?);
        let explained = collection.aggregate(pipeline).with_options(options).explain(depth)?;
        return Ok(Plan::of_pipeline(collection.namespace().to_string(), explained));
    }
    let on_database = Aggregate::on_database(context.shared, context.caller.clone(), context.db, pipeline);
    let explained = on_database.with_options(options).explain(depth)?;
    Ok(Plan::of_pipeline(database_namespace(context), explained))
}

/// The namespace of an aggregation over no collection in replies.
fn database_namespace(context: &CommandContext<'_>) -> String {
    format!("{}.$cmd.aggregate", context.db)
}

fn read(arguments: &Arguments<'_>) -> Result<(Vec<Document>, AggregateOptions)> {
    arguments.allow_options(AggregateOptions::FIELDS, &["cursor", "explain", "pipeline"])?;
    let pipeline: Vec<Document> = arguments.read("pipeline")?.ok_or_else(|| arguments.missing("pipeline"))?;
    refuse_linearizable(arguments, &pipeline)?;
    // Read for an explanation too: it needs no cursor, but a malformed one is rejected in both.
    read_cursor(arguments)?;
    // No limit of time: the operation of the command has it already.
    Ok((pipeline, AggregateOptions::read(arguments)?))
}

/// Checks the cursor's options.
fn read_cursor(arguments: &Arguments<'_>) -> Result<()> {
    let Some(cursor) = arguments.document("cursor")? else { return Ok(()) };
    let of = Arguments::of("cursor", cursor);
    of.allow_in_statement(&["batchSize"])?;
    of.count("batchSize")?;
    Ok(())
}

/// A pipeline that writes cannot have the read concern `linearizable`: a rule of MongoDB's manual, "Read Concern linearizable".
fn refuse_linearizable(arguments: &Arguments<'_>, pipeline: &[Document]) -> Result<()> {
    let level = arguments.document("readConcern")?.and_then(|concern| concern.get_str("level").ok());
    let last = pipeline.last().and_then(|stage| stage.keys().next());
    match last.map(String::as_str) {
        Some(name @ ("$out" | "$merge")) if level == Some("linearizable") => Err(refused(
            Code::INVALID_OPTIONS,
            format!("{name} cannot be used with a 'linearizable' read concern level"),
        )),
        _ => Ok(()),
    }
}
