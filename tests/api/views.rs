//! Views: every way to read one, what is rejected, and what a reader sees while one is changed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cairndb::bson::{Bson, Document, RawDocumentBuf, doc};
use cairndb::{Client, Collection, Database, Error, Hint, IndexModel};
use cairndb_tests::race::SetWhenDropped;
use cairndb_tests::scratch::Scratch;

use crate::{Fixture, all, refused};

const NO_VIEW: i32 = 166;

/// A shop with orders, and views of those that are open and of what was sold.
fn shop(client: &Client) -> Database {
    let shop = client.database("shop");
    let order = |id: i32, item: &str, count: i32, open: bool| {
        doc! { "_id": id, "item": item, "count": count, "open": open }
    };
    let orders = [
        order(1, "pen", 2, true),
        order(2, "ink", 1, false),
        order(3, "ink", 5, true),
        order(4, "pen", 4, true),
    ];
    shop.collection::<Document>("orders").insert_many(orders).run().expect("stored");
    shop.create_collection("open").view_on("orders").pipeline([matching("open", true)]).run().expect("made");
    let sold = doc! { "$group": { "_id": "$item", "sold": { "$sum": "$count" } } };
    shop.create_collection("sold").view_on("open").pipeline([sold]).run().expect("made");
    shop
}

fn matching(field: &str, value: impl Into<Bson>) -> Document {
    doc! { "$match": { field: value.into() } }
}

fn named(database: &Database, name: &str) -> Collection<Document> {
    database.collection(name)
}

#[track_caller]
fn ids(found: impl IntoIterator<Item = Result<Document, Error>>) -> Vec<Bson> {
    found.into_iter().map(|document| document.expect("a document").remove("_id").expect("an _id")).collect()
}

#[track_caller]
fn run(database: &Database, command: Document) -> Document {
    database.run_command(command).run().expect("run")
}

#[track_caller]
fn batch(database: &Database, command: Document) -> Vec<Document> {
    let reply = run(database, command);
    let batch =
        reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    batch.iter().map(|row| row.as_document().expect("a document").clone()).collect()
}

#[test]
fn every_read_of_a_view_runs_its_pipeline() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let (open, sold) = (named(&shop, "open"), named(&shop, "sold"));
    let found = open.find(doc! { "item": "pen" }).sort(doc! { "_id": -1 }).run().expect("a cursor");
    assert_eq!(ids(found), [4.into(), 1.into()]);
    let page = open
        .find(doc! {})
        .sort(doc! { "count": 1 })
        .skip(1)
        .limit(1)
        .projection(doc! { "_id": 1, "count": 1 });
    let page: Vec<Document> = page.run().expect("a cursor").collect::<Result<_, _>>().expect("documents");
    assert_eq!(page, [doc! { "_id": 4, "count": 4 }]);
    assert_eq!(
        open.find_one(doc! { "_id": 3 }).run().expect("read").map(|order| order.get_i32("count").ok()),
        Some(Some(5))
    );
    assert_eq!(open.find_one(doc! { "_id": 2 }).run().expect("read"), None, "it is not open");
    assert_eq!(
        open.find_one(doc! { "item": "ink" }).run().expect("read").map(|order| order.get_i32("_id").ok()),
        Some(Some(3))
    );
    assert_eq!(open.count_documents(doc! { "item": "pen" }).run().expect("counted"), 2);
    assert_eq!(open.count_documents(doc! {}).skip(1).limit(5).run().expect("counted"), 2);
    assert_eq!(open.estimated_document_count().run().expect("counted"), 3);
    assert_eq!(open.distinct("item", doc! {}).run().expect("read"), [Bson::from("pen"), "ink".into()]);
    assert_eq!(
        open.distinct("item", doc! { "count": { "$gt": 4 } }).run().expect("read"),
        [Bson::from("ink")]
    );
    let totals = sold.aggregate([doc! { "$sort": { "_id": 1 } }]).run().expect("a cursor");
    let totals: Vec<Document> = totals.collect::<Result<_, _>>().expect("documents");
    assert_eq!(totals, [doc! { "_id": "ink", "sold": 5 }, doc! { "_id": "pen", "sold": 6 }]);
    assert_eq!(
        sold.find_one(doc! { "sold": { "$gt": 5 } }).run().expect("read"),
        Some(doc! { "_id": "pen", "sold": 6 })
    );
    let raw: Option<RawDocumentBuf> =
        sold.clone_with_type().find_one(doc! { "_id": "ink" }).run().expect("read");
    assert!(raw.is_some());
    fixture.verify_clean();
}

#[test]
fn commands_read_views_as_they_read_collections() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let found =
        batch(&shop, doc! { "find": "open", "filter": { "count": { "$gt": 2 } }, "sort": { "_id": 1 } });
    assert_eq!(found.len(), 2);
    assert_eq!(run(&shop, doc! { "count": "open" }).get_i32("n").ok(), Some(3));
    assert_eq!(run(&shop, doc! { "count": "open", "query": { "item": "ink" } }).get_i32("n").ok(), Some(1));
    let values = run(&shop, doc! { "distinct": "open", "key": "item" });
    assert_eq!(values.get_array("values").expect("values").len(), 2);
    let counted = batch(&shop, doc! { "aggregate": "sold", "pipeline": [{ "$count": "n" }], "cursor": {} });
    assert_eq!(counted, [doc! { "n": 2 }]);
    let listed = batch(&shop, doc! { "listCollections": 1 });
    let told: Vec<_> = listed
        .iter()
        .map(|entry| (entry.get_str("name").expect("a name"), entry.get_str("type").expect("a type")))
        .collect();
    assert_eq!(told, [("open", "view"), ("orders", "collection"), ("sold", "view")]);
    let options = listed[0].get_document("options").expect("options");
    assert_eq!(*options, doc! { "viewOn": "orders", "pipeline": [{ "$match": { "open": true } }] });
    assert_eq!(listed[0].get_document("info").ok(), Some(&doc! { "readOnly": true }));
    let names = batch(&shop, doc! { "listCollections": 1, "nameOnly": true, "filter": { "type": "view" } });
    assert_eq!(names, [doc! { "name": "open", "type": "view" }, doc! { "name": "sold", "type": "view" }]);
    assert_eq!(shop.list_collection_names().run().expect("listed"), ["open", "orders", "sold"]);
    let stats = run(&shop, doc! { "dbStats": 1 });
    assert_eq!((stats.get_i64("collections").ok(), stats.get_i64("views").ok()), (Some(1), Some(2)));
}

#[test]
fn a_filter_on_a_view_uses_an_index_only_where_it_is_right() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    named(&shop, "orders")
        .create_index(IndexModel::builder().keys(doc! { "item": 1 }).build())
        .run()
        .expect("made");
    let explain =
        |find: Document| run(&shop, doc! { "explain": find, "verbosity": "executionStats" }).to_string();
    // The stages before it only filter, so both filters are one search.
    let plan = explain(doc! { "find": "open", "filter": { "item": "ink" } });
    assert!(plan.contains("IXSCAN") && plan.contains("shop.orders"), "{plan}");
    let plan = explain(doc! { "distinct": "open", "key": "item", "query": { "item": "ink" } });
    assert!(plan.contains("IXSCAN"), "{plan}");
    let plan = explain(doc! { "count": "open", "query": { "item": "ink" } });
    assert!(plan.contains("IXSCAN"), "{plan}");
    let plan =
        explain(doc! { "aggregate": "open", "pipeline": [{ "$match": { "item": "ink" } }], "cursor": {} });
    assert!(plan.contains("IXSCAN"), "{plan}");
    // The views that it goes through are named, from the one that was asked for down.
    let views = |command: Document| {
        let reply = run(&shop, doc! { "explain": command, "verbosity": "queryPlanner" });
        let names = reply.get_array("views").cloned();
        names
            .map(|names| {
                names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect::<Vec<_>>()
            })
            .ok()
    };
    let both = vec!["shop.sold".to_owned(), "shop.open".to_owned()];
    assert_eq!(views(doc! { "find": "sold" }), Some(both.clone()));
    assert_eq!(views(doc! { "count": "sold" }), Some(both.clone()));
    assert_eq!(views(doc! { "distinct": "sold", "key": "sold" }), Some(both.clone()));
    assert_eq!(views(doc! { "aggregate": "sold", "pipeline": [{ "$limit": 1 }], "cursor": {} }), Some(both));
    assert_eq!(views(doc! { "find": "open" }), Some(vec!["shop.open".to_owned()]));
    assert_eq!(views(doc! { "find": "orders" }), None);
    // Here `item` is another field than that of the documents, and the limit comes before the filter.
    let renamed = doc! { "$set": { "item": { "$concat": ["$item", "!"] } } };
    shop.create_collection("renamed").view_on("orders").pipeline([renamed]).run().expect("made");
    let first = [doc! { "$sort": { "_id": 1 } }, doc! { "$limit": 1 }];
    shop.create_collection("first").view_on("orders").pipeline(first).run().expect("made");
    let plan = explain(doc! { "find": "renamed", "filter": { "item": "ink!" } });
    assert!(!plan.contains("IXSCAN"), "{plan}");
    assert_eq!(named(&shop, "renamed").count_documents(doc! { "item": "ink!" }).run().expect("counted"), 2);
    assert_eq!(named(&shop, "first").count_documents(doc! { "item": "ink" }).run().expect("counted"), 0);
    // A hint is for the collection.
    let hinted = |name: &str| named(&shop, "open").find(doc! {}).hint(Hint::Name(name.to_owned())).run();
    assert_eq!(hinted("item_1").expect("a cursor").count(), 3);
    refused(hinted("none"), 2, "none");
    // A sort by `$natural` asks for the order of the collection, and wins over a hint as in a search of the collection.
    for (sort, expected) in [(doc! { "$natural": 1 }, [1, 3, 4]), (doc! { "$natural": -1.0 }, [4, 3, 1])] {
        let found = named(&shop, "open").find(doc! {}).sort(sort.clone()).run().expect("a cursor");
        assert_eq!(ids(found), expected.map(Bson::from));
        let hint = Hint::Name("item_1".to_owned());
        let found = named(&shop, "open").find(doc! {}).sort(sort.clone()).hint(hint).run().expect("a cursor");
        assert_eq!(ids(found), expected.map(Bson::from));
        let found = batch(&shop, doc! { "find": "open", "sort": sort, "limit": 2, "skip": 1 });
        assert_eq!(ids(found.into_iter().map(Ok)), [expected[1].into(), expected[2].into()]);
    }
    for sort in [doc! { "$natural": 0 }, doc! { "$natural": 1, "item": 1 }] {
        refused(named(&shop, "open").find(doc! {}).sort(sort).run().map(drop), 2, "$natural");
    }
}

#[test]
fn joins_and_unions_read_views() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let items = named(&shop, "items");
    items
        .insert_many([doc! { "_id": "ink" }, doc! { "_id": "nib" }, doc! { "_id": "pen" }])
        .run()
        .expect("stored");
    let join = |from: &str, field: &str| {
        doc! { "$lookup": { "from": from, "localField": "_id", "foreignField": field, "as": "found" } }
    };
    let counts = |from: &str, field: &str| {
        let joined = items.aggregate([join(from, field)]).run().expect("a cursor");
        joined
            .map(|item| item.expect("an item").get_array("found").expect("an array").len())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts("open", "item"), [1, 0, 2]);
    assert_eq!(counts("sold", "_id"), [1, 0, 1]);
    // The same by an index of the collection below the view.
    named(&shop, "orders")
        .create_index(IndexModel::builder().keys(doc! { "item": 1 }).build())
        .run()
        .expect("made");
    assert_eq!(counts("open", "item"), [1, 0, 2]);
    let correlated = doc! { "$lookup": {
        "from": "sold", "let": { "item": "$_id" }, "as": "found",
        "pipeline": [{ "$match": { "$expr": { "$eq": ["$_id", "$$item"] } } }, { "$project": { "_id": 0 } }],
    } };
    let joined: Vec<Document> =
        items.aggregate([correlated]).run().expect("a cursor").collect::<Result<_, _>>().expect("items");
    assert_eq!(joined[2], doc! { "_id": "pen", "found": [{ "sold": 6 }] });
    let union = doc! { "$unionWith": { "coll": "open", "pipeline": [{ "$match": { "item": "pen" } }] } };
    assert_eq!(ids(named(&shop, "sold").aggregate([union]).run().expect("a cursor")).len(), 4);
    // A view may join another view, and be joined itself.
    let described = [
        join("sold", "_id"),
        doc! { "$set": { "sold": { "$sum": "$found.sold" } } },
        doc! { "$unset": "found" },
    ];
    shop.create_collection("described").view_on("items").pipeline(described).run().expect("made");
    assert_eq!(
        named(&shop, "described").find_one(doc! { "_id": "pen" }).run().expect("read"),
        Some(doc! { "_id": "pen", "sold": 6 })
    );
    let of_view = doc! { "$lookup": { "from": "described", "localField": "item", "foreignField": "_id", "as": "about" } };
    let joined =
        named(&shop, "open").aggregate([of_view, matching("about.sold", 6)]).run().expect("a cursor");
    assert_eq!(ids(joined), [1.into(), 4.into()]);
    let on_database = [doc! { "$documents": [{ "_id": "ink" }] }, join("sold", "_id")];
    let joined: Vec<Document> =
        shop.aggregate(on_database).run().expect("a cursor").collect::<Result<_, _>>().expect("documents");
    assert_eq!(joined, [doc! { "_id": "ink", "found": [{ "_id": "ink", "sold": 5 }] }]);
    fixture.verify_clean();
}

#[test]
fn a_graph_is_searched_in_a_view() {
    let fixture = Fixture::new();
    let firm = fixture.client.database("firm");
    let staff = named(&firm, "staff");
    let person =
        |id: i32, boss: Option<i32>, left: bool| doc! { "_id": id, "key": id, "boss": boss, "left": left };
    let people = [
        person(1, None, false),
        person(2, Some(1), false),
        person(3, Some(2), true),
        person(4, Some(3), false),
    ];
    staff.insert_many(people).run().expect("stored");
    firm.create_collection("present")
        .view_on("staff")
        .pipeline([matching("left", false)])
        .run()
        .expect("made");
    let bosses = |from: &str, of: i32| {
        let search = doc! { "$graphLookup": {
            "from": from, "startWith": "$boss", "connectFromField": "boss", "connectToField": "key", "as": "bosses",
        } };
        let each =
            [matching("_id", of), search, doc! { "$unwind": "$bosses" }, doc! { "$replaceWith": "$bosses" }];
        ids(staff.aggregate(each).run().expect("a cursor"))
    };
    let expected = |ids: &[i32]| ids.iter().map(|id| Bson::from(*id)).collect::<Vec<_>>();
    for indexed in [false, true] {
        assert_eq!(bosses("staff", 4), expected(&[3, 2, 1]), "indexed: {indexed}");
        assert_eq!(bosses("present", 4), expected(&[]), "one who has left leads nowhere; indexed: {indexed}");
        assert_eq!(bosses("present", 3), expected(&[2, 1]), "indexed: {indexed}");
        staff.create_index(IndexModel::builder().keys(doc! { "key": 1 }).build()).run().expect("made");
    }
}

#[test]
fn writes_to_a_view_are_refused_and_change_nothing() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let open = named(&shop, "open");
    let before = all(&open);
    let words = "Namespace shop.open is a view, not a collection";
    let set = doc! { "$set": { "a": 1 } };
    refused(open.insert_one(doc! { "_id": 9 }).run(), NO_VIEW, words);
    refused(open.insert_many([doc! { "_id": 9 }, doc! { "_id": 10 }]).run(), NO_VIEW, words);
    refused(open.update_one(doc! {}, set.clone()).run(), NO_VIEW, words);
    refused(open.update_many(doc! {}, set.clone()).upsert(true).run(), NO_VIEW, words);
    refused(open.replace_one(doc! {}, doc! { "a": 1 }).run(), NO_VIEW, words);
    refused(open.delete_one(doc! {}).run(), NO_VIEW, words);
    refused(open.delete_many(doc! {}).run(), NO_VIEW, words);
    refused(open.find_one_and_update(doc! {}, set.clone()).run(), NO_VIEW, words);
    refused(open.find_one_and_replace(doc! {}, doc! { "a": 1 }).run(), NO_VIEW, words);
    refused(open.find_one_and_delete(doc! {}).run(), NO_VIEW, words);
    refused(open.truncate().run(), NO_VIEW, words);
    let index = || IndexModel::builder().keys(doc! { "a": 1 }).build();
    refused(open.create_index(index()).run(), NO_VIEW, words);
    refused(open.list_indexes().run().map(drop), NO_VIEW, words);
    refused(open.list_index_names().run(), NO_VIEW, words);
    refused(open.drop_index("a_1").run(), NO_VIEW, words);
    refused(open.drop_indexes().run(), NO_VIEW, words);
    refused(open.stats().run(), NO_VIEW, words);
    refused(open.rename("other").run(), NO_VIEW, words);
    refused(shop.modify_collection("open").validator(doc! { "a": 1 }).run(), NO_VIEW, words);
    let number = cairndb::AutoIncrement::builder().field("number").build();
    refused(open.create_auto_increment(number).run(), NO_VIEW, words);
    for command in [
        doc! { "insert": "open", "documents": [{ "_id": 9 }] },
        doc! { "collStats": "open" },
        doc! { "validate": "open" },
        doc! { "listIndexes": "open" },
        doc! { "createIndexes": "open", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        doc! { "dropIndexes": "open", "index": "*" },
        doc! { "collMod": "open", "index": { "name": "a", "hidden": true } },
        doc! { "aggregate": "open", "pipeline": [{ "$indexStats": {} }], "cursor": {} },
        doc! { "aggregate": "open", "pipeline": [{ "$collStats": { "count": {} } }], "cursor": {} },
    ] {
        refused(shop.run_command(command).run(), NO_VIEW, "view");
    }
    for command in [
        doc! { "update": "open", "updates": [{ "q": {}, "u": set }] },
        doc! { "delete": "open", "deletes": [{ "q": {}, "limit": 0 }] },
    ] {
        let reply = run(&shop, command);
        let errors = reply.get_array("writeErrors").expect("errors");
        assert_eq!(
            errors[0].as_document().and_then(|error| error.get_i32("code").ok()),
            Some(NO_VIEW),
            "{reply}"
        );
    }
    assert_eq!(all(&open), before);
    assert_eq!(shop.list_collection_names().run().expect("listed"), ["open", "orders", "sold"]);
    fixture.verify_clean();
}

#[test]
fn names_belong_to_one_view_or_one_collection() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let again = || shop.create_collection("open").view_on("orders").pipeline([matching("open", true)]);
    again().run().expect("the same view");
    refused(shop.create_collection("open").view_on("orders").run(), 48, "already exists");
    refused(shop.create_collection("open").run(), 48, "already exists");
    refused(shop.create_collection("orders").view_on("items").run(), 48, "already exists");
    refused(named(&shop, "orders").rename("open").run(), 48, "view already exists");
    refused(named(&shop, "orders").rename("open").drop_target(true).run(), 48, "view already exists");
    refused(shop.create_collection("x").pipeline([]).run(), 72, "viewOn");
    refused(shop.create_collection("x").view_on("y").validator(doc! { "a": 1 }).run(), 72, "validator");
    for name in ["system.views", "a$b", "a\0b", "", ".a"] {
        refused(shop.create_collection(name).view_on("orders").run(), 73, "name");
        refused(shop.create_collection("x").view_on(name).run(), 73, "name");
    }
    let foreign = doc! { "$lookup": { "from": "system.users", "pipeline": [], "as": "a" } };
    refused(shop.create_collection("x").view_on("orders").pipeline([foreign]).run(), 73, "system.users");
    // A name may have any other character.
    let odd = "o'p\"e\\n 🗄️ {}%s\n";
    shop.create_collection(odd).view_on("orders").run().expect("made");
    assert_eq!(named(&shop, odd).count_documents(doc! {}).run().expect("counted"), 4);
    named(&shop, odd).drop().run().expect("dropped");
    // A view that was dropped leaves its name to a collection, and the other way round.
    let open = named(&shop, "open");
    assert_eq!(run(&shop, doc! { "drop": "open" }), doc! { "ns": "shop.open", "ok": 1.0 });
    assert_eq!(open.count_documents(doc! {}).run().expect("counted"), 0);
    open.insert_one(doc! { "_id": 7 }).run().expect("a collection now");
    assert_eq!(all(&open), [doc! { "_id": 7 }]);
    open.drop().run().expect("dropped");
    again().run().expect("a view again");
    assert_eq!(all(&open).len(), 3);
    assert_eq!(run(&shop, doc! { "dropDatabase": 1 }).get_str("dropped").ok(), Some("shop"));
    assert!(fixture.client.list_database_names().run().expect("listed").iter().all(|name| name != "shop"));
    fixture.verify_clean();
}

#[test]
fn pipelines_that_no_view_can_have_are_refused() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let nested = |stage: Document| doc! { "$lookup": { "from": "orders", "pipeline": [stage], "as": "a" } };
    for (stage, code, words) in [
        (doc! { "$out": "x" }, 167, "$out"),
        (doc! { "$merge": { "into": "x" } }, 167, "$merge"),
        (nested(doc! { "$merge": { "into": "x" } }), 167, "$merge"),
        (doc! { "$facet": { "a": [{ "$out": "x" }] } }, 167, "$out"),
        (doc! { "$collStats": {} }, 167, "$collStats"),
        (doc! { "$indexStats": {} }, 167, "$indexStats"),
        (doc! { "$documents": [] }, 167, "$documents"),
        (doc! { "$matches": {} }, 40_324, "$matches"),
        (doc! { "$match": { "$expr": "$$unknown" } }, 17_276, "unknown"),
    ] {
        refused(shop.create_collection("x").view_on("orders").pipeline([stage.clone()]).run(), code, words);
        refused(shop.modify_collection("open").pipeline([stage]).run(), code, words);
    }
    refused(shop.run_command(doc! { "create": "x", "viewOn": 5 }).run(), 14, "viewOn");
    refused(shop.run_command(doc! { "collMod": "orders", "viewOn": "a" }).run(), 72, "collection");
    refused(shop.run_command(doc! { "collMod": "none", "viewOn": "a" }).run(), 26, "none");
    let skips = |count: usize| vec![doc! { "$skip": 1_i64 }; count];
    refused(shop.create_collection("x").view_on("orders").pipeline(skips(1_001)).run(), 7_749_501, "");
    assert_eq!(shop.list_collection_names().run().expect("listed"), ["open", "orders", "sold"]);
    // A thousand stages are a view, and the stages of a reader would be too many.
    shop.create_collection("long").view_on("orders").pipeline(skips(1_000)).run().expect("made");
    assert_eq!(named(&shop, "long").aggregate([]).run().expect("a cursor").count(), 0);
    refused(named(&shop, "long").find(doc! {}).run().map(drop), 7_749_501, "");
    fixture.verify_clean();
}

#[test]
fn options_that_are_about_keys_are_refused_on_a_view() {
    let fixture = Fixture::new();
    let shop = shop(&fixture.client);
    let open = named(&shop, "open");
    let by_id = || Hint::Keys(doc! { "_id": 1 });
    refused(open.find(doc! {}).hint(by_id()).min(doc! { "_id": 1 }).run().map(drop), 168, "min");
    refused(open.find(doc! {}).hint(by_id()).max(doc! { "_id": 1 }).run().map(drop), 168, "max");
    refused(open.find(doc! {}).return_key(true).run().map(drop), 168, "returnKey");
    refused(open.find(doc! {}).show_record_id(true).run().map(drop), 168, "showRecordId");
    // As MongoDB's documentation has it, `$elemMatch` is none of a view's projections.
    let matching = doc! { "tags": { "$elemMatch": { "$eq": 1 } } };
    assert!(open.find(doc! {}).projection(matching).run().is_err());
}

#[test]
fn views_stand_on_each_other_up_to_a_depth_and_in_no_circle() {
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    named(&app, "v0").insert_one(doc! { "_id": 1, "n": 0 }).run().expect("stored");
    let more = || [doc! { "$set": { "n": { "$add": ["$n", 1] } } }];
    for at in 1..=20 {
        let create = app.create_collection(format!("v{at}")).view_on(format!("v{}", at - 1));
        create.pipeline(more()).run().expect("made");
    }
    assert_eq!(all(&named(&app, "v20")), [doc! { "_id": 1, "n": 20 }]);
    refused(app.create_collection("v21").view_on("v20").run(), 165, "maximum depth is 20");
    // By a join as well, and from below: the lowest view would raise all above it.
    let join = doc! { "$lookup": { "from": "v20", "pipeline": [], "as": "a" } };
    refused(app.create_collection("w").view_on("v0").pipeline([join]).run(), 165, "maximum depth is 20");
    app.create_collection("below").view_on("v0").run().expect("made");
    refused(app.modify_collection("v1").view_on("below").run(), 165, "maximum depth is 20");
    // Circles: by itself, by several, by a join, and with names that are taken later.
    refused(app.create_collection("self").view_on("self").run(), 5, "cycle");
    app.create_collection("a").view_on("b").run().expect("`b` is not there yet");
    refused(app.create_collection("b").view_on("a").run(), 5, "cycle");
    let join = doc! { "$unionWith": "a" };
    refused(app.create_collection("b").view_on("v0").pipeline([join]).run(), 5, "cycle");
    refused(app.modify_collection("a").view_on("a").run(), 5, "cycle");
    assert_eq!(all(&named(&app, "a")), Vec::<Document>::new());
    // A collection that is renamed to what a view is on is a collection.
    named(&app, "v0").rename("b").run().expect("renamed");
    assert_eq!(all(&named(&app, "a")), [doc! { "_id": 1, "n": 0 }]);
    assert_eq!(all(&named(&app, "v20")), Vec::<Document>::new(), "its source is gone");
    fixture.verify_clean();
}

#[test]
fn views_are_there_after_an_open_and_a_kill_and_in_what_is_rescued() {
    let scratch = Scratch::new();
    let client = scratch.open();
    let shop_of = |client: &Client| client.database("shop");
    shop(&client);
    shop_of(&client).modify_collection("open").pipeline([matching("item", "ink")]).run().expect("changed");
    shop_of(&client).create_collection("gone").view_on("orders").run().expect("made");
    shop_of(&client).collection::<Document>("gone").drop().run().expect("dropped");
    let killed = scratch.killed();
    client.close().expect("closed");
    let new = Scratch::new();
    let report = cairndb::salvage(scratch.path(), new.path()).run().expect("salvaged");
    assert!(report.is_complete(), "{report:?}");
    for scratch in [&scratch, &killed, &new] {
        let client = scratch.open();
        let shop = shop_of(&client);
        assert_eq!(shop.list_collection_names().run().expect("listed"), ["open", "orders", "sold"]);
        assert_eq!(ids(named(&shop, "open").find(doc! {}).run().expect("a cursor")), [2.into(), 3.into()]);
        assert_eq!(all(&named(&shop, "sold")), [doc! { "_id": "ink", "sold": 6 }]);
        refused(named(&shop, "open").insert_one(doc! {}).run(), NO_VIEW, "view");
        refused(shop.create_collection("orders").view_on("sold").run(), 48, "");
        crate::verify_clean(&client);
        client.close().expect("closed");
    }
}

/// A view reads one of two collections in turns; that one is replaced by a rename, and the other one dropped and filled again. A
/// reader must see three documents at any time, never an old definition on a collection that is gone.
#[test]
fn a_reader_sees_the_old_definition_or_the_new_one() {
    const ROUNDS: usize = 60;
    let fixture = Fixture::new();
    let app = fixture.client.database("app");
    let fill = |name: &str| {
        let documents = (0..3).map(|id| doc! { "_id": id, "of": name });
        named(&app, name).insert_many(documents).run().expect("stored");
    };
    fill("left");
    app.create_collection("shown").view_on("left").run().expect("made");
    app.create_collection("above")
        .view_on("shown")
        .pipeline([matching("_id", doc! { "$lt": 3 })])
        .run()
        .expect("made");
    let is_over = AtomicBool::new(false);
    let seen: Vec<Vec<usize>> = thread::scope(|scope| {
        let _ended = SetWhenDropped(&is_over);
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (app, is_over) = (&app, &is_over);
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        seen.push(count_shown(app, reader));
                    }
                    seen
                })
            })
            .collect();
        for round in 0..ROUNDS {
            let (old, new) = if round % 2 == 0 { ("left", "right") } else { ("right", "left") };
            // First the documents below the view are replaced in one step, and then what it reads.
            fill("next");
            named(&app, "next").rename(old).drop_target(true).run().expect("renamed");
            fill(new);
            app.modify_collection("shown").view_on(new).run().expect("changed");
            named(&app, old).drop().run().expect("dropped");
        }
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().expect("it read")).collect()
    });
    for counts in seen {
        assert!(counts.iter().all(|count| *count == 3), "{counts:?}");
    }
    fixture.verify_clean();
}

/// The number of documents that a reader sees: by a search, through another view, as a join, and counted.
fn count_shown(app: &Database, reader: usize) -> usize {
    match reader {
        0 => named(app, "shown").find(doc! {}).run().expect("a cursor").count(),
        1 => named(app, "above").find(doc! {}).run().expect("a cursor").count(),
        2 => {
            let join = doc! { "$lookup": { "from": "above", "pipeline": [], "as": "all" } };
            let joined = app.aggregate([doc! { "$documents": [{}] }, join]).run().expect("a cursor");
            let counts = joined.map(|row| row.expect("a row").get_array("all").expect("an array").len());
            counts.sum()
        }
        _ => usize::try_from(named(app, "shown").count_documents(doc! {}).run().expect("counted"))
            .expect("small"),
    }
}
