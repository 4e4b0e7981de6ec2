//! `find`, `count` and `distinct`.

use bson::{Document, doc};

use crate::command::arguments::Arguments;
use crate::command::write_errors::number;
use crate::command::{Opened, Place};
use crate::error::Result;
use crate::options::{CountOptions, DistinctOptions, FindOptions};

/// Of MongoDB's `find`, what is not here.
const NOT_HERE: [&str; 8] =
    ["awaitData", "max", "min", "oplogReplay", "returnKey", "showRecordId", "tailable", "term"];

/// What is sent of a cursor at once is its holder's to decide, so `batchSize`, `singleBatch` and `noCursorTimeout` are
/// read and change nothing. `allowDiskUse` and `allowPartialResults` are permissions of which no use is made.
pub(super) fn find(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    let known = [
        "allowDiskUse",
        "allowPartialResults",
        "batchSize",
        "collation",
        "filter",
        "hint",
        "let",
        "limit",
        "noCursorTimeout",
        "projection",
        "singleBatch",
        "skip",
        "sort",
    ];
    arguments.allow(&known, &NOT_HERE)?;
    arguments.count("batchSize")?;
    for flag in ["allowDiskUse", "allowPartialResults", "noCursorTimeout", "singleBatch"] {
        arguments.boolean(flag)?;
    }
    let options = FindOptions {
        collation: arguments.collation()?,
        hint: arguments.hint()?,
        let_vars: arguments.document("let")?.cloned(),
        limit: arguments.integer("limit")?,
        max_time: arguments.max_time()?,
        projection: arguments.document("projection")?.cloned(),
        skip: arguments.count("skip")?,
        sort: arguments.document("sort")?.cloned(),
        ..FindOptions::default()
    };
    let filter = arguments.document("filter")?.cloned().unwrap_or_default();
    let collection = place.collection(arguments.target()?);
    let cursor = collection.find(filter).with_options(options).run()?;
    Ok(Opened { cursor, namespace: collection.namespace().to_string() })
}

pub(super) fn count(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["collation", "fields", "hint", "limit", "query", "skip"], &[])?;
    let options = CountOptions {
        collation: arguments.collation()?,
        hint: arguments.hint()?,
        limit: arguments.integer("limit")?.map(i64::unsigned_abs).filter(|&limit| limit > 0),
        max_time: arguments.max_time()?,
        skip: arguments.count("skip")?,
        ..CountOptions::default()
    };
    let filter = arguments.document("query")?.cloned().unwrap_or_default();
    let collection = place.collection(arguments.target()?);
    let is_plain = filter.is_empty() && options.skip.is_none_or(|skip| skip == 0) && options.limit.is_none();
    if is_plain && options.collation.is_none() && options.hint.is_none() {
        return Ok(doc! { "n": number(collection.estimated_document_count().run()?) });
    }
    Ok(doc! { "n": number(collection.count_documents(filter).with_options(options).run()?) })
}

pub(super) fn distinct(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["collation", "hint", "key", "query"], &[])?;
    let options = DistinctOptions {
        collation: arguments.collation()?,
        hint: arguments.hint()?,
        max_time: arguments.max_time()?,
        ..DistinctOptions::default()
    };
    let key = arguments.text("key")?.ok_or_else(|| arguments.missing("key"))?;
    let filter = arguments.document("query")?.cloned().unwrap_or_default();
    let collection = place.collection(arguments.target()?);
    Ok(doc! { "values": collection.distinct(key, filter).with_options(options).run()? })
}
