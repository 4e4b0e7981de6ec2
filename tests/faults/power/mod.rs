//! The power fails, the disk refuses, the disk is full: on a file system of our own that knows what was synced, the
//! power is cut at every operation, every operation fails in every way, and the process is killed at every operation.
//! What was acknowledged as durable must be there after, nothing half done, and no value may come twice. Sectors that cannot be
//! read any more cost what is in them. A disk that lies is found out. Two defects of RocksDB, holes in what was written, have cases of their own.
//!
//! `CAIRNDB_CUTS`, `CAIRNDB_FAULTS` and `CAIRNDB_DEATHS_EACH` say how much is tried, `CAIRNDB_SEED` replays the decisions
//! (though not the order in which threads run). It needs Linux, root and /dev/fuse; elsewhere it says that it is skipped.

mod copies;
mod cuts;
mod deaths;
mod disk;
mod events;
mod faults;
mod full;
mod full_log;
mod holes;
mod lies;
mod life;
mod mount;
mod oracle;
mod planted;
mod sectors;
mod stage;
mod tokens;
mod upgrade;

use std::io::{self, Write};

/// Past the test harness, which keeps what passing tests print to itself.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
