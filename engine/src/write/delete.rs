//! Deletes: find, latch, look again, remove the record with its entries.
//!
//! What a scan found may have changed by the time its latch is held, so the document is read again under the
//! latch and must still match.

use base::error::{Error, Result};
use store::Family;
use store::latch::Latched;
use store::write::Batch;

use crate::catalog::capped::OrderTurn;
use crate::document::decode::stored;
use crate::options::PlantedFault;
use crate::outcomes::retryable::Effect;
use crate::plan::selector::Selector;
use crate::write::capped;
use crate::write::entries::stored_entries_of;
use crate::write::find::{Check, DocumentSearch, Next, Walk, on_each, on_first};
use crate::write::prepare::encoded_id;
use crate::write::{COMMIT_BYTES_MAX, STEPS_UNDER_LATCH, Target, staged};

/// Documents that a `delete_many` latches together.
pub(super) const LATCHED_DOCUMENTS_MAX: usize = 1000;
/// The number of steps that checking them again may need. The rest is left to another commit.
const BATCH_STEPS_UNDER_LATCH: u64 = 4 * STEPS_UNDER_LATCH;

/// Removes the first document that matches. Returns what `show` made of it, before it was removed: if `show` fails, the
/// document stays.
pub(crate) fn delete_one<R>(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    show: impl Fn(&[u8]) -> Result<R>,
) -> Result<Option<R>> {
    let deleted = on_first(target, search, walk, |key, check| delete_found(target, key, check, &show))?;
    if deleted.is_none() {
        target.secure_what_it_saw()?;
    }
    Ok(deleted)
}

/// Removes every document that matches, and counts them. When the operation's time is over, what was removed until then stays
/// removed.
pub(crate) fn delete_many(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    deleted: &mut u64,
) -> Result<()> {
    if target.staging.is_some() {
        return on_each(target, search, walk, |key, check| {
            *deleted += u64::from(delete_found(target, key, check, |_| Ok(()))?.is_some());
            Ok(())
        });
    }
    while !delete_walked(target, search, walk, deleted)? {
        walk.end();
    }
    if *deleted == 0 {
        target.secure_what_it_saw()?;
    }
    Ok(())
}

/// Removes what a walk finds, and counts it. Returns `false` if another walk must find the rest.
fn delete_walked(
    target: Target<'_>,
    search: DocumentSearch<'_>,
    walk: &mut Walk,
    deleted: &mut u64,
) -> Result<bool> {
    let selector = search.selector;
    let mut found = Vec::new();
    loop {
        // The walk is on a snapshot, so what this call removes does not disturb it.
        let next = walk.advance(target, search, true)?;
        if next == Next::Match {
            found.push(walk.record_key().to_vec());
        }
        // Latched in groups: one sync for many documents, and no other writer waits for the whole walk. What was found goes before
        // a pause.
        if next != Next::Match || found.len() == LATCHED_DOCUMENTS_MAX {
            let mut rest = found.as_slice();
            while !rest.is_empty() {
                search.operation().look()?;
                let done = match delete_batch(target, selector, rest) {
                    Err(error) if is_refused_by_quota(&error) => {
                        // Deleted documents stay on the disk as long as this walk could read them. Without the walk
                        // it goes, and the same deletes find room.
                        walk.end();
                        *deleted += delete_batch(target, selector, rest)?.deleted;
                        return Ok(false);
                    }
                    done => done?,
                };
                *deleted += done.deleted;
                rest = rest.get(done.looked_at..).unwrap_or_default();
            }
            found.clear();
        }
        match next {
            Next::Match => {}
            Next::End => return Ok(true),
            Next::Pause => return Err(walk.pause()),
        }
    }
}

/// Whether a commit was rejected before anything of it was written, because the folder may not grow.
pub(super) fn is_refused_by_quota(error: &Error) -> bool {
    error.is_no_space() && !error.is_commit_unknown()
}

fn delete_found<R>(
    target: Target<'_>,
    key: &[u8],
    check: &Check<'_>,
    show: impl Fn(&[u8]) -> Result<R>,
) -> Result<Option<R>> {
    let is_checked = target.database.fault() != PlantedFault::DeletesNotChecked;
    // The document for the caller comes before the commit, because a rejection must not remove the document.
    let judge = |current: &[u8]| {
        let is_match = !is_checked || check.holds(stored(key, current)?)?;
        is_match.then(|| show(current)).transpose()
    };
    if let Some(staging) = target.staging {
        return staged::delete(target, staging, key, judge);
    }
    // A verdict on the document as it was then, if it lasted long.
    let mut ahead = None;
    loop {
        let mut turn = capped::turn(target)?;
        let mut latched = target.latch(key)?;
        // Read again under the latch: since the walk another writer may have removed or changed it.
        let Some(current) = target.database.get(Family::Records, key)? else { return Ok(None) };
        let known = ahead.take().filter(|(read, _): &(Vec<u8>, _)| **read == *current);
        let judged = if let Some((_, judged)) = known {
            judged
        } else {
            let slice = target.operation.slice(STEPS_UNDER_LATCH);
            let judged = judge(&current);
            if slice.is_over() {
                let read = current.to_vec();
                drop((slice, current, latched, turn));
                let judged = judge(&read)?;
                ahead = Some((read, judged));
                continue;
            }
            judged?
        };
        let Some(shown) = judged else { return Ok(None) };
        let mut batch = Batch::new(target.database);
        stage(target, &mut batch, key, &current)?;
        if let Some(turn) = &mut turn {
            capped::stage_removal(target, turn, &mut batch, key, &current)?;
        }
        target.expect(Effect::Deleted);
        target.count(commit(target, turn, batch, &mut latched), key, -1)?;
        return Ok(Some(shown));
    }
}

/// The result of one commit of a `delete_many`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The number of found documents that were checked. At least one.
    pub(super) looked_at: usize,
    pub(super) deleted: u64,
}

/// Removes those of the found documents that still match, in one commit: as many as its size allows, because a document
/// may have a thousand entries. The latches end with the commit, so that other writers wait for one commit and not for
/// all.
pub(super) fn delete_batch(target: Target<'_>, selector: &Selector, found: &[Vec<u8>]) -> Result<Done> {
    let mut turn = capped::turn(target)?;
    let mut latches = target.store.latches.set();
    for key in found {
        latches.add(key);
    }
    let mut held = target.store.latches.lock(&latches, target.operation)?;
    let slice = target.operation.slice(BATCH_STEPS_UNDER_LATCH);
    let mut batch = Batch::new(target.database);
    let (mut looked_at, mut deleted, mut last) = (0, 0, None);
    for key in found {
        // The document that passes the limit is in the batch already; the next one is left to another commit.
        if batch.bytes() > COMMIT_BYTES_MAX {
            break;
        }
        let Some(current) = target.database.get(Family::Records, key)? else {
            looked_at += 1;
            continue;
        };
        let is_checked = target.database.fault() != PlantedFault::DeletesNotChecked;
        let is_match = if is_checked { selector.matches(stored(key, &current)?) } else { Ok(true) };
        if slice.is_over() {
            break;
        }
        looked_at += 1;
        if !is_match? {
            continue;
        }
        stage(target, &mut batch, key, &current)?;
        if let Some(turn) = &mut turn {
            capped::stage_removal(target, turn, &mut batch, key, &current)?;
        }
        deleted += 1;
        last = Some(key);
    }
    drop(slice);
    if let Some(last) = last {
        target.count(commit(target, turn, batch, &mut held), last, -deleted)?;
    } else if looked_at == 0
        && let Some(slow) = found.first()
    {
        // Alone, and without the latches of the others.
        drop((held, turn));
        let deleted = delete_found(target, slow, &Check::of(selector), |_| Ok(()))?;
        return Ok(Done { looked_at: 1, deleted: deleted.map_or(0, |()| 1) });
    }
    Ok(Done { looked_at, deleted: deleted.unsigned_abs() })
}

/// Commits a batch of removals, in the turn of a capped collection.
fn commit(
    target: Target<'_>,
    turn: Option<OrderTurn<'_>>,
    batch: Batch<'_>,
    latched: &mut Latched<'_>,
) -> Result<()> {
    let mut commit = |batch| target.commit_batch(batch, latched);
    match turn {
        Some(mut turn) => turn.commit(batch, commit),
        None => commit(batch),
    }
}

fn stage(target: Target<'_>, batch: &mut Batch<'_>, key: &[u8], document: &[u8]) -> Result<()> {
    target.delete_record(batch, key, document);
    // The keys of its entries are computed from the document, as the insert computed them. Those of one index are in memory at a
    // time, beside the batch.
    for index in target.indexes.iter().enumerate() {
        let drawn =
            stored_entries_of([index], stored(key, document)?, encoded_id(key)).map_err(Error::write)?;
        for entry in drawn.entries {
            target.delete_entry(batch, &entry.key);
        }
    }
    Ok(())
}
