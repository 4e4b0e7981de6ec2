//! The cost of a document in a batch of 1,000 that is written to the log and to a memtable, without a sync, and in a
//! `put` of its own.

use cairndb_benches::measure::time;
use cairndb_benches::raw::Record;
use rocksdb::{Cache, DB, Options};

use crate::options::{CACHE_BYTES, Keys, MEMTABLE_FILTER, ours, plain, records, with_tables, write};
use crate::table::{self, Row};

const ROUNDS: usize = 7;
/// Documents of a round: 34 MB, about half of a memtable.
const DOCUMENTS: u32 = 200_000;
/// Documents of a round that are put one by one.
const SINGLE: u32 = 50_000;

type Variant = (&'static str, Keys, fn(&Cache) -> Options);

const VARIANTS: [Variant; 8] = [
    ("RocksDB's own, keys of 12 bytes", Keys::Bare, with_nothing),
    ("keys of 17 bytes", Keys::Prefixed, with_nothing),
    ("and a memtable's filter of 0.01", Keys::Prefixed, |cache| with_filter(cache, MEMTABLE_FILTER)),
    ("and one of 0.05", Keys::Prefixed, |cache| with_filter(cache, 0.05)),
    ("all of CairnDB's", Keys::Prefixed, |cache| with_tables(ours(cache))),
    ("all but the memtable's filter", Keys::Prefixed, |cache| {
        let mut options = with_tables(ours(cache));
        options.set_memtable_prefix_bloom_ratio(0.0);
        options
    }),
    ("all, and the log's end in memory", Keys::Prefixed, |cache| {
        let mut options = with_tables(ours(cache));
        options.set_manual_wal_flush(true);
        options
    }),
    ("all, in batches without a log", Keys::Prefixed, |cache| with_tables(ours(cache))),
];
/// The one that writes no log, which is not an option of the database.
const WITHOUT_LOG: usize = VARIANTS.len() - 1;

pub(crate) fn print() {
    let mut rows: Vec<Row> = VARIANTS.iter().map(|(name, _, _)| Row::new(name)).collect();
    let bare = records(DOCUMENTS, Keys::Bare);
    let prefixed = records(DOCUMENTS, Keys::Prefixed);
    for _ in 0..ROUNDS {
        for (at, ((_, keys, options), row)) in VARIANTS.iter().zip(&mut rows).enumerate() {
            let records = match keys {
                Keys::Bare => &bare,
                Keys::Prefixed => &prefixed,
            };
            row.rounds.push(round(*options, records, at == WITHOUT_LOG));
        }
    }
    table::print(&["µs a document, batches of 1,000", "one by one"], &rows);
}

fn with_nothing(cache: &Cache) -> Options {
    with_tables(plain(cache))
}

fn with_filter(cache: &Cache, share: f64) -> Options {
    let mut options = with_tables(plain(cache));
    options.set_memtable_prefix_bloom_ratio(share);
    options.set_memtable_whole_key_filtering(true);
    options
}

/// Microseconds a document, in batches and one by one.
fn round(options: fn(&Cache) -> Options, records: &[Record], is_without_log: bool) -> Vec<f64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = Cache::new_hyper_clock_cache(CACHE_BYTES, 0);
    let mut writes = rocksdb::WriteOptions::default();
    writes.disable_wal(is_without_log);
    let open = |name| DB::open(&options(&cache), folder.path().join(name)).expect("a new database");
    let database = open("batches");
    let batched = time(|| write(&database, records, &writes));
    drop(database);
    let database = open("single");
    let single = time(|| {
        for (key, value) in records.iter().take(SINGLE as usize) {
            database.put_opt(key, value, &writes).expect("written");
        }
    });
    vec![table::micros(batched, DOCUMENTS), table::micros(single, SINGLE)]
}
