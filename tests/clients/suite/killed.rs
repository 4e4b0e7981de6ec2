//! The server is killed, and started again on its folder, while clients move money in transactions and count: each effect is
//! there once, whether its answer was lost with the server or not.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use cairndb_clients::cairn::{Cairn, uri};
use cairndb_clients::proxy::{Cut, Proxy};
use cairndb_clients::script;
use cairndb_tests::scratch::Scratch;
use mongodb::sync::Client;

use crate::transactions::{REPLICA_SET, assert_moved, move_money, open_accounts};

/// After so many writes and commits the server is killed. They are counted from its start on, because a driver sends a write once more,
/// and no second time.
const WRITES_PER_KILL: usize = 13;
/// A kill follows its write after up to so many steps of time, one more each time: before, within and after the write.
const STEPS: u32 = 8;
const STEP: Duration = Duration::from_micros(250);
/// Fewer kills prove little.
const KILLS_MIN: u32 = 5;

enum Notice {
    Kill,
    End,
}

/// Says that the work has ended, also where it failed.
struct Ending(Sender<Notice>);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.send(Notice::End);
    }
}

/// Runs `work`, which is given the URI of a server that is killed and started again all the time, and stays where it is.
#[track_caller]
pub(crate) fn under_kills(work: impl FnOnce(&str)) {
    let scratch = Arc::new(Scratch::new());
    let cairn = Cairn::start_in(&scratch, &REPLICA_SET);
    let (notices, received) = channel();
    let writes = Arc::new(AtomicUsize::new(0));
    let (counted, notice) = (Arc::clone(&writes), notices.clone());
    let proxy = Proxy::start(cairn.address(), move |command| {
        let is_write = matches!(command, "insert" | "update" | "findAndModify" | "commitTransaction");
        if is_write && counted.fetch_add(1, Ordering::Relaxed) + 1 == WRITES_PER_KILL {
            // Fails only when the test has ended.
            let _ = notice.send(Notice::Kill);
        }
        Cut::Nothing
    });
    // The shell would wait for two seconds only.
    let place = format!("{}&serverSelectionTimeoutMS=30000", uri(proxy.address()));
    let (folder, proxied) = (&scratch, &proxy);
    let (cairn, kills) = thread::scope(|scope| {
        let killer = scope.spawn(move || {
            let (mut cairn, mut kills) = (cairn, 0);
            while let Ok(Notice::Kill) = received.recv() {
                proxied.hold();
                thread::park_timeout(STEP * (kills % STEPS));
                cairn.kill();
                cairn = Cairn::start_in(folder, &REPLICA_SET);
                writes.store(0, Ordering::Relaxed);
                proxied.turn_to(cairn.address());
                kills += 1;
            }
            (cairn, kills)
        });
        let ending = Ending(notices);
        work(&place);
        drop(ending);
        killer.join().expect("the server starts")
    });
    assert!(kills >= KILLS_MIN, "it was killed {kills} times");
    drop(proxy);
    cairn.stop();
}

#[test]
fn the_rust_driver_moves_money_once_though_the_server_is_killed() {
    const MOVES: i32 = 15;
    under_kills(|place| {
        let client = Client::with_uri_str(place).expect("the URI is one");
        let bank = client.database("bank");
        open_accounts(&bank);
        // Two that want the same accounts and counter.
        let halves: [Range<i32>; 2] = [0..MOVES, MOVES..2 * MOVES];
        thread::scope(|scope| {
            for half in halves {
                let client = &client;
                scope.spawn(move || move_money(client, half));
            }
        });
        assert_moved(&bank, 2 * MOVES);
        client.shutdown().immediate(true).run();
    });
}

#[test]
fn pymongo_moves_money_once_though_the_server_is_killed() {
    under_kills(|place| drop(script::python_at(place, "money.py", &[place, "killed"])));
}

#[test]
fn mongosh_moves_money_once_though_the_server_is_killed() {
    under_kills(|place| drop(script::mongosh_at(place, "money.js")));
}
