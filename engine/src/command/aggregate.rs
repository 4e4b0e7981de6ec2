//! `aggregate`.

use bson::{Bson, Document};

use crate::codes::refused;
use crate::collection::Aggregate;
use crate::command::arguments::Arguments;
use crate::command::{Opened, Place};
use crate::error::Result;
use crate::options::AggregateOptions;

/// Of MongoDB's `aggregate`, what is not here.
const NOT_HERE: [&str; 1] = ["explain"];

/// What is sent of a cursor at once is its holder's to decide, so `batchSize` is read and changes nothing.
pub(super) fn aggregate(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    let known =
        ["allowDiskUse", "bypassDocumentValidation", "collation", "cursor", "hint", "let", "pipeline"];
    arguments.allow(&known, &NOT_HERE)?;
    let pipeline = arguments.documents("pipeline")?.ok_or_else(|| arguments.missing("pipeline"))?;
    let pipeline: Vec<Document> = pipeline.into_iter().cloned().collect();
    read_cursor(arguments)?;
    let options = AggregateOptions {
        allow_disk_use: arguments.boolean("allowDiskUse")?,
        bypass_document_validation: arguments.boolean("bypassDocumentValidation")?,
        collation: arguments.collation()?,
        hint: arguments.hint()?,
        let_vars: arguments.document("let")?.cloned(),
        max_time: arguments.max_time()?,
        ..AggregateOptions::default()
    };
    if !is_database(arguments) {
        let collection = place.collection(arguments.target()?);
        let namespace = collection.namespace().to_string();
        let cursor = collection.aggregate(pipeline).with_options(options).run()?.with_type();
        return Ok(Opened { cursor, namespace });
    }
    let on_database = Aggregate::on_database(place.shared, place.db, pipeline);
    let cursor = on_database.with_options(options).run()?.with_type();
    Ok(Opened { cursor, namespace: format!("{}.$cmd.aggregate", place.db) })
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

/// The cursor's options, which must be given, even if there are none.
fn read_cursor(arguments: &Arguments<'_>) -> Result<()> {
    let cursor = arguments.document("cursor")?.ok_or_else(|| {
        refused(9, "The 'cursor' option is required, except for aggregate with the explain argument")
    })?;
    let of = Arguments::of("cursor", cursor);
    of.allow_in_statement(&["batchSize"], &[])?;
    of.count("batchSize")?;
    Ok(())
}
