//! Retryable writes: commands with a number and without a transaction, which a driver may send again. The engine knows what they are
//! answered from.

use cairndb::{CommandRules, RetryableWrite};
use query::code::Code;
use sha2::{Digest, Sha256};

use crate::auth::users::DATABASE;
use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::transaction::Purpose;

/// The number of bytes of the digest of a user's name that distinguish sessions of two users with the same id.
const USER_BYTES: usize = 16;

/// Rejects a number for any other command.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    let name = call.command.name();
    if cairndb::command_rules(name).is_some_and(CommandRules::is_retryable) {
        return Ok(());
    }
    // MongoDB's words.
    let message = format!("It is illegal to provide a txnNumber for command {name}");
    Err(Failure::new(Code::INVALID_OPTIONS, message))
}

/// The write that the command is, if it may be sent again.
pub(super) fn write(call: &Call) -> Result<Option<RetryableWrite>, Failure> {
    match call.numbered {
        Some(numbered) if numbered.purpose == Purpose::Write => {
            numbered_write(call, numbered.number).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// By what the engine knows the number of a session.
pub(super) fn numbered_write(call: &Call, number: i64) -> Result<RetryableWrite, Failure> {
    let session = call.session()?;
    let session = session.ok_or_else(|| Failure::internal("a numbered command has a session"))?;
    let mut user = [0; USER_BYTES];
    if let Some(name) = &session.user {
        let digest = Sha256::digest(format!("{name}@{DATABASE}"));
        for (byte, of_digest) in user.iter_mut().zip(digest) {
            *byte = of_digest;
        }
    }
    Ok(RetryableWrite::new(session.id, user, number))
}
