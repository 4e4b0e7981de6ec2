//! The error of a command, and the exit status that reports it to a script.

use cairndb::bson::{Document, doc};
use query::code::Code;

use crate::figures::{DOCUMENTS, counted_were};

/// The meaning of the exit status. 0 is success; the numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The command is done, but not all of it: lines were rejected, or the output lacks something.
    Partly = 3,
    /// The command looked, and found differences.
    Different = 4,
    /// Another process has the folder open.
    Elsewhere = 5,
    /// There is no store, or one that this version cannot read.
    NoStore = 6,
    /// SIGHUP ended the command in order: its terminal was closed.
    HungUp = 129,
    /// SIGINT ended the command in order.
    Interrupted = 130,
    /// SIGTERM ended the command in order.
    Terminated = 143,
}

impl Exit {
    /// Whether a signal ended the command.
    pub(crate) fn is_by_signal(self) -> bool {
        matches!(self, Self::HungUp | Self::Interrupted | Self::Terminated)
    }

    /// The name in the field `error.kind` of a report.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Partly => "partly",
            Self::Different => "different",
            Self::Elsewhere => "openElsewhere",
            Self::NoStore => "noStore",
            Self::HungUp | Self::Interrupted | Self::Terminated => "interrupted",
        }
    }
}

/// A command's error: the exit status, a message for people, and the code of a rejected database command.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) code: Option<i32>,
    /// The line of the input at which the command ended, or that was rejected first if it came to the end.
    pub(crate) line: Option<u64>,
    /// The other fields of the reply to a rejected database command, such as `keyPattern`.
    pub(crate) details: Option<Box<Document>>,
    /// Whether a report on standard error has shown it, where nothing else may stand then.
    pub(crate) is_told: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), code: None, line: None, details: None, is_told: false }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// With what was done before, if a server was lost in the middle.
    pub(crate) fn after(mut self, count: u64, done: &str) -> Self {
        if self.exit == Exit::NoStore && count > 0 {
            let documents = counted_were(count, DOCUMENTS);
            self.message = format!("{}: {documents} {done} until then", self.message);
        }
        self
    }

    /// An operating system error about `subject`.
    pub(crate) fn io(subject: &str, error: &std::io::Error) -> Self {
        Self::new(Exit::Failed, format!("{subject}: {error}"))
    }
}

/// The exit status of an error of the engine.
pub(crate) fn exit_of(error: &cairndb::Error) -> Exit {
    use cairndb::ErrorKind::{NotADatabase, NotFound, UnsupportedFormat};

    if error.is_already_open() {
        Exit::Elsewhere
    } else if matches!(error.kind(), NotFound { .. } | NotADatabase { .. } | UnsupportedFormat { .. }) {
        Exit::NoStore
    } else {
        Exit::Failed
    }
}

impl From<cairndb::Error> for Failure {
    fn from(error: cairndb::Error) -> Self {
        Self { code: error.code(), details: details(&error), ..Self::new(exit_of(&error), error.to_string()) }
    }
}

/// The fields that a server's reply would have besides the code and the message.
fn details(error: &cairndb::Error) -> Option<Box<Document>> {
    use cairndb::{ErrorKind, WriteFailure};

    let found = if let ErrorKind::Command(refused) = error.kind() {
        refused.details.clone()?
    } else if let ErrorKind::Write(WriteFailure::WriteError(refused)) = error.kind() {
        refused.details.clone()?
    } else if let ErrorKind::Sequence(refused) = error.kind() {
        doc! { "sequoiaCode": refused.sequoia_code(), "sequoiaName": refused.sequoia_name() }
    } else {
        return None;
    };
    let is_invalid = error.code() == Some(Code::DOCUMENT_VALIDATION_FAILURE.number());
    Some(Box::new(if is_invalid {
        doc! { "errInfo": found }
    } else {
        found
    }))
}
