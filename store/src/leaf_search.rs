//! The searches that find leaves in memory, and the writes that note what they change.

use std::sync::Arc;

use index::key::Direction;

use crate::batch::Batch;
use crate::families::{Database, Family};
use crate::keys::{CollectionId, IndexId};
use crate::leaf::Leaf;
use crate::leaf_switch::{LeafSwitch, NEVER};
use crate::leaves::{LeafFound, LeafPlace, LeafSearch};
use crate::options::PlantedFault;
use crate::snapshot::Snapshot;

impl LeafSwitch {
    /// Notes that a write, whose latches are held, adds or removes the entry with this key.
    #[inline]
    pub fn note(&self, batch: &mut Batch<'_>, key: &[u8]) {
        if self.notes(batch.database().fault()) {
            batch.note_entry(key);
        }
    }
}

impl Snapshot {
    /// Whether leaves of a collection are kept. Several collections may share it.
    pub fn record_switch(&self, collection: CollectionId) -> &Arc<LeafSwitch> {
        self.database().record_switch(collection)
    }

    /// Looks for a leaf with the entries that the snapshot has.
    pub fn find_leaf(&self, search: LeafSearch<'_>, switch: &LeafSwitch) -> LeafFound {
        // After the snapshot was taken: see `LeafSwitch::counts_note`.
        let (since, database) = (switch.since(), self.database());
        if since == NEVER {
            let family = search.owner.family;
            if database.leaves(family).has_room() {
                let is_early = database.fault() == PlantedFault::LeavesUsedEarly;
                let latches = database.live_starts().latches().filter(|_| !is_early);
                switch.begin(latches, || database.latest_sequence());
            }
            return LeafFound::Absent(None);
        }
        let is_late =
            search.owner.family == Family::Records && database.fault() == PlantedFault::DocumentsReadLate;
        if since > self.sequence() || self.staged(search.owner.family).is_some() || is_late {
            return LeafFound::Absent(None);
        }
        let found = database.leaves(search.owner.family).find(search, since..=self.sequence());
        if matches!(found, LeafFound::Leaf(_)) {
            switch.used();
        }
        found
    }

    /// Notes that no leaf was made for a place that was given for one.
    pub fn lose_leaf(&self, place: &LeafPlace) {
        self.database().leaves(place.owner.family).lose(place);
    }

    /// Keeps a leaf of all entries that the snapshot has between its keys, unless a write may have changed them since its place was given.
    pub fn keep_leaf(&self, place: &LeafPlace, leaf: Leaf) -> Arc<Leaf> {
        let (database, family) = (self.database(), place.owner.family);
        let leaf = database.leaves(family).keep(place, leaf, self.sequence(), || database.latest_sequence());
        if family == Family::Records {
            database.fit_record_leaves();
        }
        leaf
    }
}

impl Database {
    /// The leaf with the newest entries of an index from `position` on, if it is kept.
    pub fn newest_leaf(&self, index: IndexId, position: &[u8], switch: &LeafSwitch) -> Option<Arc<Leaf>> {
        let search =
            LeafSearch { owner: index.into(), position, direction: Direction::Ascending, makes: false };
        let since = switch.since();
        if since == NEVER {
            return None;
        }
        match self.leaves(Family::Entries).find(search, since..=u64::MAX) {
            LeafFound::Leaf(leaf) => {
                switch.used();
                Some(leaf)
            }
            LeafFound::Absent(_) => None,
        }
    }
}
