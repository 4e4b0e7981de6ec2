//! Sorts entries within a bound of memory: a buffer, and sorted runs in files when there are more.
//!
//! Runs of one generation are merged to one of the next when there are many, so the last merge never reads more files at a
//! time than a process may open, and every entry is written a few times at most.

use base::error::Result;
use store::Database;
use store::keys::{ID_BYTES, IndexId};
use store::run::{RunReader, RunWriter};
use store::scratch::{BuildFile, BuildFolder};

/// The number of runs of one generation that are merged to one run.
const FAN_IN: usize = 32;

/// Entries that are being sorted.
pub(super) struct Sorter<'a> {
    database: &'a Database,
    build: IndexId,
    bytes_max: usize,
    buffer: Buffer,
    /// Made with the first run.
    folder: Option<BuildFolder>,
    /// The runs with their generations, which descend.
    runs: Vec<(u32, BuildRun<'a>)>,
    /// The number of created runs.
    made: usize,
    entries: u64,
}

/// Sorted entries.
pub(super) struct Sorted<'a> {
    source: Source<'a>,
    /// The folder of the build, if it was needed.
    pub(super) folder: Option<BuildFolder>,
    /// The number of entries.
    pub(super) entries: u64,
}

enum Source<'a> {
    Memory(Buffer),
    Runs(Vec<BuildRun<'a>>),
}

/// A run that is read.
type BuildRun<'a> = RunReader<BuildFile<'a>>;

/// Entries in memory.
#[derive(Default)]
struct Buffer {
    /// Keys and values, each key before its value.
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

/// The place of an entry in the buffer.
#[derive(Clone, Copy)]
struct Slot {
    /// The first bytes of the key after the id of the index. Most comparisons end here, without a look at the buffer.
    prefix: u64,
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl<'a> Sorter<'a> {
    /// A sorter that holds `bytes_max` bytes in memory, and one entry of a document more. If the store itself is in memory, it
    /// holds all.
    pub(super) fn new(database: &'a Database, build: IndexId, bytes_max: usize) -> Self {
        // In a store in memory its files would be there as well.
        let bytes_max = if database.is_in_memory() { usize::MAX } else { bytes_max };
        let buffer = Buffer::default();
        Self { database, build, bytes_max, buffer, folder: None, runs: Vec::new(), made: 0, entries: 0 }
    }

    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.buffer.bytes_with(key.len() + value.len()) > self.bytes_max && !self.buffer.slots.is_empty() {
            self.spill()?;
        }
        self.entries += 1;
        self.buffer.add(key, value);
        Ok(())
    }

    pub(super) fn sort(mut self) -> Result<Sorted<'a>> {
        let source = if self.runs.is_empty() {
            self.buffer.sort();
            Source::Memory(self.buffer)
        } else {
            self.spill()?;
            // Its memory is for the blocks of the runs now.
            self.buffer = Buffer::default();
            Source::Runs(self.runs.into_iter().map(|(_, run)| run).collect())
        };
        Ok(Sorted { source, folder: self.folder, entries: self.entries })
    }

    /// Writes the buffer as a run.
    fn spill(&mut self) -> Result<()> {
        self.buffer.sort();
        let mut run = self.new_run()?;
        self.buffer.for_each(|key, value| run.add(key, value))?;
        self.buffer.clear();
        self.runs.push((0, run.finish()?));
        self.merge_generations()
    }

    fn new_run(&mut self) -> Result<RunWriter<BuildFile<'a>>> {
        let folder = match &self.folder {
            Some(folder) => folder,
            None => self.folder.insert(BuildFolder::make(self.database, self.build)?),
        };
        self.made += 1;
        let file = folder.create(self.database, &format!("{}.run", self.made))?;
        Ok(RunWriter::new(file))
    }

    /// Merges the newest runs if enough of them have one generation.
    fn merge_generations(&mut self) -> Result<()> {
        while let Some(&(generation, _)) = self.runs.last() {
            let first = self.runs.iter().position(|(of_run, _)| *of_run == generation).unwrap_or_default();
            if self.runs.len() - first < FAN_IN {
                return Ok(());
            }
            let mut merged = self.new_run()?;
            let runs = self.runs.split_off(first).into_iter().map(|(_, run)| run).collect();
            merge(runs, |key, value| merged.add(key, value))?;
            self.runs.push((generation + 1, merged.finish()?));
        }
        Ok(())
    }
}

impl Sorted<'_> {
    /// Calls `take` with every key and value, ascending by key and then by value.
    pub(super) fn for_each(self, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        match self.source {
            Source::Memory(buffer) => buffer.for_each(take),
            Source::Runs(runs) => merge(runs, take),
        }
    }
}

impl Buffer {
    /// The size of the buffer with another entry of `bytes` bytes. It grows by doubling.
    fn bytes_with(&self, bytes: usize) -> usize {
        let grown = |capacity: usize, needed: usize| if needed > capacity { 2 * needed } else { capacity };
        let slots = grown(self.slots.capacity(), self.slots.len() + 1);
        grown(self.bytes.capacity(), self.bytes.len() + bytes) + slots * size_of::<Slot>()
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let bytes = |part: &[u8]| u32::try_from(part.len()).expect("an entry has less than 64 MiB");
        let rest = key.get(ID_BYTES..).unwrap_or_default();
        let mut prefix = [0; 8];
        prefix.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        self.slots.push(Slot {
            prefix: u64::from_be_bytes(prefix),
            start: self.bytes.len(),
            key_bytes: bytes(key),
            value_bytes: bytes(value),
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        // All keys begin with the id of one index, so the bytes after it order them as the whole keys do.
        self.slots.sort_unstable_by(|one, other| {
            one.prefix.cmp(&other.prefix).then_with(|| entry(bytes, *one).cmp(&entry(bytes, *other)))
        });
    }

    fn for_each(&self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.slots.iter().try_for_each(|slot| {
            let (key, value) = entry(&self.bytes, *slot);
            take(key, value)
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }
}

/// The key and the value of a slot.
fn entry(bytes: &[u8], slot: Slot) -> (&[u8], &[u8]) {
    let value_at = slot.start + slot.key_bytes as usize;
    let key = bytes.get(slot.start..value_at).unwrap_or_default();
    let value = bytes.get(value_at..value_at + slot.value_bytes as usize).unwrap_or_default();
    (key, value)
}

/// Calls `take` with the entries of all runs in their order.
fn merge(mut runs: Vec<BuildRun<'_>>, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    // An empty run is left out. A run is never empty here, but its file may be cut.
    let mut heap = Vec::with_capacity(runs.len());
    for (position, run) in runs.iter_mut().enumerate() {
        if run.advance()? {
            heap.push(position);
        }
    }
    for root in (0..heap.len() / 2).rev() {
        sift_down(&mut heap, root, &runs);
    }
    while let Some(&lowest) = heap.first() {
        let Some(run) = runs.get_mut(lowest) else { break };
        take(run.key(), run.value())?;
        if !run.advance()? {
            heap.swap_remove(0);
        }
        // Either the last run is at the root now, or the lowest one with a higher entry.
        sift_down(&mut heap, 0, &runs);
    }
    Ok(())
}

/// Restores the order of a heap of positions in `runs`, in which only the one at `root` may stand too high.
fn sift_down(heap: &mut [usize], mut root: usize, runs: &[BuildRun<'_>]) {
    let front = |heap: &[usize], at: usize| {
        let run = heap.get(at).and_then(|position| runs.get(*position));
        run.map(|run| (run.key(), run.value()))
    };
    loop {
        let (left, right) = (2 * root + 1, 2 * root + 2);
        let is_right_lower = right < heap.len() && front(heap, right) < front(heap, left);
        let lower = if is_right_lower { right } else { left };
        if lower >= heap.len() || front(heap, root) <= front(heap, lower) {
            return;
        }
        heap.swap(root, lower);
        root = lower;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    /// Sorts pseudo-random entries, some of them equal in their keys, and compares the order with that of a plain sort.
    #[track_caller]
    fn check(entries: u32, bytes_max: usize, is_in_files: bool) {
        let fixture = Fixture::filled(|_| {});
        let mut keys = Sorter::new(&fixture.database, IndexId(9), bytes_max);
        let mut expected = Vec::new();
        for number in 0..entries {
            let mixed = number.wrapping_mul(0x9e37_79b9).rotate_left(7);
            // Some keys differ only after the prefix, some are a prefix of others, and some have two values.
            let tail = "x".repeat(mixed as usize % 11);
            let key = [&9_u32.to_be_bytes()[..], &(mixed % 999).to_be_bytes(), tail.as_bytes()].concat();
            let value = number.to_be_bytes().to_vec();
            keys.add(&key, &value).expect("added");
            expected.push((key, value));
        }
        expected.sort();
        let sorted = keys.sort().expect("sorted");
        assert_eq!(sorted.folder.is_some(), is_in_files);
        assert_eq!(sorted.entries, u64::from(entries));
        let mut found = Vec::new();
        let take = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        sorted.for_each(take).expect("read");
        assert_eq!(found, expected);
    }

    #[test]
    fn entries_come_back_in_order_from_memory_and_from_files() {
        check(0, 1 << 20, false);
        check(1, 0, false);
        check(3000, 1 << 20, false);
        check(3000, 64 << 10, true);
        // More than a thousand runs: two generations of merged ones.
        check(6000, 0, true);
    }
}
