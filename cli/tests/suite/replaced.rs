//! `--drop` and `--truncate` of an import and `--drop` of a restore: nothing of what is there goes before what replaces it is
//! whole, whatever ends the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Output, Stdio};
use std::time::Duration;

use cairndb::Client;
use cairndb::bson::{Document, doc};

use crate::fixture::dice::{Dice, kills};
use crate::fixture::{Fixture, complains};

const NUMBER: i32 = 4_000;

/// A store with documents, an index, a validator and a field that numbers itself, and besides it a view.
fn old(is_served: bool) -> Fixture {
    let mut fixture = Fixture::new(&[], false);
    let client = Client::open(fixture.path("db")).expect("it opens");
    let shop = client.database("shop");
    for command in [
        doc! { "create": "orders", "validator": { "x": { "$ne": "wrong" } }, "collation": { "locale": "de" },
        "autoIncrement": { "Field": "number", "OnTruncate": "continue" } },
        doc! { "createIndexes": "orders", "indexes": [
            { "key": { "k": 1 }, "name": "k_1", "unique": true, "sparse": true },
            { "key": { "m": -1 }, "name": "m_-1", "hidden": true, "collation": { "locale": "simple" } },
        ] },
        doc! { "create": "newest", "viewOn": "orders", "pipeline": [] },
        doc! { "insert": "orders", "documents": [{ "_id": "old", "k": 1 }, { "_id": "older", "k": 2 }] },
    ] {
        shop.run_command(command).run().expect("it works");
    }
    client.close().expect("it closes");
    if is_served {
        fixture.serve();
    }
    fixture
}

/// Collections, documents, indexes and fields: all that a dump has.
fn all_of(fixture: &Fixture) -> crate::fixture::content::Content {
    crate::fixture::restoring::dumped(fixture)
}

fn import(fixture: &Fixture, more: &[&str]) -> Output {
    fixture.run("import", &[&["shop.orders"], more].concat()).stdin(Stdio::null()).output().expect("it runs")
}

fn lines(range: std::ops::Range<i32>) -> String {
    range.map(|id| format!("{{\"_id\":{id},\"k\":{id}}}\n")).collect::<Vec<_>>().concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).expect("it works");
    packed.finish().expect("it works")
}

/// Each of these removed the documents that were there, and left none or a part of the new ones.
#[test]
fn what_does_not_come_in_whole_replaces_nothing() {
    let packed = gzip(lines(0..NUMBER).as_bytes());
    let page = "<!DOCTYPE html>\n<html>\n<body>503 Service Unavailable</body>\n</html>\n";
    let wrong = format!("{}{}", lines(0..NUMBER), "x\n".repeat(4));
    let inputs: [(&str, &[u8], i32, &[&str]); 7] = [
        ("cut.ndjson.gz", &packed[..packed.len() / 2], 4, &[]),
        ("page.json", page.as_bytes(), 3, &[]),
        ("page.ndjson", page.as_bytes(), 3, &["--max-rejects", "all"]),
        ("page.json", page.as_bytes(), 3, &["--max-rejects", "0"]),
        ("wrong.ndjson", wrong.as_bytes(), 3, &["--max-rejects", "3"]),
        ("cut.bson", b"\x10\0\0\0\x10a\0\x01\0\0\0", 3, &[]),
        ("none.csv", b"k,k\n1,2\n", 1, &[]),
    ];
    for is_served in [false, true] {
        let fixture = old(is_served);
        let before = all_of(&fixture);
        for (name, input, status, more) in inputs {
            std::fs::write(fixture.path(name), input).expect("it works");
            for option in ["--drop", "--truncate"] {
                let output = import(&fixture, &[&[name, option, "--overwrite"], more].concat());
                complains(&output, status, "");
                if status != 1 {
                    complains(&output, status, "shop.orders is as it was");
                }
                crate::fixture::restoring::are_same(&all_of(&fixture), &before);
            }
        }
    }
}

#[test]
fn the_report_counts_nothing_that_is_not_there() {
    let fixture = old(false);
    let text = format!("{}x\n", lines(0..10));
    std::fs::write(fixture.path("a.ndjson"), text).expect("it works");
    let output = import(&fixture, &["a.ndjson", "--drop", "--max-rejects", "0", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let of = |name: &str| report.get(name).and_then(serde_json::Value::as_i64);
    assert_eq!(
        (of("read"), of("inserted"), of("discarded"), of("rejected")),
        (Some(11), Some(0), Some(10), Some(1))
    );
}

/// Some lines that are refused are no reason to keep the old: that is what `--max-rejects` says.
#[test]
fn a_few_rejects_are_no_reason_to_keep_the_old() {
    for (is_served, option) in
        [(false, "--drop"), (true, "--drop"), (false, "--truncate"), (true, "--truncate")]
    {
        let fixture = old(is_served);
        let text = format!("{}x\n{{\"_id\":9,\"k\":1}}\n", lines(0..3));
        std::fs::write(fixture.path("a.ndjson"), text).expect("it works");
        let output = import(&fixture, &["a.ndjson", option]);
        // The last line has the key of the second.
        complains(&output, 3, if option == "--drop" { "4 inserted" } else { "3 inserted" });
        let reject = &fixture.rejects("a.ndjson.rejects.ndjson");
        let told = reject[0].get_str("error").expect("it is a text");
        assert!(told.contains("JSON") || told.contains("expected"), "{told}");
        // The indexes are there while documents come in, and their refusals name the collection that is meant.
        let names: Vec<&str> = reject.iter().filter_map(|one| one.get_str("error").ok()).collect();
        assert_eq!(names.len(), if option == "--truncate" { 2 } else { 1 }, "{names:?}");
        assert!(names.iter().all(|told| !told.contains("loading")), "{names:?}");
        assert!(option == "--drop" || names[1].contains("shop.orders index: k_1"), "{names:?}");
    }
}

#[test]
fn truncate_keeps_all_but_the_documents() {
    for is_served in [false, true] {
        let fixture = old(is_served);
        let before = all_of(&fixture);
        std::fs::write(fixture.path("a.ndjson"), lines(0..3)).expect("it works");
        complains(&import(&fixture, &["a.ndjson", "--truncate"]), 0, "3 inserted");
        let after = all_of(&fixture);
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        let key = ("shop".to_owned(), "orders".to_owned());
        let ((_, before), (_, after)) = (&before[&key], &after[&key]);
        assert_eq!(before.options, after.options);
        assert_eq!(before.indexes, after.indexes);
        // A field that goes on after a truncation gives no value again.
        let numbers: Vec<i64> =
            fixture.documents().iter().filter_map(|document| document.get_i64("number").ok()).collect();
        assert_eq!(numbers, [3, 4, 5]);
        let none = old(is_served);
        std::fs::write(none.path("b.ndjson"), "").expect("it works");
        complains(&import(&none, &["b.ndjson", "--truncate"]), 0, "");
        assert_eq!(none.documents(), Vec::<Document>::new());
        assert_eq!(all_of(&none)[&key].1.indexes, before.indexes);
    }
}

#[test]
fn drop_replaces_a_view() {
    for is_served in [false, true] {
        let fixture = old(is_served);
        std::fs::write(fixture.path("a.ndjson"), lines(0..3)).expect("it works");
        let output = fixture.run("import", &["shop.newest", "a.ndjson", "--drop"]).output().expect("it runs");
        complains(&output, 0, "3 inserted");
        let exported = fixture.export(&["shop.newest"]).stdout;
        assert_eq!(String::from_utf8_lossy(&exported).lines().count(), 3);
        assert_eq!(fixture.documents().len(), 2);
    }
}

/// A signal, a stop, and then the same command until it is through: what was there is there until then.
#[test]
fn an_import_that_goes_on_replaces_in_the_end() {
    for (is_served, option) in [(false, "--drop"), (true, "--truncate")] {
        let fixture = old(is_served);
        let before = all_of(&fixture);
        let text = format!("{}x\nx\n{}", lines(0..100), lines(100..200));
        std::fs::write(fixture.path("a.ndjson"), text).expect("it works");
        let run = |limit: &str| {
            import(&fixture, &["a.ndjson", option, "--resume", "--batch", "7", "--max-rejects", limit])
        };
        complains(&run("0"), 3, "shop.orders is as it was, and the same command continues");
        let documents: Vec<Document> = fixture.documents();
        assert_eq!(documents.len(), 2, "{documents:?}");
        complains(&run("1"), 3, "shop.orders is as it was, and the same command continues");
        complains(&run("2"), 3, "2 of 202 records were rejected");
        assert_eq!(fixture.documents().len(), 200);
        assert_eq!(all_of(&fixture).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    }
}

/// Killed at random moments, in the middle of the rename too: there are the old documents or the new ones, and after the next
/// import nothing of the killed ones. `CAIRNDB_REPLACE_KILLS` says how often.
#[test]
fn a_killed_import_leaves_the_old_or_the_new() {
    let count = kills("CAIRNDB_REPLACE_KILLS", 4, 5);
    for (is_served, case, more) in [
        (false, "import --drop into a folder", &["--drop"][..]),
        (true, "import --truncate into a server", &["--truncate"]),
        (false, "import --truncate --resume into a folder", &["--truncate", "--resume"]),
    ] {
        let mut dice = Dice::new(case);
        let fixture = old(is_served);
        let names: Vec<_> = all_of(&fixture).into_keys().collect();
        std::fs::write(fixture.path("a.ndjson"), lines(0..NUMBER)).expect("it works");
        let arguments = [&["shop.orders", "a.ndjson", "--batch", "50"], more].concat();
        let started = std::time::Instant::now();
        complains(&fixture.run("import", &arguments).output().expect("it runs"), 0, "4,000 inserted");
        let reach = u64::try_from(started.elapsed().as_micros()).expect("it is short") * 9 / 8;
        let reset = lines(-2..0);
        for _ in 0..count {
            std::fs::write(fixture.path("reset.ndjson"), &reset).expect("it works");
            complains(&import(&fixture, &["reset.ndjson", "--truncate"]), 0, "2 inserted");
            let mut child =
                fixture.run("import", &arguments).stderr(Stdio::null()).spawn().expect("it starts");
            std::thread::park_timeout(Duration::from_micros(dice.below(reach)));
            let _ = child.kill();
            child.wait().expect("it ends");
            let there = fixture.documents().len();
            assert!(there == 2 || there == 4000, "{case}: {there} documents");
            complains(&fixture.run("import", &arguments).output().expect("it runs"), 0, "");
            assert_eq!(fixture.documents().len(), 4000, "{case}");
            assert_eq!(all_of(&fixture).into_keys().collect::<Vec<_>>(), names, "{case}");
        }
    }
}

/// What a test feeds to an import or a restore by hand, until it is told to end.
struct Fed {
    child: std::process::Child,
    input: Option<std::process::ChildStdin>,
}

impl Fed {
    fn start(fixture: &Fixture, name: &str, more: &[&str]) -> Self {
        let mut command = fixture.run(name, more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take();
        Self { child, input }
    }

    fn takes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("it reads");
    }

    fn ends(mut self) -> Output {
        drop(self.input.take());
        self.child.wait_with_output().expect("it ends")
    }
}

/// The collections of the database that are aside, and the signs of their makers.
fn loading(fixture: &Fixture) -> Vec<String> {
    all_of(fixture).into_keys().map(|(_, name)| name).filter(|name| name.contains("loading")).collect()
}

/// Waits until a collection is aside.
#[track_caller]
fn waits_for_aside(fixture: &Fixture, count: usize) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while loading(fixture).iter().filter(|name| name.ends_with(".orders")).count() < count {
        assert!(std::time::Instant::now() < end, "nothing is aside: {:?}", loading(fixture));
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The second removed what came in of the first, which failed in the end.
#[test]
fn two_that_replace_one_collection_both_work_and_the_last_one_stays() {
    let fixture = old(true);
    let first = ["shop.orders", "-", "--format", "ndjson", "--drop"];
    let mut importing = Fed::start(&fixture, "import", &first);
    importing.takes(lines(0..2_000).as_bytes());
    waits_for_aside(&fixture, 1);
    // One that is quick, in the place of the old.
    std::fs::write(fixture.path("b.ndjson"), lines(0..7)).expect("it works");
    let output = import(&fixture, &["b.ndjson", "--truncate"]);
    complains(&output, 0, "shop.orders is being replaced by another command too");
    assert_eq!(fixture.documents().len(), 7);
    // And a restore, which is fed by hand as well.
    complains(
        &fixture.run("dump", &["--archive", "seven", "--include", "shop.orders"]).output().expect("it runs"),
        0,
        "",
    );
    let archive = std::fs::read(fixture.path("seven")).expect("it works");
    let mut restoring = Fed::start(&fixture, "restore", &["--archive", "-", "--drop"]);
    let (begin, end) = archive.split_at(archive.len() - 40);
    restoring.takes(begin);
    waits_for_aside(&fixture, 2);
    let output = importing.ends();
    complains(&output, 0, "2,000 inserted");
    assert_eq!(fixture.documents().len(), 2_000);
    restoring.takes(end);
    complains(&restoring.ends(), 0, "restored 1 collection");
    assert_eq!(fixture.documents().len(), 7);
    assert_eq!(loading(&fixture), Vec::<String>::new());
}

/// What a killed process left stays as long as its maker may be alive, and no longer.
#[test]
fn what_a_killed_process_left_goes_once_its_maker_is_known_to_be_gone() {
    let fixture = old(true);
    let mut killed = Fed::start(&fixture, "import", &["shop.orders", "-", "--format", "ndjson", "--drop"]);
    killed.takes(lines(0..2_000).as_bytes());
    waits_for_aside(&fixture, 1);
    killed.child.kill().expect("it runs");
    killed.child.wait().expect("it ends");
    let sign = loading(&fixture);
    assert_eq!(sign.len(), 2, "a collection and a sign: {sign:?}");
    std::fs::write(fixture.path("b.ndjson"), lines(0..7)).expect("it works");
    complains(&import(&fixture, &["b.ndjson", "--drop"]), 0, "7 inserted");
    assert_eq!(loading(&fixture), Vec::<String>::new());
    // Nothing is waited for where there is nothing.
    let output = import(&fixture, &["b.ndjson", "--drop"]);
    complains(&output, 0, "7 inserted");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("waiting"), "{output:?}");
}

/// A signal ends the wait, and removes nothing that may be another's.
#[test]
fn a_signal_ends_the_wait_for_a_sign() {
    let fixture = old(true);
    let mut stopped = Fed::start(&fixture, "import", &["shop.orders", "-", "--format", "ndjson", "--drop"]);
    stopped.takes(lines(0..2_000).as_bytes());
    waits_for_aside(&fixture, 1);
    let id = rustix::process::Pid::from_child(&stopped.child);
    rustix::process::kill_process(id, rustix::process::Signal::STOP).expect("it runs");
    std::fs::write(fixture.path("b.ndjson"), lines(0..7)).expect("it works");
    let mut waiting = Fed::start(&fixture, "import", &["shop.orders", "b.ndjson", "--drop"]);
    // Before it waits a signal ends something else, or the process by itself.
    let mut said = BufReader::new(waiting.child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("waiting up to") {
        line.clear();
        assert!(said.read_line(&mut line).expect("it is text") > 0, "it does not wait");
    }
    let other = rustix::process::Pid::from_child(&waiting.child);
    rustix::process::kill_process(other, rustix::process::Signal::INT).expect("it waits");
    let mut output = waiting.ends();
    said.read_to_end(&mut output.stderr).expect("it is whole");
    complains(&output, 130, "interrupted");
    rustix::process::kill_process(id, rustix::process::Signal::CONT).expect("it is there");
    complains(&stopped.ends(), 0, "2,000 inserted");
    assert_eq!(fixture.documents().len(), 2_000);
    assert_eq!(loading(&fixture), Vec::<String>::new());
}

/// An input that is damaged in many ways, and the command that takes it.
struct Damaged {
    name: String,
    /// The file that is damaged; of a directory one of its files.
    file: String,
    is_dump: bool,
}

impl Damaged {
    /// Inputs of every format and compression, made from a store with documents.
    fn all(source: &Fixture) -> Vec<Self> {
        let mut all = Vec::new();
        for format in ["ndjson", "json", "csv", "tsv", "bson"] {
            for packed in ["", ".gz", ".zst"] {
                let name = format!("a.{format}{packed}");
                complains(&source.export(&["shop.orders", &name]), 0, "");
                all.push(Self { file: name.clone(), name, is_dump: false });
            }
        }
        for name in ["wide.csv", "wide.ndjson"] {
            let text = source
                .export(&["shop.orders", "--format", name.split('.').nth(1).expect("an ending")])
                .stdout;
            let text = String::from_utf8(text).expect("it is UTF-8");
            let wide: Vec<u8> =
                "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
            std::fs::write(source.path(name), wide).expect("it works");
            all.push(Self { file: name.to_owned(), name: name.to_owned(), is_dump: false });
        }
        for (name, more, ending) in [
            ("archive", &["--archive", "archive"][..], None),
            ("archive.gz", &["--archive", "archive.gz", "--gzip"], None),
            ("folder", &["folder"], Some("")),
            ("folder.gz", &["folder.gz", "--gzip"], Some(".gz")),
        ] {
            complains(&source.run("dump", more).output().expect("it runs"), 0, "");
            let files = match ending {
                None => vec![name.to_owned()],
                Some(ending) => ["shop/orders.bson", "shop/orders.metadata.json", "prelude.json"]
                    .map(|file| format!("{name}/{file}{ending}"))
                    .to_vec(),
            };
            all.extend(files.into_iter().map(|file| Self { name: name.to_owned(), file, is_dump: true }));
        }
        all
    }

    fn is_taken(&self, fixture: &Fixture, option: &str) -> Output {
        let more = match (self.is_dump, self.name.starts_with("archive")) {
            (true, true) => vec!["--archive", &self.name, "--drop"],
            (true, false) => vec![self.name.as_str(), "--drop"],
            (false, _) => return import(fixture, &[&self.name, option, "--max-rejects", "0"]),
        };
        fixture.run("restore", &more).output().expect("it runs")
    }
}

/// Inputs of every format, cut or with a changed byte at random places: what is not a success has replaced nothing.
/// `CAIRNDB_DAMAGES` says how many of each.
#[test]
fn cut_and_damaged_inputs_replace_nothing_or_are_whole() {
    let count = kills("CAIRNDB_DAMAGES", 2, 2);
    let source = Fixture::new(&[], false);
    std::fs::write(source.path("b.ndjson"), lines(0..300)).expect("it works");
    complains(&import(&source, &["b.ndjson"]), 0, "300 inserted");
    let inputs = Damaged::all(&source);
    let mut dice = Dice::new("cut and damaged inputs");
    let old = [doc! { "_id": "old" }];
    let fixture = Fixture::new(&old, false);
    std::fs::write(fixture.path("old.ndjson"), "{\"_id\":\"old\"}\n").expect("it works");
    for input in &inputs {
        let Damaged { file, is_dump, .. } = input;
        let bytes = std::fs::read(source.path(file)).expect("it is made");
        copy(&source.path(&input.name), &fixture.path(&input.name));
        for turn in 0..2 * count {
            let at = usize::try_from(dice.below(bytes.len() as u64)).expect("it is small");
            let mut damaged = bytes.clone();
            if turn % 2 == 0 {
                damaged.truncate(at);
            } else {
                damaged[at] ^= 1 << dice.below(8);
            }
            std::fs::write(fixture.path(file), &damaged).expect("it works");
            let option = if turn % 4 < 2 { "--drop" } else { "--truncate" };
            let output = input.is_taken(&fixture, option);
            let status = output.status.code().expect("it ends");
            let is_old = fixture.documents() == old;
            let case = format!("{file}, {at} of {}, turn {turn}: {status}, {output:?}", bytes.len());
            complains(&output, status, "");
            // A dump whose descriptions are damaged may be restored but for what they say (3).
            let may_be_new = status == 0 || status == 3 && *is_dump;
            assert!(is_old || may_be_new, "{case}");
            let names = loading(&fixture);
            assert!(names.is_empty(), "{case}: {names:?}");
            if !is_old {
                complains(&import(&fixture, &["old.ndjson", "--drop"]), 0, "1 inserted");
            }
            for other in fixture.files().iter().filter(|file| file.contains("rejects")) {
                std::fs::remove_file(fixture.path(other)).expect("it works");
            }
        }
    }
}

/// Copies a file, or a folder with all that it has.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("it works");
        return;
    }
    std::fs::create_dir_all(to).expect("it works");
    for entry in std::fs::read_dir(from).expect("it works") {
        let entry = entry.expect("it works");
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Documents, indexes and views that were there went when an archive was opened, and it was cut short.
#[test]
fn a_dump_that_is_cut_replaces_nothing() {
    let source = old(false);
    std::fs::write(source.path("a.ndjson"), lines(0..NUMBER)).expect("it works");
    complains(&import(&source, &["a.ndjson", "--truncate"]), 0, "4,000 inserted");
    complains(&source.run("dump", &["--archive", "a"]).output().expect("it runs"), 0, "");
    complains(&source.run("dump", &["d"]).output().expect("it runs"), 0, "");
    let archive = std::fs::read(source.path("a")).expect("it works");
    let orders = std::fs::read(source.path("d/shop/orders.bson")).expect("it works");
    for is_served in [false, true] {
        let target = old(is_served);
        let before = all_of(&target);
        let restored =
            |more: &[&str]| target.run("restore", &[more, &["--drop"]].concat()).output().expect("it runs");
        for at in [archive.len() / 2, archive.len() * 9 / 10, archive.len() - 1] {
            std::fs::write(target.path("cut"), &archive[..at]).expect("it works");
            complains(&restored(&["--archive", "cut"]), 1, "shop.orders is as it was");
            crate::fixture::restoring::are_same(&all_of(&target), &before);
        }
        std::fs::create_dir_all(target.path("d/shop")).expect("it works");
        for name in ["orders.metadata.json", "newest.metadata.json"] {
            let text = std::fs::read(source.path("d/shop").join(name)).expect("it works");
            std::fs::write(target.path("d/shop").join(name), text).expect("it works");
        }
        std::fs::write(target.path("d/shop/orders.bson"), &orders[..orders.len() - 3]).expect("it works");
        complains(&restored(&["d"]), 1, "shop.orders is as it was");
        crate::fixture::restoring::are_same(&all_of(&target), &before);
        std::fs::write(target.path("whole"), &archive).expect("it works");
        complains(&restored(&["--archive", "whole", "--verify"]), 0, "");
        crate::fixture::restoring::are_same(&all_of(&target), &all_of(&source));
    }
}
