//! The arrows between the modules of one crate. Their order is the crate's list in ARCHITECTURE.md, because it is the design.
//!
//! A module may import from itself, from its own group of the list and from groups before it. The crate's root may import
//! from all. Modules of one group may know each other, but in most crates not in a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::{self, Named};
use crate::tree::{File, Finding, Tree};

/// The page with the lists.
const DESIGN: &str = "ARCHITECTURE.md";
/// The crates with a list.
const CRATES: [&str; 12] = [
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
    "counters",
    "cli",
];

/// A crate's modules, from the ones that know nothing to the ones that know all. Modules of one group
/// may know each other.
type Order = Vec<Vec<String>>;

/// Crates whose modules must not form a circle.
const WITHOUT_CIRCLES: [&str; 7] = [
    "index/src/",
    "sequence/src/",
    "pcre/src/",
    "query/src/",
    "rocksfile/src/",
    "formats/src/",
    "server/src/",
];

/// Paths that name a module of a later group, modules that their crate's list does not have, and names in a list that are
/// no module.
pub(crate) fn violations(tree: &Tree) -> Vec<Finding> {
    let Some(design) = tree.files.iter().find(|file| file.path == DESIGN) else { return Vec::new() };
    let mut findings = Vec::new();
    for name in CRATES {
        let (folder, order) = (format!("{name}/src/"), order(&design.text, name));
        let homes: BTreeSet<String> = sources(tree, &folder).filter_map(home).collect();
        let gone = order.iter().flatten().filter(|module| !homes.contains(*module));
        findings.extend(gone.map(|module| design.finding(0, format!("{name} has no module {module}"))));
        findings.extend(sources(tree, &folder).flat_map(|file| file_violations(file, &order)));
    }
    findings
}

/// The list of a crate, which is the item `` - `crate`: `` of the page, group by group.
fn order(design: &str, name: &str) -> Order {
    let start = format!("- `{name}`: ");
    let mut lines = design.lines().skip_while(|line| !line.starts_with(&start));
    let first = lines.next().and_then(|line| line.strip_prefix(&start)).unwrap_or_default();
    let rest = lines.take_while(|line| line.starts_with("  "));
    let list: String = std::iter::once(first).chain(rest).collect();
    list.split('→').map(|group| group.split('`').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

/// The top-level module that a file belongs to. The crate's root belongs to none.
fn home(file: &File) -> Option<String> {
    paths::module_of(&file.path).into_iter().next()
}

fn sources<'a>(tree: &'a Tree, folder: &'a str) -> impl Iterator<Item = &'a File> {
    tree.rust().filter(move |file| file.path.starts_with(folder) && !file.is_test_file())
}

fn file_violations(file: &File, order: &Order) -> Vec<Finding> {
    let Some(home) = home(file) else { return Vec::new() };
    let place = |module: &str| order.iter().position(|group| group.iter().any(|name| name == module));
    let Some(own) = place(&home) else {
        return vec![file.finding(0, format!("module {home} is not in the list"))];
    };
    let wrong = |named: Named| {
        let target = named.segments.first()?;
        let what = match place(target) {
            Some(other) if other <= own => return None,
            Some(_) => format!("{home} must not know {target}"),
            // Root re-exports are another rule's.
            None if target.starts_with(char::is_uppercase) => return None,
            None => format!("{target} is not in the list"),
        };
        Some(file.finding(named.line, what))
    };
    paths::inside_the_crate(file).into_iter().filter_map(wrong).collect()
}

/// Circles of the modules of one crate, each named once.
pub(crate) fn circles(tree: &Tree) -> Vec<Finding> {
    WITHOUT_CIRCLES
        .into_iter()
        .filter_map(|folder| {
            let circle = circle(&graph(sources(tree, folder)))?;
            Some(Finding { path: folder.to_owned(), line: 0, what: circle.join(" -> ") })
        })
        .collect()
}

/// Top-level modules, and the ones that each names.
fn graph<'a>(files: impl Iterator<Item = &'a File>) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let Some(home) = home(file) else { continue };
        let targets =
            paths::inside_the_crate(file).into_iter().filter_map(|named| named.segments.into_iter().next());
        graph.entry(home.clone()).or_default().extend(targets.filter(|target| *target != home));
    }
    graph
}

/// One circle, its first module repeated at the end: what stays when modules without arrows go, again
/// and again, followed until it repeats.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = graph.clone();
    loop {
        let knots: BTreeSet<String> = left.keys().cloned().collect();
        for targets in left.values_mut() {
            targets.retain(|target| knots.contains(target));
        }
        let count = left.len();
        left.retain(|_, targets| !targets.is_empty());
        if left.len() == count {
            break;
        }
    }
    let mut walked = vec![left.keys().next()?.clone()];
    loop {
        let next = left.get(walked.last()?)?.first()?.clone();
        let start = walked.iter().position(|module| *module == next);
        walked.push(next);
        if let Some(start) = start {
            return Some(walked.split_off(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let order = order(
            "- `base`: `extra`\n- `engine`: `error`, `namespace` → `storage` →\n  `write`\n- `server`: `extra`\n",
            "engine",
        );
        let findings = file_violations(&File::new(path, text), &order);
        assert_eq!(findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_module_of_a_later_group_is_refused() {
        check("engine/src/storage/keys.rs", "use crate::write::Target;", &["storage must not know write"]);
        check("engine/src/error.rs", "fn f() { crate::storage::open() }", &["error must not know storage"]);
        check("engine/src/error.rs", "use super::storage::Store;", &["error must not know storage"]);
    }

    #[test]
    fn groups_before_and_the_own_group_are_allowed() {
        check("engine/src/write/mod.rs", "use crate::{error::Error, storage::Store, write::insert};", &[]);
        check("engine/src/error.rs", "use crate::namespace::Namespace;", &[]);
        check("engine/src/namespace.rs", "use crate::error::Error;", &[]);
        check("engine/src/lib.rs", "pub use crate::write::Target;", &[]);
    }

    #[test]
    fn modules_outside_of_the_list_are_refused() {
        check("engine/src/extra.rs", "", &["module extra is not in the list"]);
        check("engine/src/write.rs", "use crate::extra::X;", &["extra is not in the list"]);
    }

    #[test]
    fn names_that_are_no_module_are_refused() {
        let tree = Tree::new(vec![
            File::new(DESIGN, "- `base`: `a` → `gone`\n"),
            File::new("base/src/a.rs", "fn f() {}\n"),
            File::new("base/src/lib.rs", "mod a;\n"),
        ]);
        let found: Vec<String> = violations(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["base has no module gone"]);
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let tree = Tree::new(vec![
            File::new("index/src/a.rs", "use crate::b::B;"),
            File::new("index/src/b/mod.rs", "use crate::c::C;"),
            File::new("index/src/c.rs", "fn f() { super::b::g() }"),
            File::new("index/src/d.rs", "use crate::a::A;"),
        ]);
        let found: Vec<String> = circles(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["b -> c -> b"]);
    }

    #[test]
    fn a_tree_of_modules_has_no_circle() {
        let tree = Tree::new(vec![
            File::new("index/src/a.rs", "use crate::b::B;\nuse crate::c::C;"),
            File::new("index/src/b.rs", "use crate::c::C;"),
            File::new("index/src/c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ]);
        assert_eq!(circles(&tree), []);
    }
}
