//! The application. Nothing of it knows where the numbers come from: `store` is what the program names so.

use std::error::Error;
use std::io::Write;

use bson::{Document, doc};
use cairndb_counters::{Numbered, Numbers};

use super::store;

/// Sells two orders, and prints a line for each.
pub(crate) fn sell(shop: &store::Database) -> Result<(), Box<dyn Error>> {
    let orders = shop.collection::<Document>("orders");
    for total in [20, 30] {
        let inserted = orders.insert_one_numbered(doc! { "total": total })?;
        let number = inserted.generated.get("number").copied().unwrap_or_default();
        let ticket = shop.next_value("tickets")?;
        writeln!(std::io::stdout().lock(), "order {number}, ticket {ticket}")?;
    }
    Ok(())
}
