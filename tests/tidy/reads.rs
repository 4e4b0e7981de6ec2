//! Reads of the store that a transaction must not make unseen: snapshots, and look-ups of the newest state. A
//! transaction reads its own snapshot, with what it has staged over it. A new place is a reviewed change of the table: it reads by
//! what its `Caller` says, or no transaction comes there.

use crate::counted::Counted;
use crate::tree::{File, Finding, Tree};

/// How a read begins.
const READS: [&str; 4] = ["Snapshot::take(", "database.record(", "database.get(", ".exists(Family::"];

/// How often the files of the engine read so.
const ALLOWED: [(&str, usize); 30] = [
    // A `Caller` without a transaction comes here, and one with its transaction uses the snapshot of that.
    ("engine/src/execute/read_view.rs", 7),
    ("engine/src/execute/listed.rs", 2),
    ("engine/src/transaction/mod.rs", 2),
    // Plain writes, under the latches of what they read. Staged ones return before.
    ("engine/src/write/commit.rs", 3),
    ("engine/src/write/mod.rs", 2),
    ("engine/src/write/update.rs", 2),
    ("engine/src/write/delete.rs", 2),
    ("engine/src/write/unique.rs", 4),
    // No transaction writes to a capped collection.
    ("engine/src/write/capped.rs", 5),
    ("engine/src/catalog/capped.rs", 1),
    ("engine/src/write/order_build.rs", 4),
    // Whether a commit of unknown outcome was made.
    ("engine/src/write/staged/commit.rs", 1),
    // Definitions and numbers, which no transaction reads in its snapshot.
    ("engine/src/catalog/builds.rs", 2),
    ("engine/src/catalog/given_keys/steps.rs", 2),
    ("engine/src/catalog/load.rs", 6),
    ("engine/src/write/index_build/follow.rs", 2),
    ("engine/src/write/auto_increment/stored_values.rs", 1),
    ("engine/src/sequences/inspect.rs", 1),
    // What repeated writes are answered from.
    ("engine/src/client/planted.rs", 1),
    ("engine/src/outcomes/generations.rs", 3),
    ("engine/src/outcomes/retryable.rs", 2),
    ("engine/src/outcomes/upkeep.rs", 2),
    // The log of changes, which no transaction reads.
    ("engine/src/changes/log.rs", 1),
    ("engine/src/changes/retention.rs", 2),
    ("engine/src/changes/rounds.rs", 1),
    ("engine/src/streams/stream.rs", 1),
    ("engine/src/streams/walk.rs", 1),
    ("engine/src/live/raw.rs", 1),
    // Audits.
    ("engine/src/audit/mod.rs", 1),
    ("engine/src/audit/memory.rs", 1),
];

const COUNTED: Counted = Counted { what: "reads of the newest state", places };

/// Files that read more often, or less often, than the table.
pub(crate) fn violations(tree: &Tree) -> Vec<Finding> {
    COUNTED.against(tree, &ALLOWED)
}

fn places(file: &File) -> Vec<usize> {
    if !file.path.starts_with("engine/src/") || file.is_test_file() {
        return Vec::new();
    }
    let found = READS.iter().flat_map(|read| file.code.match_indices(read));
    let mut lines: Vec<usize> = found.map(|(at, _)| file.line_at(at)).collect();
    lines.retain(|line| !file.is_test(*line));
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_found_where_they_are_and_tests_may_read() {
        let text = "fn f() {\n    database.get(a);\n    Snapshot::take(b).get(c);\n}\n#[cfg(test)]\nmod tests {\n    fn g() { Snapshot::take(d); }\n}\n";
        let lines = |path| places(&File::new(path, text));
        assert_eq!((lines("engine/src/a.rs"), lines("store/src/a.rs")), (vec![2, 3], vec![]));
    }
}
