//! Who is there: users in the store, their credentials, and the conversation by which a client proves that it knows a
//! password.
//!
//! The mechanism is SCRAM-SHA-256 alone. `scram` and `credentials` are pure; `users` reads and writes the store;
//! `conversation` is what a connection remembers between two messages. What a user may do is in the table of commands.

pub(crate) mod conversation;
pub(crate) mod credentials;
pub(crate) mod guesses;
pub(crate) mod scram;
pub(crate) mod users;
