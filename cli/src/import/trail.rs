//! The progress of an import: the file from which `--resume` continues.
//!
//! The state has two marks. Up to the first, everything is on stable storage. Beyond the second, nothing was sent: it
//! moves, and the file is synced, before a batch that lies beyond it is sent. What is between them may be in the
//! store or not, after a kill and after a power cut.
//!
//! Once all is imported the state says so, and its removal is the last thing that the process does: whenever that is killed, the
//! same command imports nothing again.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::oid::ObjectId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{Exit, Failure};
use crate::figures::{RECORDS, counted};
use crate::import::counts::Counts;
use crate::import::earlier::{CollectionUuid, Missing};
use crate::import::identity::Identity;
use crate::import::input::Input;
use crate::import::write::Target;
use crate::regular;

/// The form of the state; another one is rejected.
const VERSION: u32 = 1;
/// The number of bytes of a file that are hashed to recognize it.
const HASHED_BYTES: u64 = 64 << 10;
/// The interval in which the first mark moves.
const PAUSE: Duration = Duration::from_secs(1);
/// The distance of the second mark: twice the work since it moved, within these bounds.
const AHEAD_MIN: u64 = 1 << 20;
const AHEAD_MAX: u64 = 64 << 20;

/// A place in the inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Which input.
    pub(super) input: usize,
    /// The offset in its stream, decompressed.
    pub(super) offset: u64,
}

/// The identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    length: u64,
    seconds: i64,
    nanoseconds: i64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    options: String,
    inputs: Vec<Known>,
    identity: [u8; 9],
    counts: Counts,
    durable: Mark,
    sent: Mark,
    /// The length of the file of rejects at the first mark.
    rejects: u64,
    /// Whether all is imported, and on stable storage.
    #[serde(default)]
    done: bool,
    /// The identity of the collection, once it exists.
    #[serde(default)]
    collection: Option<CollectionUuid>,
    /// The id of the collection aside, of an import that replaces another one.
    #[serde(default)]
    aside: Option<ObjectId>,
}

/// The files of the inputs. Rejects what cannot be read again; a file that is absent is found when it is opened.
pub(super) fn files(inputs: &[Input]) -> Result<Vec<&Path>, Failure> {
    inputs
        .iter()
        .map(|input| match input {
            Input::File(path) if path.is_file() || !path.exists() => Ok(path.as_path()),
            Input::File(_) | Input::Standard => {
                Err(Failure::usage(format!("{} cannot be resumed", input.name())))
            }
        })
        .collect()
}

/// The state of an import, in memory and in its file.
pub(super) struct Trail {
    path: PathBuf,
    state: State,
    is_new: bool,
    saved: Instant,
    /// The position of the second mark when this process began.
    doubtful: Mark,
    /// Held, so that no other process resumes the same import.
    _locks: Vec<File>,
}

impl Trail {
    /// Reads the state of an interrupted import of these inputs, or begins one.
    pub(super) fn open(files: &[&Path], options: &str) -> Result<Self, Failure> {
        let mut known = Vec::new();
        let mut locks = Vec::new();
        for path in files {
            let shown = path.display();
            let failed = |error: std::io::Error| Failure::io(&shown.to_string(), &error);
            let file = File::open(path).map_err(failed)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
                Failure::new(Exit::Failed, format!("{shown} is being imported by another process"))
            })?;
            known.push(look(&file).map_err(failed)?);
            locks.push(file);
        }
        let path = beside(files);
        let old = read(&path)?;
        if let Some(old) = &old {
            let shown = path.display();
            if old.version != VERSION {
                return Err(Failure::usage(format!("{shown} is of another version of the tool")));
            }
            if old.inputs != known {
                return Err(Failure::usage(format!("{shown} is of another input: remove it to start over")));
            }
            if old.options != options {
                return Err(Failure::usage(format!("{shown} is of other options: remove it to start over")));
            }
        }
        let is_new = old.is_none();
        let state = old.unwrap_or_else(|| State {
            version: VERSION,
            options: options.to_owned(),
            inputs: known,
            identity: Identity::choose(),
            counts: Counts::default(),
            durable: Mark::default(),
            sent: Mark::default(),
            rejects: 0,
            done: false,
            collection: None,
            aside: None,
        });
        let doubtful = state.sent;
        Ok(Self { path, state, is_new, saved: Instant::now(), doubtful, _locks: locks })
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether all was imported before this process began, or is since.
    pub(super) fn is_done(&self) -> bool {
        self.state.done
    }

    pub(super) fn identity(&self) -> Identity {
        Identity::of_bytes(self.state.identity)
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.counts.clone()
    }

    pub(super) fn durable(&self) -> Mark {
        self.state.durable
    }

    pub(super) fn collection(&self) -> Option<&CollectionUuid> {
        self.state.collection.as_ref()
    }

    /// The id of the collection aside.
    pub(super) fn aside(&self) -> Option<ObjectId> {
        self.state.aside
    }

    /// Keeps the id of the collection aside.
    pub(super) fn set_aside(&mut self, id: ObjectId) {
        self.state.aside = Some(id);
    }

    /// Keeps what the collection is known by.
    pub(super) fn know(&mut self, collection: CollectionUuid) {
        self.state.collection = Some(collection);
    }

    /// Does not go on where something is missing that the state says is imported.
    pub(super) fn refuse(
        &self,
        missing: Option<Missing>,
        store: &Path,
        target: &Target,
    ) -> Result<(), Failure> {
        let Some(missing) = missing else { return Ok(()) };
        let (shown, read) = (self.path.display(), self.state.counts.read);
        let (records, missing) = (counted(read, RECORDS), missing.told(store, target));
        let are = if read == 1 { "is" } else { "are" };
        Err(Failure::usage(format!(
            "{shown} says that {records} {are} imported, but {missing}: remove {shown} to start over"
        )))
    }

    pub(super) fn rejects(&self) -> u64 {
        self.state.rejects
    }

    /// Whether a record that ends here may have been sent before this process began.
    pub(super) fn is_doubtful(&self, end: Mark) -> bool {
        end <= self.doubtful
    }

    /// Whether the next batch is to be made durable.
    pub(super) fn is_due(&self) -> bool {
        self.saved.elapsed() >= PAUSE
    }

    /// Allows that records up to `end` are sent.
    pub(super) fn allow(&mut self, end: Mark) -> Result<(), Failure> {
        if end <= self.state.sent {
            return Ok(());
        }
        let since = if self.state.sent.input == end.input { end.offset - self.state.sent.offset } else { 0 };
        let ahead = since.saturating_mul(2).clamp(AHEAD_MIN, AHEAD_MAX);
        self.state.sent = Mark { offset: end.offset.saturating_add(ahead), ..end };
        self.save()
    }

    /// Says that all records up to `end` are on stable storage, with what was counted and rejected until then.
    pub(super) fn settle(&mut self, end: Mark, counts: &Counts, rejects: u64) -> Result<(), Failure> {
        self.state.durable = end;
        self.state.sent = self.state.sent.max(end);
        self.state.counts = counts.clone();
        self.state.rejects = rejects;
        self.saved = Instant::now();
        self.save()
    }

    /// Writes the file again, and has it on stable storage before it returns.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::io(&self.path.display().to_string(), &error);
        let text = serde_json::to_vec(&self.state).map_err(|error| failed(error.into()))?;
        let partial = self.path.with_extension("cairn-import.partial");
        let partial_failed = |error: std::io::Error| Failure::io(&partial.display().to_string(), &error);
        let mut file = regular::create(&partial).map_err(partial_failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&partial, &self.path).map_err(failed)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// Says that all is imported and on stable storage, with what was counted.
    pub(super) fn finish(&mut self, counts: &Counts) -> Result<(), Failure> {
        self.state.counts = counts.clone();
        self.state.done = true;
        self.save()
    }

    /// Removes the file, which nothing needs any more.
    pub(super) fn remove(self) -> Result<(), Failure> {
        std::fs::remove_file(&self.path)
            .map_err(|error| Failure::io(&self.path.display().to_string(), &error))
    }
}

/// The file beside the first input.
fn beside(files: &[&Path]) -> PathBuf {
    let path = files.first().copied().unwrap_or(Path::new(""));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".cairn-import");
    path.with_file_name(name)
}

fn read(path: &Path) -> Result<Option<State>, Failure> {
    let shown = path.display().to_string();
    match regular::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Failure::usage(format!("{shown} is not the state of an import: {error}"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::io(&shown, &error)),
    }
}

fn look(file: &File) -> std::io::Result<Known> {
    let metadata = file.metadata()?;
    let mut first = Vec::new();
    file.take(HASHED_BYTES).read_to_end(&mut first)?;
    let hash = STANDARD.encode(Sha256::digest(&first));
    Ok(Known { length: metadata.len(), seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec(), hash })
}
