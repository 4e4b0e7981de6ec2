//! What a command is refused for, as a reply has it.

use cairndb::bson::{Document, doc};
use cairndb::{Error, ErrorKind};

/// A refusal. One word wide, as it is returned everywhere and hardly ever met.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    refusal: Box<Refusal>,
}

/// MongoDB's number, its name, a sentence, and what else stands beside them.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    code: i32,
    name: String,
    message: String,
    details: Document,
}

impl Failure {
    pub(crate) fn new(code: i32, name: &str, message: impl Into<String>) -> Self {
        Self::with(code, name, message, None)
    }

    fn with(code: i32, name: &str, message: impl Into<String>, details: Option<Document>) -> Self {
        let details = details.unwrap_or_default();
        Self { refusal: Box::new(Refusal { code, name: name.to_owned(), message: message.into(), details }) }
    }

    /// The same with another field in the reply.
    pub(crate) fn beside(mut self, field: &str, value: impl Into<cairndb::bson::Bson>) -> Self {
        self.refusal.details.insert(field, value);
        self
    }

    /// Its number.
    pub(crate) fn code(&self) -> i32 {
        self.refusal.code
    }

    /// The reply.
    pub(crate) fn into_document(self) -> Document {
        let Refusal { code, name, message, details } = *self.refusal;
        let mut reply = doc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": name };
        reply.extend(details);
        reply
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, "BadValue", message)
    }

    pub(crate) fn invalid_bson(message: impl Into<String>) -> Self {
        Self::new(22, "InvalidBSON", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(1, "InternalError", message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let ErrorKind::Command(refused) = error.kind() {
            let details = refused.details.clone();
            return Self::with(refused.code, &refused.code_name, &refused.message, details);
        }
        if let ErrorKind::Sequence(refused) = error.kind() {
            let details = doc! {
                "sequoiaCode": refused.sequoia_code(),
                "sequoiaName": refused.sequoia_name(),
            };
            return Self::with(refused.code(), refused.code_name(), refused.to_string(), Some(details));
        }
        if let ErrorKind::Write(cairndb::WriteFailure::WriteError(refused)) = error.kind() {
            let name = refused.code_name.as_deref().unwrap_or_default();
            return Self::with(refused.code, name, &refused.message, refused.details.clone());
        }
        let (code, name) = environment(error.kind());
        Self::new(code, name, error.to_string())
    }
}

impl From<cairndb::bson::error::Error> for Failure {
    fn from(error: cairndb::bson::error::Error) -> Self {
        Self::invalid_bson(error.to_string())
    }
}

/// What is nobody's refusal. The kinds are open-ended; what has no number of its own is an internal error.
fn environment(kind: &ErrorKind) -> (i32, &'static str) {
    if matches!(kind, ErrorKind::InvalidArgument { .. }) {
        (2, "BadValue")
    } else if matches!(kind, ErrorKind::Bson(_)) {
        (22, "InvalidBSON")
    } else if matches!(kind, ErrorKind::ReadOnly) {
        (20, "IllegalOperation")
    } else if matches!(kind, ErrorKind::NoSpace { .. }) {
        (14_031, "OutOfDiskSpace")
    } else if matches!(kind, ErrorKind::Closed) {
        (91, "ShutdownInProgress")
    } else {
        (1, "InternalError")
    }
}
