//! Reading the catalog at open, and writing down at close what the next open need not work out again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::catalog::Catalog;
use crate::catalog::entry;
use crate::error::{Error, Result};
use crate::storage::keys::{
    self, CollectionId, IndexId, META_BUILDING, META_CLEAN_CLOSE, META_COLLECTION, META_NEXT_ID,
};
use crate::storage::scan::{CacheUse, Scan};
use crate::storage::snapshot::Snapshot;
use crate::storage::write::{Batch, CommitLevel};
use crate::storage::{Database, Family, Store};

impl Catalog {
    /// Reads every entry. Damage is an error: a collection that cannot be named must not be forgotten.
    pub(crate) fn load(database: &Arc<Database>) -> Result<Self> {
        let catalog =
            Self { databases: RwLock::new(HashMap::new()), next_id: Mutex::new(load_next_id(database)?) };
        let clean = closed_cleanly(database)?;
        for (id, value) in tagged_entries(&Snapshot::take(database), META_COLLECTION)? {
            let collection = entry::decode(CollectionId(id), &value)?;
            if clean && let Some(documents) = load_count(database, collection.id)? {
                collection.count.set(documents);
            }
            catalog.insert(Arc::new(collection));
        }
        Ok(catalog)
    }

    /// Writes every known count, so that the next open need not count.
    pub(crate) fn save_counts(&self, store: &Store, database: &Database) -> Result<()> {
        let mut batch = Batch::new(database);
        for collection in self.collections() {
            match collection.count.known() {
                Some(documents) => {
                    batch.put(Family::Meta, &collection.id.count_key(), &documents.to_be_bytes());
                }
                None => batch.delete(Family::Meta, &collection.id.count_key()),
            }
        }
        // The counts hold for exactly this state: any later write has a higher sequence number.
        let sequence = database.latest_sequence() + batch.len() + 1;
        batch.put(Family::Meta, META_CLEAN_CLOSE, &sequence.to_be_bytes());
        store.commit(batch, CommitLevel::Journaled)
    }
}

/// Removes the entries of index builds that were cut short: they belong to no index.
pub(crate) fn discard_unfinished_builds(store: &Store, database: &Arc<Database>) -> Result<()> {
    let mut batch = Batch::new(database);
    for (id, _) in tagged_entries(&Snapshot::take(database), META_BUILDING)? {
        let index = IndexId(id);
        batch.delete_range(Family::Entries, &index.prefix(), &index.end());
        batch.delete(Family::Meta, &index.building_key());
    }
    if batch.is_empty() { Ok(()) } else { store.commit(batch, CommitLevel::Journaled) }
}

/// The ids and values of all keys in `meta` that start with `tag`.
pub(crate) fn tagged_entries(snapshot: &Arc<Snapshot>, tag: u8) -> Result<Vec<(u32, Vec<u8>)>> {
    let bounds = (vec![tag], Some(vec![tag + 1]));
    let mut scan = Scan::open(snapshot, Family::Meta, bounds, CacheUse::Fill);
    let mut entries = Vec::new();
    while scan.advance()? {
        let id = keys::tagged_id(scan.key()).ok_or_else(|| {
            Error::corruption(Family::Meta.name(), scan.key(), "the key is not a tag and a 4-byte id")
        })?;
        entries.push((id, scan.value().to_vec()));
    }
    Ok(entries)
}

fn load_next_id(database: &Database) -> Result<u32> {
    let Some(value) = database.get(Family::Meta, META_NEXT_ID)? else { return Ok(1) };
    <[u8; 4]>::try_from(&*value)
        .map(u32::from_be_bytes)
        .map_err(|_| Error::corruption(Family::Meta.name(), META_NEXT_ID, "the next id is not 4 bytes long"))
}

fn closed_cleanly(database: &Database) -> Result<bool> {
    let stamp = database.get(Family::Meta, META_CLEAN_CLOSE)?;
    Ok(stamp.is_some_and(|value| *value == database.latest_sequence().to_be_bytes()))
}

fn load_count(database: &Database, id: CollectionId) -> Result<Option<u64>> {
    let value = database.get(Family::Meta, &id.count_key())?;
    Ok(value.and_then(|value| <[u8; 8]>::try_from(&*value).ok()).map(u64::from_be_bytes))
}
