//! The lines that the README, the guide and the page of the tool show as typed at a terminal, typed again: what comes is what the page shows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fixture::examples::root;

/// A command of a page, and what it prints.
struct Typed {
    command: String,
    shown: String,
}

/// The folder of a page. What a page leaves running, because a line of it failed, ends with the folder: it has written its
/// number into a file.
struct Session {
    folder: tempfile::TempDir,
}

impl Drop for Session {
    fn drop(&mut self) {
        // A page that came to its end has ended it by itself, and the number may be another process's by now.
        if !std::thread::panicking() {
            return;
        }
        for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "pid") {
                let number = std::fs::read_to_string(&path).unwrap_or_default();
                let _ = Command::new("kill").arg(number.trim()).stderr(Stdio::null()).status();
            }
        }
    }
}

/// The blocks of a page that are typed at a terminal: after `$ ` a command, which goes on after `> `.
fn typed(text: &str) -> Vec<Typed> {
    let (mut found, mut is_inside): (Vec<Typed>, bool) = (Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside {
            if let Some(command) = line.strip_prefix("$ ") {
                found.push(Typed { command: command.to_owned(), shown: String::new() });
                continue;
            }
            let last = found.last_mut().expect("a block begins with a command");
            if let Some(more) = line.strip_prefix("> ").filter(|_| last.shown.is_empty()) {
                last.command.push('\n');
                last.command.push_str(more);
            } else {
                last.shown.push_str(line);
                last.shown.push('\n');
            }
        }
    }
    found
}

/// A text without what may be another one each time: how long something took, and how large the files of a store and of its copies
/// are.
fn without_times(text: &str) -> String {
    let before =
        |line: &str, sign: &str| line.split_once(sign).map_or(line.len(), |(before, _)| before.len());
    let line = |line: &str| {
        let of_files =
            if line.ends_with(", verified") || line.starts_with("compacted ") { ": " } else { "\n" };
        let end = before(line, ", in ").min(before(line, " index entries and ")).min(before(line, of_files));
        line.get(..end).unwrap_or_default().to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn pages() -> Vec<PathBuf> {
    let root = root();
    let guide = std::fs::read_dir(root.join("docs/guide")).expect("it works");
    let mut pages: Vec<PathBuf> = guide.map(|entry| entry.expect("it works").path()).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

#[test]
fn what_is_typed_on_a_page_prints_what_the_page_shows() {
    let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().and_then(Path::to_str).expect("it works");
    let search = format!("{program}:{}", std::env::var("PATH").expect("it works"));
    let mut with_lines = Vec::new();
    let tool = root().join("docs/tools.md");
    for page in pages().into_iter().chain([tool]) {
        let name = page.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let text = std::fs::read_to_string(&page).expect("it works");
        // A page is one session, in an empty folder of its own.
        let session = Session { folder: tempfile::tempdir().expect("it works") };
        let commands = typed(&text);
        if !commands.is_empty() {
            with_lines.push(name.clone());
        }
        for Typed { command, shown } in commands {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("exec 2>&1\n{command}")]).env("PATH", &search).stdin(Stdio::null());
            let output = shell.current_dir(session.folder.path()).output().expect("it works");
            let printed = String::from_utf8(output.stdout).expect("it works");
            assert_eq!(without_times(&printed), without_times(&shown), "{name}: {command}");
            assert!(output.status.success(), "{name}: {command}: {printed}");
        }
    }
    for name in ["README.md", "data.md", "first_half_hour.md", "tools.md"] {
        assert!(with_lines.iter().any(|page| page == name), "{name} shows nothing that is typed");
    }
}

#[test]
fn a_page_is_taken_apart_as_it_is_printed() {
    let text = "text\n```console\n$ a 'b\n> c'\nout\n> d\n$ e\n```\n```sh\n$ f\n```\n";
    let found: Vec<(String, String)> =
        typed(text).into_iter().map(|typed| (typed.command, typed.shown)).collect();
    let expected = [("a 'b\nc'", "out\n> d\n"), ("e", "")];
    assert_eq!(found, expected.map(|(command, shown)| (command.to_owned(), shown.to_owned())));
    assert_eq!(without_times("read 4, in 0.3 s, 14 a second\nx\n"), "read 4\nx");
}

#[test]
fn every_page_of_the_guide_opens_with_a_question_is_short_and_linked() {
    let root = root();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("it works");
    let (list, modules) = (read("docs/guide/README.md"), read("engine/src/guide/mod.rs"));
    let front = read("engine/src/lib.rs");
    let guide = pages().into_iter().filter(|page| !page.ends_with("README.md"));
    for page in guide {
        let name = page.file_stem().and_then(|name| name.to_str()).expect("a name");
        let text = std::fs::read_to_string(&page).expect("it works");
        assert!(text.starts_with("**"), "{name} opens with what it answers");
        // A row of a table that is printed is not read through.
        let lines = text.lines().filter(|line| name != "errors" || !line.starts_with('|'));
        assert!(lines.count() <= 200, "{name} is longer than a page");
        assert!(list.contains(&format!("]({name}.md)")), "{name} is not in the list of pages");
        assert!(
            modules.contains(&format!("pub mod {name} {{}}")),
            "{name} is not in the documentation of the crate"
        );
        assert!(
            front.contains(&format!("](guide::{name})")),
            "{name} is not linked from the front page of the crate"
        );
    }
}

/// Ratios were measured anew on one page and not on the other: each that the comparison names stands in the table of the
/// benchmarks, in the row of its figure.
#[test]
fn ratios_of_the_comparison_are_those_of_the_benchmarks() {
    let root = root().join("docs");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("it works");
    let (comparison, benchmarks) = (read("guide/comparison.md"), read("benchmarks.md"));
    let mut checked = 0;
    for row in comparison.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = row.split('`').nth(1).expect("the name of a figure");
        let measured = benchmarks.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let measured = measured.unwrap_or_else(|| panic!("{name} is no figure of the benchmarks"));
        for cell in cells.iter().filter(|cell| cell.parse::<f64>().is_ok()) {
            assert!(measured.contains(&format!("| {cell} |")), "{name}: {cell} is not in {measured:?}");
            checked += 1;
        }
    }
    assert!(checked >= 10, "only {checked} ratios are compared");
}

/// A block of Rust that is not run could be wrong, so each is run, or at least built; only the front page of the repository
/// and the page of clients, which need a folder or a server of the reader, are not run.
#[test]
fn no_block_of_rust_on_a_page_is_left_out() {
    let root = root();
    let beside =
        std::fs::read_dir(root.join("docs")).expect("it works").map(|entry| entry.expect("it works").path());
    let others = pages().into_iter().chain([root.join("counters/README.md")]);
    let mut blocks = 0;
    for page in others.chain(beside.filter(|page| page.extension().is_some_and(|ending| ending == "md"))) {
        let text = std::fs::read_to_string(&page).expect("it works");
        let is_built_only = page.ends_with("clients.md") || page == root.join("README.md");
        for line in text.lines().filter(|line| line.starts_with("```rust")) {
            let wanted = if is_built_only { "```rust,no_run" } else { "```rust" };
            assert_eq!(line, wanted, "{}", page.display());
            blocks += 1;
        }
    }
    assert!(blocks > 20, "only {blocks} blocks of Rust were found");
}
