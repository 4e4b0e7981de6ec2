//! The documents of a collection that match a filter, on one read state, read by a plan.
//!
//! A filter that fixes the `_id` is one lookup. Otherwise the plan says what is read: records, or entries of indexes and
//! the records that they name. Each document is returned once, and only if the filter matches it: bounds of a plan may
//! be wider than the filter, and where they are not, the plan says so.

use std::sync::Arc;

use base::error::{Error, Result};
use base::metrics::notes;
use bson::{RawDocument, RawDocumentBuf};
use index::key::{Direction, LongKeys};
use query::filter::Filter;
use query::operation::{OperationContext, Reservation};
use query::planner::{Access, Merge, Plan, Union};
use store::Family;
use store::keys::CollectionId;
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::document::decode::{is_framed, stored};
use crate::execute::choose::plans;
use crate::execute::entry_walk::EntryWalk;
use crate::execute::examined::Examined;
use crate::execute::found_key;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::merge_walk::MergeWalk;
use crate::execute::natural_walk::{Extent, NaturalWalk};
use crate::execute::open_scan::{OpenScan, ScanStep, Visited};
use crate::execute::read_view::{ReadState, ReadView};
use crate::execute::rest::Rest;
use crate::options::PlantedFault;
use crate::plan::access::{Asked, Needed};
use crate::plan::bounds::KeySpans;
use crate::plan::order::Order;
use crate::plan::selector::{PointKey, Selector};

/// A walk over matching documents. It is before the first one until `advance` is called.
pub(crate) struct Matches {
    selector: Selector,
    /// Whether the filter is empty, so that every document matches.
    everything: bool,
    is_sorted: bool,
    /// Whether records are found by their `_id`s. A scan of all of them uses no key.
    has_id_keys: bool,
    source: MatchSource,
    examined: Examined,
}

/// The source of a walk.
enum MatchSource {
    /// The record that was looked up.
    Point { key: PointKey, bytes: Vec<u8>, state: LookupState },
    /// One scan of records. Boxed like the next one, so that a lookup stays small.
    Records(Box<KeyWalk>),
    /// The documents of a capped collection, as they were inserted.
    Natural(Box<NaturalWalk>),
    /// Any other plan.
    Scans(Box<ScanSequence>),
}

/// The result of a step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advanced {
    /// To a document that matches.
    Match,
    End,
    /// To none of them, in as many keys or documents as it was allowed to look at.
    NotYet,
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

/// The records that scans read.
#[derive(Clone, Copy)]
struct Records {
    collection: CollectionId,
    long_keys: LongKeys,
}

/// Scans that are run one after the other. Some of them read entries.
struct ScanSequence {
    snapshot: Arc<Snapshot>,
    collection: CollectionId,
    long_keys: LongKeys,
    indexes: Arc<[Index]>,
    pending: std::vec::IntoIter<Access>,
    current: Option<Current>,
    /// Absent if no document can be found twice.
    visited: Option<Visited>,
    /// The reads of each scan, in the order in which they were opened, which an explanation shows with its stage.
    examined: Vec<Examined>,
    /// The position in `examined` of the scans in `current`.
    first: usize,
}

/// The present source.
enum Current {
    /// Boxed, and so is the merge, to keep a lookup small.
    One(Box<OpenScan>),
    /// Several scans side by side.
    Merged(Box<MergeWalk>),
}

impl Matches {
    /// Opens a walk over the documents of a read view by the best plan.
    pub(crate) fn open(view: ReadView, selector: &Selector, order: &Order) -> Result<Self> {
        let asked = Asked { selector, order, needs: &Needed::Documents, one_of_each: None, reads_all: true };
        Self::open_for(view, asked)
    }

    /// Opens a walk over what is needed of the documents of a read view, by the best plan.
    pub(crate) fn open_for(view: ReadView, asked: Asked<'_>) -> Result<Self> {
        // The plan is made after the snapshot was taken: see `plan::access`.
        let plan = match view.snapshot() {
            Some(_) => plans(asked, &view)?.into_iter().next(),
            None => None,
        };
        // Counting needs no order, and records are read faster by their keys.
        let counts = matches!(asked.needs, Needed::Fields(fields) if fields.is_empty());
        let view = if counts { view.without_order() } else { view };
        Self::follow(view, asked.selector.clone(), asked.order, plan)
    }

    /// Opens a walk over the documents of a capped collection from a position on, each of which is tested.
    pub(crate) fn open_from(view: ReadView, selector: Selector, first: u64) -> Result<Self> {
        let everything = selector.filter().is_some_and(Filter::is_empty);
        let (collection, order) = (view.collection(), view.order());
        // Without a plan: a position is what such a walk goes on from, so no index could serve it.
        let source = match (view.into_state(), order) {
            (ReadState::Snapshot(snapshot), Some(order)) => {
                let operation = selector.variables().operation();
                let walk = NaturalWalk::open(&snapshot, collection, order, Extent::From(first), operation)?;
                MatchSource::Natural(Box::new(walk))
            }
            (ReadState::Snapshot(_) | ReadState::Record { .. }, _) => {
                return Err(Error::invalid_argument("a walk from a position needs a capped collection"));
            }
        };
        let examined = Examined::default();
        Ok(Self { selector, everything, is_sorted: true, has_id_keys: false, source, examined })
    }

    /// Opens a walk over a read view by a plan that needs no sort. Returns `None` if no such plan exists.
    pub(crate) fn open_sorted(view: ReadView, selector: Selector, order: &Order) -> Result<Option<Self>> {
        // Plans come best first, so this is the best of those without a sort.
        let asked = Asked {
            selector: &selector,
            order,
            needs: &Needed::Documents,
            one_of_each: None,
            reads_all: true,
        };
        let plan = plans(asked, &view)?.into_iter().find(|plan| plan.is_sorted);
        plan.map(|plan| Self::follow(view, selector, order, Some(plan))).transpose()
    }

    /// Opens a walk over a read view that does not read every record. Returns `None` if there is no plan for that.
    pub(crate) fn open_indexed(view: ReadView, selector: &Selector) -> Result<Option<Self>> {
        let order = Order::default();
        if selector.point().is_some() {
            return Self::follow(view, selector.clone(), &order, None).map(Some);
        }
        let asked =
            Asked { selector, order: &order, needs: &Needed::Documents, one_of_each: None, reads_all: true };
        let plan = plans(asked, &view)?.into_iter().next();
        let reads_all = plan
            .as_ref()
            .is_some_and(|plan| matches!(&plan.access, Access::Records(scan) if scan.ids.is_all()));
        if reads_all {
            return Ok(None);
        }
        Self::follow(view, selector.clone(), &order, plan).map(Some)
    }

    /// Opens a walk by a plan. There is no plan if the record was looked up already.
    fn follow(view: ReadView, selector: Selector, order: &Order, plan: Option<Plan>) -> Result<Self> {
        let everything = selector.filter().is_some_and(Filter::is_empty);
        let (collection, indexes) = (view.collection(), view.shared_indexes());
        let long_keys = view.record_keys().long_keys;
        let is_sorted = plan.as_ref().is_none_or(|plan| plan.is_sorted);
        let reads_all = plan
            .as_ref()
            .is_some_and(|plan| matches!(&plan.access, Access::Records(scan) if scan.ids.is_all()));
        let is_by_id = order.names_ids() || (is_sorted && order.sort().is_some());
        let has_id_keys = !reads_all || is_by_id;
        // If the order is asked for and no sort is met by another, or if nothing gives one. What is sorted afterwards
        // is read faster by its keys.
        let is_by_sort = is_sorted && order.sort().is_some();
        let is_natural = order.natural().is_some() && !is_by_sort || !has_id_keys && is_sorted;
        let natural = view.order().filter(|_| is_natural);
        let direction = order.natural().unwrap_or(Direction::Ascending);
        let source = match (view.into_state(), plan) {
            (ReadState::Record { key, bytes }, _) => MatchSource::of_record(key, bytes),
            (ReadState::Snapshot(snapshot), plan) => {
                // A reader who could not look the record up directly still needs no scan.
                if let Some(key) = selector.record_key(collection, long_keys) {
                    notes::looked_up();
                    let bytes = snapshot.get(Family::Records, &key)?;
                    MatchSource::of_record(key, bytes)
                } else {
                    let access = plan.map_or(Access::Nothing, |plan| plan.access);
                    note_plan(&access, &indexes);
                    if let (Some(natural), Access::Records(_)) = (natural, &access) {
                        let extent = Extent::All(direction);
                        let operation = selector.variables().operation();
                        let walk = NaturalWalk::open(&snapshot, collection, natural, extent, operation)?;
                        MatchSource::Natural(Box::new(walk))
                    } else {
                        let records = Records { collection, long_keys };
                        MatchSource::of_access(snapshot, records, indexes, access, &selector)?
                    }
                }
            }
        };
        // MongoDB counts the lookup of a record as one key, if there is a record.
        let keys = match &source {
            MatchSource::Point { state, .. } => u64::from(*state == LookupState::Pending),
            MatchSource::Records(_) | MatchSource::Natural(_) | MatchSource::Scans(_) => 0,
        };
        let examined = Examined { keys, ..Examined::default() };
        Ok(Self { selector, everything, is_sorted, has_id_keys, source, examined })
    }

    /// The operation that the search belongs to.
    pub(crate) fn operation(&self) -> &OperationContext {
        self.selector.variables().operation()
    }

    /// Whether documents come in the requested order.
    pub(crate) fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Steps to the next matching document; `false` at the end. Each record is a step of the operation that the
    /// selector's variables belong to.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            match self.advance_within(u32::MAX)? {
                Advanced::Match => return Ok(true),
                Advanced::End => return Ok(false),
                Advanced::NotYet => {}
            }
        }
    }

    /// Looks at `most` keys or documents at most for the next matching document.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub(crate) fn advance_within(&mut self, most: u32) -> Result<Advanced> {
        let stepped = self.step(most);
        self.examined.matched += u64::from(matches!(stepped, Ok(Advanced::Match)));
        stepped
    }

    /// Releases what the storage holds for the walk until it is advanced again: memory that would be held as long as the
    /// reader waits.
    pub(crate) fn rest(&mut self, current: Rest) {
        if current == Rest::Repeat {
            // It is counted when it is read again.
            self.examined.matched = self.examined.matched.saturating_sub(1);
        }
        match &mut self.source {
            MatchSource::Records(walk) => walk.rest(current),
            MatchSource::Natural(walk) => walk.rest(current),
            MatchSource::Scans(scans) => scans.rest(current),
            // It is the only document, so there is nothing behind it.
            MatchSource::Point { bytes, state, .. } if *state == LookupState::Current => match current {
                Rest::Keep => {}
                Rest::Repeat => *state = LookupState::Pending,
                Rest::Release => (*bytes, *state) = (Vec::new(), LookupState::Done),
            },
            MatchSource::Point { .. } => {}
        }
    }

    /// The reads of the walk so far.
    pub(crate) fn examined(&self) -> Examined {
        match &self.source {
            MatchSource::Scans(scans) => {
                Examined { matched: self.examined.matched, ..Examined::sum(&scans.examined) }
            }
            MatchSource::Point { .. } | MatchSource::Records(_) | MatchSource::Natural(_) => self.examined,
        }
    }

    /// The reads of each scan so far, for a plan with several scans.
    pub(crate) fn scans_examined(&self) -> Vec<Examined> {
        match &self.source {
            MatchSource::Scans(scans) => scans.examined.clone(),
            MatchSource::Point { .. } | MatchSource::Records(_) | MatchSource::Natural(_) => {
                vec![self.examined]
            }
        }
    }

    /// Advances in the order of a capped collection, or to the only document.
    fn step_elsewhere(&mut self, most: u32) -> Result<Advanced> {
        let Self { selector, everything, source, examined, .. } = self;
        let operation = selector.variables().operation();
        match source {
            MatchSource::Natural(walk) => {
                for _ in 0..most {
                    if !walk.advance()? {
                        return Ok(Advanced::End);
                    }
                    examined.documents += 1;
                    operation.pass(walk.bytes().len())?;
                    if *everything && is_framed(walk.bytes()) || selector.matches(walk.document()?)? {
                        return Ok(Advanced::Match);
                    }
                }
                Ok(Advanced::NotYet)
            }
            MatchSource::Point { key, bytes, state } => {
                operation.step()?;
                examined.documents += u64::from(*state == LookupState::Pending);
                let is_match = *state == LookupState::Pending && selector.matches(stored(key, bytes)?)?;
                *state = if is_match { LookupState::Current } else { LookupState::Done };
                Ok(if is_match { Advanced::Match } else { Advanced::End })
            }
            MatchSource::Records(_) | MatchSource::Scans(_) => Ok(Advanced::NotYet),
        }
    }

    /// Advances without counting the match.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    fn step(&mut self, most: u32) -> Result<Advanced> {
        let Self { selector, everything, source, examined, .. } = self;
        let operation = selector.variables().operation();
        let walk = match source {
            MatchSource::Records(walk) => walk,
            MatchSource::Scans(scans) => return scans.step(selector, most),
            MatchSource::Natural(_) | MatchSource::Point { .. } => return self.step_elsewhere(most),
        };
        // The loop of every collection scan, so it is here and not a call away.
        for _ in 0..most {
            match walk.advance()? {
                KeyStep::End => return Ok(Advanced::End),
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
                return Ok(Advanced::Match);
            }
        }
        Ok(Advanced::NotYet)
    }

    /// Whether the current document has just the fields that are needed, because it was made of an entry.
    pub(crate) fn is_exact(&self) -> bool {
        match &self.source {
            MatchSource::Scans(scans) => {
                matches!(scans.scan(), Some(OpenScan::Entries { walk, .. }) if walk.is_exact())
            }
            MatchSource::Point { .. } | MatchSource::Records(_) | MatchSource::Natural(_) => false,
        }
    }

    /// The current document.
    #[inline]
    pub(crate) fn document(&self) -> Result<&RawDocument> {
        match &self.source {
            MatchSource::Records(walk) => walk.document(),
            MatchSource::Scans(_) | MatchSource::Natural(_) | MatchSource::Point { .. } => {
                self.other_document()
            }
        }
    }

    /// The current document of a lookup or of scans. Out of line, so that [`document`](Self::document) is short.
    fn other_document(&self) -> Result<&RawDocument> {
        stored(self.record_key(), self.bytes())
    }

    /// The key by which the current document was found. It is empty in a scan of all records.
    pub(crate) fn found_key(&self) -> Result<RawDocumentBuf> {
        let scan = match &self.source {
            MatchSource::Scans(scans) => scans.scan().map(|scan| (scan, &scans.indexes)),
            MatchSource::Records(_) | MatchSource::Natural(_) | MatchSource::Point { .. } => None,
        };
        if let Some((OpenScan::Entries { walk, index }, indexes)) = scan {
            let index = indexes.get(*index).expect("the plan was made for these indexes");
            return found_key::of_entry(index, walk.key_after(0), self.document()?);
        }
        if self.has_id_keys { found_key::of_record(self.document()?) } else { Ok(RawDocumentBuf::new()) }
    }

    /// The record key of the current document.
    pub(crate) fn record_key(&self) -> &[u8] {
        match &self.source {
            MatchSource::Point { key, state: LookupState::Current, .. } => key,
            MatchSource::Point { state: LookupState::Pending | LookupState::Done, .. } => &[],
            MatchSource::Records(walk) => walk.key(),
            MatchSource::Natural(walk) => walk.record_key(),
            MatchSource::Scans(scans) => scans.scan().map(OpenScan::record_key).unwrap_or_default(),
        }
    }

    /// The stored bytes of the current document.
    #[expect(
        clippy::inline_always,
        reason = "every document of a scan passes here, and a call costs a hundredth of it"
    )]
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.source {
            MatchSource::Records(walk) => walk.value(),
            MatchSource::Natural(walk) => walk.bytes(),
            MatchSource::Point { bytes, state: LookupState::Current, .. } => bytes,
            MatchSource::Point { state: LookupState::Pending | LookupState::Done, .. } => &[],
            MatchSource::Scans(scans) => scans.scan().map(OpenScan::document).unwrap_or_default(),
        }
    }
}

impl Drop for Matches {
    fn drop(&mut self) {
        // A lookup examines one document at most, and is counted as such.
        if !matches!(self.source, MatchSource::Point { .. }) {
            let Examined { keys, documents, .. } = self.examined();
            notes::examined(keys, documents);
        }
    }
}

/// Notes how a search reads its documents.
fn note_plan(access: &Access, indexes: &[Index]) {
    // A filter that nothing can match reads nothing, and is not a search.
    if !matches!(access, Access::Nothing) {
        let mut reads_all = false;
        for_each_scan(access, indexes, &mut |plan| {
            reads_all |= plan == notes::Plan::Records;
            notes::scans(plan);
        });
        notes::searched(reads_all);
    }
}

fn for_each_scan<'a>(access: &Access, indexes: &'a [Index], with: &mut impl FnMut(notes::Plan<'a>)) {
    match access {
        Access::Nothing => {}
        Access::Records(scan) => {
            with(if scan.ids.is_all() { notes::Plan::Records } else { notes::Plan::Ids });
        }
        Access::Entries(scan) => {
            if let Some(index) = indexes.get(scan.index) {
                with(notes::Plan::Index(&index.name));
            }
        }
        Access::Union(Union { scans, .. }) | Access::Merge(Merge { scans, .. }) => {
            for scan in scans {
                for_each_scan(scan, indexes, with);
            }
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
        records: Records,
        indexes: Arc<[Index]>,
        access: Access,
        selector: &Selector,
    ) -> Result<Self> {
        // Two branches can find the same document, and so can one multikey index. Remembering all keys costs memory, so it
        // is done only then.
        let has_duplicates = match &access {
            Access::Nothing | Access::Records(_) => false,
            Access::Entries(scan) => scan.has_duplicates,
            Access::Union(union) => union.has_duplicates,
            Access::Merge(merge) => merge.has_duplicates,
        };
        let Records { collection, long_keys } = records;
        let scans = match access {
            Access::Records(scan) if !scan.is_given => {
                let spans = KeySpans::of_records(&scan.ids, collection, long_keys)?;
                let operation = selector.variables().operation();
                let walk = KeyWalk::new(&snapshot, Family::Records, spans, scan.direction, operation);
                return Ok(Self::Records(Box::new(walk)));
            }
            Access::Nothing => Vec::new(),
            one @ (Access::Records(_) | Access::Entries(_)) => vec![one],
            Access::Union(union) => union.scans,
            Access::Merge(merge) => vec![Access::Merge(merge)],
        };
        let reserved = || Reservation::of(selector.variables().operation());
        let has_duplicates = has_duplicates && snapshot.fault() != PlantedFault::DuplicatesReturned;
        let visited = has_duplicates.then(|| Visited::new(reserved()));
        let (pending, examined) = (scans.into_iter(), Vec::new());
        let scans = ScanSequence {
            snapshot,
            collection,
            long_keys,
            indexes,
            pending,
            current: None,
            visited,
            examined,
            first: 0,
        };
        Ok(Self::Scans(Box::new(scans)))
    }
}

impl ScanSequence {
    /// Steps to the next document that matches and was not found before.
    fn step(&mut self, selector: &Selector, most: u32) -> Result<Advanced> {
        let operation = selector.variables().operation();
        for _ in 0..most {
            match self.advance_straight(selector)? {
                Some(true) => return Ok(Advanced::Match),
                Some(false) => {
                    operation.step()?;
                    continue;
                }
                None => {}
            }
            let Some(current) = &mut self.current else {
                let Some(access) = self.pending.next() else { return Ok(Advanced::End) };
                self.open(access, selector)?;
                continue;
            };
            let parts = self.examined.get_mut(self.first..).unwrap_or_default();
            let found = match (current, parts) {
                (Current::One(scan), [own, ..]) => {
                    let found = scan.step(self.visited.as_mut(), own, selector);
                    own.matched += u64::from(matches!(found, Ok(ScanStep::Match)));
                    found
                }
                (Current::One(_), []) => Ok(ScanStep::End),
                (Current::Merged(walk), parts) => walk.step(self.visited.as_mut(), parts, selector),
            };
            match found? {
                ScanStep::Match => return Ok(Advanced::Match),
                // Keys without a match count as steps, so that a walk over millions of them can be interrupted.
                ScanStep::Nothing => operation.step()?,
                ScanStep::End => self.current = None,
            }
        }
        Ok(Advanced::NotYet)
    }

    /// Steps to the next entry of the leaf in which a scan of entries is, and says whether its document matches, if no document can be
    /// found twice.
    #[inline]
    fn advance_straight(&mut self, selector: &Selector) -> Result<Option<bool>> {
        let (None, Some(Current::One(scan)), Some(examined)) =
            (&self.visited, &mut self.current, self.examined.get_mut(self.first))
        else {
            return Ok(None);
        };
        let OpenScan::Entries { walk, .. } = &mut **scan else { return Ok(None) };
        let is_match = walk.advance_straight(selector, examined)?;
        examined.matched += u64::from(is_match == Some(true));
        Ok(is_match)
    }

    /// Opens the next scan, or several that are merged.
    fn open(&mut self, access: Access, selector: &Selector) -> Result<()> {
        let operation = selector.variables().operation();
        self.first = self.examined.len();
        self.current = match access {
            Access::Nothing => {
                self.examined.push(Examined::default());
                None
            }
            // The planner makes no unions of unions. If it did, the inner scans would come next.
            Access::Union(union) => {
                let pending: Vec<Access> = union.scans.into_iter().chain(self.pending.by_ref()).collect();
                self.pending = pending.into_iter();
                None
            }
            Access::Merge(merge) => {
                self.examined.resize(self.first + merge.scans.len(), Examined::default());
                let scans = merge.scans.iter().map(|access| self.open_one(access, operation));
                let scans = scans.collect::<Result<Vec<_>>>()?.into_iter().flatten();
                Some(Current::Merged(Box::new(MergeWalk::new(scans, merge.order, selector))))
            }
            one @ (Access::Records(_) | Access::Entries(_)) => {
                self.examined.push(Examined::default());
                self.open_one(&one, operation)?.map(Box::new).map(Current::One)
            }
        };
        Ok(())
    }

    /// Opens one scan. Returns `None` for anything that is not one scan.
    fn open_one(&self, access: &Access, operation: &OperationContext) -> Result<Option<OpenScan>> {
        match access {
            Access::Records(scan) => {
                let spans = KeySpans::of_records(&scan.ids, self.collection, self.long_keys)?;
                let walk = KeyWalk::new(&self.snapshot, Family::Records, spans, scan.direction, operation);
                let given = scan.is_given.then(|| scan.ids.clone());
                Ok(Some(OpenScan::Records { walk, given }))
            }
            Access::Entries(scan) => {
                let index = self.indexes.get(scan.index).expect("the plan was made for these indexes");
                index.uses.note();
                let walk = EntryWalk::new(&self.snapshot, self.collection, index, scan, operation);
                Ok(Some(OpenScan::Entries { walk, index: scan.index }))
            }
            // Merges are made of scans only.
            Access::Nothing | Access::Union(_) | Access::Merge(_) => Ok(None),
        }
    }

    /// The scan with the current document.
    fn scan(&self) -> Option<&OpenScan> {
        match self.current.as_ref()? {
            Current::One(scan) => Some(scan),
            Current::Merged(walk) => walk.current(),
        }
    }

    /// Releases what the storage holds for the current scan.
    fn rest(&mut self, current: Rest) {
        match &mut self.current {
            Some(Current::One(scan)) => {
                if current == Rest::Repeat
                    && let Some(visited) = &mut self.visited
                {
                    visited.forget(scan.record_key());
                }
                scan.rest(current);
            }
            Some(Current::Merged(walk)) => walk.rest(current, self.visited.as_mut()),
            None => {}
        }
    }
}
