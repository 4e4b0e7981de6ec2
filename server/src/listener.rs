//! Accepting connections on TCP and Unix sockets.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairndb::Interruption;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection;
use crate::disconnects::duplicate;
use crate::shared::{Shared, count};
use crate::tls::Tls;

/// How long accepting pauses after an error of the system, which mostly means that no file descriptor is
/// left.
const REST: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
pub(crate) trait Listen: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static;

    /// The next connection, and its address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, String)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, String)> {
        let (stream, address) = TcpListener::accept(self).await?;
        // An answer is written whole; waiting to send more with it would only delay it.
        stream.set_nodelay(true)?;
        Ok((stream, address.to_string()))
    }
}

/// A Unix socket. Dropping it removes its file.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Binds a socket that only the user of this process may use. A socket file that a dead process left at
    /// `path` is replaced.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        // Only a socket, and only one that no process listens on: any other file at this path is the user's.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the socket's file could not be removed");
        }
    }
}

impl Listen for UnixSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, String)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, self.path.display().to_string()))
    }
}

/// Binds a TCP socket.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Accepts connections until the server stops, and then waits for those that are within a command.
pub(crate) async fn accept(
    listener: impl Listen,
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
    tls: Option<Tls>,
) {
    let mut stopping = shared.stopping.clone();
    let mut running = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => break,
            // Ended tasks are collected while the server runs, or their results would pile up.
            Some(_) = running.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            count(&shared.counters.connections_refused);
            tracing::warn!(from = %address, "refused a connection: the limit of connections is reached");
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        running.spawn(async move {
            serve_accepted(shared, stream, address, tls).await;
            // After the whole connection, TLS included: a slow handshake counts as a connection.
            drop(permit);
        });
    }
    // From here on clients are refused by the system, and do not wait in the backlog of a server that stops.
    drop(listener);
    let ended = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(shared.settings.grace, ended).await.is_err() {
        tracing::warn!(connections = running.len(), "cut connections that did not end in time");
        // A task that waits for its command in the pool is not cancelled before the command ends.
        shared.operations.interrupt_all(Interruption::ShuttingDown);
        running.shutdown().await;
    }
}

/// Serves an accepted connection. With TLS, a client that speaks anything else is disconnected.
async fn serve_accepted<S>(shared: Arc<Shared>, stream: S, address: String, tls: Option<Tls>)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin,
{
    // First of all: without a second file descriptor the server could not notice that the client went away.
    let socket = match duplicate(&stream) {
        Ok(socket) => socket,
        Err(error) => {
            count(&shared.counters.connections_refused);
            tracing::warn!(from = %address, %error, "refused a connection: no second file descriptor for it");
            return;
        }
    };
    let Some(Tls { acceptor }) = tls else {
        let peer = shared.new_peer(address).watched_by(&socket);
        return connection::serve(shared, peer, stream).await;
    };
    let mut stopping = shared.stopping.clone();
    // A client that opens a connection and sends nothing would hold it for ever.
    let shaken = tokio::select! {
        biased;
        _ = stopping.wait_for(|stopping| *stopping) => return,
        shaken = tokio::time::timeout(shared.settings.message_timeout, acceptor.accept(stream)) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let peer = shared.new_peer(address).watched_by(&socket);
            connection::serve(shared, peer, stream).await;
        }
        Ok(Err(error)) => tracing::info!(from = %address, %error, "TLS handshake failed"),
        Err(_) => tracing::info!(from = %address, "TLS handshake timed out"),
    }
}
