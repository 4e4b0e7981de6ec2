//! Logging in, and what strangers and readers may not do.

use cairndb::Client;
use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Bson, Document, doc};
use cairndb_server::{Role, Users};

use crate::login::{Login, NONCE, go_on, log_in, on_admin, payload, start, text};
use crate::peer::{Peer, message};
use crate::{Fixture, fill};

fn add_users(client: &Client) {
    let users = Users::of(client);
    users.add("ada", "pencil", Role::Root).expect("added");
    users.add("reader", "I\u{ad}X", Role::ReadAnyDatabase).expect("added");
}

fn guarded() -> Fixture {
    Fixture::over(add_users, cairndb_server::ServerBuilder::require_users)
}

/// The same as a replica set.
pub(crate) fn guarded_set() -> Fixture {
    Fixture::over(add_users, |builder| builder.require_users().replica_set("rs"))
}

pub(crate) fn logged_in(fixture: &Fixture, name: &str, password: &str) -> Peer {
    let mut peer = fixture.peer();
    log_in(&mut peer, name, password).unwrap_or_else(|refused| panic!("{refused}"));
    peer
}

pub(crate) fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

fn names(reply: &Document) -> Vec<&str> {
    let users = reply.get_document("authInfo").and_then(|about| about.get_array("authenticatedUsers"));
    let users = users.expect("an array").iter().map(|user| user.as_document().expect("a document"));
    users.map(|user| user.get_str("user").expect("a name")).collect()
}

#[test]
fn the_right_password_lets_in_and_logging_out_ends_it() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    let status = || on_admin(doc! { "connectionStatus": 1, "showPrivileges": true });
    assert_eq!(names(&peer.run(status())), Vec::<&str>::new());
    log_in(&mut peer, "ada", "pencil").unwrap();
    assert_eq!(names(&peer.run(status())), ["ada"]);
    fill(&mut peer, "orders", 3);
    assert_eq!(peer.run(doc! { "count": "orders", "$db": "shop" }).get_i32("n").ok(), Some(3));
    assert_eq!(code(&peer.run(on_admin(doc! { "logout": 1 }))), 0);
    assert_eq!(names(&peer.run(status())), Vec::<&str>::new());
    assert_eq!(code(&peer.run(doc! { "count": "orders", "$db": "shop" })), 13);
}

#[test]
fn a_password_is_prepared_and_a_name_is_not() {
    let fixture = guarded();
    // The driver prepares what its user types.
    assert!(log_in(&mut fixture.peer(), "reader", "IX").is_ok());
    assert!(log_in(&mut fixture.peer(), "Reader", "IX").is_err());
}

#[test]
fn an_unknown_user_is_refused_like_a_wrong_password() {
    let fixture = guarded();
    let wrong = log_in(&mut fixture.peer(), "ada", "pencils").unwrap_err();
    let unknown = log_in(&mut fixture.peer(), "carol", "pencil").unwrap_err();
    assert_eq!(wrong, unknown);
    assert_eq!((code(&wrong), wrong.get_str("errmsg").ok()), (18, Some("Authentication failed.")));
    let salt = |name: &str| {
        let challenge = text(&fixture.peer().run(on_admin(start(name))));
        challenge.split_once(",s=").map(|(_, rest)| rest.to_owned()).unwrap()
    };
    assert_eq!(salt("carol"), salt("carol"));
    assert_ne!(salt("carol"), salt("dave"));
    assert_eq!(salt("carol").len(), salt("ada").len());
}

#[test]
fn a_user_of_another_database_is_unknown() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    let mut on_shop = start("ada");
    on_shop.insert("$db", "shop");
    let login = Login::new("ada", "pencil", &text(&peer.run(on_shop)));
    assert_eq!(code(&peer.run(go_on(&login.proof()))), 18);
}

#[test]
fn malformed_payloads_are_refused() {
    let fixture = guarded();
    let refuse = |command: Document, expected: i32| {
        let reply = fixture.peer().run(on_admin(command.clone()));
        assert_eq!(code(&reply), expected, "{command}: {reply}");
    };
    let with = |field: &str, value: Bson| {
        let mut command = start("ada");
        command.insert(field, value);
        command
    };
    for message in
        ["", "n", "n,,", "n,,n=ada", "n,,n=,r=a", "p=tls,,n=ada,r=a", "n,a=x,n=ada,r=a", "n,,n=a=1,r=a"]
    {
        refuse(with("payload", payload(message)), 18);
    }
    refuse(with("payload", payload(&"n".repeat(50_000))), 18);
    refuse(with("payload", "n,,n=ada,r=a".into()), 14);
    refuse(with("payload", Bson::Null), 40_414);
    refuse(with("mechanism", 1.into()), 14);
    refuse(with("mechanism", "SCRAM-SHA-1".into()), 334);
    refuse(with("mechanism", "PLAIN".into()), 334);
    refuse(with("options", 1.into()), 14);
    refuse(with("unknown", 1.into()), 40_415);
    refuse(doc! { "authenticate": 1, "mechanism": "MONGODB-X509" }, 334);
    refuse(doc! { "saslContinue": 1, "conversationId": 1, "payload": payload("") }, 17);
}

#[test]
fn a_proof_counts_once_and_for_its_own_conversation() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    let login = Login::new("ada", "pencil", &text(&peer.run(on_admin(start("ada")))));
    let proof = login.proof();
    assert_eq!(code(&peer.run(go_on(&proof))), 0);
    assert_eq!(code(&peer.run(go_on(&proof))), 17);
    // Replayed messages fail: the server sends another nonce, and the proof does not fit it.
    let mut second = fixture.peer();
    let challenge = text(&second.run(on_admin(start("ada"))));
    assert!(challenge.starts_with(&format!("r={NONCE}")));
    assert_eq!(code(&second.run(go_on(&proof))), 18);
    // A failed proof ends the conversation.
    let login = Login::new("ada", "pencil", &challenge);
    assert_eq!(code(&second.run(go_on(&login.proof()))), 17);
    let mut third = fixture.peer();
    third.run(on_admin(start("ada")));
    assert_eq!(
        code(&third.run(on_admin(doc! { "saslContinue": 1, "conversationId": 2, "payload": payload("") }))),
        17
    );
}

#[test]
fn without_the_option_an_empty_message_ends_the_login() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    let mut begin = on_admin(start("ada"));
    begin.remove("options");
    let login = Login::new("ada", "pencil", &text(&peer.run(begin)));
    let proven = peer.run(go_on(&login.proof()));
    assert_eq!((proven.get_bool("done").ok(), text(&proven)), (Some(false), login.signature()));
    let refused = peer.run(doc! { "count": "orders", "$db": "shop" });
    assert_eq!(code(&refused), 13);
    let ended = peer.run(go_on(""));
    assert_eq!((ended.get_bool("done").ok(), text(&ended).as_str()), (Some(true), ""));
    assert_eq!(code(&peer.run(doc! { "count": "orders", "$db": "shop" })), 0);
}

#[test]
fn a_hello_begins_a_login() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    let mut begin = start("ada");
    begin.insert("db", "admin");
    let hello = peer.run(on_admin(doc! {
        "hello": 1, "saslSupportedMechs": "admin.ada", "speculativeAuthenticate": begin.clone(),
    }));
    assert_eq!(hello.get_array("saslSupportedMechs").ok(), Some(&vec!["SCRAM-SHA-256".into()]));
    let login = Login::new("ada", "pencil", &text(hello.get_document("speculativeAuthenticate").unwrap()));
    let ended = peer.run(go_on(&login.proof()));
    assert_eq!((ended.get_bool("done").ok(), text(&ended)), (Some(true), login.signature()));
    // Unknown users get the same reply, and a login that cannot begin leaves no trace in it.
    let unknown = peer.run(on_admin(doc! { "hello": 1, "saslSupportedMechs": "admin.carol" }));
    assert_eq!(unknown.get_array("saslSupportedMechs").unwrap().len(), 1);
    for (field, value) in [("mechanism", Bson::from("MONGODB-X509")), ("payload", payload("n,,"))] {
        let mut other = begin.clone();
        other.insert(field, value);
        let hello = peer.run(on_admin(doc! { "hello": 1, "speculativeAuthenticate": other }));
        assert_eq!((code(&hello), hello.contains_key("speculativeAuthenticate")), (0, false));
    }
    assert_eq!(code(&peer.run(on_admin(doc! { "hello": 1, "saslSupportedMechs": "ada" }))), 2);
}

#[test]
fn before_a_login_few_commands_are_answered() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    for open in
        ["hello", "isMaster", "ismaster", "ping", "buildInfo", "connectionStatus", "whatsmyuri", "logout"]
    {
        assert_eq!(code(&peer.run(on_admin(doc! { open: 1 }))), 0, "{open}");
    }
    assert_eq!(code(&peer.run(on_admin(doc! { "endSessions": [] }))), 0);
    let closed = [
        "find",
        "insert",
        "update",
        "delete",
        "count",
        "aggregate",
        "listDatabases",
        "listCollections",
        "getMore",
        "killCursors",
        "serverStatus",
        "getParameter",
        "hostInfo",
        "getLog",
        "usersInfo",
        "killAllSessions",
        "configureFailPoint",
        "sequenceNext",
        "noSuchCommand",
    ];
    for closed in closed {
        let reply = peer.run(on_admin(doc! { closed: "a" }));
        let message = format!("Command {closed} requires authentication");
        assert_eq!((code(&reply), reply.get_str("errmsg").ok()), (13, Some(message.as_str())));
    }
}

#[test]
fn readers_read_and_write_nothing() {
    let fixture = guarded();
    let mut ada = logged_in(&fixture, "ada", "pencil");
    fill(&mut ada, "orders", 5);
    let first = doc! { "create": "first", "viewOn": "orders", "pipeline": [{ "$limit": 2 }], "$db": "shop" };
    assert_eq!(code(&ada.run(first)), 0);
    let mut peer = logged_in(&fixture, "reader", "IX");
    let on_shop = |mut command: Document| {
        command.insert("$db", "shop");
        command
    };
    let found = peer.run(on_shop(doc! { "find": "orders", "batchSize": 2 }));
    let cursor = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_eq!(code(&peer.run(on_shop(doc! { "getMore": cursor, "collection": "orders" }))), 0);
    assert_eq!(peer.run(on_shop(doc! { "count": "orders" })).get_i32("n").ok(), Some(5));
    assert_eq!(peer.run(on_shop(doc! { "count": "first" })).get_i32("n").ok(), Some(2));
    let refused = [
        doc! { "insert": "orders", "documents": [{}] },
        doc! { "update": "orders", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "orders", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "orders", "remove": true },
        doc! { "drop": "orders" },
        doc! { "dropDatabase": 1 },
        doc! { "create": "other" },
        doc! { "create": "other", "viewOn": "orders", "pipeline": [] },
        doc! { "collMod": "first", "viewOn": "others" },
        doc! { "createIndexes": "orders", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "truncate": "orders" },
        doc! { "createSequence": "numbers" },
        doc! { "sequenceNext": "numbers" },
        doc! { "aggregate": "orders", "pipeline": [{ "$out": "other" }], "cursor": {} },
        doc! { "aggregate": "orders", "pipeline": [{ "$merge": "other" }], "cursor": {} },
        doc! { "explain": { "delete": "orders", "deletes": [{ "q": {}, "limit": 0 }] } },
        doc! { "explain": { "aggregate": "orders", "pipeline": [{ "$out": "other" }], "cursor": {} } },
        doc! { "killAllSessions": [] },
        doc! { "fsync": 1 },
        doc! { "compact": "orders" },
        doc! { "backup": 1, "name": "daily" },
        doc! { "bulkWrite": 1, "ops": [{ "delete": 0, "filter": {} }], "nsInfo": [{ "ns": "shop.orders" }] },
    ];
    for command in refused {
        let reply = peer.run(on_shop(command.clone()));
        assert_eq!(code(&reply), 13, "{command}: {reply}");
    }
    assert_eq!(peer.run(on_shop(doc! { "count": "orders" })).get_i32("n").ok(), Some(5));
    // Unknown and unsupported commands are rejected as such, and commands that a reader may not run as
    // unauthorized.
    for (unknown, expected) in [
        (doc! { "bogus": 1 }, 59),
        (doc! { "explain": { "bogus": 1 } }, 59),
        (doc! { "mapReduce": "orders" }, 238),
        (doc! { "collMod": "orders" }, 13),
    ] {
        assert_eq!(code(&peer.run(on_shop(unknown.clone()))), expected, "{unknown}");
    }
    let explained = peer.run(on_shop(doc! { "explain": { "find": "orders" } }));
    assert_eq!(code(&explained), 0, "{explained}");
    // A cursor belongs to its user.
    let found = logged_in(&fixture, "ada", "pencil").run(on_shop(doc! { "find": "orders", "batchSize": 2 }));
    let cursor = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_eq!(code(&peer.run(on_shop(doc! { "getMore": cursor, "collection": "orders" }))), 13);
    let users = peer.run(on_admin(doc! { "usersInfo": 1 }));
    assert_eq!(users.get_array("users").unwrap().len(), 1);
}

#[test]
fn a_password_is_changed_by_root_or_its_user() {
    let fixture = guarded();
    let change = |peer: &mut Peer, name: &str, password: &str| {
        code(&peer.run(on_admin(doc! { "updateUser": name, "pwd": password })))
    };
    let mut stranger = fixture.peer();
    assert_eq!(change(&mut stranger, "ada", "stolen"), 13);
    let (mut ada, mut reader) = (logged_in(&fixture, "ada", "pencil"), logged_in(&fixture, "reader", "IX"));
    // No other user's, and not whether there is one.
    for other in ["ada", "carol"] {
        assert_eq!(change(&mut reader, other, "stolen"), 13);
    }
    assert_eq!(change(&mut reader, "reader", "chalk"), 0);
    assert_eq!(change(&mut ada, "ada", "crayon"), 0);
    // A client that is logged in stays so, with the same rights.
    assert_eq!(code(&reader.run(doc! { "count": "orders", "$db": "shop" })), 0);
    assert_eq!(change(&mut ada, "reader", "brush"), 0);
    for (name, old, new) in [("ada", "pencil", "crayon"), ("reader", "chalk", "brush")] {
        let refused = log_in(&mut fixture.peer(), name, old).expect_err("the old password is none");
        assert_eq!(code(&refused), 18);
        logged_in(&fixture, name, new);
    }
    let mut reader = logged_in(&fixture, "reader", "brush");
    assert_eq!(code(&reader.run(doc! { "drop": "orders", "$db": "shop" })), 13);
}

#[test]
fn a_user_is_updated_as_mongodb_defines_it_or_not_at_all() {
    let fixture = guarded();
    let mut ada = logged_in(&fixture, "ada", "pencil");
    let mut check = |command: Document, expected: i32, words: &str| {
        let reply = ada.run(on_admin(command.clone()));
        let message = reply.get_str("errmsg").unwrap_or_default();
        assert!(code(&reply) == expected && message.contains(words), "{command}: {reply}");
    };
    check(doc! { "updateUser": "bob", "pwd": "a" }, 11, "bob@admin");
    check(doc! { "updateUser": "reader" }, 2, "at least one field");
    check(doc! { "updateUser": 1, "pwd": "a" }, 14, "updateUser");
    check(doc! { "updateUser": "reader", "pwd": 1 }, 14, "pwd");
    check(doc! { "updateUser": "reader", "pwd": "" }, 2, "empty");
    check(doc! { "updateUser": "reader", "pwd": "a\u{7}" }, 2, "control character");
    check(doc! { "updateUser": "reader", "pwd": "a", "roles": ["root"] }, 238, "'roles'");
    check(doc! { "updateUser": "reader", "pwd": "a", "customData": {} }, 238, "'customData'");
    check(doc! { "updateUser": "reader", "pwd": "a", "digestPassword": false }, 2, "digestPassword");
    check(doc! { "updateUser": "reader", "pwd": "a", "mechanisms": ["SCRAM-SHA-1"] }, 2, "SCRAM-SHA-1");
    check(doc! { "updateUser": "reader", "pwd": "a", "mechanisms": [] }, 2, "mechanisms");
    check(doc! { "updateUser": "reader", "pwd": "a", "password": 1 }, 40415, "password");
    // None of these has changed it.
    logged_in(&fixture, "reader", "IX");
    let scram =
        doc! { "updateUser": "reader", "pwd": "a", "mechanisms": ["SCRAM-SHA-256"], "digestPassword": true };
    check(scram, 0, "");
    logged_in(&fixture, "reader", "a");
    // Users belong to `admin`.
    let elsewhere = ada.run(doc! { "updateUser": "reader", "pwd": "b", "$db": "shop" });
    assert_eq!(code(&elsewhere), 11, "{elsewhere}");
}

#[test]
fn a_cursor_is_closed_by_its_user_or_root() {
    let fixture = guarded();
    let mut ada = logged_in(&fixture, "ada", "pencil");
    fill(&mut ada, "orders", 5);
    let open = |peer: &mut Peer| {
        let found = peer.run(doc! { "find": "orders", "batchSize": 2, "$db": "shop" });
        found.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor")
    };
    let kill = |peer: &mut Peer, ids: Vec<i64>| {
        let reply = peer.run(doc! { "killCursors": "orders", "cursors": ids, "$db": "shop" });
        reply.get_array("cursorsKilled").map(Vec::len).map_err(|_| code(&reply))
    };
    let mut reader = logged_in(&fixture, "reader", "IX");
    let (of_ada, of_reader) = (open(&mut ada), open(&mut reader));
    assert_eq!(kill(&mut reader, vec![of_reader, of_ada]), Err(13));
    assert_eq!(kill(&mut reader, vec![of_reader]), Ok(1));
    assert_eq!(kill(&mut ada, vec![of_ada, open(&mut reader)]), Ok(2));
}

#[test]
fn a_session_belongs_to_its_user() {
    let fixture = guarded();
    let mut ada = logged_in(&fixture, "ada", "pencil");
    fill(&mut ada, "orders", 5);
    let lsid = || doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![3; 16] } };
    let found = ada.run(doc! { "find": "orders", "batchSize": 2, "lsid": lsid(), "$db": "shop" });
    let id = found.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor");
    // Neither a stranger nor another user can close it.
    for mut peer in [fixture.peer(), logged_in(&fixture, "reader", "IX")] {
        assert_eq!(code(&peer.run(on_admin(doc! { "endSessions": [lsid()] }))), 0);
    }
    let more = doc! { "getMore": id, "collection": "orders", "batchSize": 1, "lsid": lsid(), "$db": "shop" };
    assert_eq!(code(&ada.run(more.clone())), 0);
    assert_eq!(code(&ada.run(on_admin(doc! { "endSessions": [lsid()] }))), 0);
    assert_eq!(code(&ada.run(more)), 43);
}

#[test]
fn no_command_touches_the_collection_of_users() {
    for fixture in [guarded(), Fixture::over(add_users, |builder| builder)] {
        let mut peer = logged_in(&fixture, "ada", "pencil");
        for name in ["system.users", "system.keys"] {
            let refused = [
                doc! { "find": name },
                doc! { "count": name },
                doc! { "distinct": name, "key": "_id" },
                doc! { "insert": name, "documents": [{}] },
                doc! { "update": name, "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
                doc! { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] },
                doc! { "findAndModify": name, "remove": true },
                doc! { "drop": name },
                doc! { "truncate": name },
                doc! { "listIndexes": name },
                doc! { "collStats": name },
                doc! { "aggregate": name, "pipeline": [], "cursor": {} },
                doc! { "renameCollection": format!("admin.{name}"), "to": "shop.a" },
                doc! { "renameCollection": "shop.a", "to": format!("admin.{name}") },
                doc! { "getMore": 1_i64, "collection": name },
                doc! { "explain": { "find": name } },
                doc! { "explain": { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] } },
                doc! { "collMod": name },
                doc! { "bulkWrite": 1, "ops": [{ "insert": 0, "document": {} }],
                "nsInfo": [{ "ns": "shop.a" }, { "ns": format!("admin.{name}") }] },
            ];
            for command in refused {
                let reply = peer.run(on_admin(command.clone()));
                assert_eq!(code(&reply), 13, "{command}: {reply}");
            }
        }
        assert_eq!(code(&peer.run(on_admin(doc! { "dropDatabase": 1 }))), 20);
        let users =
            peer.run(on_admin(doc! { "usersInfo": ["ada", { "user": "reader", "db": "admin" }, "carol"] }));
        let users = users.get_array("users").unwrap();
        assert_eq!(users.len(), 2);
        let mut elsewhere = |asked: Document| {
            let reply = peer.run(doc! { "usersInfo": asked, "$db": "shop" });
            reply.get_array("users").map(Vec::len).map_err(|_| code(&reply))
        };
        assert_eq!(elsewhere(doc! { "forAllDBs": true }), Ok(2));
        assert_eq!(elsewhere(doc! { "forAllDBs": false }), Err(2));
        assert_eq!(elsewhere(doc! { "user": "ada", "db": "shop" }), Ok(0));
        assert!(users.iter().all(|user| !user.as_document().unwrap().contains_key("credentials")));
    }
}

#[test]
fn a_connection_on_which_logins_fail_is_closed() {
    let fixture = guarded();
    let mut peer = fixture.peer();
    for _ in 0..5 {
        let mut begin = start("ada");
        begin.insert("payload", payload("n"));
        assert_eq!(code(&peer.run(on_admin(begin))), 18);
    }
    peer.send(&message(doc! { "ping": 1, "$db": "admin" }).bytes(1, 0));
    assert_eq!(peer.receive(), None);
    assert!(log_in(&mut fixture.peer(), "ada", "pencil").is_ok());
}
