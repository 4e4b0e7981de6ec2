//! Errors of MongoDB's driver as the tool reports them.

use cairndb::bson::Document;
use mongodb::error::{Error, ErrorKind};
use query::code::Code;

use crate::failure::{Exit, Failure};

/// The answer of a store that is open for reading to a write.
const READ_ONLY: &str = "the database was opened read-only";

/// The failure of what a server has rejected. A rejected command has its code and the whole reply.
pub(super) fn refusal(error: &Error) -> Failure {
    if let ErrorKind::Command(command) = error.kind.as_ref() {
        // The same words as of a folder, which is not a server's choice.
        let hint = if Code::ILLEGAL_OPERATION == command.code && command.message == READ_ONLY {
            "; give a server that was started without --read-only, or the folder"
        } else {
            ""
        };
        let reply = error.server_response().and_then(|reply| Document::try_from(reply).ok());
        return Failure {
            code: Some(command.code),
            details: reply.map(Box::new),
            ..Failure::new(Exit::Failed, format!("{}{hint}", command.message))
        };
    }
    Failure::new(Exit::Failed, reason(error))
}

/// The reason why a server does not answer, or another message of the driver.
pub(super) fn reason(error: &Error) -> String {
    if let ErrorKind::Io(error) = error.kind.as_ref() {
        return error.to_string();
    }
    if let ErrorKind::ServerSelection { message, .. } = error.kind.as_ref() {
        return innermost(message).unwrap_or("it does not answer").to_owned();
    }
    let told = error.kind.to_string();
    innermost(&told).unwrap_or(&told).to_owned()
}

/// The driver's texts have the errors of connections within them, each as `Kind: …, labels: …`. The last one is the cause.
fn innermost(told: &str) -> Option<&str> {
    let (_, last) = told.rsplit_once("Kind: ")?;
    let cause = last.split(", labels: ").next().unwrap_or(last);
    Some(cause.strip_prefix("I/O error: ").unwrap_or(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_without_what_the_driver_has_around_it() {
        let selection = "Server selection timeout: No available servers. Topology: { Type: Unknown, Servers: [ { Address: \
                         a:1, Type: Unknown, Error: Kind: I/O error: Connection refused (os error 111), labels: {} } ] }";
        assert_eq!(innermost(selection), Some("Connection refused (os error 111)"));
        let cleared = "Connection pool for a:1 cleared because another operation failed with: Kind: An error occurred when \
                       trying to execute a write operation: x, labels: {\"RetryableWriteError\"}, source: None";
        assert_eq!(innermost(cleared), Some("An error occurred when trying to execute a write operation: x"));
        assert_eq!(innermost("Server selection timeout: No available servers."), None);
    }
}
