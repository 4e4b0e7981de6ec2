//! `insert`. Beside MongoDB's reply it names the values that were generated: `generated` has a document for each one
//! that was inserted, `lastGenerateID` is the first value of all.

use std::collections::HashMap;

use bson::{Bson, Document, doc};

use crate::command::Place;
use crate::command::arguments::Arguments;
use crate::command::write_errors::{WriteErrors, number};
use crate::document::build::Drafts;
use crate::error::{ErrorKind, Result};
use crate::generated::GeneratedValues;
use crate::options::InsertManyOptions;

pub(super) fn insert(place: &Place<'_>, arguments: &Arguments<'_>) -> Result<Document> {
    arguments.allow(&["bypassDocumentValidation", "documents", "ordered"], &["encryptionInformation"])?;
    arguments.no_max_time()?;
    let mut drafts = Drafts::default();
    arguments.raw_documents("documents")?.iter().for_each(|document| drafts.push_bytes(document.as_bytes()));
    let options = InsertManyOptions {
        ordered: arguments.boolean("ordered")?,
        write_concern: arguments.write_concern()?,
        ..InsertManyOptions::default()
    };
    let collection = place.collection(arguments.target()?);
    let mut errors = WriteErrors::default();
    let (inserted, generated) = match collection.insert_drafts(drafts).with_options(options).run() {
        Ok(result) => (result.inserted_ids, result.generated),
        Err(error) => {
            let ErrorKind::InsertMany(refused) = error.kind() else { return Err(error) };
            for error in refused.write_errors.iter().flatten() {
                let position = (error.index, error.code);
                errors.add(position, error.code_name.as_deref(), &error.message, error.details.as_ref());
            }
            (refused.inserted_ids.clone(), refused.generated.clone())
        }
    };
    let mut reply = doc! { "n": number(inserted.len() as u64) };
    report_generated(&mut reply, &inserted, &generated);
    errors.report(&mut reply);
    Ok(reply)
}

fn report_generated(
    reply: &mut Document,
    inserted: &HashMap<usize, Bson>,
    generated: &HashMap<usize, GeneratedValues>,
) {
    if generated.is_empty() {
        return;
    }
    let mut positions: Vec<usize> = inserted.keys().copied().collect();
    positions.sort_unstable();
    let values = |position: &usize| -> Document {
        let values = generated.get(position).into_iter().flat_map(GeneratedValues::iter);
        values.map(|(field, value)| (field.to_owned(), Bson::Int64(value))).collect()
    };
    let all: Vec<Document> = positions.iter().map(values).collect();
    let first = all.iter().find_map(|document| document.values().next()).cloned();
    reply.insert("generated", all);
    reply.extend(first.map(|value| ("lastGenerateID".to_owned(), value)));
}
