//! From a record to a document: the formats under one name, and the check that all of them pass.

use std::sync::Arc;

use index::validate::validate;

use crate::columns::Columns;
use crate::format::FileFormat;
use crate::json;
use crate::refusal::{Fault, Refusal};
use crate::table::{Rows, Table};

/// Makes documents of the records of one format.
pub struct Parser {
    form: Form,
}

enum Form {
    Json,
    Bson,
    Table(Box<Table>),
}

impl Parser {
    /// A parser of records in Extended JSON.
    pub fn json() -> Self {
        Self { form: Form::Json }
    }

    /// A parser of records that are documents already.
    pub fn bson() -> Self {
        Self { form: Form::Bson }
    }

    /// A parser of rows with these columns.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use bson::{RawDocument, rawdoc};
    /// use cairndb_formats::{columns::{ColumnOptions, Columns}, format::FileFormat, parse::Parser};
    ///
    /// let columns = Columns::new(["sku", "price.net"], &ColumnOptions::default())?;
    /// let mut document = Vec::new();
    /// Parser::table(FileFormat::Csv, Arc::new(columns)).parse(b"007,1.5", &mut document)?;
    /// assert_eq!(RawDocument::from_bytes(&document)?, &*rawdoc! { "sku": "007", "price": { "net": 1.5 } });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table(format: FileFormat, columns: Arc<Columns>) -> Self {
        Self { form: Form::Table(Box::new(Table::new(delimiter(format), columns))) }
    }

    /// Appends the document of a record to `out`. Of a record that is refused, nothing is appended.
    pub fn parse(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = out.len();
        let parsed = match &mut self.form {
            Form::Json => json::parse(record, out),
            Form::Bson => {
                out.extend_from_slice(record);
                Ok(())
            }
            Form::Table(table) => table.parse(record, out),
        };
        // What was written above is checked as well: limits and the rules of `_id` are those of every document.
        let checked = parsed.and_then(|()| match validate(out.get(start..).unwrap_or_default()) {
            Ok(_) => Ok(()),
            Err(error) => Err(of_limits(&error)),
        });
        if checked.is_err() {
            out.truncate(start);
        }
        checked
    }
}

fn of_limits(error: &index::error::Error) -> Refusal {
    use index::error::Error::{DocumentTooDeep, DocumentTooLarge};

    let is_over = matches!(error, DocumentTooDeep { .. } | DocumentTooLarge { .. });
    let fault = if is_over { Fault::OverLimit } else { Fault::NotParsed };
    Refusal { fault, reason: error.to_string() }
}

/// The cells of a row, as the names of columns.
pub fn cells(format: FileFormat, row: &[u8]) -> Result<Vec<String>, Refusal> {
    Rows::new(delimiter(format)).with_cells(row, |cells| {
        Ok((0..cells.count).filter_map(|position| cells.get(position)).map(str::to_owned).collect())
    })
}

fn delimiter(format: FileFormat) -> u8 {
    match format {
        FileFormat::Tsv => b'\t',
        FileFormat::Csv | FileFormat::Lines | FileFormat::Json | FileFormat::Bson => b',',
    }
}
