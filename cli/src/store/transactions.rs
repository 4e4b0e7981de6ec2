//! Sessions of a folder and of a server, and their transactions.

use std::collections::HashMap;
#[cfg(feature = "remote")]
use std::time::Duration;

use cairndb::bson::{Bson, Document, RawDocumentBuf};
use cairndb::{Client, ClientSession, ReadConcern, SessionCursor, WriteConcern};
#[cfg(feature = "remote")]
use mongodb::sync as driver;

use crate::failure::{Exit, Failure};
use crate::store::StoreSession;
#[cfg(feature = "remote")]
use crate::store::server::Server;

/// A session of a folder.
pub(super) struct FolderSession {
    client: Client,
    session: ClientSession,
    cursors: HashMap<u32, SessionCursor<Document>>,
    last: u32,
}

impl FolderSession {
    pub(super) fn start(client: &Client) -> Result<Self, Failure> {
        let session = client.start_session().run()?;
        Ok(Self { client: client.clone(), session, cursors: HashMap::new(), last: 0 })
    }
}

impl StoreSession for FolderSession {
    fn id(&self) -> Document {
        self.session.id().clone()
    }

    fn begin(&mut self, options: &Document) -> Result<(), Failure> {
        let wish = Wish::of(options)?;
        let mut starting = self.session.start_transaction();
        if let Some(level) = wish.level {
            starting = starting.read_concern(ReadConcern::custom(level));
        }
        if let Some((w, journal)) = wish.concern {
            let w = w.map(|nodes| match nodes {
                Nodes::Majority => cairndb::Acknowledgment::Majority,
                Nodes::Number(number) => cairndb::Acknowledgment::Nodes(number),
            });
            starting = starting.write_concern(WriteConcern::new(w, None, journal));
        }
        if let Some(time) = wish.commit_time {
            starting = starting.max_commit_time(time);
        }
        starting.run().map_err(labeled)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.cursors.clear();
        self.session.commit_transaction().run().map_err(labeled)
    }

    fn abort(&mut self) -> Result<(), Failure> {
        self.cursors.clear();
        self.session.abort_transaction().run().map_err(labeled)
    }

    fn run(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        let database = self.client.database(database);
        database.run_raw_command(command).session(&mut self.session).run().map_err(labeled)
    }

    fn open(&mut self, database: &str, command: RawDocumentBuf) -> Result<u32, Failure> {
        let database = self.client.database(database);
        let opened = database.run_raw_cursor_command(command).session(&mut self.session).run();
        self.last = self.last.wrapping_add(1);
        self.cursors.insert(self.last, opened.map_err(labeled)?);
        Ok(self.last)
    }

    fn next(&mut self, cursor: u32) -> Result<Option<RawDocumentBuf>, Failure> {
        let Some(open) = self.cursors.get_mut(&cursor) else { return Err(ended()) };
        if open.advance(&mut self.session).map_err(labeled)? {
            return Ok(Some(open.current().to_owned()));
        }
        self.cursors.remove(&cursor);
        Ok(None)
    }
}

/// An error of the engine with its labels, as the reply of a server has them.
fn labeled(error: cairndb::Error) -> Failure {
    let labels: Vec<Bson> = error.labels().iter().map(|label| Bson::from(*label)).collect();
    with_labels(error.into(), labels)
}

fn with_labels(mut failure: Failure, labels: Vec<Bson>) -> Failure {
    if !labels.is_empty() {
        failure.details.get_or_insert_default().insert("errorLabels", labels);
    }
    failure
}

/// The failure of a cursor whose transaction has ended.
fn ended() -> Failure {
    let message = "the cursor is of a transaction that has ended";
    Failure {
        code: Some(query::code::Code::CURSOR_NOT_FOUND.number()),
        ..Failure::new(Exit::Failed, message)
    }
}

/// The number of servers that acknowledge a commit.
#[derive(Clone, Copy)]
enum Nodes {
    Majority,
    Number(u32),
}

/// The options of a transaction that is started.
#[derive(Default)]
struct Wish {
    level: Option<String>,
    /// `w` and `j`.
    concern: Option<(Option<Nodes>, Option<bool>)>,
    commit_time: Option<std::time::Duration>,
}

impl Wish {
    fn of(options: &Document) -> Result<Self, Failure> {
        let wrong = |name: &str| {
            Failure::usage(format!("the option {name} of a transaction is not as a command has it"))
        };
        let mut wish = Self::default();
        if let Some(concern) = options.get("readConcern") {
            let level = concern.as_document().and_then(|concern| concern.get_str("level").ok());
            wish.level = Some(level.ok_or_else(|| wrong("readConcern"))?.to_owned());
        }
        if let Some(concern) = options.get("writeConcern") {
            let concern = concern.as_document().ok_or_else(|| wrong("writeConcern"))?;
            let w = match concern.get("w") {
                None => None,
                Some(Bson::String(mode)) if mode == "majority" => Some(Nodes::Majority),
                Some(nodes) => Some(Nodes::Number(whole(nodes).ok_or_else(|| wrong("writeConcern"))?)),
            };
            wish.concern = Some((w, concern.get_bool("j").ok()));
        }
        if let Some(time) = options.get("maxCommitTimeMS") {
            let time = whole(time).ok_or_else(|| wrong("maxCommitTimeMS"))?;
            wish.commit_time = Some(std::time::Duration::from_millis(u64::from(time)));
        }
        Ok(wish)
    }
}

fn whole(value: &Bson) -> Option<u32> {
    // A script's numbers are doubles, too.
    let double = || value.as_f64().filter(|number| number.fract() == 0.0);
    let number = value.as_i64().or(value.as_i32().map(i64::from));
    let number = number.or_else(|| double().and_then(|number| format!("{number:.0}").parse().ok()));
    u32::try_from(number?).ok()
}

/// A session of a server.
#[cfg(feature = "remote")]
pub(super) struct RemoteSession {
    server: Server,
    session: driver::ClientSession,
    cursors: HashMap<u32, driver::SessionCursor<Document>>,
    last: u32,
}

#[cfg(feature = "remote")]
impl RemoteSession {
    pub(super) fn start(server: &Server) -> Result<Self, Failure> {
        let session = server.client.start_session().run().map_err(|error| server.failure(&error))?;
        Ok(Self { server: server.clone(), session, cursors: HashMap::new(), last: 0 })
    }

    fn failure(&self, error: &mongodb::error::Error) -> Failure {
        let labels = error.labels().iter().map(|label| Bson::from(label.as_str())).collect();
        with_labels(self.server.failure(error), labels)
    }
}

#[cfg(feature = "remote")]
impl StoreSession for RemoteSession {
    fn id(&self) -> Document {
        self.session.id().clone()
    }

    fn begin(&mut self, options: &Document) -> Result<(), Failure> {
        let wish = Wish::of(options)?;
        let mut starting = self.session.start_transaction();
        if let Some(level) = &wish.level {
            starting = starting.read_concern(mongodb::options::ReadConcern::custom(level));
        }
        if let Some((w, journal)) = wish.concern {
            let mut concern = mongodb::options::WriteConcern::default();
            concern.w = w.map(|nodes| match nodes {
                Nodes::Majority => mongodb::options::Acknowledgment::Majority,
                Nodes::Number(number) => mongodb::options::Acknowledgment::Nodes(number),
            });
            concern.journal = journal;
            starting = starting.write_concern(concern);
        }
        if let Some(time) = wish.commit_time.filter(|time| *time > Duration::ZERO) {
            starting = starting.max_commit_time(time);
        }
        let started = starting.run();
        started.map_err(|error| self.failure(&error))
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.cursors.clear();
        let committed = self.session.commit_transaction().run();
        committed.map_err(|error| self.failure(&error))
    }

    fn abort(&mut self) -> Result<(), Failure> {
        self.cursors.clear();
        let aborted = self.session.abort_transaction().run();
        aborted.map_err(|error| self.failure(&error))
    }

    fn run(&mut self, database: &str, command: RawDocumentBuf) -> Result<Document, Failure> {
        let database = self.server.client.database(database);
        let reply = database.run_raw_command(command).session(&mut self.session).run();
        reply.map_err(|error| self.failure(&error))
    }

    fn open(&mut self, database: &str, command: RawDocumentBuf) -> Result<u32, Failure> {
        let database = self.server.client.database(database);
        let opened = database.run_raw_cursor_command(command).session(&mut self.session).run();
        self.last = self.last.wrapping_add(1);
        self.cursors.insert(self.last, opened.map_err(|error| self.failure(&error))?);
        Ok(self.last)
    }

    fn next(&mut self, cursor: u32) -> Result<Option<RawDocumentBuf>, Failure> {
        let Some(open) = self.cursors.get_mut(&cursor) else { return Err(ended()) };
        match open.advance(&mut self.session) {
            Ok(true) => Ok(Some(open.current().to_owned())),
            Ok(false) => {
                self.cursors.remove(&cursor);
                Ok(None)
            }
            Err(error) => Err(self.failure(&error)),
        }
    }
}
