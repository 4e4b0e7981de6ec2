//! Errors of MongoDB's driver as the tool's failures.

use cairndb::bson::Document;
use mongodb::error::{Error, ErrorKind};

use crate::failure::{Exit, Failure};

/// The failure that an error of the driver is. A refused command has its code and the whole reply.
pub(super) fn failure(error: &Error) -> Failure {
    let told = error.kind.to_string();
    if let ErrorKind::Command(command) = error.kind.as_ref() {
        let reply = error.server_response().and_then(|reply| Document::try_from(reply).ok());
        return Failure {
            code: Some(command.code),
            details: reply.map(Box::new),
            ..Failure::new(Exit::Failed, command.message.clone())
        };
    }
    if let ErrorKind::ServerSelection { .. } = error.kind.as_ref() {
        return Failure::new(Exit::NoStore, format!("no server can be reached: {told}"));
    }
    Failure::new(Exit::Failed, told)
}
