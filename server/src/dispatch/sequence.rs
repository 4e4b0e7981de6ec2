//! `setAcquirer`, CairnDB's own command: from which blocks a connection gets the values of sequences.

use cairndb::bson::doc;

use crate::dispatch::call::Call;
use crate::failure::{Failure, quoted};
use crate::reply::Reply;

/// `{setAcquirer: "shared" | "own"}`, for this connection from now on. When a connection leaves its own
/// blocks, their unused values are given back.
pub(super) fn set_acquirer(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&[])?;
    match fields.text("setAcquirer")? {
        Some("shared") => call.peer.set_client(call.shared.client.clone()),
        // A new acquirer each time: its blocks are given up with the last handle to it.
        Some("own") => call.peer.set_client(call.shared.client.acquirer()),
        other => {
            let found = quoted(other.unwrap_or_default());
            return Err(Failure::bad_value(format!("'setAcquirer' is \"shared\" or \"own\", not {found}")));
        }
    }
    Ok(doc! {}.into())
}
