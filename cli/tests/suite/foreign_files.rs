//! Files that other programs write, in small: what of them was refused, or changed without a word.

use std::io::Write;
use std::process::{Output, Stdio};

use cairndb::bson::{Bson, DateTime, Decimal128, Document, doc};

use crate::fixture::{Fixture, complains, on_both, read};

impl Fixture {
    /// Imports a file of this name in the place of what is there.
    fn taken(&self, name: &str, input: &[u8], more: &[&str]) -> Output {
        std::fs::write(self.path(name), input).expect("it works");
        let arguments: Vec<&str> =
            ["shop.orders", name, "--drop", "--overwrite"].into_iter().chain(more.iter().copied()).collect();
        self.run("import", &arguments).stdin(Stdio::null()).output().expect("it works")
    }

    /// The documents of `shop.orders`.
    fn there(&self) -> Vec<Document> {
        let output = self.export(&["shop.orders", "--canonical"]);
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        let parse = |line: &str| serde_json::from_str::<Document>(line).expect("it is Extended JSON");
        let mut documents: Vec<Document> = text.lines().map(parse).collect();
        for document in &mut documents {
            document.remove("_id");
        }
        documents
    }

    #[track_caller]
    fn takes(&self, name: &str, input: &str, more: &[&str], expected: &[Document]) {
        complains(&self.taken(name, input.as_bytes(), more), 0, "");
        assert_eq!(self.there(), expected);
    }
}

#[test]
fn a_table_of_countries_loses_no_row() {
    let fixture = Fixture::new(&[], false);
    let rows = ["a,b", "éééé,x", "ab,y"];
    fixture.takes(
        "a.csv",
        &rows.join("\n"),
        &[],
        &[doc! { "a": "éééé", "b": "x" }, doc! { "a": "ab", "b": "y" }],
    );
}

/// `9999-12-31`, which many tables have for "never", was refused, also where the tool itself had written it.
#[test]
fn every_date_that_is_written_is_read_again() {
    let dates = [
        253_402_214_400_000,
        253_402_300_799_999,
        253_402_300_800_000,
        -62_167_219_200_001,
        i64::MAX,
        i64::MIN,
        0,
    ];
    let documents: Vec<Document> =
        (0..).zip(dates).map(|(id, date)| doc! { "_id": id, "at": DateTime::from_millis(date) }).collect();
    let expected: Vec<Document> = dates.map(|date| doc! { "at": DateTime::from_millis(date) }).into();
    on_both(&documents, |fixture| {
        for (name, more) in [
            ("a.ndjson", &["--format", "ndjson"] as &[&str]),
            ("b.ndjson", &["--format", "ndjson", "--canonical"]),
            ("c.csv", &["--format", "csv", "--fields", "_id,at"]),
        ] {
            let sorted = ["shop.orders", "--sort", r#"{"_id":1}"#];
            let written = fixture.export(&[&sorted, more].concat()).stdout;
            complains(&fixture.taken(name, &written, &[]), 0, "");
            assert_eq!(fixture.there(), expected, "{name}");
        }
        let typed = "at.date(%d.%m.%Y)\n31.12.9999\n";
        let never = [doc! { "at": DateTime::from_millis(253_402_214_400_000) }];
        fixture.takes("d.csv", typed, &["--types", "typed"], &never);
    });
}

#[test]
fn what_is_no_decimal_is_rejected() {
    let fixture = Fixture::new(&[], false);
    let output =
        fixture.taken("a.csv", b"a.decimal\n\"\"\n.\nE01\n-+32.4\n++1\n1.50\n", &["--types", "typed"]);
    complains(&output, 3, "5 records were rejected");
    let one_and_a_half: Decimal128 = "1.50".parse().unwrap();
    assert_eq!(fixture.there(), [doc! { "a": one_and_a_half }]);
    let line = r#"{"a":{"$numberDecimal":""}}"#;
    complains(&fixture.taken("a.ndjson", line.as_bytes(), &[]), 3, "1 records were rejected");
    fixture.refused(&["shop.orders", "--filter", line], 2, "$numberDecimal does not stand for");
    #[cfg(feature = "shell")]
    for text in ["", ".", "E01", "-+32.4", "++1"] {
        let filter = format!("{{a: NumberDecimal({text:?})}}");
        fixture.refused(&["shop.orders", "--filter", &filter], 2, "is not a decimal number");
    }
}

#[test]
fn integers_beyond_64_bits_are_never_rounded_in_silence() {
    let fixture = Fixture::new(&[], false);
    let lines = "{\"a\":18446744073709551615}\n{\"a\":1}\n";
    let output = fixture.taken("a.ndjson", lines.as_bytes(), &[]);
    complains(&output, 3, "1 records were rejected");
    let reject: Document = serde_json::from_slice(&read(&fixture.path("a.ndjson.rejects.ndjson"))).unwrap();
    assert!(
        reject.get_str("error").unwrap().contains("\"18446744073709551615\" has more than 64 bits"),
        "{reject}"
    );
    let decimal: Decimal128 = "18446744073709551615".parse().unwrap();
    let more = ["--large-integers", "decimal"];
    fixture.takes("a.ndjson", lines, &more, &[doc! { "a": decimal }, doc! { "a": 1 }]);
    let more = ["--large-integers", "double"];
    fixture.takes("a.ndjson", lines, &more, &[doc! { "a": 18_446_744_073_709_551_615.0 }, doc! { "a": 1 }]);
}

#[test]
fn postcodes_are_of_one_type_and_the_column_is_named() {
    let fixture = Fixture::new(&[], false);
    let codes = (0..2_000)
        .map(|number| format!("{:05},{number}\n", (number * 7_919) % 100_000))
        .collect::<Vec<_>>()
        .concat();
    let output = fixture.taken("a.csv", format!("code,n\n{codes}").as_bytes(), &[]);
    complains(&output, 0, "a.csv: the column \"code\" has texts (\"00000\") and integers");
    let there = fixture.there();
    assert_eq!(there.len(), 2_000);
    for document in there {
        assert!(matches!(document.get("code"), Some(Bson::String(code)) if code.len() == 5), "{document}");
        assert!(matches!(document.get("n"), Some(Bson::Int32(_))), "{document}");
    }
}

/// What is read ahead decides; a cell after it that has another type is a reject, and no second type.
#[test]
fn a_cell_after_what_was_read_ahead_does_not_bring_a_second_type() {
    let fixture = Fixture::new(&[], false);
    let text = "x".repeat(1_000);
    let rows = (0..6_000).map(|number| format!("{},{text}\n", 10_000 + number)).collect::<Vec<_>>().concat();
    let input = format!("code,text\n{rows}01067,x\n");
    let output = fixture.taken("a.csv", input.as_bytes(), &[]);
    complains(&output, 3, "1 records were rejected");
    let reject: Document = serde_json::from_slice(&read(&fixture.path("a.csv.rejects.ndjson"))).unwrap();
    let reason = "column 1: \"01067\" is no integer as those before";
    assert_eq!(reject.get_str("error").unwrap(), reason);
    assert_eq!(reject.get_i32("line").unwrap(), 6_002);
}

#[test]
fn columns_of_dates_are_dates() {
    let fixture = Fixture::new(&[], false);
    let day = |text: &str| DateTime::parse_rfc3339_str(format!("{text}T00:00:00Z")).unwrap();
    fixture.takes(
        "a.csv",
        "at,never\n2024-02-29,9999-12-31\n2024-03-01,9999-12-31\n",
        &[],
        &[
            doc! { "at": day("2024-02-29"), "never": day("9999-12-31") },
            doc! { "at": day("2024-03-01"), "never": day("9999-12-31") },
        ],
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("it works");
    encoder.finish().expect("it works")
}

/// Bytes that a damaged part is unpacked to are no lines of the file, and were told as a hundred rejects.
#[test]
fn a_damaged_gzip_is_told_as_damage_with_its_place() {
    let fixture = Fixture::new(&[], false);
    let lines = (0..20_000)
        .map(|id| format!("{{\"_id\":{id},\"a\":\"{:x}\"}}\n", id * 7_919))
        .collect::<Vec<_>>()
        .concat();
    let whole = gzip(lines.as_bytes());
    let half = whole.len() / 2;
    let mut damaged = whole.clone();
    for byte in &mut damaged[half..half + 64] {
        *byte = !*byte;
    }
    for (name, input) in [("a.ndjson.gz", &damaged[..]), ("b.ndjson.gz", &whole[..half])] {
        let output = fixture.taken(name, input, &[]);
        complains(&output, 4, &format!("{name} is damaged"));
        complains(&output, 4, "byte ");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!told.contains("rejected"), "{told}");
    }
    complains(&fixture.taken("c.ndjson.gz", &whole, &[]), 0, "20000 inserted");
    // A line that is wrong in a file that is whole stays a reject.
    complains(&fixture.taken("d.ndjson.gz", &gzip(b"{\"a\":1}\nx\n"), &[]), 3, "1 records were rejected");
}
