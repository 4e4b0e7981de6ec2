//! Figures of index builds: against reading, sorting and ingesting by hand over raw RocksDB, and what a build costs inserts.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairndb::IndexModel;
use cairndb::bson::{RawDocument, RawDocumentBuf, doc};
use cairndb_benches::measure::{median_of, speed_ratio_of, time};
use cairndb_benches::ours::Ours;
use cairndb_benches::raw::{Raw, Record};
use index::key::{self, Direction};
use rocksdb::{IngestExternalFileOptions, SstFileWriter};

use crate::queries::{filled, measured};

/// Documents that get an index.
const DOCUMENTS: u64 = 1_000_000;
/// Rounds of these figures: each side needs seconds.
const ROUNDS: usize = 3;

fn build(ours: &Ours) {
    let by_name = IndexModel::builder().keys(doc! { "name": 1 }).build();
    ours.orders().create_index(by_name).run().expect("built");
}

fn drop_index(ours: &Ours) {
    ours.orders().drop_index("name_1").run().expect("dropped");
}

pub(crate) fn index_build() -> f64 {
    let (ours, raw) = filled(DOCUMENTS);
    let options = raw.table_options();
    let id = Cell::new(1_u32);
    speed_ratio_of(
        ROUNDS,
        || {
            let took = time(|| build(&ours));
            drop_index(&ours);
            took
        },
        || {
            // A range of keys of its own, as every index of ours has.
            id.set(id.get() + 1);
            time(|| {
                let entries = sorted_entries(&raw, id.get());
                assert_eq!(entries.len() as u64, DOCUMENTS);
                let path = raw.folder().join(format!("{}.table", id.get()));
                let mut writer = SstFileWriter::create(&options);
                writer.open(&path).expect("a file");
                for (key, value) in &entries {
                    writer.put(key, value).expect("written");
                }
                writer.finish().expect("written");
                let mut moved = IngestExternalFileOptions::default();
                moved.set_move_files(true);
                raw.db().ingest_external_file_cf_opts(raw.entries(), &moved, vec![path]).expect("ingested");
            })
        },
    )
}

/// The entries of an index on the field `name`, by hand.
fn sorted_entries(raw: &Raw, id: u32) -> Vec<Record> {
    let mut entries = Vec::new();
    let mut iterator = raw.db().raw_iterator_cf(raw.records());
    iterator.seek_to_first();
    while let Some((record_key, document)) = iterator.item() {
        let document = RawDocument::from_bytes(document).expect("a document");
        let value = document.get("name").expect("readable").expect("every document has it");
        let (mut key, mut types) = (id.to_be_bytes().to_vec(), Vec::new());
        key::encode_with_types(value, Direction::Ascending, &mut key, &mut types);
        key.extend_from_slice(record_key.get(4..).unwrap_or_default());
        entries.push((key, types));
        iterator.next();
    }
    entries.sort_unstable();
    entries
}

#[expect(clippy::print_stderr, reason = "the longest call is no ratio, and belongs beside the figure")]
pub(crate) fn insert_during_build() -> f64 {
    let (ours, _raw) = filled(DOCUMENTS);
    let mut next = DOCUMENTS;
    let mut longest = Duration::ZERO;
    let figure = median_of(ROUNDS, || {
        let is_built = AtomicBool::new(false);
        let mut during = 0.0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                build(&ours);
                is_built.store(true, Ordering::Release);
            });
            during =
                inserts_per_second(&ours, &mut next, &mut longest, |_| !is_built.load(Ordering::Acquire));
        });
        drop_index(&ours);
        // The longest call is asked for beside a build only.
        let mut ignored = Duration::ZERO;
        let without = inserts_per_second(&ours, &mut next, &mut ignored, |done| done < 200_000);
        during / without
    });
    eprintln!("insert_during_build: the longest call took {longest:?}");
    figure
}

/// Inserts one document after the other while `goes_on` says so of their number.
fn inserts_per_second(
    ours: &Ours,
    next: &mut u64,
    longest: &mut Duration,
    goes_on: impl Fn(u64) -> bool,
) -> f64 {
    let orders = ours.orders();
    let (began, first) = (Instant::now(), *next);
    while goes_on(*next - first) {
        let document: RawDocumentBuf = measured(*next);
        *longest = time(|| drop(orders.insert_one(&document).run().expect("inserted"))).max(*longest);
        *next += 1;
    }
    let inserted = u32::try_from(*next - first).expect("it takes seconds");
    f64::from(inserted) / began.elapsed().as_secs_f64()
}
