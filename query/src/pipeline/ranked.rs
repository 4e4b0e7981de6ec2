//! The first or last few values of a group, in the order in which they came or by a key.

use std::collections::BTreeMap;

use bson::{RawArrayBuf, RawBson, RawBsonRef};

use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::value::content_bytes;

/// Which end of the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// At most so many values, those at one end of an order.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    wanted: usize,
    end: End,
    /// By key, and by number among equal keys.
    kept: BTreeMap<(Box<[u8]>, u64), RawBson>,
    seen: u64,
}

impl Ranked {
    pub(super) fn new(wanted: usize, end: End) -> Self {
        Self { wanted, end, kept: BTreeMap::new(), seen: 0 }
    }

    /// Adds a value. With no key at all, values are in the order in which they come.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        let number = self.seen;
        self.seen += 1;
        if self.kept.len() >= self.wanted && !self.displaces(key) {
            return Ok(());
        }
        memory.grow(bytes(key, value))?;
        self.kept.insert((Box::from(key), number), value.into());
        if self.kept.len() > self.wanted {
            let left = match self.end {
                End::First => self.kept.pop_last(),
                End::Last => self.kept.pop_first(),
            };
            if let Some(((key, _), value)) = left {
                memory.shrink(bytes(&key, value.as_raw_bson_ref()));
            }
        }
        Ok(())
    }

    /// The values in their order.
    pub(super) fn into_array(self) -> RawBson {
        let mut array = RawArrayBuf::new();
        for value in self.kept.into_values() {
            array.push(value);
        }
        RawBson::Array(array)
    }

    /// The only value; null without one.
    pub(super) fn into_only(self) -> RawBson {
        self.kept.into_values().next().unwrap_or(RawBson::Null)
    }

    /// Whether a new value takes the place of one that is kept: of equal ones the newer is the later.
    fn displaces(&self, key: &[u8]) -> bool {
        match self.end {
            End::First => self.kept.last_key_value().is_some_and(|((last, _), _)| key < &**last),
            End::Last => self.kept.first_key_value().is_some_and(|((first, _), _)| key >= &**first),
        }
    }
}

fn bytes(key: &[u8], value: RawBsonRef<'_>) -> usize {
    key.len() + content_bytes(value) + size_of::<((Box<[u8]>, u64), RawBson)>()
}
