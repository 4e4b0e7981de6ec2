//! The first part of a build: the entries of all documents of a snapshot, sorted and stored.

use std::sync::Arc;

use base::error::{Error, Result};
use store::Family;
use store::scan::{CacheUse, Scan};
use store::scratch::BuildFolder;
use store::snapshot::Snapshot;
use store::tables::Tables;
use store::write::{Batch, CommitLevel};

use crate::document::decode::stored;
use crate::progress::IndexBuildPhase;
use crate::write::index_build::building::Building;
use crate::write::index_build::report::Report;
use crate::write::index_build::sorter::{Sorted, Sorter};
use crate::write::prepare::encoded_id;
use crate::write::unique::may_be_shortened;

/// The share of the build's memory up to which entries are stored by a commit: 1 MiB of 64. A table file costs a few
/// syncs, which is more than so few entries do.
const COMMITTED_SHARE: usize = 64;

/// The bytes of entries that are committed at a time.
const COMMITTED_BYTES: usize = 1 << 20;

/// Stores the entries of all documents of the snapshot.
pub(super) fn load(
    building: &Building<'_>,
    snapshot: &Arc<Snapshot>,
    memory: usize,
    report: &mut Report<'_, '_>,
) -> Result<()> {
    report.phase(IndexBuildPhase::Scanning, building.collection.count.known().unwrap_or(0));
    let collection = building.collection.id;
    let bounds = (collection.prefix().to_vec(), Some(collection.end()));
    let mut scan = Scan::open(snapshot, Family::Records, bounds, CacheUse::Bypass, building.operation);
    let mut keys = Sorter::new(building.storage.database, building.build.index.id, memory);
    let mut bytes = 0;
    while scan.advance()? {
        building.step(scan.value().len())?;
        let document = stored(scan.key(), scan.value())?;
        for entry in building.draw(document, encoded_id(scan.key()))? {
            bytes += entry.bytes();
            keys.add(&entry.key, &entry.value)?;
        }
        report.advance(1);
    }
    // The iterator keeps files that could be removed.
    drop(scan);
    let sorted = keys.sort()?;
    report.phase(IndexBuildPhase::Storing, sorted.entries);
    // RocksDB does not let go of a table in memory that it does not ingest.
    if bytes <= memory / COMMITTED_SHARE || building.storage.database.is_in_memory() {
        return commit(building, sorted, report);
    }
    ingest(building, sorted, report)
}

fn commit(building: &Building<'_>, sorted: Sorted, report: &mut Report<'_, '_>) -> Result<()> {
    let storage = building.storage;
    let mut batch = Batch::new(storage.database);
    let mut neighbors = Neighbors::of(building);
    sorted.for_each(|key, value| {
        building.step(key.len() + value.len())?;
        neighbors.refuse_duplicate(key, value)?;
        batch.put(Family::Entries, key, value);
        report.advance(1);
        if batch.bytes() < COMMITTED_BYTES {
            return Ok(());
        }
        let full = std::mem::replace(&mut batch, Batch::new(storage.database));
        storage.store.commit(full, CommitLevel::INDEX_BUILD)
    })?;
    storage.store.commit(batch, CommitLevel::INDEX_BUILD)
}

fn ingest(building: &Building<'_>, mut sorted: Sorted, report: &mut Report<'_, '_>) -> Result<()> {
    let folder = match sorted.folder.take() {
        Some(folder) => folder,
        None => BuildFolder::make(building.storage.database, building.build.index.id)?,
    };
    let mut tables = Tables::new(building.storage.database, &folder, Family::Entries);
    let mut neighbors = Neighbors::of(building);
    sorted.for_each(|key, value| {
        building.step(key.len() + value.len())?;
        neighbors.refuse_duplicate(key, value)?;
        tables.add(key, value)?;
        report.advance(1);
        Ok(())
    })?;
    tables.ingest(|| building.look())
}

/// The last key of a unique index: a duplicate is its neighbor.
struct Neighbors<'a> {
    building: &'a Building<'a>,
    is_unique: bool,
    last: Option<Vec<u8>>,
    /// The value of the last entry, if its key may be shortened.
    value: Vec<u8>,
}

impl<'a> Neighbors<'a> {
    fn of(building: &'a Building<'_>) -> Self {
        Self { building, is_unique: building.build.index.spec.is_unique(), last: None, value: Vec::new() }
    }

    fn refuse_duplicate(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.is_unique {
            return Ok(());
        }
        match &mut self.last {
            Some(last) if last == key => Err(self.building.duplicate(key, value, Some(&self.value))),
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
                self.keep_value(key, value);
                Ok(())
            }
            None => {
                self.last = Some(key.to_vec());
                self.keep_value(key, value);
                Ok::<(), Error>(())
            }
        }
    }

    fn keep_value(&mut self, key: &[u8], value: &[u8]) {
        if may_be_shortened(&self.building.build.index, key) {
            value.clone_into(&mut self.value);
        }
    }
}
