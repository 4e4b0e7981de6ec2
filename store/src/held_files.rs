//! The files of a database as they are at one moment, kept until they are copied: nothing is made beside the store, or within it
//! unless another process has it open.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::error::{Error, ErrorKind, Result};
use rocksfile::names::{CURRENT, FileName};

use crate::families::Database;
use crate::folder::{self, failed};
use crate::format::BACKUP_PREFIX;
use crate::open::StoreOptions;
use crate::preflight::{self, Length, SyncedState};
use crate::removable::Removable;
use crate::{fork, translate};

/// For how long files that another process deletes meanwhile are listed and linked again.
const LINKING_MAX: Duration = Duration::from_secs(30);
/// For how long logs are listed that others follow meanwhile.
const LISTING_MAX: Duration = Duration::from_secs(30);

/// The files of a database, and what keeps them as they are.
pub(super) struct HeldFiles<'a> {
    /// Their folder.
    pub(super) folder: PathBuf,
    /// The files to copy.
    pub(super) files: Vec<HeldFile>,
    _hold: Hold<'a>,
}

/// A file to be copied.
pub(super) struct HeldFile {
    pub(super) name: String,
    /// The number of its bytes that belong to the state: later writes follow them.
    pub(super) bytes: u64,
    pub(super) is_table: bool,
    /// The content that the file is to have, if it is not the one in the folder.
    pub(super) content: Option<Vec<u8>>,
}

enum Hold<'a> {
    /// RocksDB deletes no files.
    Deletions { _kept: KeptFiles<'a> },
    /// No process can open the store for writing.
    Writers { _marker: File },
    /// Links to the files of another process.
    Links(Option<Removable>),
}

/// As long as it lives, RocksDB deletes no file of the database.
struct KeptFiles<'a> {
    database: &'a Database,
}

impl<'a> HeldFiles<'a> {
    /// Holds the files of a store on disk.
    pub(super) fn of(
        database: &'a Database,
        options: &StoreOptions,
        look: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        // The path may be `.`, and the process may go elsewhere.
        let folder = fs::canonicalize(&options.path).map_err(failed("find the folder", &options.path))?;
        if !options.mode.is_read_only() {
            let hold = Hold::Deletions { _kept: KeptFiles::of(database)? };
            let files = files_now(&folder)?;
            return Ok(Self { folder, files, _hold: hold });
        }
        if let Some(marker) = folder::lock_out_writers(&folder)? {
            let files = files_now(&folder)?;
            return Ok(Self { folder, files, _hold: Hold::Writers { _marker: marker } });
        }
        Self::linked(&folder, look)
    }

    /// Another process writes to the store, and deletes what it does not need: the files are held by links to them.
    fn linked(store: &Path, look: &dyn Fn() -> Result<()>) -> Result<Self> {
        let folder = store.join(format!("{BACKUP_PREFIX}{}", std::process::id()));
        let hold = Hold::Links(Some(Removable::make_anew(&folder)?));
        let began = Instant::now();
        loop {
            let files = files_now(store)?;
            let mut links = files.iter().filter(|file| file.content.is_none());
            let linked = links.try_for_each(|file| {
                let link = folder.join(&file.name);
                match fs::hard_link(store.join(&file.name), &link) {
                    // An earlier round made it: RocksDB gives no name twice.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    linked => linked.map_err(|error| (link, error)),
                }
            });
            match linked {
                Ok(()) => return Ok(Self { folder, files, _hold: hold }),
                // The writer deleted it since it was listed.
                Err((_, error))
                    if error.kind() == io::ErrorKind::NotFound && began.elapsed() < LINKING_MAX =>
                {
                    look()?;
                }
                Err((link, error)) => return Err(failed("link the file", &link)(error)),
            }
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Self::Links(folder) = self
            && let Some(folder) = folder.take().filter(|_| !fork::is_child())
            && let Err(error) = folder.remove()
        {
            tracing::warn!(%error, "the links of a backup could not be removed; the next writer removes them");
        }
    }
}

impl<'a> KeptFiles<'a> {
    fn of(database: &'a Database) -> Result<Self> {
        database.raw().disable_file_deletions().map_err(translate::read)?;
        database.keepers().fetch_add(1, Ordering::AcqRel);
        Ok(Self { database })
    }
}

impl Drop for KeptFiles<'_> {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        self.database.keepers().fetch_sub(1, Ordering::AcqRel);
        if let Err(error) = self.database.raw().enable_file_deletions() {
            tracing::warn!(%error, "files that are not needed any more stay until the next open");
        }
    }
}

/// The files that a folder needs now, and how much of each. The MANIFEST is read first: what is written or flushed after that is in
/// logs, which are listed later. It is a state that a process leaves that is killed.
fn files_now(folder: &Path) -> Result<Vec<HeldFile>> {
    let began = Instant::now();
    let (listed, logs) = loop {
        let listed = preflight::list(folder, &SyncedState::default())?;
        let needed = listed.manifest.first_log_needed();
        let again = preflight::all_logs(folder)?.into_iter().filter(|log| log.number >= needed).collect();
        if let Some(logs) = whole_logs(&listed.logs, again) {
            break (listed, logs);
        }
        if began.elapsed() > LISTING_MAX {
            let message = format!("new logs come faster than those of {} can be listed", folder.display());
            return Err(Error::new(ErrorKind::Storage { message }));
        }
    };
    let file = |name: FileName, bytes| HeldFile {
        name: name.to_string(),
        bytes,
        is_table: matches!(name, FileName::Table(_)),
        content: None,
    };
    let manifest = FileName::Manifest(listed.manifest_length.number);
    // By now it may name a later MANIFEST.
    let current = format!("{manifest}\n").into_bytes();
    let current = HeldFile {
        name: CURRENT.to_owned(),
        bytes: current.len() as u64,
        is_table: false,
        content: Some(current),
    };
    let mut files = vec![current, file(manifest, listed.whole_manifest())];
    files.extend(listed.manifest.tables().map(|table| file(FileName::Table(table.number), table.bytes)));
    files.extend(logs.iter().map(|log| file(FileName::Log(log.number), log.bytes)));
    files.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}

/// The length of each log that belongs to one state, of two listings one after the other. Returns `None` if a log
/// came or went between them.
///
/// A log that was listed while it grew may have been followed by another one that the same listing has: then the end of the one
/// would be missing, and what the other holds would be there. So the newest log has the length of the first listing, and those
/// before it have that of the second, when nothing is added to them any more.
fn whole_logs(first: &[Length], mut again: Vec<Length>) -> Option<Vec<Length>> {
    let numbers = |logs: &[Length]| logs.iter().map(|log| log.number).collect::<Vec<_>>();
    if numbers(first) != numbers(&again) {
        return None;
    }
    if let (Some(last), Some(first)) = (again.last_mut(), first.last()) {
        last.bytes = first.bytes;
    }
    Some(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(all: &[(u64, u64)]) -> Vec<Length> {
        all.iter().map(|&(number, bytes)| Length { number, bytes }).collect()
    }

    #[track_caller]
    fn check(first: &[(u64, u64)], again: &[(u64, u64)], expected: Option<&[(u64, u64)]>) {
        let whole = whole_logs(&lengths(first), lengths(again));
        let told = |log: &Length| (log.number, log.bytes);
        let whole = whole.map(|logs| logs.iter().map(told).collect::<Vec<_>>());
        assert_eq!(whole.as_deref(), expected);
    }

    /// The end of a log was left out, and the log after it was copied.
    #[test]
    fn a_log_that_is_followed_by_another_one_is_whole() {
        // Listed before its last writes, and the next log after them.
        check(&[(4, 70), (6, 20)], &[(4, 90), (6, 50)], Some(&[(4, 90), (6, 20)]));
        check(&[(6, 20)], &[(6, 50)], Some(&[(6, 20)]));
        // The next one was seen by the second listing alone, or another process has deleted one.
        check(&[(4, 70)], &[(4, 90), (6, 50)], None);
        check(&[(4, 70), (6, 20)], &[(6, 50)], None);
        check(&[], &[], Some(&[]));
    }
}
