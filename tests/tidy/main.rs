//! The rules of the house that no lint can hold: who may import whom, how long files are, what names
//! must not say, where versions stand, and that links lead somewhere.
//!
//! Each rule is a pure function over the text of a file, with a sample beside it that it refuses; the
//! tests here apply the rules to the whole checkout. Only the standard library is used, and a rule sees
//! code with comments and literals blanked, so that prose cannot break it.

mod arrows;
mod circles;
mod claims;
mod code;
mod codes;
mod counted;
mod documents;
mod figures;
mod items;
mod manifests;
mod names;
mod operations;
mod packages;
mod paths;
mod plot;
mod prose;
mod reads;
mod shape;
mod targets;
mod tree;
mod unsafety;
mod words;

use tree::{Finding, Tree};

#[track_caller]
fn check(rule: &str, findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{rule}:\n{}", lines.join("\n"));
}

#[test]
fn the_checkout_is_found() {
    let tree = Tree::load();
    for expected in ["Cargo.toml", "engine/src/lib.rs", "index/src/lib.rs", "tests/tidy/main.rs"] {
        assert!(tree.files.iter().any(|file| file.path == expected), "{expected} was not found");
    }
}

#[test]
fn modules_import_only_from_groups_before() {
    check(
        "a module imports only from its own group and from groups before it, in the crate's list of ARCHITECTURE.md; a new \
         arrow is a reviewed change of that list",
        &arrows::violations(&Tree::load()),
    );
}

#[test]
fn pure_functions_that_take_input_take_an_operation() {
    check(
        "what a client sent decides how long this works: give it an operation, or name it in tests/tidy/operations.rs \
         with the reason why it needs none",
        &operations::violations(&Tree::load()),
    );
}

#[test]
fn modules_of_the_pure_crates_form_no_circle() {
    check("modules import each other in a circle", &arrows::circles(&Tree::load()));
}

#[test]
fn imports_name_the_module_that_defines() {
    check(
        "write `use crate::module::Name`: a root re-export or a glob hides an arrow",
        &Tree::load().rust().flat_map(items::hidden_imports).collect::<Vec<_>>(),
    );
}

#[test]
fn files_are_short_and_say_what_they_are() {
    check(
        "a file opens with 1 to 12 lines of `//!`, tables aside, and has at most 700 lines without its tests",
        &Tree::load().rust().flat_map(shape::violations).collect::<Vec<_>>(),
    );
}

#[test]
fn names_say_what_a_thing_is() {
    check(
        "a name says nothing (Manager, Helper, Util and the like), or an engine module shadows a crate",
        &Tree::load().rust().flat_map(names::violations).collect::<Vec<_>>(),
    );
}

#[test]
fn code_does_not_unwrap() {
    check("only tests unwrap", &Tree::load().rust().flat_map(items::unwraps).collect::<Vec<_>>());
}

#[test]
fn the_checker_of_interleavings_sees_every_lock() {
    check(
        "locks come from `base::sync`, so that a model checker can replace them",
        &Tree::load().rust().flat_map(items::real_locks).collect::<Vec<_>>(),
    );
}

#[test]
fn index_builds_learn_of_every_range_of_records() {
    check(
        "records are removed as a range by `CollectionState::remove_records`, which ends index builds",
        &Tree::load().rust().flat_map(items::untold_removals).collect::<Vec<_>>(),
    );
}

#[test]
fn unsafe_code_does_not_spread() {
    let tree = Tree::load();
    check(
        "a file has another number of `unsafe` than tests/tidy/unsafety.rs says",
        &unsafety::violations(&tree),
    );
}

#[test]
fn reads_of_the_newest_state_are_known() {
    let tree = Tree::load();
    check(
        "a file of the engine has another number of reads of the newest state than tests/tidy/reads.rs says",
        &reads::violations(&tree),
    );
}

#[test]
fn tests_run_and_do_not_wait() {
    check(
        "a test is neither ignored nor expected to panic, does not sleep, and its name states a fact",
        &Tree::load().rust().flat_map(items::idle_tests).collect::<Vec<_>>(),
    );
}

#[test]
fn codes_have_names() {
    check(
        "a number of MongoDB's stands in the table of codes only; elsewhere write its name, `Code::DUPLICATE_KEY`",
        &codes::bare_numbers(&Tree::load()),
    );
}

#[test]
fn codes_are_explained() {
    check(
        "a code that has a name and can be met has a line in `CodeMeaning::ALL`, and so in docs/guide/errors.md",
        &codes::unexplained(&Tree::load()),
    );
}

#[test]
fn versions_stand_in_the_root_manifest() {
    check(
        "a member's manifest takes versions from the workspace, and of the libraries only `store` names rocksdb",
        &manifests::violations(&Tree::load()),
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let tree = Tree::load();
    check("a Markdown link leads nowhere", &documents::broken_links(&tree));
    check("an address of the repository leads nowhere", &documents::broken_addresses(&tree));
    check("a page of the guide is a module of the published documentation", &documents::links_beside(&tree));
}

#[test]
fn recipes_are_found_from_the_items_that_they_use() {
    check(
        "the documentation of an item links to each recipe of the guide, so that its readers find it",
        &documents::lost_recipes(&Tree::load()),
    );
}

#[test]
fn documentation_below_the_engine_is_tested_with_it() {
    let tree = Tree::load();
    check("examples of `base` and `store` are run by the engine", &documents::lost_examples(&tree));
    check("a link to a page of the engine leads nowhere", &documents::broken_pages(&tree));
}

#[test]
fn a_package_holds_what_it_is_built_and_tested_with() {
    let (tree, root) = (Tree::load(), tree::root());
    check("link to the file in the package's folder `linked`", &packages::outside(&tree));
    check(
        "what a registry and the host of documentation show is missing",
        &packages::incomplete(&tree, root),
    );
    check("cargo would choose versions that were not tested", &packages::versions(&tree));
    check("the page of the engine's package is out of date", &packages::stale_page(&tree, root));
    check("the first page and the front page of the documentation say the same", &packages::front(&tree));
}

#[test]
fn pages_say_what_the_sources_decide() {
    let tree = Tree::load();
    check("the page has other numbers than the sources", &claims::stale(&tree));
    check("the first page decides in two minutes, for who adds the crate", &claims::first_page(&tree));
}

#[test]
fn commands_that_pages_name_exist() {
    check("a page names a command that is not there", &targets::unknown(&Tree::load()));
}

#[test]
fn tests_that_are_left_out_in_memory_exist() {
    check("a test that is left out is not there", &targets::unknown_skips(&Tree::load()));
}

#[test]
fn the_plot_of_the_first_page_is_that_of_its_table() {
    check("the plot is out of date", &plot::stale(&Tree::load(), tree::root()));
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    check(
        "a path of one developer's machine; take it from the environment",
        &Tree::load().files.iter().flat_map(documents::machine_paths).collect::<Vec<_>>(),
    );
}

/// What `make house` prints. With `CAIRNDB_HOUSE` set, every place is named as well.
#[test]
fn the_house_stays_in_order() {
    let tree = Tree::load();
    let knots = circles::between_files(&tree);
    let in_circles: usize = knots.iter().map(Vec::len).sum();
    let tuples: Vec<_> = tree.rust().flat_map(prose::tuple_parameters).collect();
    let phrases: Vec<_> = tree.files.iter().flat_map(prose::phrases).collect();
    let examples = prose::examples(&tree);
    eprintln!("files in a circle: {in_circles} of {}, in {} circles", circles::files(&tree), knots.len());
    eprintln!("tuples as parameters: {}", tuples.len());
    eprintln!("phrases to be said plainly: {}", phrases.len());
    eprintln!("verbs and setters of the engine with an example: {} of {}", examples.part, examples.whole);
    let lines = figures::lines(&tree);
    eprintln!("lines of code: {} shipped, {} of tests and fuzzing", lines.shipped, lines.tests);
    for folder in ["", "engine/"] {
        let claims = figures::claims(&tree, folder);
        let of = if folder.is_empty() { "all that is shipped" } else { "the engine" };
        eprintln!(
            "claims checked in {of}: {} assertions, {} expectations",
            claims.assertions, claims.expectations
        );
    }
    for (name, rate) in words::occurrences(&tree).rates() {
        eprintln!("{name}, in 10,000 words of comments: {rate}");
    }
    let (shipped, all) = unsafety::count(&tree);
    eprintln!("unsafe: {shipped} shipped, {all} in all");
    if std::env::var_os("CAIRNDB_HOUSE").is_some() {
        for knot in &knots {
            eprintln!("  a circle: {}", knot.join(" "));
        }
        for finding in tuples.iter().chain(&phrases) {
            eprintln!("{finding}");
        }
    }
    assert!(knots.is_empty(), "files import each other in a circle: {knots:?}");
    check("a tuple is taken apart as a parameter: name its parts in a struct", &tuples);
    check("a phrase that a reader stumbles over", &phrases);
}
