//! A server that is a replica set of one: what it reports about itself, and the times in its replies.

use cairndb::Client;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, Timestamp, doc};
use cairndb_server::{Error, Server, ServerBuilder};

use crate::Fixture;
use crate::peer::Peer;

fn fixture() -> Fixture {
    Fixture::with(|builder| builder.replica_set("shop"))
}

#[track_caller]
fn time(reply: &Document) -> (u32, u32) {
    let Ok(Timestamp { time, increment }) = reply.get_timestamp("operationTime") else {
        panic!("no time: {reply}")
    };
    let cluster = reply.get_document("$clusterTime").expect("a time of the cluster");
    assert_eq!(cluster.get_timestamp("clusterTime").ok(), Some(Timestamp { time, increment }));
    let signature = cluster.get_document("signature").expect("a signature");
    assert_eq!(signature.get_binary_generic("hash").ok(), Some(&vec![0; 20]));
    assert_eq!(signature.get_i64("keyId").ok(), Some(0));
    (time, increment)
}

#[track_caller]
fn refused(reply: &Document, code: i32) {
    assert_eq!(reply.get_i32("code").ok(), Some(code), "{reply}");
}

#[test]
fn a_hello_tells_of_the_only_member() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let address = fixture.address.to_string();
    for name in ["hello", "isMaster", "ismaster"] {
        let hello = peer.run(doc! { name: 1, "$db": "admin" });
        assert_eq!(hello.get_str("setName").ok(), Some("shop"));
        assert_eq!(hello.get_i32("setVersion").ok(), Some(1));
        assert_eq!(hello.get_array("hosts").ok(), Some(&vec![Bson::from(address.as_str())]));
        assert_eq!(hello.get_str("primary").ok(), Some(address.as_str()));
        assert_eq!(hello.get_str("me").ok(), Some(address.as_str()));
        assert_eq!(hello.get_bool("secondary").ok(), Some(false));
        let election = ObjectId::parse_str("7fffffff0000000000000001").expect("an id");
        assert_eq!(hello.get_object_id("electionId").ok(), Some(election));
        let last = hello.get_document("lastWrite").expect("the last write");
        assert_eq!(last.get_document("opTime").and_then(|optime| optime.get_i64("t")).ok(), Some(1));
        assert!(last.get_datetime("majorityWriteDate").is_ok());
    }
    let advertised = Fixture::with(|builder| builder.replica_set("shop").advertise("Shop.example.org:1234"));
    let hello = advertised.peer().run(doc! { "hello": 1, "$db": "admin" });
    // Drivers compare in small letters.
    assert_eq!(hello.get_str("me").ok(), Some("shop.example.org:1234"));
    assert_eq!(hello.get_array("hosts").ok(), Some(&vec![Bson::from("shop.example.org:1234")]));
}

#[test]
fn every_reply_has_a_later_time() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let mut last = (0, 0);
    let commands = [
        doc! { "hello": 1, "$db": "admin" },
        doc! { "insert": "a", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "shop" },
        doc! { "find": "a", "batchSize": 1, "$db": "shop" },
        doc! { "find": "a", "$db": "shop" },
        doc! { "fly": 1, "$db": "shop" },
        doc! { "find": 1, "$db": "shop" },
        // Rejected before it is a command.
        doc! { "find": "a" },
    ];
    for command in commands {
        let now = time(&peer.run(command.clone()));
        assert!(now > last, "{command}: {now:?} after {last:?}");
        last = now;
    }
    // The time that a client sends moves nothing, whatever it is.
    let far = Timestamp { time: u32::MAX, increment: 1 };
    let told =
        [doc! { "clusterTime": far, "signature": {} }.into(), Bson::from(far), Bson::from("x"), Bson::Null];
    for told in told {
        let now = time(&peer.run(doc! { "ping": 1, "$clusterTime": told, "$db": "admin" }));
        assert!(now > last && now.0 < u32::MAX - 1);
        last = now;
    }
    // A time is met at once, whichever it is.
    for after in [Timestamp { time: 1, increment: 1 }, far] {
        let read = doc! { "find": "a", "readConcern": { "level": "majority", "afterClusterTime": after }, "$db": "shop" };
        let found = peer.run(read);
        assert_eq!(found.get_f64("ok").ok(), Some(1.0), "{found}");
        let counted = doc! { "count": "a", "readConcern": { "afterClusterTime": after }, "$db": "shop" };
        assert_eq!(peer.run(counted).get_i32("n").ok(), Some(2));
    }
    let wrong = |concern: Document| doc! { "find": "a", "readConcern": concern, "$db": "shop" };
    refused(&peer.run(wrong(doc! { "afterClusterTime": 1 })), 14);
    refused(&peer.run(wrong(doc! { "afterClusterTime": far, "atClusterTime": far })), 72);
    refused(&peer.run(wrong(doc! { "atClusterTime": far })), 72);
    refused(&peer.run(wrong(doc! { "level": "all" })), 2);
}

#[test]
fn its_status_and_its_configuration_are_those_of_one_member() {
    let fixture = fixture();
    let mut peer = fixture.peer();
    let address = fixture.address.to_string();
    let status = peer.run(doc! { "replSetGetStatus": 1, "$db": "admin" });
    assert_eq!((status.get_str("set").ok(), status.get_i32("myState").ok()), (Some("shop"), Some(1)));
    let members = status.get_array("members").expect("members");
    let member = members[0].as_document().expect("a member");
    assert_eq!(members.len(), 1);
    assert_eq!(member.get_str("name").ok(), Some(address.as_str()));
    assert_eq!(member.get_str("stateStr").ok(), Some("PRIMARY"));
    assert_eq!(member.get_bool("self").ok(), Some(true));
    let told = peer.run(doc! { "replSetGetConfig": 1, "$db": "admin" });
    let told = told.get_document("config").expect("a configuration");
    assert_eq!(told.get_str("_id").ok(), Some("shop"));
    assert_eq!(told.get_bool("writeConcernMajorityJournalDefault").ok(), Some(true));
    let members = told.get_array("members").expect("members");
    assert_eq!(
        members[0].as_document().and_then(|member| member.get_str("host").ok()),
        Some(address.as_str())
    );
    for (name, code) in [("replSetInitiate", 23), ("replSetReconfig", 20), ("replSetStepDown", 20)] {
        refused(&peer.run(doc! { name: {}, "$db": "admin" }), code);
        refused(&peer.run(doc! { name: {}, "$db": "shop" }), 13);
    }
    refused(&peer.run(doc! { "replSetGetStatus": 1, "$db": "shop" }), 13);
}

#[test]
fn a_server_alone_is_none() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let hello = peer.run(doc! { "hello": 1, "$db": "admin" });
    let absent = ["setName", "hosts", "me", "primary", "electionId", "operationTime", "$clusterTime"];
    assert!(absent.iter().all(|name| !hello.contains_key(*name)), "{hello}");
    refused(&peer.run(doc! { "replSetGetStatus": 1, "$db": "admin" }), 76);
    for name in ["replSetGetConfig", "replSetInitiate", "replSetReconfig", "replSetStepDown"] {
        refused(&peer.run(doc! { name: 1, "$db": "admin" }), 238);
    }
    let after = doc! { "afterClusterTime": Timestamp { time: 1, increment: 1 } };
    refused(&peer.run(doc! { "find": "a", "readConcern": after, "$db": "shop" }), 238);
}

#[track_caller]
fn not_started(client: Client, change: impl FnOnce(ServerBuilder) -> ServerBuilder, words: &str) {
    let refused = change(Server::builder(client)).unbound().expect_err("it is refused");
    assert!(matches!(refused, Error::Setting(_)), "{refused:?}");
    assert!(refused.to_string().contains(words), "{refused}");
}

#[test]
fn what_cannot_be_a_replica_set_is_refused_by_name() {
    let memory = || Client::in_memory().expect("a store");
    not_started(memory(), |builder| builder.replica_set("").advertise("a:1"), "empty");
    not_started(memory(), |builder| builder.replica_set("x".repeat(65)).advertise("a:1"), "64");
    not_started(memory(), |builder| builder.replica_set("a b").advertise("a:1"), "a b");
    not_started(memory(), |builder| builder.replica_set("rs").advertise("nowhere"), "nowhere");
    not_started(memory(), |builder| builder.replica_set("rs").advertise("a:0"), "a:0");
    not_started(memory(), |builder| builder.replica_set("rs"), "advertised");
    not_started(memory(), |builder| builder.advertise("a:1"), "a:1");
    let everywhere = "0.0.0.0:0".parse().expect("an address");
    not_started(memory(), |builder| builder.replica_set("rs").tcp(everywhere), "0.0.0.0:0");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    Client::open(&path).and_then(Client::close).expect("made");
    let reading = Client::builder().read_only(true).open(&path).expect("opened");
    not_started(reading, |builder| builder.replica_set("rs").advertise("a:1"), "reading only");
}

/// Each of them on a connection of its own, so that one that ends it hides nothing.
#[test]
fn no_bytes_in_the_fields_of_sessions_make_it_fall() {
    let fixture = fixture();
    let values = [
        Bson::Null,
        Bson::from(1),
        Bson::from(-1_i64),
        Bson::from(i64::MIN),
        Bson::from(i64::MAX),
        Bson::from(0.5),
        Bson::from(f64::NAN),
        Bson::from(""),
        Bson::from("x".repeat(10_000)),
        doc! {}.into(),
        doc! { "id": 1 }.into(),
        doc! { "id": { "id": {} } }.into(),
        Bson::from(vec![Bson::Null; 3]),
        Bson::MinKey,
        Bson::Timestamp(Timestamp { time: u32::MAX, increment: u32::MAX }),
        Bson::from(true),
        Bson::from(false),
    ];
    let fields = [
        "lsid",
        "$clusterTime",
        "recoveryToken",
        "txnNumber",
        "autocommit",
        "startTransaction",
        "readConcern",
    ];
    let commands = [
        doc! { "ping": 1 },
        doc! { "find": "a" },
        doc! { "getMore": 1_i64, "collection": "a" },
        doc! { "insert": "a", "documents": [{}] },
        doc! { "commitTransaction": 1 },
        doc! { "abortTransaction": 1 },
        doc! { "endSessions": [] },
        doc! { "hello": 1 },
    ];
    let mut peer: Peer = fixture.peer();
    for command in &commands {
        for field in fields {
            for value in &values {
                let mut sent = command.clone();
                if field != "lsid" {
                    sent.insert("lsid", crate::transactions::session(9));
                }
                if matches!(field, "autocommit" | "startTransaction" | "recoveryToken") {
                    sent.insert("txnNumber", 1_i64);
                }
                sent.insert(field, value.clone());
                sent.insert("$db", "admin");
                let reply = peer.run(sent.clone());
                assert_ne!(reply.get_i32("code").ok(), Some(1), "{sent}: {reply}");
            }
        }
    }
}
