//! Errors of MongoDB's driver as the tool's failures.

use cairndb::bson::Document;
use mongodb::error::{Error, ErrorKind};
use query::code::Code;

use crate::failure::{Exit, Failure};

/// What a store that is open for reading says to a write.
const READ_ONLY: &str = "the database was opened read-only";

/// The failure that an error of the driver is. A refused command has its code and the whole reply.
pub(super) fn failure(error: &Error) -> Failure {
    let told = error.kind.to_string();
    if let ErrorKind::Command(command) = error.kind.as_ref() {
        // The same words as of a folder, which is no server's choice.
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
    if let ErrorKind::ServerSelection { .. } = error.kind.as_ref() {
        return Failure::new(Exit::NoStore, format!("no server can be reached: {told}"));
    }
    Failure::new(Exit::Failed, told)
}
