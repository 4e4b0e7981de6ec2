//! CairnDB's own: from whose blocks a connection's sequences draw.

use cairndb::bson::doc;

use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::reply::Reply;

/// `{setAcquirer: "shared" | "own"}`: for this connection, from now on. Whoever leaves blocks of its own gives back what
/// nobody took of them.
pub(super) fn set_acquirer(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&[])?;
    match fields.text("setAcquirer")? {
        Some("shared") => call.peer.set_client(call.shared.client.clone()),
        Some("own") => call.peer.set_client(call.shared.client.acquirer()),
        other => {
            let found = other.unwrap_or_default();
            return Err(Failure::bad_value(format!("'setAcquirer' is \"shared\" or \"own\", not {found:?}")));
        }
    }
    Ok(doc! {}.into())
}
