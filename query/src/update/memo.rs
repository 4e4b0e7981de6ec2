//! Updates that were parsed lately.
//!
//! A program that counts or marks documents gives the same few updates again and again, and to parse one costs as much as to
//! apply it. So each thread remembers some that set and add a few values, by their bytes: nothing is shared, and nothing can be
//! out of date.

use std::cell::RefCell;
use std::sync::Arc;

use bson::RawDocument;

use crate::update::error::Error;
use crate::update::parse::Operators;

/// The number of updates that a thread remembers.
const PLACES: usize = 8;
/// Longer ones are not remembered: they bring values that seldom come again.
const BYTES_MAX: usize = 256;

/// An update document and what it was parsed to.
struct Parsed {
    bytes: Box<[u8]>,
    operators: Arc<Operators>,
}

thread_local! {
    static LAST: RefCell<[Option<Parsed>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The operators of an update that this thread parsed before, or that `parse` reads now. It has no array filters, and compares texts by their bytes.
pub(super) fn remembered(
    update: &RawDocument,
    parse: impl FnOnce() -> Result<Arc<Operators>, Error>,
) -> Result<Arc<Operators>, Error> {
    let bytes = update.as_bytes();
    if bytes.len() > BYTES_MAX {
        return parse();
    }
    let place = place_of(bytes);
    let found = LAST.try_with(|last| {
        let last = last.borrow();
        let parsed = last.get(place).and_then(Option::as_ref).filter(|parsed| *parsed.bytes == *bytes);
        parsed.map(|parsed| Arc::clone(&parsed.operators))
    });
    // A thread that is ending remembers nothing.
    if let Ok(Some(found)) = found {
        return Ok(found);
    }
    let operators = parse()?;
    // Others may hold patterns, which use much memory for few bytes.
    if !operators.is_patch {
        return Ok(operators);
    }
    let parsed = Parsed { bytes: bytes.into(), operators: Arc::clone(&operators) };
    let _ = LAST.try_with(|last| {
        if let Some(place) = last.borrow_mut().get_mut(place) {
            *place = Some(parsed);
        }
    });
    Ok(operators)
}

/// Every byte counts, so that updates that differ in one value are not all at one place.
fn place_of(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |place: usize, &byte| place.wrapping_mul(31).wrapping_add(byte.into())) % PLACES
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, rawdoc};

    use super::*;
    use crate::update::{Context, Phase, Update};

    fn parsed(update: &RawDocument) -> Arc<Operators> {
        remembered(update, || {
            Ok(Arc::new(Operators::parse(update, &[], &index::collation::Collation::simple())?))
        })
        .expect("an update")
    }

    #[test]
    fn the_same_bytes_are_parsed_once_and_others_are_not_taken_for_them() {
        let one = rawdoc! { "$set": { "a": 0.0, "b": 1 } };
        let first = parsed(&one);
        assert!(Arc::ptr_eq(&first, &parsed(&one.clone())));
        // Equal as values, and in another order.
        for other in [rawdoc! { "$set": { "a": -0.0, "b": 1 } }, rawdoc! { "$set": { "b": 1, "a": 0.0 } }] {
            assert!(!Arc::ptr_eq(&first, &parsed(&other)));
        }
        let long = rawdoc! { "$set": { "a": "x".repeat(BYTES_MAX) } };
        let pattern = rawdoc! { "$pull": { "a": { "$regex": "x" } } };
        for other in [long, pattern] {
            assert!(!Arc::ptr_eq(&parsed(&other), &parsed(&other)));
        }
    }

    #[test]
    fn what_is_refused_is_refused_again() {
        for _ in 0..2 {
            assert!(Update::parse(&rawdoc! { "$inc": { "a": "text" } }, &[]).is_err());
        }
    }

    #[test]
    fn many_updates_in_turns_do_what_each_says() {
        let context =
            Context::new(Phase::Modify, bson::DateTime::from_millis(0), Timestamp { time: 0, increment: 1 });
        for number in (0..100).chain(0..100) {
            let update = Update::parse(&rawdoc! { "$set": { "a": number } }, &[]).expect("an update");
            let changed = update.apply(&rawdoc! { "_id": 1 }, &context).expect("applied");
            assert_eq!(changed, Some(rawdoc! { "_id": 1, "a": number }));
        }
    }
}
