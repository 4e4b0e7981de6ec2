//! `cairn migrate`, killed or ended at random moments, or its target killed, and gone on with until it is done: the target is
//! then what an undisturbed migration leaves. `CAIRNDB_MIGRATE_KILLS` sets how many migrations are disturbed in each case, and
//! `make tool KILLS=200` half as many in all.

#![cfg(feature = "remote")]
#![allow(clippy::indexing_slicing, reason = "reports whose fields are known")]

use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use cairndb::Client;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};
use rustix::process::Signal;

use crate::fixture::content::Content;
use crate::fixture::dice::{self, Dice};
use crate::fixture::migrating::{uri, without_numbers};
use crate::fixture::restoring::{are_same, dumped, succeeds};
use crate::fixture::rich::run;
use crate::fixture::signals::send;
use crate::fixture::{Fixture, report};

/// How often each case is disturbed.
fn kills() -> u64 {
    dice::kills("CAIRNDB_MIGRATE_KILLS", 8, 3)
}

/// A migration to a server, or from one.
struct Case {
    name: &'static str,
    is_to_cluster: bool,
    /// Whether the store is a server too.
    is_served: bool,
    jobs: &'static str,
    /// Whether the server of the target is killed as well.
    kills_target: bool,
}

/// Both ends of one migration.
struct Ends {
    store: Fixture,
    cluster: Fixture,
}

/// A store with `_id`s of all types that have an order of their own, and documents of which a hundred are a batch.
fn fill(fixture: &Fixture) {
    let client = Client::open(fixture.path("db")).expect("it works");
    let text = "x".repeat(20_000);
    let id = |number: i32| match number % 6 {
        0 => Bson::Int32(number),
        1 => Bson::String(format!("s{number}")),
        2 => Bson::ObjectId(ObjectId::from_bytes([u8::try_from(number % 251).expect("it fits"); 12])),
        3 => Bson::Double(f64::from(number) + 0.5),
        4 => Bson::Document(doc! { "n": number }),
        _ => Bson::DateTime(cairndb::bson::DateTime::from_millis(i64::from(number))),
    };
    let large: Vec<Document> =
        (0..700).map(|number| doc! { "_id": id(number), "n": number, "text": &text }).collect();
    let mut seen = std::collections::HashSet::new();
    let large: Vec<Document> =
        large.into_iter().filter(|one| seen.insert(one.get("_id").map(ToString::to_string))).collect();
    client.database("shop").collection("large").insert_many(large).run().expect("it works");
    run(
        &client,
        "shop",
        doc! { "createIndexes": "large", "indexes": [{ "key": { "n": 1 }, "name": "n", "unique": true }] },
    );
    for name in ["a", "b", "c"] {
        let many: Vec<Document> = (0..1_500).map(|number| doc! { "_id": number, "name": name }).collect();
        client.database("shop").collection(name).insert_many(many).run().expect("it works");
    }
    let validator = doc! { "create": "bills", "validator": { "x": 1 }, "autoIncrement": { "Field": "n" } };
    run(&client, "shop", validator);
    for id in 0..3 {
        client
            .database("shop")
            .collection::<Document>("bills")
            .insert_one(doc! { "_id": id, "x": 1 })
            .run()
            .expect("it works");
    }
    run(&client, "shop", doc! { "create": "v", "viewOn": "a", "pipeline": [] });
    run(&client, "shop", doc! { "create": "numbers" });
    let counter = doc! { "_id": "tickets", "seq": 41_i64 };
    client.database("shop").collection("numbers").insert_one(counter).run().expect("it works");
    client.close().expect("it works");
}

impl Case {
    fn ends(&self) -> Ends {
        let (mut store, mut cluster) = (Fixture::new(&[], false), Fixture::new(&[], false));
        fill(if self.is_to_cluster { &store } else { &cluster });
        cluster.serve();
        if self.is_served {
            store.serve();
        }
        Ends { store, cluster }
    }

    fn state(&self) -> &'static str {
        if self.is_served { "s.sock.cairn-migrate" } else { "db.cairn-migrate" }
    }

    fn command(&self, ends: &Ends) -> Command {
        let option = if self.is_to_cluster { "--to" } else { "--from" };
        let mut command = ends.store.run("migrate", &[option, &uri(&ends.cluster), "-j", self.jobs]);
        if !self.is_to_cluster {
            command.args(["--sequence", "shop.tickets=numbers/tickets"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn run(&self, ends: &Ends) -> Output {
        self.command(ends).output().expect("it works")
    }

    /// Starts a migration and disturbs it after a random time. Returns whether it came to its end before.
    fn disturbed(&self, ends: &mut Ends, dice: &mut Dice) -> bool {
        let mut child = self.command(ends).stderr(Stdio::null()).spawn().expect("it works");
        let (_held, never) = channel::<()>();
        // Longer at times, because a process that opens a store is at nothing else for a while.
        let reach = if dice.below(3) == 0 { 1_500 } else { 600 };
        let delay = Duration::from_millis(dice.below(reach));
        assert!(never.recv_timeout(delay).is_err());
        if self.kills_target && dice.below(2) == 0 {
            ends.cluster.kill();
            let code = child.wait().expect("it works").code();
            ends.cluster.serve();
            assert!(matches!(code, Some(0 | 1 | 6)), "{}: {code:?}", self.name);
            return code == Some(0);
        }
        let code = end(&mut child, dice.below(2) == 0);
        if code == Some(4) && !ends.store.path(self.state()).exists() {
            // The one before was killed between the end of its work and its own.
            return true;
        }
        assert!(matches!(code, None | Some(0 | 130)), "{}: {code:?}", self.name);
        code == Some(0)
    }

    /// What is in the target, counters included, and where its sequences stand.
    fn content(&self, ends: &Ends) -> (Content, Vec<String>) {
        let target = if self.is_to_cluster { &ends.cluster } else { &ends.store };
        let output = target.run("sequences", &["--json"]).output().expect("it works");
        let report = report(&output);
        let sequences = report["sequences"].as_array().expect("a list");
        let next = sequences.iter().map(|one| format!("{} {}", one["name"], one["next"])).collect();
        (without_numbers(dumped(target)), next)
    }

    fn check(&self) {
        let mut dice = Dice::new(self.name);
        let ends = self.ends();
        succeeds(&self.run(&ends));
        let expected = self.content(&ends);
        drop(ends);
        for _ in 0..kills() {
            let mut ends = self.ends();
            let mut disturbed = 0;
            // Until one gets through; a few are enough, as there is no end to bad luck.
            while disturbed < 8 && !self.disturbed(&mut ends, &mut dice) {
                disturbed += 1;
            }
            // Without a state nothing was begun, or all is done.
            let is_begun = ends.store.path(self.state()).exists();
            if is_begun || self.content(&ends).0.is_empty() {
                succeeds(&self.run(&ends));
            }
            let content = self.content(&ends);
            are_same(&content.0, &expected.0);
            assert_eq!(content.1, expected.1, "{}: disturbed {disturbed} times", self.name);
            let mut files = ends.store.files();
            // A killed process leaves these, and the next one uses them.
            files.retain(|name| !name.ends_with(".partial"));
            assert_eq!(files, [] as [&str; 0], "{}: disturbed {disturbed} times", self.name);
        }
    }
}

/// Kills a process, or asks it to end. Returns its status, if it ended by itself.
fn end(child: &mut Child, in_order: bool) -> Option<i32> {
    if in_order {
        send(child, Signal::INT);
    } else {
        child.kill().expect("it works");
    }
    child.wait().expect("it works").code()
}

#[test]
fn a_disturbed_migration_of_a_folder_goes_on() {
    let case = Case { name: "to", is_to_cluster: true, is_served: false, jobs: "1", kills_target: false };
    case.check();
}

#[test]
fn a_disturbed_migration_of_a_server_goes_on() {
    let case = Case { name: "served", is_to_cluster: true, is_served: true, jobs: "4", kills_target: false };
    case.check();
}

#[test]
fn a_migration_whose_target_is_killed_goes_on() {
    let case = Case { name: "target", is_to_cluster: true, is_served: false, jobs: "3", kills_target: true };
    case.check();
}

#[test]
fn a_disturbed_migration_into_a_folder_goes_on() {
    let case = Case { name: "from", is_to_cluster: false, is_served: false, jobs: "2", kills_target: false };
    case.check();
}
