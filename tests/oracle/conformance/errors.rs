//! The page of the guide that says what errors mean, printed from the engine's tables.

use std::fmt::Write as _;

use cairndb::{CodeMeaning, ErrorMeaning};

/// The length of a line of codes.
const LINE_LEN_MAX: usize = 260;

/// The page.
pub(crate) fn print() -> String {
    let mut page = String::from(
        "**What does this error mean, what is true of the store now, and what do I do?**

This page is printed from the tables in the code. A program asks `error.kind()`, whose `meaning()` is a line of the first
table, `error.code()`, and the predicates: `is_duplicate_key`, `is_no_space`, `is_commit_unknown`, `is_corruption`,
`is_already_open`.

# Kinds

| kind | when | the store now | what to do |
|---|---|---|---|
",
    );
    for ErrorMeaning { name, when, store, remedy, .. } in ErrorMeaning::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(page, "| `{name}` | {when} | {store} | {remedy} |");
    }
    page.push_str(
        "
# Codes

MongoDB's numbers, which `error.code()` returns and drivers get. A call that fails with one of them has changed nothing, except several
writes in one call, of which the error names those that were not done.

| code | name | when | what to do |
|---|---|---|---|
",
    );
    for meaning in CodeMeaning::ALL {
        let CodeMeaning { code, when, remedy, .. } = meaning;
        let _ = writeln!(page, "| {code} | `{}` | {when} | {remedy} |", meaning.name());
    }
    page.push_str(
        "
Errors of sequences have SequoiaDB's number as well: `error.sequoia_code()`.

# Codes without a name

MongoDB has given these only a number, and replies call them `Location` and the number. Each is of one operator, stage or option. The
message names that and the value: correct them.

",
    );
    page.push_str(&nameless());
    page
}

/// The codes without a name, a few on a line, by what the code calls them.
fn nameless() -> String {
    let table = include_str!("../../../query/src/code/table.rs");
    let codes = table.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once(" = "));
    let nameless = codes.filter(|(name, number)| {
        name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_')
            && number.chars().all(|digit| digit.is_ascii_digit())
    });
    let (mut text, mut line) = (String::new(), String::new());
    for (name, number) in nameless {
        let code = format!("{number} {}", name.to_lowercase().replace('_', " "));
        if line.len() + code.len() > LINE_LEN_MAX {
            text.push_str(&line);
            text.push_str(",\n");
            line.clear();
        } else if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(&code);
    }
    assert!(!line.is_empty(), "the table of codes is not where it was");
    text.push_str(&line);
    text.push_str(".\n");
    text
}
