//! Rules on single places in code: imports that hide where a name comes from, calls that tests alone
//! may make, and tests that do not run or that wait.

use crate::code;
use crate::paths;
use crate::tree::{File, Finding};

/// Globs that tests may use: the module they test, and the names that proptest's macros expect.
const TEST_GLOBS: [&str; 2] = ["super::*", "proptest::prelude::*"];

/// Globs, and names imported from the crate's root instead of the module that defines them.
pub(crate) fn hidden_imports(file: &File) -> Vec<Finding> {
    let globs = paths::imports(file).into_iter().filter_map(|named| {
        let path = named.segments.join("::");
        let is_test_glob = file.is_test(named.line) && TEST_GLOBS.contains(&path.as_str());
        (path.ends_with('*') && !is_test_glob)
            .then(|| file.finding(named.line, format!("glob import {path}")))
    });
    let from_the_root = paths::inside_the_crate(file).into_iter().filter_map(|named| {
        let name = named.segments.first()?;
        name.starts_with(char::is_uppercase)
            .then(|| file.finding(named.line, format!("crate::{name} is a root re-export: name its module")))
    });
    globs.chain(from_the_root).collect()
}

/// Calls of `unwrap` outside of tests. (In documentation it is prose.)
pub(crate) fn unwraps(file: &File) -> Vec<Finding> {
    code::words(&file.code, "unwrap")
        .filter(|at| file.code.get(at + "unwrap".len()..).is_some_and(|after| after.starts_with("()")))
        .map(|at| file.line_at(at))
        .filter(|line| !file.is_test(*line))
        .map(|line| file.finding(line, "unwrap() outside of tests"))
        .collect()
}

/// Crates whose locks a checker can replace, and the file that names the real ones.
const CHECKED: [&str; 3] = ["base/src/", "store/src/", "engine/src/"];
const LOCKS: &str = "base/src/sync.rs";

/// Locks that are used past `base/src/sync.rs`: the checker of interleavings cannot replace them.
pub(crate) fn real_locks(file: &File) -> Vec<Finding> {
    if file.path == LOCKS || !CHECKED.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    REAL_LOCKS
        .iter()
        .flat_map(|home| file.code.match_indices(home))
        .map(|(at, _)| file.line_at(at))
        .filter(|line| !file.is_test(*line))
        .map(|line| file.finding(line, "a lock that is not of base::sync"))
        .collect()
}

/// Removals of records as a range past the one function that notifies index builds of them.
pub(crate) fn untold_removals(file: &File) -> Vec<Finding> {
    if file.path == "engine/src/catalog/record_removal.rs" {
        return Vec::new();
    }
    file.code
        .match_indices(".delete_records(")
        .map(|(at, _)| file.line_at(at))
        .filter(|line| !file.is_test(*line))
        .map(|line| file.finding(line, "a range of records that index builds do not learn of"))
        .collect()
}

/// Where the real locks come from.
const REAL_LOCKS: [&str; 2] = ["parking_lot::", "crossbeam::sync::"];

/// Tests that are ignored, that pass by panicking, that sleep, or that are called `test_…`.
pub(crate) fn idle_tests(file: &File) -> Vec<Finding> {
    let lines = file.code.lines().enumerate().map(|(line, text)| (line + 1, text.trim()));
    let mut previous = "";
    lines
        .filter(|(line, text)| file.is_test(*line) && !text.is_empty())
        .filter_map(|(line, text)| {
            let is_declared = std::mem::replace(&mut previous, text).starts_with("#[");
            Some(file.finding(line, idleness(text, is_declared)?))
        })
        .collect()
}

/// What is wrong with a line of a test, which may stand under an attribute (`#[test]` for one).
fn idleness(text: &str, is_under_attribute: bool) -> Option<&'static str> {
    if text.starts_with("#[ignore") {
        Some("an ignored test")
    } else if text.starts_with("#[should_panic") {
        Some("a test that passes by panicking: check the error instead")
    } else if code::words(text, "sleep").next().is_some() {
        Some("a test that sleeps: wait for what it waits for")
    } else if is_under_attribute && text.starts_with("fn test_") {
        Some("a test called test_: its name should state a fact")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: fn(&File) -> Vec<Finding>, path: &str, text: &str, lines: &[usize]) {
        let found: Vec<usize> =
            rule(&File::new(path, text)).into_iter().map(|finding| finding.line).collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn globs_are_refused_but_for_some_in_tests() {
        check(hidden_imports, "e/src/a.rs", "use std::fmt;\nuse b::*;\nuse c::{d, e::*};\n", &[2, 3]);
        check(
            hidden_imports,
            "e/src/a.rs",
            "use super::*;\n#[cfg(test)]\nmod tests {\n    use super::*;\n    use proptest::prelude::*;\n}\n",
            &[1],
        );
        check(hidden_imports, "e/src/a.rs", "#[cfg(test)]\nmod tests {\n    use b::*;\n}\n", &[3]);
    }

    #[test]
    fn names_from_the_crates_root_are_refused() {
        check(hidden_imports, "e/src/a.rs", "use crate::b::C;\nuse crate::{C, d::E};\n", &[2]);
        check(hidden_imports, "e/src/a.rs", "fn f(_: crate::C) {}\n", &[1]);
    }

    #[test]
    fn unwrap_is_refused_outside_of_tests() {
        let text = "fn f() { g().unwrap(); }\n// h.unwrap()\nfn i() { j().unwrap_or(0); }\n#[test]\n";
        check(unwraps, "e/src/a.rs", text, &[1]);
        check(unwraps, "e/src/a.rs", "#[cfg(test)]\nmod tests {\n    fn f() { g().unwrap() }\n}\n", &[]);
    }

    #[test]
    fn locks_past_the_one_file_are_refused() {
        let text =
            "use parking_lot::Mutex;\nuse crossbeam::sync::ShardedLock;\nuse crossbeam::channel::bounded;\n";
        check(real_locks, "engine/src/a.rs", text, &[1, 2]);
        check(real_locks, "store/src/a.rs", text, &[1, 2]);
        check(real_locks, "base/src/sync.rs", text, &[]);
        check(real_locks, "sequence/src/a.rs", text, &[]);
        check(
            real_locks,
            "engine/src/a.rs",
            "#[cfg(test)]\nmod tests {\n    use parking_lot::Mutex;\n}\n",
            &[],
        );
    }

    #[test]
    fn ranges_of_records_past_the_one_function_are_refused() {
        let text = "fn f() {\n    batch.delete_records(a, b);\n}\npub fn delete_records(&self) {}\n";
        check(untold_removals, "engine/src/a.rs", text, &[2]);
        check(untold_removals, "engine/src/catalog/record_removal.rs", text, &[]);
        check(untold_removals, "e/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}}}\n"), &[]);
    }

    #[test]
    fn idle_tests_are_refused() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[should_panic(expected = \"b\")]\nfn c() {}\n\
                    fn d() { std::thread::sleep(e); }\n#[test]\nfn test_f() {}\nfn test_g() {}\nfn slept() {}\n";
        check(idle_tests, "tests/api/a.rs", text, &[2, 4, 6, 8]);
        check(idle_tests, "e/src/a.rs", "fn d() { std::thread::sleep(e); }\n", &[]);
    }
}
