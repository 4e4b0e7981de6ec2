//! CairnDB behind MongoDB's wire protocol: shells and drivers open an embedded store over a socket.
//!
//! The server is an adapter: it knows messages, connections, sessions, and cursors between two batches. The
//! engine decides what commands mean and what is stored. To clients the server is a standalone of MongoDB 8.0
//! without replication and transactions; a command that the engine does not support fails with the engine's
//! error. Start at [`Server`].

#![forbid(unsafe_code)]

mod auth;
mod connection;
mod connections;
mod cursors;
mod disconnects;
mod dispatch;
mod ends;
mod fail_points;
mod failure;
mod fields;
mod limits;
mod listener;
mod lost_lines;
mod membership;
mod metrics_page;
mod operations;
mod places;
mod pool;
mod portions;
mod remote;
mod replica_set;
mod reply;
mod server;
mod sessions;
mod shared;
mod snapshots;
#[cfg(feature = "opentelemetry")]
mod spans;
#[cfg(not(feature = "opentelemetry"))]
#[path = "no_spans.rs"]
mod spans;
mod spawn;
mod sweep;
mod tls;
mod transaction;
mod usage;

// Public for the fuzz targets, the benchmarks and the tests, which speak the protocol byte by byte.
pub mod frame;

pub use crate::auth::credentials::PasswordError;
pub use crate::auth::users::{Role, User, UserError, Users};
pub use crate::dispatch::hello::WIRE_VERSION_MAX;
pub use crate::server::{Error, Server, ServerBuilder};
pub use crate::spawn::RunningServer;
pub use crate::tls::{Tls, TlsError};

// The page of the guide that needs a server; the other pages are run by the engine's crate.
#[cfg(doctest)]
#[doc = include_str!("../linked/data.md")]
mod data {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
