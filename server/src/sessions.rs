//! Sessions: when each one was last used, and its transaction. As in MongoDB a session belongs to its user, so a command of one
//! user never reaches the session of another user, even if both choose the same id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairndb::bson::{RawBsonRef, RawDocument};
use parking_lot::{Mutex, MutexGuard};

use crate::failure::Failure;
use crate::portions::{Portion, TableEntry, given_up};
use crate::transaction::{NumberedSession, ShownTransaction, TransactionCounters};

/// The 16 bytes that a driver made for a session.
pub(crate) type SessionId = [u8; 16];

/// A session and its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// `None` for a connection without a login.
    pub(crate) user: Option<String>,
}

type Table = HashMap<Session, Heard>;

/// All sessions.
pub(crate) struct Sessions {
    table: Mutex<Table>,
    len_max: usize,
    pub(crate) transactions: Arc<TransactionCounters>,
}

/// The last use of a session, and its user.
struct Heard {
    at: Instant,
    portion: Portion,
    /// Its numbered commands, once it has sent one.
    numbered: Option<Arc<NumberedSession>>,
}

/// Sessions that were removed from the table. Their transactions are aborted when it is dropped.
#[must_use = "dropping it aborts transactions, which may take a while"]
pub(crate) struct EndedSessions {
    numbered: Vec<Arc<NumberedSession>>,
}

impl EndedSessions {
    /// Of sessions that were removed just now, under the lock of the table: no command of them begins any more.
    fn of(numbered: Vec<Arc<NumberedSession>>) -> Self {
        for session in &numbered {
            session.mark_ended();
        }
        Self { numbered }
    }

    /// Whether none of them has sent a numbered command.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbered.is_empty()
    }

    /// Aborts the transactions where it may be slow. Called in a task.
    pub(crate) fn end_elsewhere(self) {
        if !self.numbered.is_empty() {
            tokio::task::spawn_blocking(move || drop(self));
        }
    }
}

impl Drop for EndedSessions {
    fn drop(&mut self) {
        for session in &self.numbered {
            session.end();
        }
    }
}

impl Sessions {
    pub(crate) fn new(len_max: usize) -> Self {
        Self { table: Mutex::default(), len_max, transactions: Arc::default() }
    }

    /// Notes that a session is used now. An unknown session begins, and if there are too many, the oldest of the user who has
    /// most are forgotten for it: their cursors are then closed as those of ended sessions.
    pub(crate) fn touch(&self, session: Session, portion: Portion) -> EndedSessions {
        self.use_now(session, portion).0
    }

    /// The numbered commands of a session, which is used now.
    pub(crate) fn numbered(&self, session: Session, portion: Portion) -> Arc<NumberedSession> {
        let (ended, mut table) = self.use_now(session.clone(), portion);
        let numbered =
            table.entry(session).or_insert_with(|| Heard { at: Instant::now(), portion, numbered: None });
        let numbered = numbered.numbered.get_or_insert_with(|| NumberedSession::new(&self.transactions));
        let numbered = Arc::clone(numbered);
        drop(table);
        ended.end_elsewhere();
        numbered
    }

    fn use_now(&self, session: Session, portion: Portion) -> (EndedSessions, MutexGuard<'_, Table>) {
        let mut table = self.table.lock();
        let mut ended = Vec::new();
        if table.len() >= self.len_max && !table.contains_key(&session) {
            let entries = table.iter().map(|(session, heard)| TableEntry {
                key: session,
                user: &session.user,
                portion: heard.portion,
                used: Some(heard.at),
            });
            let forgotten: Vec<Session> = given_up(entries).into_iter().cloned().collect();
            for session in &forgotten {
                ended.extend(table.remove(session).and_then(|heard| heard.numbered));
            }
        }
        match table.get_mut(&session) {
            Some(heard) => (heard.at, heard.portion) = (Instant::now(), portion),
            None => drop(table.insert(session, Heard { at: Instant::now(), portion, numbered: None })),
        }
        (EndedSessions::of(ended), table)
    }

    /// Forgets these sessions. Others are not looked at, however many there are.
    pub(crate) fn end_each<'s>(&self, ended: impl IntoIterator<Item = &'s Session>) -> EndedSessions {
        let mut table = self.table.lock();
        let removed = ended.into_iter().filter_map(|session| table.remove(session)?.numbered);
        EndedSessions::of(removed.collect())
    }

    /// Forgets the sessions that `of` selects.
    pub(crate) fn end(&self, of: impl Fn(&Session) -> bool) -> EndedSessions {
        // A client may use an ended session again, as in MongoDB: its next command begins it again.
        self.extract(|session, _| of(session))
    }

    pub(crate) fn is_known(&self, session: &Session) -> bool {
        self.table.lock().contains_key(session)
    }

    /// Forgets the sessions that were not used for `timeout`.
    pub(crate) fn expire(&self, timeout: Duration) -> EndedSessions {
        self.extract(|_, heard| heard.at.elapsed() >= timeout)
    }

    fn extract(&self, of: impl Fn(&Session, &Heard) -> bool) -> EndedSessions {
        let mut table = self.table.lock();
        let removed = table.extract_if(|session, heard| of(session, heard));
        EndedSessions::of(removed.filter_map(|(_, heard)| heard.numbered).collect())
    }

    /// Aborts transactions that the engine has ended because their time was over. Returns their cursors.
    pub(crate) fn end_expired_transactions(&self) -> HashSet<i64> {
        if self.transactions.open.load(Ordering::Relaxed) == 0 {
            return HashSet::new();
        }
        // Not under the lock of the table: to abort needs a while.
        let numbered: Vec<_> =
            self.table.lock().values().filter_map(|heard| heard.numbered.clone()).collect();
        numbered.iter().flat_map(|session| session.end_expired()).collect()
    }

    /// The transactions that run no command now, up to `len_max` of them.
    pub(crate) fn idle_transactions(&self, len_max: usize) -> Vec<(Session, ShownTransaction)> {
        if self.transactions.open.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let table = self.table.lock();
        let idle =
            table.iter().filter_map(|(session, heard)| Some((session, heard.numbered.as_ref()?.idle()?)));
        idle.take(len_max).map(|(session, shown)| (session.clone(), shown)).collect()
    }

    /// The sessions that `of` selects, and how long ago each was used. Returns `None` if they are more than `len_max`.
    pub(crate) fn list(
        &self,
        len_max: usize,
        of: impl Fn(&Session) -> bool,
    ) -> Option<Vec<(Session, Duration)>> {
        let table = self.table.lock();
        let selected = || table.iter().filter(|(session, _)| of(session));
        let is_short = selected().nth(len_max).is_none();
        is_short.then(|| selected().map(|(session, heard)| (session.clone(), heard.at.elapsed())).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().len()
    }
}

/// Reads the id of `{id: <uuid>}`.
pub(crate) fn parse(session: &RawDocument) -> Result<SessionId, Failure> {
    let id = session.get("id")?;
    let bytes = id.and_then(RawBsonRef::as_binary).and_then(|binary| SessionId::try_from(binary.bytes).ok());
    bytes.ok_or_else(|| Failure::bad_value("a session is a document whose 'id' is a UUID of 16 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u8) -> Session {
        Session { id: [number; 16], user: None }
    }

    fn touch(sessions: &Sessions, number: u8) {
        drop(sessions.touch(session(number), Portion::OfRoot));
    }

    #[test]
    fn sessions_are_bounded_and_expire() {
        let sessions = Sessions::new(2);
        touch(&sessions, 1);
        touch(&sessions, 2);
        touch(&sessions, 1);
        // The oldest goes.
        touch(&sessions, 3);
        assert!(sessions.is_known(&session(1)) && !sessions.is_known(&session(2)));
        drop(sessions.end(|known| known.id == [1; 16]));
        drop(sessions.expire(Duration::from_secs(3600)));
        assert!(sessions.is_known(&session(3)) && !sessions.is_known(&session(1)));
        drop(sessions.expire(Duration::ZERO));
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn two_users_share_no_session() {
        let sessions = Sessions::new(10);
        let of_ada = Session { id: [1; 16], user: Some("ada".to_owned()) };
        drop(sessions.touch(of_ada.clone(), Portion::OfReader));
        assert!(sessions.is_known(&of_ada) && !sessions.is_known(&session(1)));
        drop(sessions.end_each(&[session(1)]));
        assert!(sessions.is_known(&of_ada));
        drop(sessions.end_each(&[session(2), of_ada.clone()]));
        assert!(!sessions.is_known(&of_ada));
    }

    #[test]
    fn a_list_is_whole_or_none() {
        let sessions = Sessions::new(10);
        for number in 0..5 {
            touch(&sessions, number);
        }
        let len = |len_max, of: fn(&Session) -> bool| sessions.list(len_max, of).map(|listed| listed.len());
        assert_eq!((len(4, |_| true), len(5, |_| true)), (None, Some(5)));
        assert_eq!((len(1, |known| known.id < [2; 16]), len(2, |known| known.id < [2; 16])), (None, Some(2)));
        assert_eq!(len(0, |_| false), Some(0));
    }
}
