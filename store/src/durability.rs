//! The rule of durability for the return of a commit, and every exception to it.
//!
//! A write follows its write concern, and without one the client's default:
//!
//! 1. If `j` is given, it decides, `false` too, with any `w`.
//! 2. Without `j`, `w: "majority"` means journaled, as MongoDB's `writeConcernMajorityJournalDefault` has it.
//! 3. Otherwise, also with `w: 1`, the durability decides that the client was opened with.
//!
//! The exceptions:
//!
//! - Changes of the catalog and of a sequence's definition, and the last write of a clean close, are journaled always: they
//!   return after a sync. Other threads see the change before.
//! - [`CommitLevel::INDEX_BUILD`]: what an index build writes before the index is part of the catalog.
//! - [`CommitLevel::within_turn`]: what a write commits during its turn at an ordered or gapless sequence, and what an insert
//!   commits during its turn at a capped collection.
//! - [`CommitLevel::RESERVE`]: a sequence's reserve.

use base::error::Result;

use crate::options::{Acknowledgment, Durability, WriteConcern};

/// The moment at which a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLevel {
    /// After the write is in the log's buffer, in the memory of this process: only with delayed durability, see `log_flush`.
    Delayed,
    /// After the write reached the operating system.
    Buffered,
    /// After the write is on stable storage.
    Journaled,
}

impl CommitLevel {
    /// The level of an index build. An index counts only after the catalog names it, which is written later, and one sync
    /// covers both. If the process dies earlier, the next open removes the entries.
    pub const INDEX_BUILD: Self = Self::Buffered;

    /// The level of a sequence's reserve. It is in the log before every document with a value from it, so a commit that
    /// syncs the document syncs the reserve. A value that is returned without a document waits for a sync of its own.
    pub const RESERVE: Self = Self::Buffered;

    /// The level of a write with this write concern, on a client that was opened with this durability.
    pub fn of(concern: Option<&WriteConcern>, client: Durability) -> Result<Self> {
        let default = match client {
            Durability::Journaled => Self::Journaled,
            Durability::Buffered { .. } => Self::Buffered,
            Durability::Delayed { .. } => Self::Delayed,
        };
        let Some(concern) = concern else { return Ok(default) };
        // Checked even where the client's default decides: an impossible concern must not be acknowledged.
        concern.validate()?;
        Ok(match (concern.journal, &concern.w) {
            (Some(true), _) | (None, Some(Acknowledgment::Majority)) => Self::Journaled,
            (Some(false), _) => Self::Buffered,
            (None, _) => default,
        })
    }

    /// The level of a commit during a turn at a sequence or a capped collection. Writers that wait for a turn must not wait for one sync
    /// each: the turn ends before the sync, and they share one afterwards. A write that committed by this level syncs
    /// after the turn if it [owes](Self::owes_sync) that.
    #[inline]
    pub fn within_turn(self, takes_turns: bool) -> Self {
        if takes_turns && self == Self::Journaled { Self::Buffered } else { self }
    }

    /// Whether a write of this level that committed by another one, within a turn, has yet to sync.
    #[inline]
    pub fn owes_sync(self, committed_by: Self) -> bool {
        self == Self::Journaled && committed_by == Self::Buffered
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BUFFERED: Durability = Durability::Buffered { sync_interval: Duration::from_millis(100) };
    const DELAYED: Durability = Durability::Delayed {
        write_interval: Duration::from_millis(5),
        sync_interval: Duration::from_millis(100),
    };

    #[track_caller]
    fn check(w: Option<Acknowledgment>, journal: Option<bool>, expected: [CommitLevel; 3]) {
        let concern = WriteConcern { w, w_timeout: None, journal };
        let levels = [DELAYED, BUFFERED, Durability::Journaled]
            .map(|client| CommitLevel::of(Some(&concern), client).expect("one node can meet it"));
        assert_eq!(levels, expected, "{concern:?}");
    }

    #[test]
    fn j_decides_then_the_majority_then_the_client() {
        use CommitLevel::{Buffered, Delayed, Journaled};
        let as_opened = [Delayed, Buffered, Journaled];
        let majority = || Some(Acknowledgment::Majority);
        let one = || Some(Acknowledgment::Nodes(1));
        for w in [None, one()] {
            check(w, None, as_opened);
        }
        check(majority(), None, [Journaled; 3]);
        for w in [None, one(), majority()] {
            check(w.clone(), Some(true), [Journaled; 3]);
            check(w, Some(false), [Buffered; 3]);
        }
        assert_eq!(CommitLevel::of(None, DELAYED).ok(), Some(Delayed));
        assert_eq!(CommitLevel::of(None, BUFFERED).ok(), Some(Buffered));
        assert_eq!(CommitLevel::of(None, Durability::Journaled).ok(), Some(Journaled));
    }

    #[test]
    fn only_a_journaled_write_waits_longer_than_its_turn() {
        use CommitLevel::{Buffered, Delayed, Journaled};
        for (level, in_turn) in [(Delayed, Delayed), (Buffered, Buffered), (Journaled, Buffered)] {
            assert_eq!((level.within_turn(true), level.within_turn(false)), (in_turn, level));
            assert_eq!(level.owes_sync(in_turn), level == Journaled);
        }
    }
}
