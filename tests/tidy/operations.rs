//! Public functions of `query` that get what a client sent and no operation: nothing ends them, so each must be short by
//! itself, and says here why it is.
//!
//! A function gets an operation if a parameter has one, or belongs to what it is called on.

use crate::code;
use crate::tree::{File, Finding, Tree};

/// The sources of the pure layers.
const SOURCES: &str = "query/src/";

/// Types of parameters that a client decides the size of.
const INPUTS: [&str; 13] = [
    "RawDocument",
    "RawDocumentBuf",
    "RawBsonRef",
    "RawBson",
    "RawArray",
    "RawArrayBuf",
    "Bson",
    "Document",
    "Filter",
    "Sort",
    "Update",
    "Pipeline",
    "Request",
];

/// Types that a client decides the size of, whose functions work on all of it.
const PARSED: [&str; 6] = ["Alternatives", "Filter", "Pipeline", "Projection", "Sort", "Update"];

/// Types that an operation travels with.
const CARRIERS: [&str; 6] =
    ["Context", "OperationContext", "PlanningBudget", "Reservation", "Variables", "Watch"];

/// A function without an operation, and why it may have none.
pub(crate) struct Exception {
    /// Its file, below the sources, and its name.
    path: &'static str,
    name: &'static str,
    reason: Reason,
}

/// Why a function may have no operation.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// It reads a few fields of what was parsed.
    Short,
    /// It goes once through its input, which a message bounds to 48 MiB.
    OnePass,
    /// It goes through one document, as every step of a scan does, and the caller counts that step.
    OneDocument,
    /// What it is called on has the operation, given when it was made.
    OwnOperation,
    /// A form for tests and small programs. The engine calls the one with variables, which carry the operation.
    WithoutLimits,
}

const fn exception(path: &'static str, name: &'static str, reason: Reason) -> Exception {
    Exception { path, name, reason }
}

use Reason::{OneDocument, OnePass, OwnOperation, Short, WithoutLimits};

const EXCEPTIONS: &[Exception] = &[
    exception("distinct.rs", "add", OneDocument),
    exception("expression/let_document.rs", "with_let", OwnOperation),
    exception("expression/meta.rs", "restore", OnePass),
    exception("expression/meta.rs", "reads_metadata", OnePass),
    exception("expression/meta.rs", "reads_sort_key", OnePass),
    exception("expression/mod.rs", "is_true", Short),
    exception("expression/variables.rs", "with", OwnOperation),
    exception("filter/equality.rs", "equalities", OnePass),
    exception("filter/mod.rs", "parse", WithoutLimits),
    exception("filter/mod.rs", "parse_collated", WithoutLimits),
    exception("filter/mod.rs", "matches", WithoutLimits),
    exception("filter/mod.rs", "has_expression", Short),
    exception("filter/mod.rs", "is_empty", Short),
    exception("filter/mod.rs", "intervals", WithoutLimits),
    exception("filter/mod.rs", "entry_bounds", WithoutLimits),
    exception("filter/mod.rs", "paths", OnePass),
    exception("filter/mod.rs", "implies", WithoutLimits),
    exception("filter/mod.rs", "refused_in_partial_index", OnePass),
    exception("filter/mod.rs", "alternatives", OnePass),
    exception("filter/mod.rs", "count", Short),
    exception("filter/mod.rs", "imply", WithoutLimits),
    exception("filter/residual.rs", "entry_tests", WithoutLimits),
    exception("pipeline/merge.rs", "key", OneDocument),
    exception("pipeline/mod.rs", "source", Short),
    exception("pipeline/mod.rs", "writer", Short),
    exception("pipeline/mod.rs", "variables", Short),
    exception("pipeline/mod.rs", "reads_metadata", OnePass),
    exception("pipeline/mod.rs", "is_empty", Short),
    exception("pipeline/mod.rs", "first_stage", Short),
    exception("pipeline/mod.rs", "first_position", Short),
    exception("pipeline/mod.rs", "take_leading", OwnOperation),
    exception("pipeline/mod.rs", "needed_fields", OnePass),
    exception("pipeline/mod.rs", "executed_stage", OnePass),
    exception("pipeline/mod.rs", "joins", OnePass),
    exception("pipeline/mod.rs", "run", OwnOperation),
    exception("pipeline/mod.rs", "run_with", OwnOperation),
    exception("pipeline/mod.rs", "foreign_collections", OnePass),
    exception("projection/mod.rs", "is_empty", Short),
    exception("projection/mod.rs", "is_positional", Short),
    exception("projection/mod.rs", "included_fields", OnePass),
    exception("sort/collect.rs", "new", Short),
    exception("sort/collect.rs", "push", OwnOperation),
    exception("sort/mod.rs", "parse", OnePass),
    exception("sort/mod.rs", "natural", Short),
    exception("sort/mod.rs", "fields", Short),
    exception("sort/mod.rs", "is_empty", Short),
    exception("sort/mod.rs", "with_collation", Short),
    exception("sort/mod.rs", "up_to", Short),
    exception("sort/mod.rs", "key", OneDocument),
    exception("sort/mod.rs", "values", OneDocument),
    exception("sort/spilling.rs", "push", OwnOperation),
    exception("update/describe.rs", "describe", OneDocument),
    exception("update/mod.rs", "parse", OnePass),
    exception("update/mod.rs", "parse_collated", OnePass),
    exception("update/mod.rs", "is_positional", Short),
    exception("update/replacement.rs", "is_replacement", OnePass),
    exception("update/upsert.rs", "upsert_base", OnePass),
];

/// Public functions with input and without an operation that no exception names, and exceptions that name no such function.
pub(crate) fn violations(tree: &Tree) -> Vec<Finding> {
    let files = || tree.rust().filter(|file| file.path.starts_with(SOURCES));
    let mut unused: Vec<&Exception> = EXCEPTIONS.iter().collect();
    let mut findings = Vec::new();
    for file in files() {
        for (line, name) in without_operation(file) {
            let path = file.path.strip_prefix(SOURCES).unwrap_or_default();
            let is_named = |exception: &&Exception| exception.path == path && exception.name == name;
            if EXCEPTIONS.iter().any(|exception| is_named(&exception)) {
                unused.retain(|exception| !is_named(exception));
            } else {
                findings.push(file.finding(line, format!("`{name}` takes input and no operation")));
            }
        }
    }
    findings.extend(unused.into_iter().map(|exception| Finding {
        path: format!("{SOURCES}{}", exception.path),
        line: 0,
        what: format!("`{}` is no such function any more ({:?})", exception.name, exception.reason),
    }));
    findings
}

/// The lines and names of public functions that get input and no operation.
fn without_operation(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut owner = String::new();
    let mut offset = 0;
    for text in file.code.split_inclusive('\n') {
        let start = offset;
        offset += text.len();
        if let Some(implemented) = text.strip_prefix("impl") {
            owner = owner_of(implemented);
        }
        let Some(after) = text.trim_start().strip_prefix("pub ") else { continue };
        let after = after.strip_prefix("const ").unwrap_or(after);
        let line = file.line_at(start);
        let Some(declared) = after.strip_prefix("fn ").filter(|_| !file.is_test(line)) else { continue };
        let is_method = text.starts_with(' ');
        let name: String =
            declared.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        let parameters = parameters(file.code.get(start..).unwrap_or_default());
        let has = |types: &[&str]| types.iter().any(|name| code::words(parameters, name).next().is_some());
        let works_on_owner =
            is_method && PARSED.contains(&owner.as_str()) && code::words(parameters, "self").next().is_some();
        if (has(&INPUTS) || works_on_owner) && !has(&CARRIERS) {
            found.push((line, name));
        }
    }
    found
}

/// The type whose functions follow, of the rest of a line that begins with `impl`.
fn owner_of(implemented: &str) -> String {
    let mut depth = 0_usize;
    let outside: String = implemented
        .chars()
        .filter(|letter| {
            match letter {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ if depth == 0 => return true,
                _ => {}
            }
            false
        })
        .collect();
    let named = outside.rsplit(" for ").next().unwrap_or_default();
    named.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned()
}

/// What is between the parentheses of a declaration.
fn parameters(declaration: &str) -> &str {
    let mut depth = 0_usize;
    let Some(open) = declaration.find('(') else { return "" };
    let after = declaration.get(open..).unwrap_or_default();
    for (at, letter) in after.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return after.get(..at).unwrap_or_default();
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let file = File::new("query/src/a.rs", text);
        let found: Vec<String> = without_operation(&file).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn functions_with_input_have_an_operation() {
        check("pub fn parse(filter: &RawDocument) -> A {\n}\n", &["parse"]);
        check("pub fn parse(\n    filter: &RawDocument,\n    variables: &Variables,\n) -> A {\n}\n", &[]);
        check("pub fn count(number: usize) -> Filter {\n}\nfn own(filter: &Filter) {}\n", &[]);
        check("impl<'a> Filter<'a> {\n    pub fn paths(&self) {}\n    pub fn none() {}\n}\n", &["paths"]);
        check("impl Debug for Path {\n    pub fn paths(&self, operation: &OperationContext) {}\n}\n", &[]);
        check("#[cfg(test)]\nmod tests {\n    pub fn parse(filter: &Filter) {}\n}\n", &[]);
    }
}
