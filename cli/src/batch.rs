//! Raw documents that are sent together, one after the other in one buffer.

use cairndb::bson::RawDocument;

/// The limit of one batch: documents, and bytes unless it is one document.
const DOCUMENTS: usize = 1_000;
const BYTES: usize = 2 << 20;

/// Documents of one collection.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    /// Whether this document is for the next batch.
    pub(crate) fn is_full_for(&self, document: &[u8]) -> bool {
        self.ends.len() >= DOCUMENTS || self.bytes.len() + document.len() > BYTES
    }

    pub(crate) fn push(&mut self, document: &[u8]) {
        self.bytes.extend_from_slice(document);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn documents(&self) -> Vec<&RawDocument> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end));
        // Checked when they were read.
        parts.filter_map(|part| RawDocument::from_bytes(part).ok()).collect()
    }
}
