//! A store behind a socket or a URI, reached by MongoDB's own driver. Passwords never come from arguments that
//! this tool defines, and no message repeats a URI.

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cairndb::CancellationToken;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error;
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::sync::{Client, Cursor};
use query::code::Code;

use crate::command::{count, is_tailable, raw};
use crate::failure::{Exit, Failure};
use crate::password;
use crate::signals::Signals;
#[cfg(feature = "shell")]
use crate::store::StoreSession;
use crate::store::ahead::Ahead;
use crate::store::server::Server;
use crate::store::tail::Tail;
#[cfg(feature = "shell")]
use crate::store::transactions::RemoteSession;
use crate::store::waiting::{Patience, wait};
use crate::store::{
    BackedUp, BackupWish, CompactedBytes, Documents, FolderFacts, Store, Telling, TellingBackup, UserThere,
};

/// The time for which the server is looked for, unless the URI says otherwise.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Remote {
    server: Server,
    /// The collection that was written to last, with its database.
    written: Mutex<Option<(String, String)>>,
}

impl Remote {
    pub(super) fn over_socket(path: &Path, token: &CancellationToken) -> Result<Self, Failure> {
        let name = path.display().to_string();
        // Tried first: the driver would look for a server that has ended until its time is over.
        UnixStream::connect(path)
            .map_err(|error| Failure::new(Exit::NoStore, format!("{name}: no server listens: {error}")))?;
        // Not by a URI: in one only a name that ends in `.sock` is a socket.
        let address = ServerAddress::Unix { path: path.to_owned() };
        // A replica set describes another address, which may lead elsewhere, or ask for a login.
        let options = ClientOptions::builder().hosts(vec![address]).direct_connection(true).build();
        Self::connect(options, &name, token)
    }

    pub(super) fn at(
        uri: &str,
        password_file: Option<&Path>,
        signals: &Signals,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        match credentials(uri) {
            Credentials::None => Self::parsed(uri, &signals.token),
            Credentials::WithPassword => {
                warn(
                    "the URI has a password, which every process of this machine can read: use --password-file",
                );
                Self::parsed(uri, &signals.token)
            }
            Credentials::UserAlone { end } => {
                let password = password(password_file, signals)?;
                let (head, tail) = uri.split_at(end);
                let uri = format!("{head}:{}{tail}", percent_encoded(password.as_bytes()));
                Self::parsed(&uri, &signals.token)
            }
        }
    }

    fn parsed(uri: &str, token: &CancellationToken) -> Result<Self, Failure> {
        let uri = uri.to_owned();
        // A name of `mongodb+srv` is looked up here, which may need as long as a server.
        let at_once = Patience { token: token.clone(), after: Duration::ZERO };
        let options = wait(&at_once, move || Ok(ClientOptions::parse(uri).run()))?;
        let options = options.map_err(|error| unusable(&error))?;
        let hosts: Vec<String> = options.hosts.iter().map(ToString::to_string).collect();
        Self::connect(options, &hosts.join(","), token)
    }

    fn connect(mut options: ClientOptions, name: &str, token: &CancellationToken) -> Result<Self, Failure> {
        options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
        let client = Client::with_options(options).map_err(|error| unusable(&error))?;
        Ok(Self { server: Server::reach(client, name, token)?, written: Mutex::default() })
    }

    /// Runs a command that lasts long. A signal ends the wait, and the server ends the command when this process has ended.
    fn run_until_signal(
        &self,
        database: &str,
        command: &Document,
        signals: &Signals,
    ) -> Result<Document, Failure> {
        let at_once = Patience { token: signals.token.clone(), after: Duration::ZERO };
        self.server.run(database, raw(command)?, &at_once)
    }
}

impl Store for Remote {
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        if let Some(collection) = written_by(&command) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            *written = Some((database.to_owned(), collection.to_owned()));
        }
        self.server.run(database, command, &self.server.patience)
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
        if is_tailable(&command) {
            return Ok(Box::new(Tail::open(&self.server, database, command)?));
        }
        let (database, patience) = (self.server.client.database(database), self.server.impatience());
        let opened = wait(&patience, move || Ok(database.run_raw_cursor_command(command).run()))?;
        let cursor = opened.map_err(|error| self.server.failure(&error))?;
        let cursor = Batches { server: self.server.clone(), cursor };
        Ok(Box::new(Ahead::of(cursor, &patience.token)?))
    }

    #[cfg(feature = "shell")]
    fn start_session(&self) -> Result<Box<dyn StoreSession>, Failure> {
        Ok(Box::new(RemoteSession::start(&self.server)?))
    }

    #[cfg(feature = "shell")]
    fn use_token(&mut self, token: &CancellationToken) {
        self.server.end_at_once(token);
    }

    fn is_alone(&self) -> bool {
        false
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
        // MongoDB's own server returns only how many bytes are free.
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
        let names = |field: &str| {
            let names = reply.get_array(field).into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        Ok(BackedUp {
            folder: reply.get_str("folder").unwrap_or_default().to_owned(),
            removed: names("removed"),
            kept: names("kept"),
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

/// A cursor of the driver.
struct Batches {
    server: Server,
    cursor: Cursor<Document>,
}

impl Documents for Batches {
    fn advance(&mut self) -> Result<bool, Failure> {
        self.cursor.advance().map_err(|error| self.server.failure(&error))
    }

    fn current(&self) -> &RawDocument {
        self.cursor.current()
    }
}

/// The user in a URI.
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
fn password(file: Option<&Path>, signals: &Signals) -> Result<String, Failure> {
    if let Some(password) = password::given(file, signals)? {
        return Ok(password);
    }
    let missing = || Failure::usage("the URI names a user: give --password-file or CAIRN_PASSWORD");
    password::asked("Password: ", signals)?.ok_or_else(missing)
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
