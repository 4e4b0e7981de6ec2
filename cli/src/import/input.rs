//! The files that are read: opened, decompressed, and looked at for their format.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use formats::format::FileFormat;
use formats::split::Splitter;

use crate::failure::Failure;

/// How compressed data begins. Zstandard has frames besides that are to be skipped.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];
/// What a decompressor may remember of what it wrote: 32 MiB.
const WINDOW_LOG_MAX: u32 = 25;
/// What is looked at for the format.
const FIRST_BYTES: usize = 64 << 10;

/// A file or standard input, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Standard,
    File(PathBuf),
}

/// What the parts of an input are read from.
pub(super) type Stream = Box<dyn Read + Send>;

/// An input that is open.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) format: FileFormat,
    pub(super) splitter: Splitter<Stream>,
    /// How many bytes of the file were read, and how many it has.
    pub(super) position: Arc<AtomicU64>,
}

impl Input {
    /// The files of the command line; without any it is standard input.
    pub(super) fn of(files: &[PathBuf]) -> Result<Vec<Self>, Failure> {
        if files.is_empty() {
            return Ok(vec![Self::Standard]);
        }
        let inputs: Vec<Self> = files
            .iter()
            .map(|file| if file == Path::new("-") { Self::Standard } else { Self::File(file.clone()) })
            .collect();
        for (at, input) in inputs.iter().enumerate() {
            if inputs.iter().take(at).any(|other| other == input) {
                return Err(Failure::usage(format!("{} is named twice", input.name())));
            }
            // A name that is mistyped is found before the files in front of it are imported.
            input.check()?;
        }
        Ok(inputs)
    }

    /// Whether there is such a file. A pipe is not opened for that: its writer would be left without a reader.
    fn check(&self) -> Result<(), Failure> {
        let Self::File(path) = self else { return Ok(()) };
        let failed = |error: std::io::Error| Failure::io(&self.name(), &error);
        if std::fs::metadata(path).map_err(failed)?.is_file() {
            File::open(path).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Standard => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// How many bytes there are, if it is a file.
    pub(super) fn len(&self) -> Option<u64> {
        let Self::File(path) = self else { return None };
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
    }

    /// Opens the input. Its format is the one that is given, or that of its name, or that of its first bytes.
    pub(super) fn open(&self, format: Option<FileFormat>) -> Result<Source, Failure> {
        let name = self.name();
        let failed = |error: std::io::Error| Failure::io(&name, &error);
        let position = Arc::new(AtomicU64::new(0));
        let raw: Stream = match self {
            Self::Standard => Box::new(std::io::stdin()),
            Self::File(path) => Box::new(File::open(path).map_err(failed)?),
        };
        let counted = Counted { stream: raw, position: Arc::clone(&position) };
        let mut stream = decompressed(Box::new(counted)).map_err(failed)?;
        let by_name = if let Self::File(path) = self { FileFormat::of_name(path) } else { None };
        let format = if let Some(format) = format.or(by_name) {
            format
        } else {
            let first = peek(&mut stream, FIRST_BYTES).map_err(failed)?;
            let found = FileFormat::of_bytes(&first);
            stream = Box::new(Cursor::new(first).chain(stream));
            found
                .ok_or_else(|| Failure::usage(format!("{name} has no format that is known: give --format")))?
        };
        Ok(Source { name, format, splitter: Splitter::new(stream, format), position })
    }
}

fn decompressed(mut stream: Stream) -> std::io::Result<Stream> {
    let first = peek(&mut stream, ZSTD.len())?;
    let (is_gzip, is_zstd) = (
        first.starts_with(&GZIP),
        first.starts_with(&ZSTD)
            || first.get(1..) == Some(&ZSTD_SKIPPED) && first.first().is_some_and(|byte| byte >> 4 == 5),
    );
    let whole = Cursor::new(first).chain(stream);
    if is_gzip {
        Ok(Box::new(MultiGzDecoder::new(whole)))
    } else if is_zstd {
        let mut decoder = zstd::Decoder::new(whole)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Box::new(decoder))
    } else {
        Ok(Box::new(whole))
    }
}

/// Reads up to `len` bytes; fewer only at the end.
fn peek(stream: &mut Stream, len: usize) -> std::io::Result<Vec<u8>> {
    let mut first = vec![0; len];
    let mut filled = 0;
    while let Some(room) = first.get_mut(filled..).filter(|room| !room.is_empty()) {
        match stream.read(room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    first.truncate(filled);
    Ok(first)
}

/// A stream that counts what is read from it.
struct Counted {
    stream: Stream,
    position: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(room)?;
        self.position.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
