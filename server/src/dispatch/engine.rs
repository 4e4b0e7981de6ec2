//! The commands of the engine, which get there unchanged.

use cairndb::bson::{Document, RawDocument, RawDocumentBuf, cstr, rawdoc};
use query::code::Code;

use crate::dispatch::call::Call;
use crate::dispatch::transaction::ReadConcernFields;
use crate::dispatch::{retryable, snapshot};
use crate::failure::Failure;
use crate::fields::{Fields, whole};
use crate::reply::Reply;

/// Runs the command in the engine.
///
/// The write concern `{w: 0}` is left out: the engine acknowledges every write, and only the server does not
/// answer.
pub(super) fn forward(call: &Call) -> Result<Reply, Failure> {
    forward_answer(call).map(Reply::from)
}

/// As [`forward`], with the answer of the engine as it is.
pub(super) fn forward_answer(call: &Call) -> Result<Document, Failure> {
    let body = body(call)?;
    if !is_unacknowledged(call)? {
        return answer(call, body);
    }
    answer(call, without(&body, &["writeConcern"])?)
}

/// The command as the engine knows it: without the fields of a session, and without a time that is met at once.
pub(super) fn body(call: &Call) -> Result<RawDocumentBuf, Failure> {
    let body = call.command.body();
    if call.shared.settings.replica_set.is_none() {
        return Ok(body.to_owned());
    }
    let omitted: &[&str] = match (&call.numbered, call.transaction()) {
        (None, _) => &[],
        (Some(_), None) => &["autocommit", "startTransaction", "txnNumber"],
        // The read concern of a first statement is the transaction's.
        (Some(_), Some(_)) => &["autocommit", "startTransaction", "txnNumber", "readConcern"],
    };
    let body = if omitted.is_empty() { body.to_owned() } else { without(body, omitted)? };
    let Some(concern) = Fields::of(call.command.name(), &body).document("readConcern")? else {
        return Ok(body);
    };
    let concern = ReadConcernFields::read(concern)?;
    // That of a read of one state is its session's.
    if concern.level == Some("snapshot") {
        return without(&body, &["readConcern"]);
    }
    if concern.at.is_some() {
        let message = "the field 'atClusterTime' is allowed with the read concern 'snapshot' only";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    if concern.after.is_none() {
        return Ok(body);
    }
    // Drivers send the time with writes of a session too.
    let mut met = without(&body, &["readConcern"])?;
    if let Some(level) = concern.level {
        met.append(cstr!("readConcern"), rawdoc! { "level": level });
    }
    Ok(met)
}

/// A document without some of its fields.
fn without(body: &RawDocument, omitted: &[&str]) -> Result<RawDocumentBuf, Failure> {
    // Field by field: a raw document cannot lose a field in place.
    let mut rest = RawDocumentBuf::new();
    for field in body {
        let (name, value) = field?;
        if !omitted.contains(&name.as_str()) {
            rest.append(name, value);
        }
    }
    Ok(rest)
}

/// `dbstats`, which the engine knows as `dbStats`.
pub(super) fn forward_dbstats(call: &Call) -> Result<Reply, Failure> {
    let mut body = RawDocumentBuf::new();
    body.append(cstr!("dbStats"), 1);
    run(call, with_rest(body, call)?)
}

/// `collstats`, which the engine knows as `collStats`.
pub(super) fn forward_collstats(call: &Call) -> Result<Reply, Failure> {
    let mut body = RawDocumentBuf::new();
    let target = call.fields().argument()?.ok_or_else(|| call.fields().missing("collstats"))?;
    body.append(cstr!("collStats"), target);
    run(call, with_rest(body, call)?)
}

/// Whether the write concern is `w: 0` without `j: true`. The engine rejects the two together.
fn is_unacknowledged(call: &Call) -> Result<bool, Failure> {
    let Some(concern) = call.fields().document("writeConcern")? else { return Ok(false) };
    let concern = Fields::of("writeConcern", concern);
    Ok(concern.value("w")?.and_then(whole) == Some(0) && concern.boolean("j")? != Some(true))
}

fn with_rest(mut body: RawDocumentBuf, call: &Call) -> Result<RawDocumentBuf, Failure> {
    for field in self::body(call)?.iter().skip(1) {
        let (name, value) = field?;
        body.append(name, value);
    }
    Ok(body)
}

fn run(call: &Call, body: RawDocumentBuf) -> Result<Reply, Failure> {
    answer(call, body).map(Reply::from)
}

/// Runs a command in the engine, whose answer is not a reply yet.
fn answer(call: &Call, body: RawDocumentBuf) -> Result<Document, Failure> {
    let database = call.client().database(call.command.database());
    let mut command = database.run_raw_command(body);
    for sequence in &call.command.sequences {
        // The documents of an `insert` are slices of the message: they are not joined with the body.
        command = command.document_sequence(&sequence.field, &*sequence.documents);
    }
    // No cursor: commands that open one go through `cursor`.
    let mut snapshot = snapshot::of(call)?;
    if let Some(write) = retryable::write(call)? {
        command = command.retryable(write);
    }
    let mut reply: Document = match (call.transaction(), &mut snapshot) {
        (None, None) => command.run()?,
        (None, Some(read)) => command.session(&mut read.session).run()?,
        (Some(_), _) => call.in_session(|session| command.session(session).run())?,
    };
    if let Some(time) = snapshot.and_then(|read| read.keep(call)) {
        reply.insert("atClusterTime", time);
    }
    Ok(reply)
}
