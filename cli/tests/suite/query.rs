//! `cairn query` as a process, on a folder and through the socket of a server.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};
use rustix::process::Signal;

use crate::fixture::signals::send;
use crate::fixture::{Fixture, cairn, complains, every_type, on_both, prints_in_little_memory};

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("query", more).output().expect("it works")
}

#[track_caller]
fn check(fixture: &Fixture, more: &[&str], expected: &str) {
    let output = run(fixture, more);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).expect("it works"), expected);
}

fn orders() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "total": 30, "customer": "Ada" },
        doc! { "_id": 2, "total": 10.5, "customer": "Blaise", "tags": ["a", "b"] },
        doc! { "_id": 3, "total": 50_i64, "customer": "Grace" },
    ]
}

/// The pipeline of a database took four of the options, and one that writes was not run unless its answer was read.
#[test]
fn a_pipeline_of_a_database_has_all_options_and_writes_at_once() {
    on_both(&orders(), |fixture| {
        let documents = r#"{$documents: [{s: "b"}, {s: "A"}, {s: "a"}]}, {$sort: {s: 1}}"#;
        let sorted = format!(
            "db.aggregate([{documents}], {{collation: {{locale: 'en'}}}}).map((one) => ({{s: one.s}}))"
        );
        check(fixture, &[&sorted], "{\"s\":\"a\"}\n{\"s\":\"A\"}\n{\"s\":\"b\"}\n");
        let script = "db.createCollection('strict', {validator: {n: {$type: 'int'}}});
            db.aggregate([{$documents: [{_id: 1, n: 'x'}]}, {$merge: 'strict'}], {bypassDocumentValidation: true});
            db.strict.find()";
        check(fixture, &[script], "{\"_id\":1,\"n\":\"x\"}\n");
    });
}

#[test]
fn documents_of_a_cursor_are_lines() {
    on_both(&orders(), |fixture| {
        check(
            fixture,
            &["db.orders.find({total: {$gt: 20}}).sort({_id: -1}).limit(3)"],
            "{\"_id\":3,\"total\":50,\"customer\":\"Grace\"}\n{\"_id\":1,\"total\":30,\"customer\":\"Ada\"}\n",
        );
        check(
            fixture,
            &["db.orders.aggregate([{$group: {_id: null, n: {$sum: 1}}}])", "--canonical"],
            "{\"_id\":null,\"n\":{\"$numberInt\":\"3\"}}\n",
        );
        check(
            fixture,
            &["--db", "shop", "db.orders.find({}, {_id: 1}).map((one) => ({twice: one._id * 2}))"],
            "{\"twice\":2}\n{\"twice\":4}\n{\"twice\":6}\n",
        );
    });
}

#[test]
fn a_filter_or_a_pipeline_is_for_a_collection() {
    on_both(&orders(), |fixture| {
        check(
            fixture,
            &["-c", "orders", "{customer: /^ada/i}"],
            "{\"_id\":1,\"total\":30,\"customer\":\"Ada\"}\n",
        );
        check(
            fixture,
            &["-c", "orders", "[{$match: {_id: 2}}, {$project: {total: 1}}]"],
            "{\"_id\":2,\"total\":10.5}\n",
        );
        check(
            fixture,
            &["-c", "orders", "{_id: {$in: [1, 9]}} // one of them is there", "--format", "json"],
            "[\n{\"_id\":1,\"total\":30,\"customer\":\"Ada\"}\n]\n",
        );
        complains(
            &run(fixture, &["-c", "orders", "5"]),
            1,
            "a filter is a document, and a pipeline an array: 5 is neither",
        );
    });
}

/// As in MongoDB, nothing is found in it; but a mistyped name gave nothing to see.
#[test]
fn a_collection_that_is_not_there_is_told() {
    on_both(&orders(), |fixture| {
        for filter in ["{}", "[{$match: {a: 1}}]"] {
            let output = run(fixture, &["-c", "ordesr", filter]);
            complains(&output, 0, "cairn: there is no collection shop.ordesr\n");
            assert!(output.stdout.is_empty());
            let output = run(fixture, &["-c", "ordesr", filter, "--quiet"]);
            assert_eq!((output.status.code(), &*output.stderr), (Some(0), b"" as &[u8]));
            let output = run(fixture, &["-c", "ordesr", filter, "--json"]);
            let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("one line");
            assert_eq!((&report["ok"], &report["absent"]), (&true.into(), &"shop.ordesr".into()));
        }
        assert!(run(fixture, &["-c", "orders", "{_id: 9}"]).stderr.is_empty());
    });
}

/// The functions of the shell were stored as code, or left out.
#[test]
fn functions_of_the_shell_are_no_values_but_for_the_two_keys() {
    on_both(&[], |fixture| {
        let insert = "db.a.insertOne({_id: 1, min: MinKey, max: [MaxKey], made: MinKey()}); db.a.findOne()";
        let stored =
            "{\"_id\":1,\"min\":{\"$minKey\":1},\"max\":[{\"$maxKey\":1}],\"made\":{\"$minKey\":1}}\n";
        check(fixture, &[insert], stored);
        check(fixture, &["EJSON.stringify(MaxKey)"], "{\"$maxKey\":1}\n");
        check(fixture, &["print({a: MinKey})"], "{ a: MinKey() }\n");
        check(fixture, &["-c", "a", "{min: MinKey, max: MaxKey()}"], stored);
        check(
            fixture,
            &["-c", "a", "[{$match: {min: {$lte: MinKey}}}, {$project: {a: MaxKey}}]"],
            "{\"_id\":1,\"a\":{\"$maxKey\":1}}\n",
        );
        for (value, words) in [
            ("ObjectId", "a: it is a function of the shell: write ObjectId()"),
            ("[ISODate]", "a.0: it is a function of the shell: write ISODate()"),
            ("{b: NumberLong}", "a.b: it is a function of the shell: write NumberLong()"),
            ("UUID", "write UUID()"),
            ("Date", "write new Date()"),
            ("print", "write print()"),
            ("db.a", "a: it is a collection of the shell, and not a value"),
            ("Math.max", "a: it is the function max, whose code is not JavaScript"),
        ] {
            let filter = format!("{{a: {value}}}");
            complains(&run(fixture, &["-c", "a", &filter]), 1, words);
            complains(&run(fixture, &[&format!("db.a.insertOne({filter})")]), 1, words);
            complains(&run(fixture, &[&format!("db.a.updateOne({{}}, {{$set: {filter}}})")]), 1, words);
            complains(&fixture.run("export", &["shop.a", "--filter", &filter]).output().unwrap(), 2, words);
        }
        complains(&run(fixture, &["EJSON.stringify({a: ObjectId})"]), 1, "write ObjectId()");
        check(fixture, &["db.a.countDocuments()"], "1\n");
        // A function of one's own is its code.
        check(fixture, &["-c", "a", "{a: function () { return 1 }}"], "");
    });
}

/// The parenthesis that the tool puts before a filter was counted.
#[test]
fn what_is_wrong_with_a_filter_has_its_place() {
    on_both(&orders(), |fixture| {
        for (filter, place, words) in [
            ("{total: ]}", "1:9", "SyntaxError"),
            ("{total:\n 1]}", "2:3", "SyntaxError"),
            ("{customer: /[/}", "1:12", "SyntaxError"),
            ("{a: nothing}", "1:5", "ReferenceError: nothing is not defined"),
        ] {
            let place = format!("EXPRESSION:{place}: ");
            let output = run(fixture, &["-c", "orders", filter]);
            complains(&output, 1, &place);
            complains(&output, 1, words);
            let output = fixture.run("export", &["shop.orders", "--filter", filter]).output().unwrap();
            complains(&output, 2, &place.replace("EXPRESSION", "--filter"));
            complains(&output, 2, &filter.replace('\n', "\\n"));
        }
        for (filter, words) in [
            ("{customer: {$regex: 'a', $options: 'z'}}", "z"),
            ("{customer: {$regex: '['}}", "["),
            ("{$bogus: 1}", "$bogus"),
            ("{total: {$bogus: 1}}", "$bogus"),
            ("[{$bogus: 1}]", "$bogus"),
        ] {
            let output = run(fixture, &["-c", "orders", filter]);
            complains(&output, 1, words);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!told.contains("    at ") && !told.contains("Some("), "{told}");
            eprintln!("{told}");
        }
    });
}

/// The error followed on a line of its own, and messages may have ends of lines that JSON does not know.
#[test]
fn a_report_is_alone_on_its_stream() {
    on_both(&orders(), |fixture| {
        for expression in [
            "db.orders.find({$bogus: 1})",
            "throw new Error('a\\nb\\u2028c\\u0085d')",
            "db.orders.find({)",
            "exit(3)",
        ] {
            let output = run(fixture, &[expression, "--json"]);
            let told = String::from_utf8(output.stderr).expect("it is text");
            assert!(
                told.ends_with('\n') && !told.trim_end().contains(['\n', '\r', '\u{85}', '\u{2028}']),
                "{told}"
            );
            let report: serde_json::Value = serde_json::from_str(&told).expect("one line");
            assert_eq!((&report["ok"], output.status.code()), (&false.into(), Some(1)), "{told}");
        }
    });
}

#[test]
fn formats_are_for_programs_and_for_people() {
    on_both(&orders(), |fixture| {
        check(
            fixture,
            &["db.orders.find()", "--format", "csv"],
            "_id,total,customer,tags\n1,30,Ada,\n2,10.5,Blaise,\"[\"\"a\"\",\"\"b\"\"]\"\n3,50,Grace,\n",
        );
        check(
            fixture,
            &["db.orders.find()", "--format", "table"],
            "_id  total  customer  tags\n  1     30  Ada\n  2   10.5  Blaise    [\"a\",\"b\"]\n  3     50  Grace\n",
        );
        check(fixture, &["db.orders.find({_id: 9})", "--format", "json"], "[\n]\n");
        check(fixture, &["db.orders.find({_id: 9})"], "");
        complains(
            &run(fixture, &["1", "--format", "csv", "--canonical"]),
            2,
            "--canonical is for the formats ndjson and json",
        );
    });
}

#[test]
fn a_value_is_printed_as_it_is() {
    on_both(&orders(), |fixture| {
        for (expression, expected) in [
            ("db.orders.countDocuments()", "3\n"),
            ("'a\\n\"b\"'", "a\n\"b\"\n"),
            ("1 / 3", "0.3333333333333333\n"),
            ("1e300 * 1e300", "Infinity\n"),
            ("2n ** 60n", "1152921504606846976\n"),
            ("null", "null\n"),
            ("undefined", ""),
            ("'half \\ud800'", "half \u{fffd}\n"),
            ("[1, 'a', {b: NumberLong(2)}]", "[1,\"a\",{\"b\":2}]\n"),
            ("db.orders.distinct('customer')", "[\"Ada\",\"Blaise\",\"Grace\"]\n"),
            ("ObjectId('507f191e810c19729de860ea')", "{\"$oid\":\"507f191e810c19729de860ea\"}\n"),
            ("print('first', {a: 1}); 2", "first { a: 1 }\n2\n"),
            ("show('collections')", "orders\n"),
            ("db", "shop\n"),
            ("db.orders", "shop.orders\n"),
        ] {
            check(fixture, &[expression], expected);
        }
    });
}

/// A script knows one type of numbers, and the store several: what is only read is printed with the types of the store.
#[test]
fn what_is_read_and_not_changed_keeps_its_types() {
    on_both(&[every_type()], |fixture| {
        let lines = fixture.export(&["shop.orders", "--canonical"]).stdout;
        let expected = String::from_utf8(lines).expect("it works");
        check(fixture, &["db.orders.find()", "--canonical"], &expected);
        check(fixture, &["db.orders.findOne()", "--canonical"], &expected);
        let changed = run(fixture, &["const one = db.orders.findOne(); delete one.text; one", "--canonical"]);
        assert!(!String::from_utf8_lossy(&changed.stdout).contains("\"text\""));
    });
}

#[test]
fn fields_keep_their_order_even_if_their_names_are_numbers() {
    let document = doc! { "_id": 1, "b": 1, "10": 1, "2": { "9": 1, "1": 2 }, "a": 1 };
    let line = "{\"_id\":1,\"b\":1,\"10\":1,\"2\":{\"9\":1,\"1\":2},\"a\":1}\n";
    on_both(&[document], |fixture| {
        check(fixture, &["db.orders.find()"], line);
        check(fixture, &["db.orders.find().toArray()[0]"], line);
        check(fixture, &["db.orders.find().map((one) => one)"], line);
        check(fixture, &["EJSON.stringify(db.orders.findOne())"], line);
        check(
            fixture,
            &["const one = db.orders.findOne(); one.c = 2; delete one.b; one"],
            &line.replace("\"b\":1,", "").replace("}\n", ",\"c\":2}\n"),
        );
    });
}

#[test]
fn a_search_is_explained_and_not_run() {
    on_both(&orders(), |fixture| {
        for more in [&["db.orders.find({_id: 1})"] as &[&str], &["-c", "orders", "{_id: 1}"]] {
            let output = run(fixture, &[more, &["--explain"]].concat());
            let told: Document = serde_json::from_slice(&output.stdout).expect("one document");
            let plan =
                told.get_document("queryPlanner").and_then(|planner| planner.get_document("winningPlan"));
            assert_eq!(plan.ok().and_then(|plan| plan.get_str("stage").ok()), Some("IDHACK"));
        }
        complains(
            &run(fixture, &["db.orders.countDocuments()", "--explain"]),
            1,
            "only a search is explained",
        );
    });
}

#[test]
fn the_only_database_is_meant_if_none_is_named() {
    let fixture = Fixture::new(&orders(), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let other: Collection<Document> = client.database("other").collection("a");
    other.insert_one(doc! { "_id": 1 }).run().expect("it works");
    drop(other);
    client.close().expect("it works");
    complains(&run(&fixture, &["db.a.find()"]), 2, "give --db: there are other, shop");
    check(&fixture, &["--db", "other", "db.a.find()"], "{\"_id\":1}\n");
    complains(&run(&fixture, &["--db", "a b", "db.a.find()"]), 1, "'a b' is not a name of a database");
}

#[test]
fn writing_needs_the_folder() {
    on_both(&orders(), |fixture| {
        check(fixture, &["db.orders.insertOne({_id: 4}).acknowledged"], "true\n");
        check(fixture, &["db.orders.countDocuments()"], "4\n");
        // What was read before goes on as it was.
        check(
            fixture,
            &["const all = db.orders.find(); all.next(); db.orders.deleteMany({}); all.itcount()"],
            "3\n",
        );
        check(fixture, &["db.orders.countDocuments()"], "0\n");
    });
    let fixture = Fixture::new(&orders(), false);
    let client = Client::open(fixture.path("db")).expect("it works");
    check(&fixture, &["db.orders.countDocuments()"], "3\n");
    for write in [
        "db.orders.deleteMany({})",
        "db.orders.insertMany([{}, {}])",
        "db.orders.find().toArray(); db.b.drop()",
    ] {
        let output = run(&fixture, &[write, "--json"]);
        complains(&output, 5, "is open in another process (pid ");
        complains(&output, 5, "give the socket");
        complains(&output, 5, "\"kind\":\"openElsewhere\"");
    }
    // A script that catches it goes on.
    check(
        &fixture,
        &["try { db.orders.drop() } catch (error) { Object.keys(error).includes('isElsewhere') }"],
        "false\n",
    );
    client.close().expect("it works");
}

#[test]
fn errors_say_where_and_what() {
    on_both(&orders(), |fixture| {
        complains(
            &run(fixture, &["db.orders.fnd()"]),
            1,
            "EXPRESSION:1:10: TypeError: db.orders.fnd is not a function",
        );
        complains(&run(fixture, &["\n\n\n\n\n\n  db.orders.find({)"]), 1, "EXPRESSION:7:");
        complains(&run(fixture, &["db.orders.find({$bogus: 1})"]), 1, "$bogus");
        complains(
            &run(fixture, &["db.orders.insertOne({_id: 1})"]),
            1,
            "MongoServerError[DuplicateKey]: E11000",
        );
        complains(
            &run(fixture, &["db.orders.reIndex()"]),
            1,
            "NotSupported: db.collection.reIndex is not supported",
        );
        complains(&run(fixture, &["throw 5"]), 1, "uncaught 5");
        complains(&run(fixture, &["exit(3)"]), 1, "exit(3) was called");
        check(fixture, &["print(1); exit()"], "1\n");
    });
    let fixture = Fixture::new(&[], false);
    let output =
        cairn().args(["query", "absent", "1"]).current_dir(fixture.folder.path()).output().expect("it works");
    complains(&output, 6, "there is no database at absent");
    assert!(!fixture.path("absent").exists());
}

#[test]
fn a_signal_ends_what_runs() {
    on_both(&orders(), |fixture| {
        for (expression, signal, status) in [
            ("print('ready\\n' + 'x'.repeat(300000)); while (true) {}", Signal::INT, 130),
            ("print('ready\\n' + 'x'.repeat(300000)); sleep(600000)", Signal::TERM, 143),
            (
                "print('ready\\n' + 'x'.repeat(300000)); for (;;) { try { for (;;); } catch {} }",
                Signal::INT,
                130,
            ),
        ] {
            let mut command = fixture.run("query", &[expression]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works");
            let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
            let mut line = String::new();
            out.read_line(&mut line).expect("it works");
            std::io::copy(&mut std::io::Read::take(&mut out, 200_000), &mut std::io::sink())
                .expect("it works");
            send(&child, signal);
            std::io::copy(&mut out, &mut std::io::sink()).expect("it works");
            let output = child.wait_with_output().expect("it works");
            complains(&output, status, "interrupted");
        }
    });
}

#[test]
fn a_script_that_fills_memory_ends_at_the_limit() {
    let fixture = Fixture::new(&orders(), false);
    let memory = (32_u32 << 20).to_string();
    let fill = "const all = []; for (;;) all.push('x'.repeat(1000) + all.length)";
    complains(&run(&fixture, &[fill, "--memory", &memory]), 1, "out of memory");
    complains(
        &run(&fixture, &["function f() { return f() + 1 } f()"]),
        1,
        "RangeError: Maximum call stack size exceeded",
    );
    complains(&run(&fixture, &["1", "--memory", "1000"]), 1, "");
}

/// A small value of a script may be endless in BSON. It was built as a whole before its size was looked at; an array whose length
/// has more than 31 bits was a panic.
#[test]
fn a_value_has_a_largest_size_as_bson() {
    let shared =
        "(() => { let one = {x: 1}; for (let at = 0; at < 40; at++) one = {l: one, r: one}; return one })()";
    let texts = "Array(100).fill('x'.repeat(1e6))";
    let fixture = Fixture::new(&orders(), false);
    for (expression, words) in [
        (shared, "RangeError: the value is larger than 64 MiB as BSON: what a cursor gives"),
        (texts, "RangeError: the value is larger than 64 MiB as BSON"),
        ("Array(4e9)", "RangeError: an array of 4000000000 elements is larger than 64 MiB"),
        ("({a: Array(2 ** 31)})", "RangeError: an array of 2147483648 elements is larger than 64 MiB"),
        ("Array(2 ** 28)", "RangeError: an array of 268435456 elements is larger than 64 MiB"),
        ("({'\\0order': Array(4e9)})", "RangeError: an array of 4000000000 elements"),
        ("({'\\0kind': 'Map', '\\0parts': Array(4e9)})", "RangeError: an array of 4000000000 elements"),
        (
            "let own = {'\\0kind': 'Primitive'}; own['\\0parts'] = own; own",
            "TypeError: a Primitive has no form in BSON",
        ),
    ] {
        complains(&run(&fixture, &[expression]), 1, words);
    }
    let output = run(&fixture, &["Array(4e9)", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&output.stderr).expect("one line of JSON");
    assert_eq!(told.pointer("/error/kind"), Some(&serde_json::json!("failed")));
    complains(&run(&fixture, &["-c", "orders", "{a: Array(4e9)}"]), 1, "larger than 48,000,000 bytes");
    // What is large and not too large is printed.
    let output = run(&fixture, &["Array(60).fill('x'.repeat(1e6))"]);
    assert_eq!(output.stdout.len(), 60 * 1_000_003 + 2);
    let output = run(&fixture, &["'x'.repeat(100e6)"]);
    assert_eq!(output.stdout.len(), 100_000_001);
}

/// An error as any other: a script may catch it.
#[test]
fn a_script_catches_that_a_value_is_too_large() {
    on_both(&orders(), |fixture| {
        for (value, words) in [
            ("Array(4e9)", "an array of 4000000000 elements is larger than 48,000,000 bytes as BSON"),
            ("Array(60).fill('x'.repeat(1e6))", "the value is larger than 48,000,000 bytes as BSON"),
        ] {
            let script = format!(
                "try {{ db.zz.insertOne({{_id: 1, a: {value}}}) }} catch (error) {{ error.name + ': ' + error.message }}"
            );
            check(fixture, &[&script], &format!("RangeError: {words}, which a command may have\n"));
        }
        // A document that a message can carry is refused by the store, as by MongoDB.
        let large = "db.zz.insertOne({_id: 1, a: 'x'.repeat(17 << 20)})";
        complains(&run(fixture, &[large]), 1, "MongoServerError");
        check(fixture, &["db.zz.countDocuments()"], "0\n");
    });
}

/// The rest of a large value was converted all the same, and no signal ended it.
#[test]
fn the_conversion_of_a_value_ends_with_the_script() {
    let fixture = Fixture::new(&orders(), false);
    let output = run(
        &fixture,
        &["const all = Array(20000).fill(1);
           all[0] = {toBSON() { try { exit(3) } catch {} return 1 }};
           all[19999] = {toBSON() { print('late'); return 1 }};
           all"],
    );
    complains(&output, 1, "exit(3) was called");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

/// A script or a name in it could color a terminal, or begin a line that looks as if it came from the tool.
#[test]
fn errors_show_control_characters_as_escapes() {
    on_both(&orders(), |fixture| {
        let output = run(fixture, &["throw new Error('\u{1b}[31mboo\u{7}\u{9b}\\ncairn: all is well')"]);
        complains(&output, 1, "Error: \\u{1b}[31mboo\\u{7}\\u{9b}\\ncairn: all is well\n");
        let output = run(fixture, &["-c", "a\u{1b}[31m", "{}"]);
        complains(&output, 0, "there is no collection shop.a\\u{1b}[31m\n");
        let output = run(fixture, &["1", "--format", "a\u{1b}[31m"]);
        complains(&output, 2, "'a\\u{1b}[31m'");
        // In the report JSON has its own escapes.
        let output = run(fixture, &["throw new Error('\u{1b}\u{9b}')", "--json"]);
        complains(&output, 1, "Error: \\u001b\\u009b\"");
    });
    let output = cairn().args(["query", "a\u{1b}[31m", "1"]).output().expect("it works");
    complains(&output, 6, "at a\\u{1b}[31m");
}

/// What no command can be made of, and what reaches into the shell's own objects.
#[test]
fn nonsense_is_refused_and_harms_nothing() {
    on_both(&orders(), |fixture| {
        for (expression, words) in [
            (
                "const a = {}; a.a = a; db.orders.insertOne(a)",
                "a.a.a: it has more than 250 levels, or is within itself",
            ),
            ("let a = []; for (let i = 0; i < 100000; i++) a = [a]; a", "it has more than 250 levels"),
            ("let a = []; for (let i = 0; i < 100000; i++) a = [a]; EJSON.stringify(a)", "RangeError"),
            ("EJSON.parse('['.repeat(100000))", "the document has more than 180 levels"),
            ("db.orders.insertOne({get a() { throw new Error('getter') }})", "Error: getter"),
            ("db.orders.insertOne(new Proxy({}, {ownKeys() { throw new Error('keys') }}))", "Error: keys"),
            ("db.orders.insertOne({['a\\0b']: 1})", "a\\0b: its name has a NUL"),
            ("db.orders.insertOne({a: new Date(NaN)})", "a: the date is invalid"),
            ("db.orders.insertOne({a: 1n << 70n})", "a: 1180591620717411303424 needs more than 64 bits"),
            ("db.orders.insertOne(5)", "insertOne needs a document as its document, and not 5"),
            ("db.orders.insertMany([{}, null])", "document 1"),
            ("ObjectId('zz')", "an ObjectId has 24 hexadecimal digits, and not 'zz'"),
            ("NumberLong('99999999999999999999')", "Long has 64 bits, too few for 99999999999999999999"),
            ("NumberDecimal('x')", "'x' is not a decimal number"),
            ("BinData(300, '')", "a binary subtype is a number from 0 to 255, and not 300"),
            ("HexData(0, 'abc')", "'abc' is not an even number of hexadecimal digits"),
            ("UUID('1')", "a UUID has 32 hexadecimal digits, and not '1'"),
            ("ISODate('soon')", "'soon' is not a date"),
            ("db.orders.find().sort({_id: 1}).skip(-1).toArray()", "skip"),
            ("db.getCollection('')", "'' is not a name of a collection"),
            ("use('a.b')", "'a.b' is not a name of a database"),
            ("new Promise(() => {})", "never settled"),
            ("import('fs')", "ReferenceError"),
            ("db.orders.bulkWrite([{insert: {}}])", "bulkWrite has no operation 'insert'"),
            ("db = null; show('collections')", "TypeError"),
            (
                "const one = db.dates.insertOne({at: ISODate()}); const c = db.dates.find(); Date = function () { return c.next() }; c.next()",
                "the cursor is being read",
            ),
        ] {
            complains(&run(fixture, &[expression]), 1, words);
        }
        for (expression, expected) in [
            ("JSON.parse('{\"__proto__\": {\"x\": 1}}')", "{\"__proto__\":{\"x\":1}}\n"),
            ("Object.prototype.x = 1; db.orders.findOne({}, {_id: 1})", "{\"_id\":1}\n"),
            ("globalThis.EJSON = null; Array.prototype.map = null; db.orders.countDocuments()", "3\n"),
            ("async function f() { return 5 }; f()", "5\n"),
            ("await db.orders.countDocuments()", "3\n"),
            ("// nothing", ""),
            ("", ""),
        ] {
            check(fixture, &[expression], expected);
        }
    });
}

#[test]
fn a_reader_that_is_gone_ends_it_quietly() {
    let documents: Vec<_> = (0..2_000).map(|id| doc! { "_id": id, "text": "x".repeat(1_000) }).collect();
    on_both(&documents, |fixture| {
        for expression in ["db.orders.find()", "db.orders.find().forEach((one) => print(one.text))"] {
            let mut command = fixture.run("query", &[expression]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it works");
            let output = child.wait_with_output().expect("it works");
            assert_eq!((output.status.code(), &*output.stderr), (Some(0), b"" as &[u8]));
        }
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it works");
        let output = fixture.run("query", &["db.orders.find()"]).stdout(full).stderr(Stdio::piped()).output();
        complains(&output.expect("it works"), 1, "standard output: No space left");
    });
}

#[test]
fn memory_does_not_grow_with_the_documents() {
    prints_in_little_memory("query", &["db.orders.find()"]);
}

#[test]
fn the_report_is_one_line_on_standard_error() {
    on_both(&orders(), |fixture| {
        let output = run(fixture, &["db.orders.find()", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("one line");
        assert_eq!(
            (&report["command"], &report["ok"], &report["documents"]),
            (&"query".into(), &true.into(), &3.into())
        );
    });
}

/// The status was 0, and nothing was said.
#[test]
fn errors_in_promises_that_nothing_waits_for_are_errors() {
    on_both(&orders(), |fixture| {
        for (expression, words) in [
            ("Promise.reject(new Error('lost')); 1", "Error: lost"),
            (
                "db.orders.find().forEach(async (order) => { throw new TypeError('y' + order._id) })",
                "TypeError: y1",
            ),
            ("Promise.resolve(1).then(() => { throw 5 }); 1", "uncaught 5"),
            ("(async () => { await db.orders.insertOne({_id: 1}) })(); 1", "E11000"),
        ] {
            complains(&run(fixture, &[expression]), 1, words);
        }
        check(fixture, &["const p = Promise.reject(1); p.catch(() => 2); 3"], "3\n");
        check(
            fixture,
            &["(async () => { try { await Promise.reject(1) } catch (e) { return e + 1 } })()"],
            "2\n",
        );
    });
}

/// A bracket that is not closed was told as one that is not expected, in a line that there is not.
#[test]
fn what_is_not_closed_is_named_with_its_place() {
    let fixture = Fixture::new(&orders(), false);
    let told = |arguments: &[&str], words: &str| complains(&run(&fixture, arguments), 1, words);
    told(&["db.orders.find({"], "EXPRESSION:1:16: SyntaxError: { is never closed");
    told(&["db.orders.find(\n  [1, 2)"], "EXPRESSION:");
    complains(
        &run(&fixture, &["-c", "orders", "{a: [1, 2"]),
        1,
        "EXPRESSION:1:5: SyntaxError: [ is never closed",
    );
    complains(
        &run(&fixture, &["-c", "orders", "{a: `x"]),
        1,
        "EXPRESSION:1:5: SyntaxError: ` is never closed",
    );
}

#[test]
fn a_signal_ends_large_values_and_endless_promises() {
    let fixture = Fixture::new(&orders(), false);
    // More than the tool gathers before it writes: it is seen at once, and only while the large value or the promises are at work.
    let begun = "print('begun\\n' + 'x'.repeat(300000))";
    for expression in [
        format!(
            "let a = {{x: 1}}; for (let i = 0; i < 60; i++) a = {{l: a, r: a}};
             JSON.stringify([{{toJSON() {{ {begun} }}}}, a])"
        ),
        format!(
            "let n = 0; const f = () => {{ if (++n === 99) {begun}; Promise.reject(1).then(f, f) }}; f()"
        ),
    ] {
        let mut command = fixture.run("query", &[&expression]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("it is text");
        std::io::copy(&mut std::io::Read::take(&mut out, 300_000), &mut std::io::sink()).expect("it works");
        send(&child, Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        complains(&output, 130, "interrupted");
        assert_eq!(line, "begun\n");
    }
}
