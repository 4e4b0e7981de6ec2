//! Rules on what is named: each `make` target of a page exists, and each test that is left out in memory.

use crate::tree::{File, Finding, Tree, has_extension};

/// Targets of the Makefile that pages name and that are not there.
pub(crate) fn unknown(tree: &Tree) -> Vec<Finding> {
    let makefile =
        tree.files.iter().find(|file| file.path == "Makefile").map_or("", |file| file.text.as_str());
    let known: Vec<&str> = makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let pages = tree.files.iter().filter(|file| has_extension(&file.path, "md"));
    pages.flat_map(|page| unknown_of(page, &known)).collect()
}

fn unknown_of(page: &File, known: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_block = false;
    for (line, text) in page.text.lines().enumerate() {
        is_block ^= text.trim_start().starts_with("```");
        // In a sentence as code, in a block as a line of its own, within another command, or after a prompt.
        let starts = ["`make ", "$(make ", "$ make "];
        let named = starts
            .iter()
            .flat_map(|start| text.split(start).skip(1))
            .chain(text.strip_prefix("make ").filter(|_| is_block));
        for command in named {
            let end = command.find(['`', ')', '"', ';', '&', '#']).unwrap_or(command.len());
            let words = command.get(..end).unwrap_or_default().split_whitespace();
            let targets = words.filter(|word| !word.starts_with('-') && !word.contains(['=', '\'', '/']));
            findings.extend(
                targets
                    .filter(|target| !known.contains(target))
                    .map(|target| page.finding(line + 1, format!("the Makefile has no target {target}"))),
            );
        }
    }
    findings
}

/// Tests that a run in memory leaves out by a name that no test has: the one that was meant would run, or nobody would miss it.
pub(crate) fn unknown_skips(tree: &Tree) -> Vec<Finding> {
    let lists = tree.files.iter().filter(|file| file.path == "tests/api/needs_folder.txt");
    let skips =
        lists.flat_map(|list| list.text.lines().enumerate().map(move |(line, name)| (list, line, name)));
    let unknown = skips.filter(|(_, _, name)| !name.starts_with('#') && !has_test(tree, name));
    unknown.map(|(list, line, name)| list.finding(line + 1, format!("there is no test {name}"))).collect()
}

fn has_test(tree: &Tree, name: &str) -> bool {
    let Some((module, test)) = name.rsplit_once("::") else { return false };
    let (file, begin) = (format!("tests/api/{}", module.replace("::", "/")), format!("fn {test}("));
    let is_its = |path: &str| path.strip_prefix(&file).is_some_and(|rest| rest == ".rs" || rest == "/mod.rs");
    tree.rust().any(|own| is_its(&own.path) && own.code.contains(&begin))
}

#[test]
fn a_target_that_is_not_there_is_found() {
    let page = "Run `make demo` or `make -s env KILLS=5 FILES='a b'`.\n```sh\nmake test lint\neval \"$(make -s env)\"\n$ make gone\n```\nto make sure\n";
    let files = [("Makefile", "demo: ## Show.\nenv:\ntest:\nlint: a b\n"), ("a.md", page)];
    let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
    let found: Vec<String> = unknown(&tree).into_iter().map(|finding| finding.what).collect();
    assert_eq!(found, ["the Makefile has no target gone"]);
}
