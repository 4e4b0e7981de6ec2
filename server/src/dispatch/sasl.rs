//! Logging in and out: `saslStart`, `saslContinue`, the login that a `hello` begins, `logout`.
//!
//! A client learns that it failed, and nothing else: an unknown user is asked like a known one, and refused for the same
//! reason after the same work. The log says what it was.

use std::time::{Duration, Instant};

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc};

use crate::auth::conversation::{Conversation, ID, Step};
use crate::auth::credentials::{Credentials, MECHANISM};
use crate::auth::scram::{ClientFirst, Exchange, Rejected};
use crate::auth::users::{DATABASE, Role, User, UserError, nonce};
use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::reply::Reply;

/// The number of every refusal that has to do with who somebody is.
pub(super) const AUTHENTICATION_FAILED: i32 = 18;

const START_FIELDS: [&str; 5] = ["autoAuthorize", "db", "mechanism", "options", "payload"];

/// Begins a login.
pub(super) fn start(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&START_FIELDS)?;
    check_mechanism(fields)?;
    let started = begin(call, fields, call.command.database())?;
    Ok(started.ok_or_else(|| refuse(call))?.into())
}

/// Begins a login with the first message of a connection. One that cannot begin is not mentioned: the client will start
/// it by itself, and see why.
pub(super) fn speculate(call: &Call, start: &RawDocument) -> Result<Option<Document>, Failure> {
    let fields = Fields::of("saslStart", start);
    if fields.value("saslStart")?.is_none() || check_mechanism(fields).is_err() {
        return Ok(None);
    }
    let database = fields.text("db")?.unwrap_or(call.command.database());
    begin(call, fields, database)
}

/// Takes the next message of a login.
pub(super) fn go_on(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["conversationId", "payload"])?;
    let payload = payload(fields)?;
    let id = fields.integer("conversationId")?.ok_or_else(|| fields.missing("conversationId"))?;
    let proving = call.peer.proving_user();
    let Some(conversation) = call.peer.take_conversation() else {
        return Err(Failure::new(17, "ProtocolError", "No SASL session state found"));
    };
    if id != i64::from(ID) {
        return Err(Failure::new(17, "ProtocolError", "sasl: Mismatched conversation id"));
    }
    match conversation.go_on(payload) {
        Ok(Step::Next(conversation, message)) => {
            call.peer.keep_conversation(conversation);
            Ok(reply(&message, false).into())
        }
        Ok(Step::Done(user, message)) => {
            tracing::info!(connection = call.peer.id, user = user.name, "logged in");
            call.shared.guesses.forget(&user.name, &call.peer.host);
            call.peer.log_in(user);
            Ok(reply(&message, true).into())
        }
        Err(rejected) => {
            if let Some(user) = proving {
                call.shared.guesses.note(&user, &call.peer.host, Instant::now());
            }
            note(call, &rejected);
            Err(refuse(call))
        }
    }
}

/// How long a proof has to wait before it is looked at, because others failed.
pub(super) fn pause(call: &Call) -> Result<Duration, Failure> {
    let Some(user) = call.peer.proving_user().filter(|_| call.command.name() == "saslContinue") else {
        return Ok(Duration::ZERO);
    };
    call.shared.guesses.admit(&user, &call.peer.host, Instant::now()).map_err(|_| {
        tracing::info!(connection = call.peer.id, from = %call.peer.host, "refused one of too many logins");
        // The proof was not looked at, and is not to be tried again.
        call.peer.take_conversation();
        refuse(call)
    })
}

/// The mechanisms other than this one, which have a command of their own.
pub(super) fn authenticate(call: &Call) -> Result<Reply, Failure> {
    let mechanism = call.fields().text("mechanism")?.unwrap_or("MONGODB-CR");
    Err(unavailable(mechanism))
}

/// Forgets who the connection is.
pub(super) fn log_out(call: &Call) -> Result<Reply, Failure> {
    call.fields().allow(&[])?;
    call.peer.log_out();
    Ok(doc! {}.into())
}

/// `saslSupportedMechs: "database.user"`. Whether the user exists is not told.
pub(super) fn mechanisms(fields: Fields<'_>) -> Result<Option<Bson>, Failure> {
    let Some(of) = fields.text("saslSupportedMechs")? else { return Ok(None) };
    if !of.contains('.') {
        return Err(Failure::bad_value(format!("'saslSupportedMechs' is \"database.user\", not {of:?}")));
    }
    Ok(Some(vec![MECHANISM].into()))
}

/// Nothing if the client's message is not one to go on from.
fn begin(call: &Call, fields: Fields<'_>, database: &str) -> Result<Option<Document>, Failure> {
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
    let (user, credentials, is_known) = who(call, database, &first.user)?;
    let (exchange, challenge) =
        Exchange::begin(&first, credentials, is_known, &nonce().map_err(|error| broken(&error))?);
    call.peer.keep_conversation(Conversation::new(user, exchange, skips_empty));
    Ok(Some(reply(&challenge, false)))
}

/// The user, or somebody who is asked the same and never gets in. Both are computed for everybody.
fn who(call: &Call, database: &str, name: &str) -> Result<(User, Credentials, bool), Failure> {
    let nobody = Credentials::of_nobody(&call.shared.secret, &format!("{database}.{name}"));
    let found = call.shared.users.find(name).map_err(|error| broken(&error))?;
    Ok(match found.filter(|_| database == DATABASE) {
        Some((user, credentials)) => (user, credentials, true),
        None => (User { name: name.to_owned(), role: Role::ReadAnyDatabase }, nobody, false),
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
    Failure::new(334, "MechanismUnavailable", message)
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
    tracing::info!(connection = call.peer.id, from = %call.peer.address, reason = %rejected, "refused a login");
}

fn refuse(call: &Call) -> Failure {
    call.peer.note_failed_login();
    Failure::new(AUTHENTICATION_FAILED, "AuthenticationFailed", "Authentication failed.")
}

/// A store that cannot be read is nothing that a stranger needs to know more of.
fn broken(error: &UserError) -> Failure {
    tracing::error!(%error, "users cannot be looked up");
    Failure::internal("users cannot be looked up")
}

/// Whether a `hello` begins a login, for which the store is read.
pub(super) fn is_speculative(call: &Call) -> bool {
    let field = call.command.body().get("speculativeAuthenticate");
    matches!(field, Ok(Some(RawBsonRef::Document(_))))
}
