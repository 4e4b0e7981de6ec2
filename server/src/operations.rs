//! The commands that are going on, as `currentOp` lists them and `killOp` ends them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use cairndb::bson::{DateTime, Document, doc};
use cairndb::{CancellationToken, Interruption};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// All commands that have begun and not ended.
#[derive(Default)]
pub(crate) struct Operations {
    table: Mutex<Table>,
    /// Wakes the task that looks for clients that went away.
    begun: Notify,
}

#[derive(Default)]
struct Table {
    last: i64,
    running: BTreeMap<i64, Operation>,
    /// Whether the task that looks for clients that went away sleeps until a watched operation begins.
    is_watcher_asleep: bool,
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
    /// What ends it.
    cancellation: CancellationToken,
    /// The socket whose end ends it: none if it goes on without its client. The connection keeps it open, not this.
    socket: Weak<OwnedFd>,
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
        let cancellation = CancellationToken::new();
        Self {
            connection,
            client,
            command: command.into(),
            namespace,
            since,
            cancellation,
            socket: Weak::new(),
        }
    }

    /// Ends with this socket.
    pub(crate) fn watched_by(mut self, socket: &Weak<OwnedFd>) -> Self {
        self.socket = Weak::clone(socket);
        self
    }

    /// Whether it ends with a socket.
    fn is_watched(&self) -> bool {
        self.socket.strong_count() > 0
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

impl Running {
    /// What ends the command.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        let table = self.operations.table.lock();
        table.running.get(&self.id).map(|operation| operation.cancellation.clone()).unwrap_or_default()
    }

    /// The number that `currentOp` lists and `killOp` takes.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }
}

impl Operations {
    /// Ends a command that is going on, soon after; `false` if there is none of that number.
    pub(crate) fn kill(&self, id: i64) -> bool {
        self.interrupt(id, Interruption::Cancelled)
    }

    /// Ends a command that is going on, for a reason; `false` if there is none of that number.
    pub(crate) fn interrupt(&self, id: i64, reason: Interruption) -> bool {
        let table = self.table.lock();
        let found = table.running.get(&id);
        if let Some(operation) = found {
            operation.cancellation.cancel_because(reason);
        }
        found.is_some()
    }

    /// Waits until a command runs that ends with a socket.
    pub(crate) async fn wait_for_watched(&self) {
        loop {
            {
                let mut table = self.table.lock();
                table.is_watcher_asleep = !table.running.values().any(Operation::is_watched);
                if !table.is_watcher_asleep {
                    return;
                }
            }
            self.begun.notified().await;
        }
    }

    /// The commands that end with a socket, have run for `age` and were not ended yet.
    pub(crate) fn watched(&self, age: Duration) -> Vec<(i64, Arc<OwnedFd>)> {
        let table = self.table.lock();
        let old = table.running.iter().filter(|(_, operation)| {
            operation.is_watched()
                && operation.since.0.elapsed() >= age
                && !operation.cancellation.is_cancelled()
        });
        old.filter_map(|(&id, operation)| Some((id, operation.socket.upgrade()?))).collect()
    }

    /// Ends all commands that are going on, for a reason.
    pub(crate) fn interrupt_all(&self, reason: Interruption) {
        for operation in self.table.lock().running.values() {
            operation.cancellation.cancel_because(reason);
        }
    }

    /// From now on a command is ended by this token: the one of the cursor that it reads.
    pub(crate) fn adopt(&self, id: i64, token: &CancellationToken) {
        let mut table = self.table.lock();
        let Some(operation) = table.running.get_mut(&id) else { return };
        // What ended the command before it had the cursor ends the cursor as well.
        if let Some(reason) = operation.cancellation.reason() {
            token.cancel_because(reason);
        }
        operation.cancellation = token.clone();
    }

    /// Lists a command until what is given back is dropped.
    pub(crate) fn begin(self: &Arc<Self>, operation: Operation) -> Running {
        let mut table = self.table.lock();
        table.last += 1;
        let id = table.last;
        // Only the first command after a pause wakes the task: each costs no more than a flag under the lock.
        let wakes = operation.is_watched() && std::mem::take(&mut table.is_watcher_asleep);
        table.running.insert(id, operation);
        drop(table);
        if wakes {
            self.begun.notify_one();
        }
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
