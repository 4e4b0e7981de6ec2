//! Batches of documents on their way into the target. A document that is there already came by an earlier attempt, whose
//! answer was lost: it is left if it is the same, and replaced otherwise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::bson::{Bson, Document, RawArrayBuf, RawDocument, RawDocumentBuf, cstr, rawdoc};
use index::key::{Direction, encode};
use query::code::Code;

use crate::command::{count, with_array};
use crate::failure::{Exit, Failure};
use crate::migrate::differing::shown;
use crate::restore::plan::Planned;
use crate::restore::tally::{Tally, is_of_store, refusal};
use crate::store::Store;

/// The target of documents.
pub(super) struct Inserter<'a> {
    pub(super) target: &'a dyn Store,
    pub(super) tally: &'a Tally,
    /// Documents that were found there as they are.
    pub(super) already_there: &'a AtomicU64,
}

/// A document of a batch that was not inserted.
struct Refused {
    index: usize,
    code: i32,
    message: String,
}

impl Inserter<'_> {
    /// Inserts a batch and waits until it is on stable storage. A document that is rejected is named.
    pub(super) fn insert(&self, planned: &Planned, documents: &[&RawDocument]) -> Result<(), Failure> {
        let refused = self.send(planned, documents)?;
        let (duplicate, others): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|refused| refused.code == Code::DUPLICATE_KEY.number());
        for refused in others {
            self.refuse(planned, documents, &refused);
        }
        if duplicate.is_empty() { Ok(()) } else { self.settle(planned, documents, &duplicate) }
    }

    /// Looks at what is there under the `_id`s of documents that were rejected as duplicates.
    fn settle(
        &self,
        planned: &Planned,
        documents: &[&RawDocument],
        duplicate: &[Refused],
    ) -> Result<(), Failure> {
        let doubtful: Vec<&RawDocument> =
            duplicate.iter().filter_map(|refused| documents.get(refused.index).copied()).collect();
        let there = self.find(planned, &doubtful)?;
        let mut replaced: Vec<&RawDocument> = Vec::new();
        for refused in duplicate {
            let Some(document) = documents.get(refused.index) else { continue };
            match there.get(&key_of(document)) {
                Some(stored) if stored.as_slice() == document.as_bytes() => {
                    self.already_there.fetch_add(1, Ordering::Relaxed);
                }
                Some(_) => replaced.push(document),
                // It is another key than the `_id` that exists already.
                None => self.refuse(planned, documents, refused),
            }
        }
        if replaced.is_empty() {
            return Ok(());
        }
        // Not by a replacement: that accepts no fields with a dollar in front.
        self.delete(planned, &replaced)?;
        for refused in self.send(planned, &replaced)? {
            self.refuse(planned, &replaced, &refused);
        }
        Ok(())
    }

    fn send(&self, planned: &Planned, documents: &[&RawDocument]) -> Result<Vec<Refused>, Failure> {
        let mut head = RawDocumentBuf::new();
        head.append(cstr!("insert"), planned.name.as_str());
        head.append(cstr!("ordered"), false);
        // A stored document is stored again, whatever a validator says about it today.
        head.append(cstr!("bypassDocumentValidation"), true);
        head.append(cstr!("writeConcern"), durable());
        match self.target.run(&planned.database, with_array(head, "documents", documents)?) {
            Ok(reply) => {
                let inserted = count(&reply, "n").unwrap_or_default();
                self.tally.documents.fetch_add(inserted, Ordering::Relaxed);
                let refused = refused_of(&reply)?;
                // Rejected documents are not counted; the inserted ones are about as large as all of them.
                let bytes: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
                let refused_bytes: usize = refused
                    .iter()
                    .filter_map(|refused| documents.get(refused.index))
                    .map(|document| document.as_bytes().len())
                    .sum();
                Tally::add(&self.tally.bytes, bytes.saturating_sub(refused_bytes));
                Ok(refused)
            }
            // The call was rejected as a whole, so nothing of it was written: the document is found by halves.
            Err(failure) => self.halves(planned, documents, &refusal(failure)?),
        }
    }

    fn halves(
        &self,
        planned: &Planned,
        documents: &[&RawDocument],
        failure: &Failure,
    ) -> Result<Vec<Refused>, Failure> {
        if documents.len() < 2 {
            let code = failure.code.unwrap_or_default();
            return Ok(documents
                .iter()
                .map(|_| Refused { index: 0, code, message: failure.message.clone() })
                .collect());
        }
        let middle = documents.len() / 2;
        let (left, right) = documents.split_at(middle);
        let mut refused = self.send(planned, left)?;
        let later = self.send(planned, right)?.into_iter();
        refused.extend(later.map(|refused| Refused { index: refused.index + middle, ..refused }));
        Ok(refused)
    }

    /// The documents of the target that have the `_id`s of these, by their `_id`s.
    fn find(
        &self,
        planned: &Planned,
        documents: &[&RawDocument],
    ) -> Result<HashMap<Vec<u8>, Vec<u8>>, Failure> {
        let mut ids = RawArrayBuf::new();
        for id in documents.iter().filter_map(|document| document.get("_id").ok().flatten()) {
            ids.push(id);
        }
        let mut find = RawDocumentBuf::new();
        find.append(cstr!("find"), planned.name.as_str());
        find.append(cstr!("filter"), rawdoc! { "_id": { "$in": ids } });
        // These very `_id`s, and none that is equal to the language of the collection.
        find.append(cstr!("collation"), rawdoc! { "locale": "simple" });
        let mut found = self.target.stream(&planned.database, find)?;
        let mut there = HashMap::new();
        while found.advance()? {
            there.insert(key_of(found.current()), found.current().as_bytes().to_vec());
        }
        Ok(there)
    }

    fn delete(&self, planned: &Planned, documents: &[&RawDocument]) -> Result<(), Failure> {
        let deletes: Vec<RawDocumentBuf> = documents
            .iter()
            .filter_map(|document| document.get("_id").ok().flatten())
            .map(|id| {
                let mut equals = RawDocumentBuf::new();
                equals.append(cstr!("$eq"), id);
                rawdoc! { "q": { "_id": equals }, "limit": 1, "collation": { "locale": "simple" } }
            })
            .collect();
        let deletes: Vec<&RawDocument> = deletes.iter().map(|delete| &**delete).collect();
        let mut head = RawDocumentBuf::new();
        head.append(cstr!("delete"), planned.name.as_str());
        head.append(cstr!("writeConcern"), durable());
        let reply = self.target.run(&planned.database, with_array(head, "deletes", &deletes)?)?;
        match refused_of(&reply)?.into_iter().next() {
            Some(refused) => {
                let namespace = planned.namespace();
                Err(Failure::new(Exit::Failed, format!("{namespace}: {}", refused.message)))
            }
            None => Ok(()),
        }
    }

    fn refuse(&self, planned: &Planned, documents: &[&RawDocument], refused: &Refused) {
        let id = documents.get(refused.index).and_then(|document| document.get("_id").ok().flatten());
        let id = id.map_or_else(|| "none".to_owned(), shown);
        self.tally.refuse(&format!("{}, _id {id}: {}", planned.namespace(), refused.message));
    }
}

fn durable() -> RawDocumentBuf {
    rawdoc! { "w": "majority", "j": true }
}

/// The rejections in a reply. That the rest may not last is an error, and so is that the store could not go on.
fn refused_of(reply: &Document) -> Result<Vec<Refused>, Failure> {
    if let Ok(concern) = reply.get_document("writeConcernError") {
        let message = concern.get_str("errmsg").unwrap_or_default();
        return Err(Failure::new(Exit::Failed, format!("a batch may not be durable: {message}")));
    }
    let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    let refused = errors.iter().filter_map(Bson::as_document).filter_map(|error| {
        Some(Refused {
            index: usize::try_from(count(error, "index")?).ok()?,
            code: error.get_i32("code").unwrap_or(Code::UNKNOWN_ERROR.number()),
            message: error.get_str("errmsg").unwrap_or("rejected without a reason").to_owned(),
        })
    });
    let refused: Vec<Refused> = refused.collect();
    // No document was rejected by that, and the batch is not done.
    match refused.iter().find(|refused| is_of_store(refused.code)) {
        Some(lost) => Err(Failure::new(Exit::Failed, lost.message.clone())),
        None => Ok(refused),
    }
}

/// The key that distinguishes `_id`s as a unique key does: numbers that are equal are one, whatever their types.
fn key_of(document: &RawDocument) -> Vec<u8> {
    let mut key = Vec::new();
    if let Ok(Some(id)) = document.get("_id") {
        encode(id, Direction::Ascending, &mut key);
    }
    key
}
