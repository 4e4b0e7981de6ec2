//! A server inside an application that knows nothing of Tokio. Its runtime lives on a thread of its own from the
//! first socket to the last connection, so that callers may themselves be within a runtime.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::server::{Error, ServerBuilder};

/// Threads for connections; the calls of the engine have threads besides.
const WORKERS: usize = 2;

/// A server on threads of its own, made by [`ServerBuilder::spawn`]. Dropping it stops the server, as
/// [`stop`](Self::stop) does.
///
/// ```
/// use cairndb::Client;
/// use cairndb_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let client = Client::open(folder.path().join("shop"))?;
/// let running = Server::builder(client.clone()).tcp("127.0.0.1:0".parse()?).spawn()?;
/// std::net::TcpStream::connect(running.local_addr().expect("a TCP address was given"))?;
/// running.stop();
/// client.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct RunningServer {
    address: Option<SocketAddr>,
    /// Both are used once, when the server stops.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    /// The TCP address that the server listens on, with the port that the system chose for port 0. Returns
    /// `None` if the server has no TCP address.
    ///
    /// The example of [`RunningServer`] connects to it.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Stops the server and returns when it has stopped: running commands are answered, or interrupted after
    /// the [grace time](ServerBuilder::grace), and the Unix socket is removed. The caller closes the client
    /// afterwards.
    ///
    /// The example of [`RunningServer`] stops one.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl ServerBuilder {
    /// Binds the sockets and serves them on threads of its own, until the returned value is stopped or dropped.
    /// An application lets shells, drivers and the tool `cairn` look into its store by one call.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind), and [`Error::Threads`] if the system rejects threads.
    ///
    /// A recipe: [looking into a running application][recipe].
    ///
    /// [recipe]: https://github.com/cairndb/cairndb/blob/main/docs/guide/data.md#looking-into-a-running-application
    ///
    /// ```
    /// use cairndb::Client;
    /// use cairndb_server::Server;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let client = Client::open(folder.path().join("shop"))?;
    /// let socket = folder.path().join("shop.sock");
    /// let running = Server::builder(client.clone()).unix_socket(&socket).spawn()?;
    ///
    /// // The application goes on, and `cairn export shop.sock shop.orders` reads what it has stored.
    /// assert!(socket.exists());
    /// running.stop();
    /// assert!(!socket.exists());
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn(self) -> Result<RunningServer, Error> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound_sender, bound) = mpsc::channel();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .thread_name("cairndb-server")
                .enable_all()
                .build()
                .map_err(Error::Threads);
            let bound = runtime.and_then(|runtime| Ok((runtime.block_on(self.bind())?, runtime)));
            match bound {
                Ok((server, runtime)) => {
                    // The caller waits for this, so that it is never gone.
                    let _ = bound_sender.send(Ok(server.local_addr()));
                    // Dropping the sender ends it, and nothing is ever sent.
                    runtime.block_on(server.serve(async { drop(stopped.await) }));
                }
                Err(error) => drop(bound_sender.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new()
            .name("cairndb-server".to_owned())
            .spawn(serve)
            .map_err(Error::Threads)?;
        // A thread that panicked has sent nothing.
        let ended = |_| Err(Error::Threads(std::io::Error::other("the thread of the server ended")));
        let address = bound.recv().unwrap_or_else(ended)?;
        Ok(RunningServer { address, stop: Some(stop), thread: Some(thread) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use cairndb::Client;

    use crate::server::Server;

    use super::*;

    fn store() -> (tempfile::TempDir, Client) {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::open(folder.path().join("db")).unwrap();
        (folder, client)
    }

    #[test]
    fn stopping_ends_connections_and_lets_the_folder_go() {
        let (folder, client) = store();
        let socket = folder.path().join("s");
        let running = Server::builder(client.clone()).unix_socket(&socket).spawn().unwrap();
        let mut connection = UnixStream::connect(&socket).unwrap();
        drop(running);
        assert_eq!(connection.read(&mut [0]).unwrap_or(0), 0);
        assert!(!socket.exists());
        client.close().unwrap();
        Client::open(folder.path().join("db")).unwrap().close().unwrap();
    }

    #[test]
    fn errors_of_binding_reach_the_caller() {
        let (folder, client) = store();
        let nothing = Server::builder(client.clone()).spawn();
        assert!(matches!(nothing, Err(Error::NothingToListenOn)));
        let absent = Server::builder(client.clone()).unix_socket(folder.path().join("absent/s")).spawn();
        assert!(matches!(absent, Err(Error::Bind { .. })));
        client.close().unwrap();
    }

    #[tokio::test]
    async fn it_is_spawned_and_stopped_within_a_runtime() {
        let (folder, client) = store();
        let running = Server::builder(client.clone()).unix_socket(folder.path().join("s")).spawn().unwrap();
        running.stop();
        client.close().unwrap();
    }
}
