//! `cairn export` as a process, on a folder and through the socket of a server.

// The application of the guide, which is looked into.
#[allow(dead_code, reason = "it is a program, with a `main` of its own")]
#[path = "../../linked/server/examples/looking_in.rs"]
mod looking_in;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};
use cairndb_server::Server;
#[cfg(feature = "shell")]
use rustix::process::Signal;

use crate::fixture::examples::root;
use crate::fixture::signals::send_and_wait;
use crate::fixture::{Fixture, cairn, complains, every_type, on_both, prints_in_little_memory, read};

#[test]
fn every_type_comes_back_from_canonical_and_bson() {
    on_both(&[every_type()], |fixture| {
        let stored = cairndb::bson::serialize_to_vec(&every_type()).unwrap();
        assert_eq!(fixture.export(&["shop.orders", "--format", "bson"]).stdout, stored);
        let line = fixture.export(&["shop.orders", "--canonical"]).stdout;
        let parsed: Document = serde_json::from_slice(&line).unwrap();
        assert_eq!(cairndb::bson::serialize_to_vec(&parsed).unwrap(), stored);
        let output = fixture.export(&["shop.orders", "--format", "json", "--pretty", "--canonical"]);
        let parsed: Vec<Document> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(cairndb::bson::serialize_to_vec(&parsed[0]).unwrap(), stored);
    });
}

#[test]
fn options_choose_documents() {
    let documents: Vec<_> = (0..5).map(|id| doc! { "_id": id, "half": id / 2 }).collect();
    on_both(&documents, |fixture| {
        std::fs::write(fixture.path("filter.json"), r#"{"_id": {"$gt": 2}}"#).unwrap();
        fixture.check(&["--filter", "@filter.json"], "{\"_id\":3,\"half\":1}\n{\"_id\":4,\"half\":2}\n");
        fixture.check(
            &[
                "--sort",
                r#"{"half": -1, "_id": 1}"#,
                "--skip",
                "1",
                "--limit",
                "2",
                "--projection",
                r#"{"half": 0}"#,
            ],
            "{\"_id\":2}\n{\"_id\":3}\n",
        );
        fixture.check(
            &["--filter", r#"{"_id":{"$numberInt":"1"}}"#, "--hint", "_id_"],
            "{\"_id\":1,\"half\":0}\n",
        );
        fixture.check(
            &["--pipeline", r#"[{"$group": {"_id": null, "n": {"$sum": 1}}}]"#],
            "{\"_id\":null,\"n\":5}\n",
        );
        fixture.check(&["--limit", "1", "--format", "json"], "[\n{\"_id\":0,\"half\":0}\n]\n");
        fixture.check(&["--filter", r#"{"x":1}"#, "--format", "json"], "[\n]\n");
    });
}

#[cfg(feature = "shell")]
#[test]
fn filters_and_sorts_are_written_as_in_the_shell() {
    let documents = [
        doc! { "_id": ObjectId::from_bytes([7; 12]), "n": 1, "name": "Ada" },
        doc! { "_id": 2, "n": 2_i64, "name": "Grace" },
        doc! { "_id": 3, "n": 3, "name": "Adam" },
    ];
    on_both(&documents, |fixture| {
        let two = "{\"_id\":2,\"n\":2,\"name\":\"Grace\"}\n";
        fixture.check(&["--filter", "{name: {$not: /^ada/i}}"], two);
        fixture.check(&["--filter", "{n: NumberLong(2)} // a comment"], two);
        fixture
            .check(&["--projection", "{_id: 0, n: 1}", "--sort", "{n: -1}", "--limit", "1"], "{\"n\":3}\n");
        fixture.check(
            &["--pipeline", "[{$match: {_id: ObjectId('07'.repeat(12))}}, {$project: {_id: 0, n: 1}}]"],
            "{\"n\":1}\n",
        );
        // In JavaScript this would be a document with a field `$oid`.
        fixture.check(
            &[
                "--filter",
                r#"{"_id": {"$oid": "070707070707070707070707"}}"#,
                "--fields",
                "n",
                "--format",
                "csv",
            ],
            "n\n1\n",
        );
        fixture.refused(&["shop.orders", "--filter", "{name: }"], 2, "--filter:1:");
        fixture.refused(&["shop.orders", "--filter", "/Ada/"], 2, "--filter must be a document");
        fixture.refused(&["shop.orders", "--sort", "undefined"], 2, "--sort must be a document");
        fixture.refused(&["shop.orders", "--pipeline", "{}"], 2, "--pipeline must be an array");
        fixture.refused(
            &["shop.orders", "--pipeline", "[{$out: 'x'}]"],
            2,
            "has the stage $out, which writes",
        );
        fixture.refused(&["shop.orders", "--filter", "exit(0)"], 2, "--filter must have a value");
        fixture.refused(&["shop.orders", "--filter", "'x'.repeat(1e9)"], 2, "--filter");
        // The store of the expression is an empty one.
        fixture.refused(&["shop.orders", "--filter", "db.orders.insertOne({_id: 9}).n"], 2, "--filter");
        fixture.check(&["--filter", "{_id: 9}"], "");
    });
}

/// A build without the shell has no other language to try.
#[cfg(not(feature = "shell"))]
#[test]
fn filters_are_extended_json_without_the_shell() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    fixture.check(&["--filter", r#"{"_id": 1}"#], "{\"_id\":1}\n");
    fixture.refused(&["shop.orders", "--filter", "{_id: 1}"], 2, "takes Extended JSON only");
}

/// A filter of a few words may be endless in BSON. It was built as a whole, in gigabytes, and what came of it was an error of
/// the encoding, or a panic.
#[cfg(feature = "shell")]
#[test]
fn filters_have_a_largest_size() {
    let fixture = Fixture::new(&[], false);
    let shared = "(() => { let a = {x: 1}; for (let i = 0; i < 40; i++) a = {l: a, r: a}; return a })()";
    let texts = "(() => { let s = 'x'.repeat(1e6); return {n: {$in: Array(3000).fill(s)}} })()";
    for (filter, words) in [
        (shared, "--filter: RangeError: the value is larger than 16 MiB as BSON: (() => { let a"),
        (texts, "--filter: RangeError: the value is larger than 16 MiB as BSON: (() => { let s"),
        ("{n: {$in: Array(3e6).fill(1)}}", "--filter: RangeError: the value is larger than 16 MiB as BSON"),
        (
            "{n: {$in: Array(2 ** 32 - 1)}}",
            "--filter: RangeError: an array of 4294967295 elements is larger than 16 MiB as BSON",
        ),
    ] {
        fixture.refused(&["shop.orders", "--filter", filter], 2, words);
    }
    // What is not a document is shown as far as people read.
    let output = fixture.export(&["shop.orders", "--filter", "Array(1e5).fill('x')"]);
    complains(&output, 2, "--filter must be a document, and is [\"x\", ");
    assert!(output.stderr.len() < 1000, "{}", output.stderr.len());
}

#[test]
fn tables_have_cells_of_every_type() {
    let documents = [
        every_type(),
        doc! { "_id": 1, "text": "=1+1", "document": { "z": "a,b" }, "array": [1], "whole": f64::NEG_INFINITY },
    ];
    on_both(&documents, |fixture| {
        let fields = "_id,text,document.z,array,array.0,date,last,null,absent,decimal,flag,whole";
        let first = "070707070707070707070707,\"a \"\"b\"\"\n\u{1}ü\",1,\"[1,[2,{}]]\",1,1970-01-01T00:00:00.001Z,\
                     +292278994-08-17T07:12:55.807Z,,,1.50,true,2.0";
        let second = ["'=1+1,\"a,b\",[1],1,,,,,,,-Infinity"].map(|cells| format!("1,{cells}"));
        // Numbers sort before ids.
        let expected = format!("{fields}\n{}\n{first}\n", second[0]);
        let sort = r#"{"_id": 1}"#;
        fixture
            .check(&["--format", "csv", "--fields", fields, "--for-spreadsheets", "--sort", sort], &expected);
        fixture.check(
            &["--format", "tsv", "--fields", "_id,document.z", "--sort", sort],
            "_id\tdocument.z\n1\ta,b\n070707070707070707070707\t1\n",
        );
    });
}

#[test]
fn auto_takes_the_paths_of_the_first_documents() {
    on_both(&[doc! { "_id": 1, "a": { "b": 1, "c": 2 } }, doc! { "_id": 2, "a": 3, "d": 4 }], |fixture| {
        fixture.check(
            &["--format", "csv", "--fields", "auto"],
            "_id,a,d\n1,\"{\"\"b\"\":1,\"\"c\"\":2}\",\n2,3,4\n",
        );
    });
}

#[test]
fn what_a_format_cannot_carry_is_counted_and_named() {
    let mut documents: Vec<_> = (0..1_001).map(|id| doc! { "_id": id, "a": 1 }).collect();
    documents.push(doc! { "_id": 2_000, "later": 1 });
    documents.push(doc! { "_id": 2_001, "a": { "$oid": "x" } });
    documents.push(doc! { "_id": 2_002, "b.c": 1 });
    on_both(&documents, |fixture| {
        fixture.refused(&["shop.orders"], 3, "_id 2001: the field \"$oid\" reads as a type");
        let csv = ["shop.orders", "--format", "csv", "--fields", "auto"];
        fixture.refused(&csv, 3, "_id 2000: \"later\": no column has it");
        fixture.refused(&csv, 3, "_id 2002: \"b.c\": a name has a dot in it");
        let output = fixture.export(&["shop.orders", "--json", "--format", "csv", "--fields", "auto"]);
        let told = String::from_utf8(output.stderr).unwrap();
        let report: Document = told.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
        let lossy = report.get("lossy").and_then(|lossy| lossy.as_i64().or(lossy.as_i32().map(i64::from)));
        assert_eq!(lossy, Some(2), "{report}");
        fixture.check(&["--filter", r#"{"_id":2000}"#, "--format", "csv", "--fields", "_id"], "_id\n2000\n");
    });
}

#[test]
fn files_are_whole_or_absent() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        assert!(fixture.export(&["shop.orders", "a.ndjson"]).status.success());
        assert_eq!(read(&fixture.path("a.ndjson")), b"{\"_id\":1}\n");
        fixture.refused(&["shop.orders", "a.ndjson", "--filter", r#"{"_id":2}"#], 2, "--overwrite");
        assert_eq!(read(&fixture.path("a.ndjson")), b"{\"_id\":1}\n");
        fixture.refused(&["shop.orders", "b.ndjson", "--filter", r#"{"$x":1}"#], 1, "$x");
        fixture.refused(&["shop.orders", "absent/b.ndjson"], 1, "absent/b.ndjson");
        // What a killed process left is no obstacle.
        std::fs::write(fixture.path("a.ndjson.partial"), "{\"_id\":1}\n{\"_id\":1}\n{\"_i").unwrap();
        assert!(
            fixture
                .export(&["shop.orders", "a.ndjson", "--overwrite", "--filter", r#"{"_id":2}"#])
                .status
                .success()
        );
        assert_eq!(read(&fixture.path("a.ndjson")), b"");
        assert_eq!(fixture.files(), ["a.ndjson"]);
    });
}

#[test]
fn endings_compress() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    assert!(fixture.export(&["shop.orders", "a.gz"]).status.success());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*read(&fixture.path("a.gz"))).read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"_id\":1}\n");
    assert!(fixture.export(&["shop.orders", "a.zst"]).status.success());
    assert_eq!(zstd::decode_all(&*read(&fixture.path("a.zst"))).unwrap(), text.as_bytes());
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    let documents: Vec<_> = (0..2_000).map(|id| doc! { "_id": id, "text": "x".repeat(1_000) }).collect();
    on_both(&documents, |fixture| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = fixture.command(&["shop.orders"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output: No space left"));
        let mut child =
            fixture.command(&["shop.orders"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    });
}

#[test]
fn a_signal_ends_it_in_order() {
    let documents: Vec<_> = (0..2_000).map(|id| doc! { "_id": id, "text": "x".repeat(1_000) }).collect();
    on_both(&documents, |fixture| {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut child = fixture
                .command(&["shop.orders", "--json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut text = String::new();
            // The pipe is full now, or will be, and the command in the middle of the documents.
            out.read_line(&mut text).unwrap();
            send_and_wait(&child, signal);
            out.read_to_string(&mut text).unwrap();
            let output = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(status), "{told}");
            assert!(told.contains("\"interrupted\":true"), "{told}");
            assert!(text.lines().all(|line| serde_json::from_str::<Document>(line).is_ok()));
        }
    });
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        fixture.refused(&["orders"], 2, "\"orders\" is not a DB.COLLECTION");
        fixture.refused(
            &["shop.orders", "--format", "bson", "--canonical"],
            2,
            "--canonical is for the formats ndjson and json",
        );
        fixture.refused(&["shop.orders", "--filter", "{a: }"], 2, "--filter");
        fixture.refused(&["shop.orders", "--filter", "[]"], 2, "--filter must be a document");
        fixture.refused(&["shop.orders", "--filter", "{}", "--pipeline", "[]"], 2, "cannot be used with");
        fixture.refused(&["shop.orders", "--pipeline", r#"[{"$out": "x"}]"#], 2, "$out");
        fixture.refused(&["shop.orderz"], 1, "there is no collection shop.orderz");
    });
}

#[test]
fn stores_that_are_not_there_have_a_status_of_their_own() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let run = |store: &str| {
        let output =
            cairn().args(["export", store, "a.b"]).current_dir(fixture.folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let makers = "cairn import, restore, migrate --from, serve and user add make one";
    assert_eq!(run("absent"), (Some(6), format!("cairn: there is no database at absent; {makers}\n")));
    assert!(!fixture.path("absent").exists());
    drop(std::os::unix::net::UnixListener::bind(fixture.path("stale")).unwrap());
    let (status, told) = run("stale");
    assert!(status == Some(6) && told.contains("stale: no server listens"), "{told}");
    let (status, told) = run("mongodb://ada@127.0.0.1:1/");
    assert!(status == Some(2) && told.contains("--password-file"), "{told}");
    let (status, told) = run("mongodb://ada:secret@127.0.0.1:1/?serverSelectionTimeoutMS=10");
    assert!(
        status == Some(6) && told.contains("the URI has a password") && !told.contains("secret"),
        "{told}"
    );
}

/// Whatever a command does with a store, a file in the place of its folder is told in the same way.
#[test]
fn a_file_in_the_place_of_a_folder_is_no_store() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::write(fixture.path("file"), "x").unwrap();
    std::fs::write(fixture.path("a.ndjson"), "{}").unwrap();
    let commands: [&[&str]; 14] = [
        &["stats", "file"],
        &["sequences", "file"],
        &["verify", "file"],
        &["export", "file", "a.b"],
        &["dump", "file", "dumped"],
        &["inspect", "file", "a.b", "--id", "1"],
        &["compact", "file"],
        &["backup", "file", "copy"],
        &["salvage", "file", "new"],
        &["import", "file", "a.b", "a.ndjson"],
        &["serve", "file", "--port", "0"],
        &["user", "list", "file"],
        &["user", "remove", "file", "ada"],
        &["user", "add", "file", "ada"],
    ];
    for words in commands {
        let mut command = cairn();
        command.args(words).current_dir(fixture.folder.path()).env("CAIRN_PASSWORD", "secret");
        complains(&command.output().unwrap(), 6, "file");
    }
    #[cfg(feature = "shell")]
    for words in [&["query", "file", "1"][..], &["shell", "file", "--eval", "1"]] {
        complains(&cairn().args(words).current_dir(fixture.folder.path()).output().unwrap(), 6, "file");
    }
    assert_eq!(read(&fixture.path("file")), b"x");
    assert_eq!(fixture.files(), ["a.ndjson", "file"]);
}

/// Scripts read the report, whatever is wrong.
#[test]
fn a_wrong_option_is_reported_as_one_line_of_json() {
    let run = |words: &[&str]| {
        let output = cairn().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        output
    };
    let report =
        |bytes: &[u8]| -> serde_json::Value { serde_json::from_slice(bytes).expect("one line of JSON") };
    let output = run(&["import", "db", "a.b", "--json", "--bach", "5"]);
    let told = report(&output.stdout);
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(told.pointer("/error/kind"), Some(&serde_json::json!("usage")));
    let message = told.pointer("/error/message").and_then(serde_json::Value::as_str).unwrap();
    assert!(message.contains("'--bach'") && !message.contains('\n'), "{message}");
    // Where documents would go to standard output.
    for words in [
        &["export", "db", "--json", "--limit", "x"][..],
        &["dump", "db", "--archive", "-", "--json", "-j", "0"],
    ] {
        let output = run(words);
        assert!(output.stdout.is_empty(), "{output:?}");
        assert_eq!(report(&output.stderr).get("ok"), Some(&serde_json::json!(false)));
    }
    let plain = run(&["import", "db", "a.b", "--bach", "5"]);
    assert!(plain.stdout.is_empty() && String::from_utf8_lossy(&plain.stderr).contains("tip:"), "{plain:?}");
}

#[test]
fn versions_of_all_parts_are_told() {
    let run = |words: &[&str]| {
        let output = cairn().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told: serde_json::Value = serde_json::from_str(&run(&["version", "--json"])).unwrap();
    let expected = serde_json::json!({
        "command": "version", "ok": true, "elapsedMs": told["elapsedMs"], "tool": env!("CARGO_PKG_VERSION"),
        "format": cairndb::FORMAT_VERSION, "rocksdb": cairndb::ROCKSDB_VERSION, "wireVersion": 25,
        "pcre2": "10.46", "collationRules": "icu4x-2.4.0",
    });
    assert_eq!(told, expected);
    // The constant is that of the crate which is linked.
    let lock = read(&root().join("Cargo.lock"));
    let lock = String::from_utf8(lock).unwrap();
    let (_, linked) = lock.split_once("name = \"librocksdb-sys\"\nversion = \"").unwrap();
    let version = linked.split('"').next().unwrap();
    assert!(version.ends_with(&format!("+{}", cairndb::ROCKSDB_VERSION)), "{version}");
    let lines = run(&["version"]);
    assert!(lines.starts_with(&run(&["--version"])) && lines.lines().count() == 6, "{lines}");
}

#[test]
fn users_log_in_by_a_file_with_the_password() {
    let mut fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let mut add = cairn()
        .args(["user", "add"])
        .arg(fixture.path("db"))
        .arg("ada")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    add.stdin.take().unwrap().write_all(b"p@ss:w/rd\n").unwrap();
    assert!(add.wait().unwrap().success());
    fixture.serve();
    std::fs::write(fixture.path("password"), "p@ss:w/rd\n").unwrap();
    std::fs::write(fixture.path("wrong"), "other\n").unwrap();
    let socket = fixture.path("s.sock").to_str().unwrap().replace('/', "%2F");
    let run = |file: &str| {
        let uri = format!("mongodb://ada@{socket}/");
        let mut command = cairn();
        command.args(["export", &uri, "shop.orders", "--password-file"]).arg(fixture.path(file));
        command.output().unwrap()
    };
    assert_eq!(run("password").stdout, b"{\"_id\":1}\n");
    let wrong = run("wrong");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("other"));
}

#[test]
fn a_folder_is_read_while_another_process_has_it_open() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).unwrap();
    fixture.check(&[], "{\"_id\":1}\n");
    client.close().unwrap();
}

#[test]
fn a_running_application_is_looked_into_by_its_socket() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).unwrap();
    let orders: Collection<Document> = client.database("shop").collection("orders");
    let running = Server::builder(client.clone()).unix_socket(fixture.path("own")).spawn().unwrap();
    orders.insert_one(doc! { "_id": 2 }).run().unwrap();
    let output = cairn().arg("export").arg(fixture.path("own")).arg("shop.orders").output().unwrap();
    assert_eq!(output.stdout, b"{\"_id\":1}\n{\"_id\":2}\n");
    running.stop();
    client.close().unwrap();
}

/// The example of the guide, run as the application that it is.
#[test]
fn the_example_of_an_application_is_looked_into_while_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let [store, socket] = ["shop-data", "shop.sock"].map(|name| folder.path().join(name));
    let (end, ended) = std::sync::mpsc::channel();
    let (place, listens) = (&store, &socket);
    // The channel goes with the closure, so that the application ends whatever is found of it.
    let taken = std::thread::scope(move |scope| {
        let application = scope.spawn(move || {
            looking_in::run(place, listens, Duration::from_millis(2), &ended)
                .map_err(|error| error.to_string())
        });
        let exported = loop {
            let output =
                cairn().arg("export").arg(listens).args(["shop.orders", "--quiet"]).output().unwrap();
            let lines = String::from_utf8(output.stdout).unwrap().lines().count() as u64;
            // It takes a moment until the application listens.
            if lines > 5 || application.is_finished() {
                break lines;
            }
        };
        assert!(exported > 5);
        // From outside its folder is taken, and the message says what to do.
        let outside = cairn().arg("compact").arg(place).output().unwrap();
        complains(&outside, 5, "give the socket");
        drop(end);
        let taken = application.join().unwrap().unwrap();
        assert!(taken >= exported, "{taken} orders, and {exported} were seen");
        taken
    });
    let client = Client::open(&store).unwrap();
    let orders: Collection<Document> = client.database("shop").collection("orders");
    assert_eq!(orders.count_documents(doc! {}).run().unwrap(), taken);
    client.close().unwrap();
}

#[test]
fn memory_does_not_grow_with_the_documents() {
    prints_in_little_memory("export", &["shop.orders", "--format", "bson"]);
}

/// A folder that is only read has temporary files too.
#[test]
fn memory_does_not_grow_with_what_is_sorted() {
    prints_in_little_memory("export", &["shop.orders", "--format", "bson", "--sort", r#"{"total": -1}"#]);
}

#[test]
fn descriptions_come_from_the_definitions() {
    let run = |arguments: &[&str]| {
        let output = cairn().args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (status, script) = run(&["completions", shell]);
        assert!(status == Some(0) && script.contains("for-spreadsheets"), "{shell}");
    }
    assert!(run(&["man"]).1.contains(".TH cairn "));
    let (status, page) = run(&["man", "export"]);
    assert!(
        status == Some(0) && page.contains(".TH cairn-export ") && page.contains("for\\-spreadsheets"),
        "{page}"
    );
    assert_eq!(run(&["man", "exporz"]).0, Some(2));
}

/// As an import takes it: the name says the format, and a table has the fields of the documents.
#[test]
fn the_name_of_a_file_says_its_format() {
    on_both(&[doc! { "_id": 1, "a": "x" }], |fixture| {
        for (name, expected) in [
            ("a.json", "[\n{\"_id\":1,\"a\":\"x\"}\n]\n"),
            ("a.ndjson", "{\"_id\":1,\"a\":\"x\"}\n"),
            ("a.jsonl", "{\"_id\":1,\"a\":\"x\"}\n"),
            ("a.csv", "_id,a\n1,x\n"),
            ("A.TSV", "_id\ta\n1\tx\n"),
            ("a.txt", "{\"_id\":1,\"a\":\"x\"}\n"),
        ] {
            complains(&fixture.export(&["shop.orders", name]), 0, "");
            assert_eq!(String::from_utf8(read(&fixture.path(name))).unwrap(), expected, "{name}");
        }
        complains(&fixture.export(&["shop.orders", "a.bson"]), 0, "");
        assert_eq!(read(&fixture.path("a.bson"))[4], 0x10);
        complains(&fixture.export(&["shop.orders", "a.csv.gz", "--format", "json"]), 0, "");
        fixture.check(&["--format", "csv"], "_id,a\n1,x\n");
        fixture.refused(
            &["shop.orders", "b.csv", "--canonical"],
            2,
            "--canonical is for the formats ndjson and json",
        );
    });
}

/// A name of a field, and a text that begins with a tab or a line end, are run as well.
#[test]
fn nothing_in_a_spreadsheet_is_run() {
    let document = doc! { "_id": 1, "=x": "\t=1", "-y": "\r=1", "n": -5, "z": "a" };
    let fixture = Fixture::new(&[document], false);
    fixture.check(&["--format", "csv", "--for-spreadsheets"], "_id,'=x,'-y,n,z\n1,'\t=1,\"'\r=1\",-5,a\n");
    fixture.check(&["--format", "csv"], "_id,=x,-y,n,z\n1,\t=1,\"\r=1\",-5,a\n");
}

#[test]
fn a_file_has_the_mode_that_others_have() {
    use std::os::unix::fs::PermissionsExt;

    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let mode = |name: &str| std::fs::metadata(fixture.path(name)).unwrap().permissions().mode() & 0o777;
    for (umask, expected) in [("022", 0o644), ("077", 0o600), ("007", 0o660)] {
        let name = format!("{umask}.ndjson");
        let script = format!("umask {umask}; exec \"$0\" export db shop.orders {name}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_cairn")).current_dir(fixture.folder.path());
        complains(&shell.output().unwrap(), 0, "");
        assert_eq!(mode(&name), expected);
    }
    std::fs::set_permissions(fixture.path("022.ndjson"), std::fs::Permissions::from_mode(0o640)).unwrap();
    complains(&fixture.export(&["shop.orders", "022.ndjson", "--overwrite"]), 0, "");
    assert_eq!(mode("022.ndjson"), 0o640);
}

/// `--overwrite` put a file in the place of a device or a link, and without it a pipe was refused.
#[test]
fn pipes_links_and_devices_are_written_through() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        complains(&fixture.export(&["shop.orders", "/dev/null"]), 0, "exported 1 document,");
        complains(&fixture.export(&["shop.orders", "/dev/null", "--overwrite"]), 0, "exported 1 document,");
        fixture.refused(&["shop.orders", "/dev/full"], 1, "/dev/full: No space left");
        assert!(Command::new("mkfifo").arg(fixture.path("pipe")).status().unwrap().success());
        let reader = Command::new("cat").arg(fixture.path("pipe")).stdout(Stdio::piped()).spawn().unwrap();
        complains(&fixture.export(&["shop.orders", "pipe"]), 0, "");
        assert_eq!(reader.wait_with_output().unwrap().stdout, b"{\"_id\":1}\n");
        let script = "\"$0\" export \"$1\" shop.orders /dev/stdout | cat";
        let mut shell = Command::new("sh");
        let store = if fixture.path("s.sock").exists() { "s.sock" } else { "db" };
        shell.args(["-c", script, env!("CARGO_BIN_EXE_cairn"), store]).current_dir(fixture.folder.path());
        assert_eq!(shell.output().unwrap().stdout, b"{\"_id\":1}\n");
        std::os::unix::fs::symlink("real.ndjson", fixture.path("link.ndjson")).unwrap();
        complains(&fixture.export(&["shop.orders", "link.ndjson"]), 0, "");
        fixture.refused(&["shop.orders", "link.ndjson"], 2, "--overwrite");
        let none = r#"{"_id":2}"#;
        complains(&fixture.export(&["shop.orders", "link.ndjson", "--overwrite", "--filter", none]), 0, "");
        assert!(std::fs::symlink_metadata(fixture.path("link.ndjson")).unwrap().file_type().is_symlink());
        assert_eq!(read(&fixture.path("real.ndjson")), b"");
        complains(&fixture.run("dump", &["--archive", "/dev/null"]).output().unwrap(), 0, "");
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    });
}

/// A filter that lacks a bracket was run as a script, which told of a script, or matched nothing in silence.
#[test]
fn a_filter_that_is_nearly_json_is_told_as_json() {
    let fixture = Fixture::new(&[doc! { "_id": 1, "a": 1 }], false);
    for filter in [
        "{\"a\": {\"$gt\": 0}",
        "{\"_id\": {\"$oid\": \"0123456789abcdef01234567\"},}",
        "{\"a\": 1 \"b\": 2}",
    ] {
        let output = fixture.export(&["shop.orders", "--filter", filter]);
        complains(&output, 2, "--filter is not JSON: ");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("SyntaxError"), "{output:?}");
    }
    if cfg!(feature = "shell") {
        fixture.check(&["--filter", "{\"a\": NumberInt(1)}"], "{\"_id\":1,\"a\":1}\n");
    }
}
