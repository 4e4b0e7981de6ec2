//! A store as the tool's commands see it: a folder, or a server behind a socket or a URI.
//!
//! Every command is written once, over [`Store`], in database commands; so what works on a folder works on a
//! server. Nothing above this module may name a kind of store.

mod folder;
mod place;
#[cfg(feature = "remote")]
mod remote;

use std::path::PathBuf;

use cairndb::CancellationToken;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf};

use crate::failure::Failure;
use crate::store::place::Place;

/// A store that runs database commands.
pub(crate) trait Store {
    /// Runs a command on a database and returns its reply.
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure>;

    /// Runs a command whose result is a cursor, and returns its documents.
    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure>;
}

/// The raw documents of a cursor. At most one batch of them is in memory.
pub(crate) trait Documents {
    /// Goes to the next document. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Failure>;

    /// The current document, after [`advance`](Self::advance) returned `true`.
    fn current(&self) -> &RawDocument;
}

/// How a store is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Access {
    /// Bytes for the store's cache, if it is a folder.
    #[arg(long, value_name = "BYTES")]
    memory: Option<usize>,
    /// Read the password of the URI's user from the first line of this file; the environment variable
    /// `CAIRN_PASSWORD` holds it otherwise, or the terminal is asked.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Opens a store for reading. `warn` is told what the user should know.
pub(crate) fn open_for_reading(
    name: &str,
    access: &Access,
    token: &CancellationToken,
    warn: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, Failure> {
    match Place::of(name) {
        Place::Folder(path) => Ok(Box::new(folder::Folder::open_for_reading(&path, access.memory, token)?)),
        #[cfg(feature = "remote")]
        Place::Socket(path) => Ok(Box::new(remote::Remote::over_socket(&path)?)),
        #[cfg(feature = "remote")]
        Place::Uri(uri) => Ok(Box::new(remote::Remote::at(&uri, access.password_file.as_deref(), warn)?)),
        #[cfg(not(feature = "remote"))]
        Place::Socket(_) | Place::Uri(_) => {
            let _ = warn;
            Err(Failure::usage("this build of cairn opens folders only: it lacks the feature `remote`"))
        }
    }
}
