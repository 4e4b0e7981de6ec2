//! Regular expressions: `$regex` of filters, `$regexMatch` of expressions, and regular expressions as values.
//!
//! A pattern is PCRE; `translate` turns it into what the `regex` crate reads with the same meaning, or refuses it.
//! Matching takes time linear in the text, whatever the pattern.

mod translate;

use std::ops::Range;

use bson::{RawBsonRef, RawRegexRef};
use regex::{Captures, Regex, RegexBuilder};

use crate::pattern::translate::{END_PREFIX, Options, Refusal, translate};
use crate::value::{shorten, text};

/// The longest pattern accepted, in bytes: PCRE's own limit in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// A pattern ready to be matched.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: String,
    options: String,
    program: Regex,
    prefix: Option<String>,
    has_line_start: bool,
}

/// Why a pattern was refused.
#[derive(Debug)]
pub(crate) enum PatternError {
    /// It holds a zero character.
    Zero,
    /// It has more bytes than the limit.
    TooLong { length: usize, limit: usize },
    /// The letter is no option.
    OptionUnknown { option: char },
    /// It cannot be read.
    Invalid { pattern: String, reason: String },
    /// MongoDB understands it, this store does not, or might understand it differently.
    Unsupported { pattern: String, feature: &'static str },
}

impl Pattern {
    /// Reads a pattern and its options, letters out of `imsxu`.
    pub(crate) fn parse(pattern: &str, options: &str) -> Result<Self, PatternError> {
        if pattern.contains('\0') || options.contains('\0') {
            return Err(PatternError::Zero);
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { length: pattern.len(), limit: PATTERN_BYTES_MAX });
        }
        let flags = parse_options(options)?;
        let translated = translate(pattern, flags).map_err(|refusal| refuse(pattern, refusal))?;
        let program = RegexBuilder::new(&translated.text)
            .case_insensitive(flags.ignores_case)
            .multi_line(flags.is_multi_line)
            .dot_matches_new_line(flags.dot_matches_all)
            .ignore_whitespace(flags.ignores_space)
            .build()
            .map_err(|error| {
                let is_large = matches!(error, regex::Error::CompiledTooBig(_));
                let feature = if is_large { "too many repetitions" } else { "unusual syntax" };
                refuse(pattern, Refusal::Unsupported(feature))
            })?;
        Ok(Self {
            text: pattern.to_owned(),
            options: options.to_owned(),
            program,
            prefix: translated.prefix,
            has_line_start: translated.has_line_start,
        })
    }

    /// Reads a regular expression that is a value.
    pub(crate) fn of(regex: RawRegexRef<'_>) -> Result<Self, PatternError> {
        Self::parse(regex.pattern.as_str(), regex.options.as_str())
    }

    /// The pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn options(&self) -> &str {
        &self.options
    }

    /// What every matching text starts with, if anything.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether a value is a text that matches, or the same regular expression.
    pub(crate) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        if let Some(text) = text(value) {
            return self.matches_text(text);
        }
        value.as_regex().is_some_and(|regex| {
            regex.pattern.as_str() == self.text && regex.options.as_str() == self.options
        })
    }

    pub(crate) fn matches_text(&self, text: &str) -> bool {
        if !self.has_line_start || !text.ends_with('\n') {
            return self.program.is_match(text);
        }
        // PCRE sees no line after the newline that ends a text, the `regex` crate does. Only a match of nothing at
        // that very end can come from there, and it is found only if there is no other.
        self.program.find(text).is_some_and(|found| found.start() < text.len())
    }

    /// The first match that starts at the byte `start` or later; `start` lies between characters.
    pub(crate) fn find_at(&self, text: &str, start: usize) -> Option<Found> {
        let captures = self.program.captures_at(text, start)?;
        let whole = captures.get(0)?.range();
        if self.has_line_start && text.ends_with('\n') && whole.start == text.len() {
            return None;
        }
        // What `$` took to look beyond a last newline is no part of a match.
        let end = self.newline_taken(&captures).unwrap_or(text.len());
        let cut = |range: Range<usize>| range.start.min(end)..range.end.min(end);
        let names = self.program.capture_names().enumerate().skip(1);
        let groups = names
            .filter(|(_, name)| !name.is_some_and(|name| name.starts_with(END_PREFIX)))
            .map(|(at, _)| captures.get(at).map(|found| cut(found.range())))
            .collect();
        Some(Found { span: cut(whole), groups })
    }

    fn newline_taken(&self, captures: &Captures<'_>) -> Option<usize> {
        let names = self.program.capture_names().flatten().filter(|name| name.starts_with(END_PREFIX));
        names.filter_map(|name| captures.name(name)).map(|taken| taken.start()).min()
    }
}

/// What a pattern found in a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) span: Range<usize>,
    /// What each capturing group matched, if it took part.
    pub(crate) groups: Vec<Option<Range<usize>>>,
}

fn parse_options(options: &str) -> Result<Options, PatternError> {
    let mut flags = Options::default();
    for option in options.chars() {
        match option {
            'i' => flags.ignores_case = true,
            'm' => flags.is_multi_line = true,
            's' => flags.dot_matches_all = true,
            'x' => flags.ignores_space = true,
            // Patterns and texts are Unicode in any case.
            'u' => {}
            _ => return Err(PatternError::OptionUnknown { option }),
        }
    }
    Ok(flags)
}

fn refuse(pattern: &str, refusal: Refusal) -> PatternError {
    let pattern = shorten(pattern);
    match refusal {
        Refusal::Invalid(reason) => PatternError::Invalid { pattern, reason },
        Refusal::Unsupported(feature) => PatternError::Unsupported { pattern, feature },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: &[&str]) {
        let pattern = Pattern::parse(pattern, "").unwrap();
        let found = pattern.find_at(text, 0);
        let shown = found.map(|found| {
            let groups = found.groups.into_iter().map(|group| group.map_or("-", |group| &text[group]));
            std::iter::once(&text[found.span]).chain(groups).collect::<Vec<_>>()
        });
        assert_eq!(shown.unwrap_or_default(), expected, "{pattern:?} in {text:?}");
    }

    #[test]
    fn matches_and_groups_are_found() {
        check("b(.)", "abcabd", &["bc", "c"]);
        check("(a)|(b)", "b", &["b", "-", "b"]);
        check("x", "abc", &[]);
        check("", "abc", &[""]);
        check("(?<n>a)+", "aa", &["aa", "a"]);
    }

    #[test]
    fn the_newline_that_an_end_allows_is_not_matched() {
        check("a$", "a\n", &["a"]);
        check("(a$)", "a\n", &["a", "a"]);
        check("a\n?$", "a\n", &["a\n"]);
        check("a$|b$", "b\n", &["b"]);
        check("$", "\n", &[""]);
        check("a$", "a\n\n", &[]);
    }

    #[test]
    fn no_line_starts_behind_the_last_newline() {
        check("(?m:^)$", "a\n", &[]);
        check("(?m)^b", "a\nb\n", &["b"]);
    }
}
