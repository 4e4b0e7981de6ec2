//! Faults that are injected into commits, which a suite must find.

use rocksdb::{WriteBatch, WriteBatchIteratorCf, WriteOptions};

use crate::families::{Database, Family};

/// The changes of a batch, the entries of indexes apart from the rest.
#[derive(Default)]
struct Apart {
    rest: WriteBatch,
    entries: WriteBatch,
}

/// Writes the entries of a batch after the rest of it.
#[cold]
pub(super) fn write_apart(
    database: &Database,
    raw: WriteBatch,
    options: &WriteOptions,
) -> Result<(), rocksdb::Error> {
    let Some(Apart { rest, entries }) = apart(database, &raw) else {
        return database.raw().write_opt(raw, options);
    };
    database.raw().write_opt(rest, options)?;
    database.raw().write_opt(entries, options)
}

/// Writes a batch without the entries of indexes.
#[cold]
pub(super) fn write_without_entries(
    database: &Database,
    raw: WriteBatch,
    options: &WriteOptions,
) -> Result<(), rocksdb::Error> {
    let rest = apart(database, &raw).map_or(raw, |apart| apart.rest);
    database.raw().write_opt(rest, options)
}

/// The parts of a batch. Returns `None` if it has no entries, or ranges, which cannot be listed.
fn apart(database: &Database, raw: &WriteBatch) -> Option<Apart> {
    let mut split = Splitter { database, apart: Apart::default() };
    raw.iterate_cf(&mut split);
    let Apart { rest, entries } = &split.apart;
    (!entries.is_empty() && rest.len() + entries.len() == raw.len()).then_some(split.apart)
}

struct Splitter<'a> {
    database: &'a Database,
    apart: Apart,
}

impl Splitter<'_> {
    /// The family of that number, and the batch for it. RocksDB numbers families in the order of their creation, after its
    /// own.
    fn of(&mut self, number: u32) -> Option<(Family, &mut WriteBatch)> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        let family = Family::ALL.into_iter().nth(place)?;
        let batch = if family == Family::Entries { &mut self.apart.entries } else { &mut self.apart.rest };
        Some((family, batch))
    }
}

impl WriteBatchIteratorCf for Splitter<'_> {
    fn put_cf(&mut self, number: u32, key: &[u8], value: &[u8]) {
        let database = self.database;
        if let Some((family, batch)) = self.of(number) {
            batch.put_cf(database.family(family), key, value);
        }
    }

    fn delete_cf(&mut self, number: u32, key: &[u8]) {
        let database = self.database;
        if let Some((family, batch)) = self.of(number) {
            batch.delete_cf(database.family(family), key);
        }
    }

    fn merge_cf(&mut self, _: u32, _: &[u8], _: &[u8]) {}
}
