//! The commands that are going on, as `currentOp` lists them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cairndb::bson::{DateTime, Document, doc};
use parking_lot::Mutex;

/// All commands that have begun and not ended.
#[derive(Default)]
pub(crate) struct Operations {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: i64,
    running: BTreeMap<i64, Operation>,
}

/// A command that is going on.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) connection: i32,
    /// Where the connection comes from.
    pub(crate) client: String,
    pub(crate) command: String,
    /// The database, and behind a point what the command names in it.
    pub(crate) namespace: String,
    since: (Instant, SystemTime),
}

/// An entry of the table. Dropping it says that the command ended.
pub(crate) struct Running {
    operations: Arc<Operations>,
    id: i64,
}

impl Operation {
    /// A command that begins now.
    pub(crate) fn new(
        (connection, client): (i32, String),
        command: impl Into<String>,
        namespace: String,
    ) -> Self {
        let since = (Instant::now(), SystemTime::now());
        Self { connection, client, command: command.into(), namespace, since }
    }

    /// As `currentOp` shows it.
    fn shown(&self, id: i64) -> Document {
        let running = self.since.0.elapsed();
        doc! {
            "type": "op",
            "opid": id,
            "active": true,
            "op": self.kind(),
            "ns": &self.namespace,
            "command": { &self.command: 1 },
            "connectionId": self.connection,
            "client": &self.client,
            "currentOpTime": DateTime::from_system_time(self.since.1).try_to_rfc3339_string().unwrap_or_default(),
            "secs_running": i64::try_from(running.as_secs()).unwrap_or(i64::MAX),
            "microsecs_running": i64::try_from(running.as_micros()).unwrap_or(i64::MAX),
        }
    }

    fn kind(&self) -> &'static str {
        match self.command.as_str() {
            "insert" => "insert",
            "find" => "query",
            "update" => "update",
            "delete" => "remove",
            "getMore" => "getmore",
            _ => "command",
        }
    }
}

impl Operations {
    /// Lists a command until what is given back is dropped.
    pub(crate) fn begin(self: &Arc<Self>, operation: Operation) -> Running {
        let mut table = self.table.lock();
        table.last += 1;
        let id = table.last;
        table.running.insert(id, operation);
        Running { operations: Arc::clone(self), id }
    }

    /// The commands that are going on, the oldest first; only those of one connection if one is given.
    pub(crate) fn list(&self, connection: Option<i32>) -> Vec<Document> {
        let table = self.table.lock();
        let asked = |operation: &Operation| connection.is_none_or(|own| own == operation.connection);
        let running = table.running.iter().filter(|(_, operation)| asked(operation));
        running.map(|(&id, operation)| operation.shown(id)).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.operations.table.lock().running.remove(&self.id);
    }
}
