//! The columns of CSV and TSV: the options that name them and say what cells become, and the header of a file.

use std::sync::Arc;

use clap::ValueEnum;
use formats::columns::{ColumnOptions, Columns, Typing, names};
use formats::format::FileFormat;
use formats::parse::{Surveyor, cells};
use formats::split::Chunk;

use crate::failure::{Exit, Failure};
use crate::import::feed::ReadAhead;
use crate::import::input::Source;

/// What is read of a table before the types of its columns are decided.
const SURVEYED_BYTES: usize = 4 << 20;
/// More columns than this are not named one by one.
const NAMED_MAX: usize = 10;

/// How tables are read.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct TableOptions {
    /// The columns of CSV and TSV, separated by commas, in place of those that the first line names. Dots make
    /// documents.
    #[arg(long, value_name = "NAMES")]
    fields: Option<String>,
    /// The first line is a row, and no header. This needs `--fields`.
    #[arg(long, requires = "fields")]
    no_header: bool,
    /// Names that are numbers make arrays: `tags.0`.
    #[arg(long, conflicts_with = "flat")]
    arrays: bool,
    /// Dots are part of names and make no documents.
    #[arg(long)]
    flat: bool,
    /// What cells become: `auto` numbers, dates and truth values where nothing is lost, `text` texts, `typed` what the
    /// columns say, as in `price.double` and `at.date(%d.%m.%Y)`.
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
    /// What the names of the columns say.
    Typed,
}

/// Options that were checked.
pub(super) struct TableRecipe {
    options: ColumnOptions,
    named: Option<Arc<Columns>>,
    has_header: bool,
    /// The first of the options that are for tables alone.
    only_for_tables: Option<&'static str>,
}

/// What reading a source begins with.
#[derive(Default)]
pub(super) struct TableStart {
    /// `None` if the source is no table.
    pub(super) columns: Option<Arc<Columns>>,
    /// The records that were read to find the header and the types of the columns.
    pub(super) first: ReadAhead,
    /// The header in whose place the command line names the columns.
    pub(super) passed_over: Option<String>,
    /// What the user should know of the columns.
    pub(super) remarks: Vec<String>,
}

impl TableOptions {
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
        let named = header
            .problem
            .map_or_else(|| cells(source.format, chunk.content(&header)), |problem| Err(problem.refusal()));
        let wrong =
            |reason: String| Failure::new(Exit::Failed, format!("{}: the header: {reason}", source.name));
        let header = named.map_err(|refusal| wrong(refusal.to_string()))?;
        let (columns, passed_over) = match &self.named {
            Some(named) => (Arc::clone(named), Some(header.join(","))),
            None => (Arc::new(self.columns(&source.name, &header)?), None),
        };
        let mut first = ReadAhead::default();
        first.put_back(chunk);
        Ok(TableStart { columns: Some(columns), first, passed_over, remarks: Vec::new() })
    }

    /// Reads ahead, and gives each column the type that its cells have there.
    fn decide_types(&self, source: &mut Source, start: &mut TableStart) {
        if self.options.typing == Typing::Text {
            return;
        }
        let Some(columns) = &start.columns else { return };
        let mut bytes: usize = start.first.chunks().map(Chunk::bytes).sum();
        if bytes < SURVEYED_BYTES {
            start.first.read(&mut source.splitter, |chunk| {
                bytes += chunk.bytes();
                bytes >= SURVEYED_BYTES
            });
        }
        let mut surveyor = Surveyor::new(source.format, Arc::clone(columns));
        for chunk in start.first.chunks() {
            for record in chunk.records.iter().filter(|record| record.problem.is_none()) {
                surveyor.look(chunk.content(record));
            }
        }
        let (columns, mixed) = columns.surveyed(&surveyor.finish());
        start.remarks = mixed.iter().take(NAMED_MAX).map(ToString::to_string).collect();
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
