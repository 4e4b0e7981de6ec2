//! What `cairn import` refuses, line by line, and what its modes do with what is there: on a folder and through a server.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "counts and offsets of a few thousand"
)]

use std::process::{Output, Stdio};

use cairndb::bson::{DateTime, Document, doc};

use crate::fixture::{Fixture, complains, on_both};

impl Fixture {
    fn write(&self, name: &str, input: &[u8]) {
        std::fs::write(self.path(name), input).expect("it works");
    }

    fn import_orders(&self, more: &[&str]) -> Output {
        let arguments: Vec<&str> = ["shop.orders"].into_iter().chain(more.iter().copied()).collect();
        self.run("import", &arguments).stdin(Stdio::null()).output().expect("it works")
    }

    /// Imports and returns the report.
    #[track_caller]
    fn report(&self, status: i32, more: &[&str]) -> Document {
        let arguments: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
        let output = self.import_orders(&arguments);
        complains(&output, status, "");
        serde_json::from_slice(&output.stdout).expect("the report is one line of JSON")
    }

    fn administer(&self, command: Document) {
        // Through the tool alone there is no way to make indexes, so the folder is opened before it is served.
        let client = cairndb::Client::open(self.path("db")).expect("it works");
        client.database("shop").run_command(command).run().expect("it works");
        client.close().expect("it works");
    }
}

#[track_caller]
fn counts(report: &Document, expected: &[(&str, i32)]) {
    for (name, expected) in expected {
        assert_eq!(report.get_i32(name).ok(), Some(*expected), "{name}: {report}");
    }
}

/// A store with indexes and rules, as a folder or served.
fn with_rules(documents: &[Document], commands: &[Document], test: impl Fn(&Fixture)) {
    for is_served in [false, true] {
        let mut fixture = Fixture::new(documents, false);
        for command in commands {
            fixture.administer(command.clone());
        }
        if is_served {
            fixture.serve();
        }
        test(&fixture);
    }
}

/// A bad line, the words of its reason, and its code.
struct Bad {
    line: &'static str,
    words: &'static str,
    code: i32,
}

const BAD_LINES: [Bad; 11] = [
    Bad { line: "{\"_id\":1", words: "EOF while parsing an object", code: 9 },
    Bad { line: "nonsense", words: "expected", code: 9 },
    Bad { line: "[1]", words: "expected a document", code: 9 },
    Bad { line: "7", words: "expected a document", code: 9 },
    Bad { line: "{\"a\":1} {}", words: "trailing characters", code: 9 },
    Bad {
        line: "{\"$oid\":\"507f1f77bcf86cd799439011\"}",
        words: "$oid is a value that is not a document",
        code: 9,
    },
    Bad { line: "{\"a\":{\"$oid\":\"x\"}}", words: "$oid cannot have \"x\"", code: 9 },
    Bad { line: "{\"_id\":[1]}", words: "_id", code: 53 },
    Bad { line: "{\"_id\":-2,\"u\":\"taken\"}", words: "E11000 duplicate key error", code: 11000 },
    Bad { line: "{\"_id\":\"taken\"}", words: "E11000 duplicate key error", code: 11000 },
    Bad { line: "{\"_id\":-3,\"number\":\"x\"}", words: "number", code: 2 },
];

/// What the corpus needs: a unique index, and a field that takes no text.
fn rules() -> [Document; 2] {
    [
        doc! { "createIndexes": "orders", "indexes": [{ "key": { "u": 1 }, "name": "u", "unique": true, "sparse": true }] },
        doc! { "createAutoIncrement": "orders", "autoIncrement": { "Field": "number", "Generated": "strict" } },
    ]
}

fn good_or(bad: &Bad, is_bad: bool, line: i32, at: usize) -> String {
    if is_bad { format!("{}\n", bad.line) } else { format!("{{\"_id\":{line},\"at\":{at}}}\n\n") }
}

#[test]
fn each_bad_line_is_told_in_the_first_the_middle_and_the_last_batch() {
    with_rules(&[doc! { "_id": "taken", "u": "taken" }], &rules(), |fixture| {
        fixture.write("taken.ndjson", b"{\"_id\":\"taken\",\"u\":\"taken\"}\n");
        for (at, bad) in BAD_LINES.iter().enumerate() {
            for (place, position) in [("first", 3), ("middle", 16), ("last", 29)] {
                let lines: Vec<String> =
                    (0..30).map(|line| good_or(bad, line == position, line, at)).collect();
                let input = lines.concat();
                let offset = lines[..position as usize].concat().len();
                fixture.write("a.ndjson", input.as_bytes());
                fixture.report(0, &["taken.ndjson", "--truncate"]);
                let report = fixture.report(3, &["a.ndjson", "--overwrite", "--batch", "10"]);
                counts(&report, &[("read", 30), ("inserted", 29), ("rejected", 1)]);
                let rejects = fixture.rejects("a.ndjson.rejects.ndjson");
                let [reject] = rejects.as_slice() else { panic!("{place}: {rejects:?}") };
                assert_eq!(reject.get_str("file").unwrap(), "a.ndjson");
                assert_eq!(reject.get_i32("line").unwrap(), 2 * position + 1, "{place}: {reject}");
                assert_eq!(reject.get_i32("offset").unwrap(), offset as i32, "{place}: {reject}");
                assert_eq!(reject.get_str("text").unwrap(), bad.line);
                assert!(reject.get_str("error").unwrap().contains(bad.words), "{reject}");
                assert_eq!(reject.get_i32("code").unwrap(), bad.code, "{reject}");
            }
        }
    });
}

#[test]
fn bad_rows_of_tables_are_told_with_the_lines_of_the_file() {
    on_both(&[], |fixture| {
        let input = "_id.int32,text.string,at.date(%d.%m.%Y)\n1,\"two\nlines\",01.02.2024\nx,a,01.02.2024\n\n3,a,30.02.2024\n4,a,01.02.2024,more\n5\n6,\"a\n";
        fixture.write("a.csv", input.as_bytes());
        let report = fixture.report(3, &["a.csv", "--types", "typed"]);
        counts(&report, &[("read", 6), ("inserted", 2), ("rejected", 4)]);
        let at = DateTime::parse_rfc3339_str("2024-02-01T00:00:00Z").unwrap();
        assert_eq!(
            fixture.documents(),
            [doc! { "_id": 1, "text": "two\nlines", "at": at }, doc! { "_id": 5 }]
        );
        let rejects = fixture.rejects("a.csv.rejects.ndjson");
        let told: Vec<(i32, &str, &str, i32)> = rejects
            .iter()
            .map(|reject| {
                let text = |name: &str| reject.get_str(name).unwrap();
                (
                    reject.get_i32("line").unwrap(),
                    text("text"),
                    text("error"),
                    reject.get_i32("code").unwrap(),
                )
            })
            .collect();
        let expected = [
            (4, "x,a,01.02.2024", "column 1: \"x\" is no int32", 14),
            (6, "3,a,30.02.2024", "column 3: \"30.02.2024\" is no date in the format of its column", 14),
            (7, "4,a,01.02.2024,more", "the row has 4 cells for 3 columns", 9),
            (9, "6,\"a", "the file ends within the record", 9),
        ];
        assert_eq!(told, expected);
        for reject in &rejects {
            let offset = reject.get_i32("offset").unwrap() as usize;
            assert!(input[offset..].starts_with(reject.get_str("text").unwrap()), "{reject}");
        }
    });
}

#[test]
fn bad_documents_of_arrays_and_of_bson_do_not_end_the_file() {
    on_both(&[], |fixture| {
        fixture.write("a.json", b"[{\"_id\":1},\n{\"_id\":2,},{\"_id\":3} {\"_id\":4}\n, 5, {\"_id\":6}");
        let report = fixture.report(3, &["a.json", "--drop"]);
        counts(&report, &[("read", 7), ("inserted", 3), ("rejected", 4)]);
        let lines: Vec<i32> = fixture
            .rejects("a.json.rejects.ndjson")
            .iter()
            .map(|reject| reject.get_i32("line").unwrap())
            .collect();
        assert_eq!(lines, [2, 2, 3, 3]);
        assert_eq!(fixture.documents(), [doc! { "_id": 1 }, doc! { "_id": 3 }, doc! { "_id": 6 }]);

        let good = |id: i32| cairndb::bson::serialize_to_vec(&doc! { "_id": id, "text": "x" }).unwrap();
        let mut broken = good(2);
        // The type of the text.
        broken[13] = 0x44;
        let mut cut = good(4);
        cut.truncate(9);
        fixture.write("b.bson", &[good(1), broken.clone(), good(3), cut].concat());
        let report = fixture.report(3, &["b.bson", "--drop"]);
        counts(&report, &[("read", 4), ("inserted", 2), ("rejected", 2)]);
        let rejects = fixture.rejects("b.bson.rejects.ndjson");
        let lines: Vec<i32> = rejects.iter().map(|reject| reject.get_i32("line").unwrap()).collect();
        assert_eq!(lines, [2, 4]);
        assert!(rejects[0].get_str("bytes").is_ok() && rejects[0].get_str("text").is_err());
        fixture.write("c.bson", &[good(1), vec![1, 0, 0, 0], good(3)].concat());
        let report = fixture.report(3, &["c.bson", "--drop"]);
        counts(&report, &[("inserted", 1), ("rejected", 1)]);
    });
}

#[test]
fn what_is_not_text_and_what_is_long_is_kept_as_far_as_it_can_be() {
    on_both(&[], |fixture| {
        let long = "x".repeat(100_000);
        let input = [b"\xff\n".as_slice(), long.as_bytes(), b"\n{\"_id\":1}\n"].concat();
        fixture.write("a.ndjson", &input);
        counts(&fixture.report(3, &["a.ndjson"]), &[("inserted", 1), ("rejected", 2)]);
        let rejects = fixture.rejects("a.ndjson.rejects.ndjson");
        assert_eq!(rejects[0].get_str("bytes").unwrap(), "/w==");
        assert!(rejects[1].get_bool("cut").unwrap());
        assert_eq!(rejects[1].get_str("text").unwrap(), "x".repeat(64 << 10));
        // A line that is longer than any is read over, and the next one is read.
        let input = [vec![b'x'; (32 << 20) + (1 << 20)], b"\n{\"_id\":2}\n".to_vec()].concat();
        fixture.write("b.ndjson", &input);
        counts(&fixture.report(3, &["b.ndjson"]), &[("inserted", 1), ("rejected", 1)]);
        let rejects = fixture.rejects("b.ndjson.rejects.ndjson");
        assert_eq!(rejects[0].get_str("error").unwrap(), "the record is longer than 32 MiB");
        assert_eq!(rejects[0].get_str("text").unwrap().len(), 64 << 10);
    });
}

fn good(id: usize) -> String {
    format!("{{\"_id\":{id}}}\n")
}

#[test]
fn nothing_is_committed_after_the_reject_that_is_one_too_many() {
    on_both(&[], |fixture| {
        let lines = |bad: &[usize]| -> String {
            (0..40)
                .map(|id| if bad.contains(&id) { "x\n".to_owned() } else { format!("{{\"_id\":{id}}}\n") })
                .collect()
        };
        // Wrong lines, and lines that the store refuses because an earlier one has their key.
        let twice: String =
            (0..40).map(|id| good(if id % 10 == 5 { 0 } else { id })).collect::<Vec<_>>().concat();
        for (input, limit, read, inserted) in [
            (lines(&[5, 15, 25]), "0", 6, 5),
            (lines(&[5, 15, 25]), "1", 16, 14),
            (lines(&[5, 15, 25]), "2", 26, 23),
            (twice.clone(), "0", 6, 5),
            (twice.clone(), "2", 26, 23),
        ] {
            for batch in ["1", "7", "1000"] {
                fixture.write("a.ndjson", input.as_bytes());
                fixture.empty();
                let report =
                    fixture.report(3, &["a.ndjson", "--overwrite", "--batch", batch, "--max-rejects", limit]);
                counts(&report, &[("read", read), ("inserted", inserted), ("rejected", read - inserted)]);
                let error = report.get_document("error").unwrap();
                assert!(
                    error.get_str("message").unwrap().contains(&format!("stopped at a.ndjson, line {read}")),
                    "{report}"
                );
                assert_eq!(error.get_i32("line").unwrap(), read);
                assert_eq!(fixture.documents().len() as i32, inserted);
            }
        }
        fixture.write("a.ndjson", twice.as_bytes());
        let report = fixture.report(3, &["a.ndjson", "--drop", "--overwrite", "--max-rejects", "all"]);
        counts(&report, &[("inserted", 36), ("rejected", 4)]);
        let report = fixture
            .report(0, &["a.ndjson", "--drop", "--overwrite", "--skip-existing", "--max-rejects", "0"]);
        counts(&report, &[("inserted", 36), ("skipped", 4), ("rejected", 0)]);
    });
}

#[test]
fn rejects_go_where_they_are_wanted() {
    on_both(&[], |fixture| {
        fixture.write("a.ndjson", b"{}\nx\n");
        counts(&fixture.report(3, &["a.ndjson", "--rejects", "mine"]), &[("rejected", 1)]);
        assert_eq!(fixture.rejects("mine").len(), 1);
        assert_eq!(fixture.files(), ["a.ndjson", "mine"]);
        complains(&fixture.import_orders(&["a.ndjson", "--rejects", "mine"]), 2, "mine is there already");
        let input = ["a.ndjson", "--rejects", "./a.ndjson", "--overwrite"];
        complains(&fixture.import_orders(&input), 2, "./a.ndjson is an input and cannot have rejects");
        let child = fixture.run("import", &["shop.orders", "--format", "ndjson"]);
        let mut child = child_with(child);
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"y\n").unwrap();
        let output = child.wait_with_output().unwrap();
        complains(&output, 3, "{\"file\":\"standard input\",\"line\":1,\"offset\":0,\"error\":\"expected");
        // A dry run makes no file.
        let report = fixture.report(3, &["a.ndjson", "--dry-run"]);
        counts(&report, &[("read", 2), ("inserted", 1), ("rejected", 1)]);
        assert_eq!(fixture.files(), ["a.ndjson", "mine"]);
    });
}

fn child_with(mut command: std::process::Command) -> std::process::Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works")
}

#[test]
fn modes_match_replace_merge_and_delete() {
    let documents = [doc! { "_id": 1, "k": "a", "n": 1, "old": true }, doc! { "_id": 2, "k": "b", "n": 2 }];
    on_both(&documents, |fixture| {
        fixture.write(
            "a.ndjson",
            b"{\"_id\":1,\"n\":10}\n{\"_id\":3,\"n\":30}\n{\"n\":40}\n{\"_id\":2,\"k\":\"b\",\"n\":2}\n",
        );
        // A dry run counts the same, and writes nothing.
        let report = fixture.report(3, &["a.ndjson", "--mode", "upsert", "--dry-run"]);
        counts(&report, &[("read", 4), ("matched", 2), ("modified", 1), ("upserted", 1), ("rejected", 1)]);
        assert_eq!(fixture.documents(), documents);
        let report = fixture.report(3, &["a.ndjson", "--mode", "upsert", "--dry-run", "--drop"]);
        counts(&report, &[("matched", 0), ("upserted", 3), ("rejected", 1)]);
        let report = fixture.report(3, &["a.ndjson", "--mode", "upsert"]);
        counts(&report, &[("read", 4), ("matched", 2), ("modified", 1), ("upserted", 1), ("rejected", 1)]);
        let reject = &fixture.rejects("a.ndjson.rejects.ndjson")[0];
        assert_eq!(reject.get_str("error").unwrap(), "the document has no \"_id\" to match by");
        let b = doc! { "_id": 2, "k": "b", "n": 2 };
        assert_eq!(fixture.documents(), [doc! { "_id": 1, "n": 10 }, b, doc! { "_id": 3, "n": 30 }]);

        fixture.write("b.ndjson", b"{\"k\":\"b\",\"n\":20}\n{\"k\":\"c\",\"m\":{\"x\":1}}\n{\"k\":\"b\",\"a.b\":1}\n{\"k\":\"b\"}\n");
        let report = fixture.report(3, &["b.ndjson", "--mode", "merge", "--match", "k", "--dry-run"]);
        counts(&report, &[("matched", 2), ("modified", 1), ("upserted", 1), ("rejected", 1)]);
        let report = fixture.report(3, &["b.ndjson", "--mode", "merge", "--match", "k"]);
        counts(&report, &[("matched", 2), ("modified", 1), ("upserted", 1), ("rejected", 1)]);
        let found = fixture.documents();
        assert_eq!(found[1], doc! { "_id": 2, "k": "b", "n": 20 });
        let last = found.last().unwrap();
        assert_eq!((last.get_str("k").unwrap(), last.get_document("m").unwrap()), ("c", &doc! { "x": 1 }));

        fixture.write("c.csv", b"m.x,k\n1,c\n2,c\n");
        let report = fixture.report(0, &["c.csv", "--mode", "delete", "--match", "m.x,k", "--dry-run"]);
        counts(&report, &[("read", 2), ("deleted", 1)]);
        let report = fixture.report(0, &["c.csv", "--mode", "delete", "--match", "m.x,k"]);
        counts(&report, &[("read", 2), ("deleted", 1)]);
        assert_eq!(fixture.documents().len(), 3);
    });
}

#[test]
fn a_value_that_looks_like_an_operator_matches_as_a_value() {
    on_both(&[doc! { "_id": 1, "k": { "$gt": 0 } }, doc! { "_id": 2, "k": 5 }], |fixture| {
        fixture.write("a.ndjson", b"{\"k\":{\"$gt\":0}}\n");
        counts(&fixture.report(0, &["a.ndjson", "--mode", "delete", "--match", "k"]), &[("deleted", 1)]);
        assert_eq!(fixture.documents(), [doc! { "_id": 2, "k": 5 }]);
    });
}

#[test]
fn drop_removes_the_collection_and_truncate_its_documents() {
    let number = doc! { "createAutoIncrement": "orders", "autoIncrement": { "Field": "number", "Contract": "gapless" } };
    with_rules(&[doc! { "_id": 1 }], &[number], |fixture| {
        fixture.write("a.ndjson", b"{\"_id\":7}\n{\"_id\":8}\n");
        fixture.report(0, &["a.ndjson"]);
        fixture.report(0, &["a.ndjson", "--truncate"]);
        let numbered = [doc! { "_id": 7, "number": 1_i64 }, doc! { "_id": 8, "number": 2_i64 }];
        assert_eq!(fixture.documents(), numbered);
        fixture.report(0, &["a.ndjson", "--drop"]);
        assert_eq!(fixture.documents(), [doc! { "_id": 7 }, doc! { "_id": 8 }]);
        for option in ["--drop", "--truncate"] {
            let output = fixture.run("import", &["shop.absent", "a.ndjson", option]).output().unwrap();
            complains(&output, 0, "2 inserted");
        }
    });
}

#[test]
fn columns_make_documents_arrays_and_nulls() {
    on_both(&[], |fixture| {
        let check = |input: &str, more: &[&str], expected: &[Document]| {
            fixture.write("a.csv", input.as_bytes());
            let arguments: Vec<&str> = ["a.csv", "--drop"].into_iter().chain(more.iter().copied()).collect();
            fixture.report(0, &arguments);
            assert_eq!(fixture.documents(), expected);
        };
        check("_id,a.b,a.c.d\n1,2,\n", &[], &[doc! { "_id": 1, "a": { "b": 2, "c": { "d": "" } } }]);
        check("_id,a.b,a.c.d\n1,,\n", &["--ignore-blanks"], &[doc! { "_id": 1 }]);
        check(
            "_id,a.b\n1,NA\n2,\n",
            &["--null", "NA"],
            &[doc! { "_id": 1, "a": { "b": null } }, doc! { "_id": 2, "a": { "b": "" } }],
        );
        check("_id,a.b\n1,2\n", &["--flat"], &[doc! { "_id": 1, "a.b": 2 }]);
        check(
            "_id,a.0,a.1,a.2\n1,x,y,z\n2,x,,\n3,,,z\n4\n",
            &["--arrays", "--ignore-blanks"],
            &[
                doc! { "_id": 1, "a": ["x", "y", "z"] },
                doc! { "_id": 2, "a": ["x"] },
                doc! { "_id": 3, "a": [null, null, "z"] },
                doc! { "_id": 4 },
            ],
        );
        check("_id,a.0,a.1\n1,x,y\n", &[], &[doc! { "_id": 1, "a": { "0": "x", "1": "y" } }]);
        check(
            "_id,a\n1,007\n2,1.5\n3,true\n",
            &["--types", "text"],
            &[
                doc! { "_id": "1", "a": "007" },
                doc! { "_id": "2", "a": "1.5" },
                doc! { "_id": "3", "a": "true" },
            ],
        );
        check(
            "1,2\n3,4\n",
            &["--fields", "_id,a", "--no-header"],
            &[doc! { "_id": 1, "a": 2 }, doc! { "_id": 3, "a": 4 }],
        );
        check("x,y\n3,4\n", &["--fields", "_id,a"], &[doc! { "_id": 3, "a": 4 }]);
        complains(
            &fixture.import_orders(&["a.csv", "--fields", "_id,a", "--drop"]),
            0,
            "read as a header (x,y)",
        );
    });
}

#[test]
fn the_line_of_a_report_is_that_of_the_first_reject() {
    let fixture = Fixture::new(&[], false);
    fixture.write("a.ndjson", b"x\n{\"_id\":1}\ny\n{\"_id\":2}\n");
    let report = fixture.report(3, &["a.ndjson"]);
    assert_eq!(report.get_document("error").unwrap().get_i32("line").unwrap(), 1, "{report}");
}

/// As a file of rejected rows is: its first row would be taken for a header without a word.
#[test]
fn a_table_without_rows_is_told() {
    let fixture = Fixture::new(&[], false);
    fixture.write("a.csv", b"1,x\n");
    complains(&fixture.import_orders(&["a.csv"]), 0, "a.csv: a header and no rows");
    complains(&fixture.import_orders(&["a.csv", "--no-header", "--fields", "_id,name"]), 0, "");
    assert_eq!(fixture.documents(), [doc! { "_id": 1, "name": "x" }]);
    // With rows nothing is told.
    fixture.write("b.csv", b"_id,name\n2,y\n");
    let output = fixture.import_orders(&["b.csv"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("no rows"), "{output:?}");
}

/// A filter for null finds documents that lack the field too, the first of which was replaced or deleted.
#[test]
fn a_record_whose_match_field_is_null_matches_nothing() {
    let ada = doc! { "_id": 1, "name": "Ada", "balance": 500 };
    on_both(std::slice::from_ref(&ada), |fixture| {
        fixture.write("u.csv", b"email,name\nNULL,Eve\nNULL,Mallory\nbob@b.example,Bob\n");
        fixture.write(
            "u.ndjson",
            b"{\"a\":{\"b\":null}}\n{\"a\":{\"b\":{\"$undefined\":true}}}\n{\"_id\":null}\n",
        );
        for mode in ["upsert", "merge", "delete"] {
            for is_dry in [true, false] {
                let dry: &[&str] = if is_dry { &["--dry-run"] } else { &["--overwrite"] };
                let csv = ["u.csv", "--mode", mode, "--match", "email", "--null", "NULL"];
                let report = fixture.report(3, &[&csv[..], dry].concat());
                counts(&report, &[("read", 3), ("rejected", 2)]);
                let json = ["u.ndjson", "--mode", mode, "--match", "a.b"];
                counts(&fixture.report(3, &[&json[..], dry].concat()), &[("read", 3), ("rejected", 3)]);
                let id = ["u.ndjson", "--mode", mode];
                counts(&fixture.report(3, &[&id[..], dry].concat()), &[("read", 3), ("rejected", 3)]);
                assert_eq!(fixture.documents()[0], ada, "{mode}");
            }
            let reject = &fixture.rejects("u.csv.rejects.ndjson")[0];
            let reason = "\"email\" is null, which would match documents that have no \"email\"";
            assert_eq!((reject.get_str("error").unwrap(), reject.get_i32("line").unwrap()), (reason, 2));
        }
        // What `delete` found is Bob's.
        assert_eq!(fixture.documents(), std::slice::from_ref(&ada));
    });
}

#[test]
fn a_cell_with_more_after_its_quote_is_rejected_with_its_place() {
    on_both(&[], |fixture| {
        fixture.write("a.csv", b"_id,a\n1,\"x\"y\n2,\"x\"\"y\"\r\n3,x\"y\"\n4,\"x,\ny\"z\n");
        counts(&fixture.report(3, &["a.csv"]), &[("read", 4), ("inserted", 2), ("rejected", 2)]);
        let found = fixture.documents();
        assert_eq!(found, [doc! { "_id": 2, "a": "x\"y" }, doc! { "_id": 3, "a": "x\"y\"" }]);
        let rejects = fixture.rejects("a.csv.rejects.ndjson");
        let told: Vec<(i32, &str)> = rejects
            .iter()
            .map(|reject| (reject.get_i32("line").unwrap(), reject.get_str("error").unwrap()))
            .collect();
        let reason = "column 2: there is more after the closing quote";
        assert_eq!(told, [(2, reason), (5, reason)]);
        fixture.write("b.csv", b"_id,\"a\"b\n1,x\n");
        complains(&fixture.import_orders(&["b.csv"]), 1, "the header: column 2: there is more");
        fixture.write("c.csv", b"_id,a.\n1,x\n");
        complains(&fixture.import_orders(&["c.csv"]), 1, "the column 2 has no name for a field");
    });
}

/// The same command failed for the file that it had made itself.
#[test]
fn a_repeated_import_replaces_its_own_rejects() {
    on_both(&[], |fixture| {
        let name = "a.ndjson.rejects.ndjson";
        fixture.write("a.ndjson", b"{\"_id\":1}\nx\n");
        fixture.report(3, &["a.ndjson", "--drop"]);
        fixture.write("a.ndjson", b"{\"_id\":1}\n{}\ny\n");
        fixture.report(3, &["a.ndjson", "--drop"]);
        let rejects = fixture.rejects(name);
        assert_eq!((rejects.len(), rejects[0].get_str("text").unwrap()), (1, "y"));
        // There is one line number, that of the file.
        assert_eq!(rejects[0].get_str("error").unwrap(), "expected value at column 1");
        assert_eq!(rejects[0].get_i32("line").unwrap(), 3);
        fixture.write("a.ndjson", b"{\"_id\":1}\n");
        let output = fixture.import_orders(&["a.ndjson", "--drop"]);
        complains(&output, 0, "a.ndjson.rejects.ndjson is of an earlier import");
        // What is of another make is not.
        fixture.write(name, b"mine\n");
        complains(&fixture.import_orders(&["a.ndjson", "--drop"]), 2, "is there already");
        fixture.write("a.json", b"[\n{\"a\":\n x}]\n");
        fixture.report(3, &["a.json", "--drop"]);
        let told = fixture.rejects("a.json.rejects.ndjson")[0].get_str("error").unwrap().to_owned();
        assert!(told.ends_with("in line 2 of the record, column 2"), "{told}");
    });
}
