//! What one user leaves to the others: of the places for commands, of sessions and of cursors.

use cairndb::Client;
use cairndb::bson::{Bson, Document, doc};
use cairndb_server::{Role, ServerBuilder, Users};

use crate::ending::endless;
use crate::login::{Login, go_on, log_in, on_admin, start, text};
use crate::metrics::page;
use crate::peer::{Peer, message};
use crate::{Fixture, PATIENCE};

/// A server with `ada`, who may do everything, and two who read. There is a document in `shop.a`.
fn guarded(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Fixture {
    let prepare = |client: &Client| {
        let users = Users::of(client);
        users.add("ada", "pencil", Role::Root).expect("added");
        users.add("rita", "paper", Role::ReadAnyDatabase).expect("added");
        users.add("rob", "ruler", Role::ReadAnyDatabase).expect("added");
        let documents = (0..10).map(|id| doc! { "_id": id });
        client.database("shop").collection::<Document>("b").insert_many(documents).run().expect("stored");
        client.database("shop").collection("a").insert_one(doc! { "_id": 1 }).run().expect("stored");
    };
    Fixture::over(prepare, |builder| change(builder.require_users()))
}

fn user(fixture: &Fixture, name: &str) -> Peer {
    let password = match name {
        "ada" => "pencil",
        "rita" => "paper",
        _ => "ruler",
    };
    let mut peer = fixture.peer();
    log_in(&mut peer, name, password).expect("logged in");
    peer
}

/// Connections of a user with a command each that does not end.
fn busy(fixture: &Fixture, name: &str, connections: usize) -> Vec<Peer> {
    let mut peers: Vec<Peer> = (0..connections).map(|_| user(fixture, name)).collect();
    for peer in &mut peers {
        assert!(peer.send(&message(endless()).bytes(1, 0)));
    }
    peers
}

#[track_caller]
fn done(reply: &Document) {
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// The numbers of the commands that work on `shop.a`.
fn running(root: &mut Peer) -> Vec<i64> {
    let listed = root.run(doc! { "currentOp": 1, "ns": "shop.a", "$db": "admin" });
    let operations = listed.get_array("inprog").unwrap_or_else(|_| panic!("no list: {listed}"));
    let number = |operation: &Bson| operation.as_document().expect("an operation").get_i64("opid");
    operations.iter().map(|operation| number(operation).expect("a number")).collect()
}

#[track_caller]
fn wait_for_commands(root: &mut Peer, count: usize) -> Vec<i64> {
    let begin = std::time::Instant::now();
    loop {
        let running = running(root);
        if running.len() == count {
            return running;
        }
        assert!(begin.elapsed() < PATIENCE, "{running:?}");
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

/// With all places taken by commands that do not end, every look at the server waited for them, and so did what could have ended
/// them: the login of a driver, which begins in its hello, among them.
#[test]
fn who_logs_in_looks_or_ends_waits_for_no_command() {
    let fixture = guarded(|builder| builder.calls_max(4).metrics("127.0.0.1:0".parse().expect("an address")));
    let mut ada = user(&fixture, "ada");
    let (rita, rob) = (busy(&fixture, "rita", 6), busy(&fixture, "rob", 6));
    let mut peer = fixture.peer();
    let mut begin = start("ada");
    begin.insert("db", "admin");
    let hello = peer.run(on_admin(doc! { "hello": 1, "speculativeAuthenticate": begin }));
    let challenge = text(hello.get_document("speculativeAuthenticate").expect("a challenge"));
    done(&peer.run(go_on(&Login::new("ada", "pencil", &challenge).proof())));
    let running = wait_for_commands(&mut ada, 12);
    done(&ada.run(on_admin(doc! { "serverStatus": 1 })));
    done(&ada.run(on_admin(doc! { "top": 1 })));
    let listed = ada.run(on_admin(doc! {
        "aggregate": 1, "pipeline": [{ "$currentOp": { "allUsers": true } }, { "$match": { "ns": "shop.a" } }],
        "cursor": {},
    }));
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch").cloned());
    assert_eq!(batch.map(|batch| batch.len()).ok(), Some(12), "{listed}");
    done(&ada.run(on_admin(doc! { "killAllSessions": [] })));
    done(&ada.run(doc! { "killCursors": "a", "cursors": [5_i64], "$db": "shop" }));
    assert!(page(fixture.metrics.expect("asked for")).ends_with("# EOF\n"));
    // Some places are root's alone.
    done(&ada.run(doc! { "insert": "a", "documents": [{ "_id": 2 }], "$db": "shop" }));
    for op in running {
        done(&ada.run(on_admin(doc! { "killOp": 1, "op": op })));
    }
    // Also those that waited for a place.
    for mut peer in rita.into_iter().chain(rob) {
        let (_, reply) = peer.receive().expect("an answer");
        let reply = crate::peer::reply(&reply);
        assert_eq!(reply.get_i32("code").ok(), Some(11_601), "{reply}");
    }
}

/// A user who has many connections once took all places, and all other users waited.
#[test]
fn a_user_leaves_places_to_others() {
    let fixture = guarded(|builder| builder.calls_max(4));
    let mut ada = user(&fixture, "ada");
    let rita = busy(&fixture, "rita", 8);
    let mut rob = user(&fixture, "rob");
    wait_for_commands(&mut ada, 8);
    done(&rob.run(doc! { "find": "b", "$db": "shop" }));
    done(&rob.run(doc! { "count": "b", "$db": "shop" }));
    // A command whose client goes away stops waiting.
    drop(rita);
    wait_for_commands(&mut ada, 0);
    done(&user(&fixture, "rita").run(doc! { "find": "b", "$db": "shop" }));
}
