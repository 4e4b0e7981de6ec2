//! MongoDB's error codes stand in one table; everywhere else they have their names.
//!
//! A `Code` is made by the table alone, so what can go wrong is a bare number beside it. A code of four digits and more
//! is a number that means nothing else, and is refused wherever it stands. A shorter one may well be a limit or a size:
//! it is refused where a code is made of it or compared with it.

use crate::code;
use crate::tree::{File, Finding, Tree};

/// Where the table is.
const TABLE: &str = "query/src/code/table.rs";
/// Where it says what each code means, from which a page of the guide is printed.
const MEANINGS: &str = "base/src/error_meaning.rs";
/// The crates whose errors reach a program or a client. The tool only compares codes that a server has sent.
const RAISING: [&str; 7] =
    ["base/src/", "store/src/", "engine/src/", "query/src/", "index/src/", "sequence/src/", "server/src/"];
/// The least code that counts as a code wherever it stands.
const UNMISTAKABLE_MIN: u64 = 1_000;
/// What stands before a number that becomes a code or is compared with one, blanks left out.
const MAKERS: [&str; 7] = ["Code::of(", "code==", "code!=", "code:", "code()==", "code()!=", "code()==Some("];

/// Numbers of codes in the sources of the crates, tests aside.
pub(crate) fn bare_numbers(tree: &Tree) -> Vec<Finding> {
    let codes = table(tree);
    let sources =
        tree.rust().filter(|file| file.path.contains("/src/") && file.path != TABLE && !file.is_test_file());
    sources.flat_map(|file| in_file(file, &codes)).collect()
}

/// Codes that have a name, are raised by a crate, and are not explained.
pub(crate) fn unexplained(tree: &Tree) -> Vec<Finding> {
    let file_at = |path| tree.files.iter().find(|file| file.path == path);
    let Some((table, meanings)) = file_at(TABLE).zip(file_at(MEANINGS)) else { return Vec::new() };
    let named = lines(table).filter(|line| line.has_name);
    let missing = named.filter(|line| !mentions(&meanings.code, line.constant));
    let is_raised = |line: &Line<'_>| {
        tree.rust().any(|file| {
            RAISING.iter().any(|folder| file.path.starts_with(folder))
                && file.path != MEANINGS
                && mentions(&file.code, line.constant)
        })
    };
    let findings = missing.filter(is_raised);
    findings.map(|line| meanings.finding(1, format!("{} is raised and has no line", line.constant))).collect()
}

/// Whether the text has `Code::` and just this name.
fn mentions(text: &str, constant: &str) -> bool {
    let mut rests = text.split("Code::").skip(1).filter_map(|rest| rest.strip_prefix(constant));
    rests.any(|rest| !rest.chars().next().is_some_and(code::is_word))
}

/// The numbers of the table's lines.
pub(crate) fn table(tree: &Tree) -> Vec<u64> {
    let file = tree.files.iter().find(|file| file.path == TABLE);
    file.into_iter().flat_map(lines).map(|line| line.number).collect()
}

/// A line of the table: `NAME = 11000, "Name";`.
struct Line<'a> {
    constant: &'a str,
    number: u64,
    has_name: bool,
}

fn lines(table: &File) -> impl Iterator<Item = Line<'_>> {
    table.text.lines().filter_map(|line| {
        let (constant, rest) = line.trim().strip_suffix(';')?.split_once(" = ")?;
        let is_name = constant.chars().all(|character| code::is_word(character) && !character.is_lowercase());
        let number = rest.split(',').next().filter(|_| is_name)?;
        Some(Line { constant, number: number.parse().ok()?, has_name: rest.contains('"') })
    })
}

fn in_file(file: &File, codes: &[u64]) -> Vec<Finding> {
    let lines = file.code.lines().enumerate().filter(|(at, _)| !file.is_test(at + 1));
    let found =
        lines.flat_map(|(at, line)| numbers(line).map(move |(before, number)| (at + 1, before, number)));
    found
        .filter(|(_, before, number)| {
            codes.contains(number) && (*number >= UNMISTAKABLE_MIN || makes_code(before))
        })
        .map(|(line, _, number)| file.finding(line, format!("{number} is a code: name it, from {TABLE}")))
        .collect()
}

/// The integers of a line, each with what stands before it.
fn numbers(line: &str) -> impl Iterator<Item = (&str, u64)> {
    let starts = line.char_indices().filter(|&(at, character)| {
        let previous = line.get(..at).and_then(|before| before.chars().next_back());
        character.is_ascii_digit()
            && !previous.is_some_and(|previous| code::is_word(previous) || previous == '.')
    });
    starts.filter_map(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let digits: String = rest.chars().take_while(|&next| next.is_ascii_digit() || next == '_').collect();
        Some((before, digits.replace('_', "").parse().ok()?))
    })
}

fn makes_code(before: &str) -> bool {
    let before: String = before.chars().filter(|character| !character.is_whitespace()).collect();
    MAKERS.iter().any(|maker| before.ends_with(maker))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "codes! {\n    BAD_VALUE = 2, \"BadValue\";\n    OTHER = 100, \"Other\";\n    \
                        DUPLICATE_KEY = 11000, \"DuplicateKey\";\n    NO_NAME = 4890500;\n}\n";

    #[track_caller]
    fn check(text: &str, expected: usize) {
        let tree = Tree::new(vec![File::new(TABLE, ROWS), File::new("engine/src/a.rs", text)]);
        assert_eq!(bare_numbers(&tree).len(), expected, "{text}");
    }

    #[test]
    fn the_table_is_read() {
        let tree = Tree::new(vec![File::new(TABLE, ROWS)]);
        assert_eq!(table(&tree), [2, 100, 11_000, 4_890_500]);
        assert!(table(&Tree::load()).len() > 400);
    }

    #[test]
    fn a_code_that_is_raised_is_explained() {
        let meanings = "fn f() { code(Code::BAD_VALUE, \"a\", \"b\") }";
        let check = |raised: &str, expected: usize| {
            let files = [(TABLE, ROWS), (MEANINGS, meanings), ("query/src/a.rs", raised)];
            let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
            assert_eq!(unexplained(&tree).len(), expected, "{raised}");
        };
        check("fn f() { refused(Code::BAD_VALUE) }", 0);
        check("fn f() { refused(Code::OTHER) }", 1);
        check("fn f() { refused(Code::OTHER_ONE) }", 0);
        check("fn f() { refused(Code::NO_NAME) }", 0);
    }

    #[test]
    fn planted_numbers_are_found() {
        check("fn f() { refused(11000, \"taken\") }", 1);
        check("const TAKEN: i32 = 11_000;\nconst OTHER: i64 = 4_890_500_i64;", 2);
        check("fn f(code: i32) -> bool { code == 100 || error.code() == Some(2) }", 2);
        check("fn f() -> Code { Code::of(2) }", 1);
    }

    #[test]
    fn other_numbers_and_tests_may_stay() {
        check("const DEPTH_MAX: usize = 100;\nfn f() -> u8 { 2 }", 0);
        check(
            "// 11000 is taken.\nconst A: i32 = 110_000;\nconst B: f64 = 0.11000;\nconst C: &str = \"E11000\";",
            0,
        );
        check("#[cfg(test)]\nmod tests {\n    fn f() { refused(11000, \"taken\") }\n}\n", 0);
    }
}
