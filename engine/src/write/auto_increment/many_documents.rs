//! The documents of an `insert_many`, completed and numbered part by part.
//!
//! Where nothing is numbered there is one part, the whole call; else a part is as much as one commit holds, so that a long call
//! does not number all before it stores the first. A gapless sequence numbers only documents that are stored, so there a
//! rejected document ends a part too, and those after it are numbered again.

use std::ops::Range;

use base::error::{Error, ErrorKind, Result};
use base::generated::GeneratedValues;
use base::insert_error::IndexedWriteError;
use smallvec::SmallVec;

use crate::document::complete::CopiedDrafts;
use crate::document::draft::Drafts;
use crate::write::auto_increment::copies::{copy, generated_values};
use crate::write::auto_increment::gapless::Acceptance;
use crate::write::auto_increment::holds::SequenceHolds;
use crate::write::duplicate::key_pattern;
use crate::write::outcome::{InsertOrder, InsertOutcome, InsertedSet};
use crate::write::{COMMIT_BYTES_MAX, Target};

/// The number of documents that a gapless sequence numbers at once after a rejected one; then twice as many, and so
/// on. Short, so that many rejections do not number the whole rest of the call again each time.
const PART_LEN_AFTER_REFUSAL: usize = 8;

/// The documents of a call, with the sequences that they are numbered by.
pub(in crate::write) struct ManyDocuments<'a> {
    /// The documents as they came.
    drafts: &'a mut Drafts,
    order: InsertOrder,
    holds: SequenceHolds<'a>,
    /// The first document that no part had yet.
    next: usize,
    /// The limit of documents in the next part.
    part_len_max: usize,
    /// The part that is being stored, if it was numbered.
    copies: Option<CopiedDrafts>,
    /// The values of that part, by position in it.
    generated: SmallVec<[(usize, GeneratedValues); 1]>,
    /// Whether values were passed since the last commit.
    has_passed: bool,
}

/// Documents that are numbered together, to be completed, prepared and stored.
pub(in crate::write) struct NumberedPart<'p, 'a> {
    /// Position of the first of them in the call.
    pub(in crate::write) start: usize,
    /// The number of drafts before it: they were stored or rejected earlier.
    pub(in crate::write) done: usize,
    pub(in crate::write) drafts: &'p mut Drafts,
    pub(in crate::write) order: InsertOrder,
    /// The sequences whose marks are stored with them.
    pub(in crate::write) holds: &'p mut SequenceHolds<'a>,
}

impl<'a> ManyDocuments<'a> {
    /// Enters the sequences of the collection. The documents before `next` are done.
    pub(in crate::write) fn enter(
        target: Target<'a>,
        drafts: &'a mut Drafts,
        order: InsertOrder,
        next: usize,
    ) -> Result<Self> {
        let holds = SequenceHolds::enter(target)?;
        // Later the parts report by position what is rejected: some of the documents are stored.
        if next == 0
            && !target.fields.is_empty()
            && drafts.documents().map(<[u8]>::len).sum::<usize>() > COMMIT_BYTES_MAX
        {
            // A mode that rejects a document rejects the call, so all are completed before the first is stored. Where
            // one commit holds all, the first part does that.
            for document in drafts.documents() {
                copy(target, [document].into_iter())?;
            }
        }
        Ok(Self {
            drafts,
            order,
            holds,
            next,
            part_len_max: usize::MAX,
            copies: None,
            generated: SmallVec::new(),
            has_passed: false,
        })
    }

    /// Whether other writers wait for this insert.
    pub(in crate::write) fn takes_turns(&self) -> bool {
        self.holds.takes_turns()
    }

    /// Numbers the next documents. Returns `None` when there are no more, or none for which a sequence has a value; those
    /// are added to `refused`.
    pub(in crate::write) fn number_part(
        &mut self,
        target: Target<'_>,
        refused: &mut Vec<IndexedWriteError>,
    ) -> Result<Option<NumberedPart<'_, 'a>>> {
        let (start, order) = (self.next, self.order);
        if start >= self.drafts.len() {
            return Ok(None);
        }
        if target.fields.is_empty() {
            return Ok(Some(NumberedPart {
                start,
                done: start,
                drafts: self.drafts,
                order,
                holds: &mut self.holds,
            }));
        }
        let numbered = self.copy_part(target).and_then(|mut copies| {
            self.holds.fill(target, &mut copies, Acceptance::Prefix)?;
            Ok(copies)
        });
        let copies = match numbered {
            Ok(copies) => copies,
            // Also what a mode rejects, if the fields were changed while the call had left the collection.
            Err(error) => {
                refused.extend(refuse_rest(error, start..self.drafts.len(), order)?);
                return Ok(None);
            }
        };
        // Looked at now: preparing a document may move its fields.
        self.generated = generated_values(target, &copies);
        // A rejected document must be the last that its part stored: those after it have numbers that depend on it.
        let order = if self.holds.is_gapless() { InsertOrder::Ordered } else { order };
        let CopiedDrafts { drafts, .. } = self.copies.insert(copies);
        Ok(Some(NumberedPart { start, done: 0, drafts, order, holds: &mut self.holds }))
    }

    /// To be called with the error of what stores a part.
    pub(in crate::write) fn failed(&self, error: &Error) {
        self.holds.failed(error);
    }

    /// Goes on after a part of which `stored` documents were stored, publishes what was committed with them, and adds
    /// their values to `outcome`, which has the part's rejections already.
    pub(in crate::write) fn publish_part<S: InsertedSet>(
        &mut self,
        target: Target<'_>,
        stored: usize,
        outcome: &mut InsertOutcome<S>,
    ) -> Result<()> {
        let start = self.next;
        // Values of documents that were rejected are not reported, but the first of all values is, stored or not.
        let generated = std::mem::take(&mut self.generated);
        let first = generated.first().and_then(|(_, values)| values.first());
        outcome.last_generate_id = outcome.last_generate_id.or(first);
        let by_position = generated.into_iter().map(|(document, values)| (document + start, values));
        outcome.generated.extend(by_position.filter(|(position, _)| outcome.inserted.contains(*position)));
        let is_refused = outcome.refused.last().is_some_and(|refusal| refusal.index >= start);
        if !self.holds.is_gapless() {
            let ends = is_refused && self.order == InsertOrder::Ordered;
            let part = self.copies.as_ref().filter(|_| !ends);
            self.next = part.map_or(self.drafts.len(), |copies| start + copies.drafts.len());
            return Ok(());
        }
        // Values that were passed before are part of the state that was committed, so nothing is left to write.
        if stored > 0 {
            self.holds.publish(target)?;
            self.has_passed = false;
        } else {
            self.holds.back_to(0);
        }
        let Some(copies) = &self.copies else { return Ok(()) };
        // An ordered part has one rejection at most, and it is the last of the call so far.
        let Some(refusal) = outcome.refused.last().filter(|refusal| refusal.index >= start) else {
            self.next += copies.drafts.len();
            self.part_len_max = self.part_len_max.saturating_mul(2);
            return Ok(());
        };
        // A generated value that is in use by another document is passed, and leaves no gap.
        self.has_passed |=
            self.holds.pass(copies, refusal.index - start, key_pattern(refusal.details.as_ref()));
        self.part_len_max = PART_LEN_AFTER_REFUSAL;
        self.next = match self.order {
            InsertOrder::Ordered => self.drafts.len(),
            // The rejected document is not tried again; those after it are numbered by the next part.
            InsertOrder::Unordered => refusal.index + 1,
        };
        Ok(())
    }

    /// Writes what was passed since the last commit, and ends the hold on the sequences.
    pub(in crate::write) fn finish(mut self, target: Target<'_>) -> Result<()> {
        if self.has_passed { self.holds.write_passed(target) } else { Ok(()) }
    }

    /// The first document that no part had yet. `None` if there is none.
    pub(in crate::write) fn next(&self) -> Option<usize> {
        Some(self.next).filter(|next| *next < self.drafts.len())
    }

    /// Copies the next documents: as many as one commit holds.
    fn copy_part(&mut self, target: Target<'_>) -> Result<CopiedDrafts> {
        // The buffer of the part before goes back to the thread, and is used again.
        self.copies = None;
        let documents = self.drafts.documents_from(self.next);
        let mut bytes = 0;
        let fits = |(position, document): &(usize, &[u8])| {
            bytes += document.len();
            bytes <= COMMIT_BYTES_MAX || *position == 0
        };
        let part = documents.take(self.part_len_max).enumerate().take_while(fits);
        copy(target, part.map(|(_, document)| document))
    }
}

/// Rejects the rest of a call after a part of it was done, document by document. Before that, what a sequence rejects
/// rejects the call.
fn refuse_rest(error: Error, rest: Range<usize>, order: InsertOrder) -> Result<Vec<IndexedWriteError>> {
    if rest.start == 0 || !matches!(error.kind(), ErrorKind::Sequence(_)) {
        return Err(error);
    }
    // Some documents of the call are stored, so the caller must learn which: an error of the call would hide them.
    let refusal = error.into_refusal()?;
    let count = match order {
        InsertOrder::Ordered => 1,
        InsertOrder::Unordered => rest.len(),
    };
    Ok(rest.take(count).map(|position| refusal.clone().at(position)).collect())
}
