//! `create`, `drop`, `truncate`, `renameCollection` and `listCollections`.

use std::sync::Arc;

use base::codes::{refused, unsupported};
use base::error::Result;
use base::namespace::Namespace;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocumentBuf, doc};
use index::collation::Collation;
use query::code::Code;

use crate::arguments::Arguments;
use crate::catalog::capped::CappedRequest;
use crate::catalog::change::{NewCollection, Rename, Replace};
use crate::catalog::clustered::CLUSTERED_INDEX;
use crate::catalog::collection::CollectionState;
use crate::catalog::definition_events::{describe_options, id_index};
use crate::catalog::names::Named;
use crate::catalog::view_change::ViewChange;
use crate::collection::by_database::collection_names;
use crate::collection::definition::{self, Declaration};
use crate::command::context::CommandContext;
use crate::command::cursor::Opened;
use crate::command::modify::{images, validation, view};
use crate::command::sequences::auto_increments;
use crate::cursor::{Cursor, RawCursor};
use crate::metrics::shape::Requested;
use crate::metrics::verb::Verb;
use crate::metrics::watch::Watch;
use crate::options::{ClusteredIndex, Collation as CollationOptions};
use crate::plan::selector::Selector;
use crate::results::number;
use crate::write::index_definition::check_id_collation;

const KNOWN: [&str; 14] = [
    "autoIncrement",
    "capped",
    "changeLog",
    "changeStreamPreAndPostImages",
    CLUSTERED_INDEX,
    "collation",
    "idIndex",
    "max",
    "pipeline",
    "size",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

/// Runs `create`. The field `autoIncrement`, which is CairnDB's, declares auto-increment fields: a document, or an array of
/// documents.
pub(super) fn create(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    // All fields are read before the store is entered: `close` waits for every operation inside.
    let keeps_images = images(arguments)?.unwrap_or(false);
    let collation = arguments.read("collation")?;
    check_id_index(arguments, collation.as_ref())?;
    let fields = auto_increments(arguments)?.unwrap_or_default();
    let fields: Vec<_> = fields.into_iter().map(|field| field.options).collect();
    let validation = validation(arguments)?;
    let collection = NewCollection { fields, validation, keeps_images, ..NewCollection::default() };
    let capped = CappedRequest {
        capped: arguments.boolean("capped")?.unwrap_or(false),
        size: arguments.integer("size")?,
        max: arguments.integer("max")?,
    };
    let ViewChange { on: view_on, pipeline } = view(arguments)?;
    let clustered = clustered_index(arguments)?;
    let is_logged = arguments.boolean("changeLog")?;
    let new = Declaration { collection, capped, view_on, pipeline, collation, clustered, is_logged };
    let namespace = Namespace::parse(context.db, arguments.target()?)?;
    definition::create(context.shared, &context.caller, namespace, &new)?;
    Ok(doc! {})
}

/// Reads `clusteredIndex`. As in MongoDB `false` is nothing, and `true` is for collections that users do not make.
fn clustered_index(arguments: &Arguments<'_>) -> Result<Option<ClusteredIndex>> {
    let index = match arguments.given(CLUSTERED_INDEX) {
        None | Some(Bson::Boolean(false)) => return Ok(None),
        Some(Bson::Document(index)) => index,
        Some(Bson::Boolean(true)) => {
            let message = "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for specific internal \
                           collections and vice versa";
            return Err(refused(Code::CLUSTERED_LEGACY, message));
        }
        Some(other) => {
            let message = format!("'clusteredIndex' has to be a boolean or object, got {other}");
            return Err(refused(Code::CLUSTERED_TYPE, message));
        }
    };
    let fields = Arguments::of("create.clusteredIndex", index);
    fields.allow_in_statement(&["key", "name", "unique", "v"])?;
    let key = fields.document("key")?.ok_or_else(|| fields.missing("key"))?.clone();
    let unique = fields.boolean("unique")?.ok_or_else(|| fields.missing("unique"))?;
    if arguments.given("idIndex").is_some() {
        let message = "The 'clusteredIndex' option is not supported with the 'idIndex' option";
        return Err(refused(Code::INVALID_OPTIONS, message));
    }
    // A number that is none of the versions stays one.
    let v = fields.integer("v")?.map(|version| i32::try_from(version).unwrap_or(i32::MAX));
    let name = fields.text("name")?.map(str::to_owned);
    Ok(Some(ClusteredIndex { key, unique, name, v }))
}

/// Checks `idIndex`, which mongorestore sends from a dump. There is only one index on `_id` that a collection can have.
fn check_id_index(arguments: &Arguments<'_>, collation: Option<&CollationOptions>) -> Result<()> {
    let Some(index) = arguments.document("idIndex")? else { return Ok(()) };
    let fields = Arguments::of("create.idIndex", index);
    // Versions of MongoDB differ in the name, `ns` and `v` that a dump has. Only the key matters here.
    fields.allow_in_statement(&["collation", "key", "name", "ns", "v"])?;
    if let Some(given) = fields.read("collation")? {
        let of_collection = CollationOptions::rules(collation)?;
        check_id_collation(&CollationOptions::rules(Some(&given))?, &of_collection)?;
    }
    let key = fields.document("key")?.ok_or_else(|| fields.missing("key"))?;
    let is_id = key.len() == 1 && index_direction(key.get("_id")) == Some(1);
    if is_id {
        Ok(())
    } else {
        Err(refused(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            format!("the index on _id has the key {{ _id: 1 }}, not {key}"),
        ))
    }
}

fn index_direction(value: Option<&bson::Bson>) -> Option<i64> {
    // Read like any other number, because a dump may have an int32, an int64 or a double.
    let fields = doc! { "_id": value? };
    Arguments::of("key", &fields).integer("_id").ok().flatten()
}

pub(super) fn drop(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let collection = context.collection(arguments.target()?);
    // Before the drop: afterwards there is nothing to count. A view has no indexes.
    let is_view = collection.handle.is_view()?;
    let indexes = if is_view { 0 } else { collection.handle.indexes()?.map_or(0, |indexes| indexes.len()) };
    collection.drop().run()?;
    let mut reply = doc! {};
    // Every collection has the index on `_id`, so 0 means that there was no collection. That is not an error.
    if indexes > 0 {
        reply.insert("nIndexesWas", number(indexes as u64));
    }
    if indexes > 0 || is_view {
        reply.insert("ns", collection.namespace().to_string());
    }
    Ok(reply)
}

/// Runs `convertToCapped`.
pub(super) fn convert_to_capped(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["size"])?;
    let size = arguments.integer("size")?.ok_or_else(|| arguments.missing("size"))?;
    context.collection(arguments.target()?).convert_to_capped(0).of_size(size).run()?;
    Ok(doc! {})
}

/// Runs `cloneCollectionAsCapped`.
pub(super) fn clone_as_capped(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["size", "toCollection"])?;
    let size = arguments.integer("size")?.ok_or_else(|| arguments.missing("size"))?;
    let to = arguments.text("toCollection")?.ok_or_else(|| arguments.missing("toCollection"))?;
    context.collection(arguments.target()?).clone_as_capped(to, 0).of_size(size).run()?;
    Ok(doc! {})
}

/// Runs `truncate`, which is CairnDB's: removes all documents at once, and restarts the sequences of auto-increment fields.
pub(super) fn truncate(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&[])?;
    let removed = context.collection(arguments.target()?).truncate().run()?;
    Ok(doc! { "n": number(removed.deleted_count) })
}

/// Runs `renameCollection`, which names both namespaces in full and is run on `admin`.
pub(super) fn rename(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["dropTarget", "to"])?;
    // The command may name collections of every database, so MongoDB runs it on `admin` alone.
    if context.db != "admin" {
        return Err(refused(
            Code::UNAUTHORIZED,
            "renameCollection may only be run against the admin database.",
        ));
    }
    let from = namespace(arguments.target()?)?;
    let to = namespace(arguments.text("to")?.ok_or_else(|| arguments.missing("to"))?)?;
    // Sequences belong to a database, and those of the fields would have to move along.
    if from.db != to.db {
        return Err(unsupported("renaming a collection into another database is not supported"));
    }
    let replace =
        if arguments.boolean("dropTarget")? == Some(true) { Replace::DropTarget } else { Replace::Refuse };
    let from = Arc::new(from);
    let watch = Watch::start(&context.shared.recorder, &from, Verb::Rename);
    let rename = || {
        let storage = context.shared.store.enter()?;
        context.shared.store.admit_write()?;
        let operation = context.operation();
        let renamed = Rename { from: &from, to: &to, replace };
        let rename = |storage| context.shared.catalog.rename(storage, renamed, &operation);
        context.shared.define(&storage, rename)
    };
    watch.end(rename(), Requested::default)?;
    Ok(doc! {})
}

fn namespace(text: &str) -> Result<Namespace> {
    // At the first dot: the name of a database has none, and that of a collection may have several.
    let (db, coll) = text
        .split_once('.')
        .ok_or_else(|| refused(Code::INVALID_NAMESPACE, format!("Invalid namespace specified '{text}'")))?;
    Namespace::parse(db, coll)
}

pub(super) fn list(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Opened> {
    arguments.allow(&["authorizedCollections", "cursor", "filter", "nameOnly"])?;
    let filter = arguments.document("filter")?.cloned().unwrap_or_default();
    let selector = Selector::parse(&filter, None, context.operation(), Collation::simple())?;
    let is_name_only = arguments.boolean("nameOnly")?.unwrap_or(false);
    let names = collection_names(context.shared, context.db)?;
    let identity = context.shared.store.enter()?.identity()?;
    let mut batch = Vec::new();
    for name in names {
        let namespace = Namespace::stored(context.db, &name)?;
        let whole = match context.shared.catalog.occupant(&namespace) {
            // It may have been dropped after the names were listed.
            None => continue,
            Some(Named::View(view)) => {
                // As `create` accepts them: a dump that is restored makes the same view.
                let mut options = doc! {};
                view.definition.describe(&mut options);
                let info = doc! { "readOnly": true };
                doc! { "name": &name, "type": "view", "options": options, "info": info }
            }
            Some(Named::Collection(state)) => {
                // Computed, not stored: the id and the store's identity give the same UUID after every restart.
                let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: state.id.uuid(&identity).to_vec() };
                let mut described = doc! {
                    "name": &name,
                    "type": "collection",
                    "options": options_of(context, &state)?,
                    "info": { "readOnly": false, "uuid": uuid },
                };
                // Tools such as mongorestore send it back with `create`, which accepts it for no clustered collection.
                if state.definition().clustered.is_none() {
                    described.insert("idIndex", id_index());
                }
                described
            }
        };
        // The filter sees the whole description even if only names are shown: it may ask for options.
        if selector.matches(&RawDocumentBuf::try_from(&whole)?)? {
            let shown = if is_name_only {
                doc! { "name": name, "type": whole.get_str("type").unwrap_or_default() }
            } else {
                whole
            };
            batch.push(RawDocumentBuf::try_from(&shown)?);
        }
    }
    // MongoDB names the cursor of a list so, because it belongs to no collection.
    let namespace = format!("{}.$cmd.listCollections", context.db);
    Ok(Opened { cursor: Cursor::of(RawCursor::of_list(batch)), namespace })
}

/// The options with which `create` makes the same collection again, as mongorestore does: how its documents are validated,
/// and its auto-increment fields with their current values.
fn options_of(context: &CommandContext<'_>, state: &CollectionState) -> Result<Document> {
    let mut options = describe_options(&state.definition());
    let fields = context.collection(&state.namespace.coll).handle.auto_increment_options()?;
    if !fields.is_empty() {
        options.insert("autoIncrement", fields);
    }
    Ok(options)
}
