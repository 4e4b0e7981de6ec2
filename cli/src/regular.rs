//! Files that must be regular ones: what a dump has, and what the tool keeps for itself. A pipe in place of one, which may
//! come with a dump of others, would be waited for without end.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> Result<File> {
    open_by(OpenOptions::new().read(true), path)
}

/// Reads all of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file for writing, without what it has. It is made if it is absent.
pub(crate) fn create(path: &Path) -> Result<File> {
    open_by(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file for writing, with what it has. It is made if it is absent.
pub(crate) fn open_or_create(path: &Path) -> Result<File> {
    open_by(OpenOptions::new().write(true).create(true).truncate(false), path)
}

/// Rejects what is there and is not a regular file.
pub(crate) fn check(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(irregular(metadata.file_type())),
        // That it is absent, or cannot be looked at, is reported when it is opened.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn open_by(options: &mut OpenOptions, path: &Path) -> Result<File> {
    // Before it is opened, which some devices notice.
    check(path)?;
    // Another process may have put a pipe there meanwhile. With this flag it is not waited for; to a regular file the flag says
    // nothing.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(irregular(kind)) }
}

fn irregular(kind: std::fs::FileType) -> Error {
    let kind = if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    };
    Error::other(format!("it is a {kind}, and must be a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused<T>(done: Result<T>, kind: &str) {
        assert!(done.err().expect("it is refused").to_string().contains(kind));
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for (path, kind) in
            [(pipe.as_path(), "pipe"), (folder.path(), "directory"), (Path::new("/dev/null"), "device")]
        {
            refused(open(path), kind);
            refused(create(path), kind);
            refused(open_or_create(path), kind);
        }
    }

    #[test]
    fn regular_files_are_made_emptied_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(open(&path).err().unwrap().kind(), std::io::ErrorKind::NotFound);
        drop(create(&path).unwrap());
        std::fs::write(&path, "x").unwrap();
        drop(open_or_create(&path).unwrap());
        assert_eq!(read(&path).unwrap(), b"x");
        drop(create(&path).unwrap());
        assert_eq!(read(&path).unwrap(), b"");
    }
}
