//! Cursors between two batches: who may go on with them, and when they are let go.
//!
//! A cursor is taken out of the table while a batch is read, and its place is kept, so that a second `getMore` meets an
//! error, and a kill reaches it: the batch then fails, as a batch that was cut short must not look like the last one. A
//! cursor keeps a read state of the store, so their number is bounded. None outlives everything that could end it: one
//! without a timeout goes with its session, or with its connection if it has no session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairndb::bson::Document;
use cairndb::{CancellationToken, Cursor, Interruption};
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::reply::Batch;
use crate::sessions::Session;

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
    /// Shared with the walk, so that a kill reaches a batch that is being read.
    cancellation: CancellationToken,
}

/// Whose cursor it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// As replies name it.
    pub(crate) namespace: String,
    pub(crate) session: Option<Session>,
    /// The user who opened it.
    pub(crate) user: Option<String>,
    /// The number of the connection that it was opened by.
    pub(crate) connection: i32,
    /// Whether it may be idle for as long as its session lasts, or its connection if it has no session.
    pub(crate) stays: bool,
}

/// Who asks for a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) session: Option<Session>,
    pub(crate) user: Option<String>,
}

/// A cursor and whether it stands on a document that no batch had room for.
pub(crate) struct Walk {
    cursor: Cursor<Document>,
    is_standing: bool,
    cancellation: CancellationToken,
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
    places: Vec<Place>,
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
    /// The cursor of a command that the token ends, and so does every batch that is read later.
    pub(crate) fn new(cursor: Cursor<Document>, cancellation: CancellationToken) -> Self {
        Self { cursor, is_standing: false, cancellation }
    }

    /// Reads into a batch until it has `len` documents, or no room; whether the cursor is at its end. Fails with the
    /// next document once the cursor is killed.
    pub(crate) fn fill(&mut self, batch: &mut Batch, len: Option<u64>) -> Result<bool, Failure> {
        loop {
            if let Some(reason) = self.cancellation.reason() {
                return Err(ended(reason));
            }
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
    pub(crate) fn keep(&self, owner: Owner, mut walk: Walk) -> Result<i64, Failure> {
        walk.cursor.rest();
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
        let cancellation = walk.cancellation.clone();
        table.places.insert(id, Place { owner, used: Instant::now(), idle: Some(walk), cancellation });
        Ok(id)
    }

    /// Takes a cursor to read a batch.
    pub(crate) fn take(
        self: &Arc<Self>,
        id: i64,
        namespace: &str,
        caller: &Caller,
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
        if place.owner.session != caller.session {
            let message = format!("cursor id {id} was not opened in the session of the getMore");
            return Err(Failure::new(50_738, "Location50738", message));
        }
        if place.owner.user != caller.user {
            let message = format!("cursor id {id} was not created by the authenticated user");
            return Err(Failure::new(13, "Unauthorized", message));
        }
        let in_use = || Failure::new(12_051, "CursorInUse", format!("cursor id {id} is already in use"));
        let walk = place.idle.take().ok_or_else(in_use)?;
        Ok(Taken { cursors: Arc::clone(self), id, walk: Some(walk) })
    }

    /// Ends cursors by number, if `may_end` allows it for each of them. The batch of one that is in use fails.
    pub(crate) fn kill(
        &self,
        ids: &[i64],
        may_end: impl Fn(&Owner) -> Result<(), Failure>,
    ) -> Result<Killed, Failure> {
        let mut outcome = Killed::default();
        let mut ended = Vec::new();
        let mut table = self.table.lock();
        // All or none: a refusal in the middle would leave the caller without the list of those that ended.
        ids.iter().filter_map(|id| table.places.get(id)).try_for_each(|place| may_end(&place.owner))?;
        for &id in ids {
            match table.places.remove(&id) {
                Some(place) => {
                    ended.push(place.end());
                    outcome.killed.push(id);
                }
                None => outcome.not_found.push(id),
            }
        }
        // What a cursor holds of the store is let go without the table's lock.
        drop(table);
        drop(ended);
        Ok(outcome)
    }

    /// Ends the cursors that `of` says, and gives how many.
    pub(crate) fn kill_where(&self, of: impl Fn(&Owner) -> bool) -> usize {
        self.extract(|place| of(&place.owner)).len()
    }

    /// Takes out the cursors that were idle for `timeout`, and those of sessions that `is_known` does not know. Dropping
    /// what they hold of the store is the caller's to do, where it may take a while.
    pub(crate) fn expire(&self, timeout: Duration, is_known: impl Fn(&Session) -> bool) -> Ended {
        let mut places = self
            .extract(|place| place.idle.is_some() && !place.owner.stays && place.used.elapsed() >= timeout);
        if !places.is_empty() {
            self.table.lock().timed_out += places.len() as u64;
            tracing::info!(cursors = places.len(), "ended cursors that were idle for too long");
        }
        // A session may have been ended while a cursor was being opened in it, so it is asked of every cursor.
        places.extend(
            self.extract(|place| place.owner.session.as_ref().is_some_and(|session| !is_known(session))),
        );
        Ended { places }
    }

    fn extract(&self, of: impl Fn(&Place) -> bool) -> Vec<Place> {
        let mut table = self.table.lock();
        table.places.extract_if(|_, place| of(place)).map(|(_, place)| place.end()).collect()
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

impl Place {
    /// Tells the batch that is being read, if there is one.
    fn end(self) -> Self {
        self.cancellation.cancel_because(Interruption::CursorKilled);
        self
    }
}

impl Taken {
    pub(crate) fn walk(&mut self) -> &mut Walk {
        self.walk.as_mut().expect("it is there until it is given back")
    }

    /// What ends the cursor, and the batch that is read of it.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.walk.as_ref().expect("it is there until it is given back").cancellation
    }

    /// Puts the cursor back for the next batch, unless it was ended meanwhile. It holds no memory of the store while it
    /// waits.
    pub(crate) fn give_back(mut self) -> Result<(), Failure> {
        if let Some(walk) = &mut self.walk {
            walk.cursor.rest();
        }
        let mut table = self.cursors.table.lock();
        // A place with this number is the cursor's own, as long as the cursor was not killed.
        let reason = self.cancellation().reason();
        let place = table.places.get_mut(&self.id).filter(|_| reason.is_none());
        let Some(place) = place else {
            drop(table);
            return Err(ended(reason.unwrap_or(Interruption::CursorKilled)));
        };
        place.used = Instant::now();
        place.idle = self.walk.take();
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.walk.is_some() {
            self.cursors.table.lock().places.remove(&self.id);
        }
    }
}

fn ended(reason: Interruption) -> Failure {
    if reason == Interruption::CursorKilled {
        return Failure::new(237, "CursorKilled", "operation was interrupted because the cursor was killed");
    }
    cairndb::Error::from(reason).into()
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
    use crate::limits::Budget;
    use crate::reply::BatchName;

    fn owner(session: Option<u8>, stays: bool) -> Owner {
        let session = session.map(|number| Session { id: [number; 16], user: None });
        Owner { namespace: "shop.things".to_owned(), session, user: None, connection: 1, stays }
    }

    fn caller() -> Caller {
        Caller { session: None, user: None }
    }

    fn walk(folder: &tempfile::TempDir) -> Walk {
        let client = Client::open(folder.path().join("db")).expect("a store");
        let things = client.database("shop").collection::<Document>("things");
        let ids = (0..10).map(|id| cairndb::bson::doc! { "_id": id });
        things.insert_many(ids).run().expect("inserted");
        Walk::new(things.find(Document::new()).run().expect("a cursor"), CancellationToken::new())
    }

    fn code<T>(outcome: Result<T, Failure>) -> Option<i32> {
        outcome.err().map(|failure| failure.code())
    }

    #[test]
    fn a_sweep_takes_what_is_late_or_whose_session_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::open(folder.path().join("db")).expect("a store");
        let things = client.database("shop").collection::<Document>("things");
        let cursors = Cursors::new(10);
        let open = |session: Option<u8>, stays: bool| {
            let cursor = things.find(Document::new()).run().expect("a cursor");
            cursors.keep(owner(session, stays), Walk::new(cursor, CancellationToken::new())).expect("room")
        };
        let (late, staying, _over) = (open(None, false), open(Some(1), true), open(Some(2), true));
        assert!(cursors.expire(Duration::from_secs(3600), |_| true).is_empty());
        assert_eq!(cursors.expire(Duration::ZERO, |session| session.id == [1; 16]).places.len(), 2);
        assert_eq!(cursors.counts().timed_out, 1);
        let killed = cursors.kill(&[late, staying], |_| Ok(())).expect("allowed");
        assert_eq!(killed, Killed { killed: vec![staying], not_found: vec![late] });
    }

    /// A cursor that was killed while its batch was read once ended the batch like the last one: the reader took a part
    /// of the documents for all of them.
    #[test]
    fn the_batch_of_a_killed_cursor_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursors = Arc::new(Cursors::new(10));
        let id = cursors.keep(owner(None, false), walk(&folder)).expect("room");
        let mut taken = cursors.take(id, "shop.things", &caller()).expect("there");
        let mut batch = Batch::new(BatchName::Next, &Budget::new(1 << 20));
        assert_eq!(taken.walk().fill(&mut batch, Some(3)), Ok(false));
        cursors.kill(&[id], |_| Ok(())).expect("allowed");
        assert_eq!(code(taken.walk().fill(&mut batch, Some(9))), Some(237));
        assert_eq!(batch.len(), 3);
        assert_eq!(code(taken.give_back()), Some(237));
        assert_eq!(code(cursors.take(id, "shop.things", &caller()).map(drop)), Some(43));
    }

    #[test]
    fn a_kill_that_is_refused_ends_no_cursor() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursors = Arc::new(Cursors::new(10));
        let id = cursors.keep(owner(None, false), walk(&folder)).expect("room");
        let refused = cursors.kill(&[5, id], |_| Err(Failure::bad_value("no")));
        assert_eq!(refused, Err(Failure::bad_value("no")));
        assert!(cursors.take(id, "shop.things", &caller()).is_ok());
    }
}
