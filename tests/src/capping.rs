//! The collections of the crash suite that are capped: one that a writer fills with ascending numbers, and one that is made,
//! converted and dropped again and again.

use cairndb::bson::{Document, doc};
use cairndb::{Client, Collection, Error, IndexModel};

/// The collection of numbers, as a tag of the journal.
pub const NUMBERED: u64 = 0;
/// The collection that is converted, as a tag of the journal.
pub const CONVERTED: u64 = 1;
/// The number of numbers that are kept.
pub const KEPT: u64 = 150;
/// The documents of the collection that is converted.
const CONVERTED_DOCUMENTS: i64 = 400;
/// The size to which it is converted: not all of them have room.
const CONVERTED_SIZE: u64 = 32_000;

fn collection(client: &Client, name: &str) -> Collection<Document> {
    client.database("crash").collection(name)
}

/// Makes the collection of numbers, unless it is there.
pub fn prepare(client: &Client) -> Result<(), Error> {
    let database = client.database("crash");
    database.create_collection("numbers").capped(true).size(1 << 20).max(KEPT).run()?;
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    collection(client, "numbers").create_index(index).run().map(drop)
}

/// Stores the numbers from `first` to `last`, all or none.
pub fn store(client: &Client, first: u64, last: u64) -> Result<(), Error> {
    // `_id`s in an order that is not that of the inserts.
    let document = |n: u64| doc! { "_id": (n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff).cast_signed(), "n": n.cast_signed() };
    collection(client, "numbers").insert_many((first..=last).map(document)).run().map(drop)
}

/// The last number that is stored, or 0. Says what is wrong with the others: they are those before it, in their order.
pub fn last(client: &Client) -> Result<u64, String> {
    let mut numbers = Vec::new();
    for document in collection(client, "numbers").find(doc! {}).run().map_err(|error| error.to_string())? {
        let document = document.map_err(|error| error.to_string())?;
        numbers.push(document.get_i64("n").map_err(|error| format!("{document}: {error}"))?.cast_unsigned());
    }
    let last = numbers.last().copied().unwrap_or(0);
    let expected: Vec<u64> = (1..=last).rev().take(usize::try_from(KEPT).unwrap_or(0)).collect();
    if numbers.iter().rev().eq(&expected) {
        Ok(last)
    } else {
        Err(format!("the numbers up to {last} are stored as {numbers:?}"))
    }
}

/// Makes a collection, converts it and drops it.
pub fn convert(client: &Client) -> Result<(), Error> {
    let converted = collection(client, "converted");
    converted.drop().run()?;
    let index = IndexModel::builder().keys(doc! { "n": 1 }).build();
    converted.create_index(index).run()?;
    let text = "x".repeat(100);
    converted.insert_many((0..CONVERTED_DOCUMENTS).map(|n| doc! { "_id": n, "n": n, "t": &text })).run()?;
    converted.convert_to_capped(CONVERTED_SIZE).run()
}

/// Whether the collection that is converted is as it was before or as it is after it. Says what is wrong with a mixture.
pub fn check_converted(client: &Client) -> Result<(), String> {
    let text = |error: Error| error.to_string();
    let database = client.database("crash");
    let stats = match database.run_command(doc! { "collStats": "converted" }).run() {
        Ok(stats) => stats,
        Err(error) if error.code() == Some(26) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let is_capped = stats.get_bool("capped").unwrap_or(false);
    let converted = collection(client, "converted");
    let count = converted.count_documents(doc! {}).run().map_err(text)?;
    let indexes = converted.list_index_names().run().map_err(text)?.len();
    let first = converted.find_one(doc! {}).run().map_err(text)?;
    let first = first.map(|first| first.get_i64("_id").unwrap_or(-1));
    let all = CONVERTED_DOCUMENTS.cast_unsigned();
    let is_right = if is_capped {
        indexes == 1 && count < all && first == Some((all - count).cast_signed())
    } else {
        indexes <= 2 && (count == all || count == 0)
    };
    if is_right {
        Ok(())
    } else {
        Err(format!("capped: {is_capped}, {count} documents from {first:?} on, {indexes} indexes"))
    }
}
