//! States of accumulators as bytes, so that groups can be moved to a file and go on later.
//!
//! A state that was restored is the one that was saved, bit by bit: what is added to it later gives what it would have given
//! without the way through the file. So nothing is ever merged.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef};
use index::key::Direction;

use crate::expression::accumulate::{Spread, Sum};
use crate::pipeline::accumulator::{GroupState, encoded};
use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::value::content_bytes;

impl GroupState {
    /// The values that the state is made of.
    pub(super) fn save(&self) -> RawArrayBuf {
        let mut saved = RawArrayBuf::new();
        match self {
            Self::Sum(sum) | Self::Average(sum) => sum.save(&mut saved),
            Self::Spread(spread, _) => spread.save(&mut saved),
            Self::Count(count) => saved.push(RawBson::Int64(*count)),
            Self::One(kept) => {
                if let Some(kept) = kept {
                    saved.push(kept.as_raw_bson_ref());
                }
            }
            // The keys of a set are made of its values again.
            Self::Array(values) | Self::Set { values, .. } => saved.push(RawBsonRef::Array(values)),
            Self::Merged(merged) => saved.push(merged.value()),
            Self::Ranked(ranked, _) => ranked.save(&mut saved),
            Self::Percentiles(numbers) => numbers.save(&mut saved),
        }
        saved
    }

    /// Makes a state that nothing was added to the one that was saved. Its memory is counted as if its values were added.
    /// Returns `None` if the bytes are none of such a state.
    pub(super) fn restore(
        &mut self,
        saved: &RawArray,
        memory: &mut StageMemory,
    ) -> Result<Option<()>, Fault> {
        // An unreadable value ends the values, and then the state lacks some.
        let mut values = saved.into_iter().map_while(Result::ok);
        match self {
            Self::Sum(sum) | Self::Average(sum) => return Ok(Sum::restore(&mut values).map(|of| *sum = of)),
            Self::Spread(spread, _) => return Ok(Spread::restore(&mut values).map(|of| *spread = of)),
            // Bounded, so that more can be counted whatever was read.
            Self::Count(count) => {
                let saved = values.next().and_then(RawBsonRef::as_i64);
                return Ok(saved.filter(|saved| (0..1 << 60).contains(saved)).map(|saved| *count = saved));
            }
            Self::One(kept) => {
                if let Some(value) = values.next() {
                    memory.grow(content_bytes(value))?;
                    *kept = Some(value.into());
                }
            }
            Self::Array(array) => {
                let Some(saved) = values.next().and_then(RawBsonRef::as_array) else { return Ok(None) };
                // A little less than when its values were added one by one, which was an upper bound.
                memory.grow(saved.as_bytes().len())?;
                *array = saved.to_owned();
            }
            Self::Set { keys, values: set, collation } => {
                let Some(saved) = values.next().and_then(RawBsonRef::as_array) else { return Ok(None) };
                for value in saved.into_iter().map_while(Result::ok) {
                    let key = encoded(value, Direction::Ascending, collation);
                    memory.grow(content_bytes(value) + key.len() + size_of::<Box<[u8]>>())?;
                    keys.insert(key.into());
                }
                *set = saved.to_owned();
            }
            Self::Merged(merged) => {
                // The fields come in the order in which their names first occurred, and keep it.
                let Some(saved) = values.next() else { return Ok(None) };
                merged.add("$mergeObjects", saved, memory)?;
            }
            Self::Ranked(ranked, _) => return ranked.restore(&mut values, memory),
            Self::Percentiles(numbers) => return numbers.restore(&mut values, memory),
        }
        Ok(Some(()))
    }
}
