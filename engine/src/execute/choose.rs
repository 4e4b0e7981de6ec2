//! The choice between plans that the rules of the planner do not decide: their keys are counted.
//!
//! Counting stops when one plan has been counted to its end, so it costs no more than a part of what following that plan
//! does. Plans with too many keys to count are compared by how much of the tables is within their bounds.

use std::sync::Arc;

use base::error::Result;
use index::key::LongKeys;
use query::operation::OperationContext;
use query::planner::{Access, Merge, Plan, Union};
use store::Family;
use store::keys::CollectionId;
use store::snapshot::Snapshot;

use crate::catalog::indexes::Index;
use crate::execute::examined::Examined;
use crate::execute::key_walk::{KeyStep, KeyWalk};
use crate::execute::read_view::ReadView;
use crate::options::PlantedFault;
use crate::plan::access::{self, Asked};
use crate::plan::bounds::{KeySpan, KeySpans};

/// The costs up to which the keys of all rivals are counted before any is counted further.
const COSTS: [u64; 4] = [64, 512, 4096, 32_768];
/// The number of these for a caller who may stop after a few documents, which cost less than much counting.
const COSTS_OF_SOME: usize = 2;
/// The cost of a key whose document is found by it, where that of a record or of an entry by itself is 1.
const FETCH_COST: u64 = 4;
/// The number of spans whose size in tables is asked for.
const SIZED_SPANS_MAX: usize = 64;

/// A plan, and what was counted of it.
#[derive(Clone, Debug)]
pub(crate) struct CountedPlan {
    pub(crate) plan: Plan,
    /// The keys of each of its scans that was begun, in their order. Absent if the rules have decided without counting.
    pub(crate) counted: Option<Vec<Examined>>,
}

/// The keys of a plan, counted so far.
struct Count<'a> {
    /// The scans that are not begun. Their keys are made one scan after the other: a plan may have a thousand, each with
    /// thousands of keys.
    scans: std::vec::IntoIter<&'a Access>,
    current: Option<Scan>,
    /// The sum of the costs of all keys counted.
    cost: u64,
    /// The keys of each scan that was begun. Records count as documents, as in a search.
    examined: Vec<Examined>,
}

/// One scan of a plan.
struct Scan {
    walk: KeyWalk,
    family: Family,
    /// The cost of each key.
    cost: u64,
}

/// The keys of one scan.
struct Keys {
    family: Family,
    spans: KeySpans,
    /// The cost of each of them.
    cost: u64,
}

/// Plans that were counted.
struct Rivals {
    /// Their positions among all plans, ascending.
    at: Vec<usize>,
    chosen: Chosen,
}

/// The outcome of counting.
struct Chosen {
    /// The position of the plan that costs least.
    first: usize,
    counts: Vec<Vec<Examined>>,
}

/// The plans for a search on a read view, the one to follow first. There is at least one.
pub(crate) fn plans(asked: Asked<'_>, view: &ReadView) -> Result<Vec<Plan>> {
    let mut plans = planned(asked, view)?;
    if let Some(Rivals { at, chosen }) = rivals(&plans, asked, view)? {
        put_first(&mut plans, &at, chosen.first);
    }
    Ok(plans)
}

/// The plans for a search on a read view, the one to follow first, with what was counted to choose it. Searches that are planned and
/// their explanations both choose here, so they agree.
pub(crate) fn counted_plans(asked: Asked<'_>, view: &ReadView) -> Result<Vec<CountedPlan>> {
    let plans = planned(asked, view)?;
    let rivals = rivals(&plans, asked, view)?;
    let mut plans: Vec<CountedPlan> =
        plans.into_iter().map(|plan| CountedPlan { plan, counted: None }).collect();
    if let Some(Rivals { at, chosen }) = rivals {
        for (at, counts) in at.iter().zip(chosen.counts) {
            if let Some(plan) = plans.get_mut(*at) {
                plan.counted = Some(counts);
            }
        }
        put_first(&mut plans, &at, chosen.first);
    }
    Ok(plans)
}

/// The plans for a search as the rules rank them.
fn planned(asked: Asked<'_>, view: &ReadView) -> Result<Vec<Plan>> {
    let fault = view.snapshot().map_or(PlantedFault::None, |snapshot| snapshot.fault());
    let has_shortened_ids = view.record_keys().announced().has_shortened();
    access::plans(asked, view.indexes(), has_shortened_ids, fault)
}

/// The positions of plans that the rules do not decide between, and the choice among them. Returns `None` if there are no two, or
/// nothing to count their keys in.
fn rivals(plans: &[Plan], asked: Asked<'_>, view: &ReadView) -> Result<Option<Rivals>> {
    let at: Vec<usize> = (0..).zip(plans).filter(|(_, plan)| plan.is_rival).map(|(at, _)| at).collect();
    let Some(snapshot) = view.snapshot().filter(|_| at.len() > 1) else { return Ok(None) };
    let accesses: Vec<&Access> = at.iter().filter_map(|at| plans.get(*at)).map(|plan| &plan.access).collect();
    let long_keys = view.record_keys().long_keys;
    let reader = Reader { snapshot, collection: view.collection(), long_keys, indexes: view.indexes() };
    Ok(Some(Rivals { chosen: reader.choose(&accesses, asked)?, at }))
}

/// Moves the rival that was chosen to the front.
fn put_first<T>(plans: &mut [T], rivals: &[usize], chosen: usize) {
    if let Some(first) = rivals.get(chosen).and_then(|at| plans.get_mut(..=*at)) {
        first.rotate_right(1);
    }
}

/// The keys that are counted.
struct Reader<'a> {
    snapshot: &'a Arc<Snapshot>,
    collection: CollectionId,
    long_keys: LongKeys,
    indexes: &'a [Index],
}

impl Reader<'_> {
    /// Counts the keys of plans. Of plans with equal costs the first one is chosen.
    fn choose(&self, plans: &[&Access], asked: Asked<'_>) -> Result<Chosen> {
        let mut counts: Vec<Count<'_>> = plans.iter().map(|access| Count::of(access)).collect();
        let first = self.cheapest(&mut counts, plans, asked)?;
        Ok(Chosen { first, counts: counts.into_iter().map(|count| count.examined).collect() })
    }

    /// The position of the plan that costs least, of which `counts` has the keys.
    fn cheapest(&self, counts: &mut [Count<'_>], plans: &[&Access], asked: Asked<'_>) -> Result<usize> {
        let operation = asked.selector.variables().operation();
        let costs = if asked.reads_all { &COSTS[..] } else { COSTS.get(..COSTS_OF_SOME).unwrap_or_default() };
        for limit in costs {
            let mut best = None;
            for (at, count) in counts.iter_mut().enumerate() {
                // One that reaches the cost of the best one is no better, and need not be counted further.
                let limit = best.map_or(*limit, |(cost, _)| cost);
                if count.advance(limit, self, operation)? && best.is_none_or(|(cost, _)| count.cost < cost) {
                    best = Some((count.cost, at));
                }
            }
            if let Some((_, at)) = best {
                return Ok(at);
            }
        }
        let bytes = plans.iter().map(|access| self.bytes_of(access)).collect::<Result<Vec<u64>>>()?;
        // Keys that were not written to tables yet are not known, and then the order of the plans counts.
        let least = (0..).zip(&bytes).min_by_key(|(_, bytes)| **bytes);
        Ok(least.filter(|_| !bytes.contains(&0)).map_or(0, |(at, _)| at))
    }

    /// The bytes of tables within the bounds of a plan, each counted as often as a key there costs.
    fn bytes_of(&self, access: &Access) -> Result<u64> {
        let mut bytes = 0_u64;
        for access in scans_of(access) {
            let Some(Keys { family, mut spans, cost }) = self.keys(access)? else { continue };
            let mut ranges = Vec::new();
            while ranges.len() < SIZED_SPANS_MAX
                && let Some(span) = spans.take(index::key::Direction::Ascending)
            {
                ranges.push(match span {
                    KeySpan::Between(start, end) => (start, end),
                    KeySpan::Key(key) => (key.clone(), [&key[..], &[0]].concat()),
                });
            }
            let size = self.snapshot.bytes_in_tables(family, &ranges);
            bytes = bytes.saturating_add(size.saturating_mul(cost));
        }
        Ok(bytes)
    }

    /// The keys of one scan. Returns `None` for an index that the caller does not have.
    fn keys(&self, access: &Access) -> Result<Option<Keys>> {
        Ok(match access {
            Access::Records(scan) => {
                let spans = KeySpans::of_records(&scan.ids, self.collection, self.long_keys)?;
                Some(Keys { family: Family::Records, spans, cost: 1 })
            }
            Access::Entries(scan) => self.indexes.get(scan.index).map(|index| {
                let (spans, _) = KeySpans::of_entries(index, &scan.bounds);
                let cost = if access.is_covered() { 1 } else { FETCH_COST };
                Keys { family: Family::Entries, spans, cost }
            }),
            // These are not single scans.
            Access::Nothing | Access::Union(_) | Access::Merge(_) => None,
        })
    }

    /// Begins to count one scan.
    fn begin(&self, access: &Access, operation: &OperationContext) -> Result<Option<Scan>> {
        let (keys, direction) = (self.keys(access)?, index::key::Direction::Ascending);
        Ok(keys.map(|Keys { family, spans, cost }| Scan {
            walk: KeyWalk::new(self.snapshot, family, spans, direction, operation),
            family,
            cost,
        }))
    }
}

/// The single scans of a plan, in their order.
fn scans_of(access: &Access) -> Vec<&Access> {
    match access {
        Access::Nothing => Vec::new(),
        Access::Records(_) | Access::Entries(_) => vec![access],
        Access::Union(Union { scans, .. }) | Access::Merge(Merge { scans, .. }) => {
            scans.iter().flat_map(scans_of).collect()
        }
    }
}

impl<'a> Count<'a> {
    /// The keys of a plan, of which none is counted yet.
    fn of(access: &'a Access) -> Self {
        Self { scans: scans_of(access).into_iter(), current: None, cost: 0, examined: Vec::new() }
    }

    /// Counts until the keys cost `limit` or more, or are at their end. Returns whether they are.
    fn advance(&mut self, limit: u64, reader: &Reader<'_>, operation: &OperationContext) -> Result<bool> {
        loop {
            if self.cost >= limit {
                return Ok(false);
            }
            let Some(scan) = &mut self.current else {
                let Some(next) = self.scans.next() else { return Ok(true) };
                self.current = reader.begin(next, operation)?;
                self.examined.extend(self.current.as_ref().map(|_| Examined::default()));
                continue;
            };
            operation.step()?;
            let step = scan.walk.advance()?;
            if let (KeyStep::Scanned | KeyStep::LookedUp, Some(examined)) = (step, self.examined.last_mut()) {
                let is_record = scan.family == Family::Records;
                examined.documents += u64::from(is_record);
                examined.keys += u64::from(!is_record);
            }
            match step {
                KeyStep::End => self.current = None,
                // A key that is looked up costs as much if it is absent.
                KeyStep::Absent | KeyStep::Scanned | KeyStep::LookedUp => self.cost += scan.cost,
            }
        }
    }
}
