//! Permissions: only the owner may read what a store creates, as with mongod. A store holds documents of other
//! people, and may hold keys of passwords.
//!
//! The mode of the folder keeps other users out, because RocksDB creates its files readable to every user and has no
//! setting for it. A mask for the whole process is for the embedding program to set; `cairn` sets one.

use std::io;
use std::path::Path;

/// Creates a folder that only its owner can enter. Its parent must exist.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER_MODE);
    builder.create(path)
}

/// Options to create a file that only its owner can read.
pub(super) fn file_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE_MODE);
    options
}

/// Removes the permissions of all users but the owner from a folder and the files in it.
#[cfg(unix)]
pub(super) fn restrict(folder: &Path) -> io::Result<()> {
    restrict_to(folder, FOLDER_MODE)?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match restrict_to(&path, FILE_MODE) {
            // An open database removes files that it no longer needs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Other systems have no modes.
#[cfg(not(unix))]
pub(super) fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
const FOLDER_MODE: u32 = 0o700;
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;

#[cfg(unix)]
fn restrict_to(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let permissions = std::fs::metadata(path)?.permissions();
    // A file that is strict enough is not touched: its owner may have made it stricter, and a change could fail.
    if permissions.mode() & 0o777 & !mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
