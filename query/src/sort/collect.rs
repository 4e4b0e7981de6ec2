//! Collecting documents and giving them back in order.
//!
//! With a limit only the documents that are first so far are kept, in a heap whose top is the last of them: a document
//! that comes no earlier costs its key, drawn into a buffer that is there already, and one comparison. Its payload
//! is never made. Documents that compare equal come out as they came in.

use std::collections::BinaryHeap;
use std::vec::IntoIter;

use bson::{RawDocument, RawDocumentBuf};

use crate::operation::{OperationContext, Reservation};
use crate::sort::Sort;
use crate::sort::error::Error;
use crate::sort::key::{Drawing, Standing};

/// What a sorter keeps of a document.
pub trait Payload {
    /// How many bytes it takes on the heap.
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

/// Collects documents, or what is to be kept of them, in the order of a sort.
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
    kept: Kept<P>,
    drawing: Drawing,
    /// How many documents came.
    pushed: u64,
    memory_bytes: usize,
    memory_bytes_max: usize,
    room: Reservation,
}

#[derive(Debug)]
enum Kept<P> {
    All(Vec<Entry<P>>),
    First { limit: usize, heap: BinaryHeap<Entry<P>> },
}

#[derive(Debug)]
struct Entry<P> {
    key: Vec<u8>,
    /// Which document it was; decides between equal keys.
    number: u64,
    payload: P,
}

impl<P: Payload> Sorter<P> {
    /// A sorter that keeps all documents, or the first `limit`, in at most `memory_bytes_max` bytes.
    pub fn new(sort: Sort, limit: Option<usize>, memory_bytes_max: usize) -> Self {
        let kept = match limit {
            None => Kept::All(Vec::new()),
            Some(limit) => Kept::First { limit, heap: BinaryHeap::new() },
        };
        let (drawing, room) = (Drawing::default(), Reservation::default());
        Self { sort, kept, drawing, pushed: 0, memory_bytes: 0, memory_bytes_max, room }
    }

    /// The sorter for an operation, which counts the documents and holds what is kept.
    pub fn within(self, operation: &OperationContext) -> Self {
        Self { room: Reservation::of(operation), ..self }
    }

    /// Takes a document. `payload` is asked for only if the document is kept.
    ///
    /// # Errors
    /// If the document cannot be sorted, or what is kept takes too much memory.
    #[inline]
    pub fn push(&mut self, document: &RawDocument, payload: impl FnOnce() -> P) -> Result<(), Error> {
        self.room.operation().pass(document.as_bytes().len())?;
        let number = self.pushed;
        self.pushed += 1;
        let standing = self.drawing.draw(&self.sort, document, self.kept.last_key())?;
        if standing == Standing::NotBefore || self.kept.is_closed() {
            return Ok(());
        }
        self.keep(number, payload())
    }

    /// How many documents are kept.
    pub fn len(&self) -> usize {
        match &self.kept {
            Kept::All(entries) => entries.len(),
            Kept::First { heap, .. } => heap.len(),
        }
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the kept documents and their keys take.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// What was kept, in order.
    pub fn into_sorted_iter(self) -> Sorted<P> {
        let entries = match self.kept {
            Kept::All(mut entries) => {
                entries.sort_unstable();
                entries
            }
            Kept::First { heap, .. } => heap.into_sorted_vec(),
        };
        let payloads: Vec<P> = entries.into_iter().map(|entry| entry.payload).collect();
        Sorted { rest: payloads.into_iter(), _room: self.room }
    }

    /// Keeps the document whose key was drawn last.
    fn keep(&mut self, number: u64, payload: P) -> Result<(), Error> {
        let payload_bytes = payload.heap_bytes();
        match &mut self.kept {
            Kept::All(entries) => {
                let entry = Entry { key: self.drawing.key().to_vec(), number, payload };
                self.memory_bytes += entry.bytes(payload_bytes);
                entries.push(entry);
            }
            Kept::First { limit, heap } if heap.len() < *limit => {
                let entry = Entry { key: self.drawing.key().to_vec(), number, payload };
                self.memory_bytes += entry.bytes(payload_bytes);
                heap.push(entry);
            }
            Kept::First { heap, .. } => {
                // The last one makes room, and the heap restores its order when the access ends.
                if let Some(mut last) = heap.peek_mut() {
                    self.memory_bytes -= last.bytes(last.payload.heap_bytes());
                    self.drawing.swap_key(&mut last.key);
                    last.number = number;
                    last.payload = payload;
                    self.memory_bytes += last.bytes(payload_bytes);
                }
            }
        }
        if self.memory_bytes > self.memory_bytes_max {
            return Err(Error::MemoryExceeded { limit: self.memory_bytes_max });
        }
        Ok(self.room.grow_by_steps(self.memory_bytes)?)
    }
}

/// What a sorter kept, in order. The operation holds all of it until this is dropped.
#[derive(Debug)]
pub struct Sorted<P> {
    rest: IntoIter<P>,
    _room: Reservation,
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

impl<P> Kept<P> {
    /// The key that a document must come before, once there is no room for more.
    fn last_key(&self) -> Option<&[u8]> {
        match self {
            Self::First { limit, heap } if heap.len() >= *limit => Some(heap.peek()?.key.as_slice()),
            Self::First { .. } | Self::All(_) => None,
        }
    }

    /// Whether nothing is ever kept.
    fn is_closed(&self) -> bool {
        matches!(self, Self::First { limit: 0, .. })
    }
}

impl<P> Entry<P> {
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
