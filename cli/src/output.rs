//! The target of a command's documents: standard output, or a file that has its name only once it is whole.
//!
//! A file is written as `NAME.partial`, locked against other processes, synced and renamed. If the command does
//! not end well, the partial file is removed and what had the name before stays as it was.

use std::fs::{File, Permissions};
use std::io::{BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, flock};

use crate::failure::{Exit, Failure};
use crate::plain::plain;
use crate::regular;
use crate::standard;

/// The number of bytes that are collected before the system is asked to write.
const BUFFER_BYTES: usize = 256 << 10;
/// As many links after each other as Linux follows.
const LINKS_MAX: usize = 40;
/// The mode of a new file, before the user's mask.
const NEW_MODE: u32 = 0o666;
const MODE_BITS: u32 = 0o777;

/// The user's mask. That of the process is stricter, for the files of stores.
static USERS_MASK: AtomicU32 = AtomicU32::new(0o077);

/// Keeps the mask that files which are made for others have.
pub(crate) fn set_users_mask(mask: u32) {
    USERS_MASK.store(mask, Ordering::Relaxed);
}

/// The result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Whole,
    /// The reader of standard output is gone, as after `head`.
    NotWanted,
}

/// An open output.
pub(crate) enum Output {
    Standard(BufWriter<File>),
    File(Partial),
    /// A pipe or a device, which is written to as it is, with its name.
    Through(Body, PathBuf),
}

/// A file that does not have its name yet.
pub(crate) struct Partial {
    name: PathBuf,
    path: PathBuf,
    may_replace: bool,
    /// Whether others may read what is made as far as they may read other files of the user.
    is_for_others: bool,
    /// `None` after the file was finished.
    body: Option<Body>,
}

pub(crate) enum Body {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    /// Opens standard output, or a file; the endings `.gz` and `.zst` compress.
    pub(crate) fn open(name: Option<&Path>, may_replace: bool) -> Result<Self, Failure> {
        match name {
            None => standard::check_output().and_then(|()| Self::standard()),
            Some(name) if is_stream(name) => {
                let body = Body::through(name)?;
                Ok(Self::Through(body.compressed(name)?, name.to_owned()))
            }
            Some(name) => {
                let mut partial = Partial::create(name, may_replace, 0)?.compressed()?;
                partial.is_for_others = true;
                Ok(Self::File(partial))
            }
        }
    }

    /// Opens standard output, or a file, whose bytes are written as they are whatever its name ends with.
    pub(crate) fn open_plain(name: Option<&Path>, may_replace: bool) -> Result<Self, Failure> {
        match name {
            None => standard::check_output().and_then(|()| Self::standard()),
            Some(name) if is_stream(name) => Ok(Self::Through(Body::through(name)?, name.to_owned())),
            Some(name) => Ok(Self::File(Partial::create(name, may_replace, 0)?)),
        }
    }

    /// Opens standard output for what may print nothing at all.
    pub(crate) fn standard() -> Result<Self, Failure> {
        // Not the standard library's handle: it looks for line ends in all that is written.
        let file = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| Failure::io("standard output", &error))?;
        Ok(Self::Standard(BufWriter::with_capacity(BUFFER_BYTES, file)))
    }

    /// Goes on after the first `len` bytes of a file that an earlier process wrote, whether it has its name or not.
    pub(crate) fn reopen(name: &Path, len: u64) -> Result<Self, Failure> {
        let path = partial_name(name)?;
        if !path.exists() {
            std::fs::rename(name, &path).map_err(|error| Failure::io(&name.display().to_string(), &error))?;
        }
        let mut partial = Partial::create(name, true, len)?.compressed()?;
        partial.is_for_others = true;
        Ok(Self::File(partial))
    }

    /// Makes what was written last. Returns how long the file is.
    pub(crate) fn sync(&mut self) -> Result<u64, Failure> {
        match self {
            Self::Standard(_) | Self::Through(..) => Ok(0),
            Self::File(partial) => partial.sync(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<Written, Failure> {
        match self {
            Self::Standard(out) => pipe(out.write_all(bytes)),
            Self::File(partial) => partial.write(bytes).map(|()| Written::Whole),
            Self::Through(body, name) => through(name, body.write(bytes)),
        }
    }

    /// Gives to the system what was written, so that a reader of standard output sees it.
    #[cfg(feature = "shell")]
    pub(crate) fn flush(&mut self) -> Result<Written, Failure> {
        match self {
            Self::Standard(out) => pipe(out.flush()),
            Self::File(_) | Self::Through(..) => Ok(Written::Whole),
        }
    }

    /// Makes everything written last, and gives the file its name.
    pub(crate) fn finish(self) -> Result<Written, Failure> {
        match self {
            Self::Standard(mut out) => pipe(out.flush()),
            Self::File(partial) => partial.finish().map(|()| Written::Whole),
            Self::Through(body, name) => through(&name, body.end().and_then(|mut file| file.flush())),
        }
    }
}

/// Writes to standard output at once.
pub(crate) fn print(bytes: &[u8]) -> Result<Written, Failure> {
    let mut output = Output::open(None, false)?;
    match output.write(bytes)? {
        Written::Whole => output.finish(),
        Written::NotWanted => Ok(Written::NotWanted),
    }
}

/// Writes a line to standard output at once, as it is: one of JSON.
pub(crate) fn print_line(line: &str) -> Result<Written, Failure> {
    print(format!("{line}\n").as_bytes())
}

/// Writes lines for people to standard output at once.
pub(crate) fn print_lines(lines: impl IntoIterator<Item = String>) -> Result<Written, Failure> {
    let text: String = lines.into_iter().map(|line| plain(&line) + "\n").collect();
    print(text.as_bytes())
}

/// The failure of what another library has written to standard output. A reader that is gone is none.
pub(crate) fn written(written: std::io::Result<()>) -> Result<Written, Failure> {
    pipe(written)
}

fn pipe(written: std::io::Result<()>) -> Result<Written, Failure> {
    through(Path::new("standard output"), written)
}

fn through(name: &Path, written: std::io::Result<()>) -> Result<Written, Failure> {
    match written {
        Ok(()) => Ok(Written::Whole),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Written::NotWanted),
        Err(error) => Err(Failure::io(&name.display().to_string(), &error)),
    }
}

/// Whether something has the name that is not a file and is not replaced: a pipe, or a device that accepts bytes one after the other.
fn is_stream(name: &Path) -> bool {
    let kind = std::fs::metadata(name).map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device())
}

/// The file that a link leads to, which is there or not.
fn resolved(name: &Path) -> PathBuf {
    let mut path = name.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    path
}

impl Body {
    fn through(name: &Path) -> Result<Self, Failure> {
        let opened = File::options().write(true).open(name);
        let file = opened.map_err(|error| Failure::io(&name.display().to_string(), &error))?;
        Ok(Self::Plain(BufWriter::with_capacity(BUFFER_BYTES, file)))
    }

    /// Compresses what is written from now on, if the name says so.
    fn compressed(self, name: &Path) -> Result<Self, Failure> {
        let ending = name.extension().and_then(|ending| ending.to_str());
        match (self, ending) {
            (Self::Plain(file), Some("gz")) => {
                Ok(Self::Gzip(GzEncoder::new(file, flate2::Compression::default())))
            }
            (Self::Plain(file), Some("zst")) => {
                let failed = |error: std::io::Error| Failure::io(&name.display().to_string(), &error);
                Ok(Self::Zstd(zstd::Encoder::new(file, 0).map_err(failed)?))
            }
            (body, _) => Ok(body),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Gzip(file) => file.write_all(bytes),
            Self::Zstd(file) => file.write_all(bytes),
        }
    }

    /// Ends what is compressed.
    fn end(self) -> std::io::Result<BufWriter<File>> {
        match self {
            Self::Plain(buffered) => Ok(buffered),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl Partial {
    /// Makes a partial file, not compressed. Of one that is there already, the first `keep` bytes stay.
    fn create(name: &Path, may_replace: bool, keep: u64) -> Result<Self, Failure> {
        refuse_existing(name, may_replace)?;
        // A link stays one: what it leads to is replaced.
        let name = resolved(name);
        let path = partial_name(&name)?;
        let failed = |error: std::io::Error| Failure::io(&path.display().to_string(), &error);
        let file = regular::open_or_create(&path).map_err(failed)?;
        // Another process may have finished and renamed the file between the opening and the lock: what is
        // locked then has another name, and must not be emptied.
        let busy =
            || Failure::new(Exit::Failed, format!("{} is being written by another process", path.display()));
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| busy())?;
        let is_same = std::fs::metadata(&path).and_then(|named| {
            let locked = file.metadata()?;
            Ok(named.ino() == locked.ino() && named.dev() == locked.dev())
        });
        if !is_same.is_ok_and(|is_same| is_same) {
            return Err(busy());
        }
        if file.metadata().map_err(failed)?.len() < keep {
            return Err(Failure::new(Exit::Failed, format!("{} is shorter than it was", path.display())));
        }
        file.set_len(keep).map_err(failed)?;
        (&file).seek(SeekFrom::End(0)).map_err(failed)?;
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, file);
        let body = Some(Body::Plain(buffered));
        Ok(Self { name, path, may_replace, is_for_others: false, body })
    }

    /// Compresses what is written from now on, if the name says so.
    fn compressed(mut self) -> Result<Self, Failure> {
        self.body = self.body.take().map(|body| body.compressed(&self.name)).transpose()?;
        Ok(self)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.body.as_mut().map_or(Ok(()), |body| body.write(bytes));
        written.map_err(|error| self.failed(&error))
    }

    fn sync(&mut self) -> Result<u64, Failure> {
        let synced = match &mut self.body {
            Some(Body::Plain(file)) => file.flush().and_then(|()| {
                file.get_ref().sync_data()?;
                Ok(file.get_ref().metadata()?.len())
            }),
            // A compressed stream is not whole before its end, so nothing could continue after it.
            Some(Body::Gzip(_) | Body::Zstd(_)) | None => Ok(0),
        };
        synced.map_err(|error| self.failed(&error))
    }

    fn finish(mut self) -> Result<(), Failure> {
        let Some(body) = self.body.take() else { return Ok(()) };
        let done = self.place(body);
        if done.is_err() {
            self.remove();
        }
        done
    }

    fn place(&self, body: Body) -> Result<(), Failure> {
        let failed = |error: std::io::Error| self.failed(&error);
        let buffered = body.end().map_err(failed)?;
        let file = buffered.into_inner().map_err(|error| self.failed(error.error()))?;
        self.set_mode(&file).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        refuse_existing(&self.name, self.may_replace)?;
        std::fs::rename(&self.path, &self.name).map_err(failed)?;
        // The name lasts once the folder is synced.
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// Gives the file the mode of the one that it replaces, or that of a new file.
    fn set_mode(&self, file: &File) -> std::io::Result<()> {
        let of_new = NEW_MODE & !USERS_MASK.load(Ordering::Relaxed);
        match std::fs::metadata(&self.name) {
            Ok(replaced) => file.set_permissions(Permissions::from_mode(replaced.mode() & MODE_BITS)),
            Err(_) if self.is_for_others => file.set_permissions(Permissions::from_mode(of_new)),
            Err(_) => Ok(()),
        }
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::io(&self.name.display().to_string(), error)
    }

    fn remove(&self) {
        // A file that cannot be removed keeps the ending that says what it is.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.body.is_some() {
            self.remove();
        }
    }
}

fn partial_name(name: &Path) -> Result<PathBuf, Failure> {
    let Some(file_name) = name.file_name() else {
        return Err(Failure::usage(format!("{} is not a name for a file", name.display())));
    };
    let mut partial_name = file_name.to_owned();
    partial_name.push(".partial");
    Ok(name.with_file_name(partial_name))
}

/// Rejects a file that is there, unless it may be replaced. Pipes and devices never are.
pub(crate) fn refuse_existing(name: &Path, may_replace: bool) -> Result<(), Failure> {
    if !may_replace && std::fs::metadata(name).is_ok() && !is_stream(name) {
        return Err(Failure::usage(format!(
            "{} is there already: give --overwrite to replace it",
            name.display()
        )));
    }
    Ok(())
}
