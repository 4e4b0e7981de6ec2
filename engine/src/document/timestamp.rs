//! `Timestamp(0, 0)` at the top level of a stored document means the current time, as in MongoDB.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bson::spec::ElementType;
use index::element::elements;
use index::validate::ValidDocument;

use crate::document::length::LENGTH_BYTES;

/// Whether zero timestamps are to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timestamps {
    AsTheyAre,
    FillZeros,
}

impl Timestamps {
    /// The timestamps that the top-level fields of the document ask for.
    pub(crate) fn of(document: &ValidDocument<'_>) -> Self {
        if document.has_zero_timestamp() { Self::FillZeros } else { Self::AsTheyAre }
    }

    /// Fills in the zero timestamps of a document, if it has any.
    #[inline]
    pub(crate) fn fill(self, document: &mut [u8]) {
        if self == Self::FillZeros {
            fill_zeros(document);
        }
    }
}

/// Replaces top-level `Timestamp(0, 0)` by the clock, as MongoDB does on insert; `_id` is left as it is.
fn fill_zeros(bytes: &mut [u8]) {
    let mut end = LENGTH_BYTES;
    let mut found = Vec::new();
    for element in elements(bytes) {
        end += element.whole.len();
        if element.kind == ElementType::Timestamp && element.name != b"_id" {
            found.push(end - element.value.len()..end);
        }
    }
    // In a second loop: the elements borrow the bytes that are written here.
    for timestamp in found {
        if let Some(field) = bytes.get_mut(timestamp)
            && field.iter().all(|&byte| byte == 0)
        {
            field.copy_from_slice(&next_timestamp().to_le_bytes());
        }
    }
}

/// The current time as a timestamp: seconds in the upper half, an increment in the lower. It is never the same twice in
/// a process.
pub(crate) fn next_timestamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Before 1970 the seconds are 0, and timestamps still differ by their increment.
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    // Increments start at 1, as MongoDB's do.
    let now = seconds << 32 | 1;
    // `Relaxed` is enough: no other memory is read by this number.
    let mut last = LAST.load(Ordering::Relaxed);
    loop {
        let next = now.max(last + 1);
        match LAST.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(newer) => last = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocument, RawDocumentBuf, Timestamp, rawdoc};
    use index::validate::validate;

    use super::*;

    #[test]
    fn zero_timestamps_become_the_clock_and_differ() {
        let zero = Timestamp { time: 0, increment: 0 };
        let document = rawdoc! { "_id": zero, "a": zero, "n": { "b": zero }, "c": zero, "d": 1 };
        let timestamps = Timestamps::of(&validate(document.as_bytes()).expect("well-formed"));
        let mut bytes = document.into_bytes();
        timestamps.fill(&mut bytes);
        let document: &RawDocument = &RawDocumentBuf::from_bytes(bytes).expect("well-formed");
        let at = |name| document.get_timestamp(name).expect("a timestamp");
        assert_eq!(at("_id"), zero);
        assert!(at("a").time > 0 && at("c").time > 0 && at("a") != at("c"));
        let nested = document.get_document("n").expect("a document").get_timestamp("b").expect("a timestamp");
        assert_eq!(nested, zero, "only top-level timestamps are filled in");
        assert_eq!(document.get_i32("d").ok(), Some(1));
    }
}
