//! Regular expressions: `$regex` of filters, `$regexMatch` of expressions, and regular expressions as values.
//!
//! Patterns are matched by PCRE2, as MongoDB does, within limits of steps and memory; one that is nothing but a text, from
//! the start or anywhere, is compared without it. What a search beyond its limits or a caller that stops it leaves
//! open is an error, never "no match".

mod prefix;
mod room;
mod watch;

use std::ops::Range;
use std::sync::Arc;

use bson::{RawBsonRef, RawRegexRef};
use pcre::error::MatchError;
use pcre::program::{Found, Options, Program};

use crate::pattern::prefix::{Anchor, Prefix};
use crate::pattern::room::{BYTES_MAX, Charge};
use crate::value::{shorten, text};

pub(crate) use crate::pattern::room::Room;
pub(crate) use crate::pattern::watch::{Unanswered, Watch};

/// The longest pattern accepted, in bytes: PCRE's own limit in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// A pattern ready to be matched. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    source: Arc<Source>,
}

#[derive(Debug)]
struct Source {
    text: String,
    options: String,
    matcher: Matcher,
    /// What every matching text starts with, if anything.
    prefix: Option<String>,
    /// The memory that is taken as long as the pattern lives.
    _charge: Charge,
}

#[derive(Debug)]
enum Matcher {
    /// The pattern stands for this very text.
    Text {
        anchor: Anchor,
        text: String,
    },
    Program(Program),
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
    /// The patterns of the request take too much memory.
    TooMany { limit: usize },
}

impl Pattern {
    /// Reads a pattern and its options, letters out of `imsxu`. It takes its memory from `room`.
    pub(crate) fn parse(pattern: &str, options: &str, room: &Room) -> Result<Self, PatternError> {
        if pattern.contains('\0') || options.contains('\0') {
            return Err(PatternError::Zero);
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { length: pattern.len(), limit: PATTERN_BYTES_MAX });
        }
        let flags = parse_options(options)?;
        let prefix = Prefix::of(pattern, flags);
        let (matcher, bytes) = if let Some(anchor) = prefix.whole {
            (Matcher::Text { anchor, text: prefix.text.clone() }, prefix.text.len())
        } else {
            let program = Program::compile(pattern, flags).map_err(|error| PatternError::Invalid {
                pattern: shorten(pattern),
                reason: error.to_string(),
            })?;
            let bytes = program.bytes();
            (Matcher::Program(program), bytes)
        };
        let charge = room.take(bytes + pattern.len() + size_of::<Source>());
        let charge = charge.ok_or(PatternError::TooMany { limit: BYTES_MAX })?;
        let (text, options) = (pattern.to_owned(), options.to_owned());
        let prefix = prefix.leading();
        Ok(Self { source: Arc::new(Source { text, options, matcher, prefix, _charge: charge }) })
    }

    /// Reads a regular expression that is a value.
    pub(crate) fn of(regex: RawRegexRef<'_>, room: &Room) -> Result<Self, PatternError> {
        Self::parse(regex.pattern.as_str(), regex.options.as_str(), room)
    }

    /// The pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.source.text
    }

    pub(crate) fn options(&self) -> &str {
        &self.source.options
    }

    /// What every matching text starts with, if anything.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.source.prefix.as_deref()
    }

    /// Whether a value is a text that matches, or the same regular expression. A search without answer is told to
    /// `watch`, and counts as no match until whoever made the watch asks it.
    pub(crate) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        if let Some(text) = text(value) {
            return watch.answer(self, |is_over| self.matches_text(text, is_over));
        }
        value.as_regex().is_some_and(|regex| {
            regex.pattern.as_str() == self.text() && regex.options.as_str() == self.options()
        })
    }

    /// Whether a text matches. `is_over` is asked from time to time; `true` stops the search.
    pub(crate) fn matches_text(&self, text: &str, is_over: &dyn Fn() -> bool) -> Result<bool, MatchError> {
        match &self.source.matcher {
            Matcher::Text { anchor: Anchor::Start, text: wanted } => Ok(text.starts_with(wanted.as_str())),
            Matcher::Text { anchor: Anchor::Anywhere, text: wanted } => Ok(text.contains(wanted.as_str())),
            Matcher::Program(program) => program.is_match(text, is_over),
        }
    }

    /// The first match that starts at the byte `start` or later; `start` lies between characters.
    pub(crate) fn find_at(
        &self,
        text: &str,
        start: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Found>, MatchError> {
        let (anchor, wanted) = match &self.source.matcher {
            Matcher::Program(program) => return program.find_at(text, start, is_over),
            Matcher::Text { anchor, text } => (*anchor, text.as_str()),
        };
        let rest = text.get(start..).unwrap_or_default();
        let at = match anchor {
            Anchor::Start => (start == 0 && rest.starts_with(wanted)).then_some(0),
            Anchor::Anywhere => rest.find(wanted).map(|at| start + at),
        };
        let span = |at: usize| -> Range<usize> { at..at + wanted.len() };
        Ok(at.map(|at| Found { span: span(at), groups: Vec::new() }))
    }
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

#[cfg(test)]
mod tests;
