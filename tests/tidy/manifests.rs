//! Rules on manifests: versions, license and lints are decided once, at the root, and RocksDB stays
//! in the store. The workspaces apart (fuzzing, rivals) have roots of their own.

use crate::tree::{File, Finding, Tree};

/// Members of the main workspace, as in the root manifest.
const MEMBERS: [&str; 16] = [
    "index",
    "sequence",
    "pcre",
    "query",
    "rocksfile",
    "formats",
    "base",
    "store",
    "engine",
    "server",
    "cli",
    "counters",
    "rocksdb",
    "tests",
    "tests/clients",
    "benches",
];
/// Members that may name `rocksdb`: the store, the benchmarks that measure against it, and the demo, which shows one such figure.
const KNOW_ROCKSDB: [&str; 3] = ["store", "benches", "tests"];
/// Keys of `[package]` that the workspace decides.
const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];

pub(crate) fn violations(tree: &Tree) -> Vec<Finding> {
    let members = MEMBERS.iter().filter_map(|member| {
        let path = format!("{member}/Cargo.toml");
        Some((*member, tree.files.iter().find(|file| file.path == path)?))
    });
    members.flat_map(|(member, file)| member_violations(member, file)).collect()
}

fn member_violations(member: &str, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    let mut takes_lints = false;
    for (line, text) in file.text.lines().enumerate().map(|(line, text)| (line + 1, text.trim())) {
        if let Some(name) = text.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = text.split_once('=').filter(|_| !text.starts_with('#')) else { continue };
        let (key, value) = (key.trim(), value.trim());
        let inherits = key.ends_with(".workspace") && value == "true" || value.contains("workspace = true");
        let name = key.trim_end_matches(".workspace");
        takes_lints |= section == "lints" && key == "workspace" && value == "true";
        if section == "package" && INHERITED.contains(&name) && !inherits {
            findings.push(file.finding(line, format!("{name} is not taken from the workspace")));
        }
        if section.ends_with("dependencies") {
            // A package that tests itself with a feature has no version of itself.
            if !inherits && !value.contains("path = \".\"") {
                findings.push(
                    file.finding(line, format!("the version of {name} is not taken from the workspace")),
                );
            }
            if name == "rocksdb" && !KNOW_ROCKSDB.contains(&member) {
                findings.push(file.finding(line, "only the store knows rocksdb"));
            }
        }
    }
    if !takes_lints {
        findings.push(file.finding(0, "lints are not taken from the workspace"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[track_caller]
    fn check(member: &str, text: &str, expected: &[&str]) {
        let file = File::new(&format!("{member}/Cargo.toml"), &format!("{LINTS}{text}"));
        let found: Vec<String> =
            violations(&Tree::new(vec![file])).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn inherited_keys_are_allowed() {
        check("index", "[package]\nname = \"x\"\nversion.workspace = true\n", &[]);
        check(
            "index",
            "[dependencies]\nbson.workspace = true\nserde = { workspace = true, features = [\"rc\"] }\n",
            &[],
        );
    }

    #[test]
    fn own_versions_are_refused() {
        check("index", "[package]\nversion = \"1.0.0\"\n", &["version is not taken from the workspace"]);
        check(
            "index",
            "[dependencies]\nbson = \"3\"\n",
            &["the version of bson is not taken from the workspace"],
        );
        check(
            "index",
            "[dev-dependencies]\nbson = { version = \"3\" }\n",
            &["the version of bson is not taken from the workspace"],
        );
    }

    #[test]
    fn only_the_store_and_the_benchmarks_name_rocksdb() {
        check("store", "[dependencies]\nrocksdb.workspace = true\n", &[]);
        check("benches", "[dependencies]\nrocksdb.workspace = true\n", &[]);
        check("engine", "[dependencies]\nrocksdb.workspace = true\n", &["only the store knows rocksdb"]);
    }

    #[test]
    fn lints_are_the_workspaces() {
        let tree = Tree::new(vec![File::new("index/Cargo.toml", "[package]\nname = \"x\"\n")]);
        let found: Vec<String> = violations(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["lints are not taken from the workspace"]);
    }
}
