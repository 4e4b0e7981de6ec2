//! States that snapshot sessions read: kept for the reads that ask for their time again.
//!
//! A state keeps what was deleted and overwritten since, so there are few, and none is kept for long.

use std::time::{Duration, Instant};

use cairndb::ClientSession;
use parking_lot::Mutex;

use crate::portions::{Portion, TableEntry, given_up};

/// The highest number of states. One more ends the oldest of the user who has most.
const KEPT_MAX: usize = 64;
/// The time for which a state is kept.
const TIME: Duration = Duration::from_secs(300);

/// The states that are kept.
#[derive(Default)]
pub(crate) struct Snapshots {
    kept: Mutex<Vec<KeptState>>,
}

struct KeptState {
    /// Keeps the state.
    session: ClientSession,
    user: Option<String>,
    portion: Portion,
    since: Instant,
}

impl Snapshots {
    /// Keeps the state of a session. Returns those that go for it, which the caller drops.
    #[must_use = "dropping it releases the states, which may take a while"]
    pub(crate) fn keep(
        &self,
        session: ClientSession,
        user: Option<String>,
        portion: Portion,
    ) -> Vec<ClientSession> {
        let mut kept = self.kept.lock();
        let mut ended = Vec::new();
        if kept.len() >= KEPT_MAX {
            let entries = kept.iter().enumerate().map(|(place, state)| TableEntry {
                key: place,
                user: &state.user,
                portion: state.portion,
                used: Some(state.since),
            });
            let mut places = given_up(entries);
            // From the last on, so that the places before stay what they are.
            places.sort_unstable_by(|one, other| other.cmp(one));
            ended.extend(places.into_iter().map(|place| kept.swap_remove(place).session));
        }
        kept.push(KeptState { session, user, portion, since: Instant::now() });
        ended
    }

    /// The states that were kept for long enough. The caller drops them.
    #[must_use = "dropping it releases the states, which may take a while"]
    pub(crate) fn expire(&self) -> Vec<ClientSession> {
        self.end(|state| state.since.elapsed() >= TIME)
    }

    /// All states. The caller drops them.
    #[must_use = "dropping it releases the states, which may take a while"]
    pub(crate) fn end_all(&self) -> Vec<ClientSession> {
        self.end(|_| true)
    }

    fn end(&self, is_over: impl Fn(&KeptState) -> bool) -> Vec<ClientSession> {
        self.kept.lock().extract_if(.., |state| is_over(state)).map(|state| state.session).collect()
    }
}
