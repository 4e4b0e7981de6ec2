//! Starting a server and stopping it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairndb::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::connection;
use crate::limits::SESSION_TIMEOUT;
use crate::listener::{self, UnixSocket};
use crate::shared::{Settings, Shared};

/// How often idle cursors and sessions are looked for, at most.
const SWEEP: Duration = Duration::from_secs(10);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address can be reached from other machines, and nobody would have to prove who they are.
    #[error(
        "{0} can be reached from other machines, and there is no authentication: bind to a loopback address, 127.0.0.1 for one"
    )]
    NotLoopback(SocketAddr),
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
    settings: Settings,
}

/// A server that is bound. It answers when it is served.
pub struct Server {
    shared: Arc<Shared>,
    tcp: Option<TcpListener>,
    unix: Option<UnixSocket>,
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
            calls_max: 64,
            request_bytes_max: 512 << 20,
            answer_bytes_max: 512 << 20,
            grace: Duration::from_secs(10),
            requires_user: false,
        };
        ServerBuilder { client, tcp: None, unix_socket: None, settings }
    }

    /// The TCP address that it listens on, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves connections until `shutdown` is ready. Then it accepts no more, ends cursors and idle connections, and
    /// returns when the commands that run have been answered.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { shared, tcp, unix, stop } = self;
        let connections = Arc::new(Semaphore::new(shared.settings.connections_max as usize));
        let mut tasks = JoinSet::new();
        if let Some(listener) = tcp {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), Arc::clone(&connections)));
        }
        if let Some(listener) = unix {
            tasks.spawn(listener::accept(listener, Arc::clone(&shared), connections));
        }
        tasks.spawn(sweep(Arc::clone(&shared)));
        shutdown.await;
        tracing::info!("stopping: no more connections are accepted");
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
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

    /// How many connections there may be; 10,000 by default.
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.settings.connections_max = connections;
        self
    }

    /// How many cursors may be open between two batches; 10,000 by default. Each keeps a read state of the store.
    pub fn cursors_max(mut self, cursors: usize) -> Self {
        self.settings.cursors_max = cursors;
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

    /// How many commands work on the store at once; 64 by default. Others wait.
    pub fn calls_max(mut self, calls: u32) -> Self {
        self.settings.calls_max = calls;
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    /// [`Error::NotLoopback`] for an address that other machines can reach, [`Error::NothingToListenOn`] without any
    /// socket, [`Error::Bind`] for one that is taken, [`Error::Setting`] for a limit of 0.
    pub async fn bind(self) -> Result<Server, Error> {
        if self.tcp.is_none() && self.unix_socket.is_none() {
            return Err(Error::NothingToListenOn);
        }
        if let Some(address) = self.tcp.filter(|address| !address.ip().is_loopback()) {
            return Err(Error::NotLoopback(address));
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
        let mut server = self.unbound()?;
        server.tcp = tcp;
        server.unix = unix;
        Ok(server)
    }

    /// A server without sockets, for [`serve_stream`](Server::serve_stream) alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for a limit of 0.
    pub fn unbound(self) -> Result<Server, Error> {
        let limits = [
            ("connections_max", u64::from(self.settings.connections_max)),
            ("cursors_max", self.settings.cursors_max as u64),
            ("calls_max", u64::from(self.settings.calls_max)),
        ];
        if let Some((name, _)) = limits.into_iter().find(|&(_, limit)| limit == 0) {
            return Err(Error::Setting(format!("{name} must be at least 1")));
        }
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Shared::new(self.client, self.settings, stopping));
        Ok(Server { shared, tcp: None, unix: None, stop })
    }
}

/// Ends cursors and sessions that nobody uses, until the server stops.
async fn sweep(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    let pause = SWEEP.min(shared.settings.cursor_timeout / 2).max(Duration::from_millis(10));
    while tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_err() {
        let swept = Arc::clone(&shared);
        let sweep = shared.pool.run(move || {
            swept.cursors.expire(swept.settings.cursor_timeout);
            let over = swept.sessions.expire(SESSION_TIMEOUT);
            if !over.is_empty() {
                swept
                    .cursors
                    .kill_where(|owner| owner.session.is_some_and(|session| over.contains(&session)));
            }
        });
        if sweep.await.is_err() {
            break;
        }
    }
}
