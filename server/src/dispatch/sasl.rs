//! Logging in and out: `saslStart`, `saslContinue`, the login that a `hello` begins, `logout`.
//!
//! A client learns that its login failed, and nothing else. The login of an unknown user has the same steps
//! as that of a known one and fails with the same error. The log contains the reason.

use std::time::{Duration, Instant};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc};
use query::code::Code;

use crate::auth::conversation::{Conversation, ID, LoginStep};
use crate::auth::credentials::{Credentials, MECHANISM};
use crate::auth::scram::{ClientFirst, Exchange, Rejected};
use crate::auth::users::{DATABASE, Role, User, UserError, nonce};
use crate::dispatch::call::Call;
use crate::failure::{Failure, quoted};
use crate::fields::Fields;
use crate::reply::Reply;

const START_FIELDS: [&str; 5] = ["autoAuthorize", "db", "mechanism", "options", "payload"];

/// `saslStart`: begins a login.
pub(super) fn start(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&START_FIELDS)?;
    check_mechanism(fields)?;
    let started = begin(call, fields, call.command.database())?;
    Ok(started.ok_or_else(|| refuse(call))?.into())
}

/// Begins a login within the first hello of a connection. Returns `None` if it cannot begin: the client then
/// sends a `saslStart`, and gets the error.
pub(super) fn speculate(call: &Call, start: &RawDocument) -> Result<Option<Document>, Failure> {
    let fields = Fields::of("saslStart", start);
    if fields.value("saslStart")?.is_none() || check_mechanism(fields).is_err() {
        return Ok(None);
    }
    let database = fields.text("db")?.unwrap_or(call.command.database());
    begin(call, fields, database)
}

/// `saslContinue`: reads the next message of a login.
pub(super) fn go_on(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["conversationId", "payload"])?;
    let payload = payload(fields)?;
    let id = fields.integer("conversationId")?.ok_or_else(|| fields.missing("conversationId"))?;
    // Asked first: the conversation is removed from the connection below, so that a proof is checked once.
    let proving = call.peer.proving_user();
    let Some(conversation) = call.peer.take_conversation() else {
        return Err(Failure::new(Code::PROTOCOL_ERROR, "No SASL session state found"));
    };
    if id != i64::from(ID) {
        return Err(Failure::new(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    match conversation.receive(payload) {
        Ok(LoginStep::Next(conversation, message)) => {
            call.peer.keep_conversation(conversation);
            Ok(reply(&message, false).into())
        }
        Ok(LoginStep::Done(user, message)) => {
            tracing::info!(connection = call.peer.remote.connection, user = user.name, "logged in");
            // Before the login is visible: the user's next connection need not wait for old failures.
            call.shared.guesses.forget(&user.name, &call.peer.host);
            call.peer.log_in(user);
            Ok(reply(&message, true).into())
        }
        Err(rejected) => {
            // Only a wrong proof is a guess. A malformed message before it says nothing about the password.
            if let Some(user) = proving {
                call.shared.guesses.note(&user, &call.peer.host, Instant::now());
            }
            note(call, &rejected);
            Err(refuse(call))
        }
    }
}

/// The time that a proof has to wait before it is checked, because of earlier failures.
pub(super) fn pause(call: &Call) -> Result<Duration, Failure> {
    let Some(user) = call.peer.proving_user().filter(|_| call.command.name() == "saslContinue") else {
        return Ok(Duration::ZERO);
    };
    call.shared.guesses.take_turn(&user, &call.peer.host, Instant::now()).map_err(|too_many| {
        tracing::info!(connection = call.peer.remote.connection, from = %call.peer.host, "rejected one of too many logins");
        // The proof was not looked at, and is not to be tried again.
        call.peer.take_conversation();
        // No failed login: the password may be right, and others have guessed.
        let seconds = too_many.again.as_secs().saturating_add(1);
        let unit = if seconds == 1 { "second" } else { "seconds" };
        let message = format!(
            "Authentication failed: the password was not looked at, because too many guesses of this user's password, or \
             from this address, are waiting; try again in {seconds} {unit}"
        );
        Failure::new(Code::AUTHENTICATION_FAILED, message)
    })
}

/// `authenticate`: the mechanisms with a command of their own, none of which is supported.
pub(super) fn authenticate(call: &Call) -> Result<Reply, Failure> {
    // The mechanism of a command that names none, from before MongoDB 3.0.
    let mechanism = call.fields().text("mechanism")?.unwrap_or("MONGODB-CR");
    Err(unavailable(mechanism))
}

/// `logout`: the connection belongs to no user afterwards.
pub(super) fn log_out(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    call.peer.log_out();
    Ok(doc! {}.into())
}

/// The answer to `saslSupportedMechs: "database.user"`. Unknown users get the same answer.
pub(super) fn mechanisms(fields: Fields<'_>) -> Result<Option<Bson>, Failure> {
    let Some(of) = fields.text("saslSupportedMechs")? else { return Ok(None) };
    if !of.contains('.') {
        return Err(Failure::bad_value(format!(
            "'saslSupportedMechs' is \"database.user\", not {}",
            quoted(of)
        )));
    }
    Ok(Some(vec![MECHANISM].into()))
}

/// Begins a conversation. Returns `None` if the client's first message is rejected.
fn begin(call: &Call, fields: Fields<'_>, database: &str) -> Result<Option<Document>, Failure> {
    // A connection has one conversation at a time: a new login ends one that was not finished.
    call.peer.take_conversation();
    let skips_empty = match fields.document("options")? {
        Some(options) => Fields::of("options", options).boolean("skipEmptyExchange")? == Some(true),
        None => false,
    };
    let first = match ClientFirst::parse(payload(fields)?) {
        Ok(first) => first,
        Err(rejected) => {
            note(call, &rejected);
            return Ok(None);
        }
    };
    let (user, credentials, is_known) = find_user(call, database, &first.user)?;
    // The nonce comes from the system; without random numbers no login can begin.
    let (exchange, challenge) =
        Exchange::begin(&first, credentials, is_known, &nonce().map_err(|error| broken(&error))?);
    call.peer.keep_conversation(Conversation::new(user, exchange, skips_empty));
    Ok(Some(reply(&challenge, false)))
}

/// The user and its credentials, or a decoy for an unknown user. Both are computed for every name, so that
/// the time does not distinguish them.
fn find_user(call: &Call, database: &str, name: &str) -> Result<(User, Credentials, bool), Failure> {
    let decoy = Credentials::decoy(&call.shared.secret, &format!("{database}.{name}"));
    let found = call.shared.users.find(name).map_err(|error| broken(&error))?;
    // All users belong to one database. The same name in another database is an unknown user.
    Ok(match found.filter(|_| database == DATABASE) {
        Some((user, credentials)) => (user, credentials, true),
        None => (User { name: name.to_owned(), role: Role::ReadAnyDatabase }, decoy, false),
    })
}

fn check_mechanism(fields: Fields<'_>) -> Result<(), Failure> {
    match fields.text("mechanism")?.ok_or_else(|| fields.missing("mechanism"))? {
        MECHANISM => Ok(()),
        other => Err(unavailable(other)),
    }
}

fn unavailable(mechanism: &str) -> Failure {
    let message = format!(
        "Received authentication for mechanism {mechanism} which is not enabled: there is {MECHANISM} only"
    );
    Failure::new(Code::MECHANISM_UNAVAILABLE, message)
}

fn payload(fields: Fields<'_>) -> Result<&[u8], Failure> {
    let value = fields.value("payload")?.ok_or_else(|| fields.missing("payload"))?;
    let payload = value.as_binary().map(|binary| binary.bytes);
    payload.ok_or_else(|| fields.wrong_type("payload", value, "binData"))
}

fn reply(message: &str, is_done: bool) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: message.as_bytes().to_vec() };
    doc! { "conversationId": ID, "done": is_done, "payload": payload }
}

fn note(call: &Call, rejected: &Rejected) {
    tracing::info!(connection = call.peer.remote.connection, from = %call.peer.remote.address, reason = %rejected, "rejected a login");
}

fn refuse(call: &Call) -> Failure {
    call.peer.note_failed_login();
    Failure::new(Code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// The failure of a store that cannot be read. The client learns nothing more.
fn broken(error: &UserError) -> Failure {
    tracing::error!(%error, "users cannot be looked up");
    Failure::internal("users cannot be looked up")
}

/// Whether a `hello` begins a login, which reads the store.
pub(super) fn is_speculative(call: &Call) -> bool {
    let field = call.command.body().get("speculativeAuthenticate");
    matches!(field, Ok(Some(RawBsonRef::Document(_))))
}
