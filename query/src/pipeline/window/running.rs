//! One computed field while the documents of a partition pass: which of them are in its window, and what follows.
//!
//! Bounds never go back from one document to the next, so every document enters a window once and leaves it once.

use std::collections::VecDeque;

use bson::{RawBson, RawBsonRef};
use index::order::compare;

use crate::expression::Variables;
use crate::expression::date::shift::TimeUnit;
use crate::pipeline::error::Fault;
use crate::pipeline::window::bounds::{Bound, Bounds, check_ranged, is_ranged};
use crate::pipeline::window::output::Output;
use crate::pipeline::window::passing::Passing;
use crate::pipeline::window::state::{State, Workspace};
use crate::value::content_bytes;

/// A field while documents pass.
#[derive(Debug)]
pub(super) struct Running {
    computed: Computed,
    /// The number of the first document of the window.
    start: u64,
    /// The number of the document that enters next.
    next: u64,
    /// The sort keys of the documents of a range, if they leave it by that.
    distances: VecDeque<RawBson>,
    /// The value, until the window changes.
    value: Option<RawBson>,
}

/// The computation of the value.
#[derive(Debug)]
enum Computed {
    Window(State),
    Passing(Passing),
}

impl Running {
    /// The field before the first document of a partition.
    pub(super) fn start(output: &Output, variables: &Variables) -> Result<Self, Fault> {
        let moves = !output.bounds.only_grows();
        let computed =
            match (State::start(&output.function, moves, variables)?, Passing::start(&output.function)) {
                (_, Some(passing)) => Computed::Passing(passing),
                (Some(state), None) => Computed::Window(state),
                // Every function is one of both.
                (None, None) => Computed::Passing(Passing::Last(RawBson::Null)),
            };
        Ok(Self { computed, start: 0, next: 0, distances: VecDeque::new(), value: None })
    }

    /// The first document that is still needed, with `current` as the current one.
    pub(super) fn needed_from(&self, current: u64) -> u64 {
        match &self.computed {
            Computed::Window(_) => self.next,
            Computed::Passing(_) => current,
        }
    }

    /// Whether documents after those of `frame` are needed for the value of document `current`.
    pub(super) fn needs_more(
        &mut self,
        output: &Output,
        current: u64,
        work: &mut Workspace<'_>,
    ) -> Result<bool, Fault> {
        let frame = work.frame;
        if frame.is_whole {
            // A line is found among the documents that were read, so it is asked in any case.
            if let Computed::Passing(passing) = &mut self.computed {
                passing.needs_more(&output.function, current, work)?;
            }
            return Ok(false);
        }
        if let Computed::Passing(passing) = &mut self.computed {
            return passing.needs_more(&output.function, current, work);
        }
        // Only as far as the upper bound reaches: a window without one needs the whole partition.
        match &output.bounds {
            Bounds::Documents(_, None) | Bounds::Range { upper: Bound::Unbounded, .. } => Ok(true),
            Bounds::Documents(_, Some(upper)) => Ok(current.saturating_add_signed(*upper) >= frame.end()),
            Bounds::Range { upper: Bound::Current, .. } => Ok(false),
            Bounds::Range { upper, unit, .. } => {
                let (Some(row), Some(last)) = (frame.row(current), frame.last()) else { return Ok(false) };
                let x = row.x.as_raw_bson_ref();
                check_ranged(x, *unit)?;
                let end = upper.threshold(x, *unit)?;
                Ok(end.is_some_and(|end| is_within(last.x.as_raw_bson_ref(), &end, *unit)))
            }
        }
    }

    /// The value for a document. What it needs of the documents after it was read.
    pub(super) fn value(
        &mut self,
        output: &Output,
        current: u64,
        work: &mut Workspace<'_>,
    ) -> Result<RawBson, Fault> {
        let Some(row) = work.frame.row(current) else { return Ok(RawBson::Null) };
        match &output.bounds {
            Bounds::Documents(lower, upper) => {
                let bound = |distance: i64| current.checked_add_signed(distance);
                let lower = lower.map_or(0, |lower| bound(lower).unwrap_or(0));
                // A bound before the first document leaves nothing to enter.
                let end = upper.map_or(u64::MAX, |upper| bound(upper).map_or(0, |last| last + 1));
                self.move_to(output, lower, end, work)?;
            }
            Bounds::Range { .. } => self.move_range(output, current, work)?,
        }
        match &mut self.computed {
            Computed::Passing(passing) => passing.value(&output.function, row, work),
            Computed::Window(state) => {
                if let Some(value) = self.value.as_ref().filter(|_| !output.function.looks_at_current()) {
                    return Ok(value.clone());
                }
                let value = state.value(&output.function, &row.document, work.variables)?;
                // Kept only where the next document is likely to need it: a copy of a large value is not free.
                self.value = (output.bounds == Bounds::ALL).then(|| value.clone());
                Ok(value)
            }
        }
    }

    /// Makes the documents from `lower` to before `end` the window.
    fn move_to(
        &mut self,
        output: &Output,
        lower: u64,
        end: u64,
        work: &mut Workspace<'_>,
    ) -> Result<(), Fault> {
        while self.start < lower && self.start < self.next {
            self.leave(work);
        }
        if self.next < lower {
            // Documents that would leave at once do not enter.
            (self.start, self.next) = (lower, lower);
        }
        let end = end.min(work.frame.end());
        while self.next < end {
            self.enter(output, work)?;
        }
        Ok(())
    }

    fn move_range(&mut self, output: &Output, current: u64, work: &mut Workspace<'_>) -> Result<(), Fault> {
        let Bounds::Range { lower, upper, unit } = &output.bounds else { return Ok(()) };
        let (frame, unit) = (work.frame, *unit);
        let Some(row) = frame.row(current) else { return Ok(()) };
        let x = row.x.as_raw_bson_ref();
        check_ranged(x, unit)?;
        // Both ends move up with the value, or stay: the documents are sorted by it.
        let low = lower.threshold(x, unit)?;
        let high = upper.threshold(x, unit)?;
        let is_before = |value: RawBsonRef<'_>| {
            low.as_ref().is_some_and(|low| compare(value, low.as_raw_bson_ref()).is_lt())
        };
        let is_out = |running: &Self| match lower {
            Bound::Unbounded => false,
            Bound::Current => running.start < current,
            Bound::Distance(_) => {
                running.distances.front().is_some_and(|first| is_before(first.as_raw_bson_ref()))
            }
        };
        // Documents leave first: entering and leaving are in order only if the window is never held too long.
        while self.start < self.next && is_out(self) {
            self.leave(work);
        }
        while let Some(row) = frame.row(self.next) {
            let value = row.x.as_raw_bson_ref();
            // A value of another kind ends the range: those after it are sorted behind it.
            let is_reached = match (&high, upper) {
                (Some(high), _) => is_within(value, high, unit),
                (None, Bound::Current) => self.next <= current,
                (None, Bound::Unbounded | Bound::Distance(_)) => is_ranged(value, unit),
            };
            if !is_reached {
                break;
            }
            // The window is empty here, since what came earlier has left: it starts again after this document.
            if is_before(value) || (*lower == Bound::Current && self.next < current) {
                self.next += 1;
                self.start = self.next;
                continue;
            }
            if low.is_some() {
                work.memory.grow(content_bytes(value) + size_of::<RawBson>())?;
                self.distances.push_back(row.x.clone());
            }
            self.enter(output, work)?;
        }
        Ok(())
    }

    fn enter(&mut self, output: &Output, work: &mut Workspace<'_>) -> Result<(), Fault> {
        work.variables.operation().step()?;
        // Steps are counted here too: a window that jumps ahead needs many documents for one result.
        let moves = !output.bounds.only_grows();
        if let (Computed::Window(state), Some(row)) = (&mut self.computed, work.frame.row(self.next)) {
            state.enter(&output.function, row, moves, work)?;
        }
        self.next += 1;
        self.value = None;
        Ok(())
    }

    fn leave(&mut self, work: &mut Workspace<'_>) {
        if let Computed::Window(state) = &mut self.computed {
            state.leave(self.start, work.memory);
        }
        if let Some(distance) = self.distances.pop_front() {
            work.memory.shrink(content_bytes(distance.as_raw_bson_ref()) + size_of::<RawBson>());
        }
        self.start += 1;
        self.value = None;
    }
}

/// Whether a value is of the kind of a range, and not beyond its end.
fn is_within(value: RawBsonRef<'_>, end: &RawBson, unit: Option<TimeUnit>) -> bool {
    is_ranged(value, unit) && compare(value, end.as_raw_bson_ref()).is_le()
}
