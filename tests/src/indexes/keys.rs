//! The keys of documents, computed without the engine: in a sort, and in an index.

use cairndb::bson::{Document, RawDocument, RawDocumentBuf, serialize_to_raw_document_buf};
use cairndb::{Collation, IndexModel};
use index::collation::Collation as Rules;
use index::extract::{ExtractedKeys, extract};
use index::spec::{IndexSpec, Sparseness, SpecOptions};
use query::sort::Sort;

/// The first key of a range, and the first one after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'a> {
    /// Absent for a range from the first key on.
    pub(super) min: Option<&'a Document>,
    /// Absent for a range up to the last key.
    pub(super) max: Option<&'a Document>,
}

/// The rules of a collation.
fn rules(collation: &Collation) -> Rules {
    Rules::parse(&serialize_to_raw_document_buf(collation).expect("small")).expect("a collation")
}

/// The position of a document in a sort, as bytes that compare. Returns `None` if it cannot be sorted.
pub(super) fn in_sort(sort: &Document, collation: &Collation, document: &RawDocument) -> Option<Vec<u8>> {
    let sort = Sort::parse(&RawDocumentBuf::try_from(sort).ok()?).ok()?.with_collation(&rules(collation));
    Some(sort.key(document).ok()?.as_bytes().to_vec())
}

/// The lowest key that a document has in an index, of those within bounds. Returns `None` if it has none there. Found by the keys
/// of the document alone, without the planner and the entries.
pub(super) fn lowest_within(
    model: &IndexModel,
    bounds: Bounds<'_>,
    document: &RawDocument,
) -> Option<Vec<u8>> {
    let is_sparse = model.options.as_ref().and_then(|options| options.sparse) == Some(true);
    let sparseness = if is_sparse { Sparseness::Sparse } else { Sparseness::NotSparse };
    let keys = RawDocumentBuf::try_from(&model.keys).ok()?;
    let rules = rules(&super::collation_of(model));
    let spec = IndexSpec::parse(&keys, SpecOptions { sparseness, ..SpecOptions::default() }).ok()?;
    let spec = spec.with_collation(rules.clone());
    let encoded = |bound: &Document| {
        let (bound, mut bytes) = (RawDocumentBuf::try_from(bound).expect("small"), Vec::new());
        for (field, value) in spec.fields().iter().zip(&bound) {
            rules.encode(value.expect("a value").1, field.direction, &mut bytes);
        }
        bytes
    };
    let (min, max) = (bounds.min.map(encoded), bounds.max.map(encoded));
    let mut keys = ExtractedKeys::default();
    extract(&spec, document, &mut keys).ok()?;
    let mut keys = keys.iter().map(|(key, _)| key.to_vec());
    keys.find(|key| min.as_ref().is_none_or(|min| key >= min) && max.as_ref().is_none_or(|max| key < max))
}
