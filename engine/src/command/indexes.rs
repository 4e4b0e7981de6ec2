//! `createIndexes`, `dropIndexes` and `listIndexes`.

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document, RawDocumentBuf, doc};
use query::code::Code;

use crate::arguments::Arguments;
use crate::arguments::unsupported::is_option;
use crate::catalog::change::namespace_not_found;
use crate::catalog::clustered::CLUSTERED;
use crate::catalog::indexes::are_same_keys;
use crate::collection::Collection;
use crate::collection::indexes::Listed;
use crate::command::context::CommandContext;
use crate::command::cursor::Opened;
use crate::command::modify::expiry;
use crate::options::{IndexModel, IndexOptions};
use crate::write::index_definition;

/// The name of an index's description in messages.
const PLACE: &str = "createIndexes.indexes";

/// The options of an index. `background` and `ns` come from older versions of MongoDB and change nothing.
const KNOWN: [&str; 13] = [
    "background",
    CLUSTERED,
    "collation",
    "expireAfterSeconds",
    "hidden",
    "key",
    "name",
    "ns",
    "partialFilterExpression",
    "sparse",
    "unique",
    "v",
    "wildcardProjection",
];

pub(super) fn create(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["commitQuorum", "ignoreUnknownIndexOptions", "indexes"])?;
    let models = arguments.documents("indexes")?.ok_or_else(|| arguments.missing("indexes"))?;
    if models.is_empty() {
        return Err(refused(Code::BAD_VALUE, "Must specify at least one index to create"));
    }
    let ignores_unknown = arguments.boolean("ignoreUnknownIndexOptions")? == Some(true);
    let models = models
        .into_iter()
        .map(|spec| if ignores_unknown { model(&without_unknown(spec)) } else { model(spec) });
    // All descriptions are read before the first index is built: a bad one must not leave half of the work
    // done.
    let models = models.collect::<Result<Vec<_>>>()?;
    let collection = context.collection(arguments.target()?);
    // Counted around the call, without a lock: what other commands build meanwhile is counted too.
    let before = count(&collection)?;
    collection.create_indexes(models).run()?;
    let after = count(&collection)?;
    // A collection that this command created had no index; MongoDB counts the one on `_id` all the same.
    let mut reply = doc! { "numIndexesBefore": before.max(1), "numIndexesAfter": after };
    reply.insert("createdCollectionAutomatically", before == 0);
    if before == after {
        reply.insert("note", "all indexes already exist");
    }
    Ok(reply)
}

/// The description without options that MongoDB does not know either. Those that only MongoDB has stay, to be rejected.
fn without_unknown(spec: &Document) -> Document {
    let is_option = |name: &str| KNOWN.contains(&name) || is_option(PLACE, name);
    let options = spec.iter().filter(|(name, _)| is_option(name));
    options.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn model(spec: &Document) -> Result<IndexModel> {
    let fields = Arguments::of(PLACE, spec);
    // First: MongoDB has an error of its own for the index on `_id`, also for options that others may have.
    let clustered = fields.boolean(CLUSTERED)?;
    match clustered {
        // Whether there may be one is for the collection to say.
        Some(true) => {}
        // The only value that is possible except for a clustered collection.
        Some(false) => {
            let mut others = spec.clone();
            others.remove(CLUSTERED);
            index_definition::check_id_index(&others)?;
        }
        None => index_definition::check_id_index(spec)?,
    }
    fields.allow_in_statement(&KNOWN)?;
    let keys = fields.document("key")?.ok_or_else(|| fields.missing("key"))?.clone();
    let name = fields.text("name")?.ok_or_else(|| fields.missing("name"))?.to_owned();
    if fields.integer("v")?.is_some_and(|version| version != 2) {
        return Err(refused(Code::CANNOT_CREATE_INDEX, "the index version 'v' must be 2"));
    }
    let options = IndexOptions {
        name: Some(name),
        unique: fields.boolean("unique")?,
        sparse: fields.boolean("sparse")?,
        partial_filter_expression: fields.document("partialFilterExpression")?.cloned(),
        expire_after: expiry(&fields)?,
        hidden: fields.boolean("hidden")?,
        wildcard_projection: fields.document("wildcardProjection")?.cloned(),
        collation: fields.read("collation")?,
        clustered,
    };
    Ok(IndexModel { keys, options: Some(options) })
}

/// Runs `dropIndexes`: by name, by keys, by several names, or `*` for all but the index on `_id`.
pub(super) fn drop(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["index"])?;
    let collection = context.collection(arguments.target()?);
    let indexes =
        collection.handle.indexes()?.ok_or_else(|| context.shared.catalog.absent(&collection.namespace()))?;
    let reply = doc! { "nIndexesWas": i32::try_from(indexes.len()).unwrap_or(i32::MAX) };
    match arguments.given("index") {
        Some(Bson::String(all)) if all == "*" => collection.drop_indexes().run()?,
        Some(Bson::String(name)) => collection.drop_index(name).run()?,
        Some(Bson::Document(keys)) => collection.drop_index(name_of(&indexes, keys)?).run()?,
        // Each drop is a commit of its own, so an unknown name leaves those before it dropped.
        Some(Bson::Array(names)) => {
            // All are read before the first is dropped: a bad one must not leave half of the work done.
            let names = names.iter().map(|name| name.as_str().ok_or_else(|| not_a_name(name)));
            for name in names.collect::<Result<Vec<_>>>()? {
                collection.drop_index(name).run()?;
            }
        }
        Some(other) => return Err(not_a_name(other)),
        None => return Err(arguments.missing("index")),
    }
    Ok(reply)
}

fn not_a_name(found: &Bson) -> base::error::Error {
    refused(Code::TYPE_MISMATCH, format!("an index is named by its name or its keys, not by {found}"))
}

fn name_of<'a>(indexes: &'a [Listed], keys: &Document) -> Result<&'a str> {
    let mut found = indexes.iter().filter(|index| are_same_keys(&index.keys, keys));
    let named = found.next().map(|index| index.name.as_str());
    // Partial indexes with different filters may have the same keys.
    if let (Some(first), Some(second)) = (named, found.next()) {
        let message = format!(
            "{} indexes found for key: {keys}, identify by name instead: {first}, {}",
            2 + found.count(),
            second.name
        );
        return Err(refused(Code::AMBIGUOUS_INDEX_KEY_PATTERN, message));
    }
    named.ok_or_else(|| refused(Code::INDEX_NOT_FOUND, format!("can't find index with key: {keys}")))
}

pub(super) fn list(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    arguments.allow(&["cursor"])?;
    let collection = context.collection(arguments.target()?);
    let namespace = collection.namespace();
    let indexes = collection.list_indexes().run()?;
    // A collection always has the index on `_id`, so an empty list means that there is no collection.
    if indexes.is_exhausted() {
        return Err(namespace_not_found(&namespace));
    }
    Ok(Opened { cursor: indexes.with_type(), namespace: namespace.to_string() })
}

fn count(collection: &Collection<RawDocumentBuf>) -> Result<i32> {
    let indexes = collection.handle.indexes()?.unwrap_or_default();
    Ok(i32::try_from(indexes.len()).unwrap_or(i32::MAX))
}
