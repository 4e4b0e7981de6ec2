//! Records that were rejected: a line of JSON for each, in a file beside the input or on standard error.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairndb::bson::{Document, RawDocumentBuf};
use formats::format::FileFormat;
use formats::split::{KEPT_BYTES, Record};

use crate::extended_json::{Mode, write_document};
use crate::failure::Failure;
use crate::figures::{Noun, counted};
use crate::import::input::Input;
use crate::output::{Output, refuse_existing};
use crate::plain::json_line;
use crate::regular;
use crate::talk::{warn, write_line};

/// After how many rejects an import stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    After(u64),
    Never,
}

impl Limit {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::Never);
        }
        text.parse().map(Self::After).map_err(|_| "a number, or all".to_owned())
    }
}

/// The file of rejects.
pub(super) struct Rejects {
    /// The file of the command line, for all inputs.
    named: Option<PathBuf>,
    may_replace: bool,
    limit: Limit,
    is_dry: bool,
    /// Whether a file of an earlier import of the same input is replaced.
    replaces_own: bool,
    count: u64,
    open: Option<Open>,
    /// The files that were made.
    made: Vec<PathBuf>,
    input: String,
    format: FileFormat,
}

struct Open {
    path: PathBuf,
    output: Output,
}

/// The reason why a record is rejected.
pub(super) struct Reason<'a> {
    pub(super) code: i32,
    pub(super) error: &'a str,
}

impl Rejects {
    pub(super) fn new(named: Option<PathBuf>, limit: Limit, may_replace: bool, is_dry: bool) -> Self {
        let (input, format) = (String::new(), FileFormat::Lines);
        let replaces_own = true;
        Self {
            named,
            may_replace,
            limit,
            is_dry,
            replaces_own,
            count: 0,
            open: None,
            made: Vec::new(),
            input,
            format,
        }
    }

    /// Keeps the files of earlier imports: where a state would say how far one came, a file without it says that all was imported,
    /// and nothing is to be imported twice.
    pub(super) fn keep_own(&mut self) {
        self.replaces_own = false;
    }

    /// Rejects a file of rejects that is there, before anything is imported. One that is an input may not be replaced.
    pub(super) fn check(&self, inputs: &[Input]) -> Result<(), Failure> {
        let whole = |path: &Path| std::fs::canonicalize(path).ok();
        for (input, path) in inputs.iter().filter_map(|input| Some((input, self.path(input)?))) {
            refuse_existing(&path, self.may_replace || self.is_own(input, &path))?;
            let is_input = |input: &Input| matches!(input, Input::File(file) if whole(file) == whole(&path));
            if whole(&path).is_some() && inputs.iter().any(is_input) {
                return Err(Failure::usage(format!(
                    "{} is an input and cannot have rejects",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Whether the file is one that an earlier import of the input has made, under the name that it chooses.
    fn is_own(&self, input: &Input, path: &Path) -> bool {
        const LINE_BYTES_MAX: u64 = 1 << 20;
        let is_looked_at = self.replaces_own && self.named.is_none();
        let Some(Ok(file)) = is_looked_at.then(|| regular::open(path)) else { return false };
        let mut line = String::new();
        let read = BufReader::new(file.take(LINE_BYTES_MAX)).read_line(&mut line);
        let reject = read.ok().and_then(|_| serde_json::from_str::<serde_json::Value>(&line).ok());
        let name = Path::new(&input.name()).file_name().map(|name| name.to_string_lossy().into_owned());
        reject.is_some_and(|reject| {
            let file = reject.get("file").and_then(|file| Path::new(file.as_str()?).file_name());
            let is_of_input = file.map(|file| file.to_string_lossy().into_owned()) == name;
            is_of_input && ["line", "offset", "error", "code"].iter().all(|name| reject.get(name).is_some())
        })
    }

    /// Says which files are of earlier imports, whose records were all accepted now.
    pub(super) fn tell_old(&self, inputs: &[Input]) {
        for (input, path) in inputs.iter().filter_map(|input| Some((input, self.path(input)?))) {
            if !self.made.contains(&path) && self.is_own(input, &path) {
                warn(&format!("{} is of an earlier import, and nothing was rejected now", path.display()));
            }
        }
    }

    /// The file for the rejects of an input; `None` if they go to standard error.
    pub(super) fn path(&self, input: &Input) -> Option<PathBuf> {
        if let Some(named) = &self.named {
            return Some(named.clone());
        }
        match input {
            Input::File(path) if !self.is_dry => {
                let mut name = path.file_name()?.to_owned();
                name.push(".rejects.ndjson");
                Some(path.with_file_name(name))
            }
            Input::File(_) | Input::Standard => None,
        }
    }

    /// From now on rejects are of this input.
    pub(super) fn begin(&mut self, input: &Input, format: FileFormat) -> Result<(), Failure> {
        self.input = input.name();
        self.format = format;
        if self.open.as_ref().is_some_and(|open| Some(&open.path) != self.path(input).as_ref()) {
            self.finish()?;
        }
        Ok(())
    }

    /// Whether there are more than are allowed, with `more` besides those that were written.
    pub(super) fn is_over(&self, more: u64) -> bool {
        match self.limit {
            Limit::After(limit) => self.count + more > limit,
            Limit::Never => false,
        }
    }

    /// Writes a reject of `input`.
    pub(super) fn write(
        &mut self,
        input: &Input,
        record: &Record,
        text: &[u8],
        reason: &Reason<'_>,
    ) -> Result<(), Failure> {
        self.count += 1;
        let line = self.line(record, text, reason)?;
        let Some(path) = self.path(input) else {
            write_line(&mut std::io::stderr(), &json_line(&line));
            return Ok(());
        };
        let open = if let Some(open) = &mut self.open {
            open
        } else {
            let is_own = self.made.contains(&path) || self.is_own(input, &path);
            let may_replace = self.may_replace || is_own;
            let output = Output::open(Some(&path), may_replace)?;
            self.made.push(path.clone());
            self.open.insert(Open { path, output })
        };
        open.output.write(line.as_bytes())?;
        open.output.write(b"\n").map(drop)
    }

    fn line(&self, record: &Record, text: &[u8], reason: &Reason<'_>) -> Result<String, Failure> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // BSON has no lines, so its documents are counted.
        let line = if self.format == FileFormat::Bson { record.number } else { record.line };
        let mut reject = Document::new();
        reject.insert("file", self.input.as_str());
        reject.insert("line", number(line));
        reject.insert("offset", number(record.offset));
        reject.insert("error", reason.error);
        reject.insert("code", reason.code);
        let is_cut = text.len() >= KEPT_BYTES;
        let text = text.get(..KEPT_BYTES).unwrap_or(text);
        match shown(text, is_cut).filter(|_| self.format != FileFormat::Bson) {
            Some(text) => reject.insert("text", text),
            None => reject.insert("bytes", STANDARD.encode(text)),
        };
        if is_cut {
            reject.insert("cut", true);
        }
        let raw = RawDocumentBuf::try_from(&reject)
            .map_err(|error| Failure::new(crate::failure::Exit::Failed, error.to_string()))?;
        let mut out = Vec::new();
        write_document(&mut out, &raw, Mode::Relaxed)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Goes on with rejects of an import that was interrupted: `count` in all, and `len` bytes in the file of `input`.
    pub(super) fn resume(&mut self, input: &Input, count: u64, len: u64) -> Result<(), Failure> {
        self.count = count;
        self.may_replace = true;
        let Some(path) = self.path(input).filter(|_| len > 0) else { return Ok(()) };
        let output = Output::reopen(&path, len)?;
        self.made.push(path.clone());
        self.open = Some(Open { path, output });
        Ok(())
    }

    /// Makes what was written last. Returns how long the file of the current input is.
    pub(super) fn sync(&mut self) -> Result<u64, Failure> {
        self.open.as_mut().map_or(Ok(0), |open| open.output.sync())
    }

    /// Gives the file its name.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.open.take().map_or(Ok(()), |open| open.output.finish().map(drop))
    }

    /// The files that were made, for the report.
    pub(super) fn made(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(PathBuf::as_path)
    }

    /// The files that were made, for people. Returns `None` if there is none.
    pub(super) fn shown(&self) -> Option<String> {
        let (first, more) = self.made.split_first()?;
        let first = first.display();
        Some(match more.len() as u64 {
            0 => first.to_string(),
            more => format!("{first} and {}", counted(more, Noun("more file", "more files"))),
        })
    }
}

/// The text, if it is one. A cut may have gone through a character.
fn shown(text: &[u8], is_cut: bool) -> Option<&str> {
    match std::str::from_utf8(text) {
        Ok(text) => Some(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(text.get(..error.valid_up_to())?).ok()
        }
        Err(_) => None,
    }
}
