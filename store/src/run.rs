//! Runs of entries in files: blocks with a checksum, written once and read once from the beginning. Index builds have them,
//! and sorts, groups and joins that need more memory than they may have. In `sorted_run` they are read from anywhere.
//!
//! A block is the length of its content and the content's CRC-32C, four bytes each, and the content: entries, each of them
//! the lengths of its key and of its value, four bytes each, its key and its value. Integers are big-endian.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use base::error::{Error, ErrorKind, Result};
use bytes::Buf;

/// Bytes of entries after which a block ends.
const BLOCK_BYTES: usize = 64 << 10;
/// The length and the checksum of a block.
const HEADER_BYTES: usize = 8;

/// A run that is being written.
pub struct RunWriter<F> {
    file: F,
    /// The header of the block, to be filled in, and its content.
    block: Vec<u8>,
    /// Bytes of entries after which a block ends.
    block_bytes: usize,
    entries: u64,
    /// The places of the blocks in the file. Other runs may be between them.
    extents: Vec<Range<u64>>,
    /// The bytes of the largest block.
    largest: usize,
}

/// A run that is read from its beginning.
pub struct RunReader<F> {
    file: F,
    /// The number of entries that are still to come.
    left: u64,
    /// The places of the blocks, and the number of these extents that were begun.
    extents: Vec<Range<u64>>,
    begun: usize,
    /// The place of the next blocks. The next one is at its start.
    extent: Range<u64>,
    /// The bytes of the largest block.
    largest: usize,
    block: Vec<u8>,
    /// The offset of the block in the file.
    block_start: u64,
    /// The offset of the next entry in the block.
    next: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// The file of a run.
pub trait RunFile {
    /// The name of the file in errors.
    fn path(&self) -> PathBuf;

    /// Writes bytes at the end of the file, if there may be so many. Returns where they begin.
    fn append(&mut self, bytes: &[u8]) -> Result<u64>;

    /// Reads `bytes` bytes at an offset, or fewer at the end of the file.
    fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> Result<()>;
}

impl<F: RunFile> RunWriter<F> {
    /// A run in a file, which is empty.
    pub fn new(file: F) -> Self {
        Self::with_blocks(file, BLOCK_BYTES)
    }

    /// A run in blocks that end after `block_bytes` bytes of entries.
    pub(super) fn with_blocks(file: F, block_bytes: usize) -> Self {
        let block = vec![0; HEADER_BYTES];
        Self { file, block, block_bytes, entries: 0, extents: Vec::new(), largest: 0 }
    }

    /// Adds an entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_entry(key, value).map(drop)
    }

    /// Adds an entry. Returns where its block begins, if that has ended with it.
    pub(super) fn add_entry(&mut self, key: &[u8], value: &[u8]) -> Result<Option<u64>> {
        for part in [key, value] {
            let bytes = u32::try_from(part.len()).expect("the entries of a document have less than 64 MiB");
            self.block.extend_from_slice(&bytes.to_be_bytes());
        }
        self.entries += 1;
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        if self.block.len() >= self.block_bytes { self.write_block().map(Some) } else { Ok(None) }
    }

    /// Whether the next entry begins a block.
    pub(super) fn is_at_block(&self) -> bool {
        self.block.len() == HEADER_BYTES
    }

    /// Ends the last block. Returns where it begins. `None` if it has no entry.
    pub(super) fn end_block(&mut self) -> Result<Option<u64>> {
        if self.is_at_block() { Ok(None) } else { self.write_block().map(Some) }
    }

    /// Ends the run. It is not synced: what it is for does not outlive a crash.
    pub fn finish(mut self) -> Result<RunReader<F>> {
        self.end_block()?;
        let Self { file, entries: left, extents, largest, .. } = self;
        Ok(RunReader {
            file,
            left,
            extents,
            begun: 0,
            extent: 0..0,
            largest,
            block: Vec::new(),
            block_start: 0,
            next: 0,
            key: 0..0,
            value: 0..0,
        })
    }

    /// Writes the block. Returns where it begins.
    fn write_block(&mut self) -> Result<u64> {
        if let Some((header, content)) = self.block.split_at_mut_checked(HEADER_BYTES) {
            let bytes = u32::try_from(content.len()).expect("a block has one large entry at most");
            let parts = bytes.to_be_bytes().into_iter().chain(crc32c::crc32c(content).to_be_bytes());
            header.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
        }
        // Other runs may have been written to the file since the last block.
        let start = self.file.append(&self.block)?;
        let end = start + self.block.len() as u64;
        match self.extents.last_mut() {
            Some(last) if last.end == start => last.end = end,
            Some(_) | None => self.extents.push(start..end),
        }
        self.largest = self.largest.max(self.block.len());
        self.block.truncate(HEADER_BYTES);
        // After a large entry: the next blocks need less.
        self.block.shrink_to(2 * self.block_bytes);
        Ok(start)
    }
}

impl<F: RunFile> RunReader<F> {
    /// Steps to the next entry. Returns `false` at the end.
    pub fn advance(&mut self) -> Result<bool> {
        let Some((key, value)) = self.next_entry()? else {
            // A file that was cut between two blocks looks whole.
            return if self.left == 0 { Ok(false) } else { Err(self.damaged("it ends too early")) };
        };
        self.next = value.end;
        self.left = self.left.saturating_sub(1);
        (self.key, self.value) = (key, value);
        Ok(true)
    }

    /// Skips entries as long as their keys are less than `key`. The last of them is the current one then.
    pub(super) fn skip_below(&mut self, key: &[u8]) -> Result<()> {
        while let Some((next_key, next_value)) = self.next_entry()?
            && self.block.get(next_key.clone()).unwrap_or_default() < key
        {
            self.next = next_value.end;
            (self.key, self.value) = (next_key, next_value);
        }
        Ok(())
    }

    /// Goes before the first entry of the block that begins at `start`. How many entries are left is not known from here on.
    pub(super) fn go_to(&mut self, start: u64) {
        // That a file was cut is seen all the same: the extents say where its blocks are.
        self.left = 0;
        // Of a run with a million blocks all may be in one extent.
        self.begun = self.extents.partition_point(|extent| extent.start <= start);
        let extent = self.begun.checked_sub(1).and_then(|at| self.extents.get(at));
        self.extent = start..extent.map_or(start, |extent| extent.end);
        self.block.clear();
        self.rewind();
    }

    /// Goes before the first entry of the block that was read.
    pub(super) fn rewind(&mut self) {
        (self.next, self.key, self.value) = (0, 0..0, 0..0);
    }

    /// The offset of the block that was read, and the key of its first entry. `None` before the first and after the
    /// last block.
    pub(super) fn block(&self) -> Option<(u64, &[u8])> {
        let (key, _) = self.entry_at(0)?;
        Some((self.block_start, self.block.get(key)?))
    }

    /// Reads the block that comes next, if all entries of the one before were read. Returns the key of the next entry, and `None`
    /// after the last.
    pub(super) fn next_key(&mut self) -> Result<Option<&[u8]>> {
        let entry = self.next_entry()?;
        Ok(entry.and_then(|(key, _)| self.block.get(key)))
    }

    /// The place of the next entry in its block, which is read if it has to be. Returns `None` after the last entry.
    fn next_entry(&mut self) -> Result<Option<(Range<usize>, Range<usize>)>> {
        if self.next >= self.block.len() && !self.read_block()? {
            return Ok(None);
        }
        let entry = self.entry_at(self.next);
        entry.map(Some).ok_or_else(|| self.damaged("an entry of it is cut short"))
    }

    /// The places of the key and the value of the entry that begins at a position in the block.
    fn entry_at(&self, begin: usize) -> Option<(Range<usize>, Range<usize>)> {
        let mut rest = self.block.get(begin..).unwrap_or_default();
        let (key, value) = (rest.try_get_u32().ok()?, rest.try_get_u32().ok()?);
        let key_at = begin + HEADER_BYTES;
        let value_at = key_at.checked_add(usize::try_from(key).ok()?)?;
        let end = value_at.checked_add(usize::try_from(value).ok()?)?;
        (end <= self.block.len()).then_some((key_at..value_at, value_at..end))
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        self.block.get(self.key.clone()).unwrap_or_default()
    }

    /// The value of the current entry.
    pub fn value(&self) -> &[u8] {
        self.block.get(self.value.clone()).unwrap_or_default()
    }

    /// The bytes of its largest block: what reading it needs.
    pub fn block_bytes(&self) -> usize {
        self.largest
    }

    /// Reads the next block. Returns `false` after the last.
    fn read_block(&mut self) -> Result<bool> {
        let mut block = std::mem::take(&mut self.block);
        self.rewind();
        if self.extent.is_empty() {
            let Some(extent) = self.extents.get(self.begun) else { return Ok(false) };
            self.extent = extent.clone();
            self.begun += 1;
        }
        self.block_start = self.extent.start;
        self.file.read(self.extent.start, HEADER_BYTES as u64, &mut block)?;
        let mut fields = block.as_slice();
        let (Ok(bytes), Ok(checksum)) = (fields.try_get_u32(), fields.try_get_u32()) else {
            return Err(self.damaged("the header of a block is cut short"));
        };
        let begin = self.extent.start + HEADER_BYTES as u64;
        // A length that is damaged must not be allocated.
        if u64::from(bytes) > self.extent.end.saturating_sub(begin) {
            return Err(self.damaged("a block of it is longer than what was written"));
        }
        self.file.read(begin, u64::from(bytes), &mut block)?;
        if block.len() as u64 != u64::from(bytes) || crc32c::crc32c(&block) != checksum {
            return Err(self.damaged("a block of it is not what was written"));
        }
        self.extent.start = begin + block.len() as u64;
        self.block = block;
        Ok(true)
    }

    pub(super) fn damaged(&self, reason: &str) -> Error {
        let (path, offset, reason) = (self.file.path(), self.extent.start, reason.to_owned());
        Error::new(ErrorKind::DamagedFile { path, offset, reason })
    }
}

/// Reads `bytes` bytes at an offset, or fewer at the end of the file. The file's own position is not asked: a forked child
/// shares it.
#[cfg(unix)]
pub(super) fn read_at(file: &File, offset: u64, bytes: u64, into: &mut Vec<u8>) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    into.clear();
    into.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
    let mut read = 0;
    while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    into.truncate(read);
    Ok(())
}

/// Reads `bytes` bytes at an offset, or fewer at the end of the file.
#[cfg(not(unix))]
pub(super) fn read_at(mut file: &File, offset: u64, bytes: u64, into: &mut Vec<u8>) -> io::Result<()> {
    use std::io::{Read, Seek};

    into.clear();
    file.seek(io::SeekFrom::Start(offset))?;
    file.take(bytes).read_to_end(into).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::fixture::Fixture;
    use crate::keys::IndexId;
    use crate::scratch::{BuildFile, BuildFolder};

    /// The entries of the runs: some that fill blocks, an empty one, and one that is larger than a block.
    fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
        let small = (0..9000_u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 30]));
        let large = (vec![0xff; 3 * BLOCK_BYTES], vec![1; BLOCK_BYTES]);
        [(Vec::new(), Vec::new())].into_iter().chain(small).chain([large]).collect()
    }

    /// Writes the entries as a run in a folder of its own, and gives the reader to `read`.
    fn with_run(read: impl FnOnce(RunReader<BuildFile<'_>>, &Path)) {
        let fixture = Fixture::new();
        let scratch = BuildFolder::make(&fixture.database, IndexId(1)).expect("made");
        let mut run = RunWriter::new(scratch.create(&fixture.database, "0.run").expect("made"));
        for (key, value) in entries() {
            run.add(&key, &value).expect("written");
        }
        read(run.finish().expect("written"), &scratch.file("0.run"));
        assert!(!scratch.file("0.run").exists());
        let path = scratch.file("");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_run_gives_back_what_was_written() {
        with_run(|mut run, _| {
            for (key, value) in entries() {
                assert!(run.advance().expect("read"));
                assert_eq!((run.key(), run.value()), (key.as_slice(), value.as_slice()));
            }
            assert!(!run.advance().expect("read"));
        });
    }

    #[test]
    fn damage_is_an_error_that_names_the_file() {
        let bytes = BLOCK_BYTES as u64;
        for (cut, flipped) in
            [(None, Some(3)), (None, Some(bytes + 100)), (Some(bytes), None), (Some(5), None)]
        {
            with_run(|mut run, path| {
                let file = fs::OpenOptions::new().write(true).read(true).open(path).expect("the run");
                if let Some(cut) = cut {
                    file.set_len(cut).expect("cut");
                }
                if let Some(flipped) = flipped {
                    use std::os::unix::fs::FileExt;
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, flipped).expect("read");
                    file.write_all_at(&[byte[0] ^ 1], flipped).expect("written");
                }
                let error = loop {
                    match run.advance() {
                        Ok(more) => assert!(more, "the damage was not noticed"),
                        Err(error) => break error,
                    }
                };
                assert!(error.to_string().contains("0.run"), "{error}");
            });
        }
    }
}
