//! Rules on what people read: links between the project's Markdown files lead to a file and a heading
//! that exist, and no file names a folder that only one machine has.

use crate::code;
use crate::tree::{File, Finding, Tree, has_extension};

/// First folders of a path that say where a developer happened to work.
const MACHINE_FOLDERS: [&str; 3] = ["/root", "/work", "/tmp"];

/// Where links of the published documentation lead, in which no file of the checkout is beside a page.
pub(crate) const REPOSITORY: &str = "https://github.com/cairndb/cairndb/blob/main/";
/// The folder whose pages are modules of the published documentation, and the list of them, which is none.
const GUIDE: &str = "docs/guide/";
const GUIDE_LIST: &str = "docs/guide/README.md";

/// Links on pages of the guide to files beside them: in the published documentation they lead nowhere.
pub(crate) fn links_beside(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.starts_with(GUIDE) && file.path != GUIDE_LIST);
    pages
        .flat_map(|page| {
            let links = links(&page.text).into_iter();
            let beside = links.filter(|(_, link)| !link.contains("://") && !link.starts_with('#'));
            beside.map(|(line, link)| page.finding(line, format!("{link}: name it below {REPOSITORY}")))
        })
        .collect()
}

/// Links to files or headings of the repository that do not exist, in pages and in sources.
pub(crate) fn broken_addresses(tree: &Tree) -> Vec<Finding> {
    let files = tree.files.iter().filter(|file| {
        (has_extension(&file.path, "md") || has_extension(&file.path, "rs"))
            && !file.path.starts_with("tests/tidy/")
    });
    files
        .flat_map(|file| {
            file.text.lines().enumerate().flat_map(move |(line, text)| {
                let addresses = text.split(REPOSITORY).skip(1);
                let named = addresses.filter_map(|rest| rest.split([')', '>', '"', '`', ' ']).next());
                named.filter_map(move |named| {
                    let reason = why_broken_at(tree, "", named)?;
                    Some(file.finding(line + 1, format!("{named}: {reason}")))
                })
            })
        })
        .collect()
}

/// Links to files or headings that do not exist. Links to other hosts are not looked at.
pub(crate) fn broken_links(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| has_extension(&file.path, "md"));
    documents
        .flat_map(|file| {
            links(&file.text).into_iter().filter_map(move |(line, link)| {
                let reason = why_broken(tree, file, &link)?;
                Some(file.finding(line, format!("{link}: {reason}")))
            })
        })
        .collect()
}

fn why_broken(tree: &Tree, file: &File, link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    why_broken_at(tree, &file.path, link)
}

fn why_broken_at(tree: &Tree, from: &str, link: &str) -> Option<&'static str> {
    let (target, heading) =
        link.split_once('#').map_or((link, None), |(target, heading)| (target, Some(heading)));
    let path = if target.is_empty() { from.to_owned() } else { resolve(from, target) };
    if !path.is_empty() && !tree.has(&path) {
        return Some("there is no such file");
    }
    let document = tree.files.iter().find(|other| other.path == path && has_extension(&path, "md"))?;
    let found = headings(&document.text).any(|known| Some(known.as_str()) == heading);
    (heading.is_some() && !found).then_some("there is no such heading")
}

/// The pages of the guide whose headings are recipes.
const RECIPES: [&str; 2] = ["recipes", "data"];

/// Recipes to which no item of the API leads, and links from the API to recipes that do not exist.
pub(crate) fn lost_recipes(tree: &Tree) -> Vec<Finding> {
    RECIPES.into_iter().flat_map(|page| lost_recipes_of(tree, page)).collect()
}

fn lost_recipes_of(tree: &Tree, page: &str) -> Vec<Finding> {
    let path = format!("docs/guide/{page}.md");
    let Some(document) = tree.files.iter().find(|file| file.path == path) else { return Vec::new() };
    let recipes: Vec<String> = headings(&document.text).collect();
    // Within the engine's documentation, from items that the engine shows of the crates below, and from the other crates.
    let starts =
        [format!("guide::{page}#"), format!("guide/{page}/index.html#"), format!("guide/{page}.md#")];
    let mut linked = Vec::new();
    for file in tree.rust().filter(|file| file.path.contains("/src/")) {
        for start in &starts {
            let links =
                file.text.split(start.as_str()).skip(1).filter_map(|rest| rest.split([')', '\n']).next());
            linked.extend(links.map(|link| (file, link)));
        }
    }
    let unlinked = recipes.iter().filter(|recipe| linked.iter().all(|(_, link)| link != recipe));
    let unlinked =
        unlinked.map(|recipe| document.finding(1, format!("no item of the API leads to {recipe}")));
    let broken = linked.iter().filter(|(_, link)| recipes.iter().all(|recipe| recipe != link));
    let broken = broken.map(|(file, link)| file.finding(1, format!("{page} has no heading {link}")));
    unlinked.chain(broken).collect()
}

/// Crates that users see through the engine alone. Their items are shown on pages of the engine, and their examples use it.
const SHOWN_BY_THE_ENGINE: [&str; 2] = ["base/src/", "store/src/"];
/// The file in which the engine includes theirs once more, to run the examples.
const FRONT: &str = "engine/src/lib.rs";

fn shown_by_the_engine(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.rust().filter(|file| shows(&file.path))
}

/// Files with examples that nothing runs, because the engine does not include them.
pub(crate) fn lost_examples(tree: &Tree) -> Vec<Finding> {
    let front = tree.files.iter().find(|file| file.path == FRONT).map_or("", |file| file.text.as_str());
    let has_example = |file: &&File| file.text.lines().any(|line| line.trim() == "/// ```");
    shown_by_the_engine(tree)
        .filter(has_example)
        .filter(|file| {
            let linked = file.path.replacen("/src/", "/", 1);
            !front.contains(&format!("#[path = \"../linked/{linked}\"]"))
        })
        .map(|file| {
            file.finding(
                0,
                format!("its examples are not run: link to it in engine/linked, and include that in {FRONT}"),
            )
        })
        .collect()
}

/// Links to pages of the engine that do not exist: below the engine rustdoc cannot resolve its names, so links are
/// written as rustdoc calls the pages.
pub(crate) fn broken_pages(tree: &Tree) -> Vec<Finding> {
    let declares = |declaration: &str| {
        tree.rust()
            .filter(|file| file.path.starts_with("engine/src/") || shows(&file.path))
            .any(|file| code::words(&file.code, declaration).next().is_some())
    };
    let is_broken = |link: &str| {
        let (page, fragment) = link.split_once('#').unwrap_or((link, ""));
        let page = page.rsplit('/').next().unwrap_or_default();
        let mut parts = page.trim_end_matches(".html").splitn(2, '.');
        let (Some(kind), Some(name)) = (parts.next(), parts.next()) else { return false };
        let item = fragment.split_once('.').map(|(kind, name)| match kind {
            "method" => format!("pub fn {name}"),
            _ => name.to_owned(),
        });
        !declares(&format!("pub {kind} {name}")) || item.is_some_and(|item| !declares(&item))
    };
    shown_by_the_engine(tree)
        .flat_map(|file| {
            let links = file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let pages = links.filter(|link| link.contains(".html") && !link.contains("://"));
            pages.filter(|link| is_broken(link)).map(|link| file.finding(0, format!("{link}: no such page")))
        })
        .collect()
}

fn shows(path: &str) -> bool {
    SHOWN_BY_THE_ENGINE.iter().any(|folder| path.starts_with(folder))
}

/// Targets of `[text](target)` and `[name]: target` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (line, prose) in prose_lines(text) {
        // Between a pair of backticks stands code.
        let outside: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for (at, _) in outside.match_indices("](") {
            let target = outside.get(at + 2..).and_then(|after| after.split([')', ' ']).next());
            links.extend(target.map(|target| (line, target.to_owned())));
        }
        let definition = outside.strip_prefix('[').and_then(|name| name.split_once("]: "));
        links.extend(definition.map(|(_, target)| (line, target.trim().to_owned())));
    }
    links
}

/// Lines outside of fenced blocks, counted from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(line, prose)| {
        let fence = prose.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((line + 1, prose))
    })
}

/// What links call the headings of a document: lower case, spaces as hyphens, punctuation dropped.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose_lines(text).filter_map(|(_, prose)| {
        let title = prose.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
        let kept =
            title.trim().chars().filter(|next| next.is_alphanumeric() || matches!(next, ' ' | '-' | '_'));
        Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
    })
}

/// The path that a relative link leads to, from the checkout's root.
pub(crate) fn resolve(from: &str, target: &str) -> String {
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    for segment in target.trim_end_matches('/').split('/') {
        match segment {
            "." | "" => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    segments.join("/")
}

/// Lines that name a folder of one machine.
pub(crate) fn machine_paths(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(line, text)| {
            let folder = MACHINE_FOLDERS.into_iter().find(|folder| names_folder(text, folder))?;
            Some(file.finding(line + 1, format!("names {folder}")))
        })
        .collect()
}

/// Whether a line has a path that starts with `folder`, and not merely goes through a folder so named.
fn names_folder(text: &str, folder: &str) -> bool {
    let goes_on = |before: char| before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '}' | '*');
    text.match_indices(folder).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + folder.len()..).unwrap_or_default();
        after.starts_with('/') && !before.is_some_and(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let tree = Tree::new(vec![
            File::new("docs/a.md", text),
            File::new("docs/b.md", "# Some Words, and `code`\n```\n# not a heading\n```\n"),
            File::new("README.md", "# Top\n"),
        ]);
        let found: Vec<String> = broken_links(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn links_to_files_and_headings_that_exist_are_allowed() {
        check("[b](b.md) [top](../README.md#top) [words](b.md#some-words-and-code) [docs](../docs)", &[]);
        check(
            "# Own\n[own](#own) [host](https://example.org/x.md) `[code](x.md)`\n```\n[code](x.md)\n```\n",
            &[],
        );
    }

    #[test]
    fn a_recipe_and_the_api_lead_to_each_other() {
        let check = |source: &str, expected: &[&str]| {
            let files = [("docs/guide/recipes.md", "# A counter\n"), ("engine/src/a.rs", source)];
            let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
            let found: Vec<String> = lost_recipes(&tree).into_iter().map(|finding| finding.what).collect();
            assert_eq!(found, expected);
        };
        check("/// [a counter](crate::guide::recipes#a-counter)\nfn f() {}", &[]);
        check("fn f() {}", &["no item of the API leads to a-counter"]);
        check(
            "/// [a](crate::guide::recipes#a-count) [b](crate::guide::recipes#a-counter)\nfn f() {}",
            &["recipes has no heading a-count"],
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        check("[x](x.md)", &["x.md: there is no such file"]);
        check("[x](../docs/x/)", &["../docs/x/: there is no such file"]);
        check("[x](b.md#not-a-heading)", &["b.md#not-a-heading: there is no such heading"]);
        check("[x](#own)", &["#own: there is no such heading"]);
        check("See [x].\n\n[x]: x.md\n", &["x.md: there is no such file"]);
    }

    #[test]
    fn links_that_break_in_the_published_documentation_are_refused() {
        let page = format!("[a](limits.md) [b](#own) [c]({REPOSITORY}docs/b.md)\n\n[d]: ../b.md\n");
        let files = [
            ("docs/guide/a.md", page.as_str()),
            ("docs/guide/README.md", "[a](a.md)"),
            ("docs/b.md", "[a](c.md)"),
        ];
        let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
        let found: Vec<String> = links_beside(&tree).into_iter().map(|finding| finding.to_string()).collect();
        let named = format!("name it below {REPOSITORY}");
        assert_eq!(
            found,
            [
                format!("  docs/guide/a.md:1: limits.md: {named}"),
                format!("  docs/guide/a.md:3: ../b.md: {named}")
            ]
        );
    }

    #[test]
    fn addresses_of_the_repository_lead_somewhere() {
        let page = format!("[a]({REPOSITORY}docs/b.md#top) [b]({REPOSITORY}docs/c.md)\n");
        let source = format!("//! See [b]({REPOSITORY}docs/b.md#bottom) and <{REPOSITORY}docs>.\n");
        let files =
            [("README.md", page.as_str()), ("a/src/lib.rs", source.as_str()), ("docs/b.md", "# Top\n")];
        let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
        let found: Vec<String> = broken_addresses(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["docs/c.md: there is no such file", "docs/b.md#bottom: there is no such heading"]);
    }

    #[test]
    fn folders_of_one_machine_are_refused() {
        let lines = |text: &str| machine_paths(&File::new("a.sh", text)).len();
        for folder in MACHINE_FOLDERS {
            assert_eq!(lines(&format!("cd {folder}/x")), 1);
            assert_eq!(lines(&format!("path = \"{folder}/x\"\n")), 1);
            assert_eq!(lines(&format!("cd $HOME{folder}/x")), 0);
            assert_eq!(lines(&format!("use a{folder}/x and {folder}s")), 0);
        }
    }

    #[test]
    fn examples_below_the_engine_are_run_by_it() {
        let example = "/// ```\n/// f();\n/// ```\npub fn f() {}\n";
        let check = |front: &str, expected: &[&str]| {
            let files = [("base/src/a.rs", example), ("store/src/b.rs", "fn g() {}\n"), (FRONT, front)];
            let tree = Tree::new(files.map(|(path, text)| File::new(path, text)).into());
            let found: Vec<String> = lost_examples(&tree).into_iter().map(|finding| finding.path).collect();
            assert_eq!(found, expected);
        };
        check("#[cfg(doctest)]\n#[path = \"../linked/base/a.rs\"]\nmod a;\n", &[]);
        check("mod a;\n", &["base/src/a.rs"]);
    }

    #[test]
    fn links_to_pages_of_the_engine_name_its_items() {
        let check = |link: &str, expected: usize| {
            let text = format!("/// See [this]({link}).\npub struct Own;\n");
            let engine = "pub struct Client;\nimpl Client {\n    pub fn open() {}\n}\n";
            let tree =
                Tree::new(vec![File::new("base/src/a.rs", &text), File::new("engine/src/b.rs", engine)]);
            assert_eq!(broken_pages(&tree).len(), expected, "{link}");
        };
        check("struct.Client.html#method.open", 0);
        check("struct.Own.html", 0);
        check("struct.Client.html#method.close", 1);
        check("enum.Client.html", 1);
        check("https://example.org/struct.None.html", 0);
    }
}
