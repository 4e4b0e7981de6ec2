//! The common parts of the suites of foreign clients: servers to talk to, a proxy that cuts connections, and scripts
//! that are run before them.
//!
//! The clients are MongoDB's own, so nothing here speaks the protocol. The proxy alone knows where a message ends.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "panicking is how a suite reports")]

pub mod cairn;
pub mod proxy;
pub mod script;

// The program in Rust on the page of clients is built with the driver; it is not run, because it asks for a server at a
// fixed port.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/clients.md")]
mod page {}
