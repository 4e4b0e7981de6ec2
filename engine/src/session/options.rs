//! What a transaction reads, and when its commit is acknowledged.

use std::time::Duration;

use base::error::{Error, Result};

use crate::options::WriteConcern;

/// How what a transaction reads agrees with what others write.
///
/// ```
/// use cairndb::ReadConcern;
///
/// assert_eq!(ReadConcern::snapshot().level(), "snapshot");
/// assert_eq!(ReadConcern::custom("local"), ReadConcern::local());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadConcern {
    level: String,
}

impl ReadConcern {
    /// The state that the transaction began with.
    pub fn local() -> Self {
        Self::custom("local")
    }

    /// The state that the transaction began with: there is one member.
    pub fn majority() -> Self {
        Self::custom("majority")
    }

    /// The state that the transaction began with.
    pub fn snapshot() -> Self {
        Self::custom("snapshot")
    }

    /// A level by its name.
    pub fn custom(level: impl Into<String>) -> Self {
        Self { level: level.into() }
    }

    /// The name of the level.
    pub fn level(&self) -> &str {
        &self.level
    }
}

/// What a transaction may be given when it is started.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What it reads. `local`, `majority` and `snapshot` all mean the state of its first statement.
    pub read_concern: Option<ReadConcern>,
    /// When the commit is acknowledged. The default is as the client was opened.
    pub write_concern: Option<WriteConcern>,
    /// How long the commit may wait for others.
    pub max_commit_time: Option<Duration>,
}

impl TransactionOptions {
    /// These options, and where nothing is said those of a session.
    pub(super) fn or(self, defaults: &Self) -> Self {
        Self {
            read_concern: self.read_concern.or_else(|| defaults.read_concern.clone()),
            write_concern: self.write_concern.or_else(|| defaults.write_concern.clone()),
            max_commit_time: self.max_commit_time.or(defaults.max_commit_time),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        const LEVELS: [&str; 3] = ["local", "majority", "snapshot"];
        match &self.read_concern {
            Some(concern) if !LEVELS.contains(&concern.level()) => Err(Error::invalid_argument(format!(
                "a transaction reads with the level {}, and not '{}'",
                LEVELS.join(", "),
                concern.level()
            ))),
            _ => Ok(()),
        }
    }
}
