//! The collections of a dump, several at once: each worker reads one from its first document to its last, and starts the
//! next.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cairndb::bson::Document;

use crate::dump::catalog::Found;
use crate::dumped::DumpedKind;
use crate::failure::Failure;
use crate::output::Written;
use crate::signals::Signals;
use crate::store::Store;
use crate::talk::Progress;

/// Progress is shown after as many documents.
const SHOWN_EACH: u64 = 256;

/// A dump that accepts collections.
pub(super) trait Dump: Sync {
    /// Begins a collection.
    fn begin<'a>(&'a self, found: &'a Found) -> Result<Box<dyn Documents + 'a>, Failure>;
}

/// A collection of a dump that is being written.
pub(super) trait Documents {
    fn write(&mut self, document: &[u8]) -> Result<Written, Failure>;
    /// Ends the collection, of which all documents are written.
    fn end(self: Box<Self>, numbered: Vec<Document>) -> Result<Written, Failure>;
}

/// State shared by the workers.
pub(super) struct Work<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) found: &'a [Found],
    pub(super) filter: Option<&'a Document>,
    pub(super) signals: &'a Signals,
    pub(super) counts: &'a Counts,
    pub(super) progress: Mutex<Progress>,
}

/// The work that is done so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) collections: AtomicU64,
    pub(super) views: AtomicU64,
    pub(super) documents: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// A reader of standard output is gone.
    pub(super) is_unwanted: AtomicBool,
}

impl Work<'_> {
    /// Dumps all collections, `jobs` at once.
    pub(super) fn run(&self, dump: &dyn Dump, jobs: u16) -> Result<(), Failure> {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<Failure>));
        let is_failed = AtomicBool::new(false);
        let work = || {
            while !is_failed.load(Ordering::Relaxed) && !self.is_over() {
                let Some(found) = self.found.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                if let Err(failure) = self.collection(dump, found) {
                    is_failed.store(true, Ordering::Relaxed);
                    // The first failure is reported: the others may follow from it.
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs {
                scope.spawn(work);
            }
            work();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn collection(&self, dump: &dyn Dump, found: &Found) -> Result<(), Failure> {
        let mut writer = dump.begin(found)?;
        if found.kind != DumpedKind::View && self.documents(&mut *writer, found)? == Written::NotWanted {
            return Ok(());
        }
        if self.signals.received().is_some() {
            return Ok(());
        }
        // After the documents: none of them has a number that the position does not know.
        let numbered = found.numbered(self.store)?;
        if writer.end(numbered)? == Written::NotWanted {
            self.counts.is_unwanted.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let counted = match found.kind {
            DumpedKind::Collection | DumpedKind::Users => &self.counts.collections,
            DumpedKind::View => &self.counts.views,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn documents(&self, writer: &mut dyn Documents, found: &Found) -> Result<Written, Failure> {
        let mut documents = match found.kind {
            DumpedKind::Users => self.store.users()?,
            DumpedKind::Collection | DumpedKind::View => {
                self.store.stream(&found.database, found.find(self.filter)?)?
            }
        };
        while !self.is_over() && documents.advance()? {
            let document = documents.current().as_bytes();
            if writer.write(document)? == Written::NotWanted {
                self.counts.is_unwanted.store(true, Ordering::Relaxed);
                return Ok(Written::NotWanted);
            }
            self.counts.bytes.fetch_add(document.len() as u64, Ordering::Relaxed);
            let done = self.counts.documents.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(SHOWN_EACH) {
                self.progress.lock().unwrap_or_else(PoisonError::into_inner).set(done);
            }
        }
        Ok(if self.is_unwanted() { Written::NotWanted } else { Written::Whole })
    }

    fn is_over(&self) -> bool {
        self.signals.received().is_some() || self.is_unwanted()
    }

    fn is_unwanted(&self) -> bool {
        self.counts.is_unwanted.load(Ordering::Relaxed)
    }
}
