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
    complains(&output, 3, "5 of 6 records were rejected");
    let one_and_a_half: Decimal128 = "1.50".parse().unwrap();
    assert_eq!(fixture.there(), [doc! { "a": one_and_a_half }]);
    let line = r#"{"a":{"$numberDecimal":""}}"#;
    complains(&fixture.taken("a.ndjson", line.as_bytes(), &[]), 3, "every record was rejected");
    fixture.refused(&["shop.orders", "--filter", line], 2, "$numberDecimal cannot have");
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
    complains(&output, 3, "1 of 2 records was rejected");
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
    complains(&output, 3, "1 of 6,001 records was rejected");
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
    complains(&fixture.taken("c.ndjson.gz", &whole, &[]), 0, "20,000 inserted");
    // A line that is wrong in a file that is whole stays a reject.
    complains(&fixture.taken("d.ndjson.gz", &gzip(b"{\"a\":1}\nx\n"), &[]), 3, "1 of 2 records was rejected");
}

/// What pandas and R write by default: an index whose column has no name. The whole file was refused.
#[test]
fn a_column_without_a_name_gets_one() {
    let fixture = Fixture::new(&[], false);
    let expected = [doc! { "column1": 0, "a": "x" }, doc! { "column1": 1, "a": "y" }];
    for header in [",a", "\"\",\"a\""] {
        let input = format!("{header}\n0,x\n1,y\n");
        let output = fixture.taken("a.csv", input.as_bytes(), &[]);
        complains(&output, 0, "a.csv: the column 1 has no name, and is called \"column1\"");
        assert_eq!(fixture.there(), expected);
    }
    // A name that is taken is not given again.
    fixture.takes("a.csv", "column1,\n1,2\n", &[], &[doc! { "column1": 1, "column2": 2 }]);
    fixture.takes("a.csv", "column2,,x\n1,2,3\n", &[], &[doc! { "column2": 1, "column2_": 2, "x": 3 }]);
    fixture.takes("a.csv", ",b.int32\n1,2\n", &["--types", "typed"], &[doc! { "column1": 1, "b": 2 }]);
}

/// A comma at the end of every line makes no column.
#[test]
fn a_comma_at_the_end_of_every_line_makes_no_column() {
    let fixture = Fixture::new(&[], false);
    let expected = [doc! { "a": 1, "b": "x" }, doc! { "a": 2, "b": "y" }];
    for types in ["auto", "text"] {
        let expected: Vec<Document> = if types == "auto" {
            expected.to_vec()
        } else {
            vec![doc! { "a": "1", "b": "x" }, doc! { "a": "2", "b": "y" }]
        };
        for input in ["a,b,\n1,x,\n2,y,\n", "a,b\n1,x,\n2,y,\n", "a,b,\n1,x\n2,y\n"] {
            fixture.takes("a.csv", input, &["--types", types], &expected);
        }
    }
    complains(&fixture.taken("a.csv", b"a,b\n1,x,2\n", &["--max-rejects", "0"]), 3, "");
    complains(&fixture.taken("a.csv", b"a,b\n1,x,,\n", &["--max-rejects", "0"]), 3, "");
}

#[test]
fn cells_may_have_any_delimiter() {
    on_both(&[], |fixture| {
        let expected = [doc! { "a": 1, "b": "x,y" }, doc! { "a": 2, "b": "y;z" }];
        fixture.takes("a.csv", "a;b\n1;x,y\n2;\"y;z\"\n", &["--delimiter", ";"], &expected);
        fixture.takes("a.txt", "a|b\n1|x,y\n2|y;z\n", &["--delimiter", "|", "--format", "csv"], &expected);
        fixture.takes("a.csv", "a\tb\n1\tx,y\n2\ty;z\n", &["--delimiter", "tab"], &expected);
        fixture.takes("a.csv", "a;b\n1;\"x\n,y\"\n", &["--delimiter", ";"], &[doc! { "a": 1, "b": "x\n,y" }]);
        // It was one column of that name, and one cell a row.
        let output = fixture.taken("a.csv", b"a;b;c\n1;2;3\n", &[]);
        complains(
            &output,
            1,
            "a.csv: the header: one column, \"a;b;c\": if ; stands between columns, give --delimiter ';'",
        );
        complains(&fixture.taken("a.csv", b"a\tb\n1\t2\n", &[]), 1, "give --delimiter tab");
        fixture.takes("a.csv", "a;b\n1\n", &["--delimiter", ","], &[doc! { "a;b": 1 }]);
        complains(&fixture.taken("a.csv", b"a\n", &["--delimiter", "ab"]), 2, "--delimiter");
        complains(&fixture.taken("a.csv", b"a\n", &["--delimiter", "\""]), 2, "--delimiter");
        complains(
            &fixture.taken("a.json", b"{}\n", &["--delimiter", ";"]),
            2,
            "--delimiter is for csv and tsv",
        );
    });
}

/// Text in UTF-16, in the order of its bytes, with a mark or without.
fn utf_16(text: &str, is_little: bool) -> Vec<u8> {
    let of = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
    text.encode_utf16().flat_map(of).collect()
}

/// Programs of Windows write it: every byte beside a letter is zero, and the whole file was rejects.
#[test]
fn utf_16_is_read() {
    let fixture = Fixture::new(&[], false);
    let expected = [doc! { "a": 1, "b": "ü🦀" }];
    for is_little in [true, false] {
        for mark in ["", "\u{feff}"] {
            let of = |text: &str| utf_16(&format!("{mark}{text}"), is_little);
            for (name, text) in [
                ("a.csv", "a,b\r\n1,ü🦀\r\n"),
                ("a.tsv", "a\tb\n1\tü🦀\n"),
                ("a.ndjson", "{\"a\":1,\"b\":\"ü🦀\"}\n"),
                ("a.json", "[{\"a\":1,\"b\":\"ü🦀\"}]"),
            ] {
                complains(&fixture.taken(name, &of(text), &[]), 0, "1 inserted");
                assert_eq!(fixture.there(), expected, "{name} {is_little} {mark:?}");
                let packed = format!("{name}.gz");
                complains(&fixture.taken(&packed, &gzip(&of(text)), &[]), 0, "1 inserted");
                assert_eq!(fixture.there(), expected, "{packed}");
                // Neither the name nor an option says the format.
                complains(&fixture.taken("unnamed", &of(text), &[]), 0, "1 inserted");
                assert_eq!(fixture.there(), expected, "{name} {is_little} {mark:?}");
            }
        }
    }
    // The length of a document of BSON may look so.
    let text = "x".repeat(0xfeff - 16);
    let document = cairndb::bson::serialize_to_vec(&doc! { "abcd": text }).expect("it is small");
    for name in ["a.bson", "unnamed"] {
        complains(&fixture.taken(name, &document, &[]), 0, "1 inserted");
    }
    let wide: Vec<u8> = "\u{feff}a,b\n".chars().flat_map(|one| u32::from(one).to_le_bytes()).collect();
    let words = "a.csv is UTF-32, which is not read: iconv -f UTF-32 -t UTF-8 a.csv converts it";
    complains(&fixture.taken("a.csv", &wide, &[]), 1, words);
}

/// What came before is there, as of any input that cannot be read to its end, and a replaced collection is as it was.
#[test]
fn damage_of_utf_16_is_told_with_its_place() {
    let fixture = Fixture::new(&[], false);
    let whole = utf_16("\u{feff}a\n1\n2\n", true);
    let odd = [&whole[..], b"3"].concat();
    let half = [&whole[..], &[0x3d, 0xd8], &utf_16("3\n", true)].concat();
    for (input, words) in [
        (&odd, "a.csv is damaged: its UTF-16 ends within a character, after byte 14"),
        (
            &half,
            "a.csv is damaged: at byte 14 of its UTF-16 is half of a character, D83D, without the other half",
        ),
    ] {
        complains(&fixture.taken("a.csv", input, &[]), 4, words);
        assert_eq!(fixture.there().len(), 0, "{words}");
        let output = fixture.run("import", &["shop.orders", "a.csv"]).output().expect("it runs");
        complains(&output, 4, words);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("rejected"), "{output:?}");
        assert_eq!(fixture.there().len(), 2, "{words}");
        fixture.empty();
    }
    // A line that is wrong is a reject as in any text.
    let output = fixture.taken("a.ndjson", &utf_16("{\"a\":1}\nx\n", false), &[]);
    complains(&output, 3, "1 of 2 records was rejected");
    let reject: Document = serde_json::from_slice(&read(&fixture.path("a.ndjson.rejects.ndjson"))).unwrap();
    assert_eq!((reject.get_i32("line").ok(), reject.get_str("text").ok()), (Some(2), Some("x")), "{reject}");
}

#[test]
fn what_is_no_json_is_told_with_what_it_is() {
    let fixture = Fixture::new(&[], false);
    for (input, words) in [
        ("{\"a\": NaN}", "NaN is not JSON: {\"$numberDouble\": \"NaN\"} is"),
        ("{\"a\": [1, -Infinity]}", "-Infinity is not JSON: {\"$numberDouble\": \"-Infinity\"} is"),
        ("{\"a\": None}", "None is not JSON: null is"),
        ("{\"a\": True}", "True is not JSON: true is"),
        ("{\"a\": ObjectId(\"0123456789abcdef01234567\")}", "ObjectId( is the notation of the shell"),
        ("{\"a\": new Date(1)}", "new Date( is the notation of the shell"),
        ("{a: 1}", "names are in double quotes in JSON"),
        ("{'a': 1}", "strings and names are in double quotes in JSON"),
        ("{\"a\": 'b'}", "strings and names are in double quotes in JSON"),
    ] {
        let output = fixture.taken("a.ndjson", input.as_bytes(), &["--max-rejects", "0"]);
        complains(&output, 3, "");
        let told = fixture.rejects("a.ndjson.rejects.ndjson")[0].get_str("error").expect("a text").to_owned();
        assert!(told.contains(words), "{input}: {told}");
        assert!(told.contains(" at column "), "{input}: {told}");
    }
}

#[test]
fn types_in_a_header_are_not_passed_over_in_silence() {
    let fixture = Fixture::new(&[], false);
    let words =
        "the names of all columns end with types, as in \"a.int32\": --types typed takes them for that";
    complains(&fixture.taken("a.csv", b"a.int32,b.date(%Y)\n1,2024\n", &[]), 0, words);
    let quiet = [
        ("a.int32,b\n1,2\n", "auto"),
        ("a.int32,b.string\n1,2\n", "typed"),
        ("a.int32,b.double\n1,2\n", "text"),
    ];
    for (input, types) in quiet {
        let output = fixture.taken("a.csv", input.as_bytes(), &["--types", types]);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("end with types"), "{output:?}");
    }
}

/// As mongoexport wrote them up to 4.0. They became documents.
#[test]
fn regular_expressions_of_old_extended_json_are_read() {
    let fixture = Fixture::new(&[], false);
    let expected = doc! { "a": cairndb::bson::Regex { pattern: "^x".try_into().unwrap(), options: "im".try_into().unwrap() }, "b": 1 };
    fixture.takes(
        "a.ndjson",
        "{\"a\": {\"$regex\": \"^x\", \"$options\": \"mi\"}, \"b\": 1}\n{\"a\": {\"$options\": \"im\", \"$regex\": \"^x\"}, \"b\": 1}\n",
        &[],
        &[expected.clone(), expected],
    );
    // In a filter it is the operator.
    fixture.takes("a.ndjson", "{\"a\": \"Xy\"}\n", &[], &[doc! { "a": "Xy" }]);
    let output = fixture.export(&[
        "shop.orders",
        "--filter",
        "{\"a\": {\"$regex\": \"^x\", \"$options\": \"i\"}}",
        "--projection",
        "{\"_id\":0}",
    ]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"a\":\"Xy\"}\n");
}

#[test]
fn formats_of_oracle_are_known_in_any_case() {
    let fixture = Fixture::new(&[], false);
    for format in ["YYYY-MM-DD HH24:MI:SS", "yyyy-mm-dd hh24:mi:ss", "Yyyy-Mm-Dd Hh24:Mi:Ss"] {
        let input = format!("at.date_oracle({format})\n1\n");
        let output = fixture.taken("a.csv", input.as_bytes(), &["--types", "typed"]);
        complains(&output, 1, "date(%Y-%m-%d %H:%M:%S)");
    }
}
