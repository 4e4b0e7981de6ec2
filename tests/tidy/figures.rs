//! How much of the sources are tests, and how many claims the code checks while it runs.

use crate::code;
use crate::tree::Tree;

/// The macros that check a claim.
const ASSERTIONS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Lines with code on them, without comments and blank lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// What is built for users.
    pub(crate) shipped: usize,
    /// What only tests, or fuzzing, are built of.
    pub(crate) tests: usize,
}

/// The lines of code of the whole checkout, but for benchmarks.
pub(crate) fn lines(tree: &Tree) -> Lines {
    let mut lines = Lines::default();
    for file in tree.rust().filter(|file| !file.path.starts_with("benches/")) {
        let is_fuzzing = file.path.starts_with("fuzz/");
        for (at, _) in file.code.lines().enumerate().filter(|(_, code)| !code.trim().is_empty()) {
            if is_fuzzing || file.is_test(at + 1) {
                lines.tests += 1;
            } else {
                lines.shipped += 1;
            }
        }
    }
    lines
}

/// Claims that code checks while it runs, outside of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Assertions, in every build or in those for debugging.
    pub(crate) assertions: usize,
    /// Values that must be there: `expect`, which states why.
    pub(crate) expectations: usize,
}

/// The claims of the crate in a folder, or of all that is shipped.
pub(crate) fn claims(tree: &Tree, folder: &str) -> Claims {
    let mut claims = Claims::default();
    let shipped =
        |path: &str| path.contains("/src/") && !path.starts_with("benches/") && !path.starts_with("fuzz/");
    for file in tree.rust().filter(|file| file.path.starts_with(folder) && shipped(&file.path)) {
        let is_live = |at: &usize| !file.is_test(file.line_at(*at));
        let follows =
            |at: usize, after: &str| file.code.get(at..).is_some_and(|code| code.starts_with(after));
        for name in ASSERTIONS {
            let calls = code::words(&file.code, name).filter(|at| follows(at + name.len(), "!"));
            claims.assertions += calls.filter(is_live).count();
        }
        // Attributes of this name have a bracket before it, not a point.
        claims.expectations += file.code.match_indices(".expect(").filter(|(at, _)| is_live(at)).count();
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    const TEXT: &str = "//! Header.\n\n/// assert!(doc);\nfn f() {\n    assert!(a);\n    debug_assert_eq!(b, c);\n    \
                        d.expect(\"e\");\n}\n#[cfg(test)]\nmod tests {\n    fn g() { assert!(e) }\n}\n";

    #[test]
    fn code_and_tests_are_counted_apart() {
        let tree = Tree::new(vec![
            File::new("engine/src/a.rs", TEXT),
            File::new("tests/api/a.rs", "fn f() {}\n"),
            File::new("fuzz/fuzz_targets/a.rs", "fn f() {}\n"),
            File::new("benches/src/a.rs", "fn f() {}\n"),
        ]);
        assert_eq!(lines(&tree), Lines { shipped: 5, tests: 6 });
    }

    #[test]
    fn claims_outside_of_tests_are_counted() {
        let tree = Tree::new(vec![File::new("engine/src/a.rs", TEXT), File::new("index/src/a.rs", TEXT)]);
        assert_eq!(claims(&tree, "engine/"), Claims { assertions: 2, expectations: 1 });
        assert_eq!(claims(&tree, ""), Claims { assertions: 4, expectations: 2 });
    }
}
