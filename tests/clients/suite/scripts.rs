//! PyMongo, mongosh and the tool's own shell: each test is one script, which holds what is asserted.

use std::path::Path;

use bson::{RawDocumentBuf, doc};

use cairndb_clients::cairn::{Cairn, program};
use cairndb_clients::script;

fn python(name: &str) {
    let cairn = Cairn::start();
    script::python(&cairn, name);
    cairn.stop();
}

fn mongosh(name: &str) {
    let cairn = Cairn::start();
    script::mongosh(&cairn, name);
    cairn.stop();
}

#[test]
fn pymongo_writes_reads_and_is_refused() {
    python("documents.py");
}

#[test]
fn pymongo_counts_by_a_collection_of_counters() {
    python("counters.py");
}

#[test]
fn pymongo_numbers_optimistically_in_several_threads() {
    python("optimistic.py");
}

#[test]
fn pymongo_follows_capped_collections() {
    python("capped.py");
}

#[test]
fn pymongo_uses_sequences_and_numbered_fields() {
    python("sequences.py");
}

#[test]
fn pymongo_writes_files_that_are_imported_and_reads_exported_ones() {
    let cairn = Cairn::start();
    script::python_with(&cairn, "files.py", &[&program().display().to_string()]);
    cairn.stop();
}

#[test]
fn pymongo_reads_dumps_and_writes_what_is_restored() {
    let cairn = Cairn::start();
    script::python_with(&cairn, "dumps.py", &[&program().display().to_string()]);
    cairn.stop();
}

#[test]
fn a_package_of_node_js_restores_what_was_dumped() {
    let cairn = Cairn::start();
    script::restored_by_a_package(&cairn);
    cairn.stop();
}

#[test]
fn pymongo_encrypts_fields() {
    python("encryption.py");
}

#[test]
fn mongodb_s_tests_of_encrypted_fields_pass() {
    let specifications = script::installed("CAIRNDB_SPECIFICATIONS");
    let folder = Path::new(&specifications).join("client-side-encryption");
    let cairn = Cairn::start();
    script::python_with(&cairn, "encryption_specification.py", &[folder.to_str().expect("a path of text")]);
    cairn.stop();
}

#[test]
fn prometheus_reads_the_metrics() {
    let cairn = Cairn::start_with(&["--metrics", "127.0.0.1:0", "--disk-quota", "256"]);
    let metrics = cairn.metrics().expect("asked for").to_owned();
    script::python_with(&cairn, "metrics.py", &[&metrics]);
    cairn.stop();
}

#[test]
fn mongosh_counts_by_a_collection_of_counters() {
    mongosh("counters.js");
}

#[test]
fn mongosh_numbers_optimistically() {
    mongosh("optimistic.js");
}

#[test]
fn mongosh_looks_around() {
    mongosh("looks.js");
}

#[test]
fn mongosh_caps_collections() {
    mongosh("capped.js");
}

#[test]
fn mongosh_follows_a_capped_collection() {
    mongosh("tailable.js");
}

/// The tool's own shell runs what mongosh runs, on a server and on a folder.
#[test]
fn the_tool_s_shell_runs_the_scripts_of_mongosh() {
    for name in ["counters.js", "optimistic.js", "looks.js", "capped.js", "tailable.js"] {
        let cairn = Cairn::start();
        script::shell(&cairn.uri(), name);
        cairn.stop();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let store = folder.path().join("store");
        cairndb::Client::open(&store).and_then(cairndb::Client::close).expect("it is made");
        script::shell(store.to_str().expect("a path of text"), name);
    }
}

/// The documents of a collection, byte by byte.
fn stored(cairn: &Cairn, collection: &str) -> Vec<Vec<u8>> {
    let client = mongodb::sync::Client::with_uri_str(cairn.uri()).expect("it answers");
    let found = client
        .database("shop")
        .collection::<RawDocumentBuf>(collection)
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .run();
    found.expect("it answers").map(|document| document.expect("it is read").into_bytes()).collect()
}

/// More than 300 values of all types, and the commands of cursors. Two kinds of values differ on purpose and are left out:
/// mongosh forgets the flag of `/a/s`, and stores `new Number(5)` as an empty document.
#[test]
fn the_tool_s_shell_sends_the_bytes_that_mongosh_sends() {
    let cairn = Cairn::start();
    script::mongosh(&cairn, "values.js");
    let sent = [stored(&cairn, "values"), stored(&cairn, "commands")];
    let client = mongodb::sync::Client::with_uri_str(cairn.uri()).expect("it answers");
    client.database("shop").drop().run().expect("it answers");
    script::shell(&cairn.uri(), "values.js");
    let own = [stored(&cairn, "values"), stored(&cairn, "commands")];
    assert!(sent[0].len() > 300 && sent[1].len() > 20);
    for (sent, own) in sent.iter().flatten().zip(own.iter().flatten()) {
        let shown = |bytes: &Vec<u8>| format!("{:?}", RawDocumentBuf::from_bytes(bytes.clone()));
        assert_eq!(sent, own, "{} and {}", shown(sent), shown(own));
    }
    assert_eq!((sent[0].len(), sent[1].len()), (own[0].len(), own[1].len()));
    cairn.stop();
}
