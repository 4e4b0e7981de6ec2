//! Sorted runs of entries in files: blocks with a checksum, written once and read once from the beginning.
//!
//! A block is the length of its content and the content's CRC-32C, four bytes each, and the content: entries, each of them
//! the lengths of its key and of its value, four bytes each, its key and its value. Integers are big-endian.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::path::PathBuf;

use bytes::Buf;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Database;
use crate::storage::scratch::BuildFolder;

/// Bytes of entries after which a block ends.
const BLOCK_BYTES: usize = 64 << 10;
/// The length and the checksum of a block.
const HEADER_BYTES: usize = 8;

/// A run that is being written.
pub(super) struct RunWriter<'a> {
    database: &'a Database,
    path: PathBuf,
    file: File,
    /// The header of the block, to be filled in, and its content.
    block: Vec<u8>,
    entries: u64,
}

/// A run that is read from its beginning. Dropping it removes its file.
pub(super) struct RunReader {
    path: PathBuf,
    file: File,
    /// How many entries are still to come.
    left: u64,
    /// Where the next block begins in the file.
    offset: u64,
    block: Vec<u8>,
    /// Where the next entry begins in the block.
    next: usize,
    key: Range<usize>,
    value: Range<usize>,
}

impl<'a> RunWriter<'a> {
    /// Makes a file for the run with this number.
    pub(super) fn create(database: &'a Database, folder: &BuildFolder, number: usize) -> Result<Self> {
        let (path, file) = folder.create(&format!("{number}.run"))?;
        Ok(Self { database, path, file, block: vec![0; HEADER_BYTES], entries: 0 })
    }

    /// Adds an entry, whose key is not lower than the one before.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        for part in [key, value] {
            let bytes = u32::try_from(part.len()).expect("the entries of a document have less than 64 MiB");
            self.block.extend_from_slice(&bytes.to_be_bytes());
        }
        self.entries += 1;
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        if self.block.len() >= BLOCK_BYTES { self.write_block() } else { Ok(()) }
    }

    /// Ends the run. It is not synced: a build does not outlive a crash.
    pub(super) fn finish(mut self) -> Result<RunReader> {
        if self.block.len() > HEADER_BYTES {
            self.write_block()?;
        }
        let Self { path, mut file, mut block, entries: left, .. } = self;
        file.rewind().map_err(|error| Error::io("read the file", Some(&path), error))?;
        block.clear();
        Ok(RunReader { path, file, left, offset: 0, block, next: 0, key: 0..0, value: 0..0 })
    }

    fn write_block(&mut self) -> Result<()> {
        if let Some((header, content)) = self.block.split_at_mut_checked(HEADER_BYTES) {
            let bytes = u32::try_from(content.len()).expect("a block has one large entry at most");
            let parts = bytes.to_be_bytes().into_iter().chain(crc32c::crc32c(content).to_be_bytes());
            header.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
        }
        self.database.make_room_for_file(self.block.len())?;
        let written = self.file.write_all(&self.block);
        written.map_err(|error| Error::io("write the file", Some(&self.path), error))?;
        self.block.truncate(HEADER_BYTES);
        Ok(())
    }
}

impl RunReader {
    /// Steps to the next entry. Returns `false` at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.next >= self.block.len() && !self.read_block()? {
            // A file that was cut between two blocks looks whole.
            return if self.left == 0 { Ok(false) } else { Err(self.damaged("it ends too early")) };
        }
        let rest = self.block.get(self.next..).unwrap_or_default();
        let lengths = |mut rest: &[u8]| Some((rest.try_get_u32().ok()?, rest.try_get_u32().ok()?));
        let entry = lengths(rest).and_then(|(key, value)| {
            let key_at = self.next + HEADER_BYTES;
            let value_at = key_at.checked_add(usize::try_from(key).ok()?)?;
            let end = value_at.checked_add(usize::try_from(value).ok()?)?;
            (end <= self.block.len()).then_some((key_at..value_at, value_at..end))
        });
        let Some((key, value)) = entry else { return Err(self.damaged("an entry of it is cut short")) };
        self.next = value.end;
        self.left = self.left.saturating_sub(1);
        (self.key, self.value) = (key, value);
        Ok(true)
    }

    /// The key of the current entry.
    pub(super) fn key(&self) -> &[u8] {
        self.block.get(self.key.clone()).unwrap_or_default()
    }

    /// The value of the current entry.
    pub(super) fn value(&self) -> &[u8] {
        self.block.get(self.value.clone()).unwrap_or_default()
    }

    /// Reads the next block. Returns `false` at the end of the file.
    fn read_block(&mut self) -> Result<bool> {
        self.block.clear();
        self.next = 0;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        self.read(HEADER_BYTES as u64, &mut header)?;
        if header.is_empty() {
            return Ok(false);
        }
        let mut fields = header.as_slice();
        let (Ok(bytes), Ok(checksum)) = (fields.try_get_u32(), fields.try_get_u32()) else {
            return Err(self.damaged("the header of a block is cut short"));
        };
        let mut block = std::mem::take(&mut self.block);
        self.read(u64::from(bytes), &mut block)?;
        self.block = block;
        if self.block.len() as u64 != u64::from(bytes) || crc32c::crc32c(&self.block) != checksum {
            return Err(self.damaged("a block of it is not what was written"));
        }
        self.offset += (HEADER_BYTES + self.block.len()) as u64;
        Ok(true)
    }

    fn read(&self, bytes: u64, into: &mut Vec<u8>) -> Result<()> {
        let read = (&self.file).take(bytes).read_to_end(into);
        read.map(drop).map_err(|error| Error::io("read the file", Some(&self.path), error))
    }

    fn damaged(&self, reason: &str) -> Error {
        let (path, reason) = (self.path.clone(), reason.to_owned());
        Error::new(ErrorKind::DamagedFile { path, offset: self.offset, reason })
    }
}

impl Drop for RunReader {
    fn drop(&mut self) {
        // What cannot be removed now goes with the folder.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture::Fixture;
    use crate::storage::keys::IndexId;

    /// The entries of the runs: some that fill blocks, an empty one, and one that is larger than a block.
    fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
        let small = (0..9000_u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 30]));
        let large = (vec![0xff; 3 * BLOCK_BYTES], vec![1; BLOCK_BYTES]);
        [(Vec::new(), Vec::new())].into_iter().chain(small).chain([large]).collect()
    }

    /// Writes the entries as a run in a folder of its own, and gives the reader to `read`.
    fn with_run(read: impl FnOnce(RunReader, &Path)) {
        let fixture = Fixture::filled(|_| {});
        let scratch = BuildFolder::make(&fixture.database, IndexId(1)).expect("made");
        let mut run = RunWriter::create(&fixture.database, &scratch, 0).expect("made");
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
