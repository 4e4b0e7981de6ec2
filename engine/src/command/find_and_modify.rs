//! `findAndModify`.

use base::codes::refused;
use base::error::{Error, Result};
use bson::{Bson, Document, RawDocumentBuf, doc};
use query::code::Code;
use query::update::is_replacement;

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::collection::{Collection, FindOneAndDelete, FindOneAndReplace, FindOneAndUpdate, Modified};
use crate::command::context::CommandContext;
use crate::command::plan::Plan;
use crate::command::repeated::report_replay;
use crate::command::update::refuse_array_filters;
use crate::execute::explain::Depth;
use crate::options::declare::Options;
use crate::options::{
    FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, UpdateModifications,
};
use crate::outcomes::retryable::Done;
use crate::outcomes::token::Token;

const OTHERS: [&str; 4] = [TOKEN_FIELD, "query", "remove", "update"];

pub(super) fn find_and_modify(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow_options(FindOneAndUpdateOptions::FIELDS, &OTHERS)?;
    let is_removal = arguments.boolean("remove")?.unwrap_or(false);
    let collection = context.collection(arguments.target()?);
    let (token, done) =
        (arguments.read::<Token>(TOKEN_FIELD)?, context.retryable().and_then(|retryable| retryable.enter(0)));
    // A token decides before the number of the session does.
    if let Some(done) = done.filter(|_| token.is_none()) {
        context.secure_repeated(arguments.write_concern()?.as_ref())?;
        return Ok(repeated(done, is_removal));
    }
    let modified = match (Asked::read(&collection, arguments)?, token) {
        (Asked::Remove(remove), None) => remove.modify(),
        (Asked::Remove(remove), Some(token)) => remove.exactly_once(token).modify(),
        (Asked::Replace(replace), None) => replace.modify(),
        (Asked::Replace(replace), Some(token)) => replace.exactly_once(token).modify(),
        (Asked::Update(update), None) => update.modify(),
        (Asked::Update(update), Some(token)) => update.exactly_once(token).modify(),
    };
    // There is one write, so MongoDB gives its rejection as the error of the command, not in `writeErrors`.
    let Modified { is_found, document, upserted_id, was_replayed } = modified.map_err(Error::into_command)?;
    // `n` counts the document that was found, or else inserted: never more than one.
    let count = i32::from(is_found || upserted_id.is_some());
    let mut last = doc! { "n": count };
    // MongoDB leaves both fields out of the reply to a removal.
    if !is_removal {
        last.insert("updatedExisting", is_found);
        last.extend(upserted_id.map(|id| ("upserted".to_owned(), id)));
    }
    // Null means no document. Drivers read the field in any case.
    let value = document.map(Document::try_from).transpose()?.map_or(Bson::Null, Bson::Document);
    let mut reply = doc! { "lastErrorObject": last, "value": value };
    report_replay(&mut reply, was_replayed);
    Ok(reply)
}

/// The reply to a command that was done before.
fn repeated(done: Done, is_removal: bool) -> Document {
    let mut last = doc! { "n": 1 };
    if !is_removal {
        last.insert("updatedExisting", done.upserted.is_none());
        last.extend(done.upserted.map(|id| ("upserted".to_owned(), id)));
    }
    let value = done.shown.map_or(Bson::Null, Bson::Document);
    doc! { "lastErrorObject": last, "value": value, "retriedStmtIds": [0] }
}

pub(super) fn explain(context: &CommandContext<'_>, arguments: &Arguments<'_>, depth: Depth) -> Result<Plan> {
    arguments.allow_options(FindOneAndUpdateOptions::FIELDS, &OTHERS)?;
    let collection = context.collection(arguments.target()?);
    let explained = match Asked::read(&collection, arguments)? {
        Asked::Remove(remove) => remove.explain(depth)?,
        Asked::Replace(replace) => replace.explain(depth)?,
        Asked::Update(update) => update.explain(depth)?,
    };
    Ok(Plan::of(&collection, explained))
}

/// The command, read into a call of one of three verbs.
enum Asked<'a> {
    Remove(FindOneAndDelete<'a, RawDocumentBuf>),
    Replace(FindOneAndReplace<'a, RawDocumentBuf>),
    Update(FindOneAndUpdate<'a, RawDocumentBuf>),
}

impl<'a> Asked<'a> {
    fn read(collection: &'a Collection<RawDocumentBuf>, arguments: &Arguments<'_>) -> Result<Self> {
        // First, because a removal treats the fields of an update as contradictions.
        if arguments.boolean("remove")?.unwrap_or(false) {
            return Ok(Self::Remove(
                collection.find_one_and_delete(filter(arguments)?).with_options(removal(arguments)?),
            ));
        }
        // Before `modifications`, which would only say that the field is missing.
        if arguments.given("update").is_none() {
            return Err(refused(Code::FAILED_TO_PARSE, "Either an update or remove=true must be specified"));
        }
        let update = arguments.read("update")?.ok_or_else(|| arguments.missing("update"))?;
        // All fields are read before anything is said about the update itself.
        let options = FindOneAndUpdateOptions::read(arguments)?;
        if let UpdateModifications::Document(replacement) = &update {
            let raw = RawDocumentBuf::try_from(replacement)?;
            if is_replacement(&raw)? {
                refuse_array_filters(arguments)?;
                let replace = collection.find_one_and_replace(filter(arguments)?, raw);
                let options = FindOneAndReplaceOptions::read(arguments)?;
                return Ok(Self::Replace(replace.with_options(options)));
            }
        }
        let update = collection.find_one_and_update(filter(arguments)?, update);
        Ok(Self::Update(update.with_options(options)))
    }
}

/// The options of a removal, which rejects the fields that only an update has.
fn removal(arguments: &Arguments<'_>) -> Result<FindOneAndDeleteOptions> {
    // A flag that is false asks for nothing, so it does not contradict.
    let contradicts = ["update", "new", "upsert", "arrayFilters"]
        .into_iter()
        .find(|field| arguments.given(field).is_some_and(|value| *value != Bson::Boolean(false)));
    if let Some(field) = contradicts {
        return Err(refused(Code::FAILED_TO_PARSE, format!("Cannot specify both {field} and remove=true")));
    }
    FindOneAndDeleteOptions::read(arguments)
}

fn filter(arguments: &Arguments<'_>) -> Result<Document> {
    Ok(arguments.document("query")?.cloned().unwrap_or_default())
}
