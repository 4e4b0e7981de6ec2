//! Authentication: users in the store, their credentials, and the conversation in which a client proves that
//! it knows a password.
//!
//! The only mechanism is SCRAM-SHA-256. `scram` and `credentials` are pure; `users` reads and writes the
//! store; `conversation` is what a connection remembers between two messages. The table of commands says what
//! a user may do.

pub(crate) mod conversation;
pub(crate) mod credentials;
pub(crate) mod guesses;
pub(crate) mod scram;
pub(crate) mod users;
