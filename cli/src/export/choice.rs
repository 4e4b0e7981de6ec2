//! Which format the options ask for, and which options do not go together.

use crate::export::Arguments;
use crate::export::form::{Form, Lines, OneArray, Stored};
use crate::export::table::Table;
use crate::extended_json::Mode;
use crate::failure::Failure;
use crate::format::Format;

/// The form that the options ask for, after checking that they go together.
pub(super) fn form(arguments: &Arguments) -> Result<Box<dyn Form>, Failure> {
    let format = arguments.format.unwrap_or(Format::Ndjson);
    check_ending(arguments)?;
    let (is_json, is_table) =
        (matches!(format, Format::Ndjson | Format::Json), matches!(format, Format::Csv | Format::Tsv));
    let misplaced = [
        ("--canonical", arguments.canonical && !is_json, "ndjson and json"),
        ("--pretty", arguments.pretty && format != Format::Json, "json"),
        ("--fields", arguments.fields.is_some() && !is_table, "csv and tsv"),
        ("--for-spreadsheets", arguments.for_spreadsheets && !is_table, "csv and tsv"),
    ];
    if let Some((option, _, formats)) = misplaced.into_iter().find(|(_, is_misplaced, _)| *is_misplaced) {
        return Err(Failure::usage(format!("{option} is for the formats {formats}")));
    }
    let mode = if arguments.canonical { Mode::Canonical } else { Mode::Relaxed };
    match format {
        Format::Ndjson => Ok(Box::new(Lines { mode })),
        Format::Json => {
            Ok(Box::new(OneArray { mode, indent: arguments.pretty.then_some(1), is_first: true }))
        }
        Format::Bson => Ok(Box::new(Stored)),
        Format::Csv | Format::Tsv => {
            let Some(fields) = &arguments.fields else {
                return Err(Failure::usage("csv and tsv need --fields PATHS, or --fields auto"));
            };
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            Ok(Box::new(Table::new(delimiter, fields, arguments.for_spreadsheets)?))
        }
    }
}

/// Refuses a name that says another format than the default, if none was given.
fn check_ending(arguments: &Arguments) -> Result<(), Failure> {
    let Some(file) = arguments.file().filter(|_| arguments.format.is_none()) else { return Ok(()) };
    let name = file.to_string_lossy();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    match plain.rsplit('.').next() {
        Some(ending @ ("csv" | "tsv" | "bson")) => Err(Failure::usage(format!(
            "give --format {ending}, or --format ndjson, for a file named {name}"
        ))),
        Some(_) | None => Ok(()),
    }
}
