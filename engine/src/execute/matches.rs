//! The documents of a collection that match, on one read state, reached by a plan.
//!
//! A filter that fixes the `_id` is one lookup. Otherwise a plan says what is read: records, or entries and the records
//! that they name, each document once. The filter has the last word.

use std::collections::HashSet;
use std::sync::Arc;

use bson::RawDocument;
use query::filter::Filter;
use query::operation::Reservation;
use query::planner::{Access, Plan};

use crate::catalog::indexes::Index;
use crate::document::decode::stored;
use crate::error::Result;
use crate::execute::entry_walk::{EntryStep, EntryWalk};
use crate::execute::key_walk::{KeyWalk, Step};
use crate::execute::read_view::{ReadState, ReadView};
use crate::plan::access::plans;
use crate::plan::bounds::KeySpans;
use crate::plan::order::Order;
use crate::plan::selector::{PointKey, Selector};
use crate::storage::Family;
use crate::storage::keys::CollectionId;
use crate::storage::snapshot::Snapshot;

/// A walk over matching documents. It stands before the first until `advance` is called.
pub(crate) struct Matches {
    selector: Selector,
    /// The filter asks nothing.
    everything: bool,
    is_sorted: bool,
    source: Source,
    looks: Looks,
}

/// What a walk has looked at so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Entries that were looked at, and the key of the one record that a filter fixes.
    pub(crate) keys: u64,
    pub(crate) documents: u64,
    /// Documents that matched.
    pub(crate) matched: u64,
}

enum Source {
    /// The record that was looked up.
    Point {
        key: PointKey,
        bytes: Vec<u8>,
        place: Place,
    },
    /// Boxed like the other, for a lookup is small.
    Records(Box<KeyWalk>),
    Parts(Box<Parts>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    At,
    End,
}

/// Scans one after the other, of which some read entries.
struct Parts {
    snapshot: Arc<Snapshot>,
    collection: CollectionId,
    indexes: Arc<[Index]>,
    pending: std::vec::IntoIter<Access>,
    current: Option<Part>,
    /// Absent where no document can be met twice.
    visited: Option<Visited>,
    /// What each scan that began has looked at.
    looks: Vec<Looks>,
}

/// The scan that is going on.
enum Part {
    Records(KeyWalk),
    Entries(EntryWalk),
}

/// The record keys of documents that were met.
struct Visited {
    keys: HashSet<Box<[u8]>>,
    bytes: usize,
    reserved: Reservation,
}

impl Matches {
    /// The walk over what was taken of the collection, by the best plan.
    pub(crate) fn open(view: ReadView, selector: Selector, order: &Order) -> Result<Self> {
        // The plan is made after the snapshot was taken: see `plan::access`.
        let plan = match view.snapshot() {
            Some(_) => plans(&selector, order, view.indexes())?.into_iter().next(),
            None => None,
        };
        Self::follow(view, selector, plan)
    }

    /// The walk over what was taken of the collection, by a plan that needs no sort; `None` if there is none.
    pub(crate) fn open_sorted(view: ReadView, selector: Selector, order: &Order) -> Result<Option<Self>> {
        let plan = plans(&selector, order, view.indexes())?.into_iter().find(|plan| plan.is_sorted);
        plan.map(|plan| Self::follow(view, selector, Some(plan))).transpose()
    }

    /// The walk by a plan; there is none if the record was looked up already.
    fn follow(view: ReadView, selector: Selector, plan: Option<Plan>) -> Result<Self> {
        let everything = selector.filter().is_some_and(Filter::is_empty);
        let (collection, indexes) = (view.collection(), view.shared_indexes());
        let is_sorted = plan.as_ref().is_none_or(|plan| plan.is_sorted);
        let source = match (view.into_state(), plan) {
            (ReadState::Record { key, bytes }, _) => Source::of_record(key, bytes),
            (ReadState::Snapshot(snapshot), plan) => {
                if let Some(key) = selector.record_key(collection) {
                    let bytes = snapshot.get(Family::Records, &key)?;
                    Source::of_record(key, bytes)
                } else {
                    let access = plan.map_or(Access::Nothing, |plan| plan.access);
                    Source::of_access(snapshot, (collection, indexes), access, &selector)?
                }
            }
        };
        let keys = match &source {
            Source::Point { place, .. } => u64::from(*place == Place::Before),
            Source::Records(_) | Source::Parts(_) => 0,
        };
        let looks = Looks { keys, ..Looks::default() };
        Ok(Self { selector, everything, is_sorted, source, looks })
    }

    /// Whether documents come in the order that was asked for.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Steps to the next matching document; `false` at the end. Each record is a step of the operation that the
    /// selector's variables belong to.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let stepped = self.step();
        self.looks.matched += u64::from(matches!(stepped, Ok(true)));
        stepped
    }

    /// Lets go of what the storage holds for the walk, until it goes on: memory of the store that would stay for as long
    /// as a reader waits. The current document is kept.
    pub(crate) fn rest(&mut self) {
        match &mut self.source {
            Source::Records(walk) => walk.rest(),
            Source::Parts(parts) => parts.rest(),
            Source::Point { .. } => {}
        }
    }

    /// What was looked at until now.
    pub(crate) fn looks(&self) -> Looks {
        self.looks
    }

    /// What each part of a plan with several scans has looked at until now.
    pub(crate) fn part_looks(&self) -> Vec<Looks> {
        match &self.source {
            Source::Parts(parts) => parts.looks.clone(),
            Source::Point { .. } | Source::Records(_) => vec![self.looks],
        }
    }

    #[inline]
    fn step(&mut self) -> Result<bool> {
        let Self { selector, everything, source, looks, .. } = self;
        let operation = selector.variables().operation();
        let walk = match source {
            Source::Records(walk) => walk,
            Source::Parts(parts) => return parts.step(selector, looks),
            Source::Point { key, bytes, place } => {
                operation.step()?;
                looks.documents += u64::from(*place == Place::Before);
                let is_match = *place == Place::Before && selector.matches(stored(key, bytes)?)?;
                *place = if is_match { Place::At } else { Place::End };
                return Ok(is_match);
            }
        };
        loop {
            match walk.advance()? {
                Step::End => return Ok(false),
                Step::Absent => {
                    operation.step()?;
                    continue;
                }
                Step::LookedUp | Step::Scanned => {}
            }
            looks.documents += 1;
            let value = walk.value();
            operation.pass(value.len())?;
            if *everything && is_framed(value) || selector.matches(walk.document()?)? {
                return Ok(true);
            }
        }
    }

    /// The current document.
    #[inline]
    pub(crate) fn document(&self) -> Result<&RawDocument> {
        match &self.source {
            Source::Records(walk) => walk.document(),
            Source::Parts(_) | Source::Point { .. } => stored(self.record_key(), self.bytes()),
        }
    }

    /// The record key of the current document.
    pub(crate) fn record_key(&self) -> &[u8] {
        match &self.source {
            Source::Point { key, place: Place::At, .. } => key,
            Source::Point { place: Place::Before | Place::End, .. } => &[],
            Source::Records(walk) => walk.key(),
            Source::Parts(parts) => parts.current.as_ref().map(Part::record_key).unwrap_or_default(),
        }
    }

    /// The stored bytes of the current document.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Records(walk) => walk.value(),
            Source::Point { bytes, place: Place::At, .. } => bytes,
            Source::Point { place: Place::Before | Place::End, .. } => &[],
            Source::Parts(parts) => parts.current.as_ref().map(Part::document).unwrap_or_default(),
        }
    }
}

impl Source {
    fn of_record(key: PointKey, bytes: Option<Vec<u8>>) -> Self {
        let place = if bytes.is_some() { Place::Before } else { Place::End };
        Self::Point { key, bytes: bytes.unwrap_or_default(), place }
    }

    fn of_access(
        snapshot: Arc<Snapshot>,
        (collection, indexes): (CollectionId, Arc<[Index]>),
        access: Access,
        selector: &Selector,
    ) -> Result<Self> {
        let scans = match access {
            Access::Records(scan) => {
                let spans = KeySpans::of_records(&scan.ids, collection)?;
                let walk = KeyWalk::new(&snapshot, Family::Records, spans, scan.direction);
                return Ok(Self::Records(Box::new(walk)));
            }
            Access::Nothing => Vec::new(),
            Access::Entries(scan) => vec![Access::Entries(scan)],
            Access::Union(scans) => scans,
        };
        let has_duplicates = match scans.as_slice() {
            [Access::Entries(scan)] => scan.has_duplicates,
            scans => scans.len() > 1,
        };
        let reserved = || Reservation::of(selector.variables().operation());
        let visited =
            has_duplicates.then(|| Visited { keys: HashSet::new(), bytes: 0, reserved: reserved() });
        let (pending, looks) = (scans.into_iter(), Vec::new());
        let parts = Parts { snapshot, collection, indexes, pending, current: None, visited, looks };
        Ok(Self::Parts(Box::new(parts)))
    }
}

impl Parts {
    /// Steps to the next document that matches and was not met before.
    fn step(&mut self, selector: &Selector, looks: &mut Looks) -> Result<bool> {
        let operation = selector.variables().operation();
        loop {
            let Some(part) = &mut self.current else {
                let Some(access) = self.pending.next() else { return Ok(false) };
                self.open(access)?;
                continue;
            };
            let mut own = Looks::default();
            let found = part.step(self.visited.as_mut(), &mut own, |document| {
                operation.pass(document.as_bytes().len())?;
                selector.matches(document)
            });
            looks.keys += own.keys;
            looks.documents += own.documents;
            if let Some(all) = self.looks.last_mut() {
                all.keys += own.keys;
                all.documents += own.documents;
                all.matched += u64::from(matches!(found, Ok(Found::Match)));
            }
            match found? {
                Found::Match => return Ok(true),
                Found::Nothing => operation.step()?,
                Found::End => self.current = None,
            }
        }
    }

    /// Begins the next scan.
    fn open(&mut self, access: Access) -> Result<()> {
        self.looks.push(Looks::default());
        self.current = match access {
            Access::Records(scan) => {
                let spans = KeySpans::of_records(&scan.ids, self.collection)?;
                let walk = KeyWalk::new(&self.snapshot, Family::Records, spans, scan.direction);
                Some(Part::Records(walk))
            }
            Access::Entries(scan) => {
                let index = self.indexes.get(scan.index).expect("the plan was made for these indexes");
                Some(Part::Entries(EntryWalk::new(&self.snapshot, self.collection, index, &scan)))
            }
            Access::Nothing => None,
            // Branches of branches were joined by the planner.
            Access::Union(scans) => {
                let pending: Vec<Access> = scans.into_iter().chain(self.pending.by_ref()).collect();
                self.pending = pending.into_iter();
                None
            }
        };
        Ok(())
    }

    fn rest(&mut self) {
        match &mut self.current {
            Some(Part::Records(walk)) => walk.rest(),
            Some(Part::Entries(walk)) => walk.rest(),
            None => {}
        }
    }
}

/// What a step within a scan found.
enum Found {
    Match,
    /// A key that led to no match.
    Nothing,
    End,
}

impl Part {
    /// Looks at the next key.
    fn step(
        &mut self,
        visited: Option<&mut Visited>,
        looks: &mut Looks,
        matches: impl Fn(&RawDocument) -> Result<bool>,
    ) -> Result<Found> {
        match self {
            Self::Records(walk) => match walk.advance()? {
                Step::End => return Ok(Found::End),
                Step::Absent => return Ok(Found::Nothing),
                Step::LookedUp | Step::Scanned => {}
            },
            Self::Entries(walk) => {
                let step = walk.advance()?;
                if step == EntryStep::End {
                    return Ok(Found::End);
                }
                looks.keys += u64::from(step != EntryStep::Absent);
                if step != EntryStep::Within {
                    return Ok(Found::Nothing);
                }
            }
        }
        if let Some(visited) = visited
            && !visited.insert(self.record_key())?
        {
            return Ok(Found::Nothing);
        }
        if let Self::Entries(walk) = self {
            walk.fetch()?;
        }
        looks.documents += 1;
        let document = stored(self.record_key(), self.document())?;
        Ok(if matches(document)? { Found::Match } else { Found::Nothing })
    }

    fn record_key(&self) -> &[u8] {
        match self {
            Self::Records(walk) => walk.key(),
            Self::Entries(walk) => walk.record_key(),
        }
    }

    fn document(&self) -> &[u8] {
        match self {
            Self::Records(walk) => walk.value(),
            Self::Entries(walk) => walk.document(),
        }
    }
}

impl Visited {
    /// Whether a document is met for the first time.
    fn insert(&mut self, record_key: &[u8]) -> Result<bool> {
        if self.keys.contains(record_key) {
            return Ok(false);
        }
        self.bytes += size_of::<Box<[u8]>>() + record_key.len();
        self.reserved.grow_by_doubling(self.bytes)?;
        Ok(self.keys.insert(Box::from(record_key)))
    }
}

/// What `RawDocument::from_bytes` checks, in line: length and closing NUL.
#[inline]
fn is_framed(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    bytes.len() >= 5
        && length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len())
        && bytes.last() == Some(&0)
}
