//! Sessions.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, DateTime, RawArrayBuf, RawBsonRef, RawDocumentBuf, cstr, doc, rawdoc};
use query::code::Code;
use sha2::{Digest, Sha256};

use crate::auth::users::DATABASE;
use crate::cursors::random;
use crate::dispatch::access::{Access, authorize};
use crate::dispatch::call::Call;
use crate::dispatch::operation::{first_stage, with_documents};
use crate::failure::Failure;
use crate::fields::{Fields, whole};
use crate::limits::{NAMED_SESSIONS_MAX, NAMED_USERS_MAX, SESSION_TIMEOUT, SHOWN_SESSIONS_MAX};
use crate::reply::Reply;
use crate::sessions::{self, Session, SessionId};

const STAGE: &str = "$listLocalSessions";

/// `startSession`: makes a session.
pub(super) fn start(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    let mut id = (u128::from(random()) << 64 | u128::from(random())).to_be_bytes();
    // The bits that mark a random UUID, version 4.
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    call.shared.sessions.touch(Session { id, user: call.user_name() }, call.portion()).end_elsewhere();
    let id = Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() });
    let minutes = i32::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i32::MAX);
    Ok(doc! { "id": { "id": id }, "timeoutMinutes": minutes }.into())
}

pub(super) fn refresh(call: &Call) -> Result<Reply, Failure> {
    for id in listed(call)? {
        call.shared.sessions.touch(Session { id, user: call.user_name() }, call.portion()).end_elsewhere();
    }
    Ok(doc! {}.into())
}

/// `endSessions`: ends sessions of the caller and closes their cursors. A stranger has none.
pub(super) fn end(call: &Call) -> Result<Reply, Failure> {
    let (ids, user) = (listed(call)?, call.user_name());
    // A stranger's sessions are never kept, and its ids could be those of a connection without a login.
    if !call.is_of_stranger() {
        let ended: HashSet<Session> = ids.into_iter().map(|id| Session { id, user: user.clone() }).collect();
        // Sessions first, as everywhere: see `end_where`.
        call.shared.sessions.end_each(&ended).end_elsewhere();
        call.shared.cursors.kill_where(|owner| owner.session.as_ref().is_some_and(|of| ended.contains(of)));
    }
    Ok(doc! {}.into())
}

/// `killSessions`: ends sessions and closes their cursors. An empty list means all sessions.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let ids: HashSet<SessionId> = listed(call)?.into_iter().collect();
    end_where(call, |session| ids.is_empty() || ids.contains(&session.id));
    Ok(doc! {}.into())
}

/// `killAllSessions`: ends the sessions of all users and closes their cursors.
pub(super) fn kill_all(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    end_where(call, |_| true);
    Ok(doc! {}.into())
}

fn end_where(call: &Call, of: impl Fn(&Session) -> bool) {
    // Sessions first: a cursor that is opened in one meanwhile is then found by the next sweep.
    drop(call.shared.sessions.end(&of));
    call.shared.cursors.kill_where(|owner| owner.session.as_ref().is_some_and(&of));
}

/// An `aggregate` that begins with `$listLocalSessions`, with the sessions in place of the stage: those of
/// the caller, of `users`, or all with `allUsers`. Returns `None` for every other command.
pub(super) fn with_sessions(call: &Call) -> Result<Option<RawDocumentBuf>, Failure> {
    if call.command.name() != "aggregate" {
        return Ok(None);
    }
    let Some((pipeline, options)) = first_stage(call, STAGE)? else { return Ok(None) };
    if call.fields().argument()?.and_then(whole) != Some(1) {
        let message =
            format!("{STAGE} must be run against the database with {{aggregate: 1}}, not a collection");
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    }
    let wrong =
        || Failure::new(Code::FAILED_TO_PARSE, format!("{STAGE} options must be specified in an object"));
    let options = Fields::of(STAGE, options.as_document().ok_or_else(wrong)?);
    options.allow_all(&["allUsers", "users"])?;
    let (all, users) = (options.boolean("allUsers")? == Some(true), asked_users(options)?);
    // The message is MongoDB's.
    if all && users.is_some() {
        let message =
            format!("{STAGE} may not specify {{allUsers: true}} and {{users: [...]}} at the same time");
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    // To name oneself in `users` is to ask for one's own sessions, for which no right is needed.
    let own = vec![call.user_name()];
    let is_own = !all && users.as_ref().is_none_or(|users| *users == own);
    if !is_own {
        authorize(call, Access::Root)?;
    }
    let users = users.unwrap_or(own);
    let users: HashSet<Option<String>> = users.into_iter().collect();
    let listed =
        call.shared.sessions.list(SHOWN_SESSIONS_MAX, |session| all || users.contains(&session.user));
    let listed = listed.ok_or_else(|| {
        let message =
            format!("{STAGE} shows at most {SHOWN_SESSIONS_MAX} sessions, and there are more of these");
        Failure::new(Code::EXCEEDED_MEMORY_LIMIT, message)
    })?;
    let mut documents = RawArrayBuf::new();
    for (session, heard) in &listed {
        documents.push(show(session, *heard));
    }
    with_documents(call, pipeline, documents).map(Some)
}

/// The names in `users`. All users belong to one database, so the database is only checked to be there.
fn asked_users(options: Fields<'_>) -> Result<Option<Vec<Option<String>>>, Failure> {
    let Some(users) = options.array("users", NAMED_USERS_MAX)? else { return Ok(None) };
    let name = |user: Result<RawBsonRef<'_>, _>| {
        let user = user?;
        let user = user.as_document().ok_or_else(|| options.wrong_type("users", user, "object"))?;
        let user = Fields::of("users", user);
        user.allow_all(&["db", "user"])?;
        let name = user.text("user")?.ok_or_else(|| user.missing("user"))?;
        user.text("db")?.ok_or_else(|| user.missing("db"))?;
        Ok(Some(name.to_owned()))
    };
    users.into_iter().map(name).collect::<Result<_, Failure>>().map(Some)
}

/// A session as MongoDB shows it: its id, and the digest of its user.
fn show(session: &Session, heard: Duration) -> RawDocumentBuf {
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: session.id.to_vec() };
    let user = session.user.as_ref().map_or_else(String::new, |user| format!("{user}@{DATABASE}"));
    let uid = Binary { subtype: BinarySubtype::Generic, bytes: Sha256::digest(&user).to_vec() };
    let mut shown = rawdoc! { "_id": { "id": id, "uid": uid } };
    // Sessions are kept by a clock that cannot be set, so the time of day is computed when it is shown.
    let last = SystemTime::now().checked_sub(heard).unwrap_or(SystemTime::UNIX_EPOCH);
    shown.append(cstr!("lastUse"), DateTime::from_system_time(last));
    if !user.is_empty() {
        shown.append(cstr!("user"), user);
    }
    shown
}

fn listed(call: &Call) -> Result<Vec<SessionId>, Failure> {
    let fields = call.fields();
    fields.allow(&[])?;
    let listed = fields.array(call.command.name(), NAMED_SESSIONS_MAX)?;
    let listed = listed.ok_or_else(|| fields.missing(call.command.name()))?;
    let id = |session: Result<cairndb::bson::RawBsonRef<'_>, _>| {
        let session = session?;
        let session = session.as_document().ok_or_else(|| fields.wrong_type("lsid", session, "object"))?;
        sessions::parse(session)
    };
    listed.into_iter().map(id).collect()
}
