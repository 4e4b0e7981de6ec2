//! The query, update and aggregation languages against the rules that MongoDB documents.
//!
//! The corpus is data: `cases/*.json` holds an array of cases, one a line, each with the rule that it shows in words. A
//! case is run, what comes out must equal what is expected by type, value and order of fields, and all that differ
//! are reported together. It is run twice: by the crate `query` alone, over documents in memory, and by the commands of the
//! engine, over stored ones; a case says in `engine` where the second cannot give the same. `operators.json`,
//! `commands.json`, `differences.json` and `later.json` say what there is, where it is different on purpose, and what versions of
//! MongoDB after the one that is the measure do; of them, of the engine's tables and of the corpus `docs/compatibility.md` is made, which `CAIRNDB_WRITE_DOCS=1` renews.

mod commands;
mod corpus;
mod engine;
mod errors;
mod expectation;
mod foreign;
mod json;
mod page;
mod refusals;
mod run;
mod value;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use corpus::Case;
use engine::{CaseCommand, Engine};
use expectation::Outcome;
use foreign::{OtherCollections, Reads};

/// The number of cases that the corpus must keep.
const CASES_MIN: usize = 1_800;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("oracle/conformance")
}

/// The differences without an engine. Other collections are read by scans and by what means an index.
fn failure(case: &Case) -> Option<String> {
    if case.then.is_some() {
        return None;
    }
    let reads: &[Reads] = if case.others.is_empty() { &[Reads::Scan] } else { &[Reads::Scan, Reads::Find] };
    reads.iter().find_map(|&reads| {
        let outcome = run::run(&case.documents, &OtherCollections::of(&case.others, reads), &case.command);
        let wanted = case.expect.difference(&outcome)?;
        Some(format!("{} by {reads:?}: {}\n    got    {outcome}\n    wanted {wanted}", case.place, case.rule))
    })
}

#[test]
fn the_query_crate_agrees_with_every_case() {
    let cases = corpus::load(&folder().join("cases"));
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[test]
fn the_engine_agrees_with_every_case() {
    let cases = corpus::load(&folder().join("cases"));
    let engine = Engine::new();
    let mut counts: BTreeMap<CaseCommand, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in &cases {
        let outcomes = engine::ways(case).iter().map(|&way| {
            *counts.entry(way).or_default() += 1;
            (way, engine.run(case, way))
        });
        failures.extend(engine_failures(case, &outcomes.collect::<Vec<_>>()));
    }
    println!("{} cases through the engine, by {counts:?}", cases.len());
    for (case, stored) in cases.iter().filter_map(|case| Some((case, case.stored.as_ref()?))) {
        println!("{} has a result of its own there: {}", case.place, stored.why);
    }
    assert!(failures.is_empty(), "{} results differ:\n{}", failures.len(), failures.join("\n"));
}

/// The differences from what the case says of the engine; and claims of one without need.
fn engine_failures(case: &Case, outcomes: &[(CaseCommand, Outcome)]) -> Vec<String> {
    let agrees = |(_, outcome): &(CaseCommand, Outcome)| case.expect.difference(outcome).is_none();
    if case.stored.is_some() && outcomes.iter().all(agrees) {
        return vec![format!("{}: the engine gives what the crate gives", case.place)];
    }
    let expect = case.stored.as_ref().map_or(&case.expect, |stored| &stored.expect);
    let failures = outcomes.iter().filter_map(|(way, outcome)| {
        let wanted = expect.difference(outcome)?;
        Some(format!("{} by {way:?}: {}\n    got    {outcome}\n    wanted {wanted}", case.place, case.rule))
    });
    failures.collect()
}

#[test]
fn the_corpus_is_large_and_says_nothing_twice() {
    let cases = corpus::load(&folder().join("cases"));
    assert!(cases.len() >= CASES_MIN, "{} cases", cases.len());
    let mut lines: Vec<(&str, &str)> =
        cases.iter().map(|case| (case.text.as_str(), case.place.as_str())).collect();
    lines.sort_unstable();
    for pair in lines.windows(2) {
        assert!(pair[0].0 != pair[1].0, "{} repeats {}", pair[1].1, pair[0].1);
    }
}

#[test]
fn every_operator_is_as_its_table_says() {
    let failures = page::probe_failures(&page::load(&folder()), &corpus::load(&folder().join("cases")));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_option_and_command_is_as_its_table_says() {
    let failures = page::command_failures(&page::load(&folder()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_row_of_later_versions_is_shown_by_a_case_or_a_test() {
    let cases = corpus::load(&folder().join("cases"));
    let failures = page::later_failures(&page::load(&folder()), &cases, &folder().join("../../.."));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn everything_that_is_refused_has_one_reason() {
    let failures = page::reason_failures(&page::load(&folder()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_page_of_compatibility_is_what_the_tables_say() {
    let printed = page::print(&page::load(&folder()), &corpus::load(&folder().join("cases")));
    is_committed("docs/compatibility.md", &printed);
}

#[test]
fn the_page_of_errors_is_what_the_tables_say() {
    is_committed("docs/guide/errors.md", &errors::print());
}

/// Checks a page against what is printed, or writes it.
#[track_caller]
fn is_committed(name: &str, printed: &str) {
    let path = folder().join("../../..").join(name);
    if std::env::var_os("CAIRNDB_WRITE_DOCS").is_some() {
        fs::write(&path, printed).expect("the page can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let first = printed.lines().zip(committed.lines()).position(|(new, old)| new != old);
    assert!(
        printed == committed,
        "{name} differs from line {:?} on; renew it with CAIRNDB_WRITE_DOCS=1",
        first.map(|line| line + 1)
    );
}
