//! Columns as a whole: one type for all cells of a column, decided from the rows that were looked at.
//!
//! Cells were typed one by one, so of a million postcodes those with a leading zero became texts and all others numbers.

use std::sync::Arc;

use crate::columns::{ColumnOptions, Columns, Typing};
use crate::format::FileFormat;
use crate::parse::{Parser, Surveyor};
use bson::{Bson, DateTime, Document, RawDocument, doc};

/// The documents of rows with the columns `a` and `b`, or why a row is rejected, and what is said about the columns.
fn read(
    options: &ColumnOptions,
    seen: &[&str],
    rows: &[&str],
) -> (Vec<Result<Document, String>>, Vec<String>) {
    let names = if options.typing == Typing::Typed { ["a.auto", "b.auto"] } else { ["a", "b"] };
    let columns = Arc::new(Columns::new(names, options).expect("two names"));
    let mut surveyor = Surveyor::new(FileFormat::Csv, Arc::clone(&columns));
    for row in seen {
        surveyor.look(row.as_bytes());
    }
    let (columns, mixed) = columns.surveyed(&surveyor.finish());
    let mut parser = Parser::table(FileFormat::Csv, Arc::new(columns));
    let parse = |row: &&str| {
        let mut document = Vec::new();
        parser.parse(row.as_bytes(), &mut document).map_err(|refusal| refusal.reason)?;
        let raw = RawDocument::from_bytes(&document).expect("it is well-formed");
        Ok(Document::try_from(raw).expect("it is well-formed"))
    };
    (rows.iter().map(parse).collect(), mixed.iter().map(ToString::to_string).collect())
}

/// The values of the column `a`, all of which were looked at.
#[track_caller]
fn check(cells: &[&str], expected: &[Bson], told: &[&str]) {
    let (documents, mixed) = read(&ColumnOptions::default(), cells, cells);
    let value =
        |one: Result<Document, String>| one.expect("the row is read").remove("a").expect("it has a value");
    let values: Vec<Bson> = documents.into_iter().map(value).collect();
    assert_eq!(values, expected);
    assert_eq!(mixed, told);
}

fn texts(cells: &[&str]) -> Vec<Bson> {
    cells.iter().map(|cell| Bson::from(*cell)).collect()
}

#[test]
fn a_column_has_one_type() {
    check(&["1", "2147483648", "-3"], &[1.into(), 2_147_483_648_i64.into(), (-3).into()], &[]);
    check(&["1", "1.5", "-3"], &[1.0.into(), 1.5.into(), (-3.0).into()], &[]);
    check(&["true", "false"], &[true.into(), false.into()], &[]);
    check(&["x", "y"], &texts(&["x", "y"]), &[]);
    let date = |text: &str| Bson::DateTime(DateTime::parse_rfc3339_str(text).unwrap());
    let times = ["2024-02-29T12:00:00Z", "9999-12-31T23:59:59Z"];
    check(&times, &times.map(date), &[]);
}

#[test]
fn dates_without_a_time_are_dates_if_all_of_the_column_are() {
    let day = |text: &str| Bson::DateTime(DateTime::parse_rfc3339_str(format!("{text}T00:00:00Z")).unwrap());
    check(
        &["2024-02-29", "9999-12-31", "0001-01-01"],
        &["2024-02-29", "9999-12-31", "0001-01-01"].map(day),
        &[],
    );
    let mixed = ["2024-02-29", "2024-02-30"];
    check(
        &mixed,
        &texts(&mixed),
        &[
            r#"the column "a" has dates without a time ("2024-02-29") and texts ("2024-02-30"): all of them stay strings"#,
        ],
    );
}

#[test]
fn a_leading_zero_keeps_a_column_text() {
    let codes = ["53111", "01067", "10115"];
    let told = r#"the column "a" has integers ("53111") and texts ("01067"): all of them stay strings"#;
    check(&codes, &texts(&codes), &[told]);
    let other = ["01067", "53111"];
    let told = r#"the column "a" has texts ("01067") and integers ("53111"): all of them stay strings"#;
    check(&other, &texts(&other), &[told]);
}

#[test]
fn what_only_a_number_could_lose_keeps_a_column_text() {
    for cells in
        [["1.5", "1.50"], ["1", "12345678901234567890"], ["1", "true"], ["1", "2024-02-29"], ["1", "N/A"]]
    {
        let (documents, mixed) = read(&ColumnOptions::default(), &cells, &cells);
        let values: Vec<Bson> = documents.into_iter().map(|one| one.unwrap().remove("a").unwrap()).collect();
        assert_eq!(values, texts(&cells));
        assert_eq!(mixed.len(), 1);
    }
}

/// A row after those that were looked at must not bring a second type.
#[test]
fn a_cell_of_another_type_is_refused_later_on() {
    let seen = ["1,true", "2,false"];
    let (documents, mixed) =
        read(&ColumnOptions::default(), &seen, &["3,true", "007,true", "4,yes", ",", "5"]);
    assert!(mixed.is_empty());
    let [three, zeros, yes, empty, short] = documents.try_into().unwrap();
    assert_eq!(three, Ok(doc! { "a": 3, "b": true }));
    assert_eq!(zeros.unwrap_err(), r#"column 1: "007" is no integer as those before"#);
    assert_eq!(yes.unwrap_err(), r#"column 2: "yes" is no true or false as those before"#);
    assert_eq!(empty, Ok(doc! { "a": "", "b": "" }));
    assert_eq!(short, Ok(doc! { "a": 5 }));
    let (documents, _) = read(&ColumnOptions::default(), &["1.5"], &["9007199254740993"]);
    assert_eq!(documents, [Err(r#"column 1: "9007199254740993" is no number as those before"#.to_owned())]);
}

#[test]
fn empty_cells_nulls_and_wrong_rows_say_nothing_of_a_column() {
    let options =
        ColumnOptions { null: Some("NULL".to_owned()), ignores_blanks: true, ..ColumnOptions::default() };
    let seen = ["NULL,x", "\"x\"y,1", "1,", ",y"];
    let (documents, mixed) = read(&options, &seen, &["NULL,x", "1,", ",y"]);
    assert!(mixed.is_empty(), "{mixed:?}");
    let expected = [doc! { "a": Bson::Null, "b": "x" }, doc! { "a": 1 }, doc! { "b": "y" }];
    assert_eq!(documents, expected.map(Ok));
    // Of a column without a cell nothing is known, and what comes is kept as it is.
    let (documents, _) = read(&ColumnOptions::default(), &[",x"], &["1,x", "x,x"]);
    assert_eq!(documents, [doc! { "a": "1", "b": "x" }, doc! { "a": "x", "b": "x" }].map(Ok));
}

#[test]
fn columns_that_are_typed_auto_are_decided_as_well() {
    let options = ColumnOptions { typing: Typing::Typed, ..ColumnOptions::default() };
    let (documents, mixed) = read(&options, &["1,01", "2,2"], &["1,2"]);
    assert_eq!(documents, [Ok(doc! { "a": 1, "b": "2" })]);
    assert_eq!(mixed, [r#"the column "b" has texts ("01") and integers ("2"): all of them stay strings"#]);
}
