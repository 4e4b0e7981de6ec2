//! A store as scripts use it: what only reads is distinguished from what writes, a folder is opened for writing when it is needed, and
//! commands about a server are answered for a folder too, by a server within this process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cairndb::CancellationToken;
use cairndb::bson::{Document, RawDocument, RawDocumentBuf};
use query::code::Code;

use crate::command::is_tailable;
use crate::failure::{Exit, Failure};
use crate::signals::Signals;
use crate::store::folder::{Absent, Folder};
use crate::store::place::Place;
#[cfg(feature = "remote")]
use crate::store::remote::Remote;
use crate::store::{
    Access, BackedUp, BackupWish, CompactedBytes, Documents, FolderFacts, Store, StoreSession, Telling,
    TellingBackup, UserThere, connect,
};

/// Commands of a server that change nothing that is stored.
const READING: [&str; 23] = [
    "buildInfo",
    "buildinfo",
    "collstats",
    "connectionStatus",
    "currentOp",
    "dbstats",
    "endSessions",
    "getCmdLineOpts",
    "getLog",
    "getMore",
    "getParameter",
    "hello",
    "hostInfo",
    "isMaster",
    "ismaster",
    "killCursors",
    "listCommands",
    "profile",
    "replSetGetConfig",
    "replSetGetStatus",
    "serverStatus",
    "usersInfo",
    "whatsmyuri",
];

/// The name of the replica set that a server within this process is.
#[cfg(feature = "remote")]
const REPLICA_SET: &str = "cairn";

/// The treatment of commands that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// They are run. A folder is opened for writing at once.
    Allowed,
    /// They are run. A folder is opened for reading, and for writing with the first of them.
    WhenAsked,
    /// They are rejected.
    Refused,
}

/// A store for scripts.
pub(crate) struct Session {
    opened: Mutex<Opened>,
    writes: Writes,
    /// The folder, if it is one.
    path: Option<PathBuf>,
    memory: Option<usize>,
    /// The reason why the folder is not open for writing, if it was to be.
    refused: Option<Failure>,
    /// Whether a command that writes was let through, so that there is something to sync.
    has_written: AtomicBool,
}

struct Opened {
    store: Reached,
    is_for_reading: bool,
    token: CancellationToken,
    #[cfg(feature = "remote")]
    server: Option<InProcess>,
}

enum Reached {
    Folder(Folder),
    Server(Box<dyn Store>),
}

impl Reached {
    fn store(&self) -> &dyn Store {
        match self {
            Self::Folder(folder) => folder,
            Self::Server(server) => &**server,
        }
    }
}

impl Session {
    /// Opens a store. An absent folder is an error, because its name is mistyped more often than meant.
    pub(crate) fn open(
        name: &Path,
        access: &Access,
        writes: Writes,
        signals: &Signals,
        warn: &mut dyn FnMut(&str),
    ) -> Result<Self, Failure> {
        let token = &signals.token;
        let place = Place::of(name);
        let path = if let Place::Folder(path) = &place { Some(path.clone()) } else { None };
        if path.is_some() {
            access.check(signals)?;
        }
        let is_for_reading = writes != Writes::Allowed;
        let store = match &path {
            Some(path) if is_for_reading => {
                Reached::Folder(Folder::open_for_reading(path, access.memory, token)?)
            }
            Some(path) => {
                let mut folder = Folder::open_for_writing(path, access.memory, Absent::IsRefused)?;
                folder.use_token(token);
                Reached::Folder(folder)
            }
            None => {
                let mut server = connect(&place, access, signals, warn)?;
                server.use_token(token);
                Reached::Server(server)
            }
        };
        let opened = Opened {
            store,
            is_for_reading,
            token: token.clone(),
            #[cfg(feature = "remote")]
            server: None,
        };
        Ok(Self {
            opened: Mutex::new(opened),
            writes,
            path,
            memory: access.memory,
            refused: None,
            has_written: AtomicBool::new(false),
        })
    }

    /// Rejects what writes with this failure: the folder was to be opened for writing, and could not be.
    pub(crate) fn refuse_writes_for(&mut self, failure: Failure) {
        self.refused = Some(Failure { code: Some(Code::ILLEGAL_OPERATION.number()), ..failure });
    }

    /// Listens on a Unix socket for programs of this user, as long as the returned value lives. Returns `None` if the store is
    /// no folder.
    #[cfg(feature = "remote")]
    pub(crate) fn serve(&self, socket: &Path) -> Result<Option<cairndb_server::RunningServer>, Failure> {
        match &self.opened().store {
            Reached::Folder(folder) => serve(folder, socket).map(Some),
            Reached::Server(_) => Ok(None),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rejects what writes where it must not, and opens the folder for it where it may.
    fn admit(&self, command: &RawDocument) -> Result<(), Failure> {
        if is_reading(command) {
            return Ok(());
        }
        // A command that the engine does not have writes nothing into a folder, and the engine's own rejection says
        // more.
        let is_known = cairndb::command_rules(name_of(command)).is_some();
        match (self.writes, &self.path) {
            (Writes::Refused, Some(_)) if !is_known => Ok(()),
            (Writes::Refused, _) => Err(self.refused.clone().unwrap_or_else(|| read_only(command))),
            (Writes::WhenAsked, Some(path)) if is_known => {
                self.has_written.store(true, Ordering::Relaxed);
                self.open_for_writing(path)
            }
            (Writes::WhenAsked | Writes::Allowed, _) => {
                self.has_written.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// A folder that is opened for reading stays as it was at that moment, so nothing could be followed there.
    fn admit_following(&self) -> Result<(), Failure> {
        match (&self.path, self.writes) {
            (None, _) | (Some(_), Writes::Allowed) => Ok(()),
            (Some(path), Writes::WhenAsked) => self.open_for_writing(path),
            (Some(path), Writes::Refused) => {
                let shown = path.display();
                let message = format!(
                    "{shown} is open for reading as it is at one moment, so that a tailable cursor would never get another document: \
                     give the socket of the process that writes to it"
                );
                Err(Failure {
                    code: Some(Code::ILLEGAL_OPERATION.number()),
                    ..Failure::new(Exit::Failed, message)
                })
            }
        }
    }

    fn open_for_writing(&self, path: &Path) -> Result<(), Failure> {
        let mut opened = self.opened();
        if !opened.is_for_reading {
            return Ok(());
        }
        // Cursors that are open keep what was opened for reading until they end.
        let mut folder = Folder::open_for_writing(path, self.memory, Absent::IsRefused)?;
        folder.use_token(&opened.token);
        opened.store = Reached::Folder(folder);
        opened.is_for_reading = false;
        #[cfg(feature = "remote")]
        {
            opened.server = None;
        }
        Ok(())
    }
}

impl Store for Session {
    fn run(&self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        self.admit(&command)?;
        // A store that is open for reading is not a replica set.
        if let (Some(path), Writes::WhenAsked) = (&self.path, self.writes)
            && name_of(&command).starts_with("replSetGet")
        {
            self.open_for_writing(path)?;
        }
        let mut opened = self.opened();
        if let (Reached::Folder(_), true) = (&opened.store, is_about_server(&command)) {
            return opened.ask_server(database, command);
        }
        opened.store.store().run(database, command)
    }

    fn sync(&self) -> Result<(), Failure> {
        // A user who may only read may not sync either.
        if !self.has_written.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.opened().store.store().sync() {
            // A server of MongoDB lets few users do it, and has journaled what it acknowledged.
            Err(failure) if failure.code == Some(Code::UNAUTHORIZED.number()) => Ok(()),
            synced => synced,
        }
    }

    fn stream(&self, database: &str, command: RawDocumentBuf) -> Result<Box<dyn Documents>, Failure> {
        self.admit(&command)?;
        if is_tailable(&command) {
            self.admit_following()?;
        }
        self.opened().store.store().stream(database, command)
    }

    fn start_session(&self) -> Result<Box<dyn StoreSession>, Failure> {
        // A transaction of a folder that is open for reading would end with it when the folder is opened for writing.
        if let (Some(path), Writes::WhenAsked) = (&self.path, self.writes) {
            self.open_for_writing(path)?;
        }
        self.has_written.store(true, Ordering::Relaxed);
        let session = self.opened().store.store().start_session()?;
        let is_refused = self.writes == Writes::Refused;
        let refusal = is_refused.then(|| self.refused.clone());
        Ok(match refusal {
            Some(refused) => Box::new(ReadingSession { session, refused }),
            None => session,
        })
    }

    fn use_token(&mut self, token: &CancellationToken) {
        let mut opened = self.opened();
        opened.token = token.clone();
        match &mut opened.store {
            Reached::Folder(folder) => folder.use_token(token),
            Reached::Server(server) => server.use_token(token),
        }
        // It has the earlier token, and is made again when it is asked again.
        #[cfg(feature = "remote")]
        {
            opened.server = None;
        }
    }

    fn is_alone(&self) -> bool {
        self.opened().store.store().is_alone()
    }

    fn is_of_one_moment(&self) -> bool {
        self.opened().store.store().is_of_one_moment()
    }

    fn users(&self) -> Result<Box<dyn Documents>, Failure> {
        self.opened().store.store().users()
    }

    fn folder(&self) -> Result<Option<FolderFacts>, Failure> {
        self.opened().store.store().folder()
    }

    fn compact(
        &self,
        namespace: Option<(&str, &str)>,
        signals: &Signals,
        tell: &mut Telling<'_>,
    ) -> Result<CompactedBytes, Failure> {
        self.opened().store.store().compact(namespace, signals, tell)
    }

    fn back_up(
        &self,
        wish: BackupWish<'_>,
        signals: &Signals,
        tell: &mut TellingBackup<'_>,
    ) -> Result<BackedUp, Failure> {
        self.opened().store.store().back_up(wish, signals, tell)
    }

    fn add_user(&self, user: &RawDocument, if_there: UserThere) -> Result<(), Failure> {
        self.opened().store.store().add_user(user, if_there)
    }
}

/// A session whose store is not to be written to.
struct ReadingSession {
    session: Box<dyn StoreSession>,
    /// The reason why the folder is not open for writing, if it was to be.
    refused: Option<Failure>,
}

impl ReadingSession {
    fn admit(&self, command: &RawDocument) -> Result<(), Failure> {
        if is_reading(command) {
            return Ok(());
        }
        Err(self.refused.clone().unwrap_or_else(|| read_only(command)))
    }
}

impl StoreSession for ReadingSession {
    fn id(&self) -> Document {
        self.session.id()
    }

    fn begin(&mut self, options: &Document) -> Result<(), Failure> {
        self.session.begin(options)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.session.commit()
    }

    fn abort(&mut self) -> Result<(), Failure> {
        self.session.abort()
    }

    fn run(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        self.admit(&command)?;
        self.session.run(database, command)
    }

    fn open(&mut self, database: &str, command: RawDocumentBuf) -> Result<u32, Failure> {
        self.admit(&command)?;
        self.session.open(database, command)
    }

    fn next(&mut self, cursor: u32) -> Result<Option<RawDocumentBuf>, Failure> {
        self.session.next(cursor)
    }
}

impl Opened {
    /// Asks a server within this process, which is started for the first question.
    #[cfg(feature = "remote")]
    fn ask_server(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        if self.server.is_none()
            && let Reached::Folder(folder) = &self.store
        {
            self.server = Some(InProcess::start(folder, &self.token)?);
        }
        match &self.server {
            Some(server) => server.remote.run(database, command),
            None => self.store.store().run(database, command),
        }
    }

    #[cfg(not(feature = "remote"))]
    fn ask_server(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        self.store.store().run(database, command)
    }
}

/// A server within this process, and a connection to it.
#[cfg(feature = "remote")]
struct InProcess {
    // Dropped in this order: the connection, the server, the folder of its socket.
    remote: Remote,
    _running: cairndb_server::RunningServer,
    _folder: PrivateFolder,
}

#[cfg(feature = "remote")]
impl InProcess {
    fn start(folder: &Folder, token: &CancellationToken) -> Result<Self, Failure> {
        let private = PrivateFolder::make()?;
        let socket = private.path.join("cairn.sock");
        let running = serve(folder, &socket)?;
        let mut remote = Remote::over_socket(&socket, token)?;
        remote.use_token(token);
        Ok(Self { remote, _running: running, _folder: private })
    }
}

#[cfg(feature = "remote")]
fn serve(folder: &Folder, socket: &Path) -> Result<cairndb_server::RunningServer, Failure> {
    let mut server = cairndb_server::Server::builder(folder.client.clone()).unix_socket(socket);
    // Drivers send transactions to a replica set alone, and a store for reading only is none.
    if !folder.client.is_read_only() {
        server = server.replica_set(REPLICA_SET);
    }
    server.spawn().map_err(|error| Failure::new(Exit::Failed, format!("the store cannot be served: {error}")))
}

/// A folder for a socket that no other user reaches; it is removed in the end.
#[cfg(feature = "remote")]
pub(crate) struct PrivateFolder {
    pub(crate) path: PathBuf,
}

#[cfg(feature = "remote")]
impl PrivateFolder {
    pub(crate) fn make() -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;

        let name = format!("cairn-{}", cairndb::bson::oid::ObjectId::new().to_hex());
        let path = std::env::temp_dir().join(name);
        // Not made if it is there, and for this user alone from the beginning.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::io(&path.display().to_string(), &error))?;
        Ok(Self { path })
    }
}

#[cfg(feature = "remote")]
impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is empty, or in the system's folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn name_of(command: &RawDocument) -> &str {
    command.iter().next().and_then(Result::ok).map_or("", |(name, _)| name.as_str())
}

/// Whether a command changes nothing that is stored. A command that is not known counts as one that writes.
fn is_reading(command: &RawDocument) -> bool {
    match name_of(command) {
        "aggregate" => !has_writing_stage(command),
        // An explanation runs what it explains, but for the writes.
        name => match cairndb::command_rules(name) {
            Some(rules) => !rules.writes(),
            None => READING.contains(&name),
        },
    }
}

fn has_writing_stage(command: &RawDocument) -> bool {
    let Ok(stages) = command.get_array("pipeline") else { return false };
    stages
        .into_iter()
        .flatten()
        .any(|stage| stage.as_document().is_some_and(|stage| matches!(name_of(stage), "$out" | "$merge")))
}

/// Whether a folder leaves the answer to a server. `explain` describes the server as well.
fn is_about_server(command: &RawDocument) -> bool {
    let name = name_of(command);
    name == "explain" || cairndb::command_rules(name).is_none()
}

fn read_only(command: &RawDocument) -> Failure {
    let name = name_of(command);
    Failure {
        code: Some(Code::ILLEGAL_OPERATION.number()),
        ..Failure::new(Exit::Failed, format!("the store is open for reading only: {name} would write"))
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::rawdoc;

    use super::*;

    #[test]
    fn reads_and_writes_are_told_apart() {
        for reading in [
            rawdoc! { "find": "a" },
            rawdoc! { "aggregate": "a", "pipeline": [{ "$match": { "$out": 1 } }] },
            rawdoc! { "explain": { "delete": "a" } },
        ] {
            assert!(is_reading(&reading), "{reading:?}");
        }
        for writing in [
            rawdoc! { "insert": "a" },
            rawdoc! { "aggregate": "a", "pipeline": [{ "$match": {} }, { "$merge": "b" }] },
            rawdoc! { "sequenceNext": "a" },
            rawdoc! { "killOp": 1 },
            rawdoc! { "unknown": 1 },
        ] {
            assert!(!is_reading(&writing), "{writing:?}");
        }
    }

    #[cfg(feature = "remote")]
    #[test]
    fn a_private_folder_is_for_one_user_and_gone_in_the_end() {
        use std::os::unix::fs::PermissionsExt;

        let folder = PrivateFolder::make().unwrap();
        let path = folder.path.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(path.join("s"), "").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
