//! The rules of a command: all that a caller must know of it without running it.

use crate::outcomes::row::Kind;

/// The rules of a command of [`Database::run_command`](crate::Database::run_command), which [`command_rules`](crate::command_rules)
/// returns.
///
/// A server decides by them which users may run it, and whether it may be in a transaction or be sent again.
///
/// ```
/// let insert = cairndb::command_rules("insert").expect("a command");
/// assert!(insert.writes() && insert.can_be_statement() && insert.is_retryable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRules {
    pub(super) writes: bool,
    pub(super) can_be_statement: bool,
    pub(super) is_stable: bool,
    /// The kinds of rows that it leaves, by which it is recognized when it comes again.
    pub(super) repeated: &'static [Kind],
}

impl CommandRules {
    pub(super) const READS: Self =
        Self { writes: false, can_be_statement: false, is_stable: false, repeated: &[] };
    pub(super) const WRITES: Self = Self { writes: true, ..Self::READS };

    /// Whether it may change what is stored. An `aggregate` does by its stages `$out` and `$merge` alone, and counts as one that reads.
    pub fn writes(self) -> bool {
        self.writes
    }

    /// Whether it can be a statement of a transaction.
    pub fn can_be_statement(self) -> bool {
        self.can_be_statement
    }

    /// Whether it may be sent with a number of its session, and then again: it is done once.
    pub fn is_retryable(self) -> bool {
        !self.repeated.is_empty()
    }

    /// Whether it belongs to MongoDB's stable API, version 1.
    pub fn is_stable(self) -> bool {
        self.is_stable
    }
}
