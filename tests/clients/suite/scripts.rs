//! PyMongo and mongosh: each test is one script, which holds what is asserted.

use std::path::Path;

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
