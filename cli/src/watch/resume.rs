//! The file that says where a run of `cairn watch` has stopped: the resume token of the last event whose line was printed.
//!
//! It is replaced as a whole, so a run that is killed leaves the token before or the one after. One process at a time may have it.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use cairndb::bson::{Document, RawDocument};
use rustix::fs::{FlockOperation, flock};

use crate::extended_json::{Mode, parse_document, write_document};
use crate::failure::{Exit, Failure};
use crate::regular;

pub(super) struct ResumeFile {
    path: PathBuf,
    /// Its words when it was opened.
    token: Option<Document>,
    /// The bytes that were saved last.
    saved: Vec<u8>,
    /// Held, so that no other process writes the file.
    _lock: File,
}

impl ResumeFile {
    /// Reads where the run before has stopped. A file that is absent is made by the first [`save`](Self::save).
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| Failure::io(&shown, &error);
        let lock = regular::open_or_create(&beside(path, ".lock")).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Failure::new(Exit::Elsewhere, format!("{shown} is used by another process")))?;
        let token = match regular::read(path) {
            Ok(text) => Some(parse(&shown, &text)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { path: path.to_owned(), token, saved: Vec::new(), _lock: lock })
    }

    pub(super) fn token(&self) -> Option<&Document> {
        self.token.as_ref()
    }

    /// Keeps a token, on stable storage.
    pub(super) fn save(&mut self, token: &RawDocument) -> Result<(), Failure> {
        let mut text = Vec::new();
        write_document(&mut text, token, Mode::Canonical)?;
        text.push(b'\n');
        if text == self.saved {
            return Ok(());
        }
        self.replace(&text).map_err(|error| Failure::io(&self.path.display().to_string(), &error))?;
        self.saved = text;
        Ok(())
    }

    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let next = beside(&self.path, ".next");
        let mut file = regular::create(&next)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&next, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
    }
}

fn parse(shown: &str, text: &[u8]) -> Result<Document, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "{shown} has no resume token: {}",
            String::from_utf8_lossy(text.get(..80).unwrap_or(text))
        ))
    };
    let text = str::from_utf8(text).map_err(|_| wrong())?;
    parse_document("--resume-file", text.trim_end()).map_err(|_| wrong())
}

/// A file with the same name and another ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}
