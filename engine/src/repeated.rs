//! Calls with tokens: what they are answered if they have happened before. What runs them otherwise is above.

use std::sync::Arc;

use base::error::Result;
use bson::Document;
use store::write::CommitLevel;

use crate::options::WriteConcern;
use crate::outcomes::once::{Call, Once};
use crate::outcomes::token::Token;
use crate::shared::{Caller, Shared};

/// What is known of a call before it is run.
pub(crate) enum Known {
    /// It has happened, and was answered this.
    Answered(Document),
    New(Arc<Once>),
}

/// Looks up whether a call has happened. Fails if its token is none, or was refused.
pub(crate) fn ask(
    shared: &Arc<Shared>,
    caller: &Caller,
    token: &Token,
    call: Call,
    concern: Option<&WriteConcern>,
) -> Result<Known> {
    token.check()?;
    // An invalid concern is the caller's mistake, and is reported whatever was stored before.
    shared.commit_level(concern)?;
    let answer = {
        let database = shared.store.enter()?;
        shared.store.admit_write()?;
        let operation = shared.plain_operation(caller, None);
        shared.tokens.prepare(shared.storage(&database), &operation)?;
        let once = Once::new(token.clone(), call, &shared.tokens);
        match once.look_up(&database)? {
            None => return Ok(Known::New(Arc::new(once))),
            Some(answer) => answer,
        }
    };
    settle(shared, concern)?;
    Ok(Known::Answered(answer))
}

/// What another call with the token was answered, if it came first while this one ran.
pub(crate) fn overtaken(
    shared: &Arc<Shared>,
    once: &Once,
    concern: Option<&WriteConcern>,
) -> Result<Option<Document>> {
    let Some(answer) = once.take_found() else { return Ok(None) };
    settle(shared, concern)?;
    Ok(Some(answer))
}

/// Waits until what the call is answered is as safe as it asks for, and counts it.
fn settle(shared: &Arc<Shared>, concern: Option<&WriteConcern>) -> Result<()> {
    if shared.commit_level(concern)? == CommitLevel::Journaled {
        let database = shared.store.enter()?;
        shared.store.sync_written(&database)?;
    }
    shared.tokens.note_replay();
    Ok(())
}
