//! The one reader of RocksDB's files that does not go through RocksDB: the preflight, `verify`, `salvage` and the scrub
//! open and read files by it, and by nothing else.
//!
//! What is read is the content as RocksDB wrote it. Should files be encrypted one day, they are decrypted here and in
//! RocksDB's own environment, and nothing above notices.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::patched::Patched;

/// A file of the database, open for reading.
#[derive(Debug)]
pub struct RawFile {
    file: File,
}

impl RawFile {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// Opens a file whose unreadable bytes read as zeros.
    pub fn open_past_unreadable(path: &Path) -> io::Result<Patched<Self>> {
        let file = Self::open(path)?;
        let bytes = file.length()?;
        Ok(Patched::new(file, bytes))
    }

    /// The length of the content in bytes.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether the file has no name any more. Its space is free only once it is closed here too.
    pub fn is_deleted(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
        }
        #[cfg(not(unix))]
        false
    }
}

/// Whether an error of the system says that the disk, and not the caller or a limit, is what fails.
pub fn is_of_disk(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let failures = [Errno::IO, Errno::NODATA, Errno::BADMSG, Errno::NXIO];
        failures.iter().any(|failure| error.raw_os_error() == Some(failure.raw_os_error()))
    }
    // ERROR_CRC and ERROR_IO_DEVICE.
    #[cfg(not(unix))]
    matches!(error.raw_os_error(), Some(23 | 1117))
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
