//! What a connection remembers of a login between two messages. It proves one thing once: whatever goes wrong ends it.

use crate::auth::scram::{Exchange, Rejected};
use crate::auth::users::User;

/// The only conversation of a connection; a new one takes the place of the old.
pub(crate) const ID: i32 = 1;

/// A login on its way.
pub(crate) struct Conversation {
    user: User,
    stage: Stage,
    /// Whether the server's proof ends it, without an empty message of both sides.
    skips_empty: bool,
}

/// Where a conversation stands after a message.
pub(crate) enum Step {
    /// Another message must come.
    Next(Conversation, String),
    /// The user is who it says.
    Done(User, String),
}

enum Stage {
    Proof(Exchange),
    Empty,
}

impl Conversation {
    pub(crate) fn new(user: User, exchange: Exchange, skips_empty: bool) -> Self {
        Self { user, stage: Stage::Proof(exchange), skips_empty }
    }

    /// The user, if the next message is to prove who it is.
    pub(crate) fn proving_user(&self) -> Option<&str> {
        matches!(self.stage, Stage::Proof(_)).then_some(self.user.name.as_str())
    }

    /// Takes the client's next message.
    pub(crate) fn go_on(self, message: &[u8]) -> Result<Step, Rejected> {
        let Self { user, stage, skips_empty } = self;
        match stage {
            Stage::Proof(exchange) => {
                let proof = exchange.finish(message)?;
                Ok(if skips_empty {
                    Step::Done(user, proof)
                } else {
                    Step::Next(Self { user, stage: Stage::Empty, skips_empty }, proof)
                })
            }
            Stage::Empty if message.is_empty() => Ok(Step::Done(user, String::new())),
            Stage::Empty => Err(Rejected::Malformed("the last message is not empty")),
        }
    }
}
