//! Rules on what is published: a package holds all that it is built, documented and tested with, says what it is, and asks for
//! the parts that it was tested with.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::{REPOSITORY, resolve};
use crate::tree::{File, Finding, Tree, has_extension};

/// Packages that are published, by their folders.
const PUBLISHED: [&str; 13] = [
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
];
/// Of these, parts that programs do not name: they say so in their first line.
const PARTS: [&str; 8] = ["index", "sequence", "pcre", "query", "rocksfile", "formats", "base", "store"];
const PART: &str = "//! A part of `cairndb`, without a stable API of its own: ";
/// Files that each package has.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// Keys that a manifest has for registries and for the host of documentation.
const KEYS: [&str; 4] = ["homepage.workspace", "documentation", "readme", "description"];
/// Files that look above their package: the tool's suite prefers the checkout where there is one, and the other is left out of
/// its package.
const LOOK_ABOVE: [&str; 2] = ["cli/tests/suite/fixture/examples.rs", "rocksdb/tests/setup.rs"];
/// What a file is named by in the sources.
const INCLUDES: [&str; 3] = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];
/// Pinned crates of others that only tests use.
const PINNED: [&str; 1] = ["fuser"];
/// The tool's suite, and the folder in which its package has what the suite reads of the checkout.
const TOOLS_SUITE: &str = "cli/tests/suite/";
const TOOLS_LINKED: &str = "cli/linked";
/// The front page of the engine's documentation.
const FRONT: &str = "engine/src/lib.rs";
const PLOT: &str = "\n#![doc = include_str!(\"../linked/performance.svg\")]\n";
const PICTURES: &str = "https://raw.githubusercontent.com/cairndb/cairndb/main/";
/// The page of the engine's package, which is the repository's.
const PAGE: &str = "engine/README.md";

fn package_of(path: &str) -> Option<&'static str> {
    PUBLISHED.into_iter().find(|package| path.strip_prefix(package).is_some_and(|rest| rest.starts_with('/')))
}

/// Files that a package includes and does not hold.
pub(crate) fn outside(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter_map(|file| Some((file, package_of(&file.path)?)))
        .filter(|(file, _)| !LOOK_ABOVE.contains(&file.path.as_str()))
        .flat_map(|(file, package)| outside_of(file, package))
        .collect()
}

fn outside_of(file: &File, package: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let named = INCLUDES.iter().flat_map(|start| line.split(start).skip(1));
        for name in named.filter_map(|rest| rest.split('"').next()) {
            let path = resolve(&file.path, name);
            if package_of(&path) != Some(package) {
                findings.push(file.finding(number + 1, format!("{name} is not in the package {package}")));
            }
        }
        let after = line.split("CARGO_MANIFEST_DIR\")").skip(1);
        if after.into_iter().any(|rest| rest.contains("\"/..") || rest.contains("(\"..")) {
            findings.push(file.finding(number + 1, format!("it looks above the package {package}")));
        }
    }
    findings
}

/// Packages without a file or a key that each has, links in them that lead nowhere, and parts that do not say what they are.
pub(crate) fn incomplete(tree: &Tree, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in PUBLISHED {
        let path = format!("{package}/Cargo.toml");
        let Some(manifest) = tree.files.iter().find(|file| file.path == path) else { continue };
        let lacks = |what: &str| manifest.finding(0, format!("the package has no {what}"));
        findings.extend(
            FILES.iter().filter(|name| !root.join(package).join(name).is_file()).map(|name| lacks(name)),
        );
        let has = |key: &str| manifest.text.lines().any(|line| line.starts_with(&format!("{key} =")));
        findings.extend(KEYS.iter().filter(|key| !has(key)).map(|key| lacks(key)));
        let library = format!("{package}/src/lib.rs");
        let Some(library) = tree.files.iter().find(|file| file.path == library) else { continue };
        if !manifest.text.contains("\n[package.metadata.docs.rs]\n") {
            findings.push(lacks("[package.metadata.docs.rs]"));
        }
        if PARTS.contains(&package) != library.text.starts_with(PART) {
            findings.push(library.finding(1, format!("a part, and nothing else, begins with {PART:?}")));
        }
    }
    let links = PUBLISHED.iter().flat_map(|package| links_below(&root.join(package)));
    findings.extend(links.filter(|link| !link.exists()).map(|link| Finding {
        path: link.strip_prefix(root).unwrap_or(&link).display().to_string(),
        line: 0,
        what: "the link leads nowhere".to_owned(),
    }));
    findings
}

/// Files of the checkout that the tool's suite names, and that its package does not have: from the package the suite would
/// not find them.
pub(crate) fn unpacked(tree: &Tree, is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with(TOOLS_SUITE)) {
        let of_checkout = named_files(file)
            .into_iter()
            .filter(|(_, path)| tree.files.iter().any(|other| other.path == *path));
        for (line, path) in of_checkout {
            let linked = format!("{TOOLS_LINKED}/{path}");
            if !is_there(&linked) {
                findings.push(file.finding(line, format!("{linked} is not there")));
            }
        }
    }
    findings
}

/// Literals that are whole paths of pages and of sources, with their lines.
fn named_files(file: &File) -> Vec<(usize, &str)> {
    let mut named = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let literals = line.split('"').skip(1).step_by(2);
        let paths = literals.filter(|path| has_extension(path, "md") || has_extension(path, "rs"));
        named.extend(paths.map(|path| (number + 1, path)));
    }
    named
}

fn links_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_symlink() => vec![entry.path()],
            Ok(kind) if kind.is_dir() && entry.file_name() != "target" => links_below(&entry.path()),
            Ok(_) | Err(_) => Vec::new(),
        })
        .collect()
}

/// Versions in the root's manifest that cargo could resolve to what was never tested together, or not at all.
pub(crate) fn versions(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.files.iter().find(|file| file.path == "Cargo.toml") else { return Vec::new() };
    let own = root.text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let own = format!("version = \"={}\"", own.unwrap_or_default());
    let mut findings = Vec::new();
    for (number, line) in root.text.lines().enumerate() {
        let Some((name, value)) = line.split_once(" = ").filter(|(name, _)| !name.starts_with('#')) else {
            continue;
        };
        if value.contains("path = ") && value.contains("version = ") && !value.contains(&own) {
            findings
                .push(root.finding(number + 1, format!("{name} is asked for by another version than {own}")));
        }
        if value.contains("\"=") && !value.contains("path = ") && !PINNED.contains(&name) {
            findings.push(root.finding(number + 1, format!("{name} is pinned: the lock file does that")));
        }
    }
    findings
}

/// The page of the engine's package: the repository's, with links that work everywhere.
pub(crate) fn page(tree: &Tree) -> String {
    let readme =
        tree.files.iter().find(|file| file.path == "README.md").map_or("", |file| file.text.as_str());
    let mut page = String::new();
    let mut parts = readme.split("](");
    page.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let is_picture =
            page.rfind('[').is_some_and(|at| page.get(..at).is_some_and(|text| text.ends_with('!')));
        page.push_str("](");
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let is_elsewhere = target.starts_with("http") || target.starts_with('#');
        let (before, after) = match (is_elsewhere, is_picture) {
            (true, _) => ("", ""),
            // As a picture, and not as a page that shows it.
            (false, true) => (PICTURES, "?sanitize=true"),
            (false, false) => (REPOSITORY, ""),
        };
        let _ = write!(page, "{before}{target}{after})");
        page.push_str(rest);
    }
    page
}

/// The front page of the documentation begins as the README does, and has its reasons and its plot.
pub(crate) fn front(tree: &Tree) -> Vec<Finding> {
    let Some(front) = tree.files.iter().find(|file| file.path == FRONT) else { return Vec::new() };
    let lines = front.text.lines().map_while(|line| line.strip_prefix("//!"));
    let shown = words(&lines.collect::<Vec<_>>().join("\n"));
    let page = page(tree);
    let first = page.split("\n\n").nth(1).unwrap_or_default();
    let reasons =
        page.split_once("## Why\n\n").and_then(|parts| parts.1.split("\n\n").next()).unwrap_or_default();
    let mut findings = Vec::new();
    if !front.text.contains(PLOT) {
        findings.push(front.finding(1, format!("it does not show the plot of README.md: {PLOT}")));
    }
    if first.is_empty() || !shown.starts_with(&words(&first.replace("**", ""))) {
        findings.push(front.finding(1, "it does not begin as README.md does"));
    }
    findings.extend(
        reasons.split("\n- ").filter(|reason| !shown.contains(&words(reason))).map(|reason| {
            front.finding(1, format!("README.md has a reason that it does not have: {reason}"))
        }),
    );
    findings
}

/// A text with one space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the page of the engine's package is out of date. `CAIRNDB_WRITE_DOCS=1` renews it.
pub(crate) fn stale_page(tree: &Tree, root: &Path) -> Vec<Finding> {
    let page = page(tree);
    if std::env::var_os("CAIRNDB_WRITE_DOCS").is_some() {
        fs::write(root.join(PAGE), &page).unwrap_or_else(|error| panic!("{PAGE}: {error}"));
    }
    let found = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    if found == page {
        return Vec::new();
    }
    let what = "it is not README.md: renew it with CAIRNDB_WRITE_DOCS=1".to_owned();
    vec![Finding { path: PAGE.to_owned(), line: 0, what }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let tree = Tree::new(vec![File::new(path, text)]);
        let found: Vec<String> = outside(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_package_does_not_hold_is_found() {
        check("server/src/lib.rs", "#[doc = include_str!(\"../linked/data.md\")]\n", &[]);
        let outside = "../../docs/data.md is not in the package server";
        check("server/src/lib.rs", "#[doc = include_str!(\"../../docs/data.md\")]\n", &[outside]);
        check(
            "store/src/a.rs",
            "#[path = \"../../base/src/b.rs\"]\n",
            &["../../base/src/b.rs is not in the package store"],
        );
        check(
            "index/src/a.rs",
            "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../docs\")",
            &["it looks above the package index"],
        );
        check("tests/api/a.rs", "#[path = \"../../engine/examples/a.rs\"]\n", &[]);
    }

    #[test]
    fn pages_that_the_package_of_the_tool_lacks_are_found() {
        let suite = "const NOT_RUN: [(&str, &str); 2] =\n    [(\"docs/a.md\", \"x\"),\n    (\"b.md\", \"docs/a.md is\")];\n";
        let files = [("docs/a.md", ""), ("b.md", ""), ("cli/tests/suite/c.rs", suite), ("tests/d.rs", suite)];
        let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
        let lacking = |there: &[&str]| -> Vec<String> {
            let found = unpacked(&tree, |path| there.contains(&path));
            found.iter().map(Finding::to_string).collect()
        };
        let of = |line: usize, path: &str| {
            format!("  cli/tests/suite/c.rs:{line}: cli/linked/{path} is not there")
        };
        assert_eq!(lacking(&[]), [of(2, "docs/a.md"), of(3, "b.md")]);
        assert_eq!(lacking(&["cli/linked/docs/a.md"]), [of(3, "b.md")]);
    }

    #[test]
    fn versions_that_were_not_tested_are_found() {
        let text = "version = \"0.2.0\"\na = { path = \"a\", version = \"=0.2.0\" }\nb = { path = \"b\", version = \"0.2.0\" }\n\
                    c = \"=1.0.0\"\nd = \"1.0.0\"\n";
        let tree = Tree::new(vec![File::new("Cargo.toml", text)]);
        let lines: Vec<usize> = versions(&tree).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4]);
    }

    #[test]
    fn the_front_page_has_the_sentences_of_the_readme() {
        let readme =
            "# A\n\n**One.** Two\nthree.\n\n## Why\n\n- **Four.** [Five](six).\n- Seven.\n\n## End\n";
        let whole = format!(
            "//! One. Two three.\n//!\n//! - **Four.** [Five]({REPOSITORY}six).\n//! - Seven.\n{PLOT}mod a;\n"
        );
        let found = |text: &str| {
            let files = [("README.md", readme), (FRONT, text)];
            front(&Tree::new(files.map(|(path, text)| File::new(path, text)).into())).len()
        };
        assert_eq!(found(&whole), 0);
        assert_eq!(found(&whole.replace("One.", "1.")), 1);
        assert_eq!(found(&whole.replace("Seven", "7")), 1);
        assert_eq!(found(&whole.replace(PLOT, "\n")), 1);
    }

    #[test]
    fn links_of_the_page_name_the_repository() {
        let tree =
            Tree::new(vec![File::new("README.md", "[a](docs/a.md) ![p](p.svg) [b](https://b) [c](#c)")]);
        let expected =
            format!("[a]({REPOSITORY}docs/a.md) ![p]({PICTURES}p.svg?sanitize=true) [b](https://b) [c](#c)");
        assert_eq!(page(&tree), expected);
    }
}
