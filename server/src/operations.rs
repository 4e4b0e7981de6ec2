//! The running commands, which `currentOp` lists and `killOp` ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use cairndb::bson::{DateTime, Document, doc};
use cairndb::{CancellationToken, Interruption};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::remote::RemoteClient;

/// `currentOp` shows of so many commands what their clients say of themselves: ten thousand may wait, and its memory is limited.
const SHOWN_METADATA_MAX: usize = 1_000;

/// All running commands.
#[derive(Default)]
pub(crate) struct Operations {
    table: Mutex<OperationTable>,
    /// Wakes the task that watches for clients that disconnect.
    begun: Notify,
}

#[derive(Default)]
struct OperationTable {
    last: i64,
    running: BTreeMap<i64, Operation>,
    /// Whether the task that watches for clients that disconnect sleeps until a watched command begins.
    is_watcher_asleep: bool,
}

/// A running command.
#[derive(Clone)]
pub(crate) struct Operation {
    /// The client that has sent it.
    pub(crate) remote: Arc<RemoteClient>,
    pub(crate) command: String,
    /// The database, a dot, and the collection that the command names.
    pub(crate) namespace: String,
    since: (Instant, SystemTime),
    /// Ends the command.
    cancellation: CancellationToken,
    /// The command ends when the client closes this socket; without one it goes on. Only the connection keeps
    /// the socket open.
    socket: Weak<OwnedFd>,
}

/// An entry of the table. Dropping it removes the command from the table.
pub(crate) struct RunningOperation {
    operations: Arc<Operations>,
    id: i64,
}

impl Operation {
    /// A command of a client that begins now.
    pub(crate) fn new(remote: &Arc<RemoteClient>, command: impl Into<String>, namespace: String) -> Self {
        // Both clocks: the duration must not jump when the system time is set, and the time of day is what
        // clients see.
        let since = (Instant::now(), SystemTime::now());
        let cancellation = CancellationToken::new();
        Self {
            remote: Arc::clone(remote),
            command: command.into(),
            namespace,
            since,
            cancellation,
            socket: Weak::new(),
        }
    }

    /// Makes the command end when the client closes `socket`.
    pub(crate) fn watched_by(mut self, socket: &Weak<OwnedFd>) -> Self {
        self.socket = Weak::clone(socket);
        self
    }

    /// Whether the command ends with a socket.
    fn is_watched(&self) -> bool {
        self.socket.strong_count() > 0
    }

    /// The document of the command in `currentOp`.
    fn shown(&self, id: i64, shows_metadata: bool) -> Document {
        let running = self.since.0.elapsed();
        let mut shown = doc! {
            "type": "op",
            "opid": id,
            "active": true,
            "op": self.kind(),
            "ns": &self.namespace,
            "command": { &self.command: 1 },
        };
        self.remote.show(&mut shown);
        if shows_metadata {
            self.remote.show_metadata(&mut shown);
        }
        shown.extend(doc! {
            "currentOpTime": DateTime::from_system_time(self.since.1).try_to_rfc3339_string().unwrap_or_default(),
            "secs_running": i64::try_from(running.as_secs()).unwrap_or(i64::MAX),
            "microsecs_running": i64::try_from(running.as_micros()).unwrap_or(i64::MAX),
        });
        shown
    }

    fn kind(&self) -> &'static str {
        match self.command.as_str() {
            // The words of the field `op` in MongoDB, where they differ from the names of commands.
            "insert" => "insert",
            "find" => "query",
            "update" => "update",
            "delete" => "remove",
            "getMore" => "getmore",
            _ => "command",
        }
    }
}

impl RunningOperation {
    /// The token that ends the command.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        let table = self.operations.table.lock();
        // It is there: only dropping `self` removes it.
        table.running.get(&self.id).map(|operation| operation.cancellation.clone()).unwrap_or_default()
    }

    /// The number that `currentOp` lists and `killOp` accepts.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }
}

impl Operations {
    /// Asks a running command to end, which needs a moment. Returns `false` if no command has this number.
    pub(crate) fn kill(&self, id: i64) -> bool {
        self.interrupt(id, Interruption::Cancelled)
    }

    /// Asks a running command to end for `reason`. Returns `false` if no command has this number.
    pub(crate) fn interrupt(&self, id: i64, reason: Interruption) -> bool {
        let table = self.table.lock();
        let found = table.running.get(&id);
        if let Some(operation) = found {
            operation.cancellation.cancel_because(reason);
        }
        found.is_some()
    }

    /// Waits until a command runs that ends with its socket.
    pub(crate) async fn wait_for_watched(&self) {
        loop {
            {
                // The flag is set under the lock under which commands begin, so none can begin unnoticed
                // between the look and the sleep.
                let mut table = self.table.lock();
                table.is_watcher_asleep = !table.running.values().any(Operation::is_watched);
                if !table.is_watcher_asleep {
                    return;
                }
            }
            self.begun.notified().await;
        }
    }

    /// The commands that end with a socket, have run for `age`, and were not asked to end yet.
    pub(crate) fn watched(&self, age: Duration) -> Vec<(i64, Arc<OwnedFd>)> {
        let table = self.table.lock();
        let old = table.running.iter().filter(|(_, operation)| {
            operation.is_watched()
                && operation.since.0.elapsed() >= age
                && !operation.cancellation.is_cancelled()
        });
        old.filter_map(|(&id, operation)| Some((id, operation.socket.upgrade()?))).collect()
    }

    /// Asks all running commands to end for `reason`.
    pub(crate) fn interrupt_all(&self, reason: Interruption) {
        for operation in self.table.lock().running.values() {
            operation.cancellation.cancel_because(reason);
        }
    }

    /// Replaces the token of a command by the token of the cursor that it reads.
    pub(crate) fn adopt(&self, id: i64, token: &CancellationToken) {
        let mut table = self.table.lock();
        let Some(operation) = table.running.get_mut(&id) else { return };
        // The command may have been killed before it had the cursor, and a kill must not be lost.
        if let Some(reason) = operation.cancellation.reason() {
            token.cancel_because(reason);
        }
        operation.cancellation = token.clone();
    }

    /// Lists a command until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>, operation: Operation) -> RunningOperation {
        let mut table = self.table.lock();
        table.last += 1;
        let id = table.last;
        // Only the first command after a pause wakes the watcher; for the others this costs one flag under
        // the lock.
        let wakes = operation.is_watched() && std::mem::take(&mut table.is_watcher_asleep);
        table.running.insert(id, operation);
        drop(table);
        if wakes {
            self.begun.notify_one();
        }
        RunningOperation { operations: Arc::clone(self), id }
    }

    /// The running commands, oldest first; with `connection` only those of this connection.
    pub(crate) fn list(&self, connection: Option<i32>) -> Vec<Document> {
        let asked = |operation: &Operation| connection.is_none_or(|own| own == operation.remote.connection);
        let running: Vec<(i64, Operation)> = {
            let table = self.table.lock();
            let running = table.running.iter().filter(|(_, operation)| asked(operation));
            running.map(|(&id, operation)| (id, operation.clone())).collect()
        };
        // Every command begins and ends under the lock, so the documents are made without it.
        let shown =
            |(at, (id, operation)): (usize, &(i64, Operation))| operation.shown(*id, at < SHOWN_METADATA_MAX);
        running.iter().enumerate().map(shown).collect()
    }
}

impl Drop for RunningOperation {
    fn drop(&mut self) {
        self.operations.table.lock().running.remove(&self.id);
    }
}
