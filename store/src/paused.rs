//! Pauses RocksDB's compactions.

use base::error::Result;

use crate::families::{Database, Family};
use crate::translate;

/// No compaction of a family begins by itself as long as one of these exists.
pub(super) struct PausedCompactions<'a> {
    database: &'a Database,
    family: Family,
}

impl<'a> PausedCompactions<'a> {
    pub(super) fn of(database: &'a Database, family: Family) -> Result<Self> {
        let mut pauses = database.pauses(family).lock();
        if *pauses == 0 {
            set_paused(database, family, "true").map_err(translate::read)?;
        }
        *pauses += 1;
        drop(pauses);
        Ok(Self { database, family })
    }
}

impl Drop for PausedCompactions<'_> {
    fn drop(&mut self) {
        let mut pauses = self.database.pauses(self.family).lock();
        *pauses -= 1;
        if *pauses == 0
            && let Err(error) = set_paused(self.database, self.family, "false")
        {
            tracing::error!(%error, "compactions stay paused until the next open");
        }
    }
}

fn set_paused(database: &Database, family: Family, paused: &str) -> std::result::Result<(), rocksdb::Error> {
    database.raw().set_options_cf(database.family(family), &[("disable_auto_compactions", paused)])
}
