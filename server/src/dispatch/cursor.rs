//! Commands that open a cursor, and the commands for open cursors: `getMore`, `killCursors`.

use cairndb::bson::{RawBsonRef, doc};
use query::code::Code;

use crate::auth::users::Role;
use crate::cursors::{Owner, PagedCursor, Requester};
use crate::dispatch::call::Call;
use crate::dispatch::operation::with_operations;
use crate::dispatch::session::with_sessions;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::limits::FIRST_BATCH_LEN;
use crate::reply::{BatchName, CursorBatch, Reply};

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
    let session = call.session()?;
    let database = call.client().database(call.command.database());
    // The two stages that only the server can fill are replaced before the engine sees the command.
    let command = match with_operations(call)? {
        Some(command) => command,
        None => with_sessions(call)?.unwrap_or_else(|| call.command.body().to_owned()),
    };
    let mut paged =
        PagedCursor::new(database.run_raw_cursor_command(command).run()?, call.cancellation.clone());
    let mut batch = CursorBatch::new(BatchName::First, &call.shared.answers);
    let is_ended = paged.fill(&mut batch, len)?;
    let id = if is_ended {
        0
    } else if is_only_batch && batch.is_short() {
        // No next batch could bring the rest.
        let message = "the answers that clients have not received yet leave no memory for this one";
        return Err(Failure::new(Code::EXCEEDED_MEMORY_LIMIT, message));
    } else if is_only_batch {
        0
    } else {
        // The session may have been ended since the command began. A cursor in it makes it begin again.
        session.clone().map_or(Ok(()), |session| call.shared.sessions.touch(session))?;
        let owner = Owner {
            namespace: namespace.clone(),
            session,
            user: call.user_name(),
            connection: call.peer.id,
            stays,
        };
        call.shared.cursors.keep(owner, paged)?
    };
    Ok(batch.finish(id, &namespace))
}

/// `getMore`: the next batch of a cursor.
pub(super) fn get_more(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["batchSize", "collection", "term", "lastKnownCommittedOpTime"])?;
    let id = fields.argument()?.ok_or_else(|| fields.missing("getMore"))?;
    let id = id.as_i64().ok_or_else(|| fields.wrong_type("getMore", id, "long"))?;
    let collection = fields.text("collection")?.ok_or_else(|| fields.missing("collection"))?;
    // A batch size of 0 means no limit, other than for the first batch.
    let len = fields.count("batchSize")?.filter(|&len| len > 0);
    // The time of a cursor is that of the command that opened it; MongoDB refuses another one with these
    // words.
    if fields.count("maxTimeMS")?.is_some_and(|limit| limit > 0) {
        return Err(Failure::bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor"));
    }
    let namespace = format!("{}.{collection}", call.command.database());
    let requester = Requester { session: call.session()?, user: call.user_name() };
    let mut pinned = call.shared.cursors.pin(id, &namespace, &requester)?;
    // To kill this command is to kill the cursor.
    call.shared.operations.adopt(call.operation_id, pinned.cancellation());
    let mut batch = CursorBatch::new(BatchName::Next, &call.shared.answers);
    if pinned.paged().fill(&mut batch, len)? {
        return Ok(batch.finish(0, &namespace));
    }
    pinned.unpin()?;
    Ok(batch.finish(id, &namespace))
}

/// `killCursors`: closes cursors by number. Users close their own cursors, `root` all cursors. If one belongs
/// to another user, none is closed.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["cursors"])?;
    let cursors = fields.array("cursors")?.ok_or_else(|| fields.missing("cursors"))?;
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
fn first_batch_len(command: &str, fields: Fields<'_>) -> Result<Option<u64>, Failure> {
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
