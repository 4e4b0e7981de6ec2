//! Accepting connections on TCP and Unix sockets.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cairndb::Interruption;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::connection;
use crate::connections::{Admitted, Connections, LoginMark};
use crate::disconnects::duplicate;
use crate::ends::{ConnectionEnds, LocalEnd};
use crate::shared::{Shared, count, host};
use crate::tls::Tls;

/// The pause of accepting after an error of the system, which mostly means that no file descriptor is left.
const REST: Duration = Duration::from_millis(100);

/// A socket that accepts connections.
pub(crate) trait Listen: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static;

    /// The next connection, and its ends.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, ConnectionEnds)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, ConnectionEnds)> {
        let (stream, address) = TcpListener::accept(self).await?;
        // An answer is written whole; waiting to send more with it would only delay it.
        stream.set_nodelay(true)?;
        // Of the connection, because the listener's may represent all addresses of the machine.
        let local = LocalEnd::Tcp(stream.local_addr()?);
        Ok((stream, ConnectionEnds { client: address.to_string(), local }))
    }
}

/// A Unix socket. Dropping it removes its file, if that is still its own.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the number of the file: another server may put its own at the path.
    file: (u64, u64),
}

impl UnixSocket {
    /// Binds a socket that only the user of this process may use. A socket file that a dead process left at
    /// `path` is replaced.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        // Only a socket, and only one that no process listens on: any other file at this path is the user's.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && is_left(path) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned(), file: file_at(path)? })
    }
}

/// Whether no process listens on a socket. One that cannot be asked, because it is another user's or has many callers, is not
/// treated as dead.
fn is_left(path: &Path) -> bool {
    let asked = std::os::unix::net::UnixStream::connect(path);
    asked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if file_at(&self.path).is_ok_and(|found| found != self.file) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the socket's file could not be removed");
        }
    }
}

impl Listen for UnixSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, ConnectionEnds)> {
        let (stream, _) = self.listener.accept().await?;
        let path = self.path.display().to_string();
        Ok((stream, ConnectionEnds { client: path.clone(), local: LocalEnd::Unix(path) }))
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
    connections: Arc<Connections>,
    tls: Option<Tls>,
) {
    let mut stopping = shared.stopping.clone();
    let mut running = JoinSet::new();
    let mut is_full = false;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => break,
            // Ended tasks are collected while the server runs, or their results would pile up.
            Some(_) = running.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, ends) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let seat = match connections.admit(host(&ends.client), &ends.local) {
            Admitted::Seat(seat, 0) => {
                is_full = false;
                seat
            }
            Admitted::Seat(seat, closed) => {
                shared.counters.connections_refused.fetch_add(closed as u64, Ordering::Relaxed);
                if !is_full {
                    is_full = true;
                    tracing::warn!(closed, "closed connections that have not logged in: there are too many");
                }
                seat
            }
            Admitted::Refused => {
                count(&shared.counters.connections_refused);
                // Once, until there is room again: clients come back at once, and would fill the log.
                if !is_full {
                    is_full = true;
                    let limit = shared.settings.connections_max;
                    tracing::warn!(from = %ends.client, limit, "rejected a connection: the limit of connections is reached");
                }
                continue;
            }
        };
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        running.spawn(async move {
            let mut seat = seat;
            let served = serve_accepted(shared, stream, ends, seat.login(), tls);
            tokio::select! {
                () = served => {}
                // Its work is given up: before a login nothing of it lasts.
                () = seat.closed() => {}
            }
            // The seat goes after the whole connection, TLS included: a slow handshake counts as a connection.
        });
    }
    // From here on clients are rejected by the system, and do not wait in the backlog of a server that stops.
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
async fn serve_accepted<S>(
    shared: Arc<Shared>,
    stream: S,
    ends: ConnectionEnds,
    login: LoginMark,
    tls: Option<Tls>,
) where
    S: AsyncRead + AsyncWrite + AsFd + Unpin,
{
    // First of all: without a second file descriptor the server could not notice that the client went away.
    let socket = match duplicate(&stream) {
        Ok(socket) => socket,
        Err(error) => {
            count(&shared.counters.connections_refused);
            tracing::warn!(from = %ends.client, %error, "rejected a connection: no second file descriptor for it");
            return;
        }
    };
    let Some(Tls { acceptor }) = tls else {
        let peer = shared.new_peer(ends).watched_by(&socket).marked_by(login);
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
            let peer = shared.new_peer(ends).watched_by(&socket).marked_by(login);
            connection::serve(shared, peer, stream).await;
        }
        Ok(Err(error)) => tracing::info!(from = %ends.client, %error, "TLS handshake failed"),
        Err(_) => tracing::info!(from = %ends.client, "TLS handshake timed out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file was removed by its path, also after another server had put its own there.
    #[tokio::test]
    async fn a_socket_removes_its_own_file_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.sock");
        let first = UnixSocket::bind(&path).expect("bound");
        assert!(UnixSocket::bind(&path).is_err(), "a process listens on it");
        // Kept under another name, so that its number is not given again.
        std::fs::rename(&path, folder.path().join("aside")).expect("renamed");
        let second = UnixSocket::bind(&path).expect("bound");
        drop(first);
        assert!(path.exists(), "it is the other server's");
        drop(second);
        assert!(!path.exists());
        // The leftover of a dead process is replaced.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        drop(UnixSocket::bind(&path).expect("bound"));
        assert!(!path.exists());
    }
}
