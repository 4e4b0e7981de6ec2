//! Pipelines whose first stage is not a collection: what describes one, the running operations, and documents that were given.

use base::codes::{refused, unsupported};
use base::error::Result;
use base::names::validate_database;
use bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use query::code::Code;
use query::operation::OperationContext;
use query::pipeline::{Pipeline, Source};

use crate::catalog::clustered::Clustered;
use crate::catalog::indexes::{ID_INDEX_NAME, Index};
use crate::collection::handle::{Handle, Viewed};
use crate::collection::others::Others;
use crate::collection::size::storage_stats;
use crate::execute::foreign::ForeignViews;
use crate::execute::piped::Piped;
use crate::shared::Shared;

/// Opens a pipeline whose source describes the collection: `$collStats`, `$indexStats`.
pub(super) fn on_collection(collection: &Handle, pipeline: Pipeline) -> Result<Piped> {
    let documents = match pipeline.source() {
        // Both callers search the collection themselves.
        Source::Collection => Vec::new(),
        // The state in memory has the names and keys, and counts the scans.
        Source::IndexStats => collection
            .read(|_, state| index_stats(&state.indexes(), state.definition().clustered.as_ref()))?
            .unwrap_or_default(),
        Source::CollStats(asked) => {
            let asked = Asked::parse(&Document::try_from(asked)?)?;
            // Not within the view: the first count after a crash reads all documents, on a view of its own, and may be
            // interrupted as the pipeline itself.
            let operation = pipeline.variables().operation();
            let count = if asked.count { collection.known_count(operation)? } else { None };
            let stats = collection.view(|viewed| asked.stats(viewed, count, operation))?;
            // To other pipelines a missing collection is an empty one. MongoDB rejects it in this stage.
            vec![stats.ok_or_else(|| {
                let namespace = &collection.given;
                refused(
                    Code::NAMESPACE_NOT_FOUND,
                    format!("$collStats: collection {namespace} does not exist"),
                )
            })?]
        }
        // Each search is planned again, so nothing is kept that could be shown.
        Source::PlanCacheStats => {
            let namespace = &collection.given;
            collection.read(|_, _| Ok(Vec::new()))?.ok_or_else(|| {
                let message = format!("collection '{namespace}' does not exist");
                refused(Code::PLAN_CACHE_OF_NOTHING, message)
            })?
        }
        // In MongoDB these stages belong to a database.
        Source::Documents(_) | Source::CurrentOp(_) | Source::ListLocalSessions(_) => {
            let (stage, name) = (pipeline.source().stage().unwrap_or_default(), &collection.given.coll);
            return Err(refused(
                Code::INVALID_NAMESPACE,
                format!("{{aggregate: '{name}'}} is not valid for '{stage}'; a database is required."),
            ));
        }
    };
    let foreign = foreign_views(collection.shared(), &collection.valid_namespace()?.db, &pipeline)?;
    Ok(Piped::over_documents(pipeline, documents, foreign))
}

/// Opens a pipeline on a database, whose documents come from no collection.
pub(super) fn on_database(shared: &Shared, name: &str, pipeline: Pipeline) -> Result<Piped> {
    validate_database(name)?;
    // A closed store rejects, though the documents of the pipeline could still be computed.
    let _in_use = shared.store.enter()?;
    match pipeline.source() {
        Source::Documents(documents) => {
            let documents = documents.clone();
            let foreign = foreign_views(shared, name, &pipeline)?;
            Ok(Piped::over_documents(pipeline, documents, foreign))
        }
        Source::CurrentOp(options) => {
            check_current_op(name, options)?;
            let documents = running(shared, name, &pipeline)?;
            let foreign = foreign_views(shared, name, &pipeline)?;
            Ok(Piped::over_documents(pipeline, documents, foreign))
        }
        // A program that links the store has no sessions.
        Source::ListLocalSessions(options) => {
            check_sessions(options)?;
            let foreign = foreign_views(shared, name, &pipeline)?;
            Ok(Piped::over_documents(pipeline, Vec::new(), foreign))
        }
        // The source is a collection if the first stage is none of the sources, such as `$match`: it is named instead.
        Source::Collection | Source::CollStats(_) | Source::IndexStats | Source::PlanCacheStats => {
            let stage = pipeline.source().stage().or(pipeline.first_stage());
            let stage = stage.map_or_else(|| "an empty pipeline".to_owned(), |stage| format!("'{stage}'"));
            Err(refused(
                Code::INVALID_NAMESPACE,
                format!("{{aggregate: 1}} is not valid for {stage}; a collection is required."),
            ))
        }
    }
}

/// The other collections of a pipeline whose own documents come from no collection, all at one moment.
pub(super) fn foreign_views(shared: &Shared, db: &str, pipeline: &Pipeline) -> Result<ForeignViews> {
    let others = Others::of(pipeline);
    // Most of these pipelines read nothing else, and then need no snapshot.
    if others.is_empty() {
        return Ok(ForeignViews::default());
    }
    let database = shared.store.enter()?;
    let (_, foreign) = others.take(&shared.catalog, &database, db, &|| Ok(None))?;
    Ok(foreign)
}

/// Checks where `$currentOp` runs, and its options. Whatever they say, all operations of the client are shown.
fn check_current_op(name: &str, options: &RawDocumentBuf) -> Result<()> {
    const OPTIONS: [&str; 6] =
        ["allUsers", "idleConnections", "idleCursors", "idleSessions", "localOps", "truncateOps"];
    // As in MongoDB, which lets only administrators see what others do.
    if name != "admin" {
        let message = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
        return Err(refused(Code::INVALID_NAMESPACE, message));
    }
    for (option, value) in &Document::try_from(options)? {
        if !OPTIONS.contains(&option.as_str()) {
            let message = format!("Unrecognized option '{option}' in $currentOp stage.");
            return Err(refused(Code::FAILED_TO_PARSE, message));
        }
        if !matches!(value, Bson::Boolean(_)) {
            let message = format!(
                "The '{option}' parameter of the $currentOp stage must be a boolean value, not {value}"
            );
            return Err(refused(Code::FAILED_TO_PARSE, message));
        }
    }
    Ok(())
}

/// Checks the options of `$listLocalSessions`.
fn check_sessions(options: &RawDocumentBuf) -> Result<()> {
    const STAGE: &str = "$listLocalSessions";
    let options = Document::try_from(options)?;
    let wrong = |option: &str, expected: &str, found: &Bson| {
        let message = format!("BSON field '{STAGE}.{option}' must be {expected}, not {found}");
        Err(refused(Code::TYPE_MISMATCH, message))
    };
    for (option, value) in &options {
        match (option.as_str(), value) {
            ("allUsers", Bson::Boolean(_)) => {}
            ("allUsers", found) => return wrong(option, "a boolean", found),
            ("users", Bson::Array(users)) if users.iter().all(|user| user.as_document().is_some()) => {}
            ("users", found) => return wrong(option, "an array of objects", found),
            _ => {
                let message = format!("BSON field '{STAGE}.{option}' is an unknown field.");
                return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
            }
        }
    }
    // Both would say of whom sessions are listed.
    if options.get_bool("allUsers").unwrap_or(false) && options.contains_key("users") {
        let message =
            format!("{STAGE} may not specify {{allUsers: true}} and {{users: [...]}} at the same time");
        return Err(refused(Code::INVALID_OPTIONS, message));
    }
    Ok(())
}

/// The operations that run, as far as the engine records them: index builds, and the pipeline that asks. Calls of verbs are
/// recorded by a server, which has a list of its own.
fn running(shared: &Shared, name: &str, pipeline: &Pipeline) -> Result<Vec<RawDocumentBuf>> {
    // One moment for all of them.
    let now = DateTime::now().try_to_rfc3339_string().unwrap_or_default();
    let of = |namespace: &str, command: &str, message: Option<String>, progress: Option<Document>| {
        let mut operation = doc! {
            "type": "op",
            "active": true,
            "op": "command",
            "ns": namespace,
            "command": { command: 1 },
            "currentOpTime": &now,
        };
        operation.extend(message.map(|message| ("msg".to_owned(), message.into())));
        operation.extend(progress.map(|progress| ("progress".to_owned(), progress.into())));
        operation
    };
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    // The pipeline that asks runs too.
    let mut operations = vec![of(&format!("{name}.$cmd.aggregate"), "aggregate", None, None)];
    for state in shared.catalog.collections() {
        for build in state.builds.list() {
            // A client may have thousands of collections.
            pipeline.variables().operation().look()?;
            let build = build.progress(&state.namespace);
            let message = format!("Index Build: {} {}", build.phase, build.index_name);
            let progress = doc! { "done": number(build.done), "total": number(build.total) };
            operations.push(of(&build.namespace, "createIndexes", Some(message), Some(progress)));
        }
    }
    operations.iter().map(|operation| Ok(RawDocumentBuf::try_from(operation)?)).collect()
}

/// The documents of `$indexStats`. `accesses` counts scans since the store was opened, or the index made; the index on `_id`
/// has none, because a lookup of a record is not counted.
fn index_stats(indexes: &[Index], clustered: Option<&Clustered>) -> Result<Vec<RawDocumentBuf>> {
    // The records themselves are the index on `_id`, so the list of indexes does not have it.
    let plain = || doc! { "key": { "_id": 1 }, "name": ID_INDEX_NAME };
    let name = clustered.map_or(ID_INDEX_NAME, |clustered| &clustered.name);
    let spec = clustered.map_or_else(plain, Clustered::describe_index);
    let id = doc! { "name": name, "key": { "_id": 1 }, "spec": spec };
    let others = indexes.iter().map(|index| {
        // As in MongoDB, a description has only the options that are set.
        let spec = index.describe();
        let scans = i64::try_from(index.uses.scans()).unwrap_or(i64::MAX);
        let accesses = doc! { "ops": scans, "since": index.uses.since };
        doc! { "name": &index.name, "key": index.key_pattern(), "accesses": accesses, "spec": spec }
    });
    std::iter::once(id).chain(others).map(|stats| Ok(RawDocumentBuf::try_from(&stats)?)).collect()
}

/// The parsed options of `$collStats`.
struct Asked {
    count: bool,
    /// The number that sizes are divided by. `None` if sizes are not asked for.
    storage: Option<i64>,
}

impl Asked {
    fn parse(options: &Document) -> Result<Self> {
        let mut asked = Self { count: false, storage: None };
        for (option, value) in options {
            let wrong = || {
                refused(
                    Code::FAILED_TO_PARSE,
                    format!("$collStats needs an object as '{option}', not {value}"),
                )
            };
            match option.as_str() {
                // MongoDB's `count` has no options, so its document must be empty.
                "count" => {
                    value.as_document().filter(|given| given.is_empty()).ok_or_else(wrong)?;
                    asked.count = true;
                }
                "storageStats" => asked.storage = Some(scale(value.as_document().ok_or_else(wrong)?)?),
                // MongoDB has these, so they are rejected as not supported, and not as unknown.
                "latencyStats" | "queryExecStats" | "operationStats" => {
                    return Err(unsupported(format!("'{option}' of $collStats is not supported")));
                }
                _ => {
                    let message = format!("BSON field '$collStats.{option}' is an unknown field.");
                    return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
                }
            }
        }
        Ok(asked)
    }

    /// The document of `$collStats`. The size of the documents is exact, by reading every one; what files and indexes use is
    /// estimated.
    fn stats(
        &self,
        viewed: Viewed<'_>,
        count: Option<u64>,
        operation: &OperationContext,
    ) -> Result<RawDocumentBuf> {
        let mut told = doc! { "ns": viewed.state.namespace.to_string(), "localTime": DateTime::now() };
        // This reads all documents, so it is done only if the caller asks for it.
        if let Some(scale) = self.storage {
            told.insert("storageStats", storage_stats(viewed, scale, operation)?);
        }
        if let Some(count) = count {
            told.insert("count", i64::try_from(count).unwrap_or(i64::MAX));
        }
        Ok(RawDocumentBuf::try_from(&told)?)
    }
}

fn scale(options: &Document) -> Result<i64> {
    if let Some(option) = options.keys().find(|option| *option != "scale") {
        let message = format!("BSON field '$collStats.storageStats.{option}' is an unknown field.");
        return Err(refused(Code::IDL_UNKNOWN_FIELD, message));
    }
    // Without a scale MongoDB's sizes are in bytes.
    let Some(scale) = options.get("scale") else { return Ok(1) };
    let given = scale.as_i32().map(i64::from).or(scale.as_i64());
    let given = given.filter(|given| *given > 0);
    given.ok_or_else(|| {
        refused(Code::FAILED_TO_PARSE, format!("$collStats needs an integer above 0 as 'scale', not {scale}"))
    })
}
