//! Cursors between two batches: who may go on with them, and when they are let go.
//!
//! A cursor is taken out of the table while a batch is read, and its place is kept, so that a second `getMore` meets an
//! error, and a kill reaches it. A cursor keeps a read state of the store, so their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairndb::Cursor;
use cairndb::bson::Document;
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::reply::Batch;
use crate::sessions::SessionId;

/// All open cursors.
pub(crate) struct Cursors {
    table: Mutex<Table>,
    cursors_max: usize,
}

#[derive(Default)]
struct Table {
    places: HashMap<i64, Place>,
    timed_out: u64,
}

struct Place {
    owner: Owner,
    used: Instant,
    /// Absent while a batch is read.
    idle: Option<Walk>,
}

/// Whose cursor it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// As replies name it.
    pub(crate) namespace: String,
    pub(crate) session: Option<SessionId>,
    /// The user who opened it.
    pub(crate) user: Option<String>,
    /// Whether it may be idle for as long as its session lasts.
    pub(crate) stays: bool,
}

/// A cursor and whether it stands on a document that no batch had room for.
pub(crate) struct Walk {
    cursor: Cursor<Document>,
    is_standing: bool,
}

/// A cursor that is in use. Unless it is given back, it is gone.
pub(crate) struct Taken {
    cursors: Arc<Cursors>,
    id: i64,
    walk: Option<Walk>,
}

/// Cursors that ended and were not let go yet.
#[must_use = "dropping it lets the cursors go"]
pub(crate) struct Ended {
    places: Vec<(i64, Place)>,
}

impl Ended {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// What became of the cursors that were to be killed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) killed: Vec<i64>,
    pub(crate) not_found: Vec<i64>,
}

/// How many cursors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) open: u64,
    pub(crate) in_use: u64,
    pub(crate) without_timeout: u64,
    pub(crate) timed_out: u64,
}

impl Walk {
    pub(crate) fn new(cursor: Cursor<Document>) -> Self {
        Self { cursor, is_standing: false }
    }

    /// Reads into a batch until it has `len` documents, or no room; whether the cursor is at its end.
    pub(crate) fn fill(&mut self, batch: &mut Batch, len: Option<u64>) -> cairndb::Result<bool> {
        loop {
            if len.is_some_and(|len| batch.len() >= len) {
                return Ok(!self.is_standing && self.cursor.is_exhausted());
            }
            if !self.is_standing && !self.cursor.advance()? {
                return Ok(true);
            }
            self.is_standing = true;
            let document = self.cursor.current();
            if !batch.has_room(document.as_bytes().len()) {
                return Ok(false);
            }
            batch.push(document);
            self.is_standing = false;
        }
    }
}

impl Cursors {
    pub(crate) fn new(cursors_max: usize) -> Self {
        Self { table: Mutex::default(), cursors_max }
    }

    /// Keeps a cursor; gives its number, which is never 0.
    pub(crate) fn keep(&self, owner: Owner, walk: Walk) -> Result<i64, Failure> {
        let mut table = self.table.lock();
        if table.places.len() >= self.cursors_max {
            let message = format!("there are {} open cursors, which is the limit", self.cursors_max);
            return Err(Failure::new(146, "ExceededMemoryLimit", message));
        }
        let id = loop {
            let id = (random() >> 1).cast_signed();
            if id != 0 && !table.places.contains_key(&id) {
                break id;
            }
        };
        table.places.insert(id, Place { owner, used: Instant::now(), idle: Some(walk) });
        Ok(id)
    }

    /// Takes a cursor to read a batch.
    pub(crate) fn take(
        self: &Arc<Self>,
        id: i64,
        namespace: &str,
        session: Option<SessionId>,
        user: Option<&str>,
    ) -> Result<Taken, Failure> {
        let mut table = self.table.lock();
        let not_found = || Failure::new(43, "CursorNotFound", format!("cursor id {id} not found"));
        let place = table.places.get_mut(&id).ok_or_else(not_found)?;
        if place.owner.namespace != namespace {
            let owned = &place.owner.namespace;
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {owned}"
            );
            return Err(Failure::new(13, "Unauthorized", message));
        }
        if place.owner.session != session {
            let message = format!("cursor id {id} was not opened in the session of the getMore");
            return Err(Failure::new(50_738, "Location50738", message));
        }
        if place.owner.user.as_deref() != user {
            let message = format!("cursor id {id} was not created by the authenticated user");
            return Err(Failure::new(13, "Unauthorized", message));
        }
        let in_use = || Failure::new(12_051, "CursorInUse", format!("cursor id {id} is already in use"));
        let walk = place.idle.take().ok_or_else(in_use)?;
        Ok(Taken { cursors: Arc::clone(self), id, walk: Some(walk) })
    }

    /// Ends cursors by number. One that is in use ends with its batch.
    pub(crate) fn kill(&self, ids: &[i64]) -> Killed {
        let mut outcome = Killed::default();
        let mut dropped = Vec::new();
        let mut table = self.table.lock();
        for &id in ids {
            match table.places.remove(&id) {
                Some(place) => {
                    dropped.push(place);
                    outcome.killed.push(id);
                }
                None => outcome.not_found.push(id),
            }
        }
        // What a cursor holds of the store is let go without the table's lock.
        drop(table);
        drop(dropped);
        outcome
    }

    /// Ends the cursors that `of` says, and gives how many.
    pub(crate) fn kill_where(&self, of: impl Fn(&Owner) -> bool) -> usize {
        let dropped: Vec<_> = self.table.lock().places.extract_if(|_, place| of(&place.owner)).collect();
        dropped.len()
    }

    /// Takes out the cursors that were idle for so long, and those of sessions that are over. Dropping what they hold of
    /// the store is the caller's to do, where it may take a while.
    pub(crate) fn expire(&self, timeout: Duration, over: &[SessionId]) -> Ended {
        let is_late =
            |place: &Place| place.idle.is_some() && !place.owner.stays && place.used.elapsed() >= timeout;
        let mut table = self.table.lock();
        let mut ended: Vec<_> = table.places.extract_if(|_, place| is_late(place)).collect();
        table.timed_out += ended.len() as u64;
        if !ended.is_empty() {
            tracing::info!(cursors = ended.len(), "ended cursors that were idle for too long");
        }
        if !over.is_empty() {
            let is_over = |place: &Place| place.owner.session.is_some_and(|session| over.contains(&session));
            ended.extend(table.places.extract_if(|_, place| is_over(place)));
        }
        Ended { places: ended }
    }

    pub(crate) fn counts(&self) -> Counts {
        let table = self.table.lock();
        let count = |of: fn(&Place) -> bool| table.places.values().filter(|place| of(place)).count() as u64;
        Counts {
            open: table.places.len() as u64,
            in_use: count(|place| place.idle.is_none()),
            without_timeout: count(|place| place.owner.stays),
            timed_out: table.timed_out,
        }
    }
}

impl Taken {
    pub(crate) fn walk(&mut self) -> &mut Walk {
        self.walk.as_mut().expect("it is there until it is given back")
    }

    /// Puts the cursor back for the next batch; `false` if it was killed meanwhile.
    pub(crate) fn give_back(mut self) -> bool {
        let mut table = self.cursors.table.lock();
        let Some(place) = table.places.get_mut(&self.id) else { return false };
        place.used = Instant::now();
        place.idle = self.walk.take();
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.walk.is_some() {
            self.cursors.table.lock().places.remove(&self.id);
        }
    }
}

/// Bits that nobody can foresee.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|error| {
        tracing::warn!(%error, "the system has no random numbers; the clock has to do");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_secs() << 30 | u64::from(now.subsec_nanos()))
    })
}

#[cfg(test)]
mod tests {
    use cairndb::Client;

    use super::*;

    #[test]
    fn a_sweep_takes_what_is_late_or_whose_session_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("a store");
        let things = client.database("shop").collection::<Document>("things");
        let cursors = Cursors::new(10);
        let open = |session: Option<SessionId>, stays: bool| {
            let cursor = things.find(Document::new()).run().expect("a cursor");
            let owner = Owner { namespace: "shop.things".to_owned(), session, user: None, stays };
            cursors.keep(owner, Walk::new(cursor)).expect("room")
        };
        let (first, second) = ([1; 16], [2; 16]);
        let (late, staying, _over) = (open(None, false), open(Some(first), true), open(Some(second), true));
        assert!(cursors.expire(Duration::from_secs(3600), &[]).is_empty());
        assert_eq!(cursors.expire(Duration::ZERO, &[second]).places.len(), 2);
        assert_eq!(cursors.counts().timed_out, 1);
        assert_eq!(cursors.kill(&[late, staying]), Killed { killed: vec![staying], not_found: vec![late] });
    }
}
