//! `update`: statements of operators, pipelines and replacements.

use std::borrow::Cow;

use base::codes::refused;
use base::error::Result;
use bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc};
use query::code::Code;
use query::update::{is_replacement, unknown_stage};

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::collection::{Collection, ReplaceOne, Update};
use crate::command::context::CommandContext;
use crate::command::plan::Plan;
use crate::command::repeated::report_replay;
use crate::command::request::decode_statement;
use crate::command::upserted_ids::UpsertedIds;
use crate::command::write_errors::{Repeated, WriteErrors, refuse_many};
use crate::execute::explain::Depth;
use crate::options::declare::Options;
use crate::options::{ReplaceOptions, UpdateModifications, UpdateOptions, WriteConcern};
use crate::outcomes::token::Token;
use crate::results::{UpdateResult, number};

const KNOWN: [&str; 5] = ["bypassDocumentValidation", TOKEN_FIELD, "let", "ordered", "updates"];
const STATEMENT: [&str; 4] = ["c", "multi", "q", "u"];

/// The common part of all statements of the command.
pub(super) struct Shared<'a> {
    pub(super) let_vars: Option<&'a Document>,
    pub(super) write_concern: Option<WriteConcern>,
    pub(super) bypass: Option<bool>,
    /// `$$NOW`, one for all statements.
    pub(super) now: DateTime,
    /// The token of the only statement, if it is to happen exactly once.
    token: Option<Token>,
}

impl<'a> Shared<'a> {
    pub(super) fn of(arguments: &Arguments<'a>) -> Result<Self> {
        Ok(Self {
            let_vars: arguments.document("let")?,
            write_concern: arguments.write_concern()?,
            bypass: arguments.boolean("bypassDocumentValidation")?,
            now: DateTime::now(),
            token: arguments.read::<Token>(TOKEN_FIELD)?,
        })
    }
}

/// Runs `update`. If the time is over, the whole command fails, and what was written until then stays.
pub(super) fn update(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&KNOWN)?;
    let is_ordered = arguments.boolean("ordered")?.unwrap_or(true);
    let mut shared = Shared::of(arguments)?;
    let target = arguments.target()?;
    let (mut matched, mut modified, mut was_replayed) = (0, 0, false);
    let mut upserted = Vec::new();
    let mut errors = WriteErrors::of(context);
    let statements = arguments.raw_statements("updates")?;
    check_stages(&statements)?;
    if context.retryable().is_some() {
        refuse_many(&statements, "multi", "Cannot use retryable writes with multi=true")?;
    }
    let mut repeated = Repeated::default();
    let sync = context.one_sync(&mut shared.write_concern, statements.len())?;
    let operation = context.operation();
    let mut ids = UpsertedIds::of(&operation);
    for (index, statement) in statements.iter().enumerate() {
        // A statement that finds nothing needs few steps, so without this the limit would be seen late.
        operation.look()?;
        ids.reserve()?;
        // Reserved for one statement at a time: all of a large batch together might not be allowed.
        let (statement, _held) = decode_statement(statement, &operation)?;
        let done = context.retryable().and_then(|retryable| retryable.enter(index));
        // A token decides before the number of the session does.
        if let Some(done) = done.filter(|_| shared.token.is_none()) {
            repeated.add(index);
            matched += 1;
            modified += u64::from(done.upserted.is_none());
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            upserted.extend(done.upserted.map(|id| ids.add(doc! { "index": index, "_id": id })));
            continue;
        }
        let run = || apply(&context.collection(target), &Arguments::of("updates", &statement), &shared);
        match ids.check().and_then(|()| run()) {
            Ok(result) => {
                // As in MongoDB, `n` counts an upserted document as well.
                matched += result.matched_count + u64::from(result.upserted_id.is_some());
                modified += result.modified_count;
                was_replayed |= result.was_replayed;
                let index = i32::try_from(index).unwrap_or(i32::MAX);
                upserted.extend(result.upserted_id.map(|id| ids.add(doc! { "index": index, "_id": id })));
            }
            Err(error) => {
                errors.push(index, error)?;
                // As in MongoDB: an ordered command stops at the first rejection.
                if is_ordered || errors.end_command() {
                    break;
                }
            }
        }
    }
    sync.end(context.shared)?;
    if !repeated.is_empty() {
        context.secure_repeated(arguments.write_concern()?.as_ref())?;
    }
    let mut reply = doc! { "n": number(matched), "nModified": number(modified) };
    // MongoDB leaves the field out if nothing was upserted.
    if !upserted.is_empty() {
        reply.insert("upserted", upserted);
    }
    repeated.report(&mut reply);
    report_replay(&mut reply, was_replayed);
    errors.report(&mut reply);
    Ok(reply)
}

/// Rejects the command if a statement has an unknown stage. As in MongoDB this comes before the first statement is run.
fn check_stages(statements: &[Cow<'_, RawDocument>]) -> Result<()> {
    // Unreadable statements are passed over here: each is rejected when its turn comes.
    let pipelines = statements.iter().filter_map(|statement| statement.get_array("u").ok());
    let stages = pipelines.flatten().filter_map(|stage| stage.ok()?.as_document());
    let names = stages.flat_map(|stage| stage.iter().map_while(|field| Some(field.ok()?.0.as_str())));
    match unknown_stage(names) {
        Some(stage) => {
            Err(refused(Code::UNKNOWN_STAGE, format!("Unrecognized pipeline stage name: '{stage}'")))
        }
        None => Ok(()),
    }
}

/// Explains the only statement: a reply has room for one plan.
pub(super) fn explain(context: &CommandContext<'_>, arguments: &Arguments<'_>, depth: Depth) -> Result<Plan> {
    arguments.allow(&KNOWN)?;
    // Read only to be checked: what the command rejects, its explanation rejects too.
    arguments.boolean("ordered")?;
    let statement = Arguments::of("updates", arguments.only_statement("updates")?);
    let collection = context.collection(arguments.target()?);
    let explained = match Statement::read(&collection, &statement, &Shared::of(arguments)?)? {
        Statement::Replace(replace) => replace.explain(depth)?,
        Statement::Update(update) => update.explain(depth)?,
    };
    Ok(Plan::of(&collection, explained))
}

/// Runs one statement.
pub(super) fn apply(
    collection: &Collection<RawDocumentBuf>,
    statement: &Arguments<'_>,
    shared: &Shared<'_>,
) -> Result<UpdateResult> {
    match (Statement::read(collection, statement, shared)?, &shared.token) {
        (Statement::Replace(replace), None) => replace.run(),
        (Statement::Replace(replace), Some(token)) => replace.exactly_once(token).run(),
        (Statement::Update(update), None) => update.run(),
        (Statement::Update(update), Some(token)) => update.exactly_once(token).run(),
    }
}

/// A statement, read into a call of a verb.
enum Statement<'a> {
    Replace(ReplaceOne<'a>),
    Update(Update<'a>),
}

impl<'a> Statement<'a> {
    fn read(
        collection: &'a Collection<RawDocumentBuf>,
        statement: &Arguments<'_>,
        shared: &Shared<'_>,
    ) -> Result<Self> {
        statement.allow_options_in_statement(UpdateOptions::FIELDS, &STATEMENT)?;
        let filter = statement.document("q")?.ok_or_else(|| statement.missing("q"))?.clone();
        let is_multi = statement.boolean("multi")?.unwrap_or(false);
        // A document without operators is a replacement, which is another verb with other options.
        let modifications = statement.read("u")?.ok_or_else(|| statement.missing("u"))?;
        let constants = statement.document("c")?.cloned();
        if constants.is_some() && matches!(modifications, UpdateModifications::Document(_)) {
            let message = "Constant values may only be specified for pipeline updates";
            return Err(refused(Code::UPDATE_CONSTANTS_WITHOUT_PIPELINE, message));
        }
        if let UpdateModifications::Document(replacement) = &modifications {
            let raw = RawDocumentBuf::try_from(replacement)?;
            if is_replacement(&raw)? {
                // It is one whole document: many documents would become equal but for their `_id`s.
                if is_multi {
                    return Err(refused(
                        Code::FAILED_TO_PARSE,
                        "multi update is not supported for replacement-style update",
                    ));
                }
                let options = replace_options(statement, shared)?;
                let replace = collection.replace_one(filter, raw).with_options(options);
                return Ok(Self::Replace(replace.at(shared.now)));
            }
        }
        let update = if is_multi {
            collection.update_many(filter, modifications)
        } else {
            collection.update_one(filter, modifications)
        };
        let update = update.with_options(update_options(statement, shared)?);
        Ok(Self::Update(update.at(shared.now).constants(constants)))
    }
}

fn update_options(statement: &Arguments<'_>, shared: &Shared<'_>) -> Result<UpdateOptions> {
    Ok(UpdateOptions {
        let_vars: shared.let_vars.cloned(),
        write_concern: shared.write_concern.clone(),
        bypass_document_validation: shared.bypass,
        ..UpdateOptions::read(statement)?
    })
}

fn replace_options(statement: &Arguments<'_>, shared: &Shared<'_>) -> Result<ReplaceOptions> {
    refuse_array_filters(statement)?;
    Ok(ReplaceOptions {
        let_vars: shared.let_vars.cloned(),
        write_concern: shared.write_concern.clone(),
        bypass_document_validation: shared.bypass,
        ..ReplaceOptions::read(statement)?
    })
}

/// Rejects `arrayFilters` of a replacement, which has no operators that could use them.
pub(super) fn refuse_array_filters(arguments: &Arguments<'_>) -> Result<()> {
    match arguments.given("arrayFilters") {
        None => Ok(()),
        Some(_) => Err(refused(Code::FAILED_TO_PARSE, "arrayFilters may not be specified for a replacement")),
    }
}
