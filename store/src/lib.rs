//! A part of `cairndb`, without a stable API of its own: its bytes, and the only crate that
//! names `rocksdb`. Opening, reading, writing and keeping the folder safe.
//!
//! The crates above this one do not know of column families' handles, the WAL or checkpoints. They see a [`Store`],
//! keys, snapshots, scans and batches. A RocksDB error is translated once, here.
//!
//! The examples here are written for users of `cairndb`, which runs them.

#![deny(unsafe_code)]

mod batch;
mod disk;
mod disk_room;
mod durability;
mod durable_mark;
mod families;
pub mod filter_space;
mod first_live;
mod folder;
pub mod folder_files;
mod gauges;
mod health;
mod held_files;
pub mod leaf;
mod leaf_search;
pub mod leaf_switch;
pub mod leaves;
mod live_starts;
mod log_flush;
mod log_thread;
mod log_turns;
mod memory;
mod merged;
mod open;
pub mod options;
pub mod overlay;
mod planted;
mod preflight;
mod private;
mod processor;
mod quota;
mod record_cache;
pub mod recovery;
mod refusal;
mod removable;
mod spill_space;
mod stall;
mod store;
mod translate;
mod tuning;
mod witness;

pub mod cache_reads;
pub mod checksums;
pub mod compaction;
pub mod copy;
pub mod fork;
pub mod format;
pub mod generations;
pub mod handles;
pub mod keys;
pub mod latch;
pub mod pace;
pub mod partial_copy;
mod patched;
mod paused;
pub mod raw_file;
pub mod run;
pub mod salvage;
pub mod scan;
pub mod scratch;
pub mod snapshot;
pub mod sorted_run;
pub mod spill;
mod spilled;
pub mod sync;
pub mod tables;
pub mod write;
mod write_group;

#[cfg(test)]
mod fixture;

pub use self::durable_mark::SyncWatcher;
pub use self::families::{Database, Family};
pub use self::open::{OpenMode, SpillOptions, StoreOptions};
pub use self::quota::DISK_QUOTA_MIN;
pub use self::store::{InUse, Store};
