//! Several scans that each come in the order of a sort, merged into one in that order.
//!
//! The scans are on their next documents, and the lowest of these is the next one of the merge. Scans of one index
//! that differ in their first fields only are compared by the rest of their keys, without a look at a document; any
//! other scans by the sort keys of their documents.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::error::Result;
use index::key::Direction;
use query::operation::Reservation;
use query::planner::MergeOrder;

use crate::document::decode::stored;
use crate::execute::entry_walk::EntryVerdict;
use crate::execute::examined::Examined;
use crate::execute::open_scan::{Advanced, OpenScan, ScanStep, Visited};
use crate::execute::rest::Rest;
use crate::plan::selector::Selector;

/// Scans side by side. The walk is before its first document until `step` is called.
pub(super) struct MergeWalk {
    scans: Vec<OpenScan>,
    order: MergeOrder,
    /// The scans that are on a document, the one with the lowest key on top.
    heads: BinaryHeap<Reverse<Head>>,
    /// The scans that have to go on before the lowest head is known.
    behind: Vec<usize>,
    current: Option<usize>,
    /// The memory of the heads and their documents.
    bytes: usize,
    reserved: Reservation,
}

/// The next document of a scan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Vec<u8>,
    scan: usize,
    /// The verdict of the entry on the document. Absent if the document was tested already.
    verdict: Option<EntryVerdict>,
}

impl MergeWalk {
    /// Merges scans that each come in the order of the merge.
    pub(super) fn new(scans: impl Iterator<Item = OpenScan>, order: MergeOrder, selector: &Selector) -> Self {
        let scans: Vec<OpenScan> = scans.collect();
        let behind = (0..scans.len()).rev().collect();
        let reserved = Reservation::of(selector.variables().operation());
        Self { scans, order, heads: BinaryHeap::new(), behind, current: None, bytes: 0, reserved }
    }

    /// Makes one step: of a scan that has to go on, or to the lowest head. `parts` has the counts of each scan.
    pub(super) fn step(
        &mut self,
        visited: Option<&mut Visited>,
        parts: &mut [Examined],
        selector: &Selector,
    ) -> Result<ScanStep> {
        // The scan with the current document goes on only now, because its document was in use.
        self.behind.extend(self.current.take());
        if let Some(at) = self.behind.last().copied() {
            return self.advance(at, visited, parts, selector);
        }
        let Some(Reverse(Head { key, scan: at, verdict })) = self.heads.pop() else {
            return Ok(ScanStep::End);
        };
        let (Some(scan), Some(part)) = (self.scans.get_mut(at), parts.get_mut(at)) else {
            return Ok(ScanStep::End);
        };
        self.bytes = self.bytes.saturating_sub(key.len() + scan.document().len());
        let step = match verdict {
            None => ScanStep::Match,
            Some(verdict) => scan.decide(verdict, visited, part, selector)?,
        };
        match step {
            ScanStep::Match => {
                self.current = Some(at);
                part.matched += 1;
            }
            ScanStep::Nothing | ScanStep::End => self.behind.push(at),
        }
        Ok(step)
    }

    /// Lets a scan go on by one key.
    fn advance(
        &mut self,
        at: usize,
        visited: Option<&mut Visited>,
        parts: &mut [Examined],
        selector: &Selector,
    ) -> Result<ScanStep> {
        let (Some(scan), Some(part)) = (self.scans.get_mut(at), parts.get_mut(at)) else {
            return Ok(ScanStep::End);
        };
        let verdict = match scan.advance(part, selector)? {
            Advanced::Next(verdict) => verdict,
            Advanced::Nothing => return Ok(ScanStep::Nothing),
            Advanced::End => {
                self.behind.pop();
                return Ok(ScanStep::Nothing);
            }
        };
        let head = match &self.order {
            // The document is read when its turn comes: a limit may end the walk before.
            MergeOrder::Keys { skipped, direction } => {
                Head { key: rest_of_key(scan, *skipped, *direction), scan: at, verdict: Some(verdict) }
            }
            MergeOrder::Sort(sort) => {
                if !matches!(scan.decide(verdict, visited, part, selector)?, ScanStep::Match) {
                    return Ok(ScanStep::Nothing);
                }
                let key = sort.key(stored(scan.record_key(), scan.document())?)?;
                Head { key: key.as_bytes().to_vec(), scan: at, verdict: None }
            }
        };
        // Each scan holds a document, and there may be many scans.
        self.bytes += head.key.len() + scan.document().len();
        self.reserved.grow_by_doubling(self.bytes)?;
        self.behind.pop();
        self.heads.push(Reverse(head));
        Ok(ScanStep::Nothing)
    }

    /// The scan with the current document.
    pub(super) fn current(&self) -> Option<&OpenScan> {
        self.scans.get(self.current?)
    }

    /// Releases what the storage holds for the scans until they are advanced again.
    pub(super) fn rest(&mut self, current: Rest, mut visited: Option<&mut Visited>) {
        // The next documents of the other scans are read again. Otherwise a walk that waits would hold all of them.
        for Reverse(head) in std::mem::take(&mut self.heads) {
            // One that was tested counts as found already.
            if head.verdict.is_none() {
                self.forget(head.scan, visited.as_deref_mut());
            }
            if let Some(scan) = self.scans.get_mut(head.scan) {
                scan.rest(Rest::Repeat);
            }
            self.behind.push(head.scan);
        }
        self.bytes = 0;
        let Some(at) = self.current else { return };
        if current == Rest::Repeat {
            self.forget(at, visited);
            self.behind.extend(self.current.take());
        }
        if let Some(scan) = self.scans.get_mut(at) {
            scan.rest(current);
        }
    }

    /// Lets the document at which a scan stands be found again.
    fn forget(&self, scan: usize, visited: Option<&mut Visited>) {
        if let (Some(scan), Some(visited)) = (self.scans.get(scan), visited) {
            visited.forget(scan.record_key());
        }
    }
}

/// The current key without its first fields, as bytes that ascend in the direction of the scan.
fn rest_of_key(scan: &OpenScan, skipped: usize, direction: Direction) -> Vec<u8> {
    let OpenScan::Entries { walk, .. } = scan else { return Vec::new() };
    let mut rest = walk.key_after(skipped).to_vec();
    if direction == Direction::Descending {
        // No key is a prefix of another one, so the complements are in the opposite order.
        for byte in &mut rest {
            *byte = !*byte;
        }
    }
    rest
}
