//! Sessions: when something was last heard of each.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cairndb::bson::{RawBsonRef, RawDocument};
use parking_lot::Mutex;

use crate::failure::Failure;

/// The 16 bytes that a driver made for a session.
pub(crate) type SessionId = [u8; 16];

/// All sessions.
pub(crate) struct Sessions {
    table: Mutex<HashMap<SessionId, Instant>>,
    sessions_max: usize,
}

impl Sessions {
    pub(crate) fn new(sessions_max: usize) -> Self {
        Self { table: Mutex::default(), sessions_max }
    }

    /// Notes that something was heard of a session; one that is not known begins.
    pub(crate) fn touch(&self, id: SessionId) -> Result<(), Failure> {
        let mut table = self.table.lock();
        if table.len() >= self.sessions_max && !table.contains_key(&id) {
            let message = format!("there are {} sessions, which is the limit", self.sessions_max);
            return Err(Failure::new(261, "TooManyLogicalSessions", message));
        }
        table.insert(id, Instant::now());
        Ok(())
    }

    pub(crate) fn end(&self, ids: &[SessionId]) {
        let mut table = self.table.lock();
        for id in ids {
            table.remove(id);
        }
    }

    pub(crate) fn end_all(&self) {
        self.table.lock().clear();
    }

    /// Forgets the sessions that nothing was heard of for so long, and names them.
    pub(crate) fn expire(&self, timeout: Duration) -> Vec<SessionId> {
        let mut table = self.table.lock();
        table.extract_if(|_, heard| heard.elapsed() >= timeout).map(|(id, _)| id).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().len()
    }
}

/// The id in `{id: <uuid>}`.
pub(crate) fn parse(session: &RawDocument) -> Result<SessionId, Failure> {
    let id = session.get("id")?;
    let bytes = id.and_then(RawBsonRef::as_binary).and_then(|binary| SessionId::try_from(binary.bytes).ok());
    bytes.ok_or_else(|| Failure::bad_value("a session is a document whose 'id' is a UUID of 16 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_expire() {
        let sessions = Sessions::new(2);
        sessions.touch([1; 16]).expect("room");
        sessions.touch([2; 16]).expect("room");
        sessions.touch([1; 16]).expect("it is there already");
        assert_eq!(sessions.touch([3; 16]).map_err(|failure| failure.code()), Err(261));
        sessions.end(&[[1; 16]]);
        sessions.touch([3; 16]).expect("room");
        assert_eq!(sessions.expire(Duration::from_secs(3600)), Vec::<SessionId>::new());
        assert_eq!(sessions.expire(Duration::ZERO).len(), 2);
        assert_eq!(sessions.len(), 0);
    }
}
