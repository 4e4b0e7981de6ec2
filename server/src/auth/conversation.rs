//! The state of a login between two messages of a connection. A conversation can prove one thing once: any error ends
//! it.

use crate::auth::scram::{Exchange, Rejected};
use crate::auth::users::User;

/// The number of every conversation: a connection has one at a time, and a new one replaces the old one.
pub(crate) const ID: i32 = 1;

/// A login that is not finished.
pub(crate) struct Conversation {
    user: User,
    expected: ExpectedMessage,
    /// Whether the server's proof ends the conversation. Otherwise each side sends one more, empty message.
    skips_empty: bool,
}

/// The result of a message of the client.
pub(crate) enum LoginStep {
    /// The client must send another message. The text is the answer.
    Next(Conversation, String),
    /// The client has proven to be the user. The text is the answer.
    Done(User, String),
}

/// The client's next message.
enum ExpectedMessage {
    Proof(Exchange),
    Empty,
}

impl Conversation {
    pub(crate) fn new(user: User, exchange: Exchange, skips_empty: bool) -> Self {
        Self { user, expected: ExpectedMessage::Proof(exchange), skips_empty }
    }

    /// The user, if the next message must be the proof.
    pub(crate) fn proving_user(&self) -> Option<&str> {
        matches!(self.expected, ExpectedMessage::Proof(_)).then_some(self.user.name.as_str())
    }

    /// Reads the client's next message.
    pub(crate) fn receive(self, message: &[u8]) -> Result<LoginStep, Rejected> {
        // By value: after an error nothing is left that a second proof could be tried on.
        let Self { user, expected, skips_empty } = self;
        match expected {
            ExpectedMessage::Proof(exchange) => {
                let proof = exchange.finish(message)?;
                // Clients without this option expect one more, empty message of each side before they are
                // logged in.
                Ok(if skips_empty {
                    LoginStep::Done(user, proof)
                } else {
                    LoginStep::Next(Self { user, expected: ExpectedMessage::Empty, skips_empty }, proof)
                })
            }
            ExpectedMessage::Empty if message.is_empty() => Ok(LoginStep::Done(user, String::new())),
            ExpectedMessage::Empty => Err(Rejected::Malformed("the last message is not empty")),
        }
    }
}
