//! The shape of a file: a header that says what it is, and a length that can be read in one sitting.

use crate::tree::{File, Finding};

const HEADER_LINES_MAX: usize = 12;
const LINES_MAX: usize = 700;

pub(crate) fn violations(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let header = header_lines(&file.text);
    // A crate's root carries the crate's documentation, which may need more room.
    let is_root = file.path.ends_with("/lib.rs");
    if header == 0 {
        findings.push(file.finding(1, "no `//!` header"));
    } else if header > HEADER_LINES_MAX && !is_root {
        findings.push(
            file.finding(1, format!("a header of {header} lines, where {HEADER_LINES_MAX} are the limit")),
        );
    }
    let total = file.text.lines().count();
    let lines =
        if file.is_test_file() { total } else { (1..=total).filter(|line| !file.is_test(*line)).count() };
    if lines > LINES_MAX {
        findings.push(file.finding(0, format!("{lines} lines, where {LINES_MAX} are the limit")));
    }
    findings
}

/// The lines of prose in a header; layouts and tables are as long as they are.
fn header_lines(text: &str) -> usize {
    let mut fenced = false;
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    lines
        .filter(|line| {
            let fence = line.starts_with("```");
            fenced ^= fence;
            !fenced && !fence && !line.is_empty() && !line.starts_with('|')
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<String> =
            violations(&File::new(path, text)).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_needs_a_header_of_some_lines() {
        check("e/src/a.rs", "use std::fmt;\n", &["no `//!` header"]);
        check("e/src/a.rs", "//! What it is.\n", &[]);
        check("e/src/a.rs", &"//! More.\n".repeat(13), &["a header of 13 lines, where 12 are the limit"]);
        check("e/src/a.rs", &"//! More.\n//!\n//! | cell |\n//! ```\n//! layout\n//! ```\n".repeat(12), &[]);
        check("e/src/lib.rs", &"//! More.\n".repeat(13), &[]);
    }

    #[test]
    fn a_file_has_at_most_700_lines_without_its_tests() {
        let long = format!("//! Long.\n{}", "\n".repeat(699));
        check("e/src/a.rs", &long, &[]);
        check("e/src/a.rs", &format!("{long}\n"), &["701 lines, where 700 are the limit"]);
        check("e/src/a.rs", &format!("{long}#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(500)), &[]);
        check("tests/api/a.rs", &format!("{long}\n"), &["701 lines, where 700 are the limit"]);
    }
}
