//! The commands `backup` and `compact`: who may run them, where, and what they tell.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection};

use crate::Fixture;

fn fill(client: &Client) {
    let orders: Collection<Document> = client.database("shop").collection("orders");
    orders.insert_many((0..500).map(|id| doc! { "_id": id, "text": "x".repeat(100) })).run().expect("stored");
}

#[test]
fn backups_go_into_the_folder_of_the_server_and_are_stores() {
    let backups = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::over(fill, |builder| builder.backup_folder(backups.path()));
    let mut peer = fixture.peer();
    let whole = peer.run(doc! { "backup": 1, "name": "whole", "$db": "admin" });
    assert_eq!(whole.get_str("folder").ok(), Some("whole"), "{whole}");
    assert_eq!((whole.get_i64("documents").ok(), whole.get_i64("filesLinked").ok()), (Some(500), Some(0)));
    let mut folders = Vec::new();
    for _ in 0..3 {
        let reply = peer.run(
            doc! { "backup": 1, "name": "daily", "generations": 2, "maxTimeMS": 60_000, "$db": "admin" },
        );
        folders.push(reply.get_str("folder").unwrap_or_else(|_| panic!("{reply}")).to_owned());
        let removed = reply.get_array("removed").expect("a list");
        assert_eq!(removed.len(), folders.len().saturating_sub(2), "{reply}");
    }
    for copy in [backups.path().join("whole"), backups.path().join("daily").join(&folders[2])] {
        let copy = Client::open(copy).expect("a store");
        let orders: Collection<Document> = copy.database("shop").collection("orders");
        assert_eq!(orders.count_documents(doc! {}).run().expect("counted"), 500);
    }
}

#[test]
fn a_backup_that_cannot_be_meant_is_refused() {
    let backups = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::over(fill, |builder| builder.backup_folder(backups.path()));
    let mut peer = fixture.peer();
    let mut refused = |command: Document, database: &str, code: i32| {
        let mut command = command;
        command.insert("$db", database);
        let reply = peer.run(command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
    };
    refused(doc! { "backup": 1, "name": "daily" }, "shop", 13);
    refused(doc! { "backup": 1 }, "admin", 40_414);
    refused(doc! { "backup": 1, "name": 5 }, "admin", 14);
    refused(doc! { "backup": 1, "name": "daily", "path": "elsewhere" }, "admin", 40_415);
    refused(doc! { "backup": 1, "name": "daily", "generations": 0 }, "admin", 2);
    refused(doc! { "backup": 1, "name": "daily", "generations": -1 }, "admin", 51_024);
    for name in ["", "..", "a/b", "/a", ".hidden", "a.partial"] {
        refused(doc! { "backup": 1, "name": name }, "admin", 2);
    }
    assert_eq!(std::fs::read_dir(backups.path()).expect("listed").count(), 0);
    let without = Fixture::new();
    let reply = without.peer().run(doc! { "backup": 1, "name": "daily", "$db": "admin" });
    assert_eq!(reply.get_i32("code").ok(), Some(20), "{reply}");
}

#[test]
fn compactions_of_a_collection_and_of_everything_tell_what_is_free() {
    let fixture = Fixture::over(fill, |builder| builder);
    let mut peer = fixture.peer();
    let one = peer.run(doc! { "compact": "orders", "$db": "shop" });
    let all = peer.run(doc! { "compact": 1, "$db": "admin" });
    for reply in [one, all] {
        assert!(reply.get_i64("bytesBefore").is_ok_and(|bytes| bytes > 0), "{reply}");
        assert!(reply.get_i64("bytesFreed").is_ok_and(|bytes| bytes >= 0), "{reply}");
    }
    assert_eq!(peer.run(doc! { "compact": "missing", "$db": "shop" }).get_i32("code").ok(), Some(26));
}
