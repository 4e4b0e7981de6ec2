//! Rejections of commands, as replies contain them.

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Error, ErrorKind, Interruption, NON_RESUMABLE_CHANGE_STREAM_ERROR};
use query::code::{Code, cut_message};

/// A rejection. It is one word wide, because every function returns it and few calls need it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    refusal: Box<Refusal>,
}

/// MongoDB's number, its name, a message, and further fields of the reply.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    code: i32,
    name: String,
    message: String,
    details: Document,
}

/// The number of characters of a client's string that an error repeats.
const REPEATED_CHARACTERS_MAX: usize = 200;

/// The beginning of a text that a client has sent, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(REPEATED_CHARACTERS_MAX).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start:?}..."),
        None => format!("{text:?}"),
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::with(code.number(), &code.name(), message, None)
    }

    fn with(code: i32, name: &str, message: impl Into<String>, details: Option<Document>) -> Self {
        let details = details.unwrap_or_default();
        let message = cut_message(message.into());
        Self { refusal: Box::new(Refusal { code, name: name.to_owned(), message, details }) }
    }

    /// Adds a field to the reply.
    pub(crate) fn with_field(mut self, field: &str, value: impl Into<cairndb::bson::Bson>) -> Self {
        self.refusal.details.insert(field, value);
        self
    }

    /// Adds a label, by which drivers know what to try again.
    pub(crate) fn with_label(mut self, label: &str) -> Self {
        let labels =
            self.refusal.details.entry("errorLabels".to_owned()).or_insert_with(|| Bson::Array(Vec::new()));
        if let Bson::Array(labels) = labels
            && !labels.iter().any(|other| other.as_str() == Some(label))
        {
            labels.push(label.into());
        }
        self
    }

    /// MongoDB's number of the error.
    pub(crate) fn code(&self) -> i32 {
        self.refusal.code
    }

    /// Its name in MongoDB.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn name(&self) -> &str {
        &self.refusal.name
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn message(&self) -> &str {
        &self.refusal.message
    }

    /// The reply to the rejected command.
    pub(crate) fn into_document(self) -> Document {
        let Refusal { code, name, message, details } = *self.refusal;
        let mut reply = doc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": name };
        reply.extend(details);
        reply
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(Code::BAD_VALUE, message)
    }

    pub(crate) fn invalid_bson(message: impl Into<String>) -> Self {
        Self::new(Code::INVALID_BSON, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::INTERNAL_ERROR, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // Those of transactions depend on the command that fails.
        if error.contains_label(NON_RESUMABLE_CHANGE_STREAM_ERROR) {
            return Self::unlabelled(&error).with_label(NON_RESUMABLE_CHANGE_STREAM_ERROR);
        }
        Self::unlabelled(&error)
    }
}

impl Failure {
    fn unlabelled(error: &Error) -> Self {
        // Rejections of commands have MongoDB's number already; only the other kinds need one below.
        if let ErrorKind::Command(refused) = error.kind() {
            let details = told(refused.code, refused.details.as_ref());
            return Self::with(refused.code, &refused.code_name, &refused.message, details);
        }
        if let ErrorKind::Sequence(refused) = error.kind() {
            // Sequences have errors of SequoiaDB too. Its clients look for its numbers, MongoDB's drivers
            // ignore these fields.
            let details = doc! {
                "sequoiaCode": refused.sequoia_code(),
                "sequoiaName": refused.sequoia_name(),
            };
            return Self::with(refused.code(), refused.code_name(), refused.to_string(), Some(details));
        }
        // A write that was rejected as a command, a `findAndModify` for example, fails as a whole.
        if let ErrorKind::Write(cairndb::WriteFailure::WriteError(refused)) = error.kind() {
            let name = refused.code_name.as_deref().unwrap_or_default();
            let details = told(refused.code, refused.details.as_ref());
            return Self::with(refused.code, name, &refused.message, details);
        }
        Self::new(environment(error.kind()), error.to_string())
    }
}

/// The failure of a command, or of a batch of a cursor, that was asked to end.
impl From<Interruption> for Failure {
    fn from(reason: Interruption) -> Self {
        if reason == Interruption::CursorKilled {
            let message = "operation was interrupted because the cursor was killed";
            return Self::new(Code::CURSOR_KILLED, message);
        }
        Error::from(reason).into()
    }
}

impl From<cairndb::bson::error::Error> for Failure {
    fn from(error: cairndb::bson::error::Error) -> Self {
        Self::invalid_bson(error.to_string())
    }
}

/// The details of an error as fields of a reply: those of an invalid document are in `errInfo`, as in MongoDB.
fn told(code: i32, details: Option<&Document>) -> Option<Document> {
    let details = details?.clone();
    Some(if Code::DOCUMENT_VALIDATION_FAILURE == code {
        doc! { "errInfo": details }
    } else {
        details
    })
}

/// The number of an error that is not the caller's mistake. The kinds are open-ended; one without a number of
/// its own is an internal error.
fn environment(kind: &ErrorKind) -> Code {
    // No `match`: the kinds are `non_exhaustive`, and a wildcard arm would hide which ones have a number.
    if matches!(kind, ErrorKind::InvalidArgument { .. }) {
        Code::BAD_VALUE
    } else if matches!(kind, ErrorKind::Bson(_)) {
        Code::INVALID_BSON
    } else if matches!(kind, ErrorKind::ReadOnly) {
        Code::ILLEGAL_OPERATION
    } else if matches!(kind, ErrorKind::NoSpace { .. }) {
        Code::OUT_OF_DISK_SPACE
    } else if let ErrorKind::ExactlyOnce(refusal) = kind {
        refusal.code()
    } else if matches!(kind, ErrorKind::Transaction { .. }) {
        // The only one that a client can meet: as many are open as there may be.
        Code::TOO_MANY_LOGICAL_SESSIONS
    } else if matches!(kind, ErrorKind::Closed) {
        Code::SHUTDOWN_IN_PROGRESS
    } else {
        Code::INTERNAL_ERROR
    }
}
