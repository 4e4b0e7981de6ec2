//! Keys of unique indexes: which entries have them, the latches that protect them, and the refusal of a taken one.

use base::error::Result;
use base::write_error::Refusal;
use store::Family;
use store::latch::LatchSet;

use crate::catalog::given_keys::filters::Absence;
use crate::options::PlantedFault;
use crate::write::entries::Entry;
use crate::write::{Target, duplicate};

/// Those of the entries whose index is unique.
pub(super) fn unique_entries<'a>(
    target: Target<'_>,
    entries: &'a [Entry],
) -> impl Iterator<Item = &'a Entry> {
    entries.iter().filter(move |entry| is_unique(target, entry))
}

/// Whether the entry's index is unique.
pub(super) fn is_unique(target: Target<'_>, entry: &Entry) -> bool {
    target.indexes.get(entry.index).is_some_and(|index| index.spec.is_unique())
}

/// Adds the latches of the unique keys among the entries.
pub(super) fn add_unique_latches(latches: &mut LatchSet, target: Target<'_>, entries: &[Entry]) {
    if target.database.fault() == PlantedFault::UniqueNotLatched {
        return;
    }
    for entry in unique_entries(target, entries) {
        latches.add(&entry.key);
    }
}

/// Whether a document has the key of a unique entry, whose latch is held: what is absent now stays absent until the commit.
#[inline]
pub(super) fn is_taken(target: Target<'_>, entry: &Entry) -> Result<bool> {
    // In this order: the key must be among the given ones before its absence is relied on.
    Ok(target.admit_unique(entry)? == Absence::Unproven && target.exists(Family::Entries, &entry.key)?)
}

/// The refusal of a document whose unique key another document has.
pub(super) fn taken_entry(target: Target<'_>, entry: &Entry, encoded_id: &[u8]) -> Refusal {
    let index = target.indexes.get(entry.index).expect("entries are made from these indexes");
    // The value of a unique entry is the id and then the type bytes.
    let types = entry.value.strip_prefix(encoded_id).unwrap_or_default();
    duplicate::of_entry(&target.collection.namespace, index, &entry.key, types)
}
