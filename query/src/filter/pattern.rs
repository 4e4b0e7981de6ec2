//! Regular expressions: `$regex` with `$options`, and regular expressions as values.
//!
//! A pattern is PCRE; `translate` turns it into what the `regex` crate reads with the same meaning, or refuses it.
//! Matching takes time linear in the text, whatever the pattern.

use bson::{RawBsonRef, RawRegexRef};
use regex::{Regex, RegexBuilder};

use crate::error::{Error, Fault};
use crate::filter::translate::{Options, Refusal, translate};
use crate::value::{shorten, text};

/// The longest pattern accepted, in bytes: PCRE's own limit in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// A pattern ready to be matched.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    options: String,
    program: Regex,
    prefix: Option<String>,
    has_line_start: bool,
}

/// Why a pattern was refused.
#[derive(Debug)]
pub(super) enum PatternError {
    Fault(Fault),
    Unsupported { pattern: String, feature: &'static str },
}

impl PatternError {
    /// The error with the place it belongs to.
    pub(super) fn at(self, path: &str, operator: &str) -> Error {
        let (path, operator) = (path.to_owned(), operator.to_owned());
        match self {
            Self::Fault(fault) => Error::Malformed { path, operator, fault },
            Self::Unsupported { pattern, feature } => {
                Error::UnsupportedPattern { path, operator, pattern, feature }
            }
        }
    }
}

impl Pattern {
    /// Reads a pattern and its options, letters out of `imsxu`.
    pub(super) fn parse(pattern: &str, options: &str) -> Result<Self, PatternError> {
        if pattern.contains('\0') || options.contains('\0') {
            return Err(PatternError::Fault(Fault::PatternZero));
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            let fault = Fault::PatternTooLong { length: pattern.len(), limit: PATTERN_BYTES_MAX };
            return Err(PatternError::Fault(fault));
        }
        let flags = parse_options(options).map_err(PatternError::Fault)?;
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
    pub(super) fn of(regex: RawRegexRef<'_>) -> Result<Self, PatternError> {
        Self::parse(regex.pattern.as_str(), regex.options.as_str())
    }

    /// The pattern as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn options(&self) -> &str {
        &self.options
    }

    /// What every matching text starts with, if anything.
    pub(super) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// Whether a value is a text that matches, or the same regular expression.
    pub(super) fn matches(&self, value: RawBsonRef<'_>) -> bool {
        if let Some(text) = text(value) {
            return self.matches_text(text);
        }
        value.as_regex().is_some_and(|regex| {
            regex.pattern.as_str() == self.text && regex.options.as_str() == self.options
        })
    }

    fn matches_text(&self, text: &str) -> bool {
        if !self.has_line_start || !text.ends_with('\n') {
            return self.program.is_match(text);
        }
        // PCRE sees no line after the newline that ends a text, the `regex` crate does. Only a match of nothing at
        // that very end can come from there, and it is found only if there is no other.
        self.program.find(text).is_some_and(|found| found.start() < text.len())
    }
}

fn parse_options(options: &str) -> Result<Options, Fault> {
    let mut flags = Options::default();
    for option in options.chars() {
        match option {
            'i' => flags.ignores_case = true,
            'm' => flags.is_multi_line = true,
            's' => flags.dot_matches_all = true,
            'x' => flags.ignores_space = true,
            // Patterns and texts are Unicode in any case.
            'u' => {}
            _ => return Err(Fault::OptionUnknown { option }),
        }
    }
    Ok(flags)
}

fn refuse(pattern: &str, refusal: Refusal) -> PatternError {
    let pattern = shorten(pattern);
    match refusal {
        Refusal::Invalid(reason) => PatternError::Fault(Fault::PatternInvalid { pattern, reason }),
        Refusal::Unsupported(feature) => PatternError::Unsupported { pattern, feature },
    }
}
