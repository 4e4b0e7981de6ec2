//! Collecting documents and returning them in order.
//!
//! With a limit only the first documents so far are kept, in a heap with the last of them on top. A document
//! that comes after it costs one key, in a buffer that is there already, and one comparison. Its payload is
//! not made. Documents with equal keys keep the order in which they were pushed.

use std::collections::BinaryHeap;
use std::vec::IntoIter;

use bson::{RawDocument, RawDocumentBuf};

use crate::operation::{OperationContext, Reservation};
use crate::sort::Sort;
use crate::sort::error::Error;
use crate::sort::key::KeyEncoder;

/// Fewer bytes are not moved to a file before the limit of the sort is reached.
const SPILLED_BYTES_MIN: usize = 1 << 20;

/// The part of a document that a sorter keeps.
pub trait Payload {
    /// The bytes that the payload uses on the heap, which count for the sorter's limit of memory.
    fn heap_bytes(&self) -> usize;
}

impl Payload for RawDocumentBuf {
    fn heap_bytes(&self) -> usize {
        self.as_bytes().len()
    }
}

impl Payload for Vec<u8> {
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl Payload for Box<[u8]> {
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

/// Sorts documents, or what it keeps of each one, within a limit of memory.
///
/// ```
/// use bson::{RawDocumentBuf, rawdoc};
/// use cairndb_query::sort::Sort;
/// use cairndb_query::sort::collect::Sorter;
///
/// let sort = Sort::parse(&rawdoc! { "a": -1 })?;
/// let mut sorter = Sorter::new(sort, Some(2), 1 << 20);
/// for document in [rawdoc! { "a": 1 }, rawdoc! { "a": 3 }, rawdoc! { "a": 2 }] {
///     sorter.push(&document, || document.clone())?;
/// }
/// let first: Vec<RawDocumentBuf> = sorter.into_sorted_iter().collect();
/// assert_eq!(first, [rawdoc! { "a": 3 }, rawdoc! { "a": 2 }]);
/// # Ok::<(), cairndb_query::sort::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Sorter<P> {
    sort: Sort,
    buffer: Buffer<P>,
    encoder: KeyEncoder,
    /// The number of documents that were pushed.
    pushed: u64,
    memory_bytes: usize,
    memory_bytes_max: usize,
    room: Reservation,
    /// Whether what is kept can be moved to a file. Then a lack of memory ends neither the sort nor the operation.
    can_spill: bool,
}

/// The documents that may be returned.
#[derive(Debug)]
enum Buffer<P> {
    /// All of them, in any order.
    All(Vec<Entry<P>>),
    /// The first `limit` so far. The top of the heap is the last of them.
    First { limit: usize, heap: BinaryHeap<Entry<P>> },
}

#[derive(Debug)]
pub(super) struct Entry<P> {
    pub(super) key: Vec<u8>,
    /// The number of the document. It decides between equal keys, so the sort is stable.
    number: u64,
    pub(super) payload: P,
}

impl<P: Payload> Sorter<P> {
    /// A sorter that keeps all documents, or the first `limit` of them, in at most `memory_bytes_max` bytes.
    pub fn new(sort: Sort, limit: Option<usize>, memory_bytes_max: usize) -> Self {
        let buffer = match limit {
            None => Buffer::All(Vec::new()),
            Some(limit) => Buffer::First { limit, heap: BinaryHeap::new() },
        };
        let (encoder, room) = (KeyEncoder::default(), Reservation::default());
        Self { sort, buffer, encoder, pushed: 0, memory_bytes: 0, memory_bytes_max, room, can_spill: false }
    }

    /// Makes the sorter a part of an operation: documents count as its steps, and what is kept as its memory.
    pub fn within(self, operation: &OperationContext) -> Self {
        Self { room: Reservation::of(operation), ..self }
    }

    /// Adds a document. `payload` is called only if the document is kept.
    ///
    /// # Errors
    /// If the document cannot be sorted, if what is kept exceeds the limit of memory, or if the operation is
    /// to end.
    #[inline]
    pub fn push(&mut self, document: &RawDocument, payload: impl FnOnce() -> P) -> Result<(), Error> {
        self.push_after(&[], document, payload)
    }

    /// Adds a document that is sorted by `prefix` before anything else: bytes that sort as the values of an expression.
    #[inline]
    pub(crate) fn push_after(
        &mut self,
        prefix: &[u8],
        document: &RawDocument,
        payload: impl FnOnce() -> P,
    ) -> Result<(), Error> {
        // Each document counts, also one that is not kept: its key is encoded in any case.
        self.room.operation().pass(document.as_bytes().len())?;
        let number = self.pushed;
        self.pushed += 1;
        self.encoder.encode_after(prefix, &self.sort.order, document)?;
        // An equal key is not before the last one: earlier documents stay first.
        let is_before = self.buffer.last_key().is_none_or(|last| self.encoder.key() < last);
        // With a limit of 0 the heap stays empty and has no last key, so this case has a check of its own.
        if !is_before || self.buffer.is_closed() {
            return Ok(());
        }
        self.keep(number, payload())
    }

    /// The number of documents that are kept.
    pub fn len(&self) -> usize {
        match &self.buffer {
            Buffer::All(entries) => entries.len(),
            Buffer::First { heap, .. } => heap.len(),
        }
    }

    /// Whether no document is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the documents that are kept, with their keys.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The payloads that were kept, in order.
    pub fn into_sorted_iter(self) -> Sorted<P> {
        let payloads: Vec<P> = self.buffer.into_sorted().into_iter().map(|entry| entry.payload).collect();
        Sorted { rest: payloads.into_iter(), _room: self.room }
    }

    /// Lets the sorter give back what it keeps when memory is short, with the error [`Error::MemoryExceeded`]: nothing is
    /// lost then, and [`take_sorted`](Self::take_sorted) makes room for more.
    pub(super) fn spilling(self) -> Self {
        Self { can_spill: true, ..self }
    }

    /// Removes and returns what is kept, in order. Its memory counts until [`forget`](Self::forget) is called.
    pub(super) fn take_sorted(&mut self) -> Vec<Entry<P>> {
        // Its capacity is given up with it: the next run may never come.
        let empty = match &self.buffer {
            Buffer::All(_) => Buffer::All(Vec::new()),
            Buffer::First { limit, .. } => Buffer::First { limit: *limit, heap: BinaryHeap::new() },
        };
        std::mem::replace(&mut self.buffer, empty).into_sorted()
    }

    /// Gives back the memory of what was removed.
    pub(super) fn forget(&mut self) {
        self.memory_bytes = 0;
        self.room.clear();
    }

    /// The number of pushed documents.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Keeps the document whose key was encoded last.
    fn keep(&mut self, number: u64, payload: P) -> Result<(), Error> {
        let payload_bytes = payload.heap_bytes();
        match &mut self.buffer {
            Buffer::All(entries) => {
                let entry = Entry { key: self.encoder.key().to_vec(), number, payload };
                self.memory_bytes += entry.bytes(payload_bytes);
                entries.push(entry);
            }
            // Keys are copied at their exact length, and the encoder keeps its larger buffer.
            Buffer::First { limit, heap } if heap.len() < *limit => {
                let entry = Entry { key: self.encoder.key().to_vec(), number, payload };
                self.memory_bytes += entry.bytes(payload_bytes);
                heap.push(entry);
            }
            Buffer::First { heap, .. } => {
                // The new document replaces the last one, and the heap restores its order when `last` is
                // dropped.
                if let Some(mut last) = heap.peek_mut() {
                    self.memory_bytes -= last.bytes(last.payload.heap_bytes());
                    self.encoder.swap_key(&mut last.key);
                    last.number = number;
                    last.payload = payload;
                    self.memory_bytes += last.bytes(payload_bytes);
                }
            }
        }
        // The document is in memory already, so the limit may be exceeded by one document for a moment.
        let exceeded = Error::MemoryExceeded { limit: self.memory_bytes_max };
        if self.memory_bytes > self.memory_bytes_max {
            return Err(exceeded);
        }
        // Other stages and operations may have what is left. But files of a few documents would be too many.
        let is_worth_a_file =
            self.can_spill && self.memory_bytes >= self.memory_bytes_max.min(SPILLED_BYTES_MIN);
        if is_worth_a_file && !self.room.try_grow_by_steps(self.memory_bytes) {
            return Err(exceeded);
        }
        Ok(self.room.grow_by_steps(self.memory_bytes)?)
    }
}

/// The payloads of a sorter, in order. Their memory counts for the operation until the iterator is dropped.
#[derive(Debug)]
pub struct Sorted<P> {
    rest: IntoIter<P>,
    _room: Reservation,
}

impl<P> Sorted<P> {
    /// The payloads that are left.
    pub(super) fn left(&self) -> &[P] {
        self.rest.as_slice()
    }
}

impl<P> Iterator for Sorted<P> {
    type Item = P;

    fn next(&mut self) -> Option<P> {
        self.rest.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rest.size_hint()
    }
}

impl<P> ExactSizeIterator for Sorted<P> {}

impl<P> Buffer<P> {
    fn into_sorted(self) -> Vec<Entry<P>> {
        match self {
            Self::All(mut entries) => {
                // The numbers make all entries different, so an unstable sort gives a stable result.
                entries.sort_unstable();
                entries
            }
            Self::First { heap, .. } => heap.into_sorted_vec(),
        }
    }

    /// The key before which a document must come to be kept. Returns `None` while there is room for every
    /// document.
    fn last_key(&self) -> Option<&[u8]> {
        match self {
            Self::First { limit, heap } if heap.len() >= *limit => Some(heap.peek()?.key.as_slice()),
            Self::First { .. } | Self::All(_) => None,
        }
    }

    /// Whether no document is ever kept, because the limit is 0.
    fn is_closed(&self) -> bool {
        matches!(self, Self::First { limit: 0, .. })
    }
}

impl<P> Entry<P> {
    /// The bytes of an entry whose payload uses `payload_bytes`.
    fn bytes(&self, payload_bytes: usize) -> usize {
        size_of::<Self>() + self.key.len() + payload_bytes
    }
}

impl<P> PartialEq for Entry<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for Entry<P> {}

impl<P> PartialOrd for Entry<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Entry<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key).then(self.number.cmp(&other.number))
    }
}
