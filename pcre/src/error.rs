//! Errors of compiling a pattern, and of matches without an answer.

/// A pattern that PCRE2 does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at byte {offset}")]
pub struct CompileError {
    /// PCRE2's error number.
    pub number: i32,
    /// PCRE2's error message.
    pub reason: String,
    /// The offset of the error in the pattern, in bytes.
    pub offset: usize,
}

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
