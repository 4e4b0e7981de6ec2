//! How much code the compiler does not check, by file. One more `unsafe` is a reviewed change of the table.

use crate::code;
use crate::counted::Counted;
use crate::tree::{File, Finding, Tree};

/// How often the files say `unsafe`: of blocks, functions, implementations and foreign declarations.
const ALLOWED: [(&str, usize); 11] = [
    // What is shipped: the calls into PCRE2, the snapshot that owns its database, a hook for forks, a setting of the
    // tool's allocator and the call that has it give memory back, its look at standard input and output before the standard
    // library replaces what is closed, and what it asks of signals.
    ("pcre/src/library.rs", 26),
    ("store/src/snapshot.rs", 5),
    ("sequence/src/fork.rs", 1),
    ("cli/src/allocator.rs", 2),
    ("cli/src/signals.rs", 3),
    ("cli/src/standard.rs", 3),
    // Tests, measurements and fuzzing: forks, allocators that count, and LMDB's own interface.
    ("sequence/tests/suite/fork.rs", 3),
    ("tests/api/fork.rs", 4),
    ("tests/memory/main.rs", 7),
    ("fuzz/fuzz_targets/budgets.rs", 7),
    ("benches/compare/lmdb/src/main.rs", 2),
];

const COUNTED: Counted = Counted { what: "unsafe", places };

/// Files that say `unsafe` more often, or less often, than the table.
pub(crate) fn violations(tree: &Tree) -> Vec<Finding> {
    COUNTED.against(tree, &ALLOWED)
}

/// How much of it is in what is shipped, and how much in all.
pub(crate) fn count(tree: &Tree) -> (usize, usize) {
    let of = |file: &File| places(file).len();
    let shipped = tree.rust().filter(|file| !file.is_test_file() && is_shipped(&file.path));
    (shipped.map(of).sum(), tree.rust().map(of).sum())
}

fn is_shipped(path: &str) -> bool {
    !["tests/", "benches/", "fuzz/"].iter().any(|folder| path.starts_with(folder)) && path.contains("/src/")
}

/// The lines on which a file says `unsafe`.
fn places(file: &File) -> Vec<usize> {
    code::words(&file.code, "unsafe").map(|at| file.line_at(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, limit: usize, lines: &[usize]) {
        let tree = Tree::new(vec![File::new("e/src/a.rs", text)]);
        let found: Vec<usize> = COUNTED
            .against(&tree, &[("e/src/a.rs", limit)])
            .into_iter()
            .map(|finding| finding.line)
            .collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn one_more_is_found_where_it_stands() {
        let text = "fn f() { unsafe { g() } }\n// unsafe\n#![forbid(unsafe_code)]\nunsafe impl H for I {}\n";
        check(text, 2, &[]);
        check(text, 1, &[4]);
        check(text, 0, &[1, 4]);
    }

    #[test]
    fn one_less_lowers_the_limit() {
        check("fn f() { unsafe { g() } }\n", 2, &[0]);
    }

    #[test]
    fn a_file_outside_of_the_table_may_have_none() {
        let tree = Tree::new(vec![File::new("e/src/b.rs", "\nunsafe fn f() {}\n")]);
        let found = COUNTED.against(&tree, &[("e/src/a.rs", 0)]);
        let places: Vec<_> = found.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
        assert_eq!(places, [("e/src/b.rs", 2), ("e/src/a.rs", 0)]);
    }
}
