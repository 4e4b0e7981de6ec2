//! The page of compatibility: every operator and option with what becomes of it, and the differences made on purpose.
//!
//! `operators.json` names them by family, each with an example. The example is run, so that the page cannot say
//! "supported" of what is rejected; and what is supported must be shown by cases. Commands are another table.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use bson::doc;
use serde::Deserialize;

use crate::conformance::commands::{self, Difference};
use crate::conformance::corpus::{Case, Command, CommandLine};
use crate::conformance::expectation::Outcome;
use crate::conformance::foreign::OtherCollections;
use crate::conformance::refusals::{self, RefusalReason, Refused};
use crate::conformance::run::run;

const HEAD: &str = "\
# Compatibility

What CairnDB has of MongoDB's query, update and aggregation languages and of its commands, and where it differs. This page is
printed by the suite `conformance` from the tables beside its corpus and those of the engine: every example was
run, every option and command tried, and the number says how many cases of the corpus use the operator. MongoDB 8.0 is the
measure: where a later version means something else, the meaning is that of 8.0, and
[a table](#what-later-versions-of-mongodb-do) names the difference. What later versions have added is here as far as the tables
say so.

First [what is not supported](#what-is-not-supported), and why. Then the languages: [filters](#filters-clauses),
[updates](#updates-operators), pipelines and expressions. Then the commands: [options of all](#options-of-all-commands), of
[reads](#options-of-reads) and [writes](#options-of-writes), [collections](#collections-kinds-and-options),
[indexes](#indexes-kinds), and [whole commands](#whole-commands). At the end the
[embedded API](#the-embedded-api-beside-mongodbs-rust-driver), the
[later versions](#what-later-versions-of-mongodb-do) and the [differences made on purpose](#differences-made-on-purpose).

*Error* and a code mean an error that names the operator; nothing is ignored silently. A name that MongoDB does not know either
has other codes.
";

/// The tables.
pub(crate) struct Tables {
    families: Vec<Family>,
    differences: Vec<Difference>,
    later: Vec<Later>,
    commands: commands::Tables,
    reasons: Vec<RefusalReason>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    family: String,
    operators: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    example: CommandLine,
    /// The code of the rejection, if the operator is rejected.
    refused: Option<i32>,
    #[serde(default)]
    note: String,
}

/// A difference of a version of MongoDB after 8.0, or an addition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    since: String,
    about: String,
    there: String,
    here: String,
    /// The rules of cases, the names of rows of the other tables, and the tests (`file name`) that show what is here.
    shown: Vec<String>,
}

/// Reads the tables.
pub(crate) fn load(folder: &Path) -> Tables {
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("the table is there");
    Tables {
        families: serde_json::from_str(&read("operators.json")).expect("a table of operators"),
        differences: serde_json::from_str(&read("differences.json")).expect("a table of differences"),
        later: serde_json::from_str(&read("later.json")).expect("a table of later versions"),
        commands: commands::load(folder),
        reasons: refusals::load(folder),
    }
}

/// The claims of the tables that the examples or the corpus do not show.
pub(crate) fn probe_failures(tables: &Tables, cases: &[Case]) -> Vec<String> {
    let entries = tables.families.iter().flat_map(|family| &family.operators);
    entries.filter_map(|entry| probe(entry, cases)).collect()
}

/// The claims of the tables of commands that the engine does not meet, and the engine's entries that they lack.
pub(crate) fn command_failures(tables: &Tables) -> Vec<String> {
    let apart = commands::places_apart(&tables.commands);
    let apart = apart.into_iter().map(|place| format!("'{place}' is in one of the tables only"));
    apart.chain(commands::failures(&tables.commands)).collect()
}

fn probe(entry: &Entry, cases: &[Case]) -> Option<String> {
    let command = example(entry);
    match (run(&[doc! { "_id": 1 }], &OtherCollections::default(), &command), entry.refused) {
        (Outcome::Refused { code, .. }, Some(refused)) if code == refused => None,
        (outcome, Some(_)) => Some(format!("{} is not refused as its table says: {outcome}", entry.name)),
        (Outcome::Refused { code, text }, None) => Some(format!("{} is refused: {code} {text}", entry.name)),
        (Outcome::Documents(_) | Outcome::Values(_) | Outcome::Number(_), None) => {
            let is_shown = shown(entry, &command, cases) > 0;
            (!is_shown).then(|| format!("{} is shown by no case", entry.name))
        }
    }
}

fn example(entry: &Entry) -> Command {
    entry.example.read().expect("a command")
}

/// The number of cases of the same command that use the operator.
fn shown(entry: &Entry, command: &Command, cases: &[Case]) -> usize {
    let name = format!("\"{}\"", entry.name);
    let uses = |case: &&Case| {
        std::mem::discriminant(&case.command) == std::mem::discriminant(command) && case.text.contains(&name)
    };
    cases.iter().filter(uses).count()
}

/// Rows of later versions that nothing shows.
pub(crate) fn later_failures(tables: &Tables, cases: &[Case], root: &Path) -> Vec<String> {
    let operators = tables.families.iter().flat_map(|family| &family.operators);
    let mut known: BTreeSet<&str> = operators.map(|entry| entry.name.as_str()).collect();
    known.extend(cases.iter().map(|case| case.rule.as_str()));
    known.extend(commands::names(&tables.commands));
    let is_test = |shown: &str| {
        shown.split_once(' ').is_some_and(|(file, name)| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            text.contains(&format!("#[test]\nfn {name}() {{"))
        })
    };
    let lost = |row: &Later| {
        let is_lost = |shown: &&String| !known.contains(shown.as_str()) && !is_test(shown);
        let about = &row.about;
        if row.shown.is_empty() {
            return vec![format!("{about}: nothing shows it")];
        }
        row.shown.iter().filter(is_lost).map(|shown| format!("{about}: there is no '{shown}'")).collect()
    };
    tables.later.iter().flat_map(lost).collect()
}

/// Rejections without a reason, and reasons for nothing.
pub(crate) fn reason_failures(tables: &Tables) -> Vec<String> {
    refusals::failures(&tables.reasons, &refused(tables))
}

/// All that is rejected, in the order of the page.
fn refused(tables: &Tables) -> Vec<Refused> {
    let entries = tables.families.iter().flat_map(|family| &family.operators);
    let of_languages =
        entries.filter_map(|entry| Refused::of_row(&format!("`{}`", entry.name), entry.refused, &entry.note));
    of_languages.chain(commands::refused(&tables.commands)).collect()
}

/// The page.
pub(crate) fn print(tables: &Tables, cases: &[Case]) -> String {
    let mut page = HEAD.to_owned();
    refusals::print(&tables.reasons, &refused(tables), &mut page);
    for family in &tables.families {
        let _ = write!(page, "\n## {}\n\n| name | here | cases | note |\n|---|---|---|---|\n", family.family);
        for entry in &family.operators {
            let (state, count) = match entry.refused {
                Some(code) => (format!("error ({code})"), String::new()),
                None => ("supported".to_owned(), shown(entry, &example(entry), cases).to_string()),
            };
            let _ = writeln!(page, "| `{}` | {state} | {count} | {} |", entry.name, entry.note);
        }
    }
    commands::print(&tables.commands, &mut page);
    page.push_str(
        "\n## What later versions of MongoDB do\n\n| since | about | there | here |\n|---|---|---|---|\n",
    );
    for Later { since, about, there, here, .. } in &tables.later {
        let _ = writeln!(page, "| {since} | {about} | {there} | {here} |");
    }
    page.push_str(
        "\n## Differences made on purpose\n\n| about | MongoDB | here | why |\n|---|---|---|---|\n",
    );
    for Difference { about, mongodb, here, why } in &tables.differences {
        let _ = writeln!(page, "| {about} | {mongodb} | {here} | {why} |");
    }
    page
}
