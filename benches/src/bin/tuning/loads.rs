//! The time that many documents in the order of their keys need: written in batches of 1,000, and as tables that are
//! ingested.
//!
//! A load is done when nothing is left to compact. Until then it slows what follows, so both are shown.

use std::path::Path;

use cairndb_benches::measure::time;
use cairndb_benches::raw::Record;
use rocksdb::{Cache, DB, DBCompressionType, Options, SstFileWriter, WaitForCompactOptions, WriteOptions};

use crate::options::{CACHE_BYTES, Keys, ours, records, with_tables, write};
use crate::table::{self, Row};

const ROUNDS: usize = 5;
/// Documents of a round: half a gigabyte.
const DOCUMENTS: u32 = 3_000_000;
/// Documents of a table: 64 MiB, as much as a memtable has.
const TABLE: usize = 400_000;

type Load = (&'static str, fn(&Cache) -> Options, fn(&DB, &Options, &Path, &[Record]));

const LOADS: [Load; 3] = [
    ("batches of 1,000, Zstandard in the last level", |cache| with_tables(ours(cache)), by_batches),
    ("batches of 1,000, LZ4 in all levels", with_lz4, by_batches),
    ("tables of 64 MiB, Zstandard", |cache| with_tables(ours(cache)), by_tables),
];

pub(crate) fn print() {
    let records = records(DOCUMENTS, Keys::Prefixed);
    let mut rows: Vec<Row> = LOADS.iter().map(|(name, _, _)| Row::new(name)).collect();
    for _ in 0..ROUNDS {
        for (load, row) in LOADS.iter().zip(&mut rows) {
            row.rounds.push(round(*load, &records));
        }
    }
    table::print(&["µs a document until all are stored", "until nothing is left to compact", "bytes"], &rows);
}

/// Tables of one compression are moved down the levels as they are, instead of being written again.
fn with_lz4(cache: &Cache) -> Options {
    let mut options = with_tables(ours(cache));
    options.set_bottommost_compression_type(DBCompressionType::Lz4);
    options
}

fn round(load: Load, records: &[Record]) -> Vec<f64> {
    let (_, options, load) = load;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = Cache::new_hyper_clock_cache(CACHE_BYTES, 0);
    let options = options(&cache);
    let database = DB::open(&options, folder.path().join("db")).expect("a new database");
    let stored = time(|| {
        load(&database, &options, folder.path(), records);
        database.flush_wal(true).expect("synced");
    });
    let quiet = time(|| {
        let mut until = WaitForCompactOptions::default();
        until.set_flush(true);
        database.wait_for_compact(&until).expect("compacted");
    });
    let bytes = table::bytes_in_tables(&database, DOCUMENTS);
    vec![table::micros(stored, DOCUMENTS), table::micros(stored + quiet, DOCUMENTS), bytes]
}

fn by_batches(database: &DB, _: &Options, _: &Path, records: &[Record]) {
    write(database, records, &WriteOptions::default());
}

fn by_tables(database: &DB, options: &Options, folder: &Path, records: &[Record]) {
    for (number, records) in records.chunks(TABLE).enumerate() {
        let file = folder.join(format!("{number}.sst"));
        let mut writer = SstFileWriter::create(options);
        writer.open(&file).expect("a new file");
        for (key, value) in records {
            writer.put(key, value).expect("written");
        }
        writer.finish().expect("finished");
        let mut ingested = rocksdb::IngestExternalFileOptions::default();
        ingested.set_move_files(true);
        database.ingest_external_file_opts(&ingested, vec![file]).expect("ingested");
    }
}
