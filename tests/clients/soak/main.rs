//! Many connections with mixed commands, of which some die at any moment: afterwards nothing is missing, nothing was done
//! twice, the store agrees with itself, and the server holds no cursor, connection or thread of those that are gone.
//!
//! Quick by default; `make soak SECONDS=600 CONNECTIONS=500` takes its time. The seed is printed, and `CAIRNDB_SEED`
//! replays its decisions, though not the order of the threads.

mod worker;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cairndb_clients::cairn::{Cairn, uri};
use cairndb_clients::proxy::{Cut, Proxy};
use cairndb_tests::choices::{Choices, number_from_environment, seed};
use cairndb_tests::race::race;
use mongodb::bson::{Bson, Document, doc};
use mongodb::sync::Client;

use worker::Worker;

/// One request of so many is cut off.
const CUTS_ONE_IN: u64 = 60;
/// How long the server may take to let go of what nobody uses: it looks for idle cursors now and then, and its threads
/// end when they had nothing to do for ten seconds.
const SETTLING_TIME_MAX: Duration = Duration::from_secs(60);

/// Idle threads of the server end after ten seconds without work. It looks for idle cursors once a second here, each time
/// by the thread that waited longest, so that ten always have something to do.
const IDLE_THREADS_MAX: usize = 10;

/// What a server holds.
#[derive(Debug)]
struct Holdings {
    connections: i64,
    cursors: i64,
    sessions: i64,
    /// Those of the server; the store has threads of its own, which it starts when it first needs them. None where the
    /// system has no `/proc`.
    threads: usize,
    files: usize,
}

impl Holdings {
    fn of(cairn: &Cairn, control: &Client) -> Self {
        let status =
            control.database("admin").run_command(doc! { "serverStatus": 1 }).run().expect("it answers");
        let entries = |folder: &str| {
            let entries = fs::read_dir(format!("/proc/{}/{folder}", cairn.process_id()));
            entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
        };
        let is_of_the_server = |thread: &PathBuf| {
            fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("tokio"))
        };
        Self {
            connections: number(&status, &["connections", "current"]),
            cursors: number(&status, &["metrics", "cursor", "open", "total"]),
            sessions: number(&status, &["logicalSessionRecordCache", "activeSessionsCount"]),
            threads: entries("task").filter(is_of_the_server).count(),
            files: entries("fd").count(),
        }
    }
}

fn number(status: &Document, path: &[&str]) -> i64 {
    let (last, folders) = path.split_last().expect("a path has a part");
    let folder = folders.iter().try_fold(status, |folder, name| folder.get_document(name));
    folder.and_then(|folder| folder.get_i64(last)).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

#[test]
fn connections_that_die_leave_nothing_behind() {
    let duration = Duration::from_secs(number_from_environment("CAIRNDB_SOAK_SECONDS", 5));
    let workers = number_from_environment("CAIRNDB_SOAK_CONNECTIONS", 20);
    let seed = seed();
    println!("seed {seed}, {workers} connections for {duration:?}");
    let cairn = Cairn::start_with(&["--cursor-timeout", "2"]);
    let control = Client::with_uri_str(cairn.uri()).unwrap();
    let shop = control.database("shop");
    shop.run_command(doc! { "createSequence": "tickets" }).run().unwrap();
    let before = Holdings::of(&cairn, &control);

    let cuts = Arc::new(AtomicU64::new(0));
    let proxy = Proxy::start(cairn.address(), cut_at_random(seed, Arc::clone(&cuts)));
    let uri = format!("{}&maxPoolSize=1&retryReads=false&retryWrites=false", uri(proxy.address()));
    let end = Instant::now() + duration;
    let ended = race(0..workers, |place| Worker::new(&uri, place, seed).run_until(end));
    drop(proxy);

    let commands: u64 = ended.iter().map(|ended| ended.answered).sum();
    let cuts = cuts.load(Ordering::Relaxed);
    println!("{commands} commands were answered, {cuts} connections cut");
    assert!(commands > 0 && cuts > 0, "there was nothing to see");
    let tickets: Vec<i64> = ended.iter().flat_map(|ended| ended.tickets.iter().copied()).collect();
    assert_eq!(tickets.iter().collect::<BTreeSet<_>>().len(), tickets.len(), "a ticket was given twice");
    for (place, ended) in (0_i64..).zip(&ended) {
        let counter = shop.collection::<Document>("counters").find_one(doc! { "_id": place }).run().unwrap();
        let count = counter.map_or(0, |counter| counter.get_i64("n").unwrap()).unsigned_abs();
        let possible = ended.counted..=ended.counted + ended.unknown;
        assert!(possible.contains(&count), "worker {place} counted {count}, which is not in {possible:?}");
        let ids =
            shop.collection::<Document>("things").distinct("_id", doc! { "worker": place }).run().unwrap();
        let missing = ended.kept.iter().find(|id| !ids.contains(&Bson::ObjectId(**id)));
        assert_eq!(missing, None, "an acknowledged document of worker {place} is gone");
    }
    let after = settle(&cairn, &control, &before, cuts);
    println!("before {before:?}, after {after:?}");
    control.shutdown().immediate(true).run();
    cairn.stop();
}

fn cut_at_random(seed: u64, cuts: Arc<AtomicU64>) -> impl Fn(&str) -> Cut + Send + Sync {
    let choices = Mutex::new(Choices::seeded(seed));
    move |_| {
        let mut choices = choices.lock().expect("no thread fails");
        if !choices.one_in(CUTS_ONE_IN) {
            return Cut::Nothing;
        }
        cuts.fetch_add(1, Ordering::Relaxed);
        *choices.pick(&[Cut::BeforeDelivery, Cut::WithinRequest, Cut::AfterExecution, Cut::WithinReply])
    }
}

/// Waits until the server has let go of everything; what it still holds.
fn settle(cairn: &Cairn, control: &Client, before: &Holdings, cuts: u64) -> Holdings {
    // A driver forgets the sessions of a connection that dies, of which a worker uses up to three, and the server keeps
    // them until they time out.
    let sessions = Holdings::of(cairn, control).sessions.unsigned_abs();
    assert!(sessions <= 3 * cuts + 2, "{sessions} sessions after {cuts} cuts");
    control.database("admin").run_command(doc! { "killAllSessions": [] }).run().expect("an answer");
    let start = Instant::now();
    loop {
        let now = Holdings::of(cairn, control);
        let is_settled = now.connections <= before.connections
            && now.cursors == 0
            && now.sessions <= 1
            && now.threads <= before.threads + IDLE_THREADS_MAX
            // The store opens files as it grows; the connections that died were more than it has.
            && now.files <= before.files + 50;
        if is_settled {
            return now;
        }
        assert!(start.elapsed() < SETTLING_TIME_MAX, "not let go of: before {before:?}, after {now:?}");
        thread::park_timeout(Duration::from_millis(100));
    }
}
