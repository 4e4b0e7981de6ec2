//! The budget of planning: steps and bytes, in proportion to the filter. A filter of kilobytes can describe lists,
//! branches and combinations that multiply to billions.
//!
//! The invariant: planning never fails for want of them. Once something was rejected, so is all that follows, and what was
//! found before is planned with: in the end the scan of all documents, whose filter tests each of them. So every function
//! that was rejected a step returns what is true without it: no bounds, no proof, no answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::size_of;

use index::collation::Collation;
use index::interval::{Interval, Intervals};

use crate::filter::evaluate::Node;
use crate::filter::weight;
use crate::operation::{OperationContext, Reservation};

/// The budget of any planning, however small its filter is: some milliseconds.
const STEPS_MIN: usize = 1 << 18;
const BYTES_MIN: usize = 8 << 20;

/// The budget for each part and each value of the filter, if that is more: a check for each of many indexes, and a
/// few lists of all values.
const STEPS_EACH: usize = 64;
const BYTES_EACH: usize = 4 * INTERVAL_BYTES;

/// Fewer bytes are not reserved: most plans need no more.
const RESERVED_MIN: usize = 64 << 10;

/// About the bytes that an interval uses, without the contents of its values.
const INTERVAL_BYTES: usize = size_of::<Interval>();

/// The budget of one planning, and the sets that it has made.
pub(crate) struct PlanningBudget<'a> {
    operation: &'a OperationContext,
    /// The filter. Its weight is asked for only by a planning that lasts long.
    root: Option<&'a Node>,
    steps: Cell<usize>,
    bytes: Cell<usize>,
    limits: Cell<Limits>,
    is_over: Cell<bool>,
    /// The bytes of lists count as memory of the operation while it plans.
    room: RefCell<Reservation>,
    sets: RefCell<BTreeMap<(usize, SetKind), Vec<SharedSet>>>,
}

/// The limits of steps and bytes.
#[derive(Clone, Copy)]
struct Limits {
    steps: usize,
    bytes: usize,
    /// Whether they are in proportion to the filter already.
    are_final: bool,
}

/// Which set of a test's values is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetKind {
    /// Those that meet it, where documents have no arrays.
    Met,
    /// Those that meet it, where some have.
    MetInArrays,
    /// All that do not surely meet it.
    NotMet,
}

/// A set of a test's values in keys with a collation. `None` if the test does not bound them.
struct SharedSet {
    keys: Collation,
    set: Option<Intervals>,
}

impl<'a> PlanningBudget<'a> {
    /// The budget for planning by a filter, or without one.
    pub(super) fn of(operation: &'a OperationContext, root: Option<&'a Node>) -> Self {
        Self::within(operation, root, Limits { steps: STEPS_MIN, bytes: BYTES_MIN, are_final: false })
    }

    /// The budget for planning without a filter.
    pub(crate) fn without_filter(operation: &'a OperationContext) -> Self {
        Self::of(operation, None)
    }

    /// A budget without limits.
    pub(super) fn unlimited(operation: &'a OperationContext) -> Self {
        Self::within(operation, None, Limits { steps: usize::MAX, bytes: usize::MAX, are_final: true })
    }

    /// A budget of `steps` steps, however large the filter is.
    #[cfg(test)]
    pub(crate) fn of_steps(operation: &'a OperationContext, steps: usize) -> Self {
        Self::within(operation, None, Limits { steps, bytes: usize::MAX, are_final: true })
    }

    fn within(operation: &'a OperationContext, root: Option<&'a Node>, limits: Limits) -> Self {
        Self {
            operation,
            root,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            limits: Cell::new(limits),
            is_over: Cell::new(false),
            room: RefCell::new(Reservation::of(operation)),
            sets: RefCell::new(BTreeMap::new()),
        }
    }

    /// Whether something was rejected, so that what was computed since is worth nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Uses `steps` steps. Returns `false` if they are not left, or the operation is to end.
    pub(crate) fn takes(&self, steps: usize) -> bool {
        if self.is_over.get() {
            return false;
        }
        let taken = self.steps.get().saturating_add(steps);
        self.steps.set(taken);
        let counted = u64::try_from(steps).unwrap_or(u64::MAX);
        let goes_on = self.operation.steps(counted).is_ok();
        self.goes_on(goes_on && (taken <= self.limits.get().steps || taken <= self.final_limits().steps))
    }

    /// Uses the steps and the bytes of a list of intervals. Returns `false` if they are not left.
    pub(crate) fn makes(&self, intervals: usize) -> bool {
        self.takes(intervals) && self.takes_bytes(intervals.saturating_mul(INTERVAL_BYTES))
    }

    /// Whether `bytes` more bytes would be left. Asking uses none.
    pub(crate) fn has_bytes(&self, bytes: usize) -> bool {
        let all = self.bytes.get().saturating_add(bytes);
        all <= self.limits.get().bytes || all <= self.final_limits().bytes
    }

    fn takes_bytes(&self, bytes: usize) -> bool {
        let is_left = self.has_bytes(bytes);
        let taken = self.bytes.get().saturating_add(bytes);
        self.bytes.set(taken);
        // A rejection does not end the operation, which may do without.
        let is_held = taken < RESERVED_MIN || self.room.borrow_mut().try_grow_by_steps(taken);
        self.goes_on(is_left && is_held)
    }

    fn goes_on(&self, goes_on: bool) -> bool {
        if !goes_on {
            self.is_over.set(true);
        }
        goes_on
    }

    /// The limits by the weight of the filter.
    fn final_limits(&self) -> Limits {
        let limits = self.limits.get();
        if limits.are_final {
            return limits;
        }
        let weight = self.root.map_or(0, weight::of_node);
        let limits = Limits {
            steps: limits.steps.saturating_add(weight.saturating_mul(STEPS_EACH)),
            bytes: limits.bytes.saturating_add(weight.saturating_mul(BYTES_EACH)),
            are_final: true,
        };
        self.limits.set(limits);
        limits
    }

    /// A set of the values of a test of the filter, made by `make`, unless it was made for another index. `None` if that made
    /// none.
    pub(super) fn shared<T>(
        &self,
        test: &'a T,
        kind: SetKind,
        keys: &Collation,
        make: impl FnOnce() -> Option<Intervals>,
    ) -> Option<Intervals> {
        // The filter is borrowed for the whole planning, so no other test comes to lie at the address.
        let key = (std::ptr::from_ref(test).addr(), kind);
        let mut sets = self.sets.borrow_mut();
        let known = sets.entry(key).or_default();
        if let Some(found) = known.iter().find(|found| found.keys == *keys) {
            return found.set.clone();
        }
        let set = make();
        known.push(SharedSet { keys: keys.clone(), set: set.clone() });
        set
    }
}
