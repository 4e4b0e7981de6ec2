//! Fields that number themselves: four threads, two contracts.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use cairndb::bson::{Document, doc};
use cairndb::{AutoIncrement, Client, Collection, Contract, Result};

use crate::outcome::Outcome;
use crate::screen::{Screen, grouped, line, rate};

/// The database of all that is not the reader's own documents.
pub(crate) const DATABASE: &str = "shop";
const THREADS: i64 = 4;
const INVOICES: i64 = 500;
const ORDERS: i64 = 2_500;

/// Fills a collection with gapless numbers and one with fast ones, and counts what is missing or twice.
pub(crate) fn show(screen: &mut Screen, client: &Client) -> Outcome<()> {
    screen.step("Numbers for four threads that insert at the same time")?;
    fill(client, ("invoices", Contract::Gapless, INVOICES))?;
    fill(client, ("orders", Contract::Fast, ORDERS))
}

/// Creates a collection whose field `number` numbers itself.
pub(crate) fn numbered(client: &Client, name: &str, contract: Contract) -> Result<Collection<Document>> {
    let db = client.database(DATABASE);
    let number = AutoIncrement::builder().field("number").contract(contract).build();
    db.create_collection(name).auto_increment(number).run()?;
    Ok(db.collection(name))
}

fn fill(client: &Client, plan: (&str, Contract, i64)) -> Outcome<()> {
    let (name, contract, each) = plan;
    let collection = numbered(client, name, contract)?;
    let started = Instant::now();
    thread::scope(|scope| {
        let insert = |thread| {
            let collection = collection.clone();
            move || {
                (0..each).try_for_each(|_| collection.insert_one(doc! { "thread": thread }).run().map(drop))
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(insert(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let elapsed = started.elapsed();
    let inserted = THREADS * each;
    let (found, numbers) = numbers(&collection)?;
    let twice = found - i64::try_from(numbers.len())?;
    let last = numbers.last().copied().unwrap_or_default();
    let missing = last - i64::try_from(numbers.len())?;
    let is_kept = found == inserted && twice == 0 && (missing == 0 || contract != Contract::Gapless);
    if !is_kept {
        return Err(format!(
            "{name}: of {inserted} inserted, {found} found, {twice} twice, {missing} missing"
        )
        .into());
    }
    let (count, last) = (grouped(inserted.unsigned_abs()), grouped(last.unsigned_abs()));
    line(&format!(
        "{name:8} {:8} {count} numbers, 1 to {last}: none twice, {missing} missing; {}",
        format!("{contract:?}").to_lowercase(),
        rate(inserted.unsigned_abs(), elapsed)
    ))
}

/// How many documents there are, and their numbers.
pub(crate) fn numbers(collection: &Collection<Document>) -> Outcome<(i64, BTreeSet<i64>)> {
    let mut found = 0;
    let mut numbers = BTreeSet::new();
    for document in collection.find(doc! {}).run()? {
        numbers.insert(document?.get_i64("number").map_err(|error| format!("a number: {error}"))?);
        found += 1;
    }
    Ok((found, numbers))
}
