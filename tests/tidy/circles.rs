//! Circles between the files of one crate: files that reach each other by imports, so that none of them can be
//! read, tested or moved without the others.
//!
//! A declaration (`mod child;`) is no import; a re-export (`pub use self::child::Name`) is one.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths;
use crate::tree::{File, Tree};

/// The folders of sources in which circles are looked for.
const CRATES: [&str; 10] = [
    "index/src/",
    "sequence/src/",
    "query/src/",
    "formats/src/",
    "base/src/",
    "store/src/",
    "engine/src/",
    "server/src/",
    "cli/src/",
    "counters/src/",
];

/// Sets of files that import each other, directly or through others of the set; the largest first.
pub(crate) fn between_files(tree: &Tree) -> Vec<Vec<String>> {
    let mut knots: Vec<Vec<String>> =
        CRATES.into_iter().flat_map(|folder| knots(&arrows(tree, folder))).collect();
    knots.sort_by_key(|knot| std::cmp::Reverse(knot.len()));
    knots
}

/// How many files a crate's circles are looked for in.
pub(crate) fn files(tree: &Tree) -> usize {
    CRATES.into_iter().map(|folder| sources(tree, folder).count()).sum()
}

fn sources<'a>(tree: &'a Tree, folder: &'a str) -> impl Iterator<Item = &'a File> {
    tree.rust().filter(move |file| file.path.starts_with(folder) && !file.is_test_file())
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Every file with the files that it imports from.
fn arrows(tree: &Tree, folder: &str) -> Arrows {
    let homes: BTreeMap<Vec<String>, &str> =
        sources(tree, folder).map(|file| (paths::module_of(&file.path), file.path.as_str())).collect();
    let target = |segments: &[String]| {
        // The longest module that the path goes through is the file that defines what it names.
        let modules = (0..=segments.len()).rev().filter_map(|len| segments.get(..len));
        modules.into_iter().find_map(|module| homes.get(module).map(|path| (*path).to_owned()))
    };
    sources(tree, folder)
        .map(|file| {
            let named = paths::inside_the_crate(file).into_iter().chain(paths::inside_the_module(file));
            let targets = named.filter_map(|named| target(&named.segments)).filter(|path| *path != file.path);
            (file.path.clone(), targets.collect())
        })
        .collect()
}

/// The strongly connected components of more than one file.
fn knots(arrows: &Arrows) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|path| (path, reachable(arrows, path))).collect();
    let meets = |one: &String, other: &String| {
        let reaches = |from, to| reach.get(from).is_some_and(|found| found.contains(to));
        reaches(one, other) && reaches(other, one)
    };
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut knots = Vec::new();
    for path in arrows.keys() {
        if !seen.insert(path) {
            continue;
        }
        let knot: Vec<String> =
            arrows.keys().filter(|other| *other == path || meets(path, other)).cloned().collect();
        seen.extend(arrows.keys().filter(|other| knot.contains(other)));
        if knot.len() > 1 {
            knots.push(knot);
        }
    }
    knots
}

fn reachable<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&String> = arrows.get(from).into_iter().flatten().collect();
    while let Some(path) = pending.pop() {
        if found.insert(path) {
            pending.extend(arrows.get(path).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let tree = Tree::new(files.iter().map(|file| File::new(file.0, file.1)).collect());
        assert_eq!(between_files(&tree), expected);
    }

    #[test]
    fn a_parent_and_a_child_that_import_each_other_are_a_circle() {
        check(
            &[
                ("index/src/a/mod.rs", "mod b;\npub use self::b::B;\n"),
                ("index/src/a/b.rs", "use crate::a::A;\n"),
                ("index/src/c.rs", "use crate::a::A;\n"),
            ],
            &[&["index/src/a/b.rs", "index/src/a/mod.rs"]],
        );
    }

    #[test]
    fn a_child_that_imports_its_parent_is_none() {
        check(&[("index/src/a/mod.rs", "mod b;\n"), ("index/src/a/b.rs", "use super::A;\n")], &[]);
    }

    #[test]
    fn a_circle_through_a_third_file_is_found() {
        check(
            &[
                ("query/src/a.rs", "use crate::b::B;\n"),
                ("query/src/b.rs", "use crate::c::C;\n"),
                ("query/src/c.rs", "fn f() { crate::a::g() }\n"),
                ("query/src/d.rs", "use crate::a::A;\n"),
            ],
            &[&["query/src/a.rs", "query/src/b.rs", "query/src/c.rs"]],
        );
    }
}
