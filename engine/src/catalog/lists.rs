//! Lists of an index's entries in memory: of those that begin with the same value in one field, in two, and so on.

use index::key::{Direction, LongKeys};
use index::spec::IndexSpec;
use store::entry_lists::ListSwitch;
use store::keys::ID_BYTES;
use store::write::Batch;

/// The lists of one index.
#[derive(Debug)]
pub(crate) struct IndexLists {
    long_keys: LongKeys,
    /// Of the entries with one equal field, with two, and so on; each with the direction of its last field.
    by_fields: Box<[(Direction, ListSwitch)]>,
}

impl IndexLists {
    /// No lists are kept yet.
    pub(crate) fn of(spec: &IndexSpec) -> Self {
        // In a wildcard index the path comes before the value, so there is more in a key than the fields of the declaration.
        let fields = spec.fields().iter().filter(|_| spec.wildcard().is_none());
        let by_fields = fields.map(|field| (field.direction, ListSwitch::off())).collect();
        Self { long_keys: spec.long_keys(), by_fields }
    }

    /// The switch of the list of all entries whose keys begin with `prefix`. Returns `None` if `prefix` does not end where a field does.
    pub(crate) fn switch_of(&self, prefix: &[u8]) -> Option<&ListSwitch> {
        let mut length = ID_BYTES;
        for (direction, switch) in &self.by_fields {
            length += self.long_keys.skip(prefix.get(length..)?, *direction).ok()?;
            if length == prefix.len() {
                return Some(switch);
            }
        }
        None
    }

    /// Notes that the entry with this key is added or removed by a write, whose latches are held.
    #[inline]
    pub(crate) fn note(&self, batch: &mut Batch<'_>, key: &[u8]) {
        if self.by_fields.iter().any(|(_, switch)| switch.are_noted()) {
            self.note_each(batch, key);
        }
    }

    fn note_each(&self, batch: &mut Batch<'_>, key: &[u8]) {
        let mut length = ID_BYTES;
        for (direction, switch) in &self.by_fields {
            // It was encoded by the rules of the index a moment ago, so it has all its fields.
            let Ok(field) = self.long_keys.skip(key.get(length..).unwrap_or_default(), *direction) else {
                return;
            };
            length += field;
            switch.note(batch, key.get(..length).unwrap_or_default());
        }
    }
}
