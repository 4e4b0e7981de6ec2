//! The columns of CSV and TSV: the options that name them and say what cells become, and the header of a file.

use std::sync::Arc;

use clap::ValueEnum;
use formats::columns::{ColumnOptions, Columns, Typing, names};
use formats::format::FileFormat;
use formats::parse::cells;
use formats::split::Chunk;

use crate::failure::{Exit, Failure};
use crate::import::input::Source;

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
    /// The records that were read to find the header.
    pub(super) first: Option<Chunk>,
    /// The header in whose place the command line names the columns.
    pub(super) passed_over: Option<String>,
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
        Ok(TableStart { columns: Some(columns), first: Some(chunk), passed_over })
    }

    fn columns(&self, name: &str, header: &[String]) -> Result<Columns, Failure> {
        Columns::new(header.iter().map(String::as_str), &self.options)
            .map_err(|refusal| Failure::new(Exit::Failed, format!("{name}: the header: {refusal}")))
    }
}
