//! A store behind a socket or a URI, reached by MongoDB's own driver. Passwords never come from arguments that
//! this tool defines, and no message repeats a URI.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(feature = "shell")]
use cairndb::CancellationToken;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error;
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::sync::{Client, Cursor};
use query::code::Code;

#[cfg(feature = "shell")]
use crate::command::is_tailable;
use crate::command::{count, raw};
use crate::failure::{Exit, Failure};
use crate::password;
use crate::signals::Signals;
#[cfg(feature = "shell")]
use crate::store::ahead::Ahead;
use crate::store::refused::failure;
#[cfg(feature = "shell")]
use crate::store::tail::Tail;
use crate::store::waiting::wait;
use crate::store::{
    BackedUp, BackupWish, CompactedBytes, Documents, FolderFacts, Store, Telling, TellingBackup, UserThere,
};

/// How long the server is looked for, unless the URI says otherwise.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Remote {
    client: Client,
    /// The collection that was written to last, with its database.
    written: Mutex<Option<(String, String)>>,
    /// What ends calls, for those who want to go on after a signal.
    #[cfg(feature = "shell")]
    token: Option<CancellationToken>,
}

impl Remote {
    pub(super) fn over_socket(path: &Path) -> Result<Self, Failure> {
        // Tried first: the driver would look for a server that has ended until its time is over.
        UnixStream::connect(path).map_err(|error| {
            Failure::new(Exit::NoStore, format!("{}: no server listens: {error}", path.display()))
        })?;
        // Not by a URI: in one only a name that ends in `.sock` is a socket.
        let address = ServerAddress::Unix { path: path.to_owned() };
        Self::connect(ClientOptions::builder().hosts(vec![address]).build())
    }

    pub(super) fn at(
        uri: &str,
        password_file: Option<&Path>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        match credentials(uri) {
            Credentials::None => Self::parsed(uri),
            Credentials::WithPassword => {
                warn(
                    "the URI has a password, which every process of this machine can read: use --password-file",
                );
                Self::parsed(uri)
            }
            Credentials::UserAlone { end } => {
                let password = password(password_file)?;
                let (head, tail) = uri.split_at(end);
                Self::parsed(&format!("{head}:{}{tail}", percent_encoded(password.as_bytes())))
            }
        }
    }

    fn parsed(uri: &str) -> Result<Self, Failure> {
        Self::connect(ClientOptions::parse(uri).run().map_err(|error| unusable(&error))?)
    }

    /// Runs a command that takes long. A signal ends the wait, and the server ends the command when this process has ended.
    fn run_until_signal(
        &self,
        database: &str,
        command: &Document,
        signals: &Signals,
    ) -> Result<Document, Failure> {
        wait(&signals.token, self.call(database, raw(command)?))
    }

    /// A command that is run when this is called.
    fn call(
        &self,
        database: &str,
        command: RawDocumentBuf,
    ) -> impl FnOnce() -> Result<Document, Failure> + Send + use<> {
        let database = self.client.database(database);
        move || database.run_raw_command(command).run().map_err(|error| failure(&error))
    }

    fn connect(mut options: ClientOptions) -> Result<Self, Failure> {
        options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
        let client = Client::with_options(options).map_err(|error| unusable(&error))?;
        Ok(Self {
            client,
            written: Mutex::default(),
            #[cfg(feature = "shell")]
            token: None,
        })
    }
}

impl Store for Remote {
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        if let Some(collection) = written_by(&command) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            *written = Some((database.to_owned(), collection.to_owned()));
        }
        let run = self.call(database, command);
        #[cfg(feature = "shell")]
        if let Some(token) = &self.token {
            return wait(token, run);
        }
        run()
    }

    fn sync(&self) -> Result<(), Failure> {
        let synced = self.run("admin", raw(&doc! { "fsync": 1 })?).map(drop);
        let refused = |failure: &Failure| failure.code == Some(Code::UNAUTHORIZED.number());
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (synced, written) {
            // Few users may do it. A delete of nothing is journaled after all that was written before, here and in MongoDB.
            (Err(failure), Some((database, collection))) if refused(&failure) => {
                let nothing = doc! { "q": { "_id": { "$in": [] } }, "limit": 1 };
                let delete =
                    doc! { "delete": collection, "deletes": [nothing], "writeConcern": { "j": true } };
                self.run(&database, raw(&delete)?).map(drop)
            }
            (synced, _) => synced,
        }
    }

    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure> {
        #[cfg(feature = "shell")]
        if is_tailable(&command) {
            return Ok(Box::new(Tail::open(&self.client, database, command, self.token.as_ref())?));
        }
        let database = self.client.database(database);
        let open = move || database.run_raw_cursor_command(command).run().map_err(|error| failure(&error));
        #[cfg(feature = "shell")]
        if let Some(token) = &self.token {
            return Ok(Box::new(Ahead::of(wait(token, open)?, token)?));
        }
        Ok(Box::new(open()?))
    }

    #[cfg(feature = "shell")]
    fn use_token(&mut self, token: &CancellationToken) {
        self.token = Some(token.clone());
    }

    fn is_of_one_moment(&self) -> bool {
        false
    }

    fn users(&self) -> Result<Box<dyn Documents>, Failure> {
        Err(Failure::usage("users are never read through a connection: give the folder"))
    }

    fn folder(&self) -> Result<Option<FolderFacts>, Failure> {
        Ok(None)
    }

    fn compact(
        &self,
        namespace: Option<(&str, &str)>,
        signals: &Signals,
        _: &mut Telling<'_>,
    ) -> Result<CompactedBytes, Failure> {
        let reply = match namespace {
            None => self.run_until_signal("admin", &doc! { "compact": 1 }, signals)?,
            Some((database, collection)) => {
                self.run_until_signal(database, &doc! { "compact": collection }, signals)?
            }
        };
        // MongoDB's own server tells only how many bytes are free.
        let before = count(&reply, "bytesBefore").or_else(|| count(&reply, "bytesFreed")).unwrap_or_default();
        Ok(CompactedBytes { before, after: count(&reply, "bytesAfter").unwrap_or_default() })
    }

    fn back_up(
        &self,
        wish: BackupWish<'_>,
        signals: &Signals,
        _: &mut TellingBackup<'_>,
    ) -> Result<BackedUp, Failure> {
        let Some(name) = wish.target.to_str() else {
            return Err(Failure::usage(format!("{} is not a name of a backup", wish.target.display())));
        };
        let mut command = doc! { "backup": 1, "name": name };
        if let Some(keep) = wish.generations {
            command.insert("generations", i64::from(keep));
        }
        let reply =
            self.run_until_signal("admin", &command, signals).map_err(|failure| match failure.code {
                Some(code) if Code::OPERATION_FAILED == code => Failure { exit: Exit::Different, ..failure },
                Some(code) if Code::BAD_VALUE == code => Failure { exit: Exit::Usage, ..failure },
                Some(code) if Code::COMMAND_NOT_FOUND == code => {
                    let words = "the server makes no backups, as MongoDB's: cairn dump copies what it has";
                    Failure { message: words.to_owned(), ..failure }
                }
                Some(_) | None => failure,
            })?;
        let number = |name| count(&reply, name).unwrap_or_default();
        let removed = reply.get_array("removed").into_iter().flatten();
        Ok(BackedUp {
            folder: reply.get_str("folder").unwrap_or_default().to_owned(),
            removed: removed.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            bytes: number("bytes"),
            bytes_linked: number("bytesLinked"),
            files_linked: number("filesLinked"),
            collections: number("collections"),
            documents: number("documents"),
            indexes: number("indexes"),
            entries: number("entries"),
            sequences: number("sequences"),
            files: number("files"),
        })
    }

    fn add_user(&self, _: &RawDocument, _: UserThere) -> Result<(), Failure> {
        Err(Failure::usage("users are never sent through a connection: give the folder"))
    }
}

impl Documents for Cursor<Document> {
    fn advance(&mut self) -> Result<bool, Failure> {
        Self::advance(self).map_err(|error| failure(&error))
    }

    fn current(&self) -> &RawDocument {
        Self::current(self)
    }
}

/// What a URI says about the user.
#[derive(Debug, PartialEq, Eq)]
enum Credentials {
    None,
    /// A user without a password, whose name ends at byte `end`.
    UserAlone {
        end: usize,
    },
    WithPassword,
}

fn credentials(uri: &str) -> Credentials {
    let start = uri.find("://").map_or(0, |at| at + "://".len());
    let rest = uri.get(start..).unwrap_or_default();
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    match hosts.rsplit_once('@') {
        None => Credentials::None,
        Some((user, _)) if user.contains(':') => Credentials::WithPassword,
        Some((user, _)) => Credentials::UserAlone { end: start + user.len() },
    }
}

/// The password from the file, else from the environment, else from the terminal.
fn password(file: Option<&Path>) -> Result<String, Failure> {
    if let Some(password) = password::given(file)? {
        return Ok(password);
    }
    let missing = || Failure::usage("the URI names a user: give --password-file or CAIRN_PASSWORD");
    password::asked("Password: ")?.ok_or_else(missing)
}

pub(crate) fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn unusable(error: &Error) -> Failure {
    Failure::usage(format!("the URI cannot be used: {}", error.kind))
}

/// The collection that a command writes documents to.
fn written_by(command: &RawDocument) -> Option<&str> {
    let (name, collection) = command.iter().next()?.ok()?;
    let is_write = matches!(name.as_str(), "insert" | "update" | "delete" | "findAndModify");
    collection.as_str().filter(|_| is_write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: &Credentials) {
        assert_eq!(credentials(uri), *expected);
    }

    #[test]
    fn users_and_passwords_are_found_before_the_hosts() {
        check("mongodb://localhost/", &Credentials::None);
        check("mongodb://localhost/?appName=a@b:c", &Credentials::None);
        check("mongodb://ada@localhost", &Credentials::UserAlone { end: 13 });
        check("mongodb://ada:secret@a:1,b:2/", &Credentials::WithPassword);
    }

    #[test]
    fn what_is_not_plain_is_percent_encoded() {
        assert_eq!(percent_encoded("/a b/ü@:".as_bytes()), "%2Fa%20b%2F%C3%BC%40%3A");
    }
}
