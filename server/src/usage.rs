//! The use of collections, in calls and time, by kinds of commands: the figures of `top`.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The highest number of collections that are counted. Commands may name collections that do not exist.
const NAMESPACES_MAX: usize = 10_000;

/// The use of a collection by a command, in MongoDB's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    Queries,
    GetMore,
    Insert,
    Update,
    Remove,
    /// Other commands that read.
    ReadingCommands,
    /// Other commands that write.
    WritingCommands,
}

impl UseKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Queries,
        Self::GetMore,
        Self::Insert,
        Self::Update,
        Self::Remove,
        Self::ReadingCommands,
        Self::WritingCommands,
    ];

    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Insert | Self::Update | Self::Remove | Self::WritingCommands => true,
            Self::Queries | Self::GetMore | Self::ReadingCommands => false,
        }
    }
}

/// The number of uses of a collection, and the total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// The uses of one collection, in the order of [`UseKind::ALL`].
pub(crate) type CollectionUses = [Uses; UseKind::ALL.len()];

/// The uses of all collections since the server started.
#[derive(Default)]
pub(crate) struct Usage {
    table: Mutex<HashMap<String, CollectionUses>>,
}

impl Usage {
    pub(crate) fn note(&self, kind: UseKind, namespace: String, time: Duration) {
        let mut table = self.table.lock();
        // The names come from clients, so the table could grow without end. A full table counts no new names.
        if table.len() >= NAMESPACES_MAX && !table.contains_key(&namespace) {
            return;
        }
        let uses = table.entry(namespace).or_default();
        let place = UseKind::ALL.iter().position(|known| *known == kind);
        if let Some(uses) = place.and_then(|place| uses.get_mut(place)) {
            // Failed commands are not noted: the dispatcher calls this after a success alone.
            uses.count += 1;
            uses.time += time;
        }
    }

    /// The uses of all collections, ascending by name.
    pub(crate) fn list(&self) -> Vec<(String, CollectionUses)> {
        // A copy, so that the lock is not held while the caller asks the engine which collections exist.
        let mut all: Vec<_> = self.table.lock().iter().map(|(name, uses)| (name.clone(), *uses)).collect();
        all.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_add_up_and_collections_are_bounded() {
        let usage = Usage::default();
        for number in 0..2 * NAMESPACES_MAX {
            usage.note(UseKind::Insert, format!("shop.{number:05}"), Duration::from_secs(1));
            usage.note(UseKind::Queries, "shop.00000".to_owned(), Duration::from_secs(2));
        }
        let all = usage.list();
        assert_eq!(all.len(), NAMESPACES_MAX);
        let (name, [queries, _, insert, ..]) = &all[0];
        assert_eq!((name.as_str(), queries.count, insert.count), ("shop.00000", 20_000, 1));
        assert_eq!(queries.time, Duration::from_secs(40_000));
    }
}
