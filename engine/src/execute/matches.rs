//! The documents of a collection that match a filter, on one read state, read by a plan.
//!
//! A filter that fixes the `_id` is one lookup. Otherwise the plan says what is read: records, or entries of indexes and
//! the records that they name. Each document is returned once, and only if the filter matches it: bounds of a plan may
//! be wider than the filter.

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
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::read_view::{ReadState, ReadView};
use crate::plan::access::plans;
use crate::plan::bounds::KeySpans;
use crate::plan::order::Order;
use crate::plan::selector::{PointKey, Selector};
use crate::storage::Family;
use crate::storage::keys::CollectionId;
use crate::storage::snapshot::Snapshot;

/// A walk over matching documents. It is before the first one until `advance` is called.
pub(crate) struct Matches {
    selector: Selector,
    /// Whether the filter is empty, so that every document matches.
    everything: bool,
    is_sorted: bool,
    source: MatchSource,
    examined: Examined,
}

/// How much a walk has read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examined {
    /// Entries of indexes, and the key of the record if the filter fixes the `_id`.
    pub(crate) keys: u64,
    pub(crate) documents: u64,
    /// The documents that matched.
    pub(crate) matched: u64,
}

/// What a walk reads.
enum MatchSource {
    /// The record that was looked up.
    Point { key: PointKey, bytes: Vec<u8>, state: LookupState },
    /// One scan of records. Boxed like the next one, so that a lookup stays small.
    Records(Box<KeyWalk>),
    /// Any other plan.
    Scans(Box<ScanSequence>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupState {
    /// The record has not been tested yet.
    Pending,
    /// The record matches, and is the current document.
    Current,
    /// There is no record, or none any more.
    Done,
}

/// Scans that are run one after the other. Some of them read entries.
struct ScanSequence {
    snapshot: Arc<Snapshot>,
    collection: CollectionId,
    indexes: Arc<[Index]>,
    pending: std::vec::IntoIter<Access>,
    current: Option<OpenScan>,
    /// Absent if no document can be found twice.
    visited: Option<Visited>,
    /// What each scan has read, in the order in which they were opened.
    examined: Vec<Examined>,
}

/// The current scan.
enum OpenScan {
    Records(KeyWalk),
    Entries(EntryWalk),
}

/// The record keys of the documents found so far.
struct Visited {
    keys: HashSet<Box<[u8]>>,
    /// The memory of the keys.
    bytes: usize,
    reserved: Reservation,
}

impl Matches {
    /// Opens a walk over a read view by the best plan.
    pub(crate) fn open(view: ReadView, selector: Selector, order: &Order) -> Result<Self> {
        // The plan is made after the snapshot was taken: see `plan::access`.
        let plan = match view.snapshot() {
            Some(_) => plans(&selector, order, view.indexes())?.into_iter().next(),
            None => None,
        };
        Self::follow(view, selector, plan)
    }

    /// Opens a walk over a read view by a plan that needs no sort. Returns `None` if there is no such plan.
    pub(crate) fn open_sorted(view: ReadView, selector: Selector, order: &Order) -> Result<Option<Self>> {
        // Plans come best first, so this is the best of those without a sort.
        let plan = plans(&selector, order, view.indexes())?.into_iter().find(|plan| plan.is_sorted);
        plan.map(|plan| Self::follow(view, selector, Some(plan))).transpose()
    }

    /// Opens a walk by a plan. There is no plan if the record was looked up already.
    fn follow(view: ReadView, selector: Selector, plan: Option<Plan>) -> Result<Self> {
        let everything = selector.filter().is_some_and(Filter::is_empty);
        let (collection, indexes) = (view.collection(), view.shared_indexes());
        let is_sorted = plan.as_ref().is_none_or(|plan| plan.is_sorted);
        let source = match (view.into_state(), plan) {
            (ReadState::Record { key, bytes }, _) => MatchSource::of_record(key, bytes),
            (ReadState::Snapshot(snapshot), plan) => {
                // A reader who could not look the record up directly still needs no scan.
                if let Some(key) = selector.record_key(collection) {
                    let bytes = snapshot.get(Family::Records, &key)?;
                    MatchSource::of_record(key, bytes)
                } else {
                    let access = plan.map_or(Access::Nothing, |plan| plan.access);
                    MatchSource::of_access(snapshot, collection, indexes, access, &selector)?
                }
            }
        };
        // MongoDB counts the lookup of a record as one key, if there is a record.
        let keys = match &source {
            MatchSource::Point { state, .. } => u64::from(*state == LookupState::Pending),
            MatchSource::Records(_) | MatchSource::Scans(_) => 0,
        };
        let examined = Examined { keys, ..Examined::default() };
        Ok(Self { selector, everything, is_sorted, source, examined })
    }

    /// Whether documents come in the requested order.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Steps to the next matching document; `false` at the end. Each record is a step of the operation that the
    /// selector's variables belong to.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let stepped = self.step();
        self.examined.matched += u64::from(matches!(stepped, Ok(true)));
        stepped
    }

    /// Releases what the storage holds for the walk until it is advanced again: memory that would be held as long as the
    /// reader waits. The current document is kept.
    pub(crate) fn rest(&mut self) {
        match &mut self.source {
            MatchSource::Records(walk) => walk.rest(),
            MatchSource::Scans(scans) => scans.rest(),
            MatchSource::Point { .. } => {}
        }
    }

    /// What the walk has read so far.
    pub(crate) fn examined(&self) -> Examined {
        self.examined
    }

    /// What each scan has read so far, for a plan with several scans.
    pub(crate) fn scans_examined(&self) -> Vec<Examined> {
        match &self.source {
            MatchSource::Scans(scans) => scans.examined.clone(),
            MatchSource::Point { .. } | MatchSource::Records(_) => vec![self.examined],
        }
    }

    /// Advances without counting the match.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        let Self { selector, everything, source, examined, .. } = self;
        let operation = selector.variables().operation();
        let walk = match source {
            MatchSource::Records(walk) => walk,
            MatchSource::Scans(scans) => return scans.step(selector, examined),
            MatchSource::Point { key, bytes, state } => {
                operation.step()?;
                examined.documents += u64::from(*state == LookupState::Pending);
                let is_match = *state == LookupState::Pending && selector.matches(stored(key, bytes)?)?;
                *state = if is_match { LookupState::Current } else { LookupState::Done };
                return Ok(is_match);
            }
        };
        // The loop of every collection scan, so it is here and not a call away.
        loop {
            match walk.advance()? {
                KeyStep::End => return Ok(false),
                KeyStep::Absent => {
                    operation.step()?;
                    continue;
                }
                KeyStep::LookedUp | KeyStep::Scanned => {}
            }
            examined.documents += 1;
            let value = walk.value();
            operation.pass(value.len())?;
            // Without a filter the cheap test is enough; bytes that fail it become an error in `walk.document()`.
            if *everything && is_framed(value) || selector.matches(walk.document()?)? {
                return Ok(true);
            }
        }
    }

    /// The current document.
    #[inline]
    pub(crate) fn document(&self) -> Result<&RawDocument> {
        match &self.source {
            MatchSource::Records(walk) => walk.document(),
            MatchSource::Scans(_) | MatchSource::Point { .. } => stored(self.record_key(), self.bytes()),
        }
    }

    /// The record key of the current document.
    pub(crate) fn record_key(&self) -> &[u8] {
        match &self.source {
            MatchSource::Point { key, state: LookupState::Current, .. } => key,
            MatchSource::Point { state: LookupState::Pending | LookupState::Done, .. } => &[],
            MatchSource::Records(walk) => walk.key(),
            MatchSource::Scans(scans) => scans.current.as_ref().map(OpenScan::record_key).unwrap_or_default(),
        }
    }

    /// The stored bytes of the current document.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.source {
            MatchSource::Records(walk) => walk.value(),
            MatchSource::Point { bytes, state: LookupState::Current, .. } => bytes,
            MatchSource::Point { state: LookupState::Pending | LookupState::Done, .. } => &[],
            MatchSource::Scans(scans) => scans.current.as_ref().map(OpenScan::document).unwrap_or_default(),
        }
    }
}

impl MatchSource {
    /// The source of a record that was looked up. `bytes` are absent if there is no record.
    fn of_record(key: PointKey, bytes: Option<Vec<u8>>) -> Self {
        let state = if bytes.is_some() { LookupState::Pending } else { LookupState::Done };
        Self::Point { key, bytes: bytes.unwrap_or_default(), state }
    }

    /// The source of a plan's access.
    fn of_access(
        snapshot: Arc<Snapshot>,
        collection: CollectionId,
        indexes: Arc<[Index]>,
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
        // Two branches can find the same document, and so can one multikey index. Remembering all keys costs memory, so it
        // is done only then.
        let has_duplicates = match scans.as_slice() {
            [Access::Entries(scan)] => scan.has_duplicates,
            scans => scans.len() > 1,
        };
        let reserved = || Reservation::of(selector.variables().operation());
        let visited =
            has_duplicates.then(|| Visited { keys: HashSet::new(), bytes: 0, reserved: reserved() });
        let (pending, examined) = (scans.into_iter(), Vec::new());
        let scans = ScanSequence { snapshot, collection, indexes, pending, current: None, visited, examined };
        Ok(Self::Scans(Box::new(scans)))
    }
}

impl ScanSequence {
    /// Steps to the next document that matches and was not found before.
    fn step(&mut self, selector: &Selector, examined: &mut Examined) -> Result<bool> {
        let operation = selector.variables().operation();
        loop {
            let Some(scan) = &mut self.current else {
                let Some(access) = self.pending.next() else { return Ok(false) };
                self.open(access)?;
                continue;
            };
            let mut own = Examined::default();
            let found = scan.step(self.visited.as_mut(), &mut own, |document| {
                operation.pass(document.as_bytes().len())?;
                selector.matches(document)
            });
            // The counts of the whole walk and those of this scan, which an explanation shows with its stage.
            examined.keys += own.keys;
            examined.documents += own.documents;
            if let Some(all) = self.examined.last_mut() {
                all.keys += own.keys;
                all.documents += own.documents;
                all.matched += u64::from(matches!(found, Ok(ScanStep::Match)));
            }
            match found? {
                ScanStep::Match => return Ok(true),
                // Keys without a match count as steps, so that a walk over millions of them can be interrupted.
                ScanStep::Nothing => operation.step()?,
                ScanStep::End => self.current = None,
            }
        }
    }

    /// Opens the next scan.
    fn open(&mut self, access: Access) -> Result<()> {
        self.examined.push(Examined::default());
        self.current = match access {
            Access::Records(scan) => {
                let spans = KeySpans::of_records(&scan.ids, self.collection)?;
                let walk = KeyWalk::new(&self.snapshot, Family::Records, spans, scan.direction);
                Some(OpenScan::Records(walk))
            }
            Access::Entries(scan) => {
                let index = self.indexes.get(scan.index).expect("the plan was made for these indexes");
                Some(OpenScan::Entries(EntryWalk::new(&self.snapshot, self.collection, index, &scan)))
            }
            Access::Nothing => None,
            // The planner makes no unions of unions. If it did, the inner scans would come next.
            Access::Union(scans) => {
                let pending: Vec<Access> = scans.into_iter().chain(self.pending.by_ref()).collect();
                self.pending = pending.into_iter();
                None
            }
        };
        Ok(())
    }

    /// Releases what the storage holds for the current scan.
    fn rest(&mut self) {
        match &mut self.current {
            Some(OpenScan::Records(walk)) => walk.rest(),
            Some(OpenScan::Entries(walk)) => walk.rest(),
            None => {}
        }
    }
}

/// What a step of one scan found.
enum ScanStep {
    Match,
    /// A key without a match.
    Nothing,
    End,
}

impl OpenScan {
    /// Examined at the next key.
    fn step(
        &mut self,
        visited: Option<&mut Visited>,
        examined: &mut Examined,
        matches: impl Fn(&RawDocument) -> Result<bool>,
    ) -> Result<ScanStep> {
        match self {
            Self::Records(walk) => match walk.advance()? {
                KeyStep::End => return Ok(ScanStep::End),
                KeyStep::Absent => return Ok(ScanStep::Nothing),
                KeyStep::LookedUp | KeyStep::Scanned => {}
            },
            Self::Entries(walk) => {
                let step = walk.advance()?;
                if step == EntryStep::End {
                    return Ok(ScanStep::End);
                }
                // A unique key that was looked up and is absent is no entry.
                examined.keys += u64::from(step != EntryStep::Absent);
                if step != EntryStep::Within {
                    return Ok(ScanStep::Nothing);
                }
            }
        }
        // Asked before the record is read: a duplicate then costs no read.
        if let Some(visited) = visited
            && !visited.insert(self.record_key())?
        {
            return Ok(ScanStep::Nothing);
        }
        // A scan of records has its document already.
        if let Self::Entries(walk) = self {
            walk.fetch()?;
        }
        examined.documents += 1;
        let document = stored(self.record_key(), self.document())?;
        Ok(if matches(document)? { ScanStep::Match } else { ScanStep::Nothing })
    }

    /// The record key of the current document.
    fn record_key(&self) -> &[u8] {
        match self {
            Self::Records(walk) => walk.key(),
            Self::Entries(walk) => walk.record_key(),
        }
    }

    /// The bytes of the current document.
    fn document(&self) -> &[u8] {
        match self {
            Self::Records(walk) => walk.value(),
            Self::Entries(walk) => walk.document(),
        }
    }
}

impl Visited {
    /// Adds a record key. Returns `false` if it is there already.
    fn insert(&mut self, record_key: &[u8]) -> Result<bool> {
        if self.keys.contains(record_key) {
            return Ok(false);
        }
        // A large union can find millions of documents, so the keys count against the operation's memory.
        self.bytes += size_of::<Box<[u8]>>() + record_key.len();
        self.reserved.grow_by_doubling(self.bytes)?;
        Ok(self.keys.insert(Box::from(record_key)))
    }
}

/// Whether bytes have the length and the closing zero byte of a document. This is what `RawDocument::from_bytes` checks,
/// without a call.
#[inline]
fn is_framed(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length));
    bytes.len() >= 5
        && length.and_then(|length| usize::try_from(length).ok()) == Some(bytes.len())
        && bytes.last() == Some(&0)
}
