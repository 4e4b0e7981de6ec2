//! Commands with tokens: they happen once, however often they are sent.
//!
//! A command of one statement is a call of its verb, which has the token. One of several statements is a transaction: all of them are
//! done or none, and the reply is stored with it. The documents of an `insert` are always one statement; a `bulkWrite` is always a
//! transaction.

use std::collections::HashMap;

use base::error::Result;
use bson::{Bson, Document};

use crate::arguments::{Arguments, GENERIC_COMMAND_FIELDS, TOKEN_FIELD};
use crate::collection::answers::Answer;
use crate::collection::bulk_write;
use crate::collection::exactly_once::{Asked, Whole};
use crate::collection::modify::Modified;
use crate::command::context::CommandContext;
use crate::outcomes::once::Undamaged;
use crate::outcomes::token::Token;
use crate::results::{DeleteResult, InsertOneResult, UpdateResult};
use crate::session::once;
use crate::write::outcome::InsertOutcome;

/// The field of a reply that says that the command had happened before.
const REPLAYED: &str = "replayed";
/// The field of a reply that lists rejected statements.
const REFUSALS: &str = "writeErrors";
/// The fields of a reply that count effects.
const COUNTS: [&str; 6] = ["n", "nDeleted", "nInserted", "nMatched", "nModified", "nUpserted"];
/// The field that says when a write is acknowledged, and not what it does.
const CONCERN: &str = "writeConcern";

/// Says in a reply that the command had happened before.
pub(super) fn report_replay(reply: &mut Document, was_replayed: bool) {
    if was_replayed {
        reply.insert(REPLAYED, true);
    }
}

/// Runs a command. One of several statements with one token is a transaction.
pub(super) fn run(
    context: &CommandContext<'_>,
    command: (&str, &Document),
    arguments: &Arguments<'_>,
    run: impl Fn(&CommandContext<'_>, &Document) -> Result<Document>,
) -> Result<Document> {
    let (name, body) = command;
    let array = match name {
        "update" => "updates",
        "delete" => "deletes",
        "bulkWrite" => "ops",
        _ => return run(context, body),
    };
    let Some(token) = arguments.read::<Token>(TOKEN_FIELD)? else { return run(context, body) };
    let statements = arguments.raw_statements(array)?;
    if statements.len() < 2 && name != "bulkWrite" {
        return run(context, body);
    }
    let mut inner = body.clone();
    inner.remove(TOKEN_FIELD);
    inner.remove(CONCERN);
    let concern = arguments.write_concern()?;
    let mut asked = Asked::of(format!("{name} {}", context.db), &token, concern.as_ref());
    for (field, value) in &inner {
        if field != array && !GENERIC_COMMAND_FIELDS.contains(&field.as_str()) {
            asked = asked.options([(field, Some(value.clone()))])?;
        }
    }
    for statement in &statements {
        asked = asked.bytes(statement.as_bytes());
    }
    let row = context.retryable().and_then(|retryable| retryable.row_of_all(statements.len()));
    let whole = Whole { shared: context.shared, caller: &context.caller, max_time: None, row };
    let Reply(reply) = whole.run(asked, |caller| {
        let context = CommandContext { caller, ..*context };
        let mut reply = run(&context, &inner)?;
        take_back(&mut reply);
        Ok(Reply(reply))
    })?;
    Ok(reply)
}

/// Why the result of a token's row is none that its call has stored. That of a transaction is any value.
pub(crate) fn damage(call: &str, answer: Document) -> Option<&'static str> {
    if call == once::NAME {
        return None;
    }
    match call.split(' ').next().unwrap_or_default() {
        "insert_one" => InsertOneResult::of_answer(answer).err(),
        "insert_many" => InsertOutcome::<HashMap<usize, Bson>>::of_answer(answer).err(),
        "update_one" | "update_many" | "replace_one" => UpdateResult::of_answer(answer).err(),
        "delete_one" | "delete_many" => DeleteResult::of_answer(answer).err(),
        "find_one_and_update" | "find_one_and_replace" | "find_one_and_delete" => {
            Modified::of_answer(answer).err()
        }
        "bulk_write" => bulk_write::Outcome::of_answer(answer).err(),
        "update" | "delete" | "bulkWrite" => Reply::of_answer(answer).err(),
        _ => Some("no call has its name"),
    }
}

/// The reply to a command of several statements.
struct Reply(Document);

impl Answer for Reply {
    fn to_answer(&self) -> Result<Document> {
        Ok(Document::from_iter([("r".to_owned(), Bson::Document(self.0.clone()))]))
    }

    fn of_answer(mut answer: Document) -> Undamaged<Self> {
        let Some(Bson::Document(mut reply)) = answer.remove("r") else { return Err("it is not a reply") };
        report_replay(&mut reply, true);
        Ok(Self(reply))
    }

    fn is_refusal(&self) -> bool {
        is_refused(&self.0)
    }
}

/// Whether a reply describes a rejected statement.
fn is_refused(reply: &Document) -> bool {
    reply.contains_key(REFUSALS) || reply.get_i32("nErrors").is_ok_and(|errors| errors > 0)
}

/// Removes the effects from a reply that describes a rejected statement: it ended the transaction, so nothing was done.
fn take_back(reply: &mut Document) {
    if !is_refused(reply) {
        return;
    }
    for (field, value) in reply.iter_mut() {
        if COUNTS.contains(&field.as_str()) {
            *value = Bson::Int32(0);
        }
    }
    reply.remove("upserted");
    // The rest of the results of a `bulkWrite` is the rejection.
    if let Ok(results) =
        reply.get_document_mut("cursor").and_then(|cursor| cursor.get_array_mut("firstBatch"))
    {
        let is_refusal =
            |result: &Bson| result.as_document().is_some_and(|result| result.contains_key("code"));
        results.retain(is_refusal);
    }
}
