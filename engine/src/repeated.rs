//! Calls with tokens: what they are answered if they have happened before. What runs them otherwise is above.

use std::sync::Arc;

use base::error::Result;

use crate::options::WriteConcern;
use crate::outcomes::once::{Call, Found, Once};
use crate::outcomes::token::Token;
use crate::shared::{Caller, Shared};

/// A call as it is known before it is run.
pub(crate) enum Known {
    /// It has happened, and was answered this.
    Answered(Found),
    New(Arc<Once>),
}

/// Looks up whether a call has happened. Fails if its token is none, or was rejected.
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
        let prepared = shared.tokens.prepare(shared.storage(&database), &operation);
        let once = Once::new(token.clone(), call, &shared.tokens);
        match once.look_up(&database)? {
            None => {
                prepared?;
                return Ok(Known::New(Arc::new(once)));
            }
            // In a full folder no new generation begins, and what is known is known.
            Some(answer) => answer,
        }
    };
    settle(shared, concern)?;
    Ok(Known::Answered(answer))
}

/// The answer of another call with the token, if it came first while this one ran. `has_failed` says that this one was rejected or
/// failed.
pub(crate) fn overtaken(
    shared: &Arc<Shared>,
    once: &Once,
    has_failed: bool,
    concern: Option<&WriteConcern>,
) -> Result<Option<Found>> {
    if has_failed && !once.is_stored() {
        // It may have met the effect of the other call: an `_id` that is in use, for example. That one's row came with it.
        look_again(shared, once)?;
    }
    let Some(answer) = once.take_found() else { return Ok(None) };
    settle(shared, concern)?;
    Ok(Some(answer))
}

/// Looks up a token whose call has failed. Fails if it is another call's by now.
fn look_again(shared: &Arc<Shared>, once: &Once) -> Result<()> {
    // A store that is closed says nothing, and then the error of the call stands.
    let Ok(database) = shared.store.enter() else { return Ok(()) };
    match once.refuse_second(&database) {
        Err(error) if !once.has_found() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Waits until what the call is answered is as safe as it asks for, and counts it. The row may be that of the call itself, which was
/// written and did not get as far as it should.
fn settle(shared: &Arc<Shared>, concern: Option<&WriteConcern>) -> Result<()> {
    let level = shared.commit_level(concern)?;
    let database = shared.store.enter()?;
    shared.store.reach(&database, level)?;
    drop(database);
    shared.tokens.note_replay();
    Ok(())
}
