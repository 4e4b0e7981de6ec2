//! `insert`. Beside MongoDB's reply it names the values that were generated: `generated` has a document for each one
//! that was inserted, `lastGenerateID` is the first value of all.

use bson::{Bson, Document, doc};

use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::command::write_errors::WriteErrors;
use crate::document::draft::Drafts;
use crate::error::{Error, ErrorKind, Result};
use crate::generated::GeneratedValues;
use crate::options::InsertManyOptions;
use crate::results::number;
use crate::write::outcome::InsertOutcome;

/// Time that is over ends the command, whatever else it was refused for; what was inserted until then stays.
pub(super) fn insert(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["bypassDocumentValidation", "documents", "ordered"])?;
    let documents = arguments.raw_documents("documents")?;
    let options = InsertManyOptions {
        ordered: arguments.boolean("ordered")?,
        bypass_document_validation: arguments.boolean("bypassDocumentValidation")?,
        write_concern: arguments.write_concern()?,
        ..InsertManyOptions::default()
    };
    let collection = place.collection(arguments.target()?);
    let mut done = Done::default();
    let mut drafts = Drafts::default();
    for document in documents {
        drafts.push_bytes(document.as_bytes());
    }
    done.add(collection.insert_drafts(drafts).with_options(options).store())?;
    Ok(done.into_reply())
}

/// What was inserted and what was refused.
#[derive(Default)]
struct Done {
    count: usize,
    /// The values that were generated for each document that was inserted, if any were.
    generated: Vec<Document>,
    errors: WriteErrors,
}

impl Done {
    /// Takes the outcome.
    fn add(&mut self, outcome: Result<InsertOutcome<Vec<usize>>>) -> Result<()> {
        let InsertOutcome { inserted, refused, generated, .. } = outcome.or_else(without_any)?;
        for error in &refused {
            let position = (error.index, error.code);
            self.errors.add(position, error.code_name.as_deref(), &error.message, error.details.as_ref());
        }
        let before = self.count;
        self.count += inserted.len();
        if !generated.is_empty() {
            self.generated.resize_with(before, Document::new);
            let values = |position: &usize| -> Document {
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
            self.generated.resize_with(self.count, Document::new);
            let first = self.generated.iter().find_map(|document| document.values().next()).cloned();
            reply.insert("generated", self.generated);
            reply.extend(first.map(|value| ("lastGenerateID".to_owned(), value)));
        }
        self.errors.report(&mut reply);
        reply
    }
}

/// The outcome of a call of which no document can be stored, whatever the collection holds.
fn without_any(error: Error) -> Result<InsertOutcome<Vec<usize>>> {
    let ErrorKind::InsertMany(refusal) = error.kind() else { return Err(error) };
    let refused = refusal.write_errors.clone().unwrap_or_default();
    Ok(InsertOutcome { refused, ..InsertOutcome::default() })
}
