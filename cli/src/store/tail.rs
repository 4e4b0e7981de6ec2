//! A tailable cursor or a change stream of a server. MongoDB's driver waits within its cursors until a document comes; here the caller says how long, so
//! the commands are sent one by one, in a session of their own, as servers want it.

use std::collections::VecDeque;
use std::time::Duration;

use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::sync::ClientSession;

use crate::command::{count, is_change_stream, raw};
use crate::failure::{Exit, Failure};
use crate::store::Documents;
use crate::store::server::Server;
use crate::store::waiting::wait;

/// A cursor that follows a collection.
pub(super) struct Tail {
    server: Server,
    /// `None` once the cursor has ended, or while a call is under way.
    session: Option<ClientSession>,
    database: String,
    collection: String,
    /// 0 once the server has ended the cursor.
    id: i64,
    batch_size: Option<u64>,
    awaits: bool,
    /// Of a change stream, the token after the last batch.
    token: Option<RawDocumentBuf>,
    batch: VecDeque<RawDocumentBuf>,
    current: RawDocumentBuf,
}

impl Tail {
    /// Sends a `find` with `tailable`, or an `aggregate` that is a change stream.
    pub(super) fn open(server: &Server, database: &str, command: RawDocumentBuf) -> Result<Self, Failure> {
        let session = server.client.start_session().run().map_err(|error| server.failure(&error))?;
        let asked =
            Document::try_from(&*command).map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let mut tail = Self {
            server: server.clone(),
            session: Some(session),
            database: database.to_owned(),
            collection: String::new(),
            id: 0,
            batch_size: batch_size(&asked),
            awaits: is_change_stream(&command) || asked.get_bool("awaitData").unwrap_or_default(),
            token: None,
            batch: VecDeque::new(),
            current: RawDocumentBuf::new(),
        };
        // An empty collection has ended the cursor already, as in MongoDB.
        let reply = tail.send(command)?;
        tail.take(&reply, "firstBatch")?;
        Ok(tail)
    }

    /// Runs a command in the cursor's session. One that is given up after a signal ends the session too, and the cursor has
    /// ended.
    fn send(&mut self, command: RawDocumentBuf) -> Result<Document, Failure> {
        let Some(mut session) = self.session.take() else {
            return Err(Failure::new(Exit::Failed, "the cursor has ended"));
        };
        let database = self.server.client.database(&self.database);
        let call = move || {
            let run = database.run_raw_command(command).session(&mut session).run();
            Ok((session, run))
        };
        let (session, answer) = wait(&self.server.impatience(), call).inspect_err(|_| self.id = 0)?;
        self.session = Some(session);
        answer.map_err(|error| self.server.failure(&error)).inspect_err(|_| self.id = 0)
    }

    /// Reads the documents of a batch.
    fn take(&mut self, reply: &Document, name: &str) -> Result<(), Failure> {
        let unreadable = |error: &dyn std::error::Error| {
            Failure::new(Exit::Failed, format!("the server's answer: {error}"))
        };
        let cursor = reply.get_document("cursor").map_err(|error| unreadable(&error))?;
        self.id = cursor.get_i64("id").map_err(|error| unreadable(&error))?;
        if let Ok(namespace) = cursor.get_str("ns") {
            let collection = namespace.split_once('.').map(|(_, collection)| collection);
            collection.unwrap_or_default().clone_into(&mut self.collection);
        }
        if let Ok(token) = cursor.get_document("postBatchResumeToken") {
            self.token = Some(raw(token)?);
        }
        for document in cursor.get_array(name).map_err(|error| unreadable(&error))? {
            let document = document.as_document().into_iter().map(RawDocumentBuf::try_from);
            for document in document {
                self.batch.push_back(document.map_err(|error| unreadable(&error))?);
            }
        }
        Ok(())
    }

    /// Asks for what has come since the last batch.
    fn ask(&mut self, time: Duration) -> Result<(), Failure> {
        let mut command = doc! { "getMore": self.id, "collection": &self.collection };
        if let Some(size) = self.batch_size {
            command.insert("batchSize", i64::try_from(size).unwrap_or(i64::MAX));
        }
        if self.awaits {
            // 0 would be the server's own time.
            let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1);
            command.insert("maxTimeMS", Bson::Int64(milliseconds));
        }
        let reply = self.send(raw(&command)?)?;
        self.take(&reply, "nextBatch")
    }
}

/// The largest number of documents of a batch, if a command says so.
fn batch_size(command: &Document) -> Option<u64> {
    let of_cursor = || command.get_document("cursor").ok().and_then(|cursor| count(cursor, "batchSize"));
    count(command, "batchSize").or_else(of_cursor).filter(|size| *size > 0)
}

impl Documents for Tail {
    fn advance(&mut self) -> Result<bool, Failure> {
        self.advance_within(Duration::ZERO)
    }

    fn current(&self) -> &RawDocument {
        &self.current
    }

    fn advance_within(&mut self, time: Duration) -> Result<bool, Failure> {
        // Documents that have come are handed out before more are asked for.
        if self.batch.is_empty() && self.id != 0 {
            self.ask(time)?;
        }
        match self.batch.pop_front() {
            Some(document) => {
                self.current = document;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn is_following(&self) -> bool {
        self.id != 0 || !self.batch.is_empty()
    }

    fn resume_token(&self) -> Option<RawDocumentBuf> {
        // That of the batch would pass what was not handed out yet.
        self.token.clone().filter(|_| self.batch.is_empty())
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        // Otherwise the server keeps the cursor until its time is over.
        if let Ok(command) = raw(&doc! { "killCursors": &self.collection, "cursors": [self.id] }) {
            // No error: a cursor that is gone already is what is wanted.
            let _ = self.send(command);
        }
    }
}
