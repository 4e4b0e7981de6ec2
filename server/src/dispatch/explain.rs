//! `explain`: the engine tells the plan, and the server adds who it is.

use cairndb::bson::doc;

use crate::dispatch::call::Call;
use crate::dispatch::diagnostic::MONGODB_VERSION;
use crate::failure::Failure;
use crate::reply::Reply;

/// A command that explains another one, or itself.
pub(super) fn explain(call: &Call) -> Result<Reply, Failure> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut server = doc! { "host": host, "version": MONGODB_VERSION, "gitVersion": "none" };
    if let Some(port) = call.shared.port.get() {
        server.insert("port", i32::from(*port));
    }
    Ok(super::engine::forward(call)?.beside("serverInfo", server))
}
