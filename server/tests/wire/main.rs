//! A scripted client over real sockets: messages that drivers send, messages that no driver sends, and the
//! answers.

mod auth;
mod backup;
mod budgets;
mod bulk_write;
mod change_streams;
mod commands;
mod compression;
mod cursors;
mod ending;
mod fail_points;
mod hello;
mod life;
mod login;
mod malformed;
mod metrics;
mod peer;
mod replica_set;
mod retryable;
mod shares;
// Not in the package alone, whose tests have no feature that is not asked for.
#[cfg(feature = "opentelemetry")]
mod spans;
mod strangers;
mod tailing;
mod tls;
mod transactions;

use std::net::SocketAddr;
use std::time::Duration;

use cairndb::bson::{Document, doc};
use cairndb::{Client, ClientBuilder};
use cairndb_server::{Server, ServerBuilder};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::peer::Peer;

/// A server over a store of its own.
struct Fixture {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<std::thread::JoinHandle<()>>,
    client: Option<Client>,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self::over(|_| (), change)
    }

    /// The same over a store with something in it.
    fn over(prepare: impl FnOnce(&Client), change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self::of(Client::builder(), prepare, change)
    }

    /// The same over a store that is opened by a builder.
    fn of(
        opening: ClientBuilder,
        prepare: impl FnOnce(&Client),
        change: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let client = opening.open(folder.path().join("db")).expect("a store");
        prepare(&client);
        let builder = change(Server::builder(client.clone()).tcp("127.0.0.1:0".parse().expect("an address")));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let server = runtime.block_on(builder.bind()).expect("bound");
        let address = server.local_addr().expect("an address");
        let metrics = server.metrics_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            runtime.block_on(server.serve(async {
                let _ = stopped.await;
            }));
        });
        Self {
            address,
            metrics,
            stop: Some(stop),
            serving: Some(serving),
            client: Some(client),
            _folder: folder,
        }
    }

    fn peer(&self) -> Peer {
        Peer::connect(self.address)
    }

    /// Stops the server and closes the store, which fails if anything keeps it open.
    fn stop(&mut self) {
        drop(self.stop.take());
        self.serving.take().expect("it runs").join().expect("it ended in order");
        self.client.take().expect("it is open").close().expect("nothing keeps the store open");
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if self.serving.is_some() && !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Ten documents of a kilobyte.
fn fill(peer: &mut Peer, collection: &str, documents: i32) {
    let documents: Vec<Document> =
        (0..documents).map(|id| doc! { "_id": id, "text": "x".repeat(1000) }).collect();
    let reply = peer.run(doc! { "insert": collection, "documents": documents, "$db": "shop" });
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// How long a peer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
