//! `cairn import` as a process, on a folder and through the socket of a server.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    reason = "numbers of random documents, and counts of a few thousand"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cairndb::bson::{Bson, DateTime, Document, doc};
use cairndb::{Client, Collection};
use rustix::process::Signal;

use crate::fixture::signals::send;
use crate::fixture::{Fixture, anonymous_kibibytes, cairn, complains, every_type, mebibytes, on_both, read};

impl Fixture {
    fn import(&self, more: &[&str]) -> Output {
        self.run("import", more).stdin(Stdio::null()).output().expect("it works")
    }

    /// Imports `input` from a file of this name. Returns the report.
    #[track_caller]
    fn imported(&self, name: &str, input: &[u8], more: &[&str]) -> Document {
        self.imported_with(0, name, input, more)
    }

    #[track_caller]
    fn imported_with(&self, status: i32, name: &str, input: &[u8], more: &[&str]) -> Document {
        std::fs::write(self.path(name), input).expect("it works");
        let arguments: Vec<&str> =
            ["shop.orders", name, "--json"].into_iter().chain(more.iter().copied()).collect();
        let output = self.import(&arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(!told.contains("panicked"), "{told}");
        serde_json::from_slice(&output.stdout).expect("the report is one line of JSON")
    }

    #[track_caller]
    fn import_refused(&self, more: &[&str], status: i32, words: &str) {
        complains(&self.import(more), status, words);
    }
}

#[track_caller]
fn counts(report: &Document, expected: &[(&str, i64)]) {
    for (name, expected) in expected {
        let found = report.get(name).and_then(|count| count.as_i64().or(count.as_i32().map(i64::from)));
        assert_eq!(found, Some(*expected), "{name}: {report}");
    }
}

fn bson(documents: &[Document]) -> Vec<u8> {
    documents
        .iter()
        .flat_map(|document| cairndb::bson::serialize_to_vec(document).expect("it works"))
        .collect()
}

/// What compresses.
type Packer = fn(&[u8]) -> Vec<u8>;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("it works");
    encoder.finish().expect("it works")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("it works")
}

#[test]
fn every_format_is_recognized_by_its_name_or_its_bytes() {
    let lines = b"{\"_id\":1,\"a\":\"x\"}\n\n{\"_id\":2,\"a\":\"y\"}";
    let documents = [doc! { "_id": 1, "a": "x" }, doc! { "_id": 2, "a": "y" }];
    let inputs: [(&str, Vec<u8>); 16] = [
        ("a.ndjson", lines.to_vec()),
        ("b", lines.to_vec()),
        ("c.json", lines.to_vec()),
        ("d.json", b"\xef\xbb\xbf [ {\"_id\":1,\"a\":\"x\"},\n {\"_id\":2,\n\"a\":\"y\"} ]\n".to_vec()),
        ("e", b"[{\"_id\":1,\"a\":\"x\"},{\"_id\":2,\"a\":\"y\"}]".to_vec()),
        ("f", b"{\n  \"_id\":1,\"a\":\"x\"}\n{\"_id\":2,\"a\":\"y\"}".to_vec()),
        ("g.csv", b"\xef\xbb\xbf_id,a\r\n1,x\r\n2,y\r\n".to_vec()),
        ("h", b"_id,a\n1,x\n2,\"y\"".to_vec()),
        ("i.tsv", b"_id\ta\n1\tx\n2\ty\n".to_vec()),
        ("j", b"_id\ta\n1\tx\n2\ty\n".to_vec()),
        ("k.bson", bson(&documents)),
        ("l", bson(&documents)),
        ("m.ndjson.gz", gzip(lines)),
        ("n", [gzip(b"{\"_id\":1,\"a\":\"x\"}\n"), gzip(b"{\"_id\":2,\"a\":\"y\"}\n")].concat()),
        ("o", [zstd(b"{\"_id\":1,\"a\":\"x\"}\n"), zstd(b"{\"_id\":2,\"a\":\"y\"}\n")].concat()),
        ("p.bson.zst", zstd(&bson(&documents))),
    ];
    on_both(&[], |fixture| {
        for (name, input) in &inputs {
            let report = fixture.imported(name, input, &["--drop"]);
            counts(&report, &[("read", 2), ("inserted", 2), ("rejected", 0), ("bytes", input.len() as i64)]);
            assert_eq!(fixture.documents(), documents, "{name}");
        }
        // From standard input, by the bytes alone.
        for (_, input) in inputs.iter().filter(|(name, _)| !name.contains(".json") && *name != "f") {
            let mut child = fixture
                .run("import", &["shop.orders", "--drop"])
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(0));
            assert_eq!(fixture.documents(), documents);
        }
    });
}

#[test]
fn every_type_comes_back_from_every_format_that_has_types() {
    on_both(&[every_type()], |fixture| {
        let stored = fixture.export(&["shop.orders", "--format", "bson"]).stdout;
        for format in ["ndjson", "json", "bson"] {
            let name = format!("types.{format}");
            let mut arguments = vec!["shop.orders", &name, "--format", format, "--overwrite"];
            if format != "bson" {
                arguments.push("--canonical");
            }
            assert!(fixture.export(&arguments).status.success());
            assert!(fixture.import(&["shop.orders", &name, "--drop"]).status.success());
            assert_eq!(fixture.export(&["shop.orders", "--format", "bson"]).stdout, stored, "{format}");
        }
    });
}

/// Relaxed Extended JSON and tables keep what they can: the value, if not always its type.
#[test]
fn relaxed_and_tables_come_back_as_far_as_they_can() {
    let document = doc! {
        "_id": 1, "long": 1_i64 << 40, "double": 1.5, "whole": 2.0, "flag": true, "text": "a,\"b\"\nc",
        "date": DateTime::from_millis(1_700_000_000_001), "empty": "", "number": "007",
    };
    on_both(std::slice::from_ref(&document), |fixture| {
        assert!(fixture.export(&["shop.orders", "relaxed.ndjson"]).status.success());
        assert!(fixture.import(&["shop.orders", "relaxed.ndjson", "--drop"]).status.success());
        assert_eq!(fixture.documents(), std::slice::from_ref(&document));
        for format in ["csv", "tsv"] {
            let name = format!("table.{format}");
            let fields = "_id,long,double,whole,flag,text,date,empty,number";
            assert!(
                fixture
                    .export(&["shop.orders", &name, "--format", format, "--fields", fields])
                    .status
                    .success()
            );
            assert!(fixture.import(&["shop.orders", &name, "--drop"]).status.success());
            assert_eq!(fixture.documents(), std::slice::from_ref(&document), "{format}");
        }
    });
}

/// What MongoDB's own tools wrote; `README.md` beside the files says how.
#[test]
fn what_mongoexport_and_mongodump_wrote_is_imported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mongodump");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    on_both(&[], |fixture| {
        let import = |name: &str| {
            let output = fixture.import(&["shop.orders", &file(name), "--drop"]);
            complains(&output, 0, "read");
        };
        import("types.bson");
        assert_eq!(
            fixture.export(&["shop.orders", "--format", "bson"]).stdout,
            read(&folder.join("types.bson"))
        );
        let stored = fixture.stored();
        import("types.canonical.ndjson");
        assert_eq!(fixture.stored(), stored);
        import("types.relaxed.ndjson");
        assert_eq!(fixture.documents().len(), stored.lines().count());
        import("items.bson");
        let items = fixture.documents();
        import("items.csv");
        let rows = fixture.documents();
        assert_eq!((items.len(), rows.len()), (300, 300));
        for (item, row) in items.iter().zip(&rows) {
            for name in ["_id", "sku", "at"] {
                assert_eq!(item.get(name), row.get(name), "{item}");
            }
        }
        import("logs.bson");
        assert_eq!(
            fixture.export(&["shop.orders", "--format", "bson"]).stdout,
            read(&folder.join("logs.bson"))
        );
    });
}

/// Numbers that follow each other without a pattern, from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn text(&mut self) -> String {
        const CHARACTERS: [char; 12] =
            ['a', '"', '\\', '\n', '\t', '\u{1}', '\u{7f}', 'ü', '\u{2028}', '😀', '{', ','];
        (0..self.roll(8)).map(|_| CHARACTERS[self.roll(12) as usize]).collect()
    }

    fn value(&mut self, depth: u64) -> Bson {
        let types: Vec<Bson> = every_type().into_iter().map(|(_, value)| value).collect();
        match self.roll(if depth > 3 { 6 } else { 9 }) {
            0 => Bson::Int64(self.0 as i64),
            1 => Bson::Int32(self.0 as i32),
            2 => Bson::Double(f64::from_bits(self.0))
                .as_f64()
                .filter(|number| !number.is_nan())
                .unwrap_or(0.1)
                .into(),
            3 => self.text().into(),
            4 | 5 => types[self.roll(types.len() as u64) as usize].clone(),
            6 => (0..self.roll(4)).map(|_| self.value(depth + 1)).collect::<Vec<_>>().into(),
            _ => self.document(depth + 1).into(),
        }
    }

    fn document(&mut self, depth: u64) -> Document {
        (0..self.roll(5)).map(|position| (format!("{}{position}", self.text()), self.value(depth))).collect()
    }
}

#[test]
fn thousands_of_random_documents_come_back_byte_for_byte() {
    const SEED: u64 = 0x5eed;
    let mut dice = Dice(SEED);
    let documents: Vec<Document> = (0..10_000)
        .map(|id| {
            let mut document = doc! { "_id": id };
            document.extend(dice.document(0));
            document
        })
        .collect();
    let input = bson(&documents);
    on_both(&[], |fixture| {
        counts(&fixture.imported("random.bson", &input, &[]), &[("inserted", 10_000)]);
        assert_eq!(fixture.export(&["shop.orders", "--format", "bson"]).stdout, input, "seed {SEED:#x}");
        for (name, format) in [("random.ndjson.gz", "ndjson"), ("random.json", "json")] {
            let output = fixture.export(&["shop.orders", name, "--canonical", "--format", format]);
            complains(&output, 0, "");
            assert!(fixture.import(&["shop.orders", name, "--drop", "--batch", "77"]).status.success());
            assert_eq!(fixture.export(&["shop.orders", "--format", "bson"]).stdout, input, "seed {SEED:#x}");
        }
    });
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_an_error_with_what_was_done() {
    on_both(&[], |fixture| {
        let line = |id: u64| format!("{{\"_id\":{id},\"text\":\"{}\"}}\n", id * 7919);
        let text = (0..20_000).map(line).collect::<Vec<_>>().concat();
        let mut cut = gzip(text.as_bytes());
        cut.truncate(cut.len() / 2);
        let report = fixture.imported_with(4, "cut.gz", &cut, &["--drop", "--format", "ndjson"]);
        let error = report.get_document("error").unwrap();
        assert!(error.get_str("message").unwrap().contains("cut.gz is damaged before its byte "), "{report}");
        let inserted = report.get("inserted").unwrap().as_i32().unwrap();
        assert_eq!(fixture.documents().len() as i32, inserted);
        fixture.import_refused(&["shop.orders", "absent.csv"], 1, "absent.csv");
        fixture.import_refused(&["shop.orders", "."], 1, "directory");
        std::fs::write(fixture.path("unknown"), "who knows").unwrap();
        fixture.import_refused(
            &["shop.orders", "unknown"],
            2,
            "unknown has no format that is known: give --format",
        );
    });
}

#[test]
fn an_input_that_is_wrong_makes_no_store() {
    let fixture = Fixture::new(&[], false);
    std::fs::write(fixture.path("a.csv"), "a,a\n1,2\n").unwrap();
    let run = |arguments: &[&str]| {
        let output =
            cairn().arg("import").args(arguments).current_dir(fixture.folder.path()).output().unwrap();
        assert_ne!(output.status.code(), Some(0));
        assert!(!fixture.path("new").exists(), "{arguments:?}");
    };
    run(&["new", "a.b", "absent.csv"]);
    run(&["new", "a", "a.csv"]);
    run(&["new", "a.b", "a.csv", "--fields", "x,x"]);
    run(&["new", "a.b", "a.csv"]);
    assert!(
        cairn()
            .arg("import")
            .arg(fixture.path("new"))
            .arg("a.b")
            .arg(fixture.path("a.csv"))
            .arg("--dry-run")
            .status()
            .is_ok()
    );
    assert!(!fixture.path("new").exists());
    std::fs::write(fixture.path("a.csv"), "a,b\n1,2\n").unwrap();
    let output = cairn()
        .arg("import")
        .arg(fixture.path("new"))
        .arg("a.b")
        .arg(fixture.path("a.csv"))
        .output()
        .unwrap();
    complains(&output, 0, "1 inserted");
}

#[test]
fn several_files_are_imported_in_their_order() {
    on_both(&[], |fixture| {
        std::fs::write(fixture.path("a.csv"), "_id,n\n1,1\n").unwrap();
        std::fs::write(fixture.path("b.ndjson"), "{\"_id\":2}\nx\n").unwrap();
        std::fs::write(fixture.path("c.ndjson"), "y\n{\"_id\":3}\n").unwrap();
        let output = fixture.import(&["shop.orders", "a.csv", "b.ndjson", "c.ndjson", "--json"]);
        complains(&output, 3, "2 of 5 records were rejected");
        assert_eq!(fixture.documents(), [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2 }, doc! { "_id": 3 }]);
        assert_eq!(fixture.rejects("b.ndjson.rejects.ndjson").len(), 1);
        assert_eq!(fixture.rejects("c.ndjson.rejects.ndjson")[0].get_str("file").unwrap(), "c.ndjson");
        fixture.import_refused(&["shop.orders", "a.csv", "a.csv"], 2, "a.csv is named twice");
    });
}

#[test]
fn a_folder_that_another_process_has_open_is_told_with_its_process() {
    let fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).unwrap();
    std::fs::write(fixture.path("a.csv"), "a,b\n1,2\n").unwrap();
    let output = fixture.import(&["shop.orders", "a.csv"]);
    complains(&output, 5, &format!("db is open in another process (pid {})", std::process::id()));
    client.close().unwrap();
}

#[test]
fn a_signal_ends_it_with_all_lines_that_were_read() {
    let line = |id: usize| format!("{{\"_id\":{id},\"text\":\"{}\"}}\n", "x".repeat(1_000));
    on_both(&[], |fixture| {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            fixture.empty();
            let mut child = fixture
                .run("import", &["shop.orders", "--json", "--batch", "10"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            // More than can be under way: the last line is taken only after some were committed.
            for id in 0..20_000 {
                input.write_all(line(id).as_bytes()).unwrap();
            }
            send(&child, signal);
            // The input stays open: nothing but the signal ends the command.
            let output = child.wait_with_output().unwrap();
            drop(input);
            let report: Document = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(status), "{report}");
            assert!(report.get_bool("interrupted").unwrap());
            let inserted = report.get("inserted").unwrap().as_i32().unwrap();
            assert!(inserted > 0 && report.get_i32("read").unwrap() == inserted, "{report}");
            assert!(report.get_i32("bytes").unwrap() >= inserted * 1_000, "{report}");
            let ids: Vec<i32> =
                fixture.documents().iter().map(|document| document.get_i32("_id").unwrap()).collect();
            assert_eq!(ids, (0..inserted).collect::<Vec<_>>());
        }
    });
}

#[test]
fn command_lines_that_make_no_sense_are_refused_by_import() {
    on_both(&[], |fixture| {
        std::fs::write(fixture.path("a.ndjson"), "{}\n").unwrap();
        std::fs::write(fixture.path("a.csv"), "a.b,a.c\n1,2\n").unwrap();
        let refused = |more: &[&str], words: &str| {
            let arguments: Vec<&str> =
                ["shop.orders", "a.ndjson"].into_iter().chain(more.iter().copied()).collect();
            fixture.import_refused(&arguments, 2, words);
        };
        fixture.import_refused(&["orders", "a.ndjson"], 2, "\"orders\" is not a DB.COLLECTION");
        fixture.import_refused(&["", "a.ndjson"], 2, "\"\" is not a DB.COLLECTION");
        refused(&["--mode", "replace"], "invalid value 'replace'");
        refused(&["--match", "a"], "--match is for the modes upsert, merge and delete");
        refused(&["--mode", "upsert", "--match", "a,,b"], "--match has a name that is none");
        refused(&["--mode", "upsert", "--skip-existing"], "--skip-existing is for --mode insert");
        refused(&["--drop", "--truncate"], "cannot be used with");
        refused(&["--no-header"], "--fields");
        refused(&["--fields", "a"], "--fields is for csv and tsv, not a.ndjson");
        refused(&["--null", ""], "--null is for csv and tsv");
        refused(&["--batch", "0"], "0 is not in 1..=100000");
        refused(&["--max-rejects", "some"], "a number, or all");
        refused(&["--format", "csv", "--fields", "a.b,a"], "exclude each other");
        refused(
            &["--format", "csv", "--types", "typed", "--fields", "at.date_ms(yyyy-MM-dd)"],
            "write date(%Y-%m-%d)",
        );
        fixture.import_refused(&["shop.orders", "a.csv", "--types", "typed"], 1, "there is no type \"b\"");
    });
}

#[test]
fn a_report_that_nobody_reads_is_no_error() {
    on_both(&[], |fixture| {
        std::fs::write(fixture.path("a.ndjson"), "{}\nx\n{}\n").unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut import =
            fixture.run("import", &["shop.orders", "a.ndjson", "--json", "--rejects", "r", "--overwrite"]);
        assert_eq!(import.stdout(writer).stderr(Stdio::null()).status().unwrap().code(), Some(3));
        assert_eq!(fixture.documents().len(), 2);
    });
}

/// As on a server of MongoDB, where few users may have everything synced.
#[cfg(feature = "shell")]
#[test]
fn a_user_who_may_write_and_not_sync_imports() {
    let mut fixture = Fixture::new(&[doc! { "_id": 0 }], false);
    fixture.serve_with(&["--enable-test-commands"]);
    let refuse = |data: &str| {
        let point =
            format!("db.adminCommand({{configureFailPoint: 'failCommand', mode: 'alwaysOn', data: {data}}})");
        let output = fixture.run("shell", &["--eval", &point]).output().unwrap();
        complains(&output, 0, "");
    };
    // The last batch changes nothing, so it does not make the one before it durable.
    let import = |name: &str, first: i32| {
        let lines = format!("{{\"_id\":{first}}}\n{{\"_id\":0}}\n");
        std::fs::write(fixture.path(name), lines).unwrap();
        fixture.import(&["shop.orders", name, "--mode", "upsert", "--batch", "1"])
    };
    refuse("{failCommands: ['fsync'], errorCode: 13}");
    complains(&import("a.ndjson", 1), 0, "1 matched, 1 upserted");
    refuse("{failCommands: ['fsync', 'delete'], errorCode: 13}");
    complains(&import("b.ndjson", 2), 1, "");
}

/// Gives all but the end of 96 MiB, or of as many as are asked for, and looks at the process then: whatever it collects, it has.
#[test]
fn memory_does_not_grow_with_the_input() {
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1 << 20));
    let fixture = Fixture::new(&[], false);
    let mut child = fixture
        .run("import", &["shop.orders", "--format", "ndjson", "--memory", &(32_u32 << 20).to_string()])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for _ in 0..mebibytes(96) {
        input.write_all(line.as_bytes()).unwrap();
    }
    let kibibytes = anonymous_kibibytes(&child);
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(kibibytes < (32 + 64) << 10, "{kibibytes} KiB");
}

#[test]
fn documents_that_a_writer_of_a_closed_store_left_are_kept() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    fixture.imported("a.ndjson", b"{\"_id\":2}\n", &[]);
    let client = Client::open(fixture.path("db")).unwrap();
    let orders: Collection<Document> = client.database("shop").collection("orders");
    assert_eq!(orders.count_documents(doc! {}).run().unwrap(), 2);
    drop(orders);
    assert!(client.verify().unwrap().findings.is_empty());
    client.close().unwrap();
}

/// The last batch before the error was not stored: of a small file nothing was. Zeros are what a tape has after its last block.
#[test]
fn what_comes_before_the_end_of_compressed_data_is_stored_and_padding_is_no_error() {
    let lines = |ids: std::ops::Range<u32>| {
        ids.flat_map(|id| format!("{{\"_id\":{id}}}\n").into_bytes()).collect::<Vec<u8>>()
    };
    let packers: [(&str, Packer); 2] = [("gz", gzip), ("zst", zstd)];
    on_both(&[], |fixture| {
        for (ending, packed) in packers {
            let (first, second) = (packed(&lines(0..1000)), packed(&lines(1000..1500)));
            let imported = |status, after: &[u8], count: i64| {
                let input = [&first[..], &second, after].concat();
                // By its name, and by its bytes alone.
                for name in [&format!("a.ndjson.{ending}"), ending] {
                    fixture.empty();
                    let report = fixture.imported_with(status, name, &input, &[]);
                    counts(&report, &[("read", count), ("inserted", count), ("rejected", 0)]);
                    assert_eq!(fixture.documents().len() as i64, count, "{report}");
                    let error =
                        report.get_document("error").map_or("", |error| error.get_str("message").unwrap());
                    assert_eq!(
                        error.contains(name) && error.contains("nor padding"),
                        status == 4,
                        "{report}"
                    );
                }
            };
            imported(0, &[0; 1024], 1500);
            imported(0, &[&[0; 512], &packed(&lines(1500..1501))[..]].concat(), 1501);
            imported(4, b"rubbish", 1500);
            imported(4, &[0, 0, 0, 7], 1500);
            // One that ends within a member.
            let cut = [&first[..], &second[..second.len() - 5]].concat();
            fixture.empty();
            let report = fixture.imported_with(4, "cut", &cut, &["--batch", "300"]);
            let stored = fixture.documents().len();
            assert!(stored >= 1000, "{report}");
            counts(&report, &[("read", stored as i64), ("inserted", stored as i64)]);
        }
    });
}

/// As a shell's `<(zcat a.gz)`: a pipe is opened once, and nothing of it is lost.
#[test]
fn pipes_are_files_like_others() {
    let fixture = Fixture::new(&[], false);
    for name in ["one", "two"] {
        assert!(Command::new("mkfifo").arg(fixture.path(name)).status().unwrap().success());
    }
    let arguments = ["shop.orders", "one", "two", "--format", "csv", "--rejects", "rejects"];
    let child = fixture.run("import", &arguments).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::write(fixture.path("one"), "_id\n1\n2\n").unwrap();
    std::fs::write(fixture.path("two"), "_id\n3\n").unwrap();
    complains(&child.wait_with_output().unwrap(), 0, "3 inserted");
}

#[test]
fn nothing_is_dropped_for_an_input_that_is_wrong() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        std::fs::write(fixture.path("good.csv"), "a,b\n1,2\n").unwrap();
        std::fs::write(fixture.path("wrong.csv"), "a,a.b\n1,2\n").unwrap();
        fixture.import_refused(
            &["shop.orders", "good.csv", "wrong.csv", "--drop"],
            1,
            "wrong.csv: the header",
        );
        fixture.import_refused(&["shop.orders", "good.csv", "absent.csv", "--truncate"], 1, "absent.csv");
        std::fs::write(fixture.path("good.csv.rejects.ndjson"), "x").unwrap();
        fixture.import_refused(
            &["shop.orders", "good.csv", "--drop"],
            2,
            "good.csv.rejects.ndjson is there already",
        );
        assert_eq!(fixture.documents(), [doc! { "_id": 1 }]);
    });
}

/// Doubles were read with an algorithm that is one bit off for one number in ten.
#[test]
fn doubles_of_json_come_in_to_the_last_bit() {
    let mut dice = crate::fixture::dice::Dice::new("doubles");
    let mut doubles = vec![0.945_270_695_553_922_3, f64::MIN_POSITIVE, 5e-324, f64::MAX, 1e23];
    // Those that one application or another has: between 0 and 1, and of any bits.
    let one = 1_f64.to_bits();
    doubles.extend((0..5_000).map(|_| f64::from_bits(one | dice.below(1 << 52)) - 1.0));
    let bits = (0..5_000).map(|_| f64::from_bits(dice.below(u64::MAX)));
    doubles.extend(bits.filter(|double| double.is_finite()));
    let line = |(id, double): (usize, &f64)| format!("{{\"_id\":{id},\"x\":{double:?}}}\n");
    let lines: Vec<String> = doubles.iter().enumerate().map(line).collect();
    let array = format!("[{}]", lines.join(","));
    on_both(&[], |fixture| {
        for (name, text) in [("a.ndjson", lines.concat()), ("a.json", array.clone())] {
            fixture.imported(name, text.as_bytes(), &["--drop"]);
            let found = fixture.documents();
            assert_eq!(found.len(), doubles.len());
            for (document, expected) in found.iter().zip(&doubles) {
                let id = document.get_i32("_id").unwrap();
                assert_eq!(document.get_f64("x").unwrap().to_bits(), expected.to_bits(), "{name}, {id}");
            }
        }
        // Back by a file: what `export` writes is what `import` reads.
        let output = fixture.export(&["shop.orders", "--sort", r#"{"_id":1}"#]);
        let before = fixture.stored();
        fixture.imported("b.ndjson", &output.stdout, &["--drop"]);
        assert_eq!(fixture.stored(), before);
        let filter = r#"{"x":0.9452706955539223}"#;
        fixture.check(&["--filter", filter], "{\"_id\":0,\"x\":0.9452706955539223}\n");
    });
    let fixture = Fixture::new(&[doc! { "_id": 0.945_270_695_553_922_3 }], false);
    let found = fixture.run("inspect", &["shop.orders", "--id", "0.9452706955539223"]).output().unwrap();
    complains(&found, 0, "");
}

/// A server that stops removes its socket: the same command made a folder of that name, and said that all was well.
#[test]
fn no_folder_is_made_under_the_name_of_a_socket() {
    let mut fixture = Fixture::new(&[], true);
    std::fs::write(fixture.path("a.ndjson"), "{\"_id\":1}\n").unwrap();
    complains(&fixture.import(&["shop.orders", "a.ndjson"]), 0, "");
    complains(&fixture.run("dump", &["d"]).output().unwrap(), 0, "");
    fixture.kill_in_order();
    assert!(!fixture.path("s.sock").exists());
    let run = |words: &[&str]| cairn().args(words).current_dir(fixture.folder.path()).output().unwrap();
    for name in ["s.sock", "s.socket"] {
        for words in [
            &["import", name, "shop.orders", "a.ndjson"][..],
            &["import", name, "shop.orders", "a.ndjson", "--dry-run"],
            &["import", name, "shop.orders", "a.ndjson", "--mode", "upsert", "--dry-run"],
            &["restore", name, "d"],
            &["restore", name, "d", "--dry-run"],
            &["export", name, "shop.orders"],
            &["serve", name, "--port", "0"],
            &["user", "add", name, "ada"],
            &["backup", "db", name],
            &["dump", "db", name],
            &["salvage", "db", name],
        ] {
            complains(&run(words), 6, &format!("there is no socket {name}: a server that listened"));
            assert!(!fixture.path(name).exists(), "{words:?}");
        }
    }
    // A folder that is there is opened, whatever its name is.
    std::fs::rename(fixture.path("db"), fixture.path("s.sock")).unwrap();
    complains(&run(&["import", "s.sock", "shop.orders", "a.ndjson", "--skip-existing"]), 0, "1 skipped");
}

#[test]
fn what_was_read_is_counted_however_the_import_ends() {
    let fixture = Fixture::new(&[], false);
    let good = (0..200).map(|id| format!("{{\"_id\":{id}}}\n")).collect::<Vec<_>>().concat();
    let report = fixture.imported_with(
        3,
        "a.ndjson",
        format!("{good}x\n{good}").as_bytes(),
        &["--max-rejects", "0", "--batch", "10"],
    );
    counts(&report, &[("read", 201), ("inserted", 200)]);
    assert!(report.get_i32("bytes").unwrap() >= good.len() as i32, "{report}");
    // A file that is cut in the middle of its stream.
    let packed = gzip(good.repeat(2_000).as_bytes());
    let report = fixture.imported_with(
        4,
        "b.ndjson.gz",
        &packed[..packed.len() - 9],
        &["--drop", "--max-rejects", "all"],
    );
    assert!(report.get_i32("bytes").unwrap() > 0, "{report}");
}
