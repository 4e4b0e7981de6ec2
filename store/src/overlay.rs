//! The writes of a transaction before its commit: for each key its new value, or that it is deleted.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::families::Family;

/// The cost of each staged key beside its bytes.
const KEY_COST: usize = 64;

/// The staged changes of a transaction, of records and of entries. A clone shares the bytes.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    records: Changes,
    entries: Changes,
    bytes: usize,
}

/// The value that a key is to have. Absent if the key is to be deleted.
pub type StagedValue = Option<Arc<[u8]>>;

type Changes = BTreeMap<Arc<[u8]>, StagedValue>;

/// A staged key with its value.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    pub(super) key: Arc<[u8]>,
    pub(super) value: StagedValue,
}

impl Overlay {
    /// Stages the value of a key.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.stage(family, key, Some(value.into()));
    }

    /// Stages the removal of a key.
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        self.stage(family, key, None);
    }

    fn stage(&mut self, family: Family, key: &[u8], value: StagedValue) {
        let length = |value: &StagedValue| value.as_ref().map_or(0, |value| value.len());
        self.bytes += length(&value);
        let changes = match family {
            Family::Records => &mut self.records,
            Family::Entries | Family::Meta | Family::Outcomes | Family::Changes => &mut self.entries,
        };
        if let Some(before) = changes.get_mut(key) {
            self.bytes -= length(before);
            *before = value;
        } else {
            self.bytes += key.len() + KEY_COST;
            changes.insert(key.into(), value);
        }
    }

    /// The staged value of a key. `None` if nothing is.
    #[inline]
    pub fn get(&self, family: Family, key: &[u8]) -> Option<&StagedValue> {
        self.of(family)?.get(key)
    }

    /// Whether a change of the family is staged.
    #[inline]
    pub(super) fn has(&self, family: Family) -> bool {
        self.of(family).is_some_and(|changes| !changes.is_empty())
    }

    /// All changes of a family, in the order of their keys.
    pub fn changes(&self, family: Family) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.of(family).into_iter().flatten().map(|(key, value)| (&**key, value.as_deref()))
    }

    /// About how many bytes of memory it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.entries.is_empty()
    }

    fn of(&self, family: Family) -> Option<&Changes> {
        match family {
            Family::Records => Some(&self.records),
            Family::Entries => Some(&self.entries),
            Family::Meta | Family::Outcomes | Family::Changes => None,
        }
    }

    /// The first key of `bounds`.
    pub(super) fn first(&self, family: Family, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Option<Staged> {
        if is_empty(bounds) {
            return None;
        }
        let (key, value) = self.of(family)?.range::<[u8], _>(bounds).next()?;
        Some(Staged { key: Arc::clone(key), value: value.clone() })
    }

    /// The last key of `bounds`.
    pub(super) fn last(&self, family: Family, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Option<Staged> {
        if is_empty(bounds) {
            return None;
        }
        let (key, value) = self.of(family)?.range::<[u8], _>(bounds).next_back()?;
        Some(Staged { key: Arc::clone(key), value: value.clone() })
    }
}

/// Whether no key is between two bounds. The standard library's maps panic on such.
fn is_empty(bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match bounds {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(first), Bound::Included(last)) => first > last,
        (Bound::Included(first) | Bound::Excluded(first), Bound::Included(last) | Bound::Excluded(last)) => {
            first >= last
        }
    }
}
