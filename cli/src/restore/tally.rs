//! The work of a restore so far, counted by all its threads.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use query::code::Code;

use crate::failure::Failure;
use crate::figures::{
    COLLECTIONS, DOCUMENTS, FIELDS, INDEXES, OTHERS, SEQUENCES, VIEWS, counted, counted_were, list, size,
};
use crate::talk::warn;

/// Things are named on standard error up to this many; the report counts all.
const NAMED_MAX: u64 = 100;

/// Errors that are none of the thing that was asked for: with the next one it would be the same.
const OF_THE_STORE: [Code; 15] = [
    Code::AUTHENTICATION_FAILED,
    Code::EXCEEDED_TIME_LIMIT,
    Code::HOST_NOT_FOUND,
    Code::HOST_UNREACHABLE,
    // Of a call that a signal ended too, whose answer did not come.
    Code::INTERRUPTED,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::NETWORK_TIMEOUT,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    Code::NOT_WRITABLE_PRIMARY,
    Code::OUT_OF_DISK_SPACE,
    Code::PRIMARY_STEPPED_DOWN,
    Code::SHUTDOWN_IN_PROGRESS,
    Code::UNAUTHORIZED,
];

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) collections: AtomicU64,
    pub(crate) views: AtomicU64,
    pub(crate) documents: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) indexes: AtomicU64,
    pub(crate) fields: AtomicU64,
    pub(crate) sequences: AtomicU64,
    pub(crate) left_out: AtomicU64,
    pub(crate) differences: AtomicU64,
    /// Documents that differ, where they were counted one by one.
    pub(crate) differing_documents: AtomicU64,
    /// Documents that differ, which are listed besides.
    named: AtomicU64,
    failure: Mutex<Option<Failure>>,
    /// The indexes that cannot be restored, by namespace and name.
    left_out_indexes: Mutex<HashSet<(String, String)>>,
    /// The messages, if they are kept for the caller.
    kept: Option<Mutex<Vec<String>>>,
}

impl Tally {
    /// A tally that names nothing on standard error: [`kept`](Self::kept) has what it would name.
    pub(crate) fn keeping() -> Self {
        Self { kept: Some(Mutex::default()), ..Self::default() }
    }

    /// Removes and returns what was kept so far.
    pub(crate) fn kept(&self) -> Vec<String> {
        let kept = self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
    }

    pub(crate) fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Counts an index, an option or the like that cannot be restored, and names it.
    pub(crate) fn leave_out(&self, what: &str) {
        self.name(&self.left_out, what);
    }

    /// The same of an index, which is remembered.
    pub(crate) fn leave_out_index(&self, namespace: &str, name: &str, reason: &str) {
        let mut left_out = self.left_out_indexes.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.insert((namespace.to_owned(), name.to_owned()));
        drop(left_out);
        self.leave_out(&format!("{namespace}, index {name}: {reason}"));
    }

    /// Whether an index was left out.
    pub(crate) fn has_left_out_index(&self, namespace: &str, name: &str) -> bool {
        let left_out = self.left_out_indexes.lock().unwrap_or_else(PoisonError::into_inner);
        left_out.contains(&(namespace.to_owned(), name.to_owned()))
    }

    /// Counts a document that the store rejects, and names it.
    pub(crate) fn refuse(&self, what: &str) {
        self.name(&self.refused, what);
    }

    /// Counts something that the store has otherwise than the dump, and names it.
    pub(crate) fn differ(&self, what: &str) {
        self.name(&self.differences, what);
    }

    fn name(&self, count: &AtomicU64, what: &str) {
        if let Some(kept) = &self.kept {
            count.fetch_add(1, Ordering::Relaxed);
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
            return;
        }
        let before = count.fetch_add(1, Ordering::Relaxed);
        if before < NAMED_MAX {
            warn(what);
        }
        if before == NAMED_MAX {
            warn("more of this kind are counted and not named");
        }
    }

    /// Names a document of a difference that is counted already.
    pub(crate) fn name_difference(&self, what: &str) {
        self.name(&self.named, what);
    }

    /// Keeps the failure of a thread. The first one is reported: the others may follow from it.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The failure of a thread, if one failed.
    pub(crate) fn result(&self) -> Result<(), Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// The restored objects, for people: without counts that are zero.
    pub(crate) fn told(&self) -> String {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let things = list(&[
            (load(&self.collections), COLLECTIONS),
            (load(&self.views), VIEWS),
            (load(&self.documents), DOCUMENTS),
        ]);
        let bytes = Some(load(&self.bytes)).filter(|bytes| *bytes > 0).map(size);
        let more = list(&[
            (load(&self.indexes), INDEXES),
            (load(&self.fields), FIELDS),
            (load(&self.sequences), SEQUENCES),
        ]);
        let parts = [Some(things), bytes, Some(more)];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Describes what was not carried, as `2 documents and 1 other thing were`. Returns `None` if all was.
    pub(crate) fn left_behind(&self) -> Option<String> {
        let (documents, others) =
            (self.refused.load(Ordering::Relaxed), self.left_out.load(Ordering::Relaxed));
        match (documents, others) {
            (0, 0) => None,
            (_, 0) => Some(counted_were(documents, DOCUMENTS)),
            (0, _) => Some(counted_were(others, OTHERS)),
            (_, _) => Some(format!("{} and {} were", counted(documents, DOCUMENTS), counted(others, OTHERS))),
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("collections", &self.collections),
            ("views", &self.views),
            ("documents", &self.documents),
            ("bytes", &self.bytes),
            ("refused", &self.refused),
            ("indexes", &self.indexes),
            ("autoIncrements", &self.fields),
            ("sequences", &self.sequences),
            ("leftOut", &self.left_out),
            ("differences", &self.differences),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
        .to_vec()
    }
}

/// Returns the failure if it is not the answer to what was asked, but of the store or the way to it.
pub(crate) fn refusal(failure: Failure) -> Result<Failure, Failure> {
    if failure.code.is_none_or(is_of_store) { Err(failure) } else { Ok(failure) }
}

/// Whether an error with this code is of the store or the way to it, also where a reply has it as that of one document.
pub(crate) fn is_of_store(code: i32) -> bool {
    OF_THE_STORE.iter().any(|of_store| *of_store == code)
}
