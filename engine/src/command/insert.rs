//! `insert`. Besides MongoDB's fields the reply has the generated values: `generated` is an array with a document for each
//! inserted one, `lastGenerateID` the first generated value of the command.

use base::error::{Error, ErrorKind, Result};
use base::generated::GeneratedValues;
use bson::{Bson, Document, doc};

use crate::arguments::{Arguments, TOKEN_FIELD};
use crate::command::context::CommandContext;
use crate::command::repeated::report_replay;
use crate::command::write_errors::{Repeated, WriteErrors};
use crate::document::draft::Drafts;
use crate::options::InsertManyOptions;
use crate::options::declare::Options;
use crate::outcomes::token::Token;
use crate::results::number;
use crate::write::outcome::InsertOutcome;

/// Runs `insert`. If the time is over, the whole command fails, and what was inserted until then stays.
pub(super) fn insert(context: &CommandContext<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow_options(InsertManyOptions::FIELDS, &["documents", TOKEN_FIELD])?;
    let documents = arguments.raw_documents("documents")?;
    let options = InsertManyOptions::read(arguments)?;
    let collection = context.collection(arguments.target()?);
    let mut done = Done { count: 0, generated: Vec::new(), errors: WriteErrors::of(context) };
    let mut drafts = Drafts::default();
    // A token decides before the number of the session does.
    let token = arguments.read::<Token>(TOKEN_FIELD)?;
    let retryable = context.retryable().filter(|_| token.is_none());
    let rest = retryable.and_then(|retryable| retryable.rest(documents.len()));
    let Some(rest) = rest else {
        // Copied once, into a buffer with room for an `_id` before each. What follows works in place.
        for document in documents {
            drafts.push_bytes(document.as_bytes());
        }
        // One call for all documents, so that they share a commit where their fields allow it.
        let insert = collection.handle.insert_drafts(drafts).with_options(options);
        let stored = match token {
            None => insert.store(),
            Some(token) => insert.exactly_once(token).store(),
        };
        let was_replayed = stored.as_ref().is_ok_and(|outcome| outcome.was_replayed);
        done.add(stored)?;
        let mut reply = done.into_reply();
        report_replay(&mut reply, was_replayed);
        return Ok(reply);
    };
    let repeated = Repeated::without(&rest, documents.len());
    for document in rest.iter().filter_map(|place| documents.get(*place)) {
        drafts.push_bytes(document.as_bytes());
    }
    context.secure_repeated(options.write_concern.as_ref())?;
    if !rest.is_empty() {
        done.add(collection.handle.insert_drafts(drafts).with_options(options).store())?;
        done.errors.place(&rest);
    }
    let mut reply = done.into_reply();
    reply.insert("n", reply.get_i32("n").unwrap_or_default() + repeated.count());
    repeated.report(&mut reply);
    Ok(reply)
}

/// The parts of the reply.
struct Done<'a> {
    count: usize,
    /// By inserted document, its generated values. Shorter than `count` as long as none was generated.
    generated: Vec<Document>,
    errors: WriteErrors<'a>,
}

impl Done<'_> {
    /// Adds what a call stored, rejected and generated.
    fn add(&mut self, outcome: Result<InsertOutcome<Vec<usize>>>) -> Result<()> {
        // The verb fails if it stored nothing. The command does not: it lists the rejections in its reply.
        let InsertOutcome { inserted, refused, generated, .. } = outcome.or_else(without_any)?;
        for refusal in refused {
            self.errors.add(refusal);
        }
        let before = self.count;
        self.count += inserted.len();
        if !generated.is_empty() {
            // Documents of earlier calls had no generated values: each still has its place in the array.
            self.generated.resize_with(before, Document::new);
            let values = |position: &usize| -> Document {
                // A document that brought all its values has no entry, and gets an empty document.
                let values = generated.get(position).into_iter().flat_map(GeneratedValues::iter);
                values.map(|(field, value)| (field.to_owned(), Bson::Int64(value))).collect()
            };
            self.generated.extend(inserted.iter().map(values));
        }
        Ok(())
    }

    fn into_reply(mut self) -> Document {
        let mut reply = doc! { "n": number(self.count as u64) };
        if !self.generated.is_empty() {
            // One document for each inserted one, so that a client can read both by position.
            self.generated.resize_with(self.count, Document::new);
            let first = self.generated.iter().find_map(|document| document.values().next()).cloned();
            reply.insert("generated", self.generated);
            reply.extend(first.map(|value| ("lastGenerateID".to_owned(), value)));
        }
        self.errors.report(&mut reply);
        reply
    }
}

/// The outcome of a call that rejected all its documents. Any other error is returned.
pub(super) fn without_any(error: Error) -> Result<InsertOutcome<Vec<usize>>> {
    let ErrorKind::InsertMany(refusal) = error.kind() else { return Err(error) };
    let refused = refusal.write_errors.clone().unwrap_or_default();
    Ok(InsertOutcome { refused, ..InsertOutcome::default() })
}
