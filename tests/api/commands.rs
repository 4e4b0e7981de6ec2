//! `run_command`: the replies of MongoDB's commands, and what is rejected.

use cairndb::bson::{Bson, Document, RawDocumentBuf, bson, doc};

use crate::{Fixture, refused};

/// Runs the commands one after the other on one database; the last one's reply, without `ok`.
#[track_caller]
fn check(commands: impl IntoIterator<Item = Document>, expected: Document) {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let replies = commands.into_iter().map(|command| db.run_command(command).run().expect("a reply"));
    let mut reply = replies.last().expect("a command");
    assert_eq!(reply.remove("ok"), Some(Bson::Double(1.0)));
    assert_eq!(reply, expected);
    fixture.verify_clean();
}

/// The last of the commands is rejected.
#[track_caller]
fn refuse(commands: impl IntoIterator<Item = Document>, code: i32, words: &str) {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let mut commands: Vec<Document> = commands.into_iter().collect();
    let last = commands.pop().expect("a command");
    for command in commands {
        db.run_command(command).run().expect("a reply");
    }
    refused(db.run_command(last).run(), code, words);
}

fn three() -> Document {
    doc! { "insert": "a", "documents": [{ "_id": 1, "n": 10 }, { "_id": 2, "n": 20 }, { "_id": 3, "n": 30 }] }
}

#[test]
fn documents_are_inserted_and_found() {
    check([three()], doc! { "n": 3 });
    let find = doc! { "find": "a", "filter": { "n": { "$gt": 10 } }, "sort": { "_id": -1 }, "projection": { "n": 1 },
    "limit": 5, "skip": 0, "batchSize": 1, "$db": "shop" };
    let batch = bson!([{ "_id": 3, "n": 30 }, { "_id": 2, "n": 20 }]);
    check([three(), find], doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": "shop.a" } });
    check([doc! { "find": "none" }], doc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": "shop.none" } });
    check([three(), doc! { "count": "a", "query": { "n": { "$lt": 25 } }, "limit": 1 }], doc! { "n": 1 });
    check(
        [three(), doc! { "distinct": "a", "key": "n", "query": { "_id": { "$lt": 3 } } }],
        doc! { "values": [10, 20] },
    );
}

#[test]
fn refused_documents_are_listed() {
    let insert = |ordered: bool| doc! { "insert": "a", "documents": [{ "_id": 4 }, { "_id": 2 }, { "_id": 5 }], "ordered": ordered };
    let taken = doc! {
        "index": 1,
        "code": 11000,
        "codeName": "DuplicateKey",
        "errmsg": "E11000 duplicate key error collection: shop.a index: _id_ dup key: { _id: 2 }",
        "keyPattern": { "_id": 1 },
        "keyValue": { "_id": 2 },
    };
    check([three(), insert(true)], doc! { "n": 1, "writeErrors": [taken.clone()] });
    check([three(), insert(false)], doc! { "n": 2, "writeErrors": [taken] });
}

#[test]
fn updates_count_what_they_match_change_and_insert() {
    let updates = bson!([
        { "q": { "n": { "$gt": 10 } }, "u": { "$inc": { "n": 1 } }, "multi": true },
        { "q": { "_id": 1 }, "u": { "n": 10 } },
        { "q": { "_id": 9 }, "u": [{ "$set": { "n": 1 } }], "upsert": true },
    ]);
    let expected = doc! { "n": 4, "nModified": 2, "upserted": [{ "index": 2, "_id": 9 }] };
    check([three(), doc! { "update": "a", "updates": updates }], expected);
    let updates = bson!([
        { "q": {}, "u": { "$bogus": 1 } },
        { "q": { "_id": 1 }, "u": { "$set": { "n": 0 } } },
    ]);
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(three()).run().unwrap();
    let reply = db.run_command(doc! { "update": "a", "updates": updates, "ordered": false }).run().unwrap();
    assert_eq!(reply.get_i32("nModified").ok(), Some(1));
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!((error.get_i32("index").ok(), error.get_i32("code").ok()), (Some(0), Some(9)));
}

#[test]
fn deletes_count_what_is_gone() {
    let deletes = bson!([{ "q": { "n": 10 }, "limit": 1 }, { "q": {}, "limit": 0 }]);
    check([three(), doc! { "delete": "a", "deletes": deletes }], doc! { "n": 3 });
    check([three(), doc! { "truncate": "a" }], doc! { "n": 3 });
}

#[test]
fn find_and_modify_tells_what_it_did() {
    let change = |more: Document| {
        let mut command = doc! { "findAndModify": "a", "query": { "_id": 2 } };
        command.extend(more);
        [three(), command]
    };
    check(
        change(doc! { "update": { "$inc": { "n": 1 } }, "new": true, "fields": { "n": 1, "_id": 0 } }),
        doc! { "lastErrorObject": { "n": 1, "updatedExisting": true }, "value": { "n": 21 } },
    );
    check(
        change(doc! { "remove": true }),
        doc! { "lastErrorObject": { "n": 1 }, "value": { "_id": 2, "n": 20 } },
    );
    check(
        change(doc! { "query": { "_id": 7 }, "update": { "n": 7 }, "upsert": true }),
        doc! { "lastErrorObject": { "n": 1, "updatedExisting": false, "upserted": 7 }, "value": null },
    );
    check(
        change(doc! { "query": { "_id": 7 }, "update": { "$set": { "n": 7 } } }),
        doc! { "lastErrorObject": { "n": 0, "updatedExisting": false }, "value": null },
    );
    refuse(change(doc! { "remove": true, "new": true }), 9, "remove");
    refuse(change(doc! {}), 9, "update or remove");
    refuse(change(doc! { "update": { "$set": { "_id": 3 } } }), 66, "_id");
}

#[test]
fn collections_are_made_listed_renamed_and_dropped() {
    check([doc! { "create": "a" }], doc! {});
    check([doc! { "create": "a" }, doc! { "create": "a" }], doc! {});
    refuse([doc! { "create": "a", "capped": true }], 72, "size");
    let list = doc! { "listCollections": 1, "filter": { "name": "a" }, "nameOnly": true };
    let batch = bson!([{ "name": "a", "type": "collection" }]);
    let cursor = doc! { "firstBatch": batch, "id": 0_i64, "ns": "shop.$cmd.listCollections" };
    check([doc! { "create": "a" }, doc! { "create": "b" }, list], doc! { "cursor": cursor });
    check([doc! { "create": "a" }, doc! { "drop": "a" }], doc! { "nIndexesWas": 1, "ns": "shop.a" });
    check([doc! { "drop": "a" }], doc! {});
    refuse([doc! { "create": "a" }, doc! { "renameCollection": "shop.a", "to": "shop.b" }], 13, "admin");
    let fixture = Fixture::with([doc! { "_id": 1 }]);
    let admin = fixture.client.database("admin");
    let namespace = fixture.things.namespace();
    let rename = doc! { "renameCollection": namespace.to_string(), "to": format!("{}.other", namespace.db) };
    admin.run_command(rename).run().expect("renamed");
    assert_eq!(fixture.client.database(&namespace.db).list_collection_names().run().unwrap(), ["other"]);
}

#[test]
fn indexes_are_made_listed_and_dropped() {
    let create = |name: &str| doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": name, "unique": true }] };
    let made = doc! { "numIndexesBefore": 1, "numIndexesAfter": 2, "createdCollectionAutomatically": true };
    check([create("by_n")], made);
    let batch = bson!([
        { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        { "v": 2, "key": { "n": 1 }, "name": "by_n", "unique": true },
    ]);
    let cursor = doc! { "firstBatch": batch, "id": 0_i64, "ns": "shop.a" };
    check([create("by_n"), doc! { "listIndexes": "a" }], doc! { "cursor": cursor });
    for index in [bson!("by_n"), bson!({ "n": 1 }), bson!("*"), bson!(["by_n"])] {
        check([create("by_n"), doc! { "dropIndexes": "a", "index": index }], doc! { "nIndexesWas": 2 });
    }
    refuse([create("by_n"), doc! { "dropIndexes": "a", "index": "none" }], 27, "none");
    refuse([doc! { "listIndexes": "a" }], 26, "shop.a");
    let weighed = doc! { "key": { "n": 1 }, "name": "n", "weights": {} };
    refuse([doc! { "createIndexes": "a", "indexes": [weighed] }], 238, "weights");
    refuse(
        [doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": "n", "bogus": 5 }] }],
        40415,
        "bogus",
    );
}

/// A driver's command for `create_index({_id: 1})`, and the options that it must not have.
#[test]
fn the_index_on_id_is_there_already() {
    let create = |index: Document| doc! { "createIndexes": "a", "indexes": [index] };
    let same = doc! { "key": { "_id": 1 }, "name": "_id_1", "v": 2 };
    let listed = doc! { "cursor": { "firstBatch": [{ "v": 2, "key": { "_id": 1 }, "name": "_id_" }],
    "id": 0_i64, "ns": "shop.a" } };
    check([create(same.clone()), doc! { "listIndexes": "a" }], listed);
    check(
        [doc! { "create": "a" }, create(same)],
        doc! { "numIndexesBefore": 1, "numIndexesAfter": 1, "createdCollectionAutomatically": false,
        "note": "all indexes already exist" },
    );
    for (option, value) in
        [("unique", bson!(true)), ("background", bson!(false)), ("expireAfterSeconds", bson!(5))]
    {
        let mut index = doc! { "key": { "_id": 1 }, "name": "_id_1" };
        index.insert(option, value.clone());
        let words = format!(
            "The field '{option}' is not valid for an _id index specification. \
             Specification: {{ key: {{ _id: 1 }}, name: \"_id_1\", {option}: {value}, v: 2 }}"
        );
        refuse([create(index)], 197, &words);
    }
    refuse([create(doc! { "key": { "_id": -1 }, "name": "a" })], 2, "must be {_id: 1}, but got { _id: -1 }");
    refuse([create(doc! { "key": { "b": 1 }, "name": "_id_" })], 2, "found key: { b: 1 }");
}

#[test]
fn options_of_indexes_that_nobody_knows_may_be_ignored() {
    let ignoring =
        |spec: Document| doc! { "createIndexes": "a", "indexes": [spec], "ignoreUnknownIndexOptions": true };
    check(
        [
            ignoring(doc! { "key": { "n": 1 }, "name": "n", "unique": true, "bogus": 5 }),
            doc! { "listIndexes": "a" },
        ],
        doc! { "cursor": { "firstBatch": [
            { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
            { "v": 2, "key": { "n": 1 }, "name": "n", "unique": true },
        ], "id": 0_i64, "ns": "shop.a" } },
    );
    // An option that is known and left out would mean another index.
    refuse([ignoring(doc! { "key": { "n": 1 }, "name": "n", "weights": {} })], 238, "weights");
    refuse([ignoring(doc! { "key": { "n": 1 }, "bogus": 5 })], 40_414, "name");
}

#[test]
fn generated_values_are_part_of_the_reply() {
    let create = || doc! { "create": "a", "autoIncrement": { "Field": "number", "StartValue": 7 } };
    let insert =
        doc! { "insert": "a", "documents": [{ "_id": 1 }, { "_id": 2, "number": 50_i64 }, { "_id": 3 }] };
    let generated = bson!([{ "number": 7_i64 }, {}, { "number": 51_i64 }]);
    check([create(), insert], doc! { "n": 3, "generated": generated, "lastGenerateID": 7_i64 });
    let list = doc! { "listAutoIncrements": "a" };
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(create()).run().unwrap();
    let reply = db.run_command(list).run().unwrap();
    let fields = reply.get_array("autoIncrements").unwrap();
    assert_eq!(fields[0].as_document().unwrap().get_str("Field").unwrap(), "number");
    db.run_command(doc! { "dropAutoIncrement": "a", "field": "number" }).run().unwrap();
    db.run_command(doc! { "createAutoIncrement": "a", "autoIncrement": [{ "Field": "x" }] }).run().unwrap();
    db.run_command(doc! { "alterAutoIncrement": "a", "autoIncrement": { "Field": "x", "Increment": 5 } })
        .run()
        .unwrap();
    let reply = db.run_command(doc! { "insert": "a", "documents": [{ "_id": 1 }] }).run().unwrap();
    assert!(reply.get_i64("lastGenerateID").is_ok());
}

#[test]
fn sequences_give_values() {
    let create = || doc! { "createSequence": "s", "options": { "StartValue": 5, "Increment": 5 } };
    let next = |n: i32| doc! { "sequenceNext": "s", "n": n };
    check([create(), next(3)], doc! { "NextValue": 5_i64, "ReturnNum": 3, "Increment": 5 });
    check([create(), next(3), doc! { "sequenceCurrent": "s" }], doc! { "CurrentValue": 15_i64 });
    let set = doc! { "sequenceSetCurrent": "s", "value": 100 };
    check([create(), set, next(1)], doc! { "NextValue": 105_i64, "ReturnNum": 1, "Increment": 5 });
    let restart = doc! { "sequenceRestart": "s", "value": 20 };
    check(
        [create(), next(1), restart, next(1)],
        doc! { "NextValue": 20_i64, "ReturnNum": 1, "Increment": 5 },
    );
    let alter = doc! { "alterSequence": "s", "options": { "Increment": 1 } };
    let rename = doc! { "renameSequence": "s", "to": "t" };
    check([create(), alter, rename, doc! { "listSequences": 1 }], doc! { "sequences": [{ "Name": "t" }] });
    check([create(), doc! { "dropSequence": "s" }, doc! { "listSequences": 1 }], doc! { "sequences": [] });
    check([create(), doc! { "sequenceGaps": "s" }], doc! { "gaps": [] });
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(create()).run().unwrap();
    let reply = db.run_command(doc! { "sequenceSnapshot": "s" }).run().unwrap();
    assert_eq!(reply.get_document("snapshot").unwrap().get_i64("StartValue").ok(), Some(5));
    db.run_command(doc! { "sequenceSetCurrent": "s", "value": 100 }).run().unwrap();
    let gaps = db.run_command(doc! { "sequenceGaps": "s" }).run().unwrap();
    assert_eq!(gaps.get_array("gaps").unwrap()[0].as_document().unwrap().get_i64("first").ok(), Some(5));
    let trace = db.run_command(doc! { "sequenceTrace": "s", "value": 50 }).run().unwrap();
    let trace = trace.get_document("trace").unwrap();
    assert_eq!((trace.get_str("verdict").unwrap(), trace.get_array("gaps").unwrap().len()), ("lost", 1));
    let missing = db.run_command(doc! { "sequenceNext": "none" }).run().expect_err("refused");
    assert_eq!(missing.sequoia_code(), Some(-324));
}

#[test]
fn unknown_commands_and_fields_are_told_from_those_that_are_not_here() {
    refuse([doc! { "bogus": 1 }], 59, "no such command: 'bogus'");
    refuse([doc! { "getMore": 5_i64, "collection": "a" }], 238, "getMore");
    refuse([doc! {}], 9, "empty");
    refuse([doc! { "find": "a", "bogus": 1 }], 40415, "BSON field 'find.bogus' is an unknown field.");
    refuse([doc! { "find": "a", "oplogReplay": true }], 238, "oplogReplay");
    refuse([doc! { "find": 5 }], 73, "find");
    refuse([doc! { "find": "a", "filter": 5 }], 14, "filter");
    refuse([doc! { "find": "a", "filter": { "$bogus": 1 } }], 2, "$bogus");
    refuse([doc! { "insert": "a", "documents": [] }], 16, "between 1 and 100000");
    refuse([doc! { "insert": "a", "documents": [{ "b": 1 }], "txnNumber": 1_i64 }], 238, "txnNumber");
    refuse([doc! { "insert": "a", "documents": [{ "b": 1 }], "maxTimeMS": -5 }], 51_024, "maxTimeMS");
    for field in ["limit", "skip", "batchSize"] {
        refuse(
            [doc! { "find": "a", field: -1 }],
            51_024,
            &format!("'{field}' value must be >= 0, actual value '-1'"),
        );
    }
}

/// A write concern that cannot be met once failed each statement of some commands, and was not looked at by others.
#[test]
fn a_write_concern_that_cannot_be_met_fails_every_command() {
    let commands = || {
        [
            doc! { "insert": "a", "documents": [{ "b": 1 }] },
            doc! { "update": "a", "updates": [{ "q": {}, "u": { "$set": { "b": 1 } } }] },
            doc! { "delete": "a", "deletes": [{ "q": {}, "limit": 0 }] },
            doc! { "findAndModify": "a", "remove": true },
            doc! { "create": "a" },
            doc! { "drop": "a" },
            doc! { "createIndexes": "a", "indexes": [{ "key": { "b": 1 }, "name": "b" }] },
            doc! { "dropIndexes": "a", "index": "*" },
            doc! { "dropDatabase": 1 },
            doc! { "aggregate": "a", "pipeline": [{ "$out": "b" }], "cursor": {} },
            doc! { "createSequence": "s" },
        ]
    };
    for (concern, code, message) in [
        (doc! { "w": 5 }, 2, "cannot use 'w' > 1 when a host is not replicated"),
        (doc! { "w": "eu" }, 2, "cannot use non-majority 'w' mode \"eu\""),
        (doc! { "w": 51 }, 9, "not greater than 50; found: 51"),
        (doc! { "w": -1 }, 9, "not greater than 50; found: -1"),
    ] {
        for mut command in commands() {
            command.insert("writeConcern", concern.clone());
            refuse([command], code, message);
        }
    }
    // Rejected commands left no trace.
    check([doc! { "listSequences": 1 }], doc! { "sequences": [] });
}

/// An unknown stage once failed its statement alone, which drivers distinguish from a command that failed.
#[test]
fn an_update_with_an_unknown_stage_fails_the_command() {
    let update = |stages: Bson| {
        let updates = bson!([{ "q": {}, "u": { "$set": { "n": 1 } } }, { "q": {}, "u": stages }]);
        doc! { "update": "a", "updates": updates }
    };
    refuse([three(), update(bson!([{ "$set": { "n": 1 } }, { "$sett": {} }]))], 40_324, "'$sett'");
    // The statement before it was not carried out either.
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(three()).run().expect("inserted");
    refused(db.run_command(update(bson!([{ "$sett": {} }]))).run(), 40_324, "'$sett'");
    let counted = db.run_command(doc! { "count": "a", "query": { "n": 1 } }).run().expect("a count");
    assert_eq!(counted.get_i32("n").ok(), Some(0));
    // A name that exists elsewhere is a rejection of the statement.
    let reply = |fixture: &Fixture| {
        let db = fixture.client.database("shop");
        db.run_command(update(bson!([{ "$match": {} }]))).run().expect("a reply")
    };
    assert_eq!(reply(&Fixture::new()).get_array("writeErrors").map(Vec::len).ok(), Some(1));
}

#[test]
fn change_streams_are_for_replica_sets() {
    let pipeline = bson!([{ "$changeStream": {} }]);
    refuse(
        [doc! { "aggregate": "a", "pipeline": pipeline, "cursor": {} }],
        40_573,
        "only supported on replica sets",
    );
}

#[test]
fn a_collection_has_a_uuid_that_stays() {
    let fixture = Fixture::new();
    let uuids = |client: &cairndb::Client| -> Vec<(String, Bson)> {
        let reply = client.database("shop").run_command(doc! { "listCollections": 1 }).run().unwrap();
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let of = |collection: &Bson| {
            let collection = collection.as_document().unwrap();
            let uuid = collection.get_document("info").unwrap().get("uuid").unwrap().clone();
            (collection.get_str("name").unwrap().to_owned(), uuid)
        };
        batch.iter().map(of).collect()
    };
    let shop = fixture.client.database("shop");
    for name in ["a", "b"] {
        shop.create_collection(name).run().unwrap();
    }
    let before = uuids(&fixture.client);
    assert_ne!(before[0].1, before[1].1);
    let Bson::Binary(uuid) = &before[0].1 else { panic!("a UUID is binary: {before:?}") };
    assert_eq!((uuid.bytes[6] >> 4, uuid.bytes[8] >> 6), (4, 2));
    let rename = doc! { "renameCollection": "shop.a", "to": "shop.c" };
    fixture.client.database("admin").run_command(rename).run().unwrap();
    let renamed = uuids(&fixture.client);
    assert_eq!(renamed.last(), Some(&("c".to_owned(), before[0].1.clone())));
    // A backup is the same store.
    let folder = tempfile::tempdir().unwrap();
    fixture.client.backup(folder.path().join("copy")).unwrap();
    let copy = cairndb::Client::open(folder.path().join("copy")).unwrap();
    assert_eq!(uuids(&copy), renamed);
    // Another collection of the same name, or of another store, has another.
    shop.create_collection("a").run().unwrap();
    assert_ne!(uuids(&fixture.client)[0].1, before[0].1);
    let other = Fixture::new();
    other.client.database("shop").create_collection("a").run().unwrap();
    assert_ne!(uuids(&other.client)[0].1, before[0].1);
}

/// Documents that lay only in the log and in memory once used no room, and neither did the index on `_id` ever.
#[test]
fn sizes_are_never_nothing() {
    let fixture = Fixture::new();
    let shop = fixture.client.database("shop");
    let stats = |shop: &cairndb::Database| shop.run_command(doc! { "collStats": "a" }).run().unwrap();
    shop.create_collection("a").run().unwrap();
    assert_eq!(stats(&shop).get_i64("storageSize").ok(), Some(4096));
    let index = doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": "n" }] };
    shop.run_command(index).run().unwrap();
    let things = shop.collection::<Document>("a");
    things
        .insert_many((0..1000).map(|id| doc! { "_id": id, "n": id, "text": "x".repeat(100) }))
        .run()
        .unwrap();
    let stats = stats(&shop);
    assert!(stats.get_i64("storageSize").unwrap() > 100_000, "{stats}");
    let indexes = stats.get_document("indexSizes").unwrap();
    for index in ["_id_", "n"] {
        assert!(indexes.get_i64(index).unwrap() >= 4096, "{stats}");
    }
    let whole = shop.run_command(doc! { "dbStats": 1 }).run().unwrap();
    assert!(whole.get_i64("indexSize").unwrap() >= 8192, "{whole}");
}

#[test]
fn what_mongodb_has_and_this_has_not_is_one_error() {
    for name in
        ["reIndex", "replSetInitiate", "applyOps", "createRole", "mapReduce", "shardCollection", "top"]
    {
        refuse([doc! { name: 1 }], 238, &format!("the command '{name}' is not supported"));
    }
    for name in ["atlasVersion", "bogus", "Find"] {
        refuse([doc! { name: 1 }], 59, &format!("no such command: '{name}'"));
    }
}

#[test]
fn an_unknown_option_of_an_index_is_named() {
    let create = |option: &str| {
        doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": "n", option: 1 }] }
    };
    refuse([create("bogus")], 40_415, "BSON field 'createIndexes.indexes.bogus' is an unknown field.");
    refuse([create("weights")], 238, "weights");
}

#[test]
fn a_collection_is_validated() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(three()).run().unwrap();
    let index =
        doc! { "createIndexes": "a", "indexes": [{ "key": { "m": 1 }, "name": "m", "sparse": true }] };
    db.run_command(index).run().unwrap();
    let reply = db.run_command(doc! { "validate": "a", "full": true }).run().unwrap();
    assert_eq!(
        reply,
        doc! {
            "ns": "shop.a", "nInvalidDocuments": 0_i64, "nNonCompliantDocuments": 0_i64, "nrecords": 3_i64, "nIndexes": 2,
            "keysPerIndex": { "_id_": 3_i64, "m": 0_i64 },
            "indexDetails": { "_id_": { "valid": true }, "m": { "valid": true } },
            "valid": true, "repaired": false, "warnings": [], "errors": [], "extraIndexEntries": [],
            "missingIndexEntries": [], "corruptRecords": [], "ok": 1.0,
        }
    );
    refuse([doc! { "validate": "none" }], 26, "shop.none");
    refuse([three(), doc! { "validate": "a", "repair": true }], 238, "repair");
    refuse([three(), doc! { "validate": "a", "full": "yes" }], 14, "full");
}

/// Sessions that were set to read a snapshot read the writes of others.
#[test]
fn snapshots_over_several_reads_are_refused() {
    for level in ["local", "available", "majority", "linearizable"] {
        check([doc! { "count": "a", "readConcern": { "level": level } }], doc! { "n": 0 });
    }
    for command in
        [doc! { "find": "a" }, doc! { "count": "a" }, doc! { "aggregate": "a", "pipeline": [], "cursor": {} }]
    {
        let mut command = command;
        command.insert("readConcern", doc! { "level": "snapshot" });
        refuse([command], 123, "readConcern: snapshot");
    }
}

/// A command may be larger than the largest document: it brings one, and says what to do with it.
#[test]
fn the_largest_document_fits_into_a_command() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let empty = doc! { "_id": 1, "text": "" }.to_vec().unwrap().len();
    let largest = || doc! { "_id": 1, "text": "x".repeat((16 << 20) - empty) };
    db.run_command(doc! { "insert": "a", "documents": [{ "_id": 1 }] }).run().unwrap();
    let updates = || vec![doc! { "q": { "_id": 1 }, "u": largest() }];
    let raw = RawDocumentBuf::try_from(&doc! { "update": "a", "updates": updates() }).unwrap();
    assert_eq!(db.run_raw_command(raw).run().unwrap(), doc! { "n": 1, "nModified": 1, "ok": 1.0 });
    let raw = RawDocumentBuf::try_from(&doc! { "update": "a", "updates": updates() }).unwrap();
    assert_eq!(db.run_raw_command(raw).run().unwrap(), doc! { "n": 1, "nModified": 0, "ok": 1.0 });
    let modify = doc! { "findAndModify": "a", "query": { "_id": 1 }, "update": largest() };
    let raw = RawDocumentBuf::try_from(&modify).unwrap();
    assert!(db.run_raw_command(raw).run().is_ok());
    let beyond = doc! { "update": "a", "updates": [{ "q": {}, "u": { "text": "x".repeat((16 << 20) + (17 << 10)) } }] };
    let raw = RawDocumentBuf::try_from(&beyond).unwrap();
    refused(db.run_raw_command(raw).run(), 22, "malformed");
}

#[test]
fn a_reply_holds_sixteen_megabytes() {
    let fixture = Fixture::with((0..3).map(|id| doc! { "_id": id, "text": "x".repeat(6 << 20) }));
    let db = fixture.client.database(&fixture.things.namespace().db);
    let find = |limit: i32| doc! { "find": fixture.things.name(), "limit": limit };
    assert!(db.run_command(find(2)).run().is_ok());
    refused(db.run_command(find(3)).run(), 10334, "getMore");
}

#[test]
fn raw_commands_are_run_as_well() {
    let fixture = Fixture::new();
    let ping = RawDocumentBuf::try_from(&doc! { "ping": 1 }).unwrap();
    assert_eq!(fixture.client.database("shop").run_raw_command(ping).run().unwrap(), doc! { "ok": 1.0 });
}

#[test]
fn documents_beside_a_command_are_its_batch() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    let raw = |command: Document| RawDocumentBuf::try_from(&command).unwrap();
    let beside = |documents: &[Document]| -> Vec<u8> {
        documents.iter().flat_map(|document| raw(document.clone()).into_bytes()).collect()
    };
    let insert = db
        .run_raw_command(raw(doc! { "insert": "a", "ordered": false }))
        .document_sequence("documents", beside(&[doc! { "_id": 1 }, doc! { "_id": 1 }, doc! { "_id": 2 }]));
    let reply = insert.run().unwrap();
    assert_eq!(reply.get_i32("n").ok(), Some(2));
    assert_eq!(reply.get_array("writeErrors").map(Vec::len).ok(), Some(1));
    let update = doc! { "q": { "_id": 2 }, "u": { "$set": { "n": 5 } } };
    let update =
        db.run_raw_command(raw(doc! { "update": "a" })).document_sequence("updates", beside(&[update]));
    assert_eq!(update.run().unwrap().get_i32("nModified").ok(), Some(1));
    let torn = db.run_raw_command(raw(doc! { "insert": "a" })).document_sequence("documents", &[9, 0, 0][..]);
    refused(torn.run(), 22, "beside");
    fixture.verify_clean();
}

#[test]
fn an_empty_batch_beside_a_command_is_refused_as_one_within() {
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    for (command, field) in [(doc! { "insert": "a" }, "documents"), (doc! { "delete": "a" }, "deletes")] {
        let raw = RawDocumentBuf::try_from(&command).expect("bytes");
        let beside = db.run_raw_command(raw).document_sequence(field, &[][..]).run();
        refused(beside, 16, "between 1 and 100000");
        let mut within = command;
        within.insert(field, Vec::<Bson>::new());
        refused(db.run_command(within).run(), 16, "between 1 and 100000");
    }
}

#[test]
fn cursor_commands_give_a_cursor() {
    let fixture = Fixture::with((0..300).map(|id| doc! { "_id": id }));
    let db = fixture.client.database(&fixture.things.namespace().db);
    let mut cursor = db.run_cursor_command(doc! { "find": fixture.things.name(), "limit": 2 }).run().unwrap();
    assert!(!cursor.is_exhausted());
    assert!(cursor.advance().unwrap() && cursor.advance().unwrap());
    assert!(cursor.is_exhausted());
    assert_eq!(db.run_cursor_command(doc! { "find": fixture.things.name() }).run().unwrap().count(), 300);
    let collections = db.run_cursor_command(doc! { "listCollections": 1 }).run().unwrap();
    assert_eq!(collections.count(), 1);
    let ping = db.run_cursor_command(doc! { "ping": 1 }).run();
    assert!(ping.is_err_and(|error| error.to_string().contains("'ping' opens no cursor")));
    refused(db.run_cursor_command(doc! { "bogus": 1 }).run(), 59, "bogus");
}

#[test]
fn databases_are_listed_measured_and_dropped() {
    let fixture = Fixture::new();
    let insert =
        doc! { "insert": "a", "documents": [{ "_id": 1, "text": "abc" }, { "_id": 2, "text": "def" }] };
    let db = fixture.client.database("shop");
    db.run_command(insert).run().unwrap();
    fixture.client.flush().unwrap();
    let admin = fixture.client.database("admin");
    let list = admin.run_command(doc! { "listDatabases": 1, "filter": { "name": "shop" } }).run().unwrap();
    let [shop] = list.get_array("databases").unwrap().as_slice() else { panic!("one database") };
    assert_eq!(shop.as_document().unwrap().get_str("name").ok(), Some("shop"));
    assert!(shop.as_document().unwrap().get_i64("sizeOnDisk").unwrap() > 0);
    let names = admin.run_command(doc! { "listDatabases": 1, "nameOnly": true }).run().unwrap();
    assert_eq!(names, doc! { "databases": [{ "name": "admin" }, { "name": "shop" }], "ok": 1.0 });
    refused(db.run_command(doc! { "listDatabases": 1 }).run(), 13, "admin");
    let listed = fixture.client.list_databases().run().unwrap();
    assert!(listed.len() == 1 && listed[0].name == "shop" && listed[0].size_on_disk > 0);

    let stats = db.run_command(doc! { "dbStats": 1 }).run().unwrap();
    assert_eq!((stats.get_i64("collections").ok(), stats.get_i64("objects").ok()), (Some(1), Some(2)));
    assert_eq!((stats.get_i64("dataSize").ok(), stats.get_i64("avgObjSize").ok()), (Some(56), Some(28)));
    let stats = db.run_command(doc! { "collStats": "a", "scale": 2 }).run().unwrap();
    assert_eq!((stats.get_i64("count").ok(), stats.get_i64("size").ok()), (Some(2), Some(28)));
    refused(db.run_command(doc! { "collStats": "none" }).run(), 26, "shop.none");
    refused(db.run_command(doc! { "dbStats": 1, "scale": 0 }).run(), 2, "scale");

    let drop = || db.run_command(doc! { "dropDatabase": 1 }).run().unwrap();
    assert_eq!(drop(), doc! { "dropped": "shop", "ok": 1.0 });
    assert_eq!(drop(), doc! { "ok": 1.0 });
}

#[test]
fn refused_sequence_values_are_named_in_write_errors_as_well() {
    let create = || doc! { "create": "a", "autoIncrement": { "Field": "n", "MaxValue": 2, "CacheSize": 1, "AcquireSize": 1 } };
    let upsert = |id: i32| doc! { "update": "a", "updates": [{ "q": { "_id": id }, "u": { "$set": { "x": 1 } }, "upsert": true }] };
    let fixture = Fixture::new();
    let db = fixture.client.database("shop");
    db.run_command(create()).run().unwrap();
    db.run_command(upsert(1)).run().unwrap();
    db.run_command(upsert(2)).run().unwrap();
    let reply = db.run_command(upsert(3)).run().unwrap();
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!(error.get_i32("sequoiaCode").ok(), Some(-325), "{error}");
    assert!(error.get_str("sequoiaName").is_ok());
}

#[test]
fn a_collection_is_modified_to_what_it_is_and_to_nothing_else() {
    let made = || {
        let index = |name: &str, unique: bool| doc! { "key": { name: 1 }, "name": name, "unique": unique };
        [three(), doc! { "createIndexes": "a", "indexes": [index("n", true), index("m", false)] }]
    };
    let modify = |option: Document| {
        let mut command = doc! { "collMod": "a" };
        command.extend(option);
        made().into_iter().chain([command])
    };
    for option in [
        doc! {},
        doc! { "validator": {}, "validationLevel": "moderate", "validationAction": "warn" },
        doc! { "changeStreamPreAndPostImages": { "enabled": true } },
        doc! { "changeStreamPreAndPostImages": { "enabled": false } },
        doc! { "index": { "name": "m", "hidden": false, "prepareUnique": false } },
        doc! { "index": { "keyPattern": { "n": 1 }, "unique": true } },
        doc! { "index": { "name": "_id_", "unique": true } },
    ] {
        check(modify(option), doc! {});
    }
    for (option, code, words) in [
        (doc! { "validator": { "$where": "true" } }, 238, "$where"),
        (doc! { "validator": 5 }, 14, "validator"),
        (doc! { "validationLevel": "some" }, 2, "validationLevel"),
        (doc! { "validationAction": "none" }, 2, "validationAction"),
        (doc! { "changeStreamPreAndPostImages": {} }, 40_414, "enabled"),
        (doc! { "index": {} }, 72, "name or key pattern"),
        (doc! { "index": { "name": "n", "keyPattern": { "n": 1 } } }, 72, "both"),
        (doc! { "index": { "name": "n" } }, 72, "hidden"),
        (doc! { "index": { "name": "none", "hidden": false } }, 27, "none"),
        (doc! { "index": { "name": "n", "prepareUnique": true } }, 238, "prepareUnique"),
        (doc! { "index": { "name": "n", "expireAfterSeconds": "5" } }, 14, "expireAfterSeconds"),
        (doc! { "index": { "name": "n", "unique": false } }, 2, "unique"),
        (doc! { "index": { "name": "m", "unique": true } }, 238, "unique"),
        (doc! { "index": { "name": "m", "bogus": true } }, 40_415, "bogus"),
        (doc! { "viewOn": "b", "pipeline": [] }, 72, "viewOn"),
        (doc! { "cappedSize": 4096 }, 72, "capped"),
        (doc! { "cappedMax": 5 }, 72, "capped"),
        (doc! { "timeseries": {} }, 238, "timeseries"),
        (doc! { "bogus": 1 }, 40_415, "bogus"),
    ] {
        refuse(modify(option), code, words);
    }
    refuse([doc! { "collMod": "none" }], 26, "none");
    refuse([doc! { "collMod": 5 }], 73, "collMod");
}

#[test]
fn a_collection_is_created_with_options_that_ask_for_nothing() {
    let nothing = doc! { "create": "a", "capped": false, "validator": {}, "validationLevel": "strict", "validationAction": "error", "changeStreamPreAndPostImages": { "enabled": false } };
    check([nothing], doc! {});
    check([doc! { "create": "a", "collation": { "locale": "simple" } }], doc! {});
    check([doc! { "create": "a", "collation": { "locale": "de" } }], doc! {});
    refuse([doc! { "create": "a", "collation": { "locale": "elvish" } }], 2, "'elvish'");
    let index = |locale: &str| doc! { "createIndexes": "a", "indexes": [{ "key": { "n": 1 }, "name": "n", "collation": { "locale": locale } }] };
    check(
        [three(), index("simple"), doc! { "find": "a", "min": {}, "max": {}, "limit": 1, "rawData": false }],
        doc! { "cursor": { "firstBatch": [{ "_id": 1, "n": 10 }], "id": 0_i64, "ns": "shop.a" } },
    );
    refuse([three(), doc! { "find": "a", "min": { "_id": 1 } }], 51_173, "hint");
    refuse([doc! { "listSearchIndexes": "a" }], 238, "listSearchIndexes");
    refuse([doc! { "create": "a", "validator": { "$where": "true" } }], 238, "$where");
    refuse([doc! { "create": "a", "validationAction": "none" }], 2, "validationAction");
}

/// The message called a well-formed command malformed, and repeated hundreds of characters of a path.
#[test]
fn a_command_that_is_nested_too_deeply_is_told_where_and_in_few_words() {
    let fixture = Fixture::new();
    let mut filter = doc! { "a": 1 };
    for _ in 0..100 {
        filter = doc! { "$and": [filter] };
    }
    let command = doc! { "aggregate": "things", "pipeline": [{ "$match": filter }], "cursor": {} };
    let command = RawDocumentBuf::try_from(&command).expect("a command");
    let error = refused(fixture.client.database("test").run_raw_command(command).run(), 15, "'pipeline'");
    let text = error.to_string();
    assert!(!text.contains("malformed") && text.contains("180 levels"), "{text}");
    assert!(text.chars().count() < 250, "{text}");
}
