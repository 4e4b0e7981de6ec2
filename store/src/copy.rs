//! Copies of a database in new folders: checkpoints, and what a store in memory holds, or one that is opened for reading.

use std::path::Path;

use base::error::Result;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{IteratorMode, WriteBatch, WriteOptions};

use crate::families::Database;
use crate::open::{StoreOptions, create_rocksdb};
use crate::{folder, translate, witness};

/// The number of bytes of a store in memory that are written at a time.
const COPIED_BYTES: usize = 1 << 20;

/// Copies the present state into the folder `target`, which must not exist. Files are hard-linked where possible.
/// The copy cannot be opened as a database before [`publish`] has written its marker. `look` says from time to time whether
/// to go on.
pub fn make(
    database: &Database,
    target: &Path,
    options: &StoreOptions,
    look: &dyn Fn() -> Result<()>,
) -> Result<()> {
    // RocksDB creates folders that every user may enter, so the copy is made inside a private one. Otherwise others
    // could read it until its mode is set.
    let made_in = folder::beside(target, &format!(".{}.making", std::process::id()));
    let copy = made_in.join("copy");
    folder::make_private(&made_in)?;
    // RocksDB's checkpoint of a store that is opened for reading leaves out what is in its logs.
    let copied = if database.is_in_memory() || options.mode.is_read_only() {
        copy_entries(database, &copy, options, look).inspect_err(|_| {
            // Whatever cannot be removed stays, and the folder around it with it.
            let _ = std::fs::remove_dir_all(&copy);
        })
    } else {
        let checkpoint = Checkpoint::new(database.raw());
        checkpoint.and_then(|checkpoint| checkpoint.create_checkpoint(&copy)).map_err(translate::read)
    };
    if let Err(error) = copied {
        // Only an empty folder is removed: what RocksDB could not clean up stays for inspection.
        if let Err(error) = std::fs::remove_dir(&made_in) {
            tracing::warn!(%error, path = %made_in.display(), "the rest of a copy that failed could not be removed");
        }
        return Err(error);
    }
    folder::move_copy(&copy, &made_in, target)
}

/// Marks a checkpoint of this database as complete. From now on it can be opened.
pub fn publish(database: &Database, target: &Path) -> Result<()> {
    // The marker comes last: a copy without a witness would be rejected as damaged.
    witness::write_for_copy(target, database.id())?;
    folder::mark_copy(target)
}

/// Copies what a store holds now to a database in the folder `target`, which must not exist.
fn copy_entries(
    database: &Database,
    target: &Path,
    options: &StoreOptions,
    look: &dyn Fn() -> Result<()>,
) -> Result<()> {
    // Everything in it came by a commit: tables of index builds, which show in older snapshots too, are not made in memory.
    let snapshot = database.raw().snapshot();
    let made = create_rocksdb(target, &options.tuning(), database.id())?;
    let mut unlogged = WriteOptions::default();
    // Flushed as a whole at the end: until the copy has its marker, it is not opened.
    unlogged.disable_wal(true);
    let write = |batch| made.raw().write_opt(batch, &unlogged).map_err(translate::read);
    for family in database.families() {
        let mut batch = WriteBatch::default();
        for entry in snapshot.iterator_cf(database.family(family), IteratorMode::Start) {
            let (key, value) = entry.map_err(translate::read)?;
            batch.put_cf(made.family(family), key, value);
            if batch.size_in_bytes() >= COPIED_BYTES {
                look()?;
                write(std::mem::take(&mut batch))?;
            }
        }
        write(batch)?;
        made.raw().flush_cf(made.family(family)).map_err(translate::read)?;
    }
    Ok(())
}
