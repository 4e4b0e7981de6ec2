//! Copies of documents with room for the values that they lack, and the values that were written into them.

use base::error::Result;
use base::generated::GeneratedValues;
use smallvec::SmallVec;

use crate::document::complete::{CopiedDrafts, FieldValue, ValueSource};
use crate::document::draft::Drafts;
use crate::write::Target;

/// Copies documents.
///
/// # Errors
/// What a field's mode rejects.
pub(super) fn copy<'d>(
    target: Target<'_>,
    documents: impl Iterator<Item = &'d [u8]>,
) -> Result<CopiedDrafts> {
    let mut copies = CopiedDrafts::default();
    for document in documents {
        copies.push(document, target.fields.tree(), |position| &target.fields.at(position).field)?;
    }
    Ok(copies)
}

/// The values that were generated for each document that got any, by the names of the fields.
pub(super) fn generated_values(
    target: Target<'_>,
    copies: &CopiedDrafts,
) -> SmallVec<[(usize, GeneratedValues); 1]> {
    let mut documents = SmallVec::new();
    for values in copies.values.chunk_by(|a, b| a.document == b.document) {
        let generated = values_of(target, &copies.drafts, values);
        if let Some(first) = values.first().filter(|_| !generated.is_empty()) {
            documents.push((first.document, generated));
        }
    }
    documents
}

/// The values that were generated for one document, by the names of the fields.
pub(super) fn values_of(target: Target<'_>, drafts: &Drafts, values: &[FieldValue]) -> GeneratedValues {
    let mut generated = GeneratedValues::default();
    for value in values {
        if let ValueSource::Generated { offset } = value.source {
            generated.push(&target.fields.at(value.field).name, drafts.value(offset));
        }
    }
    generated.sort();
    generated
}
