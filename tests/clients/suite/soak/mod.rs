//! Many connections with mixed commands, of which some die at any moment: afterwards nothing is missing, nothing was done
//! twice, the store agrees with itself, and the server holds no cursor, connection or thread of those that are gone.
//!
//! Readers use all that a server has for all its users, and its log accepts no lines: `root` works on beside them.
//!
//! Beside them are clients that mean no good: strangers before a login, readers that read no answers, killers of cursors, and
//! collections that are replaced while they are read. The server's memory is watched all the time.
//!
//! Quick by default; `make soak SECONDS=600 CONNECTIONS=500` runs long. The seed is printed, and `CAIRNDB_SEED`
//! replays its decisions, though not the order of the threads.

mod greedy;
mod hostile;
mod lasting;
mod raw;
mod worker;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cairndb_clients::cairn::{Cairn, uri};
use cairndb_clients::proxy::{Cut, Proxy};
use cairndb_tests::choices::{Choices, number_from_environment, seed};
use cairndb_tests::race::{SetWhenDropped, race};
use mongodb::bson::{Bson, Document, doc};
use mongodb::sync::Client;

use greedy::take_everything;
use hostile::{KILLED_LEN, REPLACED_LEN, fill, kill_cursors, read_replaced, read_slowly, replace, strange};
use lasting::goes_on;
use raw::Raw;
use worker::Worker;

/// One request of so many is cut off.
const CUTS_ONE_IN: u64 = 60;
/// Options of a driver: many of them in one process keep the machine so busy that each hears from the server seldom.
const PATIENT: &str = "&connectTimeoutMS=60000&serverSelectionTimeoutMS=60000";
/// The time that the server may need to let go of what no client uses: it looks for idle cursors now and then, and
/// its threads end when they had nothing to do for ten seconds.
const SETTLING_TIME_MAX: Duration = Duration::from_secs(60);

/// Idle threads of the server end after ten seconds without work. It looks for idle cursors once a second here, each time
/// by the thread that waited longest, so that ten always have something to do.
const IDLE_THREADS_MAX: usize = 10;

/// The memory of the server, in mebibytes, for the store, for requests and for answers.
const STORE_MEMORY: u64 = 64;
const REQUEST_MEMORY: u64 = 32;
const ANSWER_MEMORY: u64 = 64;
/// The memory of the process beside: its program, its threads, what the store needs outside of its cache, and what
/// commands make while they run, of which there are 64 at most.
const BESIDE_MEMORY: u64 = 512;
/// The memory of a connection beside, in kibibytes: buffers, and 16 KiB each of a message and an answer.
const CONNECTION_MEMORY_KIB: u64 = 256;

/// The holdings of a server.
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
    let cairn = Cairn::start_with(&[&["--cursor-timeout", "2"][..], &memory()].concat());
    let control = Client::with_uri_str(cairn.uri() + PATIENT).unwrap();
    let shop = control.database("shop");
    shop.run_command(doc! { "createSequence": "tickets" }).run().unwrap();
    let mut raw = Raw::connect(cairn.address()).expect("it listens");
    for (collection, len, bytes) in
        [("large", 6, 4 << 20), ("killed", KILLED_LEN, 100), ("replaced", REPLACED_LEN, 100)]
    {
        fill(&mut raw, collection, len, bytes);
    }
    drop(raw);
    let before = Holdings::of(&cairn, &control);

    let cuts = Arc::new(AtomicU64::new(0));
    let proxy = Proxy::start(cairn.address(), cut_at_random(seed, Arc::clone(&cuts)));
    let uri = format!("{}&maxPoolSize=1&retryReads=false&retryWrites=false", uri(proxy.address()));
    let end = Instant::now() + duration;
    let (ended, done, most) = watched(&cairn, || {
        thread::scope(|scope| {
            let hostile = scope.spawn(|| be_hostile(&cairn, workers, seed, end));
            let ended = race(0..workers, |place| Worker::new(&uri, place, seed).run_until(end, &cuts));
            (ended, hostile.join().expect("no answer was wrong"))
        })
    });
    drop(proxy);
    println!(
        "answers not taken, cursors killed, collections replaced, replaced ones read: {done:?}; {most} bytes"
    );
    assert!(done.iter().all(|done| *done > 0), "there was nothing to see");
    assert_within_memory(most, 2 * workers);

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

#[test]
fn strangers_hold_little_and_leave_users_alone() {
    let duration = Duration::from_secs(number_from_environment("CAIRNDB_SOAK_SECONDS", 5));
    let strangers = number_from_environment("CAIRNDB_SOAK_CONNECTIONS", 20);
    let seed = seed();
    println!("seed {seed}, {strangers} strangers for {duration:?}");
    let cairn = Cairn::start_for_user("ada", "pencil", &memory());
    let uri = cairn.uri().replace("mongodb://", "mongodb://ada:pencil@");
    let ada = Client::with_uri_str(format!("{uri}&authSource=admin{PATIENT}")).unwrap();
    let things = ada.database("shop").collection::<Document>("things");
    let end = Instant::now() + duration;
    let (tried, written, most) = watched(&cairn, || {
        thread::scope(|scope| {
            let strange = |place| strange(cairn.address(), Choices::seeded(seed.wrapping_add(place)), end);
            let strangers = scope.spawn(move || race(0..strangers, strange).iter().sum::<u64>());
            let mut written = 0;
            while goes_on(end, written > 0) {
                things.insert_one(doc! { "text": "x".repeat(100_000) }).run().expect("a user is served");
                written += 1;
            }
            (strangers.join().expect("no stranger fails"), written)
        })
    });
    println!("{tried} tries of strangers, {written} documents of a user; {most} bytes");
    assert!(tried > 0 && written > 0, "there was nothing to see");
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), written);
    assert_within_memory(most, strangers);
    let status = ada.database("admin").run_command(doc! { "serverStatus": 1 }).run().unwrap();
    let sessions = number(&status, &["logicalSessionRecordCache", "activeSessionsCount"]);
    // The driver gives a session back after the call that used it, and may have begun the next call by then.
    assert!(sessions <= 8, "{sessions} sessions of one user, after {tried} tries of strangers");
    ada.shutdown().immediate(true).run();
    cairn.stop();
}

#[test]
fn readers_who_take_everything_leave_root_its_share() {
    let duration = Duration::from_secs(number_from_environment("CAIRNDB_SOAK_SECONDS", 5));
    let readers = number_from_environment("CAIRNDB_SOAK_CONNECTIONS", 20);
    let seed = seed();
    println!("seed {seed}, {readers} readers for {duration:?}");
    let arguments = ["--max-commands", "8", "--slow-threshold", "0"];
    let cairn = Cairn::start_for_readers(&["rita", "rob"], "pencil", &[&arguments[..], &memory()].concat());
    let uri_of = |name: &str| {
        let uri = cairn.uri().replace("mongodb://", &format!("mongodb://{name}:pencil@"));
        format!("{uri}&authSource=admin{PATIENT}")
    };
    let root = Client::with_uri_str(uri_of("root")).unwrap();
    let shop = root.database("shop");
    let sorted = (0..2000).map(|id| doc! { "_id": id, "n": id % 100, "text": "x".repeat(10_000) });
    shop.collection::<Document>("sorted").insert_many(sorted).run().unwrap();
    let things = shop.collection::<Document>("things");
    let end = Instant::now() + duration;
    let (answered, written, most) = watched(&cairn, || {
        thread::scope(|scope| {
            let take = |place: u64| {
                let uri = uri_of(if place.is_multiple_of(2) { "rita" } else { "rob" });
                take_everything(&uri, Choices::seeded(seed.wrapping_add(place)), end)
            };
            let readers = scope.spawn(move || race(0..readers, take).iter().sum::<u64>());
            let mut written = 0;
            while goes_on(end, written > 0) {
                things.insert_one(doc! { "_id": written }).run().expect("root is served");
                // A login, and a look at the server.
                let another = Client::with_uri_str(uri_of("root")).unwrap();
                let listed = another.database("admin").run_command(doc! { "currentOp": 1 }).run();
                listed.expect("root is served");
                another.shutdown().immediate(true).run();
                written += 1;
            }
            (readers.join().expect("no reader fails"), written)
        })
    });
    let status = root.database("admin").run_command(doc! { "serverStatus": 1 }).run().unwrap();
    let lost = number(&status, &["logLinesLost"]);
    println!("{answered} commands of readers, {written} documents of root; {most} bytes, {lost} lines lost");
    assert!(answered > 0 && written > 0 && lost > 0, "there was nothing to see");
    assert_eq!(things.count_documents(doc! {}).run().unwrap(), u64::try_from(written).unwrap());
    // The memory of operations and cursors comes to the other budgets.
    assert_within_memory(most.saturating_sub(1 << 30), readers);
    root.shutdown().immediate(true).run();
    cairn.stop();
}

fn memory() -> [&'static str; 6] {
    ["--store-memory", "64", "--request-memory", "32", "--answer-memory", "64"]
}

/// Hostile calls by kind: answers not read, cursors killed, collections replaced, and read meanwhile.
fn be_hostile(cairn: &Cairn, workers: u64, seed: u64, end: Instant) -> [u64; 4] {
    let address = cairn.address();
    let choices = |place: u64| Choices::seeded(seed.wrapping_mul(31).wrapping_add(place));
    thread::scope(|scope| {
        let kills =
            scope.spawn(|| race(0..workers.div_ceil(20), |place| kill_cursors(address, choices(place), end)));
        let replaces = scope.spawn(|| replace(address, end));
        let reads = scope.spawn(|| race(0..2, |_| read_replaced(address, end)));
        let slow = race(0..workers.div_ceil(5), |place| read_slowly(address, choices(1000 + place), end));
        let sum = |counts: Vec<u64>| counts.iter().sum();
        let kills = kills.join().expect("no cursor gave a part as if it were all");
        let replaces = replaces.join().expect("a collection was not replaced");
        let reads = reads.join().expect("a replaced collection lacked documents");
        [sum(slow), sum(kills), replaces, sum(reads)]
    })
}

/// Does the work, and gives the most memory that the server had meanwhile.
fn watched<A, B>(cairn: &Cairn, work: impl FnOnce() -> (A, B)) -> (A, B, u64) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(cairn.resident_bytes().unwrap_or(0));
                thread::park_timeout(Duration::from_millis(50));
            }
            most
        });
        let over = SetWhenDropped(&is_over);
        let (left, right) = work();
        drop(over);
        (left, right, watch.join().expect("it only looks"))
    })
}

fn assert_within_memory(most: u64, connections: u64) {
    let given = STORE_MEMORY + REQUEST_MEMORY + REQUEST_MEMORY / 8 + ANSWER_MEMORY;
    let limit = ((given + BESIDE_MEMORY) << 20) + connections * (CONNECTION_MEMORY_KIB << 10);
    assert!(
        most <= limit,
        "the server had {most} bytes, and {limit} are its budgets with what is beside them"
    );
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
    let start = Instant::now();
    loop {
        let now = Holdings::of(cairn, control);
        // Not once: a connection may die with a request sent ahead, whose session begins when the server reads it.
        if now.sessions > 1 {
            control.database("admin").run_command(doc! { "killAllSessions": [] }).run().expect("an answer");
        }
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
        // Each look wakes a thread, and one that is idle for ten seconds ends.
        thread::park_timeout(Duration::from_secs(2));
    }
}
