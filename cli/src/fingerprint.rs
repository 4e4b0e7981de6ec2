//! Whether two sides have the same documents, in whatever order: a sum of hashes for each part of the documents.

use std::borrow::Cow;
use std::collections::HashSet;

use cairndb::bson::{RawDocument, RawDocumentBuf, cstr};
use twox_hash::{XxHash3_64, XxHash3_128};

/// The parts among which documents are spread by their `_id`.
const PARTS: usize = 1_024;

/// The documents of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) documents: u64,
    /// For each part, the sum of the hashes of its documents.
    sums: Vec<u128>,
}

impl Fingerprint {
    /// No documents. With many collections there is one part for each of them, because all are in memory at once.
    pub(crate) fn new(collections: usize) -> Self {
        Self { documents: 0, sums: vec![0; if collections > PARTS { 1 } else { PARTS }] }
    }

    /// No documents, to be compared with this.
    pub(crate) fn emptied(&self) -> Self {
        Self { documents: 0, sums: vec![0; self.sums.len()] }
    }

    /// Adds a document.
    pub(crate) fn add(&mut self, document: &[u8]) {
        self.documents += 1;
        let part = if self.sums.len() > 1 { part_of(document) % self.sums.len() } else { 0 };
        if let Some(sum) = self.sums.get_mut(part) {
            *sum = sum.wrapping_add(hash(document));
        }
    }

    /// The parts that are not the same.
    pub(crate) fn differing(&self, other: &Self) -> HashSet<usize> {
        let both = self.sums.iter().zip(&other.sums).enumerate();
        both.filter(|(_, (own, other))| own != other).map(|(part, _)| part).collect()
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.sums.len()
    }
}

/// The hash of a document.
pub(crate) fn hash(document: &[u8]) -> u128 {
    XxHash3_128::oneshot(&normal(document))
}

/// A document as every store of today keeps it: with its `_id` first. Servers up to 2.4 kept it where it was.
pub(crate) fn normal(document: &[u8]) -> Cow<'_, [u8]> {
    let Ok(raw) = RawDocument::from_bytes(document) else { return document.into() };
    let is_first = raw.iter().next().is_none_or(|first| first.is_ok_and(|(name, _)| name.as_str() == "_id"));
    let Some(id) = raw.get("_id").ok().flatten().filter(|_| !is_first) else { return document.into() };
    let mut moved = RawDocumentBuf::new();
    moved.append(cstr!("_id"), id);
    let mut has_moved = false;
    for field in raw {
        let Ok((name, value)) = field else { return document.into() };
        // A second field of that name stays where it is.
        if name.as_str() == "_id" && !has_moved {
            has_moved = true;
            continue;
        }
        moved.append(name, value);
    }
    moved.into_bytes().into()
}

/// The part that a document is in, where there is more than one.
pub(crate) fn part_of(document: &[u8]) -> usize {
    let id = RawDocument::from_bytes(document).ok().and_then(|document| document.get("_id").ok()?);
    let Some(id) = id else { return 0 };
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!("_id"), id);
    usize::try_from(XxHash3_64::oneshot(alone.as_bytes()) % PARTS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{Document, doc, serialize_to_vec};

    use super::*;

    fn of(documents: &[Document]) -> Fingerprint {
        let mut fingerprint = Fingerprint::new(1);
        for document in documents {
            fingerprint.add(&serialize_to_vec(document).unwrap());
        }
        fingerprint
    }

    /// A restore of a dump of 2.4 was reported to differ in every document.
    #[test]
    fn an_id_that_is_not_the_first_field_is_the_same_document() {
        let of = |document: &Document| hash(&serialize_to_vec(document).unwrap());
        let first = doc! { "_id": 1, "a": 2, "b": { "c": 3, "_id": 4 } };
        assert_eq!(of(&doc! { "a": 2, "_id": 1, "b": { "c": 3, "_id": 4 } }), of(&first));
        assert_eq!(of(&doc! { "a": 2, "b": { "c": 3, "_id": 4 }, "_id": 1 }), of(&first));
        assert_ne!(of(&doc! { "_id": 1, "b": { "c": 3, "_id": 4 }, "a": 2 }), of(&first));
        assert_ne!(of(&doc! { "_id": 1, "a": 2, "b": { "_id": 4, "c": 3 } }), of(&first));
        let without = serialize_to_vec(&doc! { "a": 1 }).unwrap();
        assert_eq!(&*normal(&without), without);
        assert_eq!(&*normal(b"no document"), b"no document");
    }

    #[test]
    fn the_order_does_not_matter_and_every_byte_does() {
        let (a, b) = (doc! { "_id": 1, "x": 1 }, doc! { "_id": 2, "x": 1 });
        assert_eq!(of(&[a.clone(), b.clone()]), of(&[b.clone(), a.clone()]));
        assert_ne!(of(std::slice::from_ref(&a)), of(&[doc! { "_id": 1, "x": 1_i64 }]));
        assert_eq!(of(std::slice::from_ref(&a)).differing(&of(&[doc! { "_id": 1, "x": 2 }])).len(), 1);
        assert_ne!(of(&[a.clone(), a.clone()]), of(&[b.clone(), b]), "equal ones do not cancel each other");
        assert_eq!((of(&[a]).differing(&of(&[])).len(), of(&[]).parts()), (1, PARTS));
    }
}
