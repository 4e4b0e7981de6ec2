//! Names that say nothing, in types, functions and files, and names of modules that would shadow one of
//! our crates.

use crate::code;
use crate::tree::{File, Finding};

/// Words that no type's or file's name contains.
const EMPTY_WORDS: [&str; 11] =
    ["manager", "helper", "handler", "util", "common", "base", "misc", "inner", "wrapper", "info", "data"];
/// Files split by kind instead of by concept.
const KINDS: [&str; 3] = ["types", "consts", "traits"];
/// Endings of functions that only make room for another of the same name.
const ENDINGS: [&str; 3] = ["_internal", "_inner", "_impl"];
/// Crates that a module of the engine must not be called after.
const CRATES: [&str; 6] = ["index", "sequence", "query", "rocksfile", "base", "store"];

pub(crate) fn violations(file: &File) -> Vec<Finding> {
    let mut findings = path_violations(file);
    for keyword in ["struct", "enum", "trait", "type", "union"] {
        findings.extend(declared(file, keyword).filter_map(|(line, name)| {
            let word = camel_words(name).into_iter().find(|word| is_empty_word(word))?;
            Some(file.finding(line, format!("{name}: '{word}' says nothing")))
        }));
    }
    findings.extend(declared(file, "fn").filter_map(|(line, name)| {
        let ending = ENDINGS.into_iter().find(|ending| name.ends_with(ending))?;
        Some(file.finding(line, format!("{name}: '{ending}' only makes room for another name")))
    }));
    findings
}

fn path_violations(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The crate `base` is called after its place below the others.
    let inside = file.path.strip_prefix("base/").unwrap_or(&file.path);
    for segment in inside.trim_end_matches(".rs").split('/') {
        if KINDS.contains(&segment) || segment.split('_').any(is_empty_word) {
            findings.push(file.finding(0, format!("'{segment}' says nothing as a file's name")));
        }
    }
    if let Some(inside) = file.path.strip_prefix("engine/src/") {
        let shadow = inside.trim_end_matches(".rs").split('/').find(|segment| CRATES.contains(segment));
        findings.extend(
            shadow.map(|name| file.finding(0, format!("module {name} shadows the crate of that name"))),
        );
    }
    findings
}

fn is_empty_word(word: &str) -> bool {
    EMPTY_WORDS.iter().any(|empty| word == *empty || word.strip_suffix('s') == Some(empty))
}

/// Names that a keyword declares, with their lines.
fn declared<'a>(file: &'a File, keyword: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    code::words(&file.code, keyword).filter_map(move |at| {
        let after = file.code.get(at + keyword.len()..)?.trim_start();
        let name = after.split(|character| !code::is_word(character)).next()?;
        (!name.is_empty()).then(|| (file.line_at(at), name))
    })
}

/// `DatabaseInfo` is `[database, info]`.
fn camel_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for character in name.chars() {
        if character.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(character.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<String> =
            violations(&File::new(path, text)).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn types_that_say_nothing_are_refused() {
        check("e/src/a.rs", "struct LockManager;", &["LockManager: 'manager' says nothing"]);
        check("e/src/a.rs", "pub(crate) enum KeyUtils {}", &["KeyUtils: 'utils' says nothing"]);
        check("e/src/a.rs", "type IndexInfo = u8;", &["IndexInfo: 'info' says nothing"]);
        check("e/src/a.rs", "struct Database; trait Informed {} // struct Helper", &[]);
    }

    #[test]
    fn functions_that_make_room_are_refused() {
        check(
            "e/src/a.rs",
            "fn insert_inner() {}",
            &["insert_inner: '_inner' only makes room for another name"],
        );
        check("e/src/a.rs", "fn insert() {}", &[]);
    }

    #[test]
    fn files_that_say_nothing_are_refused() {
        check("e/src/key_utils.rs", "", &["'key_utils' says nothing as a file's name"]);
        check("e/src/common/a.rs", "", &["'common' says nothing as a file's name"]);
        check("e/src/types.rs", "", &["'types' says nothing as a file's name"]);
        check("e/src/database.rs", "", &[]);
    }

    #[test]
    fn modules_of_the_engine_do_not_shadow_crates() {
        check("engine/src/index.rs", "", &["module index shadows the crate of that name"]);
        check("engine/src/catalog/query/a.rs", "", &["module query shadows the crate of that name"]);
        check("engine/src/catalog/indexes.rs", "", &[]);
    }
}
