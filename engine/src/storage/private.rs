//! Who may read what is made: the owner alone, as with mongod. A store may hold keys of passwords, and holds other people's
//! documents.
//!
//! The folder is what keeps others out, for RocksDB makes its files readable to all, and goes on making them. A mask for
//! the whole process would be the embedding program's business; `cairn` has one.

use std::io;
use std::path::Path;

/// Makes a folder that only its owner can enter. Folders above it must exist.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, FOLDER_MODE);
    builder.create(path)
}

/// For a file that only its owner can read.
pub(super) fn file_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE_MODE);
    options
}

/// Takes a folder and the files in it from everybody but their owner.
#[cfg(unix)]
pub(super) fn restrict(folder: &Path) -> io::Result<()> {
    restrict_to(folder, FOLDER_MODE)?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match restrict_to(&path, FILE_MODE) {
            // An open database removes files that it needs no more.
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
    if permissions.mode() & 0o777 & !mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
