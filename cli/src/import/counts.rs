//! The fate of the records of an import, for people, for the report and for the state.

use serde::{Deserialize, Serialize};

use crate::figures::{RECORDS, count, counted, size, were};
use crate::import::write::Done;

/// The fate of the records.
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
    /// The records that came in, and replaced nothing in the end.
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
        format!("read {}, {}", counted(self.read, RECORDS), self.outcomes(is_dry, self.rejected))
    }

    /// The same with the rejected records first. Returns `None` if there are none.
    pub(super) fn told_after_rejects(&self, is_dry: bool) -> Option<String> {
        if self.rejected == 0 {
            return None;
        }
        let of = counted(self.read, RECORDS);
        let rejected = format!("{} of {of} {} rejected", count(self.rejected), were(self.rejected));
        Some(format!("{rejected}: {}", self.outcomes(is_dry, 0)))
    }

    fn outcomes(&self, is_dry: bool, rejected: u64) -> String {
        let would = if is_dry { "would be " } else { "" };
        let outcomes = [
            (self.inserted, would, "inserted"),
            (self.matched, "", "matched"),
            (self.modified, would, "modified"),
            (self.upserted, would, "upserted"),
            (self.deleted, would, "deleted"),
            (self.already_there, "", "already there"),
            (self.skipped, "", "skipped"),
            (self.discarded, "", "discarded"),
            (rejected, "", "rejected"),
        ];
        let there = outcomes.into_iter().filter(|(number, ..)| *number > 0);
        let mut told: Vec<String> =
            there.map(|(number, would, done)| format!("{} {would}{done}", count(number))).collect();
        told.push(size(self.bytes));
        told.join(", ")
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
