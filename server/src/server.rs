//! Starting a server and stopping it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairndb::{Client, Interruption};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::auth::users::{UserError, Users};
use crate::connection;
use crate::disconnects;
use crate::limits::{SESSION_TIMEOUT, connections_within};
use crate::listener::{self, UnixSocket};
use crate::shared::{Settings, Shared};
use crate::tls::Tls;

/// How often idle cursors and sessions are looked for, at most.
const SWEEP: Duration = Duration::from_secs(10);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Users must log in, because the address can be reached from other machines or because it was asked for, and
    /// there are none.
    #[error("nobody could log in: add a user with `cairn user add PATH NAME` before {0}")]
    NoUsers(String),
    /// The address can be reached from other machines, and what is sent could be read and changed on the way.
    #[error(
        "{0} can be reached from other machines, and without TLS everything can be read and changed on the way: \
         give --tls-certificate and --tls-key, or --insecure-plaintext if the network in between is trusted"
    )]
    Plaintext(SocketAddr),
    /// A stored user is damaged, or users cannot be read.
    #[error("the users of the store cannot be read")]
    Users(#[from] UserError),
    /// Neither an address nor a Unix socket was named.
    #[error("there is nothing to listen on: name an address or a Unix socket")]
    NothingToListenOn,
    /// The socket cannot be bound.
    #[error("{place} cannot be listened on: {source}")]
    Bind {
        /// The address or the path.
        place: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A setting that cannot be kept to.
    #[error("{0}")]
    Setting(String),
}

/// What a server is to be, before it is bound.
///
/// ```
/// use cairndb::Client;
/// use cairndb_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop");
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
/// let client = Client::open(path)?;
/// let server = Server::builder(client.clone()).tcp("127.0.0.1:0".parse()?).bind().await?;
/// println!("listening on {:?}", server.local_addr());
///
/// // A program would wait for a signal here; the server ends what runs and lets the store go.
/// server.serve(async {}).await;
/// client.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct ServerBuilder {
    client: Client,
    tcp: Option<SocketAddr>,
    unix_socket: Option<PathBuf>,
    tls: Option<Tls>,
    allows_plaintext: bool,
    settings: Settings,
}

/// A server that is bound. It answers when it is served.
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    tcp: Option<TcpListener>,
    unix: Option<UnixSocket>,
    tls: Option<Tls>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// A server for the store of a client. Whoever starts it closes the client after it.
    pub fn builder(client: Client) -> ServerBuilder {
        let settings = Settings {
            connections_max: 10_000,
            cursors_max: 10_000,
            cursor_timeout: Duration::from_secs(600),
            message_timeout: Duration::from_secs(30),
            login_timeout: Duration::from_secs(30),
            failed_login_pause: Duration::from_millis(200),
            calls_max: 64,
            request_bytes_max: 512 << 20,
            answer_bytes_max: 512 << 20,
            grace: Duration::from_secs(10),
            requires_user: false,
            has_test_commands: false,
        };
        ServerBuilder { client, tcp: None, unix_socket: None, tls: None, allows_plaintext: false, settings }
    }

    /// The TCP address that it listens on, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves connections until `shutdown` is ready. Then it accepts no more, ends cursors and idle connections, and
    /// returns when the commands that run have been answered.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { shared, tcp, unix, tls, stop } = self;
        let connections = Arc::new(Semaphore::new(shared.settings.connections_max as usize));
        let mut tasks = JoinSet::new();
        if let Some(listener) = tcp {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), Arc::clone(&connections), tls));
        }
        if let Some(listener) = unix {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), connections, None));
        }
        tasks.spawn(sweep(Arc::clone(&shared)));
        // Not among the tasks that are waited for: it looks after connections until the last has ended.
        let mut watching = JoinSet::new();
        watching.spawn(disconnects::watch(Arc::clone(&shared.operations)));
        shutdown.await;
        tracing::info!("stopping: no more connections are accepted");
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
        watching.shutdown().await;
        // Connections have ended or were cut; what still runs for them has no reader.
        shared.operations.interrupt_all(Interruption::ShuttingDown);
        shared.pool.finish().await;
        shared.cursors.kill_where(|_| true);
        tracing::info!("stopped");
    }

    /// Serves one connection over any stream of bytes, an in-memory one for example, beside those that are accepted.
    pub fn serve_stream<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let peer = self.shared.introduce("stream".to_owned());
        connection::serve(Arc::clone(&self.shared), peer, stream)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Listens on a TCP address. Port 0 lets the system choose one.
    pub fn tcp(mut self, address: SocketAddr) -> Self {
        self.tcp = Some(address);
        self
    }

    /// Listens on a Unix socket, which only this user may use. Its file is removed at the end.
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix_socket = Some(path.into());
        self
    }

    /// Admits only users who have logged in. Where other machines can reach the address, it is always so.
    pub fn require_users(mut self) -> Self {
        self.settings.requires_user = true;
        self
    }

    /// Speaks TLS, and nothing else, on the TCP address. The Unix socket goes without.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Allows an address that other machines can reach without TLS. Passwords are not sent either way; everything else
    /// can be read and changed by whoever stands in between.
    pub fn insecure_plaintext(mut self) -> Self {
        self.allows_plaintext = true;
        self
    }

    /// Has `configureFailPoint`, by which clients make commands fail. It is for suites.
    pub fn test_commands(mut self) -> Self {
        self.settings.has_test_commands = true;
        self
    }

    /// How many connections there may be; 10,000 by default. Sockets that are bound take two file descriptors for each, and
    /// at most half of those that the process may have.
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.settings.connections_max = connections;
        self
    }

    /// How many cursors may be open between two batches; 10,000 by default. Each keeps a read state of the store.
    pub fn cursors_max(mut self, cursors: usize) -> Self {
        self.settings.cursors_max = cursors;
        self
    }

    /// How long commands that run may go on once the server is to stop; 10 seconds by default. Then they are ended, and
    /// their connections cut.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// After how long an idle cursor is ended; 10 minutes by default.
    pub fn cursor_timeout(mut self, timeout: Duration) -> Self {
        self.settings.cursor_timeout = timeout;
        self
    }

    /// How long a client may stand still within a message that it sends or takes, before it is cut; 30 seconds by
    /// default. Between messages it may be idle for as long as it likes.
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.settings.message_timeout = timeout;
        self
    }

    /// After how long a silent client is closed that has to log in and has not; 30 seconds by default. Drivers watch a server
    /// by connections that never log in, and say something every ten seconds.
    pub fn login_timeout(mut self, timeout: Duration) -> Self {
        self.settings.login_timeout = timeout;
        self
    }

    /// How long a failed login waits for its answer; 0.2 seconds by default. After the third failure of a user at an address
    /// the time between two guesses is twice as long, and doubles with each, up to fifty times.
    pub fn failed_login_pause(mut self, pause: Duration) -> Self {
        self.settings.failed_login_pause = pause;
        self
    }

    /// How many bytes messages on their way in may take together; 512 MiB by default. Each may have 16 KiB beside, and one at
    /// a time goes beyond it, so that it is never in the way of all.
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.request_bytes_max = bytes;
        self
    }

    /// How many bytes answers may take together until clients have taken them; 512 MiB by default. Each may have 16 KiB
    /// beside. When it is used up, batches of cursors become short.
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.answer_bytes_max = bytes;
        self
    }

    /// How many commands work on the store at once; 64 by default. Others wait.
    pub fn calls_max(mut self, calls: u32) -> Self {
        self.settings.calls_max = calls;
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    /// [`Error::Plaintext`] and [`Error::NoUsers`] for an address that other machines can reach,
    /// [`Error::NothingToListenOn`] without any socket, [`Error::Bind`] for one that is taken, [`Error::Setting`] for a
    /// limit of 0.
    pub async fn bind(mut self) -> Result<Server, Error> {
        if self.tcp.is_none() && self.unix_socket.is_none() {
            return Err(Error::NothingToListenOn);
        }
        if let Some(address) = self.tcp.filter(|address| !address.ip().is_loopback()) {
            if self.tls.is_none() && !self.allows_plaintext {
                return Err(Error::Plaintext(address));
            }
            self.settings.requires_user = true;
            self.check_users(&format!("listening on {address}, which other machines can reach"))?;
        }
        let tcp = match self.tcp {
            None => None,
            Some(address) => {
                let refused = |source| Error::Bind { place: address.to_string(), source };
                Some(listener::bind(address).await.map_err(refused)?)
            }
        };
        let unix = match &self.unix_socket {
            None => None,
            Some(path) => {
                let refused = |source| Error::Bind { place: path.display().to_string(), source };
                Some(UnixSocket::bind(path).map_err(refused)?)
            }
        };
        let (asked, files) = (self.settings.connections_max, getrlimit(Resource::Nofile).current);
        self.settings.connections_max = connections_within(files, asked);
        if self.settings.connections_max < asked {
            let connections = self.settings.connections_max;
            tracing::warn!(connections, asked, files, "fewer connections: the process may open few files");
        }
        let tls = self.tls.clone();
        let mut server = self.unbound()?;
        if let Some(address) = tcp.as_ref().and_then(|listener| listener.local_addr().ok()) {
            server.shared.port.get_or_init(|| address.port());
        }
        server.tls = tls;
        server.tcp = tcp;
        server.unix = unix;
        Ok(server)
    }

    /// A server without sockets, for [`serve_stream`](Server::serve_stream) alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for a limit of 0, [`Error::NoUsers`] if users must log in and there are none.
    pub fn unbound(self) -> Result<Server, Error> {
        if self.settings.requires_user {
            self.check_users("requiring that users log in")?;
        }
        let limits = [
            ("connections_max", u64::from(self.settings.connections_max)),
            ("cursors_max", self.settings.cursors_max as u64),
            ("calls_max", u64::from(self.settings.calls_max)),
        ];
        if let Some((name, _)) = limits.into_iter().find(|&(_, limit)| limit == 0) {
            return Err(Error::Setting(format!("{name} must be at least 1")));
        }
        let (stop, stopping) = watch::channel(false);
        let users = Users::of(&self.client);
        let secret = users.secret()?;
        let shared = Arc::new(Shared::new(self.client, self.settings, (users, secret), stopping));
        Ok(Server { shared, tcp: None, unix: None, tls: None, stop })
    }

    /// That somebody could log in, and that what is stored of users is whole.
    fn check_users(&self, purpose: &str) -> Result<(), Error> {
        let users = Users::of(&self.client).list()?;
        if users.is_empty() { Err(Error::NoUsers(purpose.to_owned())) } else { Ok(()) }
    }
}

/// Ends cursors and sessions that nobody uses, until the server stops.
async fn sweep(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let pause = SWEEP.min(shared.settings.cursor_timeout / 2).max(Duration::from_millis(10));
    while tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_err() {
        shared.sessions.expire(SESSION_TIMEOUT);
        let ended = shared
            .cursors
            .expire(shared.settings.cursor_timeout, |session| shared.sessions.is_known(session));
        // Mostly nothing is to be let go, and then no thread is woken for it.
        if !ended.is_empty() && shared.pool.run(move || drop(ended)).await.is_err() {
            break;
        }
    }
}
