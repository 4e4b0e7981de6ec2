//! A transaction that is tried again as long as the cluster says that this may help.

use std::time::{Duration, Instant};

use mongodb::error::{
    Error as DriverError, ErrorKind as DriverErrorKind, TRANSIENT_TRANSACTION_ERROR,
    UNKNOWN_TRANSACTION_COMMIT_RESULT,
};
use mongodb::sync::{Client, ClientSession};

use crate::error::{Error, ErrorKind, Result};

/// The time for which it is tried, as in MongoDB's drivers.
const LIMIT: Duration = Duration::from_secs(120);
/// MongoDB's name for the error of a transaction where there are none.
const NO_TRANSACTIONS: &str = "IllegalOperation";

/// Runs `body` in a transaction and commits it. What it returns is of the attempt that was committed.
pub(super) fn in_transaction<R>(
    client: &Client,
    mut body: impl FnMut(&mut ClientSession) -> Result<R>,
) -> Result<R> {
    let began = Instant::now();
    let mut session = client.start_session().run()?;
    loop {
        session.start_transaction().run()?;
        let attempt = body(&mut session).and_then(|done| {
            commit(&mut session, began)?;
            Ok(done)
        });
        let error = match attempt {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        // The cluster may have ended it already.
        let _ = session.abort_transaction().run();
        if !has_label(&error, TRANSIENT_TRANSACTION_ERROR) || began.elapsed() > LIMIT {
            return Err(explained(error));
        }
    }
}

fn commit(session: &mut ClientSession, began: Instant) -> Result<()> {
    loop {
        match session.commit_transaction().run() {
            Ok(()) => return Ok(()),
            // It may have been committed; committing again shows it.
            Err(error)
                if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && began.elapsed() < LIMIT => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn has_label(error: &Error, label: &str) -> bool {
    matches!(error.kind(), ErrorKind::Driver(error) if error.contains_label(label))
}

/// Says what to do where there are no transactions.
fn explained(error: Error) -> Error {
    let is_without = |error: &DriverError| matches!(error.kind.as_ref(), DriverErrorKind::Command(refused) if refused.code_name == NO_TRANSACTIONS);
    if let ErrorKind::Driver(driver) = error.kind()
        && is_without(driver)
    {
        let message = format!(
            "the contract gapless needs transactions, which this server has not: use a replica set: {driver}"
        );
        return ErrorKind::Unsupported(message).into();
    }
    error
}
