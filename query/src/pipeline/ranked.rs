//! The first or last values of a group, in the order of the documents or of a sort key: `$firstN`, `$topN`, `$minN` and
//! the like.

use std::collections::BTreeMap;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawBson, RawBsonRef};

use crate::pipeline::error::Fault;
use crate::pipeline::memory::StageMemory;
use crate::value::content_bytes;

/// The end of the order whose values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// At most `wanted` values, those at one end of the order.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    wanted: usize,
    end: End,
    /// The values by key; of equal keys by the number that they were added with.
    kept: BTreeMap<(Box<[u8]>, u64), RawBson>,
    seen: u64,
}

impl Ranked {
    pub(super) fn new(wanted: usize, end: End) -> Self {
        Self { wanted, end, kept: BTreeMap::new(), seen: 0 }
    }

    /// Adds a value with its key. If all keys are empty, the order is that in which values are added.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: RawBsonRef<'_>,
        memory: &mut StageMemory,
    ) -> Result<(), Fault> {
        // Values that are not kept are numbered too, so that numbers follow the order of the documents.
        let number = self.seen;
        self.seen += 1;
        // Most values of a large group end here, before they are copied.
        if self.kept.len() >= self.wanted && !self.displaces(key) {
            return Ok(());
        }
        // The new value is added before one is removed, so that the map itself decides which is the last.
        memory.grow(bytes(key, value))?;
        self.kept.insert((Box::from(key), number), value.into());
        if self.kept.len() > self.wanted {
            // The value at the other end has to go: the one that the new value displaces.
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

    /// The only value, or null if no value was added.
    pub(super) fn into_only(self) -> RawBson {
        self.kept.into_values().next().unwrap_or(RawBson::Null)
    }

    /// Appends what the kept values are, so that [`restore`](Self::restore) goes on with them.
    pub(super) fn save(&self, saved: &mut RawArrayBuf) {
        // Documents are counted, and an `i64` can count them.
        let count = |number: u64| RawBson::Int64(i64::try_from(number).unwrap_or(i64::MAX));
        saved.push(count(self.seen));
        for ((key, number), value) in &self.kept {
            saved.push(RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: key.to_vec() }));
            saved.push(count(*number));
            saved.push(value.as_raw_bson_ref());
        }
    }

    /// Continues from what was saved, if nothing was added yet. Returns `None` if that is not complete.
    pub(super) fn restore<'a>(
        &mut self,
        saved: &mut dyn Iterator<Item = RawBsonRef<'a>>,
        memory: &mut StageMemory,
    ) -> Result<Option<()>, Fault> {
        let count = |value: Option<RawBsonRef<'a>>| u64::try_from(value?.as_i64()?).ok();
        let Some(seen) = count(saved.next()) else { return Ok(None) };
        self.seen = seen;
        while let Some(key) = saved.next() {
            let entry = (key.as_binary(), count(saved.next()), saved.next());
            let (Some(key), Some(number), Some(value)) = entry else { return Ok(None) };
            // Counted as when it was added, so that a value that is displaced gives back what it used.
            memory.grow(bytes(key.bytes, value))?;
            self.kept.insert((Box::from(key.bytes), number), value.into());
        }
        Ok(Some(()))
    }

    /// Whether a new value displaces one that is kept.
    fn displaces(&self, key: &[u8]) -> bool {
        // Of equal keys the new one comes last. That is why only one of the comparisons includes equality.
        match self.end {
            End::First => self.kept.last_key_value().is_some_and(|((last, _), _)| key < &**last),
            End::Last => self.kept.first_key_value().is_some_and(|((first, _), _)| key >= &**first),
        }
    }
}

/// The memory of one value with its key.
fn bytes(key: &[u8], value: RawBsonRef<'_>) -> usize {
    key.len() + content_bytes(value) + size_of::<((Box<[u8]>, u64), RawBson)>()
}
