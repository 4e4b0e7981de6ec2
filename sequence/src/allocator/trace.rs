//! Looking for one value: in the blocks of acquirers, with the writers under way, and by where the sequence stands.

use crate::allocator::sequence::Sequence;
use crate::trace::{Reach, Trace};

impl Sequence {
    /// The trace of a value.
    pub fn trace(&self, value: i64) -> Trace {
        let (turn, held) = self.settled();
        let is_held = held.blocks().any(|block| block.rest().contains(value));
        let reach = if is_held { Reach::NotYet } else { held.state.reach(value) };
        // After the blocks: a writer registers before it draws, so what they show as drawn is registered by now.
        let lowest = self.in_flight.lowest();
        let is_settled = lowest.is_none_or(|lowest| {
            let is_before = |before: i64| !held.state.is_beyond(value.into(), before.into());
            // A sequence that starts over has the same values before and after the writer's.
            !held.state.attributes().is_cycled() && lowest.before.is_some_and(is_before)
        });
        let (pending, lost) = (held.ledger.pending().to_vec(), held.ledger.lost());
        drop(turn);
        Trace { reach, is_settled, pending, lost }
    }
}
