//! A folder of generations: copies of one store, each of them a database of its own, named by the time at which it was made.
//!
//! A list beside them says which tables the newest one has, with their hashes, so that the next one links what did not change.
//! The invariant: a generation is removed only after a newer one was verified and has its name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use base::error::{Error, Result};
use bson::DateTime;

use crate::folder::{failed, sync_folder, sync_parent};
use crate::format::{BACKUPS_FILE, BACKUPS_PREFIX, MARKER_FILE, StoreId, TABLES_FILE, TABLES_PREFIX};
use crate::partial_copy::{Content, EarlierTables};
use crate::removable::{Found, Removable};
use crate::{fork, private};

/// The number of bytes of the file that marks the folder that are read.
const TEXT_BYTES_MAX: u64 = 64;
/// The length of the longest list that is read: that of ten million tables.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// The ending that the name of a generation gets before it is removed, so that half of one is never mistaken for a
/// whole one.
const REMOVED_SUFFIX: &str = ".removed";
/// The length of the name of a generation.
const NAME_BYTES: usize = "2026-11-25T13-22-48Z".len();

/// A folder of generations, which no other process uses meanwhile.
pub struct Generations {
    path: PathBuf,
    store: StoreId,
    /// The file of the mark, which is locked.
    lock: File,
}

/// The result for the generations that are older than those that stay, the oldest first.
#[derive(Debug, Default)]
pub struct Older {
    /// Generations that were removed.
    pub removed: Vec<PathBuf>,
    /// Those that a process has open for writing, or that are no longer as a backup has left them.
    pub kept: Vec<PathBuf>,
}

impl Generations {
    /// Claims the folder, which must hold generations of this store, or be empty or absent; then it is made. What killed processes
    /// left is removed.
    pub fn claim(path: &Path, store: StoreId) -> Result<Self> {
        let marker = path.join(BACKUPS_FILE);
        if !marker.exists() {
            refuse_foreign(path)?;
            // Its parent must be there: what is meant may be on a disk that is not mounted.
            match private::create_folder(path) {
                Ok(()) => sync_parent(path)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make the folder", path)(error)),
            }
        }
        let opened =
            private::file_options().read(true).write(true).create(true).truncate(false).open(&marker);
        let file = opened.map_err(failed("open the file", &marker))?;
        // The system gives the lock back when the process ends, however it ends.
        file.try_lock().map_err(|_| {
            Error::invalid_argument(format!("another backup to the folder {} is running", path.display()))
        })?;
        let mut generations = Self { path: path.to_owned(), store, lock: file };
        check_text(&mut generations.lock, path, store)?;
        generations.clear()?;
        Ok(generations)
    }

    /// The path of the next generation. Its name is that of the present second, or of the second after the newest
    /// one.
    pub fn next(&self) -> Result<PathBuf> {
        let now = DateTime::now().timestamp_millis() / 1000;
        let newest = self.complete()?.last().and_then(|name| seconds(name));
        // The clock may have been set back; the order of the names is the order in which they were made.
        let at = newest.map_or(now, |newest| now.max(newest + 1));
        let name = name(at).ok_or_else(|| {
            Error::invalid_argument(format!("{at} seconds after 1970 have no name for a backup"))
        })?;
        Ok(self.path.join(name))
    }

    /// The tables of the newest generation, as far as the list shows.
    pub fn tables(&self) -> EarlierTables {
        // A list that cannot be read saves no writing, and does no harm.
        self.read_list().unwrap_or_default()
    }

    /// Writes the list of the tables of a generation.
    pub fn note(&self, generation: &Path, tables: &BTreeMap<String, Content>) -> Result<()> {
        let name = generation.file_name().unwrap_or_default().to_string_lossy();
        let mut text = format!("{TABLES_PREFIX}{name}\n");
        for (table, Content { bytes, hash }) in tables {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{table} {bytes} {hash:032x}");
        }
        let (partial, list) = (self.path.join(format!("{TABLES_FILE}.partial")), self.path.join(TABLES_FILE));
        // Written beside and renamed, so that a reader finds the old list or the new one.
        let write = || {
            let mut file = private::file_options().create(true).truncate(true).write(true).open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &list)
        };
        write().map_err(failed("write the file", &list))?;
        sync_folder(&self.path)
    }

    /// Removes all generations but the newest `keep`. One that is in use, or that was written to, stays.
    pub fn remove_older(&self, keep: usize) -> Result<Older> {
        let names = self.complete()?;
        let count = names.len().saturating_sub(keep);
        let mut older = Older::default();
        for name in names.into_iter().take(count) {
            let path = self.path.join(&name);
            let leaving = self.path.join(format!("{name}{REMOVED_SUFFIX}"));
            match Removable::copy(&path, self.store)? {
                Found::Removable(_) if leaving.symlink_metadata().is_ok() => {
                    kept(&path, &format!("cannot be removed while {} is there", leaving.display()));
                    older.kept.push(path);
                }
                Found::Removable(mut generation) => {
                    // Renamed first: a kill in the middle leaves no half of a generation under its name.
                    generation.rename(&leaving)?;
                    generation.remove()?;
                    older.removed.push(path);
                }
                Found::Kept(reason) => {
                    kept(&path, &reason);
                    older.kept.push(path);
                }
                Found::Absent => {}
            }
        }
        Ok(older)
    }

    /// The names of the complete generations, the oldest first.
    fn complete(&self) -> Result<Vec<String>> {
        let mut names = self.names()?;
        // A folder without a marker is a copy that was never published.
        names.retain(|name| seconds(name).is_some() && self.path.join(name).join(MARKER_FILE).exists());
        names.sort();
        Ok(names)
    }

    /// Removes what killed processes left of generations, and copies that did not verify.
    fn clear(&self) -> Result<()> {
        for name in self.names()? {
            let is_left = name.split_at_checked(NAME_BYTES).is_some_and(|(time, rest)| {
                seconds(time).is_some() && (rest.starts_with(".partial") || rest == REMOVED_SUFFIX)
            });
            if is_left {
                let path = self.path.join(name);
                match Removable::left_over(&path)? {
                    Found::Removable(left) => left.remove()?,
                    // It has such a name, and nothing says that a backup made it.
                    Found::Kept(reason) => kept(&path, &reason),
                    Found::Absent => {}
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            fs::read_dir(&self.path)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        };
        list().map_err(failed("list the folder", &self.path))
    }

    fn read_list(&self) -> Option<EarlierTables> {
        let mut text = String::new();
        File::open(self.path.join(TABLES_FILE)).ok()?.take(LIST_BYTES_MAX).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let name = lines.next()?.strip_prefix(TABLES_PREFIX)?;
        // Of another form it would lead out of this folder.
        seconds(name)?;
        let tables = lines.map(|line| {
            let mut words = line.split(' ');
            let (table, bytes, hash) = (words.next()?, words.next()?, words.next()?);
            let content = Content { bytes: bytes.parse().ok()?, hash: u128::from_str_radix(hash, 16).ok()? };
            words.next().is_none().then(|| (table.to_owned(), content))
        });
        // One line that is not a table makes the whole list unusable.
        let tables = tables.collect::<Option<_>>()?;
        Some(EarlierTables { folder: self.path.join(name), tables })
    }
}

impl Drop for Generations {
    /// Unlocks the file before it is closed. Closing is not enough: a child process that another thread starts has a copy of
    /// the open file until it runs its own program, and the copy would keep the lock.
    fn drop(&mut self) {
        // A forked child shares the lock with its parent.
        if fork::is_child() {
            return;
        }
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the lock of a folder of backups could not be released before its file is closed");
        }
    }
}

/// Says why a folder was not removed.
fn kept(path: &Path, reason: &str) {
    tracing::warn!(path = %path.display(), reason, "a folder among the backups is kept");
}

/// Fails if a folder without the mark of generations holds anything.
fn refuse_foreign(path: &Path) -> Result<()> {
    let first = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().transpose().map_err(failed("list the folder", path))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("list the folder", path)(error)),
    };
    match first {
        // A process may have made the mark meanwhile.
        Some(entry) if !path.join(BACKUPS_FILE).exists() => Err(Error::invalid_argument(format!(
            "the folder {} holds {} and no generations of backups: choose an absent or empty one",
            path.display(),
            entry.file_name().to_string_lossy()
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Writes the text of the mark, or checks the one that is there: a store must not push the backups of another one out.
fn check_text(file: &mut File, path: &Path, store: StoreId) -> Result<()> {
    let marker = path.join(BACKUPS_FILE);
    let expected = format!("{BACKUPS_PREFIX}{:016x}\n", u64::from_be_bytes(store));
    let mut text = String::new();
    (&*file).take(TEXT_BYTES_MAX).read_to_string(&mut text).map_err(failed("read the file", &marker))?;
    if text == expected {
        return Ok(());
    }
    // A kill may have left it empty, or with the beginning of its text.
    if !expected.starts_with(&text) {
        let shown = path.display();
        return Err(Error::invalid_argument(if text.starts_with(BACKUPS_PREFIX) {
            format!("the folder {shown} holds backups of another store: choose one for this store alone")
        } else {
            format!("the folder {shown} holds backups that another version of CairnDB made")
        }));
    }
    let rest = expected.get(text.len()..).unwrap_or_default();
    let written = file.write_all(rest.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(failed("write the file", &marker))?;
    sync_folder(path)
}

/// The name of a generation that is made at a second since 1970: its time in UTC, in characters that every file system accepts.
fn name(second: i64) -> Option<String> {
    let time = DateTime::from_millis(second.checked_mul(1000)?).try_to_rfc3339_string().ok()?;
    let name = time.replace(':', "-");
    seconds(&name).map(|_| name)
}

/// The second since 1970 that the name of a generation states. Returns `None` for other names.
fn seconds(name: &str) -> Option<i64> {
    let (date, time) = name.split_once('T')?;
    let time = DateTime::parse_rfc3339_str(format!("{date}T{}", time.replace('-', ":"))).ok()?;
    let is_exact = name.len() == NAME_BYTES && name.ends_with('Z') && !name.contains(':');
    is_exact.then(|| time.timestamp_millis() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = [7; 8];

    #[test]
    fn names_tell_the_second_and_sort_by_it() {
        for second in [0, 1_700_000_000, 1_764_076_968, 253_402_300_799] {
            let name = name(second).expect("it has one");
            assert_eq!(seconds(&name), Some(second), "{name}");
        }
        assert_eq!(name(1_764_076_968).as_deref(), Some("2025-11-25T13-22-48Z"));
        let others =
            ["", "T", "2025-11-25", "2025-11-25T13:22:48Z", "2025-11-25T13-22-48", "2025-13-25T13-22-48Z"];
        for other in others {
            assert_eq!(seconds(other), None, "{other}");
        }
        assert_eq!(seconds("2025-11-25T13-22-48Z.partial"), None);
        assert_eq!(name(253_402_300_800), None, "the year 10000");
    }

    #[test]
    fn a_list_that_is_damaged_names_no_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let generations = Generations::claim(&folder.path().join("backups"), STORE).expect("made");
        let tables = BTreeMap::from([("000007.sst".to_owned(), Content { bytes: 10, hash: 77 })]);
        let generation = generations.path.join("2025-11-25T13-22-48Z");
        generations.note(&generation, &tables).expect("written");
        let read = generations.tables();
        assert_eq!((&read.folder, &read.tables), (&generation, &tables));
        let list = generations.path.join(TABLES_FILE);
        let text = fs::read_to_string(&list).expect("read");
        for damaged in [
            text.replace("2025-11-25T13-22-48Z", "../elsewhere"),
            text.replace(" 10 ", " ten "),
            text.replace(" 10 ", " 10 11 "),
            text.replace("tables 1", "tables 2"),
            String::new(),
        ] {
            fs::write(&list, damaged).expect("written");
            assert!(generations.tables().tables.is_empty());
        }
    }

    #[test]
    fn a_folder_is_taken_by_one_at_a_time_and_foreign_ones_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backups");
        let generations = Generations::claim(&path, STORE).expect("made");
        assert!(
            Generations::claim(&path, STORE).is_err_and(|error| error.to_string().contains("is running"))
        );
        drop(generations);
        let mark = path.join(BACKUPS_FILE);
        let whole = fs::read_to_string(&mark).expect("read");
        assert_eq!(whole, "CairnDB backups 1 0707070707070707\n");
        for left in ["", "CairnDB ba", "CairnDB backups 1 07070"] {
            fs::write(&mark, left).expect("written");
            drop(Generations::claim(&path, STORE).expect("a kill left it so"));
            assert_eq!(fs::read_to_string(&mark).expect("read"), whole);
        }
        let refused = |words: &str| {
            let error = Generations::claim(&path, STORE).err().expect("refused").to_string();
            assert!(error.contains(words), "{error}");
        };
        fs::write(&mark, "CairnDB backups 1 0707070707070708\n").expect("written");
        refused("another store");
        fs::write(&mark, "CairnDB backups 9\n").expect("written");
        refused("another version");
        fs::write(folder.path().join("notes.txt"), "mine").expect("written");
        let refused = Generations::claim(folder.path(), STORE).err().expect("refused").to_string();
        assert!(refused.contains("choose an absent or empty one"), "{refused}");
    }
}
