//! Cuts a log, or the MANIFEST, where its replay ends, and keeps a copy of what is cut.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base::error::Result;

use crate::folder::{failed, sync_folder};
use crate::format::ASIDE_PREFIX;
use crate::preflight::synced::Passed;
use crate::private;
use crate::raw_file::RawFile;

/// Copies what follows the replayed part of each file into a file of its own, and then cuts the file.
///
/// The copy is on stable storage before the file is changed, so a crash in between loses nothing. After such a crash
/// the next open does both again, and overwrites the copy if it is incomplete.
pub(crate) fn set_aside(path: &Path, passed: &mut Passed) -> Result<()> {
    for (file, offset) in &passed.cuts {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.join(format!("{ASIDE_PREFIX}{name}-{offset}"));
        copy_from(file, *offset, &aside).map_err(failed("set aside the end of a file in", &aside))?;
        // A synced file can still disappear in a crash while the folder that names it is not synced.
        sync_folder(path)?;
        cut(file, *offset).map_err(failed("cut the file", file))?;
        for torn in passed.torn.iter_mut().filter(|torn| torn.file == *file) {
            torn.set_aside = Some(PathBuf::clone(&aside));
        }
    }
    Ok(())
}

fn copy_from(file: &Path, offset: u64, aside: &Path) -> io::Result<()> {
    let mut source = RawFile::open(file)?;
    source.seek(SeekFrom::Start(offset))?;
    // The name of the copy has the file's number and the offset in it, so only an earlier copy of the same bytes is
    // overwritten.
    let mut copy = private::file_options().create(true).truncate(true).write(true).open(aside)?;
    io::copy(&mut source.by_ref(), &mut copy)?;
    copy.sync_all()
}

fn cut(log: &Path, offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(log)?;
    file.set_len(offset)?;
    file.sync_all()
}
