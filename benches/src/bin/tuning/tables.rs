//! The size of small documents in the tables of the last level, and the speed of writing, finding and scanning them.
//!
//! Documents are read with a cache that holds all of them, and with one that holds a tenth. The files are in the operating
//! system's cache either way, so that what a missing block costs is to check and to decompress it.

use std::path::Path;

use cairndb_benches::documents::mix;
use cairndb_benches::measure::time;
use cairndb_benches::raw::Record;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB,
    DataBlockIndexType, Options, WriteOptions,
};
use tempfile::TempDir;

use crate::options::{Keys, ours, records, write};
use crate::table::{self, Row};

const ROUNDS: usize = 5;
const DOCUMENTS: u32 = 400_000;
/// Look-ups of a round.
const READS: u32 = 100_000;
/// Holds all documents, and a tenth of them.
const WARM_BYTES: usize = 256 << 20;
const COLD_BYTES: usize = 8 << 20;
/// The bytes of a dictionary for a table, and of the samples that it is made from.
const DICTIONARY_BYTES: i32 = 16 << 10;
const SAMPLES_BYTES: i32 = 100 * DICTIONARY_BYTES;
/// RocksDB's values for the level that the algorithm itself chooses, and for its own number of window bits.
const LEVEL_OF_ZSTD: i32 = 32767;
const WINDOW_BITS: i32 = -14;

type Variant = (&'static str, fn(&mut Options, &mut BlockBasedOptions, usize));

const VARIANTS: [Variant; 9] = [
    ("CairnDB's: blocks of 16 KiB, Zstandard", |_, _, _| ()),
    ("blocks of 4 KiB", |_, table, _| table.set_block_size(4 << 10)),
    ("blocks of 8 KiB", |_, table, _| table.set_block_size(8 << 10)),
    ("blocks of 32 KiB", |_, table, _| table.set_block_size(32 << 10)),
    ("a hash index in blocks", |_, table, _| {
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    }),
    ("filter and index in partitions", |_, table, _| {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_pin_top_level_index_and_filter(true);
    }),
    ("a row cache of half as much besides", |options, _, cache_bytes| {
        options.set_row_cache(&Cache::new_lru_cache(cache_bytes / 2));
    }),
    ("a dictionary of 16 KiB", |options, _, _| {
        options.set_bottommost_compression_options(WINDOW_BITS, LEVEL_OF_ZSTD, 0, DICTIONARY_BYTES, true);
        options.set_bottommost_zstd_max_train_bytes(SAMPLES_BYTES, true);
    }),
    ("not compressed", |options, _, _| {
        options.set_compression_type(rocksdb::DBCompressionType::None);
        options.set_bottommost_compression_type(rocksdb::DBCompressionType::None);
    }),
];

/// The database of a variant, and its folder.
struct Loaded {
    folder: TempDir,
    variant: Variant,
    /// Bytes in tables, and microseconds that compacting used, a document.
    bytes: f64,
    compacting: f64,
}

pub(crate) fn print() {
    let records = records(DOCUMENTS, Keys::Prefixed);
    let mut sides: Vec<(Loaded, Row)> =
        VARIANTS.iter().map(|variant| (load(*variant, &records), Row::new(variant.0))).collect();
    for _ in 0..ROUNDS {
        for (loaded, row) in &mut sides {
            row.rounds.push(round(loaded, &records));
        }
    }
    let rows: Vec<Row> = sides.into_iter().map(|(_, row)| row).collect();
    table::print(
        &[
            "bytes a document",
            "µs to compact one",
            "µs to find one, cached",
            "a tenth cached",
            "µs to scan one, cached",
            "a tenth cached",
        ],
        &rows,
    );
}

fn open(folder: &Path, variant: Variant, cache_bytes: usize) -> DB {
    let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
    let (mut options, mut table) = ours(&cache);
    let (_, set) = variant;
    set(&mut options, &mut table, cache_bytes);
    options.set_block_based_table_factory(&table);
    DB::open(&options, folder).expect("it opens")
}

fn load(variant: Variant, records: &[Record]) -> Loaded {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = open(folder.path(), variant, WARM_BYTES);
    write(&database, records, &WriteOptions::default());
    database.flush().expect("flushed");
    let mut forced = CompactOptions::default();
    forced.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    let compacting = time(|| database.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &forced));
    let (bytes, compacting) =
        (table::bytes_in_tables(&database, DOCUMENTS), table::micros(compacting, DOCUMENTS));
    Loaded { folder, variant, bytes, compacting }
}

fn round(loaded: &Loaded, records: &[Record]) -> Vec<f64> {
    let mut cells = vec![loaded.bytes, loaded.compacting];
    let (mut finding, mut scanning) = (Vec::new(), Vec::new());
    for cache_bytes in [WARM_BYTES, COLD_BYTES] {
        let database = open(loaded.folder.path(), loaded.variant, cache_bytes);
        // The first walk fills the cache.
        scan(&database);
        scanning.push(table::micros(time(|| scan(&database)), DOCUMENTS));
        find(&database, records);
        finding.push(table::micros(time(|| find(&database, records)), READS));
    }
    cells.append(&mut finding);
    cells.append(&mut scanning);
    cells
}

fn find(database: &DB, records: &[Record]) {
    for read in 0..u64::from(READS) {
        let at = usize::try_from(mix(read) % u64::from(DOCUMENTS)).expect("one of the documents");
        let (key, _) = records.get(at).expect("one of the documents");
        assert!(database.get_pinned(key).expect("read").is_some());
    }
}

fn scan(database: &DB) {
    let mut iterator = database.raw_iterator();
    iterator.seek_to_first();
    let mut seen = 0;
    while let Some((_, value)) = iterator.item() {
        assert!(!value.is_empty());
        seen += 1;
        iterator.next();
    }
    assert_eq!(seen, DOCUMENTS);
}
