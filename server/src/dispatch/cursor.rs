//! Commands that open a cursor, and the commands for open cursors: `getMore`, `killCursors`.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use cairndb::bson::{RawBsonRef, RawDocumentBuf, doc};
use cairndb::{Cursor, WaitingCursor, WakeOnCancel};
use query::code::Code;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::auth::users::Role;
use crate::cursors::{Owner, PagedCursor, PinnedCursor, Requester};
use crate::dispatch::call::Call;
use crate::dispatch::engine::body;
use crate::dispatch::operation::with_operations;
use crate::dispatch::session::with_sessions;
use crate::dispatch::{change_stream, snapshot, transaction};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::limits::{FIRST_BATCH_LEN, NAMED_CURSORS_MAX, STREAM_BATCH_BYTES_MAX};
use crate::reply::{BatchName, CursorBatch, Reply};
use crate::spans::OpenSpan;

/// The time that a batch waits for its first document, if the client names no time. As in MongoDB.
const AWAIT_TIME: Duration = Duration::from_secs(1);
/// The time that it waits if the client names one that no clock can determine.
const AWAIT_TIME_MAX: Duration = Duration::from_secs(86_400);

/// `find`, `aggregate`, `listCollections`, `listIndexes`: the engine opens the cursor, and the reply has its
/// first batch.
pub(super) fn open(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    if call.command.name() == "aggregate" && fields.boolean("explain")? == Some(true) {
        return super::explain::explain(call);
    }
    let len = first_batch_len(call.command.name(), fields)?;
    let is_only_batch = fields.boolean("singleBatch")? == Some(true);
    let stays = fields.boolean("noCursorTimeout")? == Some(true);
    let namespace = namespace(call, fields)?;
    change_stream::check(call)?;
    let database = call.client().database(call.command.database());
    // The two stages that only the server can fill are replaced before the engine sees the command.
    let command = match with_operations(call)? {
        Some(command) => command,
        None => match with_sessions(call)? {
            Some(command) => command,
            None => body(call)?,
        },
    };
    let awaits = fields.boolean("awaitData")? == Some(true);
    let command = database.run_raw_cursor_command(command);
    let mut snapshot = snapshot::of(call)?;
    let cursor = match (call.transaction(), &mut snapshot) {
        (None, None) => command.run()?,
        // Read without the session: the cursor has the state, however long the session keeps it.
        (None, Some(read)) => command.session(&mut read.session).run()?.into_cursor(),
        // So are these: they are read by statements of their transaction alone.
        (Some(_), _) => call.in_session(|session| command.session(session).run())?.into_cursor(),
    };
    let time = snapshot.and_then(|read| read.keep(call));
    let mut paged = PagedCursor::new(cursor, call.cancellation.clone()).awaiting(awaits);
    let mut batch = CursorBatch::new(BatchName::First, &call.shared.answers).of_time(time);
    let is_ended = change_stream::fill(&mut paged, &mut batch, len)?;
    let id = if is_ended {
        0
    } else if is_only_batch && batch.is_short() {
        // No next batch could bring the rest.
        let message = "the answers that clients have not received yet leave no memory for this one";
        return Err(Failure::new(Code::EXCEEDED_MEMORY_LIMIT, message));
    } else if is_only_batch {
        0
    } else {
        keep(call, paged, &namespace, stays)?
    };
    Ok(batch.finish(id, &namespace))
}

/// The reply with the first of `documents`, which the engine has made. Those that have no place in it follow in later batches.
pub(super) fn open_list(
    call: &Call,
    documents: Vec<RawDocumentBuf>,
    len: Option<u64>,
    namespace: &str,
) -> Result<Reply, Failure> {
    let mut paged = PagedCursor::new(Cursor::of_documents(documents), call.cancellation.clone());
    let mut batch = CursorBatch::new(BatchName::First, &call.shared.answers);
    let id = if paged.fill(&mut batch, len)? { 0 } else { keep(call, paged, namespace, false)? };
    Ok(batch.finish(id, namespace))
}

/// Keeps a cursor of the command for its next batch. Returns its number.
fn keep(call: &Call, paged: PagedCursor, namespace: &str, stays: bool) -> Result<i64, Failure> {
    let session = call.session()?;
    // The session may have been ended since the command began. A cursor in it makes it begin again.
    if let Some(session) = session.clone() {
        drop(call.shared.sessions.touch(session, call.portion()));
    }
    let owner = Owner {
        namespace: namespace.to_owned(),
        session,
        transaction: call.transaction(),
        user: call.user_name(),
        connection: call.peer.remote.connection,
        stays,
        portion: call.portion(),
    };
    let id = call.shared.cursors.keep(owner, paged)?;
    note_cursor(call, id);
    Ok(id)
}

/// Notes a cursor that a transaction has opened: it ends with the transaction.
fn note_cursor(call: &Call, id: i64) {
    if call.transaction().is_some() {
        call.with_turn(|turn| {
            turn.last.keep_cursors(call.shared.settings.cursors_max, |id| call.shared.cursors.is_open(id));
            turn.last.note_cursor(id);
        });
    }
}

/// `getMore`: the next batch of a cursor. One that awaits documents waits in no thread and with no place of the pool.
pub(super) async fn get_more(call: Call) -> Result<Reply, Failure> {
    let (pool, holder, token) = (call.shared.pool.clone(), call.holder(), call.cancellation.clone());
    let mut stopping = call.shared.stopping.clone();
    let first = move || {
        let batched = in_span(&call, |call| transaction::within(call, begin, |_| false));
        (call, batched)
    };
    // The call goes to the pool and comes back: between two attempts it belongs to the task of its connection.
    let (mut call, mut batched) = pool.run(holder.clone(), Some(&token), first).await?;
    loop {
        let mut awaiting = match batched? {
            Batched::Done(reply) => return Ok(reply),
            Batched::Awaiting(awaiting) => awaiting,
        };
        tokio::select! {
            biased;
            // A client that waits must not hold up a server that stops.
            _ = stopping.wait_for(|stopping| *stopping) => awaiting.is_last = true,
            woken = timeout_at(awaiting.until, awaiting.woken.0.notified()) => awaiting.is_last = woken.is_err(),
        }
        // In the pool again: reading may block. To end this command is to end the cursor, also while it waits for its place.
        let token = awaiting.pinned.cancellation().clone();
        let again = move || {
            let batched = in_span(&call, |call| awaiting.read(call));
            (call, batched)
        };
        (call, batched) = pool.run(holder.clone(), Some(&token), again).await?;
    }
}

/// The result of an attempt to read a batch.
enum Batched {
    Done(Reply),
    /// There is no document yet.
    Awaiting(Box<Awaiting>),
}

/// A batch that waits for its first document.
struct Awaiting {
    pinned: PinnedCursor,
    id: i64,
    namespace: String,
    len: Option<u64>,
    until: Instant,
    woken: Arc<Woken>,
    /// Keeps the waker with the collection and with the cursor.
    wakers: Option<(WaitingCursor, WakeOnCancel)>,
    /// Whether the next attempt is the last one.
    is_last: bool,
}

/// Wakes the task of a connection.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Kept for the next wait, if the task does not wait now.
        self.0.notify_one();
    }
}

fn in_span<R>(call: &Call, run: impl FnOnce(&Call) -> R) -> R {
    let _attached = call.span.as_ref().map(OpenSpan::attach);
    run(call)
}

/// Reads the fields of a `getMore`, and a batch.
fn begin(call: &Call) -> Result<Batched, Failure> {
    let fields = call.fields();
    fields.allow(&["batchSize", "collection", "term", "lastKnownCommittedOpTime"])?;
    let id = fields.argument()?.ok_or_else(|| fields.missing("getMore"))?;
    let id = id.as_i64().ok_or_else(|| fields.wrong_type("getMore", id, "long"))?;
    let collection = fields.text("collection")?.ok_or_else(|| fields.missing("collection"))?;
    // A batch size of 0 means no limit, other than for the first batch.
    let len = fields.count("batchSize")?.filter(|&len| len > 0);
    let time = fields.count("maxTimeMS")?.filter(|&limit| limit > 0);
    let namespace = format!("{}.{collection}", call.command.database());
    let transaction = call.transaction();
    if transaction.is_some() && call.with_turn(|turn| turn.last.is_over_in_engine()) == Some(true) {
        let message = "the transaction has been aborted, because its time was over";
        return Err(Failure::new(Code::NO_SUCH_TRANSACTION, message));
    }
    let requester = Requester { session: call.session()?, transaction, user: call.user_name() };
    let mut pinned = call.shared.cursors.pin(id, &namespace, &requester)?;
    // The time of any other cursor is that of the command that opened it; MongoDB rejects another one with these words.
    if time.is_some() && !pinned.paged().awaits() {
        pinned.unpin()?;
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(Failure::bad_value(message));
    }
    // To kill this command is to kill the cursor.
    call.shared.operations.adopt(call.operation_id, pinned.cancellation());
    if let Some(failure) = change_stream::fault(call, pinned.paged()) {
        return Err(failure);
    }
    let mut batch = next_batch(call, pinned.paged(), len);
    if change_stream::fill(pinned.paged(), &mut batch, len)? {
        call.with_turn(|turn| turn.last.forget_cursor(id));
        return Ok(Batched::Done(batch.finish(0, &namespace)));
    }
    if batch.len() > 0 || !pinned.paged().is_to_wait() {
        pinned.unpin()?;
        return Ok(Batched::Done(batch.finish(id, &namespace)));
    }
    // From the first attempt on: being woken does not prolong it.
    let time = time.map_or(AWAIT_TIME, Duration::from_millis);
    let until = Instant::now().checked_add(time).unwrap_or_else(|| Instant::now() + AWAIT_TIME_MAX);
    let woken = Arc::new(Woken(Notify::new()));
    let awaiting = Awaiting { pinned, id, namespace, len, until, woken, wakers: None, is_last: false };
    // Once more: what came before the waker was there has woken nothing.
    Box::new(awaiting).read(call)
}

/// A batch of a cursor that goes on. Of a change stream it is short, unless the client says how many events it wants.
fn next_batch(call: &Call, paged: &PagedCursor, len: Option<u64>) -> CursorBatch {
    let batch = CursorBatch::new(BatchName::Next, &call.shared.answers);
    if paged.is_stream() && len.is_none() { batch.up_to(STREAM_BATCH_BYTES_MAX) } else { batch }
}

impl Awaiting {
    fn read(mut self: Box<Self>, call: &Call) -> Result<Batched, Failure> {
        // Again before each look, because it is called once.
        self.wakers = None;
        self.wakers = Some(self.pinned.paged().wake(&Waker::from(Arc::clone(&self.woken))));
        // A new one each time: it uses memory that all clients share.
        let mut batch = next_batch(call, self.pinned.paged(), self.len);
        if change_stream::fill(self.pinned.paged(), &mut batch, self.len)? {
            return Ok(Batched::Done(batch.finish(0, &self.namespace)));
        }
        if batch.len() == 0 && self.pinned.paged().is_to_wait() && !self.is_last {
            return Ok(Batched::Awaiting(self));
        }
        // The wakers go first: an idle cursor wakes no task.
        let Self { pinned, id, namespace, wakers, .. } = *self;
        drop(wakers);
        pinned.unpin()?;
        Ok(Batched::Done(batch.finish(id, &namespace)))
    }
}

/// `killCursors`: closes cursors by number. Users close their own cursors, `root` all cursors. If one belongs
/// to another user, none is closed.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["cursors"])?;
    let cursors = fields.array("cursors", NAMED_CURSORS_MAX)?.ok_or_else(|| fields.missing("cursors"))?;
    let ids = cursors.into_iter().map(|id| {
        let id = id?;
        id.as_i64().ok_or_else(|| fields.wrong_type("cursors", id, "long"))
    });
    let ids = ids.collect::<Result<Vec<i64>, Failure>>()?;
    let user = call.peer.user();
    let may_end_all =
        !call.shared.settings.requires_user || user.as_ref().is_some_and(|user| user.role == Role::Root);
    let name = user.map(|user| user.name);
    let killed = call.shared.cursors.kill(&ids, |owner| {
        if may_end_all || owner.user == name {
            return Ok(());
        }
        let message = format!("not authorized to kill a cursor of another user on '{}'", owner.namespace);
        Err(Failure::new(Code::UNAUTHORIZED, message))
    })?;
    Ok(doc! {
        "cursorsKilled": killed.killed,
        "cursorsNotFound": killed.not_found,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    }
    .into())
}

/// The number of documents in the first batch. Lists of collections and indexes have no default.
pub(super) fn first_batch_len(command: &str, fields: Fields<'_>) -> Result<Option<u64>, Failure> {
    let asked = if command == "find" {
        fields.count("batchSize")?
    } else {
        match fields.document("cursor")? {
            Some(cursor) => Fields::of("cursor", cursor).count("batchSize")?,
            None => None,
        }
    };
    Ok(match command {
        "find" | "aggregate" => Some(asked.unwrap_or(FIRST_BATCH_LEN)),
        _ => asked,
    })
}

/// The namespace of the cursor in replies.
fn namespace(call: &Call, fields: Fields<'_>) -> Result<String, Failure> {
    let (database, name) = (call.command.database(), call.command.name());
    let target = fields.argument()?.and_then(RawBsonRef::as_str);
    Ok(match (name, target) {
        // MongoDB's names for cursors that read no collection.
        ("listCollections", _) => format!("{database}.$cmd.listCollections"),
        (_, Some(collection)) => format!("{database}.{collection}"),
        (_, None) => format!("{database}.$cmd.{name}"),
    })
}
