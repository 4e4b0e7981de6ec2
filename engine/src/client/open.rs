//! Opening a client by the options of its builder: they are checked before the folder is touched, and a disk that is too full
//! for writing may still be read.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::error::{Error, Result};
use sequence::object_id::Layout;
use store::{DISK_QUOTA_MIN, OpenMode, StoreOptions};

use crate::client::builder::{ClientBuilder, ObjectIdLayout};
use crate::client::handle::Client;
use crate::expiry;
use crate::metrics::recorder::RecorderOptions;
#[cfg(feature = "opentelemetry")]
use crate::metrics::spans::Spans;
use crate::scrub;
use crate::shared::{Caller, Shared};

/// The times for which tokens and events may be kept.
const RETENTIONS: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(366 * 86_400);
/// The fewest bytes that they may have.
const TOKEN_BYTES_MIN: u64 = 64 << 10;
/// The fewest bytes that the log of changes may have.
const LOG_BYTES_MIN: u64 = 64 << 10;
/// The allowed lifetimes of a transaction.
const LIFETIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);
/// The most bytes in which an index build sorts its keys by default.
const INDEX_BUILD_MEMORY: usize = 64 << 20;
/// The fewest bytes that an index build can be given.
const INDEX_BUILD_MEMORY_MIN: usize = 1 << 20;
/// The fewest bytes that a stage of a pipeline can be given.
const STAGE_MEMORY_MIN: usize = 64 << 10;

impl ClientBuilder {
    /// Opens the database in the folder at `path`. It fails as [`Client::open`] does, and if an option is out of range.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// let client = Client::builder().create_if_missing(true).open(&path)?;
    /// assert!(path.exists());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(self, path: impl AsRef<Path>) -> Result<Client> {
        // Options are checked before the folder is touched.
        self.refuse_intervals()?;
        self.refuse_small()?;
        let path: PathBuf = path.as_ref().to_owned();
        if self.in_memory {
            self.refuse_files()?;
        } else if path.as_os_str().is_empty() {
            // Joined with the names of files, an empty path would mean the current folder.
            return Err(Error::invalid_argument("the path of the database is empty"));
        }
        // Reading only never creates a database, whatever `create_if_missing` says.
        let mode = match (self.in_memory, self.read_only, self.create_if_missing) {
            (true, _, _) => OpenMode::InMemory,
            (false, true, _) => OpenMode::ReadOnly,
            (false, false, true) => OpenMode::CreateIfMissing,
            (false, false, false) => OpenMode::MustExist,
        };
        let shared = match self.open_in(path.clone(), mode) {
            Err(full) if self.read_only_if_full && full.is_no_space() => {
                tracing::warn!(path = %path.display(), error = %full, "the disk is full: opening for reading only");
                // If not even that is possible, the full disk is still the reason.
                self.open_in(path, OpenMode::ReadOnly).map_err(|_| full)?
            }
            opened => opened?,
        };
        expiry::start_if_needed(&shared)?;
        if shared.catalog.log.is_used() {
            shared.start_upkeep()?;
        }
        if let Some(bytes_per_second) = self.scrub {
            scrub::start(&shared, bytes_per_second)?;
        }
        Ok(Client { shared: Arc::new(shared), caller: Caller::default() })
    }

    fn open_in(&self, path: PathBuf, mode: OpenMode) -> Result<Shared> {
        let options = StoreOptions {
            path,
            mode,
            memory_budget: self.memory_budget,
            record_cache: self.record_cache,
            compression: self.compression,
            disk_quota: self.disk_quota,
            index_build_memory: self.index_build_bytes(),
            spilling: self.spilling,
            durability: self.durability,
            witness: self.witness,
            upgrade: self.upgrade,
            fault: self.fault,
        };
        let mut limits = self.transactions;
        // The documents are to have most of what there is.
        let share = if self.in_memory {
            Some(self.memory_budget as u64 / 8)
        } else {
            self.disk_quota.map(|quota| quota / 8)
        };
        limits.log.bytes = share.map_or(limits.log.bytes, |share| limits.log.bytes.min(share));
        let layout = match self.object_id_layout {
            ObjectIdLayout::MachineProcess => Layout::MachineProcess,
            ObjectIdLayout::Random => Layout::Random,
        };
        // Slow operations are logged even if nothing is counted.
        #[cfg(feature = "opentelemetry")]
        let spans = Spans::of(&self.tracing);
        #[cfg(not(feature = "opentelemetry"))]
        // Without the feature nothing can ask for them.
        let spans = None;
        let recording = RecorderOptions { is_counting: self.metrics, slow: self.slow_threshold, spans };
        Shared::open(options, layout, self.ttl_interval, recording, limits)
    }

    fn index_build_bytes(&self) -> usize {
        let default = (self.memory_budget / 4).clamp(INDEX_BUILD_MEMORY_MIN, INDEX_BUILD_MEMORY);
        self.index_build_memory.unwrap_or(default)
    }

    /// Rejects times and rates that are out of range.
    fn refuse_intervals(&self) -> Result<()> {
        self.durability.validate()?;
        if self.ttl_interval == Some(Duration::ZERO) {
            return Err(Error::invalid_argument(
                "ttl_interval of 0 s is not an interval; None switches it off",
            ));
        }
        if !LIFETIMES.contains(&self.transactions.lifetime) {
            return Err(Error::invalid_argument(format!(
                "transaction_lifetime of {:?} is not within 1 s and 24 h",
                self.transactions.lifetime
            )));
        }
        if !RETENTIONS.contains(&self.transactions.tokens.retention) {
            return Err(Error::invalid_argument(format!(
                "token_retention of {:?} is not within 1 minute and 366 days",
                self.transactions.tokens.retention
            )));
        }
        if self.transactions.tokens.bytes_max < TOKEN_BYTES_MIN {
            return Err(Error::invalid_argument(format!(
                "token_bytes_max of {} bytes is below the least that works, {TOKEN_BYTES_MIN} bytes",
                self.transactions.tokens.bytes_max
            )));
        }
        if !RETENTIONS.contains(&self.transactions.log.age) {
            return Err(Error::invalid_argument(format!(
                "change_log_age_max of {:?} is not within 1 minute and 366 days",
                self.transactions.log.age
            )));
        }
        if self.transactions.log.bytes < LOG_BYTES_MIN {
            return Err(Error::invalid_argument(format!(
                "change_log_bytes_max of {} bytes is below the least that works, {LOG_BYTES_MIN} bytes",
                self.transactions.log.bytes
            )));
        }
        if self.scrub == Some(0) {
            return Err(Error::invalid_argument(
                "a scrub of 0 bytes a second reads nothing; None switches it off",
            ));
        }
        Ok(())
    }

    /// Rejects sizes below the least that works.
    fn refuse_small(&self) -> Result<()> {
        let index_build_memory = self.index_build_bytes();
        if index_build_memory < INDEX_BUILD_MEMORY_MIN {
            return Err(Error::invalid_argument(format!(
                "index_build_memory of {index_build_memory} bytes is below the least that works, \
                 {INDEX_BUILD_MEMORY_MIN} bytes"
            )));
        }
        if self.spilling.stage_memory < STAGE_MEMORY_MIN {
            return Err(Error::invalid_argument(format!(
                "stage_memory of {} bytes is below the least that works, {STAGE_MEMORY_MIN} bytes",
                self.spilling.stage_memory
            )));
        }
        if let Some(quota) = self.disk_quota
            && quota < DISK_QUOTA_MIN
        {
            return Err(Error::invalid_argument(format!(
                "a disk_quota of {quota} bytes is below the least that works, {DISK_QUOTA_MIN} bytes"
            )));
        }
        Ok(())
    }

    /// Fails if an option needs files, which a store in memory does not have.
    fn refuse_files(&self) -> Result<()> {
        let refused = [
            (self.read_only, "read_only: it is empty, and nothing else writes to it"),
            (self.read_only_if_full, "read_only_if_full: it uses no disk"),
            (!self.create_if_missing, "create_if_missing(false): it is always new"),
            (self.scrub.is_some(), "scrub: it has no files"),
            (self.disk_quota.is_some(), "disk_quota: it uses no disk"),
        ];
        match refused.into_iter().find(|(is_set, _)| *is_set) {
            Some((_, option)) => {
                Err(Error::invalid_argument(format!("a store in memory cannot be opened with {option}")))
            }
            None => Ok(()),
        }
    }
}
