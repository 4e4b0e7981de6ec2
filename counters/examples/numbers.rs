//! One program for a store of CairnDB and for a MongoDB cluster: a Cargo feature says which crate it calls `store`.
//!
//! In a folder:
//! `cargo run --release -p cairndb-counters --example numbers`
//!
//! In a cluster, to which `cairn migrate` has moved the folder `numbers-data` that it left:
//! `cargo run --release -p cairndb-counters --example numbers --no-default-features --features mongodb -- URI`

use std::error::Error;
use std::io::Write;

use bson::{Document, doc};
#[cfg(not(feature = "mongodb"))]
use cairndb as store;
#[cfg(feature = "mongodb")]
use cairndb_counters::cluster as store;
use cairndb_counters::{Numbered, Numbers};

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1);
    let client = open(place.as_deref().unwrap_or("numbers-data"))?;
    let lines = sell(&client.database("shop"))?;
    for line in lines {
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    Ok(())
}

/// The application. Nothing of it knows where the numbers come from.
fn sell(shop: &store::Database) -> Result<Vec<String>, Box<dyn Error>> {
    let orders = shop.collection::<Document>("orders");
    let mut lines = Vec::new();
    for total in [20, 30] {
        let inserted = orders.insert_one_numbered(doc! { "total": total })?;
        let number = inserted.generated.get("number").copied().unwrap_or_default();
        lines.push(format!("order {number}, ticket {}", shop.next_value("tickets")?));
    }
    Ok(lines)
}

#[cfg(feature = "mongodb")]
fn open(uri: &str) -> cairndb_counters::Result<store::Client> {
    store::Client::with_uri_str(uri)
}

/// A new folder gets the sequences; in a cluster `cairn migrate` has made the counters.
#[cfg(not(feature = "mongodb"))]
fn open(folder: &str) -> store::Result<store::Client> {
    let client = store::Client::open(folder)?;
    let shop = client.database("shop");
    if shop.list_collection_names().run()?.is_empty() {
        let number = store::AutoIncrement::builder().field("number").build();
        shop.create_collection("orders").auto_increment(number).run()?;
        shop.create_sequence("tickets").start_value(1000).run()?;
    }
    Ok(client)
}
