//! The size of a disk, and its free bytes.

use std::path::Path;

/// The bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskBytes {
    pub(super) all: u64,
    pub(super) free: u64,
}

/// The bytes that are free on the disk of a folder. Returns `None` where that cannot be reported.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    disk_bytes(folder).map(|disk| disk.free)
}

/// The bytes of the disk of a folder. Returns `None` where they cannot be reported.
#[cfg(unix)]
pub(super) fn disk_bytes(folder: &Path) -> Option<DiskBytes> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    // A file system without an end, or one that does not know it, has no blocks.
    (disk.f_blocks > 0).then(|| DiskBytes { all: bytes(disk.f_blocks), free: bytes(disk.f_bavail) })
}

#[cfg(not(unix))]
pub(super) fn disk_bytes(_folder: &Path) -> Option<DiskBytes> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_free_bytes_and_no_folder_has_none() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(free_bytes(folder.path()).is_some_and(|free| free > 0));
        assert!(disk_bytes(folder.path()).is_some_and(|disk| disk.all >= disk.free));
        assert_eq!(free_bytes(&folder.path().join("missing")), None);
    }
}
