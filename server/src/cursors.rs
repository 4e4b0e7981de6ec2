//! Cursors between two batches: who may continue them, and when they are closed.
//!
//! A cursor stays in the table while a batch is read from it, so that a second `getMore` gets an error and a
//! kill reaches the cursor. The batch then fails, because a batch that was cut short must not look like the
//! last one. A cursor holds a snapshot of the store, so the number of cursors is bounded. Every cursor can
//! expire: one without a timeout is closed with its session, or with its connection if it has no session.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, RawDocument};
use cairndb::{CancellationToken, Cursor, Interruption, WaitingCursor, WakeOnCancel};
use parking_lot::Mutex;
use query::code::Code;

use crate::failure::Failure;
use crate::portions::{Portion, TableEntry, given_up};
use crate::reply::CursorBatch;
use crate::sessions::Session;

/// All open cursors of the server.
pub(crate) struct Cursors {
    table: Mutex<CursorTable>,
    cursors_max: usize,
}

#[derive(Default)]
struct CursorTable {
    open: HashMap<i64, OpenCursor>,
    timed_out: u64,
}

struct OpenCursor {
    owner: Owner,
    used: Instant,
    /// `None` while a batch is read.
    idle: Option<PagedCursor>,
    /// Shared with the cursor itself, so that a kill reaches a batch that is being read.
    cancellation: CancellationToken,
}

/// To whom a cursor belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The namespace of the cursor in replies.
    pub(crate) namespace: String,
    pub(crate) session: Option<Session>,
    /// The number of the transaction that opened the cursor.
    pub(crate) transaction: Option<i64>,
    /// The user who opened the cursor.
    pub(crate) user: Option<String>,
    /// The number of the connection that opened the cursor.
    pub(crate) connection: i32,
    /// Whether the cursor has no timeout: it lasts as long as its session, or its connection if it has no
    /// session.
    pub(crate) stays: bool,
    pub(crate) portion: Portion,
}

/// The session and the user that ask for a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) session: Option<Session>,
    /// The number of the transaction that asks.
    pub(crate) transaction: Option<i64>,
    pub(crate) user: Option<String>,
}

/// A cursor that is read in batches.
pub(crate) struct PagedCursor {
    cursor: Cursor<Document>,
    /// Whether the current document had no room in the last batch, so that it begins the next one.
    has_pending: bool,
    /// Whether a batch waits for the first document, if there is none now.
    awaits: bool,
    is_stream: bool,
    cancellation: CancellationToken,
}

/// A cursor from which a batch is read. Dropping it closes the cursor; [`unpin`](Self::unpin) keeps it.
pub(crate) struct PinnedCursor {
    cursors: Arc<Cursors>,
    id: i64,
    paged: Option<PagedCursor>,
}

/// Cursors that were removed from the table, but still hold their snapshots.
#[must_use = "dropping it releases the snapshots, which may take a while"]
pub(crate) struct EndedCursors {
    cursors: Vec<OpenCursor>,
}

impl EndedCursors {
    pub(crate) fn is_empty(&self) -> bool {
        self.cursors.is_empty()
    }
}

/// The result of `killCursors`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) killed: Vec<i64>,
    pub(crate) not_found: Vec<i64>,
}

/// The numbers of cursors in `serverStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CursorCounts {
    pub(crate) open: u64,
    pub(crate) in_use: u64,
    pub(crate) without_timeout: u64,
    pub(crate) timed_out: u64,
}

impl PagedCursor {
    /// A cursor whose command, and every later batch, `cancellation` ends.
    pub(crate) fn new(cursor: Cursor<Document>, cancellation: CancellationToken) -> Self {
        let is_stream = cursor.resume_token().is_some();
        // As in MongoDB a change stream always waits.
        Self { cursor, has_pending: false, awaits: is_stream, is_stream, cancellation }
    }

    /// Sets whether later batches wait for documents.
    pub(crate) fn awaiting(self, awaits: bool) -> Self {
        Self { awaits: awaits || self.is_stream, ..self }
    }

    /// Whether the cursor is one of a change stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Whether a batch without documents is to wait.
    pub(crate) fn is_to_wait(&self) -> bool {
        // One that is behind answers with the token of its place: a client that wants more asks again, and others come first.
        self.awaits && !self.has_pending && self.cursor.is_tailing() && !self.cursor.is_behind()
    }

    /// Whether later batches wait for documents.
    pub(crate) fn awaits(&self) -> bool {
        self.awaits
    }

    /// Wakes by `waker` when there may be a document, or the cursor was ended.
    pub(crate) fn wake(&self, waker: &Waker) -> (WaitingCursor, WakeOnCancel) {
        (self.cursor.wake_when_more(waker), self.cancellation.wake(waker.clone()))
    }

    /// Reads documents into a batch until it has `len` of them or no room. Returns whether the cursor is at
    /// its end. Fails at the next document after the cursor was killed.
    pub(crate) fn fill(&mut self, batch: &mut CursorBatch, len: Option<u64>) -> Result<bool, Failure> {
        if let Some(reason) = self.cancellation.reason() {
            return Err(reason.into());
        }
        // For a batch without documents, where it goes on if the first one has no room.
        if !self.has_pending {
            self.note_place(batch);
        }
        let is_full = |batch: &CursorBatch| len.is_some_and(|len| batch.len() as u64 >= len);
        let is_full_already = is_full(batch);
        let mut has_pending = self.has_pending;
        let mut take = |document: &RawDocument| {
            // A batch without room must not lose the document.
            has_pending = !batch.has_room(document.as_bytes().len());
            if !has_pending {
                batch.push(document);
            }
            !has_pending && !is_full(batch) && !self.cancellation.is_cancelled()
        };
        // Never waits: that is done outside of the pool.
        let (mut goes_on, mut is_over) = (!is_full_already, false);
        if goes_on {
            // The first document may wait for memory, and that is not the time of the cursor's operation.
            is_over = !self.has_pending && !self.cursor.advance_within(Duration::ZERO)?;
            goes_on = !is_over && take(self.cursor.current());
        }
        if goes_on {
            is_over = !self.cursor.advance_while(take)?;
        }
        self.has_pending = has_pending;
        if let Some(reason) = self.cancellation.reason() {
            return Err(reason.into());
        }
        if !has_pending {
            self.note_place(batch);
        } else if self.is_stream {
            batch.go_on_after_last();
        }
        // The end is reported with the last full batch if it is known, which saves the client one `getMore`.
        Ok(!has_pending && if is_over { !self.cursor.is_tailing() } else { self.cursor.is_exhausted() })
    }

    /// Notes in the batch where a change stream goes on. One that has ended does so after its last event.
    fn note_place(&self, batch: &mut CursorBatch) {
        if self.is_stream {
            match self.cursor.resume_token() {
                Some(token) => batch.go_on_after(token),
                None => batch.go_on_after_last(),
            }
        }
    }

    /// Releases what the cursor holds until its next batch, and that may be never. A document that had no room is read
    /// again then: it may have 16 MiB, and there are many cursors.
    fn rest(&mut self) {
        if std::mem::take(&mut self.has_pending) { self.cursor.step_back() } else { self.cursor.rest() }
    }
}

impl Cursors {
    pub(crate) fn new(cursors_max: usize) -> Self {
        Self { table: Mutex::default(), cursors_max }
    }

    /// Keeps a cursor until its next batch. Returns its number, which is never 0: 0 informs the client that a
    /// cursor is at its end. If there are too many, the oldest idle ones of the user who has most are closed for it.
    pub(crate) fn keep(&self, owner: Owner, mut paged: PagedCursor) -> Result<i64, Failure> {
        // Before the lock: this releases memory of the store, which may be slow.
        paged.rest();
        let mut table = self.table.lock();
        let closed = if table.open.len() >= self.cursors_max { table.give_up() } else { Vec::new() };
        if table.open.len() >= self.cursors_max {
            let message = format!("there are {} cursors in use, which is the limit", self.cursors_max);
            return Err(Failure::new(Code::EXCEEDED_MEMORY_LIMIT, message));
        }
        // Random: a client cannot guess the cursors of others. 0 means that a cursor is at its end.
        let id = loop {
            let id = (random() >> 1).cast_signed();
            if id != 0 && !table.open.contains_key(&id) {
                break id;
            }
        };
        let cancellation = paged.cancellation.clone();
        table.open.insert(id, OpenCursor { owner, used: Instant::now(), idle: Some(paged), cancellation });
        // The snapshots are released after the table's lock.
        drop(table);
        drop(closed);
        Ok(id)
    }

    /// Pins a cursor to read a batch from it. The namespace, session and user must be those of the cursor.
    pub(crate) fn pin(
        self: &Arc<Self>,
        id: i64,
        namespace: &str,
        requester: &Requester,
    ) -> Result<PinnedCursor, Failure> {
        let mut table = self.table.lock();
        let not_found = || Failure::new(Code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"));
        let cursor = table.open.get_mut(&id).ok_or_else(not_found)?;
        if cursor.owner.namespace != namespace {
            let owned = &cursor.owner.namespace;
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {owned}"
            );
            return Err(Failure::new(Code::UNAUTHORIZED, message));
        }
        if cursor.owner.session != requester.session {
            let message = format!("cursor id {id} was not opened in the session of the getMore");
            return Err(Failure::new(Code::CURSOR_OF_ANOTHER_SESSION, message));
        }
        if cursor.owner.transaction != requester.transaction {
            let message = format!("cursor id {id} was not opened in the transaction of the getMore");
            return Err(Failure::new(Code::CURSOR_OF_ANOTHER_TRANSACTION, message));
        }
        if cursor.owner.user != requester.user {
            let message = format!("cursor id {id} was not created by the authenticated user");
            return Err(Failure::new(Code::UNAUTHORIZED, message));
        }
        let in_use = || Failure::new(Code::CURSOR_IN_USE, format!("cursor id {id} is already in use"));
        let paged = cursor.idle.take().ok_or_else(in_use)?;
        Ok(PinnedCursor { cursors: Arc::clone(self), id, paged: Some(paged) })
    }

    /// Closes cursors by number, if `may_end` allows it for each of them. A batch that is being read from one
    /// fails.
    pub(crate) fn kill(
        &self,
        ids: &[i64],
        may_end: impl Fn(&Owner) -> Result<(), Failure>,
    ) -> Result<Killed, Failure> {
        let mut outcome = Killed::default();
        let mut ended = Vec::new();
        let mut table = self.table.lock();
        // All or none: after a rejection in the middle the client would not know which cursors were closed.
        ids.iter().filter_map(|id| table.open.get(id)).try_for_each(|cursor| may_end(&cursor.owner))?;
        for &id in ids {
            match table.open.remove(&id) {
                Some(cursor) => {
                    ended.push(cursor.end());
                    outcome.killed.push(id);
                }
                None => outcome.not_found.push(id),
            }
        }
        // The snapshots are released after the table's lock.
        drop(table);
        drop(ended);
        Ok(outcome)
    }

    /// Closes the cursors of a transaction that has ended.
    pub(crate) fn close(&self, ids: impl IntoIterator<Item = i64>) {
        let ended: Vec<OpenCursor> = {
            let mut table = self.table.lock();
            ids.into_iter().filter_map(|id| table.open.remove(&id)).map(OpenCursor::end).collect()
        };
        // The snapshots are released after the table's lock.
        drop(ended);
    }

    /// Whether a cursor is open.
    pub(crate) fn is_open(&self, id: i64) -> bool {
        self.table.lock().open.contains_key(&id)
    }

    /// Closes the cursors that `of` selects. Returns how many.
    pub(crate) fn kill_where(&self, of: impl Fn(&Owner) -> bool) -> usize {
        self.extract(|cursor| of(&cursor.owner)).len()
    }

    /// Removes the cursors that were idle for `timeout`, and those whose sessions `is_known` does not know.
    /// The caller drops them where it may block.
    pub(crate) fn expire(&self, timeout: Duration, is_known: impl Fn(&Session) -> bool) -> EndedCursors {
        let mut cursors = self.extract(|cursor| {
            cursor.idle.is_some() && !cursor.owner.stays && cursor.used.elapsed() >= timeout
        });
        // Counted here and not below: `timedOut` of `serverStatus` counts timeouts, not ended sessions.
        if !cursors.is_empty() {
            self.table.lock().timed_out += cursors.len() as u64;
            tracing::info!(cursors = cursors.len(), "ended cursors that were idle for too long");
        }
        // Ending a session closes its cursors. One that was being opened at that moment is found here.
        cursors.extend(
            self.extract(|cursor| cursor.owner.session.as_ref().is_some_and(|session| !is_known(session))),
        );
        EndedCursors { cursors }
    }

    fn extract(&self, of: impl Fn(&OpenCursor) -> bool) -> Vec<OpenCursor> {
        let mut table = self.table.lock();
        table.open.extract_if(|_, cursor| of(cursor)).map(|(_, cursor)| cursor.end()).collect()
    }

    pub(crate) fn counts(&self) -> CursorCounts {
        let table = self.table.lock();
        let count =
            |of: fn(&OpenCursor) -> bool| table.open.values().filter(|cursor| of(cursor)).count() as u64;
        CursorCounts {
            open: table.open.len() as u64,
            in_use: count(|cursor| cursor.idle.is_none()),
            without_timeout: count(|cursor| cursor.owner.stays),
            timed_out: table.timed_out,
        }
    }
}

impl CursorTable {
    /// Removes what has to go for one more cursor.
    fn give_up(&mut self) -> Vec<OpenCursor> {
        let entries = self.open.iter().map(|(&id, cursor)| TableEntry {
            key: id,
            user: &cursor.owner.user,
            portion: cursor.owner.portion,
            used: cursor.idle.is_some().then_some(cursor.used),
        });
        let ids = given_up(entries);
        ids.into_iter().filter_map(|id| self.open.remove(&id)).map(OpenCursor::end).collect()
    }
}

impl OpenCursor {
    /// Interrupts the batch that is being read from the cursor, if there is one.
    fn end(self) -> Self {
        self.cancellation.cancel_because(Interruption::CursorKilled);
        self
    }
}

impl PinnedCursor {
    pub(crate) fn paged(&mut self) -> &mut PagedCursor {
        self.paged.as_mut().expect("it is there until it is given back")
    }

    /// The token that ends the cursor and the batch that is being read from it.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.paged.as_ref().expect("it is there until it is given back").cancellation
    }

    /// Puts the cursor back for the next batch. Fails if it was killed meanwhile. An idle cursor holds no
    /// memory of the store.
    pub(crate) fn unpin(mut self) -> Result<(), Failure> {
        if let Some(paged) = &mut self.paged {
            paged.rest();
        }
        let mut table = self.cursors.table.lock();
        // After a kill another cursor may have got this number, so the reason is asked before the table.
        let reason = self.cancellation().reason();
        let cursor = table.open.get_mut(&self.id).filter(|_| reason.is_none());
        let Some(cursor) = cursor else {
            drop(table);
            return Err(reason.unwrap_or(Interruption::CursorKilled).into());
        };
        cursor.used = Instant::now();
        cursor.idle = self.paged.take();
        Ok(())
    }
}

impl Drop for PinnedCursor {
    fn drop(&mut self) {
        // `unpin` has removed it. Otherwise the batch failed or was the last one, and the cursor is closed.
        if self.paged.is_some() {
            self.cursors.table.lock().open.remove(&self.id);
        }
    }
}

/// 64 random bits that a client cannot predict.
pub(crate) fn random() -> u64 {
    // Without random numbers the server goes on: ids are then guessable, but a cursor also belongs to its
    // user and session.
    getrandom::u64().unwrap_or_else(|error| {
        tracing::warn!(%error, "the system has no random numbers; the clock is used instead");
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
        Owner {
            namespace: "shop.things".to_owned(),
            session,
            transaction: None,
            user: None,
            connection: 1,
            stays,
            portion: Portion::OfReader,
        }
    }

    fn requester() -> Requester {
        Requester { session: None, transaction: None, user: None }
    }

    fn paged(folder: &tempfile::TempDir) -> PagedCursor {
        let client = Client::open(folder.path().join("db")).expect("a store");
        let things = client.database("shop").collection::<Document>("things");
        let ids = (0..10).map(|id| cairndb::bson::doc! { "_id": id });
        things.insert_many(ids).run().expect("inserted");
        PagedCursor::new(things.find(Document::new()).run().expect("a cursor"), CancellationToken::new())
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
            cursors
                .keep(owner(session, stays), PagedCursor::new(cursor, CancellationToken::new()))
                .expect("room")
        };
        let (late, staying, _over) = (open(None, false), open(Some(1), true), open(Some(2), true));
        assert!(cursors.expire(Duration::from_secs(3600), |_| true).is_empty());
        assert_eq!(cursors.expire(Duration::ZERO, |session| session.id == [1; 16]).cursors.len(), 2);
        assert_eq!(cursors.counts().timed_out, 1);
        let killed = cursors.kill(&[late, staying], |_| Ok(())).expect("allowed");
        assert_eq!(killed, Killed { killed: vec![staying], not_found: vec![late] });
    }

    /// No batch is late, however long it lasts. Its session may end meanwhile: then it fails, and does not look like the last one.
    #[test]
    fn the_batch_of_a_cursor_that_a_sweep_takes_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursors = Arc::new(Cursors::new(10));
        let id = cursors.keep(owner(Some(1), false), paged(&folder)).expect("room");
        let asking = Requester { session: owner(Some(1), false).session, transaction: None, user: None };
        let mut pinned = cursors.pin(id, "shop.things", &asking).expect("there");
        let mut batch = CursorBatch::new(BatchName::Next, &Budget::new(1 << 20));
        assert_eq!(pinned.paged().fill(&mut batch, Some(3)), Ok(false));
        // For a batch the time since its cursor was used last does not count.
        assert!(cursors.expire(Duration::ZERO, |_| true).is_empty());
        assert_eq!(pinned.paged().fill(&mut batch, Some(4)), Ok(false));
        assert_eq!(cursors.expire(Duration::ZERO, |_| false).cursors.len(), 1);
        assert_eq!(code(pinned.paged().fill(&mut batch, Some(9))), Some(237));
        assert_eq!(batch.len(), 4);
        assert_eq!(code(pinned.unpin()), Some(237));
        assert_eq!(cursors.counts().timed_out, 0);
        assert_eq!(code(cursors.pin(id, "shop.things", &asking).map(drop)), Some(43));
    }

    /// A cursor that was killed while its batch was read once ended the batch like the last one: the reader
    /// mistook a part of the documents for all of them.
    #[test]
    fn the_batch_of_a_killed_cursor_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursors = Arc::new(Cursors::new(10));
        let id = cursors.keep(owner(None, false), paged(&folder)).expect("room");
        let mut pinned = cursors.pin(id, "shop.things", &requester()).expect("there");
        let mut batch = CursorBatch::new(BatchName::Next, &Budget::new(1 << 20));
        assert_eq!(pinned.paged().fill(&mut batch, Some(3)), Ok(false));
        cursors.kill(&[id], |_| Ok(())).expect("allowed");
        assert_eq!(code(pinned.paged().fill(&mut batch, Some(9))), Some(237));
        assert_eq!(batch.len(), 3);
        assert_eq!(code(pinned.unpin()), Some(237));
        assert_eq!(code(cursors.pin(id, "shop.things", &requester()).map(drop)), Some(43));
    }

    #[test]
    fn a_kill_that_is_refused_ends_no_cursor() {
        let folder = tempfile::tempdir().expect("a folder");
        let cursors = Arc::new(Cursors::new(10));
        let id = cursors.keep(owner(None, false), paged(&folder)).expect("room");
        let refused = cursors.kill(&[5, id], |_| Err(Failure::bad_value("no")));
        assert_eq!(refused, Err(Failure::bad_value("no")));
        assert!(cursors.pin(id, "shop.things", &requester()).is_ok());
    }
}
