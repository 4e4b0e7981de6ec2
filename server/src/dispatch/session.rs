//! Sessions, and the transactions that there are none of.

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, doc};

use crate::cursors::random;
use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::limits::SESSION_TIMEOUT;
use crate::reply::Reply;
use crate::sessions::{self, Session, SessionId};

/// Makes a session.
pub(super) fn start(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let mut id = (u128::from(random()) << 64 | u128::from(random())).to_be_bytes();
    // The bits that say that it is a random UUID.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    call.shared.sessions.touch(Session { id, user: call.user_name() })?;
    let id = Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() });
    let minutes = i32::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i32::MAX);
    Ok(doc! { "id": { "id": id }, "timeoutMinutes": minutes }.into())
}

pub(super) fn refresh(call: &Call) -> Result<Reply, Failure> {
    for id in listed(call)? {
        call.shared.sessions.touch(Session { id, user: call.user_name() })?;
    }
    Ok(doc! {}.into())
}

/// Ends the caller's sessions with their cursors. A stranger has none.
pub(super) fn end(call: &Call) -> Result<Reply, Failure> {
    let (ids, user) = (listed(call)?, call.user_name());
    if !call.is_of_stranger() {
        end_where(call, |session| session.user == user && ids.contains(&session.id));
    }
    Ok(doc! {}.into())
}

/// Ends sessions with their cursors.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let ids = listed(call)?;
    end_where(call, |session| ids.is_empty() || ids.contains(&session.id));
    Ok(doc! {}.into())
}

/// Ends the sessions of all users with their cursors.
pub(super) fn kill_all(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    end_where(call, |_| true);
    Ok(doc! {}.into())
}

fn end_where(call: &Call, of: impl Fn(&Session) -> bool) {
    call.shared.sessions.end(&of);
    call.shared.cursors.kill_where(|owner| owner.session.as_ref().is_some_and(&of));
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
