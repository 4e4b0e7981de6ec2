//! The columns of CSV and TSV: the options that name them and say what cells become, and the header of a file.

use std::sync::Arc;

use clap::ValueEnum;
use formats::columns::{ColumnOptions, Columns, Survey, Typing, is_typed, names};
use formats::format::FileFormat;
use formats::parse::{Surveyor, delimited_cells};
use formats::split::Chunk;

use crate::failure::{Exit, Failure};
use crate::import::feed::ReadAhead;
use crate::import::input::Source;

/// The number of bytes of a table that are read before the types of its columns are decided.
const SURVEYED_BYTES: usize = 4 << 20;
/// More columns than this are not named one by one.
const NAMED_MAX: usize = 10;

/// The options of reading tables.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Tables (CSV and TSV)")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct TableOptions {
    /// The columns of CSV and TSV, separated by commas, in place of those that the first line names. Dots make
    /// documents.
    #[arg(long, value_name = "NAMES")]
    fields: Option<String>,
    /// The first line is a row, and no header. This needs `--fields`.
    #[arg(long, requires = "fields")]
    no_header: bool,
    /// The separator of cells: one character, or `tab`. Without it a comma in CSV, and a tab in TSV.
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Names that are numbers make arrays: `tags.0`.
    #[arg(long, conflicts_with = "flat")]
    arrays: bool,
    /// Dots are part of names and make no documents.
    #[arg(long)]
    flat: bool,
    /// The values of cells: `auto` numbers, dates and truth values where nothing is lost, `text` strings, `typed` as
    /// the columns say, as in `price.double` and `at.date(%d.%m.%Y)`.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    types: CellValues,
    /// The text that means null.
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Empty cells make no field.
    #[arg(long)]
    ignore_blanks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CellValues {
    /// Numbers that are written the same again, dates, truth values, otherwise texts.
    Auto,
    /// Texts.
    Text,
    /// The types that the names of the columns say.
    Typed,
}

/// Options that were checked.
pub(super) struct TableRecipe {
    options: ColumnOptions,
    named: Option<Arc<Columns>>,
    has_header: bool,
    /// Whether it was said what is between cells.
    has_delimiter: bool,
    /// The first of the options that are for tables alone.
    only_for_tables: Option<&'static str>,
}

/// The state with which reading a source begins.
#[derive(Default)]
pub(super) struct TableStart {
    /// `None` if the source is not a table.
    pub(super) columns: Option<Arc<Columns>>,
    /// The records that were read to find the header and the types of the columns.
    pub(super) first: ReadAhead,
    /// The header in whose place the command line names the columns.
    pub(super) passed_over: Option<String>,
    /// The remarks about the columns for the user.
    pub(super) remarks: Vec<String>,
}

/// Reads a delimiter.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ if text == "tab" || text == "\\t" => Ok(b'\t'),
        _ => Err("it is one ASCII character other than a quote or a line end, or `tab`".to_owned()),
    }
}

impl TableOptions {
    /// The separator of cells, if it was given.
    pub(super) fn delimiter(&self) -> Option<u8> {
        self.delimiter
    }

    /// Reads the names of the command line.
    pub(super) fn check(&self) -> Result<TableRecipe, Failure> {
        let options = ColumnOptions {
            is_flat: self.flat,
            has_arrays: self.arrays,
            typing: match self.types {
                CellValues::Auto => Typing::Auto,
                CellValues::Text => Typing::Text,
                CellValues::Typed => Typing::Typed,
            },
            null: self.null.clone(),
            ignores_blanks: self.ignore_blanks,
        };
        let named = self.fields.as_deref().map(|list| {
            Columns::new(names(list), &options)
                .map_err(|refusal| Failure::usage(format!("--fields: {refusal}")))
        });
        let given = [
            ("--fields", self.fields.is_some()),
            ("--delimiter", self.delimiter.is_some()),
            ("--arrays", self.arrays),
            ("--flat", self.flat),
            ("--types", self.types != CellValues::Auto),
            ("--null", self.null.is_some()),
            ("--ignore-blanks", self.ignore_blanks),
        ];
        Ok(TableRecipe {
            options,
            named: named.transpose()?.map(Arc::new),
            has_header: !self.no_header,
            has_delimiter: self.delimiter.is_some(),
            only_for_tables: given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option),
        })
    }
}

impl TableRecipe {
    /// The columns of a source, of which the header is read.
    pub(super) fn of(&self, source: &mut Source) -> Result<TableStart, Failure> {
        if !matches!(source.format, FileFormat::Csv | FileFormat::Tsv) {
            return match self.only_for_tables {
                Some(option) => {
                    Err(Failure::usage(format!("{option} is for csv and tsv, not {}", source.name)))
                }
                None => Ok(TableStart::default()),
            };
        }
        let mut start = self.named_columns(source)?;
        self.decide_types(source, &mut start);
        Ok(start)
    }

    /// The columns by the command line or the header.
    fn named_columns(&self, source: &mut Source) -> Result<TableStart, Failure> {
        if let Some(named) = self.named.as_ref().filter(|_| !self.has_header) {
            return Ok(TableStart { columns: Some(Arc::clone(named)), ..TableStart::default() });
        }
        let failed = |error: std::io::Error| Failure::io(&source.name, &error);
        let Some(mut chunk) = source.splitter.next_chunk().map_err(failed)? else {
            let columns = Some(Arc::new(self.columns(&source.name, &[])?));
            return Ok(TableStart { columns, ..TableStart::default() });
        };
        let header = chunk.records.remove(0);
        let named = header.problem.map_or_else(
            || delimited_cells(source.delimiter, chunk.content(&header)),
            |problem| Err(problem.refusal()),
        );
        let wrong =
            |reason: String| Failure::new(Exit::Failed, format!("{}: the header: {reason}", source.name));
        let header = named.map_err(|refusal| wrong(refusal.to_string()))?;
        let mut start = TableStart::default();
        start.first.put_back(chunk);
        if let Some(named) = &self.named {
            start.columns = Some(Arc::clone(named));
            start.passed_over = Some(header.join(","));
            return Ok(start);
        }
        if !self.has_delimiter {
            refuse_other_delimiter(&header).map_err(wrong)?;
        }
        let header = self.named_in_full(header, source, &mut start);
        if self.options.typing == Typing::Auto && header.iter().all(|name| is_typed(name)) {
            let name = header.first().map_or("", String::as_str);
            start.remarks.push(format!(
                "the names of all columns end with types, as in {name:?}: --types typed takes them for that"
            ));
        }
        start.columns = Some(Arc::new(self.columns(&source.name, &header)?));
        Ok(start)
    }

    /// Gives columns without a name one by their position. One at the end that has no cells is only a delimiter at the end of
    /// each line.
    fn named_in_full(
        &self,
        mut header: Vec<String>,
        source: &mut Source,
        start: &mut TableStart,
    ) -> Vec<String> {
        if header.len() > 1
            && header.last().is_some_and(String::is_empty)
            && self.is_blank(header.len() - 1, source, start)
        {
            header.pop();
        }
        for at in 0..header.len() {
            if header.get(at).is_none_or(|name| !name.is_empty()) {
                continue;
            }
            let mut name = format!("column{}", at + 1);
            while header.contains(&name) {
                name.push('_');
            }
            start.remarks.push(format!("the column {} has no name, and is called {name:?}", at + 1));
            if self.options.typing == Typing::Typed {
                name.push_str(".auto");
            }
            if let Some(room) = header.get_mut(at) {
                *room = name;
            }
        }
        header
    }

    /// Whether a column has no cells, as far as rows are read ahead.
    fn is_blank(&self, column: usize, source: &mut Source, start: &mut TableStart) -> bool {
        let names: Vec<String> = (0..=column).map(|at| at.to_string()).collect();
        let plain = ColumnOptions { null: self.options.null.clone(), ..ColumnOptions::default() };
        let Ok(columns) = Columns::new(names.iter().map(String::as_str), &plain) else { return false };
        survey(source, start, &Arc::new(columns)).is_blank(column)
    }

    /// Reads ahead, and gives each column the type that its cells have there.
    fn decide_types(&self, source: &mut Source, start: &mut TableStart) {
        if self.options.typing == Typing::Text {
            return;
        }
        let Some(columns) = start.columns.clone() else { return };
        let (columns, mixed) = columns.surveyed(&survey(source, start, &columns));
        start.remarks.extend(mixed.iter().take(NAMED_MAX).map(ToString::to_string));
        if let Some(more) = mixed.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            start.remarks.push(format!("{more} more columns have cells of several types, and stay texts"));
        }
        start.columns = Some(Arc::new(columns));
    }

    fn columns(&self, name: &str, header: &[String]) -> Result<Columns, Failure> {
        Columns::new(header.iter().map(String::as_str), &self.options)
            .map_err(|refusal| Failure::new(Exit::Failed, format!("{name}: the header: {refusal}")))
    }
}

/// The separators of cells other than a comma.
const OTHER_DELIMITERS: [(char, &str); 3] = [(';', "';'"), ('\t', "tab"), ('|', "'|'")];

/// Rejects a header of one column that looks like several: every row would be one text.
fn refuse_other_delimiter(header: &[String]) -> Result<(), String> {
    let [only] = header else { return Ok(()) };
    let found = OTHER_DELIMITERS.iter().find(|(character, _)| only.contains(*character));
    found.map_or(Ok(()), |(character, option)| {
        let character = if *character == '\t' { "a tab".to_owned() } else { character.to_string() };
        Err(format!("one column, {only:?}: if {character} stands between columns, give --delimiter {option}"))
    })
}

/// Looks at the rows that are read ahead.
fn survey(source: &mut Source, start: &mut TableStart, columns: &Arc<Columns>) -> Survey {
    let mut bytes: usize = start.first.chunks().map(Chunk::bytes).sum();
    if bytes < SURVEYED_BYTES {
        start.first.read(&mut source.splitter, |chunk| {
            bytes += chunk.bytes();
            bytes >= SURVEYED_BYTES
        });
    }
    let mut surveyor = Surveyor::delimited(source.delimiter, Arc::clone(columns));
    for chunk in start.first.chunks() {
        for record in chunk.records.iter().filter(|record| record.problem.is_none()) {
            surveyor.look(chunk.content(record));
        }
    }
    surveyor.finish()
}
