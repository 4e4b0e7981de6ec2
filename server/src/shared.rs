//! What all connections of a server share, and what belongs to one of them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
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
use crate::auth::users::{User, Users};
use crate::cursors::Cursors;
use crate::fail_points::FailPoints;
use crate::frame::compressed::Compressor;
use crate::limits::{Budget, SESSIONS_MAX};
use crate::operations::Operations;
use crate::pool::Pool;
use crate::sessions::Sessions;
use crate::usage::Usage;

/// What whoever starts a server decides.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) connections_max: u32,
    pub(crate) cursors_max: usize,
    pub(crate) cursor_timeout: Duration,
    /// How long a client may stand still within a message, or take for a small answer.
    pub(crate) message_timeout: Duration,
    /// How long a client may be silent that has to log in and has not.
    pub(crate) login_timeout: Duration,
    /// How long a failed login waits for its answer, and what the time between two guesses starts from.
    pub(crate) failed_login_pause: Duration,
    /// How many calls of the engine run at once.
    pub(crate) calls_max: u32,
    /// Bytes of large messages on their way in, of all connections. Those that have to log in and have not, share an eighth
    /// of it beside.
    pub(crate) request_bytes_max: usize,
    /// Bytes of large answers on their way out, of all connections.
    pub(crate) answer_bytes_max: usize,
    /// How long running commands have when the server stops.
    pub(crate) grace: Duration,
    /// Whether commands are for users who have proven who they are.
    pub(crate) requires_user: bool,
    /// Whether commands of suites are there, which make others fail.
    pub(crate) has_test_commands: bool,
}

/// A running server.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) cursors: Arc<Cursors>,
    pub(crate) sessions: Sessions,
    pub(crate) operations: Arc<Operations>,
    pub(crate) pool: Pool,
    pub(crate) requests: Budget,
    pub(crate) answers: Budget,
    /// Those of clients that have to log in and have not.
    pub(crate) greetings: Budget,
    /// Answers that were made before there was memory of the budget for them.
    pub(crate) unsent: Semaphore,
    pub(crate) guesses: Guesses,
    pub(crate) usage: Usage,
    /// What tells this run of the server from others.
    pub(crate) process: ObjectId,
    pub(crate) counters: Counters,
    pub(crate) users: Users,
    /// What users who do not exist are asked with.
    pub(crate) secret: Key,
    pub(crate) fail_points: FailPoints,
    pub(crate) started: Instant,
    /// Where it listens by TCP, if it does.
    pub(crate) port: OnceLock<u16>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    last_connection: AtomicI32,
    last_request: AtomicI32,
}

/// What a server has done.
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
    /// Commands that were refused.
    pub(crate) refusals: AtomicU64,
    /// Messages that were none.
    pub(crate) malformed: AtomicU64,
}

/// One connection.
pub(crate) struct Peer {
    /// Its number, from 1.
    pub(crate) id: i32,
    /// Where it comes from.
    pub(crate) address: String,
    /// The machine, or the network, that it comes from.
    pub(crate) host: String,
    /// The connection's socket, for as long as the connection is served; none for other streams.
    pub(crate) socket: Weak<OwnedFd>,
    state: Mutex<PeerState>,
}

struct PeerState {
    /// With the acquirer that the connection asked for.
    client: Client,
    compressors: Vec<Compressor>,
    has_introduced_itself: bool,
    /// What the program behind it calls itself.
    application: Option<String>,
    /// Who it is, once it has proven it.
    user: Option<User>,
    /// A proof on its way.
    conversation: Option<Conversation>,
    failed_logins: u32,
}

impl Shared {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        (users, secret): (Users, Key),
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client,
            users,
            secret,
            fail_points: FailPoints::default(),
            cursors: Arc::new(Cursors::new(settings.cursors_max)),
            sessions: Sessions::new(SESSIONS_MAX),
            operations: Arc::default(),
            pool: Pool::new(settings.calls_max),
            requests: Budget::new(settings.request_bytes_max),
            greetings: Budget::new(settings.request_bytes_max / 8),
            answers: Budget::new(settings.answer_bytes_max),
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

    /// A new connection.
    pub(crate) fn introduce(&self, address: String) -> Peer {
        let id = self.last_connection.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let state = PeerState {
            client: self.client.clone(),
            compressors: Vec::new(),
            has_introduced_itself: false,
            application: None,
            user: None,
            conversation: None,
            failed_logins: 0,
        };
        let host = host(&address);
        Peer { id, address, host, socket: Weak::new(), state: Mutex::new(state) }
    }

    /// The number of the next message that is sent.
    pub(crate) fn next_request_id(&self) -> i32 {
        self.last_request.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

impl Peer {
    /// Its commands end when the other side closes this socket.
    pub(crate) fn watched_by(mut self, socket: &Arc<OwnedFd>) -> Self {
        self.socket = Arc::downgrade(socket);
        self
    }

    /// The handle through which its commands run.
    pub(crate) fn client(&self) -> Client {
        self.state.lock().client.clone()
    }

    pub(crate) fn set_client(&self, client: Client) {
        self.state.lock().client = client;
    }

    /// The compressors that both sides have.
    pub(crate) fn compressors(&self) -> Vec<Compressor> {
        self.state.lock().compressors.clone()
    }

    pub(crate) fn agree_on(&self, compressors: Vec<Compressor>) {
        self.state.lock().compressors = compressors;
    }

    /// Notes that it said what it is; `false` if it had done so before.
    pub(crate) fn introduce_itself(&self, application: Option<String>) -> bool {
        let mut state = self.state.lock();
        if state.has_introduced_itself {
            return false;
        }
        state.has_introduced_itself = true;
        state.application = application;
        true
    }

    pub(crate) fn application(&self) -> Option<String> {
        self.state.lock().application.clone()
    }

    /// Who it has proven to be.
    pub(crate) fn user(&self) -> Option<User> {
        self.state.lock().user.clone()
    }

    /// Whether it has to log in, and has not.
    pub(crate) fn is_stranger(&self, settings: &Settings) -> bool {
        settings.requires_user && self.state.lock().user.is_none()
    }

    pub(crate) fn log_in(&self, user: User) {
        self.state.lock().user = Some(user);
    }

    pub(crate) fn log_out(&self) {
        let mut state = self.state.lock();
        (state.user, state.conversation) = (None, None);
    }

    pub(crate) fn keep_conversation(&self, conversation: Conversation) {
        self.state.lock().conversation = Some(conversation);
    }

    /// The user whose proof is expected.
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
fn host(address: &str) -> String {
    match address.parse::<SocketAddr>().map(|address| address.ip()) {
        Ok(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => ip.to_string(),
            None => format!("{:x}::/64", ip.to_bits() >> 64),
        },
        Ok(ip) => ip.to_string(),
        // A Unix socket has one path for all.
        Err(_) => address.to_owned(),
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
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
