//! From a record to a document: the formats under one name, and the check that all of them pass.

use std::sync::Arc;

use bson::{Bson, RawDocument};
use index::validate::validate;

use crate::columns::{Columns, Survey};
use crate::format::FileFormat;
use crate::json::{self, Meaning};
use crate::large::LargeIntegers;
use crate::refusal::{Fault, Refusal};
use crate::table::{Rows, Table};

/// Makes documents of the records of one format.
pub struct Parser {
    form: Form,
}

enum Form {
    Json(Meaning),
    Bson,
    Table(Box<Table>),
}

impl Parser {
    /// A parser of records in Extended JSON.
    pub fn json() -> Self {
        Self { form: Form::Json(Meaning::default()) }
    }

    /// The same parser, which makes `integers` of integers that 64 bits do not hold.
    ///
    /// ```
    /// use cairndb_formats::{large::LargeIntegers, parse::Parser};
    ///
    /// let text = b"{\"n\": 18446744073709551615}";
    /// assert!(Parser::json().parse(text, &mut Vec::new()).is_err());
    /// Parser::json().with_large_integers(LargeIntegers::Decimal).parse(text, &mut Vec::new())?;
    /// # Ok::<(), cairndb_formats::refusal::Refusal>(())
    /// ```
    #[must_use]
    pub fn with_large_integers(mut self, integers: LargeIntegers) -> Self {
        if let Form::Json(meaning) = &mut self.form {
            meaning.large_integers = integers;
        }
        self
    }

    /// The same parser, which reads `{"$regex": "…", "$options": "…"}` as a regular expression, as version 1 of Extended JSON
    /// has it. In a filter it is an operator.
    #[must_use]
    pub fn with_old_patterns(mut self) -> Self {
        if let Form::Json(meaning) = &mut self.form {
            meaning.has_old_patterns = true;
        }
        self
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
        Self::delimited(delimiter(format), columns)
    }

    /// A parser of rows with these columns, between whose cells `delimiter` stands.
    pub fn delimited(delimiter: u8, columns: Arc<Columns>) -> Self {
        Self { form: Form::Table(Box::new(Table::new(delimiter, columns))) }
    }

    /// Appends the document of a record to `out`. Of a record that is rejected, nothing is appended.
    pub fn parse(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = out.len();
        let parsed = match &mut self.form {
            Form::Json(meaning) => json::parse(record, out, *meaning),
            Form::Bson => {
                out.extend_from_slice(record);
                Ok(())
            }
            Form::Table(table) => table.parse(record, out),
        };
        // The written bytes are checked as well: limits and the rules of `_id` are those of every document.
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

/// Looks at rows before their types are decided.
pub struct Surveyor {
    rows: Rows,
    columns: Arc<Columns>,
    survey: Survey,
}

impl Surveyor {
    /// Begins to look at rows with these columns.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use cairndb_formats::{columns::{ColumnOptions, Columns}, format::FileFormat, parse::Surveyor};
    ///
    /// let columns = Arc::new(Columns::new(["town", "code"], &ColumnOptions::default())?);
    /// let mut surveyor = Surveyor::new(FileFormat::Csv, Arc::clone(&columns));
    /// surveyor.look(b"Bonn,53111");
    /// surveyor.look(b"Dresden,01067");
    /// let (_, mixed) = columns.surveyed(&surveyor.finish());
    /// let told = mixed[0].to_string();
    /// assert_eq!(told, "the column \"code\" has integers (\"53111\") and texts (\"01067\"): all of them stay strings");
    /// # Ok::<(), cairndb_formats::refusal::Refusal>(())
    /// ```
    pub fn new(format: FileFormat, columns: Arc<Columns>) -> Self {
        Self::delimited(delimiter(format), columns)
    }

    /// Begins to look at rows between whose cells `delimiter` stands.
    pub fn delimited(delimiter: u8, columns: Arc<Columns>) -> Self {
        Self { rows: Rows::new(delimiter), columns, survey: Survey::default() }
    }

    /// Looks at a row. One that is wrong is rejected when it is parsed, and says nothing here.
    pub fn look(&mut self, row: &[u8]) {
        let Self { rows, columns, survey } = self;
        let _ = rows.with_cells(row, |cells| {
            survey.look(columns, &|column| cells.get(column));
            Ok(())
        });
    }

    /// The findings.
    pub fn finish(self) -> Survey {
        self.survey
    }
}

/// The value that a text in Extended JSON is.
///
/// ```
/// use bson::Bson;
/// use cairndb_formats::parse::json_value;
///
/// assert_eq!(json_value(r#"[{"$numberLong": "7"}, "a"]"#)?, Bson::Array(vec![Bson::Int64(7), "a".into()]));
/// assert!(json_value(r#"{"$numberDecimal": ""}"#).is_err());
/// # Ok::<(), cairndb_formats::refusal::Refusal>(())
/// ```
pub fn json_value(text: &str) -> Result<Bson, Refusal> {
    let wrong = |error: bson::error::Error| Refusal::not_parsed(error.to_string());
    let mut bytes = Vec::new();
    json::parse_value(text.as_bytes(), &mut bytes)?;
    let document = RawDocument::from_bytes(&bytes).map_err(wrong)?;
    let value = document.iter().next().transpose().map_err(wrong)?;
    value.map_or(Ok(Bson::Null), |(_, value)| Bson::try_from(value).map_err(wrong))
}

/// The cells of a row, as the names of columns.
pub fn cells(format: FileFormat, row: &[u8]) -> Result<Vec<String>, Refusal> {
    delimited_cells(delimiter(format), row)
}

/// The cells of a row between which `delimiter` stands.
pub fn delimited_cells(delimiter: u8, row: &[u8]) -> Result<Vec<String>, Refusal> {
    Rows::new(delimiter).with_cells(row, |cells| {
        Ok((0..cells.count).filter_map(|position| cells.get(position)).map(str::to_owned).collect())
    })
}

fn delimiter(format: FileFormat) -> u8 {
    match format {
        FileFormat::Tsv => b'\t',
        FileFormat::Csv | FileFormat::Lines | FileFormat::Json | FileFormat::Bson => b',',
    }
}
