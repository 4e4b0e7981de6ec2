//! Updates and replacements: find, latch, read again, compute, write what differs.
//!
//! The document is read under the latch of its record, so nothing that another writer does is lost: increments of any
//! number of threads add up. A change that adds keys to unique indexes needs their latches too, which must be acquired
//! in one step with the record's. And a change that is slow to compute is computed without latches, which other
//! documents share. Either way what was computed counts only if the document is still the same under the latch.

use base::error::Result;
use base::metrics::notes;
use store::latch::LatchSet;

use crate::options::PlantedFault;
use crate::outcomes::retryable::Effect;
use crate::write::capped;
use crate::write::change::Change;
use crate::write::difference::{Changed, Computed, Wish, compute};
use crate::write::find::{Check, DocumentSearch, Walk, on_each, on_first};
use crate::write::logged::DocumentChange;
use crate::write::modified::{Counts, Matched, Shown};
use crate::write::{STEPS_UNDER_LATCH, Target, staged};

/// Changes the first document that matches.
#[inline]
pub(crate) fn update_one(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    change: &Change<'_>,
    shown: Shown<'_>,
) -> Result<Option<Matched>> {
    let matched =
        on_first(target, search, walk, |key, check| update_found(target, key, check, change, shown))?;
    if matched.as_ref().is_some_and(|matched| !matched.is_modified) {
        target.secure_what_it_saw()?;
    }
    Ok(matched)
}

/// Changes every document that matched at the beginning, one after the other, and counts them. An error ends it, the end of its time
/// as well; what was changed until then stays changed.
pub(crate) fn update_many(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    change: &Change<'_>,
    counts: &mut Counts,
) -> Result<()> {
    on_each(target, search, walk, |key, check| {
        if let Some(matched) = update_found(target, key, check, change, Shown::NOTHING)? {
            *counts += matched.counts();
        }
        Ok(())
    })?;
    if counts.modified == 0 && counts.matched > 0 {
        target.secure_what_it_saw()?;
    }
    Ok(())
}

/// Changes one document. Returns `None` if it is gone, or does not pass the check any more.
fn update_found(
    target: Target<'_>,
    key: &[u8],
    check: &Check<'_>,
    change: &Change<'_>,
    shown: Shown<'_>,
) -> Result<Option<Matched>> {
    let wish = Wish { check, change, shown };
    if let Some(staging) = target.staging {
        return staged::update(target, staging, key, &wish);
    }
    let compute = |current: &[u8]| compute(target, key, &wish, current);
    let mut held: Option<LatchSet> = target.latches_with(key);
    // What was computed of a document as it was then.
    let mut ahead: Option<(Vec<u8>, Computed)> = None;
    loop {
        // Before the latches, and in each round: it must not be held while they are waited for again.
        let mut turn = capped::turn(target)?;
        let reads_early = target.database.fault() == PlantedFault::UpdatesReadEarly;
        let early = reads_early.then(|| target.database.record(key)).transpose()?;
        if target.database.fault() == PlantedFault::PositionsTakenEarly
            && let Some(log) = &target.definition.log
        {
            log.take_early();
        }
        let mut latched = match &held {
            None => target.store.latches.lock_one(key, target.operation)?,
            Some(latches) => target.store.latches.lock(latches, target.operation)?,
        };
        let current = match early {
            None => target.database.record(key)?,
            Some(read) => read,
        };
        let Some(current) = current else { return Ok(None) };
        let known = ahead.take().filter(|(read, _)| *read == current);
        let computed = if let Some((_, computed)) = known {
            computed
        } else {
            let slice = target.operation.slice(STEPS_UNDER_LATCH);
            let computed = compute(&current);
            if slice.is_over() {
                drop((slice, latched, turn));
                let computed = compute(&current)?;
                ahead = Some((current, computed));
                continue;
            }
            computed?
        };
        let (new, shown, difference) = match computed {
            Computed::NotMatched => return Ok(None),
            Computed::Same { shown } => return Ok(Some(Matched { is_modified: false, shown })),
            Computed::Changed { new, shown, difference } => (new, shown, difference),
        };
        if let Some(turn) = &mut turn {
            capped::resize(&mut turn.state, &current, &new);
        }
        target.expect(Effect::Updated);
        let change = DocumentChange { old: &current, new: &new, is_replacement: change.is_replacement() };
        // Without entries to change the latch of the record is all that an update needs, and the commit is a single put.
        if difference.is_none() && turn.is_none() {
            target.commit_changed_record(key, change, &mut latched)?;
            notes::updated(1);
            return Ok(Some(Matched { is_modified: true, shown }));
        }
        let difference = difference.unwrap_or_default();
        let needed = difference.latches(target, key);
        if !needed.is_empty() && !held.as_ref().is_some_and(|held| held.covers(&needed)) {
            // Latches are acquired in one global order, so none may be added to those that are held: all are let go and
            // acquired together. Another writer may change the document in between.
            held = Some(needed);
            ahead = Some((current, Computed::Changed { new, shown, difference: Some(difference) }));
            continue;
        }
        difference.commit(target, turn, Changed { key, change }, &mut latched)?;
        notes::updated(1);
        return Ok(Some(Matched { is_modified: true, shown }));
    }
}
