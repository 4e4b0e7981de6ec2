//! The documents of a collection, in the order of their `_id`s: one thread reads, others insert. What is inserted up to an
//! `_id`, without a hole, is remembered, so that the copy goes on there.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cairndb::bson::{RawDocument, RawDocumentBuf, cstr, rawdoc};

use crate::batch::Batch;
use crate::failure::{Exit, Failure};
use crate::listing::is_cairndb;
use crate::migrate::insert::Inserter;
use crate::migrate::planned::Moved;
use crate::migrate::state::State;
use crate::restore::tally::Tally;
use crate::signals::Signals;
use crate::store::{Documents, Store};

/// Receives how many documents are done.
pub(super) type Telling<'a> = dyn Fn(u64) + Sync + 'a;

/// State shared by the threads.
pub(super) struct Copier<'a> {
    pub(super) source: &'a dyn Store,
    pub(super) inserter: Inserter<'a>,
    pub(super) state: &'a Mutex<State>,
    pub(super) signals: &'a Signals,
    pub(super) jobs: u16,
    pub(super) telling: &'a Telling<'a>,
}

/// A batch, and which of its collection it is.
struct Numbered {
    number: u64,
    batch: Batch,
}

/// The part of a collection that is done.
#[derive(Default)]
struct Done {
    /// The number of the first batch that is not done.
    next: u64,
    /// The last `_id`s of later ones that are done.
    ahead: BTreeMap<u64, Vec<u8>>,
}

impl Copier<'_> {
    /// Copies the documents of a collection that are not there yet.
    pub(super) fn copy(&self, moved: &Moved) -> Result<(), Failure> {
        let namespace = moved.planned.namespace();
        if self.state().is_copied(&namespace) {
            return Ok(());
        }
        let from = self.state().up_to(&namespace);
        let mut documents = ordered(self.source, moved, from.as_deref())?;
        // Nothing waits in the channel: each batch is with the reader or with a worker.
        let (sender, receiver) = sync_channel(0);
        let (receiver, done) = (Mutex::new(receiver), Mutex::new(Done::default()));
        let read = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| self.work(moved, &receiver, &done));
            }
            let read = self.read(&mut *documents, &sender);
            // Now the workers come to their ends.
            drop(sender);
            read
        });
        // The failure of a worker is why reading ended.
        self.tally().result()?;
        if read? { self.state().finish(&namespace) } else { self.state().save() }
    }

    /// Reads documents into batches. Returns whether it came to the end.
    fn read(&self, documents: &mut dyn Documents, sender: &SyncSender<Numbered>) -> Result<bool, Failure> {
        let (mut batch, mut number) = (Batch::default(), 0);
        let send = |batch: &mut Batch, number: &mut u64| {
            let batch = std::mem::take(batch);
            // Without a worker the tool has panicked already.
            let _ = sender.send(Numbered { number: *number, batch });
            *number += 1;
        };
        while documents.advance()? {
            if self.signals.received().is_some() || self.tally().is_failed() {
                return Ok(false);
            }
            let document = documents.current().as_bytes();
            if batch.is_full_for(document) && batch.bytes() > 0 {
                send(&mut batch, &mut number);
            }
            batch.push(document);
        }
        if batch.bytes() > 0 {
            send(&mut batch, &mut number);
        }
        Ok(true)
    }

    fn work(&self, moved: &Moved, receiver: &Mutex<Receiver<Numbered>>, done: &Mutex<Done>) {
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Numbered { number, batch }) = next else { return };
            // After a failure batches are received and dropped, so that the reader is not held up.
            if self.tally().is_failed() {
                continue;
            }
            let documents = batch.documents();
            let inserted = self.inserter.insert(&moved.planned, &documents);
            let told = inserted.and_then(|()| {
                (self.telling)(documents.len() as u64);
                self.tell(moved, done, number, documents.last().copied())
            });
            if let Err(failure) = told {
                self.tally().fail(failure);
            }
        }
    }

    /// Moves the mark of the collection over all batches that are done without a hole.
    fn tell(
        &self,
        moved: &Moved,
        done: &Mutex<Done>,
        number: u64,
        last: Option<&RawDocument>,
    ) -> Result<(), Failure> {
        let id = last.map(id_alone).transpose()?.unwrap_or_default();
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.ahead.insert(number, id);
        let mut reached = None;
        while let Some(id) = {
            let next = done.next;
            done.ahead.remove(&next)
        } {
            done.next += 1;
            reached = Some(id);
        }
        match reached {
            Some(id) => self.state().reach(&moved.planned.namespace(), &id),
            None => Ok(()),
        }
    }

    fn tally(&self) -> &Tally {
        self.inserter.tally
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The documents of a collection from an `_id` on, which is read again.
fn ordered(store: &dyn Store, moved: &Moved, from: Option<&[u8]>) -> Result<Box<dyn Documents>, Failure> {
    let by_id = || {
        let mut order = RawDocumentBuf::new();
        order.append(cstr!("_id"), 1);
        order
    };
    let mut find = RawDocumentBuf::new();
    find.append(cstr!("find"), moved.found.name.as_str());
    find.append(cstr!("hint"), by_id());
    find.append(cstr!("sort"), by_id());
    if let Some(from) = from {
        // A bound on the index, and no filter: a comparison would find values of the same type alone.
        let from = RawDocument::from_bytes(from)
            .map_err(|error| Failure::new(Exit::Failed, format!("the state of the migration: {error}")))?;
        find.append(cstr!("min"), from);
    }
    // A MongoDB has the `_id`s of such a collection in the order of its language, and the bound is one of that order. Here
    // they are in the order of their bytes.
    if moved.found.options.contains_key("collation") && is_cairndb(store)? {
        find.append(cstr!("collation"), rawdoc! { "locale": "simple" });
    }
    store.stream(&moved.found.database, find)
}

/// The `_id` alone, as a document.
fn id_alone(document: &RawDocument) -> Result<Vec<u8>, Failure> {
    let id = document.get("_id").ok().flatten();
    let id = id.ok_or_else(|| Failure::new(Exit::Failed, "a stored document has no _id"))?;
    let mut alone = RawDocumentBuf::new();
    alone.append(cstr!("_id"), id);
    Ok(alone.into_bytes())
}
