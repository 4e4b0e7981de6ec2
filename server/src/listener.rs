//! Where connections come from: TCP and Unix sockets.

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

/// How long accepting rests when the system refuses: mostly because it has no more file descriptors.
const REST: Duration = Duration::from_millis(100);

/// A socket that connections come to.
pub(crate) trait Listen: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static;

    /// The next connection, and where it comes from.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, String)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, String)> {
        let (stream, address) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, address.to_string()))
    }
}

/// A Unix socket, whose file goes with it.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Binds a socket for this user alone. What a process that is gone left at the path is replaced.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
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

/// Accepts connections until the server stops, and then waits for those that are in the middle of something.
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
            tracing::warn!(from = %address, "refused a connection: there are as many as may be");
            continue;
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        running.spawn(async move {
            welcome(shared, stream, address, tls).await;
            drop(permit);
        });
    }
    drop(listener);
    let ended = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(shared.settings.grace, ended).await.is_err() {
        tracing::warn!(connections = running.len(), "cut connections that did not end in time");
        // A command that runs keeps its connection from being cut.
        shared.operations.interrupt_all(Interruption::ShuttingDown);
        running.shutdown().await;
    }
}

/// Serves a connection that was accepted, behind TLS if there is one: who speaks anything else is cut off.
async fn welcome<S>(shared: Arc<Shared>, stream: S, address: String, tls: Option<Tls>)
where
    S: AsyncRead + AsyncWrite + AsFd + Unpin,
{
    // Before anything is promised: without a file descriptor for it, no client that goes away would be noticed.
    let socket = match duplicate(&stream) {
        Ok(socket) => socket,
        Err(error) => {
            count(&shared.counters.connections_refused);
            tracing::warn!(from = %address, %error, "refused a connection: no second file descriptor for it");
            return;
        }
    };
    let Some(Tls { acceptor }) = tls else {
        let peer = shared.introduce(address).watched_by(&socket);
        return connection::serve(shared, peer, stream).await;
    };
    let mut stopping = shared.stopping.clone();
    let shaken = tokio::select! {
        biased;
        _ = stopping.wait_for(|stopping| *stopping) => return,
        shaken = tokio::time::timeout(shared.settings.message_timeout, acceptor.accept(stream)) => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let peer = shared.introduce(address).watched_by(&socket);
            connection::serve(shared, peer, stream).await;
        }
        Ok(Err(error)) => tracing::info!(from = %address, %error, "no TLS came about"),
        Err(_) => tracing::info!(from = %address, "a client took too long over TLS"),
    }
}
