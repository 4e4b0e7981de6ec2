//! The application of `shop.rs` with a store of CairnDB, in the folder `numbers-data` or another:
//! `cargo run --release -p cairndb-counters --example numbers -- FOLDER`

mod shop;

use std::error::Error;

use cairndb as store;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1);
    let client = open(folder.as_deref().unwrap_or("numbers-data"))?;
    shop::sell(&client.database("shop"))
}

/// A new folder gets the sequences.
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
