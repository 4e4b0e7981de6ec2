//! One scan of a plan: the documents at its keys, each tested by the filter unless its entry has answered already.

use std::collections::HashSet;

use base::error::Result;
use index::interval::Intervals;
use query::operation::Reservation;

use crate::document::decode::{is_framed, stored};
use crate::execute::entry_walk::{EntryStep, EntryVerdict, EntryWalk};
use crate::execute::examined::Examined;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::rest::Rest;
use crate::plan::bounds::ID_FIELD;
use crate::plan::selector::Selector;

/// A scan that is read.
pub(super) enum OpenScan {
    Records {
        walk: KeyWalk,
        /// The `_id`s of a range that the caller gave.
        given: Option<Intervals>,
    },
    Entries {
        walk: EntryWalk,
        /// The position of the index among those of the read view.
        index: usize,
    },
}

/// The record keys of the documents found so far.
pub(super) struct Visited {
    keys: HashSet<Box<[u8]>>,
    /// The memory of the keys.
    bytes: usize,
    reserved: Reservation,
}

/// The result of a step without a look at the document.
pub(super) enum Advanced {
    /// A key whose document may match.
    Next(EntryVerdict),
    /// A key without a match, or no key where one was looked up.
    Nothing,
    End,
}

/// The result of a step of one scan.
pub(super) enum ScanStep {
    Match,
    /// A key without a match.
    Nothing,
    End,
}

impl OpenScan {
    /// Steps to the next key, and tests its document.
    pub(super) fn step(
        &mut self,
        visited: Option<&mut Visited>,
        examined: &mut Examined,
        selector: &Selector,
    ) -> Result<ScanStep> {
        match self.advance(examined, selector)? {
            Advanced::Next(verdict) => self.decide(verdict, visited, examined, selector),
            Advanced::Nothing => Ok(ScanStep::Nothing),
            Advanced::End => Ok(ScanStep::End),
        }
    }

    /// Steps to the next key, without reading a document.
    pub(super) fn advance(&mut self, examined: &mut Examined, selector: &Selector) -> Result<Advanced> {
        match self {
            Self::Records { walk, .. } => Ok(match walk.advance()? {
                KeyStep::End => Advanced::End,
                KeyStep::Absent => Advanced::Nothing,
                KeyStep::LookedUp | KeyStep::Scanned => Advanced::Next(EntryVerdict::Unknown),
            }),
            Self::Entries { walk, .. } => {
                // Only now: until here the current entry was in use.
                walk.skip_equal()?;
                let step = walk.advance()?;
                if step == EntryStep::End {
                    return Ok(Advanced::End);
                }
                // A unique key that was looked up and is absent is not an entry.
                examined.keys += u64::from(step != EntryStep::Absent);
                if step != EntryStep::Within {
                    return Ok(Advanced::Nothing);
                }
                let verdict = walk.judge(selector)?;
                Ok(if verdict == EntryVerdict::NoMatch { Advanced::Nothing } else { Advanced::Next(verdict) })
            }
        }
    }

    /// Tests the document of the current key, of which the entry says `verdict`.
    pub(super) fn decide(
        &mut self,
        verdict: EntryVerdict,
        visited: Option<&mut Visited>,
        examined: &mut Examined,
        selector: &Selector,
    ) -> Result<ScanStep> {
        if !self.is_in_given_range()? {
            return Ok(ScanStep::Nothing);
        }
        // Asked before the record is read: a duplicate then costs no read.
        if let Some(visited) = visited
            && !visited.insert(self.record_key())?
        {
            return Ok(ScanStep::Nothing);
        }
        // A scan of records has its document already.
        if let Self::Entries { walk, .. } = self {
            if verdict == EntryVerdict::Answered {
                walk.found();
                return Ok(ScanStep::Match);
            }
            walk.fetch()?;
        }
        examined.documents += 1;
        let document = self.document();
        selector.variables().operation().pass(document.len())?;
        // An entry that decides has said what the filter would say.
        let is_match = verdict == EntryVerdict::Match && is_framed(document);
        if !is_match && !selector.matches(stored(self.record_key(), document)?)? {
            return Ok(ScanStep::Nothing);
        }
        if let Self::Entries { walk, .. } = self {
            walk.found();
        }
        Ok(ScanStep::Match)
    }

    /// Whether the current document is within the range that the caller gave, if he gave one and its key does not say it.
    fn is_in_given_range(&mut self) -> Result<bool> {
        match self {
            Self::Records { walk, given: Some(ids) } => {
                Ok(walk.document()?.get(ID_FIELD)?.is_some_and(|id| ids.contains(id)))
            }
            Self::Entries { walk, .. } if walk.needs_values() => {
                walk.fetch()?;
                walk.has_values_within()
            }
            Self::Records { given: None, .. } | Self::Entries { .. } => Ok(true),
        }
    }

    /// Releases what the storage holds for the scan until it is advanced again.
    pub(super) fn rest(&mut self, current: Rest) {
        match self {
            Self::Records { walk, .. } => walk.rest(current),
            Self::Entries { walk, .. } => walk.rest(current),
        }
    }

    /// The record key of the current document.
    pub(super) fn record_key(&self) -> &[u8] {
        match self {
            Self::Records { walk, .. } => walk.key(),
            Self::Entries { walk, .. } => walk.record_key(),
        }
    }

    /// The bytes of the current document.
    pub(super) fn document(&self) -> &[u8] {
        match self {
            Self::Records { walk, .. } => walk.value(),
            Self::Entries { walk, .. } => walk.document(),
        }
    }
}

impl Visited {
    /// No documents yet. Their keys use memory of a reservation.
    pub(super) fn new(reserved: Reservation) -> Self {
        Self { keys: HashSet::new(), bytes: 0, reserved }
    }

    /// Removes a record key, so that its document can be found again.
    pub(super) fn forget(&mut self, record_key: &[u8]) {
        self.keys.remove(record_key);
    }

    /// Adds a record key. Returns `false` if it is there already.
    pub(super) fn insert(&mut self, record_key: &[u8]) -> Result<bool> {
        if self.keys.contains(record_key) {
            return Ok(false);
        }
        // A large union can find millions of documents, so the keys count against the operation's memory.
        self.bytes += size_of::<Box<[u8]>>() + record_key.len();
        self.reserved.grow_by_doubling(self.bytes)?;
        Ok(self.keys.insert(Box::from(record_key)))
    }
}
