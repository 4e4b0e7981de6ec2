//! Stores in memory: RocksDB over files that it keeps in memory. Nothing reaches a disk, and all is gone once the store is
//! closed.
//!
//! There is no log, because nothing outlives the process that could be recovered, and so no witness and no preflight
//! either: what would describe lost writes is lost with them.

use std::sync::Arc;

use base::error::Result;
use rocksdb::Env;

use crate::durable_mark::DurableMark;
use crate::health::Health;
use crate::open::{StoreOptions, create_rocksdb};
use crate::preflight::Passed;
use crate::store::Store;
use crate::sync::Background;
use crate::translate;
use crate::tuning::Tuning;
use crate::witness;
use crate::write::Commits;

impl Store {
    /// Makes a store in memory.
    pub(super) fn make_in_memory(options: &StoreOptions) -> Result<Self> {
        // The folder of the files in memory. The crate `rocksdb` makes sure on the disk that it exists, so it is one that
        // does; nothing is written to it.
        let folder = std::env::temp_dir();
        let files = Env::mem_env().map_err(translate::read)?;
        let tuning = Tuning { files: Some(files), delays_log: false, ..options.tuning() };
        let database = create_rocksdb(&folder, &tuning, witness::new_store_id()?)?;
        let database = Arc::new(database.in_memory().planting(options.fault));
        let durable = DurableMark::starting_at(database.latest_sequence(), options.fault);
        let commits = Arc::new(Commits::without_log(Health::open(), durable, options.fault));
        let background = Background::start(&database, &commits, options.durability)?;
        Ok(Self::assemble(database, commits, background, Passed::default()))
    }
}
