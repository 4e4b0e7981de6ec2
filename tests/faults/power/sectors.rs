//! Sectors that the disk does not give any more: salvage reads past them, `verify` names them and looks at everything else, and
//! a disk that gives nothing is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairndb::bson::doc;
use cairndb::{Compression, Durability, ErrorKind, SalvageReport, salvage};
use cairndb_tests::files::{contents, is_log, is_table, manifest, newest_log};
use cairndb_tests::race::pause;
use cairndb_tests::scratch::{Scratch, small, things};

use crate::power::disk::Image;
use crate::power::mount::{Mounted, is_possible};

/// The size of an unreadable part of the disk.
const SECTOR_BYTES: u64 = 4096;
/// Documents that are in tables, and those that are in the log alone.
const IN_TABLES: u64 = 3000;
const IN_LOG: u64 = 300;
/// A sector reaches into two blocks at most. A block has 16 KiB, and a document more than 220 bytes.
const LOST_OF_TABLE_MAX: u64 = 2 * (16 << 10) / 220;
/// A record of the log has more than 250 bytes, and the sector has the ends of two.
const LOST_OF_LOG_MAX: u64 = SECTOR_BYTES / 250 + 2;

/// The files of a closed database with tables and a log.
fn victim() -> BTreeMap<String, Vec<u8>> {
    let scratch = Scratch::new();
    let options = small().compression(Compression::None).durability(Durability::Journaled);
    let client = scratch.open_with(options);
    let text = |id: u64| format!("{id:0200}");
    let id = |id: u64| i64::try_from(id).expect("few");
    things(&client)
        .insert_many((0..IN_TABLES).map(|at| doc! { "_id": id(at), "text": text(at) }))
        .run()
        .expect("stored");
    client.compact().run().expect("compacted");
    for at in IN_TABLES..IN_TABLES + IN_LOG {
        things(&client).insert_one(doc! { "_id": id(at), "text": text(at) }).run().expect("stored");
    }
    client.close().expect("closed");
    contents(&scratch.path())
}

/// A disk with these files in the folder `db`.
fn mounted(files: &BTreeMap<String, Vec<u8>>) -> Mounted {
    let mut image = Image::default();
    image.entries.insert(PathBuf::from("db"), None);
    let paths = files.iter().map(|(name, bytes)| (Path::new("db").join(name), Some(bytes.clone())));
    image.entries.extend(paths);
    Mounted::new(&image, false, None, std::sync::mpsc::channel().0).expect("mounted")
}

/// Salvages the files from a disk that does not give a sector. Returns how many documents came, and what is reported.
fn salvaged(files: &BTreeMap<String, Vec<u8>>, file: &str, at: u64) -> (u64, SalvageReport) {
    let disk = mounted(files);
    disk.spoil(file, at..at + SECTOR_BYTES);
    let new = Scratch::new();
    let report = salvage(disk.folder().join("db"), new.path()).run();
    let report = report.unwrap_or_else(|error| panic!("{file} at {at}: {error}"));
    disk.end().expect("unmounted");
    let client = new.open();
    let stored = things(&client).count_documents(doc! {}).run().expect("counted");
    (stored, report)
}

fn largest_table(files: &BTreeMap<String, Vec<u8>>) -> (&str, u64) {
    let tables = files.iter().filter(|(name, _)| is_table(name));
    let largest = tables.max_by_key(|(_, bytes)| bytes.len()).expect("a table");
    (largest.0, largest.1.len() as u64)
}

/// The longest log, which has the documents that are in no table.
fn longest_log(files: &BTreeMap<String, Vec<u8>>) -> (&str, u64) {
    let logs = files.iter().filter(|(name, _)| is_log(name));
    let longest = logs.max_by_key(|(_, bytes)| bytes.len()).expect("a log");
    (longest.0, longest.1.len() as u64)
}

/// That the report names a sector of a file with its length and in the system's words.
#[track_caller]
fn names_it(report: &SalvageReport, file: &str, at: u64) {
    let said = format!(" bytes at {at} cannot be read: Input/output error");
    let named = report.unreadable.iter().any(|lost| lost.file.ends_with(file) && lost.reason.contains(&said));
    assert!(named, "{file} at {at}: {report:?}");
}

/// The footer, the list of meta blocks, the properties and often the index of a table are in its last sector. With one of them
/// unreadable, salvage treated the whole table as missing: none of 20,000 documents came back.
#[test]
fn the_last_sector_of_a_table_costs_no_document() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let (table, bytes) = largest_table(&files);
    let at = (bytes - 1) / SECTOR_BYTES * SECTOR_BYTES;
    let (stored, report) = salvaged(&files, table, at);
    names_it(&report, table, at);
    // The blocks of data end before the index does; the last one may reach into the sector.
    assert!(stored >= IN_TABLES + IN_LOG - LOST_OF_TABLE_MAX / 2, "{stored}: {report:?}");
}

#[test]
fn a_sector_of_a_table_costs_the_blocks_that_it_is_in() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let (table, bytes) = largest_table(&files);
    for at in (0..bytes / 2).step_by(usize::try_from(SECTOR_BYTES).expect("short") * 19) {
        let (stored, report) = salvaged(&files, table, at);
        names_it(&report, table, at);
        let lost = IN_TABLES + IN_LOG - stored;
        assert!(lost > 0 && lost <= LOST_OF_TABLE_MAX, "{lost} lost by {at}: {report:?}");
    }
}

/// A sector in the middle of a log ended the reading of it: what was before and after it was lost with it.
#[test]
fn a_sector_of_a_log_costs_the_writes_in_it() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let (log, bytes) = longest_log(&files);
    assert!(bytes > 15 * SECTOR_BYTES, "{bytes}");
    for at in (0..bytes).step_by(usize::try_from(SECTOR_BYTES).expect("short") * 3) {
        let (stored, report) = salvaged(&files, log, at);
        names_it(&report, log, at);
        let lost = IN_TABLES + IN_LOG - stored;
        assert!(lost <= LOST_OF_LOG_MAX, "{lost} lost by {at}: {report:?}");
        assert!(lost == 0 || !report.lost_writes.is_empty(), "{at}: {report:?}");
    }
}

/// The marker and the slots of the witness say nothing that the rest does not. A sector of the marker ended the salvage.
#[test]
fn a_sector_of_what_only_names_other_files_costs_nothing() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let manifest = files.keys().find(|name| name.starts_with("MANIFEST-")).expect("a MANIFEST");
    let cases = [
        ("CAIRNDB", 0),
        ("CAIRNDB.witness", 0),
        ("CAIRNDB.witness", SECTOR_BYTES),
        ("CURRENT", 0),
        (manifest, 0),
    ];
    for (file, at) in cases {
        let (stored, report) = salvaged(&files, file, at);
        assert_eq!(stored, IN_TABLES + IN_LOG, "{file} at {at}: {report:?}");
        // One slot of the witness is enough.
        assert!(file == "CAIRNDB.witness" || !report.notes.is_empty(), "{file} at {at}");
    }
}

#[test]
fn a_disk_that_gives_nothing_is_an_error() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let disk = mounted(&files);
    for file in files.keys() {
        disk.spoil(file, 0..u64::MAX);
    }
    let new = Scratch::new();
    let error = salvage(disk.folder().join("db"), new.path()).run().expect_err("nothing can be read");
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("any table or log of the folder") && said.contains("Input/output error"), "{said}");
    assert!(!new.path().exists());
    disk.end().expect("unmounted");
}

/// A sector that RocksDB met ended `verify` with an error, and all files after it were left unread.
#[test]
fn verify_names_sectors_and_reads_everything_else() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let disk = mounted(&files);
    let folder = disk.folder().join("db");
    // The sectors go bad after opening, which reads the logs and the ends of the tables.
    let options = small().read_only(true);
    let client = options.open(&folder).expect("opened");
    let (table, bytes) = largest_table(&files);
    let log = newest_log(&folder);
    let log_bytes = files.get(&log).map_or(0, Vec::len) as u64;
    let (log_at, middle, last) =
        (log_bytes / 2 / SECTOR_BYTES, bytes / 2 / SECTOR_BYTES, (bytes - 1) / SECTOR_BYTES);
    let bad = [
        (log.clone(), log_at * SECTOR_BYTES),
        (table.to_owned(), middle * SECTOR_BYTES),
        (table.to_owned(), last * SECTOR_BYTES),
        (manifest(&folder), 0),
    ];
    disk.spoil(&log, bad[0].1..bad[0].1 + SECTOR_BYTES);
    disk.spoil(table, bad[1].1..bad[1].1 + SECTOR_BYTES);
    let report = client.verify().expect("verified");
    let is_named = |file: &str, at: u64| {
        let said = format!("bytes at {at} cannot be read: Input/output error");
        report.findings.iter().any(|finding| {
            finding.file.as_ref().is_some_and(|found| found.ends_with(file))
                && finding.problem.contains(&said)
        })
    };
    assert!(is_named(&bad[0].0, bad[0].1), "{:?}", report.findings);
    assert!(is_named(&bad[1].0, bad[1].1), "{:?}", report.findings);
    let all = files.keys().filter(|name| is_table(name)).count() as u64;
    // The tables, a log and the MANIFEST.
    assert!(report.files >= all + 2, "{report:?}");
    disk.spoil(table, bad[2].1..bad[2].1 + SECTOR_BYTES);
    disk.spoil(&bad[3].0, 0..SECTOR_BYTES);
    let report = client.verify().expect("verified");
    for (file, _) in &bad {
        let named = report.findings.iter().any(|finding| {
            finding.file.as_ref().is_some_and(|found| found.ends_with(file))
                && finding.problem.contains("cannot be read")
        });
        assert!(named, "{file}: {:?}", report.findings);
    }
    client.close().expect("closed");
    let error = small().read_only(true).open(&folder).expect_err("its MANIFEST cannot be read");
    assert!(error.to_string().contains("MANIFEST-"), "{error}");
    disk.end().expect("unmounted");
}

/// An unreadable sector ended the scrub's pass.
#[test]
fn the_scrub_names_sectors_and_reads_everything_else() {
    if !is_possible() {
        return;
    }
    let files = victim();
    let disk = mounted(&files);
    let (table, bytes) = largest_table(&files);
    let at = bytes / 2 / SECTOR_BYTES * SECTOR_BYTES;
    disk.spoil(table, at..at + SECTOR_BYTES);
    let client = small().read_only(true).scrub(1 << 30).open(disk.folder().join("db")).expect("opened");
    let started = Instant::now();
    while client.scrub_status().passes == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "no pass ends");
        pause();
    }
    let status = client.scrub_status();
    let said = format!("bytes at {at} cannot be read: Input/output error");
    assert!(status.findings.iter().any(|finding| finding.problem.contains(&said)), "{status:?}");
    let tables = files.keys().filter(|name| is_table(name)).count() as u64;
    assert!(status.files >= tables + 2, "{status:?}");
    client.close().expect("closed");
    disk.end().expect("unmounted");
}
