//! Replies as drivers and shells read them.

use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, bson, doc};
use cairndb_server::frame::header::{HEADER_BYTES, Header, OP_QUERY, OP_REPLY};

use crate::peer::{Answer, Peer, decode, encode};
use crate::{Fixture, PATIENCE, fill};

/// The answer to an `OP_QUERY`. Returns `None` if the connection is closed.
fn query(peer: &mut Peer, namespace: &str, command: &Document) -> Option<Document> {
    let inner = [&[0; 4][..], namespace.as_bytes(), &[0; 9], &encode(command)].concat();
    let header =
        Header { length: HEADER_BYTES + inner.len(), request_id: 9, response_to: 0, opcode: OP_QUERY };
    assert!(peer.send(&[&header.bytes()[..], &inner].concat()));
    let (header, message) = peer.receive()?;
    assert_eq!((header.opcode, header.response_to), (OP_REPLY, 9));
    message.get(HEADER_BYTES + 20..).map(decode)
}

#[test]
fn hello_has_the_fields_that_drivers_read() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let reply = peer.run(doc! { "hello": 1, "client": { "driver": {} }, "loadBalanced": false, "backpressure": true, "$db": "admin" });
    for (field, expected) in doc! {
        "isWritablePrimary": true, "maxBsonObjectSize": 16_777_216, "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 25, "readOnly": false,
        "logicalSessionTimeoutMinutes": 30_i64, "ok": 1.0,
    } {
        assert_eq!(reply.get(&field), Some(&expected), "{field}");
    }
    // No field that makes drivers send what a standalone rejects.
    for field in ["setName", "hosts", "compression", "msg"] {
        assert!(!reply.contains_key(field), "{field}");
    }
    let again = peer.run(doc! { "hello": 1, "client": {}, "$db": "admin" });
    assert_eq!(again.get_i32("code").ok(), Some(186));
}

#[test]
fn a_legacy_query_can_only_be_a_hello() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let hello = query(&mut peer, "admin.$cmd", &doc! { "ismaster": 1, "helloOk": true }).unwrap();
    assert!(hello.get_bool("ismaster").unwrap() && hello.get_bool("helloOk").unwrap());
    let wrapped = query(&mut peer, "admin.$cmd", &doc! { "$query": { "isMaster": 1 } }).unwrap();
    assert!(wrapped.get_bool("ismaster").unwrap());
    let other = query(&mut peer, "admin.$cmd", &doc! { "ping": 1 }).unwrap();
    assert_eq!(other.get_i32("code").ok(), Some(352));
    assert_eq!(query(&mut peer, "shop.a", &doc! {}), None);
}

#[test]
fn an_invalid_document_is_told_in_err_info() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let create = doc! { "create": "checked", "validator": { "n": { "$gt": 0 } }, "$db": "shop" };
    assert_eq!(peer.run(create).get_f64("ok").ok(), Some(1.0));
    let rule = doc! {
        "operatorName": "$gt", "specifiedAs": { "n": { "$gt": 0 } },
        "reason": "comparison failed", "consideredValue": -1,
    };
    let told = doc! { "failingDocumentId": 1, "details": rule };
    let insert = doc! { "insert": "checked", "documents": [{ "_id": 1, "n": -1 }], "$db": "shop" };
    let reply = peer.run(insert);
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!((error.get_i32("code").ok(), error.get_document("errInfo").ok()), (Some(121), Some(&told)));
    let upsert = doc! {
        "findAndModify": "checked", "query": { "_id": 1 }, "update": { "$set": { "n": -1 } },
        "upsert": true, "$db": "shop",
    };
    let reply = peer.run(upsert);
    assert_eq!(
        (reply.get_i32("code").ok(), reply.get_document("errInfo").ok()),
        (Some(121), Some(&told)),
        "{reply}"
    );
}

#[test]
fn a_view_is_read_through_a_cursor() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 5);
    let create = doc! { "create": "v", "viewOn": "a", "pipeline": [{ "$match": { "_id": { "$gte": 1 } } }], "$db": "shop" };
    assert_eq!(peer.run(create).get_f64("ok").ok(), Some(1.0));
    let reply = peer.run(doc! { "find": "v", "batchSize": 2, "$db": "shop" });
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(
        (cursor.get_str("ns").ok(), cursor.get_array("firstBatch").unwrap().len()),
        (Some("shop.v"), 2)
    );
    let more = doc! { "getMore": cursor.get_i64("id").unwrap(), "collection": "v", "$db": "shop" };
    let rest = peer.run(more).get_document("cursor").unwrap().get_array("nextBatch").unwrap().len();
    assert_eq!(rest, 2);
    let insert = peer.run(doc! { "insert": "v", "documents": [{}], "$db": "shop" });
    assert_eq!(insert.get_i32("code").ok(), Some(166), "{insert}");
}

#[test]
fn writes_report_results_and_refusals() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let documents = [doc! { "_id": 1 }, doc! { "_id": 1 }, doc! { "_id": 2 }];
    let insert = doc! { "insert": "a", "ordered": false, "$db": "shop" };
    let reply = peer.run_with(insert, "documents", &documents);
    let refused = bson!({
        "index": 1, "code": 11000, "codeName": "DuplicateKey",
        "errmsg": "E11000 duplicate key error collection: shop.a index: _id_ dup key: { _id: 1 }",
        "keyPattern": { "_id": 1 }, "keyValue": { "_id": 1 },
    });
    assert_eq!(reply, doc! { "n": 2, "writeErrors": [refused], "ok": 1.0 });
    let update = [doc! { "q": { "_id": 2 }, "u": { "$set": { "x": 1 } } }];
    let reply = peer.run_with(doc! { "update": "a", "$db": "shop" }, "updates", &update);
    assert_eq!(reply, doc! { "n": 1, "nModified": 1, "ok": 1.0 });
    let reply =
        peer.run_with(doc! { "delete": "a", "$db": "shop" }, "deletes", &[doc! { "q": {}, "limit": 0 }]);
    assert_eq!(reply, doc! { "n": 2, "ok": 1.0 });
    assert_eq!(peer.run(doc! { "drop": "a", "$db": "shop" }).get_i32("nIndexesWas").ok(), Some(1));
    assert_eq!(peer.run(doc! { "drop": "a", "$db": "shop" }), doc! { "ok": 1.0 });
    let limited = doc! { "insert": "a", "documents": [{ "_id": 1 }], "maxTimeMS": 5000, "$db": "shop" };
    assert_eq!(peer.run(limited), doc! { "n": 1, "ok": 1.0 });
}

#[test]
fn unsupported_commands_have_their_code_and_name() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let mut refused = |command: Document, code: i32, name: &str| {
        let mut command = command;
        command.insert("$db", "admin");
        let reply = peer.run(command.clone());
        assert_eq!(
            (reply.get_f64("ok").ok(), reply.get_i32("code").ok()),
            (Some(0.0), Some(code)),
            "{command}: {reply}"
        );
        assert_eq!(reply.get_str("codeName").ok(), Some(name), "{command}");
    };
    refused(doc! { "atlasVersion": 1 }, 59, "CommandNotFound");
    refused(doc! { "replSetGetStatus": 1 }, 76, "NoReplicationEnabled");
    refused(doc! { "mapReduce": "a" }, 238, "NotImplemented");
    refused(doc! { "insert": "a", "documents": [{ "_id": 1 }], "txnNumber": 1_i64 }, 20, "IllegalOperation");
    refused(doc! { "abortTransaction": 1, "txnNumber": 1_i64, "autocommit": false }, 20, "IllegalOperation");
    refused(doc! { "commitTransaction": 1 }, 251, "NoSuchTransaction");
    refused(doc! { "getParameter": 1, "bogus": 1 }, 72, "InvalidOptions");
    refused(doc! { "getLog": "bogus" }, 96, "OperationFailed");
    refused(doc! { "fsync": 1, "lock": true }, 238, "NotImplemented");
    refused(doc! { "setAcquirer": "bogus" }, 2, "BadValue");
}

#[test]
fn shells_and_tools_get_what_they_ask_at_first() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let mut run = |command: Document| {
        let mut command = command;
        command.insert("$db", "admin");
        let reply = peer.run(command.clone());
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
        reply
    };
    let build = run(doc! { "buildInfo": 1 });
    assert_eq!(build.get_str("version").ok(), Some("8.0.0"));
    assert_eq!(build.get_array("versionArray").ok(), Some(&[8, 0, 0, 0].map(Bson::Int32).to_vec()));
    let version = run(doc! { "getParameter": 1, "featureCompatibilityVersion": 1 });
    assert_eq!(version.get_document("featureCompatibilityVersion").ok(), Some(&doc! { "version": "8.0" }));
    assert!(run(doc! { "getParameter": "*" }).contains_key("cursorTimeoutMillis"));
    assert_eq!(run(doc! { "getLog": "startupWarnings" }).get_i32("totalLinesWritten").ok(), Some(0));
    assert!(run(doc! { "hostInfo": 1 }).get_document("system").unwrap().contains_key("numCores"));
    assert!(run(doc! { "serverStatus": 1 }).get_i64("uptime").is_ok());
    assert!(run(doc! { "connectionStatus": 1, "showPrivileges": true }).contains_key("authInfo"));
    assert!(run(doc! { "listCommands": 1 }).get_document("commands").unwrap().contains_key("find"));
    assert!(run(doc! { "getCmdLineOpts": 1 }).contains_key("argv"));
    assert!(run(doc! { "whatsmyuri": 1 }).get_str("you").unwrap().starts_with("127.0.0.1:"));
    assert_eq!(run(doc! { "usersInfo": 1 }).get_array("users").map(Vec::len).ok(), Some(0));
    assert_eq!(run(doc! { "profile": -1 }).get_i32("was").ok(), Some(0));
    run(doc! { "fsync": 1 });
    run(doc! { "startSession": 1 });
    run(doc! { "endSessions": [] });
    run(doc! { "refreshSessions": [] });
}

#[test]
fn an_acquirer_of_its_own_draws_from_its_own_blocks() {
    let fixture = Fixture::new();
    let (mut first, mut second) = (fixture.peer(), fixture.peer());
    let run = |peer: &mut Peer, command: Document| {
        let mut command = command;
        command.insert("$db", "shop");
        let reply = peer.run(command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        reply
    };
    let options = doc! { "AcquireSize": 10, "CacheSize": 100 };
    run(&mut first, doc! { "createSequence": "s", "options": options });
    let next = |peer: &mut Peer| run(peer, doc! { "sequenceNext": "s" }).get_i64("NextValue").unwrap();
    assert_eq!((next(&mut first), next(&mut second)), (1, 2));
    run(&mut second, doc! { "setAcquirer": "own" });
    assert_eq!((next(&mut second), next(&mut first), next(&mut second)), (11, 3, 12));
    run(&mut second, doc! { "setAcquirer": "shared" });
    assert_eq!(next(&mut second), 4);
    // The rest of the second block is the end of the reserve, so it is given back.
    run(&mut first, doc! { "sequenceNext": "s", "n": 100 });
    assert_eq!(next(&mut first), 13);
}

#[test]
fn an_acquirer_ends_with_its_connection() {
    let fixture = Fixture::new();
    let (mut first, mut second) = (fixture.peer(), fixture.peer());
    let options = doc! { "AcquireSize": 10, "CacheSize": 100 };
    first.run(doc! { "createSequence": "s", "options": options, "$db": "shop" });
    second.run(doc! { "setAcquirer": "own", "$db": "shop" });
    second.run(doc! { "sequenceNext": "s", "n": 2, "$db": "shop" });
    // Another block follows, so the rest of the second one cannot be given back and is listed as lost.
    first.run(doc! { "sequenceNext": "s", "$db": "shop" });
    drop(second);
    let lost = |peer: &mut Peer| {
        let reply = peer.run(doc! { "sequenceSnapshot": "s", "$db": "shop" });
        reply.get_document("snapshot").and_then(|snapshot| snapshot.get_i64("Lost")).expect("a number")
    };
    let end = Instant::now() + PATIENCE;
    while lost(&mut first) == 0 && Instant::now() < end {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(lost(&mut first), 8);
}

#[test]
fn refused_sequences_have_sequoiadbs_numbers_as_well() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let missing = peer.run(doc! { "sequenceNext": "none", "$db": "shop" });
    assert_eq!(missing.get_i32("sequoiaCode").ok(), Some(-324), "{missing}");
    assert!(missing.get_str("sequoiaName").is_ok() && missing.get_str("codeName").is_ok());
    let mut refused = |command: Document, number: i32, name: &str, code: i32| {
        let reply = peer.run(command.clone());
        assert_eq!(reply.get_i32("sequoiaCode").ok(), Some(number), "{command}: {reply}");
        assert_eq!(reply.get_str("sequoiaName").ok(), Some(name), "{command}: {reply}");
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
        let code_name = if code == 14 { "TypeMismatch" } else { "BadValue" };
        assert_eq!(reply.get_str("codeName").ok(), Some(code_name), "{command}: {reply}");
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{command}: {reply}");
    };
    let create = |options: Document| doc! { "createSequence": "s", "options": options, "$db": "shop" };
    refused(create(doc! { "Increment": 0 }), -6, "SDB_INVALIDARG", 2);
    refused(create(doc! { "Increment": 1.0 }), -6, "SDB_INVALIDARG", 14);
    refused(doc! { "dropSequence": "s", "$db": "shop" }, -324, "SDB_SEQUENCE_NOT_EXIST", 2);
    refused(doc! { "sequenceRestart": "s", "value": 1.0, "$db": "shop" }, -6, "SDB_INVALIDARG", 14);
    refused(doc! { "sequenceSnapshot": 1, "$db": "shop" }, -6, "SDB_INVALIDARG", 14);
    let snapshots = peer.run(doc! { "sequenceSnapshot": { "Name": "s" }, "$db": "shop" });
    assert_eq!(snapshots, doc! { "snapshots": [], "ok": 1.0 });
    let field = doc! { "create": "a", "autoIncrement": { "Field": "n" }, "$db": "shop" };
    assert_eq!(peer.run(field), doc! { "ok": 1.0 });
    let reply = peer.run(doc! { "insert": "a", "documents": [{ "_id": 1 }], "$db": "shop" });
    let generated = Bson::from(vec![doc! { "n": 1_i64 }]);
    assert_eq!(reply, doc! { "n": 1, "generated": generated, "lastGenerateID": 1_i64, "ok": 1.0 });
}

#[test]
fn names_of_commands_are_case_sensitive() {
    let fixture = Fixture::new();
    let ping = crate::peer::message(doc! { "PING": 1, "$db": "admin" }).bytes(1, 0);
    assert_eq!(fixture.peer().answer(&ping), Answer::Document(59));
}

#[test]
fn current_op_lists_itself() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    peer.run(doc! { "insert": "a", "documents": [{ "_id": 1 }], "$db": "shop" });
    let namespaces = |reply: &Document| -> Vec<String> {
        let running = reply.get_array("inprog").expect("operations").iter();
        running
            .map(|operation| operation.as_document().expect("one").get_str("ns").expect("a name").to_owned())
            .collect()
    };
    let all = peer.run(doc! { "currentOp": 1, "$all": true, "$db": "admin" });
    assert_eq!(namespaces(&all), ["admin.$cmd"]);
    let inserts = peer.run(doc! { "currentOp": 1, "op": "insert", "$db": "admin" });
    assert_eq!(namespaces(&inserts), Vec::<String>::new());
    let stages =
        bson!([{ "$currentOp": { "allUsers": true } }, { "$project": { "_id": 0, "op": 1, "active": 1 } }]);
    let listed = peer.run(doc! { "aggregate": 1, "pipeline": stages, "cursor": {}, "$db": "admin" });
    let batch =
        listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    assert_eq!(*batch, vec![bson!({ "op": "command", "active": true })]);
}

#[test]
fn current_op_shows_what_a_client_says_of_itself() {
    let fixture = Fixture::new();
    let (mut peer, mut other) = (fixture.peer(), fixture.peer());
    let shown = |peer: &mut Peer| {
        let reply = peer.run(doc! { "currentOp": 1, "$ownOps": true, "$db": "admin" });
        let running = reply.get_array("inprog").expect("operations").first().and_then(Bson::as_document);
        let running = running.expect("itself");
        let of_client = |(name, _): &(String, Bson)| matches!(name.as_str(), "appName" | "clientMetadata");
        running.clone().into_iter().filter(of_client).collect::<Document>()
    };
    assert_eq!(shown(&mut peer), doc! {});
    let client = doc! { "application": { "name": "till" }, "driver": { "name": "pen", "version": "2" } };
    let hello = |client: &Document| doc! { "hello": 1, "client": client.clone(), "$db": "admin" };
    assert_eq!(peer.run(hello(&client)).get_f64("ok").ok(), Some(1.0));
    assert_eq!(shown(&mut peer), doc! { "appName": "till", "clientMetadata": &client });
    // Said once, and of one connection.
    assert_eq!(peer.run(hello(&doc! { "os": "none" })).get_i32("code").ok(), Some(186));
    assert_eq!(shown(&mut peer), doc! { "appName": "till", "clientMetadata": &client });
    // In memory one with many values takes a hundred times as much.
    let many = doc! { "application": { "name": "many" }, "all": vec![Bson::Null; 70] };
    let mut third = fixture.peer();
    assert_eq!(third.run(hello(&many)).get_f64("ok").ok(), Some(1.0));
    assert_eq!(shown(&mut third), doc! { "appName": "many" });
    let nameless = doc! { "driver": { "name": "pen" } };
    assert_eq!(other.run(hello(&nameless)).get_f64("ok").ok(), Some(1.0));
    assert_eq!(shown(&mut other), doc! { "clientMetadata": nameless });
}

#[test]
fn current_op_runs_on_admin() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let mut check = |command: Document, code: i32| {
        assert_eq!(peer.run(command.clone()).get_i32("code").ok(), Some(code), "{command}");
    };
    let aggregate = |target: Bson, options: Bson, database: &str| doc! { "aggregate": target, "pipeline": [{ "$currentOp": options }], "cursor": {}, "$db": database };
    check(doc! { "currentOp": 1, "$db": "shop" }, 13);
    check(aggregate(1.into(), bson!({}), "shop"), 13);
    check(aggregate("a".into(), bson!({}), "admin"), 73);
    check(aggregate(1.into(), bson!(1), "admin"), 9);
    check(aggregate(1.into(), bson!({ "all": true }), "admin"), 9);
    check(aggregate(1.into(), bson!({ "allUsers": "yes" }), "admin"), 14);
}

#[test]
fn an_explanation_names_the_server() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "orders", 5);
    let explain = doc! { "explain": { "find": "orders", "filter": { "_id": 1 } }, "verbosity": "queryPlanner", "$db": "shop" };
    let aggregate = doc! { "aggregate": "orders", "pipeline": [{ "$match": { "_id": 1 } }], "explain": true, "$db": "shop" };
    for command in [explain, aggregate] {
        let reply = peer.run(command);
        let plan = reply
            .get_document("queryPlanner")
            .expect("a plan")
            .get_document("winningPlan")
            .expect("one wins");
        assert_eq!(plan.get_str("stage").ok(), Some("IDHACK"), "{reply}");
        let server = reply.get_document("serverInfo").expect("a server");
        assert_eq!(server.get_i32("port").ok(), Some(i32::from(fixture.address.port())));
        assert!(server.contains_key("host") && server.contains_key("version"), "{server}");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0));
    }
    let refused = peer.run(doc! { "explain": { "insert": "orders", "documents": [] }, "$db": "shop" });
    assert_eq!(refused.get_i32("code").ok(), Some(20), "{refused}");
    assert!(!refused.contains_key("serverInfo"));
}

/// `apiStrict` was once accepted and not enforced.
#[test]
fn a_strict_client_is_refused_everything_beyond_its_api() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 3);
    let mut code = |mut command: Document, api: Document| {
        command.extend(api);
        command.insert("$db", "shop");
        peer.run(command).get_i32("code").unwrap_or(0)
    };
    let strict = || doc! { "apiVersion": "1", "apiStrict": true };
    for allowed in [
        doc! { "ping": 1 },
        doc! { "find": "a", "noCursorTimeout": false },
        doc! { "aggregate": "a", "pipeline": [{ "$collStats": { "count": {} } }], "cursor": {} },
        doc! { "explain": { "find": "a" } },
        doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": "n" }] },
    ] {
        assert_eq!(code(allowed.clone(), strict()), 0, "{allowed}");
    }
    for refused in [
        doc! { "distinct": "a", "key": "_id" },
        doc! { "serverStatus": 1 },
        doc! { "sequenceNext": "s" },
        doc! { "isMaster": 1 },
        doc! { "find": "a", "noCursorTimeout": true },
        doc! { "create": "b", "autoIncrement": { "Field": "n" } },
        doc! { "aggregate": "a", "pipeline": [{ "$indexStats": {} }], "cursor": {} },
        doc! { "aggregate": "a", "pipeline": [{ "$collStats": { "storageStats": {} } }], "cursor": {} },
        doc! { "aggregate": "a", "pipeline": [], "explain": true },
        doc! { "explain": { "distinct": "a", "key": "_id" } },
        doc! { "createIndexes": "a", "indexes": [{ "key": { "m": 1 }, "name": "m", "sparse": true }] },
    ] {
        assert_eq!(code(refused.clone(), strict()), 323, "{refused}");
        let lax = code(refused.clone(), doc! { "apiVersion": "1" });
        assert_ne!(lax, 323, "{refused}");
    }
    assert_eq!(code(doc! { "ping": 1 }, doc! { "apiStrict": true }), 4_886_600);
    assert_eq!(code(doc! { "ping": 1 }, doc! { "apiVersion": "2" }), 322);
}

#[test]
fn top_counts_the_uses_of_collections() {
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    fill(&mut peer, "a", 3);
    fill(&mut peer, "gone", 3);
    peer.run(doc! { "find": "a", "$db": "shop" });
    peer.run(doc! { "count": "a", "$db": "shop" });
    peer.run(doc! { "find": "none", "$db": "shop" });
    peer.run(doc! { "drop": "gone", "$db": "shop" });
    let reply = peer.run(doc! { "top": 1, "$db": "admin" });
    let totals = reply.get_document("totals").expect("totals");
    assert_eq!(totals.keys().collect::<Vec<_>>(), ["note", "shop.a"]);
    let uses = totals.get_document("shop.a").expect("uses");
    let counts: Vec<i64> = ["total", "readLock", "writeLock", "queries", "insert", "remove", "commands"]
        .map(|kind| uses.get_document(kind).and_then(|uses| uses.get_i64("count")).expect("a count"))
        .to_vec();
    assert_eq!(counts, [3, 2, 1, 1, 1, 0, 1]);
    assert_eq!(peer.run(doc! { "top": 1, "$db": "shop" }).get_i32("code").ok(), Some(13));
}

#[test]
fn sessions_are_listed() {
    use cairndb::bson::Binary;
    use cairndb::bson::spec::BinarySubtype;
    let fixture = Fixture::new();
    let mut peer = fixture.peer();
    let id = || Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
    peer.run(doc! { "ping": 1, "lsid": { "id": id() }, "$db": "shop" });
    let list = |peer: &mut Peer, target: Bson, options: Bson| {
        peer.run(doc! {
            "aggregate": target, "pipeline": [{ "$listLocalSessions": options }, { "$project": { "_id": "$_id.id" } }],
            "cursor": {}, "$db": "shop",
        })
    };
    for options in [bson!({}), bson!({ "allUsers": true })] {
        let listed = list(&mut peer, 1.into(), options);
        let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        assert_eq!(batch.expect("a batch"), &vec![bson!({ "_id": id() })]);
    }
    let of_ada = list(&mut peer, 1.into(), bson!({ "users": [{ "user": "ada", "db": "admin" }] }));
    let batch = of_ada.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    assert_eq!(batch.expect("a batch").len(), 0);
    let mut refused = |target: Bson, options: Bson, code: i32| {
        assert_eq!(list(&mut peer, target, options).get_i32("code").ok(), Some(code));
    };
    refused("a".into(), bson!({}), 73);
    refused(1.into(), bson!(1), 9);
    refused(1.into(), bson!({ "bogus": 1 }), 40_415);
    refused(1.into(), bson!({ "users": [{ "user": "ada" }] }), 40_414);
    refused(1.into(), bson!({ "users": [], "allUsers": true }), 72);
}

#[test]
fn current_op_has_the_options_of_mongodb() {
    let fixture = Fixture::new();
    let stages = bson!([{ "$currentOp": { "truncateOps": true, "localOps": true } }]);
    let reply = fixture.peer().run(doc! { "aggregate": 1, "pipeline": stages, "cursor": {}, "$db": "admin" });
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// MongoDB cuts commands of more than a kilobyte if `truncateOps` asks for it. Here a command is shown by its name alone.
#[test]
fn current_op_shows_no_command_at_length() {
    let fixture = Fixture::new();
    for truncate_ops in [true, false] {
        let stages = bson!([{ "$currentOp": { "truncateOps": truncate_ops } }]);
        let comment = "x".repeat(100_000);
        let list =
            doc! { "aggregate": 1, "pipeline": stages, "cursor": {}, "comment": comment, "$db": "admin" };
        let reply = fixture.peer().run(list);
        let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        // The command sees itself.
        let [Bson::Document(shown)] = batch.expect("a batch").as_slice() else { panic!("{reply}") };
        assert_eq!(shown.get_document("command").ok(), Some(&doc! { "aggregate": 1 }));
        assert!(encode(shown).len() < 1_000, "{shown}");
    }
}

#[test]
fn the_database_of_users_is_always_listed() {
    let reply = Fixture::new().peer().run(doc! { "listDatabases": 1, "$db": "admin" });
    assert_eq!(
        reply.get_array("databases").ok(),
        Some(&vec![bson!({ "name": "admin", "sizeOnDisk": 0_i64, "empty": true })])
    );
}
