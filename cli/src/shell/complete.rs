//! The completions of the text before the cursor: databases, collections, methods, and the fields of the last result.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::script::Engine;
use crate::script::statement::is_open;

/// Completes a line, and keeps it open while a bracket is.
pub(super) struct Assistant<'a> {
    pub(super) engine: &'a Engine,
}

impl Completer for Assistant<'_> {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or_default();
        let Some((owner, stem)) = asked(before) else { return Ok((at, Vec::new())) };
        // Names that cannot be listed are not completed.
        let names: Vec<String> = self.engine.call("names", owner, |_, value| value.get()).unwrap_or_default();
        let mut fitting: Vec<String> = names.into_iter().filter(|name| name.starts_with(stem)).collect();
        fitting.sort();
        fitting.dedup();
        Ok((at - stem.len(), fitting))
    }
}

impl Validator for Assistant<'_> {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_open = is_open(context.input());
        Ok(if is_open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for Assistant<'_> {
    type Hint = String;
}

impl Highlighter for Assistant<'_> {}

impl Helper for Assistant<'_> {}

/// The owner of the requested names, as `cairn.names` knows it, and the begin of the name.
fn asked(before: &str) -> Option<(&'static str, &str)> {
    if let Some(stem) = before.strip_prefix("use ") {
        return Some(("databases", stem));
    }
    if let Some(stem) = before.strip_prefix("show ") {
        return Some(("shows", stem));
    }
    let is_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$');
    let start = before.trim_end_matches(is_name).len();
    let (head, stem) = before.split_at_checked(start)?;
    if let Some(owner) = head.strip_suffix('.') {
        if owner.ends_with(')') {
            return Some(("cursor", stem));
        }
        let chain = owner.rsplit(|character: char| !is_name(character) && character != '.').next()?;
        return match chain {
            "db" => Some(("db", stem)),
            _ if chain.starts_with("db.") => Some(("collection", stem)),
            _ => None,
        };
    }
    // A name within a document.
    let is_field = head.trim_end().ends_with(['{', ',']) && head.contains('{');
    is_field.then_some(("fields", stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_before_the_cursor_says_what_is_asked_for() {
        assert_eq!(asked("use sh"), Some(("databases", "sh")));
        assert_eq!(asked("show "), Some(("shows", "")));
        assert_eq!(asked("db.or"), Some(("db", "or")));
        assert_eq!(asked("x = db."), Some(("db", "")));
        assert_eq!(asked("db.orders.fi"), Some(("collection", "fi")));
        assert_eq!(asked("db.orders.find({}).so"), Some(("cursor", "so")));
        assert_eq!(asked("db.orders.find({na"), Some(("fields", "na")));
        assert_eq!(asked("db.orders.find({a: 1, "), Some(("fields", "")));
        assert_eq!(asked("x.y"), None);
        assert_eq!(asked("ü"), None);
    }
}
