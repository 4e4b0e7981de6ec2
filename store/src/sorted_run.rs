//! Runs whose entries are sorted, and looked up by their keys: the blocks of a run, and in memory the first key of each block.
//!
//! The keys in memory have a limit, however large the run is. When they reach it, every second one is dropped, and from then
//! on only every second block gets one, then every fourth and so on. A look-up then reads a few blocks after each other where it
//! read one. So keys should be short. The block that was read last stays in memory: keys beside each other are found there.

use std::mem::size_of;

use base::error::Result;

use crate::run::{RunFile, RunReader, RunWriter};

/// Bytes of entries after which a block ends. A look-up reads a whole block, so they are smaller than those of other runs.
const BLOCK_BYTES: usize = 16 << 10;
/// The memory of an index grows by this part of itself, and by no fewer bytes than the second number.
const GROWTH_PART: usize = 8;
const GROWTH_BYTES_MIN: usize = 256;

/// A sorted run that is being written.
pub struct SortedWriter<F> {
    run: RunWriter<F>,
    /// The first key of the block that is being written.
    first: Vec<u8>,
    index: SparseIndex,
}

/// A sorted run that is read from anywhere.
pub struct SortedReader<F> {
    run: RunReader<F>,
    index: SparseIndex,
}

/// The offsets of blocks, by their first keys.
#[derive(Debug)]
struct SparseIndex {
    /// The keys, one after the other.
    keys: Vec<u8>,
    /// For each block that has a key here, where the key ends and where the block begins.
    blocks: Vec<(usize, u64)>,
    /// Every how manieth block has a key.
    stride: u64,
    /// The number of blocks.
    count: u64,
    bytes_max: usize,
}

impl<F: RunFile> SortedWriter<F> {
    /// A run in a file. What finds its keys uses `index_bytes_max` bytes at most, or one key.
    pub fn new(file: F, index_bytes_max: usize) -> Self {
        let run = RunWriter::with_blocks(file, BLOCK_BYTES);
        Self { run, first: Vec::new(), index: SparseIndex::new(index_bytes_max) }
    }

    /// Adds an entry, whose key is greater than all before.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // Kept until the block ends, because only then it is known where it begins.
        if self.run.is_at_block() {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        if let Some(start) = self.run.add_entry(key, value)? {
            self.index.push(&self.first, start);
        }
        Ok(())
    }

    /// The bytes of memory of what finds the keys.
    pub fn index_bytes(&self) -> usize {
        self.index.bytes()
    }

    /// Ends the run. It is not synced: what it is for does not outlive a crash.
    pub fn finish(mut self) -> Result<SortedReader<F>> {
        if let Some(start) = self.run.end_block()? {
            self.index.push(&self.first, start);
        }
        self.index.shrink();
        Ok(SortedReader { run: self.run.finish()?, index: self.index })
    }
}

impl<F: RunFile> SortedReader<F> {
    /// Goes before the first entry whose key is `key` or greater.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let Some((first, start, end)) = self.index.span(key) else { return Ok(()) };
        let is_in_block =
            self.run.block().is_some_and(|(at, first)| (start..end).contains(&at) && first <= key);
        if is_in_block {
            // Ascending keys go on from where the last one was found.
            if self.run.key().is_empty() || self.run.key() >= key {
                self.run.rewind();
            }
        } else {
            self.run.go_to(start);
            // A whole block in place of another one has the right checksum, and would hide entries.
            if self.run.next_key()? != Some(first) {
                // It is read again by the next search, and rejected again.
                self.run.go_to(start);
                return Err(self.run.damaged("a block of it is another one"));
            }
        }
        self.run.skip_below(key)
    }

    /// Steps to the next entry. Returns `false` at the end.
    pub fn advance(&mut self) -> Result<bool> {
        self.run.advance()
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        self.run.key()
    }

    /// The value of the current entry.
    pub fn value(&self) -> &[u8] {
        self.run.value()
    }

    /// Its size in memory: its largest block, and the index of keys.
    pub fn memory_bytes(&self) -> usize {
        self.run.block_bytes().saturating_add(self.index.bytes())
    }
}

impl SparseIndex {
    fn new(bytes_max: usize) -> Self {
        Self { keys: Vec::new(), blocks: Vec::new(), stride: 1, count: 0, bytes_max }
    }

    /// Adds the block that begins at `start`.
    fn push(&mut self, key: &[u8], start: u64) {
        if self.count.is_multiple_of(self.stride) {
            grow(&mut self.keys, key.len());
            grow(&mut self.blocks, 1);
            self.keys.extend_from_slice(key);
            self.blocks.push((self.keys.len(), start));
            // Large keys can need more than one step.
            while self.blocks.len() > 1 && self.bytes() > self.bytes_max {
                self.halve();
            }
        }
        self.count += 1;
    }

    /// Drops every second key.
    fn halve(&mut self) {
        // In place: a copy would need the memory that there is no more of.
        let (mut begin, mut kept_bytes, mut kept) = (0, 0, 0);
        for at in 0..self.blocks.len() {
            let Some(&(end, start)) = self.blocks.get(at) else { break };
            if at.is_multiple_of(2) {
                self.keys.copy_within(begin..end, kept_bytes);
                kept_bytes += end - begin;
                if let Some(place) = self.blocks.get_mut(kept) {
                    *place = (kept_bytes, start);
                }
                kept += 1;
            }
            begin = end;
        }
        self.keys.truncate(kept_bytes);
        self.blocks.truncate(kept);
        self.stride *= 2;
    }

    /// The last block that begins with `key` or less, or else the first: its first key, where it begins, and where the next block
    /// begins that has a key here. Returns `None` if there is no block.
    fn span(&self, key: &[u8]) -> Option<(&[u8], u64, u64)> {
        // A key before all others is looked for in the first block, where the next greater one is.
        let at = self.position_after(key).saturating_sub(1);
        let (_, start) = self.blocks.get(at)?;
        let end = self.blocks.get(at + 1).map_or(u64::MAX, |(_, start)| *start);
        Some((self.key(at), *start, end))
    }

    /// The number of keys that are `key` or less.
    fn position_after(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn key(&self, at: usize) -> &[u8] {
        let end = |at: usize| self.blocks.get(at).map_or(0, |(end, _)| *end);
        let begin = at.checked_sub(1).map_or(0, end);
        self.keys.get(begin..end(at)).unwrap_or_default()
    }

    fn shrink(&mut self) {
        // The run is read for long, and nothing is added to it any more.
        self.keys.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }

    /// Its size in memory, with the reserved part of its lists.
    fn bytes(&self) -> usize {
        let used = self.keys.len() + self.blocks.len() * size_of::<(usize, u64)>();
        used + used / GROWTH_PART
    }
}

/// Makes room for `more` elements, and for fewer in advance than a list does by itself.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / GROWTH_PART).max(GROWTH_BYTES_MIN / size_of::<T>()));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard};

    use super::*;

    /// A file in memory, which counts how often it is read. Clones are the same file.
    #[derive(Clone, Default)]
    struct Memory {
        bytes: Arc<Mutex<Vec<u8>>>,
        reads: Arc<AtomicUsize>,
    }

    impl Memory {
        fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
            self.bytes.lock().expect("no panic")
        }

        fn take_reads(&self) -> usize {
            self.reads.swap(0, Ordering::Relaxed)
        }
    }

    impl RunFile for Memory {
        fn path(&self) -> PathBuf {
            "the.run".into()
        }

        fn append(&mut self, bytes: &[u8]) -> Result<u64> {
            let mut all = self.bytes();
            all.extend_from_slice(bytes);
            Ok((all.len() - bytes.len()) as u64)
        }

        fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> Result<()> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let [offset, bytes] = [offset, bytes].map(|number| usize::try_from(number).expect("small"));
            into.clear();
            into.extend(self.bytes().iter().skip(offset).take(bytes));
            Ok(())
        }
    }

    const COUNT: u32 = 20_000;
    /// A block is read as its header and its content.
    const READS: usize = 2;

    /// Every third number is a key. Some values are larger than a block, and the keys are not all of one length.
    fn entry(number: u32) -> (Vec<u8>, Vec<u8>) {
        let mut key = (3 * number).to_be_bytes().to_vec();
        key.resize(4 + usize::try_from(number % 5).expect("small"), 9);
        let bytes = if number.is_multiple_of(2000) { 3 * BLOCK_BYTES } else { 40 };
        (key, vec![number.to_le_bytes()[0]; bytes])
    }

    fn written(file: &Memory, index_bytes_max: usize) -> SortedReader<Memory> {
        let mut writer = SortedWriter::new(file.clone(), index_bytes_max);
        // Another run in the same file, whose blocks are between those of this one.
        let mut other = SortedWriter::new(file.clone(), index_bytes_max);
        for (key, value) in (0..COUNT).map(entry) {
            writer.add(&key, &value).expect("written");
            if key.len() == 4 {
                other.add(&key, &value).expect("written");
            }
        }
        other.finish().expect("written");
        let reader = writer.finish().expect("written");
        file.take_reads();
        reader
    }

    /// Checks what a search for a number finds.
    #[track_caller]
    fn check(reader: &mut SortedReader<Memory>, number: u32) {
        reader.seek(&number.to_be_bytes()).expect("read");
        // The key of a number that is not divisible is that of the next one.
        for expected in (number.div_ceil(3)..COUNT).take(2) {
            assert!(reader.advance().expect("read"), "nothing from {number} on");
            let (key, value) = entry(expected);
            assert_eq!((reader.key(), reader.value()), (key.as_slice(), value.as_slice()), "{number}");
        }
        if number.div_ceil(3) >= COUNT {
            assert!(!reader.advance().expect("read"), "{number}");
        }
    }

    #[test]
    fn keys_are_found_in_any_order_with_any_index() {
        for index_bytes_max in [0, 100, 1000, usize::MAX] {
            let mut reader = written(&Memory::default(), index_bytes_max);
            for number in (0..3 * COUNT + 3).step_by(7) {
                check(&mut reader, number);
            }
            let mut number = 1_u32;
            for _ in 0..300 {
                number = number.wrapping_mul(0x1e37_79b9).rotate_left(7);
                check(&mut reader, number % (3 * COUNT + 9));
            }
            // A search without a step after it leaves nothing behind.
            for number in [9000, 30, 8997, 0, u32::MAX] {
                reader.seek(&number.to_be_bytes()).expect("read");
                reader.seek(&(number / 2).to_be_bytes()).expect("read");
                check(&mut reader, number % (3 * COUNT));
            }
        }
    }

    #[test]
    fn what_finds_keys_keeps_to_its_memory() {
        let whole = written(&Memory::default(), usize::MAX).index.bytes();
        assert!(whole > 1000, "{whole}");
        for index_bytes_max in [0, 64, 300, 1000, whole] {
            let index = written(&Memory::default(), index_bytes_max).index;
            assert!(index.bytes() <= index_bytes_max.max(40), "{} of {index_bytes_max}", index.bytes());
            assert!(index.blocks.len() == 1 || 3 * index.bytes() > index_bytes_max, "it uses its memory");
        }
        // A million blocks, and what their list uses in advance.
        let mut index = SparseIndex::new(100_000);
        for block in 0..1_000_000_u64 {
            index.push(&block.to_be_bytes(), block * 16_384);
        }
        let capacity = index.keys.capacity() + index.blocks.capacity() * size_of::<(usize, u64)>();
        assert!(capacity <= 102_000, "{capacity}");
        let (_, start, _) = index.span(&777_777_u64.to_be_bytes()).expect("there are blocks");
        assert_eq!(start / 16_384, 777_777 / index.stride * index.stride);
    }

    #[test]
    fn keys_beside_each_other_are_read_once() {
        let file = Memory::default();
        let mut reader = written(&file, usize::MAX);
        let blocks = reader.index.blocks.len();
        for number in 0..COUNT {
            check(&mut reader, 3 * number);
        }
        // The second step of a search can lead into the next block, and the next search back.
        let ascending = file.take_reads();
        assert!(ascending <= 3 * READS * blocks, "{ascending} reads of {blocks} blocks");
        // Any other search reads one block, or with the second step of it two.
        let mut number = 1_u32;
        for _ in 0..100 {
            number = number.wrapping_mul(0x1e37_79b9).rotate_left(7);
            reader.seek(&(number % (3 * COUNT)).to_be_bytes()).expect("read");
        }
        let scattered = file.take_reads();
        assert!(scattered <= 110 * READS, "{scattered} reads");
    }

    #[test]
    fn a_run_without_entries_finds_nothing() {
        let mut reader = SortedWriter::new(Memory::default(), 1000).finish().expect("written");
        reader.seek(b"key").expect("read");
        assert!(!reader.advance().expect("read"));
        assert_eq!(reader.memory_bytes(), 0);
    }

    /// Whatever is wrong with a block, a search that needs it names the file.
    #[test]
    fn damage_is_an_error_that_names_the_file() {
        let refused = |damage: &dyn Fn(&mut Vec<u8>)| {
            let file = Memory::default();
            let mut reader = written(&file, usize::MAX);
            damage(&mut file.bytes());
            let errors = (0..COUNT).filter_map(|number| {
                let found = reader.seek(&entry(number).0).and_then(|()| reader.advance());
                // A result is right all the same.
                assert!(found.is_err() || reader.key() == entry(number).0, "{number}");
                found.err()
            });
            let errors: Vec<_> = errors.collect();
            assert!(errors.iter().all(|error| error.to_string().contains("the.run")), "{}", errors[0]);
            errors.len()
        };
        assert_eq!(refused(&|_| {}), 0);
        for flipped in [0, 4, 8, 3 * BLOCK_BYTES, 40 * BLOCK_BYTES + 77] {
            assert!(refused(&|bytes| bytes[flipped] ^= 0x10) > 0, "{flipped}");
        }
        let half = |bytes: &Vec<u8>| bytes.len() / 2;
        assert!(refused(&|bytes| bytes.truncate(half(bytes))) > 5000);
        assert_eq!(refused(&Vec::clear), usize::try_from(COUNT).expect("small"));
        // A block with its checksum in place of another one.
        assert!(refused(&|bytes| swap_equal_blocks(bytes)) > 100);
    }

    /// Exchanges the first two blocks of one length that do not follow each other.
    fn swap_equal_blocks(bytes: &mut [u8]) {
        let length = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        let mut blocks = vec![(0, usize::try_from(length(0)).expect("small") + 8)];
        while let Some(&(start, whole)) = blocks.last()
            && start + whole < bytes.len()
        {
            blocks.push((start + whole, usize::try_from(length(start + whole)).expect("small") + 8));
        }
        let same = |(first, (start, whole)): (usize, &(usize, usize))| {
            let other = blocks.iter().skip(first + 4).find(|(_, other)| other == whole)?;
            Some((*start, other.0, *whole))
        };
        let (one, other, whole) = blocks.iter().enumerate().find_map(same).expect("two of one length");
        for at in 0..whole {
            bytes.swap(one + at, other + at);
        }
    }
}
