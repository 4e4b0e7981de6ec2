//! `cairn serve`: serves a folder to MongoDB's shells and drivers until a signal ends it.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::task::Poll;
use std::time::Duration;

use cairndb::{ChangeLogging, Client, ErrorKind};
use cairndb_server::{Server, Tls, TlsError};
use rustix::process::{Pid, Resource, Rlimit, getppid, getrlimit, setrlimit};
use tracing_subscriber::filter::LevelFilter;

use crate::allocator;
use crate::failure::{Exit, Failure};
use crate::log;
use crate::output::print_lines;
use crate::signals::Signals;
use crate::standard;
use crate::store::folder::not_opened;
use crate::store::refuse_absent_server;
use crate::talk::warn;

/// Serves a store to MongoDB's shells and drivers.
///
/// The store is a folder, or it is in memory and gone when the server ends. The folder is made if it does not exist. SIGTERM, SIGINT and SIGHUP end the server in order: running commands are
/// answered, everything is synced, and the folder is closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn serve shop-data
      then: mongosh mongodb://127.0.0.1:27017/shop
  cairn serve shop-data --port 0 --unix-socket shop.sock
      a free port, which is printed, and a socket that only this user may use
  cairn serve shop-data --replica-set shop
      for transactions: mongosh mongodb://127.0.0.1:27017/?replicaSet=shop
  cairn serve --memory --port 0 --exit-with-parent
      a store in memory, for tests; the first line of output is its address
  cairn serve shop-data --read-only --log-level debug
      reads beside another process that has the folder open
  cairn user add shop-data ada
  cairn serve shop-data --bind 0.0.0.0 --tls-certificate shop.pem \\
    --tls-key shop.key
      for other machines, whose users must log in")]
pub(crate) struct Arguments {
    /// The folder of the store.
    #[arg(required_unless_present = "in_memory")]
    path: Option<PathBuf>,
    #[command(flatten)]
    lifetime: Lifetime,
    /// The address to listen on. Where other machines can reach it, users must log in, and TLS is needed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", help_heading = "Address")]
    bind: IpAddr,
    /// The port to listen on; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 27017, help_heading = "Address")]
    port: u16,
    /// Listen on a Unix socket as well.
    #[arg(long, value_name = "PATH", help_heading = "Address")]
    unix_socket: Option<PathBuf>,
    /// Be a replica set of one member with this name: MongoDB's drivers send transactions and retryable writes to nothing else.
    #[arg(long, value_name = "NAME", conflicts_with = "read_only", help_heading = "Replica set")]
    replica_set: Option<String>,
    /// The address at which clients reach the member; the one that is listened on if nothing is given. Drivers connect to this one,
    /// whatever address they were given.
    #[arg(long, value_name = "HOST:PORT", requires = "replica_set", help_heading = "Replica set")]
    advertise: Option<String>,
    /// The collections whose changes are logged, for change streams.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ChangeLog::Watched, help_heading = "Replica set")]
    change_log: ChangeLog,
    /// Seconds that a transaction may last, from its first statement on. Then it is aborted.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400), help_heading = "Limits")]
    transaction_lifetime: u32,
    /// Seconds that tokens of commands with `exactlyOnce` are remembered, at least.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(u32).range(60..=31_622_400), help_heading = "Limits")]
    token_retention: u32,
    /// MiB that the tokens may have that are remembered, with the answers to their commands. Beyond that new ones are rejected.
    #[arg(long, value_name = "MEBIBYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_048_576), help_heading = "Limits")]
    token_space: u32,
    #[command(flatten)]
    protection: Protection,
    /// Let clients make commands fail, as suites of drivers do.
    #[arg(long, help_heading = "For tests of drivers")]
    enable_test_commands: bool,
    /// Open the folder for reading only.
    #[arg(long, help_heading = "Store")]
    read_only: bool,
    /// The level of the log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Log and metrics")]
    log_level: LevelFilter,
    /// Log operations that need at least this many milliseconds, as warnings: plan and shape, without values. `off` logs none.
    #[arg(long, value_name = "MILLISECONDS", default_value = "100", help_heading = "Log and metrics")]
    slow_threshold: SlowThreshold,
    /// The limit of connections at one time: 10000 if nothing is given, and fewer if the process may not open enough
    /// files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    max_connections: Option<u32>,
    /// The number of commands that work on the store at the same time. The others wait, those of other clients too.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Limits")]
    max_commands: u32,
    #[command(flatten)]
    memory: Memory,
    /// Mebibytes that the folder may have on the disk. Writes that might exceed it are rejected; reads and deletes go on.
    #[arg(long, value_name = "MIB", conflicts_with_all = ["in_memory", "read_only"], value_parser = clap::value_parser!(u32).range(32..), help_heading = "Store")]
    disk_quota: Option<u32>,
    /// Mebibytes that the temporary files of sorts, groups and joins may have together. With 0, what needs more memory than it may have fails.
    #[arg(long, value_name = "MIB", conflicts_with_all = ["in_memory", "read_only"], default_value_t = 10_240, help_heading = "Store")]
    temporary_space: u32,
    /// Read the checksums of all files in the background, at that rate at most. What is damaged is logged, and counted in
    /// `cairn stats` and the metrics.
    #[arg(long, value_name = "BYTES_PER_SECOND", conflicts_with = "in_memory", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Store")]
    scrub: Option<u64>,
    /// A folder in which `cairn backup` may make copies of the store through this server. It must exist.
    #[arg(long, value_name = "FOLDER", help_heading = "Store")]
    backup_folder: Option<PathBuf>,
    /// Show metrics for Prometheus at this address of loopback, with its port, under /metrics. Reading needs no login.
    #[arg(long, value_name = "ADDRESS", help_heading = "Log and metrics")]
    metrics: Option<SocketAddr>,
    /// Seconds between two passes that delete documents which have expired by a TTL index; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = "Store")]
    ttl_interval: u32,
    /// Seconds after which an idle cursor is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    cursor_timeout: u64,
}

/// From when on operations are logged as slow, if any are.
#[derive(Clone, Copy, Debug)]
struct SlowThreshold(Option<Duration>);

impl FromStr for SlowThreshold {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self(None));
        }
        let milliseconds = text.parse().map_err(|_| "neither a number of milliseconds nor `off`")?;
        Ok(Self(Some(Duration::from_millis(milliseconds))))
    }
}

/// The lifetime of the store and the server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Store")]
struct Lifetime {
    /// Serve a new store in memory instead of a folder. Nothing of it reaches a disk.
    #[arg(long = "memory", conflicts_with_all = ["path", "read_only", "auth"])]
    in_memory: bool,
    /// End, in order, once the process that started the server has ended.
    #[arg(long)]
    exit_with_parent: bool,
}

/// Limits of memory, in mebibytes. Each connection takes a little more.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct Memory {
    /// Mebibytes for the store's cache and for data not yet written to tables.
    #[arg(long = "store-memory", value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..))]
    store: u32,
    /// Mebibytes for incoming messages of all connections together.
    #[arg(long = "request-memory", value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Mebibytes for outgoing answers of all connections together.
    #[arg(long = "answer-memory", value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    answers: u32,
}

/// The protection of the store from other people.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Users and TLS")]
struct Protection {
    /// Admit only users who log in; `cairn user add` makes them. Always so on addresses that are not
    /// loopback.
    #[arg(long)]
    auth: bool,
    /// Use TLS on the address: a PEM file with the server's certificate, followed by those of its issuers.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Listen on addresses that are not loopback without TLS. Anyone on the network path can read and change
    /// everything.
    #[arg(long)]
    insecure_plaintext: bool,
}

/// The reason why the server did not start, or did not end cleanly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the store cannot be opened")]
    Open(#[source] cairndb::Error),
    #[error("TLS cannot be set up")]
    Tls(#[from] TlsError),
    #[error("the server cannot start")]
    Start(#[from] cairndb_server::Error),
    #[error("the system cannot provide what a server needs")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Output(#[from] Failure),
    #[error("the store was not closed in order")]
    Close(#[source] cairndb::Error),
}

/// The interval of checks whether the parent is still there.
const PARENT_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of checks whether operations have let go of much memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);
/// Less than this is kept for the next operations.
const GIVEN_BACK_BYTES_MIN: u64 = 32 << 20;
/// The connections for which files are allowed if no number is given: the server's own limit.
const CONNECTIONS: u32 = 10_000;
/// The number of files to allow for each connection: its two file descriptors, and two for the store.
const FILES_PER_CONNECTION: u64 = 4;

/// Raises the limit of open files to `files`, if the system lets it. A server admits no more connections than
/// the limit allows.
fn allow_files(files: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(files, |maximum| maximum.min(files));
    // The limit is only ever raised: an administrator who set a higher one has a reason.
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        tracing::warn!(%error, files = wanted, "the limit of open files could not be raised");
    }
}

/// Serves until a signal comes.
pub(crate) fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    log::start(arguments.log_level);
    allow_files(u64::from(arguments.max_connections.unwrap_or(CONNECTIONS)) * FILES_PER_CONNECTION);
    let path = arguments.path.clone().unwrap_or_default();
    refuse_absent_server(&path)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::System)?;
    if !arguments.lifetime.in_memory && !path.exists() {
        // Tried without a folder: options that no server can be started with leave none.
        let client = Client::in_memory().map_err(Error::Open)?;
        // The server that follows logs what this one would log.
        let tried = tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
            runtime.block_on(bind(client.clone(), &arguments)).map(drop)
        });
        tried.and(client.close().map_err(Error::Close))?;
    }
    let opened = Client::builder()
        .read_only(arguments.read_only)
        .read_only_if_full(!arguments.lifetime.in_memory)
        .memory_budget(bytes(arguments.memory.store))
        .disk_quota(arguments.disk_quota.map(|mebibytes| u64::from(mebibytes) << 20))
        .scrub(arguments.scrub)
        .temporary_space(u64::from(arguments.temporary_space) << 20)
        .ttl_interval(ttl_interval(arguments.ttl_interval))
        .slow_threshold(arguments.slow_threshold.0)
        .transaction_lifetime(Duration::from_secs(u64::from(arguments.transaction_lifetime)))
        .token_retention(Duration::from_secs(u64::from(arguments.token_retention)))
        .token_bytes_max(u64::from(arguments.token_space) << 20)
        .change_log(match arguments.change_log {
            ChangeLog::Never => ChangeLogging::Never,
            ChangeLog::Watched => ChangeLogging::Watched,
            ChangeLog::Always => ChangeLogging::Always,
        })
        .in_memory(arguments.lifetime.in_memory)
        .open(&path);
    let client = match opened {
        Ok(client) => client,
        Err(error) if error.is_already_open() || matches!(error.kind(), ErrorKind::NotFound { .. }) => {
            return Err(not_opened(&path, error).into());
        }
        Err(error) => return Err(Error::Open(error).into()),
    };
    if client.is_read_only() && !arguments.read_only {
        // Whatever is logged: clients would only see that each write is rejected.
        warn(&format!(
            "the disk of {} is full: the folder is served for reading only; free some space and start the server again",
            path.display()
        ));
    }
    let served = runtime.block_on(serve(client.clone(), arguments));
    // The runtime's threads may still use the store, so they end before it is closed.
    drop(runtime);
    let closed = client.close().map_err(Error::Close);
    Ok(served.and(closed)?)
}

async fn serve(client: Client, arguments: Arguments) -> Result<(), Error> {
    // Registered first: a signal during the start must end the server in order, not kill the process. On a thread of its own:
    // the second one ends the process whatever the others are doing.
    let signals = Signals::watch()?;
    let parent = arguments.lifetime.exit_with_parent.then(Parent::now);
    let server = bind(client.clone(), &arguments).await?;
    announce(&server, &arguments)?;
    let giving_back = tokio::spawn(give_back_memory(client));
    server.serve(wait(signals, parent)).await;
    giving_back.abort();
    Ok(())
}

/// Listens as the options say.
async fn bind(client: Client, arguments: &Arguments) -> Result<Server, Error> {
    let mut builder = Server::builder(client)
        .tcp(SocketAddr::new(arguments.bind, arguments.port))
        .calls_max(arguments.max_commands)
        .request_bytes_max(bytes(arguments.memory.requests))
        .answer_bytes_max(bytes(arguments.memory.answers))
        .cursor_timeout(Duration::from_secs(arguments.cursor_timeout))
        .log_lines_lost(log::lost());
    if let Some(connections) = arguments.max_connections {
        builder = builder.connections_max(connections);
    }
    if let Some(path) = &arguments.unix_socket {
        builder = builder.unix_socket(path);
    }
    if let Some(name) = &arguments.replica_set {
        builder = builder.replica_set(name);
    }
    if let Some(address) = &arguments.advertise {
        builder = builder.advertise(address);
    }
    if let Some(folder) = &arguments.backup_folder {
        builder = builder.backup_folder(folder);
    }
    if let Some(address) = arguments.metrics {
        builder = builder.metrics(address);
    }
    let protection = &arguments.protection;
    if let (Some(certificate), Some(key)) = (&protection.tls_certificate, &protection.tls_key) {
        builder = builder.tls(Tls::from_pem_files(certificate, key)?);
    }
    if protection.auth {
        builder = builder.require_users();
    }
    if protection.insecure_plaintext {
        builder = builder.insecure_plaintext();
    }
    if arguments.enable_test_commands {
        builder = builder.test_commands();
    }
    Ok(builder.bind().await?)
}

/// The collections whose changes are logged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ChangeLog {
    /// Nothing is logged, and streams are refused.
    Never,
    /// Those that a stream watches, from the first one on.
    Watched,
    /// Everything is logged.
    Always,
}

/// The time between two passes over TTL indexes. Returns `None` if there are to be none.
fn ttl_interval(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

fn bytes(mebibytes: u32) -> usize {
    usize::try_from(u64::from(mebibytes) << 20).unwrap_or(usize::MAX)
}

/// Prints on standard output where the server listens, one line each, so that a script can read a chosen
/// port.
fn announce(server: &Server, arguments: &Arguments) -> Result<(), Failure> {
    // A caller that starts a server in the background may close it, and does not wait for these lines.
    if standard::check_output().is_err() {
        return Ok(());
    }
    if let Some(address) = server.local_addr() {
        let options = if arguments.protection.tls_certificate.is_some() { "?tls=true" } else { "" };
        print_lines([format!("listening on mongodb://{address}/{options}")])?;
    }
    if let Some(path) = &arguments.unix_socket {
        print_lines([format!("listening on {}", path.display())])?;
    }
    // Last, so that the line of the server stays the first one.
    if let Some(address) = server.metrics_addr() {
        print_lines([format!("metrics at http://{address}/metrics")])?;
    }
    Ok(())
}

/// The process that has started this one, as far as it can be seen from here.
#[derive(PartialEq, Eq)]
struct Parent(Option<Pid>);

impl Parent {
    fn now() -> Self {
        Self(getppid())
    }
}

/// Waits for what ends the server: a signal, or the end of its parent.
async fn wait(signals: Signals, parent: Option<Parent>) {
    let reason = tokio::select! {
        () = first_signal(&signals) => match signals.received() {
            Some(Exit::HungUp) => "received SIGHUP",
            Some(Exit::Terminated) => "received SIGTERM",
            Some(_) | None => "received SIGINT",
        },
        () = parent_ends(parent) => "the process that started the server has ended",
    };
    tracing::info!("{reason}");
}

/// Gives memory back to the system when operations and cursors have let go of much of it.
async fn give_back_memory(client: Client) {
    let mut most = 0;
    loop {
        tokio::time::sleep(MEMORY_INTERVAL).await;
        let held = client.operation_bytes();
        most = held.max(most);
        if most - held >= GIVEN_BACK_BYTES_MIN {
            // It may be slow, and fails only if the runtime ends.
            let _ = tokio::task::spawn_blocking(allocator::give_back).await;
            most = held;
        }
    }
}

async fn first_signal(signals: &Signals) {
    let mut woken = None;
    poll_fn(|context| {
        // Before the look: a signal between the two would wake nothing.
        woken = Some(signals.token.wake(context.waker().clone()));
        if signals.token.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(woken);
}

/// Waits until the process has another parent than this one, which is when its own has ended.
async fn parent_ends(parent: Option<Parent>) {
    let Some(parent) = parent else { return std::future::pending().await };
    while Parent::now() == parent {
        tokio::time::sleep(PARENT_INTERVAL).await;
    }
}
