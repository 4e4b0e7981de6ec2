//! The state that the edits of a MANIFEST add up to: the set of files of a database.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::edit::{Edit, EditError, Table};
use crate::log::Fault;
use crate::record::{Records, Step};

/// The state that a MANIFEST describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    families: BTreeMap<u32, Family>,
    log_number_min: u64,
    /// The newest change when the last edit was written. All changes in tables are numbered up to it.
    pub last_sequence: Option<u64>,
    /// The number that the next file gets.
    pub next_file: Option<u64>,
    /// Synced logs, with the synced length in bytes.
    logs_synced: BTreeMap<u64, u64>,
    logs_tracked_from: u64,
    group: Vec<Edit>,
}

/// A column family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    name: Vec<u8>,
    log_number: u64,
    tables: BTreeMap<u64, Table>,
}

/// The result of reading a MANIFEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The state up to the first fault.
    pub manifest: Manifest,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The end of the last edit before the first fault.
    pub whole_until: u64,
    /// The first fault and its offset.
    pub fault: Option<(u64, ManifestFault)>,
    /// Whether RocksDB's own reader could meet a fragment that it never gets past.
    pub traps_rocksdb: bool,
}

/// The flaw of a MANIFEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// The last edit was cut short while it was written: no whole record follows it.
    #[error("{0}, and nothing follows")]
    Torn(Fault),
    /// Bytes are not a record.
    #[error("{0}")]
    Record(Fault),
    /// A record is not an edit.
    #[error("a version edit is malformed: {0}")]
    Edit(EditError),
    /// An edit does not fit the edits before it.
    #[error("a version edit contradicts earlier ones: {0}")]
    Contradiction(&'static str),
}

impl Manifest {
    /// Reads a MANIFEST up to the first fault.
    ///
    /// # Errors
    /// The error of the source, if it cannot be read.
    pub fn read(source: impl Read, number: u64) -> io::Result<Reading> {
        let mut records = Records::new(source, number, usize::MAX);
        let mut manifest = Self::default();
        let mut fault = None;
        let mut whole_until = None;
        loop {
            match records.step()? {
                Step::Record(_) if fault.is_some() => {
                    // A whole record after the fault shows that it is damage, and not a write that was cut
                    // short.
                    fault = fault.map(|(offset, fault)| (offset, damaged(fault)));
                }
                Step::Record(record) => {
                    let applied = Edit::parse(records.front())
                        .map_err(ManifestFault::Edit)
                        .and_then(|edit| manifest.take(edit));
                    if let Err(wrong) = applied {
                        let (bytes, whole_until) = (record.end, record.offset);
                        let fault = Some((record.offset, wrong));
                        return Ok(Reading { manifest, bytes, whole_until, fault, traps_rocksdb: false });
                    }
                }
                Step::Fault(offset, met) => {
                    // Records that follow the fault are whole too, and do not count.
                    whole_until.get_or_insert(records.whole_until());
                    fault = fault.or(Some((offset, torn(met))));
                }
                Step::End => break,
            }
        }
        let (bytes, whole_until) = (records.offset(), whole_until.unwrap_or(records.whole_until()));
        Ok(Reading { manifest, bytes, whole_until, fault, traps_rocksdb: records.traps_rocksdb() })
    }

    /// Tables that must exist.
    pub fn tables(&self) -> impl Iterator<Item = Table> + '_ {
        self.families.values().flat_map(|family| family.tables.values().copied())
    }

    /// Tables that must exist, each with the name of its column family.
    pub fn tables_of_families(&self) -> impl Iterator<Item = (&[u8], Table)> + '_ {
        let of = |family: &Family| family.tables.values().copied().collect::<Vec<_>>();
        self.families
            .values()
            .flat_map(move |family| of(family).into_iter().map(|table| (family.name.as_slice(), table)))
    }

    /// The numbers and names of the column families.
    pub fn families(&self) -> impl Iterator<Item = (u32, &[u8])> + '_ {
        self.families.iter().map(|(number, family)| (*number, family.name.as_slice()))
    }

    /// The numbers of the column families, each with the number of the first log whose changes of the family are not all in
    /// tables.
    pub fn families_in_tables_before(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.families.iter().map(|(number, family)| (*number, family.log_number))
    }

    /// A table with the newest change of a family that is in tables further than another family is: of that one, changes that
    /// are older are in logs only. The default family does not count, because nothing is stored in it.
    pub fn newest_ahead(&self) -> Option<Table> {
        let used = || self.families.iter().filter(|(number, _)| **number != 0).map(|(_, family)| family);
        let behind = used().map(|family| family.log_number).min()?;
        let ahead = used().filter(|family| family.log_number > behind);
        ahead.flat_map(|family| family.tables.values().copied()).max_by_key(|table| table.newest)
    }

    /// Whether a family with tables needs no log up to this one, this one included.
    pub fn has_tables_beyond(&self, log: u64) -> bool {
        self.families.values().any(|family| family.log_number > log && !family.tables.is_empty())
    }

    /// Logs below this number need not be replayed.
    pub fn first_log_needed(&self) -> u64 {
        let of_families = self.families.values().map(|family| family.log_number).min().unwrap_or(0);
        of_families.max(self.log_number_min)
    }

    /// Logs below this number may be deleted, and are kept no longer.
    pub fn oldest_log_kept(&self) -> u64 {
        self.log_number_min
    }

    /// Logs that were synced before the next log was started, with their length at that time.
    pub fn logs_synced(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.logs_synced.iter().map(|(number, bytes)| (*number, *bytes))
    }

    /// Applies an edit, or keeps it until its group is complete.
    fn take(&mut self, edit: Edit) -> Result<(), ManifestFault> {
        // A group counts as a whole: after a crash in the middle of it, none of its edits may.
        let Some(left) = edit.group_left else {
            if !self.group.is_empty() {
                return Err(ManifestFault::Contradiction("an atomic group is not complete"));
            }
            return self.apply(&edit);
        };
        self.group.push(edit);
        if left > 0 {
            return Ok(());
        }
        std::mem::take(&mut self.group).iter().try_for_each(|edit| self.apply(edit))
    }

    fn apply(&mut self, edit: &Edit) -> Result<(), ManifestFault> {
        // The first edit of a MANIFEST may omit the default family.
        if edit.family_added.is_some() || edit.family == 0 {
            let known = self.families.contains_key(&edit.family);
            if known && edit.family != 0 {
                return Err(ManifestFault::Contradiction("a column family is added twice"));
            }
            let family = self.families.entry(edit.family).or_default();
            if let Some(name) = &edit.family_added {
                family.name.clone_from(name);
            }
        }
        let Some(family) = self.families.get_mut(&edit.family) else {
            return Err(ManifestFault::Contradiction("it names a column family that does not exist"));
        };
        for (level, number) in &edit.tables_dropped {
            if family.tables.remove(number).is_none_or(|table| table.level != *level) {
                return Err(ManifestFault::Contradiction("it drops a table that does not exist"));
            }
        }
        // After the drops: an edit that moves a table to another level drops and adds the same number.
        for table in &edit.tables_added {
            if family.tables.insert(table.number, *table).is_some() {
                return Err(ManifestFault::Contradiction("it adds a table that exists"));
            }
        }
        family.log_number = edit.log_number.unwrap_or(family.log_number).max(family.log_number);
        if edit.family_dropped {
            self.families.remove(&edit.family);
        }
        self.log_number_min = self.log_number_min.max(edit.log_number_min.unwrap_or(0));
        self.last_sequence = edit.last_sequence.or(self.last_sequence);
        self.next_file = edit.next_file.or(self.next_file);
        self.track(edit);
        Ok(())
    }

    fn track(&mut self, edit: &Edit) {
        for (number, bytes) in &edit.logs_synced {
            if *number >= self.logs_tracked_from {
                let known = self.logs_synced.entry(*number).or_default();
                *known = bytes.unwrap_or(0).max(*known);
            }
        }
        if let Some(number) = edit.logs_dropped_below
            && number > self.logs_tracked_from
        {
            self.logs_tracked_from = number;
            self.logs_synced = self.logs_synced.split_off(&number);
        }
    }
}

/// The fault, as a cut write if it can be the end of a file whose last write was cut short.
fn torn(fault: Fault) -> ManifestFault {
    match fault {
        Fault::HeaderCut | Fault::PayloadCut | Fault::Unfinished | Fault::Zeros => ManifestFault::Torn(fault),
        Fault::Length
        | Fault::Checksum
        | Fault::Kind(_)
        | Fault::Recycled
        | Fault::OtherLog
        | Fault::Compressed
        | Fault::Headless => ManifestFault::Record(fault),
    }
}

fn damaged(fault: ManifestFault) -> ManifestFault {
    match fault {
        ManifestFault::Torn(fault) => ManifestFault::Record(fault),
        ManifestFault::Record(_) | ManifestFault::Edit(_) | ManifestFault::Contradiction(_) => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::stored_checksum;

    const DEFAULT_FAMILY: &[u8] = &[1, 1, b'c', 2, 4, 3, 9, 4, 100];
    const RECORDS_FAMILY: &[u8] = &[200, 1, 1, 201, 1, 1, b'r', 2, 5];
    const DROP_TABLE: &[u8] = &[200, 1, 1, 6, 0, 7];

    fn added(number: u8, level: u8) -> Vec<u8> {
        let key = [8, 1, 0, 0, 0, 0, 0, 0, 1];
        [&[200, 1, 1, 7, level, number, 50], key.as_slice(), &key].concat()
    }

    fn synced(number: u8, bytes: u8) -> Vec<u8> {
        vec![0x87, 0x40, 4, number, 2, bytes, 1]
    }

    fn file(edits: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for edit in edits {
            let covered = [&[1], *edit].concat();
            let length = u16::try_from(edit.len()).expect("short").to_le_bytes();
            bytes.extend(stored_checksum(&covered).to_le_bytes().into_iter().chain(length).chain(covered));
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Reading {
        Manifest::read(bytes, 3).expect("memory can be read")
    }

    #[test]
    fn edits_add_up() {
        let (first, moved) = (added(7, 0), [DROP_TABLE, &added(7, 6)].concat());
        let bytes = file(&[DEFAULT_FAMILY, RECORDS_FAMILY, &first, &moved, &added(8, 0), &synced(5, 70)]);
        let Reading { manifest, fault, whole_until, .. } = read(&bytes);
        assert_eq!((fault, whole_until), (None, bytes.len() as u64));
        assert_eq!(manifest.last_sequence, Some(100));
        let tables: Vec<(u64, u32)> = manifest.tables().map(|table| (table.number, table.level)).collect();
        assert_eq!(tables, [(7, 6), (8, 0)]);
        assert_eq!(manifest.families().collect::<Vec<_>>(), [(0, b"".as_slice()), (1, b"r")]);
        assert_eq!(manifest.families_in_tables_before().collect::<Vec<_>>(), [(0, 4), (1, 5)]);
        let of_families: Vec<_> =
            manifest.tables_of_families().map(|(name, table)| (name, table.number)).collect();
        assert_eq!(of_families, [(b"r".as_slice(), 7), (b"r", 8)]);
        assert_eq!(manifest.first_log_needed(), 4);
        assert_eq!(manifest.logs_synced().collect::<Vec<_>>(), [(5, 70)]);
    }

    /// A table of a family whose newest change has this number, flushed up to a log.
    fn flushed(family: u8, number: u8, newest: u8, log: u8) -> Vec<u8> {
        let key = [8, 1, 0, 0, 0, 0, 0, 0, 1];
        [&[200, 1, family, 2, log, 100, 0, number, 50], key.as_slice(), &key, &[1, newest]].concat()
    }

    #[test]
    fn a_family_that_is_in_tables_further_than_another_is_ahead() {
        let entries = [200, 1, 2, 201, 1, 1, b'e', 2, 5];
        let ahead = |more: &[&[u8]]| {
            let edits = [&[DEFAULT_FAMILY, RECORDS_FAMILY, &entries], more].concat();
            let manifest = read(&file(&edits)).manifest;
            manifest.newest_ahead().map(|table| (table.number, table.newest))
        };
        // The default family is behind for ever, and does not count.
        let (old, both) = (flushed(1, 7, 40, 5), flushed(2, 8, 41, 5));
        assert_eq!(ahead(&[&old, &both]), None);
        let new = flushed(1, 9, 60, 6);
        let manifest = read(&file(&[DEFAULT_FAMILY, RECORDS_FAMILY, &entries, &old, &new])).manifest;
        assert_eq!([4, 5, 6].map(|log| manifest.has_tables_beyond(log)), [true, true, false]);
        assert_eq!(ahead(&[&old, &both, &new]), Some((9, 60)));
        assert_eq!(ahead(&[&old, &both, &new, &flushed(2, 10, 59, 6)]), None);
    }

    #[test]
    fn a_synced_log_only_grows_until_it_is_dropped() {
        let dropped = [0x88, 0x40, 1, 6];
        let bytes = file(&[&synced(5, 70), &synced(5, 60), &synced(6, 9), &dropped, &synced(5, 80)]);
        assert_eq!(read(&bytes).manifest.logs_synced().collect::<Vec<_>>(), [(6, 9)]);
    }

    #[test]
    fn a_group_counts_when_it_is_complete() {
        let grouped = |left: u8, sequence: u8| vec![172, 2, left, 4, sequence];
        let bytes = file(&[DEFAULT_FAMILY, &grouped(1, 101), &grouped(0, 102)]);
        assert_eq!(read(&bytes).manifest.last_sequence, Some(102));
        let bytes = file(&[DEFAULT_FAMILY, &grouped(1, 101)]);
        assert_eq!(read(&bytes).manifest.last_sequence, Some(100));
        let bytes = file(&[DEFAULT_FAMILY, &grouped(1, 101), RECORDS_FAMILY]);
        assert!(matches!(read(&bytes).fault, Some((_, ManifestFault::Contradiction(_)))));
    }

    #[test]
    fn contradictions_are_found() {
        let twice = [&added(7, 0)[..], &added(7, 0)[3..]].concat();
        for edits in [
            vec![DEFAULT_FAMILY, RECORDS_FAMILY, RECORDS_FAMILY],
            vec![DEFAULT_FAMILY, DROP_TABLE],
            vec![DEFAULT_FAMILY, RECORDS_FAMILY, DROP_TABLE],
            vec![DEFAULT_FAMILY, RECORDS_FAMILY, &twice],
        ] {
            let fault = read(&file(&edits)).fault;
            assert!(matches!(fault, Some((_, ManifestFault::Contradiction(_)))), "{fault:?}");
        }
    }

    #[test]
    fn a_torn_end_is_told_from_damage() {
        let bytes = file(&[DEFAULT_FAMILY, RECORDS_FAMILY]);
        let first = file(&[DEFAULT_FAMILY]).len();
        let torn = read(&bytes[..bytes.len() - 1]);
        assert_eq!((torn.whole_until, torn.bytes), (first as u64, bytes.len() as u64 - 1));
        assert_eq!(torn.fault, Some((first as u64, ManifestFault::Torn(Fault::PayloadCut))));
        let mut zeros = bytes.clone();
        zeros[..first].fill(0);
        assert_eq!(read(&zeros).fault, Some((0, ManifestFault::Record(Fault::Zeros))));
        assert_eq!(read(&zeros).whole_until, 0);
        let mut flipped = bytes;
        flipped[first + 8] ^= 1;
        assert_eq!(read(&flipped).fault, Some((first as u64, ManifestFault::Record(Fault::Checksum))));
    }
}
