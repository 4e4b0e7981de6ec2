//! Errors of compiling a pattern, and of matches without an answer.

use std::fmt;

/// A pattern that PCRE2 does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// PCRE2's error number. 0 if the library itself is too old.
    pub number: i32,
    /// PCRE2's error message.
    pub reason: String,
    /// The offset of the error in the pattern, in bytes. `None` if the pattern is not the reason.
    pub offset: Option<usize>,
}

impl fmt::Display for CompileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)?;
        self.offset.map_or(Ok(()), |offset| write!(formatter, ", at byte {offset}"))
    }
}

impl std::error::Error for CompileError {}

/// A search that ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatchError {
    /// The search would need more steps than the limit allows for a text of this length.
    #[error("the match takes more than {limit} steps")]
    Steps {
        /// The limit for this text.
        limit: u64,
    },
    /// The search would use more memory than the limit allows.
    #[error("the match takes more than {limit} KiB of memory")]
    Memory {
        /// The limit in KiB.
        limit: u32,
    },
    /// The caller stopped the search.
    #[error("the match was stopped")]
    Stopped,
    /// PCRE2 gave up for another reason.
    #[error("{reason}")]
    Library {
        /// PCRE2's error message.
        reason: String,
    },
}
