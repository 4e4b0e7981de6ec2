//! When a write counts as done, and how files are written.

use std::time::Duration;

use query::code::Code;

use crate::error::{Error, Result};

/// When a write counts as done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// How many nodes must acknowledge. There is one, so only `Nodes(1)` and `Majority` can be met.
    pub w: Option<Acknowledgment>,
    /// Accepted for compatibility; there is nothing to wait for on one node.
    pub w_timeout: Option<Duration>,
    /// `true`: the call returns after the write is on stable storage. `false`: it returns after the write
    /// reached the operating system, and is synced in the background, whatever `w` is. Absent: a majority means `true`,
    /// as by MongoDB's default; else it is as the client was opened.
    pub journal: Option<bool>,
}

impl WriteConcern {
    /// Returns after the write is on stable storage.
    pub fn journaled() -> Self {
        Self { journal: Some(true), ..Self::default() }
    }

    /// Returns after the write reached the operating system: it survives the death of the process, and
    /// is synced in the background.
    pub fn buffered() -> Self {
        Self { journal: Some(false), ..Self::default() }
    }

    /// Returns once a majority has the write, which is the one node, on stable storage: the same as
    /// [`journaled`](Self::journaled).
    pub fn majority() -> Self {
        Self { w: Some(Acknowledgment::Majority), ..Self::default() }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        match &self.w {
            None | Some(Acknowledgment::Nodes(1) | Acknowledgment::Majority) => Ok(()),
            Some(Acknowledgment::Nodes(0)) => Err(Error::invalid_argument(
                "write concern w: 0 is not offered, because every write of an embedded store is acknowledged",
            )),
            // In the words of MongoDB's standalone.
            Some(Acknowledgment::Nodes(_)) => {
                Err(Error::command(Code::BAD_VALUE, "cannot use 'w' > 1 when a host is not replicated"))
            }
            Some(Acknowledgment::Custom(tag)) => Err(Error::command(
                Code::BAD_VALUE,
                format!(
                    "cannot use non-majority 'w' mode \"{tag}\" when a host is not a member of a replica set"
                ),
            )),
        }
    }
}

/// The nodes that a write concern asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// A number of nodes.
    Nodes(u32),
    /// A majority, which is the one node. The write is on stable storage then, unless `journal` is `false`.
    Majority,
    /// A tag; there are none, so it is refused.
    Custom(String),
}

/// The durability of writes that do not name their own write concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A call returns once its write reached the operating system, which survives the death of the
    /// process; a background sync follows within the interval (at most one second), which bounds what a
    /// power failure can take.
    Buffered {
        /// The longest time a write stays unsynced.
        sync_interval: Duration,
    },
    /// A call returns once its write is on stable storage.
    Journaled,
}

/// A duty that is left out on purpose. Suites show with it that they would notice.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlantedFault {
    /// None is.
    #[default]
    None,
    /// RocksDB opens the folder unseen.
    PreflightOff,
    /// The witness stays as it was found.
    WitnessNotRaised,
}

impl Durability {
    pub(crate) const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(1);
}

impl Default for Durability {
    fn default() -> Self {
        Self::Buffered { sync_interval: Duration::from_millis(100) }
    }
}

/// How stored blocks are compressed. It applies to files written from now on; old ones stay readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are.
    None,
    /// LZ4 on every level but the last, Zstandard on the last: fast writes, small files at rest.
    #[default]
    Lz4ThenZstd,
    /// LZ4 on every level.
    Lz4,
    /// Zstandard on every level.
    Zstd,
}
