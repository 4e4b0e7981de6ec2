//! Figures of the server: what the protocol costs on the way, against a bare echo and against the engine it serves.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, RawDocumentBuf, rawdoc};
use cairndb_benches::measure::{on_one_core, speed_ratio, time};
use cairndb_benches::ours::Ours;
use cairndb_server::frame::message::{DocumentSequence, Message};
use cairndb_server::{Server, ServerBuilder};
use mongodb::Client as Driver;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream as AsyncTcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::rounds::{BATCH, insert_batches, raw_orders};

/// The driver's handle to the collection of the figures.
type Orders = mongodb::Collection<RawDocumentBuf>;

/// Round trips of one round.
const PINGS: usize = 5000;
/// Documents that a round of insertion inserts.
const INSERTED: u64 = 30_000;
/// The number of times that it does: for as long as several of the syncs that are ten a second.
const PASSES: usize = 5;
/// The program's argument with which it is a server, one that is a replica set, and with which it pretends to be one.
pub(crate) const SERVE: &str = "serve";
pub(crate) const SERVE_SET: &str = "serve-set";
pub(crate) const PRETEND: &str = "pretend";

/// Round trips a second of `ping` on one connection, against an echo of the same bytes.
pub(crate) fn server_ping() -> f64 {
    let ours = Ours::create();
    let runtime = runtime();
    let body = rawdoc! { "ping": 1, "$db": "admin" }.into_bytes();
    let ping = Message { flags: 0, body: body.into(), sequences: Vec::new() }.bytes(1, 0);
    let serving = serve(&runtime, Server::builder(ours.client().clone()));
    let mut server = connect(serving.address);
    let mut echo = connect(echo(&runtime, ping.len()));
    let answer_len = round_trip(&mut server, &ping, None);
    speed_ratio(
        || time(|| ping_all(&mut server, &ping, answer_len)),
        || time(|| ping_all(&mut echo, &ping, ping.len())),
    )
}

/// Documents a second that MongoDB's driver inserts in batches into a server of another process, against the same calls
/// of the engine. They are [`Document`]s, as a driver is given them.
pub(crate) fn server_insert_batch() -> f64 {
    driver_against_engine(SERVE, &decoded_orders())
}

/// The same with a server that answers without doing anything: what the driver alone leaves of the engine's speed.
pub(crate) fn server_insert_driver_alone() -> f64 {
    driver_against_engine(PRETEND, &decoded_orders())
}

/// As `server_insert_batch` with documents that are ready BSON: what is left for the engine to do is less.
pub(crate) fn server_insert_batch_raw() -> f64 {
    driver_against_engine(SERVE, &raw_orders(INSERTED))
}

fn decoded_orders() -> Vec<Document> {
    let documents = raw_orders(INSERTED);
    documents.iter().map(|order| Document::try_from(order).expect("a document")).collect()
}

/// That without the driver: messages that are ready, over a bare connection.
pub(crate) fn server_insert_message() -> f64 {
    let documents = raw_orders(INSERTED);
    let messages: Vec<Vec<u8>> = documents.chunks(BATCH).map(insertion).collect();
    let by_message = || {
        let server = ServerProcess::start(SERVE);
        let mut connection = connect(server.address);
        time(|| {
            for message in std::iter::repeat_n(&messages, PASSES).flatten() {
                round_trip(&mut connection, message, None);
            }
        })
    };
    on_one_core(|| speed_ratio(by_message, || time_engine(&documents)))
}

/// The driver's own interface is used, of which the blocking one is a shell, and in one thread: no thread is woken for
/// another.
fn driver_against_engine<T: Serialize + DeserializeOwned + Send + Sync>(kind: &str, documents: &[T]) -> f64 {
    let by_driver = || {
        time_driver(kind, "", async |_, orders: mongodb::Collection<T>| {
            for batch in std::iter::repeat_n(documents.chunks(BATCH), PASSES).flatten() {
                orders.insert_many(batch).await.expect("inserted");
            }
        })
    };
    // The driver waits for each answer, and the server for each batch.
    on_one_core(|| speed_ratio(by_driver, || time_engine(documents)))
}

/// The time that work of MongoDB's driver needs on a new server, connected with options.
fn time_driver<T: Send + Sync>(
    kind: &str,
    options: &str,
    work: impl AsyncFnOnce(Driver, mongodb::Collection<T>),
) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = ServerProcess::start(kind);
    let uri = format!("mongodb://{}/?directConnection=true{options}", server.address);
    runtime.block_on(async {
        let driver = Driver::with_uri_str(uri).await.expect("a client");
        let orders = driver.database("bench").collection("orders");
        // Connections are made by the first command.
        orders.estimated_document_count().await.expect("counted");
        let start = Instant::now();
        work(driver, orders).await;
        start.elapsed()
    })
}

/// Inserts by the driver that the server would know again, against such that it would not, `each` documents at a time.
fn retryable(each: usize) -> f64 {
    let documents = raw_orders(INSERTED);
    let insert = |options| {
        time_driver(SERVE_SET, options, async |_, orders: Orders| {
            for documents in documents.chunks(each) {
                match documents {
                    [document] => drop(orders.insert_one(document).await.expect("inserted")),
                    several => drop(orders.insert_many(several).await.expect("inserted")),
                }
            }
        })
    };
    on_one_core(|| speed_ratio(|| insert("&retryWrites=true"), || insert("&retryWrites=false")))
}

/// Documents that the driver inserts one by one with repeatable writes, against without.
pub(crate) fn server_retryable() -> f64 {
    retryable(1)
}

/// The same with many documents at a time.
pub(crate) fn server_retryable_batch() -> f64 {
    retryable(BATCH)
}

/// Transactions of ten inserts by the driver, against ten plain inserts.
pub(crate) fn server_transaction() -> f64 {
    let documents = raw_orders(INSERTED);
    let within = || {
        time_driver(SERVE_SET, "", async |driver: Driver, orders: Orders| {
            let mut session = driver.start_session().await.expect("a session");
            for documents in documents.chunks(10) {
                session.start_transaction().await.expect("started");
                for document in documents {
                    orders.insert_one(document).session(&mut session).await.expect("staged");
                }
                session.commit_transaction().await.expect("committed");
            }
        })
    };
    let plain = || {
        time_driver(SERVE_SET, "", async |_, orders: Orders| {
            for document in &documents {
                orders.insert_one(document).await.expect("inserted");
            }
        })
    };
    on_one_core(|| speed_ratio(within, plain))
}

/// Events of inserts by the driver's stream, against a `find` of the same documents.
pub(crate) fn server_stream() -> f64 {
    let documents = raw_orders(INSERTED);
    let streamed = || {
        let mut reading = Duration::ZERO;
        time_driver(SERVE_SET, "", async |_, orders: Orders| {
            let stream = orders.watch().await.expect("opened");
            let mut stream = stream.with_type::<RawDocumentBuf>();
            insert_driven(&orders, &documents).await;
            let start = Instant::now();
            let mut read = 0;
            while read < documents.len() {
                read += usize::from(stream.next_if_any().await.expect("read").is_some());
            }
            reading = start.elapsed();
        });
        reading
    };
    let found = || {
        let mut reading = Duration::ZERO;
        time_driver(SERVE_SET, "", async |_, orders: Orders| {
            insert_driven(&orders, &documents).await;
            let start = Instant::now();
            let mut cursor = orders.find(Document::new()).await.expect("found");
            let mut read = 0;
            while cursor.advance().await.expect("read") {
                // Owned, as the stream gives its events.
                black_box(cursor.deserialize_current().expect("a document"));
                read += 1;
            }
            assert_eq!(read, documents.len());
            reading = start.elapsed();
        });
        reading
    };
    on_one_core(|| speed_ratio(streamed, found))
}

/// Inserts documents by the driver, and waits until all of them are synced.
async fn insert_driven(orders: &Orders, documents: &[RawDocumentBuf]) {
    for batch in documents.chunks(BATCH) {
        orders.insert_many(batch).await.expect("inserted");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
}

fn time_engine<T: Serialize + DeserializeOwned>(documents: &[T]) -> Duration {
    let ours = Ours::create();
    let orders = ours.orders().clone_with_type();
    time(|| (0..PASSES).for_each(|_| insert_batches(&orders, documents)))
}

/// A server in a process of its own, as clients have it; it ends with its input.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(kind: &str) -> Self {
        let own_program = std::env::current_exe().expect("a program knows where it is");
        let mut command = Command::new(own_program);
        let command = command.arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts again");
        let mut line = String::new();
        let said = child.stdout.take().map(|said| BufReader::new(said).read_line(&mut line));
        assert!(matches!(said, Some(Ok(_))), "the server does not start");
        Self { child, address: line.trim().parse().expect("it tells its address") }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().is_ok_and(|status| status.success()), "the server did not end in order");
    }
}

/// The work of such a process: it prints its address, and serves until its input ends.
#[expect(clippy::print_stdout, reason = "the address is what its parent waits for")]
pub(crate) fn be_server(kind: &str) {
    let runtime = runtime();
    let ours = Ours::create();
    let builder = Server::builder(ours.client().clone());
    let builder = if kind == SERVE_SET { builder.replica_set("bench") } else { builder };
    let serving = serve(&runtime, builder);
    let address = if kind == PRETEND { pretend(&runtime, serving.address) } else { serving.address };
    println!("{address}");
    let ended = std::io::stdin().read_to_end(&mut Vec::new());
    assert!(ended.is_ok(), "the input broke");
}

/// A message that inserts documents.
fn insertion(documents: &[RawDocumentBuf]) -> Vec<u8> {
    let body = rawdoc! { "insert": "orders", "$db": "bench" }.into_bytes();
    let documents: Vec<u8> = documents.iter().flat_map(|document| document.as_bytes().to_vec()).collect();
    let documents = DocumentSequence { field: "documents".to_owned(), documents: documents.into() };
    Message { flags: 0, body: body.into(), sequences: vec![documents] }.bytes(1, 0)
}

/// Passes messages on to a server and its answers back, but for insertions: it says that they are done.
fn pretend(runtime: &Runtime, server: SocketAddr) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pretend_to(client, server));
        }
    });
    address
}

async fn pretend_to(mut client: AsyncTcpStream, server: SocketAddr) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = AsyncTcpStream::connect(server).await?;
    loop {
        let message = read_message(&mut client).await?;
        let answer = match Message::parse(&message.clone().into()) {
            Ok(insertion) if !insertion.sequences.is_empty() => {
                let done = rawdoc! { "n": i32::try_from(BATCH).unwrap_or(i32::MAX), "ok": 1.0 };
                let request =
                    message.get(4..8).and_then(|id| id.try_into().ok()).map_or(0, i32::from_le_bytes);
                Message { flags: 0, body: done.into_bytes().into(), sequences: Vec::new() }.bytes(1, request)
            }
            Ok(_) | Err(_) => {
                server.write_all(&message).await?;
                read_message(&mut server).await?
            }
        };
        client.write_all(&answer).await?;
    }
}

async fn read_message(stream: &mut AsyncTcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let mut message = length.to_vec();
    message.resize(usize::try_from(i32::from_le_bytes(length)).unwrap_or_default(), 0);
    stream.read_exact(message.get_mut(4..).unwrap_or_default()).await?;
    Ok(message)
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// A server that runs until it is dropped.
struct Serving<'a> {
    runtime: &'a Runtime,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            self.runtime.block_on(task).expect("it ended in order");
        }
    }
}

fn serve(runtime: &Runtime, builder: ServerBuilder) -> Serving<'_> {
    let builder = builder.tcp("127.0.0.1:0".parse().expect("an address"));
    let server = runtime.block_on(builder.bind()).expect("bound");
    let address = server.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let task = runtime.spawn(server.serve(async {
        let _ = stopped.await;
    }));
    Serving { runtime, address, stop: Some(stop), task: Some(task) }
}

/// Sends back whatever comes, in pieces of one length, on one connection.
fn echo(runtime: &Runtime, len: usize) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        stream.set_nodelay(true).expect("set");
        let mut bytes = vec![0; len];
        while stream.read_exact(&mut bytes).await.is_ok() && stream.write_all(&bytes).await.is_ok() {}
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_nodelay(true).expect("set");
    stream
}

/// So many round trips, each answered by as many bytes.
fn ping_all(stream: &mut TcpStream, message: &[u8], len: usize) {
    for _ in 0..PINGS {
        assert_eq!(round_trip(stream, message, Some(len)), len);
    }
}

/// Sends a message and reads what comes back, of a known length or of the one that it begins with; gives the length.
fn round_trip(stream: &mut TcpStream, message: &[u8], len: Option<usize>) -> usize {
    let mut buffer = [0; 256];
    stream.write_all(message).expect("sent");
    let mut read = 0;
    let mut wanted = len.unwrap_or(4);
    while read < wanted {
        read += stream.read(buffer.get_mut(read..).expect("answers are short")).expect("received");
        if len.is_none()
            && let Some(front) = buffer.first_chunk()
        {
            wanted = usize::try_from(i32::from_le_bytes(*front)).expect("a length");
        }
    }
    read
}
