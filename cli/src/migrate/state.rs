//! The progress of a migration: the file from which the same command continues.
//!
//! The file is written before anything is made on the other side, and names what is made there: what it names was absent or
//! empty. For each collection it has the `_id` up to which all documents are on stable storage there. It may be older than
//! what was written, never newer, so that some documents may come twice, and none is missed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::regular;
use crate::store::uri;

/// The form of the file; another one is rejected.
const VERSION: u32 = 1;
/// Between two times that the file is written while documents are copied.
const PAUSE: Duration = Duration::from_secs(1);
const ENDING: &str = "cairn-migrate";

/// The progress of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Reached {
    /// All documents are there.
    #[serde(default)]
    is_copied: bool,
    /// A document with the `_id` up to which they are there, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    up_to: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// The options, which must be the same.
    identity: String,
    /// By the namespace on the other side.
    collections: BTreeMap<String, Reached>,
}

/// The state of a migration, in memory and in its file.
pub(super) struct State {
    path: PathBuf,
    lock_path: PathBuf,
    content: Content,
    is_new: bool,
    saved: Instant,
    /// Held, so that no other process does the same. `None` of a plan, which writes nothing.
    lock: Option<File>,
}

impl State {
    /// Reads the state of a migration that was begun, or begins one.
    pub(super) fn open(path: &Path, identity: &str) -> Result<Self, Failure> {
        let lock_path = with_ending(path, "lock");
        let failed = |error: std::io::Error| Failure::io(&lock_path.display().to_string(), &error);
        let lock = regular::open_or_create(&lock_path).map_err(failed)?;
        // A process that ended between the opening and the lock has removed what is locked now.
        let is_locked = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        let is_named =
            std::fs::metadata(&lock_path).and_then(|named| Ok(named.ino() == lock.metadata()?.ino()));
        if !is_locked || !is_named.unwrap_or(false) {
            let shown = path.display();
            return Err(Failure::new(
                Exit::Failed,
                format!("another process is running the migration of {shown}"),
            ));
        }
        let mut state = Self::look(path, identity)?;
        state.lock = Some(lock);
        Ok(state)
    }

    /// Reads the state and leaves all as it is.
    pub(super) fn look(path: &Path, identity: &str) -> Result<Self, Failure> {
        let shown = path.display();
        let old = read(path)?;
        if let Some(old) = &old {
            if old.version != VERSION {
                return Err(Failure::usage(format!("{shown} is of another version of the tool")));
            }
            if old.identity != identity {
                return Err(Failure::usage(format!(
                    "{shown} is of a migration with other options: give those, or another --state, or remove it to start \
                     again"
                )));
            }
        }
        let is_new = old.is_none();
        let new =
            || Content { version: VERSION, identity: identity.to_owned(), collections: BTreeMap::new() };
        Ok(Self {
            path: path.to_owned(),
            lock_path: with_ending(path, "lock"),
            content: old.unwrap_or_else(new),
            is_new,
            saved: Instant::now(),
            lock: None,
        })
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this migration made the collection, or is about to.
    pub(super) fn has(&self, namespace: &str) -> bool {
        self.content.collections.contains_key(namespace)
    }

    /// Adds what is about to be made, and saves.
    pub(super) fn begin<'a>(&mut self, namespaces: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
        for namespace in namespaces {
            self.content.collections.entry(namespace.to_owned()).or_default();
        }
        self.save()
    }

    pub(super) fn is_copied(&self, namespace: &str) -> bool {
        self.content.collections.get(namespace).is_some_and(|reached| reached.is_copied)
    }

    /// A document with the `_id` up to which all documents are there.
    pub(super) fn up_to(&self, namespace: &str) -> Option<Vec<u8>> {
        let reached = self.content.collections.get(namespace)?;
        STANDARD.decode(reached.up_to.as_ref()?).ok()
    }

    /// Says that all documents up to an `_id` are on stable storage. The file follows about once a second.
    pub(super) fn reach(&mut self, namespace: &str, id: &[u8]) -> Result<(), Failure> {
        if let Some(reached) = self.content.collections.get_mut(namespace) {
            reached.up_to = Some(STANDARD.encode(id));
        }
        if self.saved.elapsed() < PAUSE { Ok(()) } else { self.save() }
    }

    /// Says that all documents of a collection are on stable storage.
    pub(super) fn finish(&mut self, namespace: &str) -> Result<(), Failure> {
        if let Some(reached) = self.content.collections.get_mut(namespace) {
            *reached = Reached { is_copied: true, up_to: None };
        }
        if self.saved.elapsed() < PAUSE { Ok(()) } else { self.save() }
    }

    /// Writes the file again, and has it on stable storage before it returns.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::io(&self.path.display().to_string(), &error);
        let text = serde_json::to_vec(&self.content).map_err(|error| failed(error.into()))?;
        let partial = with_ending(&self.path, "partial");
        let partial_failed = |error: std::io::Error| Failure::io(&partial.display().to_string(), &error);
        let mut file = regular::create(&partial).map_err(partial_failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&partial, &self.path).map_err(failed)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Removes the file: all is done, and was compared.
    pub(super) fn end(self) -> Result<(), Failure> {
        remove(&self.path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // While the lock is held: a file of this name that another process makes afterwards is its own.
            let _ = std::fs::remove_file(&self.lock_path);
        }
    }
}

/// The file that belongs to a store in a folder or behind a socket.
pub(super) fn beside(store: &Path) -> Result<PathBuf, Failure> {
    if uri(store).is_some() {
        return Err(Failure::usage(
            "a STORE that is a URI needs --state: the file that says how far the migration is",
        ));
    }
    // As its components are: without a slash at the end.
    Ok(with_ending(&store.components().collect::<PathBuf>(), ENDING))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io(&path.display().to_string(), &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn read(path: &Path) -> Result<Option<Content>, Failure> {
    let shown = path.display().to_string();
    match regular::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Failure::usage(format!("{shown} is not the state of a migration: {error}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(&shown, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_saved_and_only_by_the_same_migration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut state = State::open(&path, "one").unwrap();
        assert!(state.is_new() && State::open(&path, "one").is_err(), "it is locked");
        state.begin(["a.b", "a.c"].into_iter()).unwrap();
        state.reach("a.b", b"id").unwrap();
        state.finish("a.c").unwrap();
        state.save().unwrap();
        drop(state);
        let state = State::open(&path, "one").unwrap();
        assert_eq!((state.up_to("a.b"), state.is_copied("a.c")), (Some(b"id".to_vec()), true));
        assert!(!state.is_new() && !state.is_copied("a.b") && !state.has("a.d"));
        drop(state);
        assert_eq!(State::open(&path, "two").map(drop).unwrap_err().exit, Exit::Usage);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(State::look(&path, "one").map(drop).unwrap_err().exit, Exit::Usage);
        std::fs::write(&path, r#"{"version":9,"identity":"one","collections":{}}"#).unwrap();
        assert!(State::look(&path, "one").map(drop).unwrap_err().message.contains("another version"));
    }

    #[test]
    fn the_file_stands_beside_the_store() {
        assert_eq!(beside(Path::new("a/b/")).unwrap(), Path::new("a/b.cairn-migrate"));
        assert!(beside(Path::new("mongodb://a/")).is_err());
    }
}
