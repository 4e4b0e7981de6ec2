//! The files that are read: opened, and looked at for their format.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use formats::format::FileFormat;
use formats::split::Splitter;

use crate::compressed::{Soundness, Stream, counted, decompressed, peek, soundness};
use crate::failure::{Exit, Failure};
use crate::interruptible::Interruptible;
use crate::signals::Signals;
use crate::utf16::{Encoding, Utf16};

/// The number of bytes that decide the format.
const FIRST_BYTES: usize = 64 << 10;
/// The number of bytes that decide the encoding: two characters.
const MARK_BYTES: usize = 4;

/// A file or standard input, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Standard,
    File(PathBuf),
}

/// An input that is open.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) format: FileFormat,
    /// The separator of a table's cells.
    pub(super) delimiter: u8,
    pub(super) splitter: Splitter<Stream>,
    /// The number of bytes of the file that were read, and its size.
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

    /// The error of a compressed file that is damaged. Of what came by a pipe nothing can be read again.
    pub(super) fn damage(&self, signals: &Signals) -> Result<Option<Failure>, Failure> {
        let Self::File(path) = self else { return Ok(None) };
        if self.len().is_none() {
            return Ok(None);
        }
        let failed = |error: std::io::Error| Failure::io(&self.name(), &error);
        let stream = Interruptible::open(path, signals).map_err(failed)?;
        Ok(match soundness(Box::new(stream)).map_err(failed)? {
            Soundness::Plain | Soundness::Whole => None,
            Soundness::Damaged(byte, reason) => Some(self.damaged(byte, &reason)),
        })
    }

    /// The failure of an input that is damaged before a byte.
    pub(super) fn damaged(&self, byte: u64, reason: &str) -> Failure {
        let name = self.name();
        Failure::new(Exit::Different, format!("{name} is damaged before its byte {byte}: {reason}"))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Standard => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The number of bytes, if it is a file.
    pub(super) fn len(&self) -> Option<u64> {
        let Self::File(path) = self else { return None };
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
    }

    /// The text as UTF-8, if its first bytes say that it is UTF-16.
    fn in_utf_8(&self, stream: Stream, first: &[u8]) -> Result<Stream, Failure> {
        match Encoding::of(first) {
            Encoding::Utf8 => Ok(stream),
            Encoding::Utf16(order) => Ok(Box::new(Utf16::new(stream, order))),
            Encoding::Utf32 => {
                let name = self.name();
                let file =
                    if let Self::File(path) = self { format!(" {}", path.display()) } else { String::new() };
                let words = format!(
                    "{name} is UTF-32, which is not read: iconv -f UTF-32 -t UTF-8{file} converts it"
                );
                Err(Failure::new(Exit::Failed, words))
            }
        }
    }

    /// Opens the input. Its format is the one that is given, or that of its name, or that of its first bytes.
    pub(super) fn open(
        &self,
        format: Option<FileFormat>,
        delimiter: Option<u8>,
        signals: &Signals,
    ) -> Result<Source, Failure> {
        let name = self.name();
        let failed = |error: std::io::Error| Failure::io(&name, &error);
        let raw: Stream = match self {
            Self::Standard => Box::new(Interruptible::standard(signals).map_err(failed)?),
            Self::File(path) => Box::new(Interruptible::open(path, signals).map_err(failed)?),
        };
        let (counted, position) = counted(raw);
        let mut stream = decompressed(counted).map_err(failed)?;
        let by_name = if let Self::File(path) = self { FileFormat::of_name(path) } else { None };
        let known = format.or(by_name);
        if known != Some(FileFormat::Bson) {
            let len = if known.is_some() { MARK_BYTES } else { FIRST_BYTES };
            let first = peek(&mut stream, len).map_err(failed)?;
            // The length of a document of BSON may look like a mark. Then comes the name of its first field, which no text begins
            // with that has zeros beside its letters.
            let is_bson = FileFormat::of_bytes(&first) == Some(FileFormat::Bson) && first.get(5) != Some(&0);
            let is_text = known.is_some() || !is_bson;
            let mark = first.get(..MARK_BYTES.min(first.len())).unwrap_or_default().to_vec();
            stream = Box::new(Cursor::new(first).chain(stream));
            if is_text {
                stream = self.in_utf_8(stream, &mark)?;
            }
        }
        let format = if let Some(format) = known {
            format
        } else {
            let first = peek(&mut stream, FIRST_BYTES).map_err(failed)?;
            let found = FileFormat::of_bytes(&first);
            stream = Box::new(Cursor::new(first).chain(stream));
            found
                .ok_or_else(|| Failure::usage(format!("{name} has no format that is known: give --format")))?
        };
        let of_format = if format == FileFormat::Tsv { b'\t' } else { b',' };
        let delimiter = delimiter.unwrap_or(of_format);
        let splitter = Splitter::new(stream, format).with_delimiter(delimiter);
        Ok(Source { name, format, delimiter, splitter, position })
    }
}
