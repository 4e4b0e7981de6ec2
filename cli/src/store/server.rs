//! A server as its connection knows it: MongoDB's driver, the name that messages give it, and what ends a wait for its answers.

use std::sync::Arc;
use std::time::Duration;

use cairndb::CancellationToken;
use cairndb::bson::{Document, RawDocumentBuf};
use mongodb::error::{Error, ErrorKind};
use mongodb::sync::Client;

use crate::failure::{Exit, Failure};
use crate::store::refused::{reason, refusal};
use crate::store::waiting::{Patience, wait};

/// The time that a server may still need, after a signal, for its work: it may be at work on a batch.
const AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// A server that has answered once.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) client: Client,
    /// The socket, or the hosts of the URI, without its user.
    name: Arc<str>,
    pub(super) patience: Patience,
}

impl Server {
    /// Asks for a first answer, so that a server that is not there is distinguished from one that is lost.
    pub(super) fn reach(client: Client, name: &str, token: &CancellationToken) -> Result<Self, Failure> {
        let ping = cairndb::bson::doc! { "ping": 1 };
        let database = client.database("admin");
        // After a signal it is looked for to store what was read before.
        let after = if token.is_cancelled() { AFTER_SIGNAL } else { Duration::ZERO };
        let patience = Patience { token: token.clone(), after };
        let answer = wait(&patience, move || Ok(database.run_command(ping).run()))?;
        match answer {
            // One that rejects this has answered.
            Ok(_) => {}
            Err(error) if matches!(error.kind.as_ref(), ErrorKind::Command(_)) => {}
            Err(error) if is_gone(&error) => {
                let message = format!("no server can be reached at {name}: {}", reason(&error));
                return Err(Failure::new(Exit::NoStore, message));
            }
            Err(error) => return Err(refusal(&error)),
        }
        let patience = Patience { after: AFTER_SIGNAL, ..patience };
        Ok(Self { client, name: name.into(), patience })
    }

    /// From now on the token ends each wait at once.
    #[cfg(feature = "shell")]
    pub(super) fn end_at_once(&mut self, token: &CancellationToken) {
        self.patience = Patience { token: token.clone(), after: Duration::ZERO };
    }

    /// The patience that ends a wait for documents at once: documents that are only read are not missed.
    pub(super) fn impatience(&self) -> Patience {
        Patience { after: Duration::ZERO, ..self.patience.clone() }
    }

    /// Runs a command, and waits for the reply as `patience` says.
    pub(super) fn run(
        &self,
        database: &str,
        command: RawDocumentBuf,
        patience: &Patience,
    ) -> Result<Document, Failure> {
        let database = self.client.database(database);
        let answer = wait(patience, move || Ok(database.run_raw_command(command).run()))?;
        answer.map_err(|error| self.failure(&error))
    }

    /// The failure that an error of the driver is.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        if is_gone(error) {
            let message = format!("the server at {} is lost: {}", self.name, reason(error));
            return Failure::new(Exit::NoStore, message);
        }
        refusal(error)
    }
}

/// Whether an error says that there is no server, or none any more.
fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind.as_ref(),
        ErrorKind::Io(_)
            | ErrorKind::ServerSelection { .. }
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. }
    )
}
