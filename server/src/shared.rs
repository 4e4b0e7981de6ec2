//! The state that all connections of a server share, and the state of each connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use cairndb::Client;
use cairndb::bson::oid::ObjectId;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::auth::conversation::Conversation;
use crate::auth::credentials::Key;
use crate::auth::guesses::Guesses;
use crate::auth::users::{Role, User, Users};
use crate::connections::LoginMark;
use crate::cursors::Cursors;
use crate::ends::{ConnectionEnds, LocalEnd};
use crate::fail_points::FailPoints;
use crate::frame::compressed::Compressor;
use crate::limits::{Budget, SESSIONS_MAX};
use crate::operations::Operations;
use crate::places::Holder;
use crate::pool::Pool;
use crate::remote::RemoteClient;
use crate::replica_set::ReplicaSet;
use crate::sessions::Sessions;
use crate::snapshots::Snapshots;
use crate::spans::Spans;
use crate::usage::Usage;

/// The settings of a server, made by its builder.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) connections_max: u32,
    pub(crate) cursors_max: usize,
    pub(crate) cursor_timeout: Duration,
    /// The time that a client may pause within a message, or need to receive a small answer.
    pub(crate) message_timeout: Duration,
    /// The time that an unauthenticated client may be silent.
    pub(crate) login_timeout: Duration,
    /// The delay of the answer to a failed login. The time between two guesses starts from it.
    pub(crate) failed_login_pause: Duration,
    /// The highest number of calls of the engine at the same time.
    pub(crate) calls_max: u32,
    /// The bytes of large incoming messages of all connections. Strangers share an eighth of it in addition.
    pub(crate) request_bytes_max: usize,
    /// The bytes of large outgoing answers of all connections.
    pub(crate) answer_bytes_max: usize,
    /// The time that running commands get when the server stops.
    pub(crate) grace: Duration,
    /// Whether clients have to log in.
    pub(crate) requires_user: bool,
    /// Whether the command that makes others fail, for test suites, exists.
    pub(crate) has_test_commands: bool,
    /// The replica set that the server is, if it is one.
    pub(crate) replica_set: Option<Arc<ReplicaSet>>,
    /// The folder in which clients may have backups made.
    pub(crate) backup_folder: Option<PathBuf>,
    /// The number of lost lines of the log, as the embedding program counts them.
    pub(crate) log_lines_lost: Arc<AtomicU64>,
    /// Makes a span of each command.
    pub(crate) spans: Option<Arc<Spans>>,
}

/// A running server.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) sessions: Sessions,
    pub(crate) snapshots: Snapshots,
    pub(crate) operations: Arc<Operations>,
    pub(crate) pool: Pool,
    pub(crate) requests: Budget,
    pub(crate) answers: Budget,
    /// The budget for incoming messages of strangers.
    pub(crate) greetings: Budget,
    /// Bounds the answers that exist without memory of the budget and wait for it.
    pub(crate) unsent: Semaphore,
    pub(crate) guesses: Guesses,
    pub(crate) usage: Usage,
    /// Identifies this run of the server in `topologyVersion`.
    pub(crate) process: ObjectId,
    pub(crate) counters: Counters,
    pub(crate) users: Users,
    /// The secret from which unknown users get their salts.
    pub(crate) secret: Key,
    pub(crate) fail_points: FailPoints,
    pub(crate) started: Instant,
    /// The TCP port, if the server listens on one.
    pub(crate) port: OnceLock<u16>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    last_connection: AtomicI32,
    last_request: AtomicI32,
}

/// Counts of a server since it started.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) inserts: AtomicU64,
    pub(crate) queries: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) get_mores: AtomicU64,
    pub(crate) commands: AtomicU64,
    /// Commands that were rejected.
    pub(crate) refusals: AtomicU64,
    /// Bytes that were not a valid message.
    pub(crate) malformed: AtomicU64,
}

/// One connection.
pub(crate) struct Peer {
    /// Its number, from 1.
    pub(crate) remote: Arc<RemoteClient>,
    /// The address of the server.
    pub(crate) local: LocalEnd,
    /// The address without what a client chooses itself; see [`host`].
    pub(crate) host: String,
    /// The connection's socket, while the connection is served. Streams other than sockets have none.
    pub(crate) socket: Weak<OwnedFd>,
    /// The mark by which the listener knows whether the client has logged in.
    login: LoginMark,
    state: Mutex<PeerState>,
}

struct PeerState {
    /// The client with the acquirer that `setAcquirer` asked for.
    client: Client,
    compressors: Vec<Compressor>,
    /// The user, after a successful login.
    user: Option<User>,
    /// For whom its calls run, after a successful login.
    holder: Holder,
    /// A login that is not finished.
    conversation: Option<Conversation>,
    failed_logins: u32,
}

impl Shared {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        users: Users,
        secret: Key,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client,
            users,
            secret,
            fail_points: FailPoints::default(),
            cursors: Arc::new(Cursors::new(settings.cursors_max)),
            sessions: Sessions::new(SESSIONS_MAX),
            snapshots: Snapshots::default(),
            operations: Arc::default(),
            pool: Pool::new(settings.calls_max, settings.requires_user),
            requests: Budget::new(settings.request_bytes_max),
            // An eighth, in addition to what users have: strangers that fill it keep no user from sending.
            greetings: Budget::new(settings.request_bytes_max / 8),
            answers: Budget::new(settings.answer_bytes_max),
            // Each running command may have made one answer without memory of the budget.
            unsent: Semaphore::new(settings.calls_max as usize),
            guesses: Guesses::new(settings.failed_login_pause),
            usage: Usage::default(),
            process: ObjectId::new(),
            counters: Counters::default(),
            started: Instant::now(),
            port: OnceLock::new(),
            stopping,
            last_connection: AtomicI32::new(0),
            last_request: AtomicI32::new(0),
            settings,
        }
    }

    /// The state of a new connection.
    pub(crate) fn new_peer(&self, ends: ConnectionEnds) -> Peer {
        // From 1, as in MongoDB. Wrapping after 2^31 connections is harmless: the number only keeps open
        // connections apart.
        let id = self.last_connection.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        // A new connection shares the acquirer of the store until it asks for one of its own.
        let state = PeerState {
            client: self.client.clone(),
            compressors: Vec::new(),
            user: None,
            holder: Holder::default(),
            conversation: None,
            failed_logins: 0,
        };
        let ConnectionEnds { client: address, local } = ends;
        let host = host(&address);
        let (socket, login) = (Weak::new(), LoginMark::default());
        let remote = Arc::new(RemoteClient::new(id, address));
        Peer { remote, local, host, socket, login, state: Mutex::new(state) }
    }

    /// The number of the next message that the server sends.
    pub(crate) fn next_request_id(&self) -> i32 {
        self.last_request.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

impl Peer {
    /// Makes the commands of this connection end when the other side closes `socket`.
    pub(crate) fn watched_by(mut self, socket: &Arc<OwnedFd>) -> Self {
        // Weak, so that a command that outlives its connection does not keep the socket open.
        self.socket = Arc::downgrade(socket);
        self
    }

    /// Notes in `login` whether the client has logged in.
    pub(crate) fn marked_by(self, login: LoginMark) -> Self {
        Self { login, ..self }
    }

    /// The client with which the connection's commands run.
    pub(crate) fn client(&self) -> Client {
        self.state.lock().client.clone()
    }

    pub(crate) fn set_client(&self, client: Client) {
        self.state.lock().client = client;
    }

    /// The compressors that both sides support, in the order of the client's hello.
    pub(crate) fn compressors(&self) -> Vec<Compressor> {
        self.state.lock().compressors.clone()
    }

    pub(crate) fn agree_on(&self, compressors: Vec<Compressor>) {
        self.state.lock().compressors = compressors;
    }

    /// The user that the connection is logged in as.
    pub(crate) fn user(&self) -> Option<User> {
        self.state.lock().user.clone()
    }

    /// Whether the client has to log in and has not done so yet.
    pub(crate) fn is_stranger(&self, settings: &Settings) -> bool {
        settings.requires_user && self.state.lock().user.is_none()
    }

    /// For whom the connection's calls run.
    pub(crate) fn holder(&self, settings: &Settings) -> Holder {
        // Without logins every client may do everything, and none leaves anything to others.
        if settings.requires_user {
            self.state.lock().holder.clone()
        } else {
            Holder { user: None, is_root: true }
        }
    }

    pub(crate) fn log_in(&self, user: User) {
        let mut state = self.state.lock();
        state.holder = Holder { user: Some(user.name.as_str().into()), is_root: user.role == Role::Root };
        state.user = Some(user);
        self.login.set(true);
    }

    pub(crate) fn log_out(&self) {
        let mut state = self.state.lock();
        // A login that is half done must not log the connection in again.
        (state.user, state.conversation, state.holder) = (None, None, Holder::default());
        self.login.set(false);
    }

    pub(crate) fn keep_conversation(&self, conversation: Conversation) {
        self.state.lock().conversation = Some(conversation);
    }

    /// The user whose proof the server waits for.
    pub(crate) fn proving_user(&self) -> Option<String> {
        self.state.lock().conversation.as_ref().and_then(Conversation::proving_user).map(str::to_owned)
    }

    pub(crate) fn take_conversation(&self) -> Option<Conversation> {
        self.state.lock().conversation.take()
    }

    pub(crate) fn note_failed_login(&self) {
        self.state.lock().failed_logins += 1;
    }

    pub(crate) fn failed_logins(&self) -> u32 {
        self.state.lock().failed_logins
    }
}

/// An address without what a client chooses itself: the port, and the lower half of an IPv6 address.
pub(crate) fn host(address: &str) -> String {
    match address.parse::<SocketAddr>().map(|address| address.ip()) {
        // A client can use any address of its own /64 network, so guesses are counted for the network.
        Ok(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => ip.to_string(),
            None => format!("{:x}::/64", ip.to_bits() >> 64),
        },
        Ok(ip) => ip.to_string(),
        // All clients of a Unix socket have its path as their address.
        Err(_) => address.to_owned(),
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    // Relaxed: the figures order nothing, and no reader compares two of them.
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_without_what_clients_choose() {
        assert_eq!(host("192.0.2.1:27017"), "192.0.2.1");
        assert_eq!(host("[::ffff:192.0.2.1]:5"), "192.0.2.1");
        assert_eq!(host("[2001:db8:1:2::7]:5"), host("[2001:db8:1:2:ffff::9]:6"));
        assert_ne!(host("[2001:db8:1:2::7]:5"), host("[2001:db8:1:3::7]:5"));
        assert_eq!(host("data/shop.sock"), "data/shop.sock");
    }
}
