//! The common parts of children that are killed: where they journal, what they say of a fault, and the fault that may
//! be planted in them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use cairndb_tests::journal::Record;

use crate::Outcome;

/// A fault that is built in, to show that the suite finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    AcknowledgeFirst,
    /// The rows of tokens come after their writes.
    TokensApart,
}

impl Flaw {
    pub(crate) fn named(name: &str) -> Outcome<Self> {
        match name {
            "none" => Ok(Self::None),
            "acknowledge-first" => Ok(Self::AcknowledgeFirst),
            "tokens-apart" => Ok(Self::TokensApart),
            other => Err(format!("unknown flaw {other:?}").into()),
        }
    }
}

/// Standard output without a buffer: what is journaled is in the pipe when the process is killed.
pub(crate) fn open() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Journals how a thread ended, if that was by a fault.
pub(crate) fn told(journal: &File, outcome: Outcome<()>) {
    if let Err(fault) = outcome {
        eprintln!("child: {fault}");
        // A parent that is gone closed the journal; no process needs to know then.
        let _ = Record::Fault.write_to(journal);
    }
}
