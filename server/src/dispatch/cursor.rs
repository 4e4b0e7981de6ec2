//! Commands that open a cursor, and what becomes of it: `getMore`, `killCursors`.

use cairndb::bson::{RawBsonRef, doc};

use crate::auth::users::Role;
use crate::cursors::{Caller, Owner, Walk};
use crate::dispatch::call::Call;
use crate::dispatch::operation::with_operations;
use crate::dispatch::session::with_sessions;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::limits::FIRST_BATCH_LEN;
use crate::reply::{Batch, BatchName, Reply};

/// `find`, `aggregate`, `listCollections`, `listIndexes`: the engine opens the cursor, and its first batch is answered.
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
    let command = match with_operations(call)? {
        Some(command) => command,
        None => with_sessions(call)?.unwrap_or_else(|| call.command.body().to_owned()),
    };
    let mut walk = Walk::new(database.run_raw_cursor_command(command).run()?, call.cancellation.clone());
    let mut batch = Batch::new(BatchName::First, &call.shared.answers);
    let is_ended = walk.fill(&mut batch, len)?;
    let id = if is_ended {
        0
    } else if is_only_batch && batch.is_short() {
        // There is no next batch in which the rest could follow.
        let message = "the answers that clients have not taken yet leave no memory for this one";
        return Err(Failure::new(146, "ExceededMemoryLimit", message));
    } else if is_only_batch {
        0
    } else {
        // The session may have been ended since the command came; a cursor in it makes it begin again.
        session.clone().map_or(Ok(()), |session| call.shared.sessions.touch(session))?;
        let owner = Owner {
            namespace: namespace.clone(),
            session,
            user: call.user_name(),
            connection: call.peer.id,
            stays,
        };
        call.shared.cursors.keep(owner, walk)?
    };
    Ok(batch.finish(id, &namespace))
}

/// The next batch of a cursor.
pub(super) fn get_more(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["batchSize", "collection", "term", "lastKnownCommittedOpTime"])?;
    let id = fields.argument()?.ok_or_else(|| fields.missing("getMore"))?;
    let id = id.as_i64().ok_or_else(|| fields.wrong_type("getMore", id, "long"))?;
    let collection = fields.text("collection")?.ok_or_else(|| fields.missing("collection"))?;
    // A batch of no size is one of any size.
    let len = fields.count("batchSize")?.filter(|&len| len > 0);
    if fields.count("maxTimeMS")?.is_some_and(|limit| limit > 0) {
        return Err(Failure::bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor"));
    }
    let namespace = format!("{}.{collection}", call.command.database());
    let caller = Caller { session: call.session()?, user: call.user_name() };
    let mut taken = call.shared.cursors.take(id, &namespace, &caller)?;
    // To end this command is to end the cursor.
    call.shared.operations.adopt(call.operation_id, taken.cancellation());
    let mut batch = Batch::new(BatchName::Next, &call.shared.answers);
    if taken.walk().fill(&mut batch, len)? {
        return Ok(batch.finish(0, &namespace));
    }
    taken.give_back()?;
    Ok(batch.finish(id, &namespace))
}

/// Ends cursors by number: the caller's own, or anybody's if the caller may do everything. If one is another user's, none
/// ends.
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
        Err(Failure::new(13, "Unauthorized", message))
    })?;
    Ok(doc! {
        "cursorsKilled": killed.killed,
        "cursorsNotFound": killed.not_found,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    }
    .into())
}

/// How many documents the first batch has; lists have no number unless one is asked for.
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

/// What replies call the cursor's namespace.
fn namespace(call: &Call, fields: Fields<'_>) -> Result<String, Failure> {
    let (database, name) = (call.command.database(), call.command.name());
    let target = fields.argument()?.and_then(RawBsonRef::as_str);
    Ok(match (name, target) {
        ("listCollections", _) => format!("{database}.$cmd.listCollections"),
        (_, Some(collection)) => format!("{database}.{collection}"),
        (_, None) => format!("{database}.$cmd.{name}"),
    })
}
