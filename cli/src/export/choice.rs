//! Which format the options ask for, and which options do not go together.

use crate::export::Arguments;
use crate::export::form::{Form, Lines, OneArray, Stored};
use crate::export::table::{AUTO, Table};
use crate::extended_json::{Layout, Mode};
use crate::failure::Failure;
use crate::format::Format;

/// The form that the options ask for, after checking that they go together.
pub(super) fn form(arguments: &Arguments) -> Result<Box<dyn Form>, Failure> {
    let by_name = || arguments.file().and_then(Format::of_name);
    let format = arguments.format.or_else(by_name).unwrap_or(Format::Ndjson);
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
        Format::Ndjson => Ok(Box::new(Lines { layout: Layout::line(mode) })),
        Format::Json => {
            let layout = Layout { indent: arguments.pretty.then_some(1), ..Layout::line(mode) };
            Ok(Box::new(OneArray { layout, is_first: true }))
        }
        Format::Bson => Ok(Box::new(Stored)),
        Format::Csv | Format::Tsv => {
            let fields = arguments.fields.as_deref().unwrap_or(AUTO);
            let delimiter = if format == Format::Csv { b',' } else { b'\t' };
            Ok(Box::new(Table::new(delimiter, fields, arguments.for_spreadsheets)?))
        }
    }
}
