//! The server as a replica set before MongoDB's clients, with their default options: what transactions see of each other, money
//! that moves over a network that loses messages, and MongoDB's specification tests.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairndb_clients::cairn::{Cairn, uri};
use cairndb_clients::proxy::{Cut, Proxy};
use cairndb_clients::script;
use mongodb::bson::{Document, doc};
use mongodb::sync::{Client, Database};

/// The options of a server to which drivers send transactions. Drivers of a `directConnection` do not ask for the
/// address that it advertises.
pub(crate) const REPLICA_SET: [&str; 2] = ["--replica-set", "rs"];
/// The fates of commands that are tried again. None follows another that a driver, which tries once more, could not get over.
const FATES: [Cut; 10] = [
    Cut::Nothing,
    Cut::Nothing,
    Cut::BeforeDelivery,
    Cut::Nothing,
    Cut::WithinRequest,
    Cut::Nothing,
    Cut::AfterExecution,
    Cut::Nothing,
    Cut::WithinReply,
    Cut::Nothing,
];

/// A proxy that loses statements and commits in all ways, one after the other.
pub(crate) fn lossy(cairn: &Cairn) -> Proxy {
    let (updates, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let next = |counter: &AtomicUsize| {
        let place = counter.fetch_add(1, Ordering::Relaxed) % FATES.len();
        FATES.get(place).copied().unwrap_or(Cut::Nothing)
    };
    Proxy::start(cairn.address(), move |command| match command {
        "update" => next(&updates),
        "commitTransaction" => next(&commits),
        _ => Cut::Nothing,
    })
}

/// A proxy that loses some commands in all ways, one after the other.
fn losing(cairn: &Cairn, lost: &'static [&'static str]) -> Proxy {
    let sent = AtomicUsize::new(0);
    Proxy::start(cairn.address(), move |command| {
        let fate = || FATES.get(sent.fetch_add(1, Ordering::Relaxed) % FATES.len()).copied();
        lost.contains(&command).then(fate).flatten().unwrap_or(Cut::Nothing)
    })
}

#[test]
fn anomalies_are_not_seen_by_pymongo_but_write_skew_is() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    script::python(&cairn, "anomalies.py");
    cairn.stop();
}

#[test]
fn pymongo_moves_money_once_whatever_is_lost() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    let proxy = lossy(&cairn);
    script::python_with(&cairn, "money.py", &[&uri(proxy.address())]);
    drop(proxy);
    cairn.stop();
}

/// A server without replication, to which drivers send nothing again by themselves.
#[test]
fn pymongo_writes_with_tokens_once_whatever_is_lost() {
    let cairn = Cairn::start();
    let proxy = losing(&cairn, &["delete", "findAndModify", "insert", "update"]);
    script::python_with(&cairn, "tokens.py", &[&uri(proxy.address())]);
    drop(proxy);
    cairn.stop();
}

/// The driver, which knows no tokens, sends none of these commits again by itself.
#[test]
fn pymongo_commits_with_tokens_once_whatever_is_lost() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    let proxy = losing(&cairn, &["commitTransaction"]);
    script::python_with(&cairn, "committed_once.py", &[&uri(proxy.address())]);
    drop(proxy);
    cairn.stop();
}

#[test]
fn mongosh_moves_money_once_whatever_is_lost() {
    let cairn = Cairn::start_with(&REPLICA_SET);
    let proxy = lossy(&cairn);
    script::mongosh_at(&uri(proxy.address()), "money.js");
    drop(proxy);
    cairn.stop();
}

/// The tool's own shell runs what mongosh runs, on a server and on a folder.
#[test]
fn mongosh_and_the_tool_s_shell_have_transactions() {
    let run_on = |run: &dyn Fn(&Cairn)| {
        let cairn = Cairn::start_with(&REPLICA_SET);
        run(&cairn);
        cairn.stop();
    };
    run_on(&|cairn| drop(script::mongosh(cairn, "transactions.js")));
    run_on(&|cairn| drop(script::shell(&cairn.uri(), "transactions.js")));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let store = folder.path().join("store");
    cairndb::Client::open(&store).and_then(cairndb::Client::close).expect("it is made");
    script::shell(store.to_str().expect("a path of text"), "transactions.js");
}

/// Moves money from one account to another by the Rust driver, in transactions, and counts the moves, each by its number.
pub(crate) fn move_money(client: &Client, numbers: Range<i32>) {
    let bank = client.database("bank");
    for number in numbers {
        let mut session = client.start_session().run().expect("a session");
        let moving = session.start_transaction().and_run(|session| {
            let moves = bank.collection::<Document>("moves");
            moves.insert_one(doc! { "_id": number }).session(&mut *session).run()?;
            for (id, amount) in [(1, -10), (2, 10)] {
                let change = doc! { "$inc": { "has": amount } };
                let accounts = bank.collection::<Document>("accounts");
                accounts.update_one(doc! { "_id": id }, change).session(&mut *session).run()?;
            }
            Ok(())
        });
        moving.unwrap_or_else(|error| panic!("move {number}: {error}"));
        // Not in a transaction: the driver sends it again.
        let counters = bank.collection::<Document>("counters");
        let count = counters.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
        count.upsert(true).run().unwrap_or_else(|error| panic!("count {number}: {error}"));
    }
}

/// Makes two accounts, of which one has money.
pub(crate) fn open_accounts(bank: &Database) {
    let accounts = [doc! { "_id": 1, "has": 1000 }, doc! { "_id": 2, "has": 0 }];
    bank.collection("accounts").insert_many(accounts).run().expect("stored");
    bank.collection("moves").insert_one(doc! { "_id": -1 }).run().expect("stored");
}

/// Each move was made once, and counted once.
#[track_caller]
pub(crate) fn assert_moved(bank: &Database, moves: i32) {
    let collection = |name| bank.collection::<Document>(name);
    let has = |id: i32| {
        let account = collection("accounts").find_one(doc! { "_id": id }).run().expect("read");
        account.and_then(|account| account.get_i32("has").ok())
    };
    assert_eq!((has(1), has(2)), (Some(1000 - 10 * moves), Some(10 * moves)));
    let counted = collection("counters").find_one(doc! {}).run().expect("read");
    assert_eq!(counted, Some(doc! { "_id": 1, "n": moves }));
    let noted = collection("moves").count_documents(doc! {}).run().expect("counted");
    assert_eq!(noted, u64::try_from(moves).expect("positive") + 1);
}

#[test]
fn the_rust_driver_moves_money_once_whatever_is_lost() {
    const MOVES: i32 = 20;
    let cairn = Cairn::start_with(&REPLICA_SET);
    let proxy = lossy(&cairn);
    let direct = Client::with_uri_str(cairn.uri()).expect("the URI is one");
    let lossy = Client::with_uri_str(uri(proxy.address())).expect("the URI is one");
    open_accounts(&direct.database("bank"));
    move_money(&lossy, 0..MOVES);
    assert_moved(&direct.database("bank"), MOVES);
    lossy.shutdown().immediate(true).run();
    direct.shutdown().run();
    drop(proxy);
    cairn.stop();
}

/// Runs a suite of MongoDB's specification tests by PyMongo's own runner.
fn specification(suite: &str, arguments: &[&str]) {
    let cairn = Cairn::start_with(&[&["--enable-test-commands"], arguments].concat());
    specification_at(&cairn.uri(), suite);
    cairn.stop();
}

/// The same before a replica set to which the runner must log in.
fn specification_with_login(suite: &str) {
    let arguments = [&["--enable-test-commands"], &REPLICA_SET[..]].concat();
    let cairn = Cairn::start_for_user("ada", "pencil", &arguments);
    specification_at(&format!("mongodb://ada:pencil@{}/", cairn.address()), suite);
    cairn.stop();
}

fn specification_at(uri: &str, suite: &str) {
    let runner = script::installed("CAIRNDB_SPECIFICATIONS");
    script::python_at(uri, "specifications.py", &[runner.to_str().expect("a path of text"), suite]);
}

#[test]
fn mongodb_s_tests_of_transactions_pass() {
    specification("transactions", &REPLICA_SET);
}

#[test]
fn mongodb_s_tests_of_convenient_transactions_pass() {
    specification("convenient", &REPLICA_SET);
}

#[test]
fn mongodb_s_tests_of_sessions_pass() {
    specification("sessions", &REPLICA_SET);
}

#[test]
fn mongodb_s_tests_of_causal_consistency_pass() {
    specification("causal consistency", &REPLICA_SET);
    specification("causal consistency alone", &[]);
}

#[test]
fn pymongo_s_tests_of_sessions_pass() {
    specification("sessions of PyMongo", &REPLICA_SET);
}

#[test]
fn mongodb_s_tests_of_the_versioned_api_pass() {
    specification("versioned", &REPLICA_SET);
    specification("versioned alone", &[]);
}

#[test]
fn mongodb_s_tests_of_crud_pass() {
    specification("crud", &REPLICA_SET);
}

#[test]
fn mongodb_s_tests_of_crud_pass_without_a_replica_set() {
    specification("crud alone", &[]);
}

#[test]
fn mongodb_s_tests_of_change_streams_pass() {
    specification("change streams", &REPLICA_SET);
    specification("change streams alone", &[]);
}

#[test]
fn mongodb_s_tests_of_retryable_writes_pass() {
    specification("retryable writes", &REPLICA_SET);
    specification_with_login("retryable writes with a login");
}

#[test]
fn mongodb_s_tests_of_retryable_reads_pass() {
    specification("retryable reads", &REPLICA_SET);
    specification_with_login("retryable reads with a login");
}
