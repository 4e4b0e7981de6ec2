//! The commands of the engine, which get there unchanged.

use cairndb::bson::{Document, RawDocumentBuf, cstr};

use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::fields::{Fields, whole};
use crate::reply::Reply;

/// Runs the command in the engine.
///
/// The write concern `{w: 0}` is left out: the engine acknowledges every write, and only the server does not
/// answer.
pub(super) fn forward(call: &Call) -> Result<Reply, Failure> {
    if !is_unacknowledged(call)? {
        return run(call, call.command.body().to_owned());
    }
    // Field by field: a raw document cannot lose a field in place.
    let mut body = RawDocumentBuf::new();
    for field in call.command.body() {
        let (name, value) = field?;
        if name.as_str() != "writeConcern" {
            body.append(name, value);
        }
    }
    run(call, body)
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

/// Whether the write concern is `w: 0` without `j: true`. The engine refuses the two together.
fn is_unacknowledged(call: &Call) -> Result<bool, Failure> {
    let Some(concern) = call.fields().document("writeConcern")? else { return Ok(false) };
    let concern = Fields::of("writeConcern", concern);
    Ok(concern.value("w")?.and_then(whole) == Some(0) && concern.boolean("j")? != Some(true))
}

fn with_rest(mut body: RawDocumentBuf, call: &Call) -> Result<RawDocumentBuf, Failure> {
    for field in call.command.body().iter().skip(1) {
        let (name, value) = field?;
        body.append(name, value);
    }
    Ok(body)
}

fn run(call: &Call, body: RawDocumentBuf) -> Result<Reply, Failure> {
    let database = call.client().database(call.command.database());
    let mut command = database.run_raw_command(body);
    for sequence in &call.command.sequences {
        // The documents of an `insert` are slices of the message: they are not joined with the body.
        command = command.document_sequence(&sequence.field, &*sequence.documents);
    }
    // No cursor: commands that open one go through `cursor`.
    let reply: Document = command.run()?;
    Ok(reply.into())
}
