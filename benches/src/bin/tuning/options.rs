//! Sets of options between RocksDB's own and CairnDB's, which `store/src/tuning.rs` sets for the default memory budget.

use cairndb::bson::oid::ObjectId;
use cairndb_benches::documents;
use cairndb_benches::raw::{Record, record_with_id};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, Options, WriteBatch, WriteBufferManager,
    WriteOptions,
};

/// The bytes of CairnDB's block cache, with the default memory budget.
pub(crate) const CACHE_BYTES: usize = 208 << 20;
/// The bytes of the memtables that the write-buffer manager allows.
const MEMTABLES_BYTES: usize = 128 << 20;
/// The bytes before a bare id in CairnDB's keys: four for the collection, one for the type.
const KEY_PREFIX_BYTES: usize = 5;

/// The share of a memtable that its bloom filter has in CairnDB.
pub(crate) const MEMTABLE_FILTER: f64 = 0.01;

/// Records of a batch.
const BATCH: usize = 1_000;

/// The form of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Ids of 12 bytes.
    Bare,
    /// CairnDB's keys of 17 bytes.
    Prefixed,
}

/// Keys and values of `count` documents whose ids ascend.
pub(crate) fn records(count: u32, keys: Keys) -> Vec<Record> {
    let record = |number| {
        let (mut key, value) = record_with_id(&documents::raw_order(number), ObjectId::new());
        if keys == Keys::Bare {
            key.drain(..KEY_PREFIX_BYTES);
        }
        (key, value)
    };
    (0..u64::from(count)).map(record).collect()
}

/// RocksDB's own options, with as much cache as CairnDB has.
pub(crate) fn plain(cache: &Cache) -> (Options, BlockBasedOptions) {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    (options, table)
}

/// All options of CairnDB that can matter here.
pub(crate) fn ours(cache: &Cache) -> (Options, BlockBasedOptions) {
    let (mut options, mut table) = plain(cache);
    table.set_block_size(16 << 10);
    table.set_whole_key_filtering(true);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_format_version(5);
    options.set_paranoid_checks(true);
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        MEMTABLES_BYTES,
        false,
        cache.clone(),
    ));
    options.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER);
    options.set_memtable_whole_key_filtering(true);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_level_zero_file_num_compaction_trigger(2);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    (options, table)
}

/// Options of a database with those of its tables.
pub(crate) fn with_tables(options: (Options, BlockBasedOptions)) -> Options {
    let (mut options, table) = options;
    options.set_block_based_table_factory(&table);
    options
}

/// Writes records in batches.
pub(crate) fn write(database: &DB, records: &[Record], writes: &WriteOptions) {
    for records in records.chunks(BATCH) {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        database.write_opt(batch, writes).expect("written");
    }
}
