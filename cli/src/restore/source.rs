//! The source of a dump. A directory is read file by file, and then looks like an archive whose segments do not
//! alternate.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairndb::bson::Document;
use formats::dump::prelude::Carried;
use formats::dump::reader::{ArchiveReader, Piece};
use formats::dump::stream::{DocumentStream, DumpError};

use crate::compressed::{Stream, counted, decompressed};
use crate::dumped::DumpPlace;
use crate::failure::{Exit, Failure};
use crate::interruptible::Interruptible;
use crate::regular;
use crate::restore::directory::{Listed, list};
use crate::restore::file::{BUFFER_BYTES, open, refused};
use crate::restore::options::Arguments;
use crate::restore::plan::{Described, Plan};
use crate::signals::Signals;

/// A dump that is open.
pub(super) struct Source {
    form: Form,
    /// The part that only CairnDB's dumps have.
    pub(super) carried: Option<Carried>,
    /// The number of bytes of files that are read, and their total.
    position: Arc<AtomicU64>,
    pub(super) len: Option<u64>,
}

enum Form {
    Archive { name: String, reader: Box<ArchiveReader<BufReader<Stream>>> },
    Directory(Files),
}

/// The files of a directory.
struct Files {
    /// For each collection, its file with documents.
    bodies: Vec<Option<PathBuf>>,
    /// Which is next.
    next: usize,
    open: Option<Open>,
    /// Of the files that were read to their ends.
    done: u64,
}

struct Open {
    at: usize,
    path: PathBuf,
    stream: DocumentStream<BufReader<Stream>>,
    position: Arc<AtomicU64>,
}

impl Source {
    /// Opens a dump. Returns what it has, in the order of its positions.
    pub(super) fn open(arguments: &Arguments, signals: &Signals) -> Result<(Self, Vec<Described>), Failure> {
        match arguments.place()? {
            DumpPlace::Directory(path) => Self::directory(path, arguments.db()?),
            DumpPlace::Archive(path) => {
                let name = path.display().to_string();
                let failed = |error: std::io::Error| Failure::io(&name, &error);
                let metadata = std::fs::metadata(path).map_err(failed)?;
                if metadata.is_dir() {
                    return Err(Failure::usage(format!("{name} is a directory: leave out --archive")));
                }
                let len = metadata.is_file().then_some(metadata.len());
                let file = Interruptible::open(path, signals).map_err(failed)?;
                Self::archive(name.clone(), Box::new(file), len)
            }
            DumpPlace::Standard => {
                let name = "standard input";
                let input = Interruptible::standard(signals).map_err(|error| Failure::io(name, &error))?;
                Self::archive(name.to_owned(), Box::new(input), None)
            }
        }
    }

    fn archive(name: String, raw: Stream, len: Option<u64>) -> Result<(Self, Vec<Described>), Failure> {
        let (counted, position) = counted(raw);
        let stream = decompressed(counted).map_err(|error| Failure::io(&name, &error))?;
        let stream = BufReader::with_capacity(BUFFER_BYTES, stream);
        let reader = ArchiveReader::open(stream).map_err(|error| failed(&name, error))?;
        let carried = reader.header().carried.clone().map(Carried::parse).transpose();
        let carried = carried.map_err(|error| refused(&name, &error))?;
        let described = reader.declared().iter().map(|one| Described {
            database: one.database.clone(),
            name: one.collection.clone(),
            metadata: Some(with_kind(&one.metadata, &one.kind)),
            place: format!("{name}, metadata of {}.{}", one.database, one.collection),
            problem: None,
        });
        let described = described.collect();
        let form = Form::Archive { name, reader: Box::new(reader) };
        Ok((Self { form, carried, position, len }, described))
    }

    /// `db` is the name of the database whose files the directory has, if it is that of one.
    fn directory(path: &Path, db: Option<&str>) -> Result<(Self, Vec<Described>), Failure> {
        let Listed { carried, described, bodies, len, .. } = list(path, db)?;
        let form = Form::Directory(Files { bodies, next: 0, open: None, done: 0 });
        Ok((Self { form, carried, position: Arc::default(), len: Some(len) }, described))
    }

    /// Rejects a planned file that is not a regular one, before anything is made.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), Failure> {
        let Form::Directory(files) = &self.form else { return Ok(()) };
        for (planned, body) in plan.planned.iter().zip(&files.bodies) {
            if let (Some(_), Some(path)) = (planned, body) {
                regular::check(path).map_err(|error| Failure::io(&path.display().to_string(), &error))?;
            }
        }
        Ok(())
    }

    /// Reads on. A document comes in place of what `document` has. What is not planned may be passed over unread.
    pub(super) fn next(&mut self, plan: &Plan, document: &mut Vec<u8>) -> Result<Option<Piece>, Failure> {
        match &mut self.form {
            Form::Archive { name, reader } => reader.next(document).map_err(|error| failed(name, error)),
            Form::Directory(files) => files.next(plan, document),
        }
    }

    /// The number of bytes of files that were read.
    pub(super) fn position(&self) -> u64 {
        match &self.form {
            Form::Archive { .. } => self.position.load(Ordering::Relaxed),
            Form::Directory(files) => files.position(),
        }
    }
}

impl Files {
    fn next(&mut self, plan: &Plan, document: &mut Vec<u8>) -> Result<Option<Piece>, Failure> {
        loop {
            if let Some(open) = &mut self.open {
                let read = open.stream.next(document);
                if read.map_err(|error| failed(&open.path.display().to_string(), error))? {
                    return Ok(Some(Piece::Document(open.at)));
                }
                let at = open.at;
                self.done = self.position();
                self.open = None;
                return Ok(Some(Piece::End(at, None)));
            }
            let at = self.next;
            let Some(body) = self.bodies.get(at) else { return Ok(None) };
            self.next += 1;
            if plan.planned.get(at).is_none_or(Option::is_none) {
                continue;
            }
            match body {
                None => return Ok(Some(Piece::End(at, None))),
                Some(path) => {
                    let (stream, position) = open(path)?;
                    let stream = DocumentStream::new(stream);
                    self.open = Some(Open { at, path: path.clone(), stream, position });
                }
            }
        }
    }

    fn position(&self) -> u64 {
        self.done + self.open.as_ref().map_or(0, |open| open.position.load(Ordering::Relaxed))
    }
}

/// An archive says beside the metadata of which kind a collection is, and old ones do in no other place.
fn with_kind(metadata: &str, kind: &str) -> String {
    if metadata.is_empty() && kind == "timeseries" {
        return "{\"type\":\"timeseries\"}".to_owned();
    }
    metadata.to_owned()
}

fn failed(name: &str, error: DumpError) -> Failure {
    match error {
        DumpError::Io(error) => Failure::io(name, &error),
        damaged @ DumpError::Damaged { .. } => Failure::new(Exit::Failed, format!("{name}, {damaged}")),
    }
}

/// The auto-increment fields, of what the end of an archive's collection carries.
pub(super) fn numbered(carried: &mut Document) -> Option<Vec<Document>> {
    let fields = carried.remove("autoIncrement")?;
    Some(fields.as_array()?.iter().filter_map(|field| field.as_document().cloned()).collect())
}
