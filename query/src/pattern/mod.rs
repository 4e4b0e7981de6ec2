//! Regular expressions: `$regex` of filters, `$regexMatch` of expressions, and regular expressions as values.
//!
//! PCRE2 matches patterns, as in MongoDB, within limits of steps and memory. A pattern that is only a fixed
//! text, at the start or anywhere, is compared without PCRE2. A search that exceeds its limits or is stopped
//! gives an error, never "no match".
//!
//! A pattern is compiled once for a request, and an expression keeps the one it computed last. No cache goes beyond that: without a
//! JIT most patterns are compiled in 0.2 to 3 microseconds, which is about the time that a lookup needs.

mod prefix;
mod room;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{RawBsonRef, RawRegexRef};
use pcre::error::MatchError;
use pcre::program::{Found, Options, Program};

use crate::pattern::prefix::{Anchor, Prefix, Tail};
use crate::pattern::room::Charge;
use crate::value::{shorten, text};

pub(crate) use crate::pattern::room::Room;
pub(crate) use crate::pattern::watch::{Unanswered, Watch};

/// The longest pattern accepted, in bytes: PCRE's own limit in MongoDB.
const PATTERN_BYTES_MAX: usize = 32_764;

/// A compiled pattern. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    source: Arc<Source>,
}

#[derive(Debug)]
struct Source {
    text: String,
    options: String,
    matcher: Matcher,
    /// The fixed text that every match starts with, if any.
    prefix: Option<String>,
    /// Releases the pattern's memory when the last clone is dropped.
    _charge: Charge,
}

#[derive(Debug)]
enum Matcher {
    /// The pattern is only this text.
    Text {
        anchor: Anchor,
        text: String,
        /// The part of a match after it.
        tail: Tail,
    },
    Program(Program),
}

/// The reason why a pattern was rejected. The caller makes its own error of it, which names the operator.
#[derive(Debug)]
pub(crate) enum PatternError {
    /// It contains a zero character.
    Zero,
    /// It has more bytes than the limit.
    TooLong { length: usize, limit: usize },
    /// The options have an unknown letter.
    OptionUnknown { option: char },
    /// PCRE2 cannot compile it.
    Invalid { pattern: String, reason: String },
    /// The patterns of the request use too much memory.
    TooMany { limit: usize },
}

/// The pattern that was computed last at one place of an expression: it is mostly that of the next document too. Clones share
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastPattern {
    kept: Arc<Mutex<Option<Pattern>>>,
}

impl Pattern {
    /// Compiles a pattern with its options, letters of `imsxu`. Its memory is reserved in `room`.
    pub(crate) fn parse(pattern: &str, options: &str, room: &Room) -> Result<Self, PatternError> {
        if pattern.contains('\0') || options.contains('\0') {
            return Err(PatternError::Zero);
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { length: pattern.len(), limit: PATTERN_BYTES_MAX });
        }
        let flags = parse_options(options)?;
        // Most patterns of users are fixed texts. Comparing is faster than any matcher, and needs no limits.
        let prefix = Prefix::of(pattern, flags);
        let (matcher, bytes) = if let Some(anchor) = prefix.whole {
            (Matcher::Text { anchor, text: prefix.text.clone(), tail: prefix.tail }, prefix.text.len())
        } else {
            let program = Program::compile(pattern, flags).map_err(|error| PatternError::Invalid {
                pattern: shorten(pattern),
                reason: error.to_string(),
            })?;
            let bytes = program.bytes();
            (Matcher::Program(program), bytes)
        };
        // The size is known only now. So one pattern may exceed the limit until it is rejected.
        let charge = room.take(bytes + pattern.len() + size_of::<Source>());
        let charge = charge.map_err(|limit| PatternError::TooMany { limit })?;
        let (text, options) = (pattern.to_owned(), options.to_owned());
        let prefix = prefix.leading();
        Ok(Self { source: Arc::new(Source { text, options, matcher, prefix, _charge: charge }) })
    }

    /// Compiles a BSON regular expression.
    pub(crate) fn of(regex: RawRegexRef<'_>, room: &Room) -> Result<Self, PatternError> {
        Self::parse(regex.pattern.as_str(), regex.options.as_str(), room)
    }

    /// The pattern as given.
    pub(crate) fn text(&self) -> &str {
        &self.source.text
    }

    /// The option letters as given.
    pub(crate) fn options(&self) -> &str {
        &self.source.options
    }

    /// Whether both were compiled at once.
    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }

    /// The fixed text that every match starts with, if any.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.source.prefix.as_deref()
    }

    /// Whether a value is a string or symbol that matches, or a regular expression equal to this one.
    ///
    /// If the search fails, the result is `false` and `watch` keeps the error: see [`Watch::outcome`].
    pub(crate) fn matches(&self, value: RawBsonRef<'_>, watch: &Watch<'_>) -> bool {
        if let Some(text) = text(value) {
            return watch.answer(self.text(), |is_over| self.matches_text(text, is_over));
        }
        // As in MongoDB a pattern also matches itself as a stored value. Both texts must be equal as written.
        value.as_regex().is_some_and(|regex| {
            regex.pattern.as_str() == self.text() && regex.options.as_str() == self.options()
        })
    }

    /// Whether a text matches. The search calls `is_over` from time to time and stops if it returns `true`.
    ///
    /// # Errors
    /// If the search exceeds its limits or is stopped.
    pub(crate) fn matches_text(&self, text: &str, is_over: &dyn Fn() -> bool) -> Result<bool, MatchError> {
        match &self.source.matcher {
            Matcher::Text { anchor: Anchor::Start, text: wanted, tail: _ } => {
                Ok(text.starts_with(wanted.as_str()))
            }
            Matcher::Text { anchor: Anchor::Anywhere, text: wanted, tail: _ } => {
                Ok(text.contains(wanted.as_str()))
            }
            Matcher::Program(program) => program.is_match(text, is_over),
        }
    }

    /// The first match that starts at the byte `start` or later. `start` must be between two characters.
    ///
    /// # Errors
    /// If the search exceeds its limits or is stopped.
    pub(crate) fn find_at(
        &self,
        text: &str,
        start: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Found>, MatchError> {
        let (anchor, wanted, tail) = match &self.source.matcher {
            Matcher::Program(program) => return program.find_at(text, start, is_over),
            Matcher::Text { anchor, text, tail } => (*anchor, text.as_str(), *tail),
        };
        let rest = text.get(start..).unwrap_or_default();
        let at = match anchor {
            // An anchor means the start of the text and not the start of this search.
            Anchor::Start => (start == 0 && rest.starts_with(wanted)).then_some(0),
            Anchor::Anywhere => rest.find(wanted).map(|at| start + at),
        };
        let end = |at: usize| {
            let after = text.get(at + wanted.len()..).unwrap_or_default();
            let taken = match tail {
                Tail::Empty => 0,
                Tail::Line => after.find('\n').unwrap_or(after.len()),
                Tail::Text => after.len(),
            };
            at + wanted.len() + taken
        };
        Ok(at.map(|at| Found { span: at..end(at), groups: Vec::new() }))
    }
}

impl LastPattern {
    /// Compiles a pattern as [`Pattern::parse`] does, unless it is the last one.
    pub(crate) fn parse(&self, pattern: &str, options: &str, room: &Room) -> Result<Pattern, PatternError> {
        let mut kept = self.lock();
        if let Some(last) = kept.as_ref().filter(|last| last.text() == pattern && last.options() == options) {
            return Ok(last.clone());
        }
        // Before the next one is compiled, which may need its room.
        *kept = None;
        let fresh = Pattern::parse(pattern, options, room)?;
        // A request may have many such places. What they keep must never be why another pattern has no room.
        if room.is_half_free() {
            *kept = Some(fresh.clone());
        }
        Ok(fresh)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pattern>> {
        // A panic leaves a pattern or none, and both are right.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The option letters as flags of the matcher.
fn parse_options(options: &str) -> Result<Options, PatternError> {
    let mut flags = Options::default();
    for option in options.chars() {
        match option {
            'i' => flags.ignores_case = true,
            'm' => flags.is_multi_line = true,
            's' => flags.dot_matches_all = true,
            'x' => flags.ignores_space = true,
            // Patterns and texts are always Unicode, so this option changes nothing.
            'u' => {}
            _ => return Err(PatternError::OptionUnknown { option }),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests;
