//! `explain`: the engine explains the plan, and the server adds who it is.

use cairndb::bson::doc;

use crate::dispatch::call::Call;
use crate::dispatch::diagnostic::MONGODB_VERSION;
use crate::failure::Failure;
use crate::reply::Reply;

/// `explain`, and commands with the field `explain`.
pub(super) fn explain(call: &Call) -> Result<Reply, Failure> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut server = doc! { "host": host, "version": MONGODB_VERSION, "gitVersion": "none" };
    // A server on a Unix socket alone has no port.
    if let Some(port) = call.shared.port.get() {
        server.insert("port", i32::from(*port));
    }
    Ok(super::engine::forward(call)?.with_field("serverInfo", server))
}
