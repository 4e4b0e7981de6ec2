//! The only place that names `rocksdb`: opening, reading, writing and keeping the folder safe.
//!
//! The modules above this one do not know of column families' handles, the WAL or checkpoints. They see a [`Store`],
//! keys, snapshots, scans and batches. A RocksDB error is translated once, here.

mod batch;
mod durability;
mod durable_mark;
mod families;
pub(crate) mod filter_space;
mod folder;
pub(crate) mod folder_files;
mod gauges;
mod health;
mod log_flush;
mod log_thread;
mod log_turns;
mod memory;
mod open;
mod planted;
mod preflight;
mod private;
mod processor;
mod quota;
mod record_cache;
mod refusal;
mod spill_space;
mod stall;
mod store;
mod translate;
mod tuning;
mod witness;

pub(crate) mod cache_reads;
pub(crate) mod checksums;
pub(crate) mod compaction;
pub(crate) mod copy;
pub(crate) mod fork;
pub(crate) mod format;
pub(crate) mod generations;
pub(crate) mod handles;
pub(crate) mod keys;
pub(crate) mod latch;
pub(crate) mod pace;
pub(crate) mod partial_copy;
mod patched;
mod paused;
pub(crate) mod raw_file;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod scan;
pub(crate) mod scratch;
pub(crate) mod snapshot;
pub(crate) mod sorted_run;
pub(crate) mod spill;
pub(crate) mod sync;
pub(crate) mod tables;
pub(crate) mod write;
mod write_group;

#[cfg(test)]
mod tests;

pub(crate) use self::families::{Database, Family};
pub(crate) use self::open::{OpenMode, SpillOptions, StoreOptions};
pub(crate) use self::quota::DISK_QUOTA_MIN;
pub(crate) use self::store::Store;
