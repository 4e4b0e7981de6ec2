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
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::auth::users::{UserError, Users};
use crate::connections::Connections;
use crate::ends::{ConnectionEnds, LocalEnd};
use crate::limits::connections_within;
use crate::listener::{self, UnixSocket};
use crate::shared::{Settings, Shared};
#[cfg(feature = "opentelemetry")]
use crate::spans::Spans;
use crate::tls::Tls;
use crate::{connection, disconnects, metrics_page, sweep};

/// The reason why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store has no users, but users must log in: other machines can reach the address, or
    /// [`ServerBuilder::require_users`] was called.
    #[error("the store has no users: add one with `cairn user add PATH NAME` before {0}")]
    NoUsers(String),
    /// Other machines can reach the address, and without TLS messages could be read and changed on the
    /// network.
    #[error(
        "{0} can be reached from other machines, and without TLS messages can be read and changed on the network: \
         give --tls-certificate and --tls-key, or --insecure-plaintext if the network is trusted"
    )]
    Plaintext(SocketAddr),
    /// A stored user is damaged, or the users cannot be read.
    #[error("the users of the store cannot be read")]
    Users(#[from] UserError),
    /// Other machines can reach the address of the metrics, and reading them needs no login.
    #[error(
        "{0} can be reached from other machines, and metrics are read without a login: give a loopback address"
    )]
    Metrics(SocketAddr),
    /// Neither a TCP address nor a Unix socket was given.
    #[error("there is nothing to listen on: give an address or a Unix socket")]
    NothingToListenOn,
    /// The socket cannot be bound.
    #[error("{place} cannot be listened on")]
    Bind {
        /// The address or the path.
        place: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The system rejected the threads of [`ServerBuilder::spawn`].
    #[error("the threads of the server cannot be started: {0}")]
    Threads(std::io::Error),
    /// A setting has a value that is not allowed.
    #[error("{0}")]
    Setting(String),
}

/// The settings of a server before its sockets are bound, made by [`Server::builder`].
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
///
/// Every limit has a default, which a small machine may lower:
///
/// ```
/// use std::time::Duration;
///
/// use cairndb::Client;
/// use cairndb_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("shop"))?;
/// let server = Server::builder(client)
///     .connections_max(200)
///     .cursors_max(50)
///     .calls_max(8)
///     .request_bytes_max(32 << 20)
///     .answer_bytes_max(32 << 20)
///     .cursor_timeout(Duration::from_secs(60))
///     .message_timeout(Duration::from_secs(5))
///     .login_timeout(Duration::from_secs(20))
///     .failed_login_pause(Duration::from_millis(500))
///     .grace(Duration::from_secs(2))
///     .unbound()?;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct ServerBuilder {
    pub(crate) client: Client,
    pub(crate) tcp: Option<SocketAddr>,
    pub(crate) unix_socket: Option<PathBuf>,
    tls: Option<Tls>,
    metrics: Option<SocketAddr>,
    allows_plaintext: bool,
    /// Whether the limit of connections was asked for, so that a lower one must be reported.
    asks_for_connections: bool,
    /// The name of the replica set that the server is to be.
    pub(crate) set_name: Option<String>,
    /// The address of its member.
    pub(crate) advertised: Option<String>,
    pub(crate) settings: Settings,
}

/// A bound server. It accepts connections once [`serve`](Self::serve) runs.
///
/// ```
/// use cairndb::Client;
/// use cairndb_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop");
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
/// let server = Server::builder(Client::open(path)?).tcp("127.0.0.1:0".parse()?).bind().await?;
/// let address = server.local_addr().expect("a TCP address was given");
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let serving = tokio::spawn(server.serve(async { drop(stopped.await) }));
///
/// tokio::net::TcpStream::connect(address).await?;
/// drop(stop);
/// serving.await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    tcp: Option<TcpListener>,
    unix: Option<UnixSocket>,
    metrics: Option<TcpListener>,
    tls: Option<Tls>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Settings of a server for the store of `client`. The caller closes the client after the server has
    /// stopped.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::Server;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("shop"))?;
    /// let server = Server::builder(client).connections_max(100).unbound()?;
    /// assert!(server.local_addr().is_none());
    /// # Ok(())
    /// # }
    /// ```
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
            replica_set: None,
            backup_folder: None,
            log_lines_lost: Arc::default(),
            spans: None,
        };
        ServerBuilder {
            client,
            tcp: None,
            unix_socket: None,
            tls: None,
            metrics: None,
            allows_plaintext: false,
            asks_for_connections: false,
            set_name: None,
            advertised: None,
            settings,
        }
    }

    /// The TCP address that the server listens on, with the port that the system chose for port 0. Returns
    /// `None` if the server has no TCP address.
    ///
    /// ```
    /// # use cairndb::Client;
    /// # use cairndb_server::Server;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let server = Server::builder(client).tcp("127.0.0.1:0".parse()?).bind().await?;
    /// assert!(server.local_addr().is_some_and(|address| address.port() != 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address of the [page with metrics](ServerBuilder::metrics).
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves connections until `shutdown` is ready. The server then accepts no more connections, closes
    /// cursors and idle connections, and returns when the running commands have been answered, or after the
    /// [grace time](ServerBuilder::grace).
    ///
    /// The example of [`Server`] serves until a channel is closed.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { shared, tcp, unix, metrics, tls, stop } = self;
        let settings = &shared.settings;
        let connections_max = settings.connections_max as usize;
        let listens_on_both = tcp.is_some() && unix.is_some();
        let connections =
            Arc::new(Connections::new(connections_max, listens_on_both, settings.requires_user));
        let mut tasks = JoinSet::new();
        // One table for both listeners: the limit is of all connections together.
        if let Some(listener) = tcp {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), Arc::clone(&connections), tls));
        }
        if let Some(listener) = unix {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), connections, None));
        }
        if let Some(listener) = metrics {
            tasks.spawn(metrics_page::serve(listener, Arc::clone(&shared)));
        }
        tasks.spawn(sweep::run(Arc::clone(&shared)));
        // Not among the tasks that are waited for: it must run until the last connection has ended, and never
        // ends by itself.
        let mut watching = JoinSet::new();
        watching.spawn(disconnects::watch(Arc::clone(&shared.operations)));
        shutdown.await;
        tracing::info!("stopping: no more connections are accepted");
        // Listeners, connections and the sweep all wait for this one value.
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
        watching.shutdown().await;
        // All connections have ended, so the answers of commands that still run would have no reader.
        shared.operations.interrupt_all(Interruption::ShuttingDown);
        shared.pool.finish().await;
        // After the pool: a command that was still running could have kept one more cursor.
        shared.cursors.kill_where(|_| true);
        drop((shared.sessions.end(|_| true), shared.snapshots.end_all()));
        tracing::info!("stopped");
    }

    /// Serves one connection over any stream of bytes, an in-memory one for example, in addition to those
    /// that the server accepts.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::Server;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let server = Server::builder(client).unbound()?;
    /// let (near, far) = tokio::io::duplex(1 << 16);
    /// drop(near);
    /// // The other side is gone, so the connection ends at once.
    /// server.serve_stream(far).await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve_stream<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let peer =
            self.shared.new_peer(ConnectionEnds { client: "stream".to_owned(), local: LocalEnd::Stream });
        connection::serve(Arc::clone(&self.shared), peer, stream)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Listens on a TCP address. With port 0 the system chooses a port, which [`Server::local_addr`] returns.
    pub fn tcp(mut self, address: SocketAddr) -> Self {
        self.tcp = Some(address);
        self
    }

    /// Shows metrics on an address of loopback, as a page `/metrics` over HTTP in the text format of Prometheus. Reading them
    /// needs no login; they have names of verbs and no names or values of the store. With port 0 the system chooses a port,
    /// which [`Server::metrics_addr`] returns.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let loopback = "127.0.0.1:0".parse()?;
    /// let server = Server::builder(Client::in_memory()?).tcp(loopback).metrics(loopback).bind().await?;
    /// println!("metrics at http://{}/metrics", server.metrics_addr().expect("given above"));
    ///
    /// let everywhere = Server::builder(Client::in_memory()?).tcp(loopback).metrics("0.0.0.0:0".parse()?).bind().await;
    /// assert!(matches!(everywhere, Err(Error::Metrics(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Makes a span of `OpenTelemetry` of each command, the parent of what the engine does in it if the client
    /// [makes spans](cairndb::ClientBuilder::tracing) too. There are none by default, and never of a login.
    ///
    /// It needs the feature `opentelemetry`.
    #[cfg(feature = "opentelemetry")]
    pub fn tracing(mut self, tracing: &cairndb::OpentelemetryOptions) -> Self {
        self.settings.spans = Spans::of(tracing).map(Arc::new);
        self
    }

    /// Listens on a Unix socket, which only the user of this process may use. Its file is removed when the
    /// server stops.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::Server;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let socket = folder.path().join("shop.sock");
    /// let server = Server::builder(client).unix_socket(&socket).bind().await?;
    /// assert!(socket.exists());
    /// drop(server);
    /// assert!(!socket.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.unix_socket = Some(path.into());
        self
    }

    /// Lets only users run commands who have logged in. This is always so where other machines can reach the
    /// address.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Role, Server, Users};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("shop"))?;
    /// let without_users = Server::builder(client.clone()).require_users().unbound();
    /// assert!(matches!(without_users, Err(Error::NoUsers(_))));
    ///
    /// Users::of(&client).add("ada", "correct horse", Role::Root)?;
    /// assert!(Server::builder(client).require_users().unbound().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn require_users(mut self) -> Self {
        self.settings.requires_user = true;
        self
    }

    /// Accepts only TLS on the TCP address. The Unix socket stays without TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Allows an address that other machines can reach without TLS. Passwords are never sent in plain text;
    /// everything else can be read and changed by other machines on the network.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Role, Server, Users};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let everywhere = Server::builder(client.clone()).tcp("0.0.0.0:0".parse()?).insecure_plaintext();
    /// assert!(matches!(everywhere.bind().await, Err(Error::NoUsers(_))));
    ///
    /// Users::of(&client).add("ada", "correct horse", Role::Root)?;
    /// let everywhere = Server::builder(client).tcp("0.0.0.0:0".parse()?).insecure_plaintext();
    /// assert!(everywhere.bind().await.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn insecure_plaintext(mut self) -> Self {
        self.allows_plaintext = true;
        self
    }

    /// Adds the command `configureFailPoint`, with which a client makes later commands fail. It is meant for
    /// test suites.
    pub fn test_commands(mut self) -> Self {
        self.settings.has_test_commands = true;
        self
    }

    /// The folder in which the command `backup` makes copies, for `root` alone. Without it the command is rejected.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("shop"))?;
    /// assert!(Server::builder(client.clone()).backup_folder(folder.path()).unbound().is_ok());
    /// let absent = Server::builder(client).backup_folder("no/such/folder").unbound();
    /// assert!(matches!(absent, Err(Error::Setting(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup_folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.backup_folder = Some(path.into());
        self
    }

    /// The highest number of connections; 10,000 by default. [`bind`](Self::bind) lowers it so that
    /// connections, with two file descriptors each, need at most half of those that the process may open. Of a
    /// server that listens on TCP and on a Unix socket an eighth is for the socket.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// let without = Server::builder(client).connections_max(0).unbound();
    /// assert!(matches!(without, Err(Error::Setting(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.settings.connections_max = connections;
        self.asks_for_connections = true;
        self
    }

    /// The highest number of cursors that are open between two batches; 10,000 by default. Each holds a
    /// snapshot of the store. One more closes the oldest idle one of the user who has most.
    pub fn cursors_max(mut self, cursors: usize) -> Self {
        self.settings.cursors_max = cursors;
        self
    }

    /// Sets the time that running commands get after the server was stopped; 10 seconds by default. After that they
    /// are interrupted, and their connections closed.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets the time that a cursor may be idle before it is closed; 10 minutes by default.
    pub fn cursor_timeout(mut self, timeout: Duration) -> Self {
        self.settings.cursor_timeout = timeout;
        self
    }

    /// Sets the time that a client may pause within a message that it sends or receives, before its connection is
    /// closed; 30 seconds by default. Between two messages it may be idle for any time.
    pub fn message_timeout(mut self, timeout: Duration) -> Self {
        self.settings.message_timeout = timeout;
        self
    }

    /// Sets the time that a client that has to log in may be silent before its connection is closed; 30 seconds by
    /// default. Drivers watch a server by connections that never log in, and send a message every ten seconds.
    pub fn login_timeout(mut self, timeout: Duration) -> Self {
        self.settings.login_timeout = timeout;
        self
    }

    /// Sets the delay of the answer to a failed login; 0.2 seconds by default. After the third failure of a user at
    /// an address the time between two guesses is twice as long, and doubles with each failure, up to fifty times.
    pub fn failed_login_pause(mut self, pause: Duration) -> Self {
        self.settings.failed_login_pause = pause;
        self
    }

    /// Sets the limit of all incoming messages together, in bytes; 512 MiB by default. 16 KiB of each message are not
    /// counted, and one message at a time may exceed the limit, so that a message larger than what is left can still
    /// be read.
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.request_bytes_max = bytes;
        self
    }

    /// Sets the limit of all answers together until clients have received them, in bytes; 512 MiB by default. 16 KiB
    /// of each answer are not counted. When the limit is reached, the batches of cursors become short.
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.answer_bytes_max = bytes;
        self
    }

    /// Sets the number of commands that work on the store at the same time; 64 by default. The others wait. Where
    /// clients have to log in, a user leaves some of these to others, and `root` has an eighth in addition.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// assert!(Server::builder(client.clone()).calls_max(8).unbound().is_ok());
    /// assert!(matches!(Server::builder(client).calls_max(0).unbound(), Err(Error::Setting(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn calls_max(mut self, calls: u32) -> Self {
        self.settings.calls_max = calls;
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    /// [`Error::Plaintext`] and [`Error::NoUsers`] for an address that other machines can reach,
    /// [`Error::NothingToListenOn`] without any socket, [`Error::Bind`] for a socket that is in use,
    /// [`Error::Setting`] for a limit of 0.
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::{Error, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("shop"))?;
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let everywhere = Server::builder(client).tcp("0.0.0.0:0".parse()?).bind().await;
    /// assert!(matches!(everywhere, Err(Error::Plaintext(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bind(mut self) -> Result<Server, Error> {
        if self.tcp.is_none() && self.unix_socket.is_none() {
            return Err(Error::NothingToListenOn);
        }
        // Before anything is bound, too.
        self.check_replica_set()?;
        // No login protects the page.
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            return Err(Error::Metrics(address));
        }
        // Before anything is bound: an unsafe address must never accept a connection, not even for a moment.
        if let Some(address) = self.tcp.filter(|address| !address.ip().is_loopback()) {
            if self.tls.is_none() && !self.allows_plaintext {
                return Err(Error::Plaintext(address));
            }
            self.settings.requires_user = true;
            self.check_users(&format!("listening on {address}, which other machines can reach"))?;
        }
        let refused = |place: String| move |source| Error::Bind { place, source };
        let tcp = match self.tcp {
            None => None,
            Some(address) => Some(listener::bind(address).await.map_err(refused(address.to_string()))?),
        };
        let unix = match &self.unix_socket {
            None => None,
            Some(path) => Some(UnixSocket::bind(path).map_err(refused(path.display().to_string()))?),
        };
        let metrics = match self.metrics {
            None => None,
            Some(address) => Some(listener::bind(address).await.map_err(refused(address.to_string()))?),
        };
        // Two file descriptors for each connection; without a limit of its own the store would find none left
        // for its files.
        let (asked, files) = (self.settings.connections_max, getrlimit(Resource::Nofile).current);
        self.settings.connections_max = connections_within(files, asked);
        // Most servers never come near the limit of their own: a server that reaches it says so then.
        if self.settings.connections_max < asked && self.asks_for_connections {
            let connections = self.settings.connections_max;
            tracing::warn!(
                connections,
                asked,
                files,
                "lowered the limit of connections: the process may open only a few files"
            );
        }
        let tls = self.tls.clone();
        let bound = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let mut server = self.built(bound)?;
        if let Some(address) = bound {
            // Port 0 has become a real one by now, and `explain` shows it to clients.
            server.shared.port.get_or_init(|| address.port());
        }
        server.tls = tls;
        server.tcp = tcp;
        server.unix = unix;
        server.metrics = metrics;
        Ok(server)
    }

    /// A server without sockets, for [`Server::serve_stream`] alone.
    ///
    /// The example of [`Server::serve_stream`] serves such a server.
    ///
    /// # Errors
    /// [`Error::Setting`] for a limit of 0 or an absent folder for backups, [`Error::NoUsers`] if users must log in and the store has none.
    pub fn unbound(self) -> Result<Server, Error> {
        self.built(None)
    }

    /// A server whose TCP address, if it has one, is `bound`.
    fn built(mut self, bound: Option<SocketAddr>) -> Result<Server, Error> {
        if self.settings.requires_user {
            self.check_users("requiring that users log in")?;
        }
        // A semaphore without permits would let every command, cursor or connection wait for ever.
        let limits = [
            ("connections_max", u64::from(self.settings.connections_max)),
            ("cursors_max", self.settings.cursors_max as u64),
            ("calls_max", u64::from(self.settings.calls_max)),
        ];
        if let Some((name, _)) = limits.into_iter().find(|&(_, limit)| limit == 0) {
            return Err(Error::Setting(format!("{name} must be at least 1")));
        }
        // A disk that is not mounted is noticed now, and not by the first backup.
        if let Some(folder) = self.settings.backup_folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(Error::Setting(format!("there is no folder {} for backups", folder.display())));
        }
        self.settings.replica_set = self.replica_set_at(bound)?.map(Arc::new);
        let (stop, stopping) = watch::channel(false);
        let users = Users::of(&self.client);
        // Read once, here: an unknown user must get the same salt for as long as the server runs.
        let secret = users.secret()?;
        let shared = Arc::new(Shared::new(self.client, self.settings, users, secret, stopping));
        Ok(Server { shared, tcp: None, unix: None, metrics: None, tls: None, stop })
    }

    /// Checks that at least one user could log in, and that all stored users can be read.
    fn check_users(&self, purpose: &str) -> Result<(), Error> {
        let users = Users::of(&self.client).list()?;
        if users.is_empty() { Err(Error::NoUsers(purpose.to_owned())) } else { Ok(()) }
    }
}
