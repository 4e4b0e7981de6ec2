//! Figures of the tool: whole runs of `cairn`, which lies beside this program, against what a program does through the library
//! or MongoDB's driver. Both sides open the store and close it.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cairndb::bson::{Document, RawDocumentBuf, doc};
use cairndb::{Client, Collection, IndexModel};
use cairndb_benches::measure::{speed_ratio_of, time};
use cairndb_server::{RunningServer, Server};
use mongodb::Client as Driver;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::rounds::{insert_batches, raw_orders};

/// Documents of a round.
const DOCUMENTS: u64 = 200_000;
/// Documents that a script reads.
const READ_BY_SCRIPT: u64 = 100_000;
const ROUNDS: usize = 5;
const ORDERS: &str = "bench.orders";

/// Documents a second of an import of BSON against `insert_many` of the same documents.
pub(crate) fn import_bson() -> f64 {
    import("orders.bson", |file, document| file.write_all(document.as_bytes()))
}

/// The same of Extended JSON, a document on each line.
pub(crate) fn import_ndjson() -> f64 {
    import("orders.ndjson", |file, document| {
        let document = Document::try_from(document).expect("a document");
        writeln!(file, "{}", serde_json::to_string(&document).expect("JSON"))
    })
}

/// Documents a second of a dump into an archive against a scan of the same store.
pub(crate) fn dump() -> f64 {
    let scratch = Scratch::new();
    scratch.fill();
    speed_ratio_of(
        ROUNDS,
        || {
            scratch.time_cairn("orders.archive", |cairn, archive| {
                cairn.arg("dump").arg(scratch.store()).arg("--archive").arg(archive);
            })
        },
        || {
            time(|| {
                let client = scratch.open_to_read();
                let mut cursor = orders(&client).find(doc! {}).run().expect("a cursor");
                let mut seen = 0;
                while cursor.advance().expect("read") {
                    seen += u64::from(!cursor.current().as_bytes().is_empty());
                }
                assert_eq!(seen, DOCUMENTS);
            })
        },
    )
}

/// Documents a second of a restore with two secondary indexes against `insert_many` and then building both.
pub(crate) fn restore() -> f64 {
    let scratch = Scratch::new();
    let models = || ["customer", "price"].map(|field| IndexModel::builder().keys(doc! { field: 1 }).build());
    scratch.fill();
    let client = scratch.open();
    orders(&client).create_indexes(models()).run().expect("indexes");
    client.close().expect("closed");
    let dumped = scratch.path("dump");
    run(Command::new(cairn()).arg("dump").arg(scratch.store()).arg(&dumped));
    let documents = scratch.documents();
    speed_ratio_of(
        ROUNDS,
        || {
            scratch.time_cairn("restored", |cairn, store| {
                cairn.arg("restore").arg(store).arg(&dumped);
            })
        },
        || {
            in_new_store(|orders| {
                insert_batches(orders, &documents);
                orders.create_indexes(models()).run().expect("indexes");
            })
        },
    )
}

/// Documents a second of an export as Extended JSON against a scan that makes a JSON value of each document and prints it.
pub(crate) fn export_ndjson() -> f64 {
    let scratch = Scratch::new();
    scratch.fill();
    speed_ratio_of(
        ROUNDS,
        || {
            scratch.time_cairn("orders.ndjson", |cairn, file| {
                cairn.arg("export").arg(scratch.store()).arg(ORDERS).arg(file);
            })
        },
        || {
            time(|| {
                let client = scratch.open_to_read();
                let file = scratch.path("by-hand.ndjson");
                let mut printed = BufWriter::new(File::create(&file).expect("a file"));
                for document in
                    orders(&client).clone_with_type::<Document>().find(doc! {}).run().expect("a cursor")
                {
                    let value = serde_json::to_value(document.expect("read")).expect("a value");
                    writeln!(printed, "{value}").expect("written");
                }
                printed.into_inner().expect("written").sync_all().expect("synced");
            })
        },
    )
}

/// Documents a second of an import through a Unix socket against the driver's `insert_many` through the same.
pub(crate) fn import_remote() -> f64 {
    let scratch = Scratch::new();
    let file = scratch.path("orders.bson");
    let documents = raw_orders(DOCUMENTS);
    write_all(&file, &documents, |file, document| file.write_all(document.as_bytes()));
    let (client, _server) = scratch.serve();
    let empty = || orders(&client).drop().run().expect("dropped");
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    speed_ratio_of(
        ROUNDS,
        || {
            empty();
            time(|| run(Command::new(cairn()).arg("import").arg(scratch.socket()).args([ORDERS]).arg(&file)))
        },
        || {
            empty();
            let socket = scratch.socket().display().to_string().replace('/', "%2F");
            time(|| {
                runtime.block_on(async {
                    let driver = Driver::with_uri_str(format!("mongodb://{socket}")).await.expect("a client");
                    let orders = driver.database("bench").collection::<RawDocumentBuf>("orders");
                    for batch in documents.chunks(crate::rounds::BATCH) {
                        orders.insert_many(batch).await.expect("inserted");
                    }
                });
            })
        },
    )
}

/// Documents a second that a script reads in `cairn shell` against the same script in mongosh, both through one server. The
/// script measures itself, so starting either is not part of it.
///
/// # Panics
/// If mongosh is not there: `make ratios` installs it and says where.
pub(crate) fn shell_find() -> f64 {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert_batches(&orders(&client), &raw_orders(READ_BY_SCRIPT));
    // mongosh knows no Unix sockets.
    let builder = Server::builder(client).tcp("127.0.0.1:0".parse().expect("an address"));
    let server = builder.spawn().expect("a server");
    let uri = format!("mongodb://{}/?directConnection=true", server.local_addr().expect("an address"));
    let mongosh = std::env::var_os("CAIRNDB_MONGOSH").expect("CAIRNDB_MONGOSH names mongosh");
    let script = "const began = Date.now(); let sum = 0; \
        db.getSiblingDB('bench').orders.find().forEach(order => { sum += order.price; }); \
        print(Date.now() - began);";
    speed_ratio_of(
        ROUNDS,
        || own_time(Command::new(cairn()).arg("shell").arg(&uri).args(["--eval", script])),
        || own_time(Command::new("node").arg(&mongosh).arg(&uri).args(["--quiet", "--eval", script])),
    )
}

/// Runs a second of `cairn query` for one document of a small store against a run that opens the folder and asks nothing.
pub(crate) fn query_start() -> f64 {
    let scratch = Scratch::new();
    let client = scratch.open();
    insert_batches(&orders(&client), &raw_orders(1_000));
    client.close().expect("closed");
    let store = scratch.store();
    let time_of = |verb: &str, asked: &[&str]| {
        let mut command = Command::new(cairn());
        command.arg(verb).arg(&store).args(asked).stdout(Stdio::null());
        time(|| run(&mut command))
    };
    // Runs of some milliseconds differ more than long ones.
    let rounds = 4 * ROUNDS + 1;
    let ask = ["db.orders.findOne()", "--db", "bench"];
    speed_ratio_of(rounds, || time_of("query", &ask), || time_of("sequences", &[]))
}

fn import(name: &str, write: impl Fn(&mut BufWriter<File>, &RawDocumentBuf) -> std::io::Result<()>) -> f64 {
    let scratch = Scratch::new();
    let file = scratch.path(name);
    let documents = raw_orders(DOCUMENTS);
    write_all(&file, &documents, write);
    speed_ratio_of(
        ROUNDS,
        || {
            scratch.time_cairn("imported", |cairn, store| {
                cairn.arg("import").arg(store).arg(ORDERS).arg(&file);
            })
        },
        || in_new_store(|orders| insert_batches(orders, &documents)),
    )
}

fn write_all(
    path: &Path,
    documents: &[RawDocumentBuf],
    write: impl Fn(&mut BufWriter<File>, &RawDocumentBuf) -> std::io::Result<()>,
) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    for document in documents {
        write(&mut file, document).expect("written");
    }
    file.flush().expect("written");
}

/// The time to open a new store, to do `work` in it, and to close it, with all of it on stable storage.
fn in_new_store(work: impl FnOnce(&Collection<RawDocumentBuf>)) -> Duration {
    let folder = tempfile::tempdir().expect("a temporary folder");
    time(|| {
        let client = Client::open(folder.path().join("db")).expect("a new database");
        work(&orders(&client));
        client.close().expect("closed");
    })
}

fn orders(client: &Client) -> Collection<RawDocumentBuf> {
    client.database("bench").collection("orders")
}

/// The tool, which is built beside this program.
fn cairn() -> PathBuf {
    let own_program = std::env::current_exe().expect("a program knows where it is");
    own_program.with_file_name(format!("cairn{}", std::env::consts::EXE_SUFFIX))
}

fn run(command: &mut Command) {
    let done =
        command.stdin(Stdio::null()).arg("--quiet").status().expect("cairn is built beside this program");
    assert!(done.success(), "{command:?} failed");
}

/// The milliseconds that a script printed last.
fn own_time(command: &mut Command) -> Duration {
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().expect("it starts");
    let printed = String::from_utf8_lossy(&done.stdout);
    let last = printed.trim().lines().last().and_then(|line| line.trim().parse().ok());
    Duration::from_millis(last.unwrap_or_else(|| panic!("{command:?} printed {printed}")))
}

/// A folder for a store and files.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("db")
    }

    fn socket(&self) -> PathBuf {
        self.path("bench.sock")
    }

    fn open(&self) -> Client {
        Client::open(self.store()).expect("a database")
    }

    fn open_to_read(&self) -> Client {
        Client::builder().read_only(true).open(self.store()).expect("a database")
    }

    /// Makes the store with all documents.
    fn fill(&self) {
        let client = self.open();
        insert_batches(&orders(&client), &raw_orders(DOCUMENTS));
        client.close().expect("closed");
    }

    /// The documents of the store.
    fn documents(&self) -> Vec<RawDocumentBuf> {
        let client = self.open_to_read();
        let found = orders(&client).find(doc! {}).run().expect("a cursor");
        found.collect::<Result<_, _>>().expect("read")
    }

    /// A server of the store.
    fn serve(&self) -> (Client, RunningServer) {
        let client = self.open();
        let server = Server::builder(client.clone()).unix_socket(self.socket()).spawn().expect("a server");
        (client, server)
    }

    /// The time that the tool needs with a file or a folder that is not there before, and is gone after.
    fn time_cairn(&self, name: &str, arguments: impl FnOnce(&mut Command, &Path)) -> Duration {
        let made = self.path(name);
        let mut command = Command::new(cairn());
        arguments(&mut command, &made);
        let taken = time(|| run(&mut command));
        let removed = if made.is_dir() { fs::remove_dir_all(&made) } else { fs::remove_file(&made) };
        removed.expect("it was made");
        taken
    }
}
