//! Commands and their options: what is rejected by name, what is accepted, and that both are true.
//!
//! The engine rejects by its own tables, which are printed as they are. `commands.json` puts them in order, says how a
//! command with such an option looks, and adds what depends on the option's value. All of it is run.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use bson::{Bson, Document, doc};
use cairndb::{Client, UNSUPPORTED_COMMANDS, UNSUPPORTED_OPTIONS, UnsupportedOption};
use cairndb_tests::scratch::Scratch;
use index::spec::UNSUPPORTED_KINDS;
use serde::Deserialize;

use crate::conformance::json::Json;
use crate::conformance::refusals::Refused;

/// The placeholder for the option in the command of a place.
const PLACEHOLDER: &str = "<option>";
/// MongoDB's `NotImplemented`.
const NOT_IMPLEMENTED: i32 = 238;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tables {
    subjects: Vec<Subject>,
    api: Vec<Difference>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    title: String,
    #[serde(default)]
    places: Vec<OptionPlace>,
    rows: Vec<Row>,
}

/// The place where the engine's tables have options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionPlace {
    place: String,
    base: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    command: Json,
    /// The code of the rejection, if it is rejected.
    refused: Option<i32>,
    #[serde(default)]
    note: String,
}

/// A difference that is made on purpose.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) about: String,
    pub(crate) mongodb: String,
    pub(crate) here: String,
    pub(crate) why: String,
}

/// Reads the table.
pub(crate) fn load(folder: &Path) -> Tables {
    let text = fs::read_to_string(folder.join("commands.json")).expect("the table is there");
    serde_json::from_str(&text).expect("a table of commands")
}

/// The claims of the tables that the engine does not meet.
pub(crate) fn failures(tables: &Tables) -> Vec<String> {
    let probe = Probe::new();
    let mut failures = Vec::new();
    for subject in &tables.subjects {
        failures.extend(subject.places.iter().flat_map(|place| place_failures(&probe, place)));
        failures.extend(subject.rows.iter().filter_map(|row| row_failure(&probe, row)));
    }
    let names = UNSUPPORTED_COMMANDS.iter().flat_map(|table| table.names);
    failures.extend(names.filter_map(|name| command_failure(&probe, name)));
    failures
}

/// The names of all rows that [`failures`] runs, and of the commands that the engine rejects.
pub(crate) fn names(tables: &Tables) -> impl Iterator<Item = &str> {
    let rows = tables.subjects.iter().flat_map(|subject| &subject.rows).map(|row| row.name.as_str());
    rows.chain(UNSUPPORTED_COMMANDS.iter().flat_map(|table| table.names).copied())
}

/// The places of the engine's tables that no subject has, or that the engine does not know.
pub(crate) fn places_apart(tables: &Tables) -> Vec<String> {
    let shown = tables.subjects.iter().flat_map(|subject| &subject.places);
    let shown: BTreeSet<&str> = shown.map(|place| place.place.as_str()).collect();
    let known = UNSUPPORTED_OPTIONS.iter().flat_map(|table| match table.places {
        [] => vec![""],
        places => places.to_vec(),
    });
    let known: BTreeSet<&str> = known.collect();
    let places = known.symmetric_difference(&shown).map(|place| (*place).to_owned());
    places.chain(kinds_apart(tables)).collect()
}

/// The kinds of indexes that the engine rejects and no row shows.
fn kinds_apart(tables: &Tables) -> impl Iterator<Item = String> {
    let names = tables.subjects.iter().flat_map(|subject| &subject.rows).map(|row| row.name.as_str());
    let names: BTreeSet<&str> = names.collect();
    let kinds = UNSUPPORTED_KINDS.iter().map(|kind| format!("`{{a: \"{kind}\"}}`"));
    kinds.filter(move |name| !names.contains(name.as_str()))
}

fn options(place: &str) -> impl Iterator<Item = &'static UnsupportedOption> {
    let of_place = move |places: &[&str]| places.contains(&place) || place.is_empty() && places.is_empty();
    UNSUPPORTED_OPTIONS.iter().filter(move |table| of_place(table.places)).flat_map(|table| table.options)
}

/// Every option must be rejected, and the command without it must not be rejected so.
fn place_failures(probe: &Probe, place: &OptionPlace) -> Vec<String> {
    let base = document(&place.base);
    let mut failures = Vec::new();
    if probe.run(&with_option(&base, None)).is_err_and(|refusal| refusal.code == NOT_IMPLEMENTED) {
        failures.push(format!("'{}' is refused without an option too", place.place));
    }
    for option in options(&place.place) {
        let command = with_option(&base, Some(option.name));
        let refusal = probe.run(&command).err();
        let is_refused = refusal
            .as_ref()
            .is_some_and(|found| found.code == NOT_IMPLEMENTED && found.text.contains(option.name));
        if !is_refused {
            failures.push(format!("{command} is not refused by the name of its option: {refusal:?}"));
        }
    }
    failures
}

fn row_failure(probe: &Probe, row: &Row) -> Option<String> {
    let found = probe.run(&document(&row.command)).err();
    let code = found.as_ref().map(|refusal| refusal.code);
    (code != row.refused).then(|| format!("{}: {found:?} instead of {:?}", row.name, row.refused))
}

fn command_failure(probe: &Probe, name: &str) -> Option<String> {
    let refusal = probe.run(&doc! { name: 1 }).err();
    let is_refused =
        refusal.as_ref().is_some_and(|found| found.code == NOT_IMPLEMENTED && found.text.contains(name));
    (!is_refused).then(|| format!("the command {name} is not refused by its name: {refusal:?}"))
}

fn document(json: &Json) -> Document {
    match json.bson() {
        Ok(Bson::Document(document)) => document,
        other => panic!("not a command: {other:?}"),
    }
}

/// The command with an option in place of what means one, or without it.
fn with_option(base: &Document, option: Option<&str>) -> Document {
    let mut command = Document::new();
    for (name, value) in base {
        match (name.as_str(), option) {
            (PLACEHOLDER, None) => {}
            (PLACEHOLDER, Some(option)) => {
                command.insert(option, value.clone());
            }
            (name, option) => {
                command.insert(name, within(value, option));
            }
        }
    }
    command
}

fn within(value: &Bson, option: Option<&str>) -> Bson {
    if let Bson::Document(document) = value {
        Bson::Document(with_option(document, option))
    } else if let Bson::Array(elements) = value {
        Bson::Array(elements.iter().map(|element| within(element, option)).collect())
    } else {
        value.clone()
    }
}

/// A store in which every command has a database of its own, with a collection `c` of one document.
struct Probe {
    client: Client,
    databases: Cell<usize>,
    // Last, because fields are dropped in order: the store goes before its folder.
    _scratch: Scratch,
}

#[derive(Debug)]
struct Refusal {
    code: i32,
    text: String,
}

impl Probe {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { client: scratch.open(), databases: Cell::new(0), _scratch: scratch }
    }

    fn run(&self, command: &Document) -> Result<(), Refusal> {
        let number = self.databases.get() + 1;
        self.databases.set(number);
        let own = format!("commands{number}");
        let database = self.client.database(command.get_str("$db").unwrap_or(&own));
        if !command.contains_key("$db") {
            let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] };
            database.run_command(insert).run().expect("a document");
        }
        let reply = match database.run_command(command.clone()).run() {
            Ok(reply) => reply,
            Err(error) => {
                let code = error.code().unwrap_or_else(|| panic!("an error without a number: {error:?}"));
                return Err(Refusal { code, text: error.to_string() });
            }
        };
        let Ok(errors) = reply.get_array("writeErrors") else { return Ok(()) };
        let error = errors.first().and_then(Bson::as_document).expect("an error");
        let (code, text) =
            (error.get_i32("code").expect("a number"), error.get_str("errmsg").expect("a text"));
        Err(Refusal { code, text: text.to_owned() })
    }
}

/// The rejections in the tables of commands, in the order of the page.
pub(crate) fn refused(tables: &Tables) -> Vec<Refused> {
    let mut refused = Vec::new();
    for Subject { places, rows, .. } in &tables.subjects {
        refused.extend(rows.iter().filter_map(|row| Refused::of_row(&row.name, row.refused, &row.note)));
        let options = places.iter().flat_map(|place| options(&place.place));
        refused.extend(
            options
                .map(|option| Refused { name: format!("`{}`", option.name), note: option.reason.to_owned() }),
        );
    }
    for table in UNSUPPORTED_COMMANDS {
        let named = |name: &&str| Refused { name: format!("`{name}`"), note: table.reason.to_owned() };
        refused.extend(table.names.iter().map(named));
    }
    refused
}

/// The part of the page.
pub(crate) fn print(tables: &Tables, page: &mut String) {
    for Subject { title, places, rows } in &tables.subjects {
        let _ = write!(page, "\n## {title}\n\n| name | of | here | note |\n|---|---|---|---|\n");
        for row in rows {
            let command = document(&row.command);
            let of = command.keys().next().expect("a name");
            let here = row.refused.map_or_else(|| "accepted".to_owned(), |code| format!("error ({code})"));
            let _ = writeln!(page, "| {} | `{of}` | {here} | {} |", row.name, row.note);
        }
        for OptionPlace { place, .. } in places {
            let of = if place.is_empty() { "all".to_owned() } else { format!("`{place}`") };
            for UnsupportedOption { name, reason, .. } in options(place) {
                let _ = writeln!(page, "| `{name}` | {of} | error ({NOT_IMPLEMENTED}) | {reason} |");
            }
        }
    }
    page.push_str(COMMANDS_HEAD);
    for table in UNSUPPORTED_COMMANDS {
        let names: Vec<String> = table.names.iter().map(|name| format!("`{name}`")).collect();
        let server = if table.is_of_server { "answered" } else { "error (238)" };
        let _ = writeln!(page, "| {} | {server} | {} |", names.join(", "), table.reason);
    }
    page.push_str(API_HEAD);
    for Difference { about, mongodb, here, why } in &tables.api {
        let _ = writeln!(page, "| {about} | {mongodb} | {here} | {why} |");
    }
}

const COMMANDS_HEAD: &str = "
## Whole commands

The embedded API does not support these commands of MongoDB (238, with the name). A name that is not a command of MongoDB's has
the code 59.

| commands | by `cairn serve` | why |
|---|---|---|
";

const API_HEAD: &str = "
## The embedded API beside MongoDB's Rust driver

Names of types, methods, options and results are the driver's where there is the same thing.

| about | driver | here | why |
|---|---|---|---|
";
