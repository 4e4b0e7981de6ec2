//! Opening a folder after its process has died, with a long log, against RocksDB that replays the same one.

use std::fs;
use std::path::Path;

use cairndb::Client;
use cairndb_benches::measure::{speed_ratio_of, time};
use cairndb_benches::raw;
use tempfile::TempDir;

/// The bytes of the log.
const LOG_BYTES: u64 = 256 << 20;
/// Each round replays everything twice.
const ROUNDS: usize = 5;

pub(crate) fn open_after_crash() -> f64 {
    let died = died();
    speed_ratio_of(
        ROUNDS,
        || {
            let copy = copy(died.path());
            let mut client = None;
            let taken = time(|| client = Some(Client::open(copy.path()).expect("it opens")));
            assert!(client.is_some_and(|client| client.recovery_report().log_bytes >= LOG_BYTES));
            taken
        },
        || {
            let copy = copy(died.path());
            let mut database = None;
            let taken = time(|| database = Some(raw::open_alike(copy.path(), copy.path())));
            assert!(database.is_some_and(|database| database.latest_sequence_number() > 0));
            taken
        },
    )
}

/// A folder as a process leaves it that dies.
fn died() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client = Client::open(folder.path()).expect("a new database");
    client.database("bench").create_collection("orders").run().expect("a new collection");
    client.close().expect("closed");
    raw::lengthen_log(folder.path(), LOG_BYTES);
    folder
}

fn copy(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder");
    for entry in fs::read_dir(folder).expect("the folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_dir() {
            continue;
        }
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
    }
    copy
}
