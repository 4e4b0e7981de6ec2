//! CairnDB behind MongoDB's wire protocol: shells and drivers open an embedded store over a socket.
//!
//! It is an adapter: it knows messages, connections, cursors between two batches and sessions. What commands mean, and
//! every byte on disk, is the engine's. It presents itself as a standalone of MongoDB 7.0; there are no replication and
//! no transactions, and what the engine leaves out fails with the engine's error. Start at [`Server`].

#![forbid(unsafe_code)]

mod auth;
mod connection;
mod cursors;
mod disconnects;
mod dispatch;
mod fail_points;
mod failure;
mod fields;
mod limits;
mod listener;
mod operations;
mod pool;
mod reply;
mod server;
mod sessions;
mod shared;
mod tls;
mod usage;

pub mod frame;

pub use crate::auth::credentials::PasswordError;
pub use crate::auth::users::{Role, User, UserError, Users};
pub use crate::server::{Error, Server, ServerBuilder};
pub use crate::tls::{Tls, TlsError};
