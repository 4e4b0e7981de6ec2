//! The two ends of a connection.

use std::net::SocketAddr;

/// The two addresses of a connection: of the client and of the server.
pub(crate) struct ConnectionEnds {
    /// The address of the client.
    pub(crate) client: String,
    pub(crate) local: LocalEnd,
}

/// The server's end of a connection.
#[cfg_attr(not(feature = "opentelemetry"), expect(dead_code, reason = "read where there are spans"))]
pub(crate) enum LocalEnd {
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(String),
    /// A stream that the program has handed over. It has no address.
    Stream,
}
