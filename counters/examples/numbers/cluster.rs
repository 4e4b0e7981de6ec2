//! The application of `shop.rs` in a MongoDB cluster, to which `cairn migrate` has moved the folder that the example
//! `numbers` left, with its counters. Nothing of the engine is linked:
//! `cargo run --release -p cairndb-counters --example numbers_in_a_cluster --no-default-features --features mongodb -- URI`

mod shop;

use std::error::Error;

use cairndb_counters::cluster as store;

fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args()
        .nth(1)
        .ok_or("the URI of a cluster is missing: it is the argument of this example")?;
    shop::sell(&store::Client::with_uri_str(&uri)?.database("shop"))
}
