//! The one reader of RocksDB's files that does not go through RocksDB: the preflight, `verify`, `salvage` and the scrub
//! open and read files by it, and by nothing else.
//!
//! What is read is the content as RocksDB wrote it. Should files be encrypted one day, they are decrypted here and in
//! RocksDB's own environment, and nothing above notices.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// A file of the database, open for reading.
#[derive(Debug)]
pub(crate) struct RawFile {
    file: File,
}

impl RawFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// The length of the content in bytes.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether the file has no name any more. Its space is free only once it is closed here too.
    pub(crate) fn is_deleted(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
        }
        #[cfg(not(unix))]
        false
    }
}

impl Read for RawFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for RawFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
