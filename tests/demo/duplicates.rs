//! Documents that are refused, because another one has their `_id` or their key in a unique index.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Collection, IndexModel, IndexOptions};

use crate::outcome::Outcome;
use crate::screen::{Screen, line};

/// The number of fields that a unique index is tried on, if no unique field is known.
const CANDIDATES: usize = 4;

/// Inserts two duplicates.
pub(crate) fn show(
    screen: &mut Screen,
    documents: &Collection<Document>,
    unique_field: Option<&str>,
) -> Outcome<()> {
    screen.step("Duplicates are refused")?;
    let sample = sample(documents, doc! {})?;
    let id = sample.get("_id").cloned().ok_or("a stored document has no _id")?;
    refused(documents, &doc! { "_id": id })?;
    let fields = unique_field.map_or_else(|| scalars(&sample), |field| vec![field.to_owned()]);
    for field in fields.into_iter().take(CANDIDATES) {
        if has_unique_index(documents, &field)? {
            let with_field = self::sample(documents, doc! { &field: { "$exists": true } })?;
            let value = with_field.get(&field).cloned().ok_or("a found document lacks the field")?;
            return refused(documents, &doc! { field: value });
        }
    }
    line("no field differs in all documents, so there is no unique index to show")
}

/// Inserts a document that must be refused as a duplicate.
fn refused(documents: &Collection<Document>, document: &Document) -> Outcome<()> {
    match documents.insert_one(document).run() {
        Err(error) if error.is_duplicate_key() => line(&error.to_string()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("a duplicate was stored: {document}").into()),
    }
}

/// Creates a unique index on `field`. Returns `false` if documents have the same value in it.
fn has_unique_index(documents: &Collection<Document>, field: &str) -> Outcome<bool> {
    let options = IndexOptions::builder().unique(true).sparse(true).build();
    let index = IndexModel::builder().keys(doc! { field: 1 }).options(options).build();
    match documents.create_index(index).run() {
        Ok(_) => Ok(true),
        Err(error) if error.code().is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One document that matches.
pub(crate) fn sample(documents: &Collection<Document>, filter: Document) -> Outcome<Document> {
    Ok(documents.find_one(filter).run()?.ok_or("a document that was stored is not found")?)
}

/// The fields of a document that an index and a group can be made of.
pub(crate) fn scalars(document: &Document) -> Vec<String> {
    let is_scalar = |field: &(&String, &Bson)| {
        let (name, value) = *field;
        let is_path = !name.is_empty() && !name.contains('.') && !name.starts_with('$') && name != "_id";
        is_path && value.as_array().is_none() && value.as_document().is_none()
    };
    document.iter().filter(is_scalar).map(|(name, _)| name.clone()).collect()
}
