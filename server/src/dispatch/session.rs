//! Sessions, and the transactions that there are none of.

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, doc};

use crate::cursors::random;
use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::limits::SESSION_TIMEOUT;
use crate::reply::Reply;
use crate::sessions::{self, SessionId};

/// Makes a session.
pub(super) fn start(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let mut id = (u128::from(random()) << 64 | u128::from(random())).to_be_bytes();
    // The bits that say that it is a random UUID.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    call.shared.sessions.touch(id)?;
    let id = Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() });
    let minutes = i32::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i32::MAX);
    Ok(doc! { "id": { "id": id }, "timeoutMinutes": minutes }.into())
}

pub(super) fn refresh(call: &Call) -> Result<Reply, Failure> {
    for id in listed(call)? {
        call.shared.sessions.touch(id)?;
    }
    Ok(doc! {}.into())
}

/// Forgets sessions. Their cursors stay until they are idle for too long.
pub(super) fn end(call: &Call) -> Result<Reply, Failure> {
    call.shared.sessions.end(&listed(call)?);
    Ok(doc! {}.into())
}

/// Ends sessions with their cursors.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let ids = listed(call)?;
    if ids.is_empty() {
        return Ok(kill_every_one(call));
    }
    call.shared.sessions.end(&ids);
    call.shared.cursors.kill_where(|owner| owner.session.is_some_and(|session| ids.contains(&session)));
    Ok(doc! {}.into())
}

/// Ends the sessions of users; as nobody proves who they are, all sessions are the same user's.
pub(super) fn kill_all(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    Ok(kill_every_one(call))
}

fn kill_every_one(call: &Call) -> Reply {
    call.shared.sessions.end_all();
    call.shared.cursors.kill_where(|owner| owner.session.is_some());
    doc! {}.into()
}

/// `commitTransaction` and `abortTransaction`: those that belong to one were refused before.
pub(super) fn without_transaction(call: &Call) -> Result<Reply, Failure> {
    let name = call.command.name();
    let message = format!("'{name}' was not sent in a transaction, and a standalone has none");
    Err(Failure::new(251, "NoSuchTransaction", message))
}

fn listed(call: &Call) -> Result<Vec<SessionId>, Failure> {
    let fields = call.fields();
    fields.allow(&[])?;
    let listed = fields.array(call.command.name())?.ok_or_else(|| fields.missing(call.command.name()))?;
    let id = |session: Result<cairndb::bson::RawBsonRef<'_>, _>| {
        let session = session?;
        let session = session.as_document().ok_or_else(|| fields.wrong_type("lsid", session, "object"))?;
        sessions::parse(session)
    };
    listed.into_iter().map(id).collect()
}
