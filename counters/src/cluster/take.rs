//! Calls to the collection of counters, within a transaction or outside of one.

use bson::{Document, doc};
use mongodb::options::{ReturnDocument, UpdateModifications};
use mongodb::sync::{ClientSession, Collection};
use sequence::error::SequenceError;

use crate::cluster::counter::{Counter, Run, Update};
use crate::error::Result;

/// The number of characters of a name that an error repeats.
const NAME_MAX: usize = 48;

/// Reads a counter.
pub(super) fn read(
    counters: &Collection<Document>,
    id: &str,
    session: Option<&mut ClientSession>,
) -> Result<Counter> {
    let found = match session {
        Some(session) => counters.find_one(doc! { "_id": id }).session(session).run()?,
        None => counters.find_one(doc! { "_id": id }).run()?,
    };
    match found {
        Some(found) => Counter::parse(&found),
        None => Err(SequenceError::NotFound { name: id.chars().take(NAME_MAX).collect() }.into()),
    }
}

/// Draws values of a counter, at least one and at most `count`, by one call where the counter is as it is `known` to be.
pub(super) fn take(
    counters: &Collection<Document>,
    mut known: Counter,
    mut count: u64,
    mut session: Option<&mut ClientSession>,
) -> Result<(Counter, Run)> {
    loop {
        let (filter, update) = known.taking(count);
        if let Some(found) = run(counters, filter, &update, session.as_deref_mut())? {
            let found = Counter::parse(&found)?;
            let run = match update {
                Update::Add(_) => found.taken(found.seq(), count),
                Update::Around(_) => found.taken_around(found.seq(), count),
            };
            return Ok((found, run));
        }
        // It was declared again, or fewer values are left. Another process may draw those before this one does.
        known = read(counters, &known.id, session.as_deref_mut())?;
        if !known.is_cycled() {
            count = known.left(count);
            if count == 0 {
                return Err(known.exceeded().into());
            }
        }
    }
}

/// Has a counter pass a value that a document brings.
pub(super) fn pass(
    counters: &Collection<Document>,
    known: &Counter,
    value: i64,
    session: Option<&mut ClientSession>,
) -> Result<()> {
    let call = counters.update_one(doc! { "_id": known.id.as_str() }, known.passing(value));
    let updated = match session {
        Some(session) => call.session(session).run()?,
        None => call.run()?,
    };
    if updated.matched_count == 0 {
        return Err(SequenceError::NotFound { name: known.id.chars().take(NAME_MAX).collect() }.into());
    }
    Ok(())
}

fn run(
    counters: &Collection<Document>,
    filter: Document,
    update: &Update,
    session: Option<&mut ClientSession>,
) -> Result<Option<Document>> {
    let (change, told): (UpdateModifications, _) = match update {
        Update::Add(change) => (change.clone().into(), ReturnDocument::After),
        Update::Around(stages) => (stages.clone().into(), ReturnDocument::Before),
    };
    let call = counters.find_one_and_update(filter, change).return_document(told);
    Ok(match session {
        Some(session) => call.session(session).run()?,
        None => call.run()?,
    })
}
