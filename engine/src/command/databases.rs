//! `listDatabases`, `dropDatabase`, and the sizes of `dbStats` and `collStats`.

use base::codes::refused;
use base::error::Result;
use base::names::validate_database;
use bson::{Bson, Document, RawDocumentBuf, doc};
use index::collation::Collation;
use query::code::Code;

use crate::arguments::Arguments;
use crate::collection::{Size, by_database};
use crate::command::context::CommandContext;
use crate::plan::selector::Selector;

/// The database that commands of the whole store are run on.
const ADMIN: &str = "admin";

/// Runs `listDatabases`, on the database `admin` only.
pub(super) fn list(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["authorizedDatabases", "filter", "nameOnly"])?;
    if context.db != ADMIN {
        return Err(refused(Code::UNAUTHORIZED, "listDatabases may only be run against the admin database."));
    }
    let filter = arguments.document("filter")?.cloned().unwrap_or_default();
    let selector = Selector::parse(&filter, None, context.operation(), Collation::simple())?;
    let is_name_only = arguments.boolean("nameOnly")?.unwrap_or(false);
    let mut databases = Vec::new();
    let mut total = 0;
    let mut names = by_database::database_names(context.shared)?;
    // As in MongoDB, `admin` is always listed: clients run commands on it.
    if let Err(at) = names.binary_search_by(|name| name.as_str().cmp(ADMIN)) {
        names.insert(at, ADMIN.to_owned());
    }
    for name in names {
        // With `nameOnly` no size is read: that would ask the table files about every collection.
        let bytes = if is_name_only { 0 } else { by_database::stored_bytes(context.shared, &name)? };
        // Without a size nothing distinguishes an empty database from a full one, so none is called empty.
        let empty = !is_name_only && bytes == 0;
        let whole = doc! { "name": &name, "sizeOnDisk": long(bytes), "empty": empty };
        if !selector.matches(&RawDocumentBuf::try_from(&whole)?)? {
            continue;
        }
        // After the filter: the total is that of the databases in the list.
        total += bytes;
        databases.push(Bson::Document(if is_name_only {
            doc! { "name": name }
        } else {
            whole
        }));
    }
    let mut reply = doc! { "databases": databases };
    if !is_name_only {
        reply.insert("totalSize", long(total));
        reply.insert("totalSizeMb", long(total >> 20));
    }
    Ok(reply)
}

/// Removes every collection and sequence of the database.
pub(super) fn drop(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    // Asked before the drop. As in MongoDB, the reply names the database only if it was there.
    let existed = by_database::database_names(context.shared)?.iter().any(|name| name == context.db);
    by_database::drop_database(context.shared, context.db, &context.operation())?;
    Ok(if existed {
        doc! { "dropped": context.db }
    } else {
        doc! {}
    })
}

pub(super) fn stats(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["freeStorage", "scale"])?;
    validate_database(context.db)?;
    let scale = scale(arguments)?;
    let (mut collections, mut views, mut all) = (0_u64, 0_u64, Size::default());
    for name in by_database::collection_names(context.shared, context.db)? {
        let collection = context.collection(&name);
        // A view has no size.
        if collection.handle.is_view()? {
            views += 1;
            continue;
        }
        // It may have been dropped after the names were listed.
        let Some(size) = collection.handle.size()? else { continue };
        collections += 1;
        all.documents += size.documents;
        all.document_bytes += size.document_bytes;
        all.record_bytes += size.record_bytes;
        all.indexes.extend(size.indexes);
    }
    let index_bytes: u64 = all.indexes.iter().map(|(_, bytes)| bytes).sum();
    // Clients read all the fields that MongoDB sends, so those without a meaning here are constants.
    Ok(doc! {
        "db": context.db,
        "collections": long(collections),
        "views": long(views),
        "objects": long(all.documents),
        "avgObjSize": all.average(),
        "dataSize": scaled(all.document_bytes, scale),
        "storageSize": scaled(all.record_bytes, scale),
        "indexes": long(all.indexes.len() as u64),
        "indexSize": scaled(index_bytes, scale),
        "totalSize": scaled(all.record_bytes + index_bytes, scale),
        "scaleFactor": long(scale),
    })
}

pub(super) fn collection_stats(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["scale"])?;
    let scale = scale(arguments)?;
    let collection = context.collection(arguments.target()?);
    let size =
        collection.handle.size()?.ok_or_else(|| context.shared.catalog.absent(&collection.namespace()))?;
    let index_bytes: u64 = size.indexes.iter().map(|(_, bytes)| bytes).sum();
    let sizes = size.indexes.iter().map(|(name, bytes)| (name.clone(), scaled(*bytes, scale)));
    let limits = collection.handle.capped_limits()?;
    let mut reply = doc! {
        "ns": collection.namespace().to_string(),
        "size": scaled(size.document_bytes, scale),
        "count": long(size.documents),
        "avgObjSize": size.average(),
        "storageSize": scaled(size.record_bytes, scale),
        // CairnDB's own: `storageSize` is at least `size`, so that no collection seems empty.
        "tableSize": scaled(size.table_bytes, scale),
        "isInTables": size.is_in_tables,
        "freeStorageSize": 0_i64,
        "capped": limits.is_some(),
        "nindexes": i32::try_from(size.indexes.len()).unwrap_or(i32::MAX),
        "indexDetails": {},
        "indexBuilds": [],
        "totalIndexSize": scaled(index_bytes, scale),
        "indexSizes": sizes.collect::<Document>(),
        "totalSize": scaled(size.record_bytes + index_bytes, scale),
        "scaleFactor": long(scale),
    };
    if let Some(limits) = limits {
        limits.describe_stats(&mut reply, scale);
    }
    Ok(reply)
}

fn scale(arguments: &Arguments<'_>) -> Result<u64> {
    match arguments.count("scale")? {
        // Sizes are divided by it.
        Some(0) => Err(refused(Code::BAD_VALUE, "the field 'scale' must be positive, got 0")),
        scale => Ok(scale.unwrap_or(1)),
    }
}

fn scaled(bytes: u64, scale: u64) -> Bson {
    long(bytes / scale)
}

fn long(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
