//! `find`, `count` and `distinct`.

use bson::{Bson, Document, doc};

use crate::codes::refused;
use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::command::write_errors::number;
use crate::error::Result;
use crate::options::{CountOptions, DistinctOptions, FindOptions};

/// How many bytes of documents one reply holds.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Of MongoDB's `find`, what has no meaning here or is not here.
const NOT_HERE: [&str; 11] = [
    "allowDiskUse",
    "allowPartialResults",
    "awaitData",
    "max",
    "min",
    "noCursorTimeout",
    "oplogReplay",
    "returnKey",
    "showRecordId",
    "tailable",
    "term",
];

/// `batchSize` and `singleBatch` are read and change nothing: the only batch holds all documents.
pub(super) fn find(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    let known = [
        "batchSize",
        "collation",
        "filter",
        "hint",
        "let",
        "limit",
        "projection",
        "singleBatch",
        "skip",
        "sort",
    ];
    arguments.allow(&known, &NOT_HERE)?;
    arguments.count("batchSize")?;
    arguments.boolean("singleBatch")?;
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
    let mut cursor = collection.find(filter).with_options(options).run()?;
    let mut batch = Vec::new();
    let mut bytes = 0;
    while cursor.advance()? {
        bytes += cursor.current().as_bytes().len();
        if bytes > REPLY_BYTES_MAX {
            return Err(refused(
                10_334,
                format!(
                    "the documents take more than the {REPLY_BYTES_MAX} bytes of one reply, and getMore belongs to a server: use a limit, or the cursor of find()"
                ),
            ));
        }
        batch.push(Bson::Document(Document::try_from(cursor.current())?));
    }
    Ok(whole_cursor(&collection.namespace().to_string(), batch))
}

/// A cursor that is at its end already.
pub(super) fn whole_cursor(namespace: &str, batch: Vec<Bson>) -> Document {
    doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": namespace } }
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
