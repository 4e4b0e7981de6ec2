//! Deleting documents that have expired: those whose date in the field of a TTL index is old enough.
//!
//! They are found by the index and deleted like by every other caller: under the latches of their records, by a batch with
//! their entries. Under the latch a document is looked at again, so one whose date was moved meanwhile stays.

use base::error::Result;
use bson::{DateTime, Document, doc};

use crate::catalog::indexes::Index;
use crate::execute::matches::Matches;
use crate::execute::read_view::ReadView;
use crate::plan::order::Order;
use crate::plan::selector::{Moment, Selector};
use crate::write::Target;
use crate::write::delete::{LATCHED_DOCUMENTS_MAX, delete_batch, is_refused_by_quota};

/// The documents of one round. A round holds the gate of its collection, and a snapshot; between two of them a change of the
/// collection's indexes gets its turn.
const ROUND_DOCUMENTS_MAX: usize = 20_000;

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) deleted: u64,
    /// Whether there may be more expired documents.
    pub(crate) has_more: bool,
}

/// Deletes documents that have expired by an index at the moment `now`, up to a limit.
pub(crate) fn expire_some(target: Target<'_>, index: &Index, now: DateTime) -> Result<Round> {
    let Some(filter) = expired(index, now) else { return Ok(Round::default()) };
    // The index has what its own filter matches, and that compares texts as the index does. Dates compare in one way only.
    let collation = index.spec.collation().clone();
    let moment = Moment { now, operation: target.operation.clone(), collation };
    let selector = Selector::parse_at(&filter, None, moment)?;
    // A view of this index alone: it may be hidden from searches, and documents expire all the same.
    let view = ReadView::of_index(target.database, target.collection, index);
    let mut matches = Matches::open(view, &selector, &Order::default())?;
    let mut round = Round { deleted: 0, has_more: true };
    let mut looked_at = 0;
    while round.has_more && looked_at < ROUND_DOCUMENTS_MAX {
        let mut found = Vec::new();
        while found.len() < LATCHED_DOCUMENTS_MAX && round.has_more {
            round.has_more = matches.advance()?;
            if round.has_more {
                found.push(matches.record_key().to_vec());
            }
        }
        looked_at += found.len();
        let mut rest = found.as_slice();
        while !rest.is_empty() {
            target.operation.look()?;
            let done = match delete_batch(target, &selector, rest) {
                Err(error) if is_refused_by_quota(&error) => {
                    // Deleted documents stay on the disk as long as this walk could read them: another round finds
                    // the rest.
                    drop(matches);
                    let done = delete_batch(target, &selector, rest)?;
                    return Ok(Round { deleted: round.deleted + done.deleted, has_more: true });
                }
                done => done?,
            };
            round.deleted += done.deleted;
            rest = rest.get(done.looked_at..).unwrap_or_default();
        }
    }
    Ok(round)
}

/// The filter of the documents that have expired. Returns `None` if the index is not a TTL index.
fn expired(index: &Index, now: DateTime) -> Option<Document> {
    let seconds = index.settings.expire_after_seconds?;
    let field = index.spec.fields().first()?;
    let last = now.timestamp_millis().saturating_sub(i64::from(seconds) * 1000);
    // A comparison with a date is met by dates alone, and in an array by any of them: so the earliest one decides.
    let mut filter = doc! { field.path.as_str(): { "$lte": DateTime::from_millis(last) } };
    if let Some(partial) = &index.settings.partial {
        // Beside the condition and not joined with it: it may have a condition on the same field.
        let partial = Document::try_from(partial.document()).ok()?;
        filter = doc! { "$and": [filter, partial] };
    }
    Some(filter)
}
