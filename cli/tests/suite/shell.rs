//! `cairn shell` with scripts and standard input, on a folder and through the socket of a server.

#![cfg(all(feature = "remote", feature = "shell"))]

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use cairndb::Client;
use cairndb::bson::doc;
use rustix::process::Signal;

use crate::fixture::examples::root;
use crate::fixture::signals::send;
use crate::fixture::{Fixture, cairn, complains, on_both};

fn run(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("shell", more).stdin(Stdio::null()).output().expect("it works")
}

#[track_caller]
fn check(fixture: &Fixture, more: &[&str], expected: &str) {
    let output = run(fixture, more);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).expect("it works"), expected);
}

/// What the shell says to statements of standard input.
fn typed(fixture: &Fixture, more: &[&str], input: &str) -> Output {
    let mut command = fixture.run("shell", more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it works");
    // It may end before it has read all.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it works")
}

fn script(fixture: &Fixture, name: &str, text: &str) -> String {
    std::fs::write(fixture.path(name), text).expect("it works");
    name.to_owned()
}

#[test]
fn the_scripts_that_mongosh_runs_pass() {
    let folder = root().join("tests/clients/mongosh");
    let prelude = folder.join("prelude.js").display().to_string();
    for name in ["counters.js", "looks.js", "optimistic.js"] {
        on_both(&[], |fixture| {
            check(fixture, &[&prelude, &folder.join(name).display().to_string()], "passed\n");
        });
    }
}

/// On a folder, and through the socket of a server that is a replica set. Its address is another one, which is not asked for.
#[test]
fn transactions_are_those_of_mongosh() {
    let folder = root().join("tests/clients/mongosh");
    let scripts = ["prelude.js", "transactions.js"].map(|name| folder.join(name).display().to_string());
    let more = [scripts[0].as_str(), scripts[1].as_str()];
    check(&Fixture::new(&[], false), &more, "passed\n");
    let mut served = Fixture::new(&[], false);
    served.serve_with(&["--replica-set", "rs", "--advertise", "192.0.2.1:1"]);
    check(&served, &more, "passed\n");
    let stats = served.run("stats", &["--json"]).output().expect("it works");
    let report: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("one line of JSON");
    assert_eq!(report["transactions"]["currentOpen"], 0, "{report}");
    assert!(report["transactions"]["totalCommitted"].as_u64() >= Some(3), "{report}");
    let text = served.run("stats", &[]).output().expect("it works");
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("\ntransactions: open 0, committed "), "{text}");
}

/// On a folder, and through the socket of a server that is a replica set.
#[test]
fn streams_show_what_is_changed_after_they_were_opened() {
    let text = "\
db = db.getSiblingDB('shop');
const streams = [db.orders.watch(), db.watch([{$match: {operationType: 'insert'}}]), db.getMongo().watch({maxAwaitTimeMS: 2000})];
db.orders.insertOne({_id: 1, a: 1});
for (const stream of streams) {
    const event = stream.next();
    if (event.fullDocument.a !== 1 || EJSON.stringify(stream.getResumeToken()) !== EJSON.stringify(event._id)) throw new Error(event);
}
const [orders] = streams;
const resumed = db.orders.watch([], {resumeAfter: orders.getResumeToken(), fullDocument: 'updateLookup', maxAwaitTimeMS: 5});
if (resumed.tryNext() !== null) throw new Error('an event twice');
db.orders.updateOne({_id: 1}, {$set: {a: 2}});
db.orders.drop();
const before = EJSON.stringify(orders.getResumeToken());
if (!orders.hasNext() || EJSON.stringify(orders.getResumeToken()) !== before) throw new Error('a token of what is not read');
if (orders.next().updateDescription.updatedFields.a !== 2) throw new Error('the update');
const rest = [];
while (!orders.isClosed()) { const event = orders.tryNext(); if (event) rest.push(event.operationType); }
if (rest.join() !== 'drop,invalidate') throw new Error(rest);
let told;
try { db.orders.watch([], {fly: 1}); } catch (error) { told = error.message; }
if (!told.includes('fly')) throw new Error(told);
print('passed')";
    for is_served in [false, true] {
        let mut fixture = Fixture::new(&[doc! { "_id": 0 }], false);
        if is_served {
            fixture.serve_with(&["--replica-set", "rs", "--advertise", "192.0.2.1:1"]);
        }
        let name = script(&fixture, "streams.js", text);
        check(&fixture, &[&name], "passed\n");
    }
}

/// What is wrong is refused by name, and a session that has ended does nothing.
#[test]
fn sessions_refuse_what_they_cannot_do() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        for (statement, words) in [
            ("s.commitTransaction()", "no transaction started"),
            ("s.startTransaction({fly: 1})", "'fly'"),
            ("s.startTransaction({readConcern: 1})", "readConcern"),
            ("s.startTransaction(); s.startTransaction()", "already in progress"),
            ("s.withTransaction(1)", "withTransaction"),
            ("s.endSession(); s.endSession(); s.getDatabase('shop')", "the session has ended"),
            ("const o = s.getDatabase('shop').orders; s.endSession(); o.findOne()", "the session has ended"),
            ("rs.stepDown()", "rs.stepDown is not supported"),
        ] {
            let statement = format!("var s = db.getMongo().startSession(); {statement}");
            let output = run(fixture, &["--eval", &statement]);
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{statement}: {complaint}");
            assert!(complaint.contains(words), "{statement}: {complaint}");
        }
    });
}

#[test]
fn results_look_like_mongosh_s() {
    on_both(&[doc! { "_id": 1, "name": "Ada", "tags": ["a"], "at": { "city": "London" } }], |fixture| {
        for (statement, shown) in [
            ("db.orders.find({}, {name: 1})", "{ _id: 1, name: 'Ada' }"),
            ("db.orders.findOne()", "{ _id: 1, name: 'Ada', tags: [ 'a' ], at: { city: 'London' } }"),
            ("db.orders.find({_id: 9})", ""),
            ("db.orders.insertOne({_id: 2})", "{ acknowledged: true, insertedId: 2 }"),
            (
                "db.orders.updateOne({_id: 2}, {$set: {a: 1}})",
                "{\n  acknowledged: true,\n  insertedId: null,\n  matchedCount: 1,\n  modifiedCount: 1,\n  upsertedCount: 0\n}",
            ),
            ("db.orders.deleteOne({_id: 2})", "{ acknowledged: true, deletedCount: 1 }"),
            (
                "db.orders.insertMany([{_id: 3}, {_id: 4}])",
                "{ acknowledged: true, insertedIds: { '0': 3, '1': 4 } }",
            ),
            ("[1, 'it\\'s', null, undefined, true, -0]", "[ 1, \"it's\", null, undefined, true, -0 ]"),
            (
                "({a: NumberLong(5), b: NumberDecimal('1.50'), c: Double(2), d: Int32(3), e: 5n})",
                "{\n  a: Long('5'),\n  b: Decimal128('1.50'),\n  c: Double(2),\n  d: Int32(3),\n  e: 5n\n}",
            ),
            ("ObjectId('507f191e810c19729de860ea')", "ObjectId('507f191e810c19729de860ea')"),
            ("ISODate('2020-02-03T04:05:06Z')", "ISODate('2020-02-03T04:05:06.000Z')"),
            ("UUID('00112233-4455-6677-8899-aabbccddeeff')", "UUID('00112233-4455-6677-8899-aabbccddeeff')"),
            ("BinData(0, 'AQID')", "Binary.createFromBase64('AQID', 0)"),
            ("Timestamp(1, 2)", "Timestamp({ t: 1, i: 2 })"),
            ("[MinKey(), MaxKey(), /a\\/b/i]", "[ MinKey(), MaxKey(), /a\\/b/i ]"),
            ("'text'", "text"),
            ("let x = 1", ""),
            ("({a: {b: {c: {}}}})", "{ a: { b: { c: {} } } }"),
            ("({a: {b: {c: {d: {}}}}})", "{\n  a: { b: { c: { d: {} } } }\n}"),
            ("const me = {}; me.self = me; me", "{ self: [Circular] }"),
            ("function add(a, b) {}; add", "[Function: add]"),
            ("new Error('no')", "Error: no"),
            ("db.sequence('s')", "shop.sequence('s')"),
            ("printjson({a: [1, {}]})", "{\n  a: [\n    1,\n    {}\n  ]\n}"),
            ("print(undefined, 'a')", " a"),
        ] {
            let expected = if shown.is_empty() && !statement.starts_with("db.") {
                String::new()
            } else {
                format!("{shown}\n")
            };
            check(fixture, &["--eval", statement], &expected);
        }
    });
}

fn lines(ids: std::ops::Range<u32>) -> String {
    ids.map(|id| format!("{{ _id: {id} }}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn statements_of_standard_input_run_one_after_the_other() {
    on_both(&[], |fixture| {
        let input = "use shop\nfor (let id = 0; id < 25; id += 1) {\n  db.things.insertOne({_id: id});\n}\nshow collections\ndb.things.find()\nit\nit\n// the end\nx = [\n  1,\n  2\n]\n";
        let output = typed(fixture, &[], input);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let first = lines(0..20);
        let second = lines(20..25);
        let said = String::from_utf8(output.stdout).expect("it works");
        let expected = format!(
            "switched to db shop\n{{ acknowledged: true, insertedId: 24 }}\nthings\n{first}Type \"it\" for more\n{second}no cursor\n[ 1, 2 ]\n"
        );
        assert_eq!(said, expected);
        let output = typed(fixture, &[], "1\n2 + (\n\n\n  1)\nthrow new Error('no')\n3\n");
        complains(&output, 1, "standard input:6:");
        assert_eq!(output.stdout, b"1\n3\n");
        let output = typed(fixture, &[], "print(1)\nexit(7)\nprint(2)\n");
        assert_eq!((output.status.code(), &*output.stdout), (Some(7), b"1\n" as &[u8]));
    });
}

#[test]
fn errors_end_a_script_and_say_where_and_a_script_finds_its_neighbours() {
    on_both(&[], |fixture| {
        script(fixture, "syntax.js", "1;\n2;\n3;\n4;\n5;\n6;\nlet = = 1;\n");
        complains(&run(fixture, &["syntax.js"]), 1, "syntax.js:7:");
        script(fixture, "inner.js", "function broken() {\n  throw new Error(\"no\");\n}\n");
        script(fixture, "outer.js", "print('before');\nload('inner.js');\nbroken();\nprint('after');\n");
        let output = run(fixture, &["outer.js"]);
        complains(&output, 1, "inner.js:2:");
        assert_eq!(output.stdout, b"before\n");
        script(fixture, "verb.js", "db.orders.insertOne({_id: 1});\ndb.orders.insertOn({_id: 1});\n");
        complains(
            &run(fixture, &["verb.js"]),
            1,
            "verb.js:2:11: TypeError: db.orders.insertOn is not a function",
        );
        script(
            fixture,
            "beside.js",
            "load(__dirname + '/inner.js');\nprint(typeof broken, __filename.endsWith('/beside.js'));\n",
        );
        script(fixture, "first.js", "load('beside.js');\nprint(__filename.endsWith('/first.js'));\n");
        check(fixture, &["first.js"], "function true\ntrue\n");
        check(fixture, &["--eval", "load('beside.js'); typeof __filename"], "function true\nundefined\n");
        complains(&run(fixture, &["absent.js"]), 1, "absent.js: No such file");
        complains(&run(fixture, &["--eval", "load('absent.js')"]), 1, "absent.js: No such file");
        complains(&run(fixture, &["--eval", "sh.status()"]), 1, "NotSupported: sh.status is not supported");
        complains(
            &run(fixture, &["--eval", "require('fs')"]),
            1,
            "NotSupported: require('fs') is not supported",
        );
        for (code, status) in
            [("exit(0)", 0), ("quit(9)", 9), ("try { exit(4) } catch { } finally { exit(5) }", 4)]
        {
            assert_eq!(run(fixture, &["--eval", code]).status.code(), Some(status), "{code}");
        }
    });
}

/// A command of 60 MB was refused by a server, and is more than one message can carry.
#[test]
fn a_bulk_write_of_large_documents_is_several_commands() {
    on_both(&[], |fixture| {
        let text = "const text = 'x'.repeat(1e6), many = [...Array(60).keys()];
            const done = db.large.bulkWrite(many.map((_id) => ({insertOne: {document: {_id, text}}})));
            print(done.insertedCount, Object.keys(done.insertedIds).length, db.large.countDocuments({text}));
            const again = many.map((_id) => ({replaceOne: {filter: {_id}, replacement: {text, n: 1}}}));
            print(db.large.bulkWrite(again).modifiedCount, db.large.countDocuments({n: 1}));";
        check(fixture, &[&script(fixture, "bulk.js", text), "--db", "shop"], "60 60 60\n60 60\n");
    });
}

#[test]
fn refusals_have_the_fields_that_scripts_look_for() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        script(
            fixture,
            "refusals.js",
            "function thrown(work) { try { work() } catch (error) { return error } }
             const same = (found, expected) => assert.deepStrictEqual(JSON.parse(EJSON.stringify(found)), expected);
             db.orders.createIndex({name: 1}, {unique: true});
             db.orders.insertOne({_id: 2, name: 'Ada'});
             const one = thrown(() => db.orders.insertOne({_id: 3, name: 'Ada'}));
             same([one.name, one.code, one.codeName, one.keyPattern, one.keyValue, one.index],
                  ['MongoServerError', 11000, 'DuplicateKey', {name: 1}, {name: 'Ada'}, 0]);
             assert.match(one.message, /E11000 duplicate key error collection: shop.orders index: name_1 dup key/);
             assert(one instanceof MongoServerError && one instanceof Error);
             const many = thrown(() => db.orders.insertMany([{_id: 4, name: 4}, {_id: 1, name: 1}, {_id: 5, name: 5}]));
             same([many.name, many.code, many.result.insertedCount, many.result.insertedIds, many.writeErrors.length],
                  ['MongoBulkWriteError', 11000, 1, {0: 4}, 1]);
             const rest = thrown(() => db.orders.insertMany([{_id: 1, name: 7}, {_id: 6, name: 6}, {_id: 2, name: 8}], {ordered: false}));
             same([rest.result.insertedIds, rest.writeErrors.map((error) => error.index)], [{1: 6}, [0, 2]]);
             const changed = thrown(() => db.orders.findAndModify({query: {_id: 1}, update: {$set: {name: 'Ada'}}}));
             same([changed.code, changed.keyValue], [11000, {name: 'Ada'}]);
             const bulk = thrown(() => db.orders.bulkWrite([{insertOne: {document: {_id: 7, name: 7}}}, {insertOne: {document: {_id: 7}}}, {deleteOne: {filter: {_id: 7}}}]));
             same([bulk.result.insertedCount, bulk.result.deletedCount, bulk.writeErrors[0].index], [1, 0, 1]);
             db.createCollection('valid', {validator: {a: {$gt: 5}}});
             const invalid = thrown(() => db.valid.insertOne({_id: 1, a: 1}));
             same([invalid.code, invalid.errInfo.failingDocumentId], [121, 1]);
             same([thrown(() => db.sequence('none').next()).code, thrown(() => db.sequence('none').next()).sequoiaCode], [2, -324]);
             assert.throws(() => db.orders.updateOne({}, {a: 1}), /atomic operators/);
             assert.throws(() => db.orders.replaceOne({}, {$set: {a: 1}}), /must not contain atomic operators/);
             assert.throws(() => db.orders.deleteMany(), {name: 'MongoInvalidArgumentError'});
             assert.throws(() => db.orders.insertMany([]), /Batch cannot be empty/);
             assert.throws(() => db.runCommand({bogus: 1}), {codeName: 'CommandNotFound'});
             print('passed');",
        );
        check(fixture, &["refusals.js"], "passed\n");
    });
}

#[test]
fn a_cursor_gives_whatever_it_is_mapped_to_and_says_why_it_ends() {
    on_both(&[], |fixture| {
        script(
            fixture,
            "cursors.js",
            "db.parts.insertMany([{_id: 1, by: 4}, {_id: 2, by: 2}, {_id: 3, by: 0}]);
             const nothing = () => db.parts.find().map(() => null);
             assert.strictEqual(nothing().toArray().length, 3);
             let seen = 0;
             nothing().forEach((document) => { assert.strictEqual(document, null); seen += 1; });
             assert.strictEqual(seen, 3);
             db.parts.find().forEach((document) => { seen += 1; return document._id < 2; });
             assert.strictEqual(seen, 5);
             const id = db.parts.insertOne({by: 1}).insertedId;
             const stored = db.parts.findOne({by: 1})._id;
             assert(stored instanceof ObjectId && stored.equals(id) && ObjectId.isValid(stored));
             assert.deepStrictEqual(Object.keys(stored), []);
             const divided = [{$sort: {_id: 1}}, {$project: {part: {$divide: [8, '$by']}}}];
             assert.throws(() => db.parts.aggregate(divided).forEach(() => {}), (error) => error.code === 2);
             print('passed');",
        );
        check(fixture, &["--db", "shop", "cursors.js"], "passed\n");
    });
}

#[test]
fn sequences_and_numbered_fields_are_part_of_the_language() {
    on_both(&[], |fixture| {
        script(
            fixture,
            "numbers.js",
            "const same = (found, expected) => assert.strictEqual(EJSON.stringify(found), EJSON.stringify(expected));
             const tickets = db.createSequence('tickets', {StartValue: 1000, CacheSize: 10, AcquireSize: 4});
             same(tickets.next(), 1000);
             same(tickets.next(6), [1001, 1002, 1003, 1004, 1005, 1006]);
             same(tickets.snapshot().Name, 'tickets');
             tickets.setCurrent(5000);
             same(tickets.gaps()[0].cause, 'explicitValue');
             assert(db.getSequenceNames().includes('tickets'));
             db.createCollection('invoices', {autoIncrement: {Field: 'number', Contract: 'gapless'}});
             same(db.invoices.insertMany([{_id: 1}, {_id: 2}]).insertedIds, {0: 1, 1: 2});
             same(db.invoices.find().toArray().map((one) => one.number), [1, 2]);
             same(db.invoices.autoIncrements().map((one) => one.Field), ['number']);
             same(db.invoices.gaps('number'), []);
             assert.throws(() => db.invoices.gaps('other'), /no auto-increment field 'other'/);
             db.createCollection('counted', {autoIncrement: {Field: '_id'}});
             same(db.counted.insertOne({a: 1}).insertedId, 1);
             same(db.counted.insertMany([{a: 2}, {a: 3}]).insertedIds, {0: 2, 1: 3});
             print('passed');",
        );
        check(fixture, &["--db", "shop", "numbers.js"], "passed\n");
    });
}

#[test]
fn writes_are_refused_where_the_store_is_for_reading() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        check(fixture, &["--read-only", "--eval", "db.orders.countDocuments()"], "1\n");
        for code in [
            "db.orders.insertOne({})",
            "db.orders.aggregate([{$out: 'b'}])",
            "db.createSequence('s')",
            "db.dropDatabase()",
        ] {
            let output = run(fixture, &["--read-only", "--eval", code]);
            complains(&output, 1, "MongoServerError[IllegalOperation]: the store is open for reading only");
        }
        check(fixture, &["--read-only", "--eval", "db.orders.countDocuments()"], "1\n");
    });
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).expect("it works");
    let output = run(&fixture, &["--eval", "db.orders.countDocuments()"]);
    assert_eq!(output.stdout, b"1\n");
    complains(&output, 0, "it is opened for reading, as it is now");
    complains(
        &run(&fixture, &["--eval", "db.orders.insertOne({})"]),
        5,
        "MongoServerError[IllegalOperation]: ",
    );
    client.close().expect("it works");
}

#[test]
fn a_user_who_may_only_read_reads() {
    let mut fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let mut add = cairn();
    add.args(["user", "add"]).arg(fixture.path("db")).args(["ada", "--read-only"]).stdin(Stdio::piped());
    let mut adding = add.spawn().expect("it works");
    adding.stdin.take().expect("it is piped").write_all(b"secret\n").expect("it works");
    assert!(adding.wait().expect("it works").success());
    fixture.serve_with(&["--auth"]);
    let socket = fixture.path("s.sock").display().to_string().replace('/', "%2F");
    let run = |code: &str| {
        let mut command = cairn();
        command.args(["shell", &format!("mongodb://ada@{socket}/shop?authSource=admin"), "--eval", code]);
        command.env("CAIRN_PASSWORD", "secret").output().expect("it works")
    };
    let read = run("db.orders.find()");
    complains(&read, 0, "");
    assert_eq!(read.stdout, b"{ _id: 1 }\n");
    complains(&run("db.orders.insertOne({})"), 1, "MongoServerError[Unauthorized]");
}

/// Every name in the tables of docs/tools.md is there.
#[test]
fn the_language_has_what_its_page_names() {
    let page = root().join("docs/tools.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let (_, section) = page.split_once("### The language of query and shell").expect("a section");
    let row = |name: &str| {
        let begin = format!("\n| {name}");
        let (_, row) = section.split_once(&begin).unwrap_or_else(|| panic!("a row of {name}"));
        row.lines().next().expect("a line").to_owned()
    };
    let mut script = vec!["const missing = [];".to_owned()];
    let owners = [
        ("databases", "db"),
        ("reads", "db.orders"),
        ("cursors", "db.orders.find()"),
        ("writes", "db.orders"),
        ("indexes", "db.orders"),
        ("collections", "db.orders"),
        ("functions", "globalThis"),
        ("values", "globalThis"),
    ];
    let mut count = 0;
    for (name, owner) in owners {
        for word in row(name).split('`').skip(1).step_by(2) {
            let name = word.rsplit('.').next().unwrap_or(word).split('(').next().unwrap_or(word);
            if name.is_empty()
                || !name.chars().all(char::is_alphanumeric)
                || matches!(name, "NAME" | "db")
                || word.contains('"')
            {
                continue;
            }
            let owner = word.strip_suffix(name).and_then(|owner| owner.strip_suffix('.')).unwrap_or(owner);
            let found = format!("{owner}.{name}");
            script.push(format!(
                "if (!('{name}' in {owner}) && typeof {found} !== 'function') missing.push('{word}');"
            ));
            // What is no verb is a collection of that name.
            script.push(format!(
                "if (/^shop\\.(orders\\.)?{name}$/.test(String({found}))) missing.push('{word}');"
            ));
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
    script.push("print(missing.join())".to_owned());
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    std::fs::write(fixture.path("names.js"), script.join("\n")).expect("it works");
    check(&fixture, &["names.js"], "\n");
}

#[test]
fn a_signal_ends_a_script_and_what_it_wrote_is_there() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let input =
                "db.orders.updateOne({_id: 1}, {$inc: {n: 1}})\nfor (;;) db.orders.countDocuments()\n";
            let mut command = fixture.run("shell", &[]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("it works");
            child.stdin.as_mut().expect("it is piped").write_all(input.as_bytes()).expect("it works");
            let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
            // The first line of what the update gave.
            assert_eq!(lines.next().expect("a line").expect("it works"), "{");
            send(&child, signal);
            let output = child.wait_with_output().expect("it works");
            complains(&output, status, "interrupted");
        }
        check(fixture, &["--eval", "db.orders.findOne({_id: 1}).n"], "2\n");
    });
}

#[test]
fn output_that_is_not_wanted_ends_it_quietly_and_a_full_disk_is_an_error() {
    on_both(&[doc! { "_id": 1 }], |fixture| {
        let mut command = fixture.run("shell", &["--eval", "for (;;) print('text')"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it works");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it works");
        let output = child.wait_with_output().expect("it works");
        assert_eq!((&*line, output.status.code(), &*output.stderr), ("text\n", Some(0), b"" as &[u8]));
        for code in ["print(1)", "for (;;) print('text')"] {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it works");
            let output = fixture.run("shell", &["--eval", code]).stdout(full).output().expect("it works");
            complains(&output, 1, "standard output: No space left");
        }
    });
}

#[test]
fn mongosh_is_started_on_a_private_socket() {
    use std::os::unix::fs::PermissionsExt;

    on_both(&[doc! { "_id": 1 }], |fixture| {
        // In place of MongoDB's shell a script that shows what it is given, and reads by it.
        let bin = fixture.path("bin");
        std::fs::create_dir_all(&bin).expect("it works");
        let program = bin.join("mongosh");
        let cairn = env!("CARGO_BIN_EXE_cairn");
        std::fs::write(
            &program,
            format!("#!/bin/sh\nuri=$1; shift\necho \"$@\"\n{cairn} export \"$uri\" shop.orders\nexit 7\n"),
        )
        .expect("it works");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it works");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("it is set"));
        let mut command = fixture.run("shell", &["--mongosh", "--quiet", "--norc"]);
        let output = command.env("PATH", path).output().expect("it works");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "--quiet --norc\n{\"_id\":1}\n");
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        let mut command = fixture.run("shell", &["--mongosh"]);
        complains(&command.env("PATH", "").output().expect("it works"), 1, "mongosh cannot be started");
    });
}

/// What mongosh has and this shell has not is told by its name and with what there is instead; asking whether it is there is none
/// of its uses.
#[test]
fn globals_of_mongosh_that_are_not_here_are_named_where_they_are_used() {
    let fixture = Fixture::new(&[], false);
    for (code, words) in [
        (
            "process.env.HOME",
            "NotSupported: process.env is not supported: scripts reach nothing of the system",
        ),
        (
            "config.set('displayBatchSize', 5)",
            "NotSupported: config.set is not supported: the options of cairn shell",
        ),
        ("config", "NotSupported: config is not supported"),
        ("Buffer.from('a')", "NotSupported: Buffer.from is not supported: BinData"),
        ("new URL('http://a/')", "NotSupported: URL is not supported: take texts apart"),
        ("new URLSearchParams('a=b')", "NotSupported: URLSearchParams is not supported"),
        ("MD5('a')", "NotSupported: MD5 is not supported: hash outside"),
        (
            "setTimeout(() => 1, 5)",
            "NotSupported: setTimeout is not supported: calls return when they are done: use sleep",
        ),
        ("fetch('http://a/')", "NotSupported: fetch is not supported: scripts have no network"),
        (
            "structuredClone({})",
            "NotSupported: structuredClone is not supported: EJSON.parse(EJSON.stringify(VALUE))",
        ),
        ("new Mongo('mongodb://a/')", "NotSupported: Mongo is not supported: give the store"),
        ("crypto.randomUUID()", "NotSupported: crypto.randomUUID is not supported: UUID() makes one"),
        (
            "fs.readFileSync('/etc/passwd')",
            "NotSupported: fs.readFileSync is not supported: scripts reach nothing",
        ),
        ("new Intl.NumberFormat('de')", "NotSupported: Intl.NumberFormat is not supported: $dateToString"),
        ("console.table([{a: 1}])", "NotSupported: console.table is not supported: print"),
        ("require('fs')", "NotSupported: require('fs') is not supported: there are no modules but"),
        ("db.orders.find().addOption(8)", "NotSupported: cursor.addOption(8) is not supported"),
    ] {
        complains(&run(&fixture, &["--eval", code]), 1, words);
    }
    // A script that looks first goes on, and one may use the names for its own.
    check(
        &fixture,
        &["--eval", "typeof process + ' ' + typeof Buffer + ' ' + typeof nothing"],
        "object function undefined\n",
    );
    check(
        &fixture,
        &["--eval", "const config = {a: 1}; let URL = 2; process = 3; config.a + URL + process"],
        "6\n",
    );
}

/// Between two looks another process, or the script itself, inserts.
#[test]
fn a_tailable_cursor_goes_on_after_its_end() {
    on_both(&[], |fixture| {
        let code = "db.createCollection('log', {capped: true, size: 65536});\
            db.log.insertMany([{_id: 2}, {_id: 1}]);\
            const tail = db.log.find().tailable();\
            print(tail.tryNext()._id, tail.tryNext()._id, tail.tryNext(), tail.isClosed());\
            db.log.insertOne({_id: 3});\
            print(tail.hasNext(), tail.next()._id, tail.tryNext());\
            const options = db.log.find({_id: {$gt: 2}}, {}, {tailable: true, awaitData: true, maxAwaitTimeMS: 50});\
            print(options.tryNext()._id, options.tryNext());\
            const flags = db.log.find().addOption(DBQuery.Option.tailable | DBQuery.Option.awaitData).maxAwaitTimeMS(20);\
            for (let n = 0; n < 3; n += 1) flags.tryNext();\
            print(flags.tryNext());\
            db.log.drop();\
            try { tail.next() } catch (error) { print(error.code) }\
            print(tail.isClosed());\
            tail.close();";
        check(
            fixture,
            &["--db", "shop", "--eval", code],
            "2 1 null false\ntrue 3 null\n3 null\nnull\n175\ntrue\n",
        );
        let code = "db.plain.insertOne({_id: 1}); db.plain.find().tailable().tryNext()";
        complains(&run(fixture, &["--db", "shop", "--eval", code]), 1, "MongoServerError");
        // What there is now is shown, and `it` goes on.
        let input = "use shop\ndb.createCollection('b', {capped: true, size: 65536})\ndb.b.insertOne({_id: 1}).insertedId\n\
            db.b.find().tailable()\ndb.b.insertOne({_id: 2}).insertedId\nit\n";
        let output = typed(fixture, &[], input);
        let said = String::from_utf8(output.stdout).expect("it is UTF-8");
        let expected = "switched to db shop\n{ ok: 1 }\n1\n{ _id: 1 }\nType \"it\" for more\n2\n{ _id: 2 }\nType \"it\" for more\n";
        assert_eq!(said, expected);
        // `query` prints what there is.
        let query =
            fixture.run("query", &["db.b.find().tailable()", "--db", "shop"]).output().expect("it works");
        assert_eq!(query.stdout, b"{\"_id\":1}\n{\"_id\":2}\n", "{query:?}");
    });
}

#[test]
fn a_folder_that_never_changes_is_not_followed() {
    let fixture = Fixture::new(&[], false);
    let code =
        "db.createCollection('log', {capped: true, size: 65536}); db.log.insertOne({_id: 1}).acknowledged";
    check(&fixture, &["--db", "shop", "--eval", code], "true\n");
    let follow = "db.log.find().tailable().tryNext()";
    let words = "a tailable cursor would never get another document: give the socket";
    complains(&run(&fixture, &["--db", "shop", "--read-only", "--eval", follow]), 1, words);
}

/// Each line was looked at again with every line after it: 4,000 lines took a minute.
#[test]
fn a_statement_of_many_lines_is_read_at_once() {
    let fixture = Fixture::new(&[], false);
    let lines = |count: usize| format!("print([\n{}].length)\n", "  {a: [1, 2, 3], b: `x`},\n".repeat(count));
    let time = |count: usize| {
        let started = std::time::Instant::now();
        let output = typed(&fixture, &[], &lines(count));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{count}\n"), "{output:?}");
        started.elapsed()
    };
    time(10);
    assert!(time(20_000) < std::time::Duration::from_secs(20));
}

/// `query` said 5, and the shell 1.
#[test]
fn a_write_beside_another_process_has_a_status_of_its_own() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    let client = Client::open(fixture.path("db")).expect("it opens");
    let output = run(&fixture, &["--eval", "db.orders.insertOne({})"]);
    complains(&output, 5, "is open in another process (pid ");
    complains(&output, 5, "give the socket");
    complains(
        &run(&fixture, &["--read-only", "--eval", "db.orders.insertOne({})"]),
        1,
        "open for reading only",
    );
    client.close().expect("it closes");
}

/// Tab offered the shell's own functions, one of which deleted everything; and a collection could not have their names.
#[test]
fn the_shell_s_own_functions_are_no_verbs() {
    let fixture = Fixture::new(&[doc! { "_id": 1 }], false);
    for name in ["deleted", "inserted", "updated", "modified", "hidden", "isAfter", "identified"] {
        let code = format!("db.orders.{name}.insertOne({{_id: 2}}); db.orders.{name}.countDocuments()");
        check(&fixture, &["--eval", &code], "1\n");
        let code = format!("db.orders.{name}()");
        complains(&run(&fixture, &["--eval", &code]), 1, &format!("db.orders.{name} is not a function"));
    }
    let code = "const c = db.orders.find(); ['set', 'step', 'take', 'changed', 'counted', 'sent'].filter((name) => name in c)";
    check(&fixture, &["--eval", code], "[]\n");
    check(&fixture, &["--eval", "db.orders.countDocuments()"], "1\n");
}
