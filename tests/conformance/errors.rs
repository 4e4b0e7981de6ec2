//! The page of the guide that says what errors mean, printed from the engine's tables.

use std::fmt::Write as _;

use cairndb::{CodeMeaning, ErrorMeaning};

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

MongoDB's numbers, which `error.code()` gives and drivers are told. Nothing was changed by what was refused with one of them, but for
several writes in one call, of which the error names those that were not done.

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
Other codes are those of single operators and options, and their message names the one and the value. What a sequence refuses has
SequoiaDB's number besides, by `error.sequoia_code()`.
",
    );
    page
}
