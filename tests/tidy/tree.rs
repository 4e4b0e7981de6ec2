//! The files of the checkout, read once for each test: what a fresh clone holds, and none of what a
//! build adds. Paths are relative to the checkout and use `/`.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::code;

/// Folders that a build or a fuzzing run fills, by name.
const GENERATED: [&str; 5] = [".git", "target", "corpus", "artifacts", "coverage"];

/// One file of the checkout.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// Of a Rust file: the text with comments and literals blanked, byte for byte. Else empty.
    pub(crate) code: String,
    /// Of a Rust file, by line: whether it is compiled for tests only.
    test_lines: Vec<bool>,
}

/// All files.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One place that breaks a rule.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1; 0 stands for the file as a whole.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "  {}:{}: {}", self.path, self.line, self.what)
    }
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let is_rust = has_extension(path, "rs");
        let code = if is_rust { code::blank(text) } else { String::new() };
        let test_lines =
            if is_tests_only(path) { vec![true; text.lines().count()] } else { code::test_lines(&code) };
        Self { path: path.to_owned(), text: text.to_owned(), code, test_lines }
    }

    /// Whether a line, counted from 1, is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        line.checked_sub(1).and_then(|line| self.test_lines.get(line)).copied().unwrap_or(false)
    }

    /// Whether the whole file is compiled for tests only.
    pub(crate) fn is_test_file(&self) -> bool {
        self.test_lines.iter().all(|test| *test)
    }

    /// The line of a byte offset, counted from 1.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        1 + self.code.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, what: what.into() }
    }
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Files that only test binaries are made of.
fn is_tests_only(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

impl Tree {
    /// Reads the checkout that this test was built in.
    pub(crate) fn load() -> Self {
        let root = root();
        let mut files = Vec::new();
        read_folder(root, "", &mut files);
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self::new(files)
    }

    pub(crate) fn new(mut files: Vec<File>) -> Self {
        // `#[cfg(test)] mod cases;` makes tests of a file that does not say so itself.
        let tests: Vec<String> = files.iter().flat_map(test_modules).collect();
        for file in &mut files {
            if tests.contains(&file.path) {
                file.test_lines.fill(true);
            }
        }
        Self { files }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| has_extension(&file.path, "rs"))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

/// The folder of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the checkout")
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if GENERATED.contains(&name.as_str()) {
            continue;
        }
        // A link leads to a file that is read where it lies.
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        if entry.path().is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(File::new(&path, &text));
        }
    }
}

/// The files that a file declares as modules for tests only.
fn test_modules(file: &File) -> Vec<String> {
    let folder = module_folder(&file.path);
    let declared = file.code.lines().enumerate().filter(|(line, _)| file.is_test(line + 1));
    declared
        .filter_map(|(_, line)| {
            line.trim().strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name.trim())
        })
        .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
        .collect()
}

/// The folder in which a file's modules lie.
fn module_folder(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder,
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

#[test]
fn a_module_declared_for_tests_is_a_test_file() {
    let tree = Tree::new(vec![
        File::new("index/src/order.rs", "//! Order.\n#[cfg(test)]\nmod cases;\nmod live;\n"),
        File::new("index/src/order/cases.rs", "//! Cases.\n"),
        File::new("index/src/order/live.rs", "//! Live.\n"),
    ]);
    let tests: Vec<bool> = tree.files.iter().map(File::is_test_file).collect();
    assert_eq!(tests, [false, true, false]);
}

#[test]
fn a_line_is_found_by_its_offset() {
    let file = File::new("a.rs", "one\ntwo\nthree");
    assert_eq!([0, 3, 4, 8].map(|offset| file.line_at(offset)), [1, 1, 2, 3]);
}
