//! Databases and collections, made, listed, renamed and dropped.

use mongodb::bson::{Document, doc};

use crate::{Served, refused};

#[test]
fn databases_and_collections_are_listed_and_dropped() {
    let served = Served::start();
    for (database, collection) in [("shop", "books"), ("shop", "pens"), ("site", "pages")] {
        served.client.database(database).collection(collection).insert_one(doc! { "_id": 1 }).run().unwrap();
    }
    assert_eq!(served.client.list_database_names().run().unwrap(), ["admin", "shop", "site"]);
    let listed = served.client.list_databases().run().unwrap();
    assert!(listed.iter().all(|database| database.empty == (database.name == "admin")), "{listed:?}");
    assert!(listed.iter().all(|database| database.empty || database.size_on_disk > 0), "{listed:?}");
    let shop = served.client.database("shop");
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(shop.list_collection_names().run().unwrap()), ["books", "pens"]);
    let only = shop.list_collections().filter(doc! { "name": "pens" }).run().unwrap();
    let only: Vec<_> = only.map(|collection| collection.unwrap().name).collect();
    assert_eq!(only, ["pens"]);
    shop.collection::<Document>("pens").drop().run().unwrap();
    shop.collection::<Document>("pens").drop().run().expect("what is not there is dropped without a word");
    assert_eq!(shop.list_collection_names().run().unwrap(), ["books"]);
    shop.drop().run().unwrap();
    assert_eq!(served.client.list_database_names().run().unwrap(), ["admin", "site"]);
    served.stop();
}

#[test]
fn a_collection_is_made_once_and_renamed() {
    let served = Served::start();
    let shop = served.client.database("shop");
    shop.create_collection("books").run().unwrap();
    shop.collection("books").insert_one(doc! { "_id": 1 }).run().unwrap();
    let rename = |from: &str, to: &str| {
        let command = doc! { "renameCollection": format!("shop.{from}"), "to": format!("shop.{to}") };
        served.client.database("admin").run_command(command).run()
    };
    rename("books", "novels").unwrap();
    assert_eq!(shop.collection::<Document>("novels").count_documents(doc! {}).run().unwrap(), 1);
    refused(rename("books", "poems"), 26, "shop.books");
    shop.create_collection("books").run().unwrap();
    refused(rename("books", "novels"), 48, "novels");
    served.stop();
}

#[test]
fn sizes_are_told() {
    let served = Served::with([doc! { "_id": 1, "text": "abc" }, doc! { "_id": 2, "text": "def" }]);
    let shop = served.client.database("shop");
    let of_collection = shop.run_command(doc! { "collStats": "things" }).run().unwrap();
    assert_eq!(
        (of_collection.get_i64("count").ok(), of_collection.get_i64("size").ok()),
        (Some(2), Some(56))
    );
    let of_database = shop.run_command(doc! { "dbStats": 1 }).run().unwrap();
    assert_eq!(
        (of_database.get_i64("objects").ok(), of_database.get_i64("collections").ok()),
        (Some(2), Some(1))
    );
    served.stop();
}
