//! `cairn inspect`: what is stored of one document, and why a number is missing.

mod document;
mod number;
mod options;
mod value;

use std::time::Instant;

pub(crate) use crate::inspect::options::Arguments;

use crate::failure::Failure;
use crate::inspect::options::{Asked, Looked};
use crate::signals::Signals;
use crate::store::namespace;
use crate::talk::Report;

/// Runs the command and reports. Returns the exit status if not all was done.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.talk.start_log();
    let started = Instant::now();
    let mut looked = Looked::default();
    let done = Signals::watch().and_then(|signals| {
        let done = look(arguments, &signals, &mut looked);
        signals.judge(done, "interrupted before all was looked at")
    });
    let Looked { counts, names, found } = looked;
    let mut report =
        Report { command: "inspect", elapsed: started.elapsed(), counts, names, found, failure: done.err() };
    arguments.talk.report(&mut report, false);
    report.failure.map_or(Ok(()), Err)
}

fn look(arguments: &Arguments, signals: &Signals, looked: &mut Looked) -> Result<(), Failure> {
    if let Some(id) = &arguments.id {
        return document::look(arguments, value::id(id)?, signals, looked);
    }
    let asked = match (&arguments.number, &arguments.sequence) {
        (Some(number), _) => {
            let (database, collection) = namespace(&arguments.scope)?;
            let (field, value) = pair("--number", number)?;
            Asked { database, collection: Some(collection), name: field, value }
        }
        (None, sequence) => {
            let database = arguments.scope.as_str();
            if database.is_empty() || database.contains('.') {
                return Err(Failure::usage(format!("{database:?} is not a DB: --sequence is of a database")));
            }
            let (name, value) = pair("--sequence", sequence.as_deref().unwrap_or_default())?;
            Asked { database, collection: None, name, value }
        }
    };
    number::look(arguments, asked, signals, looked)
}

/// A name and a number.
fn pair<'a>(option: &str, text: &'a str) -> Result<(&'a str, i64), Failure> {
    let wrong = || Failure::usage(format!("{option} must be NAME=NUMBER, and not {text:?}"));
    // The last one: a name may have the sign in it.
    let (name, value) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    Ok((name, value.parse().map_err(|_| wrong())?))
}
