//! What became of the records of an import, for people, for the report and for the state.

use serde::{Deserialize, Serialize};

use crate::import::write::Done;

/// What became of the records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) read: u64,
    pub(super) inserted: u64,
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
    pub(super) deleted: u64,
    pub(super) already_there: u64,
    pub(super) skipped: u64,
    /// What came in, and replaced nothing in the end.
    #[serde(default)]
    pub(super) discarded: u64,
    pub(super) rejected: u64,
    pub(super) bytes: u64,
}

impl Counts {
    /// As the report has them.
    pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("read", self.read),
            ("inserted", self.inserted),
            ("matched", self.matched),
            ("modified", self.modified),
            ("upserted", self.upserted),
            ("deleted", self.deleted),
            ("alreadyThere", self.already_there),
            ("skipped", self.skipped),
            ("discarded", self.discarded),
            ("rejected", self.rejected),
            ("bytes", self.bytes),
        ]
    }

    /// For people: what is not zero. Of a dry run nothing was done.
    pub(super) fn told(&self, is_dry: bool) -> String {
        let mut told = format!("read {} records", self.read);
        for (name, count) in self.list().into_iter().skip(1).filter(|(_, count)| *count > 0) {
            let name = if name == "alreadyThere" { "already there" } else { name };
            let would = is_dry && ["inserted", "modified", "upserted", "deleted"].contains(&name);
            told = format!("{told}, {count} {}{name}", if would { "would be " } else { "" });
        }
        told
    }

    /// Counts what was written as discarded.
    pub(super) fn discard(&mut self) {
        let written = [&mut self.inserted, &mut self.upserted, &mut self.already_there];
        self.discarded = written.into_iter().map(std::mem::take).sum();
        for changed in [&mut self.matched, &mut self.modified, &mut self.deleted] {
            *changed = 0;
        }
    }

    /// Adds what a batch did.
    pub(super) fn add(&mut self, done: &Done) {
        self.inserted += done.inserted;
        self.matched += done.matched;
        self.modified += done.modified;
        self.upserted += done.upserted;
        self.deleted += done.deleted;
    }
}
