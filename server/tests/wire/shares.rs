//! The part that one user leaves to the others: of the places for commands, of sessions and of cursors.

use cairndb::Client;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
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

fn session(number: u64) -> Document {
    let bytes =
        (0..16).map(|byte| u8::try_from(number >> (8 * (byte % 8)) & 0xff).expect("a byte")).collect();
    doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes } }
}

/// Ten commands of a reader took all sessions, and `root` could not even end them.
#[test]
fn a_user_who_takes_all_sessions_takes_them_of_itself() {
    let fixture = guarded(|builder| builder);
    let (mut ada, mut rita, mut rob) = (user(&fixture, "ada"), user(&fixture, "rita"), user(&fixture, "rob"));
    let find = |number: u64| doc! { "find": "b", "batchSize": 2, "lsid": session(number), "$db": "shop" };
    let opened = rob.run(find(1));
    let id = opened.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor");
    let refresh = |from: u64| (from..from + 10_000).map(session).collect::<Vec<_>>();
    for ten_thousand in 0..12 {
        done(&rita.run(on_admin(doc! { "refreshSessions": refresh(10_000 * ten_thousand) })));
    }
    let status = ada.run(on_admin(doc! { "serverStatus": 1, "lsid": session(1) }));
    let sessions = status.get_document("logicalSessionRecordCache").expect("a cache");
    let count = sessions.get_i64("activeSessionsCount").expect("a number");
    assert!((99_000..=100_000).contains(&count), "{count}");
    // Sessions of others stay.
    let own = doc! { "aggregate": 1, "pipeline": [{ "$listLocalSessions": {} }], "cursor": {} };
    let own = rob.run(on_admin(own));
    assert_eq!(
        own.get_document("cursor").expect("a cursor").get_array("firstBatch").expect("a batch").len(),
        1
    );
    let more = doc! { "getMore": id, "collection": "b", "lsid": session(1), "$db": "shop" };
    done(&rob.run(more));
    done(&rita.run(find(1_000_000)));
    done(&ada.run(on_admin(doc! { "killAllSessions": [], "lsid": session(2) })));
    let status = ada.run(on_admin(doc! { "serverStatus": 1 }));
    let sessions = status.get_document("logicalSessionRecordCache").expect("a cache");
    assert_eq!(sessions.get_i64("activeSessionsCount").ok(), Some(0));
}

/// The cursor that a command opened over `shop.b`.
#[track_caller]
fn open(peer: &mut Peer) -> i64 {
    let reply = peer.run(doc! { "find": "b", "batchSize": 2, "$db": "shop" });
    reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).unwrap_or_else(|_| panic!("{reply}"))
}

fn read(peer: &mut Peer, id: i64) -> Option<i32> {
    peer.run(doc! { "getMore": id, "collection": "b", "batchSize": 1, "$db": "shop" }).get_i32("code").ok()
}

/// A reader opened all cursors, and others had none until they timed out.
#[test]
fn a_user_who_opens_all_cursors_loses_the_oldest() {
    let fixture = guarded(|builder| builder.cursors_max(8));
    let (mut ada, mut rita, mut rob) = (user(&fixture, "ada"), user(&fixture, "rita"), user(&fixture, "rob"));
    let (of_ada, of_rob) = (open(&mut ada), open(&mut rob));
    let of_rita: Vec<i64> = (0..6).map(|_| open(&mut rita)).collect();
    // Used again: it is not the oldest any more.
    assert_eq!(read(&mut rita, of_rita[0]), None);
    let more = [open(&mut rob), open(&mut ada), open(&mut rita)];
    assert_eq!([1, 2, 3].map(|lost| read(&mut rita, of_rita[lost])), [Some(43); 3]);
    assert_eq!([0, 4, 5].map(|kept| read(&mut rita, of_rita[kept])), [None; 3]);
    assert_eq!((read(&mut ada, of_ada), read(&mut rob, of_rob)), (None, None));
    assert_eq!(
        (read(&mut rob, more[0]), read(&mut ada, more[1]), read(&mut rita, more[2])),
        (None, None, None)
    );
    // It still has most, and that was used first.
    let (more, oldest) = (open(&mut rob), of_rita[0]);
    assert_eq!((read(&mut rita, oldest), read(&mut rob, more)), (Some(43), None));
}
