//! `$changeStream`, as the first stage of `aggregate`: the options of the stage, and the cursor of its events.

use base::codes::refused;
use base::error::Result;
use bson::{Bson, Document};
use query::code::Code;

use crate::arguments::{Arguments, is_database};
use crate::command::context::CommandContext;
use crate::command::cursor::Opened;
use crate::cursor::{Cursor, RawCursor};
use crate::streams::{FullDocumentBeforeChangeType, FullDocumentType, ResumeToken, Watch, Watched};
use crate::transaction::refused_within;

const STAGE: &str = "$changeStream";
const KNOWN: [&str; 7] = [
    "allChangesForCluster",
    "fullDocument",
    "fullDocumentBeforeChange",
    "resumeAfter",
    "showExpandedEvents",
    "startAfter",
    "startAtOperationTime",
];

/// The options of the stage, if the pipeline of an `aggregate` begins with it. Fails if it is another stage.
fn stage<'a>(arguments: &Arguments<'a>) -> Result<Option<&'a Bson>> {
    let pipeline = arguments.documents("pipeline")?.unwrap_or_default();
    let Some((first, others)) = pipeline.split_first() else { return Ok(None) };
    let options = first.get(STAGE);
    if options.is_none() && others.iter().any(|stage| stage.contains_key(STAGE)) {
        let message = "$changeStream is only valid as the first stage in a pipeline";
        return Err(refused(Code::STAGE_NOT_FIRST, message));
    }
    Ok(options)
}

/// Rejects a change stream where one reply has all documents: nothing could ask for the next ones. In the words of a MongoDB without
/// replication.
pub(super) fn refuse_one_reply(name: &str, arguments: &Arguments<'_>) -> Result<()> {
    if name != "aggregate" || stage(arguments)?.is_none() {
        return Ok(());
    }
    let message = "The $changeStream stage is only supported on replica sets";
    Err(refused(Code::CHANGE_STREAM_WITHOUT_REPLICA_SET, message))
}

/// Opens the change stream of an `aggregate`. Returns `None` if it is none.
pub(super) fn open(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Option<Opened>> {
    let Some(options) = stage(arguments)? else { return Ok(None) };
    if context.is_in_transaction() {
        return Err(refused_within("a change stream"));
    }
    let Bson::Document(options) = options else {
        let message = format!("the $changeStream stage must be specified as an object, got: {options}");
        return Err(refused(Code::TYPE_MISMATCH, message));
    };
    let options = Arguments::of(STAGE, options);
    options.allow_in_statement(&KNOWN)?;
    if arguments.document("let")?.is_some_and(|variables| !variables.is_empty()) {
        return Err(arguments.not_here("let"));
    }
    let watched = watched(context, arguments, &options)?;
    let namespace = match &watched {
        Watched::Collection(namespace) => namespace.as_ref().map(ToString::to_string).unwrap_or_default(),
        Watched::Client | Watched::Database(_) => format!("{}.$cmd.aggregate", context.db),
    };
    let pipeline = arguments.documents("pipeline")?.unwrap_or_default();
    let stages = pipeline.into_iter().skip(1).cloned();
    let mut watch = Watch::<Document>::new(context.shared, context.caller.clone(), watched).pipeline(stages);
    if let Some(full) = full_document(&options)? {
        watch = watch.full_document(full);
    }
    if let Some(before) = before_change(&options)? {
        watch = watch.full_document_before_change(before);
    }
    if let Some(time) = options.given("startAtOperationTime") {
        let Bson::Timestamp(time) = time else {
            let message = format!(
                "BSON field '$changeStream.startAtOperationTime' is the wrong type: {time}, expected type 'timestamp'"
            );
            return Err(refused(Code::TYPE_MISMATCH, message));
        };
        watch = watch.start_at_operation_time(*time);
    }
    if let Some(collation) = arguments.read("collation")? {
        watch = watch.collation(collation);
    }
    let watch = watch
        .resume_after(token(&options, "resumeAfter")?)
        .start_after(token(&options, "startAfter")?)
        .show_expanded_events(options.boolean("showExpandedEvents")? == Some(true));
    let cursor = Cursor::of(RawCursor::of_changes(watch.open()?));
    Ok(Some(Opened { cursor, namespace }))
}

fn watched(
    context: &CommandContext<'_>,
    arguments: &Arguments<'_>,
    options: &Arguments<'_>,
) -> Result<Watched> {
    if options.boolean("allChangesForCluster")? == Some(true) {
        if context.db == "admin" && is_database(arguments) {
            return Ok(Watched::Client);
        }
        let message = "a $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no collection name";
        return Err(refused(Code::INVALID_OPTIONS, message));
    }
    if is_database(arguments) {
        return Ok(Watched::Database(context.db.to_owned()));
    }
    Ok(Watched::Collection(Ok(context.collection(arguments.target()?).namespace())))
}

fn full_document(options: &Arguments<'_>) -> Result<Option<FullDocumentType>> {
    let allowed = ["default", "required", "updateLookup", "whenAvailable"];
    Ok(options.one_of("fullDocument", &allowed)?.and_then(|full| match full {
        "required" => Some(FullDocumentType::Required),
        "updateLookup" => Some(FullDocumentType::UpdateLookup),
        "whenAvailable" => Some(FullDocumentType::WhenAvailable),
        _ => None,
    }))
}

fn before_change(options: &Arguments<'_>) -> Result<Option<FullDocumentBeforeChangeType>> {
    let before = options.one_of("fullDocumentBeforeChange", &["off", "required", "whenAvailable"])?;
    Ok(before.and_then(|before| match before {
        "required" => Some(FullDocumentBeforeChangeType::Required),
        "whenAvailable" => Some(FullDocumentBeforeChangeType::WhenAvailable),
        _ => None,
    }))
}

fn token(options: &Arguments<'_>, field: &str) -> Result<Option<ResumeToken>> {
    let Some(token) = options.document(field)? else { return Ok(None) };
    let refusal = |_| {
        let message = format!("'{field}' of $changeStream is not a resume token: {token}");
        refused(Code::INVALID_RESUME_TOKEN, message)
    };
    bson::deserialize_from_document(token.clone()).map(Some).map_err(refusal)
}
