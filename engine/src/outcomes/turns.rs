//! Turns of sessions: one command of a session runs at a time, whichever server it came to.

use std::collections::HashMap;
use std::sync::Arc;

use base::error::Result;
use base::sync::{self, Mutex};
use query::operation::OperationContext;

use crate::outcomes::row::SessionKey;

/// The sessions whose commands run or wait now.
#[derive(Default)]
pub(crate) struct Turns {
    sessions: Mutex<HashMap<SessionKey, Arc<Mutex<()>>>>,
}

impl Turns {
    /// Runs a function while no other one of the session runs. Fails if the operation must end before its turn comes.
    pub(crate) fn alone<R>(
        &self,
        session: SessionKey,
        operation: &OperationContext,
        run: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let waited = Waited { turns: self, session, turn: self.turn(session) };
        let _alone = sync::lock_for(operation, &waited.turn)?;
        run()
    }

    /// Runs a function unless a command of the session runs.
    pub(crate) fn alone_if_free<R>(
        &self,
        session: SessionKey,
        run: impl FnOnce() -> Result<R>,
    ) -> Result<Option<R>> {
        let waited = Waited { turns: self, session, turn: self.turn(session) };
        let Some(_alone) = waited.turn.try_lock() else { return Ok(None) };
        run().map(Some)
    }

    fn turn(&self, session: SessionKey) -> Arc<Mutex<()>> {
        Arc::clone(self.sessions.lock().entry(session).or_default())
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.sessions.lock().len()
    }
}

/// A command that runs or waits. The last one of its session removes the turn from the table.
struct Waited<'a> {
    turns: &'a Turns,
    session: SessionKey,
    turn: Arc<Mutex<()>>,
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        let mut sessions = self.turns.sessions.lock();
        // Of the table and of this one. Others get theirs under the lock that is held.
        if Arc::strong_count(&self.turn) == 2 {
            sessions.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use query::operation::Allowance;

    use super::*;

    #[test]
    fn one_command_of_a_session_runs_at_a_time() {
        let (turns, unlimited) = (Turns::default(), OperationContext::unlimited());
        let [first, second] = [1, 2].map(|number| SessionKey::new([number; 16], [0; 16]));
        let hurried = || {
            OperationContext::new(Allowance { time: Some(Duration::from_millis(1)), ..Allowance::default() })
        };
        let nested = turns.alone(first, &unlimited, || {
            assert!(turns.alone(first, &hurried(), || Ok(())).is_err(), "its time is over");
            assert_eq!(turns.alone_if_free(first, || Ok(())).expect("no error"), None);
            turns.alone(second, &hurried(), || Ok(()))
        });
        nested.expect("another session has a turn of its own");
        assert_eq!(turns.alone_if_free(first, || Ok(7)).expect("free"), Some(7));
        assert_eq!(turns.len(), 0);
    }
}
