//! Rules on what pages claim and the sources decide: versions and formats; and on the first page, which is short, and whose lines
//! for a project are those of the package.

use crate::tree::{File, Finding, Tree};

const FIRST_PAGE: &str = "README.md";
/// Bytes that are read in two minutes.
const FIRST_PAGE_MAX: usize = 6 << 10;

/// Sentences of pages whose numbers are not those of the sources.
pub(crate) fn stale(tree: &Tree) -> Vec<Finding> {
    let rust = value(tree, "Cargo.toml", "\nrust-version = \"", "\"");
    let format = "store/src/format.rs";
    let newest = value(tree, format, "\npub const FORMAT_VERSION: u32 = ", ";");
    let oldest = value(tree, format, "\npub const FORMAT_VERSION_OLDEST: u32 = ", ";");
    let pcre = value(tree, "pcre/src/version.rs", "\nconst OLDEST: (u32, u32) = (", ")").replace(", ", ".");
    let claims = [
        ("docs/versions.md", format!("\nRust {rust}. It rises in a minor version only")),
        ("docs/versions.md", format!("This version makes format {newest}, and reads {oldest} to {newest}:")),
        ("docs/versions.md", format!("an older one than the tested {pcre} is refused by both versions")),
        ("docs/building.md", format!("If that is older than {pcre} (")),
        ("docs/building.md", format!("and patterns need {pcre} or newer`")),
        ("docs/format.md", format!("`CairnDB format {newest}` and a line feed")),
    ];
    let is_there =
        |page: &str, sentence: &str| file(tree, page).is_some_and(|page| page.text.contains(sentence));
    let lost = claims.iter().filter(|(page, sentence)| !is_there(page, sentence));
    lost.map(|(page, sentence)| Finding {
        path: (*page).to_owned(),
        line: 0,
        what: format!("it does not say: {}", sentence.trim()),
    })
    .collect()
}

fn file<'t>(tree: &'t Tree, path: &str) -> Option<&'t File> {
    tree.files.iter().find(|file| file.path == path)
}

/// What stands between two texts in a file. A claim with a value that is not found is never there.
fn value(tree: &Tree, path: &str, before: &str, after: &str) -> String {
    let text = file(tree, path).map_or("", |file| file.text.as_str());
    let found = text.split_once(before).and_then(|parts| parts.1.split_once(after));
    found.map_or_else(|| format!("(of {path})"), |parts| parts.0.to_owned())
}

/// A first page that is too long, or that names a dependency by a folder of another package.
pub(crate) fn first_page(tree: &Tree) -> Vec<Finding> {
    let Some(page) = file(tree, FIRST_PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    if page.text.len() > FIRST_PAGE_MAX {
        findings.push(page.finding(0, format!("{} bytes are more than {FIRST_PAGE_MAX}", page.text.len())));
    }
    let dependencies: Vec<&str> = block(&page.text, "toml").filter(|line| line.contains("path = ")).collect();
    if dependencies.is_empty() {
        findings.push(page.finding(0, "no lines for a project"));
    }
    let is_wrong = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default();
        let path = line.split('"').nth(1).and_then(|path| path.strip_prefix("../cairndb/"));
        let manifest = path.and_then(|path| file(tree, &format!("{path}/Cargo.toml")));
        !manifest.is_some_and(|manifest| manifest.text.contains(&format!("\nname = \"{name}\"\n")))
    };
    findings.extend(
        dependencies
            .into_iter()
            .filter(is_wrong)
            .map(|line| page.finding(0, format!("no such package: {line}"))),
    );
    findings
}

/// The lines of the blocks in a language.
fn block<'t>(text: &'t str, language: &str) -> impl Iterator<Item = &'t str> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n')).flat_map(str::lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn claims_that_the_sources_contradict_are_found() {
        let pages = "Text.\nRust 1.89. It rises in a minor version only, and\nThis version makes format 7, and reads 3 to 7: it\n\
                     an older one than the tested 10.46 is refused by both versions\nIf that is older than 10.46 (D\n\
                     and patterns need 10.46 or newer`\n`CairnDB format 7` and a line feed";
        let formats = "x\npub const FORMAT_VERSION: u32 = 7;\npub const FORMAT_VERSION_OLDEST: u32 = 3;\n";
        let check = |rust: &str, formats: &str, expected: &[&str]| {
            let tree = Tree::new(vec![
                File::new("Cargo.toml", &format!("[workspace.package]\nrust-version = \"{rust}\"\n")),
                File::new("store/src/format.rs", formats),
                File::new("pcre/src/version.rs", "\nconst OLDEST: (u32, u32) = (10, 46);\n"),
                File::new("docs/versions.md", pages),
                File::new("docs/building.md", pages),
                File::new("docs/format.md", pages),
            ]);
            assert_eq!(whats(&stale(&tree)), expected);
        };
        check("1.89", formats, &[]);
        check("1.90", formats, &["it does not say: Rust 1.90. It rises in a minor version only"]);
        let formats = formats.replace("= 3", "= 4");
        check("1.89", &formats, &["it does not say: This version makes format 7, and reads 4 to 7:"]);
    }

    #[test]
    fn a_first_page_that_is_long_or_names_another_package_is_found() {
        let check = |page: &str, expected: &[&str]| {
            let files = [(FIRST_PAGE, page), ("engine/Cargo.toml", "[package]\nname = \"cairndb\"\n")];
            let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
            assert_eq!(whats(&first_page(&tree)), expected);
        };
        let page = "A\n```rust,no_run\nx\n```\n\n```toml\n[dependencies]\ncairndb = { path = \"../cairndb/engine\" } # here\n```\n";
        check(page, &[]);
        check(
            &page.replace("engine", "motor"),
            &["no such package: cairndb = { path = \"../cairndb/motor\" } # here"],
        );
        check("A\n", &["no lines for a project"]);
        let long = format!("{page}{}", "x".repeat(FIRST_PAGE_MAX));
        check(&long, &[&format!("{} bytes are more than 6144", long.len())]);
    }
}
