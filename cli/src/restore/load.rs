//! Documents in batches: one thread reads the dump, others insert.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf, cstr, doc};
use formats::dump::prelude;
use formats::dump::reader::Piece;

use crate::batch::Batch;
use crate::command::{count, with_array};
use crate::dumped::DumpedKind;
use crate::extended_json::{Mode, write_value};
use crate::failure::{Exit, Failure};
use crate::fingerprint::Fingerprint;
use crate::restore::plan::{Plan, Planned};
use crate::restore::source::{Source, numbered};
use crate::restore::tally::{Tally, is_of_store, refusal};
use crate::signals::Signals;
use crate::store::{Store, UserThere};
use crate::talk::Progress;

/// The bytes that may wait for more of their collection. An archive may alternate between any number of them.
const WAITING_BYTES: usize = 8 << 20;
/// Progress is shown after as many documents.
const SHOWN_EACH: u64 = 256;

/// State shared by the threads.
pub(super) struct Loader<'a> {
    /// `None` of a dry run.
    pub(super) store: Option<&'a dyn Store>,
    pub(super) tally: &'a Tally,
    pub(super) signals: &'a Signals,
    pub(super) jobs: u16,
    pub(super) user_there: UserThere,
}

/// The facts that are collected while a dump is read, by its collections.
pub(super) struct Loaded {
    /// The fingerprints that are compared at the end, if that is asked for.
    pub(super) fingerprints: Vec<Option<Fingerprint>>,
    /// Later positions of sequences than those of the dump's beginning.
    pub(super) sequences: Option<Vec<(String, Vec<Document>)>>,
}

/// Documents of one collection, and where they go.
struct Directed {
    database: String,
    /// The collection that is filled.
    name: String,
    /// The name that it has in the end.
    shown: String,
    is_of_users: bool,
    /// Whether the documents must be stored in the order of the dump: a capped collection keeps it.
    is_ordered: bool,
    batch: Batch,
}

impl Loader<'_> {
    /// Reads the dump to its end, and inserts all documents that are planned.
    pub(super) fn load(
        &self,
        source: &mut Source,
        plan: &mut Plan,
        loaded: &mut Loaded,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        // Nothing waits in the channel: each batch is with the reader or with a worker.
        let (sender, receiver) = sync_channel(0);
        let receiver = Mutex::new(receiver);
        let read = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| self.work(&receiver));
            }
            let (waiting, capped) = (Vec::new(), Vec::new());
            let mut reading = Reading { loader: self, sender, waiting, capped, bytes: 0, loaded };
            reading.read(source, plan, progress)
        });
        // The failure of a worker is why reading ended.
        self.tally.result().and(read)
    }

    fn work(&self, receiver: &Mutex<Receiver<Directed>>) {
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = next else { return };
            self.store(&batch);
        }
    }

    fn store(&self, batch: &Directed) {
        // After a failure batches are received and dropped, so that the reader is not held up.
        let Some(store) = self.store.filter(|_| !self.tally.is_failed()) else { return };
        let documents = batch.batch.documents();
        let inserted = if batch.is_of_users {
            self.add_users(store, batch, &documents)
        } else {
            self.insert(store, batch, &documents)
        };
        if let Err(failure) = inserted {
            self.tally.fail(failure);
        }
    }

    fn add_users(&self, store: &dyn Store, batch: &Directed, users: &[&RawDocument]) -> Result<(), Failure> {
        for user in users {
            match store.add_user(user, self.user_there) {
                Ok(()) => Tally::add(&self.tally.documents, 1),
                Err(failure) => self.refuse(batch, user, &refusal(failure)?.message),
            }
        }
        Ok(())
    }

    fn insert(&self, store: &dyn Store, batch: &Directed, documents: &[&RawDocument]) -> Result<(), Failure> {
        let mut head = RawDocumentBuf::new();
        head.append(cstr!("insert"), batch.name.as_str());
        head.append(cstr!("ordered"), false);
        // A stored document is stored again, whatever a validator says about it today.
        head.append(cstr!("bypassDocumentValidation"), true);
        let mut concern = RawDocumentBuf::new();
        concern.append(cstr!("w"), 1);
        head.append(cstr!("writeConcern"), concern);
        let reply = match store.run(&batch.database, with_array(head, "documents", documents)?) {
            Ok(reply) => reply,
            Err(failure) => {
                let failure = refusal(failure)?;
                // The call was rejected as a whole, so nothing of it was written: the document is found by halves.
                return match documents {
                    [] => Ok(()),
                    [one] => {
                        self.refuse(batch, one, &failure.message);
                        Ok(())
                    }
                    _ => {
                        let (left, right) = documents.split_at(documents.len() / 2);
                        self.insert(store, batch, left)?;
                        self.insert(store, batch, right)
                    }
                };
            }
        };
        let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
        let mut lost = None;
        for error in errors.iter().filter_map(Bson::as_document) {
            let at = count(error, "index").and_then(|at| usize::try_from(at).ok());
            let message = error.get_str("errmsg").unwrap_or("rejected without a reason");
            if error.get_i32("code").is_ok_and(is_of_store) {
                lost.get_or_insert_with(|| Failure::new(Exit::Failed, message));
                continue;
            }
            if let Some(document) = at.and_then(|at| documents.get(at)) {
                self.refuse(batch, document, message);
            }
        }
        let inserted = count(&reply, "n").unwrap_or_default();
        self.tally.documents.fetch_add(inserted, std::sync::atomic::Ordering::Relaxed);
        if let Ok(concern) = reply.get_document("writeConcernError") {
            let message = concern.get_str("errmsg").unwrap_or_default();
            return Err(Failure::new(Exit::Failed, format!("a batch may not be durable: {message}")));
        }
        lost.map_or(Ok(()), Err)
    }

    fn refuse(&self, batch: &Directed, document: &RawDocument, message: &str) {
        let mut id = Vec::new();
        match document.get("_id") {
            Ok(Some(value)) => drop(write_value(&mut id, value, Mode::Relaxed)),
            Ok(None) | Err(_) => id.extend_from_slice(b"none"),
        }
        let Directed { database, name, shown, .. } = batch;
        let (id, message) = (String::from_utf8_lossy(&id), message.replace(name.as_str(), shown));
        self.tally.refuse(&format!("{database}.{shown}, _id {id}: {message}"));
    }
}

/// The thread that reads.
struct Reading<'a, 'b> {
    loader: &'a Loader<'b>,
    sender: SyncSender<Directed>,
    /// By collection.
    waiting: Vec<Option<Directed>>,
    /// Which collections are capped.
    capped: Vec<bool>,
    /// The number of waiting bytes.
    bytes: usize,
    loaded: &'a mut Loaded,
}

impl Reading<'_, '_> {
    fn read(&mut self, source: &mut Source, plan: &mut Plan, progress: &mut Progress) -> Result<(), Failure> {
        self.waiting.resize_with(plan.planned.len(), || None);
        for planned in &plan.planned {
            let is_capped = |planned: &Planned| {
                Ok::<_, Failure>(planned.metadata()?.options.get_bool("capped").unwrap_or(false))
            };
            self.capped.push(planned.as_ref().map(is_capped).transpose()?.unwrap_or(false));
        }
        let (mut document, mut count) = (Vec::new(), 0_u64);
        while self.loader.signals.received().is_none() && !self.loader.tally.is_failed() {
            match source.next(plan, &mut document)? {
                None => return Ok(()),
                Some(Piece::Document(at)) => {
                    self.document(plan, at, &document);
                    count += 1;
                    if count.is_multiple_of(SHOWN_EACH) {
                        progress.set(source.position());
                    }
                }
                Some(Piece::End(at, carried)) => self.end(plan, at, carried)?,
            }
        }
        Ok(())
    }

    fn document(&mut self, plan: &Plan, at: usize, document: &[u8]) {
        // mongodump writes views into archives as collections without documents.
        let planned =
            plan.planned.get(at).and_then(Option::as_ref).filter(|planned| planned.kind != DumpedKind::View);
        let Some(planned) = planned else { return };
        Tally::add(&self.loader.tally.bytes, document.len());
        if let Some(fingerprint) = self.loaded.fingerprints.get_mut(at).and_then(Option::as_mut) {
            fingerprint.add(document);
        }
        if self.loader.store.is_none() {
            Tally::add(&self.loader.tally.documents, 1);
            return;
        }
        if self
            .waiting
            .get(at)
            .is_some_and(|batch| batch.as_ref().is_some_and(|waiting| waiting.batch.is_full_for(document)))
        {
            self.send(at);
        }
        if let Some(batch) = self.waiting.get_mut(at) {
            let new = || Directed {
                database: planned.database.clone(),
                name: planned.filled().to_owned(),
                shown: planned.name.clone(),
                is_of_users: planned.kind == DumpedKind::Users,
                is_ordered: self.capped.get(at).copied().unwrap_or(false),
                batch: Batch::default(),
            };
            batch.get_or_insert_with(new).batch.push(document);
            self.bytes += document.len();
        }
        if self.bytes > WAITING_BYTES {
            let largest =
                |waiting: &Option<Directed>| waiting.as_ref().map_or(0, |waiting| waiting.batch.bytes());
            let at = self.waiting.iter().enumerate().max_by_key(|(_, batch)| largest(batch));
            if let Some((at, _)) = at {
                self.send(at);
            }
        }
    }

    fn send(&mut self, at: usize) {
        let Some(batch) = self.waiting.get_mut(at).and_then(Option::take) else { return };
        self.bytes -= batch.batch.bytes();
        if batch.is_ordered {
            // By this thread: workers would store batches in any order.
            return self.loader.store(&batch);
        }
        // Without a worker the tool has panicked already.
        let _ = self.sender.send(batch);
    }

    fn end(&mut self, plan: &mut Plan, at: usize, carried: Option<Document>) -> Result<(), Failure> {
        self.send(at);
        let Some(mut carried) = carried else { return Ok(()) };
        if carried.contains_key("sequences") {
            let sequences = prelude::sequences(&mut carried);
            self.loaded.sequences =
                Some(sequences.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?);
        }
        if let Some(planned) = plan.planned.get_mut(at).and_then(Option::as_mut) {
            planned.numbered = numbered(&mut carried).or(planned.numbered.take());
        }
        Ok(())
    }
}

/// Whether a collection has any documents.
pub(crate) fn has_documents(store: &dyn Store, database: &str, name: &str) -> Result<bool, Failure> {
    let find = crate::command::raw(&doc! { "find": name, "limit": 1 })?;
    store.stream(database, find)?.advance()
}
